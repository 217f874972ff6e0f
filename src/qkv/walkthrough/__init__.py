"""Attention on a sentence, step by step, as data."""

from .compare import Comparison, compare
from .parts import Heat, Line, Matrix, Part, Shapes, Step, Table, Word
from .see import Seen, see
from .setup import EXAMPLES, GENERATORS
from .showing import VIEWS
from .walk import Walkthrough, explain

__all__ = [
    "EXAMPLES",
    "GENERATORS",
    "VIEWS",
    "Comparison",
    "Heat",
    "Line",
    "Matrix",
    "Part",
    "Seen",
    "Shapes",
    "Step",
    "Table",
    "Walkthrough",
    "Word",
    "compare",
    "explain",
    "see",
]
