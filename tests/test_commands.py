"""The command line starts fast: a command's module, and what it needs, is imported when the command is called."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys

import click
import pytest

import qkv.cli
from qkv import words
from qkv.cli.commands import MODULES


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
