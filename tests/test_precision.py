"""How exact the results are: against 50 digits, and against the exact result rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

import qkv
import qkv.ops

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DIGITS = 50
# Relative to the largest value; the documentation promises 4e-15 in float64. Measured here: 3.8e-16 and 1.7e-7, three
# units of 2^-53 and 2^-24. Five times that leaves room for a BLAS that sums in another order.
FLOAT64 = 2e-15
FLOAT32 = 9e-7


def rows(x: np.ndarray) -> list[list[Any]]:
    """A matrix, as exact numbers."""
    return [[mpf(float(value)) for value in row] for row in x]


def exact_attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    scale: float | None = None,
    softcap: float | None = None,
    bias: np.ndarray | None = None,
    sink: float | None = None,
    causal: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One head, in 50 digits: out, weights, lse, rounded to float64 at the end."""
    with mp.workdps(DIGITS):
        factor = 1 / mpmath.sqrt(q.shape[-1]) if scale is None else mpf(scale)
        keys, values = rows(k), rows(v)
        out, weights, lse = [], [], []
        for i, query in enumerate(rows(q)):
            seen = range(min(i + 1, len(keys)) if causal else len(keys))
            logits = [mpmath.fdot(query, keys[j]) * factor for j in seen]
            if softcap is not None:
                logits = [softcap * mpmath.tanh(s / softcap) for s in logits]
            if bias is not None:
                logits = [s + mpf(float(bias[i, j])) for j, s in zip(seen, logits)]
            powers = [mpmath.exp(s) for s in logits]
            total = mpmath.fsum(powers) + (0 if sink is None else mpmath.exp(mpf(sink)))
            row = [power / total for power in powers]
            out.append([float(mpmath.fdot(row, column)) for column in list(zip(*values[: len(row)]))])
            weights.append([float(w) for w in row] + [0.0] * (len(keys) - len(row)))
            lse.append(float(mpmath.log(total)))
    return np.array(out), np.array(weights), np.array(lse)


def draw(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape) for shape in shapes]


def error(result: Any, truth: Any, size: float) -> float:
    assert np.shape(result) == np.shape(truth)
    return float(np.abs(np.asarray(result, np.float64) - truth).max()) / size


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "softcap": {"softcap": 1.5},
    "negative_scale": {"scale": -0.75},
    "bias": {"bias": draw(31, (11, 11))[0]},
    "sink": {"sink": 0.625},
}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("dtype", "bound"), [(np.float64, FLOAT64), (np.float32, FLOAT32)])
def test_attention_against_fifty_digits(seed: int, variant: str, dtype: type, bound: float) -> None:
    """Two query heads share one head of keys; the truth is computed from the very same inputs."""
    call = VARIANTS[variant]
    q, k, v = (x.astype(dtype) for x in draw(seed, (2, 11, 7), (1, 11, 7), (1, 11, 5)))
    asked = {**call, "sinks": [call["sink"]] * 2} if "sink" in call else dict(call)
    asked.pop("sink", None)
    if "bias" in asked:
        asked["bias"] = asked["bias"].astype(dtype)
        call = {**call, "bias": asked["bias"]}
    out, weights, lse = qkv.attention(q, k, v, **asked, return_weights=True, return_lse=True)
    for head in range(2):
        true_out, true_weights, true_lse = exact_attention(q[head], k[0], v[0], **call)
        assert error(out[head], true_out, np.abs(v).max()) <= bound
        assert error(weights[head], true_weights, 1) <= bound
        assert error(lse[head], true_lse, max(1, np.abs(true_lse).max())) <= bound


def test_float64_holds_at_a_useful_size() -> None:
    q, k, v = draw(4, (3, 64), (509, 64), (509, 7))
    true_out, _, true_lse = exact_attention(q, k, v)
    out, lse = qkv.attention(q, k, v, return_lse=True)
    assert error(out, true_out, np.abs(v).max()) <= FLOAT64
    assert error(lse, true_lse, np.abs(true_lse).max()) <= FLOAT64


