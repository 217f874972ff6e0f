"""From data to what a person sees: terminal text, pages, Markdown, JSON. Nothing is computed here.

A verdict is drawn without the walk through a sentence, which is imported when one is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..judge import VIEWS as VERDICTS
from .verdict_html import verdict_html
from .verdict_text import verdict_text

if TYPE_CHECKING:
    from ..judge import check
    from ..walkthrough import compare, explain, heads_of, lens_of, patch_effects, see

VERDICTS.update({"Verdict.text": verdict_text, "Verdict.html": verdict_html})

__all__ = ["check", "compare", "explain", "heads_of", "lens_of", "patch_effects", "see"]


def __getattr__(name: str) -> Any:
    if name == "check":
        from ..judge import check

        return check
    if name in __all__:
        from .. import walkthrough
        from .walks import VIEWS

        walkthrough.VIEWS.update(VIEWS)
        return getattr(walkthrough, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
