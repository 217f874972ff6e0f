"""What the heads of an encoder-decoder did, as text and as JSON."""

from __future__ import annotations

import json

from .. import words
from ..walkthrough import Line, SeenBoth
from .cells import wrap
from .screen import Screen
from .see_text import small_maps
from .walk_json import numbers
from .walk_text import part_text, said, step_text


def see_both_text(seen: SeenBoth, screen: Screen | None = None) -> str:
    """Each kind of attention with all its heads, then the numeric walk through one head."""
    screen = screen or Screen()

    def sentence(key: str, **facts: object) -> str:
        return "\n".join(wrap(said(Line(key, facts), seen.lang, screen), screen.width, screen))

    blocks = [sentence(line.key, **line.facts) for line in (seen.title, seen.written) if line is not None]
    blocks.append(sentence("see.both_heads"))
    for kind, table in seen.tables.items():
        name = words.say(f"see.kind.{kind}", seen.lang)
        blocks.append(sentence(f"see.kind.{kind}"))
        if screen.depth != "none":
            for layer in sorted({int(row[0]) for row in table.rows}):
                maps = list(seen.weights[kind][layer])
                blocks += [sentence("see.both_maps", kind=name, layer=layer), small_maps(maps, screen)]
        blocks.append(part_text(table, screen, seen.lang))
    chosen = words.say(f"see.kind.{seen.kind}", seen.lang)
    blocks.append(sentence("see.both_one", kind=chosen, layer=seen.layer, head=seen.head))
    blocks += [step_text(step, screen, seen.lang, number) for number, step in enumerate(seen.steps, 1)]
    return "\n\n".join(blocks)


def see_both_json(seen: SeenBoth) -> str:
    """The tokens of both sides, and weights[kind][layer][head][query][key]."""
    weights = {kind: [numbers(layer) for layer in layers] for kind, layers in seen.weights.items()}
    found = {"source_tokens": seen.source_tokens, "decoder_tokens": seen.decoder_tokens, "weights": weights}
    return json.dumps(found, ensure_ascii=False)
