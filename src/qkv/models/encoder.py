"""An encoder: every token looks at every other, in both directions, layer after layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..contract import op
from ..errors import ArgumentError
from ..io.config import Config
from ..io.sentence import POOLINGS, SentenceSettings, read_sentence_settings
from ..io.tokenizer import Tokenizer, read_tokenizer
from ..io.weights import Settings
from ..layers import Block, FeedForward, LayerNorm, MultiHeadAttention
from ..ops import masks
from ..ops.precision import Array
from .inputs import Given, batches, check_ids, padded, read_given

POOL: dict[str, Callable[[Array], Array]] = {
    "cls": lambda hidden: hidden[0],
    "max": lambda hidden: hidden.max(axis=0),
    "mean": lambda hidden: hidden.mean(axis=0),
    "mean_sqrt_len": lambda hidden: hidden.sum(axis=0) / np.sqrt(len(hidden), dtype=hidden.dtype),
}


@dataclass(eq=False)
class Embeddings:
    """A vector for each token: which word it is, where it stands, to which segment it belongs.

    Attributes
    ----------
    W_word : (vocab_size, d_model) ndarray
    W_position : (n_positions, d_model) ndarray
    W_type : (n_types, d_model) ndarray
    norm : LayerNorm
    """

    W_word: Array
    W_position: Array
    W_type: Array
    norm: LayerNorm

    @op(
        name="embeddings",
        word="*B T d_model", position="T d_model", segment="*B T d_model", summed="*B T d_model", out="*B T d_model",
    )  # fmt: skip
    def __call__(self, ids: Array, types: Array | None = None) -> Array:
        """Vectors (..., T, d_model) of `ids` (..., T); `types` (..., T) are the segments, 0 by default."""
        word = self.W_word[ids]
        position = self.W_position[: ids.shape[-1]]
        segment = self.W_type[np.zeros_like(ids) if types is None else types]
        summed = word + segment + position
        out = self.norm(summed)
        return out


@dataclass(eq=False)
class Pooler:
    """The first token's vector once more through a matrix: what BERT was trained to classify pairs of sentences by.

    Attributes
    ----------
    W : (d_model, d_model) ndarray
    b : (d_model,) ndarray
    """

    W: Array
    b: Array

    @op(name="pooler", first="*B d_model", out="*B d_model")
    def __call__(self, hidden: Array) -> Array:
        first = hidden[..., 0, :]
        out = np.tanh(first @ self.W + self.b)
        return out


@dataclass(eq=False)
class Encoder:
    """BERT and its relatives.

    Attributes
    ----------
    embeddings : Embeddings
    layers : list of Block
    settings : Settings
    pooler : Pooler or None
        Loaded where the file has one; `model(...)` does not use it.
    directory : Path or None
        Where it was loaded from.
    tokenizer : Tokenizer or None
        `model.tokenizer.encode`, `.decode`, `.tokens`.
    sentence : SentenceSettings or None
        What `encode` does.

    Notes
    -----
    Devlin et al., arXiv 1810.04805, section 3.
    """

    embeddings: Embeddings
    layers: list[Block]
    settings: Settings
    pooler: Pooler | None = None
    directory: Path | None = None
    tokenizer: Tokenizer | None = None
    sentence: SentenceSettings | None = None

    def __repr__(self) -> str:
        shape = f"{len(self.layers)} layers, {self.settings.n_heads} heads, d_model {self.settings.d_model}"
        return f"<{type(self).__name__}: {shape}>"

    @classmethod
    def from_weights(cls, settings: Settings, weights: dict[str, Any]) -> Encoder:
        """The model of these settings and of weights in nested dicts, by the names of the fields."""

        def norm(part: dict[str, Array]) -> LayerNorm:
            return LayerNorm(**part, eps=settings.eps)

        layers = [
            Block(
                MultiHeadAttention(**layer["attention"], n_heads=settings.n_heads),
                FeedForward(**layer["feed_forward"], activation=settings.activation),
                norm(layer["norm_1"]), norm(layer["norm_2"]), order="post",
            )
            for layer in weights["layers"].values()
        ]  # fmt: skip
        table = weights["embeddings"]
        embeddings = Embeddings(table["W_word"], table["W_position"], table["W_type"], norm(table["norm"]))
        return cls(embeddings, layers, settings, Pooler(**weights["pooler"]) if "pooler" in weights else None)

    def read_beside(self, directory: Path, config: Config) -> None:
        """What files beside the weights say: how the vectors of tokens become one of the sentence."""
        self.sentence = read_sentence_settings(directory, self.settings.d_model)

    @op(name="encoder", path="", ids="*B T", out="*B T d_model")
    def forward(self, ids: Array, types: Array | None = None, **rules: Any) -> Array:
        """Hidden states (..., T, d_model) of `ids` (..., T), unchecked; `rules` go to each layer's attention."""
        x = self.embeddings(ids, types)
        for layer in self.layers:
            x = layer(x, **rules)
        out = x
        return out

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
        sequences, single = self._read(given)
        return self.forward(sequences[0]) if single else self._run_batch(sequences)

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
        sequences, single = self._read(given, rule)
        vectors = np.empty((len(sequences), width), np.float32)
        for batch in batches(sequences, batch_size):
            for index, hidden in zip(batch, self._run_batch([sequences[index] for index in batch])):
                vectors[index] = sentence_vector(hidden, rule)
        return vectors[0] if single else vectors

    def _run_batch(self, sequences: Sequence[Array]) -> list[Array]:
        ids, lengths = padded(sequences)
        mask = None if (lengths == lengths[0]).all() else masks.padding(lengths)
        return [hidden[:length] for hidden, length in zip(self.forward(ids, mask=mask), lengths)]

    def _read(self, given: Given, rule: SentenceSettings | None = None) -> tuple[list[Array], bool]:
        """Token ids, checked; text is cut only by a `rule` that says so."""
        n_special = 0

        def encode(text: str) -> list[int]:
            nonlocal n_special
            tokenizer = self.tokenizer or read_tokenizer(self.directory or Path())
            n_special = tokenizer.n_special_tokens
            if rule is None:
                return tokenizer.encode(text)
            return tokenizer.encode(text.lower() if rule.lower_case else text, max_tokens=rule.max_tokens)

        sequences, single = read_given(given, encode)
        check_ids(sequences, self.settings.vocab_size, self.settings.n_positions, n_special)
        return sequences, single

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


def sentence_vector(hidden: Array, rule: SentenceSettings) -> Array:
    """The vectors (T, d_model) of a text's tokens as one (d,), special tokens included.

    Examples
    --------
    >>> sentence_vector(np.array([[1.0, 6.0], [5.0, 2.0]]), SentenceSettings(("mean",), normalized=True))
    array([0.6, 0.8])
    """
    vector = np.concatenate([POOL[name](hidden) for name in rule.poolings])
    if rule.normalized:
        vector = vector / max(float(np.linalg.norm(vector)), 1e-12)  # as torch.nn.functional.normalize
    return vector
