"""Tasks on a few threads, while each of them keeps the BLAS to itself.

NumPy releases the interpreter's lock in its products and elementwise loops, so threads of Python do the work of cores,
as long as the BLAS does not start threads of its own inside each of them. How many threads a BLAS uses is a setting
of the whole process: the first caller to come sets it to one, the last to leave puts back what it found.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .precision import Array
from .settings import allowed_cores, asked_threads, settings

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Task = TypeVar("Task")


class _Blas:
    """The BLAS libraries of this process, and who holds them to one thread.

    The libraries are looked up once: looking costs 0.2 ms, setting two counts 2 microseconds.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.found: list[tuple[Any, int]] = []
        self._libraries: list[Any] | None = None

    def libraries(self) -> list[Any]:
        if self._libraries is None:
            from threadpoolctl import ThreadpoolController  # only computing needs it, not importing

            self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        return self._libraries

    def threads(self) -> int | None:
        """The setting in force, as it was before anybody held it; None if there is no BLAS to ask."""
        with self.lock:
            if self.holders:
                counts = [count for _, count in self.found]
            else:
                counts = [library.get_num_threads() for library in self.libraries()]
        return max((count for count in counts if count), default=None)

    def hold(self) -> None:
        with self.lock:
            if not self.holders:
                self.found = [(library, library.get_num_threads()) for library in self.libraries()]
                for library, _ in self.found:
                    library.set_num_threads(1)
            self.holders += 1

    def release(self) -> None:
        with self.lock:
            self.holders -= 1
            if not self.holders:
                self.restore()

    def restore(self) -> None:
        for library, count in self.found:
            if count is not None:
                library.set_num_threads(count)
        self.found = []


_blas = _Blas()
_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()
MOST_THREADS = 256


def _after_fork() -> None:
    """A child has none of its parent's threads: no pool, and nobody who would give the BLAS back."""
    global _blas, _pool, _pool_lock
    inherited = _blas
    _blas, _pool, _pool_lock = _Blas(), None, threading.Lock()
    inherited.restore()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the BLAS to one thread; the count found is restored when the last holder leaves, also after an error."""
    blas = _blas  # a fork inside the block replaces the global one
    blas.hold()
    try:
        yield
    finally:
        blas.release()


def thread_count(small: bool = False) -> int:
    """`config` or `QKV_NUM_THREADS`, then the setting of the BLAS, then the cores the process may use.

    A `small` call, done before another thread has woken up, takes one unless `config` says otherwise.
    """
    if small and settings().threads is None:
        return 1
    return min(MOST_THREADS, asked_threads() or _blas.threads() or allowed_cores())


def run(tasks: Iterator[Task], worker: Callable[[], Callable[[Task], None]], n_threads: int) -> None:
    """Do every task, on this thread and up to `n_threads - 1` others.

    Parameters
    ----------
    tasks : iterator
        Drawn one at a time, in order, by whichever thread is free.
    worker : callable () -> callable (task)
        Called once in each thread, to make what does the tasks there, with scratch arrays of its own.
    n_threads : int

    Notes
    -----
    The calling thread works too, so that callers which are themselves threads of a pool can never wait for each other.
    The first error stops the others from drawing further tasks and is raised here.
    """
    source, stop = threading.Lock(), threading.Event()

    def draw() -> list[Task]:
        with source:
            return [] if stop.is_set() else list(islice(tasks, 1))

    def work() -> None:
        try:
            do = None
            while drawn := draw():
                do = do or worker()
                do(drawn[0])
        except BaseException:
            stop.set()
            raise

    with one_blas_thread():
        helpers = [_submit(work) for _ in range(n_threads - 1)]
        try:
            work()
        finally:
            waiting = [helper for helper in helpers if helper is not None and not helper.cancel()]
            errors = [helper.exception() for helper in waiting]
    if error := next((e for e in errors if e is not None), None):
        raise error


def _submit(work: Callable[[], None]) -> Future[None] | None:
    """`work` on another thread, in this thread's context; None when the interpreter is already going down."""
    from concurrent.futures import ThreadPoolExecutor

    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="qkv")
        try:
            return _pool.submit(copy_context().run, work)
        except RuntimeError:
            return None


class _Scratch(threading.local):
    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}


_scratch = _Scratch()


def scratch(name: str, size: int, dtype: np.dtype[Any]) -> Array:
    """An array that this thread keeps from call to call, with anything in it: fresh memory costs more than its use."""
    held = _scratch.arrays.get(name)
    if held is None or held.nbytes < size * dtype.itemsize:
        held = _scratch.arrays[name] = np.empty(size * dtype.itemsize, np.uint8)
    return held[: size * dtype.itemsize].view(dtype)
