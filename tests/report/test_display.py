"""Displays of matplotlib: what is drawn, on which axes, and the files they make."""

import re
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.manifold import TSNE
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearfold.report.display as display_module
from nearfold import PCA
from nearfold.errors import InputError
from nearfold.quality import shepard
from nearfold.report.display import CurveDisplay, EmbeddingDisplay, ScreeDisplay, ShepardDisplay
from nearfold.report.figure import east_asian_fonts
from nearfold.study import colours

matplotlib.use("Agg")


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


@pytest.fixture
def iris():
    return load_iris(return_X_y=True)


def cloud(n=60, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def style(collection):
    """What a reader sees of it: its colour and its mark."""
    marker = collection.get_paths()[0].vertices.round(6).tobytes()
    return to_hex(collection.get_facecolor()[0]), marker


def drawn(collections):
    return np.concatenate([part.get_offsets() for part in collections])


def test_an_estimator_is_drawn_where_it_places_the_rows(iris, ax):
    X, y = iris
    model = PCA(3).fit(X)
    shown = EmbeddingDisplay.from_estimator(model, X, y, dimensions=(0, 2), ax=ax, name="iris")
    Z = model.transform(X)
    for c, part in enumerate(shown.scatter_):
        np.testing.assert_allclose(part.get_offsets(), Z[y == c][:, [0, 2]])
    assert shown.ax_ is ax
    assert shown.figure_ is ax.figure
    share = 100 * model.explained_variance_ratio_
    assert ax.get_xlabel() == f"axis 1 ({share[0]:.3g} % of the variance)"
    assert ax.get_ylabel() == f"axis 3 ({share[2]:.3g} % of the variance)"
    assert ax.get_title() == "iris"
    assert [text.get_text() for text in shown.legend_.get_texts()] == ["0", "1", "2"]
    assert shown.colorbar_ is None


def test_a_pipeline_and_an_estimator_without_transform(iris, ax):
    X, _ = iris
    pipeline = make_pipeline(StandardScaler(), PCA(2)).fit(X)
    shown = EmbeddingDisplay.from_estimator(pipeline, X, ax=ax)
    np.testing.assert_allclose(drawn(shown.scatter_), pipeline.transform(X))
    assert "% of the variance" in ax.get_xlabel()
    fitted = TSNE(init="random", max_iter=250, random_state=0).fit(X)
    shown = EmbeddingDisplay.from_estimator(fitted, X, ax=ax)
    np.testing.assert_allclose(drawn(shown.scatter_), fitted.embedding_, rtol=1e-6)
    with pytest.raises(InputError, match="TSNE has no transform"):
        EmbeddingDisplay.from_estimator(fitted, X[:10], ax=ax)


def test_no_two_classes_look_alike(ax):
    y = np.repeat(np.arange(20), 3)
    shown = EmbeddingDisplay.from_embedding(cloud(60), y, ax=ax, kind="category")
    styles = [style(part) for part in shown.scatter_]
    assert len(set(styles)) == 20
    few = EmbeddingDisplay.from_embedding(cloud(60), y % 10, ax=Figure().subplots())
    assert len({style(part)[0] for part in few.scatter_}) == 10
    assert len({style(part)[1] for part in few.scatter_}) == 10
    assert len({colours.category_style(i) for i in range(100)}) == 100


def test_beyond_thirty_classes_the_small_ones_go_together(ax):
    y = np.concatenate([np.arange(40), np.arange(29)])  # 0 to 28 come twice
    shown = EmbeddingDisplay.from_embedding(cloud(69), y, ax=ax, kind="category")
    assert len(shown.scatter_) == 30
    assert shown.legend_.get_texts()[-1].get_text() == "11 others"
    assert style(shown.scatter_[-1])[0] == colours.NO_VALUE
    assert len(shown.scatter_[-1].get_offsets()) == 11
    assert len(drawn(shown.scatter_)) == 69


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.linspace(0, 1, 60), "number"),
        (np.arange(60), "number"),
        (np.arange(60) % 5, "category"),
        ((np.arange(60) % 5).astype(float), "category"),
        (np.array(list("abc") * 20), "category"),
        (np.arange(60) % 2 == 0, "category"),
        (pd.Series(["a", "b"] * 30, dtype="category"), "category"),
        (["a", 1] * 30, "category"),
    ],
)
def test_classes_and_numbers_are_told_apart(y, kind, ax):
    shown = EmbeddingDisplay.from_embedding(cloud(60), y, ax=ax)
    assert (shown.colorbar_ is not None) == (kind == "number")
    assert (shown.legend_ is not None) == (kind == "category")
    assert len(drawn(shown.scatter_)) == 60


