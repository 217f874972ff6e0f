"""A transformer's parts: plain arrays in plain dataclasses, each a function of its input."""

from .attention import MultiHeadAttention, Rotary, SelfAttention, merge_heads, split_heads
from .block import Block, DecoderBlock
from .cache import KVCache
from .latent import LatentAttention
from .parts import FeedForward, GatedFeedForward, LayerNorm, RMSNorm, xavier

__all__ = [
    "Block",
    "DecoderBlock",
    "FeedForward",
    "GatedFeedForward",
    "KVCache",
    "LatentAttention",
    "LayerNorm",
    "MultiHeadAttention",
    "RMSNorm",
    "Rotary",
    "SelfAttention",
    "merge_heads",
    "split_heads",
    "xavier",
]
