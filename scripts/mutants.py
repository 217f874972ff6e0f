"""Plant one fault at a time in a copy of the package, and see the tests catch it.

    python scripts/mutants.py [WORD ...]     only the faults whose note or file holds one of the words

A fault that no test notices is a hole in the tests. Prints one line per fault; exits with 1 if one survives, if its
place in the source is no longer found, or if the tests cannot even be run with it.
"""

# ruff: noqa: E501  (a row of the table is one line)
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "qkv"
LIMIT = 60  # seconds; a fault that makes the tests hang has been noticed as well


@dataclass(frozen=True)
class Fault:
    """`old` stands once in `file` and becomes `new`; one of `tests` must fail."""

    note: str
    file: str
    old: str
    new: str
    tests: str


DENSE, LAYERS, MASKS = "ops/dense.py", "layers/attention.py", "ops/masks.py"
RULES, PROPERTIES, GOLDENS = "test_rules.py", "test_properties.py", "test_torch_goldens.py"

ORDER = """\
    capped = scores if softcap is None else softcapped(scores, softcap)
    biased = capped if bias is None else capped + bias
    masked = hidden(biased, visible)
"""
SOFTMAX = """\
    weights: Array = np.exp(masked - top) / np.where(total == 0, 1, total)
    return np.where(np.isneginf(masked), masked.dtype.type(0), weights)
"""

