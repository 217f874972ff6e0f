"""Each setting of each family replaced by junk: it is understood, or refused by one line; nothing else ever happens."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.decoder_fixture import Copy

from qkv.errors import FileError, QkvError
from qkv.io.config import Config
from qkv.models.families import family_in

FILES = sorted((Path(__file__).parent / "data").glob("tiny*/*/config.json"))
JUNK: list[Any] = [None, -1, 0, 2, 1.5, 1e308, 1e-320, 10**30, "x", True, [], [None], [[1]], {}, {"x": 1}]
MORE = ("rope_scaling", "rope_parameters", "layer_types", "architectures", "id2label", "head_dim", "sliding_window")


def places(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in it, at any depth; of a list its first item."""
    items = values.items() if isinstance(values, dict) else enumerate(values[:1]) if isinstance(values, list) else ()
    for name, value in items:
        yield (*path, name)
        yield from places(value, (*path, name))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.parent.name}-{file.parent.name}")
def test_junk_in_a_setting_is_one_line(file: Path) -> None:
    known, n_refused = json.loads(file.read_text()), 0
    for path in dict.fromkeys([*places(known), *((name,) for name in MORE)]):
        for junk in JUNK:
            values = copy.deepcopy(known)
            at = values
            for name in path[:-1]:
                at = at[name]
            at[path[-1]] = junk
            config = Config(file, values)
            try:
                family_in(config)[0][0].settings(config)
                continue
            except FileError as error:
                line = str(error)
            n_refused += 1
            assert str(file) in line
            assert "\n" not in line
    assert n_refused > 100


@pytest.mark.parametrize("stretch", [{"short_factor": [1e-320, 1.0]}, {"original_max_position_embeddings": 1}])
def test_a_stretch_that_would_overflow(tmp_path: Path, stretch: dict[str, Any]) -> None:
    values = json.loads((FILES[0].parents[1] / "phi3" / "config.json").read_text())
    values["rope_parameters"] |= stretch
    values |= {name: stretch[name] for name in stretch if name in values}
    config = Config(tmp_path / "config.json", values)
    with pytest.raises(
        FileError, match=r"_factor' must be a list of positive|_embeddings' must be an integer of at lea"
    ):
        family_in(config)[0][0].settings(config)


def test_a_value_too_long_to_read_is_cut(tmp_path: Path) -> None:
    copied = Copy(tmp_path, "llama")
    copied.config(hidden_act="x" * 10**6)
    with pytest.raises(QkvError) as caught:
        copied.load()
    assert "'hidden_act' must be one of gelu" in str(caught.value)
    assert len(str(caught.value)) < 2100
