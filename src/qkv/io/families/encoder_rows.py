"""Where an encoder's tensors belong: the names that BERT and its relatives share, and the heads on top."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from ..weights import Row, linear, norm
from .encoders import EncoderSettings


def bert_embeddings(settings: EncoderSettings) -> Iterator[Row]:
    """The tables of words, positions and segments, and the norm of their sum."""
    yield Row("embeddings.W_word", "embeddings.word_embeddings.weight", "vocab_size d_embedding")
    yield Row("embeddings.W_position", "embeddings.position_embeddings.weight", "position_rows d_embedding")
    if settings.n_types:
        yield Row("embeddings.W_type", "embeddings.token_type_embeddings.weight", "n_types d_embedding")
    yield from norm("embeddings.norm", "embeddings.LayerNorm", "d_embedding")


def bert_layer(ours: str, foreign: str) -> Iterator[Row]:
    """A layer with BERT's names."""
    for letter, word in (("Q", "query"), ("K", "key"), ("V", "value")):
        yield from linear(f"{ours}.attention", letter, f"{foreign}.attention.self.{word}", "d_model", "d_model")
    yield from linear(f"{ours}.attention", "O", f"{foreign}.attention.output.dense", "d_model", "d_model")
    yield from norm(f"{ours}.norm_1", f"{foreign}.attention.output.LayerNorm")
    yield from linear(f"{ours}.feed_forward", "1", f"{foreign}.intermediate.dense", "d_model", "d_ff")
    yield from linear(f"{ours}.feed_forward", "2", f"{foreign}.output.dense", "d_ff", "d_model")
    yield from norm(f"{ours}.norm_2", f"{foreign}.output.LayerNorm")


def bert_encoder(settings: EncoderSettings, names: Collection[str]) -> Iterator[Row]:
    """All but the heads, outermost first; the pooler where the file has one."""
    yield from bert_embeddings(settings)
    for i in range(settings.n_layers):
        yield from bert_layer(f"layers.{i}", f"encoder.layer.{i}")
    if begins(names, "pooler."):
        yield from linear("pooler", "", "pooler.dense", "d_model", "d_model")


def masked_lm(settings: EncoderSettings, names: Collection[str], dense: str, normed: str, last: str) -> Iterator[Row]:
    """The head that fills in masks; its last matrix may be the table of words, its bias may stand beside it."""
    yield from linear("masked_lm", "dense", dense, "d_model", "d_embedding")
    yield from norm("masked_lm.norm", normed, "d_embedding")
    yield from vocabulary(settings, names, last)
    own, beside = f"{last}.bias", f"{last.rpartition('.')[0]}.bias"
    yield Row("masked_lm.b", beside if own not in names and beside in names else own, "vocab_size")


def vocabulary(settings: EncoderSettings, names: Collection[str], last: str) -> Iterator[Row]:
    """The matrix onto the vocabulary; a tied model need not have one, but one that it has is used."""
    if not settings.tied or f"{last}.weight" in names:
        yield Row("masked_lm.W", f"{last}.weight", "vocab_size d_embedding", transposed=True)


def classifier(settings: EncoderSettings, dense: str, last: str) -> Iterator[Row]:
    """The head for whole texts, where the model was written with one."""
    if settings.classifier is not None:
        yield from linear("classifier", "dense", dense, "d_model", "d_model")
        yield from linear("classifier", "", last, "d_model", "n_labels")


def begins(names: Collection[str], *prefixes: str) -> bool:
    """Whether the name of a tensor begins so."""
    return any(name.startswith(prefixes) for name in names)


def without(prefix: str) -> Callable[[str], str]:
    """Names without the prefix that models with a head have, and a norm's weights under their newer names."""

    def canonical(name: str) -> str:
        name = name.removeprefix(prefix)
        return re.sub(r"(?<=LayerNorm\.)(gamma|beta)$", lambda old: {"gamma": "weight", "beta": "bias"}[old[0]], name)

    return canonical
