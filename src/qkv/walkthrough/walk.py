"""Attention on a sentence: run it once, watched, and lay out every step of the run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .. import words
from ..errors import ArgumentError
from ..layers import MultiHeadAttention
from ..ops.precision import Array
from ..trace import Trace, record
from . import steps
from .code import numpy_code
from .parts import Step
from .run import Run
from .setup import Drawn, Setup, draw, read_setup
from .showing import ShownOnPages
from .tokens import find_token, split_tokens


@dataclass(frozen=True, eq=False)
class Walkthrough(ShownOnPages):
    """Attention on a sentence, with every value of it.

    Attributes
    ----------
    tokens : list of str
    values : dict of str to ndarray
        X (n, d_model), W_Q, W_K (d_model, d_k), W_V (d_model, d_v), Q, K, V, scores (n, n) before scaling, scaled after
        scaling and masking, weights (n, n), output (n, d_v): those of the first head.
    heads : list of (n, n) ndarray
        The weights of each head.
    multi_head_output : (n, d_model) ndarray or None
        The heads joined by W_O; None with a single head.
    steps : list of Step
    trace : Trace
        The run as it was recorded.
    setup : Setup
    lang : {"en", "zh"}
    """

    tokens: list[str]
    values: dict[str, Array]
    heads: list[Array]
    multi_head_output: Array | None
    steps: list[Step]
    trace: Trace = field(repr=False)
    setup: Setup
    lang: str

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each value."""
        return {name: value.shape for name, value in self.values.items()}

    def step(self, name: str) -> Step:
        """The step of that name.

        Raises
        ------
        ArgumentError
            When there is none; it names them all.
        """
        found = next((step for step in self.steps if step.name == name), None)
        if found is None:
            raise ArgumentError("no_step", name=name, choices=", ".join(step.name for step in self.steps))
        return found

    def code(self) -> str:
        """The few lines of NumPy that give the same numbers."""
        return numpy_code(self.setup, len(self.tokens))


def explain(
    text: str | None = None,
    *,
    example: str | None = None,
    d_model: int | None = None,
    d_k: int | None = None,
    d_v: int | None = None,
    heads: int | None = None,
    seed: int | None = None,
    rng: str | None = None,
    causal: bool | None = None,
    row: str | int = 0,
    lang: str | None = None,
) -> Walkthrough:
    """Run attention on a sentence and keep every step, to be read, shown or saved.

    Parameters
    ----------
    text : str, optional
        Any sentence. One token per Chinese character, one per word otherwise. By default the example's.
    example : {"apple-tree", "cat-mat"}, optional
        A known set-up: sentence, sizes, seeds. A `text` beside it replaces its sentence only.
    d_model, d_k, d_v, heads, seed : int, optional
        By default those of "apple-tree": 4, d_model / heads, d_k, 1, 42.
    rng : {"legacy", "pcg64"}, optional
        Which of NumPy's generators draws embeddings and weights: see `Setup`.
    causal : bool, optional
        Hide what comes later.
    row : str or int
        The token whose row is shown in full.
    lang : {"en", "zh"}, optional
        By default `QKV_LANG`, then the script of the sentence, then the locale.

    Returns
    -------
    Walkthrough

    Raises
    ------
    ArgumentError
        One line that says which argument, and what it may be.

    Examples
    --------
    >>> import qkv
    >>> walk = qkv.explain("远方有颗苹果树")
    >>> walk.values["weights"].shape
    (7, 7)
    >>> walk.values["weights"][0].round(4)
    array([0.0412, 0.0122, 0.1782, 0.1663, 0.2193, 0.1452, 0.2376])
    """
    setup = read_setup(text, example, d_model=d_model, d_k=d_k, d_v=d_v, heads=heads, seed=seed, rng=rng, causal=causal)
    tokens = split_tokens(setup.text)
    return walk_of(setup, tokens, draw(setup, len(tokens)), find_token(tokens, row), lang)


def walk_of(setup: Setup, tokens: list[str], drawn: Drawn, row: int, lang: str | None) -> Walkthrough:
    """Run what was drawn and lay out the steps."""
    values, weights, output, trace = run_heads(setup, drawn)
    run = Run(setup, tuple(tokens), values, weights, output, drawn.W_O, row)
    spoken = words.language(lang, setup.text)
    return Walkthrough(tokens, values, weights, output, steps.lay_out(run), trace, setup, spoken)


def run_heads(setup: Setup, drawn: Drawn) -> tuple[dict[str, Array], list[Array], Array | None, Trace]:
    """Every head on its own, recorded, and all of them joined: the first head's values, all weights, the output."""
    X = drawn.X
    traces = []
    for head in drawn.heads:
        with record() as trace:
            head(X, causal=setup.causal)
        traces.append(trace)
    first, seen = drawn.heads[0], traces[0]
    Q, K, V = (seen[f"attention.{name}"] for name in "QKV")
    scaled = seen.get("attention.masked", seen["attention.scores"])
    values = {
        "X": X, "W_Q": first.W_Q, "W_K": first.W_K, "W_V": first.W_V, "Q": Q, "K": K, "V": V,
        "scores": Q @ K.T, "scaled": scaled, "weights": seen["attention.weights"], "output": seen["attention.output"],
    }  # fmt: skip
    weights = [trace["attention.weights"] for trace in traces]
    if drawn.W_O is None:
        return values, weights, None, seen
    layer = MultiHeadAttention.from_heads(drawn.heads, drawn.W_O)
    with record() as trace:
        output = np.asarray(layer(X, causal=setup.causal))
    return values, weights, output, trace
