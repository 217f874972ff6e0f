"""Programs that mean no good, or do not know better: a clear verdict each, and nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.judged import is_alive

from qkv.judge import check

RIGHT = """
import numpy as np


def softmax(x, axis=-1):
    exp = np.exp(x - x.max(axis=axis, keepdims=True))
    return exp / exp.sum(axis=axis, keepdims=True)
"""
MARK = "QKV_HOSTILE_TEST"
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl")


@pytest.fixture
def judge(tmp_path, tmp_path_factory, monkeypatch):
    """Judge a program that is written to a file, and see that the folder it ran in is gone."""
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv(MARK, str(temporary))

    def run(source, timeout=10.0):
        file = tmp_path / "mine.py"
        file.write_text(source.replace("HERE", repr(str(tmp_path))), encoding="utf-8")
        return check("softmax", file, lang="en", timeout=timeout)

    yield run
    assert list(temporary.iterdir()) == []


def test_a_right_answer_passes(judge):
    assert judge(RIGHT).status == "pass"


# what does not end, and what is too much


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("def softmax(x, axis=-1):\n    while True:\n        pass\n", "probe example"),
        ("while True:\n    pass\n", "before the first probe"),
        ("import time\n\ndef softmax(x, axis=-1):\n    time.sleep(60)\n", "probe example"),
        ("def softmax(x, axis=-1):\n    while True:\n        try:\n            while True: pass\n"
         "        except BaseException: pass\n", "probe example"),
        ("import signal\nfor s in (signal.SIGTERM, signal.SIGINT, signal.SIGXCPU):\n"
         "    signal.signal(s, signal.SIG_IGN)\n"
         "def softmax(x, axis=-1):\n    while True: pass\n", "probe example"),
    ],
)  # fmt: skip
def test_an_endless_program_is_ended(judge, source, place):
    begun = time.monotonic()
    verdict = judge(source, timeout=0.6)
    assert time.monotonic() - begun < 4
    assert (verdict.status, verdict.reason, verdict.exit_code) == ("timeout", "time", 3)
    assert place in verdict.message


@pytest.mark.parametrize("place", ["sys.stdout", "sys.stderr"])
def test_endless_output_is_ended(judge, place):
    loop = f"    while True:\n        print('x' * 100000, file={place})\n"
    verdict = judge(f"import sys\n\ndef softmax(x, axis=-1):\n{loop}", timeout=8)
    assert verdict.exit_code in (2, 3)
    assert verdict.status == "timeout"
    assert verdict.reason == "output"
    assert len(verdict.printed) <= 500


def test_too_much_memory_is_refused(judge):
    verdict = judge("import numpy as np\n\ndef softmax(x, axis=-1):\n    return np.ones((1 << 18, 1 << 18))\n")
    assert (verdict.status, verdict.reason) == ("timeout", "memory")


def test_endless_recursion_is_an_error_with_its_line(judge):
    verdict = judge("def softmax(x, axis=-1):\n    return softmax(x, axis)\n")
    assert verdict.status == "error"
    assert verdict.failure.type == "RecursionError"
    assert verdict.failure.line == 2


# what ends itself


@pytest.mark.parametrize("how", ["os._exit(0)", "os._exit(7)"])
def test_a_program_that_ends_itself(judge, how):
    verdict = judge(f"import os\n\ndef softmax(x, axis=-1):\n    {how}\n")
    assert (verdict.status, verdict.reason, verdict.exit_code) == ("error", "exited", 2)
    assert "probe example" in verdict.message


@pytest.mark.parametrize("how", ["sys.exit(0)", "raise SystemExit", "raise KeyboardInterrupt", "exit()"])
def test_an_exit_is_an_error(judge, how):
    assert judge(f"import sys\n\ndef softmax(x, axis=-1):\n    {how}\n").exit_code == 2


def test_an_exit_while_loading_is_an_error(judge):
    verdict = judge("import sys\nsys.exit(0)\n")
    assert (verdict.status, verdict.reason) == ("error", "load")
    assert verdict.failure.line == 2


def test_a_crash_of_the_interpreter(judge):
    verdict = judge("import ctypes\n\ndef softmax(x, axis=-1):\n    ctypes.string_at(0)\n")
    assert (verdict.status, verdict.reason) == ("timeout", "killed")


@linux
def test_a_program_that_kills_its_keeper(judge):
    kill = "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(30)\n"
    begun = time.monotonic()
    verdict = judge(kill)
    assert time.monotonic() - begun < 5
    assert (verdict.status, verdict.reason) == ("timeout", "killed")


# what lies


PATCHES = """
import builtins, math
np.allclose = np.array_equal = np.isclose = lambda *a, **k: True
np.ndarray.all if False else None
np.asarray = lambda *a, **k: 0
np.array_equal = lambda *a: True
math.sqrt = lambda x: 1.0
builtins.all = builtins.any = lambda *a: True
builtins.isinstance_ = isinstance
"""
WRONG = "\ndef softmax(x, axis=-1):\n    return x * 0.5\n"


def test_patching_numpy_helps_nobody(judge):
    verdict = judge("import numpy as np\n" + PATCHES + WRONG)
    assert verdict.status != "pass"


LIARS = {
    "equal_to_all": "class Liar(np.ndarray):\n    def __eq__(self, other): return np.ones(self.shape, bool)\n"
    "    def __array__(self, *a, **k): return np.exp(np.ones(3))\n"
    "def softmax(x, axis=-1):\n    return np.zeros(x.shape).view(Liar)\n",
    "shape": "class Liar(np.ndarray):\n    @property\n    def shape(self): return (3,)\n"
    "def softmax(x, axis=-1):\n    return np.zeros((2, 2)).view(Liar)\n",
    "number": "class Liar(float):\n    def __eq__(self, other): return True\n"
    "    def __float__(self): return 1.0\ndef softmax(x, axis=-1):\n    return Liar(0)\n",
}


@pytest.mark.parametrize("name", LIARS)
def test_a_result_that_lies_is_not_believed(judge, name):
    verdict = judge("import numpy as np\n" + LIARS[name])
    assert verdict.status in ("wrong", "error")
    assert verdict.failed == len(verdict.results)


@pytest.mark.parametrize(
    "value",
    ["lambda: 0", "open('f', 'w')", "{1, 2}", "'text'", "None", "object()", "np.array([{}], object)", "10**400",
     "x.tolist", "[[1.0], [2.0, 3.0]]", "(i for i in x)", "{'a': x}", "np.array(['a'])", "1j * x",
     "[[[[[[[[[[[[1]]]]]]]]]]]]", "np.zeros(x.shape, 'M8[s]')", "np.ma.masked_array(x, True)", "np.matrix(np.eye(2))"],
)  # fmt: skip
def test_a_result_of_a_wrong_kind_is_wrong(judge, value):
    verdict = judge(f"import numpy as np\n\ndef softmax(x, axis=-1):\n    return {value}\n")
    assert verdict.status == "wrong"
    assert verdict.match == "none"
    assert str(verdict)


def test_results_written_by_hand_do_not_pass(judge):
    forge = (
        "import os, json\nfor fd in range(3, 20):\n    try:\n        os.write(fd, b'%s')\n    except OSError: pass\n"
    )
    value = '{"probe": 0, "value": {"array": ["<f8", [9], "AAAA"]}}'
    lines = [value, "[[[[", '{"probe": "x"}', '{"ended": 0}', '{"status": "pass"}', ""]
    verdict = judge(forge.replace("%s", "\\n".join(lines)) + "os._exit(0)\n")
    assert verdict.status != "pass"


def test_a_changed_input_is_seen_and_does_not_spoil_the_expected_answer(judge):
    verdict = judge(RIGHT.replace("    exp =", "    x = x\n    x -= x.max(axis=axis, keepdims=True)\n    exp ="))
    assert verdict.mistakes == ("mutates_input",)


# what stays


@linux
@pytest.mark.parametrize(
    "start",
    [
        "subprocess.Popen(['sleep', '60'])",
        "subprocess.Popen(['sleep', '60'], start_new_session=True)",
        "subprocess.Popen(['sleep', '60'], start_new_session=True, env={})",
        "subprocess.Popen('sleep 60 & sleep 60 &', shell=True, start_new_session=True)",
    ],
)
def test_no_process_stays(judge, start, tmp_path):
    marker = "sleep 60"
    before = running(marker)
    verdict = judge(f"import subprocess\n{start}\n{RIGHT}")
    assert verdict.status == "pass"
    assert running(marker) - before == set()


@linux
def test_a_daemon_does_not_stay(judge, tmp_path):
    daemon = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        "        print(os.getpid(), flush=True)\n        time.sleep(60)\n"
        "    os._exit(0)\ntime.sleep(0.2)\n"
    )
    verdict = judge(daemon + "def softmax(x, axis=-1):\n    return x\n")
    assert verdict.status == "wrong"
    pid = int(verdict.printed.split()[0])
    assert not is_alive(pid)


def test_a_thread_does_not_keep_the_judge_waiting(judge):
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
    begun = time.monotonic()
    assert judge(thread + RIGHT).status == "pass"
    assert time.monotonic() - begun < 5


@linux
def test_a_fork_bomb_is_ended(judge):
    bomb = "import os, time\nfor _ in range(40):\n    if os.fork() == 0:\n        time.sleep(60)\n        os._exit(0)\n"
    verdict = judge(bomb + RIGHT)
    assert verdict.status in ("pass", "error", "timeout")
    assert started_by_this_test() == set()


def running(words):
    return with_in("cmdline", lambda data: words in data.replace(b"\0", b" ").decode())


def started_by_this_test():
    """The processes that still run with the environment of this test: others may judge at the same time."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    return with_in("environ", lambda data: mark in data.split(b"\0"))


