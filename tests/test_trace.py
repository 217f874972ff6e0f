"""Recording: paths, order, axes, values, files, and that nothing is left behind."""

from __future__ import annotations

import concurrent.futures
import contextvars
import cProfile
import json
import sys
import threading
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import qkv
from qkv import layers
from qkv.contract import watcher
from qkv.errors import ArgumentError, DtypeError, FileError, ShapeError, WatchError
from qkv.trace import Entry, Trace

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
ATTENTION = ["q", "k", "v", "scores", "capped", "biased", "masked", "weights", "out"]


def arrays(dtype: Any = np.float64) -> Any:
    rng = np.random.default_rng(1)
    return tuple(rng.normal(size=s).astype(dtype) for s in ((2, 6, 5, 3), (2, 2, 7, 3), (2, 2, 7, 11)))


RULES: dict[str, Any] = {"causal": True, "offset": 2, "softcap": 3.0, "bias": np.linspace(-1, 1, 7)}


def a_trace(dtype: Any = np.float64, **rules: Any) -> Trace:
    with qkv.record() as trace:
        qkv.attention(*arrays(dtype), **(RULES | rules))
    return trace


def nobody_watches() -> bool:
    return watcher.get() is None and sys.getprofile() is None


# what is kept


def test_paths_and_order_are_those_of_the_formula() -> None:
    assert list(a_trace()) == [f"attention.{name}" for name in ATTENTION]
    q, k, v = arrays()
    with qkv.record() as trace:
        qkv.attention(q, k, v)
    assert list(trace) == [f"attention.{name}" for name in ("q", "k", "v", "scores", "weights", "out")]


