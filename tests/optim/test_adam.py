"""Adam reports convergence on a plateau, and only there."""

import numpy as np
import pytest

from nearfold.errors import NotConvergedWarning
from nearfold.optim import adam, warn_unless_converged


def quadratic(x, batch):
    """sum_i |x - 1|^2 / 2 + 1 over a batch: every batch has the same minimum."""
    return len(batch) * (float(np.sum((x - 1) ** 2)) / 2 + 1), len(batch) * (x - 1)


def run(start, n_epochs, **options):
    return adam(
        lambda rows: quadratic,
        np.full(3, start),
        n_rows=40,
        batch_size=4,
        n_epochs=n_epochs,
        random=np.random.RandomState(0),
        label="test",
        **options,
    )


def test_a_plateau_is_convergence():
    result = run(0.9, 60)
    assert abs(result.history[-1] - result.history[-2]) < 1e-3 * result.history[-1]
    assert result.converged
    np.testing.assert_allclose(result.x, 1, atol=1e-2)


def test_still_improving_is_not_convergence():
    result = run(30.0, 3)
    assert result.history[-1] < 0.9 * result.history[-2]
    assert not result.converged
    with pytest.warns(NotConvergedWarning, match="still falling"):
        warn_unless_converged(result, "test", "")


def test_a_rising_objective_is_not_convergence():
    result = adam(
        lambda rows: lambda x, batch: (float(np.sum(x**2)), -x),  # follows the gradient uphill
        np.ones(3),
        n_rows=40,
        batch_size=4,
        n_epochs=3,
        random=np.random.RandomState(0),
        label="test",
    )
    assert not result.converged
    assert "rising" in result.reason


def test_one_pass_shows_nothing():
    assert not run(0.9, 1).converged


def test_a_pass_may_visit_some_of_the_rows():
    rng = np.random.default_rng(0)
    targets = rng.normal(size=(1000, 3)) + 5.0
    seen = []

    def open_pass(rows):
        assert (np.diff(rows) > 0).all()

        def objective(x, batch):
            seen.append(rows[batch])
            off = x - targets[rows[batch]]
            return float((off**2).sum()), 2.0 * off.sum(axis=0)

        return objective

    found = adam(
        open_pass, np.ones(3), n_rows=1000, batch_size=50, n_epochs=40, most=200,
        random=np.random.RandomState(0), label="test",
    )  # fmt: skip
    assert len(seen) == 40 * 4
    first, second = np.concatenate(seen[:4]), np.concatenate(seen[4:8])
    assert len(set(first)) == 200
    assert set(first) != set(second)
    np.testing.assert_allclose(found.x, targets.mean(axis=0), atol=0.1)
    whole = ((found.x - targets) ** 2).sum()
    assert found.value == pytest.approx(whole, rel=0.2)
