"""Models: trees of weights and a loop over blocks, loaded from what people have on disk."""

from .encoder import Embeddings, Encoder, Pooler
from .load import load

__all__ = ["Embeddings", "Encoder", "Pooler", "load"]
