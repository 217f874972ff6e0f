"""How everything of a walk is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .heads_text import heads_json, heads_text
from .lens_text import reading_json, reading_text
from .patch_text import patching_json, patching_text
from .see_both_text import see_both_json, see_both_text
from .see_html import see_fragment, see_page
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
    "Seen.html": see_page,
    "Seen.fragment": see_fragment,
    "SeenBoth.text": see_both_text,
    "SeenBoth.json": see_both_json,
    "SeenBoth.html": see_page,
    "SeenBoth.fragment": see_fragment,
    "Heads.text": heads_text,
    "Heads.json": heads_json,
    "Reading.text": reading_text,
    "Reading.json": reading_json,
    "Patching.text": patching_text,
    "Patching.json": patching_json,
}
