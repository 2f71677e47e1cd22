"""Spaces that are fitted when chosen, and their pictures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris

from nearfold.errors import Cancelled, InputError
from nearfold.messages import LANGUAGES
from nearfold.study.intake import open_table
from nearfold.study.pictures import align, draw_picture
from nearfold.study.spaces import open_space

X, Y = load_iris(return_X_y=True)
LABELLED, PLAIN = open_table(X, Y), open_table(X)


@pytest.mark.parametrize("name", ["raw", "scaled", "PCA", "LDA", "Isomap"])
def test_a_space_has_all_rows_and_a_held_out_score(name):
    found = open_space(LABELLED, name)
    assert len(found.coordinates) == len(X)
    assert 0.8 < found.score.low < found.score.mean <= found.score.high <= 1
    assert all(found.told.text(language) for language in LANGUAGES)
    assert np.allclose(found.model.transform(X), found.coordinates)


@pytest.mark.parametrize("name", ["PCA", "scaled", "LocallyLinearEmbedding", "LLE"])
def test_without_labels_neighbours_are_to_be_kept(name):
    if name == "LocallyLinearEmbedding":
        with pytest.raises(InputError, match="no such space"):
            open_space(PLAIN, name)
        return
    found = open_space(PLAIN, name)
    assert found.coordinates.shape[1] <= 4
    assert 0.3 < found.score.mean <= 1


def test_a_space_that_needs_labels_is_not_there_without():
    with pytest.raises(InputError, match="no such space"):
        open_space(PLAIN, "LDA")


def test_a_space_can_be_stopped():
    with pytest.raises(Cancelled):
        open_space(LABELLED, "KernelPCA", should_stop=lambda: True)


def test_a_large_table_is_judged_on_a_sample():
    draw = np.random.default_rng(0)
    y = draw.integers(2, size=1500)
    table = open_table(draw.standard_normal((1500, 3)) + 2 * y[:, None], y)
    found = open_space(table, "PCA")
    assert len(found.coordinates) == 1500
    assert "1,000" in found.told


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("axes", ["main", "classes"])
def test_pictures_say_what_they_show(axes, dimensions):
    found = draw_picture(X, axes, dimensions, Y)
    assert found.xy.shape == (150, dimensions)
    assert found.xy.dtype == np.float32
    assert np.abs(found.xy).max() == pytest.approx(1.0)
    assert found.axes == axes
    assert 0 < found.share <= 1 + 1e-9
    assert all(found.told.text(language) for language in LANGUAGES)


def test_the_best_axes_for_the_classes_separate_them():
    draw = np.random.default_rng(1)
    y = np.arange(200) % 2
    Z = draw.standard_normal((200, 5)) * [9, 8, 7, 1, 1]
    Z[:, 3] += 8 * y
    parted = [draw_picture(Z, axes, 2, y).xy[:, 0].astype(float) for axes in ("main", "classes")]
    apart = [abs(v[y == 0].mean() - v[y == 1].mean()) / v.std() for v in parted]
    assert apart[0] < 0.5 < 1.8 < apart[1]


def test_pictures_of_odd_spaces():
    assert draw_picture(np.zeros((5, 3))).xy.tolist() == [[0.0, 0.0]] * 5
    one = draw_picture(np.arange(6.0)[:, None], dimensions=3)
    assert one.xy[:, 1:].max() == 0
    assert one.share == pytest.approx(1.0)
    with pytest.raises(InputError, match="label"):
        draw_picture(X, "classes", 2, np.zeros(150))
    with pytest.raises(InputError, match="dimensions"):
        draw_picture(X, "main", 4)
    constant = draw_picture(np.ones((6, 2)), "classes", 2, np.arange(6) % 2)
    assert constant.axes == "main"
    assert "no direction" in constant.told


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 3))
def test_align_undoes_every_similarity(seed, k):
    draw = np.random.default_rng(seed)
    onto = draw.standard_normal((20, k))
    Q = np.linalg.qr(draw.standard_normal((k, k)))[0]  # a rotation or a reflection
    moved = draw.uniform(0.1, 9) * onto @ Q + draw.standard_normal(k)
    assert np.allclose(align(moved, onto), onto)


def test_align_is_the_best_similarity():
    draw = np.random.default_rng(0)
    one, other = draw.standard_normal((2, 30, 2))
    best = ((align(one, other) - other) ** 2).sum()
    for _ in range(200):
        turn = np.linalg.qr(draw.standard_normal((2, 2)))[0]
        tried = draw.uniform(0, 2) * (one - one.mean(axis=0)) @ turn + other.mean(axis=0)
        assert ((tried - other) ** 2).sum() >= best
    assert align(one, np.zeros((30, 3))).shape == (30, 3)
    assert np.isfinite(align(np.ones((30, 2)), other)).all()