def with_outliers(random: np.random.Generator, *shape: int) -> np.ndarray:
    """N(0, 1) + N(0, 100) in one place of a thousand: the inputs of FlashAttention-3's experiment, arXiv 2407.08608."""
    return random.standard_normal(shape) + 10 * random.standard_normal(shape) * (random.random(shape) < 0.001)


def rms(x: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((x.astype(np.float64) - truth) ** 2)))


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
@pytest.mark.parametrize("seed", [5, 7])
def test_narrow_dtypes_are_as_good_as_one_rounding(dtype: np.dtype[Any], seed: int) -> None:
    """The error of the answer is at most 1.05 times that of the exact answer, rounded once."""
    random = np.random.default_rng(seed)
    q, k, v = (with_outliers(random, 3, 251, 61).astype(dtype) for _ in range(3))
    wide = [x.astype(np.float64) for x in (q, k, v)]
    scores = wide[0] @ wide[1].mT / np.sqrt(61)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    truth = powers / powers.sum(-1, keepdims=True) @ wide[2]
    ideal = rms(truth.astype(dtype), truth)
    out = qkv.attention(q, k, v)
    assert out.dtype == dtype
    assert rms(out, truth) <= 1.05 * ideal
    # The bound can tell: the same formula with weights rounded on the way exceeds it.
    rounded = (powers / powers.sum(-1, keepdims=True)).astype(dtype).astype(np.float64)
    rounded_scores = scores.astype(dtype).astype(np.float64)
    eager = np.exp(rounded_scores - rounded_scores.max(-1, keepdims=True))
    eager = (eager / eager.sum(-1, keepdims=True)).astype(dtype).astype(np.float64) @ wide[2]
    assert rms(eager.astype(dtype), truth) > 2 * ideal
    assert rms((rounded @ wide[2]).astype(dtype), truth) > ideal


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
def test_long_rows_do_not_lose_their_sum(dtype: np.dtype[Any]) -> None:
    """Added up in bfloat16, ones stop at 256; in float16 they overflow at 65504.

    In float32 the sum of 70001 equal terms, in the order that the BLAS takes, may be a unit of float16 away.
    """
    n_keys = 70_001
    q, k, v = (np.ones(shape, dtype) for shape in [(1, 2), (n_keys, 2), (n_keys, 3)])
    np.testing.assert_allclose(qkv.attention(q, k, v).astype(np.float64), 1.0, rtol=0, atol=2.0**-11)
    np.testing.assert_allclose(qkv.logsumexp(np.zeros(n_keys, dtype)).astype(float), np.log(n_keys), rtol=2.0**-8)
    total = qkv.softmax(np.zeros(n_keys, dtype)).astype(np.float64).sum()
    assert abs(total - 1) < 0.01  # each weight is rounded: in float16 it is subnormal, with a step of 6e-8 in 1.4e-5


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
def test_large_scores_do_not_overflow(dtype: np.dtype[Any]) -> None:
    """Products of 200 * 200 * 8 = 320000 are beyond float16; computed in float32 the best key takes everything."""
    q, k = np.full((1, 8), 200, dtype), np.stack([np.full(8, 199), np.full(8, 200), np.full(8, 100)]).astype(dtype)
    v = np.array([[1, 2], [3, 4], [5, 6]], dtype)
    np.testing.assert_array_equal(qkv.attention(q, k, v).astype(float), [[3, 4]])


@pytest.mark.parametrize("key", [1e30, -1e30])
def test_scores_beyond_float32_are_never_a_silent_zero(key: float) -> None:
    """1e60 is infinite in float32: what the query should look at is unknown, and the answer says so."""
    q, k = np.full((2, 3), 1e30, np.float32), np.full((5, 3), key, np.float32)
    q[1] = 1
    k[1] = 0
    v = np.ones((5, 7), np.float32)
    seen = np.array([[True, False, True, True, True], [False, True, False, False, False]])
    out = qkv.attention(q, k, v, mask=seen)
    assert np.isnan(out[0]).all()
    np.testing.assert_array_equal(out[1], 1)


