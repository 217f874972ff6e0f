"""What `check` says and shows: as a value, as text in the fixed order, as JSON, and on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from tests.judged import program

import qkv.views  # noqa: F401  (draws verdicts)
from qkv import words
from qkv.errors import ArgumentError, FileError
from qkv.judge import check
from qkv.judge.orders import order
from qkv.judge.process import Child
from qkv.judge.tasks import load
from qkv.views.cells import width
from qkv.views.screen import Screen
from qkv.views.verdict_text import number_rows, verdict_text

NO_SCALE = """
import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scaled_dot_product_attention(Q, K, V, mask=None):
    scores = Q @ K.swapaxes(-1, -2)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    return softmax(scores) @ V, softmax(scores)
"""
RIGHT = NO_SCALE.replace("swapaxes(-1, -2)", "swapaxes(-1, -2) / np.sqrt(Q.shape[-1])")
NAME = "scaled_dot_product_attention"


@pytest.fixture
def file(tmp_path):
    def write(source, name="mine.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return path

    return write


def qkv_check(*arguments, **how):
    environ = {**os.environ, "QKV_LANG": "en", "COLUMNS": "100"}
    command = [sys.executable, "-m", "qkv", "check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=30, check=False, **how)


# the same verdict, wherever the code runs


def test_a_file_and_a_function_get_the_same_verdict(file):
    here = check(NAME, program(NO_SCALE, NAME), lang="en")
    there = check(NAME, file(NO_SCALE), lang="en")
    assert here.to_json() == there.to_json()
    assert there.mistakes == ("no_scale",)


def test_the_function_is_found_by_its_name_or_by_the_one_given(file):
    path = file(RIGHT.replace(NAME, "mine"))
    missing = check(NAME, path, lang="en")
    assert (missing.status, missing.reason) == ("error", "missing")
    assert "mine" in missing.message
    assert check(NAME, path, function="mine").passed


def test_only_one_probe(file):
    verdict = check(NAME, file(NO_SCALE), only="low_scores")
    assert [result.name for result in verdict.results] == ["low_scores"]
    assert verdict.passed


def test_a_file_imports_from_its_own_folder(file):
    file("def half(x):\n    return x / x.sum(axis=-1, keepdims=True)\n", "beside.py")
    path = file("import numpy as np\nfrom beside import half\n\ndef softmax(x):\n    return half(x)\n")
    assert check("softmax", path, only="example").status == "wrong"


def test_what_an_attempt_prints_is_kept_apart(file):
    verdict = check("softmax", file("def softmax(x, axis=-1):\n    print('I am', x.ndim)\n    return x\n"))
    assert "I am 2" in verdict.printed
    assert "I am 2" in verdict_text(verdict)


def test_two_mistakes_at_once_are_a_pair():
    source = NO_SCALE.replace("np.where(mask, scores, -np.inf)", "np.where(mask, -np.inf, scores)")
    verdict = check(NAME, program(source, NAME), lang="en")
    assert (verdict.match, set(verdict.mistakes)) == ("pair", {"no_scale", "mask_inverted"})


def test_a_random_function_gets_no_name():
    source = "import numpy as np\n\ndef f(Q, K, V, mask=None):\n    w = np.tanh(Q @ K.mT) / 3\n    return w @ V, w\n"
    verdict = check(NAME, program(source, "f"), lang="en")
    assert (verdict.status, verdict.match, verdict.mistakes) == ("wrong", "none", ("no_match",))
    assert "rows_sum" in verdict.properties


def test_a_missing_result_is_a_wrong_shape():
    source = RIGHT.replace("return softmax(scores) @ V, softmax(scores)", "return softmax(scores) @ V")
    assert check(NAME, program(source, NAME)).mistakes == ("wrong_shape",)


def test_a_function_without_return_is_told_so():
    verdict = check("softmax", program("def softmax(x, axis=-1):\n    x + 1\n", "softmax"), lang="en")
    assert verdict.mistakes == ("returns_nothing",)
    assert "returns nothing" in verdict_text(verdict)


def test_a_constant_of_any_size_is_found():
    source = NO_SCALE.replace("swapaxes(-1, -2)", "swapaxes(-1, -2) / 3.7")
    assert check(NAME, program(source, NAME)).mistakes == ("scale_hard_coded",)


def test_conventions_are_noted_not_failed():
    source = RIGHT.replace("-np.inf", "-1e9")
    verdict = check(NAME, program(source, NAME))
    assert verdict.passed
    assert verdict.notes == ("uniform_on_masked_row", "float64_for_float32")
    exact = source.replace("np.sqrt(Q.shape[-1])", "Q.shape[-1] ** 0.5").replace("-1e9", "np.array(-1e9, Q.dtype)")
    assert check(NAME, program(exact, NAME)).notes == ("uniform_on_masked_row",)


# what is shown


def test_the_first_step_is_the_learners_own_value_with_its_line(file):
    step = check(NAME, file(NO_SCALE)).first_step
    assert (step.name, step.variable, step.line) == ("scaled", "scores", 11)
    np.testing.assert_allclose(step.yours, step.expected * np.sqrt(2))


def test_an_unknown_mistake_has_a_first_step_too(file):
    path = file(RIGHT.replace("np.where(mask, scores, -np.inf)", "np.where(mask, scores, 1e9)"))
    verdict = check(NAME, path)
    assert verdict.mistakes == ("no_match",)
    assert (verdict.first_step.name, verdict.first_step.variable, verdict.first_step.line) == ("masked", "scores", 13)


def test_an_error_names_its_file_and_line(file):
    verdict = check(NAME, file(NO_SCALE.replace("Q @ K", "Q @@ K")), lang="en")
    assert (verdict.status, verdict.reason, verdict.failure.line) == ("error", "load", 11)
    verdict = check(NAME, file(NO_SCALE.replace("Q @ K", "Q @ W")), lang="en")
    assert (verdict.status, verdict.failure.type, verdict.failure.line) == ("error", "NameError", 11)
    assert "mine.py, line 11" in verdict_text(verdict)
    assert verdict.message == "ERROR: NameError: name 'W' is not defined"


ORDER = {
    "en": ["WRONG: 9 of 11", "not divided by", "Your output equals", "smallest failing", "expected", "First step",
           "These pass:", "These differ:", "Hint 1", "Hint 3", "Noted"],
    "zh": ["错误：11 个探针", "没有除以", "你的输出等于", "最小的出错", "应为", "最先不同",
           "这些通过", "这些不符", "提示 1", "提示 3", "记一笔"],
}  # fmt: skip


@pytest.mark.parametrize("lang", words.LANGUAGES)
@pytest.mark.parametrize("cells", [40, 60, 100])
def test_the_order_of_a_failure(lang, cells):
    text = verdict_text(check(NAME, program(NO_SCALE, NAME), lang=lang), Screen(width=cells), hints=3)
    places = [
        text.replace("\n", "").find(start.replace(" ", "")[:4]) if cells == 40 else text.find(start)
        for start in ORDER[lang]
    ]
    if cells > 40:
        assert -1 not in places
        assert places == sorted(places)
    assert max(width(line, Screen()) for line in text.splitlines()) <= cells


def test_the_fix_is_kept_for_the_last_hint():
    verdict = check(NAME, program(NO_SCALE, NAME), lang="en")
    assert "np.sqrt" not in verdict_text(verdict, hints=2).replace("np.sqrt does", "")
    assert "np.sqrt(Q" in verdict_text(verdict, hints=3)


def test_numbers_are_written_as_short_as_they_are():
    assert number_rows(np.array([[1.0, 2.0]])) == ["1  2"]
    assert number_rows(np.array([0.25, np.nan])) == ["0.25   nan"]


def test_a_notebook_shows_nothing_that_acts():
    source = "def softmax(x, axis=-1):\n    raise ValueError('<script>')\n"
    html = check("softmax", program(source, "softmax"))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


# wrong calls


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"task": "nope", "attempt": np.exp}, ArgumentError), ({"task": "softmax"}, ArgumentError),
        ({"task": "softmax", "attempt": "no_such_file.py"}, FileError),
        ({"task": "softmax", "attempt": np.exp, "only": "nope"}, ArgumentError),
        ({"task": "softmax", "attempt": np.exp, "timeout": 0}, ArgumentError),
        ({"task": "softmax", "attempt": np.exp, "lang": "fr"}, ArgumentError),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_line(how, error):
    with pytest.raises(error) as raised:
        check(**how)
    assert "\n" not in str(raised.value)


# the command line

KEYS = ["task", "status", "mistakes", "match", "probes", "first_step", "notes", "message"]
CASES = {
    0: RIGHT,
    1: NO_SCALE,
    2: "def scaled_dot_product_attention(Q, K, V, mask=None):\n    return Q @ undefined\n",
    3: "while True:\n    pass\n",
}


@pytest.mark.parametrize("code", CASES)
def test_json_and_exit_codes(file, code):
    run = qkv_check(NAME, file(CASES[code]), "--json", "--timeout", "1.5")
    answer = json.loads(run.stdout)
    assert run.returncode == code
    assert list(answer) == KEYS
    assert answer["status"] == ["pass", "wrong", "error", "timeout"][code]
    assert answer["probes"]["total"] == 11
    assert (answer["mistakes"], answer["first_step"]) == ((["no_scale"], "scaled") if code == 1 else ([], None))
    assert run.stderr == ""


@pytest.mark.parametrize(
    "arguments", [["nope", "x.py"], [NAME, "no_such.py"], [NAME], [NAME, "x.py", "--lang", "fr"], [NAME, "--nope"]]
)
def test_a_wrong_call_ends_with_64(arguments):
    run = qkv_check(*arguments)
    assert run.returncode == 64
    assert run.stderr.startswith("Error: ")
    assert run.stdout == ""


PORT = """
import json, math, sys

