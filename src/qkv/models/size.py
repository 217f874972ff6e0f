"""How large a model is and what it costs to run, from its settings alone: no weight is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, FileError
from ..io.config import Config
from ..io.files import is_pickle, there
from ..io.fp8 import read_block
from ..io.gguf.file import is_gguf, open_gguf
from ..io.gguf.models import architecture_of, family_of, read_settings
from ..io.shards import INDEX, open_model
from ..io.weights import Family, Tensors
from ..ops.valid import integer
from .counting import PARTS, Count, count
from .families import family_in
from .stacks import Looking, Stack, stacks_of

BITS = (32, 16, 8)
CACHES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}  # bytes a number
SCALE = 4  # bytes of the scale that each row of a cache has in int8
USUAL = 4096  # tokens, where nothing else is asked for


@dataclass(frozen=True)
class Part:
    """A part of a model: how many numbers it has, and through how many of them one token goes."""

    name: str
    total: int
    active: int


@dataclass(frozen=True)
class Size:
    """How large a model is and what it costs to run.

    Attributes
    ----------
    path : Path
    model_type : str
    parts : tuple of Part
        Those that it has, of `qkv.models.counting.PARTS`.
    stored : int or None
        How many bytes its tensors take in the file; None where there is only a configuration.
    longest : int or None
        The most tokens it takes at once; None: no end.
    length, n_source : int
        For how many tokens the rest is said, and how many the other sequence of an encoder-decoder has.
    batch : int
        For how many sequences.
    dtype : str
        What the cache is kept in.
    cache_token, cache_length, cache_source : int or None
        Bytes of the cache: for each token of one sequence as long as no window is full, for `length` tokens of each
        sequence, and for what the sources leave behind. None where nothing is written.
    flops_token : int
        Of one more token that looks at `length` keys, its own included.
    flops_length : int
        Of `batch` sequences of `length` tokens (their sources included) read at once, with one row of logits each.
    """

    path: Path
    model_type: str
    parts: tuple[Part, ...]
    stored: int | None
    longest: int | None
    length: int
    n_source: int
    batch: int
    dtype: str
    cache_token: int | None
    cache_length: int | None
    cache_source: int | None
    flops_token: int
    flops_length: int

    @property
    def total(self) -> int:
        """How many numbers the model has."""
        return sum(part.total for part in self.parts)

    @property
    def active(self) -> int:
        """Through how many of them one token goes: with experts, fewer."""
        return sum(part.active for part in self.parts)

    def nbytes(self, bits: int) -> int:
        """How many bytes all numbers take, at so many bits each."""
        return self.total * bits // 8


def size(
    path: str | os.PathLike[str], *, length: int | None = None, batch: int = 1, dtype: str = "float16"
) -> Size:  # fmt: skip
    """How large a model is and what it costs to run. No weight is read.

    Parameters
    ----------
    path : path_like
        A directory with a `config.json` (and, for what is stored, the weights), such a JSON file, or a GGUF file.
    length : int, optional
        For how many tokens; by default 4096, or as many as the model takes if that is fewer.
    batch : int
        For how many sequences.
    dtype : {"float32", "float16", "bfloat16", "int8"}
        What the cache is kept in; int8 has a float32 scale for each row.

    Returns
    -------
    Size

    Raises
    ------
    FileError
        As `qkv.load`, for a file or setting that is not understood.
    ArgumentError
        For a length, batch or dtype that cannot be.

    Notes
    -----
    A number of a matrix that a token goes through costs 2 FLOPs, a multiplication and an addition; and each key that
    it looks at costs, in each head, 2 (d_k + d_v): one product for the score, one for the sum of values (Kaplan et
    al., arXiv 2001.08361, section 2.1 and table 1, where causal attention counts at half a full context). Norms,
    activations, softmax and biases are left out, as there.
    """
    if dtype not in CACHES:
        raise ArgumentError("choice", name="dtype", choices=", ".join(CACHES), value=dtype)
    batch = integer("batch", batch, 1)
    length = None if length is None else integer("length", length, 1)
    with _opened(there(Path(path))) as (model_type, family, settings, file):
        stacks = stacks_of(settings)
        names = {} if file is None else {family.canonical(name): name for name in file.shapes}
        found = count(family.rows(settings, names.keys()), settings, tuple(stack.name for stack in stacks))
        stored = None if file is None else sum(file.size(name) for name in file.shapes)
    source, last = stacks[0], stacks[-1]
    if length is not None and last.fixed:
        raise ArgumentError("unused", name="length", reason="every image has as many patches")
    asked = length or min(USUAL, last.longest or USUAL)
    n = last.length(asked) if last.fixed else asked
    n_source = source.length(asked) if len(stacks) > 1 else 0
    return Size(
        Path(path), model_type,
        tuple(Part(name, found.total[name], found.active[name]) for name in PARTS if found.total[name]),
        stored, last.longest, n, n_source, batch, dtype, *_cache(last, n, n_source, batch, dtype),
        flops_token=_one_more(found, last, n, n_source), flops_length=batch * _at_once(found, stacks, n, n_source),
    )  # fmt: skip


@contextmanager
def _opened(path: Path) -> Iterator[tuple[str, Family[Any], Any, Tensors | None]]:
    """The family and settings of what lies there, and the file of its tensors, where there is one."""
    if path.is_file() and is_gguf(path):
        with open_gguf(path) as file:
            name = architecture_of(file)
            yield name, family_of(file), read_settings(file), file
        return
    if path.is_file() and is_pickle(path, b""):
        raise FileError("pickle", path=path)
    config = Config(path / "config.json" if path.is_dir() else path)
    (family, _), _ = family_in(config)
    read_block(config)  # how weights are packed, which changes none of their numbers
    settings = family.settings(config)
    weights = path / "model.safetensors"
    for file_path in (weights, weights.with_name(weights.name + INDEX)):
        if path.is_dir() and file_path.exists():
            with open_model(file_path) as file:
                yield family.model_type, family, settings, file
            return
    yield family.model_type, family, settings, None


def _cache(stack: Stack, n: int, n_source: int, batch: int, dtype: str) -> tuple[int | None, int | None, int | None]:
    """Bytes of the cache for a token, for `n` tokens of each sequence, and of what the sources leave behind."""

    def nbytes(looking: Looking) -> int:
        return looking.kept * CACHES[dtype] + (looking.kept_rows * SCALE if dtype == "int8" else 0)

    if not stack.writes:
        return None, None, None
    own = [looking for looking in stack.lookings if not looking.crossed]
    crossed = [looking for looking in stack.lookings if looking.crossed]
    return (
        sum(map(nbytes, own)),
        batch * sum(nbytes(looking) * looking.keys(n, n_source) for looking in own),
        batch * n_source * sum(map(nbytes, crossed)) if crossed else None,
    )


def _one_more(found: Count, stack: Stack, n: int, n_source: int) -> int:
    """FLOPs of the last of `n` tokens, the others remembered."""
    matrices = found.each[stack.name] + (found.once[stack.name] if stack.writes else 0)
    return 2 * matrices + sum(one.keys(n, n_source) * one.flops(folded=True) for one in stack.lookings)


def _at_once(found: Count, stacks: tuple[Stack, ...], n: int, n_source: int) -> int:
    """FLOPs of a sequence of `n` tokens, with its source."""
    total = 0
    for stack in stacks:
        tokens = n if stack is stacks[-1] else n_source
        matrices = found.each[stack.name] * tokens + found.once[stack.name] + found.of_source[stack.name] * n_source
        total += 2 * matrices + sum(one.pairs(tokens, n_source) * one.flops() for one in stack.lookings)
    return total
