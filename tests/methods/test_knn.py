"""The seven neighbour estimators: votes and means from the formula, scikit-learn, tie rules."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import norm
from sklearn import neighbors as sk
from sklearn.exceptions import DataConversionWarning, NotFittedError

import nearfold as nf
from nearfold.errors import InputError, MemoryBudgetError, NonFiniteError

WEIGHTS = ["uniform", "distance", lambda d: np.exp(-d)]
every_weighting = pytest.mark.parametrize("weights", WEIGHTS, ids=["uniform", "distance", "call"])
BY_NUMBER = [nf.KNeighborsClassifier, nf.KNeighborsRegressor]
BY_RADIUS = [nf.RadiusNeighborsClassifier, nf.RadiusNeighborsRegressor]
ALL = [
    nf.NearestNeighbors, nf.KNeighborsTransformer, nf.RadiusNeighborsTransformer,
    *BY_NUMBER, *BY_RADIUS,
]  # fmt: skip


def normal(n, d=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def grid(n, d=3, high=4, seed=0):
    return np.random.default_rng(seed).integers(0, high, (n, d)).astype(float)


def labels(n, classes=3, seed=5):
    return np.random.default_rng(seed).integers(0, classes, n)


def twin(estimator):
    """scikit-learn's estimator of the same name with the same parameters."""
    parameters = estimator.get_params()
    for ours in ("verbose", "recall", "random_state"):
        parameters.pop(ours, None)
    return getattr(sk, type(estimator).__name__)(**parameters)


def literal_neighbours(X, q, k=None, radius=None, row_weight=None):
    """[(distance, row, how often it counts)], nearest first, ties by row."""
    near = sorted((float(np.sqrt(((q - x) ** 2).sum())), j) for j, x in enumerate(X))
    counted, wanted = [], np.inf if k is None else k
    for distance, j in near:
        often = min(1.0 if row_weight is None else row_weight[j], wanted)
        if often > 0 and (radius is None or distance <= radius):
            counted.append((distance, j, often))
            wanted -= often
    return counted


def literal_weights(weights, near):
    if weights == "uniform":
        return [often for _, _, often in near]
    if weights == "distance":
        if any(d == 0 for d, _, _ in near):  # an exact match votes alone
            return [often * (d == 0) for d, _, often in near]
        return [often / d for d, _, often in near]
    return [often * float(weights(np.array([d]))[0]) for d, _, often in near]


def literal_shares(y, classes, weights, near):
    votes = dict.fromkeys(classes, 0.0)
    for (_, j, _), w in zip(near, literal_weights(weights, near), strict=True):
        votes[y[j]] += w
    return [votes[c] / sum(votes.values()) for c in classes]


def literal_mean(y, weights, near):
    w = literal_weights(weights, near)
    return sum(w_j * y[j] for (_, j, _), w_j in zip(near, w, strict=True)) / sum(w)


# The formula.


@every_weighting
@pytest.mark.parametrize("weighted", [None, "integer", "fractional"])
@pytest.mark.parametrize("reach", [{"k": 4}, {"radius": 2.0}], ids=str)
@pytest.mark.parametrize("d", [3, 10])
def test_votes_and_means_are_the_formula(weights, weighted, reach, d):
    rng = np.random.default_rng(2)
    X, Q = grid(70, d, high=3), grid(25, d, high=3, seed=1)
    reach = {"radius": 3.0} if "radius" in reach and d > 3 else reach
    y, target = labels(70), rng.standard_normal(70)
    row_weight = {
        None: None,
        "integer": rng.integers(0, 3, 70).astype(float),
        "fractional": rng.uniform(0, 1.5, 70),
    }[weighted]
    voter, mean = BY_NUMBER if "k" in reach else BY_RADIUS
    size = next(iter(reach.values()))
    voter = voter(size, weights=weights).fit(X, y, sample_weight=row_weight)
    mean = mean(size, weights=weights).fit(X, target, sample_weight=row_weight)
    near = [literal_neighbours(X, q, row_weight=row_weight, **reach) for q in Q]
    assert all(near)
    want = np.array([literal_shares(y, range(3), weights, some) for some in near])
    np.testing.assert_allclose(voter.predict_proba(Q), want, atol=1e-12)
    clear = np.sort(want)[:, -1] - np.sort(want)[:, -2] > 1e-9
    np.testing.assert_array_equal(voter.predict(Q)[clear], want[clear].argmax(axis=1))
    means = [literal_mean(target, weights, some) for some in near]
    np.testing.assert_allclose(mean.predict(Q), means, rtol=1e-10, atol=1e-12)


