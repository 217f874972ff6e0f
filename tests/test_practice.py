"""practice, hint, solution, progress: as a learner meets them in a pipe of 60 cells, in both languages."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.commanded import command
from tests.judged import program

from qkv.judge import check, progress
from qkv.judge.orders import order
from qkv.judge.tasks import load, names
from qkv.views.cells import width
from qkv.views.progress_text import hint_text, solution_text
from qkv.views.screen import Screen


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("QKV_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def overflowing(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def attempt(task="softmax", function=overflowing):
    progress.record_attempt(task, check(task, function, lang="en"), 0.1)


def solve(task="softmax"):
    attempt(task, program(load(task).solution_text, load(task).entry))


# practice


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("asked", ["course", "interview"])
def test_the_list_shows_every_task_with_its_state(lang, asked):
    solve()
    attempt("causal_mask", lambda n: np.ones((n, n), dtype=bool))
    ended = command("practice", "--order", asked, lang=lang, width=100)
    rows = {line.split()[1]: line.split() for line in ended.out.splitlines() if line.strip()[:1].isdigit()}
    assert list(rows) == list(order(asked))
    assert rows["softmax"][2] == {"en": "solved", "zh": "已解决"}[lang]
    assert rows["causal_mask"][2] == {"en": "tried", "zh": "试过"}[lang]
    assert rows["kv_cache"][2] == "-"
    following = next(task for task in order(asked) if task != "softmax")
    assert ended.out.splitlines()[-1].endswith(f"qkv practice {following}")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_starter_is_written_and_the_statement_printed(lang, place):
    ended = command("practice", "softmax", lang=lang)
    task = load("softmax")
    assert (ended.code, ended.err) == (0, "")
    assert (place / "softmax.py").read_text(encoding="utf-8") == task.starter(lang)
    assert ended.out.startswith(task.title[lang])
    assert task.signature in ended.out
    assert "qkv check softmax softmax.py" in ended.out
    assert progress.load().task("softmax").started is not None


def test_existing_work_is_never_touched(place):
    (place / "softmax.py").write_text("my work")
    ended = command("practice", "softmax")
    assert ended.code == 1
    assert "stays as it is" in ended.out
    assert load("softmax").title["en"] in ended.out
    assert progress.load().tasks == {}
    for n in (2, 3):
        assert command("practice", "softmax", "--new").code == 0
        assert (place / f"softmax_{n}.py").read_text(encoding="utf-8") == load("softmax").starter("en")
    assert (place / "softmax.py").read_text() == "my work"


def test_a_link_to_nowhere_is_not_written_through(place):
    (place / "softmax.py").symlink_to(place / "elsewhere.py")
    assert command("practice", "softmax").code == 1
    assert not (place / "elsewhere.py").exists()


def test_another_folder_is_made(place):
    ended = command("practice", "softmax", "--dir", "my work")
    assert ended.code == 0
    assert (place / "my work" / "softmax.py").is_file()
    assert 'qkv check softmax "my work/softmax.py"' in ended.out


def test_a_folder_that_cannot_be_written_is_one_line(place):
    (place / "file").write_text("")
    for folder in ("file", "file/in"):
        ended = command("practice", "softmax", "--dir", folder)
        assert ended.code == 2
        assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("verb", ["practice", "hint", "solution"])
def test_an_unknown_task_is_one_line_with_the_known_ones(verb):
    ended = command(verb, "softmaxx", lang="zh")
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
    assert "kv_cache" in ended.err


# hints


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_hints_follow_the_last_verdict(lang):
    attempt()
    mistake = next(m for m in load("softmax").mistakes if m.id == "softmax_no_max")
    verdict = check("softmax", overflowing, lang=lang)
    for rung in (1, 2, 3, 3):
        assert verdict.hint(rung) in command("hint", "softmax", lang=lang, width=200).out
    assert mistake.id == verdict.mistakes[0]
    assert verdict.hint(1) in command("hint", "softmax", "--rung", 1, lang=lang, width=200).out


def test_hints_for_a_mistake_that_is_asked_for():
    other = command("hint", "softmax", "--mistake", "mutates_input", "--rung", 3, width=200).out
    assert "x = x - m" in other
    assert progress.load().tasks == {}
    assert command("hint", "softmax", "--mistake", "no_scale").code == 2


def test_general_hints_when_no_mistake_was_named():
    shown = [command("hint", "scaled_dot_product_attention", width=120).out for _ in range(3)]
    assert all("general hints" in text for text in shown)
    assert "scores → " in shown[0]
    assert load("scaled_dot_product_attention").solution[1].en in shown[1]
    assert "def scaled_dot_product_attention" in shown[2]
    assert "return" not in shown[2]
    assert "--reveal" in shown[2]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", names())
def test_every_task_has_general_hints_that_do_not_end_the_task(name, lang):
    task = load(name)
    shown = [hint_text(task, "", rung, lang, Screen(width=60)) for rung in progress.RUNGS]
    assert len(set(shown)) == 3
    last = [line for line in task.solution_text.splitlines() if line.strip()][-1]
    assert last not in "\n".join(shown)


# solutions


def test_a_solution_is_shown_after_passing_or_on_demand():
    closed = command("solution", "softmax")
    assert (closed.code, closed.out) == (2, "")
    assert "--reveal" in closed.err
    attempt()
    assert command("solution", "softmax").code == 2
    revealed = command("solution", "softmax", "--reveal")
    solve()
    assert command("solution", "softmax").out == revealed.out


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", names())
def test_a_solution_is_a_program_that_passes(name, lang):
    task = load(name)
    shown = solution_text(task, lang, Screen(width=60))
    assert check(name, program(shown, task.entry)).passed
    said = [line.strip().removeprefix("# ") for line in shown.splitlines() if line.strip().startswith("#")]
    space = " " if lang == "en" else ""
    assert task.solution[-1].__getattribute__(lang).replace(" ", "") in space.join(said).replace(" ", "")


# progress


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_progress_as_a_table_and_as_json(lang):
    assert "qkv practice" in command("progress", lang=lang).out
    attempt()
    solve()
    progress.record_answer("odds", True)
    ended = command("progress", lang=lang)
    row = next(line for line in ended.out.splitlines() if line.startswith("softmax")).split()
    assert row[1:3] == [{"en": "solved", "zh": "已解决"}[lang], "2"]
    data = json.loads(command("progress", "--json", lang=lang).out)
    assert (data["solved"], data["streak_days"], data["tasks"]["softmax"]["attempts"]) == (["softmax"], 1, 2)
    assert data["quiz"]["odds"]["right"] == 1


@pytest.mark.parametrize(
    ("answer", "forgotten"), [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_reset_asks(answer, forgotten):
    attempt()
    ended = command("progress", "--reset", "softmax", stdin=answer)
    assert (ended.code == 0) is forgotten
    assert ("softmax" not in progress.load().tasks) is forgotten


def test_reset_without_asking():
    attempt()
    assert command("progress", "--reset", "softmax", "--yes").code == 0
    assert progress.load().tasks == {}
    assert command("progress", "--reset", "nothing", "--yes").code == 2


# what is printed fits, whatever happens


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("cells", [40, 60])
def test_every_line_fits(lang, cells):
    attempt()
    said = [command("practice", "softmax", lang=lang, width=cells) for _ in range(2)]
    said += [command("hint", "softmax", lang=lang, width=cells), command("progress", lang=lang, width=cells)]
    lines = [line for ended in said for line in ended.out.splitlines()]
    assert [line for line in lines if width(line, Screen(width=cells)) > cells] == []


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_damaged_file_is_said_once_and_everything_goes_on(lang, place):
    (place / "data").mkdir()
    (place / "data" / "progress.json").write_text("{")
    first, second = command("progress", lang=lang), command("progress", lang=lang)
    assert ".damaged-" in first.err
    assert (first.code, second.code, second.err) == (0, 0, "")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_where_nothing_can_be_kept_a_learner_can_work_all_the_same(lang, place, monkeypatch):
    (place / "file").write_text("")
    monkeypatch.setenv("QKV_DATA", str(place / "file" / "data"))
    for arguments in (["practice", "softmax"], ["hint", "softmax"], ["practice"], ["solution", "softmax", "--reveal"]):
        ended = command(*arguments, lang=lang)
        assert ended.code == 0
        assert ended.out
        assert len(ended.err.splitlines()) <= 1
