"""The pages of a walk: well-formed, alone on the network, true to the last digit, and of a bounded size."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np
import pytest

from qkv.views.page_maps import heat_html
from qkv.views.page_tables import matrix_html, table_html
from qkv.views.sizes import ALL_MAPS, WHOLE, map_side
from qkv.views.walk_html import comparison_fragment, comparison_page, walk_fragment, walk_page
from qkv.walkthrough import Heat, Matrix, Table, Walkthrough, compare, explain

VOID = {"meta", "br", "hr", "img", "link"}
NASTY = "<script>alert(1)</script> \"x\" 'y' </style> </title> a\u2028b c\x00d \u202eabc\u2069 שלום & &lt;"


@dataclass
class Node:
    """An element with what is in it."""

    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    pieces: list[Node | str] = field(default_factory=list)

    def all(self, tag: str, kind: str | None = None) -> list[Node]:
        found = [self] if self.tag == tag and (kind is None or kind in self.kinds) else []
        return [*found, *(node for child in self.children for node in child.all(tag, kind))]

    @property
    def kinds(self) -> list[str]:
        return (self.attributes.get("class") or "").split()

    @property
    def text(self) -> str:
        return "".join(piece for piece in self.pieces if isinstance(piece, str))

    @property
    def words(self) -> str:
        return "".join(piece if isinstance(piece, str) else piece.words for piece in self.pieces)

    def outline(self) -> list[object]:
        return [self.tag, *(child.outline() for child in self.children)]


class Tree(HTMLParser):
    """Reads a document and refuses whatever is not closed where it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = Node("root")
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert [node.tag for node in self.open] == ["root"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in {tag}"
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        self.open[-1].pieces.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].pieces.append(data)


def read(text: str) -> Node:
    return Tree(text).root


def numbers(table: Node) -> list[list[float]]:
    rows = [row.all("td") for row in table.all("tbody")[0].children]
    return [[float(str(td.attributes["data-value"])) for td in row] for row in rows]


@pytest.fixture(scope="module")
def causal() -> Walkthrough:
    return explain("the cat sat on the mat", heads=2, d_model=6, d_k=5, d_v=3, causal=True)


@pytest.fixture(scope="module")
def large() -> Walkthrough:
    return explain(" ".join(f"word{i}" for i in range(512)), d_model=64, heads=8, causal=True)


PAGES = {
    "walk": lambda: walk_page(explain("远方有颗苹果树")),
    "causal": lambda: walk_page(explain(example="cat-mat", causal=True)),
    "fragment": lambda: walk_fragment(explain(example="cat-mat")),
    "comparison": lambda: comparison_page(compare("the cat sat", "the dog sat down", heads=2)),
    "comparison fragment": lambda: comparison_fragment(compare(NASTY, "远方")),
    "nasty": lambda: walk_page(explain(NASTY)),
    "one token": lambda: walk_page(explain("我")),
    "long token": lambda: walk_page(explain("x" * 5000 + " y")),
    "middle": lambda: walk_page(explain("a b c " * 9)),
}


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_well_formed_and_asks_for_nothing(name: str) -> None:
    page = PAGES[name]()
    root = read(page)
    tags = {node.tag for node in _every(root)}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "svg"}
    for node in _every(root):
        assert not set(node.attributes) & {"src", "srcset", "action", "style", "background", "ping"}
        assert not any(attribute.startswith("on") for attribute in node.attributes)
        assert (node.attributes.get("href") or "#").startswith("#")
    for style in root.all("style"):
        assert not re.search(r"url\(|@import|expression|</", style.text)
    assert "://" not in page
    assert page.encode("utf-8")


def _every(node: Node) -> list[Node]:
    return [node, *(found for child in node.children for found in _every(child))]


def test_links_lead_to_steps_and_ids_are_unique() -> None:
    root = read(PAGES["causal"]())
    ids = [node.attributes["id"] for node in _every(root) if "id" in node.attributes]
    assert len(set(ids)) == len(ids)
    steps = [link.attributes["href"] for link in root.all("nav")[0].all("a")]
    assert steps == [f"#{step.name}" for step in explain(example="cat-mat", causal=True).steps]
    assert {str(link.attributes["href"])[1:] for link in root.all("a")} <= set(ids)


def test_a_fragment_brings_no_ids_and_no_document_into_a_notebook() -> None:
    fragment = walk_fragment(explain("远方"))
    root = read(fragment)
    assert [node.tag for node in root.children] == ["div"]
    assert not any("id" in node.attributes for node in _every(root))
    rules = re.sub(r"@media[^{]*\{|/\*.*?\*/", "", root.all("style")[0].text)
    selectors = [part for rule in re.findall(r"([^{}]+)\{[^{}]*\}", rules) for part in rule.split(",")]
    assert all(part.strip().startswith(".qkv") for part in selectors)