def test_equal_votes_go_to_the_first_class():
    X = [[0.0], [1.0], [2.0], [3.0]]
    model = nf.KNeighborsClassifier(4).fit(X, ["b", "c", "a", "c"])
    assert model.predict([[1.5]]) == ["c"]
    assert nf.KNeighborsClassifier(2).fit(X, ["b", "c", "a", "c"]).predict([[1.5]]) == ["a"]
    assert nf.RadiusNeighborsClassifier(9.0).fit(X, [5, 2, 2, 5]).predict([[1.5]]) == [2]


@pytest.mark.parametrize("model", [nf.KNeighborsClassifier(3), nf.RadiusNeighborsClassifier(1.0)])
def test_an_exact_match_votes_alone(model):
    X = [[0.0], [0.1], [-0.1], [0.1]]
    model.set_params(weights="distance").fit(X, [1, 0, 0, 0])
    np.testing.assert_array_equal(model.predict_proba([[0.0]]), [[0, 1]])
    assert model.predict_proba([[0.04]])[0, 1] < 1


def test_an_exact_match_of_no_weight_does_not_vote():
    X, y = [[0.0], [1.0], [2.0]], [10.0, 20.0, 30.0]
    for model in (nf.KNeighborsRegressor(1, weights="distance"), nf.RadiusNeighborsRegressor(1.0)):
        assert model.fit(X, y, sample_weight=[0, 1, 1]).predict([[0.0]]) == [20.0]


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_distance_weights_do_not_depend_on_units(scale):
    X, Q, y = normal(60), normal(9, seed=1), 1e12 * normal(60)[:, 0]
    model = nf.KNeighborsRegressor(4, weights="distance")
    want = model.fit(X, y).predict(Q)
    np.testing.assert_allclose(model.fit(X * scale, y).predict(Q * scale), want, rtol=1e-9)


# Sample weights.


@every_weighting
@pytest.mark.parametrize("make", [*BY_NUMBER, *BY_RADIUS])
def test_whole_weights_are_repeated_rows(make, weights):
    X, Q, y = grid(50), grid(20, seed=1), labels(50)
    often = np.random.default_rng(3).integers(0, 4, 50)
    model, size = make(weights=weights), {"n_neighbors": 6, "radius": 2.0}
    model.set_params(**{name: size[name] for name in size if name in model.get_params()})
    weighted = model.fit(X, y, sample_weight=often).predict(Q)
    repeated = model.fit(np.repeat(X, often, axis=0), np.repeat(y, often)).predict(Q)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12)


def test_few_heavy_rows_are_many_rows():
    model = nf.KNeighborsClassifier(3).fit([[0.0], [1.0]], [0, 1], sample_weight=[5, 5])
    np.testing.assert_array_equal(model.predict_proba([[0.1], [0.9]]), [[1, 0], [0, 1]])


def test_zero_weight_is_no_row():
    X, Q, y = normal(60), normal(20, seed=1), normal(60)[:, 0]
    kept = np.arange(60) % 3 > 0
    for model in (nf.KNeighborsRegressor(7), nf.RadiusNeighborsRegressor(2.5)):
        want = model.fit(X[kept], y[kept]).predict(Q)
        found = model.fit(X, y, sample_weight=kept.astype(float)).predict(Q)
        np.testing.assert_allclose(found, want)


def test_more_neighbours_than_weight_is_an_error():
    model = nf.KNeighborsClassifier(3).fit(normal(9), labels(9), sample_weight=np.full(9, 0.1))
    with pytest.raises(InputError, match=r"n_neighbors=3 is more than all sample weights.*0\.9"):
        model.predict(normal(2))


@pytest.mark.parametrize("bad", [np.zeros(9), -np.ones(9), np.ones(8)])
def test_unusable_weights(bad):
    with pytest.raises(ValueError):
        nf.KNeighborsClassifier(3).fit(normal(9), labels(9), sample_weight=bad)


