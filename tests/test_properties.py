"""What must hold for every input: small random cases, the same ones in every run."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import qkv
from qkv import masks, ops
from qkv.layers import KVCache, LatentAttention, MultiHeadAttention, Rotary

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]

some = settings(max_examples=60, derandomize=True, deadline=None)
seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from(DTYPES)
sizes = st.fixed_dictionaries({
    "Hkv": st.integers(1, 3), "groups": st.integers(1, 3), "Tq": st.integers(1, 6), "Tk": st.integers(1, 8),
    "d_k": st.integers(1, 5), "d_v": st.integers(1, 5),
})  # fmt: skip
features = st.fixed_dictionaries({
    "softcap": st.none() | st.floats(0.5, 5), "scale": st.none() | st.floats(-2, 2), "with_sinks": st.booleans(),
    "with_bias": st.booleans(),
})  # fmt: skip


def drawn(rng: np.random.Generator, size: dict[str, int], dtype: Any = np.float64, **extra: Any) -> Any:
    """q, k, v of those sizes, and the rules of the features."""
    H = size["Hkv"] * size["groups"]
    shapes = (
        (H, size["Tq"], size["d_k"]),
        (size["Hkv"], size["Tk"], size["d_k"]),
        (size["Hkv"], size["Tk"], size["d_v"]),
    )
    rules = {name: extra[name] for name in ("softcap", "scale") if name in extra}
    if extra.get("with_sinks"):
        rules["sinks"] = rng.normal(size=H)
    if extra.get("with_bias"):
        rules["bias"] = rng.normal(size=(H, size["Tq"], size["Tk"]))
    return *(rng.normal(size=s).astype(dtype) for s in shapes), rules


def everything(*args: Any, **rules: Any) -> tuple[np.ndarray, ...]:
    return qkv.attention(*args, return_weights=True, return_lse=True, **rules)


def bits(found: Any) -> list[bytes]:
    return [x.tobytes() for x in found]


def close(x: Any, y: Any, atol: float = 1e-12) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-10, atol=atol)


@some
@given(seeds, sizes, features, dtypes, st.sampled_from([np.nan, np.inf, -np.inf, 3e4, -0.0]))
def test_hidden_keys_change_no_bit(seed: int, size: Any, feature: Any, dtype: Any, junk: float) -> None:
    rng = np.random.default_rng(seed)
    q, k, v, rules = drawn(rng, size, dtype, **feature)
    visible = rng.random((size["Tq"], size["Tk"])) < 0.6
    hidden_from_all = rng.random(size["Tk"]) < 0.4
    visible &= ~hidden_from_all
    clean = everything(q, k, v, mask=visible, **rules)
    k[:, hidden_from_all], v[:, hidden_from_all] = junk, junk
    assert bits(everything(q, k, v, mask=visible, **rules)) == bits(clean)


@some
@given(seeds, sizes, features, dtypes, st.sampled_from([np.nan, np.inf, -np.inf]), st.booleans())
def test_queries_that_do_not_see_a_key_do_not_feel_it(
    seed: int, size: Any, feature: Any, dtype: Any, junk: float, in_keys: bool
) -> None:
    rng = np.random.default_rng(seed)
    q, k, v, rules = drawn(rng, size, dtype, **feature)
    visible = rng.random((size["Tq"], size["Tk"])) < 0.6
    j = int(rng.integers(size["Tk"]))
    clean = everything(q, k, v, mask=visible, **rules)
    (k if in_keys else v)[:, j] = junk
    found = everything(q, k, v, mask=visible, **rules)
    unseeing = ~visible[:, j]
    assert bits(x[:, unseeing] for x in found) == bits(x[:, unseeing] for x in clean)
    if not in_keys:
        assert not np.isfinite(found[0][:, ~unseeing].astype(float)).any()


@some
@given(seeds, sizes, features, st.integers(-3, 8), st.sampled_from([np.nan, np.inf, 7.0]))
def test_the_future_changes_nothing(seed: int, size: Any, feature: Any, offset: int, junk: float) -> None:
    rng = np.random.default_rng(seed)
    q, k, v, rules = drawn(rng, size, **feature)
    clean = everything(q, k, v, causal=True, offset=offset, **rules)
    for i in range(size["Tq"]):
        k_junk, v_junk = k.copy(), v.copy()
        k_junk[:, max(0, offset + i + 1) :], v_junk[:, max(0, offset + i + 1) :] = junk, junk
        found = everything(q, k_junk, v_junk, causal=True, offset=offset, **rules)
        assert bits(x[:, : i + 1] for x in found) == bits(x[:, : i + 1] for x in clean)


@some
@given(seeds, sizes, features)
def test_the_order_of_keys_does_not_matter(seed: int, size: Any, feature: Any) -> None:
    rng = np.random.default_rng(seed)
    q, k, v, rules = drawn(rng, size, **feature)
    visible = rng.random((size["Tq"], size["Tk"])) < 0.7
    order = rng.permutation(size["Tk"])
    moved = dict(rules, bias=rules["bias"][..., order]) if "bias" in rules else rules
    out, weights, lse = everything(q, k, v, mask=visible, **rules)
    found = everything(q, k[:, order], v[:, order], mask=visible[:, order], **moved)
    close(found[0], out)
    close(found[1], weights[..., order])
    close(found[2], lse)


@some
@given(seeds, sizes, features)
def test_grouped_queries_are_repeated_keys(seed: int, size: Any, feature: Any) -> None:
    rng = np.random.default_rng(seed)
    q, k, v, rules = drawn(rng, size, **feature)
    found = everything(q, k, v, **rules)
    k_each, v_each = (np.stack([x[h // size["groups"]] for h in range(len(q))]) for x in (k, v))
    for x, y in zip(found, everything(q, k_each, v_each, **rules)):
        close(x, y)


def test_heads_repeat_in_runs() -> None:
    q, k = np.zeros((4, 1, 1)), np.zeros((2, 1, 1))
    assert qkv.attention(q, k, np.array([[[0.0]], [[1.0]]])).ravel().tolist() == [0, 0, 1, 1]
    assert qkv.attention(q, k[:1], np.array([[[5.0]]])).ravel().tolist() == [5] * 4


@some
@given(seeds, sizes, features, st.tuples(st.integers(0, 3), st.integers(1, 3)))
def test_a_batch_is_a_loop(seed: int, size: Any, feature: Any, lead: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    q, k, v, rules = drawn(rng, size, **feature)
    qs, ks, vs = (rng.normal(size=(*lead, *x.shape)) for x in (q, k[None], v))
    ks = ks[:, :1, 0]  # the keys are shared along the last axis of the batch
    found = everything(qs, ks, vs, **rules)
    for a, b in np.ndindex(lead):
        for x, y in zip(found, everything(qs[a, b], ks[a, 0], vs[a, b], **rules)):
            close(x[a, b], y)


@some
@given(seeds, sizes, features, dtypes)
def test_optional_outputs_leave_the_output_alone(seed: int, size: Any, feature: Any, dtype: Any) -> None:
    q, k, v, rules = drawn(np.random.default_rng(seed), size, dtype, **feature)
    plain = qkv.attention(q, k, v, **rules)
    with qkv.record() as trace:
        recorded = qkv.attention(q, k, v, **rules)
    for found in (
        qkv.attention(q, k, v, return_weights=True, **rules)[0],
        qkv.attention(q, k, v, return_lse=True, **rules)[0],
        everything(q, k, v, **rules)[0],
        recorded,
        trace["attention.out"],
    ):
        assert found.tobytes() == plain.tobytes()


@some
@given(seeds, sizes, features)
def test_rows_sum_to_one_less_the_sink(seed: int, size: Any, feature: Any) -> None:
    rng = np.random.default_rng(seed)
    q, k, v, rules = drawn(rng, size, **feature)
    visible = rng.random((size["Tq"], size["Tk"])) < 0.4
    _, weights, lse = everything(q, k, v, mask=visible, **rules)
    sink = np.exp(rules["sinks"][:, None] - lse) if "sinks" in rules else np.zeros_like(lse)
    close(weights.sum(-1), np.where(visible.any(-1), 1 - sink, 0))
    assert (weights >= 0).all()
    assert (weights[:, ~visible] == 0).all()


@some
@given(seeds, st.integers(1, 6), st.integers(0, 1), st.sampled_from([-5e4, -3.0, 0.0, 900.0, 5e4]))
def test_a_shift_leaves_the_softmax_alone(seed: int, n: int, axis: int, shift: float) -> None:
    x = np.random.default_rng(seed).normal(size=(3, n))
    e = np.exp(x)
    weights = e / e.sum(axis, keepdims=True)
    close(qkv.softmax(x + shift, axis), weights, atol=1e-10)
    close(qkv.log_softmax(x + shift, axis), np.log(weights), atol=1e-10)
    close(qkv.logsumexp(x + shift, axis), np.log(e.sum(axis)) + shift, atol=1e-10)


# cached decoding


def in_chunks(layer: Any, x: np.ndarray, cuts: list[int], window: int | None, **rules: Any) -> np.ndarray:
    cache, parts = KVCache(window), []
    for start, stop in zip([0, *cuts], [*cuts, x.shape[-2]]):
        parts.append(layer(x[..., start:stop, :], cache=cache, causal=True, window=window, **rules))
    assert cache.n_seen == x.shape[-2]
    assert cache.length == (x.shape[-2] if window is None else min(x.shape[-2], window - 1))
    return np.concatenate(parts, axis=-2)


chunkings = st.lists(st.integers(0, 9), max_size=5).map(sorted)


@some
@given(
    seeds,
    chunkings,
    st.none() | st.integers(1, 11),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["", "half", "interleaved"]),
)
def test_any_chunking_is_one_pass(seed: int, cuts: list[int], window: int | None, n_kv: int, layout: str) -> None:
    """Also with chunks longer than the window, empty chunks, grouped heads, RoPE and ALiBi."""
    rotary = Rotary(layout=layout, rotary_dim=2) if layout else None
    layer = MultiHeadAttention.init(12, 4, n_kv_heads=n_kv, rotary=rotary, seed=seed)
    x = np.random.default_rng(seed).normal(size=(2, 9, 12))
    rules = {} if layout else {"bias": qkv.biases.alibi(4)}
    close(in_chunks(layer, x, cuts, window, **rules), layer(x, causal=True, window=window, **rules))


@some
@given(seeds, chunkings, st.none() | st.integers(1, 11), st.sampled_from([0, 2]))
def test_any_chunking_is_one_pass_for_latents(seed: int, cuts: list[int], window: int | None, d_rope: int) -> None:
    layer = LatentAttention.init(12, 3, 5, d_rope=d_rope, seed=seed)
    x = np.random.default_rng(seed).normal(size=(2, 9, 12))
    close(in_chunks(layer, x, cuts, window), layer(x, causal=True, window=window))


# other kernels


@some
@given(seeds, st.integers(1, 6), st.integers(0, 7), st.booleans())
def test_linear_attention_is_its_quadratic_form(seed: int, Tq: int, Tk: int, causal: bool) -> None:
    rng = np.random.default_rng(seed)
    Tk = Tq if causal else Tk
    q, k, v = rng.normal(size=(2, Tq, 3)), rng.normal(size=(2, Tk, 3)), rng.normal(size=(2, Tk, 5))

    def phi(x: np.ndarray) -> np.ndarray:
        return np.where(x > 0, x + 1, np.exp(x))

    weights = phi(q) @ phi(k).swapaxes(1, 2)
    if causal:
        weights = np.tril(weights)
    if Tk:
        weights = weights / weights.sum(-1, keepdims=True)
    close(ops.linear_attention(q, k, v, causal=causal), weights @ v)


@some
@given(seeds, st.booleans(), features)
def test_latent_attention_is_attention_of_unfolded_heads(seed: int, with_rope: bool, feature: Any) -> None:
    rng = np.random.default_rng(seed)
    q, latent = rng.normal(size=(2, 3, 5, 7)), rng.normal(size=(2, 11, 4))
    W_UK, W_UV = rng.normal(size=(3, 4, 7)), rng.normal(size=(3, 4, 2))
    q_rope, k_rope = rng.normal(size=(2, 3, 5, 6)), rng.normal(size=(2, 11, 6))
    rules: dict[str, Any] = {"causal": True, "offset": 4, "softcap": feature["softcap"], "scale": feature["scale"]}
    rules["sinks"] = rng.normal(size=3) if feature["with_sinks"] else None
    k, v = latent[:, None] @ W_UK, latent[:, None] @ W_UV
    joined = q
    turned = {}
    if with_rope:
        turned = {"q_rope": q_rope, "k_rope": k_rope}
        joined = np.concatenate([q, q_rope], -1)
        k = np.concatenate([k, np.broadcast_to(k_rope[:, None], (2, 3, 11, 6))], -1)
    expected = qkv.attention(joined, k, v, **rules)
    close(ops.latent_attention(q, latent, W_UK, W_UV, **turned, **rules), expected, atol=1e-11)


# rotations


@some
@given(seeds, st.sampled_from(["half", "interleaved"]), st.sampled_from([None, 2, 4, 6]), st.integers(-50, 5000))
def test_rope_keeps_norms_and_sees_distances(seed: int, layout: str, rotary_dim: int | None, shift: int) -> None:
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(5, 6)), rng.normal(size=(7, 6))
    i, j = np.arange(5), np.arange(7)

    def turned(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        return qkv.rope(x, positions, layout=layout, rotary_dim=rotary_dim)

    close(np.linalg.norm(turned(q, i + shift), axis=-1), np.linalg.norm(q, axis=-1))
    close(turned(q, i + shift) @ turned(k, j + shift).T, turned(q, i) @ turned(k, j).T, atol=1e-9)
    close(turned(turned(q, i), np.full(5, shift)), turned(q, i + shift), atol=1e-9)
    close(turned(q, 0 * i), q)
    still = slice(rotary_dim, None) if rotary_dim else slice(0, 0)
    np.testing.assert_array_equal(turned(q, i + 1)[:, still], q[:, still])


@some
@given(seeds, st.sampled_from([2, 4, 6]), st.integers(1, 999))
def test_both_layouts_turn_the_same_pairs(seed: int, rotary_dim: int, position: int) -> None:
    """Each pair as a complex number, and the angle by the paper."""
    x = np.random.default_rng(seed).normal(size=(1, 7))
    pairs = rotary_dim // 2
    turn = np.exp(1j * position * 10000.0 ** (-2 * np.arange(pairs) / rotary_dim))
    half = qkv.rope(x, [position], rotary_dim=rotary_dim)[0]
    close(half[:pairs] + 1j * half[pairs:rotary_dim], (x[0, :pairs] + 1j * x[0, pairs:rotary_dim]) * turn)
    inter = qkv.rope(x, [position], layout="interleaved", rotary_dim=rotary_dim)[0]
    close(inter[:rotary_dim:2] + 1j * inter[1:rotary_dim:2], (x[0, :rotary_dim:2] + 1j * x[0, 1:rotary_dim:2]) * turn)


def test_rope_takes_positions_in_any_form() -> None:
    x = np.random.default_rng(1).normal(size=(2, 3, 5, 4))
    expected = qkv.rope(x, np.arange(5))
    for positions in (range(5), tuple(range(5)), np.arange(5.0), np.tile(np.arange(5), (2, 1))):
        np.testing.assert_array_equal(qkv.rope(x, positions), expected)
    np.testing.assert_array_equal(qkv.rope(x, ops.rope_tables(range(5), 4)), expected)
    np.testing.assert_array_equal(qkv.rope(x[..., :2, :], (0, 1)), expected[..., :2, :])
    two = qkv.rope(x, [[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]])
    np.testing.assert_array_equal(two[1], qkv.rope(x[1], range(7, 12)))


def test_a_mask_is_the_same_in_every_form() -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(2, n, 3)) for n in (5, 7, 7))
    array = np.arange(7) <= np.arange(5)[:, None] + 2
    for rules in (
        {"mask": array}, {"mask": array.tolist()}, {"mask": array[None]}, {"mask": masks.causal(), "offset": 2},
        {"causal": True, "offset": np.int8(2)}, {"window": (None, 0), "offset": 2},
        {"bias": np.where(array, 0, -np.inf)},
    ):  # fmt: skip
        assert bits(everything(q, k, v, **rules)) == bits(everything(q, k, v, mask=array)), rules
