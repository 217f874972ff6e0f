"""What a run was made on, and what its own matrix product reaches: the yardstick of every other number."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from .measure import interleaved
from .peers import installed

SIDE = 2048
SAME_NAME = ("numpy", "torch", "onnxruntime", "transformers")
PACKAGES = {name: name for name in SAME_NAME} | {"llama_cpp": "llama-cpp-python"}


def description(n_threads: int) -> dict[str, Any]:
    """Machine, versions, BLAS."""
    blas = [f"{lib['internal_api']} {lib['version']} ({lib.get('architecture', '?')})" for lib in threadpool_info()
            if lib["user_api"] == "blas"]  # fmt: skip
    return {
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": n_threads,
        "python": platform.python_version(),
        **{
            package: importlib.metadata.version(package) if installed(module) else "not installed"
            for module, package in PACKAGES.items()
        },
        "BLAS": ", ".join(sorted(set(blas))) or "unknown",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def sgemm(n_threads: int) -> float:
    """GFLOP/s of a float32 product of two square matrices."""
    a, b = np.random.default_rng(0).standard_normal((2, SIDE, SIDE), dtype=np.float32)
    out = np.empty_like(a)
    with threadpool_limits(n_threads):
        seconds = interleaved({"sgemm": lambda: np.matmul(a, b, out=out)})["sgemm"].median
    return 2 * SIDE**3 / seconds / 1e9
