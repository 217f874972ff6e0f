"""What a head does, as numbers: every definition by hand, on models, and the same for a list as for its members."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.decoder_fixture import byte_tokenizer, random_decoder, tiny
from tests.gguf_fixture import smollm2, smollm2_file
from tests.models_fixture import minilm
from tests.models_fixture import tiny as tiny_bert

import qkv
from qkv.cli.commands import qkv as command
from qkv.errors import ArgumentError
from qkv.views import heads_of
from qkv.views.heads_text import heads_text
from qkv.views.screen import Screen
from qkv.walkthrough.patterns import PATTERNS, Look, chance, contributions, entropy, pattern_score
from qkv.walkthrough.probing import repeated

CAUSAL = np.tri(5, dtype=bool)
EVERY = np.ones((5, 5), bool)
IDS = [7, 8, 9, 8, 9]
W = np.array([
    [1.0, 0.0, 0.0, 0.0, 0.0],
    [0.75, 0.25, 0.0, 0.0, 0.0],
    [0.5, 0.25, 0.25, 0.0, 0.0],
    [0.125, 0.5, 0.25, 0.125, 0.0],
    [0.0, 0.125, 0.5, 0.25, 0.125],
])  # fmt: skip


def scores(visible: np.ndarray, own: slice = slice(None), w: np.ndarray = W) -> dict[str, float]:
    look = Look.at(IDS, visible, own)
    return {name: float(pattern_score(w, targets)) for name, targets in look.targets.items()}


def test_patterns_of_a_decoder_by_hand() -> None:
    """Row 0 sees one key and does not count; 8 at 3 is there at 1, and came before 2; 9 at 4 at 2, before 3."""
    found = scores(CAUSAL)
    assert found["previous"] == (0.75 + 0.25 + 0.25 + 0.25) / 4
    assert found["self"] == (0.25 + 0.25 + 0.125 + 0.125) / 4
    assert math.isnan(found["next"])
    assert found["first"] == (0.75 + 0.5 + 0.125 + 0.0) / 4
    assert found["duplicate"] == (0.5 + 0.5) / 2
    assert found["induction"] == (0.25 + 0.25) / 2


def test_patterns_of_an_encoder_by_hand() -> None:
    """Every row counts, and the other token may come later: 8 at 1 looks at 3, and at 4, which comes after it."""
    w = np.arange(25.0).reshape(5, 5) / 100
    found = scores(EVERY, w=w)
    assert found["previous"] == pytest.approx((0.05 + 0.11 + 0.17 + 0.23) / 4)
    assert found["next"] == pytest.approx((0.01 + 0.07 + 0.13 + 0.19) / 4)
    assert found["self"] == pytest.approx((0.0 + 0.06 + 0.12 + 0.18 + 0.24) / 5)
    assert found["first"] == pytest.approx((0.0 + 0.05 + 0.1 + 0.15 + 0.2) / 5)
    assert found["duplicate"] == pytest.approx((0.08 + 0.14 + 0.16 + 0.22) / 4)
    assert found["induction"] == pytest.approx((0.09 + 0.17 + 0.23) / 3)  # after 9 at 4 comes nothing


def test_without_what_stands_around_a_text() -> None:
    """Key and query 0 are gone; row 1 now sees a single key."""
    found = scores(CAUSAL, slice(1, None))
    assert found["previous"] == (0.25 + 0.25 + 0.25) / 3
    assert found["first"] == (0.25 + 0.5 + 0.125) / 3
    nats, _ = entropy(W, Look.at(IDS, CAUSAL, slice(1, None)).visible)
    last = -(0.125 * math.log(0.125) * 2 + 0.5 * math.log(0.5) + 0.25 * math.log(0.25))
    third = -sum(p * math.log(p) for p in (4 / 7, 2 / 7, 1 / 7))  # 0.5, 0.25, 0.125, made to sum to 1
    assert float(nats) == pytest.approx((math.log(2) + third + last) / 3)


def test_no_repeat_is_not_zero() -> None:
    look = Look.at([1, 2, 3, 4, 5], CAUSAL)
    assert math.isnan(pattern_score(W, look.targets["duplicate"]))
    assert math.isnan(pattern_score(W, look.targets["induction"]))


def test_a_token_twice_in_a_row_is_no_induction_to_itself() -> None:
    look = Look.at([7, 8, 8], np.tri(3, dtype=bool))
    assert not look.targets["induction"].any()
    assert np.argwhere(look.targets["duplicate"]).tolist() == [[2, 1]]


def test_induction_on_a_repeated_sequence_is_the_key_one_period_back_and_one_on() -> None:
    n = 7
    ids = [0, *range(10, 10 + n), *range(10, 10 + n)]
    look = Look.at(ids, np.tri(len(ids), dtype=bool))
    second = range(1 + n, 1 + 2 * n)
    assert np.argwhere(look.targets["induction"]).tolist() == [[i, i - n + 1] for i in second]
    assert np.argwhere(look.targets["duplicate"]).tolist() == [[i, i - n] for i in second]


def test_entropy_by_hand() -> None:
    nats, ratio = entropy(W, CAUSAL)
    rows = [-sum(p * math.log(p) for p in row if p) for row in W.tolist()]
    assert float(nats) == pytest.approx(sum(rows[1:]) / 4)
    assert float(ratio) == pytest.approx(sum(h / math.log(n) for h, n in zip(rows[1:], (2, 3, 4, 5))) / 4)
    even = CAUSAL / CAUSAL.sum(axis=1, keepdims=True)
    assert float(entropy(even, CAUSAL)[1]) == pytest.approx(1)
    assert np.isnan(entropy(W[:1, :1], CAUSAL[:1, :1])).all()


def test_padding_counts_nowhere() -> None:
    """Two keys of padding on the right, and two rows that see nothing."""
    wide, seen = np.zeros((7, 7)), np.zeros((7, 7), bool)
    wide[:5, :5], seen[:5, :5] = W, CAUSAL
    wide[5:] = np.nan
    look = Look.at([*IDS, 8, 8], seen)
    for name, targets in Look.at(IDS, CAUSAL).targets.items():
        np.testing.assert_equal(pattern_score(wide, look.targets[name]), pattern_score(W, targets))
    np.testing.assert_array_equal(entropy(wide, seen), entropy(W, CAUSAL))


def test_an_even_head_scores_what_chance_says() -> None:
    look = Look.at(IDS, CAUSAL)
    even = CAUSAL / CAUSAL.sum(axis=1, keepdims=True)
    assert {n: chance(look, n) for n in ("previous", "first", "duplicate")} == pytest.approx({
        "previous": (1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 4, "first": (1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 4,
        "duplicate": (1 / 4 + 1 / 5) / 2,
    })  # fmt: skip
    assert pattern_score(even, look.targets["previous"]) == pytest.approx(chance(look, "previous"))


def test_contributions_are_norms_of_what_each_head_adds_for_each_key() -> None:
    rng = np.random.default_rng(4)
    weights, v, W_O = rng.random((6, 5, 5)), rng.normal(size=(2, 5, 3)), rng.normal(size=(18, 7))
    found = contributions(weights, v, W_O)
    for h in range(6):
        for i in range(5):
            norms = [np.linalg.norm(weights[h, i, j] * v[h // 3, j] @ W_O[3 * h : 3 * h + 3]) for j in range(5)]
            np.testing.assert_allclose(found[h, i], np.array(norms) / sum(norms))


def test_nothing_is_changed() -> None:
    arrays = [W.copy(), CAUSAL.copy(), np.ones((1, 5, 2)), np.ones((2, 3))]
    before = [a.copy() for a in arrays]
    look = Look.at(IDS, arrays[1])
    entropy(arrays[0], look.visible), contributions(arrays[0][None], arrays[2], arrays[3])
    for a, b in zip(arrays, before):
        np.testing.assert_array_equal(a, b)


# on models


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2", "bloom", "qwen3"])
def test_the_heads_of_a_decoder(family: str) -> None:
    model, ids = tiny(family), [5, 9, 5, 9, 3, 8, 5]
    heads = heads_of(model, ids)
    with qkv.record() as trace:
        model(ids)
    for layer in range(3):
        weights = trace[f"layers.{layer}.attention.weights"]
        assert heads.scores.entropy.shape == (3, len(weights))
        for head, w in enumerate(weights):
            found = np.mean([w[i, i - 1] for i in range(1, 7)])
            assert heads.scores.patterns["previous"][layer, head] == pytest.approx(found, rel=1e-6)
    assert np.isnan(heads.scores.patterns["next"]).all()


def test_latent_attention_and_sinks() -> None:
    for family in ("deepseek_v3", "gpt_oss"):
        heads = heads_of(tiny(family), [5, 9, 5, 9, 3, 8, 5])
        assert np.isfinite(heads.scores.by_value["first"]).all()
        assert (heads.scores.entropy <= 1 + 1e-9).all()


def test_a_window_hides_what_it_hides() -> None:
    """Within a window of 2 the first key is not there for later queries, and chance knows it."""
    model = random_decoder(windows=(2, None, 2))
    heads = heads_of(model, [5, 9, 5, 9, 3, 8, 5])
    assert heads.scores.chance["first"][0] == 0.5  # query 1 alone
    assert heads.scores.chance["first"][1] < 0.3


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_a_list_is_the_mean_of_its_members(family: str) -> None:
    model: Any = tiny_bert() if family == "bert" else tiny(family)
    given = [[5, 9, 5, 9, 3], [1, 2, 3], [8, 8, 7, 6, 5, 4, 3]]
    both = heads_of(model, given).scores
    singles = [heads_of(model, one).scores for one in given]
    for name in PATTERNS:
        parts = [s.patterns[name] for s in singles if not np.isnan(s.patterns[name]).any()]
        expected = np.mean(parts, axis=0) if parts else np.full(both.entropy.shape, np.nan)
        np.testing.assert_allclose(both.patterns[name], expected)
    np.testing.assert_allclose(both.nats, np.mean([s.nats for s in singles], axis=0))
    assert not np.isnan(both.patterns["duplicate"]).any()


def test_the_probe_repeats_random_tokens() -> None:
    model = tiny("llama")
    ids = repeated(model)
    assert len(ids) == 40  # twice 20, for it has 41 positions
    np.testing.assert_array_equal(ids[:20], ids[20:])
    assert len(set(ids.tolist())) == 20
    assert not np.array_equal(ids, repeated(model, seed=1))
    np.testing.assert_array_equal(ids, repeated(model))
    assert len(heads_of(model, length=3).ids[0]) == 6
    with pytest.raises(ArgumentError, match="length must be an integer from 2 to 20, but it is 21"):
        repeated(model, 21)


def test_wrong_calls_are_one_line() -> None:
    model = tiny("llama")
    with pytest.raises(ArgumentError, match="probe cannot be given together with a text"):
        heads_of(model, [1, 2], probe="repeated")
    with pytest.raises(ArgumentError, match="by must be one of previous"):
        heads_of(model, by="nothing")
    with pytest.raises(ArgumentError, match="top must be an integer of at least 1"):
        heads_of(model, top=0)
    with pytest.raises(ArgumentError, match="an encoder or a decoder of text, and the model is of another kind"):
        heads_of("model")


def test_an_encoder_between_cls_and_sep() -> None:
    heads = heads_of(minilm(), "the cat sat on the mat")
    assert heads.around == 2
    assert heads.tokens[0][0] == "[CLS]"
    assert (heads.scores.patterns["first"] != heads.own.patterns["first"]).any()
    assert not np.isnan(heads.own.patterns["duplicate"]).any()
    assert str(heads) != str(heads_of(minilm(), "the cat sat on the mat", within=True))
    probe = heads_of(minilm())
    assert [probe.ids[0][i] for i in (0, -1)] == [101, 102]
    assert len(probe.ids[0]) == 50


def test_induction_heads_of_a_real_model() -> None:
    heads = heads_of(smollm2(), by="induction", top=3)
    for layer, head in heads.ranked():
        assert heads.scores.patterns["induction"][layer, head] > 0.7
        assert heads.scores.name(layer, head) == "induction"
        assert layer > 5  # it builds on what a layer before has found
    previous = heads_of(smollm2(), "The quick brown fox jumps over it.", by="previous", top=1)
    assert previous.scores.patterns["previous"][previous.ranked()[0]] > 0.7


# as text


def test_text_fits_and_says_what_does_not_apply() -> None:
    heads = heads_of(tiny("llama"), [1, 2, 3], lang="en")
    for cells in (30, 60, 100):
        text = heads_text(heads, Screen(width=cells))
        assert max(map(len, text.splitlines())) <= cells
    assert "n/a" in heads_text(heads, Screen(width=120))
    assert "The means over 2 texts." in str(heads_of(tiny("llama"), [[1, 2, 3], [4, 5]], lang="en"))
    assert "归纳" in heads_text(heads_of(tiny("llama"), lang="zh"), Screen(width=120))


def test_from_the_command_line() -> None:
    options = ["--model", str(smollm2_file())]
    run = CliRunner().invoke(
        command("en"), ["heads", *options, "--by", "induction", "--top", "2"], env={"COLUMNS": "120"}
    )
    assert run.exit_code == 0, run.output
    assert run.output.count(" induction ") == 3
    run = CliRunner().invoke(command("en"), ["heads", "A", "rose", "is", "a", "rose", *options, "--json"])
    found = json.loads(run.output)
    assert found["tokens"] == [["A", "Ġrose", "Ġis", "Ġa", "Ġrose"]]
    assert np.array(found["scores"]["patterns"]["duplicate"]).shape == (30, 9)
    assert set(found["scores"]["patterns"]) == set(PATTERNS)


def test_bytes_as_text(tmp_path: Path) -> None:
    model = random_decoder()
    model.tokenizer = byte_tokenizer(tmp_path)
    heads = heads_of(model, "abcabc")
    assert heads.around == 0
    assert heads.tokens == [list("abcabc")]
