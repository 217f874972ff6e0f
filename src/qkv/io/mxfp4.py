"""MXFP4: numbers of four bits, 32 of them with one power of two that scales them all."""

from __future__ import annotations

import numpy as np

from ..ops.precision import Array

BLOCK = 32  # numbers that share a scale; two of them stand in a byte, the first in its lower half
# A sign, two bits of exponent and one of fraction: what the eight lower codes stand for.
_POSITIVE = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_VALUES = np.concatenate([_POSITIVE, -_POSITIVE])
_SCALES = np.append(np.ldexp(np.float32(1), np.arange(255) - 127), np.float32(np.nan))
_PAIRS = np.stack([_VALUES[np.arange(256) & 15], _VALUES[np.arange(256) >> 4]], axis=1)


def unpacked(blocks: Array, scales: Array) -> Array:
    """The numbers of packed blocks.

    Parameters
    ----------
    blocks : (..., n_blocks, 16) ndarray of uint8
        Two numbers in each byte.
    scales : (..., n_blocks) ndarray of uint8
        What each block is multiplied with: 2 ^ (scale - 127).

    Returns
    -------
    (..., n_blocks * 32) float32 ndarray
        NaN throughout a block whose scale is 255; infinite what is too large for float32.

    Notes
    -----
    OCP Microscaling Formats (MX) Specification 1.0, sections 5.3.3 (E2M1, the numbers) and 5.4.1 (E8M0, the scales).

    Examples
    --------
    >>> blocks = np.zeros((1, 16), np.uint8)
    >>> blocks[0, 0] = 0xA5  # low half 0101: 3; high half 1010: -1
    >>> unpacked(blocks, np.array([128], np.uint8))[:3]
    array([ 6., -2.,  0.], dtype=float32)
    """
    numbers = _PAIRS[blocks].reshape(*scales.shape, BLOCK)
    with np.errstate(over="ignore"):
        numbers *= _SCALES[scales][..., None]
    return numbers.reshape(*scales.shape[:-1], scales.shape[-1] * BLOCK)
