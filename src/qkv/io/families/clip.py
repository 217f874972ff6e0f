"""CLIP (Radford et al., arXiv 2103.00020) as Hugging Face stores it: two towers, and where their vectors meet."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ...errors import FileError
from ..config import ACTIVATIONS, HARMLESS, Config
from ..weights import MAX_LAYERS, Family, Row, norm
from .vision import VisionSettings, layer_rows, one_row, vision_settings

# Of training; and of generation, which stands in every part of the older files and which CLIP does not do.
UNREAD = HARMLESS | {
    "attention_dropout", "bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "diversity_penalty",
    "do_sample", "dropout", "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty",
    "forced_bos_token_id", "forced_eos_token_id", "initializer_factor", "is_encoder_decoder", "length_penalty",
    "logit_scale_init_value", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_scores", "prefix", "projection_dim", "pruned_heads", "remove_invalid_values",
    "repetition_penalty", "suppress_tokens", "temperature", "tf_legacy_loss", "tie_encoder_decoder", "top_k", "top_p",
    "typical_p",
}  # fmt: skip
PARTS = {
    "Q": "self_attn.q_proj", "K": "self_attn.k_proj", "V": "self_attn.v_proj", "O": "self_attn.out_proj",
    "1": "mlp.fc1", "2": "mlp.fc2", "norm_1": "layer_norm1", "norm_2": "layer_norm2",
}  # fmt: skip
OLD_END = 2  # what older files call the end of a text, whatever their tokenizer says
END = 49407
# What these files may leave out has the values of CLIP ViT-B/32.
DEFAULTS = {
    "vision": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
    "text": {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 8},
}


@dataclass(frozen=True)
class TextSettings:
    """The settings of the tower that reads texts.

    Attributes
    ----------
    d_model, d_ff, n_heads, n_layers, vocab_size, n_positions : int
    activation : str
    eps : float
    end_id : int or None
        The token at which a text is read off. None: that with the largest id.
    """

    d_model: int
    d_ff: int
    n_heads: int
    n_layers: int
    vocab_size: int
    n_positions: int
    activation: str
    eps: float
    end_id: int | None


@dataclass(frozen=True)
class CLIPSettings:
    """The settings of two towers, and of the space in which they meet.

    Attributes
    ----------
    image : VisionSettings
    text : TextSettings
    d_joint : int
        The width of the vectors that are compared.
    """

    image: VisionSettings
    text: TextSettings
    d_joint: int


def settings(config: Config) -> CLIPSettings:
    image, text = image_settings(tower_config(config, "vision")), text_settings(tower_config(config, "text"))
    read = CLIPSettings(image, text, config.integer("projection_dim", default=512))
    config.finish(harmless=UNREAD)
    return read


def tower_config(config: Config, name: str) -> Config:
    """The settings of a tower; what older files write as `*_config_dict` as well comes before the others."""
    given, before = config.raw(f"{name}_config", None), config.raw(f"{name}_config_dict", None)
    for key, value in ((f"{name}_config", given), (f"{name}_config_dict", before)):
        if value is not None and not isinstance(value, dict):
            raise config.wrong(key, "an object")
    if given is None and before is None:
        raise FileError("config_missing", path=config.path, name=f"{name}_config")
    if given and before:  # what is not said there has its default value, not the other's
        settings_of = {"vision": image_settings, "text": text_settings}[name]
        settings_of(Config(config.path, DEFAULTS[name] | given))
    return Config(config.path, DEFAULTS[name] | (before or given or {}))


def image_settings(config: Config) -> VisionSettings:
    read = vision_settings(config, activation="quick_gelu", eps=1e-5, patch=32)
    config.must_be(add_cross_attention=False, is_decoder=False, cross_attention_hidden_size=None)
    config.finish(harmless=UNREAD)
    return read


def text_settings(config: Config) -> TextSettings:
    d_model, n_heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    if d_model % n_heads:
        raise config.wrong("hidden_size", f"a multiple of num_attention_heads={n_heads}")
    end = config.integer("eos_token_id", low=0, default=END)
    read = TextSettings(
        d_model=d_model,
        d_ff=config.integer("intermediate_size"),
        n_heads=n_heads,
        n_layers=config.integer("num_hidden_layers", high=MAX_LAYERS),
        vocab_size=config.integer("vocab_size", default=49408),
        n_positions=config.integer("max_position_embeddings", default=77),
        activation=config.choice("hidden_act", ACTIVATIONS, default="quick_gelu"),
        eps=config.small("layer_norm_eps", default=1e-5),
        end_id=None if end == OLD_END else end,
    )
    config.must_be(add_cross_attention=False, is_decoder=False, cross_attention_hidden_size=None)
    config.finish(harmless=UNREAD)
    return read


def rows(settings: CLIPSettings, names: Collection[str]) -> Iterator[Row]:
    table = "vision_model.embeddings"
    kernel = "image.d_model image.n_channels image.patch_height image.patch_width"
    yield Row("image.embeddings.W_patch", f"{table}.patch_embedding.weight", kernel, transposed=True, cut=one_row)
    yield Row("image.embeddings.cls", f"{table}.class_embedding", "image.d_model")
    yield Row("image.embeddings.W_position", f"{table}.position_embedding.weight", "image.n_positions image.d_model")
    yield from norm("image.embeddings.norm", "vision_model.pre_layrnorm", "image.d_model")
    yield from tower("image", "vision_model", settings.image.n_layers)
    yield from norm("image_projection.norm", "vision_model.post_layernorm", "image.d_model")
    yield Row("image_projection.W", "visual_projection.weight", "d_joint image.d_model", transposed=True)
    table = "text_model.embeddings"
    yield Row("text.embeddings.W_word", f"{table}.token_embedding.weight", "text.vocab_size text.d_model")
    yield Row("text.embeddings.W_position", f"{table}.position_embedding.weight", "text.n_positions text.d_model")
    yield from tower("text", "text_model", settings.text.n_layers)
    yield from norm("text.norm", "text_model.final_layer_norm", "text.d_model")
    yield Row("text_projection.W", "text_projection.weight", "d_joint text.d_model", transposed=True)
    yield Row("logit_scale", "logit_scale", "")


def tower(ours: str, foreign: str, n_layers: int) -> Iterator[Row]:
    for i in range(n_layers):
        yield from layer_rows(f"{ours}.layers.{i}", f"{foreign}.encoder.layers.{i}", PARTS, of=f"{ours}.")


CLIP = Family(
    model_type="clip",
    heads={"CLIPModel": ()},
    settings=settings,
    rows=rows,
    canonical=lambda name: name,
    buffers=("*_model.embeddings.position_ids",),
)
