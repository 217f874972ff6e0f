"""Questions: read from their files, drawn with fresh numbers, answered by running, and judged."""

from __future__ import annotations

import re
import tomllib
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from ..errors import ArgumentError
from .running import Line, namespace, run_lines, written

KINDS = ("choice", "number", "shape")
LETTERS = "abcdefgh"
WHOLE = 1e-6  # how far from a whole number its computation may end
Words = Mapping[str, str]


@dataclass(frozen=True)
class Question:
    """One question as its file gives it; the format is that of `qkv.course`.

    Attributes
    ----------
    id, topic, kind : str
        `topic` is the name of its file.
    ask, why : mapping of str to str
        By language.
    options : tuple of mappings
        Of a choice, the right one first.
    draw, run : str
        Lines of Python.
    decimals : int
        Of a number: so many digits after the point are asked for.
    """

    id: str
    topic: str
    kind: str
    ask: Words
    why: Words
    options: tuple[Words, ...] = ()
    draw: str = ""
    run: str = ""
    decimals: int = 0


@dataclass(frozen=True)
class Quiz:
    """The questions of one topic."""

    name: str
    number: int
    title: Words
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Asked:
    """A question with its numbers drawn and its answer computed.

    Attributes
    ----------
    question : Question
    text : mapping of str to str
        What is asked, by language.
    why : mapping of str to str
    options : tuple of mappings
        Of a choice, in the order in which they are shown.
    answer : int, float or tuple of int
        Of a choice the number of the right option.
    lines : tuple of Line
        The computation: each line with its value.
    """

    question: Question
    text: Words
    why: Words
    options: tuple[Words, ...]
    answer: Any
    lines: tuple[Line, ...]

    def is_right(self, reply: str) -> bool | None:
        """Whether a reply is the answer; None when it is no answer of this kind at all.

        A number is right if it rounds, or was cut off, to the digits that were asked for.
        """
        given = _read(reply, self.question.kind, len(self.options))
        if given is None:
            return None
        if self.question.kind == "number":
            return bool(abs(given - self.answer) < (WHOLE if self.question.decimals == 0 else self._last_digit()))
        return bool(given == self.answer)

    def _last_digit(self) -> float:
        return 0.999 * 10.0**-self.question.decimals

    @property
    def answer_text(self) -> str:
        """The answer as a person would type it."""
        if self.question.kind == "choice":
            return LETTERS[self.answer]
        if self.question.kind == "number":
            return f"{self.answer:.{self.question.decimals}f}"
        return str(self.answer)


@cache
def quizzes() -> tuple[Quiz, ...]:
    """Every quiz, in order."""
    folder = files(__package__).joinpath("quizzes")
    found = [
        parsed(file.name.removesuffix(".toml"), tomllib.loads(file.read_text(encoding="utf-8")))
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    ]
    return tuple(sorted(found, key=lambda quiz: quiz.number))


def parsed(name: str, data: dict[str, Any]) -> Quiz:
    """A quiz from what its file holds. Whatever is wrong in a file of the package is raised as it comes."""
    questions = []
    for one in data["question"]:
        options = (one.pop("right"), *one.pop("wrong")) if one["kind"] == "choice" else ()
        questions.append(Question(topic=name, options=options, **one))
    return Quiz(name, data["number"], data["title"], tuple(questions))


def all_questions() -> tuple[Question, ...]:
    """The questions of every quiz, in order."""
    return tuple(question for quiz in quizzes() for question in quiz.questions)


def asked(question: Question, seed: int) -> Asked:
    """Draw the numbers of a question, compute its answer and shuffle its options: the same for the same seed.

    Examples
    --------
    >>> one = asked(next(q for q in all_questions() if q.id == "head_width"), seed=3)
    >>> one.is_right(one.answer_text), one.is_right("-1"), one.is_right("wide")
    (True, False, None)
    """
    key = [seed, zlib.crc32(question.id.encode())]
    space = namespace(np.random.default_rng(key))
    run_lines(question.draw, space)
    drawn = facts(space)
    lines = run_lines(question.run, space)
    computed = facts(space)
    order = np.random.default_rng([*key, 1]).permutation(len(question.options)).tolist()
    return Asked(
        question=question,
        text={lang: text.format(**drawn) for lang, text in question.ask.items()},
        why={lang: text.format(**computed) for lang, text in question.why.items()},
        options=tuple({lang: t.format(**drawn) for lang, t in question.options[i].items()} for i in order),
        answer=order.index(0) if question.kind == "choice" else _plain(space["answer"]),
        lines=lines,
    )


def facts(space: Mapping[str, Any]) -> dict[str, str]:
    """The variables of a question as they are written in its sentences."""
    return {name: written(value) for name, value in space.items() if not name.startswith("_")}


def _plain(value: Any) -> Any:
    """A number or a tuple of whole numbers, without NumPy's own types."""
    if isinstance(value, tuple):
        return tuple(int(size) for size in value)
    return value if isinstance(value, int | float) and not isinstance(value, np.generic) else np.asarray(value).item()


def _read(reply: str, kind: str, n_options: int) -> Any:
    """A reply as the number of an option, a number or a shape; None when it is none. Full-width signs will do."""
    text = unicodedata.normalize("NFKC", reply).strip().lower().replace("、", ",")
    if kind == "choice":
        letter = text.strip("().")
        return LETTERS.index(letter) if len(letter) == 1 and letter in LETTERS[:n_options] else None
    if kind == "shape":
        inner = text.removeprefix("(").removesuffix(")").strip().removesuffix(",")
        sizes = [size for size in re.split(r"\s*[,x×*]\s*|\s+", inner) if size]
        return tuple(map(int, sizes)) if sizes and all(s.isascii() and s.isdigit() for s in sizes) else None
    top, slash, bottom = text.replace(",", "").replace(" ", "").partition("/")
    percent = bottom == "" and top.endswith("%")
    try:
        value = float(top.removesuffix("%")) / (float(bottom) if slash else 100 if percent else 1)
    except (ValueError, ZeroDivisionError):
        return None
    return value if np.isfinite(value) else None


def topics(name: str | None) -> Sequence[Question]:
    """The questions of a topic, or all of them.

    Raises
    ------
    ArgumentError
        For a topic that is not there.
    """
    known = [quiz.name for quiz in quizzes()]
    if name is not None and name not in known:
        raise ArgumentError("choice", name="--topic", choices=", ".join(known), value=name)
    return [question for question in all_questions() if name in (None, question.topic)]


def chosen(questions: Sequence[Question], n: int, seed: int, later: frozenset[str] = frozenset()) -> list[Question]:
    """So many of these questions, drawn by the seed; those in `later` only when the others are used up."""
    shuffled = [questions[i] for i in np.random.default_rng(seed).permutation(len(questions))]
    return sorted(shuffled, key=lambda question: question.id in later)[:n]
