"""The conformance cases that ONNX ships for its own operators, read once per process.

Every case is one node with its attributes, its named inputs and the outputs that are expected.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """One node. Inputs and outputs that the node leaves out have no entry."""

    name: str
    operator: str
    attributes: dict[str, Any]
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    rtol: float
    atol: float

    def __repr__(self) -> str:
        return self.name


@functools.cache
def all_cases() -> tuple[Case, ...]:
    """Every case of a single node, without those that repeat another one's data on an expanded graph."""
    from onnx.backend.test.loader import load_model_tests

    state = np.random.get_state()  # the loader seeds the global generator, and its casts overflow on purpose
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        loaded = load_model_tests(kind="node")
    np.random.set_state(state)
    return tuple(_read(case) for case in loaded if "_expanded" not in case.name and len(case.model.graph.node) == 1)


def cases(operator: str) -> tuple[Case, ...]:
    """The cases of one operator, by the name ONNX gives it."""
    return tuple(case for case in all_cases() if case.operator == operator)


def _read(case: Any) -> Case:
    from onnx.helper import get_attribute_value

    node = case.model.graph.node[0]
    attributes = {attribute.name: get_attribute_value(attribute) for attribute in node.attribute}
    inputs, outputs = case.data_sets[0]
    return Case(
        name=case.name.removeprefix("test_"),
        operator=node.op_type,
        attributes={name: value.decode() if isinstance(value, bytes) else value for name, value in attributes.items()},
        inputs=_named(node.input, inputs),
        outputs=_named(node.output, outputs),
        rtol=case.rtol,
        atol=case.atol,
    )


def _named(names: Any, arrays: Any) -> dict[str, np.ndarray]:
    """Slots that are empty strings have no array."""
    return dict(zip((name for name in names if name), arrays))
