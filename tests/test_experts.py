"""Layers with experts against the same thing written out token by token, and every rule of choosing by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import qkv
from qkv.errors import ArgumentError, QkvError
from qkv.layers import Block, Experts, GatedFeedForward, Routing
from qkv.layers.experts import ClampedSwiGLU

rng = np.random.default_rng(13)
E, D, F = 6, 7, 5


def close(x: Any, y: Any) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)


def made(routing: Routing, **fields: Any) -> Experts:
    return replace(Experts.init(D, F, E, 1, seed=3), routing=routing, **fields)


def with_all(routing: Routing) -> Experts:
    """A layer with everything that a layer may have."""
    return made(
        routing, b_gate=rng.normal(size=(E, F)), b_up=rng.normal(size=(E, F)), b_down=rng.normal(size=(E, D)),
        b_router=rng.normal(size=E), correction=rng.normal(size=E) / 3, shared=GatedFeedForward.init(D, 3, seed=5),
        W_shared_gate=rng.normal(size=(D, 1)),
    )  # fmt: skip


def silu(z: float) -> float:
    return z / (1 + math.exp(-z))


def through(W_gate: np.ndarray, W_up: np.ndarray, W_down: np.ndarray, b: Any, x: np.ndarray) -> np.ndarray:
    gate, up = x @ W_gate + b[0], x @ W_up + b[1]
    return np.array([silu(g) * u for g, u in zip(gate, up)]) @ W_down + b[2]


def plain(layer: Experts, x: np.ndarray) -> np.ndarray:
    """One token through the layer, without groups: expert after expert, in Python's own floats."""
    routing, zero = layer.routing, np.zeros(E)
    scores = list(x @ layer.W_router + (zero if layer.b_router is None else layer.b_router))
    exps = [math.exp(s) for s in scores]
    affinities = [e / sum(exps) for e in exps] if routing.score == "softmax" else [1 / (1 + 1 / e) for e in exps]
    if routing.among_chosen:
        affinities = scores
    correction = zero if layer.correction is None else layer.correction
    order = sorted(range(E), key=lambda e: (-(affinities[e] + correction[e]), e))[: routing.n_active]
    shares = [math.exp(scores[e]) if routing.among_chosen else affinities[e] for e in order]
    if routing.among_chosen or routing.normalize:
        shares = [share / sum(shares) for share in shares]
    out = np.zeros(D)
    for e, share in zip(order, shares):
        b = [0.0 if one is None else one[e] for one in (layer.b_gate, layer.b_up, layer.b_down)]
        out += routing.scaling * share * through(layer.W_gate[e], layer.W_up[e], layer.W_down[e], b, x)
    if layer.shared is not None:
        shared = layer.shared
        always = through(shared.W_gate, shared.W_up, shared.W_down, (0.0, 0.0, 0.0), x)
        gate = 1.0 if layer.W_shared_gate is None else 1 / (1 + math.exp(-(x @ layer.W_shared_gate)[0]))
        out += gate * always
    return out


ROUTINGS = [
    Routing(2, among_chosen=True), Routing(1, among_chosen=True), Routing(3), Routing(3, normalize=True),
    Routing(E, normalize=True, scaling=2.5), Routing(2, score="sigmoid"),
    Routing(2, scaling=1.7), Routing(3, score="sigmoid", normalize=True, scaling=0.4),
]  # fmt: skip


@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("make", [made, with_all])
def test_a_batch_is_each_token_by_itself(routing: Routing, make: Any) -> None:
    layer, x = make(routing), rng.normal(size=(2, 11, D))
    found = layer(x)
    for place in np.ndindex(2, 11):
        close(found[place], plain(layer, x[place]))
    close(layer(x[0, :1]), found[0, :1])
    close(layer(x[0]), found[0])
    assert layer(x[:, :0]).shape == (2, 0, D)


