"""Looking into an encoder-decoder: three kinds of attention, in text, HTML and JSON."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.seq2seq_fixture import CLOSE, TINY, tiny, write_wav

import qkv
from qkv import words
from qkv.cli.commands import qkv as command
from qkv.errors import QkvError
from qkv.views.see_both_text import see_both_text
from qkv.walkthrough import KINDS, Matrix, SeenBoth, Table

TEXT, ANSWER = "the cat sees a big tree", "one red bird"


def seen(**how: object) -> SeenBoth:
    return qkv.see(tiny("bart"), TEXT, **{"decoder_text": ANSWER, "lang": "en"} | how)


def test_the_weights_are_those_of_the_model() -> None:
    model, found = tiny("bart"), seen()
    assert found.source_tokens == [*TEXT.split(), "</s>"]
    assert found.decoder_tokens == ["</s>", *ANSWER.split()]
    source, ids = model.tokenizer.encode(TEXT), [2, *model.tokenizer.encode(ANSWER, special_tokens=False)]
    with qkv.record() as trace:
        model(source, decoder_ids=ids)
    paths = {"encoder": "encoder.layers.{}.attention", "decoder": "decoder.layers.{}.self_attention",
             "cross": "decoder.layers.{}.cross_attention"}  # fmt: skip
    for kind in KINDS:
        assert len(found.weights[kind]) == (2 if kind == "encoder" else 3)
        for layer, weights in enumerate(found.weights[kind]):
            np.testing.assert_allclose(weights, trace[f"{paths[kind].format(layer)}.weights"], **CLOSE)
    assert found.weights["cross"][2].shape == (4, 4, 7)
    assert [len(names) for names in found.tokens("cross")] == [4, 7]
    assert [len(names) for names in found.tokens("decoder")] == [4, 4]


@pytest.mark.parametrize(("kind", "shape"), [("encoder", (7, 7)), ("decoder", (4, 4)), ("cross", (4, 7))])
def test_one_head_in_full(kind: str, shape: tuple[int, int]) -> None:
    """Queries down, keys across; the numbers are those of that head, and the words fit the shapes."""
    found = seen(kind=kind, layer=1, head=2, row=3)
    parts = [part for step in found.steps for part in (*step.parts, *step.details)]
    matrices = {part.name: part for part in parts if isinstance(part, Matrix)}
    assert matrices["scores"].value.shape == shape
    np.testing.assert_allclose(matrices["weights"].value, found.weights[kind][1][2], rtol=0, atol=0)
    queries, keys = found.tokens(kind)
    assert (list(matrices["weights"].rows), list(matrices["weights"].columns)) == (queries, keys)
    assert list(matrices["K"].rows) == keys
    assert matrices["K"].value.shape[0] == shape[1]
    softmax = next(step for step in found.steps if step.name == "softmax")
    table = next(part for part in softmax.parts if isinstance(part, Table))
    assert [row[0] for row in table.rows] == keys
    assert [row[-1] for row in table.rows] == found.weights[kind][1][2][3].tolist()
    text = see_both_text(found)
    assert f"({shape[0]}, 5) @ (5, {shape[1]}) = {shape}" in text or kind == "encoder"
    assert ("-inf" in text) is (kind == "decoder") or kind == "encoder"


def test_the_table_names_the_strongest_link() -> None:
    found = seen()
    for kind in KINDS:
        queries, keys = found.tokens(kind)
        for layer, head, entropy, link, weight in found.tables[kind].rows:
            i, j = (int(end.split()[0]) for end in link.split(" → "))
            assert link == f"{i} {queries[i]} → {j} {keys[j]}"
            w = found.weights[kind][layer][head]
            assert w[i, j] == weight == w[kind == "decoder" :].max()  # the first token of an answer sees itself alone
            assert 0 <= entropy <= 1
    assert len(found.tables["cross"].rows) == 12
    assert set(seen(layer=2).tables) == {"decoder", "cross"}  # the encoder has no such layer


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_without_an_answer_the_model_writes_one_and_says_so(lang: str) -> None:
    model = tiny("bart")
    found = qkv.see(model, TEXT, lang=lang)
    expected = model.generate(model.tokenizer.encode(TEXT), max_new_tokens=32)
    assert found.decoder_tokens == ["</s>", *model.tokenizer.tokens(expected)]
    said = words.say("see.written", lang)
    assert said in str(found).replace("\n", " " if lang == "en" else "")
    assert said not in str(qkv.see(model, TEXT, decoder_text=ANSWER, lang=lang)).replace("\n", " ")
    for kind in KINDS:
        assert words.say(f"see.kind.{kind}", lang) in str(found)


def test_as_json() -> None:
    found = seen()
    data = json.loads(found.to_json())
    assert data["source_tokens"] == found.source_tokens
    assert data["decoder_tokens"] == found.decoder_tokens
    assert list(data["weights"]) == list(KINDS)
    assert np.array(data["weights"]["cross"][1][3]).shape == (4, 7)
    assert data["weights"]["cross"][1][3][2][5] == float(found.weights["cross"][1][3][2, 5])


class Page(HTMLParser):
    """Every opened element is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.tables = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.tables += tag == "table"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_as_a_page(lang: str) -> None:
    found = seen(layer=1, lang=lang)
    for html in (found.to_html(), found._repr_html_()):
        page = Page()
        page.feed(html)
        assert page.open == []
        text = "".join(page.text)
        for kind in KINDS:
            assert text.count(words.say(f"see.kind.{kind}", lang)) >= 2
        assert page.tables > 5 + 4 + 4 + 3
        assert "<script" not in html


