"""Models: trees of weights and a loop over blocks, loaded from what people have on disk."""

from .decoder import Decoder
from .encoder import Embeddings, Encoder, Pooler
from .load import load
from .vocabulary import Head, TokenEmbeddings

__all__ = ["Decoder", "Embeddings", "Encoder", "Head", "Pooler", "TokenEmbeddings", "load"]
