"""DistilBERT (Sanh et al., arXiv 1910.01108): BERT of half the layers, without segments and without a pooler."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import ACTIVATIONS, Config
from ..weights import Family, Row, linear, norm
from .encoder_rows import begins, classifier, masked_lm, without
from .encoders import BIDIRECTIONAL, UNREAD, EncoderSettings, encoder_sizes

NAMES = {"d_model": "dim", "d_ff": "hidden_dim", "n_heads": "n_heads", "n_layers": "n_layers"}
# How the table of positions was first filled: it stands in the file, whatever it was.
OWN_UNREAD = UNREAD | {"dropout", "qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_"}
LETTERS = (("Q", "q_lin"), ("K", "k_lin"), ("V", "v_lin"), ("O", "out_lin"))


def settings(config: Config) -> EncoderSettings:
    """`config.json` of a DistilBERT; the eps of its norms stands in no file."""
    activation = config.choice("activation", ACTIVATIONS, default="gelu")
    read = EncoderSettings(
        **encoder_sizes(config, NAMES), activation=activation, eps=1e-12,
        bends={"masked_lm": activation, "classifier": "relu"},
    )  # fmt: skip
    config.must_be(**BIDIRECTIONAL)
    config.finish(harmless=OWN_UNREAD)
    return read


def rows(settings: EncoderSettings, names: Collection[str]) -> Iterator[Row]:
    """Where each tensor belongs, outermost first."""
    yield Row("embeddings.W_word", "embeddings.word_embeddings.weight", "vocab_size d_embedding")
    yield Row("embeddings.W_position", "embeddings.position_embeddings.weight", "position_rows d_embedding")
    yield from norm("embeddings.norm", "embeddings.LayerNorm")
    for i in range(settings.n_layers):
        ours, foreign = f"layers.{i}", f"transformer.layer.{i}"
        for letter, word in LETTERS:
            yield from linear(f"{ours}.attention", letter, f"{foreign}.attention.{word}", "d_model", "d_model")
        yield from norm(f"{ours}.norm_1", f"{foreign}.sa_layer_norm")
        yield from linear(f"{ours}.feed_forward", "1", f"{foreign}.ffn.lin1", "d_model", "d_ff")
        yield from linear(f"{ours}.feed_forward", "2", f"{foreign}.ffn.lin2", "d_ff", "d_model")
        yield from norm(f"{ours}.norm_2", f"{foreign}.output_layer_norm")
    if begins(names, "vocab_"):
        yield from masked_lm(settings, names, "vocab_transform", "vocab_layer_norm", "vocab_projector")
    yield from classifier(settings, "pre_classifier", "classifier")


DISTILBERT = Family(
    model_type="distilbert",
    heads={
        "DistilBertModel": (),
        "DistilBertForMaskedLM": (),
        "DistilBertForSequenceClassification": (),
        "DistilBertForTokenClassification": ("classifier.",),
        "DistilBertForMultipleChoice": ("pre_classifier.", "classifier."),
        "DistilBertForQuestionAnswering": ("qa_outputs.",),
    },
    settings=settings,
    rows=rows,
    canonical=without("distilbert."),
    buffers=("embeddings.position_ids",),
)
