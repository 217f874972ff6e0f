"""Attention on a sentence, step by step, as data."""

from .compare import Comparison, compare
from .heads import Heads, heads_of
from .parts import Heat, Line, Matrix, Part, Shapes, Step, Table, Word
from .patching import Patching, patch_effects
from .reading import Reading, lens_of
from .see import Seen, see
from .see_both import KINDS, SeenBoth
from .setup import EXAMPLES, GENERATORS
from .showing import VIEWS
from .walk import Walkthrough, explain

__all__ = [
    "EXAMPLES",
    "GENERATORS",
    "KINDS",
    "VIEWS",
    "Comparison",
    "Heads",
    "Heat",
    "Line",
    "Matrix",
    "Part",
    "Patching",
    "Reading",
    "Seen",
    "SeenBoth",
    "Shapes",
    "Step",
    "Table",
    "Walkthrough",
    "Word",
    "compare",
    "explain",
    "heads_of",
    "lens_of",
    "patch_effects",
    "see",
]