# Leave one out.


@every_weighting
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "model",
    [nf.KNeighborsClassifier(3), nf.KNeighborsRegressor(3), nf.RadiusNeighborsRegressor(3.0)],
)
def test_without_x_each_row_is_predicted_from_the_others(model, weights, weighted):
    X, y = grid(60), labels(60)
    w = np.random.default_rng(0).integers(0, 3, 60) if weighted else np.ones(60)
    model.set_params(weights=weights)
    left_out = []
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        model.fit(X[others], y[others], sample_weight=w[others])
        left_out.append(model.predict(X[i : i + 1])[0])
    model.fit(X, y, sample_weight=w if weighted else None)
    np.testing.assert_allclose(model.predict(None), left_out, rtol=1e-12)
    assert np.isfinite(model.score(None, y))


# scikit-learn.


@every_weighting
@pytest.mark.parametrize("d", [2, 12])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(
    "model",
    [
        nf.KNeighborsClassifier(5),
        nf.KNeighborsRegressor(5),
        nf.RadiusNeighborsClassifier(6.0),
        nf.RadiusNeighborsRegressor(6.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_predictions_are_sklearns(model, outputs, d, weights):
    if "Radius" in type(model).__name__ and callable(weights):
        weights = lambda d: np.array([1 / (1 + some) for some in d], dtype=d.dtype)  # noqa: E731
    X, Q = normal(300, d), normal(40, d, seed=1)
    y = np.column_stack([labels(300), labels(300, 4, seed=6)]) if outputs == 2 else labels(300)
    if "Regressor" in type(model).__name__:
        y = y + 0.5  # scikit-learn's radius regressor keeps whole numbers whole
    model.set_params(weights=weights)
    other = twin(model).fit(X, y)
    model.fit(X, y)
    for rows in (Q, None):
        np.testing.assert_allclose(model.predict(rows), other.predict(rows))
        if hasattr(other, "predict_proba"):
            found, want = model.predict_proba(rows), other.predict_proba(rows)
            assert type(found) is type(want)
            for part, expected in zip(found, want, strict=True):
                np.testing.assert_allclose(part, expected, atol=1e-12)
    if outputs == 1:
        np.testing.assert_allclose(model.score(Q, y[:40]), other.score(Q, y[:40]))


@pytest.mark.parametrize("y", [list("ab" * 30), [True, False] * 30, [3, -1, 7] * 20], ids=str)
def test_classes_of_any_kind(y):
    X, Q = normal(60), normal(20, seed=1)
    model = nf.KNeighborsClassifier(3).fit(X, y)
    other = twin(model).fit(X, y)
    np.testing.assert_array_equal(model.classes_, other.classes_)
    np.testing.assert_array_equal(model.predict(Q), other.predict(Q))


METRICS = [
    {"metric": "manhattan"},
    {"metric": "cosine"},
    {"metric": "chebyshev"},
    {"p": 1},
    {"p": 3},
    {"p": np.inf},
    {"metric": "minkowski", "metric_params": {"w": np.array([1.0, 3.0, 0.5])}},
    {"metric": "mahalanobis", "metric_params": {"VI": np.diag([1.0, 2.0, 3.0])}},
    {"metric": "euclidean", "algorithm": "ball_tree"},
    {"metric": lambda a, b: np.abs(a - b).sum()},
]


@pytest.mark.parametrize("options", METRICS, ids=range(len(METRICS)))
def test_lists_and_graphs_are_sklearns(options):
    X, Q = normal(120), normal(30, seed=1)
    model = nf.NearestNeighbors(n_neighbors=4, radius=0.9, **options).fit(X)
    other = twin(model).fit(X)
    for rows in (Q, None):
        for found, want in zip(model.kneighbors(rows), other.kneighbors(rows), strict=True):
            np.testing.assert_allclose(found, want, atol=1e-7)
        far, near = model.radius_neighbors(rows)
        far_, near_ = other.radius_neighbors(rows, sort_results=True)
        assert [some.tolist() for some in near] == [some.tolist() for some in near_]
        np.testing.assert_allclose(np.concatenate(far), np.concatenate(far_), atol=1e-7)
        for mode in ("connectivity", "distance"):
            for method in ("kneighbors_graph", "radius_neighbors_graph"):
                found = getattr(model, method)(rows, mode=mode)
                want = getattr(other, method)(rows, mode=mode)
                assert (found.shape, found.nnz) == (want.shape, want.nnz)
                np.testing.assert_allclose(found.toarray(), want.toarray(), atol=1e-7)
    assert model.kneighbors(Q, 2, return_distance=False).shape == (30, 2)
    assert model.effective_metric_ == other.effective_metric_


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
@pytest.mark.parametrize("make", [nf.KNeighborsTransformer, nf.RadiusNeighborsTransformer])
def test_graph_transformers_are_sklearns(make, mode):
    X, Q = normal(80), normal(20, seed=1)
    model = make(mode=mode)
    other = twin(model)
    found, want = model.fit_transform(X), other.fit_transform(X)
    assert found.nnz == want.nnz
    np.testing.assert_allclose(found.toarray(), want.toarray(), atol=1e-7)
    np.testing.assert_allclose(model.transform(Q).toarray(), other.transform(Q).toarray())
    assert model.get_feature_names_out().tolist() == other.get_feature_names_out().tolist()


@pytest.mark.parametrize("make", [*BY_NUMBER, *BY_RADIUS])
def test_sparse_and_precomputed_tables_give_the_same(make):
    X, Q, y = grid(80), grid(20, seed=1), labels(80)
    size = {"radius": 2.5} if make in BY_RADIUS else {"n_neighbors": 5}
    want = make(**size).fit(X, y).predict(Q)
    found = make(**size).fit(sparse.csr_matrix(X), y).predict(sparse.csr_matrix(Q))
    np.testing.assert_allclose(found, want)
    D = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    D_Q = np.sqrt(((Q[:, None] - X) ** 2).sum(axis=2))
    found = make(**size, metric="precomputed").fit(D, y).predict(D_Q)
    np.testing.assert_allclose(found, want)


def test_missing_values_with_their_own_metric():
    X = normal(60)
    X[::7, 1] = np.nan
    model = nf.KNeighborsClassifier(3, metric="nan_euclidean").fit(X, labels(60))
    np.testing.assert_array_equal(model.predict(X), twin(model).fit(X, labels(60)).predict(X))


# Outliers of the radius.


@pytest.mark.parametrize("outlier_label", ["most_frequent", 2, [1]])
def test_outliers_get_their_label(outlier_label):
    X, y = normal(60), labels(60)
    Q = np.vstack([X[:3], [[99.0, 0, 0]]])
    model = nf.RadiusNeighborsClassifier(1.0, outlier_label=outlier_label).fit(X, y)
    other = twin(model).fit(X, y)
    np.testing.assert_array_equal(model.predict(Q), other.predict(Q))
    np.testing.assert_allclose(model.predict_proba(Q), other.predict_proba(Q))


def test_outlier_label_outside_the_classes():
    X, y = normal(60), labels(60)
    model = nf.RadiusNeighborsClassifier(1.0, outlier_label=-1).fit(X, y)
    assert model.predict([[99.0, 0, 0]]) == [-1]
    with pytest.warns(UserWarning, match="Outlier label -1 is not in training classes"):
        assert not model.predict_proba([[99.0, 0, 0]]).any()


def test_outlier_labels_per_output():
    X, y = normal(60), np.column_stack([labels(60), labels(60, seed=6)])
    model = nf.RadiusNeighborsClassifier(1.0, outlier_label=[2, 0]).fit(X, y)
    assert model.predict([[99.0, 0, 0]]).tolist() == [[2, 0]]
    with pytest.raises(InputError, match="inconsistent with the output length: 2"):
        nf.RadiusNeighborsClassifier(outlier_label=[1, 2, 3]).fit(X, y)


@pytest.mark.parametrize("bad", ["text", 0.5, [[1]]])
def test_outlier_label_of_another_kind(bad):
    with pytest.raises(TypeError, match="outlier_label"):
        nf.RadiusNeighborsClassifier(outlier_label=bad).fit(normal(9), labels(9))


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_no_neighbour_and_no_label_is_an_error(method):
    model = nf.RadiusNeighborsClassifier(1.0).fit(normal(60), labels(60))
    with pytest.raises(InputError, match=r"No neighbors found for 1 rows \(first: \[1\]\)"):
        getattr(model, method)([[0.0, 0, 0], [99.0, 0, 0]])


def test_no_neighbour_no_mean():
    model = nf.RadiusNeighborsRegressor(1.0).fit(normal(60), normal(60)[:, 0])
    with pytest.warns(UserWarning, match="no neighbors within specified radius.*1 of 2 rows"):
        found = model.predict([[0.0, 0, 0], [99.0, 0, 0]])
    assert np.isnan(found).tolist() == [False, True]


# What must not matter.


@pytest.mark.parametrize("d", [3, 12])
@pytest.mark.parametrize("make", [*BY_NUMBER, *BY_RADIUS])
def test_order_of_columns_and_threads_do_not_matter(make, d):
    X, Q, y = grid(400, d, high=3), grid(50, d, high=3, seed=1), labels(400)
    columns = np.random.default_rng(0).permutation(d)
    size = {"radius": 3.0} if make in BY_RADIUS else {"n_neighbors": 7}
    results = []
    for order in (slice(None), columns, slice(None, None, -1)):
        for n_jobs in (1, 2, 3):
            model = make(**size, weights="distance", n_jobs=n_jobs).fit(X[:, order], y)
            lists = getattr(model, "kneighbors", None) or model.radius_neighbors
            row = np.concatenate(lists(Q[:, order])[1])
            results.append(np.concatenate([row, model.predict(Q[:, order])]))
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def test_float32_and_lists_and_frames_give_the_same():
    X, y = grid(40), labels(40)
    want = nf.KNeighborsClassifier(3).fit(X, y).predict(X)
    for form in (X.astype(np.float32), X.tolist(), X.astype(int)):
        np.testing.assert_array_equal(nf.KNeighborsClassifier(3).fit(form, y).predict(form), want)
    frame = pd.DataFrame(X, columns=list("abc"))
    model = nf.KNeighborsClassifier(3).fit(frame, y)
    np.testing.assert_array_equal(model.predict(frame), want)
    assert model.feature_names_in_.tolist() == list("abc")


# What is refused.


@pytest.mark.parametrize("make", [nf.NearestNeighbors, nf.KNeighborsTransformer])
@pytest.mark.parametrize("k", [0, -3, 10])
def test_impossible_numbers_of_neighbours(make, k):
    with pytest.raises(InputError, match="Expected n_neighbors"):
        make().fit(normal(9)).kneighbors(normal(2), k)
    if k < 1:
        with pytest.raises(ValueError, match="'n_neighbors' parameter"):
            make(n_neighbors=k).fit(normal(9))


def test_a_row_is_not_its_own_neighbour():
    model = nf.NearestNeighbors(n_neighbors=9).fit(normal(9))
    assert model.kneighbors(normal(2))[1].shape == (2, 9)
    with pytest.raises(InputError, match="not its own neighbour"):
        model.kneighbors()
    assert model.kneighbors(n_neighbors=8)[1].shape == (9, 8)


@pytest.mark.parametrize("k", [2.0, "2", True])
def test_numbers_of_neighbours_are_whole(k):
    with pytest.raises(TypeError, match="n_neighbors"):
        nf.NearestNeighbors().fit(normal(9)).kneighbors(n_neighbors=k)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "magic"}, "'algorithm' parameter"),
        ({"p": 0}, "'p' parameter"),
        ({"metric": "precomputed"}, "9 x 3"),
        ({"metric": "magic"}, "metric"),
    ],
)
def test_impossible_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        nf.NearestNeighbors(**options).fit(normal(9))


