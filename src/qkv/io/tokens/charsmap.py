"""The table of what SentencePiece replaces in a text: whether it can be walked through without falling out of it."""

from __future__ import annotations

import numpy as np

from ...ops.precision import Array

BYTE = np.arange(1, 256)
LABEL, VALUE = (1 << 31) | 0xFF, (1 << 31) - 1


def is_whole(data: bytes) -> bool:
    """Whether every text leads from the root of the table's trie to a place within it, and to text.

    It is the size of a double-array trie, its units, and the texts that it leads to, each ended by a zero. A unit holds
    the byte that leads to it, whether a text ends there, and how far the units of the next bytes are (Yata,
    "Darts-clone"). The library that uses the table looks nothing up twice, and ends the process where it falls out.
    """
    size = int.from_bytes(data[:4], "little")
    if size < 4 or size % 4 or size > len(data) - 4:
        return False
    units, texts = np.frombuffer(data, "<u4", size // 4, 4).astype(np.int64), data[4 + size :]
    try:
        texts.decode("utf-8")
    except UnicodeDecodeError:
        return False
    inside = np.array([byte & 0xC0 == 0x80 for byte in texts] or [True])  # of a character of several bytes
    seen, places = np.zeros(len(units), bool), _next(units[:1])
    while places.size:
        if places.max() | 255 >= len(units):
            return False
        seen[places] = True
        below = places[:, None] ^ BYTE
        nodes = below[units[below] & LABEL == BYTE]
        further = nodes ^ _next(units[nodes])
        if further.size and further.max() >= len(units):
            return False
        found = units[further[units[nodes] >> 8 & 1 == 1]] & VALUE
        if found.size and (found.max() >= len(texts) or inside[found].any()):
            return False
        places = np.unique(further[~seen[further]])
    return True


def _next(units: Array) -> Array:
    """How far it is from each unit to those of the next bytes."""
    return units >> 10 << ((units & (1 << 9)) >> 6)
