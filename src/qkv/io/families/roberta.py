"""RoBERTa (Liu et al., arXiv 1907.11692) and those who took over its form: XLM-RoBERTa, CamemBERT."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import ACTIVATIONS, Config
from ..weights import Family, Row
from .encoder_rows import begins, bert_encoder, classifier, masked_lm, without
from .encoders import BIDIRECTIONAL, UNREAD, EncoderSettings, encoder_sizes


def settings(config: Config) -> EncoderSettings:
    """`config.json` of a RoBERTa: the first rows of the table of positions stand for no place in a text."""
    sizes = encoder_sizes(config)
    padding = config.integer("pad_token_id", low=0, high=sizes["n_positions"] - 2, default=1)
    sizes["n_positions"] -= padding + 1
    read = EncoderSettings(
        **sizes,
        padding_id=padding,
        n_types=config.integer("type_vocab_size", default=2),
        activation=config.choice("hidden_act", ACTIVATIONS, default="gelu"),
        eps=config.small("layer_norm_eps", default=1e-12),
        bends={"masked_lm": "gelu", "classifier": "tanh"},
    )
    config.must_be(**BIDIRECTIONAL)
    config.finish(harmless=UNREAD)
    return read


def rows(settings: EncoderSettings, names: Collection[str]) -> Iterator[Row]:
    """Where each tensor belongs, outermost first."""
    yield from bert_encoder(settings, names)
    if begins(names, "lm_head."):
        yield from masked_lm(settings, names, "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder")
    yield from classifier(settings, "classifier.dense", "classifier.out_proj")


def _family(model_type: str, name: str) -> Family[EncoderSettings]:
    return Family(
        model_type=model_type,
        heads={
            f"{name}Model": (),
            f"{name}ForMaskedLM": (),
            f"{name}ForSequenceClassification": (),
            f"{name}ForTokenClassification": ("classifier.",),
            f"{name}ForMultipleChoice": ("classifier.",),
            f"{name}ForQuestionAnswering": ("qa_outputs.",),
        },
        settings=settings,
        rows=rows,
        canonical=without("roberta."),
        buffers=("embeddings.position_ids", "embeddings.token_type_ids", "lm_head.bias"),
    )


ROBERTA = _family("roberta", "Roberta")
XLM_ROBERTA = _family("xlm-roberta", "XLMRoberta")
CAMEMBERT = _family("camembert", "Camembert")
