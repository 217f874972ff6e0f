"""The judge: tasks, probes, known mistakes, verdicts. Returns data, prints nothing.

Nothing is imported before it is asked for: the learner's process starts from here, and it must be quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checking import check
    from .verdict import VIEWS, Verdict

_LATER = {"check": ".checking", "VIEWS": ".verdict", "Verdict": ".verdict"}

__all__ = ["VIEWS", "Verdict", "check"]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name], __name__), name)
