"""Answers in forms of their own: lists out of loops, pieces, NaN. Right stays right, and what is shown can be read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.judged import program
from tests.judged_variants import WRONG

from qkv.judge import check
from qkv.judge.bank import Bank
from qkv.judge.calls import run_probe
from qkv.judge.compare import Outcome, same_value
from qkv.judge.steps import steps_of
from qkv.judge.task import Mistake, Probe, Text
from qkv.judge.tasks import load
from qkv.judge.wire import Stream
from qkv.views.screen import Screen
from qkv.views.verdict_text import verdict_text


def came(value):
    """A value as it arrives from a learner's function."""
    return Outcome.read(run_probe(lambda: value, None, [[]])).value


ROWS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


@pytest.mark.parametrize(
    "value",
    [
        [[np.float64(x) for x in row] for row in ROWS], [[np.float32(1), 2, 3.0], [np.array(4.0), 5, 6]],
        [np.array(row) for row in ROWS], tuple(np.array(row) for row in ROWS), [np.array(ROWS[0]), ROWS[1]],
    ],
)  # fmt: skip
def test_a_list_of_what_loops_produce_is_an_array(value):
    assert same_value(np.array(ROWS), came(value))
    assert not same_value(np.array(ROWS) + 1, came(value))
    assert not same_value(np.array(ROWS).T, came(value))


def test_truth_and_whole_numbers_stay_what_they_are():
    assert same_value(np.array([True, False]), came([np.bool_(True), np.False_]))
    assert not same_value(np.array([True, False]), came([np.int64(1), 0]))
    assert not same_value(np.array([1, 0]), came([np.float64(1.0), 0.0]))


@pytest.mark.parametrize("value", [np.array([3.0, 1.5]), [3.0, 1.5], [np.float64(3), np.float64(1.5)], (3.0, 1.5)])
def test_two_numbers_may_come_as_an_array_or_a_list(value):
    assert same_value((np.array(3.0), np.array(1.5)), came(value))
    assert not same_value((np.array(1.5), np.array(3.0)), came(value))
    assert not same_value((np.array(3.0), np.array(1.5), np.array(0.0)), came(value))


def test_an_array_for_two_results_passes_without_a_note():
    task = load("online_softmax")
    source = task.solution_text.replace("return top, total", "return np.array([top, total])")
    verdict = check(task.name, program(source, task.entry), lang="en")
    assert (verdict.status, verdict.notes) == ("pass", ())
    swapped = check(task.name, program(source.replace("[top, total]", "[total, top]"), task.entry), lang="en")
    assert swapped.mistakes == ("results_swapped",)
    assert isinstance(swapped.shown.yours, tuple)


def test_other_numbers_in_another_form_are_no_wrong_shape():
    source = "def online_softmax(chunks):\n    return [sum(c.sum() for c in chunks), 7.0]\n"
    verdict = check("online_softmax", program(source, "online_softmax"), lang="en")
    assert verdict.mistakes == ("no_match",)
    assert {result.why for result in verdict.results} == {"differs"}


# what is shown


def test_the_pieces_of_a_stream_count_and_are_shown():
    task = load("online_softmax")
    assert task.probe("generator").size == 3
    assert Probe("p", {"chunks": Stream((np.ones(2), np.ones(5)))}, Text("", "")).size == 7
    twice = next(m for m in task.mistakes if m.id == "chunks_read_twice").variations[0]
    text = verdict_text(check(task.name, twice, lang="en"))
    assert "chunks = [1.0  2.0  1.5]" in text


def test_pieces_of_any_length_are_shown_one_below_another():
    text = verdict_text(check("online_softmax", lambda chunks: (0.0, 0.0), only="huge", lang="en"))
    assert "chunks = [-1000   -999]\n" in text
    assert "[1000   998]\n" in text


@pytest.mark.parametrize(
    "value", [[[1.0, 2.0], [3.0]], [[1.0], 2.0], [], [[]], [[[1.0]], [2.0, [3.0]]], [None, 1.0], {"a": 1}, "text", None]
)
def test_a_ragged_answer_is_a_verdict_that_can_be_read(value):
    for task in ("softmax", "scaled_dot_product_attention", "online_softmax"):
        verdict = check(task, lambda *_, **__: value, lang="en")
        assert verdict.status == "wrong"
        assert "WRONG" in verdict_text(verdict, Screen(width=40))
        assert verdict._repr_html_()


def test_a_named_mistake_comes_before_the_line_that_raised():
    source = next(s for task, name, s in WRONG if name == "heads_not_in_front")
    text = verdict_text(check("multi_head_attention", program(source, "multi_head_attention"), lang="en"))
    assert 0 < text.index("The heads stay behind") < text.index("ValueError") < text.index("smallest failing input")
    assert "\n  \n" not in text


