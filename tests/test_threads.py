"""Threads: the BLAS is given back, users' own threads get along, forks work, errors come through."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.tiled_cases import agree, draw
from threadpoolctl import ThreadpoolController

import qkv
from qkv import masks
from qkv.errors import ArgumentError
from qkv.ops import config, threads

BLAS = ThreadpoolController().select(user_api="blas").lib_controllers
needs_blas = pytest.mark.skipif(not BLAS, reason="no BLAS whose threads can be counted")
Q, K, V = (draw(8, 301, 16, seed=seed) for seed in (1, 2, 3))


def blas_threads() -> list[int]:
    return [library.get_num_threads() for library in BLAS]


@pytest.fixture
def two_blas_threads() -> Iterator[list[int]]:
    before = blas_threads()
    for library in BLAS:
        library.set_num_threads(2)
    yield blas_threads()
    for library, count in zip(BLAS, before):
        library.set_num_threads(count)


def attend(**rules: Any) -> np.ndarray:
    with config(force="tiled", threads=3, query_tile=64, key_tile=64):
        return qkv.attention(Q, K, V, **rules)


@needs_blas
def test_the_blas_is_held_inside_and_given_back(two_blas_threads: list[int]) -> None:
    inside = []

    def look(i: Any, j: Any) -> Any:
        inside.append(blas_threads())
        return i >= j

    attend(mask=masks.custom(look))
    assert [1] * len(BLAS) in inside
    assert blas_threads() == two_blas_threads


@needs_blas
def test_the_blas_is_given_back_after_an_error(two_blas_threads: list[int]) -> None:
    calls = []

    def breaks(i: Any, j: Any) -> Any:
        calls.append(threading.get_ident())
        if len(calls) > 3:
            raise ZeroDivisionError("in the middle")
        return i >= j

    with pytest.raises(ZeroDivisionError, match="in the middle"):
        attend(mask=masks.custom(breaks))
    assert blas_threads() == two_blas_threads
    assert np.isfinite(attend()).all()


@needs_blas
def test_nested_calls_give_the_blas_back_once(two_blas_threads: list[int]) -> None:
    inner = []

    def nested(i: Any, j: Any) -> Any:
        inner.append(attend(causal=True))
        return i >= j

    expected = attend(causal=True)
    out = attend(mask=masks.custom(nested))
    agree(out, expected.astype(np.float64), 1e-6)
    assert all(x.tobytes() == expected.tobytes() for x in inner)
    assert blas_threads() == two_blas_threads


def test_eight_threads_of_the_user_at_once() -> None:
    expected = [attend(causal=True, scale=scale) for scale in np.linspace(0.1, 2, 8)]
    before = blas_threads()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            found = list(pool.map(lambda scale: attend(causal=True, scale=scale), np.linspace(0.1, 2, 8)))
            assert [x.tobytes() for x in found] == [x.tobytes() for x in expected]
    assert blas_threads() == before


def test_every_task_is_done_once_and_by_several_threads() -> None:
    done: list[int] = []
    seen = set()
    ready = threading.Barrier(3, timeout=10)

    def worker() -> Any:
        ready.wait()  # only passes if three threads come
        seen.add(threading.get_ident())
        return done.append

    threads.run(iter(range(1000)), worker, 3)
    assert sorted(done) == list(range(1000))
    assert len(seen) == 3


def test_an_error_in_one_thread_stops_the_others() -> None:
    done = []

    def do(task: int) -> None:
        done.append(task)
        if task == 5:
            raise KeyError("task 5")

    with pytest.raises(KeyError, match="task 5"):
        threads.run(iter(range(10**9)), lambda: do, 3)
    assert len(done) < 10**6


def test_settings_hold_in_this_thread_only_and_end_with_the_block() -> None:
    elsewhere = []
    with config(threads=3):
        other = threading.Thread(target=lambda: elsewhere.append(threads.thread_count()))
        other.start()
        other.join()
        assert threads.thread_count() == 3
        with config(key_tile=64):
            assert threads.thread_count() == 3
    assert elsewhere == [threads.thread_count()]


def test_thread_count_follows_the_environment_then_the_blas(
    monkeypatch: pytest.MonkeyPatch, two_blas_threads: list[int]
) -> None:
    monkeypatch.delenv("QKV_NUM_THREADS", raising=False)
    if BLAS:
        assert threads.thread_count() == 2
        with threads.one_blas_thread():
            assert threads.thread_count() == 2  # what was in force before it was held
    monkeypatch.setenv("QKV_NUM_THREADS", "5")
    assert threads.thread_count() == 5
    with config(threads=7):
        assert threads.thread_count() == 7
    monkeypatch.setenv("QKV_NUM_THREADS", "many")
    with pytest.raises(ArgumentError, match="QKV_NUM_THREADS must be a count of at least 1, but it is 'many'"):
        threads.thread_count()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_computes() -> None:
    """The pool's threads do not exist in the child, and a BLAS held by the parent must be free there."""
    program = """
import os, sys, threading, warnings
import numpy as np, qkv
from qkv.ops import config, threads
warnings.simplefilter("ignore")  # forking with threads is what is tested
q, k, v = np.random.default_rng(0).normal(size=(3, 8, 301, 16))
def attend():
    with config(force="tiled", threads=3, query_tile=64): return qkv.attention(q, k, v, causal=True)
expected = attend()
before = threads.thread_count()
with threads.one_blas_thread():
    child = os.fork()
    if child == 0:
        same = attend().tobytes() == expected.tobytes()
        os._exit(0 if same and threads.thread_count() == before else 3)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    environment = {name: value for name, value in os.environ.items() if name != "QKV_NUM_THREADS"}
    assert subprocess.run([sys.executable, "-c", program], timeout=60, env=environment).returncode == 0
