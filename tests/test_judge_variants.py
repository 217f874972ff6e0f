"""Programs written by hand, apart from the bank: the right ones pass, the wrong ones are caught and never misnamed."""

from __future__ import annotations

import pytest
from tests.judged import program
from tests.judged_variants import RANDOM, RIGHT, WRONG

from qkv.judge import check
from qkv.judge.tasks import load

# Mistakes of a known kind in a form that the bank does not have: no name is the right answer to them.
UNKNOWN = {("linear_attention", "linear_other_map"), ("cross_entropy", "loss_log_base")}
OF_ANY_KIND = {"no_match", "wrong_shape", "wrong_dtype", "returns_nothing"}


def verdict(task, source):
    return check(task, program(source, load(task).entry), lang="en")


@pytest.mark.parametrize(("task", "source"), RIGHT, ids=[f"{task}-{i}" for i, (task, _) in enumerate(RIGHT)])
def test_a_right_program_passes(task, source):
    assert verdict(task, source).passed


@pytest.mark.parametrize(("task", "mistake", "source"), WRONG, ids=[f"{task}-{name}" for task, name, _ in WRONG])
def test_a_wrong_program_is_caught_and_never_misnamed(task, mistake, source):
    found = verdict(task, source)
    assert not found.passed
    assert found.mistakes == (("no_match",) if (task, mistake) in UNKNOWN else (mistake,))


@pytest.mark.parametrize(("task", "source"), RANDOM, ids=[f"{task}-{i}" for i, (task, _) in enumerate(RANDOM)])
def test_a_random_program_gets_no_name(task, source):
    found = verdict(task, source)
    assert not found.passed
    assert set(found.mistakes) <= OF_ANY_KIND
    assert found.match == "none"
