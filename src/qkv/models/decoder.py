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
from ..io.config import Config
from ..io.families.decoders import DecoderSettings
from ..io.tokens.chat import ChatTemplate, read_chat_template
from ..io.tokens.endings import read_end_ids
from ..io.tokens.tokenizer import Tokenizer
from ..layers import Block, KVCache
from ..layers.parts import Norm
from ..ops import log_softmax, masks
from ..ops.biases import Bias
from ..ops.precision import Array
from .classifying import LastTokenClassifier, classify
from .generation.asked import Asked
from .generation.drafting import Drafter
from .generation.generate import Shortcuts, generate, stream
from .generation.prefix import PrefixCache
from .generation.run import Caches
from .inputs import Given, is_text, left_padded, only, read_ids
from .lens import lens
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
    classifier : LastTokenClassifier or None
        The head for whole texts, where the file has one.
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
    classifier: LastTokenClassifier | None = None

    def __repr__(self) -> str:
        shape = f"{len(self.layers)} layers, {self.settings.n_heads} heads, d_model {self.settings.d_model}"
        return f"<{type(self).__name__}: {shape}>"

    def read_beside(self, directory: Path, config: Config) -> None:
        """What files beside the weights say: where a text ends, and how a chat is written."""
        self.end_ids = read_end_ids(directory, config, self.tokenizer)
        self.chat_template = read_chat_template(directory)

    @op(name="decoder", path="", ids="*B T", out="*B T d_model")
    def forward(
        self, ids: Array, caches: Sequence[KVCache] | None = None, starts: Array | None = None,
        streams: dict[str, Array] | None = None,
    ) -> Array:  # fmt: skip
        """Hidden states after the last norm, unchecked.

        Parameters
        ----------
        ids : (..., T) ndarray of int
        caches : sequence of KVCache, optional
            One per layer, from `new_caches`: `ids` continue what they remember.
        starts : (...) ndarray of int, optional
            How much padding stands on the left of each sequence.
        streams : dict, optional
            Is given the residual stream before the layers and after each.

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
        if streams is not None:
            streams["embeddings.out"] = x
        for i, layer in enumerate(self.layers):
            cache = caches[i] if caches else None
            at = turning.get(layer.attention.rotary, positions)
            padding = _after_padding(starts, cache, layer.attention.rules.get("bias"))
            x = layer(x, causal=causal, positions=at, cache=cache, **padding)
            if streams is not None:
                streams[f"layers.{i}.resid_post"] = x
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

    def new_caches(self, kv_dtype: str | None = None, *, forget: bool = True) -> Caches:
        """Empty caches, one per layer.

        Parameters
        ----------
        kv_dtype : {"float16", "int8"}, optional
            Keep keys and values in fewer bits: see `KVCache`.
        forget : bool
            A layer with a window forgets what no later token can see. Otherwise it keeps all, and can go back.
        """
        windows = (layer.attention.rules.get("window") if forget else None for layer in self.layers)
        return Caches(KVCache(window, dtype=kv_dtype) for window in windows)

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
        hidden = self.hidden(sequences)
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
        self.head.matrix()
        sequences, single = self.read(given, seen=caches[0].n_seen if caches else 0)
        if caches is not None and not single:
            expected = "one sequence, for it has caches"
            raise ArgumentError("model_input", name="the input", expected=expected, what="a list")
        logits = [self.head(hidden) for hidden in self.hidden(sequences, caches)]
        return logits[0] if single else logits

    def classify(self, given: Given) -> Any:
        """The labels of a text.

        Parameters
        ----------
        given : str, (T,) array_like of int, or a list of such

        Returns
        -------
        dict of str to float, or a list of them
            By label: probabilities that sum to 1, or one for each label by itself where several may fit; of a
            regression the number itself. Which of them, `model.settings.classifier.problem` says.

        Raises
        ------
        FileError
            no_labels when the model has no head for whole texts.
        ArgumentError
            As a call, and for a pair of texts.
        """
        return classify(self, given)

    def lens(self, given: Given, top: int = 5) -> Any:
        """What the model would say if it stopped after each of its layers.

        Parameters
        ----------
        given : str, (T,) array_like of int, or a list of such
        top : int
            How many tokens are kept of each place.

        Returns
        -------
        Lens, or a list of them
            The last of its places is what the model says in the end.

        Examples
        --------
        >>> import qkv
        >>> lens = qkv.load("tests/data/tiny/llama").lens([3, 1, 4])
        >>> lens.places[0], lens.places[-1], lens.tokens.shape
        ('embeddings.out', 'layers.2.resid_post', (4, 3, 5))
        """
        self.head.matrix()
        sequences, single = self.read(given)
        found = [lens(self, ids, top) for ids in sequences]
        return found[0] if single else found

    def read_stream(self, stream: Array) -> Array:
        """The logits of what stands in the residual stream, as if no layer came after it."""
        return self.head(stream if self.norm is None else self.norm(stream))

    def generate(
        self,
        prompt: Given,
        *,
        draft: Decoder | Drafter | None = None,
        n_draft: int | None = None,
        cache: PrefixCache | None = None,
        kv_dtype: str | None = None,
        **how: Any,
    ) -> Any:
        """Continue a prompt.

        Parameters
        ----------
        prompt : str, (T,) array_like of int, or a list of such
            A list is computed together; each gets what it would get alone.
        draft : Decoder, Draft or Lookup, optional
            A smaller model that proposes tokens, or what follows the last ones further up in the text. The text is that
            without it, or one of the same distribution; only sooner.
        n_draft : int, optional
            How many tokens a draft model proposes at once (4).
        cache : PrefixCache, optional
            What both this prompt and the last sequence begin with is not computed again. For one prompt.
        kv_dtype : {"float16", "int8"}, optional
            Keep keys and values in fewer bits, with a small error.
        **how
            max_new_tokens, temperature, top_k, top_p, min_p, repetition_penalty, stop, seed, slide, n_beams,
            length_penalty, early_stopping: see `Asked`.

        Returns
        -------
        str, list of int, or a list of them
            What was added: text for text, ids for ids, without the prompt and without the token that ended it.

        Raises
        ------
        ArgumentError
            For a prompt that cannot be read, a setting outside its range, settings that exclude each other, or more
            tokens than the model has positions, unless `slide=True`.
        """
        asked, shortcuts = Asked(**how), Shortcuts.of(self, draft, n_draft, cache, kv_dtype)
        self.head.matrix()
        sequences, single = self.read(prompt, slide=asked.slide)
        found = generate(self, sequences, asked, is_text(prompt), shortcuts)
        return found[0] if single else found

    def stream(
        self,
        prompt: Given,
        *,
        draft: Decoder | Drafter | None = None,
        n_draft: int | None = None,
        cache: PrefixCache | None = None,
        kv_dtype: str | None = None,
        **how: Any,
    ) -> Iterator[Any]:
        """As `generate`, for one prompt, piece by piece; of beams all comes at the end.

        Yields
        ------
        str or int
            Text in whole characters, as soon as it is certain; or ids, for a prompt of ids.
        """
        asked, shortcuts = Asked(**how), Shortcuts.of(self, draft, n_draft, cache, kv_dtype)
        self.head.matrix()
        ids = only(self.read(prompt, slide=asked.slide))
        return stream(self, ids, asked, is_text(prompt), shortcuts)

    def score(self, prompt: Given, continuation: Given) -> Array:
        """How likely the model finds each token of a continuation, given all before it.

        Parameters
        ----------
        prompt, continuation : str or (T,) array_like of int
            Text is read by the tokenizer, each of the two by itself, the continuation without special tokens.

        Returns
        -------
        (n,) ndarray
            Log-probabilities, float64. The perplexity is `np.exp(-model.score(...).mean())`.

        Examples
        --------
        >>> import qkv
        >>> model = qkv.load("tests/data/tiny/llama")
        >>> model.score([3, 1, 4, 1, 5], [40, 25]).round(2)
        array([-2.24, -1.69])
        """
        before = only(self.read(prompt), "the prompt")
        after = only(self.read(continuation, special_tokens=False), "the continuation")
        self.head.matrix()
        ids = only(self.read(np.concatenate([before, after])))
        logits = self.head(self.forward(ids)[len(before) - 1 : -1])
        chosen: Array = log_softmax(logits.astype(np.float64))[np.arange(len(after)), after]
        return chosen

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

    def read(
        self, given: Given, seen: int = 0, slide: bool = False, special_tokens: bool = True
    ) -> tuple[list[Array], bool]:
        """Token ids, checked, and whether it was one sequence, not a list; `seen` tokens came before them."""
        limit = None if slide or self.settings.n_positions is None else self.settings.n_positions - seen
        return read_ids(self, given, self.settings.vocab_size, limit, special_tokens=special_tokens)

    def hidden(self, sequences: Sequence[Array], caches: Sequence[KVCache] | None = None) -> list[Array]:
        """The hidden states of sequences that `read` has checked, computed as one batch."""
        if len(sequences) == 1:
            return [self.forward(sequences[0], caches)]
        ids, starts = left_padded(sequences)
        hidden = self.forward(ids, caches, starts if starts.any() else None)
        return [row[start:] for row, start in zip(hidden, starts)]


def _after_padding(starts: Array | None, cache: KVCache | None, bias: Bias | None) -> dict[str, Any]:
    """No key of the padding may be looked at; keys are counted from the first that the cache still holds."""
    if starts is None:
        return {}
    forgotten = 0 if cache is None else cache.n_seen - cache.length
    rules: dict[str, Any] = {"mask": ~masks.padding(np.maximum(starts - forgotten, 0))}
    return rules if bias is None or bias.relative else rules | {"bias": bias.shifted(starts - forgotten)}
