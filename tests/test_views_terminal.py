"""The terminal views: they fit the screen, say what they show, and let nothing of the user's reach the terminal raw."""

from __future__ import annotations

import io
import os
import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scripts.make_terminal_goldens import CASES, path_of, render

from qkv.errors import ArgumentError, ShapeError
from qkv.views import colors
from qkv.views.cells import cut, flow, graphemes, label, pad, safe, width, without_colour, wrap
from qkv.views.heatmap import heatmap
from qkv.views.screen import SYMBOLS, Screen, printable, write
from qkv.views.tables import columns, matrix

DEPTHS = ("none", "256", "truecolor")
ENCODINGS = ("utf-8", "gbk", "cp1252", "ascii", "cp932", "big5")
NASTY = [
    "\x1b[31m",
    "\x9b2J",
    "\r",
    "\t",
    "\n",
    "  ",
    "",
    "\u0301",
    "a\u200d",
    "\ud800",
    "\u202e",
    "👩‍🚀",
    "❤️",
    "한",
    "远方",
]
UNPRINTABLE_BUT_HARMLESS = "\N{IDEOGRAPHIC SPACE}\N{NO-BREAK SPACE}\N{ZERO WIDTH JOINER}"
SCREENS = st.builds(
    Screen,
    width=st.integers(20, 131),
    depth=st.sampled_from(DEPTHS),
    encoding=st.sampled_from(ENCODINGS),
    ambiguous=st.sampled_from([1, 2]),
    ascii=st.booleans(),
)
TOKENS = st.one_of(
    st.sampled_from(NASTY), st.text(max_size=11), st.sampled_from(["苹果", "the", "▁cat", "·", "…", "Ġon"])
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def rows_of(picture: str) -> list[str]:
    """The lines of a map that hold cells: `12 token` or `8–15 tokens`, then the cells."""
    return [line for line in picture.split("\n") if re.match(r"^ ?\d+[ –-]", without_colour(line))]


def check_lines(picture: str, screen: Screen) -> None:
    for line in picture.split("\n"):
        plain = without_colour(line)
        assert width(plain, screen) <= screen.width, line
        assert all(c.isprintable() or c in UNPRINTABLE_BUT_HARMLESS for c in plain), ascii(line)
    if screen.depth == "none" or screen.ascii:
        assert "\x1b" not in picture
    without_colour(picture).encode(screen.encoding)


# --- the screen -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "color", "terminal", "depth"),
    [
        ({"TERM": "xterm-256color"}, "auto", True, "256"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "auto", True, "truecolor"),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, "auto", True, "truecolor"),
        ({"WT_SESSION": "x"}, "auto", True, "truecolor"),
        ({"TERM": "xterm"}, "auto", True, "none"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "auto", False, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "auto", True, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "auto", True, "256"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "always", False, "256"),
        ({"TERM": "dumb"}, "always", False, "256"),
        ({"TERM": "dumb", "FORCE_COLOR": "1", "COLORTERM": "truecolor"}, "auto", True, "none"),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, "auto", True, "none"),
        ({"FORCE_COLOR": "1"}, "auto", False, "256"),
        ({"FORCE_COLOR": "1", "COLORTERM": "truecolor"}, "auto", False, "truecolor"),
        ({"FORCE_COLOR": "0"}, "auto", False, "none"),
        ({"CLICOLOR_FORCE": "1"}, "auto", False, "256"),
        ({"FORCE_COLOR": "1", "COLORTERM": "truecolor"}, "never", True, "none"),
    ],
)
def test_colour_is_decided_in_the_written_order(environ, color, terminal, depth):
    stream = Terminal() if terminal else io.StringIO()
    assert Screen.of(stream, environ, color=color).depth == depth


@pytest.mark.parametrize(
    ("environ", "asked", "terminal", "cells"),
    [
        ({}, None, False, 100),
        ({"COLUMNS": "47"}, None, False, 47),
        ({"COLUMNS": "47"}, 61, True, 61),
        ({"COLUMNS": "nonsense"}, None, False, 100),
        ({"COLUMNS": "0"}, None, True, 80),
        ({"COLUMNS": "3"}, None, True, 20),
    ],
)
def test_width(environ, asked, terminal, cells):
    assert Screen.of(Terminal() if terminal else io.StringIO(), environ, width=asked).width == cells


