"""A verdict in a notebook: the same text, with its first line set apart."""

from __future__ import annotations

from ..judge.verdict import Verdict
from .page_cells import escaped
from .screen import Screen
from .verdict_text import verdict_text

COLOURS = {"pass": "#1a7f37", "wrong": "#b35900", "error": "#b35900", "timeout": "#b35900"}


def verdict_html(verdict: Verdict) -> str:
    """An element that needs nothing but itself."""
    first, _, rest = verdict_text(verdict, Screen(width=100), hints=0).partition("\n")
    return (
        f'<div lang="{verdict.lang}"><p style="font-weight:bold;color:{COLOURS[verdict.status]}">{escaped(first)}</p>'
        f'<pre style="white-space:pre-wrap">{escaped(rest.strip())}</pre></div>'
    )
