"""The documentation is whole: both languages, every public name, every rule, every link."""

from __future__ import annotations

import functools
import importlib.util
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.pages import DOCS, PAGES, ROOT, Block, blocks, commands, name_of

import qkv
from qkv.judge.tasks import load, names

ENGLISH_ALONE = {"docs/decisions.md"}
ENGLISH = [page for page in PAGES if not page.name.endswith(".zh.md") and name_of(page) not in ENGLISH_ALONE]
RULES = 12
# What may differ: the language that is asked for, comments, and what comes out.
LANGUAGE = re.compile(r" --lang (en|zh)\b")
COMMENT = re.compile(r" +#.*$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CJK = re.compile("[\u3400-\u9fff]")


def chinese(page: Path) -> Path:
    return page.with_name(page.name.replace(".md", ".zh.md"))


def headings(page: Path) -> list[int]:
    """The level of each heading, in order."""
    prose = CODE.sub("", page.read_text(encoding="utf-8"))
    return [len(marks) for marks in re.findall(r"^(#+) ", prose, re.MULTILINE)]


def asked(block: Block) -> tuple[str, list[str]]:
    """What a block asks for, without what comes out."""
    if block.kind == "console":
        return block.kind, [LANGUAGE.sub("", command) for command, _ in commands(block.text)]
    if block.kind == "python" and ">>>" in block.text:
        code = [COMMENT.sub("", line) for line in block.text.splitlines() if line.startswith((">>> ", "... "))]
        return block.kind, code
    return block.kind, [block.title, *COMMENT.sub("", block.text).splitlines()]


def documented() -> dict[str, str]:
    """The name that each entry of the API reference goes by, and where its text is taken from."""
    found = {}
    for page in sorted((DOCS / "api").glob("*.md")):
        if page in map(chinese, ENGLISH):
            continue
        for path, options in re.findall(r"^::: (\S+)\n((?: {4}.*\n)*)", page.read_text(encoding="utf-8"), re.MULTILINE):
            heading = re.search(r"heading: (\S+)", options)
            found[heading[1] if heading else path] = path
    return found


def at(path: str) -> object:
    """What stands at a dotted path: the longest part of it that is a module, then attributes."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        try:
            module = import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        return functools.reduce(getattr, parts[n:], module)
    raise AssertionError(path)


@pytest.mark.parametrize("page", ENGLISH, ids=name_of)
def test_a_page_is_the_same_in_both_languages(page: Path) -> None:
    other = chinese(page)
    assert other in PAGES
    assert headings(other) == headings(page)
    pairs = [[asked(block) for block in blocks(p.read_text(encoding="utf-8"))] for p in (page, other)]
    assert pairs[1] == pairs[0]
    shown = [re.findall(r"^:::.*(?:\n {4}.*)*", p.read_text(encoding="utf-8"), re.MULTILINE) for p in (page, other)]
    assert shown[1] == shown[0]
    tables = [len(re.findall(r"^\|", p.read_text(encoding="utf-8"), re.MULTILINE)) for p in (page, other)]
    assert tables[1] == tables[0]
    assert CJK.search(other.read_text(encoding="utf-8"))


def test_no_page_is_chinese_alone() -> None:
    assert {chinese(page) for page in ENGLISH} == {page for page in PAGES if page.name.endswith(".zh.md")}


def test_the_readmes_link_to_each_other() -> None:
    assert "](README.zh.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](README.md)" in (ROOT / "README.zh.md").read_text(encoding="utf-8")


def test_every_page_is_in_the_menu() -> None:
    listed = set(re.findall(r"^ +- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    pages = {page.relative_to(DOCS).as_posix() for page in PAGES if DOCS in page.parents}
    assert listed == {page for page in pages if not page.endswith(".zh.md")}


@pytest.mark.parametrize("page", ["index.md", "index.zh.md"])
def test_the_first_page_leads_to_every_other(page: str) -> None:
    linked = set(re.findall(r"\]\((\S+\.md)\)", (DOCS / page).read_text(encoding="utf-8")))
    pages = {other.name for other in ENGLISH if other.parent == DOCS} - {"index.md"}
    assert linked == pages | {"api/attention.md"} | {"decisions.md"}


def test_every_public_name_is_in_the_reference() -> None:
    names = documented()
    opened = {"qkv.layers": qkv.layers, "qkv.ops": qkv.ops}  # modules whose members stand one by one
    expected = {f"qkv.{name}" for name in qkv.__all__} - set(opened)
    for prefix, module in opened.items():
        expected |= {name if (name := f"qkv.{n}") in expected else f"{prefix}.{n}" for n in module.__all__}
    expected -= {"qkv.ops.alibi_slopes"}  # with the biases
    assert expected - set(names) == set()


@pytest.mark.parametrize(("name", "path"), documented().items())
def test_the_reference_shows_what_it_says(name: str, path: str) -> None:
    found = at(path)
    assert found is functools.reduce(getattr, name.split(".")[1:], qkv)  # as a user gets it
    assert getattr(at(path), "__doc__", None)


@pytest.mark.parametrize("page", ["edges.md", "edges.zh.md"])
def test_every_rule_of_the_edges_is_there(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [int(n) for n in re.findall(r"^(\d+)\. \*\*", text, re.MULTILINE)] == list(range(1, RULES + 1))
    rows = [row.split("|")[1:-1] for row in re.findall(r"^\|.*\|$", text, re.MULTILINE)]
    assert {len(row) for row in rows} == {7}
    compared = {int(row[1]) for row in rows[2:]}
    assert compared == set(range(1, RULES + 1)) - {11}  # that nothing is changed was measured of nobody else


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_task_is_in_the_table(lang: str) -> None:
    spec = importlib.util.spec_from_file_location("tasks_hook", DOCS / "hooks" / "tasks.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    page = SimpleNamespace(file=SimpleNamespace(src_uri="judge-tasks.zh.md" if lang == "zh" else "judge-tasks.md"))
    source = DOCS / page.file.src_uri
    shown = hook.on_page_markdown(source.read_text(encoding="utf-8"), page=page)
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in shown.splitlines() if line.startswith("|")]
    assert {len(row) for row in rows} == {6}
    assert sorted(re.findall(r"`(\w+)`", row[1])[0] for row in rows[2:]) == list(names())
    assert all(load(name).title[lang] in shown for name in names())


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", CODE.sub("", page.read_text(encoding="utf-8"))):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_contributing_page_is_short() -> None:
    assert (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").count("\n") <= 40