FAULTS = [
    # scale
    Fault("no scale", DENSE, ", q, k) * q.dtype.type(scale)", ", q, k)", RULES),
    Fault("scale 1 / d_k", "ops/arguments.py", "return 1 / math.sqrt(d_k) if d_k", "return 1 / d_k if d_k", RULES),
    Fault(
        "a root of the scale on each side", DENSE, "    scores = ungrouped(grouped(q, k) @ k.mT, q, k) * q.dtype.type(scale)\n",
        "    root = q.dtype.type(scale) ** 0.5\n    scores = ungrouped(grouped(q * root, k) @ (k * root).mT, q, k)\n", RULES,
    ),
    # softmax
    Fault(
        "attention's softmax over the queries", DENSE, "total = np.exp(masked - top).sum(axis=-1, keepdims=True)",
        "total = np.exp(masked - top).sum(axis=-2, keepdims=True)", RULES,
    ),
    Fault(
        "softmax over everything", "ops/softmax.py", "(exp / exp.sum(axis=axis, keepdims=True))",
        "(exp / exp.sum(keepdims=True))", GOLDENS,
    ),
    Fault(
        "softmax without the maximum", "ops/softmax.py",
        "exp = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))", "exp = np.exp(x)", PROPERTIES,
    ),
    Fault("lse without its maximum", DENSE, "lse = (top + np.log(total))[..., 0]", "lse = np.log(total)[..., 0]", RULES),
    Fault(
        "lse without the sink", DENSE, "    top, total = row_sum(masked, sinks)\n    lse",
        "    top, total = row_sum(masked, None)\n    lse", RULES,
    ),
    Fault("an empty row is NaN", DENSE, SOFTMAX, "    return np.exp(masked - top) / total\n", RULES),
    # masks
    Fault("mask upside down", DENSE, "np.where(visible, biased, ", "np.where(~visible, biased, ", RULES),
    Fault(
        "mask after softmax", DENSE, "    weights = row_softmax(masked, sinks)\n",
        "    weights = row_softmax(biased, sinks) * ~np.isneginf(masked)\n", RULES,
    ),
    Fault(
        "mask by a finite number", DENSE, "np.where(visible, biased, biased.dtype.type(-np.inf))",
        "np.where(visible, biased, biased.dtype.type(-1e4))", RULES,
    ),
    Fault("a bias of -inf is no mask", "ops/arguments.py", "else np.isneginf(self.everything_added)", "else np.zeros(self.everything_added.shape, bool)", RULES),
    Fault("causal hides the query's own key", MASKS, "lambda i, j: j <= i, ", "lambda i, j: j < i, ", RULES),
    Fault("causal shows the next key", MASKS, "lambda i, j: j <= i, ", "lambda i, j: j <= i + 1, ", RULES),
    Fault("offset with the other sign", "ops/arguments.py", "start + np.arange(Tq)", "np.arange(Tq) - start", RULES),
    Fault("a window one key short", MASKS, "seen &= j >= i - left", "seen &= j > i - left", RULES),
    Fault("a window one key short to the right", MASKS, "seen &= j <= i + right", "seen &= j < i + right", RULES),
    Fault("window=W is W neighbours", "ops/arguments.py", "int(window) - 1, 0", "int(window), 0", RULES),
    Fault("padding one key too long", MASKS, "j < per_member", "j <= per_member", "test_masks.py"),
    Fault("a range of keys too narrow", MASKS, "(0, last + 1)", "(0, last)", "test_masks.py"),
    Fault("the range of `or` is that of `and`", MASKS, "min(a for a, _ in seen)", "max(a for a, _ in seen)", "test_masks.py"),
    Fault("is_causal from the bottom right", "ops/sdpa.py", "offset = 0 if", "offset = k.shape[-2] - q.shape[-2] if", GOLDENS),
    # order
    Fault(
        "softcap after the mask", DENSE, ORDER,
        "    biased = capped = scores if bias is None else scores + bias\n    masked = hidden(biased, visible)\n"
        "    masked = masked if softcap is None else softcapped(masked, softcap)\n", RULES,
    ),
    Fault(
        "softcap after the bias", DENSE, ORDER,
        "    biased = scores if bias is None else scores + bias\n"
        "    capped = biased if softcap is None else softcapped(biased, softcap)\n    masked = hidden(capped, visible)\n",
        RULES,
    ),
    Fault(
        "bias before the scale", DENSE, "capped if bias is None else capped + bias",
        "capped if bias is None else capped + bias * q.dtype.type(scale)", RULES,
    ),
    Fault("softcap without its factor", DENSE, "np.tanh(scores / scores.dtype.type(c)) * ", "np.tanh(scores) * ", RULES),
    # heads
    Fault(
        "heads tiled, not repeated", DENSE, "    return x.reshape(*lead, rows.shape[-3], n_heads // rows.shape[-3] * Tq, n)\n",
        "    split = x.reshape(*lead, n_heads // rows.shape[-3], rows.shape[-3], Tq, n).swapaxes(-4, -3)\n"
        "    return split.reshape(*lead, rows.shape[-3], n_heads // rows.shape[-3] * Tq, n)\n", PROPERTIES,
    ),
    Fault(
        "heads joined without a transpose", LAYERS, "swapped = x.swapaxes(-3, -2)",
        "swapped = x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1])", "test_layers.py",
    ),
    Fault(
        "heads split without a transpose", LAYERS,
        "x.reshape(*x.shape[:-1], n_heads, x.shape[-1] // n_heads).swapaxes(-3, -2)",
        "x.reshape(*x.shape[:-2], n_heads, x.shape[-2], x.shape[-1] // n_heads)", "test_layers.py",
    ),
    Fault("the bias of W_O forgotten", LAYERS, "linear(joined, self.W_O, self.b_O)", "linear(joined, self.W_O, None)", "test_layers.py"),
    # NaN and infinity
    Fault("a hidden NaN in V leaks", DENSE, "(rows if finite.all() else np.where(finite, rows, 0))", "rows", RULES),
    Fault("a visible NaN of weight 0 is swallowed", DENSE, "((lit + unlit) @ is_nan > 0)", "(lit @ is_nan > 0)", RULES),
    Fault("infinities of both signs are none", DENSE, "| (up & down) |", "|", RULES),
    Fault("what overflowed downward is empty", DENSE, "if overflowed.any():", "if False:", RULES),
    # sinks
    Fault("sinks dropped", DENSE, "total = total + np.exp(sinks[..., None] - top)", "pass", RULES),
    Fault("a sink not in the maximum", DENSE, "top = np.maximum(top, sinks[..., None])", "pass", RULES),
    Fault(
        "a sink gives a value", DENSE, "np.where(finite, rows, 0)) + 0",
        "np.where(finite, rows, 0)) + (1 - weights.sum(axis=-1, keepdims=True))", RULES,
    ),
    # precision
    Fault("narrow floats summed narrow", "ops/precision.py", "return FLOATS[0] if answer == FLOATS[0] else FLOATS[1]", "return answer", RULES),
    Fault("float64 computed in float32", "ops/precision.py", "return FLOATS[0] if answer == FLOATS[0] else FLOATS[1]", "return FLOATS[1]", RULES),
    Fault(
        "weights rounded before they are used", DENSE, "    weights = row_softmax(masked, sinks)\n",
        "    weights = row_softmax(masked, sinks).astype(dtype).astype(masked.dtype)\n", RULES,
    ),
    # positions
    Fault("slopes of ALiBi from 2^0", "ops/biases.py", "np.arange(1, n + 1) / n", "np.arange(n) / n", "test_biases.py"),
    Fault("the wrong slopes fill up", "ops/biases.py", "[::2][: n_heads - below]", "[1::2][: n_heads - below]", "test_biases.py"),
    Fault("ALiBi rewards distance", "ops/biases.py", "return -slopes * ", "return slopes * ", "test_biases.py"),
    Fault("T5: the own key counts as later", "ops/biases.py", "distance > 0, n_buckets", "distance >= 0, n_buckets", "test_biases.py"),
    Fault("RoPE turns the other way", "ops/positions.py", "magnitude * np.sin(angles)", "-magnitude * np.sin(angles)", PROPERTIES),
    Fault(
        "RoPE at half the frequencies", "ops/positions.py",
        "return base ** (-np.arange(0, rotary_dim, 2) / rotary_dim), 1.0",
        "return base ** (-np.arange(rotary_dim // 2) / rotary_dim), 1.0", PROPERTIES,
    ),
    Fault("RoPE layouts exchanged", "ops/positions.py", 'if layout == "half" else', 'if layout != "half" else', PROPERTIES),
    Fault(
        "partial RoPE at the frequencies of the whole width", "ops/positions.py",
        "else rope_tables(positions, turning, base, scaling)",
        "else [t[..., : turning // 2] for t in rope_tables(positions, x.shape[-1] // 2 * 2, base, scaling)]", PROPERTIES,
    ),
    Fault(
        "YaRN's ramp upside down", "ops/scaling.py", "plain * (1 - ramp) + plain / self.factor * ramp",
        "plain * ramp + plain / self.factor * (1 - ramp)", "test_rope_goldens.py",
    ),
    Fault("YaRN without its magnitude", "ops/scaling.py", "0.1 * mscale * math.log(self.factor)", "0.0", "test_rope_goldens.py"),
    # norms, activations, loss
    Fault(
        "variance by d - 1", "ops/norms.py", "variance = mean_of_squares(centred, axes)",
        "variance = x.var(axis=axes, keepdims=True, ddof=1)", "test_layers.py",
    ),
    Fault(
        "layer norm's eps outside the root", "ops/norms.py", "centred / np.sqrt(variance + eps)",
        "centred / (np.sqrt(variance) + eps)", "test_layers.py",
    ),
    Fault(
        "RMS norm's eps outside the root", "ops/norms.py", "x / np.sqrt(mean_square + eps)",
        "x / (np.sqrt(mean_square) + eps)", "test_layers.py",
    ),
    Fault(
        "GELU by tanh where erf is asked for", "ops/activations.py", "below = _BELOW[approximate]",
        'below = _BELOW["tanh"]', GOLDENS,
    ),
    Fault("cross-entropy sums for a mean", "ops/loss.py", "else total / counts.sum()", "else total", GOLDENS),
    Fault("ignored rows count", "ops/loss.py", "else total / counts.sum()", "else total / counts.size", GOLDENS),
    # layers and cache
    Fault("a sliding cache keeps one key too many", "layers/cache.py", "kept = self.window - 1", "kept = self.window", "test_cache.py"),
    Fault("cache offset counts what was forgotten", "layers/cache.py", "offset = self._length", "offset = self.n_seen", "test_cache.py"),
    Fault(
        "a long prefill is cut before it is attended to", "layers/cache.py", "        return all_k, all_v, offset\n",
        "        cut = slice(-(self.window or all_k.shape[-2]), None)\n"
        "        return all_k[..., cut, :], all_v[..., cut, :], offset\n", PROPERTIES,
    ),
    Fault("cached tokens all at position 0", LAYERS, "(cache.n_seen if cache is not None else 0)", "0", PROPERTIES),
    Fault("positions from what is remembered", LAYERS, "cache.n_seen if", "cache.length if", PROPERTIES),
    Fault(
        "pre-norm and post-norm exchanged", "layers/block.py",
        'before_1, before_2 = (self.norm_1, self.norm_2) if self.order == "pre"',
        'before_1, before_2 = (self.norm_1, self.norm_2) if self.order != "pre"', "test_layers.py",
    ),
    Fault("the mask of the context forgotten", "layers/block.py", "mask=context_mask", "mask=None", "test_layers.py"),
    Fault("Xavier by the width in alone", "layers/parts.py", "np.sqrt(2 / (d_in + d_out))", "np.sqrt(1 / d_in)", "test_layers.py"),
    Fault("linear attention without its normaliser", "ops/linear.py", "_divided(q_features @ state, normaliser)", "q_features @ state", PROPERTIES),
    Fault("linear attention: elu without the one", "ops/linear.py", "x + 1, np.exp", "x, np.exp", PROPERTIES),
    Fault("latent attention without RoPE's width in the scale", "ops/latent.py", "q.shape[-1] + d_rope", "q.shape[-1]", PROPERTIES),
    # tiles
    Fault("a tile of keys too few", "ops/masks.py", "first - left, n_keys if right", "first - left + 1, n_keys if right", "test_masks.py"),
    Fault("parts merged without their weights", "ops/merge.py", "np.exp(part - whole)[..., None] * wide", "wide / 2", "test_merge.py"),
    Fault("a part that saw nothing leaves NaN", "ops/merge.py", "np.where(np.isneginf(part)[..., None], wide.dtype.type(0), ", "np.where(False, wide.dtype.type(0), ", "test_merge.py"),
    Fault("sums not brought to the new shift", "ops/online.py", "sums.out[rows] *= kept[:, None]", "pass", "test_tiled.py"),
    Fault("the sink counted for every part", "ops/online.py", "self.call.sinks is not None and task.part == 0", "self.call.sinks is not None", "test_tiled.py"),
    Fault("empty rows are not mended", "ops/online.py", "out[~sees_key] = 0", "pass", "test_tiled.py"),
    Fault("the gradient without its row sum", "ops/gradients.py", "d_scores -= rows.delta[:, None]", "pass", "test_backward.py"),
    Fault("the gradient of q without the scale", "ops/gradients.py", "d_q *= self.dtype.type(self.call.scale)", "pass", "test_backward.py"),
    # watching
    Fault(
        "values are kept only at the return", "trace/watch.py", "        self._keep_so_far(self.place)\n        if op.step",
        "        if op.step", "test_trace.py",
    ),
    Fault("edits are computed and dropped", "trace/watch.py", "edited = editor.apply(path, edited)", "editor.apply(path, edited)", "test_edit.py"),
    Fault("a trace holds the caller's own arrays", "trace/watch.py", "np.array(value), value)", "value, value)", "test_trace.py"),
    Fault("the profile function stays", "trace/watch.py", "sys.setprofile(before if callable(before) else None)", "pass", "test_trace.py"),
    Fault("a second call hides the first", "trace/watch.py", "if self.counts[name] > 1:", "if False:", "test_trace.py"),
    Fault("knock_out hides a key from all", "trace/edits.py", "[..., query, key] = -np.inf", "[..., key] = -np.inf", "test_edit.py"),
    Fault("an infinite gap is within a tolerance", "trace/compare.py", " & np.isfinite(gap)", "", "test_trace.py"),
]  # fmt: skip


