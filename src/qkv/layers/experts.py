"""Mixture of experts: a feed-forward part of many, of which each token goes through a few that a router chooses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contract import op
from ..errors import ArgumentError, ShapeError
from ..ops import silu
from ..ops.activations import sigmoid
from ..ops.precision import Array, answer_dtype
from ..ops.valid import positive
from .linear import linear
from .parts import GatedFeedForward, Seed, activation, generator, rows, sizes, xavier
from .routing import Routing


@dataclass(frozen=True)
class ClampedSwiGLU:
    """The gate of gpt-oss: it cannot grow without end, and what passes it is shifted by one.

    Attributes
    ----------
    alpha : float
        How steep the gate is.
    limit : float
        No gate is larger, and no candidate further from 0.

    Notes
    -----
    gate sigmoid(alpha gate) (up + 1), with gate <= limit and -limit <= up <= limit (gpt-oss model card, arXiv
    2508.10925, section 2.1). An alpha of 1.702 makes gate sigmoid(alpha gate) an approximation of GELU (Hendrycks,
    Gimpel, arXiv 1606.08415, section 2).

    Examples
    --------
    >>> ClampedSwiGLU(alpha=1.702, limit=7.0)(np.array([100.0]), np.array([100.0])).round(3)
    array([56.])
    """

    alpha: float = 1.702
    limit: float = 7.0

    def __post_init__(self) -> None:
        positive("alpha", self.alpha), positive("limit", self.limit)

    def __call__(self, gate: Array, up: Array) -> Array:
        alpha, limit = gate.dtype.type(self.alpha), gate.dtype.type(self.limit)
        return silu(alpha * np.minimum(gate, limit)) / alpha * (np.clip(up, -limit, limit) + 1)


@dataclass(eq=False)
class Experts:
    """Many gated feed-forward layers and a router that sends each token through a few of them.

    Attributes
    ----------
    W_gate, W_up : (E, d_model, d_ff) ndarray
    W_down : (E, d_ff, d_model) ndarray
    W_router : (d_model, E) ndarray
    routing : Routing
    activation : str or ClampedSwiGLU
        Of the gate; or how gate and candidates become hidden features.
    b_gate, b_up, b_down : (E, d_ff), (E, d_ff), (E, d_model) ndarray or None
    b_router : (E,) ndarray or None
    correction : (E,) ndarray or None
        Added to what the experts are chosen by, but not to their shares.
    shared : GatedFeedForward or None
        An expert that every token goes through, whatever the router says.
    W_shared_gate : (d_model, 1) ndarray or None
        How much the shared expert counts for a token; without it, fully.

    Notes
    -----
    output = sum_e share_e expert_e(x) [+ sigmoid(x W_shared_gate) shared(x)], over the chosen e. Only experts that are
    chosen are computed, each once, for all of its tokens.

    Examples
    --------
    >>> layer = Experts.init(d_model=7, d_ff=5, n_experts=11, n_active=3, seed=1)
    >>> layer(np.ones((2, 13, 7))).shape
    (2, 13, 7)
    """

    W_gate: Array
    W_up: Array
    W_down: Array
    W_router: Array
    routing: Routing
    activation: str | ClampedSwiGLU = "silu"
    b_gate: Array | None = None
    b_up: Array | None = None
    b_down: Array | None = None
    b_router: Array | None = None
    correction: Array | None = None
    shared: GatedFeedForward | None = None
    W_shared_gate: Array | None = None

    def __post_init__(self) -> None:
        n_experts, routing = self.n_experts, self.routing
        for name in ("W_gate", "W_up", "W_down"):
            if (size := len(getattr(self, name))) != n_experts:
                other = {"other": "W_router", "other_size": n_experts}
                raise ShapeError("same_size", name=name, axis="E", size=size, **other)
        if n_experts % routing.n_groups:
            raise ArgumentError("divides", name="n_experts", size=n_experts, by="n_groups", by_size=routing.n_groups)
        in_group = n_experts // routing.n_groups
        most = in_group * routing.n_active_groups
        if routing.n_active > most:
            raise ArgumentError("number", name="n_active", expected=f"from 1 to {most}", value=routing.n_active)
        if routing.n_active_groups < routing.n_groups and routing.group_score == "best_two" and in_group < 2:
            most = n_experts // 2
            raise ArgumentError("number", name="n_groups", expected=f"from 1 to {most}", value=routing.n_groups)

    @classmethod
    def init(cls, d_model: int, d_ff: int, n_experts: int, n_active: int, seed: Seed = 0) -> Experts:
        """Xavier weights, drawn expert after expert, the router's last; Mixtral's routing."""
        sizes(d_model=d_model, d_ff=d_ff, n_experts=n_experts, n_active=n_active)
        rng = generator(seed)
        drawn = [GatedFeedForward.init(d_model, d_ff, rng) for _ in range(n_experts)]
        W_gate, W_up, W_down = (np.stack([getattr(e, name) for e in drawn]) for name in ("W_gate", "W_up", "W_down"))
        W_router = xavier(rng, d_model, n_experts)
        return cls(W_gate, W_up, W_down, W_router, Routing(n_active, among_chosen=True))

    @property
    def n_experts(self) -> int:
        return self.W_router.shape[-1]

    @op(
        name="experts", path="feed_forward",
        x="*B T d_model", scores="*B T E", affinities="*B T E", chosen="*B T n_active", shares="*B T n_active",
        given="*B T n_active d_model", routed="*B T d_model", always="*B T d_model", output="*B T d_model",
    )  # fmt: skip
    def __call__(self, x: Array) -> Array:
        """What the experts make of each row of `x` (..., T, d_model), together."""
        x = rows("x", x)
        scores = self._scores(x)
        affinities = self.routing.affinities(scores)
        chosen = self._chosen(affinities)
        shares = self._shares(affinities, chosen)
        given = self._given(x, chosen)
        routed = (shares[..., None] * given).sum(axis=-2)
        always = self._always(x)
        output = routed if always is None else routed + always
        return output

    @op(step="scores")
    def _scores(self, x: Array) -> Array:
        return linear(x, self.W_router, self.b_router)

    @op(step="chosen")
    def _chosen(self, affinities: Array) -> Array:
        return self.routing.choose(affinities, self.correction)

    @op(step="shares")
    def _shares(self, affinities: Array, chosen: Array) -> Array:
        if strange := chosen[(chosen < 0) | (chosen >= self.n_experts)].tolist():  # only an edit can do that
            expected = f"from 0 to {self.n_experts - 1}"
            raise ArgumentError("number", name="chosen", expected=expected, value=strange[0])
        return self.routing.shares(affinities, chosen)

    @op(step="given")
    def _given(self, x: Array, chosen: Array) -> Array:
        """What each chosen expert makes of each token (..., T, n_active, d_model): one product for all its tokens."""
        tokens = x.reshape(-1, x.shape[-1])
        places = chosen.reshape(-1, chosen.shape[-1])
        given = np.empty((*places.shape, x.shape[-1]), answer_dtype(x, self.W_down))
        for expert in np.unique(places):
            token, place = np.nonzero(places == expert)
            given[token, place] = self._through(expert, tokens[token])
        return given.reshape(*chosen.shape, x.shape[-1])

    def _through(self, expert: int, x: Array) -> Array:
        """`x` (n, d_model) through one expert."""
        b_gate, b_up, b_down = (None if b is None else b[expert] for b in (self.b_gate, self.b_up, self.b_down))
        gate, up = linear(x, self.W_gate[expert], b_gate), linear(x, self.W_up[expert], b_up)
        if isinstance(self.activation, ClampedSwiGLU):
            hidden = self.activation(gate, up)
        else:
            hidden = activation(self.activation)(gate) * up
        return linear(hidden, self.W_down[expert], b_down)

    def _always(self, x: Array) -> Array | None:
        """What the shared expert makes of each token, where there is one."""
        if self.shared is None:
            return None
        made = self.shared(x)
        return made if self.W_shared_gate is None else made * sigmoid(linear(x, self.W_shared_gate))