def test_ambiguous_width_follows_the_variable_then_the_encoding():
    chinese = io.TextIOWrapper(io.BytesIO(), encoding="cp936")
    assert Screen.of(chinese, {}).ambiguous == 2
    assert Screen.of(chinese, {"QKV_AMBIGUOUS": "1"}).ambiguous == 1
    assert Screen.of(io.StringIO(), {}).ambiguous == 1
    assert Screen.of(io.StringIO(), {"QKV_AMBIGUOUS": "2"}).ambiguous == 2


def test_unknown_colour_choice_is_an_error():
    with pytest.raises(ArgumentError, match="color"):
        Screen.of(io.StringIO(), {}, color="sometimes")


@pytest.mark.parametrize("encoding", ["cp936", "cp1252", "ascii", "cp932", "utf-8"])
def test_write_never_crashes_on_a_code_page(encoding):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="")
    assert write(stream, "远 … √ · → × ᵀ Σ ⏎ ␠ ▄ \ud800 👩‍🚀\n")
    written = raw.getvalue().decode(encoding)
    assert written.endswith("\n")
    assert ("sqrt" in written) == (encoding in ("cp1252", "ascii"))
    assert ("~" in written) == (encoding == "ascii")


def test_every_symbol_has_a_plain_form():
    for symbol, plain in SYMBOLS.items():
        assert plain.isascii()
        assert printable(symbol, Screen(encoding="ascii")) == plain


def test_what_an_encoding_lacks_keeps_its_width():
    screen = Screen(encoding="cp1252")
    assert printable("远方 cat", screen) == "???? cat"
    assert width(printable("远方 cat", screen), screen) == width("远方 cat", screen)


@pytest.mark.skipif(os.name == "nt", reason="pipes close differently")
def test_a_reader_that_has_gone_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        assert not write(stream, "text")
        assert write(stream, "goes nowhere")


# --- cells ------------------------------------------------------------------------------------------------------------


@given(st.text(), SCREENS)
@example("\x1b[2J\x9b\u202e\ud800", Screen())
@example("\u0301", Screen())
@example("\u0301", Screen())
def test_no_text_can_move_the_cursor(text, screen):
    for shown in (label(text, screen), safe(text, screen).replace("\n", "")):
        assert all(c.isprintable() or c in UNPRINTABLE_BUT_HARMLESS for c in shown)
    assert width(label(text, screen), screen) > 0


@given(TOKENS, TOKENS, SCREENS)
@example("a\u200d", " ", Screen())
@example("a", "\u0301", Screen())
def test_labels_side_by_side_keep_their_widths(left, right, screen):
    left, right = label(left, screen), label(right, screen)
    assert width(left + " " + right, screen) == width(left, screen) + 1 + width(right, screen)


@given(st.text(), st.integers(1, 31), SCREENS)
def test_cut_fits_and_pad_fills(text, cells, screen):
    text = label(text, screen)
    short = cut(text, cells, screen)
    assert width(short, screen) <= cells
    assert short == text or short[-1] in "…~"
    assert width(pad(short, cells, screen, "centre"), screen) == cells


def test_white_space_of_tokens_is_visible():
    assert [label(t, Screen()) for t in (" the", "\n", "a\tb", "")] == ["␠the", "⏎", r"a\tb", '""']
    assert label(" \n", Screen(encoding="cp1252")) == r"\s\n"


@given(st.text(alphabet="the 苹果，。（）a\n…", max_size=61), st.integers(5, 29))
def test_wrap_fits_and_loses_nothing(text, cells):
    lines = wrap(text, cells, Screen())
    assert all(width(line, Screen()) <= cells for line in lines)
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)


def test_wrap_minds_punctuation_and_words():
    assert wrap("远方有颗苹果树，很高。", 14, Screen()) == ["远方有颗苹果", "树，很高。"]
    assert wrap("the quick brown fox", 11, Screen()) == ["the quick", "brown fox"]
    assert wrap("他说“好”。", 6, Screen()) == ["他说", "“好”。"]
    assert wrap("extraordinary", 5, Screen()) == ["extra", "ordin", "ary"]


