"""A vocabulary of SentencePiece as the `tokenizer.json` that says the same."""

from __future__ import annotations

import base64

from ..cutting import Part, added, replaced, sequence
from .spm import CHAR, CONTROL, NORMAL, UNIGRAM, UNKNOWN, USER_DEFINED, Pieces

SPACE = "▁"  # how SentencePiece spells a space
BEGINNING = "\ufdd0"  # no character, and in no text; a space itself might be taken away before it counts
NEVER = 100.0  # below the lowest score: what no text may become


def described(pieces: Pieces, *, prefix_everywhere: bool = False) -> Part:
    """What `tokenizer.json` would hold, without tokens around a text.

    That a space is put at the beginning of a text, and not after a special token in it, is nothing that such a file
    can say: `Tokenizer` puts `BEGINNING` there, and that becomes the space.
    """
    kinds, texts = pieces.kinds, pieces.texts
    found_first = pieces.of_kind(CONTROL, USER_DEFINED)
    return {
        "version": "1.0",
        "added_tokens": [added(i, texts[i], special=kinds[i] == CONTROL) for i in found_first],
        "normalizer": sequence("normalizers", *_made_ready(pieces, prefix_everywhere)),
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": sequence("decoders", *_decoder(pieces)),
        "model": _unigram(pieces) if pieces.model == UNIGRAM else _bpe(pieces),
    }


def _made_ready(pieces: Pieces, prefix_everywhere: bool) -> list[Part]:
    """What is done to a text beforehand, in SentencePiece's order."""
    steps: list[Part] = []
    if pieces.charsmap:
        charsmap = base64.b64encode(pieces.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if pieces.remove_spaces:
        steps.append(replaced({"Regex": rf"(?<=[ {BEGINNING}]) +|\A +"}, ""))
    steps.append(replaced({"Regex": rf"\A{BEGINNING}"}, SPACE))
    if pieces.remove_spaces:
        steps.append(replaced({"Regex": rf"[ {SPACE}]+\z"}, ""))
    if prefix_everywhere and pieces.add_prefix:
        steps.append({"type": "Prepend", "prepend": SPACE})
    return [*steps, replaced({"String": " "}, SPACE)]


def _decoder(pieces: Pieces) -> list[Part]:
    steps = [replaced({"String": SPACE}, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    if pieces.add_prefix:
        steps.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return steps


def _unigram(pieces: Pieces) -> Part:
    usable, never = {*pieces.of_kind(NORMAL)}, min(pieces.scores) - NEVER
    scores = [score if i in usable else never for i, score in enumerate(pieces.scores)]
    vocabulary = [[text, score] for text, score in zip(pieces.texts, scores)]
    unknown = pieces.of_kind(UNKNOWN)[0]
    return {"type": "Unigram", "unk_id": unknown, "vocab": vocabulary, "byte_fallback": pieces.byte_fallback}


def _bpe(pieces: Pieces) -> Part:
    """SentencePiece joins the two neighbours that make the piece of the highest score: merges in that order."""
    scores = {pieces.texts[i]: pieces.scores[i] for i in pieces.of_kind(NORMAL)}
    merges = [] if pieces.model == CHAR else [
        (-score, text[:cut], text[cut:])
        for text, score in scores.items()
        for cut in range(1, len(text))
        if text[:cut] in scores and text[cut:] in scores
    ]  # fmt: skip
    return {
        "type": "BPE",
        "vocab": {text: i for i, text in enumerate(pieces.texts)},
        "merges": [[left, right] for _, left, right in sorted(merges)],
        "unk_token": pieces.texts[pieces.of_kind(UNKNOWN)[0]],
        "fuse_unk": True,
        "byte_fallback": pieces.byte_fallback,
    }
