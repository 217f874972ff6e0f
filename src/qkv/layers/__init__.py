"""A transformer's parts: plain arrays in plain dataclasses, each a function of its input."""

from .attention import MultiHeadAttention, Rotary, SelfAttention, merge_heads, split_heads
from .block import Block, DecoderBlock
from .cache import KVCache
from .context import ContextCache
from .convolution import Convolution
from .experts import Experts
from .latent import LatentAttention
from .parts import FeedForward, GatedFeedForward, LayerNorm, RMSNorm, xavier
from .routing import Routing

__all__ = [
    "Block",
    "ContextCache",
    "Convolution",
    "DecoderBlock",
    "Experts",
    "FeedForward",
    "GatedFeedForward",
    "KVCache",
    "LatentAttention",
    "LayerNorm",
    "MultiHeadAttention",
    "RMSNorm",
    "Rotary",
    "Routing",
    "SelfAttention",
    "merge_heads",
    "split_heads",
    "xavier",
]
