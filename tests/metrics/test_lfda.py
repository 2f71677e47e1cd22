"""LFDA against the double sums of the paper, and on rows that break its divisions."""

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.estimator_checks import parametrize_with_checks

import nearfold
from nearfold import LinearDiscriminantAnalysis
from nearfold.errors import InputError, MemoryBudgetError, NearfoldWarning
from nearfold.metrics import lfda
from nearfold.metrics.lfda import EMBEDDINGS, LFDA, local_scales, local_scatters


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks([LFDA(embedding_type="plain")])
def test_scikit_learn_check(estimator, check):
    check(estimator)


def classes(m=60, d=4, seed=0, dtype=np.float64):
    """Three classes of unequal size, one of them in two clusters."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, m, p=[0.5, 0.3, 0.2])
    place = 3 * rng.normal(size=(3, d))[y] + 6 * (rng.random(m) < 0.5)[:, None] * (y == 0)[:, None]
    return (rng.normal(size=(m, d)) + place + 1.0).astype(dtype), y


def literal_scales(X, y, k):
    sigma = np.zeros(len(X))
    for i in range(len(X)):
        own = [np.linalg.norm(X[i] - X[j]) for j in range(len(X)) if y[j] == y[i] and j != i]
        sigma[i] = sorted(own)[min(k, len(own)) - 1]
    return sigma


def literal_scatters(X, y, k):
    """S_w and S_b pair by pair."""
    m, d = X.shape
    sigma = literal_scales(X, y, k)
    S_w, S_b = np.zeros((d, d)), np.zeros((d, d))
    for i in range(m):
        for j in range(m):
            v, m_c = X[i] - X[j], np.sum(y == y[i])
            A = np.exp(-(v @ v) / (sigma[i] * sigma[j]))
            within = A / m_c if y[i] == y[j] else 0.0
            between = A * (1 / m - 1 / m_c) if y[i] == y[j] else 1 / m
            S_w += within / 2 * np.outer(v, v)
            S_b += between / 2 * np.outer(v, v)
    return S_w, S_b


def literal_metric(X, y, k, n, embedding_type):
    S_w, S_b = literal_scatters(X, y, k)
    lam, phi = eigh(S_b, S_w)
    lam, phi = lam[::-1][:n], phi[:, ::-1][:, :n]
    if embedding_type == "weighted":
        phi = phi * np.sqrt(np.maximum(lam, 0))
    elif embedding_type == "orthonormalized":
        phi = np.linalg.qr(phi)[0]
    return phi @ phi.T


def assert_close(M, expected, rtol=1e-9):
    np.testing.assert_allclose(M, expected, atol=rtol * np.abs(expected).max())


# ---- the formula ---------------------------------------------------------------------


@pytest.mark.parametrize("cells", [2**20, 64])
@pytest.mark.parametrize("k", [1, 7])
def test_scatters_are_the_double_sums(k, cells, monkeypatch):
    monkeypatch.setattr(lfda, "_CELLS", cells)  # 64: a few rows of A at a time
    X, y = classes()
    S_w, S_b, weight = local_scatters(X - X.mean(axis=0), y, k)
    expected = literal_scatters(X, y, k)
    assert_close(S_w, expected[0], 1e-12)
    assert_close(S_b, expected[1], 1e-12)
    sigma = literal_scales(X, y, k)
    A = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / np.outer(sigma, sigma))
    assert weight == pytest.approx((A * (y[:, None] == y) / np.bincount(y)[y]).sum())


@pytest.mark.parametrize("embedding_type", EMBEDDINGS)
@pytest.mark.parametrize("n_components", [None, 1, 2, 3])
def test_metric_is_that_of_the_paper(n_components, embedding_type):
    X, y = classes()
    model = LFDA(n_components, k=5, embedding_type=embedding_type).fit(X, y)
    M = model.get_mahalanobis_matrix()
    assert_close(M, literal_metric(X, y, 5, n_components or 4, embedding_type))
    assert np.linalg.eigvalsh(M)[0] > -1e-12 * np.abs(M).max()
    if embedding_type != "weighted" or n_components is not None:
        assert model.rank_ == len(model.components_) == (n_components or 4)


def test_default_k_is_seven_or_one_less_than_the_columns():
    for d, k in ((2, 1), (4, 3), (9, 7)):
        X, y = classes(d=d)
        a, b = LFDA(1).fit(X, y), LFDA(1, k=k).fit(X, y)
        np.testing.assert_array_equal(a.components_, b.components_)
    X, y = classes(d=1)
    assert LFDA().fit(X, y).rank_ == 1


def test_with_one_scale_for_all_it_is_fisher_discriminant_analysis(monkeypatch):
    """A_ij = 1 makes S_w and S_b those of LDA."""
    X, y = classes()
    monkeypatch.setattr(lfda, "local_scales", lambda X, *_: np.full(len(X), 1e9))
    model = LFDA(2, embedding_type="plain").fit(X, y)
    W = LinearDiscriminantAnalysis().fit(X, y).scalings_
    M = W @ W.T / len(X)  # S_w of LDA is a mean, that of LFDA a sum
    assert_close(model.get_mahalanobis_matrix(), M, 1e-7)


@pytest.mark.parametrize("embedding_type", ["weighted", "plain"])
def test_order_and_place_of_the_rows_do_not_matter(embedding_type):
    X, y = classes()
    model = LFDA(2, embedding_type=embedding_type).fit(X, y)
    order = np.random.default_rng(1).permutation(len(X))
    mixed = LFDA(2, embedding_type=embedding_type).fit(X[order], y[order])
    size = np.abs(model.components_).max()
    np.testing.assert_allclose(mixed.components_, model.components_, atol=1e-10 * size)
    moved = LFDA(2, embedding_type=embedding_type).fit(X + 1e5, y)
    np.testing.assert_allclose(moved.components_, model.components_, atol=1e-8 * size)
    names = np.array(["one", "two", "three"])[y]
    named = LFDA(2, embedding_type=embedding_type).fit(X, names)
    np.testing.assert_allclose(named.components_, model.components_, atol=1e-10 * size)


@pytest.mark.parametrize("offset", [0, 100])
def test_float32_stays_float32(offset):
    X, y = classes(dtype=np.float32)
    X += np.float32(offset)
    model = LFDA(2, k=3).fit(X, y)
    assert model.components_.dtype == model.transform(X).dtype == np.float32
    exact = literal_metric(X.astype(np.float64), y, 3, 2, "weighted")
    assert_close(model.get_mahalanobis_matrix(), exact, 1e-5)


# ---- degenerate ----------------------------------------------------------------------


def test_scale_of_a_row_with_many_copies_is_that_of_the_nearest_other():
    X = np.array([[0.0], [0], [0], [3], [10]])
    np.testing.assert_allclose(local_scales(X, 2), [3, 3, 3, 3, 10])
    np.testing.assert_allclose(local_scales(X[:3], 2), 0)
    np.testing.assert_allclose(local_scales(X[:1], 2), 0)


def test_copies_of_all_rows_change_little_and_break_nothing():
    X, y = classes()
    model = LFDA(2, k=2).fit(np.repeat(X, 5, axis=0), np.repeat(y, 5))
    assert model.rank_ == 2
    once = LFDA(2, k=1).fit(X, y)  # the nearest that is not a copy
    A, B = (m.get_mahalanobis_matrix() for m in (model, once))
    assert_close(A / np.trace(A), B / np.trace(B), 1e-9)


def test_classes_of_one_row_only_push():
    X, y = classes()
    lone = np.append(y, [7, 8])
    wide = np.vstack([X, X[:2] + 20])
    model = LFDA(2, k=3).fit(wide, lone)
    assert np.isfinite(model.components_).all()
    S_w, S_b, _ = local_scatters(
        wide - wide.mean(axis=0), np.unique(lone, return_inverse=True)[1], 3
    )
    m = len(wide)
    plain = local_scatters(X - X.mean(axis=0), y, 3)
    np.testing.assert_allclose(S_w, plain[0], atol=1e-9)
    push = sum(
        np.outer(wide[i] - wide[j], wide[i] - wide[j]) / (2 * m)
        for i in range(m)
        for j in range(m)
        if lone[i] != lone[j]
    )
    pull = sum(
        (1 / m - 1 / len(own)) * lfda.local_scatter(own - own.mean(axis=0), local_scales(own, 3))[0]
        for own in (X[y == c] for c in range(3))
    )
    np.testing.assert_allclose(S_b, push + pull, atol=1e-9 * np.abs(S_b).max())


def test_only_classes_of_one_row_are_refused():
    with pytest.raises(InputError, match="no column varies within"):
        LFDA().fit(np.eye(4), [0, 1, 2, 3])
    with pytest.raises(InputError, match="no column varies within"):
        LFDA().fit(np.repeat(np.eye(3), 3, axis=0), np.repeat([0, 1, 2], 3))


@pytest.mark.parametrize("embedding_type", EMBEDDINGS)
def test_constant_and_dependent_columns_are_left_out(embedding_type):
    X, y = classes()
    expected = LFDA(2, k=3, embedding_type=embedding_type).fit(X, y).get_mahalanobis_matrix()
    constant = np.column_stack([np.full(len(X), 0.1), X, np.full(len(X), -1e9)])
    M = LFDA(2, k=3, embedding_type=embedding_type).fit(constant, y).get_mahalanobis_matrix()
    assert_close(M[1:-1, 1:-1], expected, 1e-9)
    assert np.abs(M[[0, -1]]).max() < 1e-13 * np.abs(M).max()
    dependent = np.column_stack([X, X.sum(axis=1)])
    model = LFDA(k=3, embedding_type=embedding_type).fit(dependent, y)
    assert model.rank_ <= 4
    assert np.isfinite(model.components_).all()


def test_more_columns_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 50)), np.repeat([0, 1], 10)
    with pytest.warns(NearfoldWarning, match="1 directions"):
        model = LFDA().fit(X, y)  # 19 directions, 18 of them within classes
    assert 1 <= model.rank_ <= 18
    assert np.isfinite(model.transform(X)).all()


def test_between_is_never_negative_and_rounding_below_zero_has_no_weight():
    """Classes on top of each other: S_b is as small as it gets, and its root is not NaN."""
    X = np.random.default_rng(2).normal(size=(40, 5))
    y = np.repeat([0, 1], 20)
    S_w, S_b, _ = local_scatters(X - X.mean(axis=0), y, 4)
    assert eigh(S_b, S_w, eigvals_only=True)[0] > 0
    L = lfda.map_of_axes(np.array([1.0, -1e-17]), np.eye(2), "weighted")
    np.testing.assert_array_equal(L, [[1, 0], [0, 0]])
    same = np.repeat(X[:10], 2, axis=0)  # each row in both classes: nothing tells them apart
    assert np.isfinite(LFDA().fit(same, np.tile([0, 1], 10)).components_).all()


def test_tiny_clusters_far_apart_are_measured_exactly():
    """sigma is 1e-9 beside places of size 1: differences of squares would be rounding."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(3, 2))
    X = np.repeat(places, 6, axis=0) + 1e-7 * rng.normal(size=(18, 2))
    label = np.tile([0, 0, 0, 1, 1, 1], 3)
    own = X[label == 0] - X[label == 0].mean(axis=0)
    sigma = local_scales(own, 1)
    A = lfda.affinities(own, (own**2).sum(axis=1), sigma, slice(0, 9))
    D2 = ((own[:, None] - own) ** 2).sum(axis=2)
    np.testing.assert_allclose(A, np.exp(-D2 / np.outer(sigma, sigma)), atol=1e-12)


