"""Put the table of words where a page asks for it."""

from typing import Any

from qkv import words

HEADS = {"en": ("English", "Chinese", "Meaning"), "zh": ("中文", "英文", "含义")}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    lang = "zh" if page.file.src_uri.endswith(".zh.md") else "en"
    return markdown.replace("<!-- glossary -->", table(lang))


def table(lang: str) -> str:
    """All words of the glossary as a Markdown table, the page's language first."""
    other = next(name for name in words.LANGUAGES if name != lang)
    rows = [HEADS[lang], ("---",) * 3]
    rows += [(term.word[lang], term.word[other], term.meaning[lang]) for term in words.glossary().values()]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)
