"""A walk, or a comparison, as HTML: a page that needs nothing but itself, or a fragment for a notebook.

No script and no request: style and colours are in the page, and its policy forbids all else. What a user wrote is
escaped everywhere. How much of a large walk is shown is said in `qkv.views.sizes`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from itertools import groupby

from .. import words
from ..walkthrough import Comparison, Heat, Line, Matrix, Part, Shapes, Step, Table, Walkthrough
from .cells import cut
from .page_cells import element, escaped, sentence
from .page_maps import colour_rules, heat_html
from .page_tables import matrix_html, shapes_html, table_html
from .screen import Screen
from .sizes import map_side
from .values import one_line

LANGUAGE_TAGS = {"zh": "zh-CN", "en": "en"}
LONGEST_TITLE = 60


def walk_page(walk: Walkthrough) -> str:
    """A whole page: list of steps, every step with its details, and the code that gives the same numbers.

    Parameters
    ----------
    walk : Walkthrough

    Returns
    -------
    str
        HTML, to be written as UTF-8.
    """
    links = "".join(
        element("li", element("a", escaped(words.say(f"step.{step.name}", walk.lang)), href=f"#{step.name}"))
        for step in walk.steps
    )
    steps = element("nav", element("ol", links), id="steps", aria_label=words.say("page.steps", walk.lang))
    head = _title("h1", "walk.title", walk.lang, text=walk.setup.text) + _subtitle(walk)
    title = words.say("walk.title", walk.lang, text=_cut(walk.setup.text))
    return page_of(title, head + steps + _body(walk) + _about_digits(walk.lang), walk.lang)


def walk_fragment(walk: Walkthrough) -> str:
    """The same for a notebook's cell: no ids and no links, text in the notebook's own colours."""
    head = _title("h3", "walk.title", walk.lang, text=walk.setup.text) + _subtitle(walk)
    return fragment_of(head + _body(walk, 4), walk.lang)


def comparison_page(comparison: Comparison) -> str:
    """Two sentences through the same layer, as a whole page."""
    a, b = comparison.a.setup.text, comparison.b.setup.text
    title = words.say("compare.title", comparison.lang, a=_cut(a), b=_cut(b))
    return page_of(title, _comparison(comparison, "h1") + _about_digits(comparison.lang), comparison.lang)


def comparison_fragment(comparison: Comparison) -> str:
    """Two sentences through the same layer, for a notebook's cell."""
    return fragment_of(_comparison(comparison, "h3"), comparison.lang)


def page_of(title: str, body: str, lang: str) -> str:
    """A whole page around its body."""
    style = _style(body)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return "\n".join([
        "<!doctype html>",
        f'<html lang="{LANGUAGE_TAGS[lang]}">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        element("title", escaped(title)),
        f"<style>{style}</style></head>",
        f'<body class="qkv-page"><main class="qkv">{body}</main></body>',
        "</html>",
        "",
    ])  # fmt: skip


def fragment_of(body: str, lang: str) -> str:
    """A part of a notebook's page around its body."""
    return element("div", f"<style>{_style(body)}</style>{body}", class_="qkv", lang=LANGUAGE_TAGS[lang])


@cache
def _sheet() -> str:
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def _style(body: str) -> str:
    return f"{_sheet()}{colour_rules(body)}\n"


def _about_digits(lang: str) -> str:
    return element("p", escaped(words.say("page.digits", lang)), class_="note digits")


def _cut(text: str) -> str:
    return cut(one_line(text), LONGEST_TITLE, Screen())


def _title(level: str, key: str, lang: str, **texts: str) -> str:
    """The title; sentences too long for it are given whole below."""
    title = element(level, sentence(key, lang, **{name: _cut(text) for name, text in texts.items()}))
    long = [one_line(text) for text in texts.values() if _cut(text) != one_line(text)]
    whole = "".join(element("p", escaped(text), dir="auto") for text in long)
    summary = element("summary", escaped(words.say("page.sentence", lang)))
    return title + (element("details", summary + whole) if long else "")


def _subtitle(walk: Walkthrough) -> str:
    facts = {**vars(walk.setup), "n": len(walk.tokens)}
    return element("p", sentence("walk.subtitle", walk.lang, **facts), class_="subtitle")


def _body(walk: Walkthrough, level: int = 2) -> str:
    side = map_side(part for step in walk.steps for part in (*step.parts, *step.details))
    steps = [step_html(step, number, walk.lang, side, level) for number, step in enumerate(walk.steps, 1)]
    return "".join([*steps, _code(walk, level)])


def step_html(step: Step, number: int, lang: str, side: int, level: int) -> str:
    """One step; on a page (level 2) it can be linked to."""
    title = element("span", f"{number}", class_="number") + f" {escaped(words.say(f'step.{step.name}', lang))}"
    up = element("a", "↑", class_="up", href="#steps", aria_label=words.say("page.to_top", lang))
    head = (up if level == 2 else "") + element(f"h{level}", title)
    formula = element("p", element("code", escaped(step.formula)), class_="formula")
    more = ""
    if step.details:
        summary = element("summary", escaped(words.say("page.details", lang)))
        more = element("details", summary + parts_html(step.details, lang, side))
    anchor = step.name if level == 2 else ""
    return element("section", head + formula + parts_html(step.parts, lang, side) + more, id=anchor)


def _code(walk: Walkthrough, level: int) -> str:
    title = element(f"h{level}", escaped(words.say("page.code", walk.lang)))
    about = element("p", escaped(words.say("page.code_about", walk.lang)))
    return element("section", title + about + element("pre", element("code", escaped(walk.code())), tabindex="0"))


def _comparison(comparison: Comparison, level: str) -> str:
    a, b = comparison.a.setup.text, comparison.b.setup.text
    parts = parts_html(comparison.parts, comparison.lang, map_side(comparison.parts))
    return _title(level, "compare.title", comparison.lang, a=a, b=b) + element("section", parts)


def parts_html(parts: Iterable[Part], lang: str, side: int) -> str:
    """The parts in order; maps that follow one another stand side by side where there is room."""
    found = []
    for maps, group in groupby(parts, lambda part: isinstance(part, Heat)):
        html = "".join(_part(part, lang, side) for part in group)
        found.append(element("div", html, class_="maps") if maps else html)
    return "".join(found)


def _part(part: Part, lang: str, side: int) -> str:
    match part:
        case Line():
            return element("p", sentence(part.key, lang, **part.facts))
        case Shapes():
            return shapes_html(part, lang)
        case Table():
            return table_html(part, lang)
        case Heat():
            return heat_html(part, lang, side)
        case Matrix():
            return matrix_html(part, lang)
