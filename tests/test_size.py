"""How large models are and what they cost: held to the tensors of files, to what runs, and to what is published."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from tests.commanded import command
from tests.decoder_fixture import FAMILIES as DECODER_DIRECTORIES
from tests.decoder_fixture import TINY
from tests.models_fixture import DATA

import qkv
from qkv.errors import ArgumentError, FileError, QkvError
from qkv.models import load
from qkv.models.families import FAMILIES
from qkv.models.size import CACHES, Size, size
from qkv.models.stacks import Looking

CONFIGS = DATA / "configs"
DIRECTORIES = sorted(
    path.parent for path in DATA.glob("tiny*/**/config.json") if (path.parent / "model.safetensors").exists()
)
PUBLISHED = {
    (file, name): model
    for file in ("decoders", "vision")
    for name, model in json.loads((DATA / f"published_{file}.json").read_text()).items()
}


def name_of(path: Path) -> str:
    return path.relative_to(DATA).as_posix()


def of_config(config: dict[str, Any], directory: Path, **how: Any) -> Size:
    (directory / "config.json").write_text(json.dumps(config))
    return size(directory / "config.json", **how)


# the anchors


def test_llama_2_7b_keeps_half_a_mebibyte_for_each_token() -> None:
    found = size(CONFIGS / "llama-2-7b.json", length=32_768)
    assert (found.total, found.active) == (6_738_415_616, 6_738_415_616)
    assert found.cache_token == 512 * 2**10
    assert found.cache_length == 16 * 2**30
    assert found.nbytes(16) == 2 * found.total


def test_llama_3_70b_keeps_a_key_for_eight_queries() -> None:
    found = size(CONFIGS / "llama-3-70b.json")
    assert found.total == 70_553_706_496
    assert found.cache_token == 327_680
    assert found.cache_length == 4096 * 327_680


def test_deepseek_v3_keeps_a_latent() -> None:
    found = size(CONFIGS / "deepseek-v3.json")
    assert found.cache_token == 61 * (512 + 64) * 2 == 70_272
    assert found.total == 671_026_419_200
    assert found.active == 37_552_297_472  # "37B activated for each token"
    assert size(CONFIGS / "deepseek-v3.json", dtype="float32").cache_token == 2 * 70_272


def test_a_window_is_counted_as_a_window() -> None:
    """Mistral 7B looks back at 4096 keys: behind them its cache grows no more."""
    short, long = (size(CONFIGS / "mistral-7b.json", length=n) for n in (4096, 32_768))
    assert short.cache_token == long.cache_token == 131_072
    assert short.cache_length == long.cache_length == 4096 * 131_072
    assert short.flops_token == long.flops_token
    assert 8 * short.flops_length < long.flops_length < 9 * short.flops_length


def test_an_encoder_decoder_keeps_its_source_too() -> None:
    found = size(CONFIGS / "t5-small.json", length=100)
    assert found.total == 60_506_624
    assert found.cache_token == 6 * 2 * 512 * 2
    assert (found.cache_length, found.cache_source) == (100 * 12_288, 100 * 12_288)
    sound = size(CONFIGS / "whisper-tiny.json")
    assert (sound.total, sound.n_source, sound.length) == (37_760_640, 1500, 448)
    assert sound.cache_source == 1500 * 4 * 2 * 384 * 2


# numbers of parameters


def test_every_family_is_counted() -> None:
    configs = [json.loads((path / "config.json").read_text()) for path in DIRECTORIES]
    configs += [json.loads(path.read_text()) for path in CONFIGS.iterdir()]
    configs += [model["config"] for model in PUBLISHED.values()]
    named = {config["model_type"] for config in configs}
    assert set(FAMILIES) - named <= {"camembert", "xlm-roberta"}  # RoBERTa under other names


@pytest.mark.parametrize("directory", DIRECTORIES, ids=name_of)
def test_what_is_counted_is_what_the_file_holds(directory: Path) -> None:
    with safe_open(directory / "model.safetensors", "numpy") as file:
        slices = [file.get_slice(name) for name in file.keys()]  # noqa: SIM118  # not a dict
        shapes = [piece.get_shape() for piece in slices]
        widths = {"F16": 2, "F32": 4, "F64": 8, "BF16": 2}
        stored = sum(math.prod(piece.get_shape()) * widths[piece.get_dtype()] for piece in slices)
    found = size(directory)
    assert found.total == sum(math.prod(shape) for shape in shapes)
    assert found.stored == stored
    assert size(directory / "config.json").stored is None


@pytest.mark.parametrize("directory", DIRECTORIES, ids=name_of)
def test_what_is_counted_is_what_is_loaded(directory: Path) -> None:
    """Each array of the model once, whether it is read for one part or for two; nothing else tells equal numbers."""
    found: dict[bytes, int] = {}

    def collect(part: Any) -> None:
        if isinstance(part, np.ndarray):
            found[np.sort(part, axis=None).tobytes()] = part.size
        elif isinstance(part, list | tuple):
            for item in part:
                collect(item)
        elif dataclasses.is_dataclass(part) and type(part).__module__.startswith(("qkv.models", "qkv.layers")):
            for f in dataclasses.fields(part):
                if not f.name.startswith("_"):
                    collect(getattr(part, f.name))

    collect(load(directory))
    assert size(directory).total == sum(found.values()) + ELSEWHERE.get(name_of(directory), 0)


# What a loaded model keeps in its rules (sinks, T5's relative bias), or leaves out because it stands for nothing (rows
# of tables of positions); Marian's tables of positions are computed.
ELSEWHERE: dict[str, int] = {
    "tiny/gpt_oss": 3 * 4, "tiny/opt": 2 * 20,
    "tiny_seq2seq/bart": 2 * 2 * 20, "tiny_seq2seq/mbart": 2 * 2 * 20, "tiny_seq2seq/marian": -41 * 20,
    **dict.fromkeys(("tiny_seq2seq/t5", "tiny_seq2seq/t5_v1_1", "tiny_seq2seq/mt5"), 2 * 8 * 3),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED, ids=lambda name: name[1])
def test_published_models(name: tuple[str, str], tmp_path: Path) -> None:
    model = PUBLISHED[name]
    assert of_config(model["config"], tmp_path).total == model["parameters"]


def test_experts_are_active_in_part(tmp_path: Path) -> None:
    """Mixtral 8x7B: two of eight experts; by the numbers of its paper's table 1."""
    config = PUBLISHED["decoders", "Mixtral 8x7B"]["config"]
    found = of_config(config, tmp_path)
    experts = {part.name: part for part in found.parts}["experts"]
    of_one = 3 * 4096 * 14336
    assert experts.total == 32 * (8 * of_one + 4096 * 8)
    assert experts.active == 32 * (2 * of_one + 4096 * 8)
    assert found.active == found.total - 32 * 6 * of_one


