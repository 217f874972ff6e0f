"""Whether a model agrees with another implementation of it, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .. import words
from ..trace.agreement import Compared, Verified
from ..trace.checks import Check
from ..walkthrough import Line, Table
from ..walkthrough.parts import word
from .screen import Screen
from .walk_text import part_text

NAMED = 8  # steps that the reference does not tell of


def verified_text(found: Verified, lang: str, screen: Screen | None = None) -> str:
    """The verdict, the first step that differs with what stands before it, and the error of each layer."""
    screen = screen or Screen()
    parts: list[Line | Table] = []
    if found.first is None:
        parts.append(Line("verify.equal", {"n": len(found.steps)}))
    else:
        parts += _difference(found, found.first)
    parts += [Line("verify.growth"), _growth(found)]
    return "\n\n".join(part_text(part, screen, lang) for part in parts)


def _difference(found: Verified, first: Compared) -> list[Line | Table]:
    facts = {"path": first.path, "ours": first.ours, "theirs": first.theirs, "index": first.index}
    if not isinstance(first.ours, float):
        lines = [Line("verify.shape", facts)]
    else:
        lines = [Line("verify.differs", {**facts, "error": first.error, "size": first.size})]
        lines.append(Line("verify.there", {**facts, "allowed": first.allowed}))
    at = found.steps.index(first)
    lines.append(Line("verify.before", {"n": at, "path": found.steps[at - 1].path}) if at else Line("verify.at_once"))
    if found.unseen:
        more = f", … (+{len(found.unseen) - NAMED})" if len(found.unseen) > NAMED else ""
        lines.append(Line("verify.unseen", {"paths": ", ".join(found.unseen[:NAMED]) + more}))
    return list(lines)


def _growth(found: Verified) -> Table:
    """Of each layer the largest error, and the step that has it."""
    rows = []
    for layer in found.growth():
        of_layer = [step for step in found.steps if step.layer == layer]
        worst = max(of_layer, key=lambda step: (step.error != step.error, step.error))
        equal = word("yes" if all(step.equal for step in of_layer) else "no")
        rows.append((layer, equal, f"{worst.error:.1e}", f"{worst.allowed:.1e}", worst.path))
    heads = (word("layer"), word("equal"), word("largest_error"), word("allowed"), word("step"))
    return Table(heads, tuple(rows), digits=(None,) * 5, whole=True)


def verified_json(found: Verified) -> str:
    """Every step that was compared, and the first that differs."""
    steps = [
        {
            "path": step.path, "equal": step.equal, "error": _number(step.error), "allowed": step.allowed,
            "size": _number(step.size), "index": step.index, "ours": _number(step.ours), "theirs": _number(step.theirs),
        }
        for step in found.steps
    ]  # fmt: skip
    first = None if found.first is None else found.first.path
    told = {"equal": found.equal, "first": first, "unseen": found.unseen, "ids": found.ids.tolist(), "steps": steps}
    return json.dumps({**told, "reference": found.about}, ensure_ascii=False)


def checks_text(checks: Sequence[Check], lang: str, screen: Screen | None = None) -> str:
    """A row for each check."""
    screen = screen or Screen()
    rows = tuple(
        (_told(check, lang), word("yes" if check.holds else "no"), f"{check.size:.1e}", check.where) for check in checks
    )
    heads = (word("check"), word("holds"), word("off_by"), word("step"))
    return part_text(Table(heads, rows, digits=(None,) * 4, whole=True), screen, lang)


def _told(check: Check, lang: str) -> str:
    return words.say(f"check_of.{check.name}", lang)


def checks_json(checks: Sequence[Check]) -> str:
    """The same as JSON."""
    told = [{**vars(check), "size": _number(check.size)} for check in checks]
    return json.dumps({"holds": all(check.holds for check in checks), "checks": told})


def _number(value: Any) -> Any:
    """What JSON has no number for, as text."""
    if isinstance(value, float) and not abs(value) < float("inf"):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value
