"""Attention written out, with each of its steps exchangeable: where the mistakes of many tasks come from.

`attention` is right as it stands. `ATTENTION[id]` are the forms of a mistake in it, `CONVENTIONS` the answers to what
the paper leaves open. A task that contains attention takes them by `mistakes(...)`, one that is built around it by
`mistakes(..., inside=(its formula, the step))`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .task import Convention, Function, Mistake, Probe, formula, within
from .wire import Array

Mask = Array | None


# the steps as they are right


def products(Q: Array, K: Array) -> Array:
    return Q @ K.mT


def by_root(scores: Array, Q: Array, K: Array, V: Array) -> Array:
    return scores / np.sqrt(Q.shape[-1])


def as_given(mask: Mask) -> Mask:
    return mask


def minus_infinity(scaled: Array, mask: Mask) -> Array:
    return scaled if mask is None else np.where(mask, scaled, -np.inf)


def rows(masked: Array) -> Array:
    exp = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1, keepdims=True)


def zeros_where_nothing_is_seen(weights: Array, masked: Array, mask: Mask) -> Array:
    return np.where(np.isnan(weights) & np.isneginf(masked), 0, weights)


def unchanged(weights: Array, Q: Array, mask: Mask) -> Array:
    return weights


def mixed(weights: Array, V: Array) -> Array:
    return weights @ V


@formula
def attention(
    Q: Array,
    K: Array,
    V: Array,
    mask: Mask = None,
    *,
    product: Function = products,
    scale: Function = by_root,
    look: Function = as_given,
    hide: Function = minus_infinity,
    softmax: Function = rows,
    settle: Function = zeros_where_nothing_is_seen,
    after: Function = unchanged,
    mix: Function = mixed,
) -> tuple[Array, Array]:
    """softmax(Q K^T / sqrt(d_k)) V and the weights."""
    with np.errstate(all="ignore"):
        scores = product(Q, K)
        scaled = scale(scores, Q, K, V)
        masked = hide(scaled, look(mask))
        weights = after(settle(softmax(masked), masked, look(mask)), Q, look(mask))
        output = mix(weights, V)
    return output, weights


# conventions: what to do with a row that may look at nothing, and when to mask


def left_nan(weights: Array, masked: Array, mask: Mask) -> Array:
    return weights


def huge_negative(scaled: Array, mask: Mask) -> Array:
    return scaled if mask is None else np.where(mask, scaled, -1e30)


def added_negative(scaled: Array, mask: Mask) -> Array:
    return scaled if mask is None else scaled + np.where(mask, 0, -1e9)


def no_hiding(scaled: Array, mask: Mask) -> Array:
    return scaled


def renormalised(weights: Array, Q: Array, mask: Mask) -> Array:
    if mask is None:
        return weights
    kept = weights * mask
    return kept / kept.sum(axis=-1, keepdims=True)


def renormalised_or_zero(weights: Array, Q: Array, mask: Mask) -> Array:
    return weights if mask is None else np.nan_to_num(renormalised(weights, Q, mask))


CONVENTIONS = (
    Convention("nan_on_masked_row", partial(attention, settle=left_nan)),
    Convention("uniform_on_masked_row", partial(attention, hide=huge_negative)),
    Convention("unmasked_on_masked_row", partial(attention, hide=added_negative)),
    Convention("mask_after_softmax_renormalised", partial(attention, hide=no_hiding, after=renormalised)),
    Convention("mask_after_softmax_renormalised", partial(attention, hide=no_hiding, after=renormalised_or_zero)),
)


# the steps as they go wrong


def unscaled(scores: Array, Q: Array, K: Array, V: Array) -> Array:
    return scores


def by_d(scores: Array, Q: Array, K: Array, V: Array) -> Array:
    return scores / Q.shape[-1]


def by_root_of_length(scores: Array, Q: Array, K: Array, V: Array) -> Array:
    return scores / np.sqrt(K.shape[-2])


def by_root_of_queries(scores: Array, Q: Array, K: Array, V: Array) -> Array:
    return scores / np.sqrt(Q.shape[-2])


def by_root_of_value_width(scores: Array, Q: Array, K: Array, V: Array) -> Array:
    return scores / np.sqrt(V.shape[-1])


def times_root(scores: Array, Q: Array, K: Array, V: Array) -> Array:
    return scores * np.sqrt(Q.shape[-1])


def by_constant(scores: Array, Q: Array, K: Array, V: Array, *, constant: float) -> Array:
    return scores / constant


def weights_by_root(weights: Array, Q: Array, mask: Mask) -> Array:
    return weights / np.sqrt(Q.shape[-1])


def down_an_axis(masked: Array, *, axis: int) -> Array:
    exp = np.exp(masked - masked.max(axis=axis, keepdims=True))
    return exp / exp.sum(axis=axis, keepdims=True)


def all_at_once(masked: Array) -> Array:
    exp = np.exp(masked - masked.max())
    return exp / exp.sum()


def without_maximum(masked: Array) -> Array:
    exp = np.exp(masked)
    return exp / exp.sum(axis=-1, keepdims=True)


def minus_mean(masked: Array) -> Array:
    exp = np.exp(masked - masked.mean(axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1, keepdims=True)


def minus_global_maximum(masked: Array) -> Array:
    exp = np.exp(masked - masked.max())
    return exp / exp.sum(axis=-1, keepdims=True)


def zeros_for_nan(weights: Array, masked: Array, mask: Mask) -> Array:
    return np.nan_to_num(weights)


def twice(masked: Array) -> Array:
    return rows(rows(masked))


def flat_maximum(masked: Array) -> Array:
    exp = np.exp(masked - masked.max(axis=-1))
    return exp / exp.sum(axis=-1, keepdims=True)


def flat_sum(masked: Array) -> Array:
    exp = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1)


def flat_both(masked: Array) -> Array:
    exp = np.exp(masked - masked.max(axis=-1))
    return exp / exp.sum(axis=-1)


def in_dtype_of_queries(weights: Array, Q: Array, mask: Mask) -> Array:
    return weights.astype(Q.dtype)


def output_in_dtype_of_values(weights: Array, V: Array) -> Array:
    return (weights @ V).astype(V.dtype)


def inverted(mask: Mask) -> Mask:
    return None if mask is None else ~mask


def transposed(mask: Mask) -> Mask:
    return None if mask is None else mask.mT


def ignored(mask: Mask) -> Mask:
    return None


def as_square(mask: Mask) -> Mask:
    return None if mask is None else mask.reshape(mask.shape[-2], mask.shape[-2])


def square_by_default(scaled: Array, mask: Mask) -> Array:
    n = scaled.shape[-2]
    return minus_infinity(scaled, np.ones((n, n), bool) if mask is None else mask)


def shifted_in_the_branch(scaled: Array, mask: Mask) -> Array:
    masked = minus_infinity(scaled, mask)
    return masked if mask is None else masked - masked.max(axis=-1, keepdims=True)


def times_mask(scaled: Array, mask: Mask) -> Array:
    return scaled if mask is None else np.where(mask, scaled, 0)


def filled(scaled: Array, mask: Mask, *, fill: float) -> Array:
    return scaled if mask is None else np.where(mask, scaled, fill)


def shifted(scaled: Array, mask: Mask, *, by: float) -> Array:
    return scaled if mask is None else scaled + np.where(mask, 0, by)


def times_infinity(scaled: Array, mask: Mask) -> Array:
    return scaled if mask is None else scaled + (1 - mask) * -np.inf


def masked_weights(weights: Array, Q: Array, mask: Mask) -> Array:
    return weights if mask is None else np.where(mask, weights, 0)


def queries_for_keys(Q: Array, K: Array) -> Array:
    return K @ Q.mT


def all_axes_turned(Q: Array, K: Array) -> Array:
    return Q @ K.T


def keys_as_they_are(Q: Array, K: Array) -> Array:
    return Q @ K


def columns_by_columns(Q: Array, K: Array) -> Array:
    return Q.mT @ K


def mixed_transposed(weights: Array, V: Array) -> Array:
    return weights.mT @ V


def swapped_values(Q: Array, K: Array, V: Array, mask: Mask = None, **steps: Any) -> tuple[Array, Array]:
    return attention(Q, V, K, mask, **steps)


def values_only(weights: Array, V: Array) -> Array:
    return V


def queries_scaled_in_place(Q: Array, K: Array) -> Array:
    Q /= np.sqrt(Q.shape[-1])
    return Q @ K.mT


def keys_scaled_in_place(Q: Array, K: Array) -> Array:
    K /= np.sqrt(K.shape[-1])
    return Q @ K.mT


def changed(**steps: Function) -> partial[tuple[Array, Array]]:
    return partial(attention, **steps)


ATTENTION: dict[str, tuple[Function, ...]] = {
    "no_scale": (changed(scale=unscaled),),
    "scale_by_d": (changed(scale=by_d),),
    "scale_multiplied": (changed(scale=times_root),),
    "scale_wrong_size": tuple(
        changed(scale=s) for s in (by_root_of_length, by_root_of_queries, by_root_of_value_width)
    ),
    "scale_hard_coded": tuple(changed(scale=partial(by_constant, constant=c)) for c in (8.0, 512**0.5)),
    "scale_after_softmax": (changed(scale=unscaled, after=weights_by_root), changed(after=weights_by_root)),
    "softmax_wrong_axis": (
        *(changed(softmax=partial(down_an_axis, axis=axis)) for axis in (-2, 0)), changed(softmax=all_at_once),
    ),
    "softmax_no_max": (changed(softmax=without_maximum),),
    "softmax_wrong_shift": (changed(softmax=minus_mean),),
    "softmax_global_max": (
        changed(softmax=minus_global_maximum), changed(softmax=minus_global_maximum, settle=zeros_for_nan),
    ),
    "softmax_no_keepdims": tuple(changed(softmax=s) for s in (flat_maximum, flat_sum, flat_both)),
    "softmax_twice": (changed(softmax=twice),),
    "integer_result": (changed(after=in_dtype_of_queries), changed(mix=output_in_dtype_of_values)),
    "mutates_input": tuple(
        changed(product=p, scale=unscaled) for p in (queries_scaled_in_place, keys_scaled_in_place)
    ),
    "mask_inverted": (changed(look=inverted),),
    "mask_after_softmax": (changed(hide=no_hiding, after=masked_weights),),
    "mask_fill_zero": (changed(hide=times_mask),),
    "mask_fill_small": (
        *(changed(hide=partial(filled, fill=fill)) for fill in (-1e4, -100.0, -10.0, -1.0)),
        *(changed(hide=partial(shifted, by=by)) for by in (-1e4, -100.0, -10.0)),
    ),
    "mask_times_inf": (changed(hide=times_infinity),),
    "mask_transposed": (changed(look=transposed),),
    "mask_assumes_square": (changed(look=as_square), changed(hide=square_by_default)),
    "mask_ignored": (changed(look=ignored),),
    "qk_swapped": (changed(product=queries_for_keys),),
    "kv_swapped": (swapped_values,),
    "batch_axes_turned": (changed(product=all_axes_turned),),
    "keys_not_transposed": (changed(product=keys_as_they_are),),
    "queries_transposed": (changed(product=columns_by_columns),),
    "weights_transposed": (changed(mix=mixed_transposed),),
    "returns_values_only": (changed(mix=values_only),),
}  # fmt: skip


def fitted_constant(weights_of: Callable[[Any], Any]) -> Callable[[Probe, Any], Function | None]:
    """A fit for `scale_hard_coded`: the number that the scores were divided by, read off the weights themselves."""

    def fit(probe: Probe, value: Any) -> Function | None:
        arguments, weights = probe.arguments, weights_of(value)
        if isinstance(arguments, tuple) or arguments.get("mask") is not None or not isinstance(weights, np.ndarray):
            return None
        scores = np.asarray(arguments["Q"]) @ np.asarray(arguments["K"]).mT
        if scores.shape != weights.shape or not (weights > 0).all() or np.ptp(scores) > 100:
            return None
        flat = (scores - scores.mean(axis=-1, keepdims=True)).ravel()
        logs = np.log(weights)
        slope = float(flat @ (logs - logs.mean(axis=-1, keepdims=True)).ravel() / (flat @ flat))
        divided = slope and abs(slope - 1) > 1e-6  # 1: not divided at all, which has a name of its own
        return changed(scale=partial(by_constant, constant=1 / slope)) if divided else None

    return fit


def mistakes(*ids: str, inside: tuple[Function, str] | None = None) -> tuple[Mistake, ...]:
    """Mistakes of attention for a task, as they are or inside its own formula.

    Parameters
    ----------
    *ids : str
        Keys of `ATTENTION`; none: all of them.
    inside : (formula, step), optional
        The task's formula, and the keyword under which it takes attention.
    """
    chosen: Sequence[str] = ids or list(ATTENTION)
    return tuple(
        Mistake(name, ATTENTION[name] if inside is None else within(*inside, *ATTENTION[name])) for name in chosen
    )


def conventions(inside: tuple[Function, str]) -> tuple[Convention, ...]:
    """The conventions of attention inside another formula."""
    return tuple(Convention(c.id, within(*inside, c.variation)[0]) for c in CONVENTIONS)
