"""SCML: against the linear program, literal loops, and what must not change it."""

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError

from nearfold.errors import InputError, NotConvergedWarning, SolverError
from nearfold.kernels.scml import dual_average, margins_of
from nearfold.metrics import scml_solver
from nearfold.metrics.drawing import nearest_triplets
from nearfold.metrics.scml import SCML, SCML_Supervised
from nearfold.metrics.scml_bases import difference_bases, region_axes, region_bases
from nearfold.metrics.scml_solver import average, pose
from nearfold.metrics.tuples import from_vectors


def draw(seed=0, n=150, d=4, K=30):
    """Triplets that the first two columns explain in part, and bases."""
    random = np.random.RandomState(seed)
    triplets = random.standard_normal((n, 3, d))
    near = np.linalg.norm((triplets[:, 0] - triplets[:, 1])[:, :2], axis=1)
    far = np.linalg.norm((triplets[:, 0] - triplets[:, 2])[:, :2], axis=1)
    swap = (near > far) & (random.uniform(size=n) < 0.9)
    triplets[swap] = triplets[swap][:, [0, 2, 1]]
    B = random.standard_normal((K, d))
    return triplets, B / np.linalg.norm(B, axis=1, keepdims=True)


def oracle(triplets, B, beta):
    """The linear program as it is written: weights, slacks, all triplets and all bases."""
    near, far = triplets[:, 0] - triplets[:, 1], triplets[:, 0] - triplets[:, 2]
    D = (near @ B.T) ** 2 - (far @ B.T) ** 2
    T, K = D.shape
    cost = np.concatenate([np.full(K, beta), np.full(T, 1 / T)])
    return linprog(cost, A_ub=np.hstack([D, -np.eye(T)]), b_ub=-np.ones(T)).fun


@pytest.mark.parametrize("beta", [0.0, 1e-5, 1e-2])
def test_ends_at_the_optimum_of_the_linear_program(beta):
    triplets, B = draw()
    value = oracle(triplets, B, beta)
    exact = SCML(beta, basis=B, tol=1e-8, random_state=0).fit(triplets)
    assert exact.converged_
    assert exact.objective_ == pytest.approx(value, rel=1e-6)
    M = exact.get_mahalanobis_matrix()
    np.testing.assert_allclose((exact.basis_.T * exact.weights_) @ exact.basis_, M, atol=1e-8)
    gap = [1 + (b @ M @ b) - (c @ M @ c) for b, c in zip(*_sides(triplets), strict=True)]
    mine = np.maximum(gap, 0).mean() + beta * exact.weights_.sum()
    assert mine == pytest.approx(value, rel=1e-6)
    assert value < 0.6  # of 1, the cost of w = 0
    usual = SCML(beta, basis=B, random_state=0).fit(triplets)
    assert value * (1 - 1e-9) <= usual.objective_ <= 1.02 * value


def _sides(triplets):
    return triplets[:, 0] - triplets[:, 1], triplets[:, 0] - triplets[:, 2]


def test_bases_and_triplets_that_were_left_out_are_found(monkeypatch):
    """From w = 0 and one triplet at a time the same optimum is reached."""
    triplets, B = draw(1, n=400)
    value = oracle(triplets, B, 1e-3)
    problem = pose(from_vectors(triplets, 3), B, 1e-3)
    monkeypatch.setattr(scml_solver, "_BASES_ADDED", 2)
    monkeypatch.setattr(scml_solver, "_ROWS_ADDED", 10)
    result = scml_solver.solve(problem, np.zeros(30), 1e-6)
    assert result.converged
    assert result.value == pytest.approx(value, rel=1e-5)
    assert result.n_iter > 3


def test_the_stochastic_steps_come_near():
    triplets, B = draw()
    value = oracle(triplets, B, 1e-5)
    problem = pose(from_vectors(triplets, 3), B, 1e-5)
    w, history = average(problem, 5e-3, 20000, 500, 10, np.random.RandomState(0))
    assert min(history) == problem.value(w, problem.margins(w))
    assert value < min(history) < 1.1 * value


