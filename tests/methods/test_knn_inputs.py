"""What neighbour estimators take, refuse and hold."""

import numpy as np
import pytest
import sklearn.neighbors as sk
from scipy import sparse
from sklearn.metrics import pairwise_distances

import nearfold as nf
from nearfold.errors import InputError, NonFiniteError
from nearfold.methods import voting
from nearfold.neighbors import build_index, lists
from nearfold.state import StateError, fields_of, params_of

BY_NUMBER = [nf.KNeighborsClassifier, nf.KNeighborsRegressor]
BY_RADIUS = [nf.RadiusNeighborsClassifier, nf.RadiusNeighborsRegressor]
SEARCHES = [nf.NearestNeighbors, nf.KNeighborsTransformer, nf.RadiusNeighborsTransformer]
ALL = [*BY_NUMBER, *BY_RADIUS, *SEARCHES]


def table(n=60, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def labels(n=60, classes=3):
    return np.arange(n) % classes


def asked(model, Q):
    return model.predict(Q) if hasattr(model, "predict") else model.transform(Q)


# Parameters.


def test_p_of_the_metric_params_overrides_p_and_says_so_only_if_there_are_two():
    X = table()
    one = nf.NearestNeighbors(p=1).fit(X).kneighbors(X)[0]
    with pytest.warns(SyntaxWarning, match="p is found in metric_params"):
        both = nf.NearestNeighbors(p=2, metric_params={"p": 1}).fit(X)
    given = nf.NearestNeighbors(p=None, metric_params={"p": 1}).fit(X)  # a warning would be raised
    np.testing.assert_array_equal(both.kneighbors(X)[0], one)
    np.testing.assert_array_equal(given.kneighbors(X)[0], one)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        *((make, {"n_neighbors": k}) for make in BY_NUMBER for k in (0, -7, 2.5, "five", None)),
        *((make, {"radius": None}) for make in BY_RADIUS),
        *((make, {"weights": "foo"}) for make in (*BY_NUMBER, *BY_RADIUS)),
        *((make, {"radius": r}) for make in BY_RADIUS for r in (-1.0, "wide")),
        *((make, {"leaf_size": 0}) for make in ALL),
        *((make, {"p": -1}) for make in ALL),
        *((make, {"metric": "foo"}) for make in ALL),
        *((make, {"metric_params": 3}) for make in ALL),
        *((make, {"n_jobs": "many"}) for make in ALL),
        *((make, {"algorithm": "fast"}) for make in ALL),
        *((make, {"mode": "foo"}) for make in SEARCHES[1:]),
    ],
)
def test_nonsense_is_refused_by_fit(make, options):
    with pytest.raises(ValueError, match=f"The '{next(iter(options))}' parameter"):
        make(**options).fit(table(), labels())


@pytest.mark.parametrize("make", ALL)
def test_one_block_of_parameters_and_no_more(make):
    params = make().get_params()
    assert list(params) == sorted(params)
    assert {"algorithm", "leaf_size", "metric", "p", "metric_params", "n_jobs", "verbose"} <= set(
        params
    )
    assert make(**params).get_params() == params


# Queries.


@pytest.mark.parametrize("make", [*BY_NUMBER, *BY_RADIUS, nf.KNeighborsTransformer])
@pytest.mark.parametrize("metric", ["minkowski", "manhattan", "cosine"])
def test_queries_that_do_not_fit_are_refused(make, metric):
    model = make(metric=metric).fit(table(), labels())
    for bad in (np.nan, np.inf):
        with pytest.raises(NonFiniteError, match="column 1: 1"):
            asked(model, np.array([[0.0, bad, 1.0]]))
    with pytest.raises(ValueError, match="4 features"):
        asked(model, table(2, 4))


@pytest.mark.parametrize("make", BY_NUMBER)
@pytest.mark.parametrize("n", [60, 400])
def test_sparse_queries_of_a_dense_fit(make, n):
    X, Q = table(n), table(9, seed=1)
    dense, thin = make().fit(X, labels(n)), make().fit(sparse.csr_array(X), labels(n))
    want = dense.predict(Q)
    np.testing.assert_array_equal(dense.predict(sparse.csr_matrix(Q)), want)
    np.testing.assert_array_equal(thin.predict(Q), want)
    np.testing.assert_array_equal(thin.predict(sparse.csc_array(Q)), want)