def test_a_layer_of_one_expert_is_that_expert() -> None:
    layer, x = Experts.init(D, F, 1, 1, seed=2), rng.normal(size=(5, D))
    close(layer(x), GatedFeedForward(layer.W_gate[0], layer.W_up[0], layer.W_down[0])(x))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_answer_has_the_dtype_of_the_input(dtype: Any) -> None:
    layer = with_all(Routing(3, score="sigmoid", normalize=True, scaling=2.0))
    narrow = {name: value.astype(dtype) for name, value in vars(layer).items() if isinstance(value, np.ndarray)}
    shared = GatedFeedForward(*(W.astype(dtype) for W in (layer.shared.W_gate, layer.shared.W_up, layer.shared.W_down)))
    x = rng.normal(size=(5, D)).astype(dtype)
    found = replace(layer, **narrow, shared=shared)(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, layer(x.astype(np.float64)), rtol=0, atol=0.05 if dtype == np.float16 else 1e-5)


def test_experts_that_are_not_chosen_are_never_touched() -> None:
    layer = made(Routing(2, among_chosen=True))
    x = rng.normal(size=(1, D))
    with qkv.record() as trace:
        expected = layer(x)
    others = np.setdiff1d(np.arange(E), trace["feed_forward.chosen"])
    for W in (layer.W_gate, layer.W_up, layer.W_down):
        W[others] = np.nan
    np.testing.assert_array_equal(layer(x), expected)


# choosing


def chosen(routing: Routing, affinities: Any, correction: Any = None) -> list[int]:
    return routing.choose(np.array(affinities, float), None if correction is None else np.array(correction)).tolist()


def test_of_equal_experts_the_first() -> None:
    assert chosen(Routing(3), [1, 2, 2, 1, 2, 0]) == [1, 2, 4]
    assert chosen(Routing(4), [1, 2, 2, 1, 2, 0]) == [1, 2, 4, 0]
    assert chosen(Routing(2), [0, 0, 0, 0, 0, 0]) == [0, 1]


def test_the_correction_counts_in_choosing_alone() -> None:
    routing = Routing(2, score="sigmoid")
    affinities = np.array([0.5, 0.4, 0.3, 0.2, 0.1, 0.05])
    found = routing.choose(affinities, np.array([0, 0, 0, 0, 0, 0.6]))
    assert found.tolist() == [5, 0]
    assert routing.shares(affinities, found).tolist() == [0.05, 0.5]


@pytest.mark.parametrize("group_score", ["best", "best_two"])
def test_groups(group_score: str) -> None:
    """The groups are 9 and 0, 6 and 5, 4 and 3."""
    routing = Routing(2, n_groups=3, n_active_groups=2, group_score=group_score)
    one = replace(routing, n_active_groups=1)
    assert chosen(routing, [9, 0, 6, 5, 4, 3]) == [0, 2]
    assert chosen(one, [9, 0, 6, 5, 4, 3]) == ([0, 1] if group_score == "best" else [2, 3])
    assert chosen(one, [9, 0, 6, 5, 4, 3], [0, 0, 0, 0, 9, 9]) == [4, 5]
    assert chosen(replace(routing, n_active_groups=3), [9, 0, 6, 5, 4, 3]) == [0, 2]
    assert chosen(one, [1, 1, 1, 1, 1, 1]) == [0, 1], "of equal groups the first"
    assert chosen(one, [-9, -8, -3, -7, -4, -5]) == ([2, 3] if group_score == "best" else [4, 5])


def test_a_score_that_is_nan_shows() -> None:
    layer = made(Routing(2, among_chosen=True))
    layer.W_router[:, 4] = np.nan
    assert np.isnan(layer(rng.normal(size=(3, D)))).all()
    layer = made(Routing(2))
    x = rng.normal(size=(3, D))
    x[1, 2] = np.nan
    assert np.isnan(layer(x)).all(axis=1).tolist() == [False, True, False]


def test_shares_stay_finite_where_every_sigmoid_is_0() -> None:
    layer = made(Routing(2, score="sigmoid", normalize=True), b_router=np.full(E, -2000.0))
    assert (layer(rng.normal(size=(3, D))) == 0).all()


# the clamped gate


def test_the_clamped_gate_by_hand() -> None:
    gate, up = np.array([-9.0, 0.5, 2.0, 9.0]), np.array([-9.0, 0.25, 1.0, 9.0])
    expected = [
        min(g, 1.5) / (1 + math.exp(-1.2 * min(g, 1.5))) * (max(-1.5, min(u, 1.5)) + 1) for g, u in zip(gate, up)
    ]
    close(ClampedSwiGLU(alpha=1.2, limit=1.5)(gate, up), expected)


