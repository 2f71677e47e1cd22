"""The comparison before and after a reduction, and its picture."""

import numpy as np

from nearfold import LinearDiscriminantAnalysis
from nearfold.report.picture import draw_spaces
from nearfold.study.before_after import compare_before_after, standard_error


def planted(seed, n=300, noise=30):
    """Two classes apart along one axis, drowned in columns of noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 1 + noise)) * np.r_[1.0, np.full(noise, 4.0)]
    X[:, 0] += 5.0 * y
    return X, y


def test_the_space_that_helps_is_seen_to_help():
    before, after = compare_before_after(
        {"before": None, "after": LinearDiscriminantAnalysis()}, planted(0), planted(1)
    )
    assert before.accuracy < 0.75
    assert after.accuracy > 0.93
    assert (before.n_dimensions, after.n_dimensions) == (31, 1)
    assert after.Z.shape == (300, 1)


def test_held_out_rows_are_never_fitted_on():
    class Spy(LinearDiscriminantAnalysis):
        rows = ()

        def fit(self, X, y):
            Spy.rows += (len(X),)
            return super().fit(X, y)

    X, y = planted(0)
    compare_before_after({"spy": Spy()}, (X[:200], y[:200]), (X[200:], y[200:]))
    assert Spy.rows == (200,)


def test_standard_error_is_never_zero_and_shrinks():
    assert standard_error(1.0, 100) > 0.005
    assert standard_error(0.8, 400) < standard_error(0.8, 100)
    np.testing.assert_allclose(standard_error(0.5, 10_000), 0.005, rtol=1e-3)


def test_picture_of_one_dimension_and_of_many_classes(tmp_path):
    rng = np.random.default_rng(0)
    label = rng.integers(0, 12, 50)
    spaces = {"one": rng.normal(size=(50, 1)), "three": rng.normal(size=(50, 3))}
    path = draw_spaces(spaces, label, tmp_path / "p.png", "title")
    assert path.read_bytes().startswith(b"\x89PNG")