def test_axes() -> None:
    trace = a_trace()
    heads, scores = ("B", "H", "Tq"), ("B", "H", "Tq", "Tk")
    assert {path: trace.entry(path).axes for path in trace} == {
        "attention.q": (*heads, "d_k"), "attention.k": ("B", "Hkv", "Tk", "d_k"),
        "attention.v": ("B", "Hkv", "Tk", "d_v"), "attention.scores": scores, "attention.capped": scores,
        "attention.biased": scores, "attention.masked": scores, "attention.weights": scores,
        "attention.out": (*heads, "d_v"),
    }  # fmt: skip
    with qkv.record() as trace:
        qkv.attention(*(np.ones((n, 3)) for n in (5, 7, 7)))
        qkv.attention(*(np.ones((2, 3, 4, n, 3)) for n in (5, 7, 7)))
    assert trace.entry("attention.scores").axes == ("Tq", "Tk")
    assert trace.entry("attention#2.q").axes == ("B1", "B2", "H", "Tq", "d_k")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_are_those_of_the_run(dtype: Any) -> None:
    q, k, v = arrays(dtype)
    with qkv.record() as trace:
        out, weights = qkv.attention(q, k, v, return_weights=True, **RULES)
    inside = np.float64 if dtype == np.float64 else np.float32
    k_each = np.repeat(k.astype(inside), 3, axis=1)
    scores = q.astype(inside) @ k_each.swapaxes(2, 3) / np.sqrt(inside(3))
    np.testing.assert_allclose(trace["attention.scores"], scores, rtol=1e-5, atol=1e-6)
    capped = 3 * np.tanh(scores / 3)
    np.testing.assert_allclose(trace["attention.capped"], capped, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(trace["attention.biased"], capped + RULES["bias"], rtol=1e-5, atol=1e-5)
    assert (np.isneginf(trace["attention.masked"]) == (np.arange(7) > np.arange(5)[:, None] + 2)).all()
    assert trace["attention.weights"].astype(dtype).tobytes() == weights.tobytes()
    assert trace["attention.out"].dtype == dtype
    assert trace["attention.out"].tobytes() == out.tobytes()


def test_a_trace_stays_what_it_was() -> None:
    """Writing to an argument or to an answer afterwards, as hand-written code does, changes no trace."""
    q, k, v = arrays()
    layer, x = layers.MultiHeadAttention.init(6, 3), np.ones((5, 6))
    with qkv.record() as trace:
        out = qkv.attention(q, k, v)
        y = layer(x)
    before = {path: trace[path].copy() for path in trace}
    for array in (q, k, v, out, x, y):
        array += 1
    for path in trace:
        np.testing.assert_array_equal(trace[path], before[path], err_msg=path)


def test_a_trace_is_a_mapping() -> None:
    trace = a_trace()
    assert len(trace) == 9
    assert "attention.out" in trace
    assert "attention.nothing" not in trace
    assert dict(trace)["attention.out"] is trace["attention.out"]
    assert repr(trace) == "<Trace of 9 values>"
    assert len(Trace()) == 0
    with pytest.raises(WatchError) as error:
        trace["attention.weigths"]
    assert isinstance(error.value, KeyError)
    assert str(error.value).startswith("the trace holds no 'attention.weigths'; near it: attention.weights")
    with pytest.raises(WatchError, match=r"^the trace holds no 'x'; near it: nothing$"):
        Trace()["x"]


def test_parts_and_their_kernels_share_a_path() -> None:
    x = np.ones((2, 5, 12))
    with qkv.record() as trace:
        layers.Block.init(12, 3, 7)(x, causal=True)
    norm = ["centred", "variance", "normed", "out"]
    assert list(trace) == [f"block.{path}" for path in (
        "x", *(f"norm_1.{n}" for n in norm),
        *(f"attention.{n}" for n in ("q", "k", "v", "scores", "masked", "weights", "out", "joined", "output")),
        "resid_mid", *(f"norm_2.{n}" for n in norm), *(f"feed_forward.{n}" for n in ("hidden", "bent", "output")),
        "resid_post",
    )]  # fmt: skip
    assert trace.entry("block.attention.weights").op == "attention"
    assert trace.entry("block.attention.joined").axes == ("B", "T", "H*d_v")
    with qkv.record() as trace:
        layers.LatentAttention.init(12, 3, 5)(x)
    assert [*trace][:3] == ["attention.x", "attention.q", "attention.latent"]
    assert "attention.weights" in trace
    assert [*trace][-3:] == ["attention.out", "attention.joined", "attention.output"]


def test_a_second_call_is_counted() -> None:
    q, k, v = arrays()
    with qkv.record() as trace:
        for _ in range(3):
            qkv.attention(q, k, v)
        qkv.layer_norm(q, np.ones(3))
    assert [path for path in trace if path.endswith(".out")] == [
        "attention.out", "attention#2.out", "attention#3.out", "layer_norm.out",
    ]  # fmt: skip
    layer = layers.MultiHeadAttention.init(12, 3, rotary=layers.Rotary())
    with qkv.record("*rope*.out") as trace:
        layer(np.ones((5, 12)))
        layer(np.ones((5, 12)))
    assert list(trace) == [f"attention{n}.rope{m}.out" for n in ("", "#2") for m in ("", "#2")]


def test_patterns() -> None:
    q, k, v = arrays()
    with qkv.record("*.weights", "*.sc*") as trace:
        qkv.attention(q, k, v)
    assert list(trace) == ["attention.scores", "attention.weights"]
    with qkv.record("*.Weights") as trace:
        qkv.attention(q, k, v)
    assert list(trace) == []


# nesting, threads, accidents


def test_records_nest() -> None:
    q, k, v = arrays()
    with qkv.record() as outer:
        qkv.layer_norm(q, np.ones(3))
        with qkv.record("*.out") as inner:
            qkv.attention(q, k, v)
        qkv.rms_norm(q, np.ones(3))
    assert list(inner) == ["attention.out"]
    assert [path for path in outer if path.endswith(".out")] == ["layer_norm.out", "attention.out", "rms_norm.out"]
    np.testing.assert_array_equal(inner["attention.out"], outer["attention.out"])
    assert nobody_watches()


def test_another_thread_is_not_watched() -> None:
    q, k, v = arrays()
    gate = threading.Barrier(3)

    def work(times: int) -> list[str]:
        gate.wait()
        with qkv.record("*.out") as own:
            for _ in range(times):
                qkv.attention(q, k, v)
            gate.wait()
        return list(own)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        with qkv.record() as here:
            unwatched = pool.submit(lambda: (qkv.attention(q, k, v), nobody_watches())[1])
            assert unwatched.result()
            found = [pool.submit(work, n) for n in (2, 3)]
            gate.wait()
            gate.wait()
            assert [len(f.result()) for f in found] == [2, 3]
        assert list(here) == []
    assert nobody_watches()


def test_a_context_that_is_carried_over_is_watched() -> None:
    q, k, v = arrays()
    with concurrent.futures.ThreadPoolExecutor(1) as pool, qkv.record("*.out") as trace:
        pool.submit(contextvars.copy_context().run, qkv.attention, q, k, v).result()
        assert pool.submit(sys.getprofile).result() is None
    assert list(trace) == ["attention.out"]


def test_many_threads_agree() -> None:
    def work(seed: int) -> bool:
        x = np.random.default_rng(seed).normal(size=(5, 12))
        layer = layers.Block.init(12, 3, 7, seed=seed)
        with qkv.record() as trace:
            y = layer(x, causal=True)
        return len(trace) == 23 and np.array_equal(trace["block.x"], x) and np.array_equal(trace["block.resid_post"], y)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(40)))


