"""The parts of a transformer against the same thing written out in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import qkv
from qkv import masks
from qkv.errors import ArgumentError, DtypeError, QkvError, ShapeError
from qkv.layers import (
    Block,
    DecoderBlock,
    FeedForward,
    GatedFeedForward,
    KVCache,
    LatentAttention,
    LayerNorm,
    MultiHeadAttention,
    RMSNorm,
    Rotary,
    SelfAttention,
    merge_heads,
    split_heads,
    xavier,
)

rng = np.random.default_rng(7)
erf = np.vectorize(math.erf)


def close(x: Any, y: Any) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)


def plain_heads(
    layer: MultiHeadAttention, x: np.ndarray, context: np.ndarray | None = None, allowed: Any = True
) -> np.ndarray:
    """Multi-head attention of one sequence, head after head."""
    context = x if context is None else context
    b_Q, b_K, b_V, b_O = (0.0 if b is None else b for b in (layer.b_Q, layer.b_K, layer.b_V, layer.b_O))
    Q, K, V = x @ layer.W_Q + b_Q, context @ layer.W_K + b_K, context @ layer.W_V + b_V
    n_kv = layer.n_kv_heads or layer.n_heads
    d_k, d_v = Q.shape[1] // layer.n_heads, V.shape[1] // n_kv
    outs = []
    for h in range(layer.n_heads):
        g = h // (layer.n_heads // n_kv)
        q, k, v = Q[:, h * d_k : (h + 1) * d_k], K[:, g * d_k : (g + 1) * d_k], V[:, g * d_v : (g + 1) * d_v]
        scores = np.where(allowed, q @ k.T / np.sqrt(d_k), -np.inf)
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        outs.append(e / e.sum(axis=1, keepdims=True) @ v)
    return np.hstack(outs) @ layer.W_O + b_O


def plain_norm(part: LayerNorm | RMSNorm, x: np.ndarray) -> np.ndarray:
    if isinstance(part, RMSNorm):
        return x / np.sqrt((x**2).mean(1, keepdims=True) + part.eps) * part.gamma
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + part.eps) * part.gamma + part.beta


def plain_feed(part: FeedForward, x: np.ndarray) -> np.ndarray:
    hidden = x @ part.W_1 + part.b_1
    return hidden * (1 + erf(hidden / np.sqrt(2))) / 2 @ part.W_2 + part.b_2


def unsettled(part: Any) -> Any:
    """The same part with norms and biases that are not 1 and 0, so that none can be forgotten."""
    for name, value in vars(part).items():
        if name in ("gamma", "beta", "b_1", "b_2"):
            setattr(part, name, rng.normal(size=value.shape))
        elif hasattr(value, "__dict__") and not isinstance(value, np.ndarray | Rotary):
            unsettled(value)
        elif name in ("b_Q", "b_K", "b_V", "b_O"):
            setattr(part, name, rng.normal(size=getattr(part, "W" + name[1:]).shape[1]))
    return part


causal = np.tri(5, dtype=bool)


# attention


def test_a_single_head() -> None:
    head, x = SelfAttention.init(7, 3, 2, seed=1), rng.normal(size=(5, 7))
    scores = x @ head.W_Q @ (x @ head.W_K).T / np.sqrt(3)
    e = np.exp(scores)
    close(head(x), e / e.sum(1, keepdims=True) @ x @ head.W_V)
    assert SelfAttention.init(7, 3).W_V.shape == (7, 3), "d_v is d_k by default"


def test_a_single_head_over_a_batch() -> None:
    head, x = SelfAttention.init(7, 3, 2, seed=1), rng.normal(size=(2, 3, 5, 7))
    found = head(x, causal=True)
    assert found.shape == (2, 3, 5, 2)
    for b in np.ndindex(2, 3):
        close(found[b], head(x[b], mask=causal))


@pytest.mark.parametrize("n_kv_heads", [None, 1, 2, 4])
def test_many_heads(n_kv_heads: int | None) -> None:
    layer = unsettled(MultiHeadAttention.init(12, 4, n_kv_heads=n_kv_heads, d_k=5, d_v=2, seed=1))
    x = rng.normal(size=(3, 5, 12))
    found = layer(x, causal=True)
    for b in range(3):
        close(found[b], plain_heads(layer, x[b], allowed=causal))


def test_cross_attention() -> None:
    layer = unsettled(MultiHeadAttention.init(12, 3, d_context=7, seed=2))
    x, context = rng.normal(size=(2, 5, 12)), rng.normal(size=(2, 11, 7))
    allowed = np.array([[n < size for n in range(11)] for size in (4, 9)])
    found = layer(x, context, mask=masks.padding([4, 9]))
    for b in range(2):
        close(found[b], plain_heads(layer, x[b], context[b], allowed[b]))


def test_a_layer_from_its_heads() -> None:
    heads = [SelfAttention.init(12, 3, 2, seed=n) for n in range(4)]
    W_O, x = rng.normal(size=(8, 12)), rng.normal(size=(5, 12))
    layer = MultiHeadAttention.from_heads(heads, W_O)
    assert layer.n_heads == 4
    close(layer(x, causal=True), np.hstack([head(x, causal=True) for head in heads]) @ W_O)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rotary(layout: str) -> None:
    layer = MultiHeadAttention.init(12, 3, rotary=Rotary(100.0, layout, 2), seed=1)
    x = rng.normal(size=(2, 5, 12))
    q, k, v = (split_heads(x @ W, 3) for W in (layer.W_Q, layer.W_K, layer.W_V))

    def turned(y: np.ndarray, positions: Any) -> np.ndarray:
        return qkv.rope(y, positions, base=100.0, layout=layout, rotary_dim=2)

    at = np.array([[0, 1, 2, 3, 4], [9, 7, 5, 2, 0]])
    expected = merge_heads(qkv.attention(turned(q, at), turned(k, at), v)) @ layer.W_O
    close(layer(x, positions=at), expected)
    close(layer(x)[0], expected[0])
    assert np.abs(layer(x)[1] - expected[1]).max() > 1e-3


def test_heads_are_runs_of_columns() -> None:
    x = np.arange(24).reshape(2, 12)
    assert split_heads(x, 3).shape == (3, 2, 4)
    assert split_heads(x, 3)[1].tolist() == [[4, 5, 6, 7], [16, 17, 18, 19]]
    y = rng.normal(size=(2, 3, 5, 7))
    assert merge_heads(y).shape == (2, 5, 21)
    np.testing.assert_array_equal(merge_heads(y)[1, 2], np.concatenate([y[1, h, 2] for h in range(3)]))
    with pytest.raises(ShapeError, match=r"^the width=12 must be a multiple of n_heads=5$"):
        split_heads(x, 5)


@pytest.mark.parametrize("d_rope", [0, 4])
def test_latent_attention(d_rope: int) -> None:
    layer = LatentAttention.init(12, 3, 5, d_k=7, d_rope=d_rope, seed=4)
    x = rng.normal(size=(5, 12))
    outs = []
    for h in range(3):
        columns = slice(7 * h, 7 * h + 7)
        q, k = x @ layer.W_Q[:, columns], x @ layer.W_DKV @ layer.W_UK[:, columns]
        if layer.W_QR is not None and layer.W_KR is not None:
            q = np.hstack([q, qkv.rope(x @ layer.W_QR[:, d_rope * h : d_rope * (h + 1)], range(5))])
            k = np.hstack([k, qkv.rope(x @ layer.W_KR, range(5))])
        outs.append(qkv.attention(q, k, x @ layer.W_DKV @ layer.W_UV[:, columns], mask=causal))
    close(layer(x, causal=True), np.hstack(outs) @ layer.W_O)


# feed-forward and norms


@pytest.mark.parametrize(
    ("name", "bend"),
    [
        ("gelu", lambda x: x * (1 + erf(x / np.sqrt(2))) / 2),
        ("gelu_tanh", lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2),
        ("relu", lambda x: x * (x > 0)),
        ("silu", lambda x: x / (1 + np.exp(-x))),
    ],
)
def test_feed_forward(name: str, bend: Any) -> None:
    x = rng.normal(size=(2, 5, 7))
    part = unsettled(FeedForward.init(7, 11, seed=1, activation=name))
    close(part(x), bend(x @ part.W_1 + part.b_1) @ part.W_2 + part.b_2)
    bare = FeedForward(part.W_1, part.W_2, activation=name)
    close(bare(x), bend(x @ part.W_1) @ part.W_2)
    gated = GatedFeedForward.init(7, 11, seed=1, activation=name)
    close(gated(x), (bend(x @ gated.W_gate) * (x @ gated.W_up)) @ gated.W_down)


def test_gated_feed_forward_is_the_op_of_the_paper() -> None:
    x, part = rng.normal(size=(5, 7)), GatedFeedForward.init(7, 11)
    close(part(x), qkv.ops.swiglu(x, part.W_gate, part.W_up, part.W_down))
    part.activation = "gelu"
    close(part(x), qkv.ops.geglu(x, part.W_gate, part.W_up, part.W_down))


def test_norms() -> None:
    x = rng.normal(2, 3, size=(5, 7))
    for part in (unsettled(LayerNorm.init(7, eps=0.3)), unsettled(RMSNorm.init(7, eps=0.3))):
        close(part(x), plain_norm(part, x))
    close(LayerNorm.init(7)(x).mean(1), np.zeros(5))
    bare = LayerNorm(np.full(7, 2.0))
    close(bare(x), 2 * LayerNorm.init(7)(x))


# blocks


@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_block(order: str) -> None:
    block, x = unsettled(Block.init(12, 3, 17, order=order, seed=3)), rng.normal(size=(5, 12))
    if order == "post":
        y = plain_norm(block.norm_1, x + plain_heads(block.attention, x, allowed=causal))
        y = plain_norm(block.norm_2, y + plain_feed(block.feed_forward, y))
    else:
        y = x + plain_heads(block.attention, plain_norm(block.norm_1, x), allowed=causal)
        y = y + plain_feed(block.feed_forward, plain_norm(block.norm_2, y))
    close(block(x, causal=True), y)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_decoder_block(order: str) -> None:
    block = unsettled(DecoderBlock.init(12, 3, 17, order=order, seed=3))
    x, context, known = rng.normal(size=(5, 12)), rng.normal(size=(7, 12)), np.arange(7) < 4
    if order == "post":
        y = plain_norm(block.norm_1, x + plain_heads(block.self_attention, x, allowed=causal))
        y = plain_norm(block.norm_2, y + plain_heads(block.cross_attention, y, context, known))
        y = plain_norm(block.norm_3, y + plain_feed(block.feed_forward, y))
    else:
        y = x + plain_heads(block.self_attention, plain_norm(block.norm_1, x), allowed=causal)
        y = y + plain_heads(block.cross_attention, plain_norm(block.norm_2, y), context, known)
        y = y + plain_feed(block.feed_forward, plain_norm(block.norm_3, y))
    close(block(x, context, context_mask=known, causal=True), y)


def test_blocks_with_other_parts() -> None:
    block = Block(
        LatentAttention.init(12, 3, 5, d_rope=2), GatedFeedForward.init(12, 17), RMSNorm.init(12), RMSNorm.init(12)
    )
    x = rng.normal(size=(2, 9, 12))
    y = x + block.attention(block.norm_1(x), causal=True)
    close(block(x, causal=True), y + block.feed_forward(block.norm_2(y)))


@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_block_token_by_token(order: str) -> None:
    block, cache, x = Block.init(12, 3, 17, order=order), KVCache(3), rng.normal(size=(2, 9, 12))
    steps = [block(x[:, n : n + 1], cache=cache, causal=True, window=3) for n in range(9)]
    close(np.concatenate(steps, axis=1), block(x, causal=True, window=3))


def test_an_order_that_is_none() -> None:
    for kind in (Block, DecoderBlock):
        with pytest.raises(ArgumentError, match=r"^order must be one of pre, post, but it is 'sandwich'$"):
            kind.init(12, 3, 17, order="sandwich")


def test_other_wrong_calls() -> None:
    for kind in (MultiHeadAttention.init, lambda d, n: LatentAttention.init(d, n, 5)):
        with pytest.raises(ArgumentError, match=r"^d_model=12 must be a multiple of n_heads=5$"):
            kind(12, 5)
    with pytest.raises(
        ArgumentError, match=r"^activation must be one of gelu, gelu_tanh, relu, silu, quick_gelu, but it is 'selu'$"
    ):
        FeedForward.init(3, 5, activation="selu")(np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"^q has 3 heads, which is no multiple of the 2 heads of k and v$"):
        MultiHeadAttention.init(12, 3, n_kv_heads=2)(np.ones((2, 12)))
    with pytest.raises(ShapeError, match=r"^gamma must have shape \(5,\), but its shape is \(3,\)$"):
        LayerNorm.init(3)(np.ones((2, 5)))


PLAIN = np.ones((2, 12))
TWO = "must have at least 2 axes"
NUMBERS = "must be float16, bfloat16, float32, float64 or integer, but its dtype is"
LEAST = "must be an integer of at least 1, but it is"
LAYERS: dict[str, Any] = {
    "SelfAttention": SelfAttention.init(12, 5), "MultiHeadAttention": MultiHeadAttention.init(12, 3),
    "LatentAttention": LatentAttention.init(12, 3, 5), "Block": Block.init(12, 3, 7),
    "DecoderBlock": lambda x: DecoderBlock.init(12, 3, 7)(x, PLAIN),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_wants_rows_of_numbers(name: str) -> None:
    layer = LAYERS[name]
    for x, kind, line in (
        (None, DtypeError, f"x {NUMBERS} object"), ("words", DtypeError, f"x {NUMBERS} <U5"),
        (PLAIN + 1j, DtypeError, f"x {NUMBERS} complex128"),
        (PLAIN[0], ShapeError, f"x {TWO} (..., T, d_model), but its shape is (12,)"),
        (np.ma.masked_array(PLAIN), DtypeError, "x is a masked array, whose mask would be ignored; "
         "give x.data, or x.filled(...)"),
    ):  # fmt: skip
        with pytest.raises(kind) as error:
            layer(x)
        assert str(error.value) == line
    close(layer(PLAIN.tolist()), layer(PLAIN))


def test_a_context_is_no_less() -> None:
    with pytest.raises(DtypeError, match=rf"^context {NUMBERS} object$"):
        DecoderBlock.init(12, 3, 7)(PLAIN, None)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=rf"^context {TWO} \(..., Tk, d_context\), but its shape is \(12,\)$"):
        MultiHeadAttention.init(12, 3)(PLAIN, PLAIN[0])
    for part in (FeedForward.init(12, 5), GatedFeedForward.init(12, 5)):
        with pytest.raises(DtypeError, match=rf"^x {NUMBERS} object$"):
            part(None)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: MultiHeadAttention.init(12, 0), f"n_heads {LEAST} 0"),
        (lambda: MultiHeadAttention.init(12, -3), f"n_heads {LEAST} -3"),
        (lambda: MultiHeadAttention.init(12, 3, n_kv_heads=0), f"n_kv_heads {LEAST} 0"),
        (lambda: MultiHeadAttention.init(12.0, 3), f"d_model {LEAST} 12.0"),
        (lambda: MultiHeadAttention.init(12, 3, d_k=-1), f"d_k {LEAST} -1"),
        (lambda: MultiHeadAttention.init(12, 3, d_context="a"), f"d_context {LEAST} 'a'"),
        (lambda: MultiHeadAttention.from_heads([], PLAIN), f"heads {LEAST} 0"),
        (lambda: SelfAttention.init(-4, 2), f"d_model {LEAST} -4"),
        (lambda: SelfAttention.init(4, 2, 2.5), f"d_v {LEAST} 2.5"),
        (lambda: LatentAttention.init(12, 0, 5), f"n_heads {LEAST} 0"),
        (lambda: LatentAttention.init(12, 3, 0), f"d_latent {LEAST} 0"),
        (lambda: LatentAttention.init(12, 3, 5, d_rope=-2), "d_rope must be an integer of at least 0, but it is -2"),
        (lambda: FeedForward.init(4, -1), f"d_ff {LEAST} -1"),
        (lambda: GatedFeedForward.init(True, 3), f"d_model {LEAST} True"),
        (lambda: Block.init(12, 0, 7), f"n_heads {LEAST} 0"),
        (lambda: DecoderBlock.init(12, 3, "a"), f"d_ff {LEAST} 'a'"),
        (lambda: LayerNorm.init(-1), f"d_model {LEAST} -1"),
        (lambda: RMSNorm.init(2.5), f"d_model {LEAST} 2.5"),
        (lambda: split_heads(PLAIN, 0), "the width=12 must be a multiple of n_heads=0"),
    ],
)  # fmt: skip
def test_sizes_are_integers_of_at_least_one(make: Any, line: str) -> None:
    with pytest.raises(QkvError) as error:
        make()
    assert str(error.value) == line


@pytest.mark.parametrize("seed", [-1, 1.5, "a"])
@pytest.mark.parametrize(
    "make",
    [
        lambda seed: SelfAttention.init(7, 3, seed=seed), lambda seed: MultiHeadAttention.init(12, 3, seed=seed),
        lambda seed: LatentAttention.init(12, 3, 5, seed=seed), lambda seed: FeedForward.init(7, 3, seed),
        lambda seed: GatedFeedForward.init(7, 3, seed), lambda seed: Block.init(12, 3, 7, seed=seed),
        lambda seed: DecoderBlock.init(12, 3, 7, seed=seed),
    ],
)  # fmt: skip
def test_a_wrong_seed(make: Any, seed: Any) -> None:
    with pytest.raises(ArgumentError) as error:
        make(seed)
    assert str(error.value) == (
        f"seed must be an integer of at least 0, or a numpy.random.Generator, but it is {seed!r}"
    )


# how weights are drawn


def test_the_order_in_which_weights_are_drawn() -> None:
    draw = np.random.default_rng(5)
    head = SelfAttention.init(7, 3, 2, seed=5)
    for W, shape in ((head.W_Q, (7, 3)), (head.W_K, (7, 3)), (head.W_V, (7, 2))):
        np.testing.assert_array_equal(W, draw.normal(0, np.sqrt(2 / sum(shape)), shape))
    layer = MultiHeadAttention.init(12, 4, n_kv_heads=2, d_context=7, seed=draw)
    again = np.random.default_rng(5)
    again.normal(size=7 * 8)
    for W, shape in ((layer.W_Q, (12, 12)), (layer.W_K, (7, 6)), (layer.W_V, (7, 6)), (layer.W_O, (12, 12))):
        np.testing.assert_array_equal(W, again.normal(0, np.sqrt(2 / sum(shape)), shape))


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: SelfAttention.init(7, 3, seed=seed), lambda seed: MultiHeadAttention.init(12, 3, seed=seed),
        lambda seed: LatentAttention.init(12, 3, 5, d_rope=2, seed=seed), lambda seed: FeedForward.init(7, 3, seed),
        lambda seed: GatedFeedForward.init(7, 3, seed), lambda seed: Block.init(12, 3, 7, seed=seed),
        lambda seed: DecoderBlock.init(12, 3, 7, seed=seed),
    ],
)  # fmt: skip
def test_a_seed_fixes_every_weight(make: Any) -> None:
    def weights(part: Any) -> list[np.ndarray]:
        inner = [value for value in vars(part).values() if value is not None]
        nested = [w for value in inner if hasattr(value, "__dict__") for w in weights(value)]
        return [value for value in inner if isinstance(value, np.ndarray)] + nested

    one, same, other = weights(make(3)), weights(make(3)), weights(make(4))
    for a, b in zip(one, same):
        np.testing.assert_array_equal(a, b)
    drawn = [(a, b) for a, b in zip(one, other) if len(np.unique(a)) > 1]
    assert drawn
    assert all((a != b).all() for a, b in drawn)
    flat = [a.ravel()[:4].tolist() for a, _ in drawn]
    assert len({tuple(a) for a in flat}) == len(flat), "no two matrices are the same draw"


@pytest.mark.parametrize(("d_in", "d_out"), [(300, 500), (500, 100)])
def test_the_spread_of_xavier(d_in: int, d_out: int) -> None:
    W = xavier(np.random.default_rng(0), d_in, d_out)
    assert W.shape == (d_in, d_out)
    # The standard error of a standard deviation is sigma / sqrt(2 n): four of them.
    sigma = np.sqrt(2 / (d_in + d_out))
    assert abs(W.std() - sigma) < 4 * sigma / np.sqrt(2 * W.size)
    assert abs(W.mean()) < 4 * sigma / np.sqrt(W.size)


def test_global_seeds_are_left_alone() -> None:
    np.random.seed(3)
    before = np.random.get_state()[1].tobytes()
    Block.init(12, 3, 17, seed=0)
    assert np.random.get_state()[1].tobytes() == before


def test_no_layer_writes_to_its_input_or_weights() -> None:
    block, x, context = DecoderBlock.init(12, 3, 7), rng.normal(size=(5, 12)), rng.normal(size=(7, 12))

    def freeze(part: Any) -> None:
        for value in vars(part).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            elif hasattr(value, "__dict__"):
                freeze(value)

    freeze(block)
    x.setflags(write=False)
    context.setflags(write=False)
    block(x, context, causal=True, cache=KVCache(2), window=2)
