"""What a configuration says of the head on top: which task it is for, and the labels of one that classifies."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import Config

PROBLEMS = ("single_label_classification", "multi_label_classification", "regression")
MOST_LABELS = 1_000_000


@dataclass(frozen=True)
class ClassifierSettings:
    """What a head that classifies whole texts says.

    Attributes
    ----------
    labels : tuple of str
    problem : {"single_label_classification", "multi_label_classification", "regression"}
        One of the labels, each for itself, or numbers.
    pooling : {"cls", "mean"}
        How the vectors of tokens become the one that is classified.
    """

    labels: tuple[str, ...]
    problem: str
    pooling: str = "cls"


def read_classifier(config: Config) -> ClassifierSettings | None:
    """The labels of a model that was written with a head for whole texts.

    Raises
    ------
    FileError
        config_value as `read_labels`, for labels that share a name, or an unknown problem.
    """
    if not made_for(config, "SequenceClassification"):
        return None
    labels = read_labels(config)
    if len(set(labels)) < len(labels):
        raise config.wrong("id2label", "different names")
    problem = config.raw("problem_type", None) or ("regression" if len(labels) == 1 else PROBLEMS[0])
    if problem not in PROBLEMS:
        raise config.wrong("problem_type", f"one of {', '.join(PROBLEMS)}")
    return ClassifierSettings(labels, problem)


def read_labels(config: Config) -> tuple[str, ...]:
    """The names of the labels by their numbers; where the file has none, as many as it says, or two.

    Raises
    ------
    FileError
        config_value for labels that are not numbered from 0, or have no name.
    """
    named = config.raw("id2label", None)
    if named is None:
        return tuple(f"LABEL_{i}" for i in range(config.integer("num_labels", high=MOST_LABELS, default=2)))
    if not isinstance(named, dict) or set(named) != {str(i) for i in range(len(named))} or not named:
        raise config.wrong("id2label", "a name for each number from 0")
    labels = tuple(named[str(i)] for i in range(len(named)))
    if not all(isinstance(label, str) for label in labels):
        raise config.wrong("id2label", "a name for each number from 0")
    return labels


def made_for(config: Config, task: str) -> bool:
    """Whether the file names an architecture with the head of this task."""
    return any(name.endswith(f"For{task}") for name in config.architectures)
