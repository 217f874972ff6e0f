"""The judge's side of a learner's process: start it, ask it once, believe nothing, leave nothing.

A child is for one run. One that is started early has NumPy imported by the time it is asked, so a rerun is quick.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

OUTPUT = 4 << 20  # bytes that a learner's program may print
SHOWN = 500  # characters of it that are kept
GRACE = 1.5  # seconds beyond its time in which a child must have cleaned up
TICK = 0.002
# Finds the very package that asks, whatever the folder it is started in.
START = f"import sys; sys.path.append({str(Path(__file__).parents[2])!r}); from qkv.judge.child import main; main()"
MARK = "QKV_JUDGE_RUN"
ENVIRONMENT = {"PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # probes are tiny


@dataclass
class Report:
    """What a run left: outcomes by probe as JSON, and how it ended.

    Attributes
    ----------
    outcomes : dict of int to dict
        As `run_probe` gives them.
    failed : dict or None
        The exception with which the file itself could not be loaded.
    missing : list of str or None
        The functions that there are, when the wanted one is not.
    limit : {"time", "output", "memory", "killed", "exited", "no_start"} or None
        What ended the run early.
    at : int or None
        The probe that was running then; None while the file was loaded.
    busy : bool
        Whether anything was running at the end.
    printed : str
        The end of what the program printed.
    typed : bool
        Whether results come with their dtype; they do not as JSON.
    """

    outcomes: dict[int, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, Any] | None = None
    missing: list[str] | None = None
    limit: str | None = None
    at: int | None = None
    busy: bool = True
    printed: str = ""
    typed: bool = True
    code: int | None = None  # how a process ended that never began


class Child:
    """A process that will run one file."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="qkv-", ignore_cleanup_errors=True)
        self.answers = tempfile.TemporaryFile()  # noqa: SIM115  (closed when it has been read)
        self.printed = tempfile.TemporaryFile()  # noqa: SIM115
        self.mark = secrets.token_hex(16)
        self.process = subprocess.Popen(
            [sys.executable, "-c", START], stdin=subprocess.PIPE, stdout=self.answers, stderr=self.printed,
            cwd=self.folder.name, env={**os.environ, **ENVIRONMENT, MARK: self.mark}, start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, request: dict[str, Any]) -> Report:
        """Ask, wait, end everything, read what came.

        Parameters
        ----------
        request : dict
            file, names, method, library, probes (encoded), timeout in seconds.
        """
        assert self.process.stdin is not None
        limit = None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.close()
            limit = self._wait(time.monotonic() + request["timeout"] + GRACE)
        except BrokenPipeError:
            limit = "killed"
        finally:
            self.close()
        return self._read(limit)

    def _wait(self, deadline: float) -> str | None:
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                return "time"
            if os.fstat(self.printed.fileno()).st_size > OUTPUT:
                return "output"
            time.sleep(TICK)
        return None

    def close(self) -> None:
        """End the process and everything that it started. Can be called twice."""
        if self.process.poll() is None:
            end_group(self.process)
            end_marked(self.mark)
        elif self.process.returncode != 0:  # its keeper is gone, so nobody has swept behind it
            end_marked(self.mark)
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        self.folder.cleanup()

    def _read(self, limit: str | None) -> Report:
        report = Report(limit=limit, printed=self._tail())
        began = ended = False
        self.answers.seek(0)
        for line in self.answers:
            try:
                answer = json.loads(line)
                last = _take(answer, report)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                continue  # not what a child writes: somebody else wrote to its file
            began, ended = True, ended or last
        self.answers.close()
        self.printed.close()
        if not began and report.limit in (None, "killed"):  # no Python, no NumPy, no memory: nothing of the learner's
            report.limit, report.code = "no_start", self.process.returncode
        elif report.limit is None and not ended:
            report.limit = "killed"
        return report

    def _tail(self) -> str:
        size = self.printed.seek(0, os.SEEK_END)
        self.printed.seek(max(0, size - 4 * SHOWN))
        return self.printed.read().decode("utf-8", "replace")[-SHOWN:]


def _take(answer: dict[str, Any], report: Report) -> bool:
    """Add one line of a child to the report; whether it was its last."""
    if "begin" in answer:
        report.at, report.busy = answer["begin"], True
    elif "probe" in answer:
        report.outcomes[int(answer["probe"])] = answer
        if answer.get("error", {}).get("kind") == "MemoryError":
            report.limit = report.limit or "memory"
        report.busy = report.limit is not None
    elif "failed" in answer:
        report.failed = dict(answer["failed"])
        report.busy = False
    elif "missing" in answer:
        report.missing = [str(name) for name in answer["missing"]]
        report.busy = False
    elif "timeout" in answer:
        report.limit = report.limit or "time"
        return True
    elif "ended" in answer:
        code = int(answer["ended"])
        if report.busy:  # it ended in the middle of something
            report.limit = report.limit or _reason(code)
        return True
    return False


def _reason(code: int) -> str:
    """Why a process ended in the middle of a probe."""
    if code == -getattr(signal, "SIGXCPU", 0):
        return "time"
    return "killed" if code < 0 else "exited"


def end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)
    except OSError:
        pass
    process.kill()
    process.wait()


def end_marked(mark: str) -> None:
    """Kill what still carries the mark of a run in its environment (Linux), wherever it has moved to."""
    sought = f"{MARK}={mark}".encode()
    for _ in range(5):  # what forks while it is being looked for is found the next time
        found = False
        for name in os.listdir("/proc") if os.path.isdir("/proc") else []:
            if name.isdigit() and int(name) != os.getpid():
                try:
                    with open(f"/proc/{name}/environ", "rb") as file:
                        if sought in file.read().split(b"\0"):
                            os.kill(int(name), signal.SIGKILL)
                            found = True
                except OSError:
                    continue
        if not found:
            return
        time.sleep(TICK)
