"""BERT (Devlin et al., arXiv 1810.04805) as Hugging Face stores it: settings and tensor names, to ours."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from .config import ACTIVATIONS, HARMLESS, Config
from .weights import MAX_LAYERS, Family, Row, Settings, linear, norm

# Only for training, or left by the first converter and read by nobody since.
UNREAD = HARMLESS | {
    "attention_probs_dropout_prob", "classifier_dropout", "hidden_dropout_prob", "pooler_fc_size",
    "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
}  # fmt: skip


def settings(config: Config) -> Settings:
    """`config.json` of a BERT; what it may leave out has the value of BERT's own paper and code."""
    read = Settings(
        d_model=config.integer("hidden_size"),
        d_ff=config.integer("intermediate_size"),
        n_heads=config.integer("num_attention_heads"),
        n_layers=config.integer("num_hidden_layers", high=MAX_LAYERS),
        vocab_size=config.integer("vocab_size"),
        n_positions=config.integer("max_position_embeddings"),
        n_types=config.integer("type_vocab_size", default=2),
        activation=config.choice("hidden_act", ACTIVATIONS, default="gelu"),
        eps=config.small("layer_norm_eps", default=1e-12),
    )
    if read.d_model % read.n_heads:
        raise config.wrong("hidden_size", f"a multiple of num_attention_heads={read.n_heads}")
    config.must_be(
        position_embedding_type="absolute", is_decoder=False, add_cross_attention=False, is_encoder_decoder=False,
        cross_attention_hidden_size=None, directionality="bidi", pruned_heads={}, tie_encoder_decoder=False,
    )  # fmt: skip
    config.finish(harmless=UNREAD)
    return read


def rows(settings: Settings, names: Collection[str]) -> Iterator[Row]:
    """Where each tensor belongs, outermost first."""
    yield Row("embeddings.W_word", "embeddings.word_embeddings.weight", "vocab_size d_model")
    yield Row("embeddings.W_position", "embeddings.position_embeddings.weight", "n_positions d_model")
    yield Row("embeddings.W_type", "embeddings.token_type_embeddings.weight", "n_types d_model")
    yield from norm("embeddings.norm", "embeddings.LayerNorm")
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"encoder.layer.{i}"
        for letter, word in (("Q", "query"), ("K", "key"), ("V", "value")):
            projection = f"{foreign}.attention.self.{word}"
            yield from linear(f"{ours}.attention", f"W_{letter}", f"b_{letter}", projection, "d_model", "d_model")
        output = f"{foreign}.attention.output"
        yield from linear(f"{ours}.attention", "W_O", "b_O", f"{output}.dense", "d_model", "d_model")
        yield from norm(f"{ours}.norm_1", f"{output}.LayerNorm")
        yield from linear(f"{ours}.feed_forward", "W_1", "b_1", f"{foreign}.intermediate.dense", "d_model", "d_ff")
        yield from linear(f"{ours}.feed_forward", "W_2", "b_2", f"{foreign}.output.dense", "d_ff", "d_model")
        yield from norm(f"{ours}.norm_2", f"{foreign}.output.LayerNorm")
    if any(name.startswith("pooler.") for name in names):
        yield from linear("pooler", "W", "b", "pooler.dense", "d_model", "d_model")


def canonical(name: str) -> str:
    """Without the prefix that models with a head have, and with a norm's weights under their newer names."""
    name = name.removeprefix("bert.")
    return re.sub(r"(?<=LayerNorm\.)(gamma|beta)$", lambda old: {"gamma": "weight", "beta": "bias"}[old[0]], name)


BERT = Family(
    model_type="bert",
    heads={
        "BertModel": (),
        "BertForPreTraining": ("cls.",),
        "BertForMaskedLM": ("cls.",),
        "BertForNextSentencePrediction": ("cls.",),
        "BertForSequenceClassification": ("classifier.",),
        "BertForTokenClassification": ("classifier.",),
        "BertForMultipleChoice": ("classifier.",),
        "BertForQuestionAnswering": ("qa_outputs.",),
    },
    settings=settings,
    rows=rows,
    canonical=canonical,
    buffers=("embeddings.position_ids", "embeddings.token_type_ids"),
)
