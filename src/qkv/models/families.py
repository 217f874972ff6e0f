"""Every family: how its files are read, and what is built of them. A new one is a file in `io` and a name here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import FileError
from ..io.config import Config
from ..io.families import clip
from ..io.families.bart import BART, MARIAN, MBART
from ..io.families.bert import BERT
from ..io.families.bloom import BLOOM
from ..io.families.decoders import with_head
from ..io.families.deepseek import DEEPSEEK_V2, DEEPSEEK_V3
from ..io.families.distilbert import DISTILBERT
from ..io.families.electra import ELECTRA
from ..io.families.falcon import FALCON
from ..io.families.gemma import GEMMA, GEMMA2, GEMMA3
from ..io.families.gpt2 import GPT2
from ..io.families.gpt_neox import GPT_NEOX
from ..io.families.gpt_oss import GPT_OSS
from ..io.families.llama import LLAMA
from ..io.families.mistral import MISTRAL
from ..io.families.mixtral import MIXTRAL
from ..io.families.modernbert import MODERNBERT
from ..io.families.olmo2 import OLMO2
from ..io.families.opt import OPT
from ..io.families.phi3 import PHI3
from ..io.families.qwen import QWEN2, QWEN3
from ..io.families.qwen_moe import QWEN2_MOE, QWEN3_MOE
from ..io.families.roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA
from ..io.families.smollm3 import SMOLLM3
from ..io.families.t5 import MT5, T5
from ..io.families.vit import VIT
from ..io.families.whisper import WHISPER
from ..io.weights import Family
from .build_decoder import decoder_from_weights
from .build_encoder import encoder_from_weights
from .build_seq2seq import encoder_decoder_from_weights
from .build_vision import clip_from_weights, image_encoder_from_weights
from .clip import CLIP
from .decoder import Decoder
from .encoder import Encoder
from .seq2seq import EncoderDecoder
from .vision import ImageEncoder

Model = Encoder | Decoder | EncoderDecoder | ImageEncoder | CLIP
Build = Callable[[Any, dict[str, Any]], Model]
ENCODERS = (BERT, ROBERTA, XLM_ROBERTA, CAMEMBERT, DISTILBERT, ELECTRA, MODERNBERT)
DECODERS = (
    GPT2, GPT_NEOX, OPT, BLOOM, FALCON, LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA, GEMMA2, GEMMA3, PHI3, OLMO2, SMOLLM3,
    MIXTRAL, QWEN2_MOE, QWEN3_MOE, GPT_OSS, DEEPSEEK_V2, DEEPSEEK_V3,
)  # fmt: skip
SEQ2SEQ = (T5, MT5, BART, MBART, MARIAN, WHISPER)
FAMILIES: dict[str, tuple[Family[Any], Build]] = {
    **{family.model_type: (family, encoder_from_weights) for family in ENCODERS},
    VIT.model_type: (VIT, image_encoder_from_weights),
    clip.CLIP.model_type: (clip.CLIP, clip_from_weights),
    **{family.model_type: (with_head(family), decoder_from_weights) for family in DECODERS},
    **{family.model_type: (family, encoder_decoder_from_weights) for family in SEQ2SEQ},
}


def family_in(config: Config) -> tuple[tuple[Family[Any], Build], list[str]]:
    """The family by `model_type`, or by `architectures` where there is none; both must be known."""
    model_type, architectures = config.raw("model_type", None), config.architectures
    if model_type is None and not architectures:
        raise FileError("config_missing", path=config.path, name="model_type")
    if model_type is None:
        of_name = {name: kind for kind, (family, _) in FAMILIES.items() for name in family.heads}
        model_type = of_name.get(architectures[0], architectures[0])
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise FileError("no_architecture", path=config.path, architecture=model_type, known=", ".join(FAMILIES))
    known = FAMILIES[model_type][0].heads
    for name in architectures:
        if name not in known:
            raise FileError("no_architecture", path=config.path, architecture=name, known=", ".join(known))
    return FAMILIES[model_type], architectures
