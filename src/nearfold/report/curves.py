"""Figures of a study with matplotlib: score against d', scree, Shepard; see display.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.inputs import check_rows
from nearfold.notation import Floats
from nearfold.quality.shepard import Shepard, shepard
from nearfold.report.figure import Display, calm
from nearfold.study.colours import CATEGORY_COLOURS, SEQUENTIAL_COLOURS

_BLUE, _ORANGE = CATEGORY_COLOURS[0], CATEGORY_COLOURS[3]
_GREY = "#8a8f98"
_PAIRS = ("#e3e9f1", "#8fa9c9", SEQUENTIAL_COLOURS[1], SEQUENTIAL_COLOURS[0])  # few to many
_BINS = 20  # of a Shepard diagram, with equally many pairs in each


def _vector(values: Any, length: int | None, name: str) -> Floats:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or len(vector) == 0 or (length is not None and len(vector) != length):
        wanted = "one number per point" if length is None else f"{length} numbers"
        raise InputError(f"{name} has the shape {vector.shape}: give {wanted}.")
    return vector


class CurveDisplay(Display):
    """A score against the number of dimensions (or neighbours), with its interval.

    After `plot`: `ax_`, `figure_`, `line_`, `band_` (None without an interval), `chosen_` and
    `best_` (marks, None where there is none). Several curves share a picture:
    `other.plot(ax=first.ax_)`.
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        *,
        low: Any = None,
        high: Any = None,
        chosen: float | None = None,
        best: float | None = None,
        name: str | None = None,
        x_name: str = "dimensions d'",
        y_name: str = "held-out score",
    ) -> None:
        if (low is None) != (high is None):
            raise InputError("an interval has two ends: give both low and high, or neither.")
        x = _vector(x, None, "x")
        order = np.argsort(x, kind="stable")
        self.x, self.y = x[order], _vector(y, len(x), "y")[order]
        self.low = None if low is None else _vector(low, len(x), "low")[order]
        self.high = None if high is None else _vector(high, len(x), "high")[order]
        self.chosen = chosen
        self.best = best
        self.name = name
        self.x_name = x_name
        self.y_name = y_name

    @classmethod
    def from_arrays(cls, x: Any, y: Any, *, ax: Any = None, **described: Any) -> CurveDisplay:
        """Draw y over x; `low`, `high`, `chosen`, `best` and names as in the constructor."""
        return cls(x, y, **described).plot(ax)

    def plot(self, ax: Any = None, **line_options: Any) -> CurveDisplay:
        """Draw on `ax`, or on a new figure of pyplot; `line_options` go to `Axes.plot`."""
        with self._readable([self.name or "", self.x_name, self.y_name]):
            ax = self._take(ax, (6.0, 4.0))
            colour = CATEGORY_COLOURS[len(ax.lines) % len(CATEGORY_COLOURS)]
            few = len(self.x) <= 30
            style = {"color": colour, "lw": 1.8, "marker": "o" if few else None, "ms": 3.5}
            (self.line_,) = ax.plot(self.x, self.y, **{**style, "label": self.name, **line_options})
            colour = self.line_.get_color()
            self.band_ = None
            if self.low is not None:
                self.band_ = ax.fill_between(
                    self.x, self.low, self.high, color=colour, alpha=0.15, linewidth=0
                )
            self.best_ = self._mark(self.best, "best", colour, filled=False)
            self.chosen_ = self._mark(self.chosen, "chosen", colour, filled=True)
            ax.set_xlabel(self.x_name)
            ax.set_ylabel(self.y_name)
            if np.all(self.x == np.rint(self.x)):
                ax.xaxis.get_major_locator().set_params(integer=True)
            calm(ax)
            if ax.get_legend_handles_labels()[0]:
                ax.legend(frameon=False, fontsize=9)
        return self

    def _mark(self, at: float | None, word: str, colour: Any, *, filled: bool) -> Any:
        if at is None:
            return None
        height = float(np.interp(at, self.x, self.y))
        named = f"{word}: {at:g}" if self.name is None else f"{self.name}, {word}: {at:g}"
        marker, size = ("D", 62) if filled else ("o", 110)
        return self.ax_.scatter(
            [at],
            [height],
            s=size,
            marker=marker,
            facecolors=colour if filled else "none",
            edgecolors="white" if filled else colour,
            linewidths=1.0 if filled else 1.6,
            zorder=4,
            label=named,
        )


