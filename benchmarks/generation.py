"""`python -m benchmarks.generation MODEL.gguf [kv] [lookups] [passes] [prefix]`: what these cost and save."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from qkv.models import Decoder, Lookup, PrefixCache, load
from qkv.ops import log_softmax
from qkv.ops.settings import allowed_cores

from . import report

Row = dict[str, Any]
QUESTION = [{"role": "user", "content": "Explain to a child why the sky is blue and grass is green."}]
LIST = "one, two, three, four, five, six, seven\n" * 3


def kv(model: Decoder, quick: bool = False) -> list[Row]:
    """Of a text that the model wrote itself, drawn at temperature 1: how its probabilities move, and the memory."""
    prompt = model.read(model.chat_prompt(QUESTION))[0][0]
    new = model.generate(prompt, max_new_tokens=61 if quick else 384, temperature=1.0, seed=0)
    ids, table = np.array([*prompt, *new], np.intp), []
    exact = None
    for dtype in (None, "float16", "int8"):
        caches = model.new_caches(dtype)
        logits = log_softmax(model.logits(ids, caches)[:-1].astype(np.float64))
        exact = logits if exact is None else exact
        chosen = logits[np.arange(len(ids) - 1), ids[1:]][len(prompt) - 1 :]
        divergence = (np.exp(exact) * (exact - logits)).sum(axis=-1).mean()
        table.append({
            "keys and values": dtype or "float32", "tokens": len(ids), "perplexity": float(np.exp(-chosen.mean())),
            "mean KL divergence": f"{divergence:.1e}",
            "same likeliest token": float((exact.argmax(-1) == logits.argmax(-1)).mean()),
            "bytes a token": caches.nbytes / len(ids),
        })  # fmt: skip
    return table


def lookups(model: Decoder, quick: bool = False) -> list[Row]:
    """Greedy answers with and without proposals looked up in the text."""
    table, n = [], 13 if quick else 48
    for name, text in (("an explanation", model.chat_prompt(QUESTION)), ("a list, repeated", LIST)):
        prompt = model.read(text)[0][0]
        for drafted in (False, True):
            lookup, start = Lookup(), time.perf_counter()
            new = model.generate(prompt, max_new_tokens=n, draft=lookup if drafted else None)
            table.append({
                "text": name, "proposals": "looked up" if drafted else "none", "tokens": len(new),
                "passes": lookup.n_rounds or len(new), "accepted": lookup.acceptance if drafted else "",
                "seconds": time.perf_counter() - start,
            })  # fmt: skip
    return table


def passes(model: Decoder, quick: bool = False) -> list[Row]:
    """A pass over several tokens beside one over one, after 150: what a draft must save. The fastest of each."""
    ids, times = np.arange(100, 250), {n: [float("inf")] for n in (1, 2, 5, 9)}
    for _ in range(2 if quick else 9):
        for n, measured in times.items():  # in turn, so that a busy moment hits all alike
            caches = model.new_caches()
            model.forward(ids, caches)
            start = time.perf_counter()
            model.head(model.forward(ids[:n], caches))
            measured.append(time.perf_counter() - start)
    return [{"tokens": n, "ms": min(found) * 1e3, "of one": min(found) / min(times[1])} for n, found in times.items()]


def prefix(model: Decoder, quick: bool = False) -> list[Row]:
    """The second turn of a chat, whose first turn was long: until the first token comes."""
    text = "The quick brown fox jumps over the lazy dog. " * (3 if quick else 60)
    first = {"role": "user", "content": f"Read this: {text}"}
    turns = [first, {"role": "assistant", "content": "I have read it."}, {"role": "user", "content": "Who jumps?"}]
    cache, table = PrefixCache(model), []
    model.generate(model.chat_prompt(turns[:1]), max_new_tokens=1, cache=cache)
    for held in (None, cache):
        start = time.perf_counter()
        model.generate(model.chat_prompt(turns), max_new_tokens=1, cache=held)
        reused = cache.n_reused if held is not None else 0
        total = len(model.read(model.chat_prompt(turns))[0][0])
        table.append({"prefix cache": "yes" if held is not None else "no", "tokens": total, "reused": reused,
                      "seconds to the first token": time.perf_counter() - start})  # fmt: skip
    return table


MEASUREMENTS = {"kv": kv, "lookups": lookups, "passes": passes, "prefix": prefix}


def main(arguments: list[str]) -> None:
    model, quick = load(Path(arguments[0])), "--quick" in arguments
    asked = [word for word in arguments[1:] if word != "--quick"] or list(MEASUREMENTS)
    n_threads = int(os.environ.get("OMP_NUM_THREADS", allowed_cores()))
    with threadpool_limits(n_threads, user_api="blas"):
        for measure in map(MEASUREMENTS.__getitem__, asked):
            print(f"\n{measure.__name__}\n\n{report.markdown(measure(model, quick))}")


if __name__ == "__main__":
    main(sys.argv[1:])
