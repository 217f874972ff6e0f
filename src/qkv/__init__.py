"""qkv: attention you can open up.

>>> import qkv
>>> with qkv.record() as trace:
...     out = qkv.attention([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]])
>>> trace["attention.weights"].round(2)
array([[0.67, 0.33]])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import ops
from .errors import QkvError
from .ops import (
    attention,
    attention_backward,
    attention_chunks,
    biases,
    config,
    cross_entropy,
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

if TYPE_CHECKING:
    from . import layers
    from .models import load
    from .trace import Trace, edit, edits, first_difference, record
    from .views import check, compare, explain, see

__version__ = "0.1.0"

# What is not needed to compute attention is imported when it is first asked for.
_LATER = {
    "layers": ".layers",
    "load": ".models",
    "Trace": ".trace",
    "edit": ".trace",
    "edits": ".trace",
    "first_difference": ".trace",
    "record": ".trace",
    "check": ".views",
    "compare": ".views",
    "explain": ".views",
    "see": ".views",
}

__all__ = [
    "QkvError",
    "Trace",
    "attention",
    "attention_backward",
    "attention_chunks",
    "biases",
    "check",
    "compare",
    "config",
    "cross_entropy",
    "edit",
    "edits",
    "explain",
    "first_difference",
    "gelu",
    "layer_norm",
    "layers",
    "load",
    "log_softmax",
    "logsumexp",
    "masks",
    "ops",
    "record",
    "rms_norm",
    "rope",
    "scaled_dot_product_attention",
    "see",
    "silu",
    "sinusoidal_positions",
    "softmax",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'qkv' has no attribute {name!r}")
    module = importlib.import_module(_LATER[name], __name__)
    found = module if _LATER[name] == f".{name}" else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