class ScreeDisplay(Display):
    """The share of the variance on each axis, summed up, and beside what noise would give.

    After `plot`: `ax_`, `figure_`, `bars_`, `cumulative_` (a line), `noise_` and `chosen_` (None
    where there is none).
    """

    def __init__(
        self,
        share: Any,
        *,
        noise: Any = None,
        chosen: int | None = None,
        name: str | None = None,
    ) -> None:
        self.share = _vector(share, None, "share")
        self.noise = None if noise is None else _vector(noise, None, "noise")
        self.chosen = chosen
        self.name = name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **described: Any) -> ScreeDisplay:
        """Draw the `explained_variance_ratio_` of a fitted PCA, LDA or the like."""
        last = estimator[-1] if hasattr(estimator, "steps") else estimator
        share = getattr(last, "explained_variance_ratio_", None)
        if share is None:
            raise InputError(
                f"{type(last).__name__} has no explained_variance_ratio_ (is it fitted?): use "
                "ScreeDisplay.from_share with the shares of its axes."
            )
        return cls(share, **described).plot(ax)

    @classmethod
    def from_share(cls, share: Any, *, ax: Any = None, **described: Any) -> ScreeDisplay:
        """Draw shares, largest first; `noise`: those of data without structure."""
        return cls(share, **described).plot(ax)

    def plot(self, ax: Any = None) -> ScreeDisplay:
        """Draw on `ax`, or on a new figure of pyplot."""
        with self._readable([self.name or ""]):
            ax = self._take(ax, (6.0, 4.0))
            at = np.arange(1, len(self.share) + 1)
            width = 0.8 if len(at) < 60 else 1.0
            self.bars_ = ax.bar(at, self.share, width, color=_BLUE, alpha=0.85, label="this axis")
            marks = "o" if len(at) <= 30 else None
            (self.cumulative_,) = ax.plot(
                at,
                np.cumsum(self.share),
                color=_ORANGE,
                lw=1.6,
                marker=marks,
                ms=3,
                label="up to it",
            )
            self.noise_ = self.chosen_ = None
            if self.noise is not None:
                along = np.arange(1, len(self.noise) + 1)
                (self.noise_,) = ax.plot(
                    along, self.noise, color=_GREY, lw=1.4, ls=(0, (4, 2)), label="noise"
                )
            if self.chosen is not None:
                self.chosen_ = ax.axvline(
                    self.chosen + 0.5, color=_GREY, lw=1.0, ls=":", label=f"chosen: {self.chosen}"
                )
            ax.set_xlabel("axis")
            ax.set_ylabel("share of the variance")
            ax.set_ylim(0, 1.03)
            ax.xaxis.get_major_locator().set_params(integer=True)
            ax.legend(frameon=False, fontsize=9, loc="center right")
            calm(ax)
            if self.name:
                ax.set_title(self.name, fontsize=11)
        return self


class ShepardDisplay(Display):
    """Distances in the space against those in the original one, and their running median.

    After `plot`: `ax_`, `figure_`, `cells_` (how many pairs, as hexagons), `median_` and `band_`
    (lines; the latter two, within which 80 % of the pairs lie).
    """

    def __init__(self, found: Shepard, *, name: str | None = None) -> None:
        self.found = found
        self.name = name

    @classmethod
    def from_spaces(
        cls, X: Any, Z: Any, *, name: str | None = None, ax: Any = None, **options: Any
    ) -> ShepardDisplay:
        """Draw random pairs of rows of X and of their places Z; `options` go to `shepard`."""
        return cls(shepard(X, check_rows(Z), **options), name=name).plot(ax)

    @classmethod
    def from_result(
        cls, found: Shepard, *, name: str | None = None, ax: Any = None
    ) -> ShepardDisplay:
        """Draw what `nearfold.quality.shepard` or `judge_space` found."""
        return cls(found, name=name).plot(ax)

    def plot(self, ax: Any = None) -> ShepardDisplay:
        """Draw on `ax`, or on a new figure of pyplot."""
        from matplotlib.colors import LinearSegmentedColormap, LogNorm

        x, y = self.found.original, self.found.embedded
        cells = {
            "gridsize": 50,
            "mincnt": 1,
            "cmap": LinearSegmentedColormap.from_list("nearfold", _PAIRS),
            "norm": LogNorm(),
            "linewidths": 0.3,
            "edgecolors": "face",
        }
        with self._readable([self.name or ""]):
            ax = self._take(ax, (5.4, 4.8))
            self.cells_ = ax.hexbin(x, y, **cells)
            at, low, middle, high = _running_quantiles(x, y)
            (self.median_,) = ax.plot(at, middle, color=_ORANGE, lw=1.8, label="median")
            thin = {"color": _ORANGE, "lw": 1.0, "ls": (0, (4, 2))}
            (under,) = ax.plot(at, low, label="10 % and 90 %", **thin)
            self.band_ = (under, *ax.plot(at, high, **thin))
            ax.legend(frameon=False, fontsize=9, loc="upper left")
            ax.set_xlabel("distance in the original space")
            ax.set_ylabel("distance in this space")
            ax.set_xlim(left=0)
            ax.set_ylim(bottom=0)
            said = f"rank correlation {self.found.spearman:.3f}"
            ax.set_title(said if not self.name else f"{self.name}: {said}", fontsize=11)
            calm(ax)
        return self


def _running_quantiles(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean x, and the 10, 50 and 90 % quantiles of y, in bins of equally many pairs."""
    bins = np.array_split(np.argsort(x, kind="stable"), min(_BINS, len(x)))
    at = np.array([x[rows].mean() for rows in bins])
    low, middle, high = np.array([np.quantile(y[rows], [0.1, 0.5, 0.9]) for rows in bins]).T
    return at, low, middle, high
