"""Speculative decoding: the same text where nothing is drawn, the same distribution where something is."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.decoder_fixture import byte_tokenizer, random_decoder

from qkv.errors import QkvError
from qkv.layers import Rotary
from qkv.models import Decoder, Draft, Lookup, PrefixCache
from qkv.models.generation import drafting
from qkv.models.generation.asked import Asked, odds
from qkv.ops.scaling import DynamicNTK

IDS = np.random.default_rng(2).integers(0, 258, 17)
STRETCHED: dict[str, Any] = {"rotary": (Rotary(100.0, scaling=DynamicNTK(3.0, 19)),) * 3}


def draft_of(model: Decoder, noise: float, seed: int = 0) -> Decoder:
    """The model itself with another head: the more noise, the less it agrees."""
    random = np.random.default_rng(seed)
    head = dataclasses.replace(model.head, W=model.head.W + random.normal(0, noise, model.head.W.shape))
    return dataclasses.replace(model, head=head)


# greedy


@pytest.mark.parametrize("changes", [{}, {"windows": (5, None, 3)}, STRETCHED])
@pytest.mark.parametrize("how", [{}, {"repetition_penalty": 1.4}])
@pytest.mark.parametrize(("noise", "n_draft"), [(0.0, 4), (0.15, 1), (0.15, 3), (0.15, 30), (9.0, 4)])
def test_greedy_is_the_same_text(changes: dict[str, Any], how: dict[str, Any], noise: float, n_draft: int) -> None:
    model = random_decoder(**changes)
    draft = Draft(draft_of(model, noise), n_draft)
    prompts = [IDS, IDS[:1], IDS[4:11]]
    expected = model.generate(prompts, max_new_tokens=19, **how)
    assert model.generate(prompts, max_new_tokens=19, draft=draft, **how) == expected
    assert list(model.stream(IDS, max_new_tokens=19, draft=draft, **how)) == expected[0]
    if not changes:
        assert {0.0: draft.acceptance == 1, 0.15: 0.05 < draft.acceptance < 0.95, 9.0: draft.acceptance < 0.2}[noise]


def test_a_model_as_draft_and_how_many_it_proposes() -> None:
    model = random_decoder()
    expected = model.generate(IDS, max_new_tokens=19)
    assert model.generate(IDS, max_new_tokens=19, draft=draft_of(model, 0.15)) == expected
    draft = Draft(model, n_draft=5)
    assert model.generate(IDS, max_new_tokens=13, draft=draft) == expected[:13]
    # 5 and the model's own, twice; then one is left
    assert (draft.n_proposed, draft.n_accepted, draft.n_rounds) == (5 + 5, 10, 3)
    assert np.isnan(Draft(model).acceptance)


def test_it_ends_where_the_model_ends(tmp_path: Path) -> None:
    model = random_decoder()
    free = model.generate(IDS, max_new_tokens=19)
    for end in (free[0], free[3], free[7]):
        model.end_ids = frozenset({end})
        for proposing in (Draft(draft_of(model, 0.15), 4), Lookup()):
            assert model.generate(IDS, max_new_tokens=19, draft=proposing) == free[: free.index(end)]
    model.end_ids, model.tokenizer = frozenset(), byte_tokenizer(tmp_path)
    text = model.generate("abc", max_new_tokens=23)
    for stop in {text[2:4], text[5], text[-2:]}:
        expected = model.generate("abc", max_new_tokens=23, stop=stop)
        assert model.generate("abc", max_new_tokens=23, stop=stop, draft=model, n_draft=3) == expected
    for n in range(4):
        assert model.generate(IDS, max_new_tokens=n, draft=draft_of(model, 0.15)) == free[:n]


def test_a_draft_with_fewer_positions_proposes_less() -> None:
    model, short = random_decoder(), random_decoder(n_positions=23)
    draft = Draft(short, 4)
    assert model.generate(IDS, max_new_tokens=29, draft=draft) == model.generate(IDS, max_new_tokens=29)
    assert draft.n_proposed <= 4 * 6


def test_what_repeats_itself_is_looked_up() -> None:
    model, lookup = random_decoder(), Lookup(n_draft=5)
    how = {"max_new_tokens": 23, "repetition_penalty": 0.3}  # what was there comes again
    assert model.generate(IDS, draft=lookup, **how) == model.generate(IDS, **how)
    assert 0 < lookup.n_accepted <= lookup.n_proposed
    found = Lookup(n_gram=2).propose([1, 2, 3, 9, 2, 3, 8, 2, 3], 2, Asked(), np.random.default_rng(0))
    assert [token for token, _ in found] == [8, 2]  # the latest place of the longest
    assert Lookup().propose([1, 2, 3], 2, Asked(), np.random.default_rng(0)) == []


@pytest.mark.parametrize("how", [{}, {"temperature": 0.9, "seed": 3}])
def test_a_cache_and_few_bits_go_along(how: dict[str, Any]) -> None:
    model = random_decoder()
    cache, small = PrefixCache(model), draft_of(model, 0.15)
    first = model.generate(IDS, max_new_tokens=7, draft=small, cache=cache, **how)
    assert first == model.generate(IDS, max_new_tokens=7, draft=small, **how)
    longer = [*IDS, *first, 3, 4]
    found = model.generate(longer, max_new_tokens=7, draft=small, cache=cache, **how)
    assert found == model.generate(longer, max_new_tokens=7, draft=small, **how)
    assert cache.n_reused >= 17 + 6
    if not how:
        in_few = model.generate(IDS, max_new_tokens=9, kv_dtype="int8")
        assert model.generate(IDS, max_new_tokens=9, draft=small, kv_dtype="int8") == in_few


# the distribution


class Chain:
    """A model whose next token depends on the last one alone, and a draft of the same kind: quick to draw from."""

    def __init__(self, table: np.ndarray) -> None:
        self.table, self.model, self.settings, self.tokenizer = table, self, self, None
        self.vocab_size, self.n_positions = len(table), None

    def logits(self, ids: list[int], n: int = 1) -> np.ndarray:
        return self.table[ids[-n:]]

    def regime(self, length: int) -> tuple[int, ...]:
        return ()


RANDOM = np.random.default_rng(5)
TABLE, OTHER = RANDOM.normal(0, 1.2, (5, 5)), RANDOM.normal(0, 1.2, (5, 5))
DRAWN: list[dict[str, Any]] = [
    {"temperature": 1.0}, {"temperature": 0.6}, {"temperature": 1.5, "top_k": 3}, {"temperature": 1.0, "top_p": 0.8},
    {"temperature": 1.2, "min_p": 0.2}, {"temperature": 1.0, "repetition_penalty": 1.7},
]  # fmt: skip
N_SEEDS, N_TOKENS = 3000, 3


def chances(table: np.ndarray, asked: Asked) -> np.ndarray:
    """How likely each run of three tokens after [0] is (125,), by the rules of sampling alone."""
    found = np.empty((5, 5, 5))
    for a, b, c in itertools.product(range(5), repeat=3):
        found[a, b, c] = (
            odds(table[0], [0], asked)[a] * odds(table[a], [0, a], asked)[b] * odds(table[b], [0, a, b], asked)[c]
        )
    return found.ravel()


def counted(drafter: Any, asked: Asked) -> np.ndarray:
    cache, places = Chain(TABLE), []
    for seed in range(N_SEEDS):
        drawn = drafting.tokens(cache, drafter.begin(), [0], asked, np.random.default_rng(seed))  # type: ignore[arg-type]
        a, b, c = itertools.islice(drawn, N_TOKENS)
        places.append(25 * a + 5 * b + c)
    return np.bincount(places, minlength=125)


def chi_square(counts: np.ndarray, expected: np.ndarray) -> float:
    """How many standard deviations chi-square lies above its mean; rare runs count together."""
    expected = expected * counts.sum()
    assert counts[expected == 0].sum() == 0, "what must not be drawn was"
    often = expected >= 5
    pairs = [*zip(counts[often], expected[often]), (counts[~often].sum(), expected[~often].sum())]
    terms = [(n - e) ** 2 / e for n, e in pairs if e > 0]
    degrees = len(terms) - 1
    return float((sum(terms) - degrees) / np.sqrt(2 * degrees))


class TableDraft(Draft):
    """A draft that is a chain too."""

    def begin(self) -> Draft:
        self._cache = self.model  # type: ignore[assignment]
        return self


@pytest.mark.parametrize(("how", "n_draft"), [(how, 1 + 2 * (i % 2)) for i, how in enumerate(DRAWN)])
def test_what_is_drawn_is_distributed_as_the_model_says(how: dict[str, Any], n_draft: int) -> None:
    asked = Asked(max_new_tokens=5, **how)
    draft = TableDraft(Chain(OTHER), n_draft)  # type: ignore[arg-type]
    counts = counted(draft, asked)
    assert chi_square(counts, chances(TABLE, asked)) < 4
    assert 0.1 < draft.acceptance < 0.9


def test_what_is_looked_up_does_not_change_the_distribution() -> None:
    asked = Asked(max_new_tokens=5, temperature=1.0)
    lookup = Lookup(n_draft=3)
    lookup.check(Chain(TABLE))  # type: ignore[arg-type]
    assert chi_square(counted(lookup, asked), chances(TABLE, asked)) < 4
    assert lookup.n_proposed > 1000


def from_the_model(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return p


def turned_round(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.maximum(q - p, 0)


@pytest.mark.parametrize("wrong", [from_the_model, turned_round, None])
def test_a_wrong_rule_would_be_seen(wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a refusal drawn from p instead of what is left of it; the other way round; or never refused."""
    asked = Asked(max_new_tokens=5, temperature=1.0)

    def accepted(logits: Any, ids: list[int], proposals: Any, asked: Asked, rng: np.random.Generator) -> list[int]:
        found: list[int] = []
        for row, (token, q) in zip(logits, proposals):
            p = odds(row, [*ids, *found], asked)
            if wrong is not None and rng.random() * q[token] >= p[token]:
                return [*found, int(rng.choice(5, p=wrong(p, q) / wrong(p, q).sum()))]
            found.append(token)
        return [*found, int(rng.choice(5, p=odds(logits[-1], [*ids, *found], asked)))]

    monkeypatch.setattr(drafting, "_accepted", accepted)
    counts = counted(TableDraft(Chain(OTHER), 3), asked)  # type: ignore[arg-type]
    assert chi_square(counts, chances(TABLE, asked)) > 9


