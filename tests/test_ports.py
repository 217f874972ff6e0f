"""The ports to other languages: each shows the sentence like NumPy, is judged right, and a fault in it is named."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from qkv.judge import check
from qkv.ops import attention

PORTS = Path(__file__).parents[1] / "ports"
TASK = "scaled_dot_product_attention"
TIMEOUT = 60.0


@dataclass(frozen=True)
class Port:
    """One language: its source, the program that builds or runs it, and a fault with the mistake that it is."""

    source: str
    tool: str
    command: Callable[[Path, Path], tuple[list[str], list[str]]]  # from tool and source to how to build and how to run
    fault: tuple[str, str, str]


def compiled(*options: str, after: tuple[str, ...] = ()) -> Callable[[Path, Path], tuple[list[str], list[str]]]:
    def command(tool: Path, source: Path) -> tuple[list[str], list[str]]:
        program = str(source.with_suffix(".exe"))
        return [str(tool), *options, "-o", program, str(source), *after], [program]

    return command


def interpreted(tool: Path, source: Path) -> tuple[list[str], list[str]]:
    return [], [str(tool), str(source)]


CASES = {
    "c": Port(
        "c/attention.c", "cc", compiled("-O2", "-std=c99", after=("-lm",)),
        ("sqrt((double)d_k)", "(double)d_k", "scale_by_d"),
    ),
    "rust": Port(
        "rust/attention.rs", "rustc", compiled("-O"),
        ("[j] != 0.0", "[j] == 0.0", "mask_inverted"),
    ),
    "js": Port(
        "js/attention.js", "node", interpreted,
        ("Math.exp(score - top)", "Math.exp(score - 0 * top)", "softmax_no_max"),
    ),
    "julia": Port(
        "julia/attention.jl", "julia", interpreted,
        ("scores ./ sqrt(d_k)", "scores ./ 1", "no_scale"),
    ),
}  # fmt: skip
each = pytest.mark.parametrize("name", CASES)


def tool_of(port: Port) -> Path:
    """The compiler or interpreter; without it the test is skipped, but a C compiler must be there where CI runs."""
    found = shutil.which(port.tool)
    if found is None:
        missing = f"{port.tool} is not installed"
        if port.tool == "cc" and os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return Path(found)


def built(port: Port, source: str, folder: Path) -> list[str]:
    """How to run a port whose source this is."""
    tool = tool_of(port)
    path = folder / Path(port.source).name
    path.write_text(source, encoding="utf-8")
    build, run = port.command(tool, path)
    if build:
        subprocess.run(build, check=True, timeout=TIMEOUT, cwd=folder)
    return run


def text_of(port: Port) -> str:
    return (PORTS / port.source).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Callable[[str], list[str]]:
    """The ports as they are, each built once."""
    known: dict[str, list[str]] = {}

    def program(name: str) -> list[str]:
        if name not in known:
            known[name] = built(CASES[name], text_of(CASES[name]), tmp_path_factory.mktemp(name))
        return known[name]

    return program


def expected_example() -> str:
    """What NumPy makes of the sentence: the article's own random numbers, to four decimals."""
    np.random.seed(42)
    X, W_Q, W_K, W_V = (np.random.randn(rows, 4).round(4) for rows in (7, 4, 4, 4))
    output, weights = attention(X @ W_Q, X @ W_K, X @ W_V, return_weights=True)

    def lines(rows: np.ndarray) -> list[str]:
        return [" ".join(f"{number:8.4f}" for number in row) for row in rows]

    return "\n".join([
        "远方有颗苹果树", "输入 X: (7, 4)", "查询 Q = X W_Q: (7, 4)", "键 K = X W_K: (7, 4)", "值 V = X W_V: (7, 4)",
        "1. 分数 scores = Q Kᵀ: (7, 7)", "2. 缩放 scaled = scores / √d_k: (7, 7)",
        "3. 权重 weights = softmax(scaled): (7, 7)", "4. 输出 output = weights V: (7, 4)",
        "远 weights[0]:", *lines(weights[:1]), "output:", *lines(output),
    ])  # fmt: skip


@each
def test_a_port_shows_the_sentence(name, programs):
    run = subprocess.run(programs(name), capture_output=True, encoding="utf-8", timeout=TIMEOUT, check=True)
    assert run.stdout.splitlines() == expected_example().splitlines()


@each
def test_a_port_is_judged_right(name, programs):
    verdict = check(TASK, cmd=shlex.join([*programs(name), "judge"]), timeout=TIMEOUT)
    assert (verdict.status, verdict.notes) == ("pass", ()), verdict.message


@each
def test_a_planted_fault_is_named(name, tmp_path):
    port = CASES[name]
    right, wrong, mistake = port.fault
    assert text_of(port).count(right) == 1
    program = built(port, text_of(port).replace(right, wrong), tmp_path)
    verdict = check(TASK, cmd=shlex.join([*program, "judge"]), timeout=TIMEOUT)
    assert (verdict.mistakes, verdict.match) == ((mistake,), "exact")


@each
def test_what_is_not_finite_travels_as_text(name, programs):
    """A hidden key may hold anything; a visible NaN shows."""
    question = (
        '{"task": "scaled_dot_product_attention", "arguments": {"Q": [[1], ["NaN"]], "K": [[2], ["Infinity"]],'
        ' "V": [[3], ["-Infinity"]], "mask": [[true, false], [true, false]]}}'
    )
    command = [*programs(name), "judge"]
    run = subprocess.run(command, input=question, capture_output=True, encoding="utf-8", timeout=TIMEOUT, check=True)
    answer = "".join(run.stdout.split()).replace(".0", "")
    assert answer == '{"result":[[[3],["NaN"]],[[1,0],["NaN",0]]]}'


@each
@pytest.mark.parametrize(
    "question",
    [
        "",
        "{",
        '{"task": "softmax", "arguments": {"x": [1]}}',
        '{"task": "scaled_dot_product_attention", "arguments": {"Q": [[1, 2], [3]], "K": [[1, 2]], "V": [[1]]}}',
        '{"task": "scaled_dot_product_attention", "arguments": {"Q": [[1, 2]], "K": [[1]], "V": [[1]]}}',
    ],
)
def test_a_wrong_question_is_refused_in_one_line(name, question, programs):
    command = [*programs(name), "judge"]
    run = subprocess.run(command, input=question, capture_output=True, encoding="utf-8", timeout=TIMEOUT, check=False)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("attention: ")
    assert run.stderr.count("\n") == 1


def test_the_two_readmes_say_the_same_commands():
    english, chinese = ((PORTS / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md"))
    shown = [[line for line in text.splitlines() if line.startswith(("qkv ", "```"))] for text in (english, chinese)]
    assert shown[0] == shown[1]
    for port in CASES.values():
        assert port.source in english
        assert port.source in chinese
