"""Put the table of the judge's tasks where a page asks for it: each row is read off the task's own file."""

from typing import Any

from qkv.judge.orders import order
from qkv.judge.task import Task
from qkv.judge.tasks import load

HEADS = {
    "en": ("", "Task", "Write", "It gives back", "Probes", "Mistakes it knows"),
    "zh": ("", "任务", "要写的", "返回什么", "探针", "认得的错误"),
}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    lang = "zh" if page.file.src_uri.endswith(".zh.md") else "en"
    return markdown.replace("<!-- tasks -->", table(lang))


def table(lang: str) -> str:
    """Every task as a row of a Markdown table, in the order of the course."""
    rows = [HEADS[lang], ("---",) * len(HEADS[lang])]
    rows += [row(number, load(name), lang) for number, name in enumerate(order("course"), 1)]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in one)} |" for one in rows)


def row(number: int, task: Task, lang: str) -> tuple[str, ...]:
    """A task in a line, its mistakes folded away; probes that only make a note are not counted."""
    ids = dict.fromkeys(one.id for one in task.mistakes)
    mistakes = f"<details><summary>{len(ids)}</summary>{', '.join(f'`{mistake}`' for mistake in ids)}</details>"
    n_probes = sum(not probe.note for probe in task.probes)
    name = f"`{task.name}`<br>{task.title[lang]}"
    return str(number), name, f"`{task.signature}`", task.returns[lang], str(n_probes), mistakes
