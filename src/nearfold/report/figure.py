"""What all displays share: a place to draw, fonts that have the letters, files for papers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from nearfold.errors import InputError
from nearfold.store.atomic import write_atomically

VECTOR_POINTS = 20_000  # more points than this are drawn as an image inside a vector file
_QUIET = "#8a8f98"
_INK = "#2b2f36"
_FIRST_EAST_ASIAN = 0x2E80  # letters from here on
_EAST_ASIAN = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "Source Han Sans CN",
    "Microsoft YaHei", "PingFang SC", "Hiragino Sans GB", "SimHei", "WenQuanYi Micro Hei",
)  # fmt: skip
_EAST_ASIAN_FILES = ("NotoSansCJK-Regular", "SourceHanSans", "msyh", "PingFang", "simhei", "wqy")
# Fonts travel as fonts: text in a PDF can be searched, in an SVG it can be edited.
_FILE_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "svg.hashsalt": "nearfold",
}
_NO_DATE = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}


class Display:
    """A drawing that can be drawn again; after `plot` it has `ax_` and `figure_`."""

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Display:
        """Draw."""
        raise NotImplementedError

    def save(self, path: str | Path, *, dpi: int = 200) -> Path:
        """Save the figure as .pdf, .svg or .png (by the name); returns the path.

        Drawn first if it was not yet. No date is written into it.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in _NO_DATE:
            raise InputError(
                f"{path.name!r} does not end in {', '.join(_NO_DATE)}: these are the kinds of file "
                "a figure can be saved as."
            )
        if not hasattr(self, "ax_"):
            self.plot(_lone_axes())
        from matplotlib import rc_context

        def write(file: BinaryIO) -> None:
            self.figure_.savefig(
                file, format=kind[1:], dpi=dpi, bbox_inches="tight", metadata=_NO_DATE[kind]
            )

        with rc_context(_FILE_SETTINGS):
            return write_atomically(path, write)

    def _take(self, ax: Any, size: tuple[float, float] = (6.0, 4.8)) -> Any:
        """The axes to draw on: those given, or new ones of pyplot, as in scikit-learn."""
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    @contextmanager
    def _readable(self, words: Iterable[Any]) -> Iterator[None]:
        """Fonts for all letters of these words, while inside: the usual one has no Chinese."""
        from matplotlib import rc_context, rcParams

        if all(ord(letter) < _FIRST_EAST_ASIAN for word in words for letter in str(word)):
            yield
            return
        family = [*rcParams["font.family"], *east_asian_fonts()]
        with rc_context({"font.family": family}):
            yield
        ax = self.ax_  # axes of the caller's were made before, with fonts of their own
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label, *ax.get_yticklabels()):
            text.set_fontfamily(family)


def _lone_axes() -> Any:
    """Axes of a figure that pyplot does not know."""
    from matplotlib.figure import Figure

    return Figure(figsize=(6.0, 4.8), layout="constrained").subplots()


def calm(ax: Any) -> None:
    """Take away what does not speak: two of the four sides, dark ticks."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color("#c4c8ce")
    ax.tick_params(colors=_QUIET, labelsize=8, length=3)
    ax.xaxis.label.set_color(_INK)
    ax.yaxis.label.set_color(_INK)


def east_asian_fonts() -> list[str]:
    """An installed font with Chinese letters, if there is one."""
    from matplotlib import font_manager

    known = font_manager.fontManager
    found = [name for name in _EAST_ASIAN if name in known.get_font_names()]
    if not found:  # matplotlib's own list may be older than the fonts
        for file in font_manager.findSystemFonts():
            if Path(file).name.startswith(_EAST_ASIAN_FILES):
                known.addfont(file)
        found = [name for name in _EAST_ASIAN if name in known.get_font_names()]
    return found[:1]