def test_impossible_requests():
    model = nf.NearestNeighbors().fit(normal(9))
    with pytest.raises(InputError, match="radius=-1"):
        model.radius_neighbors(radius=-1)
    with pytest.raises(InputError, match="Unsupported mode"):
        model.kneighbors_graph(mode="magic")
    with pytest.raises(InputError, match="return_distance"):
        model.radius_neighbors(return_distance=False, sort_results=True)
    for make in (*BY_NUMBER, *BY_RADIUS):
        with pytest.raises(ValueError, match="'weights' parameter"):
            make(weights="magic").fit(normal(9), labels(9))
        with pytest.raises(ValueError, match="requires y"):
            make().fit(normal(9), None)


@pytest.mark.parametrize("make", ALL)
def test_not_fitted(make):
    ask = next(m for m in ("predict", "transform", "kneighbors") if hasattr(make, m))
    with pytest.raises(NotFittedError):
        getattr(make(), ask)(normal(3))


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize(("value", "kind"), [(np.nan, "2 NaN"), (np.inf, "2 inf")])
def test_nonfinite_cells_are_named(make, value, kind):
    X = normal(30)
    X[[4, 9], [2, 1]] = value
    message = rf"{kind} \(column 1: 1, column 2: 1; first rows: \[4, 9\]\)"
    with pytest.raises(NonFiniteError, match=message):
        make().fit(X, labels(30))
    with pytest.raises(NonFiniteError, match="column 'age': 1, column 'size': 1"):
        make().fit(
            pd.DataFrame(X, columns=["name", "size", "age"])[["name", "age", "size"]], labels(30)
        )
    ask = next(m for m in ("predict", "transform", "kneighbors") if hasattr(make, m))
    with pytest.raises(NonFiniteError, match=message):
        getattr(make().fit(normal(30), labels(30)), ask)(X)


