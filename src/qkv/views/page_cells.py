"""The cells of a page's tables: text made safe for HTML, numbers with all their digits behind them."""

from __future__ import annotations

import html
import math

import numpy as np
from numpy.typing import NDArray

from .. import words
from .cells import cut, label
from .screen import Screen
from .shades import Marks, number
from .tables import NumberFormat
from .values import exact, one_line

MARKS = Marks.of(Screen())
LONGEST_LABEL = 16
LONGEST_TITLE = 500
# Around a token the browser works out the direction of writing anew. In attributes these two characters do it, in text
# an element does; `one_line` and `label` spell both out wherever they come from a user.
ISOLATE, POP = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"


def escaped(text: str) -> str:
    """Any text as the content of an element or of a quoted attribute.

    Examples
    --------
    >>> escaped('</style><script>"')
    '&lt;/style&gt;&lt;script&gt;&quot;'
    """
    return html.escape(text, quote=True)


def element(name: str, content: str, /, **attributes: str) -> str:
    """An element around content that is HTML already; attributes are text, and left out when empty.

    Examples
    --------
    >>> element("td", "0.5", class_="", data_value="0.5")
    '<td data-value="0.5">0.5</td>'
    """
    pairs = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value)
    written = "".join(f' {key}="{escaped(value)}"' for key, value in pairs)
    return f"<{name}{written}>{content}</{name}>"


def sentence(key: str, lang: str, /, **facts: object) -> str:
    """The words of a key as HTML, texts among the facts kept apart from the direction of writing around them."""
    apart = {k: f"{ISOLATE}{one_line(v)}{POP}" if isinstance(v, str) else v for k, v in facts.items()}
    return escaped(words.say(key, lang, **apart)).replace(ISOLATE, "<bdi>").replace(POP, "</bdi>")


def short(text: str) -> str:
    """A label that cannot make a column wide: white space and controls visible, long ones cut."""
    return cut(label(text, Screen()), LONGEST_LABEL, Screen())


def header(shown: str, scope: str, number: str = "", title: str = "") -> str:
    """A row's or column's heading; a running number in front tells equal tokens apart."""
    before = f"<i>{number}</i> " if number else ""
    return element("th", f"{before}<bdi>{escaped(shown)}</bdi>", scope=scope, title=title)


def label_header(text: str, scope: str) -> str:
    """The heading of a label that may be long: cut, and whole under the pointer."""
    whole = label(text, Screen())
    return header(short(text), scope, title="" if short(text) == whole else one_line(text)[:LONGEST_TITLE])


def number_cell(value: float, shown: str, kind: str = "", title: str = "", name: str = "td", scope: str = "") -> str:
    """A cell with a number: what is shown, and in `data-value` every digit of it."""
    digits = exact(value)
    title = title or ("" if shown == digits else digits)
    return element(name, escaped(shown), scope=scope, class_=kind, data_value=digits, title=title)


def number_format(values: NDArray[np.float64], digits: int) -> NumberFormat:
    """How the numbers of one matrix are written, whatever else is in it."""
    return NumberFormat.of(values[np.isfinite(values)], digits)


def number_text(value: float, visible: bool, written: NumberFormat) -> str:
    """`·` masked, `0` a true zero, `~0` what only rounds to it; a masked score shows that it is -inf."""
    if math.isnan(value) and visible:
        return "NaN"
    return number(value, visible or value == -math.inf, written, MARKS)


def kind_of(value: float, visible: bool) -> str:
    """The class of a cell that is no ordinary number: `masked`, `nan` or none."""
    return "masked" if not visible else "nan" if math.isnan(value) else ""


def signs(values: NDArray[np.float64], visible: NDArray[np.bool_], texts: set[str], lang: str) -> list[str]:
    """The legend of the signs that occur, as HTML."""
    found = []
    if not visible.all():
        found.append(("masked", "-inf" if "-inf" in texts else MARKS.masked, "heat.masked"))
    if np.isnan(values[visible]).any():
        found.append(("nan", "NaN", "heat.nan"))
    if "~0" in texts:
        found.append(("near", "~0", "heat.near_zero"))
    return [element("span", text, class_=kind) + f" {escaped(words.say(key, lang))}" for kind, text, key in found]
