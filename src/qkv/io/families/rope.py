"""The settings of rotary positions, flat as transformers 4 writes them or in one place as transformers 5 does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...layers import Rotary
from ...ops.scaling import DynamicNTK, Linear, Llama3, LongRoPE, Scaling, Yarn
from ..config import Config

LARGEST = 1e12  # of a base or a factor; those in use are below 1e9
SHORTEST = 2  # length that a stretch starts from: its logarithm divides
# The two places where the settings as a whole may stand, the newer one first.
PLACES = ("rope_parameters", "rope_scaling")


def rope_values(
    config: Config, theta: str = "rope_theta", partial: str = "partial_rotary_factor"
) -> tuple[str, dict[str, Any]]:
    """Where the settings stand, and all of them as one dict; `theta` and `partial` are their names outside of it."""
    flat = {"rope_theta": config.raw(theta, None), "partial_rotary_factor": config.raw(partial, None)}
    place = next((name for name in PLACES if config.raw(name, None) is not None), PLACES[0])
    nested = config.raw(place, None) or {}
    if not isinstance(nested, dict):
        raise config.wrong(place, "an object")
    return place, {name: value for name, value in flat.items() if value is not None} | nested


def read_rotary(
    config: Config, place: str, values: Mapping[str, Any], d_k: int, n_positions: int, *,
    theta: float = 10000.0, partial: float = 1.0,
) -> Rotary:  # fmt: skip
    """How a model turns its queries and keys.

    Parameters
    ----------
    config : Config
        For the messages.
    place : str
    values : mapping
        As `rope_values` gives them.
    d_k, n_positions : int
        The width of a head, and the `max_position_embeddings` of the file.
    theta, partial : float
        What counts where the file says nothing.

    Raises
    ------
    FileError
        For a method that is not known, or a setting that its method does not use.
    """
    rope = Config(config.path, values)
    kind = rope.raw("rope_type", None) or rope.raw("type", None) or "default"
    if not isinstance(kind, str) or kind not in SCALINGS:
        raise config.wrong(place, f"of a type among {', '.join(SCALINGS)}")
    rope.raw("type", None)
    base = rope.number("rope_theta", 1e-3, LARGEST, default=theta)
    turning = int(d_k * rope.number("partial_rotary_factor", 0, 1, default=partial))
    if turning % 2:
        raise config.wrong(place, "turning an even part of each head")
    scaling = SCALINGS[kind](rope, n_positions)
    rope.finish()
    return Rotary(base, rotary_dim=None if turning == d_k else turning, scaling=scaling)


def longest(n_positions: int, *rotaries: Rotary | None) -> int:
    """How many positions a model takes: some methods stretch further than `max_position_embeddings` says."""
    stretched = [n_positions]
    for scaling in (rotary.scaling for rotary in rotaries if rotary is not None):
        if isinstance(scaling, Linear | DynamicNTK):
            stretched.append(int(n_positions * scaling.factor))
        elif isinstance(scaling, Yarn):
            stretched.append(int(scaling.original_length * scaling.factor))
    return max(stretched)


def _factor(rope: Config) -> float:
    return rope.number("factor", 1e-3, LARGEST)


def _original(rope: Config, n_positions: int) -> int:
    return rope.optional("original_max_position_embeddings", n_positions) or n_positions


def _optional_number(rope: Config, name: str) -> float | None:
    return None if rope.raw(name, None) is None else rope.number(name, 0, LARGEST)


def _yarn(rope: Config, n_positions: int) -> Yarn:
    original = _original(rope, n_positions)
    return Yarn(
        rope.number("factor", 1e-3, LARGEST, default=n_positions / original), original,
        rope.number("beta_fast", 0, LARGEST, default=0) or 32.0,
        rope.number("beta_slow", 0, LARGEST, default=0) or 1.0,
        _optional_number(rope, "mscale"), _optional_number(rope, "mscale_all_dim"),
        _optional_number(rope, "attention_factor"), rope.flag("truncate", default=True),
    )  # fmt: skip


def _longrope(rope: Config, n_positions: int) -> LongRoPE:
    original = _original(rope, n_positions)
    factor = rope.number("factor", 1e-3, LARGEST, default=n_positions / original)
    short, long = (_divisors(rope, name) for name in ("short_factor", "long_factor"))
    if original < SHORTEST:
        raise rope.wrong("original_max_position_embeddings", f"an integer of at least {SHORTEST}")
    return LongRoPE(short, long, original, factor, _optional_number(rope, "attention_factor"))


def _divisors(rope: Config, name: str) -> tuple[float, ...]:
    values = rope.raw(name)
    usable = isinstance(values, list) and all(isinstance(v, int | float) and 1 / LARGEST < v < LARGEST for v in values)
    if not usable:
        raise rope.wrong(name, "a list of positive numbers")
    return tuple(map(float, values))


def _llama3(rope: Config, n_positions: int) -> Llama3:
    low, high = (rope.number(f"{name}_freq_factor", 1e-6, LARGEST) for name in ("low", "high"))
    if high <= low:
        raise rope.wrong("high_freq_factor", f"larger than low_freq_factor={low}")
    return Llama3(_factor(rope), low, high, _original(rope, n_positions))


SCALINGS: dict[str, Callable[[Config, int], Scaling | None]] = {
    "default": lambda rope, n_positions: None,
    "linear": lambda rope, n_positions: Linear(_factor(rope)),
    "dynamic": lambda rope, n_positions: DynamicNTK(_factor(rope), n_positions),
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
}
