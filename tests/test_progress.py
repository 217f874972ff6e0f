"""What is kept of a learner: safe beside other processes, whole or not at all, and never lost for a damaged file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date

import numpy as np
import pytest

from qkv import words
from qkv.errors import FileError
from qkv.judge import check, progress, store
from qkv.judge.orders import ORDERS, listed, order
from qkv.judge.tasks import load, names


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("QKV_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "progress.json"


def right(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def overflowing(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def verdict(function, **how):
    return check("softmax", function, lang="en", **how)


def several(program: str, n: int) -> list[subprocess.Popen]:
    return [subprocess.Popen([sys.executable, "-c", program], env=dict(os.environ)) for _ in range(n)]


# attempts


def test_attempts_and_the_first_solution_are_kept():
    assert progress.record_attempt("softmax", verdict(overflowing), 0.5) == ()
    first = progress.load().task("softmax")
    assert (first.attempts, first.solved, first.mistakes) == (1, None, ["softmax_no_max"])
    progress.record_attempt("softmax", verdict(right), 0.25)
    progress.record_attempt("softmax", verdict(right), 0.75)
    kept = progress.load()
    then = kept.task("softmax")
    assert (then.attempts, then.best_run_seconds, then.mistakes) == (3, 0.25, [])
    assert then.solved is not None
    assert then.solved <= then.last
    assert kept.solved == ["softmax"]
    assert kept.streak() == 1


def test_one_probe_alone_solves_nothing():
    progress.record_attempt("softmax", verdict(overflowing, only="example"), 0.1)
    assert progress.load().task("softmax").solved is None


def test_the_time_from_starter_to_solution_is_the_best_one():
    for started in ("2026-01-05T10:00:00+00:00", None, "2026-01-05T09:00:00+00:00"):
        with progress.changing() as kept:
            kept.tasks.setdefault("softmax", progress.Tried()).started = started
        progress.record_attempt("softmax", verdict(right), 0.1)
    task = progress.load().task("softmax")
    with progress.changing() as kept:
        kept.tasks["softmax"].started = task.last
    progress.record_attempt("softmax", verdict(right), 0.1)
    best = progress.load().task("softmax").best_seconds
    assert task.best_seconds > 3600
    assert best < 60
    assert progress.load().task("softmax").started is None


def test_a_day_left_out_ends_the_streak():
    days = ["2026-02-27", "2026-02-28", "2026-03-01"]
    assert progress.Progress(days=days).streak(date(2026, 3, 1)) == 3
    assert progress.Progress(days=days).streak(date(2026, 3, 2)) == 3
    assert progress.Progress(days=days).streak(date(2026, 3, 3)) == 0
    assert progress.Progress(days=days[:1] + days[2:]).streak(date(2026, 3, 1)) == 1


def test_hints_go_on_until_another_mistake_is_named():
    task = load("softmax")

    def following():
        tried = progress.load().task("softmax")
        ladder = progress.rungs(task, tried)
        shown = progress.next_rung(tried, ladder)
        progress.record_hint("softmax")
        return shown

    assert [following() for _ in range(4)] == [("", 1), ("", 2), ("", 3), ("", 3)]
    progress.record_attempt("softmax", verdict(overflowing), 0.1)
    assert [following(), following()] == [("softmax_no_max", 1), ("softmax_no_max", 2)]
    progress.record_attempt("softmax", verdict(overflowing), 0.1)
    assert following() == ("softmax_no_max", 3)
    progress.record_attempt("softmax", verdict(lambda x, axis=-1: right(x, 0)), 0.1)
    assert following() == ("softmax_wrong_axis", 1)


def test_a_mistake_that_is_no_longer_known_has_no_hints():
    assert progress.rungs(load("softmax"), progress.Tried(mistakes=["of_old"]))[0] == ("", 1)


# the file


def test_two_processes_at_once_lose_nothing():
    program = "from qkv.judge.progress import record_answer\nfor i in range(40): record_answer(f'q{i % 3}', i % 2 == 0)"
    running = several(program, 2)
    while any(one.poll() is None for one in running):
        assert progress.load().notices == []  # a reader never meets half a file
    assert [one.returncode for one in running] == [0, 0]
    quiz = progress.load().quiz
    assert sum(one.right + one.wrong for one in quiz.values()) == 80
    assert sum(one.right for one in quiz.values()) == 40


def test_a_process_that_dies_leaves_no_lock(path):
    program = (
        "import os, time\nfrom qkv.judge import store\n"
        "with store.locked(store.location()):\n    print('locked', flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=dict(os.environ)) as one:
        one.stdout.readline()
        one.kill()
    progress.record_answer("q", True)
    assert progress.load().quiz["q"].right == 1


def test_a_lock_that_stays_is_one_line(monkeypatch, path):
    monkeypatch.setattr(store, "PATIENCE", 0.05)
    with store.locked(path), pytest.raises(FileError, match="locked by another process"):
        progress.record_answer("q", True)
    assert not path.exists()


DAMAGED = [
    "", "{", "[]", "{}", "\x00\x01", '{"version": "1"}', '{"version": true}', '{"version": 1, "tasks": [3]}',
    '{"version": 1, "tasks": {"softmax": {"attempts": "3"}}}', '{"version": 1, "tasks": {"softmax": {"hints": true}}}',
    '{"version": 1, "tasks": {"softmax": {"mistakes": [1]}}}', '{"version": 1, "tasks": {"softmax": {"last": "noon"}}}',
    '{"version": 1, "days": ["soon"]}', '{"version": 1, "days": 7}', '{"version": 1, "quiz": {"q": {"colour": 1}}}',
    '{"version": 1, "quiz": {"q": 7}}', '{"version": 1, "quiz": {"q": {"right": null}}}',
]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_is_set_aside_and_said(path, text):
    path.parent.mkdir()
    path.write_text(text)
    said = progress.record_attempt("softmax", verdict(right), 0.1)
    aside = [file for file in path.parent.iterdir() if ".damaged-" in file.name]
    assert [file.read_text() for file in aside] == [text]
    assert len(said) == 1
    assert aside[0].name in said[0]
    assert progress.load().task("softmax").attempts == 1


def test_a_damaged_file_is_set_aside_by_looking_too_and_never_over_another(path):
    path.parent.mkdir()
    for text in ("one", "two", "three"):
        path.write_text(text)
        assert progress.load().notices[0].key == "set_aside"
        assert not path.exists()
    aside = [file.read_text() for file in path.parent.iterdir() if ".damaged-" in file.name]
    assert sorted(aside) == ["one", "three", "two"]


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_version_is_refused_and_kept(path, version):
    path.parent.mkdir()
    path.write_text(text := json.dumps({"version": version, "tasks": "of another kind"}))
    with pytest.raises(FileError, match=f"version {version}"):
        progress.load()
    said = progress.record_attempt("softmax", verdict(right), 0.1)
    assert len(said) == 1
    assert "Nothing was changed" in said[0]
    assert path.read_text() == text


def test_a_disk_that_fills_up_leaves_the_old_file(monkeypatch, path):
    progress.record_answer("q", True)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    said = progress.record_attempt("softmax", verdict(right), 0.1)
    assert said == (f"This attempt is not kept: {path} cannot be written: No space left on device",)
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["progress.json", "progress.json.lock"]


def test_a_folder_that_cannot_be_made_spoils_no_verdict(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("QKV_DATA", str(tmp_path / "file" / "data"))
    assert len(progress.record_attempt("softmax", verdict(right), 0.1)) == 1
    assert progress.load().tasks == {}


def test_an_error_in_between_writes_nothing(path):
    progress.record_answer("q", True)
    before = path.read_bytes()

    def fail():
        with progress.changing() as kept:
            kept.quiz.clear()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_bytes() == before


def test_reset_forgets_one_task():
    for task in ("softmax", "rope"):
        progress.record_start(task)
    progress.reset("softmax")
    assert set(progress.load().tasks) == {"rope"}


def test_the_folder_is_the_one_that_is_named_or_the_users_own(tmp_path):
    assert store.location({"QKV_DATA": str(tmp_path)}) == tmp_path / "progress.json"
    assert "qkv" in store.location({}).parts


@pytest.mark.parametrize("key", ["set_aside", "store_version", "store_busy"])
def test_what_is_said_of_the_file_is_said_in_chinese(key, path):
    facts = {"path": path, "reason": "no version", "aside": "a", "version": 2, "known": 1, "seconds": "5"}
    assert not words.message(FileError(key, **facts), "zh").isascii()


# study orders


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_has_every_task_once(name):
    assert sorted(order(name)) == sorted(names())
    assert len(set(listed()[name])) == len(listed()[name])


def test_both_orders_list_the_same_tasks():
    assert sorted(listed()["course"]) == sorted(listed()["interview"])
    assert set(listed()) == set(ORDERS)
    assert listed()["course"] != listed()["interview"]
