"""How a walk, a comparison or a look into a model becomes something to read: by whoever draws it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Filled by qkv.views: what is shown does not know how it is drawn.
VIEWS: dict[str, Callable[[Any], str]] = {}


def draw_as(kind: str, shown: object) -> str:
    """A walk or a comparison as text, HTML, Markdown or JSON."""
    return VIEWS[f"{type(shown).__name__}.{kind}"](shown)


class Shown:
    """Something that can be read as text and as JSON."""

    def __str__(self) -> str:
        return draw_as("text", self)

    def to_json(self) -> str:
        """Every number of it as JSON; numbers that are not finite as text."""
        return draw_as("json", self)


class ShownAsPage(Shown):
    """Something that can also be a page, and a part of a notebook."""

    def _repr_html_(self) -> str:
        return draw_as("fragment", self)

    def to_html(self) -> str:
        """A page that needs nothing but itself."""
        return draw_as("html", self)


class ShownOnPages(ShownAsPage):
    """Something that can also be Markdown."""

    def to_markdown(self) -> str:
        """The same as Markdown."""
        return draw_as("markdown", self)
