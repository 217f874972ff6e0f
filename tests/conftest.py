"""No test touches the progress that the person who runs it has made, and workers beside each other share the cores."""

from __future__ import annotations

import os

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="session", autouse=True)
def _progress_of_its_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QKV_DATA", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread_in_a_worker():
    """Threads of a BLAS that wait for a core beside other tests make small products many times slower."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    with pytest.MonkeyPatch.context() as patch, threadpool_limits(1, user_api="blas"):
        patch.setenv("OPENBLAS_NUM_THREADS", "1")  # of child processes
        yield
