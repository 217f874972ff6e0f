"""Grades as a table for a person, and as CSV, JSON and JUnit XML for programs."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import asdict
from xml.etree import ElementTree

from .. import words
from ..judge.grade import Grades, Row
from ..judge.mistakes import explained
from ..judge.tasks import load
from .progress_text import paragraph
from .screen import Screen
from .tables import columns

COLUMNS = ("student", "task", "file", "status", "mistakes", "match", "failed", "total", "seconds", "message")
MOST_COMMON = 5
MOST_FILES = 8
BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
CONTROLS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def grade_text(grades: Grades, screen: Screen) -> str:
    """One line for each row, then what they come to."""
    said = [words.say(f"grade.table.{name}", grades.lang) for name in ("student", "task", "status", "what")]
    rows = [
        [row.student, row.task, words.say(f"grade.status.{row.status}", grades.lang), _what(row, grades.lang)]
        for row in grades.rows
    ]
    return "\n\n".join([columns(rows, said, "llll", screen), summary(grades, screen)])


def _what(row: Row, lang: str) -> str:
    """The names of the mistakes, or the line that says what happened."""
    if row.status in ("pass", "missing"):
        return ""
    if row.mistakes:
        return " + ".join(words.say("grade.no_match", lang) if m == "no_match" else m for m in row.mistakes)
    return row.message.split("\n")[0]


def summary(grades: Grades, screen: Screen) -> str:
    """The counts, what was not judged, and which mistakes are most common in the class."""
    lang, students = grades.lang, len({row.student for row in grades.rows})
    facts = {"students": students, "total": len(grades.rows), **grades.counts}
    parts = [words.say("grade.counts", lang, **facts)]
    if grades.interrupted:
        parts.insert(0, words.say("grade.interrupted", lang, done=len(grades.rows)))
    if grades.left_out:
        files = ", ".join(grades.left_out[:MOST_FILES])
        if (more := len(grades.left_out) - MOST_FILES) > 0:
            files = words.say("grade.and_more", lang, files=files, n=more)
        parts.append(words.say("grade.left_out", lang, files=files))
    common = [_mistake(mistake, rows, grades) for mistake, rows in grades.common[:MOST_COMMON]]
    first = "\n".join(paragraph(part, screen) for part in parts)
    head = paragraph(words.say("grade.common" if common else "grade.no_common", lang), screen)
    return "\n\n".join([first, "\n".join([head, *(paragraph(text, screen, 2) for text in common)])])


def _mistake(mistake: str, rows: list[Row], grades: Grades) -> str:
    tasks = dict.fromkeys(row.task for row in rows)
    handed_in = sum(row.task in tasks and row.status != "missing" for row in grades.rows)
    means = explained(load(rows[0].task), mistake).means[grades.lang]
    comma = ", " if grades.lang == "en" else "、"
    facts = {"mistake": mistake, "n": len(rows), "total": handed_in, "tasks": comma.join(tasks), "means": means}
    return words.say("grade.mistake", grades.lang, **facts)


def grade_csv(grades: Grades) -> str:
    """One line a row. With a mark in front where there is more than ASCII, without which Excel reads it wrongly.

    What students wrote is never a formula: such a cell begins with an apostrophe.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in grades.rows:
        cells = {**asdict(row), "mistakes": " ".join(row.mistakes)}
        writer.writerow([_harmless(cells[name]) for name in COLUMNS])
    text = out.getvalue()
    return text if text.isascii() else BYTE_ORDER_MARK + text


def _harmless(cell: str | float) -> str | float:
    if not isinstance(cell, str):
        return cell
    return _plain("'" + cell if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell)


def grade_json(grades: Grades) -> str:
    """Rows, counts, and the mistakes with how many rows made them."""
    return json.dumps(
        {
            "rows": [{name: asdict(row)[name] for name in COLUMNS} for row in grades.rows],
            "counts": grades.counts,
            "mistakes": [
                {"mistake": mistake, "rows": len(rows), "tasks": sorted({row.task for row in rows})}
                for mistake, rows in grades.common
            ],
            "left_out": list(grades.left_out),
            "interrupted": grades.interrupted,
        },
        ensure_ascii=False,
        indent=1,
    )


def grade_junit(grades: Grades) -> str:
    """A test suite for each student, a test case for each task."""
    root = ElementTree.Element("testsuites", name="qkv grade")
    students = dict.fromkeys(row.student for row in grades.rows)
    for student in students:
        rows = [row for row in grades.rows if row.student == student]
        counts = {status: sum(row.status == status for row in rows) for status in grades.counts}
        suite = ElementTree.SubElement(
            root, "testsuite", name=_plain(student), tests=str(len(rows)), failures=str(counts["wrong"]),
            errors=str(counts["error"] + counts["timeout"]), skipped=str(counts["missing"]),
            time=f"{sum(row.seconds for row in rows):.3f}",
        )  # fmt: skip
        for row in rows:
            _case(suite, row)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _case(suite: ElementTree.Element, row: Row) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=_plain(row.student), name=row.task, time=f"{row.seconds:.3f}"
    )
    kind = {"wrong": "failure", "error": "error", "timeout": "error", "missing": "skipped"}.get(row.status)
    if kind is not None:
        what = ElementTree.SubElement(case, kind, message=_plain(row.message))
        if kind != "skipped":
            what.set("type", " ".join(row.mistakes) or row.status)


def _plain(text: str) -> str:
    """Text without the control characters, which no XML file may hold and no table wants."""
    return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
