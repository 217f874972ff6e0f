"""`qkv verify`: equal where it is equal, and where it is not, the first step that differs is named, and no other."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tests.decoder_fixture import FAMILIES, TINY, Copy, random_decoder
from tests.decoder_fixture import known as known_logits
from tests.models_fixture import DATA
from tests.models_fixture import TINY as TINY_BERT

import qkv
from qkv.cli.commands import qkv as command
from qkv.errors import ArgumentError, FileError
from qkv.models import Decoder, load
from qkv.ops import dense
from qkv.trace.agreement import compare
from qkv.trace.checks import self_checks
from qkv.trace.reference import FOREIGN, read_reference, script
from qkv.trace.verify import verify
from qkv.views.screen import Screen
from qkv.views.verify_text import checks_text, verified_text

REFERENCES = DATA / "verify"
MODELS = {"llama": TINY / "llama", "gpt2": TINY / "gpt2", "bert": TINY_BERT}


def reference(name: str) -> Path:
    return REFERENCES / f"{name}.safetensors"


@pytest.mark.parametrize("name", MODELS)
def test_right_models_are_equal(name: str) -> None:
    found = verify(load(MODELS[name]), reference(name))
    assert found.equal
    assert found.first is None
    assert max(step.error / step.allowed for step in found.steps) < 0.5
    paths = [step.path for step in found.steps]
    for step in ("q", "k", "v", "weights", "joined", "output"):
        assert f"layers.1.attention.{step}" in paths
    assert {"embeddings.out", "layers.1.resid_post", "layers.1.feed_forward.output"} <= set(paths)
    if name != "bert":
        assert paths[-1] == "logits"


# planted errors


def tiled(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Query head h with key head h % Hkv, in place of h // (H / Hkv)."""
    if not dense.shares_heads(rows, x):
        return x
    *lead, n_heads, Tq, n = x.shape
    n_kv = rows.shape[-3]
    split = x.reshape(*lead, n_heads // n_kv, n_kv, Tq, n).swapaxes(-4, -3)
    return split.reshape(*lead, n_kv, n_heads // n_kv * Tq, n)


def heads_in_another_order(model: Any) -> None:
    """Of W_Q and its bias; what the other matrices expect stays."""
    part = model.layers[1].attention
    order = np.arange(len(part.W_Q.T)).reshape(part.n_heads, -1)[::-1].ravel()
    part.W_Q, part.b_Q = part.W_Q[:, order], part.b_Q[order]


def rotated_otherwise(model: Any) -> None:
    part = model.layers[1].attention
    part.rotary = replace(part.rotary, layout="interleaved")


def rotated_later(model: Any) -> None:
    part = model.layers[1].attention
    part.rotary = replace(part.rotary, base=2 * part.rotary.base)


def without_norm(model: Any) -> None:
    model.layers[1].norm_2 = None


def another_eps(model: Any) -> None:
    model.layers[0].norm_1.eps *= 10


def without_scale(model: Any) -> None:
    model.layers[1].attention.rules = {"scale": 1.0}


def without_bias(model: Any) -> None:
    model.layers[1].attention.b_V = None


def output_transposed(model: Any) -> None:
    """The heads beside each other in the order (d_k, H)."""
    part = model.layers[1].attention
    W, n = part.W_O, part.n_heads
    part.W_O = W.reshape(n, -1, W.shape[1]).swapaxes(0, 1).reshape(W.shape)


def other_activation(model: Any) -> None:
    model.layers[1].feed_forward.activation = "gelu"


def without_final_norm(model: Any) -> None:
    model.norm.gamma = np.ones_like(model.norm.gamma)


def last_token_twice(model: Any) -> None:
    model.embeddings.W_word = np.roll(model.embeddings.W_word, 1, axis=0)


PLANTED: list[tuple[str, Callable[[Any], None], str, str]] = [
    ("llama", rotated_otherwise, "layers.1.attention.weights", "layers.1.attention.q_rot"),
    ("llama", rotated_later, "layers.1.attention.weights", "layers.1.attention.q_rot"),
    ("llama", without_norm, "layers.1.feed_forward.up", ""),
    ("llama", heads_in_another_order, "layers.1.attention.q", ""),
    ("llama", another_eps, "layers.0.norm_1.out", "layers.0.norm_1.normed"),
    ("llama", without_scale, "layers.1.attention.weights", "layers.1.attention.scores"),
    ("llama", without_bias, "layers.1.attention.v", ""),
    ("llama", output_transposed, "layers.1.attention.output", ""),
    ("llama", other_activation, "layers.1.feed_forward.output", "layers.1.feed_forward.gate"),
    ("llama", without_final_norm, "norm.out", "norm.normed"),
    ("llama", last_token_twice, "embeddings.out", ""),
    ("gpt2", without_norm, "layers.1.feed_forward.hidden", ""),
    ("gpt2", heads_in_another_order, "layers.1.attention.q", ""),
    ("gpt2", without_scale, "layers.1.attention.weights", "layers.1.attention.scores"),
    ("gpt2", other_activation, "layers.1.feed_forward.output", "layers.1.feed_forward.bent"),
    ("bert", without_norm, "layers.1.resid_post", ""),
    ("bert", without_scale, "layers.1.attention.weights", "layers.1.attention.scores"),
    ("bert", without_bias, "layers.1.attention.v", ""),
]


@pytest.mark.parametrize(
    ("name", "plant", "step", "suspect"), PLANTED, ids=[f"{n}-{p.__name__}" for n, p, *_ in PLANTED]
)
def test_a_planted_error_is_found_where_it_was_planted(
    name: str, plant: Callable[[Any], None], step: str, suspect: str
) -> None:
    model = load(MODELS[name])
    plant(model)
    found = verify(model, reference(name))
    assert found.first is not None
    assert found.first.path == step
    if suspect:
        assert suspect in found.unseen
    before = found.steps[: found.steps.index(found.first)]
    assert all(one.equal for one in before)


def test_key_heads_tiled_in_place_of_repeated() -> None:
    with mock.patch.object(dense, "grouped", tiled):
        found = verify(load(MODELS["llama"]), reference("llama"))
    assert found.first is not None
    assert found.first.path == "layers.0.attention.weights"
    assert "layers.0.attention.scores" in found.unseen


@pytest.mark.parametrize("word", ["q_proj", "input_layernorm", "down_proj"])
def test_a_weight_that_is_off_by_a_thousandth_is_found(word: str, tmp_path: Path) -> None:
    copy = Copy(tmp_path, "llama")
    tensors = copy.tensors()
    name = next(n for n in sorted(tensors) if word in n and ".1." in n and n.endswith("weight"))
    tensors[name] = (tensors[name] * np.float16(1.002)).astype(np.float16)
    copy.write(tensors)
    found = verify(copy.load(), reference("llama"))
    assert found.first is not None
    assert found.first.layer == 1
    assert found.first.error > 3 * found.first.allowed


def test_an_edit_shows_too() -> None:
    with qkv.edit({"layers.2.attention.out": qkv.edits.scale(1.001, head=1)}):
        found = verify(load(MODELS["llama"]), reference("llama"))
    assert found.first is not None
    assert found.first.path == "layers.2.attention.joined"


def test_in_float64_ten_times_eps_is_seen_in_every_layer(tmp_path: Path) -> None:
    """In float32 it drowns in the rounding wherever the stream has grown."""
    model = random_decoder(eps=1e-6)
    with qkv.record() as trace:
        model.logits(list(range(7)))
    trace.save(tmp_path / "t.safetensors")
    for layer in range(3):
        other = random_decoder(eps=1e-6)
        other.layers[layer].norm_2.eps = 1e-5
        first = verify(other, tmp_path / "t.safetensors").first
        assert first is not None
        assert first.path == f"layers.{layer}.norm_2.normed"


# the numbers


def test_compare_says_where_and_how_much() -> None:
    ours, theirs = np.array([[3.0, 4.0], [0.0, np.nan]]), np.array([[3.0, 4.5], [0.0, np.nan]])
    found = compare("x", ours, theirs, 0.01)
    assert (found.size, found.index, found.ours, found.theirs) == (0.5, (0, 1), 4.0, 4.5)
    assert found.error == pytest.approx(0.5 / np.hypot(3, 4.5))
    assert not found.equal
    assert compare("x", ours, ours, 0.0).equal
    assert not compare("x", np.array([np.nan]), np.array([1.0]), 1e9).equal
    assert not compare("x", np.array([np.inf]), np.array([1.0]), 1e9).equal
    assert not compare("x", np.ones(2), np.ones(3), 1e9).equal
    assert compare("x", np.array([-np.inf, 1]), np.array([-np.inf, 1]), 0.0).equal


def test_growth_is_the_worst_of_each_layer() -> None:
    found = verify(load(MODELS["llama"]), reference("llama"))
    for layer, error in found.growth().items():
        assert error == max(step.error for step in found.steps if step.path.startswith(f"layers.{layer}."))
    allowed = {step.layer: step.allowed for step in found.steps if step.layer is not None}
    assert allowed[0] < allowed[1] < allowed[2]
    assert not verify(load(MODELS["llama"]), reference("llama"), rtol=1e-9).equal


def test_a_trace_of_qkv_is_a_reference_too(tmp_path: Path) -> None:
    model = random_decoder()
    with qkv.record() as trace:
        model.logits([5, 6, 7])
    trace.save(tmp_path / "t.safetensors")
    found = verify(model, tmp_path / "t.safetensors")
    assert found.equal
    assert max(step.error for step in found.steps) == 0
    assert found.steps[-1].path == "logits"
    assert len(found.steps) > 50
    model.layers[1].attention.W_V = model.layers[1].attention.W_V * 1.01
    first = verify(model, tmp_path / "t.safetensors").first
    assert first is not None
    assert first.path == "layers.1.attention.v"


# what cannot be compared


def rewritten(tmp_path: Path, name: str = "llama", about: dict[str, str] | None = None, **changes: Any) -> Path:
    """A reference in which tensors are replaced; None takes one out. Dots are written as two underscores."""
    with safe_open(reference(name), "np") as file:
        told = file.metadata() | (about or {})
    arrays = load_file(reference(name)) | {n.replace("__", "."): v for n, v in changes.items()}
    path = tmp_path / "changed.safetensors"
    save_file({n: np.array(v) for n, v in arrays.items() if v is not None}, path, metadata=told)
    return path


def test_references_that_do_not_fit_are_one_line(tmp_path: Path) -> None:
    model = load(MODELS["llama"])
    lines: list[tuple[Path, str]] = [
        (reference("gpt2"), "is a trace of a 'gpt2', but the model is a 'llama'"),
        (tmp_path / "none.safetensors", "no such file"),
        (MODELS["llama"] / "model.safetensors", "is not a trace of qkv or of its script"),
        (MODELS["llama"] / "config.json", "is damaged or not what it says"),
    ]
    for path, said in lines:
        with pytest.raises(FileError, match=said):
            verify(model, path)
    for changes, said in (
        ({"ids": None}, "does not say which token ids"), ({"ids": [[1, 2]]}, "no sequence of token ids"),
        ({"ids": [1.0, 2.0]}, "no sequence of token ids"), ({"ids": np.zeros(0, np.int64)}, "no sequence of token ids"),
        ({"hidden_states__4": np.ones((1, 7, 20))}, "of a model of 4 layers, but this one has 3"),
        ({"hidden_states__3": None}, "of a model of 2 layers, but this one has 3"),
    ):  # fmt: skip
        with pytest.raises(FileError, match=said):
            verify(model, rewritten(tmp_path, **changes))
    with pytest.raises(ArgumentError, match="token ids must lie from 0 to 66, but 99 came"):
        verify(model, rewritten(tmp_path, ids=[1, 99]))
    with pytest.raises(ArgumentError, match="an encoder or a decoder of text"):
        verify("model", reference("llama"))
    with pytest.raises(ArgumentError, match="rtol must be a number of at least 0"):
        verify(model, reference("llama"), rtol=-1)


def test_nothing_shared_is_an_error_and_a_missing_step_is_not(tmp_path: Path) -> None:
    path = tmp_path / "only_ids.safetensors"
    about = {"format": FOREIGN, "model_type": "llama"}
    save_file({"ids": np.array([1, 2])}, path, metadata=about)
    with pytest.raises(FileError, match="holds no step of this model"):
        verify(load(MODELS["llama"]), path)
    with pytest.raises(FileError, match="holds no step of this model"):
        verify(random_decoder(n_layers=3), reference("llama"))
    fewer = verify(load(MODELS["llama"]), rewritten(tmp_path, attentions__1=None))
    assert fewer.equal
    assert "layers.1.attention.weights" not in [step.path for step in fewer.steps]


@pytest.mark.parametrize("name", ["out.model.layers.1.self_attn.q_proj", "attentions.0", "logits", "out.model.norm"])
@pytest.mark.parametrize("shape", [(), (3,), (1, 7, 3), (2, 2, 2, 2, 2)])
def test_a_step_of_another_shape_differs(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    changed = {name.replace(".", "__"): np.ones(shape, np.float32)}
    if name == "logits":
        assert verify(load(MODELS["llama"]), rewritten(tmp_path, **changed)).steps[-1].path in ("norm.out", "out")
        return
    found = verify(load(MODELS["llama"]), rewritten(tmp_path, **changed))
    assert found.first is not None
    assert isinstance(found.first.ours, tuple)
    assert "shape" in str(found)


def test_fused_outputs_of_another_width_differ(tmp_path: Path) -> None:
    path = rewritten(tmp_path, "gpt2", out__transformer__h__1__attn__c_attn=np.ones((1, 7, 7), np.float32))
    found = verify(load(MODELS["gpt2"]), path)
    assert found.first is not None
    assert found.first.path == "layers.1.attention.q"


def test_truncated_and_hostile_files_are_one_line(tmp_path: Path) -> None:
    whole = reference("llama").read_bytes()
    for data in (b"", whole[:7], whole[:200], whole[:-9], b"\xff" * 64, (2**60).to_bytes(8, "little") + whole[8:]):
        path = tmp_path / "cut.safetensors"
        path.write_bytes(data)
        with pytest.raises(FileError) as error:
            read_reference(path)
        assert "\n" not in str(error.value)


# checks without a reference


@pytest.mark.parametrize("family", [*FAMILIES, "bert"])
def test_every_tiny_model_passes_its_checks(family: str) -> None:
    model = load(TINY_BERT if family == "bert" else TINY / family)
    if family != "bert" and not isinstance(model, Decoder):
        pytest.skip("no decoder")
    ids = None if family == "bert" else known_logits(family)["7.ids"]
    checks = self_checks(model, ids)
    assert [check.name for check in checks if not check.holds] == []
    assert len(checks) == (7 if isinstance(model, Decoder) else 4)


def broken(name: str, model: Any) -> AbstractContextManager[Any]:
    edits = qkv.edits
    if name == "finite":
        model.layers[1].feed_forward.W_up[0, 0] = np.nan
    if name == "rows":
        return qkv.edit({"layers.1.attention.weights": edits.scale(1.01)})
    if name == "causal":
        return qkv.edit({"layers.1.attention.weights": edits.replacement(1 / 13)})
    if name == "future":
        return qkv.edit({"layers.0.resid_post": lambda x: np.roll(x, 1, axis=-2)})
    return nullcontext()


@pytest.mark.parametrize("name", ["finite", "rows", "causal", "future"])
def test_a_broken_model_fails_the_check_of_that_name(name: str) -> None:
    model = random_decoder()
    with broken(name, model), np.errstate(all="ignore"):
        failed = [check for check in self_checks(model, np.arange(13)) if not check.holds]
    assert name in [check.name for check in failed]


def test_a_cache_that_forgets_fails() -> None:
    model = random_decoder()
    with mock.patch.object(type(model), "new_caches", lambda self: [qkv.layers.KVCache(2) for _ in self.layers]):
        failed = [check.name for check in self_checks(model) if not check.holds]
    assert failed == ["cache"]


def test_padding_that_is_looked_at_fails() -> None:
    model = random_decoder()
    with mock.patch("qkv.models.decoder._after_padding", return_value={}):
        failed = [check.name for check in self_checks(model) if not check.holds]
    assert failed == ["batch"]


# as text, and from the command line


def test_text_fits(tmp_path: Path) -> None:
    model = load(MODELS["llama"])
    without_norm(model)
    found = verify(model, reference("llama"))
    for cells in (40, 80, 100):
        for text in (
            verified_text(found, "en", Screen(width=cells)),
            checks_text(self_checks(model), "zh", Screen(cells)),
        ):
            assert max(map(len, text.splitlines())) <= cells
    assert "layers.1.feed_forward.up" in verified_text(found, "zh")
    assert "第一个不一致的步骤" in verified_text(found, "zh")


def invoke(*args: str) -> tuple[int, str]:
    run = CliRunner().invoke(command("en"), ["verify", *args], standalone_mode=False)
    if run.exception is not None:
        raise run.exception
    return run.return_value, run.output


def test_from_the_command_line(tmp_path: Path) -> None:
    model, against = str(MODELS["llama"]), ["--against", str(reference("llama"))]
    code, text = invoke(model, *against)
    assert (code, text.splitlines()[0]) == (0, "Equal: all 36 steps that both runs know agree.")
    code, text = invoke(model, "--against", str(rewritten(tmp_path, out__model__norm=np.ones((1, 7, 20)))))
    assert code == 1
    assert "the first step that differs is norm.out" in " ".join(text.split())
    code, text = invoke(model, *against, "--json")
    told = json.loads(text)
    assert (told["equal"], told["first"], len(told["steps"])) == (True, None, 36)
    assert told["reference"]["architecture"] == "LlamaForCausalLM"
    assert invoke(model)[0] == 0
    code, text = invoke(model, "--ids", "1,2,3", "--json")
    assert json.loads(text)["holds"]
    with pytest.raises(ArgumentError, match="--ids must be token ids with commas between them"):
        invoke(model, "--ids", "1;2")
    with pytest.raises(ArgumentError, match="--ids cannot be given together with --against"):
        invoke(model, "--ids", "1", *against)
    with pytest.raises(Exception, match="MODEL is missing"):
        invoke()


def test_the_script_stands_alone(tmp_path: Path) -> None:
    code, text = invoke("--script")
    assert (code, text) == (0, script())
    assert text.count("\n") < 120
    code, text = invoke("--script", str(tmp_path / "save.py"))
    assert (tmp_path / "save.py").read_text() == script()
    tree = ast.parse(script())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"argparse", "json", "torch", "transformers", "safetensors.torch"}
