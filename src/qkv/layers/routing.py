"""Which experts a token goes through, and how much each counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ArgumentError
from ..ops import softmax
from ..ops.activations import sigmoid
from ..ops.precision import Array
from ..ops.valid import integer, positive, truth

SCORES = ("softmax", "sigmoid")
GROUP_SCORES = ("best", "best_two")
TINY = 1e-20  # keeps shares finite where every sigmoid has underflowed; a sum of softmax's is never near it


@dataclass(frozen=True)
class Routing:
    """How a router's scores become the experts of a token and their shares.

    Attributes
    ----------
    n_active : int
        How many experts each token goes through.
    score : {"softmax", "sigmoid"}
        What a score becomes before it is a share.
    among_chosen : bool
        Softmax over the scores of the chosen experts alone, after choosing, instead of over all of them before.
    normalize : bool
        Divide the shares by their sum.
    scaling : float
        What the shares are multiplied with in the end.
    n_groups, n_active_groups : int
        The experts stand in `n_groups` groups of equal size, one after the other; only those of the best
        `n_active_groups` may be chosen.
    group_score : {"best", "best_two"}
        What a group counts for: its best expert, or the sum of its best two.

    Notes
    -----
    Of equal experts, or groups, those with the lowest numbers are chosen. Shazeer et al., arXiv 1701.06538, section 2
    (softmax among the chosen, as in Mixtral, arXiv 2401.04088, section 2.1); groups: DeepSeek-V2, arXiv 2405.04434,
    section 2.2; sigmoid and the correction: DeepSeek-V3, arXiv 2412.19437, section 2.1.2.

    Examples
    --------
    >>> mixtral = Routing(n_active=2, among_chosen=True)
    >>> scores = np.array([[0.0, 2.0, 1.0, 2.0]])
    >>> chosen = mixtral.choose(mixtral.affinities(scores))
    >>> chosen, mixtral.shares(mixtral.affinities(scores), chosen)
    (array([[1, 3]]), array([[0.5, 0.5]]))
    """

    n_active: int
    score: str = "softmax"
    among_chosen: bool = False
    normalize: bool = False
    scaling: float = 1.0
    n_groups: int = 1
    n_active_groups: int = 1
    group_score: str = "best"

    def __post_init__(self) -> None:
        for name in ("n_active", "n_groups", "n_active_groups"):
            integer(name, getattr(self, name), 1)
        for name, choices in (("score", SCORES), ("group_score", GROUP_SCORES)):
            if (value := getattr(self, name)) not in choices:
                raise ArgumentError("choice", name=name, choices=", ".join(choices), value=value)
        truth("among_chosen", self.among_chosen), truth("normalize", self.normalize)
        positive("scaling", self.scaling)
        if self.among_chosen and self.score != "softmax":
            raise ArgumentError("together", one=f"score={self.score!r}", other="among_chosen=True")
        if self.n_active_groups > self.n_groups:
            expected = f"from 1 to {self.n_groups}"
            raise ArgumentError("number", name="n_active_groups", expected=expected, value=self.n_active_groups)

    def affinities(self, scores: Array) -> Array:
        """What the scores (..., E) become before choosing."""
        if self.among_chosen:
            return scores
        return softmax(scores) if self.score == "softmax" else sigmoid(scores)

    def choose(self, affinities: Array, correction: Array | None = None) -> Array:
        """The experts (..., n_active) of each token, the best first; `correction` (E,) counts in this alone."""
        merits = affinities if correction is None else affinities + correction
        if self.n_active_groups < self.n_groups:
            merits = self._in_best_groups(merits)
        return _best(merits, self.n_active)

    def _in_best_groups(self, merits: Array) -> Array:
        """`merits` (..., E), -inf outside of the groups that may be chosen from."""
        grouped = merits.reshape(*merits.shape[:-1], self.n_groups, -1)
        n_counted = 1 if self.group_score == "best" else 2
        of_group = np.sort(grouped, axis=-1)[..., -n_counted:].sum(axis=-1)
        may = np.zeros(of_group.shape, bool)
        np.put_along_axis(may, _best(of_group, self.n_active_groups), True, axis=-1)
        return np.where(may[..., None], grouped, -np.inf).reshape(merits.shape)

    def shares(self, affinities: Array, chosen: Array) -> Array:
        """How much each chosen expert counts, (..., n_active)."""
        taken = np.take_along_axis(affinities, chosen, axis=-1)
        if self.among_chosen:
            taken = softmax(taken)
        if self.normalize:
            taken = taken / (taken.sum(axis=-1, keepdims=True) + taken.dtype.type(TINY))
        return taken * taken.dtype.type(self.scaling)


def _best(merits: Array, n: int) -> Array:
    """Where the `n` largest stand, the largest first, of equal ones the first; NaN comes before all, so that it shows.

    Examples
    --------
    >>> _best(np.array([1.0, 3.0, 3.0, 2.0]), 3)
    array([1, 2, 3])
    """
    order = np.where(np.isnan(merits), -np.inf, -merits)
    return np.argsort(order, axis=-1, kind="stable")[..., :n]
