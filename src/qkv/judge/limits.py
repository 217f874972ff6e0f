"""What a learner's process may use, and how its descendants are found. Runs inside that process.

This guards a judge against accidents and pranks. It is no sandbox: code that calls the system directly (ctypes, an
extension) can read every file its user can read, write where its user can write, and reach the network.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Any

MEMORY = 2 << 30  # bytes beyond what the interpreter itself maps
LIBRARY_MEMORY = 16 << 30  # with PyTorch or JAX, which map much and use little
FILE_SIZE = 8 << 20
PROCESSES = 256
SET_SUBREAPER, SET_DEATH_SIGNAL = 36, 1


def limit(seconds: float, library: str | None) -> None:
    """Lower the limits of this process for good; where the system has none of a kind, it stays without."""
    try:
        import resource
    except ImportError:  # Windows
        return

    def lower(which: str, value: int) -> None:
        number = getattr(resource, which, None)
        if number is None:
            return
        _, hard = resource.getrlimit(number)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(number, (value, value))
        except (OSError, ValueError):  # macOS refuses some
            return

    lower("RLIMIT_CORE", 0)
    lower("RLIMIT_CPU", int(seconds) + 2)
    lower("RLIMIT_FSIZE", FILE_SIZE)
    if sys.platform == "linux":
        with open("/proc/self/statm") as file:
            mapped = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        lower("RLIMIT_AS", mapped + (LIBRARY_MEMORY if library else MEMORY))
        lower("RLIMIT_NPROC", len(os.listdir("/proc")) + PROCESSES)


def prctl(option: int, value: int) -> None:
    """Linux alone; elsewhere nothing happens."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
        except (OSError, AttributeError):
            return


def children(parent: int) -> list[int]:
    """The processes whose parent this is (Linux)."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(name))
    return found


def end_descendants() -> None:
    """Kill and reap every descendant of this process, which orphans come back to."""
    while left := children(os.getpid()):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        for pid in left:
            try:
                os.waitpid(pid, 0)
            except OSError:
                continue


WRITES = {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink", "os.chmod",
          "shutil.rmtree", "shutil.move", "shutil.copyfile"}  # fmt: skip


def keep_inside(folder: str) -> None:
    """Let Python code open files for writing, and rename or remove them, in a folder only."""
    root = os.path.realpath(folder) + os.sep

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        paths: list[Any]
        if event == "open":
            path, _, flags = arguments
            writing = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if not writing or isinstance(path, int) or path in ("/dev/null", os.devnull):
                return
            paths = [path]
        elif event in WRITES:
            paths = [a for a in arguments if isinstance(a, str | bytes)]
        else:
            return
        for path in paths:
            if path is not None and not os.path.realpath(os.fsdecode(path)).startswith(root):
                raise PermissionError(f"while it is judged, code may write in its temporary folder only: {path!r}")

    sys.addaudithook(hook)
