"""Beam search: held to transformers on tiny models, and to all continuations there are on tiny vocabularies."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.decoder_fixture import DATA, byte_tokenizer, random_decoder, tiny

from qkv.errors import QkvError
from qkv.layers import Rotary
from qkv.models import Decoder
from qkv.models.generation import beams
from qkv.models.generation.asked import Asked
from qkv.ops.scaling import DynamicNTK

KNOWN = json.loads((DATA / "beam_goldens.json").read_text())
NAMES = ("n_beams", "length_penalty", "early_stopping", "repetition_penalty")
IDS = np.random.default_rng(2).integers(0, 258, 17)


def asked(case: dict[str, Any], **more: Any) -> Asked:
    return Asked(**{name: case[name] for name in NAMES if name in case}, **more)


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral", "gemma2"])
def test_all_beams_of_transformers(family: str) -> None:
    cases = [case for case in KNOWN if case["family"] == family]
    assert len(cases) == 54
    lengths = set()
    for case in cases:
        model = dataclasses.replace(tiny(family), end_ids=frozenset(case["ends"]))
        found = beams.search(model, [case["prompt"]], asked(case, max_new_tokens=11))[0]
        assert [beam.ids for beam in found] == [beam["ids"] for beam in case["beams"]]
        np.testing.assert_allclose([beam.score for beam in found], [b["score"] for b in case["beams"]], 1e-5, 1e-5)
        settings = {name: case[name] for name in NAMES if name in case}
        assert model.generate(case["prompt"], max_new_tokens=11, **settings) == case["beams"][0]["ids"]
        lengths |= {len(beam.ids) for beam in found}
    assert len(lengths) > 4  # or no end was ever met


def every_continuation(model: Decoder, prompt: list[int], n: int) -> list[tuple[float, list[int]]]:
    """The sum of log-probabilities of each, with its ids; those that end come with their end."""
    ended: list[tuple[float, list[int]]] = []
    going: list[tuple[float, list[int]]] = [(0.0, [])]
    for _ in range(n):
        grown = [(total, [*ids, token]) for total, ids in going for token in range(model.settings.vocab_size)]
        scores = [model.score([*prompt, *ids[:-1]], ids[-1:])[0] for _, ids in grown]
        grown = [(total + score, ids) for (total, ids), score in zip(grown, scores)]
        ended += [one for one in grown if one[1][-1] in model.end_ids]
        going = [one for one in grown if one[1][-1] not in model.end_ids]
    return ended + going


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_with_room_for_all_it_finds_the_best_there_is(seed: int) -> None:
    model = random_decoder(seed, vocab_size=5, n_layers=2, rotary=(Rotary(100.0),) * 2)
    model.end_ids = frozenset({1, 4})
    prompt, all_of_them = [3, 0, 2], every_continuation(model, [3, 0, 2], 3)
    for penalty in (-1.0, 0.0, 0.5, 1.0, 2.0):
        ranked = sorted(((total / len(ids) ** penalty, ids) for total, ids in all_of_them), reverse=True)
        found = beams.search(model, [prompt], Asked(max_new_tokens=3, n_beams=125, length_penalty=penalty))[0]
        assert len(found) == len(ranked) == 2 * (1 + 3 + 9) + 27
        for beam, (score, ids) in zip(found, ranked):
            assert beam.score == pytest.approx(score, rel=1e-9)
            assert beam.ids == (ids[:-1] if ids[-1] in model.end_ids else ids)


def test_more_beams_find_what_the_likeliest_token_leads_away_from() -> None:
    found = {1: 0.0, 2: 0.0, 13: 0.0}
    for seed, n_beams in itertools.product(range(9), found):
        model = random_decoder(seed, vocab_size=13)
        how = {} if n_beams == 1 else {"n_beams": n_beams}
        found[n_beams] += float(model.score([3, 1], model.generate([3, 1], max_new_tokens=7, **how)).sum())
    assert found[1] < found[2] - 0.1 < found[13] - 0.2


STRETCHED: dict[str, Any] = {"rotary": (Rotary(100.0, scaling=DynamicNTK(3.0, 19)),) * 3}


@pytest.mark.parametrize("changes", [{}, {"windows": (5, None, 3)}, STRETCHED])
def test_a_batch_gives_what_each_gives_alone(changes: dict[str, Any]) -> None:
    """Grouped heads, windows and padding go along with the beams; where positions stretch, all is computed anew."""
    model, prompts = random_decoder(**changes), [IDS.tolist(), IDS[:1].tolist(), IDS[4:11].tolist()]
    free = [model.generate(prompt, max_new_tokens=11, n_beams=3) for prompt in prompts]
    model.end_ids = frozenset({free[0][5], free[1][2]})
    how = Asked(max_new_tokens=11, n_beams=3)
    together = beams.search(model, prompts, how)
    alone = [beams.search(model, [prompt], how)[0] for prompt in prompts]
    assert [[b.ids for b in row] for row in together] == [[b.ids for b in row] for row in alone]
    assert len({len(row[0].ids) for row in alone}) > 1
    for row, prompt in zip(alone, prompts):
        for beam in row if "rotary" not in changes else []:  # there each score is that of the length it was found at
            ended = len(beam.ids) < 11
            chances = [model.score(prompt, [*beam.ids, *([end] if ended else [])]) for end in model.end_ids]
            n = len(chances[0])
            assert any(beam.score == pytest.approx(float(c.sum()) / n, rel=1e-9) for c in chances)
    assert model.generate(prompts, max_new_tokens=11, n_beams=3) == [row[0].ids for row in alone]


def test_one_beam_is_greedy() -> None:
    model = random_decoder()
    found = beams.search(model, [IDS.tolist()], Asked(max_new_tokens=13))[0]
    assert found[0].ids == model.generate(IDS, max_new_tokens=13)


def test_nothing_to_add_and_text(tmp_path: Path) -> None:
    model = random_decoder()
    assert model.generate(IDS, max_new_tokens=0, n_beams=3) == []
    model.tokenizer = byte_tokenizer(tmp_path)
    text = model.generate("abc", max_new_tokens=7, n_beams=3)
    assert "".join(model.stream("abc", max_new_tokens=7, n_beams=3)) == text
    ids = model.tokenizer.encode("abc")
    assert list(model.stream(ids, max_new_tokens=7, n_beams=3)) == model.generate(ids, max_new_tokens=7, n_beams=3)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"n_beams": 0}, "n_beams must be an integer of at least 1, but it is 0"),
        ({"n_beams": None}, "n_beams must be an integer of at least 1"),
        ({"n_beams": 4, "temperature": 0.5}, "temperature cannot be given together with n_beams"),
        ({"n_beams": 4, "top_k": 5}, "top_k cannot be given together with n_beams"),
        ({"n_beams": 4, "top_p": 0.5}, "top_p cannot be given together with n_beams"),
        ({"n_beams": 4, "min_p": 0.5}, "min_p cannot be given together with n_beams"),
        ({"n_beams": 4, "seed": 5}, "seed cannot be given together with n_beams"),
        ({"n_beams": 4, "stop": "a"}, "stop cannot be given together with n_beams"),
        ({"n_beams": 4, "slide": True}, "slide cannot be given together with n_beams"),
        ({"length_penalty": 2.0}, "length_penalty has no effect when n_beams is 1"),
        ({"early_stopping": True}, "early_stopping has no effect when n_beams is 1"),
        ({"n_beams": 4, "length_penalty": np.inf}, "length_penalty must be from -10.0 to 10.0"),
        ({"n_beams": 4, "early_stopping": "soon"}, "early_stopping must be one of True, False, never"),
    ],
)
def test_what_is_refused(how: dict[str, Any], message: str) -> None:
    for call in (random_decoder().generate, random_decoder().stream):
        with pytest.raises(QkvError, match=message) as caught:
            call(IDS, **how)
        assert "\n" not in str(caught.value)