def test_log_sum_exp_is_not_rounded_to_the_narrow_dtype() -> None:
    q, k, v = (x.astype(BFLOAT16) for x in draw(8, (5, 7), (11, 7), (11, 3)))
    lse = qkv.attention(q, k, v, return_lse=True)[1]
    assert lse.dtype == np.float32
    assert error(lse, exact_attention(q, k, v)[2], 1) <= FLOAT32


def relative(result: np.ndarray, truth: list[Any]) -> float:
    true = np.array([float(t) for t in truth])
    return float(np.max(np.abs(result - true) / np.abs(true)))


def exactly(function: Callable[[Any], Any], x: np.ndarray) -> list[Any]:
    with mp.workdps(DIGITS):
        return [function(mpf(float(value))) for value in x]


def test_activations_keep_their_digits_far_to_the_left() -> None:
    """Where 1 + erf and 1 + tanh cancel; 5e-16 is erfc's own stated error, and exp(-x^2 / 2) multiplies it by x^2."""
    x = np.concatenate([-np.geomspace(1e-3, 8, 43), np.geomspace(1e-3, 30, 43)])
    gelu = exactly(lambda t: t * mpmath.erfc(-t / mpmath.sqrt(2)) / 2, x)
    assert relative(qkv.gelu(x), gelu) <= 3e-14
    silu = exactly(lambda t: t / (1 + mpmath.exp(-t)), x)
    assert relative(qkv.silu(x), silu) <= 4 * 2.0**-53


def test_softmax_and_its_logarithms() -> None:
    x = 5 * draw(9, (13,))[0]
    with mp.workdps(DIGITS):
        total = mpmath.fsum(exactly(mpmath.exp, x))
        weights = [w / total for w in exactly(mpmath.exp, x)]
        logs = [mpmath.log(w) for w in weights]
        sum_log = mpmath.log(total)
    # x - max has an error of half a unit of |x - max| <= 20, and exp makes it a relative one.
    assert relative(qkv.softmax(x), weights) <= 24 * 2.0**-53
    assert relative(qkv.log_softmax(x), logs) <= 24 * 2.0**-53
    assert relative(np.atleast_1d(qkv.logsumexp(x)), [sum_log]) <= 4 * 2.0**-53


@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_layer_norm(shift: float) -> None:
    x = draw(12, (13,))[0] + shift
    with mp.workdps(DIGITS):
        numbers = [mpf(float(t)) for t in x]
        mean = mpmath.fsum(numbers) / 13
        root = mpmath.sqrt(mpmath.fsum([(t - mean) ** 2 for t in numbers]) / 13 + mpf(1e-5))
        normed = np.array([float((t - mean) / root) for t in numbers])
    # Rounding the mean costs half a unit of the shift; a variance as mean(x^2) - mean^2 would cost shift^2 of them.
    assert error(qkv.layer_norm(x, eps=1e-5), normed, 1) <= FLOAT64 * max(1, shift / 4)


def test_norms_of_large_float16_do_not_overflow() -> None:
    x = np.array([[3000, -4000, 5000]], np.float16)
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(qkv.rms_norm(x), qkv.rms_norm(wide).astype(np.float16))
    np.testing.assert_array_equal(qkv.layer_norm(x), qkv.layer_norm(wide).astype(np.float16))


@pytest.mark.parametrize("position", [1, 1009, 131_071])
def test_rope_angles_are_float64_for_every_input(position: int) -> None:
    """In float32 the angle 131071 would itself be known to 0.008 radians only."""
    x = draw(11, (1, 14))[0].astype(np.float32)
    with mp.workdps(DIGITS):
        angles = [position * mpmath.power(10000, -mpf(2 * m) / 14) for m in range(7)]
        turned = [float(x[0, m]) * mpmath.cos(a) - float(x[0, m + 7]) * mpmath.sin(a) for m, a in enumerate(angles)]
        turned += [float(x[0, m + 7]) * mpmath.cos(a) + float(x[0, m]) * mpmath.sin(a) for m, a in enumerate(angles)]
    assert error(qkv.rope(x, [position])[0], np.array([float(t) for t in turned]), np.abs(x).max()) <= 4 * 2.0**-24
