"""Progress, hints and solutions as text."""

from __future__ import annotations

from datetime import datetime

from .. import words
from ..judge.mistakes import explained
from ..judge.progress import Progress, Tried
from ..judge.steps import parameters
from ..judge.task import Task
from .cells import safe, wrap
from .screen import Screen
from .tables import columns

MINUTE, HOUR, DAY = 60, 3600, 86400
NARROWEST_COMMENT = 30


def paragraph(text: str, screen: Screen, indent: int = 0) -> str:
    """Text in lines that fit."""
    lines = wrap(safe(text, screen), screen.width - indent, screen)
    return "\n".join((" " * indent + line).rstrip() for line in lines)


def state(tried: Tried) -> str:
    """solved, tried or new: a key of `practice.state`."""
    return "solved" if tried.solved else "tried" if tried.attempts else "new"


def order_text(tasks: list[Task], progress: Progress, order: str, lang: str, screen: Screen) -> str:
    """Every task of an order with its state, and the next one."""
    rows = [
        [str(i), task.name, words.say(f"practice.state.{state(progress.task(task.name))}", lang), task.title[lang]]
        for i, task in enumerate(tasks, 1)
    ]
    table = columns(rows, ["", *_heads(("task", "state", "title"), lang)], "r", screen)
    left = [task.name for task in tasks if not progress.task(task.name).solved]
    count = words.say("practice.order", lang, order=order, solved=len(tasks) - len(left), total=len(tasks))
    ahead = words.say("practice.next", lang, task=left[0]) if left else words.say("practice.all_solved", lang)
    return "\n\n".join([paragraph(count, screen), table, paragraph(ahead, screen)])


def progress_text(progress: Progress, tasks: list[str], questions: int, lang: str, screen: Screen) -> str:
    """What was tried, and the totals."""
    asked = progress.quiz.values()
    if not progress.tasks and not asked:
        return paragraph(words.say("practice.nothing_yet", lang), screen)
    rows = [
        [name, words.say(f"practice.state.{state(one)}", lang), str(one.attempts), duration(one.best_seconds, lang),
         day(one.last)]
        for name, one in progress.tasks.items()
    ]  # fmt: skip
    solved, attempts = set(progress.solved) & set(tasks), sum(one.attempts for one in progress.tasks.values())
    facts = {"solved": len(solved), "total": len(tasks), "attempts": attempts, "days": progress.streak()}
    parts = [words.say("practice.totals", lang, **facts)]
    if asked:
        right = sum(one.last_right for one in asked)
        parts.append(words.say("practice.quiz_totals", lang, right=right, asked=len(asked), all=questions))
    if any(one.best_seconds is not None for one in progress.tasks.values()):
        parts.append(words.say("practice.time_means", lang))
    heads = _heads(("task", "state", "attempts", "time", "last"), lang)
    table = [columns(rows, heads, "llrr", screen)] if rows else []
    return "\n\n".join([*table, "\n".join(paragraph(part, screen) for part in parts)])


def _heads(names: tuple[str, ...], lang: str) -> list[str]:
    return [words.say(f"practice.table.{name}", lang) for name in names]


def day(moment: str | None) -> str:
    return datetime.fromisoformat(moment).date().isoformat() if moment else "-"


def duration(seconds: float | None, lang: str) -> str:
    """Seconds in the unit that one would say.

    Examples
    --------
    >>> duration(42.3, "en"), duration(754, "en"), duration(9000, "zh"), duration(None, "en")
    ('42 s', '13 min', '2.5 小时', '-')
    """
    if seconds is None:
        return "-"
    unit, size = next(
        ((u, s) for u, s in (("days", DAY), ("hours", HOUR), ("minutes", MINUTE)) if seconds >= s), ("seconds", 1)
    )
    n = f"{seconds / size:.1f}".removesuffix(".0") if size >= HOUR else f"{seconds / size:.0f}"
    return words.say(f"practice.unit.{unit}", lang, n=n)


def statement_text(task: Task, lang: str, screen: Screen) -> str:
    """What a task asks for."""
    asked = words.say("practice.function", lang, signature=task.signature, returns=task.returns[lang])
    parts = [task.title[lang], *task.statement[lang].split("\n"), "", asked]
    return "\n".join(paragraph(part, screen) for part in parts)


def hint_text(task: Task, mistake: str, rung: int, lang: str, screen: Screen) -> str:
    """One hint: for a mistake, or a general one when there is no name."""
    if mistake:
        text = explained(task, mistake).hints[rung - 1][lang]
        return paragraph(words.say("practice.hint", lang, n=rung, text=text), screen)
    if rung == 1:
        code = task.formula.__code__
        steps = [name for name in code.co_varnames if name not in parameters(code)]
        text = words.say("practice.steps", lang, steps=" → ".join(steps))
        return paragraph(words.say("practice.hint", lang, n=rung, text=text), screen)
    if rung == 2:
        head, lines = "lines", [paragraph(f"- {line[lang]}", screen, 2) for line in _explanations(task)]
    else:
        code_lines = [text for line in task.solution for text in line.code.split("\n")]
        head, lines = "begin", ["  " + text for text in code_lines[: max(1, len(code_lines) // 2)]]
    said = words.say("practice.hint", lang, n=rung, text=words.say(f"practice.{head}", lang))
    return "\n".join([paragraph(said, screen), *lines])


def _explanations(task: Task) -> list[dict[str, str]]:
    """What each line of the solution does, as far as it says anything."""
    return [{"en": line.en, "zh": line.zh} for line in task.solution if line.en.strip()]


def solution_text(task: Task, lang: str, screen: Screen) -> str:
    """The solution as a program that can be run, each line explained by a comment above it."""
    lines = ["import numpy as np", "", ""]
    for part in task.solution:
        first = part.code.lstrip("\n").split("\n")[0]
        indent = " " * (len(first) - len(first.lstrip(" ")))
        room = max(NARROWEST_COMMENT, screen.width - len(indent) - 2)
        blank = part.code[: len(part.code) - len(part.code.lstrip("\n"))]
        said = {"en": part.en, "zh": part.zh}[lang].strip()
        lines += blank.split("\n")[1:]
        lines += [f"{indent}# {text}" for text in wrap(said, room, screen)] if said else []
        lines += part.code.lstrip("\n").split("\n")
    return "\n".join(lines)
