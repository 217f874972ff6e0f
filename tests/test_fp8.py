"""Matrices in eight bits with a scale for every block: read as if somebody had multiplied them out beforehand."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tests.decoder_fixture import CLOSE, Copy, known

from qkv.errors import FileError

HIGH, WIDE = 8, 16
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [HIGH, WIDE]}
Tensors = dict[str, np.ndarray]


def packed(W: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The numbers in eight bits, their scales, and both multiplied out."""
    scales = np.empty((-(-W.shape[0] // HIGH), -(-W.shape[1] // WIDE)), np.float32)
    numbers, whole = np.empty(W.shape, ml_dtypes.float8_e4m3fn), np.empty(W.shape, np.float32)
    for i, j in np.ndindex(scales.shape):
        place = np.s_[i * HIGH : (i + 1) * HIGH, j * WIDE : (j + 1) * WIDE]
        scales[i, j] = np.abs(W[place].astype(np.float32)).max() / 448
        numbers[place] = (W[place] / scales[i, j]).astype(numbers.dtype)
        whole[place] = numbers[place].astype(np.float32) * scales[i, j]
    return numbers, scales, whole


def both(directory: Path) -> tuple[Copy, Tensors, Copy]:
    """A model whose large matrices are packed, its tensors, and the same written out."""
    eight, plain = Copy(directory / "eight", "deepseek_v3"), Copy(directory / "plain", "deepseek_v3")
    small: Tensors = {}
    written: Tensors = {}
    for name, W in eight.tensors().items():
        if W.ndim == 2 and "_proj" in name:
            small[name], small[f"{name}_scale_inv"], written[name] = packed(W)
        else:
            small[name] = written[name] = W
    eight.write(small)
    eight.config(quantization_config=FP8)
    plain.write(written)
    return eight, small, plain


@pytest.mark.parametrize("n_parts", [1, 3])
def test_eight_bits_and_scales_are_their_product(n_parts: int, tmp_path: Path) -> None:
    eight, small, plain = both(tmp_path)
    if n_parts > 1:  # a matrix and its scales in two of them
        parts = {f"part-{i}.safetensors": sorted(small)[i::n_parts] for i in range(n_parts)}
        for part, names in parts.items():
            eight.write({name: small[name] for name in names}, part)
        (eight.directory / "model.safetensors").unlink()
        eight.write_index({name: part for part, names in parts.items() for name in names})
    ids = known("deepseek_v3")["23.ids"]
    np.testing.assert_array_equal(eight.load().logits(ids), plain.load().logits(ids))
    assert CLOSE["atol"] < plain.difference()  # eight bits are fewer: the test would notice the file of sixteen


def test_what_is_wrong_with_scales_is_one_line(tmp_path: Path) -> None:
    eight, small, _ = both(tmp_path)
    name = "model.layers.1.self_attn.o_proj.weight"
    scale = f"{name}_scale_inv"

    def refused(message: str, **changes: np.ndarray | None) -> None:
        eight.write({n: value for n, value in (small | changes).items() if value is not None})
        with pytest.raises(FileError, match=message) as caught:
            eight.load()
        assert "\n" not in str(caught.value)

    refused(rf"has no tensor {scale}", **{scale: None})
    refused(r"o_proj\.weight_scale_inv' must have shape \(3, 1\), but its shape is \(3, 2\)",
            **{scale: np.ones((3, 2), np.float32)})  # fmt: skip
    refused(r"tensor 'model\.layers\.1\.self_attn\.o_proj\.weight_scale_inv' holds NaN",
            **{scale: np.full((3, 1), np.nan, np.float32)})  # fmt: skip
    refused(r"o_proj\.weight' holds NaN", **{name: np.full((20, 15), np.nan, ml_dtypes.float8_e4m3fn)})
    refused(r"has tensors that no part of the model uses: odd_scale_inv", odd_scale_inv=np.ones(3))


def test_without_the_setting_eight_bits_are_refused(tmp_path: Path) -> None:
    eight, _, _ = both(tmp_path)
    eight.config(quantization_config=...)
    with pytest.raises(FileError, match=r"has tensors that no part of the model uses: .*_scale_inv"):
        eight.load()
