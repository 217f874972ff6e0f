"""The command line run in this process: what it prints, what it says aside, how it ends."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass

import pytest

from qkv.cli import commands, grading, main, practising, quizzing


@dataclass
class Ended:
    code: int
    out: str
    err: str


def command(*arguments: object, stdin: str = "", lang: str = "en", width: int = 60) -> Ended:
    """Run `qkv` with these arguments in a pipe of so many cells."""
    with pytest.MonkeyPatch.context() as patch:
        out, err = io.StringIO(), io.StringIO()
        whole = commands.qkv

        def with_these(lang):
            group = whole(lang)
            for module in (practising, quizzing, grading):
                module.add(group, lang)
            return group

        patch.setattr(commands, "qkv", with_these)
        for name, value in (("stdin", io.StringIO(stdin)), ("stdout", out), ("stderr", err)):
            patch.setattr(sys, name, value)
        patch.setenv("COLUMNS", str(width))
        patch.setenv("QKV_LANG", lang)
        with pytest.raises(SystemExit) as ended:
            main([str(one) for one in arguments])
    return Ended(ended.value.code or 0, out.getvalue(), err.getvalue())
