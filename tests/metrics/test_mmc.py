"""MMC against cvxpy + Clarabel, closed forms and its own certificate."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from nearfold import MMC, KNeighborsClassifier, MMC_Supervised, WeightedEuclidean
from nearfold.errors import InputError, NearfoldWarning, NotConvergedWarning
from nearfold.metrics.drawing import draw_pairs


def pairs_of(load, n, seed=0):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    drawn = draw_pairs(X, y, n, np.random.RandomState(seed))
    return X, drawn


def oracle(S, D, diagonal=False):
    """The optimum of (10.39) by an interior-point method; the mean distance is held at 1."""
    d, n = S.shape[1], len(D)
    if diagonal:
        w = cp.Variable(d, nonneg=True)
        objective, roots = (S**2).sum(axis=0) @ w, cp.sqrt((D**2) @ w)
    else:
        M = cp.Variable((d, d), PSD=True)
        objective = cp.trace(M @ (S.T @ S))
        roots = cp.sqrt(cp.sum(cp.multiply(D @ M, D), axis=1))
    problem = cp.Problem(cp.Minimize(objective), [cp.sum(roots) / n >= 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it aims higher than it needs to
        problem.solve(solver="CLARABEL", tol_gap_rel=1e-10, tol_gap_abs=1e-12, tol_feas=1e-10)
    return problem.value / n**2


@pytest.mark.parametrize(
    ("load", "n"), [(load_iris, 200), (load_wine, 40), (load_wine, 150), (load_breast_cancer, 100)]
)
@pytest.mark.parametrize("diagonal", [False, True])
def test_optimum_is_that_of_the_convex_oracle(load, n, diagonal):
    X, drawn = pairs_of(load, n)
    model = MMC(diagonal=diagonal).fit(X[drawn.rows], drawn.sign)
    expected = oracle(*drawn.split(), diagonal)
    assert model.objective_ == pytest.approx(expected, rel=1e-6)
    assert model.converged_
    assert model.certificate_.gap < 1e-6


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
def test_diagonal_oracle_on_every_set(load):
    """metric-learn's diagonal form is wrong on some of these, and 0 on one."""
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    X = X[:, X.std(axis=0) > 0]
    drawn = draw_pairs(X, y, 300, np.random.RandomState(1))
    S, D = drawn.split()
    kept = np.abs(S).max(axis=0) > 0
    X, S, D = X[:, kept], S[:, kept], D[:, kept]
    model = MMC(diagonal=True, ridge=0.0).fit(X[drawn.rows], drawn.sign)
    M = model.get_mahalanobis_matrix()
    assert model.objective_ == pytest.approx(oracle(S, D, diagonal=True), rel=1e-6)
    assert (np.diag(np.diagonal(M)) == M).all()
    assert model.objective_ == pytest.approx(np.sum((S**2) @ np.diagonal(M)), rel=1e-9)


def test_the_constraint_holds_with_equality():
    X, drawn = pairs_of(load_wine, 100)
    model = MMC().fit(X[drawn.rows], drawn.sign)
    S, D = drawn.split()
    M = model.get_mahalanobis_matrix()
    assert np.sqrt(np.einsum("ij,jk,ik->i", D, M, D)).sum() == pytest.approx(1, rel=1e-9)
    assert np.einsum("ij,jk,ik->", S, M, S) == pytest.approx(model.objective_, rel=1e-9)


def test_no_feasible_metric_is_below_the_bound():
    X, drawn = pairs_of(load_wine, 60)
    S, D = drawn.split()
    model = MMC().fit(X[drawn.rows], drawn.sign)
    best = model.get_mahalanobis_matrix()
    rng = np.random.default_rng(0)
    for size in np.logspace(-6, 1, 200):
        A = rng.normal(size=(13, 13))
        M = best / np.trace(best) + size * (A @ A.T) / 13
        M /= np.sqrt(np.einsum("ij,jk,ik->i", D, M, D)).sum() ** 2
        assert np.einsum("ij,jk,ik->", S, M, S) >= model.certificate_.bound * (1 - 1e-9)