# FLOPs


def test_flops_by_hand() -> None:
    """Kaplan et al., arXiv 2001.08361, table 1, with a gate and the head."""
    n, d, d_ff, layers, vocab = 4096, 4096, 11008, 32, 32000
    matrices = layers * (4 * d * d + 3 * d * d_ff)
    found = size(CONFIGS / "llama-2-7b.json", length=n)
    assert found.flops_token == 2 * (matrices + vocab * d) + layers * 4 * d * n
    assert found.flops_length == 2 * (n * matrices + vocab * d) + layers * 4 * d * (n * (n + 1) // 2)
    kaplan = n * (2 * matrices + 2 * layers * n * d)  # a context that is half full on average
    assert found.flops_length == pytest.approx(kaplan, rel=1e-3)


def test_flops_of_latents_by_hand() -> None:
    """One more token goes over into the space of the latents; all at once, keys and values are written out."""
    n, heads, layers = 1000, 128, 61
    found, none = (size(CONFIGS / "deepseek-v3.json", length=k) for k in (n, 1))
    assert found.flops_token - none.flops_token == layers * 2 * heads * (512 + 64 + 512) * (n - 1)
    active = {part.name: part.active for part in found.parts}
    head = active["heads"]
    biases = 58 * 256  # of the routers: added, not multiplied with
    matrices = sum(active.values()) - active["embeddings"] - active["norms"] - head - biases
    per_pair = layers * 2 * heads * (128 + 64 + 128)
    assert found.flops_length == 2 * (n * matrices + head) + per_pair * n * (n + 1) // 2


def test_flops_of_an_encoder_by_hand() -> None:
    n, d, d_ff, layers = 512, 768, 3072, 12
    found = size(CONFIGS / "bert-base.json")
    matrices = layers * (4 * d * d + 2 * d * d_ff)
    assert (found.length, found.cache_token) == (n, None)
    assert found.flops_token == 2 * matrices + layers * 4 * d * n
    assert found.flops_length == n * found.flops_token


def test_flops_of_images_by_hand(tmp_path: Path) -> None:
    found = of_config(PUBLISHED["vision", "ViT-B/16 (ImageNet-1k)"]["config"], tmp_path)
    n, d, d_ff, layers = 197, 768, 3072, 12
    matrices = layers * (4 * d * d + 2 * d * d_ff)
    assert found.flops_length == 2 * (n * matrices + 196 * 768 * d + 1000 * d) + layers * 4 * d * n * n


def test_flops_of_an_encoder_decoder_by_hand() -> None:
    n, d, d_ff, layers, vocab = 100, 512, 2048, 6, 32128
    found = size(CONFIGS / "t5-small.json", length=n)
    encoder = layers * (4 * d * d + 2 * d * d_ff)
    decoder = layers * (6 * d * d + 2 * d * d_ff)  # of the cross attention W_Q and W_O alone
    pairs = layers * 4 * d * (n * n + n * (n + 1) // 2 + n * n)
    assert found.flops_length == 2 * (n * (encoder + decoder + layers * 2 * d * d) + vocab * d) + pairs
    assert found.flops_token == 2 * (decoder + vocab * d) + layers * 4 * d * 2 * n


@pytest.mark.parametrize("family", [name for name in DECODER_DIRECTORIES if name != "phi3"])
def test_pairs_are_those_that_are_looked_at(family: str) -> None:
    """In a run, every score that is not hidden is a pair of query and key."""
    from qkv.models.stacks import stacks_of

    model, ids = load(TINY / family), np.arange(23) % 60
    with qkv.record("layers.*.attention.*") as trace:
        model(ids)
    (stack,) = stacks_of(model.settings)
    for i, looking in enumerate(stack.lookings):
        scores = trace[f"layers.{i}.attention.masked"]
        visible = np.isfinite(scores)
        assert visible.shape[0] == looking.n_heads
        assert (visible.sum(axis=(1, 2)) == looking.pairs(23, 0)).all()
        assert (visible[:, -1].sum(axis=-1) == looking.keys(23, 0)).all()


@pytest.mark.parametrize("window", [None, (1, 3), (0, 0), (9, 2), 1, 4, 9])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_pairs_by_counting(window: Any, n: int) -> None:
    causal = window is None or isinstance(window, int)
    left, right = (n if window is None else window - 1, 0) if causal else window
    pairs = sum(i - left <= j <= i + right for i in range(n) for j in range(n))
    assert Looking(1, 1, 1, window=window, causal=causal).pairs(n, 0) == pairs


# the cache


@pytest.mark.parametrize("dtype", [None, "float16", "int8"])
@pytest.mark.parametrize("family", [name for name in DECODER_DIRECTORIES if name != "phi3"])
def test_the_cache_is_as_large_as_it_is(family: str, dtype: str | None) -> None:
    """What real caches hold after so many tokens; where a window is full, the newest key is not kept yet."""
    model, n = load(TINY / family), 23
    caches = model.new_caches(dtype)
    model.logits(np.arange(n) % 60, caches) if model.head.W is not None else model.forward(np.arange(n) % 60, caches)
    found = size(TINY / family, length=n, dtype=dtype or "float32")
    windows = [layer.attention.rules.get("window") for layer in model.layers]
    full = sum(window is not None and window <= n for window in windows)
    assert found.cache_length == sum(cache.nbytes for cache in caches) + full * found.cache_token // len(windows)


def test_a_batch_has_as_many_caches() -> None:
    one, five = (size(CONFIGS / "t5-small.json", length=64, batch=batch) for batch in (1, 5))
    assert (five.cache_length, five.cache_source) == (5 * one.cache_length, 5 * one.cache_source)
    assert five.flops_length == 5 * one.flops_length
    assert (five.cache_token, five.flops_token) == (one.cache_token, one.flops_token)


# other forms


def test_a_gguf_file_is_counted_as_it_is_stored(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    from tests.gguf_fixture import smollm2_file

    found = size(smollm2_file())
    assert (found.model_type, found.total, found.cache_token) == ("llama", 134_515_008, 30 * 2 * 3 * 64 * 2)
    assert found.stored is not None
    assert 0.98 < found.stored / smollm2_file().stat().st_size <= 1


def test_both_formats_are_counted_alike(tmp_path: Path) -> None:
    """Where llama.cpp joins tensors, stacks them or renames them, the numbers stay."""
    pytest.importorskip("gguf")
    from tests.test_gguf_architectures import FILES, both

    for family in FILES:
        path, copy = both(tmp_path / family, family)
        file, directory = size(path), size(copy.directory)
        assert file.parts == directory.parts
        costs = ("cache_token", "cache_length", "flops_token", "flops_length", "longest")
        assert [getattr(file, name) for name in costs] == [getattr(directory, name) for name in costs]


def test_parts_and_their_index_are_counted(tmp_path: Path) -> None:
    from tests.decoder_fixture import Copy

    copy = Copy(tmp_path, "llama")
    copy.write_parts(3)
    whole, parts = size(TINY / "llama"), size(copy.directory)
    assert (parts.total, parts.flops_length) == (whole.total, whole.flops_length)
    assert parts.stored == sum(tensor.nbytes for name, tensor in Copy(tmp_path / "b", "llama").tensors().items())


# hostile


WIDTHS = ("hidden_size", "n_embd", "d_model", "intermediate_size", "d_ff", "vocab_size")
HEADS = ("num_attention_heads", "n_head", "num_heads", "num_key_value_heads", "encoder_attention_heads")
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")


def test_ten_to_the_twelfth_is_only_arithmetic(tmp_path: Path) -> None:
    config = json.loads((CONFIGS / "llama-2-7b.json").read_text())
    huge = config | {"hidden_size": 2**20, "intermediate_size": 2**22, "vocab_size": 2**24, "num_hidden_layers": 101,
                     "num_attention_heads": 2**13, "num_key_value_heads": 2**13}  # fmt: skip
    found = of_config(huge, tmp_path)
    matrices = 101 * (4 * 2**40 + 3 * 2**42)
    assert found.total == matrices + 2 * 2**44 + (2 * 101 + 1) * 2**20 > 10**12
    shutil.copy(TINY / "llama" / "model.safetensors", tmp_path)
    with pytest.raises(FileError):
        refused_at_once(tmp_path)


def refused_at_once(directory: Path) -> None:
    """`qkv.load` says no before it takes memory worth mentioning."""
    tracemalloc.start()
    try:
        load(directory)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 100 * 2**20


TOO_MUCH = [
    pytest.param(directory, config | huge, id=f"{name_of(directory)}-{next(iter(huge))}")
    for directory in DIRECTORIES
    for config in [json.loads((directory / "config.json").read_text())]
    for names in (WIDTHS, HEADS, LAYERS, EXPERTS, WIDTHS + HEADS)
    if (huge := {name: 2**30 for name in names if name in config})
]


@pytest.mark.parametrize(("directory", "huge"), TOO_MUCH)
def test_a_config_that_asks_for_too_much_is_one_line(directory: Path, huge: dict[str, Any], tmp_path: Path) -> None:
    huge.pop("layer_types", None)
    (tmp_path / "config.json").write_text(json.dumps(huge))
    shutil.copy(directory / "model.safetensors", tmp_path)
    with pytest.raises(QkvError):
        refused_at_once(tmp_path)
    with contextlib.suppress(FileError):
        assert size(tmp_path / "config.json").total > 10**9


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"length": 0}, "length must be an integer of at least 1, but it is 0"),
        ({"batch": 1.5}, "batch must be an integer of at least 1, but it is 1.5"),
        ({"dtype": "int4"}, "dtype must be one of float32, float16, bfloat16, int8, but it is 'int4'"),
    ],
)
def test_wrong_calls_are_one_line(how: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{re.escape(said)}$"):
        size(CONFIGS / "llama-2-7b.json", **how)


def test_a_length_for_images_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"^length has no effect when every image has as many patches$"):
        size(DATA / "tiny_vision" / "vit", length=7)


