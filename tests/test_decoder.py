"""One loop over blocks: caches, padding, windows and stretched positions never change what is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.decoder_fixture import byte_tokenizer, known, random_decoder, tiny

import qkv
from qkv.errors import QkvError
from qkv.io.tokens.tokenizer import Tokenizer
from qkv.layers import Block, FeedForward, LayerNorm, MultiHeadAttention, RMSNorm, Rotary
from qkv.layers.attention import normed_heads
from qkv.ops import biases
from qkv.ops.scaling import DynamicNTK, LongRoPE, Yarn

EXACT: dict[str, float] = {"rtol": 0, "atol": 1e-11}  # float64 throughout
IDS = np.random.default_rng(2).integers(0, 258, 29)
NTK = Rotary(100.0, scaling=DynamicNTK(3.0, 11))
LONG = Rotary(100.0, scaling=LongRoPE((1.0, 1.5), (2.0, 5.0), 11, factor=3.0))
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "windows": {"windows": (5, None, 2)},
    "alibi": {"rotary": (), "bias": biases.alibi(6)},
    "parallel": {"parallel": True, "norm": "layer", "softcap": 2.0, "final_softcap": 3.0},
    "post": {"order": "post", "scale": 0.7, "embedding_scale": 3.0},
    "yarn": {"rotary": (Rotary(100.0, scaling=Yarn(4.0, 7)),) * 3},
    "some layers turn": {"rotary": (None, Rotary(50.0, "interleaved", rotary_dim=2), Rotary(9.0))},
}


# what is looked at


def test_paths_and_axes() -> None:
    with qkv.record() as trace:
        tiny("gemma2").logits(known("gemma2")["7.ids"])
    for path in (
        "embeddings.out", "layers.2.attention.weights", "layers.0.attention.capped", "layers.1.norm_1_out.out",
        "layers.2.resid_post", "norm.out", "out", "head.logits",
    ):  # fmt: skip
        assert path in trace
    assert trace["layers.2.attention.weights"].shape == (4, 7, 7)
    with qkv.record() as trace:
        tiny("qwen3")(known("qwen3")["7.ids"])
    assert trace["layers.1.attention.q_norm.out"].shape == (4, 7, 6)
    assert trace["layers.1.attention.k"].shape == (2, 7, 6)


def test_looking_changes_nothing_and_an_edit_does() -> None:
    model, ids = random_decoder(), IDS
    plain = model.logits(ids)
    with qkv.record():
        np.testing.assert_allclose(model.logits(ids), plain, **EXACT)
    with qkv.edit({"layers.1.attention.out": lambda out: np.zeros_like(out)}):
        assert np.abs(model.logits(ids) - plain).max() > 1e-3


def test_no_token_sees_what_comes_later() -> None:
    model = random_decoder(windows=(None, 4, None))
    changed = np.concatenate([IDS[:17], (IDS[17:] + 1) % 258])
    before, after = model.logits(IDS), model.logits(changed)
    np.testing.assert_array_equal(before[:17], after[:17])
    assert np.abs(before[17:] - after[17:]).max() > 1e-3


# caches and batches


@pytest.mark.parametrize("variant", VARIANTS)
@given(cuts=st.lists(st.integers(1, 28), unique=True).map(sorted))
def test_any_chunks_equal_one_pass(variant: str, cuts: list[int]) -> None:
    model = random_decoder(**VARIANTS[variant])
    caches = model.new_caches()
    parts = [model.logits(part, caches) for part in np.split(IDS, cuts)]
    np.testing.assert_allclose(np.concatenate(parts), model.logits(IDS), **EXACT)


@pytest.mark.parametrize("variant", [*VARIANTS, "dynamic", "long"])
def test_padding_on_the_left_changes_nothing(variant: str) -> None:
    stretched = {"dynamic": {"rotary": (NTK,) * 3}, "long": {"rotary": (LONG,) * 3}}
    model = random_decoder(**(VARIANTS | stretched)[variant])
    prompts = [IDS[:13], IDS[3:4], IDS, IDS[10:17]]
    for logits, prompt in zip(model.logits(prompts), prompts):
        np.testing.assert_allclose(logits, model.logits(prompt), **EXACT)
    for hidden, prompt in zip(model(prompts), prompts):
        np.testing.assert_allclose(hidden, model(prompt), **EXACT)


def test_a_window_forgets_what_no_later_token_can_see() -> None:
    model = random_decoder(windows=(5, None, 2))
    caches = model.new_caches()
    model.logits(IDS, caches)
    assert [cache.length for cache in caches] == [4, 29, 1]
    assert [cache.n_seen for cache in caches] == [29] * 3


@pytest.mark.parametrize(("rotary", "refused"), [(NTK, [13, 29]), (LONG, [13])])
def test_keys_that_were_turned_otherwise_are_never_mixed(rotary: Rotary, refused: list[int]) -> None:
    """Positions up to 11 are turned in one way, later ones in others: caches are refused there, never wrong."""
    model = random_decoder(rotary=(rotary,) * 3)
    caches = model.new_caches()
    parts = [model.logits(IDS[a:b], caches) for a, b in ((0, 4), (4, 11))]
    np.testing.assert_allclose(np.concatenate(parts), model.logits(IDS[:11]), **EXACT)
    for length in refused:
        with pytest.raises(QkvError, match=f"the caches hold 11 tokens, .* in a sequence of {length}"):
            model.logits(IDS[11:length], caches)
    fresh = model.new_caches()
    model.logits(IDS[:13], fresh)
    if rotary is LONG:
        model.logits(IDS[13:], fresh)
    else:
        with pytest.raises(QkvError, match="give the whole sequence to new caches"):
            model.logits(IDS[13:], fresh)


# the layers


def test_a_norm_of_all_heads_and_one_of_each_head() -> None:
    x = np.random.default_rng(0).normal(size=(5, 6))
    each, all_heads = RMSNorm(np.array([1.0, 2.0]), 0.0), RMSNorm(np.arange(1.0, 7.0), 0.0)
    per_head = x.reshape(5, 3, 2) / np.sqrt((x.reshape(5, 3, 2) ** 2).mean(-1, keepdims=True)) * [1, 2]
    np.testing.assert_allclose(normed_heads(x, 3, each), per_head.swapaxes(0, 1), atol=1e-12)
    whole = x / np.sqrt((x**2).mean(-1, keepdims=True)) * np.arange(1.0, 7.0)
    np.testing.assert_allclose(normed_heads(x, 3, all_heads), whole.reshape(5, 3, 2).swapaxes(0, 1), atol=1e-12)


def test_where_a_block_puts_its_norms() -> None:
    random = np.random.default_rng(1)
    attention, fed = MultiHeadAttention.init(6, 2, seed=1), FeedForward.init(6, 7, seed=2)
    a, b, c, d = (LayerNorm(random.normal(size=6), random.normal(size=6)) for _ in range(4))
    x = random.normal(size=(5, 6))
    mid = x + c(attention(a(x)))
    np.testing.assert_allclose(Block(attention, fed, a, b, "pre", c, d)(x), mid + d(fed(b(mid))), atol=1e-12)
    mid = x + c(attention(x))
    np.testing.assert_allclose(Block(attention, fed, None, None, "pre", c, d)(x), mid + d(fed(mid)), atol=1e-12)
    both = x + attention(a(x)) + fed(b(x))
    np.testing.assert_allclose(Block(attention, fed, a, b, parallel=True)(x), both, atol=1e-12)
    mid = a(x + attention(x))
    np.testing.assert_allclose(Block(attention, fed, a, b, "post")(x), b(mid + fed(mid)), atol=1e-12)


def test_a_layer_has_rules_of_its_own_and_a_call_comes_first() -> None:
    layer = MultiHeadAttention.init(6, 2, seed=1)
    x = np.random.default_rng(1).normal(size=(7, 6))
    narrow = MultiHeadAttention(layer.W_Q, layer.W_K, layer.W_V, layer.W_O, 2, rules={"window": 3, "scale": 0.2})
    np.testing.assert_array_equal(narrow(x), layer(x, window=3, scale=0.2))
    np.testing.assert_array_equal(narrow(x, window=2), layer(x, window=2, scale=0.2))


# what may be put in


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "there is no token in the text"),
        ([3, 258], "token ids must lie from 0 to 257, but 258 came"),
        ([3] * 62, "the text has 62 tokens, but the model takes at most 61"),
        ([[3], []], "there is no token in text 1 of the list"),
        (None, "NoneType came"),
        ("text", "no such file|has no tokenizer"),
    ],
)
def test_a_wrong_input_is_one_line(given: Any, message: str) -> None:
    with pytest.raises(QkvError, match=message) as caught:
        random_decoder().logits(given)
    assert "\n" not in str(caught.value)


def test_the_limit_counts_what_the_caches_hold() -> None:
    model = random_decoder()
    caches = model.new_caches()
    model.logits([3] * 60, caches)
    model.logits([3], caches)
    with pytest.raises(QkvError, match="the text has 1 tokens, but the model takes at most 0"):
        model.logits([3], caches)
    with pytest.raises(QkvError, match="one sequence, for it has caches"):
        model.logits([[3], [4]], model.new_caches())


def test_no_limit_where_there_are_no_positions() -> None:
    assert tiny("bloom").logits([3] * 100).shape == (100, 67)


# see


@pytest.mark.parametrize("family", ["gemma2", "bloom", "gpt2", "llama"])
def test_see_shows_what_a_decoder_computed(family: str, tmp_path: Path) -> None:
    model = random_decoder(**{
        "gemma2": {"windows": (3, None, 3), "softcap": 2.0, "scale": 0.7}, "gpt2": {"rotary": ()}, "llama": {},
        "bloom": {"rotary": (), "bias": biases.alibi(6)},
    }[family])  # fmt: skip
    model.tokenizer = byte_tokenizer(tmp_path)
    seen = qkv.see(model, "abcdefg", layer=0, head=3, lang="en")
    with qkv.record() as trace:
        model("abcdefg")
    np.testing.assert_array_equal(seen.weights[0], trace["layers.0.attention.weights"])
    text = str(seen)
    assert "Causal mask" in text
    assert ("looks at no more than the 3 newest" in text) == (family == "gemma2")
    assert ("multiplied by 0.7;" in text) == (family == "gemma2")
    assert ("multiplied by 0.5;" in text) == (family == "bloom")
    assert ("Every score is divided" in text) == (family in ("gpt2", "llama"))
    assert "weights" in qkv.see(model, "远方", lang="zh").to_json()


def test_the_entropy_counts_only_what_may_be_seen(tmp_path: Path) -> None:
    """A head whose queries are all 0 looks at every visible key alike."""
    model = random_decoder(windows=(3, None, None))
    model.layers[0].attention.W_Q = model.layers[0].attention.W_Q * 0
    model.tokenizer = byte_tokenizer(tmp_path)
    table = qkv.see(model, "abcdefg", layer=0).overview[1]
    assert [round(row[2], 6) for row in table.rows] == [1.0] * 6
    assert all(not row[3].startswith("0 ") for row in table.rows)  # the first token sees itself alone
    assert len(table.rows[0]) == 5
    model.tokenizer = WithStart(tmp_path / "tokenizer.json")
    table = qkv.see(model, "abcdefg", layer=0).overview[1]
    assert all(not row[5].startswith("1 ") for row in table.rows)  # of the text's own, the first sees itself alone


class WithStart(Tokenizer):
    """Puts a special token before the text."""

    def encode(self, text: str, *, special_tokens: bool = True, max_tokens: int | None = None) -> list[int]:
        return [256] * special_tokens + super().encode(text)