# steps


def test_steps_of_a_formula_within_a_formula_keep_their_names():
    task = load("multi_head_attention")
    steps = steps_of(task, task.formula, task.probes[0])
    x = task.probes[0].arguments["x"]
    assert steps["multi_head", "output"].shape == x.shape
    assert steps["attention", "output"].shape == (2, 2, 2)


def test_the_first_step_of_a_missing_projection_is_the_outer_output():
    task = load("multi_head_attention")
    bad = next(m for m in task.mistakes if m.id == "no_output_projection").variations[0]
    step = check(task.name, bad).first_step
    assert step.name == "output"
    np.testing.assert_allclose(step.expected, task.reference(*task.calls(task.probes[0])[0]))


# NaN

NAN = """
import numpy as np


def scaled_dot_product_attention(Q, K, V, mask=None):
    s = np.einsum("...qd,...kd->...qk", Q, K) / Q.shape[-1] ** 0.5
    if mask is not None:
        s = s + (1 - mask.astype(int)) * -np.inf
    p = np.exp(s - s.max(-1)[..., None])
    p = p / p.sum(-1)[..., None]
    return np.einsum("...qk,...kd->...qd", p, V), p
"""


def test_nan_wherever_it_fails_can_have_a_name():
    verdict = check("scaled_dot_product_attention", program(NAN, "scaled_dot_product_attention"), lang="en")
    assert (verdict.mistakes, verdict.match) == (("mask_times_inf",), "exact")


def test_nan_everywhere_has_no_name_but_is_told():
    source = "import numpy as np\n\ndef f(Q, K, V):\n    return np.full(Q.shape[:-1] + V.shape[-1:], np.nan)\n"
    verdict = check("causal_attention", program(source, "f"), lang="en")
    assert verdict.mistakes == ("no_match",)
    assert "all_nan" in verdict.properties
    assert "0 * inf" in verdict_text(verdict)


def test_nan_of_unknown_origin_has_no_name():
    source = NAN.replace("if mask is not None:\n        s = s + (1 - mask.astype(int)) * -np.inf",
                         "if s.shape == (3, 5) or mask is not None:\n        s = s * np.nan")  # fmt: skip
    verdict = check("scaled_dot_product_attention", program(source, "scaled_dot_product_attention"), lang="en")
    assert verdict.mistakes == ("no_match",)


def nan_for(where):
    """Right attention, but NaN wherever a probe's mask is such."""

    def answer(Q, K, V, mask=None):
        output, weights = load("scaled_dot_product_attention").reference(Q, K, V, mask)
        return (output * np.nan, weights * np.nan) if where(mask) else (output, weights)

    return answer


def test_nan_is_named_only_for_one_mistake_that_is_right_at_times():
    task = load("scaled_dot_product_attention")

    def matched(where, *ids):
        answer = nan_for(where)
        bank = Bank(replace(task, mistakes=tuple(Mistake(name, (answer,)) for name in ids)))
        counted = [probe for probe in task.probes if not probe.note]
        return bank.match({probe.name: bank.outcome(answer, probe) for probe in counted}, counted).ids

    assert matched(lambda mask: mask is not None, "one") == ("one",)
    assert matched(lambda mask: mask is not None, "one", "another") == ()
    assert matched(lambda mask: True, "one") == ()


def test_nan_that_a_convention_allows_is_no_fault():
    source = NAN.replace("(1 - mask.astype(int)) * -np.inf", "np.where(mask, 0, -np.inf)").replace(
        " V), p", " V), p / 2"
    )
    verdict = check("scaled_dot_product_attention", program(source, "scaled_dot_product_attention"), lang="en")
    assert verdict.properties == ("rows_sum",)


# one line


def test_the_one_line_is_set_as_each_language_is():
    raised = program("def softmax(x, axis=-1):\n    raise ValueError('why')\n", "softmax")
    assert check("softmax", raised, lang="zh").message == "出错：ValueError: why"
    assert check("softmax", raised, lang="en").message == "ERROR: ValueError: why"
    wrong = program("def softmax(x, axis=-1):\n    import numpy as np\n    e = np.exp(x)\n"
                    "    return e / e.sum(axis=axis, keepdims=True)\n", "softmax")  # fmt: skip
    assert check("softmax", wrong, lang="zh").message.endswith("不符。没有先减去最大值就取 exp，因此会溢出。")
    assert ". exp is taken" in check("softmax", wrong, lang="en").message


@pytest.mark.parametrize("name", ["gelu", "causal_mask", "online_softmax"])
def test_what_comes_back_is_said_in_both_languages(name):
    returns = load(name).returns
    assert returns["en"] != returns["zh"]
    assert any(sign >= "\u4e00" for sign in returns["zh"])