def test_the_gap_tells_a_solution_that_is_none():
    """Stopped after one iteration, the certificate must not call it solved."""
    X, drawn = pairs_of(load_breast_cancer, 100)
    import nearfold.metrics.mmc_solver as module

    rounds = module._ROUNDS
    module._ROUNDS = 1
    try:
        with pytest.warns(NotConvergedWarning, match="duality gap"):
            model = MMC(max_iter=1).fit(X[drawn.rows], drawn.sign)
    finally:
        module._ROUNDS = rounds
    assert not model.converged_
    best = MMC().fit(X[drawn.rows], drawn.sign)
    assert model.certificate_.gap > 1e-3
    assert model.certificate_.bound <= best.objective_ * (1 + 1e-9)


def test_squared_is_the_generalised_eigenvector():
    X, drawn = pairs_of(load_wine, 100)
    S, D = drawn.split()
    model = MMC(squared=True).fit(X[drawn.rows], drawn.sign)
    from scipy.linalg import eigh

    assert model.rank_ == 1
    assert model.objective_ == pytest.approx(1 / eigh(D.T @ D, S.T @ S)[0][-1], rel=1e-9)
    diagonal = MMC(squared=True, diagonal=True).fit(X[drawn.rows], drawn.sign)
    assert diagonal.rank_ == 1
    ratio = (D**2).sum(axis=0) / (S**2).sum(axis=0)
    assert diagonal.objective_ == pytest.approx(1 / ratio.max(), rel=1e-9)


@pytest.mark.parametrize("diagonal", [False, True])
def test_units_of_the_columns_change_nothing(diagonal):
    X, drawn = pairs_of(load_wine, 100)
    units = 10.0 ** np.linspace(-6, 6, 13)
    plain = MMC(diagonal=diagonal).fit(X[drawn.rows], drawn.sign)
    scaled = MMC(diagonal=diagonal).fit(X[drawn.rows] * units, drawn.sign)
    assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    np.testing.assert_allclose(
        scaled.pair_distance(X[drawn.rows] * units),
        plain.pair_distance(X[drawn.rows]),
        rtol=1e-3,
        atol=1e-9,
    )


@pytest.mark.parametrize("init", ["identity", "covariance", "random", np.diag(np.arange(1.0, 14))])
def test_the_start_does_not_matter(init):
    X, drawn = pairs_of(load_wine, 100)
    plain = MMC().fit(X[drawn.rows], drawn.sign)
    other = MMC(init=init, random_state=0).fit(X[drawn.rows], drawn.sign)
    assert other.objective_ == pytest.approx(plain.objective_, rel=1e-7)


def test_many_columns_begin_with_few_and_are_certified():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 80))
    y = rng.integers(0, 6, 400)
    X[:, :5] += 2 * rng.normal(size=(6, 5))[y]
    model = MMC(n_constraints=600, random_state=0).fit(X, y)
    assert model.certificate_.gap < 1e-6
    assert model.rank_ <= 32


def test_free_directions_get_a_ridge_and_a_warning():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 6))
    must, cannot = [(0, 1), (2, 3)], [(0, 4), (5, 6), (7, 8), (9, 10)]
    with pytest.warns(NearfoldWarning, match="no must-link pair differs in 4 directions"):
        model = MMC().fit(X, must_link=must, cannot_link=cannot)
    assert model.converged_
    assert np.isfinite(model.components_).all()
    quiet = MMC(ridge=1e-3).fit(X, must_link=must, cannot_link=cannot)
    assert quiet.objective_ == pytest.approx(model.objective_, rel=1e-9)


def test_a_column_that_never_varies_carries_no_weight():
    X, drawn = pairs_of(load_iris, 60)
    X = np.hstack([X, np.full((150, 1), 3.0)])
    for diagonal in (False, True):
        model = MMC(diagonal=diagonal).fit(X[drawn.rows], drawn.sign)
        assert np.abs(model.components_[:, 4]).max() == 0


