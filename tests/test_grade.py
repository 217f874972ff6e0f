"""A class's submissions: one row each whatever they do, in every form, and what the class gets wrong most."""

from __future__ import annotations

import csv
import io
import json
import time
from xml.etree import ElementTree

import pytest
from tests.commanded import command
from tests.judged import is_alive

from qkv.errors import FileError
from qkv.judge import grade as grading
from qkv.judge.grade import Grades, Row, grade, submissions
from qkv.judge.tasks import load
from qkv.views.cells import width
from qkv.views.grade_text import BYTE_ORDER_MARK, COLUMNS, grade_csv, grade_json, grade_junit, grade_text
from qkv.views.screen import Screen

SDPA = load("scaled_dot_product_attention").solution_text
NO_SCALE = SDPA.replace(" / np.sqrt(Q.shape[-1])", "")
SOFTMAX = load("softmax").solution_text
NO_MAX = SOFTMAX.replace(" - x.max(axis=axis, keepdims=True)", "")
FILES = {
    "ann/softmax.py": SOFTMAX,
    "ann/scaled_dot_product_attention.py": SDPA,
    "李明/softmax.py": NO_MAX,
    "李明/scaled_dot_product_attention.py": NO_SCALE,
    "bo b/softmax.py": "def softmax(x, axis=-1):\n    while True: pass\n",
    "bo b/scaled_dot_product_attention.py": NO_SCALE,
    "eve/softmax.py": "def softmax(x:\n",
    "eve/scaled_dot_product_attention.py": "import os\nos._exit(0)\n",
    "dan_Softmax.py": "raise ValueError('=x\\n\\x00\\x1b[31m<b>')\n",
    "dan_scaled-dot-product-attention.py": "def other(): pass\n",
    "notes.py": "raise SystemExit\n",
    "none/readme.txt": "nothing yet",
    "__pycache__/softmax.py": "",
    ".git/softmax.py": "",
}
EXPECTED = {
    ("ann", "softmax"): ("pass", ()),
    ("ann", "scaled_dot_product_attention"): ("pass", ()),
    ("李明", "softmax"): ("wrong", ("softmax_no_max",)),
    ("李明", "scaled_dot_product_attention"): ("wrong", ("no_scale",)),
    ("bo b", "softmax"): ("timeout", ()),
    ("bo b", "scaled_dot_product_attention"): ("wrong", ("no_scale",)),
    ("eve", "softmax"): ("error", ()),
    ("eve", "scaled_dot_product_attention"): ("error", ()),
    ("dan", "softmax"): ("error", ()),
    ("dan", "scaled_dot_product_attention"): ("error", ()),
    ("none", "softmax"): ("missing", ()),
    ("none", "scaled_dot_product_attention"): ("missing", ()),
}


