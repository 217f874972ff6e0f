"""Write tests/data/verify/<model>.safetensors: reference traces, by the very script that `qkv verify --script` writes.

Needs torch and transformers: `python scripts/make_verify_goldens.py`. Run by hand; the files are in git.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "src" / "qkv" / "trace" / "save_trace.py.txt"
DATA = ROOT / "tests" / "data"
MODELS = {"llama": DATA / "tiny" / "llama", "gpt2": DATA / "tiny" / "gpt2", "bert": DATA / "tiny_bert"}
IDS = "3,1,4,1,5,9,2"

if __name__ == "__main__":
    for name, directory in MODELS.items():
        out = DATA / "verify" / f"{name}.safetensors"
        program = [sys.executable, str(SCRIPT), str(directory), "--ids", IDS, "--out", str(out)]
        subprocess.run(program, check=True)