def test_flow_keeps_items_whole():
    lines = flow(["keys", *(f"{i} token" for i in range(17))], Screen(width=31))
    assert all(len(line) <= 31 for line in lines)
    assert re.findall(r"\d+ token", " ".join(lines)) == [f"{i} token" for i in range(17)]


def test_ambiguous_characters_take_what_the_screen_says():
    assert [width("·a远\u0301", Screen(ambiguous=cells)) for cells in (1, 2)] == [4, 5]


def test_graphemes_are_not_split():
    assert graphemes("e\u0301👩‍🚀") == ["e\u0301", "👩‍🚀"]
    assert cut("e\u0301e\u0301e\u0301", 2, Screen()) == "e\u0301…"


# --- colours ----------------------------------------------------------------------------------------------------------


def test_cividis_agrees_with_the_published_table():
    for entry, expected in {0: (0, 34, 78), 64: (67, 78, 108), 128: (125, 124, 120), 200: (196, 180, 104)}.items():
        assert np.abs(np.subtract(colors.on_ramp("sequential", entry / 255), expected)).max() <= 1


def test_lightness_rises_along_the_sequential_ramps():
    for ramp in (
        [colors.on_ramp("sequential", k / 255) for k in range(256)],
        [colors.palette_rgb(index) for index in colors.PALETTE["sequential"]],
    ):
        light = np.array([colors.luminance(colour) for colour in ramp])
        assert (np.diff(light) > -1e-3).all()
        assert light[-1] > 0.75 > 0.05 > light[0]


def test_the_diverging_ramps_are_lightest_and_neutral_at_zero():
    ramps = [
        [colors.on_ramp("diverging", k / 256) for k in range(257)],
        [colors.palette_rgb(index) for index in colors.PALETTE["diverging"]],
    ]
    for ramp in ramps:
        middle = len(ramp) // 2
        light = np.array([colors.luminance(colour) for colour in ramp])
        assert (np.diff(light[: middle + 1]) > 0).all()
        assert (np.diff(light[middle:]) < 0).all()
        assert len(set(ramp[middle])) == 1
        assert ramp[0][2] > ramp[0][0]
        assert ramp[-1][0] > ramp[-1][2]


