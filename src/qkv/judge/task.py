"""What a task is: values alone. How one is written stands in `qkv.judge.tasks`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import CodeType
from typing import Any

from .calls import Calls
from .wire import arrays

Function = Callable[..., Any]
Arguments = Mapping[str, Any]

FORMULAS: set[CodeType] = set()


@dataclass(frozen=True)
class Text:
    """One sentence or phrase in every language.

    Examples
    --------
    >>> Text(en="scores", zh="分数")["zh"]
    '分数'
    """

    en: str
    zh: str

    def __getitem__(self, lang: str) -> str:
        return str(getattr(self, lang))


@dataclass(frozen=True)
class Probe:
    """One input, or for a class one sequence of calls.

    Attributes
    ----------
    name : str
        One lower-case word or a few with underscores, for `--only`.
    arguments : mapping of str to any, or tuple of such mappings
        By the names of the signature; what is left out at the end takes its default. A tuple: the calls of a class.
    tries : Text
        What this input finds out, in a phrase.
    note : str
        The id of the note to make when this probe fails. Such a probe never makes an answer wrong.
    numpy_only : bool
        Left out for code that works with PyTorch or JAX, which refuse or round what NumPy takes (integers).
    """

    name: str
    arguments: Arguments | tuple[Arguments, ...]
    tries: Text
    note: str = ""
    numpy_only: bool = False

    @property
    def size(self) -> int:
        """How many numbers go in."""
        calls = self.arguments if isinstance(self.arguments, tuple) else (self.arguments,)
        return sum(array.size for call in calls for array in arrays(list(call.values())))


@dataclass(frozen=True)
class Explained:
    """What is said of a mistake.

    Attributes
    ----------
    means : Text
        A sentence: what the code does.
    evidence : Text
        A noun phrase that ends "your output equals ...".
    hints : three Texts
        A question first, then the place, the fix last.
    """

    means: Text
    evidence: Text
    hints: tuple[Text, Text, Text]


@dataclass(frozen=True)
class Mistake:
    """A known wrong answer, in one or several forms.

    Attributes
    ----------
    id : str
    variations : tuple of callables
        Each takes what the reference takes. Best a `partial` of the task's formula with some steps exchanged: those can
        be joined, with each other (pairs) and with the conventions.
    explained : Explained or None
        None: what `qkv.judge.mistakes` says.
    fit : callable, optional
        From a probe and a value that a learner's function returned on it, the variation that would explain it.
    """

    id: str
    variations: tuple[Function, ...]
    explained: Explained | None = None
    fit: Callable[[Probe, Any], Function | None] | None = None


@dataclass(frozen=True)
class Convention:
    """A choice that the task leaves open: noted, never failed.

    Attributes
    ----------
    id : str
    variation : callable
        The answer under this convention.
    """

    id: str
    variation: Function


@dataclass(frozen=True)
class Property:
    """Something that every right answer has, said when no known mistake fits.

    Attributes
    ----------
    id : str
        A key of `judge.property`.
    fails : callable
        From the learner's values by probe name (those that came) to whether the property is broken.
    """

    id: str
    fails: Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class Line:
    """A line of a solution with what it does; several lines of code may share one explanation."""

    code: str
    en: str
    zh: str


@dataclass(frozen=True)
class Task:
    """Everything the judge knows of one exercise.

    Attributes
    ----------
    name : str
        The name of its file.
    signature : str
        As a call with defaults, `softmax(x, axis=-1)`, or the method of a class, `KVCache.step(q, k, v)`.
    returns : Text
        What comes back, with its shape.
    title, statement : Text
    reference : callable
        The right answer, by the public functions of qkv. For a class it takes the list of calls and returns the tuple
        of what they return; so do the formula and the variations.
    formula : callable
        The same, written out: its local variables are the steps that are shown, its keyword-only parameters the steps
        that a mistake exchanges.
    probes : tuple of Probe
        The first is the example that a person reads: two or three tokens. Every other one earns its place.
    mistakes : tuple of Mistake
    solution : tuple of Line
    styles : mapping of str to str
        Correct programs in other styles, by name.
    conventions : tuple of Convention
    properties : tuple of Property
    aliases : mapping of str to tuple of str
        What learners call the steps of the formula.
    """

    name: str
    signature: str
    returns: Text
    title: Text
    statement: Text
    reference: Function
    formula: Function
    probes: tuple[Probe, ...]
    mistakes: tuple[Mistake, ...]
    solution: tuple[Line, ...]
    styles: Mapping[str, str]
    conventions: tuple[Convention, ...] = ()
    properties: tuple[Property, ...] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def entry(self) -> str:
        """The name of the function or class."""
        return self.signature.partition("(")[0].partition(".")[0]

    @cached_property
    def method(self) -> str | None:
        """The method, when the task asks for a class."""
        return self.signature.partition("(")[0].partition(".")[2] or None

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The parameters in order with their defaults; `...` for one that must be given."""
        call = ast.parse(f"def f({self.signature.partition('(')[2]}: ...").body[0]
        assert isinstance(call, ast.FunctionDef)
        names = [argument.arg for argument in call.args.args]
        defaults = [ast.literal_eval(default) for default in call.args.defaults]
        return dict(zip(names, [...] * (len(names) - len(defaults)) + defaults))

    def calls(self, probe: Probe) -> Calls:
        """The positional arguments of each call that a probe makes."""
        given = probe.arguments if isinstance(probe.arguments, tuple) else (probe.arguments,)
        return [self._positional(one) for one in given]

    def _positional(self, arguments: Arguments) -> list[Any]:
        if unknown := arguments.keys() - self.parameters.keys():
            raise TypeError(f"{self.name}: no parameter {sorted(unknown)}")
        last = max(list(self.parameters).index(name) for name in arguments)
        return [arguments.get(name, default) for name, default in list(self.parameters.items())[: last + 1]]

    def probe(self, name: str) -> Probe:
        """The probe of that name."""
        return next(probe for probe in self.probes if probe.name == name)

    def starter(self, lang: str) -> str:
        """The file a learner begins with."""
        text = "".join(
            f"# {line}".rstrip() + "\n" for line in [self.title[lang], "", *self.statement[lang].split("\n")]
        )
        rest = self.signature.partition("(")[2]
        body = f"def {self.entry}({rest}:\n    raise NotImplementedError\n"
        if self.method:
            body = (
                f"class {self.entry}:\n    def __init__(self):\n        pass\n\n"
                f"    def {self.method}(self, {rest}:\n        raise NotImplementedError\n"
            )
        return f"{text}\nimport numpy as np\n\n\n{body}"

    @cached_property
    def solution_text(self) -> str:
        """The solution as a program."""
        return "import numpy as np\n\n\n" + "".join(line.code + "\n" for line in self.solution)


def formula(function: Function) -> Function:
    """Mark a function as written out step by step: its local variables are seen, in a mistake as in the reference."""
    FORMULAS.add(function.__code__)
    return function


def joined(one: Function, other: Function) -> Function | None:
    """Both changes of a formula at once; None where they exchange the same step, or are no changes of one formula.

    Examples
    --------
    >>> both = joined(partial(max, key=abs), partial(max, default=0))
    >>> both([]), both([-3, 2])
    (0, -3)
    """
    one, other = (f if isinstance(f, partial) else partial(f) for f in (one, other))
    if one.func is not other.func or one.args or other.args:
        return None
    both = dict(one.keywords)
    for name, step in other.keywords.items():
        if name in both:
            inner = joined(both[name], step) if isinstance(both[name], partial) and isinstance(step, partial) else None
            if inner is None:
                return None
            step = inner
        both[name] = step
    return partial(one.func, **both)


def within(outer: Function, step: str, *inner: Function) -> tuple[Function, ...]:
    """A formula that uses another one as a step, with each of these in its place."""
    return tuple(partial(outer, **{step: variation}) for variation in inner)