def test_small_classes_use_all_their_rows_whatever_class_comes_first():
    X, y = classes()
    small = np.concatenate([np.flatnonzero(y == 0)[:3], np.flatnonzero(y > 0)])
    X, y = X[small], y[small]
    with pytest.warns(NearfoldWarning, match=r"1 classes have at most k=5 rows \(the first: 0?"):
        model = LFDA(2, k=5).fit(X, y)
    assert_close(model.get_mahalanobis_matrix(), literal_metric(X, y, 5, 2, "weighted"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"k": 2.5},
        {"embedding_type": "other"},
        {"n_components": 0},
    ],
)
def test_impossible_parameters_are_refused(wrong):
    X, y = classes()
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        LFDA(**wrong).fit(X, y)


def test_more_axes_than_columns_are_refused():
    with pytest.raises(InputError, match="n_components"):
        LFDA(n_components=5).fit(*classes())


def test_one_class_is_refused():
    X, _ = classes()
    with pytest.raises(InputError, match=r"at least two classes; y holds only one class, 0\.0\.$"):
        LFDA().fit(X, np.zeros(len(X)))


def test_a_large_class_is_never_held_as_a_square(monkeypatch):
    """6,000 rows: the square would be 288 MB."""
    monkeypatch.setattr(lfda, "_CELLS", 2**16)
    largest = 0
    measure = lfda.affinities

    def watched(*arguments):
        nonlocal largest
        A = measure(*arguments)
        largest = max(largest, A.size)
        return A

    monkeypatch.setattr(lfda, "affinities", watched)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6100, 3)), np.repeat([0, 1], [6000, 100])
    nearfold.set_memory("20MB")
    LFDA().fit(X, y)
    assert 0 < largest <= 2**16
    nearfold.set_memory("100KB")
    with pytest.raises(MemoryBudgetError, match="LFDA of 6,100 rows"):
        LFDA().fit(X, y)


