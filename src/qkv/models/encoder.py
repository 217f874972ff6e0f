"""An encoder: every token looks at every other, in both directions, layer after layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..contract import op
from ..errors import ArgumentError
from ..io.config import Config
from ..io.families.encoders import EncoderSettings
from ..io.sentence import POOLINGS, SentenceSettings, read_sentence_settings
from ..io.tokens.masking import gives_segments, read_mask_token
from ..io.tokens.tokenizer import Tokenizer
from ..layers import Block
from ..layers.parts import Norm
from ..ops import masks
from ..ops.precision import Array
from . import answers
from .answers import Filling
from .embeddings import Embeddings
from .heads import Pooler, TaskHead
from .inputs import Given, batches, padded, read_ids
from .pooling import sentence_vector
from .rotations import Rotations

HEADS = ("masked_lm", "classifier", "detector")


@dataclass(eq=False)
class Encoder:
    """BERT and its relatives.

    Attributes
    ----------
    embeddings : Embeddings
    layers : list of Block
    settings : EncoderSettings
    norm : LayerNorm or None
        Of what the last layer gives, where the layers are "pre".
    pooler : Pooler or None
        Loaded where the file has one; `model(...)` does not use it.
    masked_lm, classifier, detector : TaskHead or None
        The heads that stand in the file: for `logits` and `fill`, for `classify`, for `replaced`.
    directory : Path or None
        Where it was loaded from.
    tokenizer : Tokenizer or None
        `model.tokenizer.encode`, `.decode`, `.tokens`.
    sentence : SentenceSettings or None
        What `encode` does.
    mask_token : str or None
        What stands for a hidden word.
    segments : bool
        Whether the model's files give it the segments of a pair of texts.

    Notes
    -----
    Devlin et al., arXiv 1810.04805, section 3.
    """

    embeddings: Embeddings
    layers: list[Block]
    settings: EncoderSettings
    norm: Norm | None = None
    pooler: Pooler | None = None
    masked_lm: TaskHead | None = None
    classifier: TaskHead | None = None
    detector: TaskHead | None = None
    directory: Path | None = None
    tokenizer: Tokenizer | None = None
    sentence: SentenceSettings | None = None
    mask_token: str | None = None
    segments: bool = True

    def __repr__(self) -> str:
        shape = f"{len(self.layers)} layers, {self.settings.n_heads} heads, d_model {self.settings.d_model}"
        return f"<{type(self).__name__}: {shape}>"

    def read_beside(self, directory: Path, config: Config) -> None:
        """What files beside the weights say: how vectors of tokens become one, and what a mask is called."""
        self.sentence = read_sentence_settings(directory, self.settings.d_model)
        self.mask_token = read_mask_token(directory, self.tokenizer)
        self.segments = gives_segments(directory)

    @op(name="encoder", path="", ids="*B T", out="*B T d_model")
    def forward(self, ids: Array, types: Array | None = None, **rules: Any) -> Array:
        """Hidden states (..., T, d_model) of `ids` (..., T), unchecked; `rules` go to each layer's attention."""
        x = self.embeddings(ids, types)
        positions = np.arange(ids.shape[-1])
        turning = self._rotations.tables(positions, x.dtype)
        for layer in self.layers:
            x = layer(x, positions=turning.get(layer.attention.rotary, positions), **rules)
        out = x if self.norm is None else self.norm(x)
        return out

    @cached_property
    def _rotations(self) -> Rotations:
        return Rotations.of(self.layers, self.settings.d_k)

    def task_head(self, name: str) -> TaskHead:
        """One of the heads `masked_lm`, `classifier`, `detector`; one line where the file has no such head."""
        found: TaskHead | None = getattr(self, name)
        if found is None:
            there = [other for other in HEADS if getattr(self, other) is not None]
            if not there:
                raise ArgumentError("no_task_heads", head=name)
            raise ArgumentError("no_task_head", head=name, there=", ".join(there))
        return found

    def __call__(self, given: Given) -> Any:
        """The hidden states of the last layer.

        Parameters
        ----------
        given : str, (T,) array_like of int, or a list of such
            Text, or token ids as `model.tokenizer.encode` gives them. A list is computed together, as one batch; the
            result is that of each alone, to rounding.

        Returns
        -------
        (T, d_model) ndarray, or a list of them
            For one, or for a list.

        Raises
        ------
        ArgumentError
            For no token at all, an id outside the vocabulary, or more tokens than the model has positions: nothing
            is cut.
        """
        sequences, single = self.read(given)
        return self.forward(sequences[0]) if single else self.hidden(sequences)

    def logits(self, given: Given) -> Any:
        """For each token, a number for every word of the vocabulary that may stand in its place.

        Parameters
        ----------
        given : str, (T,) array_like of int, or a list of such
            As in a call of the model.

        Returns
        -------
        (T, vocab_size) ndarray, or a list of them

        Raises
        ------
        ArgumentError
            no_task_head when the file has no masked-LM head, else as a call.
        """
        head = self.task_head("masked_lm")
        hidden = self(given)
        return [head(rows) for rows in hidden] if isinstance(hidden, list) else head(hidden)

    def fill(self, text: str, top: int = 5) -> list[list[Filling]]:
        """What may stand where a text has masks.

        Parameters
        ----------
        text : str
            With `[MASK]`, or the model's own mask token, where a token is hidden.
        top : int
            How many are given of each.

        Returns
        -------
        list of list of Filling
            For each mask, in order, the likeliest tokens first. Each mask is filled on its own, while the others stay
            hidden.

        Raises
        ------
        ArgumentError
            For a text that is empty, too long or without a mask, and no_task_head.
        FileError
            When the model has no tokenizer, or its files name no mask token.
        """
        return answers.fill(self, text, top)

    def classify(self, given: Any) -> Any:
        """The labels of a text, or of a pair of texts.

        Parameters
        ----------
        given : str, (str, str), (T,) array_like of int, or a list of such
            A tuple of two texts is a pair, read as one sequence with the segments that the tokenizer gives; a list of
            texts is several texts.

        Returns
        -------
        dict of str to float, or a list of them
            By label: probabilities that sum to 1, or one for each label by itself where several may fit; of a
            regression the number itself. Which of them, `model.settings.classifier.problem` says.

        Raises
        ------
        ArgumentError
            As a call, and no_task_head.
        """
        return answers.classify(self, given)

    def replaced(self, given: Given) -> Any:
        """For each token, how likely it is that another stood there: what ELECTRA's discriminator was trained to see.

        Parameters
        ----------
        given : str, (T,) array_like of int, or a list of such
            As in a call of the model.

        Returns
        -------
        (T,) ndarray, or a list of them
        """
        return answers.replaced(self, given)

    def encode(self, given: Given, batch_size: int = 32, *, pooling: str | None = None) -> Array:
        """One vector for each text, by the model's own sentence-transformers files.

        Those files say how the vectors of tokens become one, whether it gets length 1, and where a text is cut: here,
        and only here, a text that is longer loses its end, as sentence-transformers does it. Token ids are never cut.

        Parameters
        ----------
        given : str, (T,) array_like of int, or a list of such
        batch_size : int
            How many are computed together at most; it changes the speed alone.
        pooling : {"cls", "max", "mean", "mean_sqrt_len"}, optional
            Instead of what the files say. Needed where there are none: no rule is guessed.

        Returns
        -------
        (n, d) float32 ndarray, or (d,) for a single text
        """
        if not isinstance(batch_size, int | np.integer) or batch_size < 1:
            raise ArgumentError("number", name="batch_size", expected="an integer of at least 1", value=batch_size)
        rule = self._sentence_rule(pooling)
        width = self.settings.d_model * len(rule.poolings)
        if isinstance(given, list | tuple | np.ndarray) and len(given) == 0:
            return np.empty((0, width), np.float32)
        sequences, single = self.read(given, rule)
        vectors = np.empty((len(sequences), width), np.float32)
        for batch in batches(sequences, batch_size):
            for index, hidden in zip(batch, self.hidden([sequences[index] for index in batch])):
                vectors[index] = sentence_vector(hidden, rule)
        return vectors[0] if single else vectors

    def hidden(self, sequences: Sequence[Array], types: Sequence[Array] | None = None) -> list[Array]:
        """Hidden states (T, d_model) of sequences of ids, unchecked, each as if it were alone."""
        ids, lengths = padded(sequences)
        segments = None if types is None else padded(types)[0]
        mask = None if (lengths == lengths[0]).all() else masks.padding(lengths)
        return [hidden[:length] for hidden, length in zip(self.forward(ids, segments, mask=mask), lengths)]

    def read(self, given: Given, rule: SentenceSettings | None = None) -> tuple[list[Array], bool]:
        """Token ids, checked, and whether it was one sequence, not a list; only a `rule` that says so cuts text."""
        lower_case, max_tokens = (False, None) if rule is None else (rule.lower_case, rule.max_tokens)
        return read_ids(
            self, given, self.settings.vocab_size, self.settings.n_positions,
            lower_case=lower_case, max_tokens=max_tokens,
        )  # fmt: skip

    def _sentence_rule(self, pooling: str | None) -> SentenceSettings:
        choices = ", ".join(POOLINGS)
        if pooling is not None and pooling not in POOLINGS:
            raise ArgumentError("choice", name="pooling", choices=choices, value=pooling)
        rule = self.sentence
        if pooling is not None:
            rule = replace(rule or SentenceSettings(()), poolings=(pooling,))
        if rule is None:
            raise ArgumentError("no_pooling", path=self.directory, choices=choices)
        return rule
