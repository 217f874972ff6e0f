"""`qkv quiz`: ask, judge the answer, show the computation, keep the result."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from .. import words
from ..course.quiz import LETTERS, Asked, Question, asked, chosen, quizzes, topics
from ..errors import FileError
from ..judge import progress as kept
from ..views.progress_text import paragraph
from ..views.screen import write
from ..views.tables import columns
from .saying import aside, screen, show, tell

LARGEST_SEED = 10000  # of those that are drawn: easy to type again
SOME_WRONG = 1


def add(group: click.Group, lang: str) -> None:
    """Add the command to the command line."""

    def option(*flags: str, **how: Any) -> Callable[[Any], Any]:
        return click.option(*flags, help=words.say(f"help.quiz_option.{flags[0].lstrip('-')}", lang), **how)

    @group.command("quiz", help=words.say("help.quiz", lang))
    @option("--topic")
    @option("--seed", type=click.IntRange(0, 2**32 - 1))
    @option("--n", type=click.IntRange(1), default=5)
    @option("--list", "listing", is_flag=True)
    @option("--json", "as_json", is_flag=True)
    @option("--lang", type=click.Choice(words.LANGUAGES), expose_value=False)
    def quiz_command(topic: str | None, seed: int | None, n: int, listing: bool, as_json: bool) -> int:
        questions, progress = topics(topic), kept.load()
        tell(progress.notices, lang)
        if listing:
            show(_listed(questions, progress, lang))
            return 0
        known = frozenset(name for name, one in progress.quiz.items() if one.last_right and seed is None)
        drawn = secrets.randbelow(LARGEST_SEED) if seed is None else seed
        asking = [asked(question, drawn) for question in chosen(questions, n, drawn, known)]
        if as_json:
            show(_as_json(asking, drawn, lang))
            return 0
        return _Round(asking, lang).ask()


class _Round:
    """Some questions, one after another."""

    def __init__(self, asking: Sequence[Asked], lang: str) -> None:
        self.asking, self.lang = asking, lang
        self.terminal = sys.stdin.isatty()
        self.keeps = True

    def say(self, key: str, **facts: Any) -> str:
        return paragraph(words.say(f"quiz.{key}", self.lang, **facts), screen())

    def ask(self) -> int:
        """Ask them all, or until the input ends; how the command ends."""
        right = done = 0
        for i, one in enumerate(self.asking, 1):
            show(self._page(i, one))
            if self.terminal and i == 1:
                show(self.say("skip"))
            reply = self._reply(one)
            if reply is None:
                break
            done, is_right = done + 1, bool(one.is_right(reply))
            right += is_right
            show(self._verdict(one, reply, is_right))
            show("")
            self._keep(one.question.id, is_right)
        left = len(self.asking) - done
        show("\n".join([self.say("score", right=right, n=done), *([self.say("unanswered", n=left)] if left else [])]))
        return 0 if right == len(self.asking) else SOME_WRONG

    def _page(self, i: int, one: Asked) -> str:
        """A question as it is asked."""
        title = next(quiz.title for quiz in quizzes() if quiz.name == one.question.topic)
        head = self.say("head", i=i, n=len(self.asking), topic=title[self.lang])
        options = [paragraph(f"{LETTERS[j]}) {text[self.lang]}", screen(), 2) for j, text in enumerate(one.options)]
        return "\n".join(
            [head, paragraph(one.text[self.lang], screen()), *options, paragraph(self._form(one), screen())]
        )

    def _form(self, one: Asked) -> str:
        """What an answer must look like."""
        decimals = one.question.decimals
        key = "decimals" if decimals else one.question.kind
        return words.say(f"quiz.form_{key}", self.lang, decimals=decimals)

    def _reply(self, one: Asked) -> str | None:
        """What is answered; None at the end of the input. In a terminal what is no answer is asked for again."""
        while True:
            write(sys.stdout, "> ")
            reply = sys.stdin.readline()
            if not self.terminal or not reply.endswith("\n"):  # nobody's key has ended this line
                show(reply.strip())
            if not reply:
                return None
            if not (self.terminal and reply.strip()) or one.is_right(reply) is not None:
                return reply.strip()
            show(self.say("again", form=self._form(one)))

    def _verdict(self, one: Asked, reply: str, is_right: bool) -> str:
        """Right; or the answer, why, and the computation."""
        if is_right:
            return self.say("right")
        unread = [self.say("unread")] if reply and one.is_right(reply) is None else []
        facts = {"answer": one.answer_text}
        if one.question.kind == "choice":
            head = self.say("wrong_choice", text=one.options[one.answer][self.lang], **facts)
        else:
            head = self.say("wrong", **facts)
        lines = [paragraph(line.code + (f"  →  {line.value}" if line.value else ""), screen(), 2) for line in one.lines]
        return "\n".join(
            [*unread, head, paragraph(one.why[self.lang], screen()), *([self.say("run")] if lines else []), *lines]
        )

    def _keep(self, question: str, is_right: bool) -> None:
        """Keep the answer; that it cannot be kept is said once."""
        try:
            notices = kept.record_answer(question, is_right) if self.keeps else ()
        except FileError as error:
            self.keeps = False
            aside(words.say("quiz.not_kept", self.lang, why=words.message(error, self.lang)))
            return
        tell(notices, self.lang)


def _listed(questions: Sequence[Question], progress: kept.Progress, lang: str) -> str:
    """The questions by topic, with how they were answered last."""
    parts = []
    asked_topics = [quiz for quiz in quizzes() if any(q.topic == quiz.name for q in questions)]
    parts.append(paragraph(words.say("quiz.list_head", lang, n=len(questions), topics=len(asked_topics)), screen()))
    for quiz in asked_topics:
        rows = [[question.id, _state(progress, question.id, lang)] for question in quiz.questions]
        parts.append("\n".join([paragraph(f"{quiz.name} · {quiz.title[lang]}", screen()), columns(
            [["", *row] for row in rows], None, "lll", screen())]))  # fmt: skip
    return "\n\n".join(parts)


def _state(progress: kept.Progress, question: str, lang: str) -> str:
    answered = progress.quiz.get(question)
    key = "new" if answered is None else "right" if answered.last_right else "wrong"
    return words.say(f"quiz.state.{key}", lang)


def _as_json(asking: Sequence[Asked], seed: int, lang: str) -> str:
    """The questions, their options lettered; no answers."""
    questions = [
        {
            "id": one.question.id, "topic": one.question.topic, "kind": one.question.kind, "text": one.text[lang],
            **({"options": {LETTERS[i]: text[lang] for i, text in enumerate(one.options)}} if one.options else {}),
            **({"decimals": one.question.decimals} if one.question.kind == "number" else {}),
        }
        for one in asking
    ]  # fmt: skip
    return json.dumps({"seed": seed, "lang": lang, "questions": questions}, ensure_ascii=False, indent=1)