def handed_in(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return handed_in(tmp_path_factory.mktemp("class"), FILES)


@pytest.fixture(scope="module")
def graded(folder):
    seen = []
    grades = grade(folder, timeout=1.0, jobs=2, lang="en", seen=lambda done, total: seen.append((done, total)))
    return grades, seen


# judging


def test_every_submission_has_its_row(graded):
    grades, _ = graded
    assert {(row.student, row.task): (row.status, row.mistakes) for row in grades.rows} == EXPECTED
    assert len(grades.rows) == len(EXPECTED)
    assert [row.student for row in grades.rows] == sorted(row.student for row in grades.rows)
    assert grades.left_out == ("notes.py",)
    assert not grades.interrupted
    assert all(row.message for row in grades.rows)


def test_how_far_it_is_is_told(graded):
    _, seen = graded
    assert seen[-1] == (len(EXPECTED), len(EXPECTED))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_several_run_at_once(tmp_path):
    folder = handed_in(tmp_path, {f"s{i}/softmax.py": "import time\ntime.sleep(0.7)\n" + SOFTMAX for i in range(3)})
    began = time.perf_counter()
    grades = grade(folder, jobs=3, lang="en")
    took = time.perf_counter() - began
    assert grades.counts["pass"] == 3
    assert took < 0.8 * sum(row.seconds for row in grades.rows)


@pytest.mark.parametrize(
    "failing", [RuntimeError("the judge itself"), MemoryError(), FileError("no_file", path="gone")]
)
def test_whatever_goes_wrong_in_one_stays_in_its_row(monkeypatch, tmp_path, failing):
    real = grading.check

    def check(task, file, **how):
        if file.parent.name == "b":
            raise failing
        return real(task, file, **how)

    monkeypatch.setattr(grading, "check", check)
    folder = handed_in(tmp_path, {f"{name}/softmax.py": SOFTMAX for name in "abc"})
    assert [row.status for row in grade(folder, jobs=2, lang="en").rows] == ["pass", "error", "pass"]


def test_an_interrupt_keeps_what_is_there_and_leaves_no_process(monkeypatch, tmp_path):
    endless = "while True: pass\n"
    folder = handed_in(tmp_path, {"a/softmax.py": SOFTMAX, **{f"s{i}/softmax.py": endless for i in range(3)}})
    children = []
    real = grading.Child

    def child():
        children.append(real())
        return children[-1]

    def interrupt(done, total):
        raise KeyboardInterrupt

    monkeypatch.setattr(grading, "Child", child)
    began = time.perf_counter()
    grades = grade(folder, jobs=2, timeout=30, lang="en", seen=interrupt)
    assert time.perf_counter() - began < 15
    assert grades.interrupted
    assert [row.student for row in grades.rows] == ["a"]
    assert children
    assert [one.process.pid for one in children if is_alive(one.process.pid)] == []


# the layouts


def found(folder, tasks=()):
    return [(one.student, one.task, one.file is not None) for one in submissions(folder, tasks)[0]]


def test_a_task_that_is_asked_for_is_missing_where_it_is_not(folder):
    assert found(folder, ["causal_mask"]) == [
        (student, "causal_mask", False) for student in sorted({name for name, _ in EXPECTED})
    ]


def test_the_longest_name_of_a_task_counts(tmp_path):
    folder = handed_in(tmp_path, {"a_b_softmax.py": "", "x_online_softmax.py": "", "y_Online-Softmax.py": ""})
    assert [one for one in found(folder) if one[2]] == [
        ("a_b", "softmax", True),
        ("x", "online_softmax", True),
        ("y", "online_softmax", True),
    ]


def test_a_folder_of_one_student(tmp_path):
    folder = handed_in(tmp_path / "ann", {"softmax.py": SOFTMAX})
    assert found(folder) == [("ann", "softmax", True)]


@pytest.mark.parametrize(("make", "key"), [(lambda p: p / "none", "no_folder"), (lambda p: p, "no_submissions")])
def test_a_folder_without_submissions_is_one_line(tmp_path, make, key):
    with pytest.raises(FileError) as error:
        submissions(make(tmp_path), ())
    assert error.value.key == key
    assert len(command("grade", make(tmp_path), lang="zh").err.splitlines()) == 1


# the forms


def test_csv_has_one_line_a_row(graded):
    grades, _ = graded
    text = grade_csv(grades)
    assert text.startswith(BYTE_ORDER_MARK)
    rows = list(csv.DictReader(io.StringIO(text.removeprefix(BYTE_ORDER_MARK), newline="")))
    assert list(rows[0]) == list(COLUMNS)
    assert {(r["student"], r["task"]): (r["status"], tuple(r["mistakes"].split())) for r in rows} == EXPECTED
    assert "\x00" not in text
    assert "\x1b" not in text


def test_csv_gives_a_spreadsheet_no_formula_and_no_mark_where_none_is_needed():
    text = grade_csv(Grades((Row("=cmd()", "softmax", "-f", "error", message="+1"),), (), False, "en"))
    assert text.isascii()
    row = next(csv.DictReader(io.StringIO(text, newline="")))
    assert (row["student"], row["file"], row["message"]) == ("'=cmd()", "'-f", "'+1")


def test_json_has_rows_counts_and_mistakes(graded):
    grades, _ = graded
    data = json.loads(grade_json(grades))
    assert {(r["student"], r["task"]): (r["status"], tuple(r["mistakes"])) for r in data["rows"]} == EXPECTED
    assert data["counts"] == {"pass": 2, "wrong": 3, "error": 4, "timeout": 1, "missing": 2}
    assert data["mistakes"][0] == {"mistake": "no_scale", "rows": 2, "tasks": ["scaled_dot_product_attention"]}


def test_junit_counts_what_it_holds(graded):
    grades, _ = graded
    root = ElementTree.fromstring(grade_junit(grades))
    assert [suite.get("name") for suite in root] == sorted({student for student, _ in EXPECTED})
    for suite in root:
        cases = suite.findall("testcase")
        assert suite.get("tests") == str(len(cases)) == "2"
        for count, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert suite.get(count) == str(sum(case.find(kind) is not None for case in cases))
    kinds = {(c.get("classname"), c.get("name")): [child.tag for child in c] for c in root.iter("testcase")}
    tags = {"pass": [], "wrong": ["failure"], "error": ["error"], "timeout": ["error"], "missing": ["skipped"]}
    assert kinds == {pair: tags[status] for pair, (status, _) in EXPECTED.items()}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("cells", [60, 100])
def test_the_table_fits_and_ends_with_the_mistakes_of_the_class(graded, lang, cells):
    grades, _ = graded
    screen = Screen(width=cells)
    text = grade_text(Grades(grades.rows, grades.left_out, False, lang), screen)
    assert [line for line in text.splitlines() if width(line, screen) > cells] == []
    last = text.split("\n\n")[-1]
    assert last.index("no_scale") < last.index("softmax_no_max")
    assert {"en": "2 of 5", "zh": "5 份提交中有 2 份"}[lang] in last.replace("\n  ", "" if lang == "zh" else " ")
    assert "notes.py" in text


def test_a_class_without_known_mistakes():
    text = grade_text(Grades((Row("a", "softmax", "f", "wrong", ("no_match",)),), (), False, "en"), Screen())
    assert text.endswith("No known mistake was named.")


# the command


def test_the_command_writes_every_form_and_says_so(tmp_path):
    folder = handed_in(tmp_path / "class", {"a/softmax.py": SOFTMAX, "b/softmax.py": NO_MAX})
    wanted = [tmp_path / name for name in ("g.csv", "g.json", "g.xml")]
    options = [x for pair in zip(("--csv", "--json", "--junit"), wanted) for x in pair]
    ended = command("grade", folder, *options, lang="zh")
    assert ended.code == 0
    assert "softmax_no_max" in ended.out
    assert all(path.stat().st_size > 0 and str(path) in ended.err for path in wanted)
    assert "2 / 2" in ended.err


def test_a_form_on_standard_output_stands_alone(tmp_path):
    folder = handed_in(tmp_path / "class", {"a/softmax.py": SOFTMAX})
    assert json.loads(command("grade", folder, "--json", "-").out)["counts"]["pass"] == 1


def test_a_file_that_cannot_be_written_costs_no_other(tmp_path):
    folder = handed_in(tmp_path / "class", {"a/softmax.py": SOFTMAX})
    ended = command("grade", folder, "--csv", tmp_path / "no" / "g.csv", "--json", tmp_path / "g.json")
    assert ended.code == 2
    assert "pass" in ended.out
    assert (tmp_path / "g.json").is_file()


@pytest.mark.parametrize("wrong", [["--task", "softmaxx"], ["--timeout", "0"], ["--timeout", "nan"], ["--jobs", "0"]])
def test_a_wrong_call_judges_nothing(folder, wrong):
    ended = command("grade", folder, *wrong)
    assert (ended.code, ended.out) == (2, "")
