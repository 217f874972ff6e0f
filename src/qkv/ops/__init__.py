"""What attention is: pure functions on arrays, NumPy and nothing else. No argument is ever changed."""

from . import biases, masks, scaling
from .activations import geglu, gelu, silu, swiglu
from .attention import attention
from .backward import attention_backward
from .biases import alibi_slopes
from .chunks import attention_chunks
from .latent import latent_attention
from .linear import linear_attention
from .loss import cross_entropy
from .merge import merge
from .norms import layer_norm, rms_norm
from .positions import rope, rope_frequencies, rope_tables, sinusoidal_positions
from .sdpa import scaled_dot_product_attention
from .settings import config
from .softmax import log_softmax, logsumexp, softmax

__all__ = [
    "alibi_slopes",
    "attention",
    "attention_backward",
    "attention_chunks",
    "biases",
    "config",
    "cross_entropy",
    "geglu",
    "gelu",
    "latent_attention",
    "layer_norm",
    "linear_attention",
    "log_softmax",
    "logsumexp",
    "masks",
    "merge",
    "rms_norm",
    "rope",
    "rope_frequencies",
    "rope_tables",
    "scaled_dot_product_attention",
    "scaling",
    "silu",
    "sinusoidal_positions",
    "softmax",
    "swiglu",
]
