"""The quiz: answers are computed and right, both languages are whole, nothing gives an answer away."""

from __future__ import annotations

import json
import math
import re
import string
from functools import cache

import numpy as np
import pytest
from tests.commanded import command

from qkv import words
from qkv.course import quiz
from qkv.course.quiz import KINDS, LETTERS, all_questions, chosen, parsed, quizzes
from qkv.course.running import namespace, run_lines
from qkv.judge import progress
from qkv.views.cells import width
from qkv.views.screen import Screen

QUESTIONS = {question.id: question for question in all_questions()}
DRAWN = {name: question for name, question in QUESTIONS.items() if question.draw}
CHOICES = [name for name, question in QUESTIONS.items() if question.kind == "choice"]
SEEDS = range(20)


@cache
def drawn(name, seed):
    return quiz.asked(QUESTIONS[name], seed)


def asked(question, seed):
    return drawn(question.id, seed)


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("QKV_DATA", str(tmp_path / "data"))


def numbers(text):
    return [float(n) if "." in n else int(n) for n in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", text)]


def score(qk):
    half = len(qk) // 2
    return sum(a * b for a, b in zip(qk[:half], qk[half:])) / math.sqrt(half)


def first_of_softmax(x):
    return 1 / sum(math.exp(other - x[0]) for other in x)


# Each answer once more, from the numbers in the question's own text and by nothing but arithmetic.
INDEPENDENT = {
    "projection_parameters": lambda d_model, d_k, d_v: d_model * (2 * d_k + d_v),
    "projection_shape": lambda n, d, n2, d2, d3, d_v: (n, d_v),
    "one_score": lambda *qk: score(qk),
    "spread_of_scores": lambda mean, deviation, d_k: math.sqrt(d_k),
    "weight_after_scaling": lambda d_k, a, b: 1 / (1 + math.exp((b - a) / math.sqrt(d_k))),
    "shifted_scores": lambda *n: first_of_softmax(n[6:]),
    "odds": lambda r: r / (r + 1),
    "sum_of_all_weights": lambda h, n: h * n,
    "equal_scores": lambda n, *values: sum(values) / n,
    "weighted_sum": lambda *n: sum(w * v for w, v in zip(n[:3], n[3:])),
    "head_width": lambda d_model, n_heads: d_model // n_heads,
    "weights_shape": lambda B, n, h, d_k: (B, h, n, n),
    "causal_count": lambda n, zero: n * (n + 1) // 2,
    "causal_equal_scores": lambda n, i, *zeros: 1 / (i + 1),
    "longer_text": lambda n, m: (m / n) ** 2,
    "memory_of_scores": lambda h, n, size, base, power: h * n * n * size / base**20,
    "shape_of_scores": lambda Tq, d_k, Tk, d_k2, Tk2, d_v: (Tq, Tk),
    "shape_of_output": lambda Tq, d_k, Tk, d_k2, Tk2, d_v: (Tq, d_v),
}


# the answers


def test_every_drawn_question_has_an_independent_computation():
    assert set(INDEPENDENT) == set(DRAWN)
    assert len(DRAWN) >= 6
    assert all(question.draw for question in QUESTIONS.values() if question.kind != "choice")


@pytest.mark.parametrize("name", DRAWN)
def test_a_computed_answer_is_right(name):
    for seed in SEEDS:
        one = asked(DRAWN[name], seed)
        expected = INDEPENDENT[name](*numbers(one.text["en"].replace("2^20", "2 20")))
        if DRAWN[name].kind == "shape":
            assert one.answer == expected
        else:
            assert one.answer == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert one.is_right(one.answer_text)
        assert one.is_right(str(expected))


@pytest.mark.parametrize("name", DRAWN)
def test_numbers_are_fresh_with_each_seed_and_the_same_with_the_same(name):
    texts = [asked(DRAWN[name], seed).text["en"] for seed in SEEDS]
    assert len(set(texts)) > 2
    assert texts[:3] == [quiz.asked(DRAWN[name], seed).text["en"] for seed in SEEDS[:3]]
    assert len({asked(DRAWN[name], seed).answer_text for seed in SEEDS}) > 1


@pytest.mark.parametrize("name", [name for name in DRAWN if DRAWN[name].decimals == 0])
def test_a_whole_answer_is_whole(name):
    for seed in SEEDS:
        answer = asked(DRAWN[name], seed).answer
        assert isinstance(answer, tuple) or answer == round(answer)


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_has_one_right_answer_at_a_shuffled_place(name):
    question = QUESTIONS[name]
    places = set()
    for seed in range(40):
        one = asked(question, seed)
        assert one.options[one.answer] == question.options[0]
        assert [one.is_right(letter) for letter in LETTERS[: len(one.options)]].count(True) == 1
        assert one.is_right(LETTERS[len(one.options)]) is None
        places.add(one.answer)
    assert places == set(range(len(question.options)))


@pytest.mark.parametrize(("name", "seen"), [
    ("what_three_are_for", {"symmetric_with_one": "True", "symmetric_with_two": "False"}),
    ("swapped_tokens", {"rows_changed_places": "True"}),
    ("what_it_prevents", {"rows_that_stay": "[True, True, True, False]"}),
    ("where_the_mask_goes", {"its_sum": "0.3348"}),
    ("why_subtract_max", {"naive": "[nan, nan]", "weights": "[0.2689, 0.7311]"}),
    ("which_axis", {"row_sums": "[1, 1, 1]"}),
    ("reshape_alone", {"head_0_right": "[[0, 0], [1, 1], [2, 2]]"}),
    ("why_square", {"scores_of_10_tokens": "100", "scores_of_20_tokens": "400"}),
    ("why_many_heads", {"times_as_many_weights": "8"}),
])  # fmt: skip
def test_the_evidence_of_a_choice_shows_what_it_says(name, seen):
    for seed in SEEDS:
        values = {line.code.split(" = ")[0].strip(): line.value for line in asked(QUESTIONS[name], seed).lines}
        assert {key: values[key] for key in seen} == seen


def test_scaling_always_flattens_the_row_that_is_shown():
    for seed in SEEDS:
        values = {line.code.split(" = ")[0]: line.value for line in asked(QUESTIONS["why_scaled"], seed).lines}
        assert float(values["largest_weight_unscaled"]) > float(values["largest_weight_scaled"])


# replies


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        (("0.75", ".75", "3/4", "75%", " 0.750 ", "０．７５"), True),
        (("0.76", "0.7", "-0.75", "75"), False),
        (("", "three", "nan", "inf", "1e999", "1/0", "3/4/5"), None),
    ],
)
def test_how_a_number_is_read(replies, said):
    three_to_one = next(one for seed in range(99) if "ln 3." in (one := asked(QUESTIONS["odds"], seed)).text["en"])
    assert [three_to_one.is_right(reply) for reply in replies] == [said] * len(replies)


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        (("({a}, {b})", "{a},{b}", "{a} {b}", "{a}x{b}", "{a} × {b}", "（{a}，{b}）", "{a}、{b}"), True),
        (("({b}, {a})", "({a}, {b}, 1)", "{a}"), False),
        (("", "()", "(a, b)", "-{a}, {b}", "{a}.0, {b}"), None),
    ],
)
def test_how_a_shape_is_read(replies, said):
    one = asked(QUESTIONS["shape_of_scores"], 0)
    a, b = one.answer
    assert [one.is_right(reply.format(a=a, b=b)) for reply in replies] == [said] * len(replies)