def test_what_is_no_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"\x80\x02")
    for path, said in (
        (tmp_path / "none", "no such file"),
        (tmp_path, "no such file"),
        (tmp_path / "model.bin", "is a pickle"),
    ):
        with pytest.raises(FileError, match=said):
            size(path)


# the command


def test_the_table() -> None:
    shown = command("size", CONFIGS / "deepseek-v3.json", width=80)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].endswith("deepseek-v3.json: deepseek_v3")
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
    assert ["experts", "656,569,547,264", "97.8 %", "23,095,425,536"] in rows
    assert ["all", "671,026,419,200", "100.0 %", "37,552,297,472"] in rows
    assert ["KV cache, each token", "68.6 KiB", "70,272"] in rows


def test_a_narrow_screen_leaves_out_the_exact_numbers() -> None:
    shown = command("size", CONFIGS / "llama-2-7b.json", "--length", 32_768, width=44)
    rows = [re.split(r"\s{2,}", line.strip()) for line in shown.out.splitlines()]
    assert ["KV cache, each token", "512 KiB"] in rows
    assert ["KV cache, 32,768 tokens", "16 GiB"] in rows
    assert max(len(line) for line in shown.out.splitlines()) <= 44
    assert "The model itself takes at most 4,096 tokens" in shown.out