def test_numbers_run_along_the_scale(ax):
    y = np.linspace(-3, 5, 60)
    shown = EmbeddingDisplay.from_embedding(cloud(60), y, ax=ax)
    (points,) = shown.scatter_
    np.testing.assert_array_equal(points.get_array(), y)
    shown.figure_.draw_without_rendering()
    seen = points.get_facecolors()
    assert to_hex(seen[0]) == colours.number_colour(0) == colours.SEQUENTIAL_COLOURS[0]
    assert to_hex(seen[-1]) == colours.number_colour(1)
    assert contrast(colours.number_colour(1), "#ffffff") > 1.3
    assert contrast(colours.SEQUENTIAL_COLOURS[-1], "#ffffff") < 1.3
    lightness = seen[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(lightness) > -1e-9).all()


@pytest.mark.parametrize(
    "y",
    [np.array([0.5, np.nan, 2.5] * 20), np.array(["a", None, "b"] * 20, dtype=object),
     pd.Series(["a", pd.NA, "b"] * 20), np.array([1.0, np.nan, 2.0] * 20)],
    ids=["number", "none", "pandas", "whole"],
)  # fmt: skip
def test_rows_without_a_value_are_grey(y, ax):
    shown = EmbeddingDisplay.from_embedding(cloud(60), y, ax=ax)
    grey = [part for part in shown.scatter_ if style(part)[0] == colours.NO_VALUE]
    assert len(grey) == 1
    np.testing.assert_allclose(grey[0].get_offsets(), cloud(60)[1::3])
    assert grey[0].get_label() == "no value"


def test_one_axis_is_a_strip_with_a_lane_per_class(ax):
    Z, y = cloud(60, 1), np.repeat(["b", "a"], 30)
    shown = EmbeddingDisplay.from_embedding(Z, y, ax=ax)
    for lane, rows in enumerate((slice(30, 60), slice(0, 30))):  # a, then b
        offsets = shown.scatter_[lane].get_offsets()
        np.testing.assert_allclose(offsets[:, 0], Z[rows, 0])
        assert np.abs(offsets[:, 1] + lane).max() < 0.5
        assert len(np.unique(offsets[:, 1])) == 30
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b"]
    assert shown.legend_ is None
    picked = EmbeddingDisplay.from_embedding(cloud(60, 3), dimensions=(2,), ax=Figure().subplots())
    np.testing.assert_allclose(picked.scatter_[0].get_offsets()[:, 0], cloud(60, 3)[:, 2])
    assert picked.ax_.get_xlabel() == "axis 3"


def test_what_the_caller_asks_for_is_done(ax):
    y = np.repeat(["a", "b"], 30)
    shown = EmbeddingDisplay.from_embedding(
        cloud(60), y, ax=ax, palette={"b": "#123456"}, markers=["x", "s"], labels={"a": "first"},
        s=7, alpha=0.5, axis_names=["left", "up"], legend_options={"title": "which"},
    )  # fmt: skip
    assert style(shown.scatter_[1])[0] == "#123456"
    assert style(shown.scatter_[0])[0] == colours.CATEGORY_COLOURS[0].lower()
    assert [text.get_text() for text in shown.legend_.get_texts()] == ["first", "b"]
    assert shown.legend_.get_title().get_text() == "which"
    assert shown.scatter_[0].get_alpha() == 0.5
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("left", "up")
    assert [part.get_sizes()[0] for part in shown.scatter_] == [7, 7 * 0.85]  # squares look large
    same = EmbeddingDisplay.from_embedding(cloud(60), y, ax=Figure().subplots(), marker="v")
    assert style(same.scatter_[0])[1] == style(same.scatter_[1])[1]
    bare = EmbeddingDisplay.from_embedding(cloud(60), y, ax=Figure().subplots(), legend=False)
    assert bare.legend_ is None


def test_no_class_hides_the_others_in_a_large_picture(ax):
    y = np.repeat([0, 1], 1500)
    shown = EmbeddingDisplay.from_embedding(cloud(3000), y, ax=ax)
    order = [style(part)[0] for part in shown.scatter_]
    assert order == [c.lower() for c in colours.CATEGORY_COLOURS[:2]] * 8
    assert len(drawn(shown.scatter_)) == len(np.unique(drawn(shown.scatter_), axis=0)) == 3000
    assert len(shown.legend_.get_texts()) == 2


