"""From a number to the colour of a cell.

Amounts run along a sequential ramp, signed values along a diverging one whose middle is zero. Neither says anything
about a masked cell or a value that is no number: those have colours of their own, far from both ramps.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qkv.views.screen import Depth

RGB = tuple[int, int, int]
RampName = Literal["sequential", "diverging"]

# Cividis: J. R. Nunez, C. R. Anderton, R. S. Renslow, "Optimizing colormaps with consideration for color vision
# deficiency", PLOS ONE 13(7), 2018, doi 10.1371/journal.pone.0199239. These are 17 of its 256 entries; straight lines
# between them stay within 1/255 of the published table.
CIVIDIS_STOPS = {
    0: "00224e", 20: "003070", 23: "013271", 28: "123570", 33: "1c396f", 44: "2d416d", 53: "38476c", 86: "585e6d",
    134: "828079", 151: "928d78", 171: "a69c74", 191: "bbad6d", 219: "d9c55c", 233: "e8d24f", 244: "f5dc41",
    251: "fde334", 255: "fee838",
}  # fmt: skip

# Ends and middle of the diverging ramp in OKLab (B. Ottosson, "A perceptual color space for image processing", 2020):
# lightness 0.52 and chroma 0.12 at both ends, hues 255 degrees (blue) and 55 degrees (orange), so that +x and -x weigh
# the same to the eye.
END_LIGHTNESS, MIDDLE_LIGHTNESS, END_CHROMA = 0.52, 0.95, 0.12
BLUE_HUE, ORANGE_HUE = np.radians(255.0), np.radians(55.0)

# Picked by hand from the fixed part of the 256-colour palette (16-255): lightness rises with every step of the first,
# falls on both sides of the middle of the second. Terminal themes redefine the first 16, so none of those is used.
PALETTE: dict[RampName, tuple[int, ...]] = {
    "sequential": (17, 18, 24, 60, 243, 101, 144, 179, 185, 221, 227),
    "diverging": (25, 67, 110, 153, 255, 223, 215, 173, 130),
}

MASKED: RGB = (48, 48, 48)
MASKED_INK: RGB = (158, 158, 158)
NAN: RGB = (215, 0, 135)
BLACK: RGB = (0, 0, 0)
WHITE: RGB = (255, 255, 255)
FIXED = {MASKED: 236, MASKED_INK: 247, NAN: 162, BLACK: 16, WHITE: 231}


def _cividis() -> NDArray[np.uint8]:
    stops = np.array([list(bytes.fromhex(code)) for code in CIVIDIS_STOPS.values()])
    table = [np.interp(np.arange(256), list(CIVIDIS_STOPS), stops[:, channel]) for channel in range(3)]
    return np.round(np.stack(table, axis=-1)).astype(np.uint8)


def _oklab_to_rgb(lightness: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Ottosson's inverse transform, with the sRGB transfer curve, as bytes."""
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = np.stack(
        [
            4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
            -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
            -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
        ],
        axis=-1,
    ).clip(0.0, 1.0)
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.round(255 * curved).astype(np.uint8)


def _diverging() -> NDArray[np.uint8]:
    signed = np.linspace(-1.0, 1.0, 257)  # an odd count, so that zero is an entry
    strength = np.abs(signed)
    hue = np.where(signed < 0, BLUE_HUE, ORANGE_HUE)
    lightness = MIDDLE_LIGHTNESS + strength * (END_LIGHTNESS - MIDDLE_LIGHTNESS)
    return _oklab_to_rgb(lightness, END_CHROMA * strength * np.cos(hue), END_CHROMA * strength * np.sin(hue))


RAMPS: dict[RampName, NDArray[np.uint8]] = {"sequential": _cividis(), "diverging": _diverging()}


class Paint(NamedTuple):
    """The colours of a cell as parameters of the terminal's SGR sequence; empty: no colour."""

    background: str = ""
    ink: str = ""

    def start(self) -> str:
        """The sequence that switches to these colours from any others."""
        parameters = ";".join(("0", *filter(None, self)))
        return f"\x1b[{parameters}m"


def on_ramp(ramp: RampName, fraction: float) -> RGB:
    """The colour at a place of a ramp.

    Parameters
    ----------
    ramp : {'sequential', 'diverging'}
        Which ramp.
    fraction : float
        0 is its beginning, 1 its end, 0.5 the zero of the diverging one; anything beyond is taken to the end.

    Examples
    --------
    >>> on_ramp("sequential", 0.0), on_ramp("diverging", 0.5)
    ((0, 34, 78), (238, 238, 238))
    """
    table = RAMPS[ramp]
    red, green, blue = table[_level(fraction, len(table))].tolist()
    return red, green, blue


def _level(fraction: float, count: int) -> int:
    return int(min(max(fraction, 0.0), 1.0) * (count - 1) + 0.5)


def luminance(colour: RGB) -> float:
    """Relative luminance of an sRGB colour, 0 black to 1 white (WCAG 2)."""
    red, green, blue = (c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ink(background: RGB) -> RGB:
    """Black or white, whichever stands out more from the background (WCAG 2 contrast ratio)."""
    # (1 + 0.05) / (Y + 0.05) against (Y + 0.05) / 0.05: equal where Y + 0.05 = sqrt(1.05 * 0.05).
    return WHITE if luminance(background) + 0.05 < (1.05 * 0.05) ** 0.5 else BLACK


def palette_rgb(index: int) -> RGB:
    """The colour of an entry from 16 to 255 of the 256-colour palette: a cube of 6 x 6 x 6, then 24 greys."""
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return grey, grey, grey
    levels = (0, 95, 135, 175, 215, 255)
    red, green, blue = (index - 16) // 36, (index - 16) // 6 % 6, (index - 16) % 6
    return levels[red], levels[green], levels[blue]


def paint(ramp: RampName, fraction: float, depth: Depth) -> Paint:
    """The colours of a value: its place on the ramp behind, black or white in front."""
    if depth == "none":
        return Paint()
    if depth == "truecolor":
        background = on_ramp(ramp, fraction)
        return fixed(background, ink(background), depth)
    index = PALETTE[ramp][_level(fraction, len(PALETTE[ramp]))]
    return Paint(f"48;5;{index}", f"38;5;{FIXED[ink(palette_rgb(index))]}")


def fixed(background: RGB, front: RGB, depth: Depth) -> Paint:
    """A pair of given colours; at depth '256' both must be among `FIXED`."""
    if depth == "none":
        return Paint()
    if depth == "256":
        return Paint(f"48;5;{FIXED[background]}", f"38;5;{FIXED[front]}")
    back, fore = (";".join(map(str, colour)) for colour in (background, front))
    return Paint(f"48;2;{back}", f"38;2;{fore}")