@pytest.mark.parametrize(
    ("must", "cannot", "message"),
    [
        ([(0, 1)], [(0, 1)], "both as must-link and as cannot-link"),
        ([(0, 1)], [(1, 0)], "both as must-link and as cannot-link"),
        ([(0, 1)], [(2, 2)], "kept apart from itself: 2"),
        ([(0, 1)], [(0, 99)], "not row numbers from 0 to 9: .*99"),
        ([(0, 1)], None, "needs cannot-link pairs"),
        (None, [(0, 1)], "needs must-link pairs"),
    ],
)
def test_impossible_pairs_are_shown(must, cannot, message):
    X = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.raises(InputError, match=message):
        MMC().fit(X, must_link=must, cannot_link=cannot)


def test_a_csv_of_pairs(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2)) * [1, 10]
    X[:15, 0] += 5
    names = [f"row {i}" for i in range(30)]
    lines = [f"row {i},row {i + 1},1" for i in range(0, 28, 2) if i != 14]
    lines += [f"row {i},row {i + 15},-1" for i in range(15)]
    path = tmp_path / "pairs.csv"
    path.write_text("a,b,link\n" + "\n".join(lines))
    model = MMC().fit(X, pairs=path, ids=names)
    ids = [[int(cell.split()[1]) for cell in line.split(",")[:2]] for line in lines]
    sign = [int(line.split(",")[2]) for line in lines]
    same = MMC().fit(X[ids], sign)
    np.testing.assert_allclose(model.components_, same.components_, rtol=1e-6)
    assert model.score(X[ids], sign) > 0.9


def test_predicts_pairs_and_calibrates():
    X, drawn = pairs_of(load_wine, 150)
    model = MMC().fit(X[drawn.rows], drawn.sign)
    pairs, sign = X[drawn.rows], drawn.sign
    assert model.score(pairs, sign) > 0.9
    accuracy = np.mean(model.predict(pairs) == sign)
    assert accuracy > 0.85
    strict = model.calibrate_threshold(pairs, sign, strategy="max_tpr", min_rate=0.95)
    assert np.mean(strict.predict(pairs)[sign < 0] == -1) >= 0.95
    assert not hasattr(MMC_Supervised().fit(X, load_wine().target), "predict")


def test_supervised_refuses_pairs():
    X, drawn = pairs_of(load_iris, 20)
    with pytest.raises(InputError, match="For tuples use MMC"):
        MMC_Supervised().fit(X[drawn.rows], drawn.sign)


@pytest.mark.parametrize("sign", [1, -1])
def test_bare_ids_are_not_taken_for_a_table(sign):
    with pytest.raises(InputError, match="look like row ids"):
        MMC().fit([[0, 1], [2, 3], [1, 2]], [1, sign, -1])


def test_weighted_euclidean_from_pairs_is_the_diagonal_problem():
    X, drawn = pairs_of(load_wine, 150)
    weighted = WeightedEuclidean().fit(X[drawn.rows], drawn.sign)
    S, D = drawn.split()
    assert weighted.objective_ == pytest.approx(oracle(S, D, diagonal=True), rel=1e-6)
    assert (weighted.weights_ >= 0).all()
    np.testing.assert_allclose(
        weighted.pair_distance(X[drawn.rows]) ** 2,
        (X[drawn.rows[:, 0]] - X[drawn.rows[:, 1]]) ** 2 @ weighted.weights_,
        atol=1e-12,
    )


def test_weighted_euclidean_from_labels_finds_the_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6)) * [1, 1, 50, 1, 1, 1]
    y = (X[:, 1] + X[:, 4] > 0).astype(int)
    model = WeightedEuclidean(penalty=0.01).fit(X, y)
    weights = model.weights_ * X.var(axis=0)
    assert weights[[1, 4]].min() > 20 * weights[[0, 2, 3, 5]].max()
    raw = KNeighborsClassifier().fit(X, y).score(None, y)
    assert KNeighborsClassifier(metric=model).fit(X, y).score(None, y) > raw + 0.2


def test_weighted_euclidean_forgets_the_pairs_when_fitted_on_labels():
    X, drawn = pairs_of(load_wine, 40)
    model = WeightedEuclidean().fit(X[drawn.rows], drawn.sign)
    assert model.certificate_.gap < 1e-6
    model.fit(X, load_wine().target)
    assert not any(hasattr(model, name) for name in ("certificate_", "threshold_", "predict"))