def test_progress_is_reported(monkeypatch):
    monkeypatch.setattr(lfda, "_CELLS", 64)
    seen = []
    X, y = classes()
    with nearfold.progress(lambda label, done, total: seen.append((label, done, total))):
        LFDA().fit(X, y)
    assert any(label == "affinities" and done == total for label, done, total in seen)


# ---- use -----------------------------------------------------------------------------


def test_a_class_in_two_clusters_is_told_apart_on_one_axis():
    """LDA pulls the clusters of a class together, over the other class; LFDA does not."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 0], 60)
    X = np.column_stack([np.repeat([-5.0, 0, 5], 60) + rng.normal(size=180), rng.normal(size=180)])
    X[:, 1] += 0.3 * y

    def error(model):
        Z = model.fit(X, y).transform(X)
        return 1 - KNeighborsClassifier(5).fit(Z[::2], y[::2]).score(Z[1::2], y[1::2])

    assert error(LinearDiscriminantAnalysis(n_components=1)) > 0.2
    assert error(LFDA(1)) < 0.08


def test_preprocessor_looks_up_rows():
    X, y = load_iris(return_X_y=True)
    model = LFDA(2, preprocessor=X).fit(np.arange(150), y)
    np.testing.assert_array_equal(model.components_, LFDA(2).fit(X, y).components_)


def test_scales_of_few_and_of_many_rows_agree(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 5))
    X[7] = X[8]
    few = local_scales(X, 4)
    monkeypatch.setattr(lfda, "_FEW", 0)
    np.testing.assert_allclose(local_scales(X, 4), few, rtol=1e-14)
