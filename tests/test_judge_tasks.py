"""Of every task there is: right answers pass, wrong ones are caught and named, every probe earns its place."""

from __future__ import annotations

from functools import cache

import pytest
from tests.judged import attempt, label, program

import qkv.views  # noqa: F401  (draws verdicts)
from qkv import words
from qkv.judge import check
from qkv.judge.bank import bank_of, known_outcome
from qkv.judge.compare import same
from qkv.judge.mistakes import explained
from qkv.judge.task import Function, Probe, Task, Text
from qkv.judge.tasks import load, names
from qkv.judge.verdict import Verdict

SIGNATURES = {
    "softmax": "softmax(x, axis=-1)",
    "scaled_dot_product_attention": "scaled_dot_product_attention(Q, K, V, mask=None)",
    "causal_mask": "causal_mask(n)",
    "causal_attention": "causal_attention(Q, K, V)",
    "split_heads": "split_heads(x, n_heads)",
    "merge_heads": "merge_heads(x)",
    "multi_head_attention": "multi_head_attention(x, W_Q, W_K, W_V, W_O, n_heads, mask=None)",
    "cross_attention": "cross_attention(x, context, W_Q, W_K, W_V, W_O, n_heads)",
    "grouped_query_attention": "grouped_query_attention(Q, K, V, causal=False)",
    "sliding_window_attention": "sliding_window_attention(Q, K, V, window)",
    "sinusoidal_positions": "sinusoidal_positions(n, d_model)",
    "rope": "rope(x, positions, base=10000.0)",
    "alibi_bias": "alibi_bias(n_heads, n)",
    "layer_norm": "layer_norm(x, gamma, beta, eps=1e-5)",
    "rms_norm": "rms_norm(x, gamma, eps=1e-6)",
    "gelu": "gelu(x)",
    "swiglu": "swiglu(x, W_gate, W_up, W_down)",
    "transformer_block": "transformer_block(x, p, n_heads)",
    "kv_cache": "KVCache.step(q, k, v)",
    "online_softmax": "online_softmax(chunks)",
    "flash_attention": "flash_attention(Q, K, V, block_size, causal=False)",
    "softmax_backward": "softmax_backward(p, dp)",
    "attention_backward": "attention_backward(Q, K, V, d_output)",
    "cross_entropy": "cross_entropy(logits, targets)",
    "top_k_top_p": "top_k_top_p(logits, k=None, p=None)",
    "linear_attention": "linear_attention(Q, K, V)",
    "moe_router": "moe_router(logits, k)",
    "lora_linear": "lora_linear(x, W, A, B, alpha)",
    "latent_attention": "latent_attention(x, W_Q, W_DKV, W_UK, W_UV, W_O, n_heads)",
    "speculative_accept": "speculative_accept(p, q, tokens, u)",
}

TASKS = [load(name) for name in names()]
each = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


def naming(x: object) -> str:
    return getattr(x, "name", None) or (x if isinstance(x, str) else label(x))  # type: ignore[arg-type]


VARIATIONS = [(task, m.id, v) for task in TASKS for m in task.mistakes for v in m.variations]
STYLES = {f"{task.name}-{name}": (task, source) for task in TASKS for name, source in task.styles.items()}


def said(task: Task) -> list[Text]:
    own = [e for m in task.mistakes for e in [explained(task, m.id)] for e in (e.means, e.evidence, *e.hints)]
    return [task.title, task.statement, *(p.tries for p in task.probes), *own]


# what a task says of itself


@each
def test_the_signature_is_the_fixed_one(task):
    assert task.signature == SIGNATURES.get(task.name, task.signature)
    assert task.entry == ("KVCache" if task.name == "kv_cache" else task.name)
    assert load(task.name) is task


@each
def test_everything_is_said_in_both_languages(task):
    for text in said(task):
        assert text.en.strip()
        assert text.zh.strip()
    for line in task.solution:
        assert line.code.strip()
        assert line.en.strip()
        assert line.zh.strip()
    for convention in task.conventions:
        assert words.has(f"judge.note.{convention.id}")
    for probe in task.probes:
        assert not probe.note or words.has(f"judge.note.{probe.note}")
    for prop in task.properties:
        assert words.has(f"judge.property.{prop.id}")


