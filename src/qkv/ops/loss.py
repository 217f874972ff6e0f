"""How far predicted probabilities are from what really came next."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..contract import op
from ..errors import ArgumentError, DtypeError, ShapeError
from .precision import Array, widened
from .softmax import log_softmax


@op(logits="*B vocab_size", log_probabilities="*B vocab_size", losses="*B")
def cross_entropy(
    logits: ArrayLike, targets: ArrayLike, *, ignore: int | None = None, reduction: str = "mean"
) -> Array:
    """The surprise at each target, in nats: minus the logarithm of the probability it was given.

    Parameters
    ----------
    logits : (..., vocab_size) array_like
    targets : (...) array_like of int
        The right class of each row, 0 to vocab_size - 1.
    ignore : int, optional
        Rows with this target do not count.
    reduction : {"mean", "sum", "none"}
        The mean over the rows that count (NaN when none does), their sum, or one loss per row (0 where ignored).

    Returns
    -------
    () or (...) ndarray
        In the dtype of `logits`.

    Notes
    -----
    -log softmax(logits)[target], computed without overflow (Goodfellow et al., "Deep Learning", section 6.2.2.3).

    Examples
    --------
    >>> cross_entropy([[2.0, 0.0], [0.0, 0.0]], [0, 1]).round(4)
    np.float64(0.41)
    """
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError("choice", name="reduction", choices="mean, sum, none", value=reduction)
    logits, dtype = widened("logits", logits)
    targets = np.asarray(targets)
    if targets.dtype.kind not in "iu":
        raise DtypeError("dtype", name="targets", expected="integer", dtype=targets.dtype)
    if logits.ndim < 1 or targets.shape != logits.shape[:-1]:
        raise ShapeError("shape", name="targets", expected=logits.shape[:-1], shape=targets.shape)
    counts = np.ones(targets.shape, bool) if ignore is None else targets != ignore
    classes = np.where(counts, targets, 0)
    if classes.size and (classes.min() < 0 or classes.max() >= logits.shape[-1]):
        wrong = classes.min() if classes.min() < 0 else classes.max()
        expected = f"from 0 to {logits.shape[-1] - 1}"
        raise ArgumentError("number", name="targets", expected=expected, value=int(wrong))

    log_probabilities = log_softmax(logits)
    chosen = np.take_along_axis(log_probabilities, classes[..., None], axis=-1)[..., 0]
    losses = np.where(counts, -chosen, 0)
    if reduction == "none":
        return losses.astype(dtype, copy=False)
    with np.errstate(invalid="ignore"):
        total = losses.sum()
        return (total if reduction == "sum" else total / counts.sum()).astype(dtype)