@given(st.sampled_from(["sequential", "diverging"]), st.floats(0, 1))
def test_numbers_stand_out_from_their_cell(ramp, fraction):
    background = colors.on_ramp(ramp, fraction)
    light, dark = sorted([colors.luminance(background), colors.luminance(colors.ink(background))], reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_masked_and_nan_are_on_no_ramp():
    for special in (colors.MASKED, colors.NAN):
        for ramp in colors.RAMPS.values():
            assert np.abs(ramp.astype(int) - special).max(axis=-1).min() >= 28
        index = colors.FIXED[special]
        assert index not in colors.PALETTE["sequential"] + colors.PALETTE["diverging"]
        assert np.abs(np.subtract(colors.palette_rgb(index), special)).max() <= 1


# --- heat maps --------------------------------------------------------------------------------------------------------


@st.composite
def maps(draw):
    n, m = draw(st.integers(0, 13)), draw(st.integers(0, 37))
    rows, heads = ([draw(TOKENS) for _ in range(size)] for size in (n, m))
    special = [0.0, -0.0, 1.0, 1e-9, -3e4, 1e30, np.nan, np.inf, -np.inf]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    values = rng.normal(size=(n, m)) * draw(st.sampled_from([1e-6, 0.3, 1.0, 700.0, 1e12]))
    odd = rng.random((n, m)) < draw(st.sampled_from([0.0, 0.2]))
    values[odd] = rng.choice(special, size=int(odd.sum()))
    return values, rows, heads, rng.random((n, m)) < draw(st.sampled_from([0.0, 0.6, 1.0]))


@settings(deadline=None, max_examples=200)
@given(maps(), SCREENS, st.sampled_from(["probability", "signed"]), st.booleans(), st.one_of(st.none(), TOKENS))
def test_every_line_fits_and_rows_are_equally_wide(drawn, screen, scale, compact, title):
    values, rows, heads, visible = drawn
    picture = heatmap(values, rows, heads, screen, visible=visible, scale=scale, compact=compact, title=title)
    check_lines(picture, screen)
    named = heatmap(
        values, ["t"] * len(rows), ["t"] * len(heads), screen, visible=visible, scale=scale, compact=compact
    )
    lines = [without_colour(line) for line in rows_of(named)]
    halved = compact and "▄" in named
    expected = -(-len(rows) // 2) if halved else len(rows)
    assert not rows or len(lines) % expected == 0
    assert len(lines) >= expected
    for first in range(0, len(lines), expected) if rows else ():
        assert len({width(line, screen) for line in lines[first : first + expected]}) == 1


def one_cell(value, visible, screen, scale="probability", n=2):
    """How a cell looks, colours and all, in a map where everything else is 0.5."""
    values, shown = np.full((n, n), 0.5), np.ones((n, n), dtype=bool)
    values[0, 0], shown[0, 0] = value, visible
    picture = heatmap(values, ["t"] * n, ["t"] * n, screen, visible=shown, scale=scale, domain=(0, 1))
    return rows_of(picture)[0], picture


@pytest.mark.parametrize("scale", ["probability", "signed"])
@pytest.mark.parametrize("n", [2, 17])
@pytest.mark.parametrize(
    "screen", [Screen(100, d, e, a, r) for d in DEPTHS for e, a in (("utf-8", 1), ("gbk", 2)) for r in (0, 1)]
)
def test_masked_zero_and_nan_differ_in_every_mode(screen, n, scale):
    looks = [
        one_cell(value, visible, screen, scale, n)[0]
        for value, visible in ((0.0, False), (0.0, True), (np.nan, True), (0.5, True), (np.inf, True))
    ]
    assert len(set(looks)) == 5
    if screen.depth != "none" and not screen.ascii:  # the ground alone tells them apart too
        assert len({re.sub(r"[^\x1b]*?([^m\x1b]*)$", "", re.sub(r"m[^\x1b]*", "m", look)) for look in looks[:3]}) == 3
    assert "masked" in one_cell(0.0, False, screen, scale, n)[1]
    assert "masked" not in one_cell(0.0, True, screen, scale, n)[1]
    nan_row, picture = one_cell(np.nan, True, screen, scale, n)
    assert "?" in without_colour(nan_row)
    assert "not a number" in picture


@pytest.mark.parametrize("depth", DEPTHS)
def test_only_a_true_zero_is_printed_as_zero(depth):
    picture = heatmap([[0.0, 1e-9, 0.5], [-0.0, 0.004, 0.5]], ["a", "b"], ["a", "b", "c"], Screen(depth=depth))
    rows = [re.sub(r"^\d \w|\s", "", without_colour(row)) for row in rows_of(picture)]
    assert rows == ["0~00.50", "0~00.50"]
    assert "nearly 0" in picture


def test_colours_of_cells_are_the_ramp_at_the_value():
    values = np.random.default_rng(7).random((3, 5))
    rows = rows_of(heatmap(values, list("abc"), list("vwxyz"), Screen(depth="truecolor")))
    for row, line in zip(values, rows):
        found = re.findall(r"\x1b\[0;48;2;(\d+);(\d+);(\d+);[^m]*m +(\d\.\d\d) ", line)
        assert [tuple(map(int, rgb)) for *rgb, _ in found] == [colors.on_ramp("sequential", v) for v in row]
        assert [text for *_, text in found] == [f"{v:.2f}" for v in row]


def test_plain_numbers_in_blocks_lose_nothing():
    values = np.arange(7 * 41, dtype=float).reshape(7, 41) + 1
    picture = heatmap(values, ["w"] * 7, ["w"] * 41, Screen(width=61), scale="signed")
    blocks = [block.partition("\n")[2] for block in picture.split("\nkeys ")[1:]]
    found = [[[float(v) for v in row.split()[2:]] for row in rows_of(block)] for block in blocks]
    assert np.array_equal(np.concatenate([np.array(block) for block in found], axis=1), values)
    assert re.findall(r"keys (\d+)–(\d+)", picture)[0] == ("0", str(len(found[0][0]) - 1))


@pytest.mark.parametrize("depth", ["256", "truecolor"])
def test_pooling_keeps_a_single_strong_link_and_prints_the_ranges(depth):
    values = np.zeros((512, 512))
    values[300, 71], values[17, 400] = 1.0, np.nan
    tokens = [f"t{i}" for i in range(512)]
    picture = heatmap(values, tokens, tokens, Screen(width=80, depth=depth))
    assert len(rows_of(picture)) == 64
    top = colors.paint("sequential", 1.0, depth).start()
    assert sum(row.count(top) for row in rows_of(picture)) == 1
    assert sum(without_colour(row).count("?") for row in rows_of(picture)) == 1
    strong = next(row for row in rows_of(picture) if top in row)
    assert without_colour(strong).startswith("296–303 t296")
    cell = width(without_colour(strong[: strong.index(top)]), Screen()) - 13 - 7
    starts = [int(start) for start in re.findall(r"(\d+)–\d+", picture.split("keys ")[-1])]
    across = starts[1]
    assert starts == list(range(0, 512, across))
    assert starts[cell // 2] <= 71 < starts[cell // 2] + across
    assert f"largest of 8 × {across}" in picture


def test_a_pooled_cell_is_masked_only_if_all_of_it_is():
    visible = np.zeros((1, 300), dtype=bool)
    visible[0, 7] = True
    row = rows_of(heatmap(np.ones((1, 300)), ["q"], ["k"] * 300, Screen(width=40, depth="256"), visible=visible))[0]
    assert row.count(colors.paint("sequential", 1.0, "256").start()) == 1
    assert without_colour(row).count("·") == len(without_colour(row)[3:]) // 2 - 1


def test_the_legend_has_five_numbered_steps_and_says_what_is_beyond():
    picture = heatmap([[0.1, 9.0]], ["a"], ["b", "c"], Screen(depth="256"), domain=(0, 2))
    assert without_colour(picture).split("\n")[-1].split() == ["weight", "0", "0.5", "1", "1.5", "≥2"]
    signed = heatmap([[-3.0, 1.0]], ["a"], ["b", "c"], Screen(depth="256"), scale="signed")
    assert without_colour(signed).split("\n")[-1].split() == ["value", "-3", "-1.5", "0", "1.5", "3"]


def test_long_labels_are_cut_in_the_margin_but_told_in_full():
    long = "你好世界这是一个很长的词元真的很长"
    picture = heatmap([[0.5, 0.5]], [long], ["a", "b"], Screen(width=60))
    assert "…" in rows_of(picture)[0]
    assert long in picture.replace("\n  ", "")


def test_half_blocks_only_where_they_are_one_cell_wide():
    values, tokens = np.random.default_rng(3).random((5, 7)), list("abcdefg")
    draw = lambda screen: heatmap(values, tokens[:5], tokens, screen, compact=True)  # noqa: E731
    assert "▄" in draw(Screen(depth="256"))
    assert "▄" not in draw(Screen(depth="256", encoding="gbk", ambiguous=2))
    assert "▄" not in draw(Screen(depth="256", ambiguous=2))
    assert len(rows_of(draw(Screen(depth="256")))) == 3


def test_half_blocks_hold_the_upper_row_behind_and_the_lower_in_front():
    values = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]])
    rows = rows_of(heatmap(values, list("abc"), list("xy"), Screen(depth="truecolor"), compact=True))
    low, middle, high = (";".join(map(str, colors.on_ramp("sequential", v))) for v in (0.0, 0.5, 1.0))
    assert rows[0] == f"0 a \x1b[0;48;2;{low};38;2;{high}m▄\x1b[0;48;2;{high};38;2;{low}m▄\x1b[0m"
    assert rows[1] == f"2 c \x1b[0;38;2;{middle}m▀▀\x1b[0m"