@each
def test_probe_names_are_unique_words_and_an_example_comes_first(task):
    found = [probe.name for probe in task.probes]
    assert len(set(found)) == len(found)
    assert all(name.isidentifier() and name.islower() for name in found)
    assert found[0] == "example"
    assert task.probes[0].size <= 80


# right answers


@each
def test_the_reference_passes_without_a_flag(task):
    verdict = check(task.name, attempt(task, task.reference))
    assert (verdict.status, verdict.mistakes, verdict.match) == ("pass", (), "none")
    assert [note for note in verdict.notes if note not in {p.note for p in task.probes}] == []


@each
def test_the_formula_is_the_reference(task):
    for probe in task.probes:
        if not probe.note:
            right = known_outcome(task, task.reference, probe)
            assert right.failure is None
            assert same(right, known_outcome(task, task.formula, probe))


@each
@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_the_starter_fails(task, lang, tmp_path):
    text = task.starter(lang)
    verdict = check(task.name, program(text, task.entry), lang=lang)
    assert verdict.status == "error"
    assert verdict.reason == "unwritten"


@each
def test_the_solution_passes(task):
    assert check(task.name, program(task.solution_text, task.entry)).status == "pass"


@each
def test_there_are_three_other_styles(task):
    assert len(task.styles) >= 3


@pytest.mark.parametrize(("task", "source"), STYLES.values(), ids=STYLES)
def test_a_correct_style_passes(task, source):
    verdict = check(task.name, program(source, task.entry))
    assert (verdict.status, verdict.mistakes) == ("pass", ()), verdict


# wrong answers


@pytest.mark.parametrize(("task", "mistake", "variation"), VARIATIONS, ids=naming)
def test_a_mistake_is_caught_and_named(task, mistake, variation):
    verdict = check(task.name, attempt(task, variation), lang="en")
    assert verdict.status == "wrong"
    assert verdict.mistakes == (mistake,)
    assert verdict.match == "exact"
    assert verdict.message


@cache
def apart(task_name: str) -> list[frozenset[str]]:
    """For any two answers that must not be taken for each other, the probes that tell them apart."""
    bank, task = bank_of(task_name), load(task_name)
    counted = [probe for probe in task.probes if not probe.note]
    known = [(f"right under {n}", way) for n, (way, _) in enumerate(bank.ways)]
    known += [(m.id, v) for m in task.mistakes for v in m.variations]

    def differ(a: Function, b: Function, probe: Probe) -> bool:
        one, other = bank.outcome(a, probe), bank.outcome(b, probe)
        return not same(one, other) or one.changed != other.changed

    pairs = [(a, b) for i, (one, a) in enumerate(known) for other, b in known[:i] if one != other]
    return [frozenset(p.name for p in counted if differ(a, b, p)) for a, b in pairs]


def is_named(task: Task, mistake: str, variation: Function, probes: list[Probe]) -> bool:
    bank = bank_of(task.name)
    got = {probe.name: bank.outcome(variation, probe) for probe in probes}
    match = bank.match(got, probes)
    changed = any(outcome.changed for outcome in got.values())
    return match.ids == (mistake,) or (changed and mistake == "mutates_input" and match.kind == "right")


@each
def test_no_probe_is_idle(task):
    """Without any one of them but the example, something would not be caught, or not be named."""
    decisive = {name for found in apart(task.name) for name in found if found - {"example"} == {name}}
    counted = [probe for probe in task.probes if not probe.note]
    for probe in counted[1:]:
        if probe.name not in decisive:
            left = [other for other in counted if other is not probe]
            lost = (m.id for m in task.mistakes for v in m.variations if not is_named(task, m.id, v, left))
            assert next(lost, None), f"{probe.name} is idle"


# the verdict


@each
def test_a_verdict_can_be_read(task):
    bad = attempt(task, task.mistakes[0].variations[0])
    for lang in words.LANGUAGES:
        verdict = check(task.name, bad, lang=lang)
        assert isinstance(verdict, Verdict)
        assert explained(task, task.mistakes[0].id).means[lang] in repr(verdict).replace("\n", "")
        assert "<pre" in verdict._repr_html_()
        assert verdict.hint(1)
        assert verdict.hint(3)