def test_in_chinese() -> None:
    shown = command("size", CONFIGS / "whisper-tiny.json", lang="zh", width=80)
    assert "交叉注意力" in shown.out
    assert "KV 缓存，源序列 1,500 个词元" in shown.out
    wrong = command("size", CONFIGS / "whisper-tiny.json", "--batch", 0, lang="zh")
    assert wrong.code == 2
    assert "batch 应为" in wrong.err


@pytest.mark.parametrize("dtype", CACHES)
def test_json_is_exact(dtype: str) -> None:
    shown = command("size", CONFIGS / "llama-3-70b.json", "--json", "--dtype", dtype, "--batch", 3, "--length", 1000)
    values, found = json.loads(shown.out), size(CONFIGS / "llama-3-70b.json", dtype=dtype, batch=3, length=1000)
    assert (
        values["parameters"]["total"] == found.total == sum(p["total"] for p in values["parameters"]["parts"].values())
    )
    assert values["cache"] == {"dtype": dtype, "token": found.cache_token, "length": found.cache_length, "source": None}
    assert values["flops"] == {"token": found.flops_token, "length": found.flops_length}
    assert values["bytes"]["16"] == 2 * found.total
    assert found.cache_length == 3000 * found.cache_token


@pytest.mark.parametrize(("cells", "note"), [(34, "columns 2–3 of 4 left out"), (40, "column 3 of 4 left out")])
def test_a_narrow_screen_shows_fewer_columns_but_whole_numbers(cells: int, note: str) -> None:
    shown = command("size", CONFIGS / "deepseek-v3.json", width=cells).out
    assert "671,026,419,200" in shown
    assert note in shown
    assert "…" not in shown
