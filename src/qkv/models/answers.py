"""What an encoder's heads say of a text: which word a mask hides, which label fits, which words were replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ArgumentError, FileError
from ..io.tokens.masking import ANY_MASK
from ..io.tokens.tokenizer import Tokenizer
from ..ops import softmax
from ..ops.activations import sigmoid
from ..ops.precision import Array
from ..ops.valid import integer
from .generation.sampling import finite
from .heads import labelled
from .inputs import Given, check_ids, is_pair, tokenizer_of
from .pooling import POOL

if TYPE_CHECKING:
    from .encoder import Encoder


@dataclass(frozen=True)
class Filling:
    """A token that may stand where a mask is.

    Attributes
    ----------
    token : str
        As the vocabulary spells it, such as ##ing.
    text : str
        As it reads.
    id : int
    probability : float
        Among all tokens of the vocabulary.
    """

    token: str
    text: str
    id: int
    probability: float


def fill(model: Encoder, text: str, top: int) -> list[list[Filling]]:
    """As `Encoder.fill`."""
    head, top = model.task_head("masked_lm"), integer("top", top, 1)
    if not isinstance(text, str):
        raise ArgumentError("model_input", name="text", expected="a string", what=type(text).__name__)
    tokenizer = tokenizer_of(model)
    mask_id = None if model.mask_token is None else tokenizer.id_of(model.mask_token)
    if model.mask_token is None or mask_id is None:
        raise FileError("no_mask_token", path=model.directory)
    ids = np.array(tokenizer.encode(text.replace(ANY_MASK, model.mask_token)), dtype=np.intp)
    check_ids([ids], model.settings.vocab_size, model.settings.n_positions, tokenizer.n_special_tokens)
    places = np.flatnonzero(ids == mask_id)
    if not len(places):
        raise ArgumentError("no_mask", mask=ANY_MASK)
    probabilities = softmax(finite(head(model.forward(ids)[places])))
    return [_likeliest(tokenizer, row, top) for row in probabilities]


def _likeliest(tokenizer: Tokenizer, probabilities: Array, top: int) -> list[Filling]:
    """The likeliest tokens in order; rows of the model's table that stand for no token are passed over."""
    found: list[Filling] = []
    for number in np.argsort(-probabilities, kind="stable").tolist():
        if len(found) == top:
            break
        if tokenizer.knows(number):
            token, text = tokenizer.tokens([number])[0], tokenizer.decode([number], special_tokens=True)
            found.append(Filling(token, text, number, float(probabilities[number])))
    return found


def classify(model: Encoder, given: Any) -> Any:
    """As `Encoder.classify`."""
    head, settings = model.task_head("classifier"), model.settings.classifier
    assert settings is not None
    sequences, types, single = _texts_or_pairs(model, given)
    pool = POOL[settings.pooling]

    def pooled(batch: list[int]) -> list[Array]:
        return [pool(rows) for rows in model.hidden([sequences[i] for i in batch], [types[i] for i in batch])]

    found = labelled(sequences, pooled, head, settings)
    return found[0] if single else found


def replaced(model: Encoder, given: Given) -> Any:
    """As `Encoder.replaced`."""
    head = model.task_head("detector")
    sequences, single = model.read(given)
    found = [sigmoid(head(hidden)[:, 0]) for hidden in model.hidden(sequences)]
    return found[0] if single else found


def _texts_or_pairs(model: Encoder, given: Any) -> tuple[list[Array], list[Array], bool]:
    """Ids and segments of each text or pair, and whether it was a single one."""
    if is_pair(given):
        pairs, single = [given], True
    elif isinstance(given, list) and given and all(map(is_pair, given)):
        pairs, single = given, False
    else:
        sequences, single = model.read(given)
        return sequences, [np.zeros_like(ids) for ids in sequences], single
    return *_read_pairs(model, pairs), single


def _read_pairs(model: Encoder, pairs: Sequence[tuple[str, str]]) -> tuple[list[Array], list[Array]]:
    """Two texts as one sequence, with the segment of each token where the model tells them apart."""
    tokenizer, settings, sequences, types = tokenizer_of(model), model.settings, [], []
    for index, (first, second) in enumerate(pairs):
        for text in (first, second):
            if not tokenizer.encode(text, special_tokens=False):
                raise ArgumentError("empty_text" if len(pairs) == 1 else "empty_text_at", index=index)
        ids, kinds = tokenizer.encode_pair(first, second)
        sequences.append(np.array(ids, dtype=np.intp))
        types.append(np.array(kinds if model.segments and settings.n_types > 1 else [0] * len(ids), dtype=np.intp))
        if types[-1].max() >= max(settings.n_types, 1):
            expected = f"from 0 to {settings.n_types - 1}"
            raise ArgumentError("number", name="the segment of a token", expected=expected, value=int(types[-1].max()))
    check_ids(sequences, settings.vocab_size, settings.n_positions)
    return sequences, types