def test_numbers_above_the_cells_stand_at_their_columns():
    picture = heatmap(np.zeros((1, 23)), ["q"], [f"k{j}" for j in range(23)], Screen(width=80, depth="256"))
    head = picture.split("\n")[1]
    start = 4
    assert {int(m.group()): m.start() - start for m in re.finditer(r"\d+", head)} == {j: 2 * j for j in range(0, 23, 5)}


def test_what_does_not_belong_together_is_an_error():
    with pytest.raises(ShapeError, match="row_labels has Tq=1 but values has Tq=2"):
        heatmap(np.zeros((2, 3)), ["a"], list("xyz"), Screen())
    with pytest.raises(ShapeError, match="visible"):
        heatmap(np.zeros((2, 3)), list("ab"), list("xyz"), Screen(), visible=np.ones((3, 2), dtype=bool))
    with pytest.raises(ShapeError, match="Tq, Tk"):
        heatmap(np.zeros(3), [], [], Screen())
    with pytest.raises(ArgumentError, match="scale"):
        heatmap(np.zeros((1, 1)), ["a"], ["b"], Screen(), scale="rainbow")
    with pytest.raises(ArgumentError, match="domain"):
        heatmap(np.zeros((1, 1)), ["a"], ["b"], Screen(), domain=(1, 0))