def test_the_policy_names_the_style_that_is_there() -> None:
    root = read(PAGES["walk"]())
    style = root.all("style")[0].text
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = next(node.attributes["content"] for node in root.all("meta") if "http-equiv" in node.attributes)
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def test_numbers_are_those_of_the_walk_to_the_last_digit(causal: Walkthrough) -> None:
    root = read(walk_page(causal))
    tables = {}
    for table in root.all("table"):
        if table.all("caption"):
            tables.setdefault(table.all("caption")[0].text.strip(), []).append(table)
    assert {"X", "W_Q", "W_K", "W_V", "Q", "K", "V", "scores", "scaled", "weights", "output"} <= set(tables)
    for name in ("X", "W_Q", "W_K", "W_V", "Q", "K", "V", "scores"):
        assert np.array_equal(numbers(tables[name][0]), causal.values[name])
    for table in tables["weights"]:
        assert np.array_equal(numbers(table), causal.values["weights"])
    for h in range(2):
        assert np.array_equal(numbers(tables[f"head {h}"][0]), causal.heads[h])
    assert np.array_equal(numbers(tables["scaled"][1]), causal.values["scaled"])
    assert [numbers(t) for t in tables["output"]] == [
        causal.values["output"].tolist(),
        causal.multi_head_output.tolist(),
    ]


def test_every_table_has_headings_with_a_scope(causal: Walkthrough) -> None:
    for table in read(walk_page(causal)).all("table"):
        rows = [row for part in table.children if part.tag in ("tbody", "tfoot") for row in part.children]
        assert all(th.attributes["scope"] == "col" for th in table.all("thead")[0].all("th"))
        assert all(row.children[0].attributes.get("scope") == "row" for row in rows)
        widths = {len(row.children) for row in [*rows, *table.all("thead")[0].children]}
        assert len(widths) == 1


@pytest.mark.parametrize("make", [walk_page, walk_fragment])
def test_both_languages_have_the_same_structure(make: object) -> None:
    pages = [read(make(explain(example="cat-mat", causal=True, lang=lang))) for lang in ("en", "zh")]  # type: ignore[operator]
    assert pages[0].outline() == pages[1].outline()
    assert re.search("[一-鿿]", pages[1].words)
    assert not re.search("[一-鿿]", pages[0].words)


def test_comparisons_in_both_languages(causal: Walkthrough) -> None:
    both = [compare("the cat sat", "the dog sat down", causal=True, heads=2, lang=lang) for lang in ("en", "zh")]
    pages = [read(comparison_page(one)) for one in both]
    assert pages[0].outline() == pages[1].outline()
    assert [page.all("html")[0].attributes["lang"] for page in pages] == ["en", "zh-CN"]
    difference = next(
        t for t in pages[0].all("table") if t.all("caption") and t.all("caption")[0].text.strip() == "b - a"
    )
    assert np.array_equal(numbers(difference), both[0].difference)


def test_what_a_user_wrote_is_text(causal: Walkthrough) -> None:
    page = walk_page(explain(NASTY, lang="en"))
    root = read(page)
    assert root.all("h1")[0].words.startswith("Attention on: <script>alert(1)</script>")
    assert "<script" not in page
    assert page.count("</style") == page.count("</title") == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]", page)
    assert page.count("\u2066") == page.count("\u2067") == 0
    assert page.count("\u2068") == page.count("\u2069")
    assert any(r"</style> </title> a b c\x00d \u202eabc\u2069 שלום & &lt;" in p.words for p in root.all("p"))


def test_a_token_in_a_sentence_is_spelled_out_and_kept_apart() -> None:
    root = read(walk_page(explain("c\x00\u202ed e", lang="en")))
    assert r"For the token c\x00\u202ed (row 0):" in [p.words for p in root.all("p")]
    assert r"c\x00\u202ed" in [bdi.words for p in root.all("p") for bdi in p.all("bdi")]


def test_a_token_that_speaks_like_a_colour_or_a_key_changes_no_style() -> None:
    page = walk_page(explain('class="xabcdef" {text} %s head.sum'))
    assert ".xabcdef" not in page
    assert "{text}" in read(page).all("h1")[0].words


def test_masked_zero_nearly_zero_and_nan_look_different() -> None:
    values = np.array([[0.0, 1e-9, np.nan], [0.0, 0.25, 1.0], [-np.inf, np.inf, 0.5]])
    visible = np.ones((3, 3), dtype=bool)
    visible[1, 0] = visible[2, 0] = False
    tokens = ("a", "b", "c")
    for html in (
        heat_html(Heat("w", values, tokens, tokens, visible), "en", 64),
        matrix_html(Matrix("w", values, tokens, tokens, visible), "en"),
    ):
        cells = read(html).all("tbody")[0].all("td")
        assert [cell.words for cell in cells[:4]] == ["0", "~0", "NaN", "·"]
        assert [cell.words for cell in cells[6:8]] == ["-inf", "+inf"]
        kinds = [cell.kinds for cell in cells]
        assert kinds[2] == ["nan"]
        assert kinds[3] == kinds[6] == ["masked"]
        assert kinds[0] != ["masked"]
        assert cells[1].attributes["data-value"] == "1e-09"
        assert all(word in read(html).words for word in ("masked", "not a number", "nearly 0, not 0"))
        assert "masked" in str(cells[3].attributes["title"])