def test_an_accident_inside_leaves_nobody_watching() -> None:
    q, k, v = arrays()
    trace = Trace()

    def accident() -> None:
        nonlocal trace
        with qkv.record() as trace:
            qkv.attention(q, k, v)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        accident()
    assert "attention.out" in trace, "what was kept stays"
    assert nobody_watches()
    block = layers.Block.init(12, 3, 7)
    block.norm_2 = layers.LayerNorm.init(5)
    with qkv.record() as trace:
        with pytest.raises(ShapeError):
            block(np.ones((5, 12)))
        assert sys.getprofile() is None
        qkv.layer_norm(np.arange(3.0), np.ones(3))
    assert "block.attention.output" in trace
    assert "block.resid_post" not in trace
    assert "layer_norm.out" in trace, "the path is the root again"
    assert nobody_watches()


def test_it_works_under_a_profiler() -> None:
    expected = a_trace()
    profile = cProfile.Profile()
    profile.enable()
    try:
        found = a_trace()
    finally:
        profile.disable()
    assert qkv.first_difference(found, expected) is None
    assert nobody_watches()


def test_a_profile_function_of_the_caller_is_put_back() -> None:
    events: list[str] = []

    def mine(frame: Any, event: str, arg: Any) -> None:
        events.append(event)

    expected = a_trace()
    sys.setprofile(mine)
    try:
        found = a_trace()
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    assert qkv.first_difference(found, expected) is None
    assert events


