"""Laws that tie methods to each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nearfold
from nearfold import (
    PCA,
    IncrementalPCA,
    KNeighborsClassifier,
    LinearDiscriminantAnalysis,
    NearestNeighbors,
)
from nearfold.linalg import fix_signs


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


def table(m=120, d=6, seed=0):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rng.normal(size=(m, d)) * np.linspace(3, 0.5, d) @ Q + rng.normal(size=d)


def deflate(X, k):
    """The direction of largest variance by power iteration, taken out of the rows, k times."""
    A = X - X.mean(axis=0)
    axes = []
    for _ in range(k):
        S = A.T @ A
        for _ in range(11):  # S^2048
            S = S @ S / np.linalg.norm(S) ** 2
        w = S @ np.ones(A.shape[1])
        w /= np.linalg.norm(w)
        axes.append(w)
        A = A - np.outer(A @ w, w)
    return np.array(axes)


@pytest.mark.parametrize("seed", range(3))
def test_pca_by_eigenvalues_by_svd_and_by_deflation_are_one(seed):
    X = table(seed=seed)
    _, s, Vt = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    for solver in ("covariance_eigh", "full", "arpack"):
        model = PCA(4, svd_solver=solver).fit(X)
        np.testing.assert_allclose(model.components_, fix_signs(Vt[:4]), atol=1e-9)
        np.testing.assert_allclose(model.components_, fix_signs(deflate(X, 4)), atol=1e-6)
        np.testing.assert_allclose(model.singular_values_, s[:4], rtol=1e-11)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(3, 119), st.integers(3, 119))
def test_incremental_is_batch(seed, a, b):
    X = table(seed=seed)
    incremental, batch = IncrementalPCA(3), PCA(3).fit(X)
    for part in np.split(X, sorted([a, b])):
        if len(part):
            incremental.partial_fit(part)
    np.testing.assert_allclose(incremental.explained_variance_, batch.explained_variance_)
    # axes of nearly equal variance turn freely: compare what the projection leaves
    got = incremental.inverse_transform(incremental.transform(X))
    want = batch.inverse_transform(batch.transform(X))
    np.testing.assert_allclose(got, want, atol=1e-7)


def test_streamed_is_in_memory(tmp_path):
    X = table(m=3000)
    np.save(tmp_path / "x.npy", X)
    whole = PCA(3).fit(X)
    nearfold.set_memory("128KB")
    streamed = PCA(3).fit(tmp_path / "x.npy")
    np.testing.assert_allclose(streamed.components_, whole.components_, atol=1e-10)
    np.testing.assert_allclose(
        streamed.transform(tmp_path / "x.npy"), whole.transform(X), atol=1e-10
    )


def planted(seed):
    """Two classes apart along the first axis; the variance is elsewhere."""
    rng = np.random.default_rng(seed)
    y = np.arange(400) % 2
    X = rng.normal(size=(400, 10)) * np.r_[0.25, np.full(9, 20.0)]
    X[:, 0] += np.where(y == 1, 1.0, -1.0)
    Q = np.linalg.qr(np.random.default_rng(99).normal(size=(10, 10)))[0]
    return X @ Q, y


def test_lda_finds_what_pca_cannot():
    (X, y), (new, truth) = planted(0), planted(1)

    def accuracy(space):
        knn = KNeighborsClassifier(5)
        if space is None:
            return knn.fit(X, y).score(new, truth)
        space.fit(X, y)
        return knn.fit(space.transform(X), y).score(space.transform(new), truth)

    assert accuracy(None) < 0.7
    assert accuracy(PCA(1)) < 0.7
    assert accuracy(LinearDiscriminantAnalysis(n_components=1)) > 0.95


@pytest.mark.parametrize("k", [1, 7])
def test_a_full_rotation_leaves_neighbours_alone(k):
    X = table(m=300)
    model = PCA().fit(X)
    Z = model.transform(X)
    assert Z.shape == X.shape
    before = NearestNeighbors(n_neighbors=k).fit(X).kneighbors()
    after = NearestNeighbors(n_neighbors=k).fit(Z).kneighbors()
    np.testing.assert_allclose(before[0], after[0], rtol=1e-10)
    np.testing.assert_array_equal(before[1], after[1])


@pytest.mark.parametrize("model", [PCA(4, whiten=True), IncrementalPCA(4, whiten=True)], ids=str)
def test_whitening_gives_identity_covariance(model):
    X = table()
    np.testing.assert_allclose(np.cov(model.fit_transform(X).T), np.eye(4), atol=1e-10)


def test_lda_is_pca_of_whitened_class_means():
    """In a space where S_w = I, the axes of LDA are the principal axes of the class means."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 50)
    X = rng.normal(size=(200, 6)) + 3 * rng.normal(size=(4, 6))[y]
    means = np.array([X[y == c].mean(axis=0) for c in range(4)])
    L = np.linalg.cholesky(np.linalg.inv((X - means[y]).T @ (X - means[y]) / 200))
    white = LinearDiscriminantAnalysis().fit(X @ L, y)
    np.testing.assert_allclose(white.scalings_.T, PCA(3).fit(means @ L).components_, atol=1e-9)