def run(tests: list[str], place: Path) -> tuple[int, str]:
    """pytest's exit code and output, with the package imported from `place`."""
    env = os.environ | {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no"]
    try:
        done = subprocess.run(
            [*command, *(f"tests/{name}" for name in tests)], cwd=ROOT, env=env, capture_output=True, text=True,
            timeout=LIMIT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 1, f"no end within {LIMIT} s"
    return done.returncode, done.stdout + done.stderr


def verdict(fault: Fault, place: Path) -> tuple[str, str]:
    """What became of a fault, and who noticed."""
    file = place / "qkv" / fault.file
    whole = file.read_text(encoding="utf-8")
    if (times := whole.count(fault.old)) != 1:
        return "GONE", f"{times} times in {fault.file}: {fault.old.strip()!r}"
    file.write_text(whole.replace(fault.old, fault.new), encoding="utf-8")
    try:
        code, output = run(fault.tests.split(), place)
    finally:
        file.write_text(whole, encoding="utf-8")
    if code == 0:
        return "SURVIVED", fault.tests
    if code != 1:
        return "BROKEN", output[-400:]
    found = re.search(r"^FAILED tests/(\S+)", output, re.MULTILINE)
    return "killed", found[1] if found else output.strip().splitlines()[-1]


def main(words: list[str]) -> int:
    faults = [f for f in FAULTS if not words or any(word in f"{f.note} {f.file}" for word in words)]
    start, alive = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copytree(PACKAGE, place / "qkv", ignore=shutil.ignore_patterns("__pycache__"))
        where = "import qkv; print(qkv.__file__)"
        env = os.environ | {"PYTHONPATH": folder}
        imported = subprocess.run([sys.executable, "-c", where], env=env, capture_output=True, text=True, check=True)
        if not imported.stdout.startswith(folder):
            print(f"the tests would not see the copy but {imported.stdout.strip()}")
            return 1
        code, output = run(sorted({name for f in faults for name in f.tests.split()}), place)
        if code:
            print(f"the tests fail without any fault:\n{output}")
            return 1
        for fault in faults:
            state, by = verdict(fault, place)
            alive += state != "killed"
            print(f"{state:8}  {fault.note:52}  {by}", flush=True)
    print(f"{len(faults)} faults, {len(faults) - alive} killed, {time.monotonic() - start:.0f} s")
    return 1 if alive or not faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
