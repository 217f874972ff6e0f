"""A run as Markdown tables, as JSON, and as a drawing over the length: seconds and peak memory, both logarithmic."""

from __future__ import annotations

import json
import math
from html import escape
from typing import Any

Row = dict[str, Any]
WIDTH, HEIGHT, MARGIN = 380, 300, 54
COLORS = {"qkv": "#0b6e4f", "torch": "#c8553d", "onnxruntime": "#3d5a98", "naive NumPy": "#888888"}
DIGITS = {"ms": 3, "GFLOP/s": 3, "µs": 3}


def markdown(rows: list[Row]) -> str:
    """One table; a column for each fact that some row has."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(cell(name, row.get(name)) for name in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(name: str, value: Any) -> str:
    """A number in three digits; the spread in per cent."""
    if name in ("spread", "of sgemm") and value is not None:
        return f"{value:.0%}" if name == "of sgemm" else f"±{value:.0%}"
    if not isinstance(value, float):
        return "" if value is None else str(value)
    if value == 0 or math.isnan(value):
        return "0" if value == 0 else ""
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 4)}f}"


def as_json(machine: dict[str, Any], tables: dict[str, list[Row]]) -> str:
    return json.dumps({"machine": machine, **tables}, indent=1, ensure_ascii=False) + "\n"


def plot(rows: list[Row]) -> str:
    """Two panels over n."""
    panels = [("ms", "seconds", 1e-3), ("MB beside in- and output", "MB beside in- and output", 1.0)]
    drawn = [_panel(rows, column, title, unit, index * WIDTH) for index, (column, title, unit) in enumerate(panels)]
    names = [name for name in COLORS if any(row["contender"] == name for row in rows)]
    legend = [
        f'<text x="{MARGIN + 130 * place}" y="16" fill="{COLORS[name]}">&#9679; {escape(name)}</text>'
        for place, name in enumerate(names)
    ]
    size = f'width="{2 * WIDTH}" height="{HEIGHT}" viewBox="0 0 {2 * WIDTH} {HEIGHT}"'
    body = "\n".join([*legend, *drawn])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">\n{body}\n</svg>\n'


def _panel(rows: list[Row], column: str, title: str, unit: float, left: int) -> str:
    points = {
        name: [(row["n"], row[column] * unit) for row in rows if row["contender"] == name and row[column] > 0]
        for name in COLORS
    }
    across, up = ([p[axis] for line in points.values() for p in line] for axis in (0, 1))
    x_axis, y_axis = _axis(across, 2), _axis(up, 10)

    def place(x: float, y: float) -> str:
        x_px = left + MARGIN + x_axis(x) * (WIDTH - MARGIN - 16)
        return f"{x_px:.1f},{HEIGHT - 40 - y_axis(y) * (HEIGHT - 80):.1f}"

    parts = [f'<text x="{left + MARGIN}" y="34" fill="#555">{escape(title)}</text>']
    for n in sorted(set(across)):
        x_px, _ = place(n, min(up)).split(",")
        parts.append(f'<text x="{x_px}" y="{HEIGHT - 20}" text-anchor="middle" fill="#555" font-size="9">{n}</text>')
    for power in range(math.floor(math.log10(min(up))), math.ceil(math.log10(max(up))) + 1):
        ends = [place(n, 10.0**power) for n in (min(across), max(across))]
        parts.append(f'<path d="M{ends[0]} L{ends[1]}" stroke="#ddd"/>')
        x_px, y_px = ends[0].split(",")
        parts.append(f'<text x="{float(x_px) - 6}" y="{y_px}" text-anchor="end" fill="#555">{10.0**power:g}</text>')
    for name, line in points.items():
        path = " ".join(place(*point) for point in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[name]}" stroke-width="2"/>')
    return "\n".join(parts)


def _axis(values: list[float], base: int) -> Any:
    """Where a value lies between the whole powers of `base` around all values, from 0 to 1."""
    low, high = math.floor(math.log(min(values), base)), math.ceil(math.log(max(values), base))
    return lambda value: (math.log(value, base) - low) / max(1, high - low)