def test_the_steps_against_a_literal_loop():
    random = np.random.RandomState(0)
    F, rows = random.standard_normal((12, 5)), random.randint(0, 12, (20, 3))
    drawn, beta, gamma = random.randint(0, 20, (30, 4)), random.uniform(size=5) * 1e-2, 0.7
    swap = np.abs(F[rows[:, 0], 0] - F[rows[:, 1], 0]) > np.abs(F[rows[:, 0], 0] - F[rows[:, 2], 0])
    rows[swap] = rows[swap][:, [0, 2, 1]]  # the first basis explains them
    w, sums = np.zeros(5), np.zeros((2, 5))
    dual_average(F, rows, drawn[:13], beta, gamma, 0, w, sums)
    dual_average(F, rows, drawn[13:], beta, gamma, 13, w, sums)
    literal, total, squares = np.zeros(5), np.zeros(5), np.zeros(5)
    for t, batch in enumerate(drawn, start=1):
        gradient = np.zeros(5)
        for a, b, c in rows[batch]:
            D = (F[a] - F[b]) ** 2 - (F[a] - F[c]) ** 2
            gradient += D / 4 if 1 + D @ literal > 0 else 0
        total, squares = total + gradient, squares + gradient**2
        literal = -t / (gamma * (0.001 + np.sqrt(squares))) * np.minimum(total / t + beta, 0)
    assert (w > 0).any()
    np.testing.assert_allclose(w, literal, rtol=1e-9)


def test_margins_against_the_definition():
    random = np.random.RandomState(0)
    Z, rows = random.standard_normal((9, 3)), random.randint(0, 9, (15, 3))
    a, b, c = Z[rows[:, 0]], Z[rows[:, 1]], Z[rows[:, 2]]
    expected = 1 + np.sum((a - b) ** 2, axis=1) - np.sum((a - c) ** 2, axis=1)
    np.testing.assert_allclose(margins_of(Z, rows), expected, atol=1e-12)


def test_difference_bases_are_eigenvectors():
    triplets, _ = draw(n=4)  # as many as columns: all are drawn at once
    B = difference_bases(from_vectors(triplets, 3), 4, np.random.RandomState(0))
    near, far = _sides(triplets)
    A = near.T @ near - far.T @ far
    np.testing.assert_allclose(B @ B.T, np.eye(4), atol=1e-12)
    for b in B:
        np.testing.assert_allclose(A @ b, (b @ A @ b) * b, atol=1e-10)


def test_axes_of_a_region_are_those_of_lda():
    X, y = load_iris(return_X_y=True)
    axes = region_axes([X[y == c] for c in range(3)], 2, 1e-3 * X.var(axis=0))
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :2].T
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    np.testing.assert_allclose(np.abs(np.sum(axes * theirs, axis=1)), 1, atol=0.01)


def test_axes_of_a_region_follow_the_units_of_columns():
    X, y = load_wine(return_X_y=True)
    unit = StandardScaler().fit(X).scale_
    raw = region_axes([X[y == c] for c in range(3)], 2, 0.1 * unit**2) * unit
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    scaled = region_axes([(X / unit)[y == c] for c in range(3)], 2, np.full(13, 0.1))
    np.testing.assert_allclose(np.abs(np.sum(raw * scaled, axis=1)), 1, atol=1e-9)


def test_lda_bases_of_columns_in_any_unit_and_almost_constant_ones():
    """Bases follow the units, and are not spent on a column that hardly ever varies."""
    X, y = load_wine(return_X_y=True)
    rare = np.zeros(len(X))
    rare[::40] = 1e-3
    X = np.column_stack([StandardScaler().fit_transform(X), rare])
    unit = np.append(np.geomspace(1e-2, 1e2, 13), 1)
    label = y.astype(np.int64)
    for scale in (np.ones(14), unit):
        B = region_bases(X * scale, label, 80, np.random.RandomState(0)) * X.std(axis=0) * scale
        share = (B**2 / np.sum(B**2, axis=1, keepdims=True)).mean(axis=0)
        assert share[-1] < 0.15
        assert share[:-1].max() < 0.5


def test_a_region_of_one_point():
    axes = region_axes([np.ones((3, 4)), np.ones((2, 4))], 1, np.ones(4))
    assert axes.shape == (1, 4)
    assert np.isfinite(axes).all()


