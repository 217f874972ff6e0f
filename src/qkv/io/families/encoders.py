"""The settings of an encoder: one row of values that tells it from all others, and how BERT's names give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...layers import Rotary
from ..config import HARMLESS, Config
from ..weights import MAX_LAYERS
from .classifier import ClassifierSettings, made_for, read_classifier

# Of training, left by the first converters and read by nobody since, or what another library does with the answers.
UNREAD = HARMLESS | {
    "attention_dropout", "attention_probs_dropout_prob", "classifier_dropout", "cls_token_id", "gradient_checkpointing",
    "hidden_dropout_prob", "mask_token_id", "output_past", "pooler_fc_size", "pooler_num_attention_heads",
    "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "sbert_ce_default_activation_function",
    "sentence_transformers", "unk_token_id",
}  # fmt: skip
# What would make another model of it: each absent, or of this value.
BIDIRECTIONAL: dict[str, Any] = {
    "position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False,
    "is_encoder_decoder": False, "cross_attention_hidden_size": None, "directionality": "bidi", "pruned_heads": {},
    "tie_encoder_decoder": False,
}  # fmt: skip


@dataclass(frozen=True)
class EncoderSettings:
    """The row of a table: every value in which one encoder differs from another, besides its weights.

    Attributes
    ----------
    d_model, d_ff, n_heads, n_layers, vocab_size : int
    d_embedding : int
        The width of the vectors of words; where it is not d_model, a matrix makes them as wide as the layers.
    n_positions : int
        The longest text.
    eps : float
        Of the norms.
    activation : str
        One of `qkv.layers.parts.ACTIVATIONS`.
    n_types : int
        How many kinds of segment it tells apart; 0 for none.
    padding_id : int or None
        Positions are counted from the row after this one, and tokens of this id are left out of the count (RoBERTa).
        None: from row 0.
    order : {"pre", "post"}
        As in `Block`.
    rotary : tuple of Rotary
        One per layer; an empty tuple for no rotation.
    windows : tuple of ((int, int) or None)
        How many neighbours on each side a layer looks at; empty for all of them everywhere.
    qkv_bias, o_bias, ff_bias, norm_bias, dense_bias, vocabulary_bias : bool
        Which parts have a bias; the last two are those of the heads.
    tied : bool
        Whether the table of words is also the last matrix of the masked-LM head, where the file has no other.
    bends : mapping of str to str
        The activation inside each head that may stand on top: masked_lm, classifier, detector.
    masked_lm : bool
        Whether the file says that it was written with a masked-LM head.
    classifier : ClassifierSettings or None
        Where the file has a head for whole texts.
    """

    d_model: int
    d_ff: int
    n_heads: int
    n_layers: int
    vocab_size: int
    d_embedding: int
    n_positions: int
    eps: float
    activation: str
    n_types: int = 0
    padding_id: int | None = None
    order: str = "post"
    rotary: tuple[Rotary, ...] = ()
    windows: tuple[tuple[int, int] | None, ...] = ()
    qkv_bias: bool = True
    o_bias: bool = True
    ff_bias: bool = True
    norm_bias: bool = True
    dense_bias: bool = True
    vocabulary_bias: bool = True
    tied: bool = True
    bends: Mapping[str, str] = field(default_factory=dict)
    masked_lm: bool = False
    classifier: ClassifierSettings | None = None

    @property
    def d_k(self) -> int:
        return self.d_model // self.n_heads

    @property
    def position_rows(self) -> int:
        """Of the table of positions: RoBERTa's has some that stand for nothing."""
        return self.n_positions + (0 if self.padding_id is None else self.padding_id + 1)

    @property
    def qkv_width(self) -> int:
        return 3 * self.d_model

    @property
    def gate_up_width(self) -> int:
        return 2 * self.d_ff

    @property
    def n_labels(self) -> int:
        return 0 if self.classifier is None else len(self.classifier.labels)


# What each of our names is called by BERT and those who took over its names.
BERT_NAMES = {
    "d_model": "hidden_size", "d_ff": "intermediate_size", "n_heads": "num_attention_heads",
    "n_layers": "num_hidden_layers",
}  # fmt: skip


def encoder_sizes(config: Config, names: Mapping[str, str] = BERT_NAMES) -> dict[str, Any]:
    """The settings that all encoders have, and what kind of head stands on top."""
    read = {ours: config.integer(name) for ours, name in names.items() if ours != "n_layers"}
    read["n_layers"] = config.integer(names["n_layers"], high=MAX_LAYERS)
    if read["d_model"] % read["n_heads"]:
        raise config.wrong(names["d_model"], f"a multiple of {names['n_heads']}={read['n_heads']}")
    return {
        **read,
        "d_embedding": read["d_model"],
        "vocab_size": config.integer("vocab_size"),
        "n_positions": config.integer("max_position_embeddings"),
        "tied": config.flag("tie_word_embeddings", default=True),
        "masked_lm": made_for(config, "MaskedLM"),
        "classifier": read_classifier(config),
    }
