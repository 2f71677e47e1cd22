"""d', k and epsilon, with their reasons."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_swiss_roll
from sklearn.decomposition import PCA as TheirPCA
from sklearn.model_selection import RepeatedKFold
from sklearn.neighbors import KNeighborsClassifier as TheirClassifier
from sklearn.neighbors import KNeighborsRegressor as TheirRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from threadpoolctl import threadpool_limits

from nearfold import (
    LMNN,
    NCA,
    PCA,
    ClassicalMDS,
    Isomap,
    KernelPCA,
    LinearDiscriminantAnalysis,
    LocallyLinearEmbedding,
    choose_dimension,
    choose_neighbors,
    choose_radius,
)
from nearfold.errors import InputError
from nearfold.study import choose as module
from nearfold.study.choose import (
    as_table,
    dimension_scores,
    dimensions_to_try,
    judge_for_choice,
)


def houses(n=600, seed=0):
    """Like the California table: places, incomes, ages, correlated counts; prices with a bend."""
    rng = np.random.default_rng(seed)
    north, west, income, age = rng.normal(size=(4, n))
    rooms = 5 + income + 0.5 * rng.normal(size=n)
    beds = 0.2 * rooms + 0.1 * rng.normal(size=n)
    people = np.exp(rng.normal(size=n))
    crowd = 3 + 0.3 * rng.normal(size=n) - 0.2 * income
    X = np.column_stack([income, age, rooms, beds, people, crowd, north, west])
    coast = np.exp(-((north + west) ** 2))
    return scale(X), 2 + 0.8 * income + coast + 0.1 * age + 0.4 * rng.normal(size=n)


TABLES = {
    "wine": lambda: (scale(load_wine().data), load_wine().target),
    "breast cancer": lambda: (scale(load_breast_cancer().data), load_breast_cancer().target),
    "digits": lambda: (load_digits().data[::3], load_digits().target[::3]),
    "houses": houses,
}


def exhaustive(X, y, splits):
    """Scores of folds x every d', by scikit-learn alone; PCA's first axes are PCA of fewer."""
    learner = TheirRegressor() if y.dtype.kind == "f" else TheirClassifier()
    rows = []
    for train, test in splits:
        pca = TheirPCA().fit(X[train])
        A, B = pca.transform(X[train]), pca.transform(X[test])
        rows.append(
            [
                learner.fit(A[:, :d], y[train]).score(B[:, :d], y[test])
                for d in range(1, A.shape[1] + 1)
            ]
        )
    return np.array(rows)


@pytest.mark.parametrize("name", TABLES)
def test_the_choice_is_within_one_standard_error_of_the_exhaustive_best(name):
    """Every d' tried by scikit-learn: on the same folds, and on others."""
    X, y = TABLES[name]()
    judge, _ = judge_for_choice(as_table(X, y, None), 5, 5, None, False, 0)
    same = [(fold.train, fold.test) for fold in judge.split.folds]
    other = RepeatedKFold(n_splits=5, n_repeats=2, random_state=1).split(X)
    with threadpool_limits(1):
        tables = [exhaustive(X, y, splits) for splits in (same, other)]
    for rule in ("one_standard_error", "cross_validation"):
        choice = choose_dimension(PCA(), X, y, rule=rule, random_state=0)
        assert str(choice.value) in str(choice.reason)
        at = choice.value - 1
        for scores, is_same in zip(tables, (True, False), strict=True):
            mean, error = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(5)
            best = mean.argmax()
            # Other splits: the mean of the choice carries an error of its own.
            slack = error[best] if is_same else np.hypot(error[best], error[at])
            assert mean[at] >= mean[best] - slack
    np.testing.assert_allclose(choice.curve.y, tables[0].mean(axis=0), atol=2e-3)


def test_one_standard_error_never_takes_more_than_the_best():
    X, y = TABLES["breast cancer"]()
    small = choose_dimension(PCA(), X, y)
    best = choose_dimension(PCA(), X, y, rule="cross_validation")
    assert small.value <= best.value == small.best


@pytest.mark.parametrize(
    "estimator",
    [
        PCA(),
        KernelPCA(kernel="rbf", gamma=0.05),
        ClassicalMDS(metric="cityblock"),
        Isomap(n_neighbors=12),
        LinearDiscriminantAnalysis(),
    ],
    ids=lambda e: type(e).__name__,
)
def test_one_fit_serves_every_dimension(estimator, monkeypatch):
    X, y = TABLES["wine"]()
    judge, _ = judge_for_choice(as_table(X, y, None), 5, 3, 1, False, 0)
    tried = np.array([1, 2])
    nested = dimension_scores(judge, estimator, tried)
    monkeypatch.setattr(module, "nests", lambda model: False)
    np.testing.assert_array_equal(nested, dimension_scores(judge, estimator, tried))


def test_what_does_not_nest_is_fitted_for_each_dimension():
    fits = []

    class Counting(PCA):
        def fit_transform(self, X, y=None):
            fits.append(self.n_components)
            return super().fit_transform(X, y)

    X, y = TABLES["wine"]()
    choose_dimension(Counting(), X, y, dimensions=[2, 5], n_folds=3, n_repeats=1)
    assert fits == [2, 5] * 3


