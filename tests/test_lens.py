"""The logit lens and activation patching: exact where they must be, and right on models with a known answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.decoder_fixture import FAMILIES, byte_tokenizer, known, random_decoder, tiny
from tests.encoder_fixture import NAMES
from tests.encoder_fixture import tiny as encoder
from tests.gguf_fixture import smollm2, smollm2_file
from tests.models_fixture import minilm

import qkv
from qkv.cli.commands import qkv as command
from qkv.errors import ArgumentError, ShapeError, WatchError
from qkv.models import Decoder
from qkv.ops import softmax
from qkv.views import lens_of, patch_effects
from qkv.views.lens_text import reading_text
from qkv.views.patch_text import patching_text
from qkv.views.screen import Screen

IDS = [5, 9, 3, 9, 11, 2, 7]
FILL = [name for name in NAMES if name.endswith("fill")]


# the lens


@pytest.mark.parametrize("family", FAMILIES)
def test_the_last_layer_is_what_the_model_says(family: str) -> None:
    model, ids = tiny(family), known(family)["7.ids"]
    if not isinstance(model, Decoder):
        pytest.skip("no decoder")
    lens, p = model.lens(ids, top=67), softmax(model.logits(ids))
    assert lens.places[-1] == f"layers.{len(model.layers) - 1}.resid_post"
    np.testing.assert_array_equal(np.take_along_axis(p, lens.tokens[-1], axis=-1), lens.probabilities[-1])
    np.testing.assert_array_equal(lens.final, p.argmax(axis=-1))
    np.testing.assert_array_equal(lens.rank[-1], 0)
    np.testing.assert_array_equal(lens.probability[-1], p.max(axis=-1))
    assert (np.diff(lens.probabilities, axis=-1) <= 0).all()


def test_a_place_is_the_stream_through_norm_and_head() -> None:
    model = random_decoder()
    with qkv.record() as trace:
        model(IDS)
    lens = model.lens(IDS, top=3)
    for place, path in enumerate(lens.places):
        x = trace[path]
        normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * model.norm.gamma
        p = softmax(normed @ model.head.W)
        np.testing.assert_allclose(np.sort(p)[:, ::-1][:, :3], lens.probabilities[place], rtol=1e-9)
        own = p[np.arange(7), lens.final]
        np.testing.assert_array_equal((p > own[:, None]).sum(-1), lens.rank[place])
        np.testing.assert_allclose(own, lens.probability[place], rtol=1e-9)
    assert (lens.rank[0] > 0).any()


def test_an_edit_is_seen_by_the_lens() -> None:
    model = random_decoder()
    plain = model.lens(IDS)
    with qkv.edit({"layers.1.resid_post": qkv.edits.zero(position=-1)}):
        changed = model.lens(IDS)
    np.testing.assert_array_equal(plain.probabilities[:2], changed.probabilities[:2])
    np.testing.assert_array_equal(plain.probabilities[2][:-1], changed.probabilities[2][:-1])
    np.testing.assert_allclose(changed.probabilities[2][-1], 1 / 258)
    assert np.abs(plain.probabilities[3][-1] - changed.probabilities[3][-1]).max() > 1e-3


def test_a_list_of_lenses() -> None:
    model = tiny("llama")
    both = model.lens([IDS, [4, 5]])
    np.testing.assert_array_equal(both[1].probabilities, model.lens([4, 5]).probabilities)
    assert [len(one.ids) for one in both] == [7, 2]


def test_after_attention_too() -> None:
    model = random_decoder()
    found = lens_of(model, IDS, after_attention=True).lens
    assert found.places[:3] == ("embeddings.out", "layers.0.resid_mid", "layers.0.resid_post")
    plain = model.lens(IDS, top=3)
    np.testing.assert_allclose(found.probabilities[::2], plain.probabilities, rtol=1e-12)
    assert np.abs(found.probabilities[1] - found.probabilities[2]).max() > 1e-3


@pytest.mark.parametrize("name", FILL)
def test_an_encoder_is_read_with_the_head_that_fills_in_masks(name: str) -> None:
    model = encoder(name)
    found = lens_of(model, IDS, position=2, top=5).lens
    p = softmax(model.logits(IDS))
    assert len(found.places) == 1 + len(model.layers)
    np.testing.assert_array_equal(np.take_along_axis(p, found.tokens[-1], axis=-1), found.probabilities[-1])
    assert np.abs(found.probabilities[0] - found.probabilities[-1]).max() > 1e-3


def test_the_table_fits() -> None:
    found = lens_of(smollm2(), "The capital", lang="en", top=4)
    for cells in (24, 50, 100):
        assert max(map(len, reading_text(found, Screen(width=cells)).splitlines())) <= cells


def test_wrong_calls_are_one_line() -> None:
    model = tiny("llama")
    with pytest.raises(ArgumentError, match="position must be from -2 to 1, but it is 2"):
        lens_of(model, [1, 2], position=2)
    with pytest.raises(ArgumentError, match="top must be an integer of at least 1"):
        model.lens([1], top=0)
    with pytest.raises(ArgumentError, match="one sequence"):
        lens_of(model, [[1], [2]])
    with pytest.raises(ArgumentError, match="masked_lm"):
        lens_of(minilm(), "a")


def test_a_real_model_knows_paris_late() -> None:
    lens = smollm2().lens("The capital of France is")
    assert smollm2().tokenizer.decode([int(lens.final[-1])]) == " Paris"
    assert lens.rank[5, -1] > 100
    assert lens.probability[-1, -1] > 0.5


def test_lens_from_the_command_line() -> None:
    options = ["The capital of France is", "--model", str(smollm2_file()), "--top", "2"]
    run = CliRunner().invoke(command("en"), ["lens", *options], env={"COLUMNS": "100"})
    assert run.exit_code == 0, run.output
    assert "ĠParis" in run.output.splitlines()[0]
    assert max(map(len, run.output.splitlines())) <= 100
    found = json.loads(CliRunner().invoke(command("en"), ["lens", *options, "--json"]).output)
    assert np.array(found["top"]).shape == (31, 5, 2)
    run = CliRunner().invoke(command("zh"), ["lens", *options, "--position", "0", "--after-attention", "--lang", "zh"])
    assert "注意力" in run.output


# patching


def test_patching_before_the_prompts_differ_moves_nothing_and_the_whole_row_moves_all() -> None:
    model = random_decoder()
    clean, corrupted = IDS, [*IDS[:3], 20, *IDS[4:]]
    found = patch_effects(model, clean, corrupted, (40, 25))
    logits = [model.logits(ids)[-1] for ids in (clean, corrupted)]
    assert [found.clean, found.corrupted] == pytest.approx([x[40] - x[25] for x in logits])
    np.testing.assert_array_equal(found.effects[:, :3], 0)
    np.testing.assert_array_equal(found.effects[-1], [0, 0, 0, 0, 0, 0, pytest.approx(1)])
    assert found.tokens[3] == "9/20"
    assert (np.abs(found.effects[0, 3:]) > 1e-3).all()


def test_an_effect_is_what_an_edit_by_hand_does() -> None:
    model = random_decoder()
    other = [*IDS[:3], 20, *IDS[4:]]
    found = patch_effects(model, IDS, other, lambda logits: float(logits[7]), layers=[1])
    with qkv.record("layers.1.resid_post") as trace:
        model(IDS)

    def patched(x: np.ndarray) -> np.ndarray:
        new = x.copy()
        new[4] = trace["layers.1.resid_post"][4]
        return new

    with qkv.edit({"layers.1.resid_post": patched}):
        value = model.logits(other)[-1, 7]
    assert found.values[0, 4] == pytest.approx(value)
    gap = model.logits(IDS)[-1, 7] - model.logits(other)[-1, 7]
    assert found.effects[0, 4] == pytest.approx((value - model.logits(other)[-1, 7]) / gap)


@pytest.mark.parametrize("path", ["layers.*.attention.out", "layers.*.attention.weights"])
def test_one_head_at_one_position(path: str) -> None:
    model = random_decoder()
    other = [*IDS[:3], 20, *IDS[4:]]
    one = patch_effects(model, IDS, other, (40, 25), path=path, head=3)
    every = patch_effects(model, IDS, other, (40, 25), path=path)
    assert np.abs(one.effects[0, 4]) > 1e-6
    assert np.abs(one.effects - every.effects).max() > 1e-3


def test_prompts_that_say_the_same_have_no_effect_to_speak_of() -> None:
    found = patch_effects(tiny("llama"), IDS, IDS, (40, 25))
    assert np.isnan(found.effects).all()
    assert (found.values == found.clean).all()


def test_wrong_patching_is_one_line(tmp_path: Path) -> None:
    model: Any = random_decoder()
    model.tokenizer = byte_tokenizer(tmp_path)
    with pytest.raises(ShapeError, match="corrupted has T=2 but clean has T=3"):
        patch_effects(model, "abc", "ab", ("a", "b"))
    with pytest.raises(ArgumentError, match=r"'ab' must be a token, but 2 tokens came"):
        patch_effects(model, "abc", "abd", ("ab", "b"))
    with pytest.raises(ArgumentError, match="layers must be from 0 to 2, but it is 3"):
        patch_effects(model, "abc", "abd", ("a", "b"), layers=[3])
    with pytest.raises(WatchError, match="resid_poet"):
        patch_effects(model, "abc", "abd", ("a", "b"), path="layers.*.resid_poet")


def test_the_map_of_a_real_model(tmp_path: Path) -> None:
    found = patch_effects(
        smollm2(), "The capital of France is", "The capital of Italy is", (" Paris", " Rome"), layers=(4, 22, 23)
    )
    assert found.clean > 5 > -4 > found.corrupted
    place, last = found.tokens.index("ĠFrance/ĠItaly"), len(found.tokens) - 1
    assert (found.effects[:2, place] > 0.9).all()
    assert (found.effects[:2, last] < 0.1).all()
    assert found.effects[2, last] > 0.9 > 0.1 > found.effects[2, place]
    for cells in (40, 100):
        assert max(map(len, patching_text(found, Screen(width=cells)).splitlines())) <= cells
    assert json.loads(found.to_json())["layers"] == [4, 22, 23]


# edits at one position


def test_an_edit_at_one_position() -> None:
    model = random_decoder()
    with qkv.record() as plain:
        model(IDS)
    edits = qkv.edits
    for path, axis in (("layers.1.resid_post", 0), ("layers.1.attention.weights", 1)):
        for change, expected in (
            (edits.zero(position=4), 0), (edits.scale(3.0, position=-3), 3), (edits.replacement(7.0, position=4), None),
        ):  # fmt: skip
            with qkv.edit({path: change}), qkv.record() as trace:
                model(IDS)
            old, new = np.moveaxis(plain[path], axis, 0), np.moveaxis(trace[path], axis, 0)
            np.testing.assert_array_equal(new[4], old[4] * expected if expected is not None else 7.0)
            np.testing.assert_array_equal(np.delete(new, 4, 0), np.delete(old, 4, 0))


def test_a_frozen_position_may_come_from_another_place_of_another_length() -> None:
    model, path = random_decoder(), "layers.1.resid_post"
    with qkv.record(path) as trace:
        model([1, 2, 3])
    with qkv.edit({path: qkv.edits.freeze(trace, position=-1, source=0)}), qkv.record(path) as patched:
        model(IDS)
    np.testing.assert_array_equal(patched[path][-1], trace[path][0])
    with pytest.raises(ArgumentError, match="source has no effect when no position is given"):
        qkv.edits.freeze(trace, source=1)
    with (
        pytest.raises(ArgumentError, match="position must be from -3 to 2, but it is 5"),
        qkv.edit({path: qkv.edits.freeze(trace, position=5)}),
    ):
        model(IDS)


def test_one_head_at_one_position_is_the_only_thing_that_moves() -> None:
    model, path = random_decoder(), "layers.1.attention.out"
    with qkv.record(path) as plain:
        model(IDS)
    with qkv.edit({path: qkv.edits.zero(head=2, position=1)}), qkv.record(path) as trace:
        model(IDS)
    moved = np.argwhere((plain[path] != trace[path]).any(axis=-1)).tolist()
    assert moved == [[2, 1]]
