"""NCA against its formulas, central differences and scikit-learn."""

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import NeighborhoodComponentsAnalysis as Theirs
from sklearn.utils._param_validation import InvalidParameterError

import nearfold
import nearfold.metrics.nca as module
import nearfold.metrics.soft_neighbors as soft
from nearfold import NCA, KNeighborsClassifier, NeighborhoodComponentsAnalysis
from nearfold.errors import (
    ApproximationWarning,
    InputError,
    MemoryBudgetError,
    NotConvergedWarning,
)
from nearfold.metrics import pair_blocks
from nearfold.metrics.linear_map import initial_map
from nearfold.metrics.mlkr import residuals
from nearfold.metrics.nca import objective


def scene(m=50, d=4, r=3, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X, L = rng.normal(size=(m, d)), rng.normal(size=(r, d))
    label = np.sort(rng.integers(0, n_classes, m))
    return X, label, np.concatenate([[0], np.cumsum(np.bincount(label))]), L


def literal(X, label, L):
    """(10.35)-(10.37), pair by pair."""
    Z, total = X @ L.T, 0.0
    for i in range(len(X)):
        others = [j for j in range(len(X)) if j != i]
        e = np.array([-np.sum((Z[i] - Z[j]) ** 2) for j in others])
        p = np.exp(e - e.max())
        p /= p.sum()
        total += sum(p[t] for t, j in enumerate(others) if label[j] == label[i])
    return total


def central_differences(f, L, h=1e-6):
    slope = np.zeros_like(L)
    for at in np.ndindex(L.shape):
        step = np.zeros_like(L)
        step[at] = h
        slope[at] = (f(L + step) - f(L - step)) / (2 * h)
    return slope


@pytest.mark.parametrize("seed", range(4))
def test_objective_is_the_literal_one(seed):
    X, label, starts, L = scene(seed=seed)
    assert objective(X, starts, L)[0] == pytest.approx(literal(X, label, L), rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_gradient_is_that_of_central_differences(seed):
    X, _, starts, L = scene(seed=seed)
    expected = central_differences(lambda L: objective(X, starts, L)[0], L)
    gradient = objective(X, starts, L)[1]
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_same_loss_and_gradient_as_scikit_learn():
    X, label, starts, L = scene(200, 6, 2)
    theirs = Theirs()
    theirs.n_iter_ = 1
    loss, slope = theirs._loss_grad_lbfgs(L.ravel(), X, label[:, None] == label[None])
    f, gradient = objective(X, starts, L)
    assert f == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(gradient.ravel(), slope, atol=1e-10 * np.abs(slope).max())


def test_blocks_and_threads_change_nothing(monkeypatch):
    X, _, starts, L = scene(300, 5, 2)
    whole = objective(X, starts, L)
    monkeypatch.setattr(pair_blocks, "_BLOCK", 7)
    monkeypatch.setattr(pair_blocks, "_CELLS", 7)
    monkeypatch.setattr(pair_blocks, "_ALONE", 0)
    cut = objective(X, starts, L)
    assert cut[0] == pytest.approx(whole[0], rel=1e-13)
    np.testing.assert_allclose(cut[1], whole[1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_leaving_out_what_is_below_rounding_changes_nothing(monkeypatch, scale, dtype):
    """The compiled way, over the entries that count, against the products with all entries."""
    X, _, starts, L = scene(400, 6, 4)
    X, y = X.astype(dtype), X[:, 0] ** 2
    batch = np.arange(3, 400, 7)

    def all_of_them():
        return (
            objective(X, starts, scale * L),
            objective(X, starts, scale * L, batch),
            residuals(X, y.astype(dtype), scale * L),
        )

    monkeypatch.setattr(soft, "_COMPILED", 1000)
    dense = all_of_them()
    monkeypatch.setattr(soft, "_COMPILED", 0)
    monkeypatch.setattr(soft, "_SPARSE", 1.0)
    few = all_of_them()
    for (f, G), (g, H) in zip(dense, few, strict=True):
        close = 1e-11 if dtype == np.float64 else 1e-3
        assert g == pytest.approx(f, rel=close)
        np.testing.assert_allclose(H, G, atol=close * np.abs(G).max())


def test_few_entries_of_large_tables_go_the_compiled_way():
    X, _, _, L = scene(2100, 4, 4)
    space = soft.Workspace(100, 2100, np.float64)
    points = soft.Points.of(X @ L.T)
    assert isinstance(soft.exponentials(points, np.arange(100), space), np.ndarray)
    points = soft.Points.of(X @ L.T * 30)
    assert isinstance(soft.exponentials(points, np.arange(100), space), soft.SparseSoftmax)


def test_float32_is_close_to_float64():
    X, _, starts, L = scene(300, 5, 2)
    single = objective(X.astype(np.float32), starts, L)
    double = objective(X, starts, L)
    assert single[0] == pytest.approx(double[0], rel=1e-5)
    np.testing.assert_allclose(single[1], double[1], atol=1e-4 * np.abs(double[1]).max())


def test_far_apart_rows_do_not_underflow():
    """Every row's own nearest neighbour takes all of it, however far it is."""
    X, label, starts, L = scene(40)
    f, gradient = objective(X * 1e4, starts, L)
    assert np.isfinite(gradient).all()
    Z = X @ L.T
    D = np.sum((Z[:, None] - Z[None]) ** 2, axis=2) + np.diag(np.full(len(X), np.inf))
    assert f == pytest.approx(np.sum(label[D.argmin(axis=1)] == label), abs=1e-6)


def test_a_class_of_one_row_adds_nothing():
    X, label, _, L = scene(30, n_classes=2)
    label = np.append(label, 2)
    X = np.vstack([X, X[:1] + 0.1])
    starts = np.concatenate([[0], np.cumsum(np.bincount(label))])
    assert objective(X, starts, L)[0] == pytest.approx(literal(X, label, L), rel=1e-12)


def test_batches_add_up_to_the_whole():
    X, _, starts, L = scene(300, 5, 2)
    f, gradient = objective(X, starts, L)
    batches = np.array_split(np.random.default_rng(0).permutation(300), 4)
    parts = [objective(X, starts, L, batch) for batch in batches]
    assert sum(part[0] for part in parts) == pytest.approx(f, rel=1e-12)
    np.testing.assert_allclose(sum(part[1] for part in parts), gradient, atol=1e-9)


@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("init", ["pca", "lda", "identity", "random"])
def test_as_good_as_scikit_learn_from_the_same_start(load, init):
    X, y = load(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    options = {"n_components": 2, "init": init, "random_state": 0, "max_iter": 200}
    ours, theirs = NCA(**options).fit(X, y), Theirs(**options).fit(X, y)

    def value(L):
        order = np.argsort(y, kind="stable")
        return objective(X[order], np.concatenate([[0], np.cumsum(np.bincount(y))]), L)[0]

    assert value(ours.components_) >= value(theirs.components_) * (1 - 5e-3)
    assert ours.objective_ == pytest.approx(value(ours.components_) / len(y), rel=1e-9)


def test_the_map_is_in_the_fixed_form():
    X, y = load_iris(return_X_y=True)
    P_t = NCA(n_components=3, random_state=0).fit(X, y).components_
    gram = P_t @ P_t.T
    np.testing.assert_allclose(gram, np.diag(np.diagonal(gram)), atol=1e-9 * gram.max())
    assert (np.diff(np.diagonal(gram)) <= 0).all()


def test_memory_stays_below_all_pairs():
    rng = np.random.default_rng(0)
    m = 6000
    X, starts = rng.normal(size=(m, 3)), np.array([0, m // 2, m])
    objective(X[:100], np.array([0, 50, 100]), np.eye(3))
    tracemalloc.start()
    objective(X, starts, np.eye(3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * m * m / 5


def test_stochastic_gradient_comes_as_far():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    whole = NCA(n_components=5, random_state=0).fit(X, y)
    batches = NCA(n_components=5, solver="stochastic", batch_size=100, n_epochs=15)
    batches.set_params(random_state=0).fit(X, y)
    order = np.argsort(y, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(y))])
    start = objective(X[order], starts, initial_map("auto", X, y, 5, None))[0] / len(y)
    reached = objective(X[order], starts, batches.components_)[0] / len(y)
    assert start < 0.93
    assert reached > whole.objective_ - 0.01
    assert batches.approximation_ is not None
    assert whole.approximation_ is None


def test_auto_takes_batches_where_all_rows_would_take_long(monkeypatch):
    X, y = load_iris(return_X_y=True)
    monkeypatch.setattr(module, "_MOST_WORK", 1e3)
    with pytest.warns(ApproximationWarning, match="batches of 30 rows"):
        model = NCA(n_components=2, random_state=0, batch_size=30).fit(X, y)
    assert model.solver_ == "stochastic"


def test_a_pass_over_many_rows_visits_some_drawn_anew(monkeypatch):
    X, y = load_digits(return_X_y=True)
    options = {"solver": "stochastic", "batch_size": 100, "random_state": 0}
    whole = NCA(5, n_epochs=5, **options).fit(X, y)
    monkeypatch.setattr(module, "_PASS", 900)
    some = NCA(5, n_epochs=10, **options).fit(X, y)
    said = "10 passes of 900 rows drawn anew over batches of 100 rows"
    assert (whole.approximation_, some.approximation_) == (
        "5 passes over batches of 100 rows",
        said,
    )
    assert some.objective_ == pytest.approx(whole.objective_, abs=0.02)


def test_batches_need_memory_for_their_candidates_only():
    X, y = (np.concatenate([part] * 10) for part in load_digits(return_X_y=True))
    nearfold.set_memory("40MB")
    try:
        with pytest.raises(MemoryBudgetError, match="NCA of 17,970 rows"):
            NCA(5, solver="lbfgs").fit(X, y)
        NCA(5, solver="stochastic", n_candidates=1000, n_epochs=2, random_state=0).fit(X, y)
    finally:
        nearfold.set_memory(None)


def test_stops_early_with_a_warning():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    with pytest.warns(NotConvergedWarning, match="NCA did not converge"):
        model = NCA(max_iter=1, init="random", random_state=0).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 1


def test_warm_start_goes_on_and_callback_is_called():
    X, y = load_iris(return_X_y=True)
    calls = []
    model = NCA(n_components=2, warm_start=True, callback=lambda L, i: calls.append((L.shape, i)))
    first = model.fit(X, y).objective_
    assert [i for _, i in calls] == list(range(1, model.n_iter_ + 1))
    assert {shape for shape, _ in calls} == {(8,)}
    assert model.fit(X, y).objective_ >= first - 1e-9
    with pytest.raises(InputError, match="previously learned"):
        model.fit(X[:, :3], y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 5}, "cannot be greater than the given data dimensionality"),
        ({"init": np.eye(3)}, "must match the dimensionality"),
        ({"init": np.eye(2, 4), "n_components": 3}, "does not match the output"),
        ({"init": np.ones((5, 4))}, "cannot be greater than its input"),
    ],
)
def test_refuses_what_does_not_fit(options, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match=message):
        NCA(**options).fit(X, y)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_components": 0},
        {"init": "best"},
        {"solver": "newton"},
        {"max_iter": 0},
        {"batch_size": 0},
        {"n_candidates": 0},
        {"tol": -1},
    ],
)
def test_parameters_of_a_wrong_kind(wrong):
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        NCA(**wrong).fit(*load_iris(return_X_y=True))


def test_warm_start_takes_the_largest_rows_of_fewer_components():
    X, y = load_iris(return_X_y=True)
    model = NCA(warm_start=True, random_state=0).fit(X, y)
    assert model.components_.shape == (4, 4)
    model.set_params(n_components=2, max_iter=1, tol=0)
    with pytest.warns(NotConvergedWarning):
        assert model.fit(X, y).transform(X).shape == (150, 2)
    with pytest.warns(NotConvergedWarning):
        assert model.set_params(n_components=3).fit(X, y).rank_ == 3


def test_constant_columns_and_duplicates():
    X, y = load_iris(return_X_y=True)
    X = np.hstack([X, np.full((150, 1), 7.0), X[:, :1]])
    model = NCA(n_components=2, random_state=0).fit(np.vstack([X, X]), np.append(y, y))
    assert np.isfinite(model.components_).all()


def test_a_penalty_on_the_trace_lowers_the_rank():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16.0, y[:400]

    def effective(model):
        lam = np.sum(model.components_**2, axis=1)
        return lam.sum() / lam[0]

    free = NCA(init="identity").fit(X, y)
    drawn = NCA(init="identity", trace_penalty=0.3, max_iter=300).fit(X, y)
    assert effective(drawn) < 0.7 * effective(free)
    assert NCA(init="identity", trace_penalty=0.3, rank=0.9, max_iter=300).fit(X, y).rank_ < 12


def test_neighbours_by_a_learner():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    nca = NeighborhoodComponentsAnalysis(n_components=3, random_state=0).fit(X, y)
    search = KNeighborsClassifier(metric=nca).fit(X, y)
    distance, row = search.kneighbors(X[:9], 4)
    expected = [[nca.get_metric()(X[i], X[j]) for j in row[i]] for i in range(9)]
    np.testing.assert_allclose(distance, expected, atol=1e-9)
    inside = KNeighborsClassifier(metric=clone(nca)).fit(X, y)
    assert (inside.predict(X) == search.predict(X)).all()
    assert cross_val_score(KNeighborsClassifier(metric=nca), X, y).mean() > 0.94
