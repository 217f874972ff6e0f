"""Models: trees of weights and a loop over blocks, loaded from what people have on disk."""

from .answers import Filling
from .clip import CLIP
from .decoder import Decoder
from .drafting import Draft, Lookup
from .embeddings import Embeddings
from .encoder import Encoder
from .heads import Pooler, TaskHead
from .load import load
from .prefix import PrefixCache
from .seq2seq import EncoderDecoder
from .strategies import Continued, compare_strategies
from .vision import ImageEncoder
from .vocabulary import Head, TokenEmbeddings

__all__ = [
    "CLIP", "Continued", "Decoder", "Draft", "Embeddings", "Encoder", "EncoderDecoder", "Filling", "Head",
    "ImageEncoder", "Lookup", "Pooler", "PrefixCache", "TaskHead", "TokenEmbeddings", "compare_strategies", "load",
]  # fmt: skip