def with_in(file, is_sought):
    """The living processes of which a file in /proc holds what is sought."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if is_sought((folder / file).read_bytes()) and is_alive(int(folder.name)):
                    found.add(int(folder.name))
    return found


# where it writes


@pytest.mark.parametrize(
    "write",
    ["open(HERE + '/out.txt', 'w')", "open(HERE + '/mine.py', 'a')", "os.remove(HERE + '/mine.py')",
     "os.rename(HERE + '/mine.py', HERE + '/other.py')", "pathlib.Path(HERE, 'out.txt').write_text('x')",
     "os.mkdir(HERE + '/d')"],
)  # fmt: skip
def test_writing_outside_its_folder_is_refused(judge, write, tmp_path):
    verdict = judge(f"import os, pathlib\n\ndef softmax(x, axis=-1):\n    {write}\n    return x\n")
    assert verdict.status == "error"
    assert verdict.failure.type == "PermissionError"
    assert verdict.failure.line == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py"]


def test_writing_in_its_own_folder_is_allowed_up_to_a_limit(judge):
    write = "open('note.txt', 'w').write('x')\n"
    assert judge(write + RIGHT).status == "pass"
    verdict = judge("with open('big', 'wb') as f:\n    while True:\n        f.write(b'x' * 1000000)\n")
    assert verdict.status in ("error", "timeout")


def test_the_judge_is_unharmed():
    assert signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, signal.default_int_handler)
    assert os.getcwd()
    assert sys.gettrace() is None or "coverage" in str(sys.gettrace())