def test_a_page_of_other_models(tmp_path: Path) -> None:
    from tests.decoder_fixture import byte_tokenizer, random_decoder

    model = random_decoder()
    model.tokenizer = byte_tokenizer(tmp_path)
    found = qkv.see(model, "<b>&", lang="en")
    page = Page()
    page.feed(found.to_html())
    assert page.open == []
    assert "<b>&" in "".join(page.text)
    with pytest.raises(QkvError, match="decoder_text has no effect when the model is no encoder-decoder"):
        qkv.see(model, "abc", decoder_text="d")


def test_what_a_user_wrote_cannot_act() -> None:
    model = tiny("bart")
    html = qkv.see(model, "<script>cat", decoder_text="<img src=x>", lang="en").to_html()
    assert "<script>" not in html
    assert "<img" not in html


def test_a_model_that_hears(tmp_path: Path) -> None:
    """Its positions are named by the second at which they begin; the answer still needs a tokenizer."""
    path = write_wav(tmp_path / "a.wav", 0.3 * np.sin(np.arange(2000) / 7))
    with pytest.raises(QkvError, match="tokenizer"):
        qkv.see(tiny("whisper"), str(path))
    from qkv.models import load

    model = load(TINY / "whisper")
    model.tokenizer = tiny("bart").tokenizer
    found = qkv.see(model, str(path), decoder_text="one bird", lang="en")
    assert found.source_tokens[:3] == ["0.00s", "0.02s", "0.04s"]
    assert found.weights["cross"][0].shape == (4, 3, 50)
    assert "0.98s" in str(found)


@pytest.mark.parametrize(
    ("how", "key"),
    [
        ({"kind": "both"}, "choice"), ({"layer": 3}, "number"), ({"kind": "encoder", "layer": 2}, "number"),
        ({"head": 4}, "number"), ({"row": "cat"}, "no_token"), ({"layer": -1}, "number"),
        ({"decoder_text": " ".join(["cat"] * 41)}, "too_long"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_line(how: dict[str, object], key: str) -> None:
    with pytest.raises(QkvError) as caught:
        seen(**how)
    assert caught.value.key == key
    assert "\n" not in str(caught.value)


def test_from_the_command_line(tmp_path: Path) -> None:
    options = ["see", TEXT, "--model", str(TINY / "bart"), "--decoder-text", ANSWER, "--lang", "en"]
    run = CliRunner().invoke(command("en"), [*options, "--kind", "encoder", "--layer", "1"])
    assert run.exception is None
    assert "Encoder self-attention (source looks at source), layer 1, head 0, in full" in run.output
    page, data = tmp_path / "a.html", tmp_path / "a.json"
    run = CliRunner().invoke(command("en"), [*options, "--html", str(page), "--json", str(data)])
    assert run.exception is None
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(json.loads(data.read_text(encoding="utf-8"))["weights"]) == list(KINDS)