# --- tables -----------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(maps(), SCREENS)
def test_a_matrix_fits_and_is_aligned(drawn, screen):
    values, rows, heads, _ = drawn
    table = matrix(values, rows, heads, screen)
    check_lines(table, screen)
    assert len({width(line, screen) for line in table.split("\n")[: 1 + len(rows)]}) == 1
    assert not re.search(r"-0\.0*(e[+-]0*)?(\s|$)", matrix(values, None, None, screen))


def test_decimal_points_stand_under_each_other():
    lines = matrix([[0.5, -17.4478], [-0.00001, 3.0], [-0.0, 2.0]], None, None, Screen()).split("\n")
    points = [[match.start() for match in re.finditer(r"\.", line)] for line in lines[1:]]
    assert len(points[0]) == 2
    assert points[0] == points[2]
    assert points[1] == points[0][1:]
    assert "~0  " in lines[2]  # not zero, though it rounds to it
    assert "-0.0000" not in lines[3]
    assert "0.0000" in lines[3]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1.0, 2.5], ["1.0000", "2.5000"]),
        ([123456.789, 1.0], ["123456.8", "1.0"]),
        ([3e9, 1.0], ["3.0000e+09", "1.0000e+00"]),
        ([2e-7, 0.0], ["2.0000e-07", "0.0000e+00"]),
        ([np.nan, -np.inf], ["nan", "-inf"]),
        (np.array([7, -11]), ["7", "-11"]),
        (np.array([0.5, -1.25], dtype=ml_dtypes.bfloat16), ["0.5000", "-1.2500"]),
    ],
)
def test_one_format_a_matrix(values, texts):
    assert matrix([values], None, None, Screen()).split("\n")[1].split()[1:] == texts


def test_what_is_left_out_is_counted():
    values = np.arange(31 * 23, dtype=float).reshape(31, 23)
    table = matrix(values, None, None, Screen(width=60), max_rows=6)
    assert table.split("\n")[-2] == "rows 3–27 of 31 left out"
    shown = [int(head) for head in table.split("\n")[0].split() if head != "…"]
    gap = sorted(set(range(23)) - set(shown))
    assert table.split("\n")[-1] == f"columns {gap[0]}–{gap[-1]} of 23 left out"
    assert table.split("\n")[2].split()[1] == f"{values[1, 0]:.4f}"
    assert [line.split()[0] for line in table.split("\n")[1:-2]] == ["0", "1", "2", "…", "28", "29", "30"]


@given(st.lists(st.lists(TOKENS, max_size=4), max_size=5), st.integers(20, 71), st.text(alphabet="lrc", max_size=4))
def test_columns_fit(rows, cells, align):
    screen = Screen(width=cells)
    check_lines(columns(rows, ["甲", "step"], align, screen), screen)


def test_columns_align_by_cell_width():
    lines = columns([["远方", "1"], ["a", "22"]], ["x", "n"], "lr").split("\n")
    assert lines == ["x      n", "----  --", "远方   1", "a     22"]


# --- golden texts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_golden(case):
    assert render(*case) == path_of(*case).read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_golden_fits_its_screen(case):
    _, cells, depth = case
    check_lines(path_of(*case).read_text(encoding="utf-8"), Screen(width=cells, depth=depth))
