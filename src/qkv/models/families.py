"""Every family: how its files are read, and what is built of them. A new one is a file in `io` and a name here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import FileError
from ..io.bert import BERT
from ..io.bloom import BLOOM
from ..io.config import Config
from ..io.falcon import FALCON
from ..io.gemma import GEMMA2, GEMMA3
from ..io.gpt2 import GPT2
from ..io.gpt_neox import GPT_NEOX
from ..io.llama import LLAMA
from ..io.mistral import MISTRAL
from ..io.olmo2 import OLMO2
from ..io.opt import OPT
from ..io.phi3 import PHI3
from ..io.qwen import QWEN2, QWEN3
from ..io.smollm3 import SMOLLM3
from ..io.weights import Family
from .build import decoder_from_weights
from .decoder import Decoder
from .encoder import Encoder

Model = Encoder | Decoder
Build = Callable[[Any, dict[str, Any]], Model]
ENCODERS = (BERT,)
DECODERS = (
    GPT2, GPT_NEOX, OPT, BLOOM, FALCON, LLAMA, MISTRAL, QWEN2, QWEN3, GEMMA2, GEMMA3, PHI3, OLMO2, SMOLLM3,
)  # fmt: skip
FAMILIES: dict[str, tuple[Family[Any], Build]] = {
    **{family.model_type: (family, Encoder.from_weights) for family in ENCODERS},
    **{family.model_type: (family, decoder_from_weights) for family in DECODERS},
}


def family_in(config: Config) -> tuple[tuple[Family[Any], Build], list[str]]:
    """The family by `model_type`, or by `architectures` where there is none; both must be known."""
    model_type, architectures = config.raw("model_type", None), config.raw("architectures", None) or []
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise config.wrong("architectures", "a list of names")
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
