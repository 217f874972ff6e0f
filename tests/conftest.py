"""No test touches the progress that the person who runs it has made."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _progress_of_its_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QKV_DATA", str(tmp_path_factory.mktemp("data")))
        yield
