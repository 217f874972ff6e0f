"""What every head of a model does: on a text, or on a sequence that is repeated so that induction can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import words
from ..errors import ArgumentError
from ..models.decoder import Decoder
from ..models.encoder import Encoder
from ..models.inputs import is_text
from ..ops.precision import Array
from ..ops.valid import integer
from .head_scores import ABOVE_CHANCE, CLEAR, Scores, mean_scores, scores_on
from .parts import Line, Table, word
from .patterns import PATTERNS
from .probing import PROBES, around_text, repeated
from .showing import Shown


@dataclass(frozen=True, eq=False)
class Heads(Shown):
    """What a model's heads do.

    Attributes
    ----------
    ids : list of (T,) ndarray
        The sequences that it was given.
    tokens : list of list of str
        As the tokenizer writes them; empty without one.
    scores : Scores
        With every token of a sequence: the mean over the sequences.
    own : Scores
        Without the tokens that the tokenizer puts around a text, neither as queries nor as keys.
    around : int
        How many of those there are.
    probe : str or None
    top, by : int or None, str or None
        What of the table is shown.
    lang : {"en", "zh"}
    """

    ids: list[Array]
    tokens: list[list[str]]
    scores: Scores
    own: Scores
    around: int
    probe: str | None
    lang: str
    top: int | None = None
    by: str | None = None
    within: bool = False

    @property
    def shown(self) -> Scores:
        """The scores that the table shows."""
        return self.own if self.within else self.scores

    def ranked(self) -> list[tuple[int, int]]:
        """The layer and number of each head as the table lists them: by `by`, or by what they are named after."""
        n_layers, n_heads = self.shown.entropy.shape
        places = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
        if self.by is None and self.top is None:
            return places
        return sorted(places, key=lambda at: -self._rank(*at))[: self.top]

    def _rank(self, layer: int, head: int) -> float:
        of = self.by or self.shown.name(layer, head)
        score = float("nan") if of is None else float(self.shown.patterns[of][layer, head])
        return -1.0 if np.isnan(score) else score

    @property
    def parts(self) -> tuple[Line | Table, ...]:
        """Lines and the table."""
        kind = self.probe or ("text" if len(self.ids) == 1 else "texts")
        lines = [Line(f"heads.{kind}", {"n": len(self.ids[0]), "texts": len(self.ids)})]
        lines.append(Line("heads.rule", {"clear": CLEAR, "times": ABOVE_CHANCE}))
        if self.around:
            lines.append(Line("heads.within" if self.within else "heads.around", {"around": self.around}))
        return (*lines, _table(self))


def heads_of(
    model: Any,
    given: Any = None,
    *,
    probe: str | None = None,
    length: int | None = None,
    seed: int = 0,
    top: int | None = None,
    by: str | None = None,
    within: bool = False,
    lang: str | None = None,
) -> Heads:
    """Say of every head what it does.

    Parameters
    ----------
    model : Encoder or Decoder
        As `qkv.load` gives it.
    given : str, (T,) array_like of int, or a list of such, optional
        The numbers of a list are the means of those of its members; each is computed alone, so there is no padding.
    probe : {"repeated"}, optional
        Random tokens, and the same once more: what tells induction heads. This is taken where nothing is given.
    length : int, optional
        How many tokens are repeated (24, or as many as the model takes).
    seed : int
        Which tokens.
    top, by : int, str, optional
        List so many heads alone, those with the largest score of the pattern `by`, or of the one they are named after.
    within : bool
        List the numbers without the tokens that the tokenizer puts around a text.
    lang : {"en", "zh"}, optional

    Returns
    -------
    Heads

    Raises
    ------
    ArgumentError
        For a text and a probe together, a pattern that is none, or what the model cannot read.
    FileError
        For text, when the model has no tokenizer.

    Notes
    -----
    The scores are those of `qkv.walkthrough.patterns`. A head is named after the pattern with the largest score, if
    that is at least 0.4 and at least twice what a head scores that looks at all visible keys alike.

    Examples
    --------
    >>> import qkv
    >>> from qkv.views import heads_of
    >>> model = qkv.load("tests/data/tiny/llama")
    >>> heads = heads_of(model, [3, 1, 4, 1, 5])
    >>> heads.scores.patterns["previous"].shape
    (3, 4)
    """
    if not isinstance(model, Encoder | Decoder):
        raise ArgumentError("not_of_text", kind=type(model).__name__)
    if probe is not None and given is not None:
        raise ArgumentError("together", one="probe", other="a text")
    if by is not None and by not in PATTERNS:
        raise ArgumentError("choice", name="by", choices=", ".join(PATTERNS), value=by)
    if top is not None:
        integer("top", top, 1)
    if given is None:
        probe = probe or PROBES[0]
        if probe not in PROBES:
            raise ArgumentError("choice", name="probe", choices=", ".join(PROBES), value=probe)
        given = repeated(model, length, seed)
    sequences, _ = model.read(given)
    before, after = around_text(model)
    own = slice(before, -after or None) if is_text(given) or probe else slice(None)
    both = [scores_on(model, ids, own) for ids in sequences]
    scores, inside = (mean_scores([pair[i] for pair in both]) for i in (0, 1))
    tokens = [list(model.tokenizer.readable(ids)) for ids in sequences] if model.tokenizer else []
    around = before + after if own != slice(None) else 0
    text = given if isinstance(given, str) else ""
    return Heads(sequences, tokens, scores, inside, around, probe, words.language(lang, text), top, by, within)


def _table(heads: Heads) -> Table:
    """A row for each head: what it does, how clearly, and all scores."""
    scores = heads.shown
    rows: list[tuple[Any, ...]] = []
    for layer, head in heads.ranked():
        name = scores.name(layer, head)
        score = scores.patterns[name][layer, head] if name else np.nan
        numbers = [scores.entropy, *(scores.patterns[n] for n in PATTERNS), scores.by_value["first"]]
        cells = [_cell(float(score)), *(_cell(float(of[layer, head])) for of in numbers)]
        rows.append((layer, head, word(name or "none"), *cells))
    names = ("layer", "head", "does", "score", "entropy", *PATTERNS, "first_by_value")
    digits = (None, None, None, *(3,) * (len(names) - 3))
    return Table(tuple(word(name) for name in names), tuple(rows), digits=digits, whole=True)


def _cell(number: float) -> Any:
    return word("not_applicable") if np.isnan(number) else number
