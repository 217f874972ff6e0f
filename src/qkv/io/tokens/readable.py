"""Tokens of byte pairs for people: their vocabularies spell each byte as a letter, so that é stands there as Ã©."""

from __future__ import annotations

PLAIN = (*range(33, 127), *range(161, 173), *range(174, 256))  # bytes that GPT-2's vocabulary spells as themselves
LETTERS = {byte: chr(byte) for byte in PLAIN}
LETTERS |= {byte: chr(256 + n) for n, byte in enumerate(byte for byte in range(256) if byte not in PLAIN)}
BYTE_OF = {letter: byte for byte, letter in LETTERS.items()}
FIRST_WIDE = 128


def readable(token: str) -> str:
    """A token of bytes as the text that it stands for; the bytes of half a character as SentencePiece spells them.

    Spaces and new lines keep the letters by which they can be seen, so a token of ASCII alone stays as it is.

    Examples
    --------
    >>> readable("Ġcat"), readable("ĠcafÃ©"), readable("ä½")
    ('Ġcat', 'Ġcafé', '<0xE4><0xBD>')
    """
    if any(letter not in BYTE_OF for letter in token):
        return token
    raw = bytes(BYTE_OF[letter] for letter in token)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(LETTERS[byte] if byte < FIRST_WIDE else f"<0x{byte:02X}>" for byte in raw)
    return "".join(LETTERS[ord(letter)] if ord(letter) < FIRST_WIDE else letter for letter in text)
