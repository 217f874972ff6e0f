"""The command line starts fast: a command's module, and what it needs, is imported when the command is called."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from rich.cells import cell_len
from tests.commanded import command

import qkv.cli
from qkv import words
from qkv.cli.commands import MODULES

TINY_BERT = Path(__file__).parent / "data" / "tiny_encoders" / "bert-fill"


def imported(*arguments):
    """The modules of qkv that a call has imported by its end."""
    code = (
        "import sys\nfrom qkv.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print('|', *(name for name in sys.modules if name.startswith('qkv.')))"
    )
    environ = {**os.environ, "QKV_LANG": "en"}
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, env=environ
    )
    return set(run.stdout.rpartition("|")[2].split())


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_help_and_version_import_no_command(arguments):
    found = imported(*arguments)
    assert "qkv.cli.commands" in found
    assert not {name for name in found if name.startswith(("qkv.judge", "qkv.views", "qkv.walkthrough", "qkv.models"))}


def test_check_imports_no_walk_and_no_model():
    found = imported("check", "softmax", "no_such_file.py")
    assert "qkv.judge.checking" in found
    assert not {name for name in found if name.startswith(("qkv.walkthrough", "qkv.models", "qkv.course"))}


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_every_command_is_in_the_help_and_can_be_called(lang):
    group = qkv.cli.commands.qkv(lang)
    context = click.Context(group, info_name="qkv")
    shown = group.get_help(context)
    for name in MODULES:
        found = group.get_command(context, name)
        assert found is not None
        assert found.help == words.say(f"help.{name}", lang)
        assert f"\n  {name} " in shown
    assert group.get_command(context, "nope") is None


def test_a_module_adds_only_commands_that_are_listed():
    modules = [module for _, module, _ in pkgutil.iter_modules(qkv.cli.__path__)]
    for module in modules:
        group = click.Group()
        getattr(importlib.import_module(f"qkv.cli.{module}"), "add", lambda *_: None)(group, "en")
        assert sorted(group.commands) == sorted(name for name, home in MODULES.items() if home == module)


@pytest.mark.parametrize("lang", words.LANGUAGES)
@pytest.mark.parametrize("name", [None, *MODULES, "models pull"])
def test_no_line_of_a_help_is_cut_off_or_too_wide(lang, name):
    shown = command(*(name or "").split(), "--help", lang=lang, width=80).out
    assert all(cell_len(line) <= 80 for line in shown.splitlines())
    assert not any(line.endswith("...") for line in shown.splitlines()[2:])


def test_what_the_parser_says_by_itself_is_chinese():
    shown = "".join(command(*asked, "--help", lang="zh").out for asked in ([], ["see"], ["models"], ["fill"]))
    assert not re.search(r"Usage|Options|Commands|Show|required", shown)
    assert "用法：qkv see" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lens", "a", "--position"], "--position 后面缺少值"),
        (["lens", "a", "--position", "x"], "应为整数"),
        (["heads", "--top", "0"], "应为不小于 1 的整数"),
        (["heads", "--by", "x"], "只能是 previous, self"),
        (["verify", "a", "--rtol", "x"], "应为数"),
        (["size", "a", "b"], "多出了参数：b"),
        (["gen"], "没有 gen 这个命令；qkv --help"),
        (["models", "gen"], "没有 gen 这个命令；qkv models --help"),
        (["lens", "a", "--nope"], "没有选项 --nope"),
        (["fill", "a"], "缺少 '--model'"),
    ],
)
def test_a_wrong_call_is_told_in_chinese(arguments, said):
    ended = command(*arguments, lang="zh")
    assert ended.code == 2
    assert said in ended.err
    assert "must" not in ended.err


@pytest.mark.parametrize("arguments", [[], ["--lang", "zh"], ["--lang=zh"], ["--lang", "zh", "--help"], ["models"]])
def test_without_a_command_the_help_is_shown(arguments):
    ended = command(*arguments, lang="en" if "zh" in "".join(arguments) else "zh")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("用法：qkv ")


def test_an_unknown_command_says_where_the_known_ones_are():
    ended = command("gen")
    assert (ended.code, ended.err) == (2, "Error: there is no command gen; qkv --help lists them\n")


@pytest.mark.parametrize("arguments", [["chat"], ["generate", "a"], ["see", "a"], ["heads"], ["lens", "a"]])
def test_without_a_model_one_line_says_what_to_type(arguments, tmp_path, monkeypatch):
    monkeypatch.setenv("QKV_DATA", str(tmp_path))
    ended = command(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.endswith("fetch a small one first: qkv models pull smollm2\n")
    other = command(*arguments, "--model", "nope")
    assert other.err.endswith(
        "no such file: nope, and no model of that name was fetched; qkv models list shows those that were\n"
    )


@pytest.mark.parametrize(
    "arguments", [["generate", "a"], ["see", "the cat"], ["heads", "the cat"], ["lens", "the cat"], ["size", "smollm2"]]
)
def test_the_fetched_model_is_taken(arguments, tmp_path, monkeypatch):
    monkeypatch.setenv("QKV_DATA", str(tmp_path))
    shutil.copytree(TINY_BERT, tmp_path / "models" / "smollm2")
    ended = command(*arguments)
    if arguments[0] == "generate":
        assert "smollm2 holds a model that writes no text" in ended.err
    else:
        assert (ended.code, ended.err) == (0, "")
        assert ended.out


@pytest.mark.parametrize("name", ["embed", "classify"])
def test_no_line_on_standard_input_is_no_text(name):
    ended = command(name, "-", "--model", TINY_BERT, stdin="")
    assert (ended.code, ended.out) == (2, "")
    assert "there is no token in the text" in ended.err
