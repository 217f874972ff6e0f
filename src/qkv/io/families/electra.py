"""ELECTRA (Clark et al., arXiv 2003.10555): a generator that fills in masks, a discriminator that finds what it did."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import ACTIVATIONS, Config
from ..weights import Family, Row, linear
from .encoder_rows import begins, bert_encoder, classifier, masked_lm, without
from .encoders import BIDIRECTIONAL, UNREAD, EncoderSettings, encoder_sizes

# Of the head for multiple choice alone.
OWN_UNREAD = UNREAD | {"summary_activation", "summary_last_dropout", "summary_type", "summary_use_proj"}


def settings(config: Config) -> EncoderSettings:
    """`config.json` of an ELECTRA; vectors of words may be narrower than the layers."""
    activation = config.choice("hidden_act", ACTIVATIONS, default="gelu")
    sizes = encoder_sizes(config) | {"d_embedding": config.integer("embedding_size", default=128)}
    read = EncoderSettings(
        **sizes,
        n_types=config.integer("type_vocab_size", default=2),
        activation=activation,
        eps=config.small("layer_norm_eps", default=1e-12),
        bends={"masked_lm": "gelu", "classifier": "gelu", "detector": activation},
    )
    config.must_be(**BIDIRECTIONAL)
    config.finish(harmless=OWN_UNREAD)
    return read


def rows(settings: EncoderSettings, names: Collection[str]) -> Iterator[Row]:
    """Where each tensor belongs, outermost first."""
    yield from bert_encoder(settings, names)
    if settings.d_embedding != settings.d_model:
        yield from linear("embeddings", "project", "embeddings_project", "d_embedding", "d_model")
    if begins(names, "generator_"):
        predictions = "generator_predictions"
        yield from masked_lm(settings, names, f"{predictions}.dense", f"{predictions}.LayerNorm", "generator_lm_head")
    if begins(names, "discriminator_predictions."):
        yield from linear("detector", "dense", "discriminator_predictions.dense", "d_model", "d_model")
        yield from linear("detector", "", "discriminator_predictions.dense_prediction", "d_model", "1")
    yield from classifier(settings, "classifier.dense", "classifier.out_proj")


ELECTRA = Family(
    model_type="electra",
    heads={
        "ElectraModel": (),
        "ElectraForPreTraining": (),
        "ElectraForMaskedLM": (),
        "ElectraForSequenceClassification": (),
        "ElectraForTokenClassification": ("classifier.",),
        "ElectraForMultipleChoice": ("sequence_summary.", "classifier."),
        "ElectraForQuestionAnswering": ("qa_outputs.",),
    },
    settings=settings,
    rows=rows,
    canonical=without("electra."),
    buffers=("embeddings.position_ids", "embeddings.token_type_ids"),
)
