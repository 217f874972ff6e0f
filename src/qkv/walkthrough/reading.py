"""The logit lens on a text: layer by layer, which tokens the model would go on with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import words
from ..errors import ArgumentError
from ..models.decoder import Decoder
from ..models.encoder import Encoder
from ..models.inputs import only
from ..models.lens import Lens, read_off
from ..ops.precision import Array
from ..trace import record
from .parts import Line, Table, word
from .showing import Shown

STREAMS = ("embeddings.out", "layers.*.resid_post")
AFTER_ATTENTION = "layers.*.resid_mid"


@dataclass(frozen=True, eq=False)
class Reading(Shown):
    """What a model would say after each layer.

    Attributes
    ----------
    lens : Lens
    tokens : list of str
        The sequence as the tokenizer writes it; ids as text without one.
    position : int
        The one that the table shows, from 0.
    parts : tuple of Line or Table
    lang : {"en", "zh"}
    """

    lens: Lens
    tokens: list[str]
    position: int
    parts: tuple[Line | Table, ...]
    lang: str


def lens_of(
    model: Any, given: Any, *, position: int = -1, top: int = 3, after_attention: bool = False, lang: str | None = None
) -> Reading:
    """Read the residual stream off after every layer.

    Parameters
    ----------
    model : Decoder, or an Encoder with the head that fills in masks
    given : str or (T,) array_like of int
    position : int
        Of which token the table shows what follows; below 0 from the end.
    top : int
        How many tokens of each place.
    after_attention : bool
        Read it off between attention and the feed-forward layer too.
    lang : {"en", "zh"}, optional

    Returns
    -------
    Reading

    Raises
    ------
    ArgumentError
        For a model without a head, a list, or a position that is not there.
    """
    unembed = _unembed(model)
    ids = only(model.read(given))
    if not -len(ids) <= position < len(ids):
        expected = f"from {-len(ids)} to {len(ids) - 1}"
        raise ArgumentError("number", name="position", expected=expected, value=position)
    with record(*STREAMS, *([AFTER_ATTENTION] if after_attention else [])) as trace:
        model.forward(ids)
    lens = read_off(unembed, ids, trace, top)
    place = position % len(ids)
    tokens = [_spelled(model, int(i)) for i in ids]
    final = {"token": _spelled(model, int(lens.final[place])), "position": place, "before": tokens[place]}
    parts = (Line("lens.title", final), _table(model, lens, place), Line("lens.rule"))
    return Reading(lens, tokens, place, parts, words.language(lang, given if isinstance(given, str) else ""))


def _unembed(model: Any) -> Callable[[Array], Array]:
    """From a stream to logits over the vocabulary."""
    if isinstance(model, Decoder):
        model.head.matrix()
        return model.read_stream
    if not isinstance(model, Encoder):
        raise ArgumentError("not_of_text", kind=type(model).__name__)
    head, norm = model.task_head("masked_lm"), model.norm
    return lambda stream: head(stream if norm is None else norm(stream))


def _table(model: Any, lens: Lens, place: int) -> Table:
    """A row for each place: its likeliest tokens, and where the final one stands."""
    rows: list[tuple[Any, ...]] = []
    for i, path in enumerate(lens.places):
        rank, final = int(lens.rank[i, place]) + 1, float(lens.probability[i, place])
        pairs = zip(lens.tokens[i, place].tolist(), lens.probabilities[i, place].tolist())
        told = [cell for token, p in pairs for cell in (_spelled(model, token), p)]
        rows.append((*_where(path), rank, final, *told))
    n = lens.tokens.shape[-1]
    heads: list[str] = [word("layer"), word("after"), word("rank"), word("probability")]
    heads += [h for k in range(n) for h in (f"{k + 1}.", word("probability"))]
    return Table(tuple(heads), tuple(rows), digits=(None, None, None, 3, *(None, 3) * n), whole=True)


def _where(path: str) -> tuple[Any, Any]:
    """The layer, and after which of its parts."""
    if not path.startswith("layers."):
        return "", word("embeddings")
    return int(path.split(".")[1]), word("attention" if path.endswith("resid_mid") else "feed_forward")


def _spelled(model: Any, token: int) -> str:
    """A token as the vocabulary spells it; its number where it has no name."""
    if model.tokenizer is None or not model.tokenizer.knows(token):
        return f"#{token}"
    return str(model.tokenizer.readable([token])[0])
