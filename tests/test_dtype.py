"""What weights are kept as in memory: the results, and what it takes to load them."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.decoder_fixture import CLOSE, FAMILIES, LENGTHS, TINY, Copy, known, tiny
from tests.gguf_fixture import metadata_of, write
from tests.models_fixture import DATA
from tests.models_fixture import TINY as TINY_BERT

from qkv.errors import ArgumentError, FileError
from qkv.io.floats import PIECE
from qkv.layers.narrow import narrow_product, wide
from qkv.layers.parts import linear
from qkv.models import EncoderDecoder, load

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
NARROW = {"float16": np.dtype(np.float16), "bfloat16": BFLOAT16}
MOST = 1.3  # of the final size, while loading


def weights_in(part: Any) -> Iterator[np.ndarray]:
    """The arrays of a model, each once."""
    seen: set[int] = set()

    def walk(value: Any) -> Iterator[np.ndarray]:
        if isinstance(value, np.ndarray):
            base = value if value.base is None else value.base
            if id(base) not in seen:
                seen.add(id(base))
                yield value
        elif isinstance(value, list | tuple):
            for one in value:
                yield from walk(one)
        elif is_dataclass(value):
            for one in fields(value):
                yield from walk(getattr(value, one.name))

    return walk(part)


# what is computed


@pytest.mark.parametrize("family", FAMILIES)
def test_float16_of_a_float16_file_loses_nothing(family: str) -> None:
    model = load(TINY / family, dtype="float16")
    for n in LENGTHS:
        ids = known(family)[f"{n}.ids"]
        assert model.logits(ids).dtype == model(ids).dtype == np.float32
        np.testing.assert_allclose(model.logits(ids), known(family)[f"{n}.logits"], **CLOSE)
    assert model.generate(ids, max_new_tokens=11) == known(family)["23.greedy"].tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_is_the_model_of_rounded_matrices(family: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, family)
    rounded = {n: t.astype(BFLOAT16).astype(np.float32) if t.ndim > 1 else t for n, t in copy.tensors().items()}
    copy.write(rounded)
    model, expected = load(TINY / family, dtype="bfloat16"), copy.load()
    ids = known(family)["23.ids"]
    assert model.logits(ids).dtype == np.float32
    np.testing.assert_allclose(model.logits(ids), expected.logits(ids), **CLOSE)
    assert np.abs(model.logits(ids) - tiny(family).logits(ids)).max() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_float64(family: str) -> None:
    model = load(TINY / family, dtype="float64")
    ids = known(family)["23.ids"]
    assert model.logits(ids).dtype == np.float64
    np.testing.assert_allclose(model.logits(ids), known(family)["23.logits"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("family", FAMILIES)
def test_matrices_are_kept_in_16_bits_and_vectors_are_not(family: str, dtype: str) -> None:
    model = load(TINY / family, dtype=dtype)
    kinds = {(array.ndim > 1, array.dtype) for array in weights_in([model.embeddings, model.layers, model.head])}
    assert kinds == {(True, NARROW[dtype]), (False, np.dtype(np.float32))}


@pytest.mark.parametrize("dtype", NARROW)
def test_an_encoder(dtype: str) -> None:
    model, ids = load(TINY_BERT, dtype=dtype), [2, 5, 9, 3]
    assert model(ids).dtype == np.float32
    np.testing.assert_allclose(model(ids), load(TINY_BERT)(ids), rtol=0, atol=0.05)
    assert model.pooler(model(ids)).dtype == np.float32


OTHERS = sorted(path for kind in ("tiny_encoders", "tiny_seq2seq") for path in (DATA / kind).iterdir() if path.is_dir())


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
def test_what_is_no_decoder(path: Path, dtype: str) -> None:
    def computed(model: Any) -> np.ndarray:
        if not isinstance(model, EncoderDecoder):
            return model([3, 4, 5])
        source = np.sin(np.arange(9000, dtype=np.float32)) if model.hearing is not None else [3, 4, 5]
        return model.logits(source, decoder_ids=[2, 3])

    narrow, exact = computed(load(path, dtype=dtype)), computed(load(path))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow, exact, rtol=0, atol=5e-4 if dtype == "float16" else 0.1)


def test_another_dtype_is_refused() -> None:
    for name in ("int8", "float", 16, np.float16):
        with pytest.raises(ArgumentError, match="dtype must be one of float16, bfloat16, float32, float64, but it is"):
            load(TINY / "llama", dtype=name)


def test_what_float16_cannot_hold_is_refused(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "llama")
    tensors = copy.tensors()
    name = "model.layers.1.mlp.up_proj.weight"
    tensors[name] = tensors[name].astype(np.float32)
    tensors[name][3, 5] = -70000.0
    copy.write(tensors)
    with pytest.raises(FileError, match=f"tensor '{name}' holds 70000, too large for float16"):
        load(copy.directory, dtype="float16")
    assert load(copy.directory, dtype="bfloat16")


# the product


@pytest.mark.parametrize("dtype", NARROW.values(), ids=NARROW)
def test_every_number_is_widened_exactly(dtype: np.dtype[Any]) -> None:
    numbers = np.arange(2**16, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        numbers = numbers[np.isfinite(numbers.astype(np.float32))]
    expected = numbers.astype(np.float32)
    np.testing.assert_array_equal(wide(numbers), expected)
    np.testing.assert_array_equal(np.signbit(wide(numbers)), np.signbit(expected))
    np.testing.assert_array_equal(wide(numbers[::-3].reshape(-1, 1).T), expected[::-3].reshape(-1, 1).T)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", NARROW.values(), ids=NARROW)
def test_products_of_any_shape(dtype: np.dtype[Any], order: Any) -> None:
    random = np.random.default_rng(5)
    for n_in, n_out in ((3, 5), (1, 1), (7, 2**18 + 3), (2**18 + 3, 2), (3, 0)):
        W = np.array(random.normal(size=(n_in, n_out)).astype(dtype), order=order)
        for shape in ((n_in,), (0, n_in), (11, n_in), (2, 3, n_in)):
            x = random.normal(size=shape).astype(np.float32)
            found = linear(x, W)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, x.astype(np.float64) @ W.astype(np.float64), rtol=0, atol=5e-3)
    x = random.normal(size=(5, 3))
    assert linear(x, np.ones((3, 2), dtype)).dtype == np.float64


def test_a_product_of_16_bits_is_rounded_once() -> None:
    x, W = np.full((1, 4099), 0.1, np.float16), np.full((4099, 3), 0.1, np.float16)
    exact = np.float64(W[0, 0]) ** 2 * 4099
    assert narrow_product(x, W).dtype == np.float16
    assert set(narrow_product(x, W).ravel()) == {np.float16(exact)}


def test_a_product_widens_only_a_piece_at_a_time() -> None:
    W, x = np.ones((512, 9001), np.float16), np.ones((1, 512), np.float32)
    _, most, _ = sizes_while(lambda: linear(x, W))
    assert most < W.nbytes / 4


# what loading takes

WIDE = {"hidden_size": 512, "intermediate_size": 1792, "vocab_size": 9001, "num_attention_heads": 8,
        "num_key_value_heads": 4}  # fmt: skip


@pytest.fixture(scope="module")
def tensors() -> dict[str, np.ndarray]:
    """A Llama of 12 million numbers, in float32, by the names of transformers."""
    random = np.random.default_rng(1)
    d, ff, vocab, kv = 512, 1792, 9001, 256
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocab, d), "lm_head.weight": (vocab, d)}
    shapes["model.norm.weight"] = (d,)
    for part, shape in {
        "self_attn.q_proj": (d, d), "self_attn.k_proj": (kv, d), "self_attn.v_proj": (kv, d),
        "self_attn.o_proj": (d, d), "mlp.gate_proj": (ff, d), "mlp.up_proj": (ff, d), "mlp.down_proj": (d, ff),
        "input_layernorm": (d,), "post_attention_layernorm": (d,),
    }.items():  # fmt: skip
        shapes[f"model.layers.0.{part}.weight"] = shape
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def as_parts(directory: Path, tensors: dict[str, np.ndarray], dtype: np.dtype[Any]) -> Path:
    copy = Copy(directory, "llama")
    copy.config(**WIDE, num_hidden_layers=1, attention_bias=False, mlp_bias=False, head_dim=64,
                tie_word_embeddings=False)  # fmt: skip
    copy.write({name: tensor.astype(dtype) for name, tensor in tensors.items()})
    copy.write_parts(3)
    return copy.directory


def as_gguf(directory: Path, tensors: dict[str, np.ndarray], dtype: np.dtype[Any]) -> Path:
    """In Q8_0; the names are those of one layer."""
    import gguf

    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    kind, packed, own = gguf.GGMLQuantizationType.Q8_0, {}, {}
    for name, tensor in tensors.items():
        theirs = table.get_name(name, try_suffixes=(".weight",))
        own[theirs] = gguf.quantize(tensor, kind) if tensor.ndim > 1 else tensor
        if tensor.ndim > 1:
            packed[theirs.replace(".", "__")] = kind
    metadata = metadata_of("llama") | {
        "llama.embedding_length": 512, "llama.feed_forward_length": 1792, "llama.vocab_size": 9001,
        "llama.attention.head_count": 8, "llama.attention.head_count_kv": 4, "llama.block_count": 1,
        "llama.attention.key_length": 64, "llama.attention.value_length": 64, "llama.rope.dimension_count": 64,
    }  # fmt: skip
    return write(directory / "model.gguf", metadata, own, **packed)


def sizes_while(build: Callable[[], Any]) -> tuple[int, int, Any]:
    """What remains of `build`, the most that there was meanwhile, and what it gave."""
    gc.collect()
    tracemalloc.start()
    try:
        result = build()
        gc.collect()
        remains, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return remains, most, result


@pytest.mark.parametrize("kept", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize(
    ("save", "stored"),
    [(as_parts, np.dtype(np.float32)), (as_parts, BFLOAT16), (as_gguf, np.dtype(np.float32))],
    ids=["float32 parts", "bfloat16 parts", "gguf"],
)
def test_loading_takes_little_more_than_what_remains(
    save: Any, stored: np.dtype[Any], kept: str, tensors: dict[str, np.ndarray], tmp_path: Path
) -> None:
    path = save(tmp_path, tensors, stored)
    load(path)  # what is imported and compiled once is no weight
    remains, most, model = sizes_while(lambda: load(path, dtype=kept))
    expected = (
        sum(tensor.size for tensor in tensors.values())
        * (NARROW | {"float64": np.dtype(float)}).get(kept, np.dtype(np.float32)).itemsize
    )
    assert 0.99 * expected < remains < 1.02 * expected + PIECE
    assert most < MOST * remains
    assert model.logits([1, 2]).shape == (2, 9001)


def test_parts_of_a_joined_matrix_keep_their_own_numbers_alone(tmp_path: Path) -> None:
    """GPT-2 has W_Q, W_K and W_V in one tensor."""
    d, vocab = 768, 67
    copy = Copy(tmp_path, "gpt2")
    shapes = {name: tensor.shape for name, tensor in copy.tensors().items()}
    old = copy.settings()["n_embd"]
    grown = {n: tuple(d * (size // old) if size % old == 0 else size for size in shape) for n, shape in shapes.items()}
    tensors = {name: np.ones(shape, np.float32) for name, shape in grown.items()}
    copy.config(n_embd=d, n_inner=next(s[1] for n, s in grown.items() if n.endswith("mlp.c_fc.weight")), n_head=12)
    save_file(tensors, copy.directory / "model.safetensors")
    copy.load()
    remains, most, model = sizes_while(copy.load)
    assert model.settings.vocab_size == vocab
    size = sum(tensor.nbytes for tensor in tensors.values())
    assert remains < 1.02 * size + PIECE
    assert most < remains + 4 * 3 * d * d + 8 * PIECE


def test_progress_of_parts(tmp_path: Path) -> None:
    copy, told = Copy(tmp_path, "llama"), []
    copy.write_parts(3)
    load(copy.directory, progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    size = sum(tensor.nbytes for tensor in Copy(tmp_path / "x", "llama").tensors().values())
    assert told[-1] == (size, size)
