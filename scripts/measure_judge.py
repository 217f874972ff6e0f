"""Judge the judge: how many wrong answers it catches and names, and how many right ones it flags.

    python scripts/measure_judge.py [--lang zh]

First the bank, task by task: every known mistake in every form, and every right program in another style. Then programs
that were written by hand apart from the bank (`tests/judged_variants.py`). The numbers are the same in every run.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.judged import attempt, program
from tests.judged_variants import RANDOM, RIGHT, WRONG

from qkv.judge import check
from qkv.judge.task import Task
from qkv.judge.tasks import load, names

HEADS = {
    "en": ("task", "mistakes", "forms", "caught", "named", "styles", "flagged"),
    "zh": ("任务", "错误", "写法", "查出", "指名", "正确风格", "误判"),
}
TOTAL = {"en": "all", "zh": "合计"}
APART = {
    "en": (
        "Apart from the bank: {right} right programs, {flagged} flagged.",
        "{wrong} wrong ones: {caught} caught, {named} named as meant, {others} misnamed, {none} without a name.",
        "{random} programs that are wrong at random: {caught_random} caught, {named_random} given a name.",
    ),
    "zh": (
        "题库之外：{right} 个正确的程序，误判 {flagged} 个。",
        "{wrong} 个错误的程序：查出 {caught} 个，按本意指名 {named} 个，指成别的 {others} 个，没有指名 {none} 个。",
        "{random} 个胡乱写错的程序：查出 {caught_random} 个，被指名 {named_random} 个。",
    ),
}


def measured(task: Task) -> tuple[int, ...]:
    """Mistakes, forms, caught, named with the id alone; styles, flagged."""
    known = [(mistake.id, form) for mistake in task.mistakes for form in mistake.variations]
    verdicts = [(name, check(task.name, attempt(task, form), lang="en")) for name, form in known]
    caught = sum(not verdict.passed for _, verdict in verdicts)
    named = sum(verdict.mistakes == (name,) and verdict.match == "exact" for name, verdict in verdicts)
    flagged = sum(not judged(task.name, source).passed for source in task.styles.values())
    return len({name for name, _ in known}), len(known), caught, named, len(task.styles), flagged


def judged(task: str, source: str) -> Any:
    return check(task, program(source, load(task).entry), lang="en")


def apart() -> dict[str, int]:
    """How the programs go that are no part of the bank."""
    wrong = [(name, judged(task, source)) for task, name, source in WRONG]
    random = [judged(task, source) for task, source in RANDOM]
    kinds = Counter(kind(verdict, lambda v, name=name: v.mistakes == (name,)) for name, verdict in wrong)
    return {
        "right": len(RIGHT), "flagged": sum(not judged(task, source).passed for task, source in RIGHT),
        "wrong": len(wrong), "caught": len(wrong) - kinds["passed"], "named": kinds["as meant"],
        "others": kinds["other"], "none": kinds["none"],
        "random": len(random), "caught_random": sum(not verdict.passed for verdict in random),
        "named_random": sum(verdict.match != "none" for verdict in random),
    }  # fmt: skip


def kind(verdict: Any, as_meant: Callable[[Any], bool]) -> str:
    if verdict.passed:
        return "passed"
    if as_meant(verdict):
        return "as meant"
    return "none" if verdict.match == "none" else "other"


def main() -> None:
    lang = "zh" if "zh" in sys.argv[1:] else "en"
    rows = {name: measured(load(name)) for name in names()}
    rows[TOTAL[lang]] = tuple(map(sum, zip(*rows.values())))
    wide = max(map(len, rows))
    print(HEADS[lang][0].ljust(wide), *HEADS[lang][1:], sep="  ")
    for name, row in rows.items():
        cells = (str(n).rjust(len(head.encode("gbk"))) for n, head in zip(row, HEADS[lang][1:]))
        print(name.ljust(wide), *cells, sep="  ")
    numbers = apart()
    print("", *(line.format(**numbers) for line in APART[lang]), sep="\n")


if __name__ == "__main__":
    main()