@pytest.mark.parametrize("make", [nf.KNeighborsClassifier, nf.RadiusNeighborsClassifier])
def test_a_column_of_classes_is_one_target_and_warns(make):
    X, y = normal(30), labels(30)
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = make().fit(X, y[:, None])
    np.testing.assert_array_equal(model.predict(X), make().fit(X, y).predict(X))


@pytest.mark.parametrize("make", [nf.KNeighborsRegressor, nf.RadiusNeighborsRegressor])
def test_a_column_of_numbers_is_taken_as_sklearn_takes_it(make):
    X, y = normal(30), normal(30)[:, :1]
    model = make(radius=9.0) if make in BY_RADIUS else make()
    found, want = model.fit(X, y).predict(X), twin(model).fit(X, y).predict(X)
    assert found.shape == want.shape
    np.testing.assert_allclose(found, want)


@pytest.fixture
def one_megabyte():
    nf.set_memory("1MB")
    yield
    nf.set_memory(None)


@pytest.mark.usefixtures("one_megabyte")
def test_memory_budget_of_lists():
    model = nf.NearestNeighbors(n_neighbors=500).fit(normal(1000))
    assert model.kneighbors(normal(3))[1].shape == (3, 500)
    with pytest.raises(MemoryBudgetError, match=r"500 neighbours for 1000 rows.*7\.6 MB"):
        model.kneighbors()