def test_it_works_under_a_tracer() -> None:
    """As coverage and debuggers use them: local variables of running frames are read there as well."""
    expected, lines = a_trace(), 0

    def tracer(frame: Any, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        assert frame.f_locals is not None
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        found = a_trace()
        with qkv.record() as blocks:
            out = layers.Block.init(12, 3, 7)(np.eye(5, 12))
    finally:
        sys.settrace(before)
    assert qkv.first_difference(found, expected) is None
    assert len(blocks) == 22
    np.testing.assert_array_equal(blocks["block.resid_post"], out)
    assert lines > 100


# the table


def test_table() -> None:
    q, k, v = arrays()
    v[0, 0, 0, :2] = np.nan, np.inf
    with qkv.record() as trace:
        qkv.attention(q, k, v, causal=True, offset=-1)
    for lang in ("en", "zh"):
        rows = trace.table(lang).splitlines()[1:]
        assert len(rows) == len(trace)
        for row, path in zip(rows, trace):
            assert row.startswith(path + " ")
            assert str(trace[path].shape) in row
        masked = next(row for row in rows if "masked" in row)
        low = trace["attention.masked"][np.isfinite(trace["attention.masked"])]
        assert f"{low.min():.4g} .. {low.max():.4g}, {2 * 6 * 25} -inf" in masked
        assert "1 nan, 1 +inf" in next(row for row in rows if ".v " in row)
        assert "B H Tq Tk" in masked
    assert trace.table("en").splitlines()[0] != trace.table("zh").splitlines()[0]


def test_table_of_strange_values() -> None:
    trace = Trace()
    for name, value in (("none", np.zeros((0, 3))), ("nan", np.array([np.nan])), ("int", np.array([3, -1])),
                        ("number", np.float64(2)), ("yes", np.array([True]))):  # fmt: skip
        trace.entries[name] = Entry(name, "unheard of", name, (), np.asarray(value))
    ends = [line.split("  ")[-1].strip() for line in trace.table("en").splitlines()[1:]]
    assert ends == ["empty", "none finite, 1 nan", "-1 .. 3", "2 .. 2", "True .. True"]


# files


@pytest.mark.parametrize("dtype", [*DTYPES, np.dtype(np.int64), np.dtype(bool)], ids=str)
def test_files_keep_every_bit(dtype: Any, tmp_path: Path) -> None:
    trace = a_trace(dtype) if dtype in DTYPES else Trace()
    odd = np.arange(-6, 6).astype(dtype).reshape(3, 4)
    for name, value in (("turned", odd.T), ("every other", odd[:, ::2]), ("number", odd[0, 0]), ("none", odd[:0]),
                        ("路径 \"x\"", odd)):  # fmt: skip
        trace.entries[name] = Entry(name, "某", name, ("a", "b")[: value.ndim], np.asarray(value))
    trace.save(tmp_path / "t.safetensors")
    again = Trace.load(tmp_path / "t.safetensors")
    assert list(again) == list(trace)
    for path in trace:
        old, new = trace.entry(path), again.entry(path)
        assert (new.path, new.op, new.name, new.axes) == (old.path, old.op, old.name, old.axes)
        assert (new.value.dtype, new.value.shape) == (old.value.dtype, old.value.shape)
        assert new.value.tobytes() == old.value.tobytes()
    if dtype in DTYPES:
        assert again.table("en") == trace.table("en")
        assert qkv.first_difference(trace, again) is None
    assert [file.name for file in tmp_path.iterdir()] == ["t.safetensors"]


def test_nan_and_infinity_survive_a_file(tmp_path: Path) -> None:
    v = np.array([[np.nan], [np.inf], [-0.0]])
    with qkv.record() as trace:
        qkv.attention(np.ones((1, 2)), np.ones((3, 2)), v, mask=[False, True, True])
        qkv.cross_entropy(np.array([1.0, 2.0]), 0)
    trace.save(str(tmp_path / "t"))
    again = Trace.load(str(tmp_path / "t"))
    for path in trace:
        assert (again[path].tobytes(), again[path].shape) == (trace[path].tobytes(), trace[path].shape)


def test_an_empty_trace(tmp_path: Path) -> None:
    Trace().save(tmp_path / "t")
    assert list(Trace.load(tmp_path / "t")) == []


def steps_file(path: Path, metadata: dict[str, str] | None) -> Path:
    save_file({"a": np.ones(3)}, path, metadata=metadata)
    return path


STEP = {"path": "a", "op": "o", "name": "n", "axes": ["x"]}
DAMAGES: dict[str, dict[str, str] | None] = {
    "no metadata": None,
    "another format": {"format": "pt"},
    "no steps": {"format": "qkv trace 1"},
    "no JSON": {"format": "qkv trace 1", "steps": "[{"},
    "JSON too deep": {"format": "qkv trace 1", "steps": "[" * 100_000},
    "steps are no list": {"format": "qkv trace 1", "steps": "3"},
    "a step is no object": {"format": "qkv trace 1", "steps": "[3]"},
    "steps are an object": {"format": "qkv trace 1", "steps": '{"a": 1}'},
    "a step without a path": {"format": "qkv trace 1", "steps": '[{"op": "o", "name": "n", "axes": []}]'},
    "a step without axes": {"format": "qkv trace 1", "steps": json.dumps([STEP | {"axes": None}])},
    "no step for a tensor": {"format": "qkv trace 1", "steps": "[]"},
    "an empty object": {"format": "qkv trace 1", "steps": "{}"},
    "nothing for a list": {"format": "qkv trace 1", "steps": "null"},
    "nothing for a step": {"format": "qkv trace 1", "steps": "[null]"},
    "a number for a path": {"format": "qkv trace 1", "steps": json.dumps([STEP | {"path": 3}])},
    "no op": {"format": "qkv trace 1", "steps": json.dumps([STEP | {"op": None}])},
    "axes in one word": {"format": "qkv trace 1", "steps": json.dumps([STEP | {"axes": "x"}])},
    "numbers for axes": {"format": "qkv trace 1", "steps": json.dumps([STEP | {"axes": [3]}])},
    "axes that the tensor has not": {"format": "qkv trace 1", "steps": json.dumps([STEP | {"axes": ["x", "y"]}])},
    "the same step twice": {"format": "qkv trace 1", "steps": json.dumps([STEP, STEP])},
    "a path in colour": {"format": "qkv trace 1", "steps": json.dumps([STEP | {"path": "\x1b[31m\n"}])},
    "a tensor that is not there": {"format": "qkv trace 1", "steps": json.dumps([STEP | {"path": "b"}])},
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_steps(damage: str, tmp_path: Path) -> None:
    path = steps_file(tmp_path / "t", DAMAGES[damage])
    with pytest.raises(FileError) as error:
        Trace.load(path)
    other = damage in ("no metadata", "another format")
    kind = "not a trace of qkv" if other else "damaged or not what it says: "
    assert str(error.value).startswith(f"{path} is {kind}")
    assert str(error.value).isprintable()
    assert "object" not in str(error.value), "no message of Python's own"


def test_the_undamaged_file_is_read(tmp_path: Path) -> None:
    path = steps_file(tmp_path / "t", {"format": "qkv trace 1", "steps": json.dumps([STEP])})
    assert list(Trace.load(path)) == ["a"]


@pytest.mark.parametrize("cut", [0, 3, 8, 50, -1])
def test_a_file_cut_short(cut: int, tmp_path: Path) -> None:
    whole = tmp_path / "t"
    a_trace().save(whole)
    (tmp_path / "cut").write_bytes(whole.read_bytes()[:cut])
    with pytest.raises(FileError, match=r"cut"):
        Trace.load(tmp_path / "cut")


def test_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"^no such file: "):
        Trace.load(tmp_path / "nothing")
    with pytest.raises(FileError, match=r" is not a file$"):
        Trace.load(tmp_path)
    with pytest.raises(FileError, match=r" cannot be read: "):
        Trace.load(tmp_path / ("x" * 999))
    (tmp_path / "noise").write_bytes(b"\x80\x04 this is no trace at all" * 9)
    with pytest.raises(FileError, match=r"is damaged or not what it says"):
        Trace.load(tmp_path / "noise")


def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    a_trace().save(path)
    before = path.read_bytes()
    bad = Trace()
    bad.entries["x"] = Entry("x", "o", "n", (), np.array(["text"]))
    with pytest.raises(Exception):  # noqa: B017  (whatever the file format's own error is)
        bad.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("path", [3, None, ("attention", "q"), ["attention.q"]], ids=str)
def test_a_path_that_is_none(path: Any) -> None:
    trace = a_trace()
    with pytest.raises(WatchError) as error:
        trace[path]
    assert str(error.value).startswith(f"the trace holds no {path!r}; near it: ")
    assert trace.get(path) is None


# two traces beside each other


def changed(path: str, value: Any, of: Trace | None = None) -> Trace:
    other = Trace()
    for entry in (of or a_trace()).entries.values():
        new = np.asarray(value(entry.value)) if entry.path == path else entry.value
        other.entries[entry.path] = Entry(entry.path, entry.op, entry.name, entry.axes, new)
    return other


def one_up(at: tuple[int, ...], by: float) -> Any:
    def change(value: np.ndarray) -> np.ndarray:
        new = value.copy()
        new[at] += by
        return new

    return change


def test_no_difference() -> None:
    assert qkv.first_difference(a_trace(), a_trace()) is None
    assert qkv.first_difference(Trace(), Trace()) is None


def test_other_numbers() -> None:
    a = a_trace()
    found = qkv.first_difference(a, changed("attention.scores", one_up((1, 3, 2, 5), 0.25)))
    assert found is not None
    assert (found.path, found.kind, found.index) == ("attention.scores", "values", (1, 3, 2, 5))
    assert found.size == pytest.approx(0.25)
    assert found.a == a["attention.scores"][1, 3, 2, 5]
    assert found.b == pytest.approx(found.a + 0.25)
    assert "attention.scores" in str(found)
    assert "0.25" in str(found)


def test_the_first_of_several_and_the_largest_there() -> None:
    b = changed("attention.scores", one_up((0, 0, 0, 0), 1e-3))
    b = changed("attention.scores", one_up((1, 2, 3, 4), -2e-3), b)
    b = changed("attention.out", one_up((0, 0, 0, 0), 9.0), b)
    found = qkv.first_difference(a_trace(), b)
    assert found is not None
    assert (found.path, found.index) == ("attention.scores", (1, 2, 3, 4))
    assert qkv.first_difference(a_trace(), b, atol=1.5e-3).path == "attention.scores"
    assert qkv.first_difference(a_trace(), b, atol=3e-3).path == "attention.out"
    assert qkv.first_difference(a_trace(), b, atol=10.0) is None


def test_relative_tolerance() -> None:
    b = changed("attention.scores", lambda value: value * (1 + 1e-6))
    assert qkv.first_difference(a_trace(), b) is not None
    assert qkv.first_difference(a_trace(), b, rtol=2e-6) is None
    assert qkv.first_difference(a_trace(), b, rtol=5e-7) is not None


def test_another_shape() -> None:
    found = qkv.first_difference(a_trace(), changed("attention.weights", lambda value: value[:1]))
    assert found is not None
    assert (found.path, found.kind, found.a, found.b) == ("attention.weights", "shape", (2, 6, 5, 7), (1, 6, 5, 7))
    assert "(1, 6, 5, 7)" in str(found)


def test_what_only_one_has() -> None:
    q, k, v = arrays()
    with qkv.record() as plain:
        qkv.attention(q, k, v)
    with qkv.record() as masked:
        qkv.attention(q, k, v, mask=np.ones(7, bool), bias=np.zeros(7))
    found = qkv.first_difference(masked, plain)
    assert found is not None
    assert (found.path, found.kind, found.a, found.b) == ("attention.biased", "missing", (2, 6, 5, 7), None)
    found = qkv.first_difference(plain, masked)
    assert found is not None
    assert (found.path, found.kind, found.a, found.b) == ("attention.biased", "missing", None, (2, 6, 5, 7))
    assert "attention.biased" in str(found)


@pytest.mark.parametrize(
    ("x", "y", "differ"),
    [
        (np.nan, np.nan, False), (np.inf, np.inf, False), (-np.inf, -np.inf, False), (0.0, -0.0, False),
        (np.nan, 1.0, True), (1.0, np.nan, True), (np.inf, -np.inf, True), (1.0, np.inf, True), (-np.inf, 1.0, True),
        (np.nan, np.inf, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rtol", [0.0, 1e-3])
def test_nan_and_infinity(x: float, y: float, differ: bool, rtol: float) -> None:
    a = changed("attention.out", lambda value: np.array([[0, 0, x], [0, 0, 0]]))
    b = changed("attention.out", lambda value: np.array([[0, 0, y], [0, 0, 0]]))
    found = qkv.first_difference(a, b, rtol=rtol, atol=rtol)
    assert (found is not None) == differ
    if found is not None:
        assert (found.kind, found.index) == ("values", (0, 2))
        assert str(found)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda t: qkv.first_difference(t, None), "b must be a trace, but its dtype is NoneType"),
        (lambda t: qkv.first_difference({}, t), "a must be a trace, but its dtype is dict"),
        (lambda t: qkv.first_difference(t, t, rtol="a"), "rtol must be a finite number, but it is 'a'"),
        (lambda t: qkv.first_difference(t, t, atol=-1), "atol must be a number of at least 0, but it is -1"),
    ],
)
def test_what_cannot_be_compared(call: Any, line: str) -> None:
    with pytest.raises((ArgumentError, DtypeError)) as error:
        call(a_trace())
    assert str(error.value) == line


def test_narrow_dtypes_are_compared_as_numbers() -> None:
    a = a_trace(np.float32)
    assert qkv.first_difference(a, changed("attention.q", lambda value: value.astype(np.float64), a)) is None
    assert qkv.first_difference(a_trace(DTYPES[1]), a) is not None


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_value_says_what_it_means(lang: str) -> None:
    with qkv.record() as trace:
        qkv.attention(np.ones((2, 3, 5)), np.ones((2, 7, 5)), np.ones((2, 7, 11)))
    means = [entry.meaning(lang) for entry in trace.entries.values()]
    assert all(means)
    assert len(set(means)) == len(means)