def test_pyplot_is_left_alone_when_axes_are_given(ax, tmp_path):
    from matplotlib import pyplot

    before, family = pyplot.get_fignums(), list(matplotlib.rcParams["font.family"])
    shown = EmbeddingDisplay.from_embedding(cloud(), ["a"] * 60, ax=ax, name="one")
    shown.save(tmp_path / "a.svg")
    EmbeddingDisplay(cloud()).save(tmp_path / "b.png")  # not drawn before: on a figure of its own
    assert pyplot.get_fignums() == before
    assert list(matplotlib.rcParams["font.family"]) == family
    made = EmbeddingDisplay.from_embedding(cloud())
    assert pyplot.get_fignums() == [*before, made.figure_.number]
    pyplot.close(made.figure_)


def displays(ax):
    x = np.arange(1, 9)
    return {
        "embedding": lambda: EmbeddingDisplay.from_embedding(cloud(), np.arange(60) % 3, ax=ax),
        "curve": lambda: CurveDisplay.from_arrays(x, x / 9, low=x / 10, high=x / 8, best=4, ax=ax),
        "scree": lambda: ScreeDisplay.from_share([0.6, 0.3, 0.1], ax=ax),
        "shepard": lambda: ShepardDisplay.from_spaces(cloud(60, 4), cloud(60, 4)[:, :2], ax=ax),
    }