def test_how_a_letter_is_read():
    one = asked(QUESTIONS["why_scaled"], 0)
    letter = one.answer_text
    assert all(one.is_right(reply) for reply in (letter, letter.upper(), f" {letter}) ", f"({letter})"))
    assert [one.is_right(reply) for reply in ("", "e", "1", "ab")] == [None] * 4


def test_a_number_that_was_cut_off_is_right_and_a_whole_one_is_exact():
    sixth = next(one for seed in range(99) if (one := asked(QUESTIONS["causal_equal_scores"], seed)).answer < 0.17)
    assert [sixth.is_right(reply) for reply in ("0.16", "0.17", "0.167", "0.18", "0.15")] == [True] * 3 + [False] * 2
    whole = asked(QUESTIONS["causal_count"], 0)
    assert whole.is_right(f"{whole.answer}.0")
    assert whole.is_right(str(whole.answer + 0.5)) is False


# the files


def test_there_are_questions_of_every_kind_on_every_topic():
    assert len(QUESTIONS) == len(all_questions()) >= 20
    assert {question.kind for question in all_questions()} == set(KINDS)
    assert len({quiz.number for quiz in quizzes()}) == len(quizzes()) >= 6
    assert all(len(quiz.questions) >= 3 for quiz in quizzes())


def sentences(question):
    return [question.ask, question.why, *question.options]


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_whole_in_both_languages(name):
    question = QUESTIONS[name]
    for sentence in sentences(question):
        assert set(sentence) == set(words.LANGUAGES)
        assert all(text.strip() == text != "" for text in sentence.values())
        assert re.search("[\u4e00-\u9fff]", sentence["zh"])
        assert not re.search("[\u4e00-\u9fff]", re.sub("[远方有颗苹果树]", "", sentence["en"]))
        fields = [{f for _, f, _, _ in string.Formatter().parse(sentence[lang]) if f} for lang in words.LANGUAGES]
        assert fields[0] == fields[1]
    assert (len(question.options) == 4) == (question.kind == "choice")
    assert len({option["en"] for option in question.options}) == len(question.options)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_terms_are_those_of_the_glossary(name):
    said = [sentence["zh"] for sentence in sentences(QUESTIONS[name])]
    avoided = [word for term in words.glossary().values() for word in term.avoid]
    assert [(word, text) for text in said for word in avoided if word in text] == []


@pytest.mark.parametrize("name", DRAWN)
def test_both_languages_ask_with_the_same_numbers(name):
    for seed in range(5):
        text = asked(DRAWN[name], seed).text
        assert sorted(numbers(text["en"])) == sorted(numbers(text["zh"]))
        assert "{" not in text["en"] + text["zh"]


