"""From data to what a person sees: terminal text, pages, Markdown, JSON. Nothing is computed here."""

from ..walkthrough import VIEWS, compare, explain, see
from .see_text import see_json, see_text
from .walk_json import comparison_json, walk_json
from .walk_text import comparison_text, walk_text

VIEWS.update({
    "Walkthrough.text": walk_text,
    "Walkthrough.json": walk_json,
    "Comparison.text": comparison_text,
    "Comparison.json": comparison_json,
    "Seen.text": see_text,
    "Seen.json": see_json,
})  # fmt: skip

__all__ = ["compare", "explain", "see"]
