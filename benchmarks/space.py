"""The measurements of memory and of what an installation weighs, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from .measure import summary
from .peers import installed

Row = dict[str, Any]
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384, 32768)
NAIVE_UP_TO = 8192

# Resident memory before the call and its peak during it, in kB. Linux alone can set the peak back.
PROGRAM = """
import sys, time, numpy as np
from pathlib import Path
from benchmarks import peers

def resident(name):
    return next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))

contender, n, n_threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
peers.use_threads(n_threads)
def arranged(n):
    q, k, v = [np.random.default_rng(0).standard_normal((1, 8, n, 64), dtype=np.float32) for _ in range(3)]
    return peers.forward(q, k, v, n_threads, causal=True, limit_naive=n if contender == "naive NumPy" else 0)[contender]
arranged(600)()
run = arranged(n)
Path("/proc/self/clear_refs").write_text("5")
before, start = resident("VmRSS"), time.perf_counter()
out = run()
print(before, resident("VmHWM"), time.perf_counter() - start)
"""


def memory(n_threads: int, quick: bool = False) -> list[Row]:
    """Peak memory of causal attention over n, beside its inputs and its output."""
    table = []
    for n in LENGTHS[:3] if quick else LENGTHS:
        for contender in ("qkv", "torch", "onnxruntime", "naive NumPy"):
            needs = contender if contender in ("torch", "onnxruntime") else "numpy"
            if not installed(needs) or (contender in ("naive NumPy", "onnxruntime") and n > NAIVE_UP_TO):
                continue
            before, after, seconds = alone(PROGRAM, contender, str(n), str(n_threads))
            beside = (after - before) * 1024 - 8 * n * 64 * 4
            table.append(
                {"case": "causal", "n": n, "contender": contender, "MB beside in- and output": max(0, beside) / 1e6,
                 "ms": seconds * 1e3}
            )  # fmt: skip
    return table


def alone(program: str, *arguments: str) -> list[float]:
    command = [sys.executable, "-c", program, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(number) for number in run.stdout.split()]


def imports(n_threads: int, quick: bool = False) -> list[Row]:
    """How long `import` takes in a fresh process, and how large the installed package is."""
    program = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    samples: dict[str, list[float]] = {name: [] for name in ("numpy", "qkv", "torch") if installed(name)}
    for _ in range(5):
        for name, times in samples.items():
            times += alone(program.format(name))
    return [
        {"case": f"import {name}", "ms": summary(times).median * 1e3, "spread": summary(times).spread,
         "package, MB": _size(name) / 1e6}
        for name, times in samples.items()
    ]  # fmt: skip


def _size(name: str) -> int:
    module = __import__(name)
    folder = Path(str(module.__file__)).parent
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
