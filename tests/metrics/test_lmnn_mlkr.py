"""LMNN and MLKR against their formulas, central differences and a convex oracle."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine

from nearfold import LMNN, MLKR, KNeighborsClassifier, KNeighborsRegressor
from nearfold.errors import InputError, NearfoldWarning, NotConvergedWarning
from nearfold.metrics.margin import margin_loss, target_neighbors
from nearfold.metrics.mlkr import residuals


def scene(m=45, d=4, r=3, seed=0):
    rng = np.random.default_rng(seed)
    X, L = rng.normal(size=(m, d)), rng.normal(size=(r, d))
    label = np.sort(rng.integers(0, 3, m))
    starts = np.concatenate([[0], np.cumsum(np.bincount(label))])
    return X, label, starts, L, rng.normal(size=m)


def slopes(f, L, h=1e-6):
    out = np.zeros_like(L)
    for at in np.ndindex(L.shape):
        step = np.zeros_like(L)
        step[at] = h
        out[at] = (f(L + step) - f(L - step)) / (2 * h)
    return out


def literal_margin(X, label, starts, k, L, mu):
    Z = X @ L.T
    D, near = (np.sum((A[:, None] - A[None]) ** 2, axis=2) for A in (Z, X))
    value = 0.0
    for i in range(len(X)):
        own = [j for j in range(len(X)) if label[j] == label[i] and j != i]
        for j in sorted(own, key=lambda j: near[i, j])[:k]:
            value += mu * D[i, j]
            value += (1 - mu) * sum(
                max(0.0, 1 + D[i, j] - D[i, other])
                for other in range(len(X))
                if label[other] != label[i]
            )
    return value


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0])
def test_margin_loss_and_gradient(seed, mu):
    X, label, starts, L, _ = scene(seed=seed)
    targets = target_neighbors(X, starts, 3)
    value, gradient = margin_loss(X, starts, targets, L, mu)
    assert value == pytest.approx(literal_margin(X, label, starts, 3, L, mu), rel=1e-10)
    expected = slopes(lambda L: margin_loss(X, starts, targets, L, mu)[0], L)
    np.testing.assert_allclose(gradient, expected, atol=1e-6 * np.abs(expected).max())


def test_small_blocks_give_the_same(monkeypatch):
    import nearfold.metrics.margin as margin
    from nearfold.metrics import pair_blocks

    X, _, starts, L, _ = scene(200)
    targets = target_neighbors(X, starts, 3)
    whole = margin_loss(X, starts, targets, L, 0.5)
    for module in (pair_blocks, margin):
        monkeypatch.setattr(module, "block_size", lambda m: 9)
    monkeypatch.setattr(pair_blocks, "_ALONE", 0)
    monkeypatch.setattr(margin, "_IMPOSTORS", 30)
    cut = margin_loss(X, starts, targets, L, 0.5)
    assert cut[0] == pytest.approx(whole[0], rel=1e-12)
    np.testing.assert_allclose(cut[1], whole[1], rtol=1e-9, atol=1e-9)


def test_lmnn_is_as_good_as_the_convex_oracle():
    """f is convex in M: a semidefinite programme gives the least value there is."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::5] - X.mean(axis=0), y[::5]
    starts = np.concatenate([[0], np.cumsum(np.bincount(y))])
    targets = target_neighbors(X, starts, 2)
    M = cp.Variable((4, 4), PSD=True)
    V = X[targets.i] - X[targets.j]
    hinges = []
    for v, i in zip(V, targets.i, strict=True):
        W = X[i] - X[y != y[i]]
        far = cp.sum(cp.multiply(W @ M, W), axis=1)
        hinges.append(cp.sum(cp.pos(1 + cp.trace(M @ np.outer(v, v)) - far)))
    pull = cp.trace(M @ (V.T @ V))
    problem = cp.Problem(cp.Minimize(0.5 * pull + 0.5 * cp.sum(cp.hstack(hinges))))
    problem.solve(solver="CLARABEL")
    model = LMNN(n_neighbors=2, init="identity", convergence_tol=1e-5).fit(X, y)
    assert model.objective_ == pytest.approx(problem.value, rel=2e-3)
    assert model.objective_ >= problem.value * (1 - 1e-6)


def test_lmnn_small_classes_have_fewer_targets():
    X, y = load_iris(return_X_y=True)
    few = np.append(np.arange(50), [50, 51, 100])
    with pytest.warns(NearfoldWarning, match="2 classes have at most 3 rows"):
        model = LMNN().fit(X[few], y[few])
    assert np.isfinite(model.components_).all()
    with pytest.raises(InputError, match="no class has two rows"):
        LMNN().fit(X[[0, 50, 100]], y[[0, 50, 100]])


def test_lmnn_says_when_it_stopped_early():
    X, y = load_wine(return_X_y=True)
    with pytest.warns(NotConvergedWarning, match="LMNN did not converge"):
        LMNN(max_iter=2).fit(X / X.std(axis=0), y)


@pytest.mark.parametrize("n_components", [2, 4])
def test_lmnn_low_rank(n_components):
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LMNN(n_components=n_components, random_state=0).fit(X, y)
    assert model.components_.shape == (n_components, 13)
    assert KNeighborsClassifier(metric=model).fit(X, y).score(None, y) > 0.97


def test_lmnn_a_penalty_lowers_the_rank():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    free = LMNN(init="identity").fit(X, y)
    drawn = LMNN(init="identity", trace_penalty=1.0, max_iter=3000).fit(X, y)
    share = [np.sum(m.components_**2, axis=1) for m in (free, drawn)]
    assert share[1][:2].sum() / share[1].sum() > share[0][:2].sum() / share[0].sum()
    assert drawn.truncate(0.99).rank_ < free.truncate(0.99).rank_


def literal_residuals(X, y, L):
    Z = X @ L.T
    D = np.sum((Z[:, None] - Z[None]) ** 2, axis=2)
    P = np.exp(-D + np.diag(np.full(len(X), -np.inf)))
    P /= P.sum(axis=1, keepdims=True)
    return np.sum((P @ y - y) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_residuals_and_gradient(seed):
    X, _, _, L, y = scene(seed=seed)
    value, gradient = residuals(X, y, L)
    assert value == pytest.approx(literal_residuals(X, y, L), rel=1e-12)
    expected = slopes(lambda L: residuals(X, y, L)[0], L)
    np.testing.assert_allclose(gradient, expected, atol=1e-6 * np.abs(expected).max())


def test_mlkr_beats_raw_neighbours_on_held_out_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    model = MLKR().fit(X[:300], y[:300])
    after = KNeighborsRegressor(metric=model).fit(X[:300], y[:300]).score(X[300:], y[300:])
    before = KNeighborsRegressor().fit(X[:300], y[:300]).score(X[300:], y[300:])
    assert after > 0.9 > before + 0.2


def test_mlkr_units_of_the_target_change_nothing():
    X, y = load_diabetes(return_X_y=True)
    X, y = 20 * X[:150], y[:150]
    options = {"n_components": 2, "tol": 1e-4}
    one, two = (MLKR(**options).fit(X, a * y + b) for a, b in ((1, 0), (1e-4, 1e3)))
    assert two.objective_ == pytest.approx(1e-8 * one.objective_, rel=1e-2)


def test_mlkr_refuses_classes_as_a_start():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(InputError, match="init='lda' needs classes"):
        MLKR(init="lda").fit(X, y)
    with pytest.warns(NotConvergedWarning, match=r"\[MLKR\] MLKR did not converge"):
        MLKR(max_iter=1).fit(X * 20, y)