def test_experts_with_a_clamped_gate() -> None:
    layer = made(Routing(1, among_chosen=True), activation=ClampedSwiGLU(1.2, 0.3), b_gate=rng.normal(size=(E, F)))
    x = rng.normal(size=D)
    e = int(np.argmax(x @ layer.W_router))
    hidden = ClampedSwiGLU(1.2, 0.3)(x @ layer.W_gate[e] + layer.b_gate[e], x @ layer.W_up[e])
    close(layer(x[None])[0], hidden @ layer.W_down[e])


# watching


def test_what_a_trace_shows() -> None:
    block = Block.init(D, 1, 3)
    block.feed_forward = with_all(Routing(2, score="sigmoid", normalize=True))
    x = rng.normal(size=(5, D))
    with qkv.record("*.feed_forward.*") as trace:
        block(x)
    names = [path.removeprefix("block.feed_forward.") for path in trace]
    assert names == ["scores", "affinities", "chosen", "shares", "given", "routed", "shared.gate", "shared.up",
                     "shared.hidden", "shared.output", "always", "output"]  # fmt: skip
    part = {name: trace[f"block.feed_forward.{name}"] for name in names}
    assert (part["scores"].shape, part["given"].shape) == ((5, E), (5, 2, D))
    close(part["shares"].sum(axis=1), 1)
    close(part["routed"], (part["shares"][..., None] * part["given"]).sum(axis=1))
    close(part["output"], part["routed"] + part["always"])


def test_an_expert_can_be_taken_away_or_put_in_place_of_another() -> None:
    layer, x = made(Routing(2, among_chosen=True)), rng.normal(size=(5, D))
    with qkv.record() as trace:
        layer(x)
    first = trace["feed_forward.chosen"][:, 0]
    with qkv.edit({"feed_forward.shares": lambda s: s * [0, 1]}), qkv.record() as without:
        layer(x)
    close(without["feed_forward.output"], trace["feed_forward.shares"][:, 1:] * trace["feed_forward.given"][:, 1])
    with qkv.edit({"feed_forward.chosen": lambda c: np.repeat(c[:, :1], 2, axis=1)}):
        alone = layer(x)
    for row, e, found in zip(x, first, alone):
        close(found, through(layer.W_gate[e], layer.W_up[e], layer.W_down[e], (0, 0, 0), row))
    with (
        pytest.raises(ArgumentError, match="chosen must be from 0 to 5, but it is 6"),
        qkv.edit({"feed_forward.chosen": lambda c: c * 0 + 6}),
    ):
        layer(x)


# refusals


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Routing(0), "n_active must be an integer of at least 1"),
        (lambda: Routing(2, score="relu"), "score must be one of softmax, sigmoid, but it is 'relu'"),
        (lambda: Routing(2, group_score="sum"), "group_score must be one of best, best_two"),
        (lambda: Routing(2, scaling=0.0), "scaling must be a number above 0"),
        (lambda: Routing(2, normalize=1), "normalize must be True or False"),  # type: ignore[arg-type]
        (lambda: Routing(2, n_groups=2, n_active_groups=3), "n_active_groups must be from 1 to 2, but it is 3"),
        (lambda: Routing(2, score="sigmoid", among_chosen=True), "score='sigmoid' cannot be given together with among"),
        (lambda: made(Routing(7)), "n_active must be from 1 to 6, but it is 7"),
        (lambda: made(Routing(3, n_groups=3)), "n_active must be from 1 to 2, but it is 3"),
        (lambda: made(Routing(1, n_groups=4)), "n_experts=6 must be a multiple of n_groups=4"),
        (lambda: made(Routing(1, n_groups=6, group_score="best_two")), "n_groups must be from 1 to 3, but it is 6"),
        (lambda: made(Routing(1), W_down=np.ones((5, F, D))), "W_down has E=5 but W_router has E=6"),
        (lambda: ClampedSwiGLU(limit=0.0), "limit must be a number above 0"),
        (lambda: made(Routing(1))(np.ones((3, 4))), r"x is 4 wide, but its weights \(7, 6\) take 7"),
        (lambda: Experts.init(D, F, 0, 1), "n_experts must be an integer of at least 1"),
    ],
)
def test_a_wrong_call_is_one_line(wrong: Any, message: str) -> None:
    with pytest.raises(QkvError, match=message) as caught:
        wrong()
    assert "\n" not in str(caught.value)
