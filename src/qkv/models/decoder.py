"""A decoder: every token looks back at those before it, layer after layer, and the last vector says what comes next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..contract import op
from ..errors import ArgumentError, FileError
from ..io.chat import ChatTemplate, read_chat_template
from ..io.config import Config
from ..io.decoders import DecoderSettings
from ..io.endings import read_end_ids
from ..io.gguf_tokenizer import tokenizer_of
from ..io.tokenizer import Tokenizer
from ..layers import Block, KVCache
from ..layers.parts import Norm
from ..ops import masks
from ..ops.masks import Rule
from ..ops.precision import Array
from .generate import Asked, generate, stream
from .inputs import Given, check_ids, is_text, left_padded, read_given
from .rotations import Rotations
from .vocabulary import Head, TokenEmbeddings


@dataclass(eq=False)
class Decoder:
    """A decoder with its head, tokenizer and ends.

    Attributes
    ----------
    embeddings : TokenEmbeddings
    layers : list of Block
    norm : LayerNorm, RMSNorm or None
    head : Head
    settings : DecoderSettings
    directory : Path or None
        Where it was loaded from.
    tokenizer : Tokenizer or None
        `model.tokenizer.encode`, `.decode`, `.tokens`.
    end_ids : frozenset of int
        The tokens that end a text or a turn; generation stops at each.
    chat_template : ChatTemplate or None
        How a chat is written for it.
    """

    embeddings: TokenEmbeddings
    layers: list[Block]
    norm: Norm | None
    head: Head
    settings: DecoderSettings
    directory: Path | None = None
    tokenizer: Tokenizer | None = None
    end_ids: frozenset[int] = field(default_factory=frozenset)
    chat_template: ChatTemplate | None = None

    def __repr__(self) -> str:
        shape = f"{len(self.layers)} layers, {self.settings.n_heads} heads, d_model {self.settings.d_model}"
        return f"<{type(self).__name__}: {shape}>"

    def read_beside(self, directory: Path, config: Config) -> None:
        """What files beside the weights say: where a text ends, and how a chat is written."""
        self.end_ids = read_end_ids(directory, config, self.tokenizer)
        self.chat_template = read_chat_template(directory)

    @op(name="decoder", path="", ids="*B T", out="*B T d_model")
    def forward(self, ids: Array, caches: Sequence[KVCache] | None = None, starts: Array | None = None) -> Array:
        """Hidden states after the last norm, unchecked.

        Parameters
        ----------
        ids : (..., T) ndarray of int
        caches : sequence of KVCache, optional
            One per layer, from `new_caches`: `ids` continue what they remember.
        starts : (...) ndarray of int, optional
            How much padding stands on the left of each sequence.

        Returns
        -------
        (..., T, d_model) ndarray

        Raises
        ------
        ArgumentError
            When the caches were filled in another `regime`.
        """
        seen = caches[0].n_seen if caches else 0
        positions = np.arange(seen, seen + ids.shape[-1])
        self._check_regime(seen, seen + ids.shape[-1], starts)
        if starts is not None:
            positions = positions - starts[..., None]
        x = self.embeddings(ids, positions)
        turning = self._rotations.tables(positions, x.dtype)
        causal = ids.shape[-1] > 1  # a single token comes after all that a cache holds
        for i, layer in enumerate(self.layers):
            cache = caches[i] if caches else None
            at = turning.get(layer.attention.rotary, positions)
            x = layer(x, causal=causal, positions=at, cache=cache, mask=_after_padding(starts, cache))
        out = x if self.norm is None else self.norm(x)
        return out

    def regime(self, length: int) -> tuple[int, ...]:
        """What of the rotations depends on how long a sequence is; empty for nearly all models.

        Keys that were turned in one regime do not fit another: there a sequence must be computed from its beginning.
        """
        return self._rotations.regime(length)

    def _check_regime(self, seen: int, length: int, starts: Array | None) -> None:
        for start in [0] if starts is None else starts.tolist():
            if seen and self.regime(seen - start) != self.regime(length - start):
                raise ArgumentError("other_regime", seen=seen - start, size=length - start)

    @cached_property
    def _rotations(self) -> Rotations:
        return Rotations.of(self.layers, self.settings.d_k)

    def new_caches(self) -> list[KVCache]:
        """Empty caches, one per layer; a layer with a window forgets what no later token can see."""
        return [KVCache(layer.attention.rules.get("window")) for layer in self.layers]  # type: ignore[union-attr]

    def __call__(self, given: Given) -> Any:
        """The hidden states after the last layer and its norm.

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
        hidden = self._hidden(sequences)
        return hidden[0] if single else hidden

    def logits(self, given: Given, caches: Sequence[KVCache] | None = None) -> Any:
        """For each token, a number for every token that may follow it.

        Parameters
        ----------
        given : str, (T,) array_like of int, or a list of such
            As in a call of the model.
        caches : sequence of KVCache, optional
            From `new_caches`, for one sequence: `given` continues what was given with them before. In any chunks the
            result is that of one pass.

        Returns
        -------
        (T, vocab_size) ndarray, or a list of them
        """
        sequences, single = self.read(given, seen=caches[0].n_seen if caches else 0)
        if caches is not None and not single:
            expected = "one sequence, for it has caches"
            raise ArgumentError("model_input", name="the input", expected=expected, what="a list")
        logits = [self.head(hidden) for hidden in self._hidden(sequences, caches)]
        return logits[0] if single else logits

    def generate(self, prompt: Given, **how: Any) -> Any:
        """Continue a prompt.

        Parameters
        ----------
        prompt : str, (T,) array_like of int, or a list of such
            A list is computed together; each gets what it would get alone.
        **how
            max_new_tokens, temperature, top_k, top_p, min_p, repetition_penalty, stop, seed, slide: see `Asked`.

        Returns
        -------
        str, list of int, or a list of them
            What was added: text for text, ids for ids, without the prompt and without the token that ended it.

        Raises
        ------
        ArgumentError
            For a prompt that cannot be read, a setting outside its range, or more tokens than the model has
            positions, unless `slide=True`.
        """
        asked = Asked(**how)
        sequences, single = self.read(prompt, slide=asked.slide)
        found = generate(self, sequences, asked, as_text=is_text(prompt))
        return found[0] if single else found

    def stream(self, prompt: Given, **how: Any) -> Iterator[Any]:
        """As `generate`, for one prompt, piece by piece.

        Yields
        ------
        str or int
            Text in whole characters, as soon as it is certain; or ids, for a prompt of ids.
        """
        asked = Asked(**how)
        sequences, single = self.read(prompt, slide=asked.slide)
        if not single:
            raise ArgumentError("model_input", name="the input", expected="one prompt", what="a list")
        return stream(self, sequences[0], asked, as_text=is_text(prompt))

    def chat_prompt(self, messages: Sequence[Mapping[str, Any]], *, answer: bool = True) -> str:
        """A chat as the text to continue, by the template that came with the model.

        Parameters
        ----------
        messages : sequence of dict
            Each with `role` ("system", "user", "assistant") and `content`, in order.
        answer : bool
            End with the beginning of the model's answer.

        Returns
        -------
        str
            Without the token that the tokenizer itself puts before every text.

        Raises
        ------
        FileError
            When the model came without a template, or its template refuses the chat.
        ArgumentError
            For what is no list of messages.
        """
        if self.chat_template is None:
            raise FileError("no_chat_template", path=self.directory)
        text = self.chat_template.render(messages, answer)
        start = self.chat_template.tokens.get("bos_token")
        if self.tokenizer is not None and start and self.tokenizer.encode("")[:1] == [self.tokenizer.id_of(start)]:
            text = text.removeprefix(start)
        return text

    def read(self, given: Given, seen: int = 0, slide: bool = False) -> tuple[list[Array], bool]:
        """Token ids, checked, and whether it was one sequence, not a list; `seen` tokens came before them."""
        n_special = 0

        def encode(text: str) -> list[int]:
            nonlocal n_special
            tokenizer = self.tokenizer or tokenizer_of(self.directory or Path())
            n_special = tokenizer.n_special_tokens
            return tokenizer.encode(text)

        sequences, single = read_given(given, encode)
        limit = None if slide or self.settings.n_positions is None else self.settings.n_positions - seen
        check_ids(sequences, self.settings.vocab_size, limit, n_special)
        return sequences, single

    def _hidden(self, sequences: Sequence[Array], caches: Sequence[KVCache] | None = None) -> list[Array]:
        if len(sequences) == 1:
            return [self.forward(sequences[0], caches)]
        ids, starts = left_padded(sequences)
        hidden = self.forward(ids, caches, starts if starts.any() else None)
        return [row[start:] for row, start in zip(hidden, starts)]


def _after_padding(starts: Array | None, cache: KVCache | None) -> Rule | None:
    """No key of the padding may be looked at; keys are counted from the first that the cache still holds."""
    if starts is None:
        return None
    forgotten = 0 if cache is None else cache.n_seen - cache.length
    return ~masks.padding(np.maximum(starts - forgotten, 0))
