"""Models: trees of weights and a loop over blocks, loaded from what people have on disk."""

from .answers import Filling
from .clip import CLIP
from .decoder import Decoder
from .embeddings import Embeddings
from .encoder import Encoder
from .generation.drafting import Draft, Lookup
from .generation.prefix import PrefixCache
from .generation.strategies import Continued, compare_strategies
from .heads import Pooler, TaskHead
from .load import load
from .seq2seq import EncoderDecoder
from .vision import ImageEncoder
from .vocabulary import Head, TokenEmbeddings

__all__ = [
    "CLIP", "Continued", "Decoder", "Draft", "Embeddings", "Encoder", "EncoderDecoder", "Filling", "Head",
    "ImageEncoder", "Lookup", "Pooler", "PrefixCache", "TaskHead", "TokenEmbeddings", "compare_strategies", "load",
]  # fmt: skip
