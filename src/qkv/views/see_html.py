"""What a model's heads did, as a page: the heads of one layer as maps, a table of all, one head in full."""

from __future__ import annotations

from .. import words
from ..walkthrough import Heat, Line, Part, Seen, SeenBoth
from .page_cells import element, escaped, sentence
from .sizes import map_side
from .walk_html import fragment_of, page_of, parts_html, step_html


def see_page(seen: Seen | SeenBoth) -> str:
    """A whole page."""
    title = words.say(seen.title.key, seen.lang, **seen.title.facts)
    return page_of(title, _body(seen, 1), seen.lang)


def see_fragment(seen: Seen | SeenBoth) -> str:
    """The same for a notebook's cell."""
    return fragment_of(_body(seen, 3), seen.lang)


def _body(seen: Seen | SeenBoth, level: int) -> str:
    sections = _both(seen) if isinstance(seen, SeenBoth) else [("", _of_layer(seen))]
    every = [part for _, parts in sections for part in parts]
    side = map_side([*every, *(part for step in seen.steps for part in (*step.parts, *step.details))])
    head = element(f"h{level}", sentence(seen.title.key, seen.lang, **seen.title.facts))
    shown = [head]
    for name, parts in sections:
        title = element(f"h{level + 1}", escaped(name)) if name else ""
        shown.append(element("section", title + parts_html(parts, seen.lang, side)))
    key, facts = _chosen(seen)
    shown.append(element(f"h{level + 1}", sentence(key, seen.lang, **facts)))
    shown += [step_html(step, number, seen.lang, side, level + 2) for number, step in enumerate(seen.steps, 1)]
    return "".join(shown)


def _chosen(seen: Seen | SeenBoth) -> tuple[str, dict[str, object]]:
    facts: dict[str, object] = {"layer": seen.layer, "head": seen.head}
    if isinstance(seen, Seen):
        return "see.one", facts
    return "see.both_one", {"kind": words.say(f"see.kind.{seen.kind}", seen.lang), **facts}


def _of_layer(seen: Seen) -> list[Part]:
    tokens = tuple(seen.tokens)
    maps = [Heat(f"head {head}", w, tokens, tokens) for head, w in enumerate(seen.weights[seen.layer])]
    return [*seen.overview, Line("see.maps", {"layer": seen.layer}), *maps]


def _both(seen: SeenBoth) -> list[tuple[str, list[Part]]]:
    """Each kind with its table, and the maps of the layer that is shown, as far as that side has it."""
    found: list[tuple[str, list[Part]]] = []
    for kind, table in seen.tables.items():
        name, layers = words.say(f"see.kind.{kind}", seen.lang), seen.weights[kind]
        layer = min(seen.layer, len(layers) - 1)
        queries, keys = map(tuple, seen.tokens(kind))
        maps = [Heat(f"head {head}", w, queries, keys) for head, w in enumerate(layers[layer])]
        written: list[Part] = [seen.written] if seen.written is not None and not found else []
        about: list[Part] = [Line("see.both_heads"), table, Line("see.both_maps", {"kind": name, "layer": layer})]
        found.append((name, [*written, *about, *maps]))
    return found
