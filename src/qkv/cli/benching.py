"""`qkv bench`: the measurements that come with the source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from .. import words
from ..errors import FileError

SOURCE = Path(__file__).resolve().parents[3]


def add(group: click.Group, lang: str) -> None:
    """Add the command to the command line."""

    @group.command(
        "bench",
        help=words.say("help.bench", lang),
        context_settings={"ignore_unknown_options": True},
        add_help_option=False,
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def bench_command(arguments: tuple[str, ...]) -> int:
        if not (SOURCE / "benchmarks" / "__main__.py").is_file():
            raise FileError("no_benchmarks")
        program = [sys.executable, "-m", "benchmarks", *(arguments or ("--help",))]
        return subprocess.run(program, cwd=SOURCE, check=False).returncode