def test_metrics_and_curved_spaces_can_be_chosen_for():
    X, y = load_iris(return_X_y=True)
    for estimator in (NCA(random_state=0), LMNN(), LocallyLinearEmbedding(n_neighbors=10)):
        choice = choose_dimension(estimator, X, y, n_repeats=1, dimensions=[1, 2, 3])
        assert choice.value in (1, 2, 3)


def test_the_share_is_the_books_at_least():
    X = np.zeros((8, 3))
    X[:, 0], X[:, 1], X[:, 2] = np.tile([2, -2], 4), np.repeat([1, -1], 4), [1, 1, -1, -1] * 2
    shares = np.cumsum([4, 1, 1]) / 6
    for threshold, expected in [(shares[0], 1), (shares[0] + 1e-9, 2), (shares[1], 2), (1.0, 3)]:
        choice = choose_dimension(PCA(2), X, rule="share", threshold=threshold)
        assert choice.value == expected
    np.testing.assert_allclose(choice.curve.y, shares)


def test_parallel_analysis_counts_planted_axes():
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(12, 3)))[0].T
    X = rng.normal(size=(500, 3)) @ (5 * axes) + rng.normal(size=(500, 12))
    assert choose_dimension(PCA(), X, rule="parallel").value == 3
    noise = choose_dimension(PCA(), rng.normal(size=(500, 12)), rule="parallel")
    assert noise.value == 1
    assert "unrelated" in str(noise.reason)


def test_k_by_connectivity_is_the_smallest_that_connects():
    X = np.vstack([np.random.default_rng(s).normal(size=(40, 2)) + 6 * s for s in (0, 1)])
    choice = choose_neighbors(Isomap(), X)
    pieces = dict(zip(choice.curve.x.tolist(), choice.curve.y.tolist(), strict=True))
    assert pieces[choice.value] == 1
    assert pieces[choice.value - 1] > 1
    assert f"{pieces[choice.value - 1]:.0f} pieces" in str(choice.reason)


def test_the_radius_by_connectivity_is_the_longest_edge_of_the_spanning_tree():
    from scipy.sparse.csgraph import minimum_spanning_tree
    from scipy.spatial.distance import pdist, squareform

    X = make_swiss_roll(200, random_state=0)[0]
    longest = minimum_spanning_tree(squareform(pdist(X))).data.max()
    choice = choose_radius(Isomap(n_neighbors=None, radius=1.0), X)
    np.testing.assert_allclose(choice.value, longest, rtol=1e-6)
    assert choice.value >= longest
    connected = dict(zip(choice.curve.x.tolist(), choice.curve.y.tolist(), strict=True))
    assert connected[choice.value] == 1


def test_k_and_radius_by_cross_validation():
    X, t = make_swiss_roll(250, random_state=0)
    k = choose_neighbors(Isomap(), X, t, neighbors=[4, 8, 60], n_folds=3, n_repeats=1)
    assert k.value in (4, 8)  # 60 neighbours reach across the roll
    radius = choose_radius(Isomap(), X, t, radii=[3.0, 7.0, 30.0], n_folds=3, n_repeats=1)
    assert radius.value == 7.0
    assert 3.0 not in radius.curve.x  # some held-out row has no neighbour so near
    with pytest.raises(InputError, match="no value of radius"):
        choose_radius(Isomap(), X, t, radii=[1e-3], n_folds=3, n_repeats=1)
    learner = choose_neighbors(None, X, t, neighbors=[1, 5, 150], n_folds=3, n_repeats=1)
    assert learner.value in (1, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "guess"}, "rule='guess'"),
        ({}, "needs y"),
        ({"y": np.zeros(5)}, "one value for each"),
        ({"rule": "share", "threshold": 1.5}, r"\(0, 1\]"),
        ({"y": np.zeros(40, dtype=int)}, "same label"),
        ({"y": np.full(40, np.nan)}, "40 NaN"),
        ({"y": np.arange(40) % 2, "dimensions": [9]}, "from 1 to 4"),
    ],
)
def test_mistakes_are_answered(arguments, message):
    X = np.random.default_rng(0).normal(size=(40, 4))
    with pytest.raises(InputError, match=message):
        choose_dimension(PCA(), X, **arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: choose_dimension(Isomap(), X, rule="parallel"), "rule for PCA"),
        (lambda X: choose_dimension(Isomap(), X, rule="share"), "what share"),
        (lambda X: choose_dimension(LinearDiscriminantAnalysis(), X, rule="share"), "give y"),
        (lambda X: choose_radius(Isomap(), X, rule="guess"), "rule='guess'"),
        (lambda X: choose_neighbors(Isomap(), X, rule="share"), "rule='share'"),
        (lambda X: choose_radius(Isomap(), X * 0), "all rows are equal"),
    ],
)
def test_rules_that_do_not_fit_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call(np.random.default_rng(0).normal(size=(40, 4)))


def test_pipelines_are_chosen_for_inside_the_folds():
    X, y = load_wine(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), PCA())
    choice = choose_dimension(pipeline, X, y, n_repeats=1)
    assert choice.curve.y.max() > 0.93  # unscaled it is about 0.7
    assert choose_dimension(pipeline, X, rule="share", threshold=0.9).value == 8


def test_dimensions_to_try():
    assert dimensions_to_try(10).tolist() == list(range(1, 11))
    assert dimensions_to_try(13, sparing=True).tolist() == [1, 2, 3, 4, 6, 8, 11, 13]
    long = dimensions_to_try(784)
    assert long[0] == 1
    assert long[-1] == 784
    assert len(long) < 80
