"""Gemma 2 (arXiv 2408.00118) and Gemma 3 (arXiv 2503.19786), its text model."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from .config import ACTIVATIONS, Config
from .decoders import (
    FULL, SLIDING, UNREAD, DecoderSettings, head, layer_types, llama_layer, llama_settings, llama_sizes, windows,
    without_model,
)  # fmt: skip
from .rope import longest, read_rotary, rope_values
from .weights import Family, Row, norm as layer_norm  # noqa: F401
