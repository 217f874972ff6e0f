"""BERT (Devlin et al., arXiv 1810.04805) as Hugging Face stores it: settings and tensor names, to ours."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..config import ACTIVATIONS, Config
from ..weights import Family, Row
from .encoder_rows import begins, bert_encoder, classifier, masked_lm, without
from .encoders import BIDIRECTIONAL, UNREAD, EncoderSettings, encoder_sizes

PREDICTIONS = "cls.predictions"


def settings(config: Config) -> EncoderSettings:
    """`config.json` of a BERT; what it may leave out has the value of BERT's own paper and code."""
    activation = config.choice("hidden_act", ACTIVATIONS, default="gelu")
    read = EncoderSettings(
        **encoder_sizes(config),
        n_types=config.integer("type_vocab_size", default=2),
        activation=activation,
        eps=config.small("layer_norm_eps", default=1e-12),
        bends={"masked_lm": activation, "classifier": "tanh"},
    )
    config.must_be(**BIDIRECTIONAL)
    config.finish(harmless=UNREAD)
    return read


def rows(settings: EncoderSettings, names: Collection[str]) -> Iterator[Row]:
    """Where each tensor belongs; the head for whole texts reads the pooler once more."""
    yield from bert_encoder(settings, names)
    if begins(names, f"{PREDICTIONS}."):
        transform = f"{PREDICTIONS}.transform"
        yield from masked_lm(settings, names, f"{transform}.dense", f"{transform}.LayerNorm", f"{PREDICTIONS}.decoder")
    yield from classifier(settings, "pooler.dense", "classifier")


BERT = Family(
    model_type="bert",
    heads={
        "BertModel": (),
        "BertForPreTraining": ("cls.seq_relationship.",),
        "BertForMaskedLM": ("cls.seq_relationship.",),
        "BertForNextSentencePrediction": ("cls.seq_relationship.",),
        "BertForSequenceClassification": (),
        "BertForTokenClassification": ("classifier.",),
        "BertForMultipleChoice": ("classifier.",),
        "BertForQuestionAnswering": ("qa_outputs.",),
    },
    settings=settings,
    rows=rows,
    canonical=without("bert."),
    buffers=("embeddings.position_ids", "embeddings.token_type_ids", f"{PREDICTIONS}.bias"),
)