def test_an_entry_of_another_kind_is_found_when_it_is_read():
    with pytest.raises(TypeError, match="colour"):
        parsed(
            "x",
            {"number": 1, "title": {}, "question": [{"id": "a", "kind": "number", "ask": {}, "why": {}, "colour": 1}]},
        )


def test_lines_know_nothing_but_their_own():
    space = namespace(np.random.default_rng(0))
    assert [line.value for line in run_lines("a, b = 2, 3\nc = a * b", space)] == ["2, 3", "6"]
    with pytest.raises(NameError):
        run_lines("c", namespace(np.random.default_rng(0)))


# the command


def answers(seed, n, topic=None):
    questions = [q for q in all_questions() if topic in (None, q.topic)]
    return [asked(question, seed).answer_text for question in chosen(questions, n, seed)]


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_right_answers_in_a_pipe(lang):
    given = answers(7, len(QUESTIONS))
    ended = command("quiz", "--seed", 7, "--n", 99, stdin="\n".join(given), lang=lang)
    assert ended.code == 0
    assert ended.err == ""
    assert ended.out.splitlines().count({"en": "Right.", "zh": "正确。"}[lang]) == len(QUESTIONS)
    assert all(one.last_right for one in progress.load().quiz.values())
    assert set(progress.load().quiz) == set(QUESTIONS)


@pytest.mark.parametrize("lang", words.LANGUAGES)
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_wrong_answer_is_explained_with_its_computation(name, lang):
    topic = QUESTIONS[name].topic
    questions = [q for q in all_questions() if q.topic == topic]
    ended = command("quiz", "--topic", topic, "--seed", 4, "--n", 99, stdin="\n" * len(questions), lang=lang, width=400)
    one = asked(QUESTIONS[name], 4)
    assert ended.code == 1
    assert one.why[lang] in ended.out
    assert one.answer_text in ended.out
    for line in one.lines:
        assert f"  {line.code}" + (f"  →  {line.value}" if line.value else "") in ended.out
    assert progress.load().quiz[name].wrong == 1


def test_the_end_of_the_input_ends_the_quiz():
    ended = command("quiz", "--seed", 7, "--n", 3, stdin=answers(7, 3)[0] + "\n")
    assert ended.code == 1
    assert "1 of 1 right." in ended.out
    assert "2 left unanswered." in ended.out


def test_what_is_no_answer_counts_as_wrong_in_a_pipe_so_that_lines_stay_in_step():
    first, second = answers(7, 2)
    ended = command("quiz", "--seed", 7, "--n", 2, stdin=f"???\n{second}\n")
    assert "no answer of this kind" in ended.out
    assert "1 of 2 right." in ended.out
    assert first in ended.out


def test_without_a_seed_what_is_not_known_comes_first():
    for name in [name for name in QUESTIONS if name != "odds"]:
        progress.record_answer(name, True)
    progress.record_answer("why_scaled", False)
    shown = {q["id"] for q in json.loads(command("quiz", "--n", 2, "--json").out)["questions"]}
    assert shown == {"odds", "why_scaled"}


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_json_gives_no_answer_away(lang):
    data = json.loads(command("quiz", "--seed", 7, "--n", 99, "--json", lang=lang).out)
    assert {one["id"] for one in data["questions"]} == set(QUESTIONS)
    for one in data["questions"]:
        assert set(one) <= {"id", "topic", "kind", "text", "options", "decimals"}
        assert one["text"] == asked(QUESTIONS[one["id"]], data["seed"]).text[lang]
        assert (one["kind"] == "choice") == ("options" in one)
    assert progress.load().quiz == {}


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_the_list_shows_every_question_with_its_last_answer(lang):
    progress.record_answer("odds", True)
    progress.record_answer("why_scaled", False)
    out = command("quiz", "--list", lang=lang).out
    rows = {line.split()[0]: line.split()[1] for line in out.splitlines() if line.startswith("  ")}
    assert set(rows) == set(QUESTIONS)
    assert (rows["odds"], rows["why_scaled"], rows["one_score"]) == (
        *{"en": ("right", "wrong"), "zh": ("答对", "答错")}[lang],
        "-",
    )


@pytest.mark.parametrize("wrong", [["--topic", "nothing"], ["--n", "0"], ["--seed", "-1"]])
def test_a_wrong_call_is_one_line(wrong):
    ended = command("quiz", *wrong)
    assert (ended.code, ended.out) == (2, "")
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_every_line_fits(lang):
    ended = command("quiz", "--seed", 3, "--n", 99, stdin="\n" * 99, lang=lang, width=60)
    assert [line for line in ended.out.splitlines() if width(line, Screen(width=60)) > 60] == []


def test_where_nothing_can_be_kept_it_is_said_once(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("QKV_DATA", str(tmp_path / "file" / "data"))
    ended = command("quiz", "--seed", 7, "--n", 3, stdin="\n".join(answers(7, 3)))
    assert ended.code == 0
    said = [line for line in ended.err.splitlines() if "not kept" in line]
    assert len(said) == 1
