"""How large a model is and what it costs, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from .. import words
from ..models.size import BITS, Size
from .cells import width, wrap
from .screen import Screen
from .sizes import span_left_out
from .tables import GAP, columns

BINARY = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
FEWEST_COLUMNS = 2
DECIMAL = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP")


def size_text(size: Size, lang: str, screen: Screen | None = None) -> str:
    """The parts of a model, then what it takes and costs, each as a person says it and exactly."""
    screen = screen or Screen()

    def sentence(key: str, **facts: object) -> str:
        return "\n".join(wrap(words.say(f"size.{key}", lang, **facts), screen.width, screen))

    facts = {"dtype": size.dtype, "batch": size.batch, "length": f"{size.length:,}"}
    blocks = [
        sentence("title", path=size.path, model_type=size.model_type),
        _parts(size, lang, screen),
        columns(_fitting(_costs(size, lang), screen), align="lrr", screen=screen),
        sentence("how" if size.cache_token is not None else "how_without_cache", **facts),
    ]
    if size.longest is not None and size.length > size.longest:
        blocks.append(sentence("longer", limit=f"{size.longest:,}", **facts))
    return "\n\n".join(blocks)


def _parts(size: Size, lang: str, screen: Screen) -> str:
    """How many numbers each part has; where there are experts, also through how many a token goes."""
    routed = size.active != size.total
    names = ("part", "numbers", "share", *(("active",) if routed else ()))
    rows = [(words.say(f"size.part.{part.name}", lang), part.total, part.active) for part in size.parts]
    rows.append((words.say("size.all", lang), size.total, size.active))
    cells = [
        [name, f"{total:,}", f"{100 * total / size.total:.1f} %", *([f"{active:,}"] if routed else [])]
        for name, total, active in rows
    ]
    heads, *kept = _fitting([[words.say(f"size.column.{name}", lang) for name in names], *cells], screen)
    table = columns(kept, heads, "lrrr", screen)
    if len(heads) == len(names):
        return table
    note = span_left_out("column", len(heads), len(names) - 1, len(names), lang)
    return "\n".join([table, *wrap(note, screen.width, screen)])


def _costs(size: Size, lang: str) -> list[list[str]]:
    found: list[tuple[str, Mapping[str, object], int | None, tuple[str, ...], int]] = [
        *(("weights", {"bits": bits}, size.nbytes(bits), BINARY, 1024) for bits in BITS),
        ("stored", {}, size.stored, BINARY, 1024),
        ("cache_token", {}, size.cache_token, BINARY, 1024),
        ("cache_length", {"length": f"{size.length:,}"}, size.cache_length, BINARY, 1024),
        ("cache_source", {"length": f"{size.n_source:,}"}, size.cache_source, BINARY, 1024),
        ("flops_each" if size.cache_token is None else "flops_token", {}, size.flops_token, DECIMAL, 1000),
        ("flops_length", {"length": f"{size.length:,}"}, size.flops_length, DECIMAL, 1000),
    ]
    return [
        [words.say(f"size.cost.{name}", lang, **facts), said(value, units, step), f"{value:,}"]
        for name, facts, value, units, step in found
        if value is not None
    ]


def _fitting(rows: list[list[str]], screen: Screen) -> list[list[str]]:
    """The rows, on a narrow screen without their last columns: never half a number. JSON has them all."""
    widths = [max(width(row[j], screen) for row in rows) for j in range(len(rows[0]))]
    kept = len(widths)
    while kept > FEWEST_COLUMNS and sum(widths[:kept]) + (kept - 1) * GAP > screen.width:
        kept -= 1
    return [row[:kept] for row in rows]


def said(value: int, units: tuple[str, ...], step: int) -> str:
    """A size in the unit that suits it, with three digits or so.

    Examples
    --------
    >>> said(524_288, BINARY, 1024), said(70_272, BINARY, 1024), said(30_393_990_144, DECIMAL, 1000)
    ('512 KiB', '68.6 KiB', '30.4 GFLOP')
    """
    power = 0
    while value >= step ** (power + 1) and power < len(units) - 1:
        power += 1
    number = value / step**power
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    text = f"{number:,.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {units[power]}"


def size_json(size: Size) -> str:
    """The same as JSON, all of it in whole numbers."""
    parts = {part.name: {"total": part.total, "active": part.active} for part in size.parts}
    return json.dumps(
        {
            "path": str(size.path), "model_type": size.model_type,
            "parameters": {"total": size.total, "active": size.active, "parts": parts},
            "bytes": {**{str(bits): size.nbytes(bits) for bits in BITS}, "stored": size.stored},
            "longest": size.longest, "length": size.length, "source": size.n_source, "batch": size.batch,
            "cache": {"dtype": size.dtype, "token": size.cache_token, "length": size.cache_length,
                      "source": size.cache_source},
            "flops": {"token": size.flops_token, "length": size.flops_length},
        },
        ensure_ascii=False,
    )  # fmt: skip