@pytest.mark.parametrize("container", [sparse.dok_array, sparse.bsr_array])
def test_precomputed_distances_whose_zeros_would_be_lost(container):
    D = pairwise_distances(table())
    model = nf.KNeighborsRegressor(2, metric="precomputed").fit(D, labels())
    with pytest.raises(TypeError, match="explicit zeros"):
        model.predict(container(D))
    with pytest.raises(TypeError, match="explicit zeros"):
        nf.NearestNeighbors(metric="precomputed").fit(container(D))


def test_explicit_zeros_are_distances():
    D = sparse.csr_array((np.array([3.0, 0.0, 1.0]), np.array([0, 1, 2]), np.array([0, 3])))
    square = sparse.csr_array(np.ones((3, 3)))
    search = nf.NearestNeighbors(metric="precomputed").fit(square)
    assert search.kneighbors(D, 2, return_distance=False).tolist() == [[1, 2]]


def test_negative_distances_are_refused():
    with pytest.raises(InputError, match="Negative values"):
        nf.NearestNeighbors(metric="precomputed").fit(-np.ones((3, 3)))


def test_fit_on_a_tree_or_a_search():
    X = table()
    want = nf.NearestNeighbors().fit(X).kneighbors(X[:5], 3)
    for source in (sk.KDTree(X), sk.BallTree(X), nf.NearestNeighbors().fit(X)):
        found = nf.NearestNeighbors().fit(source).kneighbors(X[:5], 3)
        np.testing.assert_array_equal(found[1], want[1])
    with pytest.raises(InputError, match="give the rows"):
        nf.NearestNeighbors().fit(sk.NearestNeighbors().fit(X))


def test_a_radius_for_each_row():
    X = table()
    radii = np.linspace(0, 2, 60)
    ours = nf.NearestNeighbors().fit(X).radius_neighbors(X, radius=radii)
    for i in (0, 30, 59):
        near = np.linalg.norm(X - X[i], axis=1) <= radii[i]
        assert sorted(ours[1][i]) == np.flatnonzero(near).tolist()
    with pytest.raises(InputError, match="3 radii for 60 rows"):
        nf.NearestNeighbors().fit(X).radius_neighbors(X, radius=[1.0, 2.0, 3.0])