@pytest.mark.parametrize("which", ["embedding", "curve", "scree", "shepard"])
def test_files_for_papers(which, ax, tmp_path):
    shown = displays(ax)[which]()
    pdf = shown.save(tmp_path / "figure.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/FontFile2" in pdf  # the font itself, so that text stays text
    svg = shown.save(str(tmp_path / "figure.svg")).read_text()
    assert "<svg" in svg
    assert re.search(r"<text[^>]*>[^<]*(axis|dimensions|distance)", svg)
    assert shown.save(tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert shown.save(tmp_path / "again.pdf").read_bytes() == pdf
    with pytest.raises(InputError, match=r"'figure.bmp' does not end in .pdf, .svg, .png"):
        shown.save(tmp_path / "figure.bmp")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "again.pdf", "figure.pdf", "figure.png", "figure.svg",
    ]  # fmt: skip


def test_very_many_points_become_an_image(tmp_path, monkeypatch):
    monkeypatch.setattr(display_module, "VECTOR_POINTS", 50)
    few, many = (
        EmbeddingDisplay.from_embedding(cloud(n), ax=Figure().subplots())
        .save(tmp_path / f"{n}.svg")
        .read_text()
        for n in (50, 51)
    )
    assert "<image" not in few
    assert "<image" in many
    assert "<text" in many


def test_chinese_words_have_their_letters(ax, tmp_path):
    if not east_asian_fonts():
        pytest.skip("no font with Chinese letters is installed")
    y = np.repeat(["设备", "电源"], 30)
    before = list(matplotlib.rcParams["font.family"])
    for Z in (cloud(), cloud()[:, :1]):  # a letter that is missing would be a warning
        EmbeddingDisplay.from_embedding(Z, y, ax=ax, name="空间").save(tmp_path / "a.png")
        ax.clear()
    CurveDisplay([1, 2], [3, 4], x_name="维数", name="主成分").plot(ax).save(tmp_path / "b.png")
    assert list(matplotlib.rcParams["font.family"]) == before


def test_mistakes_are_told(ax):
    with pytest.raises(InputError, match="y has 3 entries and the space has 60 rows"):
        EmbeddingDisplay.from_embedding(cloud(), [1, 2, 3], ax=ax)
    for dimensions in ((0, 2), (0, 1, 1), (-1,), ()):
        with pytest.raises(InputError, match="one or two axes from 0 to 1"):
            EmbeddingDisplay.from_embedding(cloud(), dimensions=dimensions, ax=ax)
    with pytest.raises(InputError, match="kind='class'"):
        EmbeddingDisplay.from_embedding(cloud(), np.arange(60), kind="class", ax=ax)
    with pytest.raises(InputError, match="not numbers"):
        EmbeddingDisplay.from_embedding(cloud(), ["a"] * 60, kind="number", ax=ax)


def test_a_curve_with_its_interval_and_marks(ax):
    x, y = np.array([4, 1, 2]), np.array([0.9, 0.5, 0.7])
    shown = CurveDisplay.from_arrays(x, y, low=y - 0.1, high=y + 0.05, chosen=2, best=4, ax=ax)
    np.testing.assert_array_equal(shown.line_.get_xdata(), [1, 2, 4])
    np.testing.assert_array_equal(shown.line_.get_ydata(), [0.5, 0.7, 0.9])
    low, high = shown.band_.get_paths()[0].get_extents().get_points()
    np.testing.assert_allclose([low, high], [[1, 0.4], [4, 0.95]])
    np.testing.assert_allclose(shown.chosen_.get_offsets(), [[2, 0.7]])
    np.testing.assert_allclose(shown.best_.get_offsets(), [[4, 0.9]])
    other = CurveDisplay(x, y / 2, name="other").plot(ax)
    assert other.line_.get_color() != shown.line_.get_color()
    assert other.band_ is other.chosen_ is other.best_ is None
    with pytest.raises(InputError, match="two ends"):
        CurveDisplay(x, y, low=y)
    with pytest.raises(InputError, match=r"y has the shape .2,.: give 3 numbers"):
        CurveDisplay(x, y[:2])


def test_a_scree(iris, ax):
    model = PCA().fit(iris[0])
    shown = ScreeDisplay.from_estimator(model, noise=[0.3, 0.2], chosen=1, ax=ax)
    heights = [bar.get_height() for bar in shown.bars_]
    np.testing.assert_allclose(heights, model.explained_variance_ratio_)
    np.testing.assert_allclose(shown.cumulative_.get_ydata(), np.cumsum(heights))
    np.testing.assert_allclose(shown.noise_.get_ydata(), [0.3, 0.2])
    assert shown.chosen_.get_xdata()[0] == 1.5
    with pytest.raises(InputError, match="StandardScaler has no explained_variance_ratio_"):
        ScreeDisplay.from_estimator(StandardScaler(), ax=ax)


def test_a_shepard_diagram(ax):
    X = cloud(200, 4)
    found = shepard(X, X[:, :2], n_pairs=2000)
    shown = ShepardDisplay.from_result(found, ax=ax, name="two axes")
    assert shown.cells_.get_array().sum() == 2000
    assert ax.get_title() == f"two axes: rank correlation {found.spearman:.3f}"
    middle = shown.median_.get_ydata()
    low, high = (line.get_ydata() for line in shown.band_)
    assert (low <= middle).all()
    assert (middle <= high).all()
    inside = np.interp(found.original, shown.median_.get_xdata(), middle)
    assert (found.embedded > inside).mean() == pytest.approx(0.5, abs=0.05)


def luminance(colour):
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear, float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    a, b = sorted((luminance(one)[1], luminance(other)[1]))
    return (b + 0.05) / (a + 0.05)


# Linear RGB as people without one kind of cone see it (Vienot, Brettel and Mollon, 1999).
BLIND = {
    "red": [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
    "green": [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
}


@pytest.mark.parametrize(
    ("palette", "paper"),
    [(colours.CATEGORY_COLOURS, "#ffffff"), (colours.CATEGORY_COLOURS_DARK, "#16181d")],
    ids=["light", "dark"],
)
def test_colours_can_be_seen_and_told_apart(palette, paper):
    assert len(set(palette)) == len(palette) >= 10
    assert "#000000" not in palette
    assert min(contrast(colour, paper) for colour in palette) > 2
    for matrix in BLIND.values():
        seen = [np.cbrt(np.clip(np.array(matrix) @ luminance(c)[0], 0, 1)) for c in palette]
        gaps = [np.linalg.norm(a - b) for i, a in enumerate(seen) for b in seen[:i]]
        assert min(gaps) > 0.025  # the closest pairs have different marks besides


def test_the_page_has_the_same_colours():
    page = Path(display_module.__file__).parent / "page" / "colours.js"
    text = " ".join(page.read_text().lower().split())
    for palette in (
        colours.CATEGORY_COLOURS,
        colours.CATEGORY_COLOURS_DARK,
        colours.SEQUENTIAL_COLOURS,
    ):
        assert ", ".join(f'"{colour.lower()}"' for colour in palette) in text
    assert f'light: "{colours.NO_VALUE}", dark: "{colours.NO_VALUE_DARK}"' in text
