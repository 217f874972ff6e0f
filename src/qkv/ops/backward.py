"""The gradient of attention, tile by tile, from what the forward pass returned.

Weights are computed again from the log-sum-exp, so that nothing of size Tq * Tk is kept (Dao, arXiv 2307.08691,
section 3.1.2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ShapeError
from .arguments import Call, Window, read_call
from .biases import Bias
from .blocks import Operands
from .gradients import Gradients, Results, Share, Upstream, summed_to
from .masks import Rule
from .precision import Array, number
from .threads import run, thread_count
from .tiles import Sizes, parts

SMALL = 1 << 16  # scores that are done before another thread has woken up


def attention_backward(
    d_out: ArrayLike,
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    out: ArrayLike,
    lse: ArrayLike,
    *,
    mask: ArrayLike | Rule | None = None,
    bias: ArrayLike | Bias | None = None,
    causal: bool = False,
    window: Window | None = None,
    offset: ArrayLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: ArrayLike | None = None,
) -> tuple[Array, ...]:
    """How a loss changes with q, k and v, from how it changes with the output of `attention`.

    Parameters
    ----------
    d_out : (..., H, Tq, d_v) array_like
        The gradient of the loss with respect to `out`.
    q, k, v : array_like
        As they were given to `attention`.
    out : (..., H, Tq, d_v) array_like
    lse : (..., H, Tq) array_like
        What `attention(..., return_lse=True)` returned.
    mask, bias, causal, window, offset, scale, softcap, sinks
        As they were given to `attention`.

    Returns
    -------
    d_q, d_k, d_v : ndarray
        In the shapes and dtypes of q, k and v; summed over axes that were broadcast.
    d_bias : ndarray
        If `bias` is an array: in its shape; 0 where it hides.
    d_sinks : (H,) ndarray
        If there are sinks.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError

    Notes
    -----
    With P = exp(Z - lse) and delta_i = sum_c dO_ic O_ic: dV = P^T dO, dZ = P (dO V^T - delta), which is d_bias;
    dS = dZ (1 - tanh^2) under a soft cap, dQ = scale dS K, dK = scale dS^T Q, and -sum_i exp(sink - lse_i) delta_i for
    a sink (Dao, arXiv 2307.08691, algorithm 2). A key that may not be looked at has gradient 0 from that query and
    changes nobody else's; a NaN that takes part shows.

    Examples
    --------
    >>> q, k, v = [[1.0]], [[0.0], [0.0]], [[2.0], [4.0]]
    >>> from qkv.ops import attention
    >>> out, lse = attention(q, k, v, return_lse=True)
    >>> d_q, d_k, d_v = attention_backward([[1.0]], q, k, v, out, lse)
    >>> d_k.round(2), d_v
    (array([[-0.5],
           [ 0.5]]), array([[0.5],
           [0.5]]))
    """
    call = read_call(
        q, k, v, mask=mask, bias=bias, causal=causal, window=window, offset=offset, scale=scale, softcap=softcap,
        sinks=sinks,
    )  # fmt: skip
    results = _gradients(call, _upstream(call, d_out, out, lse))
    answer = [summed_to(d, x.shape).astype(x.dtype, copy=False) for d, x in zip(results.of_operands(), call.given)]
    if results.d_bias is not None and not isinstance(bias, Bias | None):
        whole = number("bias", bias)
        answer.append(results.d_bias.reshape(whole.shape).astype(whole.dtype, copy=False))
    if results.d_sinks is not None and sinks is not None:
        given = number("sinks", sinks)
        answer.append(results.d_sinks.reshape(-1, *given.shape).sum(axis=0).astype(given.dtype, copy=False))
    return tuple(answer)


def _upstream(call: Call, d_out: ArrayLike, out: ArrayLike, lse: ArrayLike) -> Upstream:
    """What comes from above, checked, with the axes that q has in `Operands`."""
    rows, d_v = call.scores[:-1], call.given[2].shape[-1]
    arrays = {"d_out": number("d_out", d_out), "out": number("out", out), "lse": number("lse", lse)}
    for name, array in arrays.items():
        expected = rows if name == "lse" else (*rows, d_v)
        if array.shape != expected:
            raise ShapeError("shape", name=name, expected=expected, shape=array.shape)
    above = (*call.scores[:-3], *(call.scores[-3:-1] if len(rows) > 1 else (1, *rows)))
    return Upstream(
        arrays["d_out"].reshape(*above, d_v), arrays["out"].reshape(*above, d_v), arrays["lse"].reshape(above)
    )


def _gradients(call: Call, upstream: Upstream) -> Results:
    operands = Operands(call)
    n_shares = math.prod(operands.k.shape[:-2])
    n_threads = thread_count(small=math.prod(call.scores) < SMALL)
    sizes = Sizes.of(call, 1, n_shares, 1)
    n_parts = parts(n_shares, n_threads, call.scores[-1], sizes.keys)
    results = Results(call, operands, n_parts)
    odd = not all(np.isfinite(x).all() for x in (*call.given, upstream.d_out, upstream.out))
    with np.errstate(all="ignore"):
        run(
            _shares(call, operands, n_parts),
            lambda: Gradients(call, operands, sizes, upstream, odd, results),
            min(n_threads, n_shares * n_parts),
        )
    return results


def _shares(call: Call, operands: Operands, n_parts: int) -> Iterator[Share]:
    Tk = call.scores[-1]
    for at in np.ndindex(operands.lead):
        for kv_head, part in itertools.product(range(operands.k.shape[-3]), range(n_parts)):
            yield Share(at, kv_head, slice(Tk * part // n_parts, Tk * (part + 1) // n_parts), part)
