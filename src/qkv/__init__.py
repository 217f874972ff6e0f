"""qkv: attention you can open up."""

from . import errors, ops
from .errors import QkvError
from .ops import (
    attention,
    biases,
    gelu,
    layer_norm,
    log_softmax,
    logsumexp,
    masks,
    rms_norm,
    rope,
    scaled_dot_product_attention,
    silu,
    sinusoidal_positions,
    softmax,
)

__version__ = "0.1.0"
