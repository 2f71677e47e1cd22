"""Colours and marks, the same in matplotlib and on the page (page/colours.js).

Ten colours for classes that stay apart for readers with any of the common colour-vision
deficiencies: Okabe and Ito's, with a purple, a grey and a brown in place of black, which cannot be
seen on dark paper. A class has a mark of its own besides, so that colour is never the only sign.
Numbers run along cividis, which rises evenly in lightness for all readers.
"""

from __future__ import annotations

CATEGORY_COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7",
    "#56B4E9", "#B8A800", "#5D3A9B", "#7F7F7F", "#7A4A1E",
)  # fmt: skip
CATEGORY_COLOURS_DARK = (
    "#3D9BDC", "#E69F00", "#1DBF93", "#E8702A", "#DB8FBA",
    "#7CC8F5", "#D2C52E", "#A98BE0", "#A6A6A6", "#C08A5A",
)  # fmt: skip
SEQUENTIAL_COLOURS = (
    "#00224e", "#1a386f", "#434e6c", "#61656f", "#7d7c78", "#9b9476", "#bcae6c", "#dec958",
    "#fee838",
)  # fmt: skip
NO_VALUE, NO_VALUE_DARK = "#c9ccd1", "#4b5058"
MARKERS = ("o", "s", "^", "v", "D", "P", "X", "<", ">", "*")
_LIGHTEST_SHOWN = 0.94  # of the scale: the end that vanishes on white paper is left out


def category_style(index: int) -> tuple[str, str]:
    """Colour and marker of the class with this number; no two of the first hundred are alike."""
    turn, colour = divmod(index, len(CATEGORY_COLOURS))
    return CATEGORY_COLOURS[colour], MARKERS[(colour + turn) % len(MARKERS)]


def number_colour(share: float) -> str:
    """The colour, on white paper, of a number this far (0 to 1) along its range."""
    at = _LIGHTEST_SHOWN * min(max(share, 0.0), 1.0) * (len(SEQUENTIAL_COLOURS) - 1)
    lower = min(int(at), len(SEQUENTIAL_COLOURS) - 2)
    a, b = (_parts(SEQUENTIAL_COLOURS[i]) for i in (lower, lower + 1))
    mixed = (round(one + (other - one) * (at - lower)) for one, other in zip(a, b, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _parts(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
