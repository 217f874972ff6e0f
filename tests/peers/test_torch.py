"""qkv beside PyTorch on the CPU, live. Skipped where torch is not installed; the package never needs it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import qkv
import qkv.ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

DTYPES = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
# How far two good answers may be apart, relative to the largest value. float64 and float32: a few units in the last
# place (1.1e-16, 6e-8) from the order of summation. float16 and bfloat16: both compute in float32 and round once, so
# they differ where that rounding falls on either side of a tie: one unit, 2^-10 and 2^-7.
APART = {"float64": 4e-15, "float32": 2e-6, "float16": 2.0**-10, "bfloat16": 2.0**-7}
# name: leading axes, H, Hkv, Tq, Tk, d_k, d_v
SHAPES: dict[str, tuple[tuple[int, ...], int, int, int, int, int, int]] = {
    "square": ((2,), 3, 3, 7, 7, 5, 5),
    "cross": ((2,), 3, 3, 5, 11, 7, 7),
    "wide_values": ((), 3, 3, 5, 11, 7, 13),
    "grouped": ((2,), 6, 2, 5, 7, 11, 11),
    "one_kv_head": ((), 5, 1, 3, 7, 11, 11),
    "one_query": ((2,), 3, 3, 1, 29, 17, 17),
    "longer_than_a_vector": ((), 2, 2, 37, 67, 19, 19),
    "two_batch_axes": ((2, 3), 5, 5, 7, 11, 13, 13),
}


def to_torch(x: np.ndarray) -> Any:
    if x.dtype == DTYPES["bfloat16"]:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def to_numpy(x: Any) -> np.ndarray:
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.numpy()


def draw(seed: int, dtype: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape).astype(DTYPES[dtype]) for shape in shapes]


def qkv_of(shape: str, dtype: str, seed: int = 1) -> list[np.ndarray]:
    lead, H, Hkv, Tq, Tk, d_k, d_v = SHAPES[shape]
    return draw(seed, dtype, (*lead, H, Tq, d_k), (*lead, Hkv, Tk, d_k), (*lead, Hkv, Tk, d_v))


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest value."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    assert a.shape == b.shape
    return float(np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-300))


def mask_for(kind: str, shape: str, dtype: str) -> np.ndarray | None:
    lead, H, _, Tq, Tk, _, _ = SHAPES[shape]
    random = np.random.default_rng(2)
    seen = random.random((*lead, H, Tq, Tk)) < 0.6
    seen[..., 0] = True
    added = random.standard_normal((Tq, Tk))
    return {
        "none": None,
        "boolean": seen,
        "boolean_2d": seen.reshape(-1, Tq, Tk)[0],
        "boolean_empty_row": seen & (np.arange(Tq) != Tq // 2)[:, None],
        "added": added.astype(DTYPES[dtype]),
        "added_neg_inf": np.where(seen, added, -np.inf).astype(DTYPES[dtype]),
    }[kind]


def both(arrays: list[np.ndarray], mask: np.ndarray | None, **keywords: Any) -> tuple[np.ndarray, np.ndarray]:
    ours = qkv.scaled_dot_product_attention(*arrays, attn_mask=mask, **keywords)
    attn_mask = None if mask is None else to_torch(mask)
    theirs = F.scaled_dot_product_attention(*map(to_torch, arrays), attn_mask=attn_mask, **keywords)
    return ours, to_numpy(theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "mask", ["none", "boolean", "boolean_2d", "boolean_empty_row", "added", "added_neg_inf", "is_causal"]
)
def test_scaled_dot_product_attention(dtype: str, shape: str, mask: str) -> None:
    arrays = qkv_of(shape, dtype)
    keywords = {"enable_gqa": SHAPES[shape][1] != SHAPES[shape][2], "is_causal": mask == "is_causal"}
    given = None if mask == "is_causal" else mask_for(mask, shape, dtype)
    ours, theirs = both(arrays, given, **keywords)
    assert ours.dtype == DTYPES[dtype]
    assert distance(ours, theirs) <= APART[dtype]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_narrow_dtypes_are_no_further_from_the_truth_than_torch(dtype: str, shape: str) -> None:
    """The truth: float64 on the very same rounded inputs. 2 % for luck with single roundings."""
    arrays = qkv_of(shape, dtype)
    ours, theirs = both(arrays, None, enable_gqa=True)
    truth = qkv.scaled_dot_product_attention(*(x.astype(np.float64) for x in arrays), enable_gqa=True)

    def rms(x: np.ndarray) -> float:
        return float(np.sqrt(np.mean((x.astype(np.float64) - truth) ** 2)))

    assert rms(ours) <= 1.02 * rms(theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.0, -0.5, -2.0, 0.125, 3.0])
def test_any_finite_scale(dtype: str, scale: float) -> None:
    ours, theirs = both(qkv_of("cross", dtype), None, scale=scale)
    # A score's error grows with the scale and goes through exp.
    assert distance(ours, theirs) <= APART[dtype] * max(1, abs(scale))


@pytest.mark.parametrize("sizes", [(0, 5), (3, 0), (0, 0)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_empty_lengths(sizes: tuple[int, int], is_causal: bool) -> None:
    Tq, Tk = sizes
    ours, theirs = both(draw(3, "float64", (2, 3, Tq, 7), (2, 3, Tk, 7), (2, 3, Tk, 7)), None, is_causal=is_causal)
    np.testing.assert_array_equal(ours, theirs)


def test_without_enable_gqa_heads_must_be_equal_in_both() -> None:
    q, k, v = qkv_of("grouped", "float32")
    with pytest.raises(RuntimeError):
        F.scaled_dot_product_attention(*map(to_torch, (q, k, v)))
    with pytest.raises(qkv.errors.ShapeError):
        qkv.scaled_dot_product_attention(q, k, v)


def test_dropout_of_everything_is_zero_and_of_half_keeps_the_mean() -> None:
    q, k = draw(4, "float64", (2, 3, 101, 7), (2, 3, 211, 7))
    v = np.ones((2, 3, 211, 5))
    assert not qkv.scaled_dot_product_attention(q, k, v, dropout_p=1.0).any()
    theirs = F.scaled_dot_product_attention(*map(to_torch, (q, k, v)), dropout_p=1.0)
    assert not theirs.numpy().any()
    # Rows are sums of about 211 weights near 1/211, each kept (twice) with chance 1/2: the mean over 606 rows has a
    # standard deviation below 0.01, so 0.1 is never reached by chance.
    halved = qkv.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    assert abs(halved.mean() - 1) < 0.1
    assert halved.std() > 0.01


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "ours", "theirs"),
    [
        ("gelu", qkv.gelu, F.gelu),
        ("gelu_tanh", lambda x: qkv.gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh")),
        ("silu", qkv.silu, F.silu),
        ("softmax", lambda x: qkv.softmax(x, axis=0), lambda x: F.softmax(x, 0)),
        ("log_softmax", qkv.log_softmax, lambda x: F.log_softmax(x, -1)),
        ("logsumexp", qkv.logsumexp, lambda x: x.logsumexp(-1)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_elementwise_and_softmax(dtype: str, name: str, ours: Any, theirs: Any) -> None:
    (x,) = draw(5, dtype, (11, 13))
    x = (3 * x).astype(x.dtype)
    result = ours(x)
    assert result.dtype == DTYPES[dtype]
    assert distance(result, to_numpy(theirs(to_torch(x)))) <= APART[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_axes", [1, 2])
def test_norms(dtype: str, n_axes: int) -> None:
    x, gamma, beta = draw(6, dtype, (3, 5, 7), (3, 5, 7)[-n_axes:], (3, 5, 7)[-n_axes:])
    axis = tuple(range(-n_axes, 0))
    tx, tgamma, tbeta = map(to_torch, (x, gamma, beta))
    layer = qkv.layer_norm(x, gamma, beta, eps=1e-5, axis=axis)
    assert distance(layer, to_numpy(F.layer_norm(tx, gamma.shape, tgamma, tbeta, 1e-5))) <= APART[dtype]
    rms = qkv.rms_norm(x, gamma, eps=1e-5, axis=axis)
    # torch rounds once more before it multiplies with gamma: two roundings against one.
    assert distance(rms, to_numpy(F.rms_norm(tx, gamma.shape, tgamma, 1e-5))) <= 2 * APART[dtype]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_cross_entropy(dtype: str) -> None:
    (logits,) = draw(7, dtype, (11, 13))
    targets = np.random.default_rng(8).integers(0, 13, 11)
    targets[3] = -100
    result = qkv.ops.cross_entropy(logits, targets, ignore=-100)
    expected = F.cross_entropy(to_torch(logits), torch.from_numpy(targets))
    assert distance(np.asarray(result), expected.numpy()) <= APART[dtype]
