"""Watching a generation: each step has its own paths, and a pattern that names none holds in all."""

from __future__ import annotations

import numpy as np
import pytest
from tests.decoder_fixture import random_decoder

import qkv
from qkv.models import Draft

IDS = np.random.default_rng(2).integers(0, 258, 17)


def steps(trace: qkv.Trace) -> list[str]:
    return list(dict.fromkeys(path.split(".layers")[0].split(".head")[0] for path in trace))


def test_a_step_stands_before_the_path() -> None:
    model = random_decoder()
    with qkv.record() as trace:
        found = model.generate(IDS, max_new_tokens=3)
    assert trace["step.0.ids"].tolist() == [IDS.tolist()]
    assert trace["step.2.ids"].tolist() == [[found[1]]]
    assert trace["step.0.layers.0.attention.weights"].shape == (1, 6, 17, 17)
    assert trace["step.2.layers.0.attention.weights"].shape == (1, 6, 1, 19)
    assert int(trace["step.2.head.logits"].argmax()) == found[2]
    assert {path.split(".")[1] for path in trace} == {"0", "1", "2"}
    assert {path.split(".")[0] for path in trace} == {"step"}
    entry = trace.entry("step.1.layers.0.attention.weights")
    assert (entry.op, entry.name, entry.axes) == ("attention", "weights", ("B", "H", "Tq", "Tk"))


def test_two_generations_in_one_block() -> None:
    model = random_decoder()
    with qkv.record("head.logits") as trace:
        model.generate(IDS, max_new_tokens=2)
        list(model.stream(IDS, max_new_tokens=2))
        model.logits(IDS)
    assert list(trace) == [
        "step.0.head.logits", "step.1.head.logits", "step#2.0.head.logits", "step#2.1.head.logits", "head.logits",
    ]  # fmt: skip


def test_a_pattern_that_names_a_step_is_for_that_step() -> None:
    with qkv.record("step.1.*.attention.weights") as trace:
        random_decoder().generate(IDS, max_new_tokens=3)
    assert list(trace) == [f"step.1.layers.{i}.attention.weights" for i in range(3)]


def test_an_edit_holds_in_every_step() -> None:
    model, plain, ids = random_decoder(), random_decoder().generate(IDS, max_new_tokens=7), IDS.tolist()
    change = {"layers.*.attention.weights": qkv.edits.zero(head=2)}
    with qkv.edit(change):
        edited = model.generate(IDS, max_new_tokens=7)
        for _ in range(7):
            ids.append(int(model.logits(ids)[-1].argmax()))
    assert edited == ids[17:] != plain


def test_an_edit_in_one_step_changes_what_comes_after() -> None:
    model, plain = random_decoder(), random_decoder().generate(IDS, max_new_tokens=7)
    with qkv.edit({"step.3.head.logits": qkv.edits.scale(-1.0)}):
        edited = model.generate(IDS, max_new_tokens=7)
    assert edited[:3] == plain[:3]
    assert edited[3] != plain[3]
    late = {"step.9.head.logits": qkv.edits.zero()}
    with pytest.raises(qkv.QkvError, match=r"nothing ran at step\.9\.head\.logits"), qkv.edit(late):
        model.generate(IDS, max_new_tokens=7)


def test_patching_by_a_run_of_the_model_alone() -> None:
    model = random_decoder()
    with qkv.record("layers.1.resid_post") as trace:
        model(IDS[None].tolist()[0])
    other = np.random.default_rng(5).integers(0, 258, 17)
    frozen = {"step.0.layers.1.resid_post": lambda value: trace["layers.1.resid_post"][None]}
    with qkv.edit(frozen):
        patched = model.generate(other, max_new_tokens=1)
    assert patched == model.generate(IDS, max_new_tokens=1)


def test_beams_and_drafts() -> None:
    model = random_decoder()
    with qkv.record("*.head.logits") as trace:
        model.generate(IDS, max_new_tokens=2, n_beams=3)
        model.generate(IDS, max_new_tokens=3, draft=Draft(random_decoder(), 2))
    shapes = {path: value.shape for path, value in trace.items()}
    assert shapes == {
        "step.0.head.logits": (1, 258), "step.1.head.logits": (3, 258),
        "draft.0.head.logits": (1, 258), "draft.1.head.logits": (1, 258), "step#2.0.head.logits": (3, 258),
    }  # fmt: skip


def test_nobody_watches_nothing_changes() -> None:
    model = random_decoder()
    with qkv.record():
        watched = model.generate(IDS, max_new_tokens=7)
    assert watched == model.generate(IDS, max_new_tokens=7)


def test_an_edit_holds_in_every_call_of_a_model() -> None:
    model, change = random_decoder(), {"layers.0.resid_post": qkv.edits.scale(0.1)}
    with qkv.edit(change), qkv.record("layers.0.resid_post") as trace:
        first, second = model(IDS), model(IDS)
    np.testing.assert_array_equal(first, second)
    assert list(trace) == ["layers.0.resid_post", "#2.layers.0.resid_post"]
    with qkv.edit({"#2.layers.0.resid_post": qkv.edits.scale(0.1)}):
        assert not np.allclose(model(IDS), second)
        np.testing.assert_array_equal(model(IDS), second)
