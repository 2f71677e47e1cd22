"""A space drawn with matplotlib, in scikit-learn's Display convention.

    EmbeddingDisplay.from_estimator(model, X, y).save("space.pdf")

Classes have a colour and a mark of their own (safe for colour-blind readers) and a legend, numbers
a scale beside the picture. One axis is drawn as a strip, a lane per class. The other figures of the
report are in `curves.py` and can be imported from here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.inputs import check_rows
from nearfold.notation import Floats, Ints
from nearfold.report.curves import CurveDisplay, ScreeDisplay, ShepardDisplay
from nearfold.report.figure import VECTOR_POINTS, Display, calm
from nearfold.report.groups import Groups, group_rows
from nearfold.study.colours import NO_VALUE, category_style, number_colour

__all__ = ["CurveDisplay", "EmbeddingDisplay", "ScreeDisplay", "ShepardDisplay"]

_MOST_CLASSES = 30  # with a place of their own in the legend
_ALL_AT_ONCE, _TURNS = 2_000, 8  # of more rows every eighth of each class is drawn in turn
_AREA = {"s": 0.85, "D": 0.75, "P": 1.2, "X": 1.2, "*": 1.6}  # marks that look equally large
_LANE = 0.35  # half the width of a strip's lane


class EmbeddingDisplay(Display):
    """Rows of a space over two of its axes (or one), coloured by class or by number.

    Made by `from_estimator` or `from_embedding`. After `plot`: `ax_`, `figure_`, `scatter_` (a
    list, one collection per class; of more than 2,000 rows several, in turn, so that no class hides
    the others), `legend_` (of classes) and `colorbar_` (of numbers), None where there is none.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold import PCA
    >>> from nearfold.report.display import EmbeddingDisplay
    >>> from matplotlib.figure import Figure
    >>> X, y = load_iris(return_X_y=True)
    >>> display = EmbeddingDisplay.from_estimator(PCA(2).fit(X), X, y, ax=Figure().subplots())
    >>> len(display.scatter_)
    3
    """

    scatter_: list[Any]
    legend_: Any
    colorbar_: Any

    def __init__(
        self,
        Z: Floats,
        y: Any = None,
        *,
        axis_names: list[str] | None = None,
        kind: str = "auto",
        name: str | None = None,
    ) -> None:
        self.Z = Z
        self.y = y
        self.axis_names = axis_names or [f"axis {i + 1}" for i in range(Z.shape[1])]
        self.kind = kind
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        dimensions: tuple[int, ...] = (0, 1),
        kind: str = "auto",
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> EmbeddingDisplay:
        """Draw the rows of X in the space of a fitted estimator (or a pipeline that ends in one).

        An estimator without `transform` (scikit-learn's MDS and TSNE) shows its own rows.
        `options` go to `plot`.
        """
        Z = check_rows(_placed(estimator, X))
        last = estimator[-1] if hasattr(estimator, "steps") else estimator
        share = getattr(last, "explained_variance_ratio_", ())
        names = [f"axis {i + 1}" for i in range(Z.shape[1])]
        for i, part in enumerate(share[: len(names)]):
            names[i] += f" ({100 * part:.3g} % of the variance)"
        options = {"name": name, "kind": kind, "axis_names": names, **options}
        return cls.from_embedding(Z, y, dimensions=dimensions, ax=ax, **options)

    @classmethod
    def from_embedding(
        cls,
        Z: Any,
        y: Any = None,
        *,
        dimensions: tuple[int, ...] = (0, 1),
        axis_names: list[str] | None = None,
        kind: str = "auto",
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> EmbeddingDisplay:
        """Draw coordinates (n, d'). `y`: one class or number per row.

        dimensions: the axes to draw, two or one; of a space with one axis, that one.
        kind: "category", "number", or "auto" (numbers with a fraction, and whole ones of more than
            20 values, are numbers). Further `options` go to `plot`.
        """
        Z = check_rows(Z)
        shown = _check_dimensions(dimensions, Z.shape[1])
        if y is not None and len(y) != len(Z):
            raise InputError(f"y has {len(y)} entries and the space has {len(Z)} rows.")
        chosen = None if axis_names is None else [axis_names[i] for i in shown]
        names = chosen or [f"axis {i + 1}" for i in shown]
        display = cls(Z[:, shown], y, axis_names=names, kind=kind, name=name)
        return display.plot(ax, **options)

    def plot(
        self,
        ax: Any = None,
        *,
        palette: Any = None,
        markers: Any = None,
        labels: dict[Any, str] | None = None,
        legend: bool = True,
        legend_options: dict[str, Any] | None = None,
        **scatter_options: Any,
    ) -> EmbeddingDisplay:
        """Draw on `ax`, or on a new figure of pyplot.

        palette: colours for the classes in order, a dict by class, or a colour map for numbers.
        markers: likewise, marks of matplotlib.
        labels: what to call classes in the legend, if not by themselves.
        legend: False leaves out the legend and the scale.
        scatter_options: for `Axes.scatter`, such as `s` and `alpha`.
        """
        beside = ax is None  # on axes of the caller's the legend goes where there is room
        groups = group_rows(self.y, len(self.Z), self.kind, _MOST_CLASSES)
        called = [
            (labels or {}).get(value, name)
            for value, name in zip(groups.values, groups.names, strict=True)
        ]
        options = {**_point_options(len(self.Z)), **scatter_options}
        with self._readable([*self.axis_names, self.name or "", *called]):
            self._take(ax)
            self.legend_ = self.colorbar_ = None
            if groups.numbers is not None:
                self._draw_numbers(groups.numbers, palette, legend, options)
            else:
                self._draw_classes(groups, called, palette, markers, options)
            if legend and len(called) > 1 and self.Z.shape[1] == 2:
                self._draw_legend(len(called), beside, legend_options or {})
            self._dress(called)
        return self

    def _draw_classes(
        self, groups: Groups, called: list[str], palette: Any, markers: Any, options: dict[str, Any]
    ) -> None:
        self.scatter_ = []
        turns = 1 if len(self.Z) <= _ALL_AT_ONCE else _TURNS
        given = {name: value for name, value in options.items() if name != "s"}
        for turn in range(turns):
            for i, rows in enumerate(groups.rows):
                some = rows[turn::turns]
                if len(some):
                    style = self._style(groups, i, palette, markers, options["s"])
                    label = called[i] if turn == 0 else None
                    drawn = {**style, **given, "label": label}
                    self.scatter_.append(self.ax_.scatter(*self._points(some, i), **drawn))

    def _style(
        self, groups: Groups, i: int, palette: Any, markers: Any, size: Any
    ) -> dict[str, Any]:
        colour, marker = category_style(i)
        if groups.is_rest[i]:
            colour, marker = NO_VALUE, "."
        value = groups.values[i]
        marker = "o" if len(groups.rows) == 1 else _pick(markers, value, i, marker)
        return {
            "color": _pick(palette, value, i, colour),
            "marker": marker,
            "s": size * _AREA.get(marker, 1.0),
            "zorder": 0.9 if groups.is_rest[i] else 1.0,
        }

    def _draw_numbers(
        self, numbers: Floats, palette: Any, legend: bool, options: dict[str, Any]
    ) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        if palette is None:
            stops = [number_colour(i / 16) for i in range(17)]
            palette = LinearSegmentedColormap.from_list("nearfold", stops)
        there = np.isfinite(numbers)
        self.scatter_ = []
        if not there.all():
            x, y = self._points(np.flatnonzero(~there), 0)
            grey = {"color": NO_VALUE, "marker": ".", "label": "no value", **options}
            self.scatter_.append(self.ax_.scatter(x, y, **grey))
        x, y = self._points(np.flatnonzero(there), 0)
        drawn = {"cmap": palette, **options}
        self.scatter_.append(self.ax_.scatter(x, y, c=numbers[there], **drawn))
        if legend:
            self.colorbar_ = self.figure_.colorbar(
                self.scatter_[-1], ax=self.ax_, fraction=0.05, pad=0.03, aspect=30
            )
            self.colorbar_.outline.set_visible(False)
            self.colorbar_.solids.set_alpha(1.0)
            self.colorbar_.ax.tick_params(labelsize=8, length=3)

    def _points(self, rows: Ints, lane: int) -> tuple[Floats, Floats]:
        """Where to draw some rows: of one axis, scattered over the width of a lane."""
        if self.Z.shape[1] == 2:
            return self.Z[rows, 0], self.Z[rows, 1]
        height = np.random.default_rng(0).uniform(-_LANE, _LANE, len(self.Z))
        return self.Z[rows, 0], height[rows] - lane  # the first class on top

    def _draw_legend(self, count: int, beside: bool, options: dict[str, Any]) -> None:
        columns = -(-count // 16)
        default = {"frameon": False, "fontsize": 9, "ncols": columns, "handletextpad": 0.3}
        place = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if beside else {}
        self.legend_ = self.ax_.legend(**{**default, **place, **options})
        for handle in self.legend_.legend_handles:
            handle.set_sizes([30.0])
            handle.set_alpha(1.0)

    def _dress(self, called: list[str]) -> None:
        calm(self.ax_)
        self.ax_.set_xlabel(self.axis_names[0])
        if self.Z.shape[1] == 2:
            self.ax_.set_ylabel(self.axis_names[1])
            self.ax_.set_aspect("equal", "datalim")  # a distance is a distance in every direction
        else:
            lanes = range(len(called)) if len(called) > 1 else range(0)
            self.ax_.set_yticks([-float(i) for i in lanes], [called[i] for i in lanes])
            self.ax_.set_ylim(-max(len(lanes) - 0.4, 1.2), 0.6 if len(lanes) else 1.2)
            self.ax_.spines["left"].set_visible(False)
        if self.name:
            self.ax_.set_title(self.name, fontsize=11)


def _placed(estimator: Any, X: Any) -> Any:
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    if hasattr(estimator, "transform"):
        return estimator.transform(X)
    placed = getattr(estimator, "embedding_", None)
    if placed is None or len(placed) != len(X):
        raise InputError(
            f"{type(estimator).__name__} has no transform, so it can show only the rows it was "
            "fitted on: give those, or use EmbeddingDisplay.from_embedding."
        )
    return placed


def _check_dimensions(dimensions: tuple[int, ...], available: int) -> list[int]:
    shown = [0] if available == 1 and tuple(dimensions) == (0, 1) else list(dimensions)
    if len(shown) not in (1, 2) or not all(0 <= i < available for i in shown):
        raise InputError(
            f"dimensions={tuple(dimensions)}: choose one or two axes from 0 to {available - 1}."
        )
    return shown


def _pick(chosen: Any, value: Any, index: int, default: str) -> str:
    if chosen is None:
        return default
    if hasattr(chosen, "get"):
        return str(chosen.get(value, default))
    return str(chosen[index % len(chosen)])


def _point_options(n: int) -> dict[str, Any]:
    """Smaller and fainter the more there are; an image inside a vector file if very many."""
    return {
        "s": float(np.clip(28_000 / max(n, 1), 1.5, 28.0)),
        "alpha": float(np.clip(4.0 / max(n, 1) ** 0.22, 0.35, 0.85)),
        "linewidths": 0,
        "rasterized": n > VECTOR_POINTS,
    }
