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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

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
EXPERTS, ROUTING = "layers/experts.py", "layers/routing.py"
RULES, PROPERTIES, GOLDENS = "test_rules.py", "test_properties.py", "test_torch_goldens.py"

ORDER = """\
    capped = scores if softcap is None else softcapped(scores, softcap)
    biased = capped if bias is None else capped + bias
    masked = hidden(biased, visible)
"""
SOFTMAX = """\
    if ((total > 0) & (total < np.inf)).all():
        return powers / total
    weights: Array = powers / np.where(total == 0, 1, total)
    return np.where(np.isneginf(masked), masked.dtype.type(0), weights)
"""

FAULTS = [
    # what heads do, lens, patching, verify
    Fault("a query that sees one key counts", "walkthrough/patterns.py", "seen = seen & (seen.sum(axis=-1, keepdims=True) > 1)", "seen = seen & True", "test_head_patterns.py"),
    Fault("induction to the query itself", "walkthrough/patterns.py", '"induction": after & (i != j)', '"induction": after', "test_head_patterns.py"),
    Fault("induction one key too early", "walkthrough/patterns.py", "after[:, 1:] = same[:, :-1]", "after[:, :] = same", "test_head_patterns.py"),
    Fault("the mean over all rows", "walkthrough/patterns.py", ".sum(axis=-1)[..., rows].mean(axis=-1)", ".sum(axis=-1).mean(axis=-1)", "test_head_patterns.py"),
    Fault("entropy by the number of all keys", "walkthrough/patterns.py", "nats / np.log(np.maximum(n_keys, 2))", "nats / np.log(len(visible))", "test_head_patterns.py"),
    Fault("entropy of weights that do not sum to 1", "walkthrough/patterns.py", "p = p / np.where(total > 0, total, 1)[..., None]", "p = p * 1", "test_head_patterns.py"),
    Fault("values tiled over query heads", "walkthrough/patterns.py", "np.repeat(v.astype(np.float64), n_heads // len(v), axis=0)", "np.tile(v.astype(np.float64), (n_heads // len(v), 1, 1))", "test_head_patterns.py"),
    Fault("a mean that counts what does not apply as 0", "walkthrough/head_scores.py", "np.maximum(n, 1), np.nan)", "len(arrays), np.nan)", "test_head_patterns.py"),
    Fault("windows are not seen", "walkthrough/head_scores.py", "is None else seen[0]", "is None else np.tri(len(seen[0]), dtype=bool)", "test_head_patterns.py"),
    Fault("the lens without the last norm", "models/decoder.py", "self.head(stream if self.norm is None else self.norm(stream))", "self.head(stream)", "test_lens.py"),
    Fault("the rank counts the token itself", "models/lens.py", "rank.append((p > own)", "rank.append((p >= own)", "test_lens.py"),
    Fault("a patch at every position", "walkthrough/patching.py", "head=head, position=position)", "head=head)", "test_lens.py"),
    Fault("an effect against the wrong run", "walkthrough/patching.py", "(values - worst) / gap", "(values - best) / gap", "test_lens.py"),
    Fault("a frozen row of the same number", "trace/edits.py", "position if source is None else source", "position", "test_lens.py"),
    Fault("an error of NaN is equal", "trace/agreement.py", "return self.error <= self.allowed", "return not self.error > self.allowed", "test_verify.py"),
    Fault("verify allows a thousand times more", "trace/verify.py", '"float32": 2e-6', '"float32": 2e-3', "test_verify.py"),
    Fault("what enters W_O is not compared", "io/modules.py", 'if leaf == "W_O":', 'if leaf == "none":', "test_verify.py"),
    Fault("fused outputs are not cut", "io/modules.py", "Observed(f\"{parent}.{STEPS[leaf]}\", OUT + module, _along_last(row))", "Observed(f\"{parent}.{STEPS[leaf]}\", OUT + module)", "test_verify.py"),
    Fault("rows of weights may be anything", "trace/checks.py", "ROW_SUM = 1e-5", "ROW_SUM = 1.0", "test_verify.py"),
    Fault("the future is not changed", "trace/checks.py", "(other[half:] + 1) %", "(other[half:] + 0) %", "test_verify.py"),
    # scale
    Fault("no scale", DENSE, ", q, k) * q.dtype.type(scale)", ", q, k)", RULES),
    Fault("scale 1 / d_k", "ops/arguments.py", "return 1 / math.sqrt(d_k) if d_k", "return 1 / d_k if d_k", RULES),
    Fault(
        "a root of the scale on each side", DENSE, "    scores = ungrouped(matches(grouped(q, k), k), q, k) * q.dtype.type(scale)\n",
        "    root = q.dtype.type(scale) ** 0.5\n    scores = ungrouped(matches(grouped(q * root, k), k * root), q, k)\n", RULES,
    ),
    # softmax
    Fault(
        "attention's softmax over the queries", DENSE, "total = powers.sum(axis=-1, keepdims=True)",
        "total = powers.sum(axis=-2, keepdims=True)", RULES,
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
        "lse without the sink", DENSE, "    top, _, total = row_powers(masked, sinks)\n    lse",
        "    top, _, total = row_powers(masked, None)\n    lse", RULES,
    ),
    Fault("an empty row is NaN", DENSE, SOFTMAX, "    return powers / total\n", RULES),
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
    Fault("a hidden NaN in V leaks", DENSE, "np.where(finite, rows, 0) + 0", "rows + 0", RULES),
    Fault("a visible NaN of weight 0 is swallowed", DENSE, "((lit + unlit) @ is_nan > 0)", "(lit @ is_nan > 0)", RULES),
    Fault("infinities of both signs are none", DENSE, "| (up & down) |", "|", RULES),
    Fault("what overflowed downward is empty", DENSE, "if overflowed.any():", "if False:", RULES),
    # what makes few queries fast
    Fault("few queries in another order", DENSE, "@ q[..., None])[..., 0]", "@ q[..., ::-1, :, None])[..., 0]", "test_tiled.py::test_a_few_queries_for_a_long_cache"),
    Fault("matrices joined in another order", "layers/linear.py", "return [whole[..., place] for place in joined.places]", "return [whole[..., place] for place in joined.places[::-1]]", "test_joined.py test_layers.py"),
    Fault("a few rows in another order", "layers/linear.py", "return (x[:, None, :] @ W)[:, 0]", "return (x[::-1, None, :] @ W)[:, 0]", "test_joined.py"),
    Fault("a replaced matrix does not count", "layers/linear.py", "if joined is None or not joined.holds(matrices):", "if joined is None:", "test_joined.py"),
    Fault("matrices of two dtypes are joined", "layers/linear.py", "return len({W.dtype for W in matrices}) == 1", "return True", "test_joined.py"),
    Fault("one query forgets its scale", "ops/one_query.py", "* q.dtype.type(chosen)", "", "test_one_query.py"),
    Fault("one query without the maximum", "ops/one_query.py", "np.exp(scores - scores.max(axis=-1, keepdims=True))", "np.exp(scores)", "test_one_query.py"),
    Fault("one query, heads tiled", "ops/one_query.py", "ungrouped(weights @ v + 0, q, k)", "ungrouped(weights @ v + 0, q, k)[..., ::-1, :, :]", "test_one_query.py"),
    Fault("one query takes a mask for none", "ops/attention.py", "mask is bias is window is", "bias is window is", "test_one_query.py test_rules.py"),
    Fault("one query where somebody watches", "ops/attention.py", "watcher.get() is None and settings().force is None and", "settings().force is None and", "test_one_query.py"),
    # sinks
    Fault("sinks dropped", DENSE, "total = total + np.exp(sinks[..., None] - top)", "pass", RULES),
    Fault("a sink not in the maximum", DENSE, "top = np.maximum(top, sinks[..., None])", "pass", RULES),
    Fault(
        "a sink gives a value", DENSE, "nothing is hidden\n        return weights @ rows + 0",
        "nothing is hidden\n        return weights @ rows + (1 - weights.sum(axis=-1, keepdims=True))", RULES,
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
    Fault("a sliding cache keeps one key too many", "layers/cache.py", "self.length - self.window + 1, self.length", "self.length - self.window, self.length", "test_cache.py"),
    Fault("cache offset counts what was forgotten", "layers/cache.py", "offset = self.length", "offset = self.n_seen", "test_cache.py"),
    Fault(
        "a long prefill is cut before it is attended to", "layers/cache.py", "        return all_k, all_v, offset\n",
        "        cut = slice(-(self.window or all_k.shape[-2]), None)\n"
        "        return all_k[..., cut, :], all_v[..., cut, :], offset\n", PROPERTIES,
    ),
    # generating
    Fault("int8 with one scale for all rows", "layers/cached_rows.py", "max(axis=-1, keepdims=True, initial=0)", "max(keepdims=True, initial=0) + 0 * x[..., :1]", "test_cache.py"),
    Fault("int8 cut off and not rounded", "layers/cached_rows.py", "np.rint(x / np.where(scale == 0, 1, scale))", "np.trunc(x / np.where(scale == 0, 1, scale))", "test_cache.py"),
    Fault("a NaN becomes a number in int8", "layers/cached_rows.py", "np.where(np.isfinite(scale), scale, np.float32(np.nan))", "np.nan_to_num(scale)", "test_cache.py"),
    Fault("beams keep the caches of others", "models/generation/beams.py", "            run.select(members)\n", "            run.select(sorted(members))\n", "test_beams.py"),
    Fault("the end is not counted in the length", "models/generation/beams.py", "total / n**asked.length_penalty", "total / len(ended) ** asked.length_penalty if ended else total", "test_beams.py"),
    Fault("beams end as soon as one has", "models/generation/beams.py", "if len(self.finished) < asked.n_beams:", "if not self.finished:", "test_beams.py"),
    Fault("hoped for by the length of now, always", "models/generation/beams.py", "(asked.max_new_tokens if longest else n)", "n", "test_beams.py"),
    Fault("all that end are finished, not the first n_beams", "models/generation/beams.py", "if place < asked.n_beams:", "if place >= 0:", "test_beams.py"),
    Fault("after a refusal drawn from p itself", "models/generation/drafting.py", "rest = np.maximum(p - q, 0)", "rest = p", "test_drafting.py"),
    Fault("a refusal by the draft's odds", "models/generation/drafting.py", "if rng.random() * q[token] >= p[token]:", "if rng.random() * p[token] >= q[token]:", "test_drafting.py"),
    Fault("what is drafted is never refused", "models/generation/drafting.py", "if rng.random() * q[token] >= p[token]:", "if p[token] < 0:", "test_drafting.py"),
    Fault("the draft draws without the rules", "models/generation/drafting.py", "chances = odds(self._cache.logits(ids)[0], ids, asked)", "chances = odds(self._cache.logits(ids)[0], ids, Asked(temperature=1.0))\n            ids.append(sampling.drawn_from(odds(self._cache.logits(ids)[0], ids, asked), rng))\n            found.append((ids[-1], chances))\n            continue", "test_drafting.py"),
    Fault("all drafts are checked by the first row", "models/generation/drafting.py", "odds(logits[-1], [*ids, *found], asked)", "odds(logits[0], [*ids, *found], asked)", "test_drafting.py"),
    Fault("a prefix is reused across an edit", "models/generation/prefix.py", "(self._is_edited or is_edited())", "False", "test_prefix.py"),
    Fault("one token too many is reused", "models/generation/prefix.py", "len(ids) - n)", "len(ids) - n + 1)", "test_prefix.py"),
    Fault("a prefix that is turned otherwise is reused", "models/generation/prefix.py", "if not self._fits(n_reused, len(ids)):", "if False:", "test_prefix.py"),
    Fault("a cache broken off counts as read", "models/generation/prefix.py", "self._ids, self._is_edited = list(ids[:n_reused])", "self._ids, self._is_edited = list(ids)", "test_prefix.py"),
    Fault("caches that may go back forget", "models/generation/prefix.py", "forget=False", "forget=True", "test_prefix.py"),
    Fault("an edit ends after the first step", "trace/trace.py", "in {path, within_step(path)}", "in {path}", "test_steps.py"),
    Fault("two generations share their paths", "trace/watch.py", "named = name if place == 0 else f", "named = name if place >= 0 else f", "test_steps.py"),
    Fault("a sequence that has ended takes tokens", "models/generation/growing.py", "if self.done or is_end:", "if is_end:", "test_generate.py"),
    Fault("what came is no repetition", "models/generation/growing.py", "self.ids.append(token)", "self.ids", "test_generate.py"),
    Fault("the longer half is read, not the newer", "models/generation/growing.py", "ids[-max(1, limit - limit // 2) :]", "ids[: max(1, limit - limit // 2)]", "test_generate.py"),
    Fault("a continuation may be no more than special tokens", "models/inputs.py", "tokenizer.n_special_tokens if special_tokens else 0", "0", "test_heads.py test_seq2seq.py"),
    Fault("the lens takes the last of equals", "models/lens.py", "np.flatnonzero(~(row < ", "np.flatnonzero(~(row <= ", "test_lens.py"),
    Fault("the score of the token before", "models/decoder.py", "[len(before) - 1 : -1]", "[len(before) :]", "test_strategies.py::test_a_score_is_the_log_probability_of_each_token"),
    Fault("a chat reads its own words as the prompt's", "walkthrough/answer.py", "w[:, 1:n_prompt], w[:, n_prompt:]", "w[:, 1 : n_prompt + 1], w[:, n_prompt + 1 :]", "test_chat.py::test_attention_is_that_of_the_model"),
    Fault("a stopped answer is forgotten", "models/conversation.py", '"content": "".join(said)}', '"content": ""}', "test_chat.py::test_each_answer_follows_from_all_that_was_said"),
    # layers again
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
    # mixture of experts
    # encoders and their heads
    Fault("encoders: positions from the padding's own row", "models/embeddings.py", "np.where(counted, counted.cumsum(axis=-1), 0) + self.padding_id", "np.where(counted, counted.cumsum(axis=-1) - 1, 0) + self.padding_id", "test_encoders.py"),
    Fault("encoders: padding is counted", "models/embeddings.py", "counted = ids != self.padding_id", "counted = ids >= 0", "test_encoders.py"),
    Fault("encoders: no segments", "models/embeddings.py", "wide(self.W_type[kinds])", "wide(self.W_type[0 * kinds])", "test_encoders.py"),
    Fault("encoders: a window as wide as the setting", "io/families/modernbert.py", "default=128) // 2", "default=128)", "test_encoders.py"),
    Fault("encoders: local and global bases exchanged", "io/families/modernbert.py", "turning[SLIDING if near else FULL]", "turning[FULL if near else SLIDING]", "test_encoders.py"),
    Fault("encoders: the head's own matrix is not used", "io/families/encoder_rows.py", 'if not settings.tied or f"{last}.weight" in names:', "if not settings.tied:", "test_encoders.py"),
    Fault("encoders: no norm in a head", "models/heads.py", "bent if self.norm is None else self.norm(bent)", "bent", "test_encoders.py"),
    Fault("encoders: ELECTRA's classifier bends by tanh", "io/families/electra.py", '"classifier": "gelu"', '"classifier": "tanh"', "test_encoders.py"),
    Fault("encoders: one problem for every classifier", "io/families/classifier.py", '("regression" if len(labels) == 1 else PROBLEMS[0])', "PROBLEMS[0]", "test_heads.py"),
    Fault("encoders: the pair's segments are dropped", "models/answers.py", "kinds if model.segments and settings.n_types > 1 else", "kinds if model.segments and settings.n_types > 2 else", "test_heads.py"),
    Fault("encoders: the least likely tokens first", "models/answers.py", "np.argsort(-probabilities", "np.argsort(probabilities", "test_heads.py"),
    Fault("encoders: rows without a token are offered", "models/answers.py", "if tokenizer.knows(number):", "if True:", "test_heads.py"),
    Fault("encoders: the first mask alone", "models/answers.py", "model.forward(ids)[places]", "model.forward(ids)[places[:1]]", "test_heads.py"),
    Fault("encoders: classified in the order of batches", "models/heads.py", "found[i] for i in range(len(sequences))", "found[i] for i in found", "test_heads.py"),
    Fault("encoders: similarity of unequal lengths", "cli/encoding.py", "alike = (vectors / lengths) @ (vectors / lengths).T", "alike = vectors @ vectors.T", "test_encode_command.py"),
    Fault("experts: of equal ones the last", ROUTING, 'np.argsort(order, axis=-1, kind="stable")[..., :n]', 'order.shape[-1] - 1 - np.argsort(order[..., ::-1], axis=-1, kind="stable")[..., :n]', "test_experts.py"),
    Fault("experts: the worst are chosen", ROUTING, "-np.inf, -merits)", "-np.inf, merits)", "test_experts.py"),
    Fault("experts: a NaN is never chosen", ROUTING, "np.where(np.isnan(merits), -np.inf, -merits)", "-merits", "test_experts.py"),
    Fault("experts: the correction counts in the shares", EXPERTS, "shares = self._shares(affinities, chosen)", "shares = self._shares(affinities + (0 if self.correction is None else self.correction), chosen)", "test_experts.py"),
    Fault("experts: the correction is forgotten", EXPERTS, "self.routing.choose(affinities, self.correction)", "self.routing.choose(affinities)", "test_experts.py"),
    Fault("experts: shares are not normalised", ROUTING, "if self.normalize:", "if False:", "test_experts.py"),
    Fault("experts: scaled before they are normalised", ROUTING, "        if self.normalize:\n", "        taken = taken * taken.dtype.type(self.scaling)\n        if self.normalize:\n", "test_experts.py"),
    Fault("experts: a group counts by its sum", ROUTING, 'n_counted = 1 if self.group_score == "best" else 2', 'n_counted = 2', "test_experts.py"),
    Fault("experts: outside of the groups 0, not -inf", ROUTING, "np.where(may[..., None], grouped, -np.inf)", "np.where(may[..., None], grouped, 0)", "test_experts.py"),
    Fault("experts: all are touched", EXPERTS, "given[token, place] = self._through(expert, tokens[token])", "given[token, place] = self._through(expert, tokens[token]) + self.W_down.sum() * 0", "test_experts.py"),
    Fault("experts: the shared one is not gated", EXPERTS, "made if self.W_shared_gate is None else", "made if True else", "test_experts.py"),
    Fault("experts: the bias of the router is forgotten", EXPERTS, "linear(x, self.W_router, self.b_router)", "linear(x, self.W_router)", "test_experts.py"),
    Fault("experts: only the gate is clamped", EXPERTS, "(np.clip(up, -limit, limit) + 1)", "(up + 1)", "test_experts.py"),
    Fault("experts: the gate is clamped below as well", EXPERTS, "np.minimum(gate, limit)", "np.clip(gate, -limit, limit)", "test_experts.py"),
    Fault("experts: a stack in the wrong order", "io/reading.py", "zip(array[1:], names[1:])", "zip(array[1:][::-1], names[1:])", "test_families.py"),
    Fault("experts: halves of a joined tensor exchanged", "io/families/experts.py", "lambda x: x[:, :half]", "lambda x: x[:, half:]", "test_expert_files.py"),
    Fault("experts: every layer has them", "io/families/qwen_moe.py", "(layer + 1) % step == 0", "layer % step == 0", "test_families.py"),
    Fault("experts: halves of a byte exchanged", "io/mxfp4.py", "_VALUES[np.arange(256) & 15], _VALUES[np.arange(256) >> 4]", "_VALUES[np.arange(256) >> 4], _VALUES[np.arange(256) & 15]", "test_expert_files.py"),
    Fault("experts: the bias of a scale is 128", "io/mxfp4.py", "np.arange(255) - 127", "np.arange(255) - 128", "test_expert_files.py"),
    Fault("experts: no scale is NaN", "io/mxfp4.py", "np.float32(np.nan)", "np.float32(1)", "test_expert_files.py"),
    Fault("experts: sinks are read, but not used", "models/build_decoder.py", '"sinks": weights.pop("sinks", None)', '"sinks": [weights.pop("sinks", None), None][1]', "test_families.py"),
    # latent attention, DeepSeek, models without a head or with another
    Fault("deepseek: the latent passes no norm", "layers/latent.py", "latent = normed(self.latent_norm, ", "latent = normed(None, ", "test_latent.py"),
    Fault("deepseek: queries not read from their small vector's norm", "layers/latent.py", "normed(self.q_norm, ", "normed(None, ", "test_latent.py"),
    Fault("deepseek: the cache holds keys that are not turned", "layers/latent.py", "if k_rope is None else k_rope\n            latents", "if k_rope is None else linear(x, self.W_KR)\n            latents", "test_latent.py"),
    Fault("deepseek: the layer's own rules come last", "layers/latent.py", "rules = {**self.rules, **rules}", "rules = {**rules, **self.rules}", "test_latent.py"),
    Fault("deepseek: the scale without the stretched part", "io/families/deepseek.py", "return float(width**-0.5 * stretched)", "return float(width**-0.5)", "test_families.py"),
    Fault("deepseek: parts side by side, not in each head", "io/families/deepseek.py", "x.reshape(n_heads, sum(widths), -1).swapaxes(0, 1)", "x.reshape(sum(widths), n_heads, -1)", "test_families.py"),
    Fault("deepseek: normed and scaled", "io/families/deepseek.py", "        scaling = 1.0  #", "        pass  #", "test_families.py"),
    Fault("deepseek: further layers are read as the model's", "io/families/deepseek.py", "settings.n_layers + i}.*", "settings.n_layers - 1 - i}.*", "test_families.py"),
    Fault("deepseek: experts in every layer behind the first", "io/families/deepseek.py", "layer >= first and layer % every == 0", "layer >= first", "test_families.py"),
    Fault("fp8: scales of neighbours exchanged", "io/fp8.py", "np.repeat(of_row, wide)[:columns]", "np.tile(of_row, wide)[:columns]", "test_fp8.py"),
    Fault("fp8: one row of scales for all", "io/fp8.py", "numbers[i * high : (i + 1) * high]", "numbers[:high]", "test_fp8.py"),
    Fault("decoders: ALiBi by position counts the padding", "models/decoder.py", 'rules | {"bias": bias.shifted(starts - forgotten)}', "rules", "test_families.py"),
    Fault("decoders: Falcon's ALiBi is not rounded", "io/families/falcon.py", "alibi_slopes(n_heads).astype(BFLOAT16)", "alibi_slopes(n_heads).astype(np.float32)", "test_families.py"),
    Fault("decoders: Gemma's gelu is the exact one", "io/families/gemma.py", '"gelu_tanh" if form == "gelu" and not newer else form', "form", "test_families.py"),
    Fault("decoders: a model without a head takes its table", "models/build_decoder.py", "embeddings.W_word.T if settings.tied else None", "embeddings.W_word.T", "test_families.py"),
    Fault("decoders: labels of the first token", "models/classifying.py", "int(places[-1])", "int(places[0])", "test_classifying.py"),
    Fault("decoders: padding is a last token", "models/classifying.py", "np.flatnonzero(ids != padding_id)", "np.flatnonzero(ids >= 0)", "test_classifying.py"),
    Fault("decoders: labels in the order of batches", "models/heads.py", "found[i] for i in range(len(sequences))", "found[i] for i in found", "test_classifying.py"),
    # images
    Fault("vision: patches column by column", "models/patches.py", "(*range(n), n + 1, n + 3, n, n + 2, n + 4)", "(*range(n), n + 3, n + 1, n, n + 2, n + 4)", "test_vision.py"),
    Fault("vision: a patch pixel by pixel", "models/patches.py", "(*range(n), n + 1, n + 3, n, n + 2, n + 4)", "(*range(n), n + 1, n + 3, n + 2, n + 4, n)", "test_vision.py"),
    Fault("vision: no norm before the layers", "models/build_vision.py", "patch_size=settings.patch_size, norm=norm)", "patch_size=settings.patch_size)", "test_vision.py"),
    Fault("vision: the grid turned", "models/vision.py", "*weights.shape[:-1], *self.settings.patch_grid)", "*weights.shape[:-1], *self.settings.patch_grid[::-1])", "test_vision.py"),
    Fault("vision: two labels of one name are one", "models/vision.py", "if times[label] > 1 else label", "if False else label", "test_vision.py"),
    Fault("vision: quick_gelu without its slope", "layers/parts.py", "x.dtype.type(1.702)", "x.dtype.type(1.0)", "test_vision.py"),
    Fault("vision: a text read off at its last token", "models/clip.py", "return int((ids == end).argmax())", "return len(ids) - 1", "test_vision.py"),
    Fault("vision: the old end is taken at its word", "io/families/clip.py", "None if end == OLD_END else end", "end", "test_vision.py"),
    Fault("vision: texts look ahead", "models/clip.py", "layer(x, causal=True)", "layer(x)", "test_vision.py"),
    Fault("vision: the vectors keep their length", "models/clip.py", "projected / np.linalg.norm(projected, axis=-1, keepdims=True)", "projected + 0", "test_vision.py"),
    Fault("vision: the scale is not its logarithm", "models/clip.py", "np.exp(self.logit_scale)", "self.logit_scale", "test_vision.py"),
    Fault("vision: the middle one pixel off", "io/preprocessing.py", "max(0, image.shape[axis] - size) // 2", "(max(0, image.shape[axis] - size) + 1) // 2", "test_vision.py"),
    Fault("vision: what is missing is added behind first", "io/preprocessing.py", "((missing + 1) // 2, missing // 2)", "(missing // 2, (missing + 1) // 2)", "test_vision.py"),
    Fault("vision: height and width exchanged", "io/preprocessing.py", "drawn.resize(target[::-1]", "drawn.resize(target", "test_vision.py"),
    Fault("vision: the longer side counts", "io/preprocessing.py", "shorter = min(height, width)", "shorter = max(height, width)", "test_vision.py"),
    Fault("vision: a resize of any size", "io/preprocessing.py", "if target[0] * target[1] > LARGEST:", "if False:", "test_vision.py"),
    Fault("vision: any number of pixels", "io/images.py", "if width * height > LARGEST:", "if False:", "test_vision.py"),
    Fault("vision: what can be seen through is black", "io/images.py", "(255, 255, 255, 255)", "(0, 0, 0, 255)", "test_vision.py"),
    Fault("vision: every format", "io/images.py", "formats=FORMATS", "formats=None", "test_vision.py"),
    # sizes
    Fault("size: a tensor that two rows read counts twice", "models/counting.py", "if row.foreign in seen:", "if False:", "test_size.py"),
    Fault("size: every expert is active", "models/counting.py", "numbers // settings.n_experts * settings.routing.n_active", "numbers", "test_size.py"),
    Fault("size: the router is one of the experts", "models/counting.py", "and leaf not in ROUTER", "", "test_size.py"),
    Fault("size: a tied head costs nothing", "models/counting.py", "    _tied(found, rows, settings, stacks[-1])\n", "", "test_size.py"),
    Fault("size: targets read the source again", "models/counting.py", '"cross_attention" in names and leaf in ("W_K", "W_V")', "False", "test_size.py"),
    Fault("size: tables are multiplied with", "models/counting.py", "or leaf in TABLES", "", "test_size.py"),
    Fault("size: windows are not seen", "models/stacks.py", "return min(n, self.window if isinstance(self.window, int) else sum(self.window) + 1)", "return n", "test_size.py"),
    Fault("size: a window of pairs one too wide", "models/stacks.py", "int(self.window) - 1)", "int(self.window))", "test_size.py"),
    Fault("size: one more token unfolds the latents", "models/stacks.py", "self.folded if folded and self.folded else", "self.folded if False else", "test_size.py"),
    Fault("size: a latent cache keeps heads", "models/stacks.py", "settings.d_v, d_latent + d_rope, 2,", "settings.d_v, 2 * settings.kv_width, 2,", "test_size.py"),
    Fault("size: the head at every token", "models/size.py", "found.each[stack.name] * tokens + found.once[stack.name]", "(found.each[stack.name] + found.once[stack.name]) * tokens", "test_size.py"),
    Fault("size: int8 without scales", "models/size.py", 'if dtype == "int8" else 0', "if False else 0", "test_size.py"),
    Fault("size: the source's cache for one sequence", "models/size.py", "batch * n_source * sum(map(nbytes, crossed))", "n_source * sum(map(nbytes, crossed))", "test_size.py"),
    # encoder-decoders
    Fault("seq2seq: a cache of another source", "layers/context.py", "if context is not self._context:", "if False:", "test_seq2seq.py"),
    Fault("seq2seq: no mask of the source", "models/sides.py", "context_mask=source.mask", "context_mask=None", "test_seq2seq.py"),
    Fault("seq2seq: padding on the left is looked at", "models/sides.py", "mask=padding,", "mask=None,", "test_seq2seq.py"),
    Fault("seq2seq: padding on the left counts as positions", "models/sides.py", "positions if starts is None else positions - starts[..., None]", "positions", "test_seq2seq.py"),
    Fault("seq2seq: an answer looks ahead", "models/sides.py", "causal=ids.shape[-1] > 1", "causal=False", "test_seq2seq.py"),
    Fault("seq2seq: positions begin anew in each chunk", "models/sides.py", "seen = caches[0].n_seen if caches else 0", "seen = 0", "test_seq2seq.py"),
    Fault("seq2seq: beams stay with the wrong source", "models/generation/answer_run.py", "self._all.select(origin), origin", "self._all.select(origin[::-1]), origin", "test_seq2seq.py"),
    Fault("seq2seq: what must not come first never comes", "models/generation/answer_run.py", "first=self._n_steps == 1", "first=True", "test_seq2seq.py"),
    Fault("seq2seq: a forced first token is none", "models/generation/answer_run.py", "if first and target.first is not None:", "if False:", "test_seq2seq.py"),
    Fault("seq2seq: the decoder's bias looks both ways", "models/build_seq2seq.py", "bidirectional=bidirectional", "bidirectional=True", "test_seq2seq.py"),
    Fault("seq2seq: the bias of cross attention", "models/build_seq2seq.py", "settings.decoder_heads, _scale(settings))", "settings.decoder_heads, target_bias)", "test_seq2seq.py"),
    Fault("seq2seq: positions from row 0", "io/families/bart.py", "cut=lambda x: x[settings.skipped :]", "cut=lambda x: x[: len(x) - settings.skipped]", "test_seq2seq.py"),
    Fault("seq2seq: the wrong scale before the head", "io/families/t5.py", "head_scale=d_model**-0.5", "head_scale=d_model**-1.0", "test_seq2seq.py"),
    Fault("seq2seq: gated-gelu is exact", "io/families/t5.py", '"gated-gelu": ("gelu_tanh"', '"gated-gelu": ("gelu"', "test_seq2seq.py"),
    Fault("seq2seq: the table of the other side", "io/families/seq2seq.py", 'name = f"{side}.embed_tokens.weight"', 'name = "encoder.embed_tokens.weight"', "test_seq2seq.py"),
    Fault("seq2seq: config.json before generation_config.json", "io/target.py", "files = [*([Config(path)] if path.exists() else []), config]", "files = [config, *([Config(path)] if path.exists() else [])]", "test_seq2seq.py"),
    Fault("seq2seq: the stride is forgotten", "layers/convolution.py", "[..., :: self.stride, :, :]", "[..., :, :, :]", "test_audio.py"),
    Fault("seq2seq: windows with their axes exchanged", "layers/convolution.py", "seen.swapaxes(-1, -2)", "seen", "test_audio.py"),
    Fault("seq2seq: ends that are not mirrored", "models/log_mel.py", 'mode="reflect"', 'mode="edge"', "test_audio.py"),
    Fault("seq2seq: a symmetric window", "models/log_mel.py", "np.arange(n_fft) / n_fft)", "np.arange(n_fft) / (n_fft - 1))", "test_audio.py"),
    Fault("seq2seq: a lower floor", "models/log_mel.py", "logarithm.max() - 8", "logarithm.max() - 9", "test_audio.py"),
    Fault("seq2seq: the amplitude instead of the power", "models/log_mel.py", "np.abs(np.fft.rfft(frames * window)) ** 2", "np.abs(np.fft.rfft(frames * window))", "test_audio.py"),
    Fault("seq2seq: another scale of pitch", "models/log_mel.py", "np.log(6.4) / 27", "np.log(6.4) / 28", "test_audio.py"),
    Fault("seq2seq: triangles of one height", "models/log_mel.py", "* (2 / (edges[2:] - edges[:-2]))[:, None]", "* 1.0", "test_audio.py"),
    Fault("seq2seq: sound is cut silently", "models/log_mel.py", "if len(sound) > limit and not cut:", "if False:", "test_audio.py"),
    Fault("seq2seq: 8 bits are signed", "io/audio.py", "(numbers - 128) / 128", "numbers / 128", "test_audio.py"),
    Fault("seq2seq: one channel alone", "io/audio.py", ".mean(axis=1)", "[:, 0]", "test_audio.py"),
    Fault("seq2seq: any rate", "io/audio.py", "if found != rate:", "if False:", "test_audio.py"),
    Fault("seq2seq: no end to a file", "io/audio.py", "if file.getnframes() > LONGEST * rate:", "if False:", "test_audio.py"),
    Fault("seq2seq: the first language", "models/transcribing.py", ".argmax()", ".argmin()", "test_audio.py"),
    Fault("seq2seq: cross attention under the tokens of the answer", "walkthrough/run.py", "return self.keys or self.tokens", "return self.tokens", "test_see_both.py"),
    Fault("seq2seq: the wrong attention is shown", "walkthrough/see_both.py", "model, trace, paths[kind][shown], head", 'model, trace, paths["decoder"][shown], head', "test_see_both.py"),
    # files: dtype, tokenizers, GGUF, fetching
    Fault("float16 without its sign's place", "layers/narrow.py", "0x8FFFFFFF", "0x9FFFFFFF", "test_dtype.py"),
    Fault("a whole matrix widened at once", "layers/narrow.py", "PIECE // max(1, n_in)", "PIECE", "test_dtype.py"),
    Fault("norms in 16 bits", "io/floats.py", "or dtype.itemsize > 2", "or True", "test_dtype.py"),
    Fault("what is too large for float16 kept", "io/floats.py", "and np.isinf(place).any()", "and False", "test_dtype.py"),
    Fault("a part that keeps the whole alive", "io/reading.py", "part.copy() if part.nbytes < array.nbytes", "part if part.nbytes < array.nbytes", "test_dtype.py"),
    Fault("a score that is no number", "io/tokens/spm.py", "if not all(map(math.isfinite, self.scores)):", "if False:", "test_tokenizers.py"),
    Fault("a table that is not looked through", "io/tokens/spm.py", "not is_whole(found.charsmap)", "False", "test_tokenizers.py"),
    Fault("merges from the lowest score on", "io/tokens/spm_tokenizer.py", "(-score, text[:cut]", "(score, text[:cut]", "test_tokenizers.py"),
    Fault("the space before a text left out", "io/tokens/tokenizer.py", "BEGINNING if prefixed else", "BEGINNING if False else", "test_tokenizers.py"),
    Fault("spaces that stay", "io/tokens/spm_tokenizer.py", '"Regex": rf"(?<=[ {BEGINNING}]) +|\\A +"', '"Regex": r"  +"', "test_tokenizers.py"),
    Fault("the vocabulary may be larger", "models/load.py", "tokenizer.n_words > rows", "False", "test_tokenizers.py"),
    Fault("accents always as the case", "io/tokens/vocabularies.py", '"strip_accents": accents', '"strip_accents": None', "test_tokenizers.py"),
    Fault("a token before T5's texts", "io/tokens/vocabularies.py", '"pad": "<pad>"}, None, ("eos", True)),', '"pad": "<pad>"}, ("pad", True), ("eos", True)),', "test_tokenizers.py"),
    Fault("SmolLM3 in halves", "io/gguf/architectures.py", "Architecture(SMOLLM3, interleaved=True)", "Architecture(SMOLLM3)", "test_gguf_architectures.py"),
    Fault("Mixtral in halves", "io/gguf/architectures.py", "MIXTRAL, interleaved=True", "MIXTRAL", "test_gguf_architectures.py"),
    Fault("Qwen3's shares as they are", "io/gguf/architectures.py", '{"norm_topk_prob": True, **', "{**", "test_gguf_architectures.py"),
    Fault("gpt-oss rounds its bounds", "io/gguf/architectures.py", '{"truncate": False}', "{}", "test_gguf_architectures.py"),
    Fault("the largest Gemma 3 as the others", "io/gguf/architectures.py", "known=_scale(62)", "known=_scale(63)", "test_gguf_architectures.py"),
    Fault("Falcon's two norms changed over", "io/gguf/rows.py", 'f"{foreign}.attn_norm_2" if', 'f"{foreign}.attn_norm" if', "test_gguf_architectures.py"),
    Fault("a hash that is not compared", "io/store/hub.py", "if (found := _hash(part, one)) != _expected(one):", "if (found := _hash(part, one)) and False:", "test_pulling.py"),
    Fault("a download from the beginning", "io/store/hub.py", "resume_size=file.tell()", "resume_size=file.truncate(0)", "test_pulling.py"),
    Fault("a package that is not compared", "io/store/packaged.py", "if digest.hexdigest() != SHA256:", "if False:", "test_pulling.py"),
    Fault("a name that leads out of the folder", "io/store/stored.py", 'or name.startswith((".", "/")) ', "", "test_pulling.py"),
]  # fmt: skip


def run(tests: list[str], place: Path, limit: int = LIMIT) -> tuple[int, str]:
    """pytest's exit code and output, with the package imported from `place`."""
    env = os.environ | {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no"]
    try:
        done = subprocess.run(
            [*command, *(f"tests/{name}" for name in tests)], cwd=ROOT, env=env, capture_output=True, text=True,
            timeout=limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 1, f"no end within {limit} s"
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
        places: Queue[Path] = Queue()
        for number in range(os.cpu_count() or 1):
            places.put(place := Path(folder) / str(number))
            shutil.copytree(PACKAGE, place / "qkv", ignore=shutil.ignore_patterns("__pycache__"))
        if problem := unready(faults, place):
            print(problem)
            return 1

        def judged(fault: Fault) -> tuple[str, str]:
            place = places.get()
            try:
                return verdict(fault, place)
            finally:
                places.put(place)

        with ThreadPoolExecutor(places.qsize()) as pool:
            for fault, (state, by) in zip(faults, pool.map(judged, faults)):
                alive += state != "killed"
                print(f"{state:8}  {fault.note:52}  {by}", flush=True)
    print(f"{len(faults)} faults, {len(faults) - alive} killed, {time.monotonic() - start:.0f} s")
    return 1 if alive or not faults else 0


def unready(faults: list[Fault], place: Path) -> str | None:
    """Why nothing could be learnt from the faults: the tests import another package, or fail without any."""
    where, env = "import qkv; print(qkv.__file__)", os.environ | {"PYTHONPATH": str(place)}
    imported = subprocess.run([sys.executable, "-c", where], env=env, capture_output=True, text=True, check=True)
    if not imported.stdout.startswith(str(place)):
        return f"the tests would not see the copy but {imported.stdout.strip()}"
    code, output = run(sorted({name for f in faults for name in f.tests.split()}), place, 20 * LIMIT)
    return f"the tests fail without any fault:\n{output}" if code else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