given = json.load(sys.stdin)


def softmax(row):
    row = [-math.inf if x == "-Infinity" else x for x in row]
    top = max(row)
    exps = [math.exp(x - top) for x in row]
    return [e / sum(exps) for e in exps]


def along(x, axis):
    if axis == 0 and isinstance(x[0], list):
        return [list(row) for row in zip(*(softmax(column) for column in zip(*x)))]
    return [along(row, axis) for row in x] if isinstance(x[0], list) else softmax(x)


assert given["task"] == "softmax"
print(json.dumps({"result": along(given["arguments"]["x"], given["arguments"].get("axis", -1))}))
"""


def test_a_program_in_any_language(file):
    port = file(PORT)
    assert check("softmax", cmd=f"{sys.executable} {port}").passed
    wrong = file(PORT.replace("e / sum(exps)", "e / 2"), "wrong.py")
    assert check("softmax", cmd=f"{sys.executable} {wrong}").status == "wrong"
    loop = file("while True: pass", "loop.py")
    assert check("softmax", cmd=f"{sys.executable} {loop}", timeout=0.5).status == "timeout"
    silent = file("print('hello')", "silent.py")
    verdict = check("softmax", cmd=f"{sys.executable} {silent}", lang="en")
    assert verdict.status == "error"
    assert "standard output" in verdict.message
    broken = file("import sys; sys.exit('no luck')", "broken.py")
    assert "no luck" in check("softmax", cmd=f"{sys.executable} {broken}").message
    assert check("softmax", cmd="no-such-program").status == "error"


def test_a_stateful_program_gets_the_whole_sequence(file):
    port = file("""
        import json, math, sys

        given = json.load(sys.stdin)["arguments"]
        keys, values, outputs = [], [], []
        for call in given:
            rows = []
            for q, k, v in zip(call["q"], call["k"], call["v"]):
                keys.append(k)
                values.append(v)
                s = [sum(x * y for x, y in zip(q, key)) / math.sqrt(len(q)) for key in keys]
                e = [math.exp(x - max(s)) for x in s]
                rows.append([sum(w * row[c] for w, row in zip(e, values)) / sum(e) for c in range(len(v))])
            outputs.append(rows)
        print(json.dumps({"result": outputs}))
    """)
    assert check("kv_cache", cmd=f"{sys.executable} {port}").passed


def test_watching_judges_again_after_a_save(file):
    path = file(NO_SCALE)
    command = [sys.executable, "-m", "qkv", "check", NAME, str(path), "--watch", "--lang", "en"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=0)
    try:
        assert process.stdin is not None
        until(process, "Waiting for mine.py")
        process.stdin.write("h")
        assert "Hint 1" in until(process, "Waiting for mine.py")
        path.write_text(RIGHT)
        assert "PASS" in until(process, "Waiting for mine.py")
        process.stdin.write("q")
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.communicate()


def test_watching_keeps_attempts_starts_anew_and_goes_on(file, tmp_path):
    path = file(NO_SCALE.replace(NAME, "mine"))
    environ = {**os.environ, "QKV_DATA": str(tmp_path / "data"), "QKV_LANG": "en"}
    command = [sys.executable, "-m", "qkv", "check", NAME, str(path), "--watch", "--function", "mine"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=0, env=environ)
    following = order("interview")[(order("interview").index(NAME) + 1) % len(order("interview"))]
    try:
        assert process.stdin is not None
        assert "not divided" in until(process, "Waiting for mine.py")
        process.stdin.write("r")
        assert "nothing is written yet" in until(process, "Waiting for mine.py")
        assert path.read_text() == load(NAME).starter("en")
        assert (tmp_path / "mine_before.py").read_text() == textwrap.dedent(NO_SCALE.replace(NAME, "mine"))
        process.stdin.write("n")
        assert "nothing is written yet" in until(process, f"Waiting for {following}.py")
        assert (tmp_path / f"{following}.py").read_text() == load(following).starter("en")
        process.stdin.write("q")
        assert process.wait(timeout=10) == 2
    finally:
        process.kill()
        _, said = process.communicate()
    assert "what you had is kept as mine_before.py" in said
    tasks = json.loads((tmp_path / "data" / "progress.json").read_text())["tasks"]
    assert (tasks[NAME]["attempts"], tasks[NAME]["solved"], tasks[following]["attempts"]) == (2, None, 1)


def test_the_next_task_keeps_a_file_that_is_there(file, tmp_path):
    names_in_order = order("interview")
    path = file(NO_SCALE, f"{names_in_order[-1]}.py")
    file("def softmax(x, axis=-1):\n    return x\n", f"{names_in_order[0]}.py")
    command = [sys.executable, "-m", "qkv", "check", names_in_order[-1], str(path), "--watch", "--lang", "en"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=0)
    try:
        assert process.stdin is not None
        until(process, "Waiting for")
        process.stdin.write("n")
        until(process, f"Waiting for {names_in_order[0]}.py")
        assert "return x" in (tmp_path / f"{names_in_order[0]}.py").read_text()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("start", "says"), [("import no_such_module", "No module named"), ("raise SystemExit(7)", "-")]
)
def test_a_process_that_cannot_start_is_told_apart(file, monkeypatch, start, says):
    monkeypatch.setattr("qkv.judge.process.START", start)
    verdict = check(NAME, file(RIGHT), lang="en")
    assert (verdict.status, verdict.reason, verdict.exit_code) == ("timeout", "no_start", 3)
    assert "ended before it began (exit code" in verdict.message
    assert says in verdict.message


def until(process, text):
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"{text!r} never came: {lines}")


# speed


def test_a_warm_child_is_quick(file):
    path = file(RIGHT)
    check(NAME, path)
    with Child() as child:
        time.sleep(1)
        begun = time.perf_counter()
        assert check(NAME, path, child=child).passed
        assert time.perf_counter() - begun < 0.5