def test_a_real_model_draws_as_it_does_alone() -> None:
    """The first two tokens of 500 texts, with a draft and without: both against the exact probabilities."""
    sizes = {"vocab_size": 5, "n_layers": 1, "rotary": (Rotary(100.0),), "d_ff": 5}
    model, small = random_decoder(1, **sizes), random_decoder(2, **sizes)
    how = Asked(temperature=1.0, top_k=4)
    first = odds(model.logits([3, 1])[-1], [], how)
    expected = np.array([first[a] * odds(model.logits([3, 1, a])[-1], [], how) for a in range(5)]).ravel()
    draft = Draft(small, 2)
    for options in ({}, {"draft": draft}):
        settings: dict[str, Any] = {"max_new_tokens": 2, "temperature": 1.0, "top_k": 4, **options}
        drawn = [model.generate([3, 1], seed=seed, **settings) for seed in range(500)]
        counts = np.bincount([5 * a + b for a, b in drawn], minlength=25)
        assert chi_square(counts, expected) < 4
    assert 0.1 < draft.acceptance < 0.9


# what is refused


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    model = random_decoder()
    with pytest.raises(QkvError, match="must have the vocabulary of the model, 258 tokens, but it has 257") as caught:
        model.generate(IDS, draft=random_decoder(vocab_size=257))
    assert "\n" not in str(caught.value)
    import tokenizers

    from qkv.io.tokens.tokenizer import Tokenizer

    model.tokenizer = byte_tokenizer(tmp_path)
    other = random_decoder()
    names = {token: i for i, token in enumerate(model.tokenizer.tokens(range(258)))}
    names["a"], names["b"] = names["b"], names["a"]
    tokenizers.Tokenizer(tokenizers.models.WordLevel(names, "a")).save(str(tmp_path / "other.json"))
    other.tokenizer = Tokenizer(tmp_path / "other.json")
    with pytest.raises(QkvError, match="but token 64 is another one there"):
        model.generate("abc", draft=other)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"draft": "small"}, "draft must be a decoder, a Draft or a Lookup, but str came"),
        ({"n_draft": 3}, "n_draft has no effect when no draft model is given"),
        ({"slide": True, "draft": Lookup()}, "draft cannot be given together with slide"),
        ({"n_beams": 3, "draft": Lookup()}, "draft cannot be given together with n_beams"),
    ],
)
def test_what_does_not_go_together(how: dict[str, Any], message: str) -> None:
    for call in (random_decoder().generate, random_decoder().stream):
        with pytest.raises(QkvError, match=message):
            call(IDS, **how)
    for wrong in (0, 1.5, True):
        with pytest.raises(QkvError, match="n_draft must be an integer of at least 1"):
            Draft(random_decoder(), wrong)  # type: ignore[arg-type]
