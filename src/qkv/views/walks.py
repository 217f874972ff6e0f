"""How everything of a walk is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .see_text import see_json, see_text
from .walk_html import comparison_fragment, comparison_page, walk_fragment, walk_page
from .walk_json import comparison_json, walk_json
from .walk_markdown import comparison_markdown, walk_markdown
from .walk_text import comparison_text, walk_text

VIEWS: dict[str, Callable[[Any], str]] = {
    "Walkthrough.text": walk_text,
    "Walkthrough.html": walk_page,
    "Walkthrough.fragment": walk_fragment,
    "Walkthrough.markdown": walk_markdown,
    "Walkthrough.json": walk_json,
    "Comparison.text": comparison_text,
    "Comparison.html": comparison_page,
    "Comparison.fragment": comparison_fragment,
    "Comparison.markdown": comparison_markdown,
    "Comparison.json": comparison_json,
    "Seen.text": see_text,
    "Seen.json": see_json,
}
