"""The learner's process: warm up, read one request, run one file on all probes, end.

The request comes on standard input, outcomes go to what was standard output, one JSON object a line. Where there is
fork, this process stays as the keeper: it runs the learner's code in a process of its own, ends that after its time,
and then everything that it left behind.
"""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from . import limits
from .calls import described, run_probe
from .wire import decode

LIBRARIES = ("torch", "jax")
TICK = 0.002
OWN_NAME = "learner"


def main() -> None:
    """Serve one request."""
    answers = os.dup(1)
    os.dup2(2, 1)
    np.dot(np.eye(2), np.eye(2))  # the first product starts what a product needs
    line = sys.stdin.buffer.readline()
    if not line:
        return
    request = json.loads(line)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if hasattr(os, "fork"):
        keep(request, answers)
    else:
        threading.Timer(request["timeout"], lambda: leave(answers, {"timeout": True})).start()
        run(request, answers)
        leave(answers, {"ended": 0})


def leave(answers: int, last: dict[str, Any]) -> None:
    tell(answers, last)
    os._exit(0)


def tell(answers: int, what: dict[str, Any]) -> None:
    data = json.dumps(what).encode() + b"\n"
    while data:
        data = data[os.write(answers, data) :]


def keep(request: dict[str, Any], answers: int) -> None:
    """Run the learner's code in a process of its own, and see that nothing of it stays."""
    limits.prctl(limits.SET_SUBREAPER, 1)
    deadline = time.monotonic() + request["timeout"]
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            limits.prctl(limits.SET_DEATH_SIGNAL, signal.SIGKILL)
            run(request, answers)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(0)
    last: dict[str, Any] = {"timeout": True}
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            last = {"ended": os.waitstatus_to_exitcode(status)}
            break
        time.sleep(TICK)
    with suppress(OSError):  # its group may be empty
        os.killpg(pid, signal.SIGKILL)
    limits.end_descendants()
    leave(answers, last)


def run(request: dict[str, Any], answers: int) -> None:
    """Load the file and run the probes, telling of each when it begins and how it ended."""
    path = request["file"]
    library = request["library"]
    if library:
        importlib.import_module(library)
    limits.limit(request["timeout"], library)
    limits.keep_inside(os.getcwd())
    sys.dont_write_bytecode = True
    tell(answers, {"begin": None})
    try:
        target = find(load(path), request["names"])
    except BaseException as error:
        tell(answers, {"failed": described(error)})
        return
    if isinstance(target, list):
        tell(answers, {"missing": target})
        return

    def own(code: CodeType) -> bool:
        return code.co_filename == path and code.co_name != "<module>"

    for number, calls in enumerate(request["probes"]):
        tell(answers, {"begin": number})
        outcome = run_probe(target, request["method"], decode(calls), library, own)
        tell(answers, {"probe": number, **outcome})


def library_of(path: str) -> str | None:
    """Whose arrays a file works with: that of PyTorch or JAX if it imports one."""
    try:
        tree = ast.parse(Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return next((library for library in LIBRARIES if library in names), None)


def load(path: str) -> ModuleType:
    """Run a file as a module, with its own folder to import from."""
    sys.path.insert(0, os.path.dirname(path))
    loader = importlib.machinery.SourceFileLoader(OWN_NAME, path)  # whatever the file's name ends in
    spec = importlib.util.spec_from_loader(OWN_NAME, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[OWN_NAME] = module
    loader.exec_module(module)
    return module


def find(module: ModuleType, names: list[str]) -> Any:
    """The function or class of one of these names; if there is none, the list of those there are."""
    for wanted in names:
        if callable(found := getattr(module, wanted, None)):
            return found
    own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", None) == module.__name__]
    return sorted(own)