def test_functions_of_scikit_learn_take_our_search():
    X = table()
    ours, theirs = nf.NearestNeighbors().fit(X), sk.NearestNeighbors().fit(X)
    for mode in ("connectivity", "distance"):
        found = sk.kneighbors_graph(ours, 3, mode=mode)
        np.testing.assert_allclose(
            found.toarray(), sk.kneighbors_graph(theirs, 3, mode=mode).toarray()
        )
        found = sk.radius_neighbors_graph(ours, 1.0, mode=mode, include_self=True)
        want = sk.radius_neighbors_graph(theirs, 1.0, mode=mode, include_self=True)
        np.testing.assert_allclose(found.toarray(), want.toarray())


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_a_row_stays_first_among_its_duplicates(mode):
    X = np.repeat(table(6), 9, axis=0)
    graph = nf.KNeighborsTransformer(n_neighbors=4, mode=mode).fit_transform(X)
    k = 4 + (mode == "distance")
    rows = graph.indices.reshape(-1, k)
    np.testing.assert_array_equal(rows[:, 0], np.arange(54))
    np.testing.assert_array_equal(rows // 9, np.repeat(np.arange(54) // 9, k).reshape(-1, k))


def test_labels_that_are_missing():
    pd = pytest.importorskip("pandas")
    y = pd.Series(["a", "b", None] * 20, dtype="string")
    with pytest.raises(InputError, match=r"20 rows \(first: \[2, 5, 8, 11, 14\]\)"):
        nf.KNeighborsClassifier().fit(table(), y)
    kept = y.notna().to_numpy()
    model = nf.KNeighborsClassifier(1).fit(table()[kept], y[kept])
    assert model.predict(table()[:2]).tolist() == ["a", "b"]


# Weights.


def test_neighbours_without_any_weight_are_an_error():
    model = nf.KNeighborsClassifier(3, weights=np.zeros_like).fit(table(), labels())
    for ask in (model.predict, model.predict_proba):
        with pytest.raises(ValueError, match="getting zero weights"):
            ask(table(2))


@pytest.mark.parametrize("make", BY_RADIUS)
def test_rows_of_no_weight_do_not_spoil_the_others(make):
    """A tiny distance to a row of no weight used to be the unit of all others: 0 / 0."""
    X = np.array([[0.0], [1e-300], [0.5], [0.9]])
    weight = np.array([0.0, 0.0, 1.0, 2.0])
    model = make(1.0, weights="distance").fit(X, [5, 5, 1, 2], sample_weight=weight)
    want = nf.RadiusNeighborsRegressor(1.0, weights="distance").fit(X[2:], [1, 2], weight[2:])
    found = model.predict([[-1e-9], [0.2]])
    assert np.isfinite(found).all()
    if make is nf.RadiusNeighborsRegressor:
        np.testing.assert_allclose(found, want.predict([[-1e-9], [0.2]]))


@pytest.mark.parametrize("weights", ["uniform", "distance", lambda d: np.exp(-d)])
@pytest.mark.parametrize("make", [*BY_NUMBER, *BY_RADIUS])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_queries_change_no_prediction(monkeypatch, make, weights, weighted):
    X, y = table(300), labels(300)
    sample_weight = np.arange(300) % 4 / 2 if weighted else None
    reach = {"radius": 4.0} if make in BY_RADIUS else {}
    model = make(weights=weights, **reach).fit(X, y, sample_weight=sample_weight)
    Q = X + 0.01
    want = model.predict(Q), model.predict(None)
    monkeypatch.setattr(lists, "PAIRS", 35)
    monkeypatch.setattr(voting, "PAIRS", 35)
    monkeypatch.setattr(voting, "_CELLS", 10)
    np.testing.assert_array_equal(model.predict(Q), want[0])
    np.testing.assert_array_equal(model.predict(None), want[1])


# What a fitted estimator holds.

FITS = {
    "euclidean": {},
    "manhattan": {"metric": "manhattan"},
    "weighted": {"metric": "minkowski", "metric_params": {"w": np.ones(3)}},
    "cosine": {"metric": "cosine", "algorithm": "brute"},
}


@pytest.mark.parametrize("options", FITS.values(), ids=FITS)
@pytest.mark.parametrize("make", ALL)
def test_the_state_is_as_described(make, options):
    for X in (table(), table().astype(np.float32)):
        model = make(**options).fit(X, labels())
        make.fitted_state.check(fields_of(model), None, params_of(model))
        asked(model, X[:3] + 0.01) if hasattr(model, "transform") else None
        model.fitted_state.check(fields_of(model), None, params_of(model))


@pytest.mark.parametrize("make", [*BY_NUMBER, *BY_RADIUS])
def test_states_of_other_fits(make):
    several = np.column_stack([labels(), labels(classes=2)])
    fits = [
        make().fit(table(), several),
        make().fit(table(), labels(), sample_weight=np.ones(60)),
        make(metric="precomputed").fit(pairwise_distances(table()), labels()),
        make().fit(sparse.csr_array(table()), labels()),
    ]
    for model in fits:
        model.fitted_state.check(fields_of(model), None, params_of(model))


def test_damaged_states_are_refused():
    model = nf.KNeighborsClassifier().fit(table(), labels())
    whole = fields_of(model)
    broken = [
        {"_label": whole["_label"] + 1},
        {"_label": whole["_label"][:50]},
        {"classes_": whole["classes_"][:2]},
        {"n_samples_fit_": 59},
        {"n_features_in_": 4},
        {"index_": "an index"},
        {"_row_weight": -np.ones(60)},
    ]
    for change in broken:
        with pytest.raises(StateError):
            model.fitted_state.check({**whole, **change}, None, params_of(model))
    model.index_.X[3, 1] = np.nan
    with pytest.raises(StateError, match="finite"):
        model.fitted_state.check(whole, None, params_of(model))


@pytest.mark.parametrize("fitted_before", [False, True])
def test_the_state_of_a_learned_metric(fitted_before):
    learner = nf.LFDA().fit(table(), labels()) if fitted_before else nf.LFDA()
    model = nf.KNeighborsClassifier(3, metric=learner).fit(table(), labels())
    model.fitted_state.check(fields_of(model), None, params_of(model))
    model.index_.index = build_index(table()[:, :1])
    with pytest.raises(StateError, match="space"):
        model.fitted_state.check(fields_of(model), None, params_of(model))