def test_contradicting_triplets_teach_nothing():
    triplets = np.array([[[0.0, 0], [1, 0], [0, 2]], [[0, 0], [0, 2], [1, 0]]])
    with pytest.raises(SolverError, match="learned the metric 0"):
        SCML(beta=0.1, basis=np.eye(2), max_iter=500).fit(triplets)


def test_too_large_a_program_is_reported(monkeypatch):
    triplets, B = draw()
    monkeypatch.setattr(scml_solver, "LARGEST_PROGRAM", 0)
    with pytest.warns(NotConvergedWarning, match="SCML did not converge: too many triplets"):
        learner = SCML(basis=B, random_state=0).fit(triplets)
    assert not learner.converged_
    assert learner.objective_ < 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"basis": "lda"}, "needs class labels"),
        ({"basis": np.eye(3)}, r"\(3\) of the provided bases .* of the data \(4\)"),
        ({"basis": np.ones((3, 4, 2))}, r"shape \(n_basis, 4\)"),
        ({"basis": np.full((3, 4), np.nan)}, r"shape \(n_basis, 4\)"),
        ({"max_iter": 100}, "output_iter=500 must be equal or smaller"),
    ],
)
def test_parameters_that_are_none(wrong, message):
    with pytest.raises(InputError, match=message):
        SCML(**wrong).fit(draw()[0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"basis": "pca"},
        {"n_basis": 0},
        {"n_basis": 4.0},
        {"batch_size": 0},
        {"max_iter": 10.5},
        {"beta": -1},
        {"tol": 0},
    ],
)
def test_parameters_of_a_wrong_kind(wrong):
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        SCML(**wrong).fit(draw()[0])


def test_too_many_bases_or_no_neighbours():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match="LDA gives fewer than 600 bases"):
        SCML_Supervised(n_basis=600).fit(X, y)
    with pytest.raises(InvalidParameterError, match="k_genuine"):
        SCML_Supervised(k_genuine=0).fit(X, y)


@pytest.mark.parametrize("basis", ["lda", "triplet_diffs"])
def test_order_and_place_of_rows_change_nothing(basis):
    X, y = load_iris(return_X_y=True)
    X = X + 1e-3 * np.random.RandomState(3).standard_normal(X.shape)  # no ties between neighbours
    order = np.random.RandomState(1).permutation(len(X))

    def learn(X, y):
        learner = SCML_Supervised(basis=basis, tol=1e-6, random_state=0).fit(X, y)
        return learner.get_mahalanobis_matrix()

    M = learn(X, y)
    np.testing.assert_allclose(learn(X[order], y[order]), M, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(learn(X + 16, y), M, rtol=1e-3, atol=1e-3 * np.abs(M).max())
    assert np.linalg.eigvalsh(M)[0] > -1e-10 * np.abs(M).max()


def test_units_of_the_columns_do_not_matter():
    """gamma is counted in units of the data: the same objective in metres and in millimetres."""
    X, y = load_wine(return_X_y=True)
    learner = SCML_Supervised(basis="triplet_diffs", n_basis=60, random_state=0, beta=0.0)
    small = learner.fit(X, y).objective_
    large = learner.fit(1000 * X, y).objective_
    assert large == pytest.approx(small, rel=0.02)


def test_a_constant_column_changes_nothing():
    X, y = load_iris(return_X_y=True)
    M = SCML_Supervised(n_basis=80, random_state=0).fit(X, y).get_mahalanobis_matrix()
    wider = np.column_stack([X, np.full(150, 0.1)])
    N = SCML_Supervised(n_basis=80, random_state=0).fit(wider, y).get_mahalanobis_matrix()
    np.testing.assert_allclose(N[:4, :4], M, rtol=1e-3, atol=1e-3 * M.max())
    np.testing.assert_allclose(N[4], 0, atol=1e-9 * M.max())


def test_both_learn_the_same_from_labels():
    X, y = load_iris(return_X_y=True)
    M = SCML_Supervised(random_state=0).fit(X, y).get_mahalanobis_matrix()
    plain = SCML(basis="lda", random_state=0).fit(X, y)
    np.testing.assert_array_equal(plain.get_mahalanobis_matrix(), M)
    ids = nearest_triplets(X, y, 1, 1).rows
    told = SCML(random_state=0).fit(X, triplets=ids)
    assert told.score(X[ids]) > 0.9