def test_colours_are_those_of_the_ramp_and_the_legend_has_its_numbers() -> None:
    tokens = ("a", "b")
    root = read(heat_html(Heat("w", np.array([[0.0, 1.0], [0.25, 0.75]]), tokens, tokens), "zh", 64))
    assert [td.kinds for td in root.all("tbody")[0].all("td")][:2] == [["x00224e"], ["xfee838"]]
    assert [span.words for span in root.all("span", "ramp")[0].children] == ["0", "0.25", "0.5", "0.75", "1"]
    assert [span.kinds for span in root.all("span", "ramp")[0].children][::4] == [["x00224e"], ["xfee838"]]
    signed = read(heat_html(Heat("d", np.array([[-0.5, 0.0], [0.25, 0.5]]), tokens, tokens), "zh", 64))
    assert [span.words for span in signed.all("span", "ramp")[0].children] == ["-0.5", "-0.25", "0", "0.25", "0.5"]
    assert signed.all("span", "ramp")[0].children[2].kinds == signed.all("tbody")[0].all("td")[1].kinds


def test_every_colour_of_a_page_has_its_rule() -> None:
    page = PAGES["causal"]()
    used = set(re.findall(r'class="(x[0-9a-f]{6})"', page))
    assert used
    assert used == set(re.findall(r"\.qkv \.(x[0-9a-f]{6})\{", page))


def test_numbers_stand_in_cells_up_to_sixteen_tokens() -> None:
    for n, shown in ((16, True), (17, False)):
        tokens = tuple("t" * n)
        root = read(heat_html(Heat("w", np.full((n, n), 0.5), tokens, tokens), "en", 64))
        assert {td.words for td in root.all("tbody")[0].all("td")} == ({"0.50"} if shown else {""})
        assert all("0.5" in str(td.attributes["title"]) for td in root.all("tbody")[0].all("td"))


def test_a_large_page_keeps_its_size_and_says_what_it_left_out(large: Walkthrough) -> None:
    page = walk_page(large)
    root = read(page)
    assert len(page.encode()) < 2_000_000
    assert len(_every(root)) < 20_000
    maps = [table for table in root.all("table") if "heat" in table.kinds]
    assert len(maps) == 9
    assert sum(len(table.all("tbody")[0].all("td")) for table in maps) <= ALL_MAPS
    assert "each cell: the largest of 21 × 21" in root.words
    assert "rows 8–503 of 512 left out" in root.words
    assert "columns 8–503 of 512 left out" in root.words


def test_one_large_map_is_pooled_to_64_by_its_largest_values() -> None:
    walk = explain(" ".join("abc" * 171)[:-2])
    n = len(walk.tokens)
    assert n == 512
    root = read(walk_page(walk))
    table = next(table for table in root.all("table") if "heat" in table.kinds)
    blocks = walk.values["weights"].reshape(64, 8, 64, 8).max(axis=(1, 3))
    assert np.array_equal(numbers(table), blocks)
    assert "8 × 8" in root.words


def test_up_to_the_limits_nothing_is_left_out() -> None:
    rng = np.random.default_rng(0)
    for n in (WHOLE, WHOLE + 1):
        value = rng.normal(size=(n, 3))
        html = matrix_html(Matrix("m", value, tuple("r" * n), ("0", "1", "2")), "en")
        cells = [td.attributes["data-value"] for td in read(html).all("td") if "data-value" in td.attributes]
        rows = range(n) if n <= WHOLE else [*range(8), *range(n - 8, n)]
        assert np.array_equal(np.array(cells, dtype=float), value[rows].ravel())
        assert ("left out" in html) == (n > WHOLE)
    assert map_side([Heat("w", np.eye(64), ("a",) * 64, ("a",) * 64)]) == 64


def test_a_table_that_is_asked_for_whole_is_whole() -> None:
    rows = tuple((i, i / 7) for i in range(144))
    assert read(table_html(Table(("n", "x"), rows, whole=True), "en")).words.count("left out") == 0
    assert len(read(table_html(Table(("n", "x"), rows, whole=True), "en")).all("tbody")[0].children) == 144
    assert "rows 8–135 of 144 left out" in read(table_html(Table(("n", "x"), rows), "en")).words


def test_long_sentences_are_whole_below_a_short_title() -> None:
    text = " ".join(f"w{i}" for i in range(40))
    root = read(walk_page(explain(text)))
    assert len(root.all("h1")[0].words) < 90
    assert text in [p.words for p in root.all("p")]


def test_the_code_is_there_as_it_is(causal: Walkthrough) -> None:
    assert read(walk_page(causal)).all("pre")[0].words == causal.code()


def test_details_hold_the_parts_of_a_step_alone(causal: Walkthrough) -> None:
    sections = {s.attributes.get("id"): s for s in read(walk_page(causal)).all("section")}
    for step in causal.steps:
        assert len(sections[step.name].all("details")) == bool(step.details)
        assert step.formula in [code.words for code in sections[step.name].all("code")]


def test_the_pages_are_the_same_every_time() -> None:
    assert walk_page(explain("远方")) == walk_page(explain("远方"))