@pytest.mark.usefixtures("one_megabyte")
@pytest.mark.parametrize("d", [3, 12])
def test_memory_budget_of_all_within_a_radius(d):
    model = nf.NearestNeighbors(radius=1e9).fit(normal(1000, d))
    assert len(model.radius_neighbors(normal(3, d))[1][0]) == 1000
    with pytest.raises(MemoryBudgetError):
        model.radius_neighbors()


# The book.


def test_one_neighbour_errs_at_most_twice_as_often_as_bayes():
    """(10.1)-(10.2): P(err) = 1 - sum_c P(c|x) P(c|z) <= 2 (1 - P(c*|x))."""
    rng = np.random.default_rng(0)

    def draw(n):
        y = rng.integers(0, 2, n)
        return (2.0 * y + rng.standard_normal(n))[:, None], y

    bayes = norm.cdf(-1.0)
    x = np.linspace(-8, 10, 20_001)
    p, q = 0.5 * norm.pdf(x), 0.5 * norm.pdf(x - 2)
    limit = np.trapezoid(2 * p * q / (p + q), x)
    (X, y), (Q, truth) = draw(4000), draw(8000)
    error = (nf.KNeighborsClassifier(1).fit(X, y).predict(Q) != truth).mean()
    noise = np.sqrt(limit * (1 - limit) * (1 / 4000 + 1 / 8000))
    assert bayes < limit < 2 * bayes
    assert abs(error - limit) < 4 * noise
    assert bayes < error < 2 * bayes
