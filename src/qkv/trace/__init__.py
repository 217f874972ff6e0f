"""Seeing without touching: recording, editing and comparing what the ops computed."""

from . import edits
from .compare import Difference, first_difference
from .edits import edit
from .recording import record
from .trace import Entry, Trace

__all__ = ["Difference", "Entry", "Trace", "edit", "edits", "first_difference", "record"]
