"""PCA against the formula, against scikit-learn, and every route against the others."""

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.decomposition
from scipy import sparse

import nearfold
from nearfold import PCA
from nearfold.errors import InputError, MemoryBudgetError, NearfoldWarning, NonFiniteError
from nearfold.linalg import fix_signs
from nearfold.state import StateError, fields_of

NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


def table(m=80, d=5, seed=0, dtype=np.float64, offset=1.0):
    """Full rank, with standard deviations from 3 to 0.5 along random axes."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (rng.normal(size=(m, d)) * np.linspace(3, 0.5, d) @ Q + offset).astype(dtype)


def graded(values, m=60, d=None, seed=0, dtype=np.float64):
    """Centred rows with these singular values."""
    rng = np.random.default_rng(seed)
    d, r = d or len(values), len(values)
    U = rng.normal(size=(m, r))
    U = np.linalg.qr(U - U.mean(axis=0))[0]
    V = np.linalg.qr(rng.normal(size=(d, r)))[0]
    return ((U * values) @ V.T).astype(dtype)


def literal_pca(X, weights=None):
    """Eigenvalues (largest first) and axes of sum w (x - mu)(x - mu)^T, summed row by row."""
    X = np.asarray(X, dtype=np.float64)
    w = np.ones(len(X)) if weights is None else weights
    mu = sum(wi * x for wi, x in zip(w, X, strict=True)) / w.sum()
    S = np.zeros((X.shape[1], X.shape[1]))
    for wi, x in zip(w, X, strict=True):
        S += wi * np.outer(x - mu, x - mu)
    lam, W = np.linalg.eigh(S)
    return mu, lam[::-1], W[:, ::-1].T, S


def assert_principal(model, X, weights=None, dtype=np.float64, limit=100.0):
    """Residual of (10.17), orthonormality and eigenvalues, scaled by norm, size and eps."""
    mu, lam, _, S = literal_pca(X, weights)
    W = model.components_.astype(np.float64)
    k = len(W)
    count = len(X) if weights is None else weights.sum()
    scale = limit * max(np.shape(X)) * np.finfo(dtype).eps
    got = model.explained_variance_.astype(np.float64) * (count - 1)
    assert np.linalg.norm(S @ W.T - W.T * got) <= scale * lam[0]
    assert np.linalg.norm(W @ W.T - np.eye(k)) <= scale
    np.testing.assert_allclose(got, lam[:k], atol=scale * lam[0])
    np.testing.assert_allclose(model.mean_, mu, atol=scale * np.abs(mu).max() + scale)
    np.testing.assert_allclose(model.explained_variance_ratio_, got / lam.sum(), atol=scale)
    np.testing.assert_allclose(model.singular_values_**2, got, atol=scale * lam[0])
    np.testing.assert_array_equal(model.components_, fix_signs(model.components_))


# ---- the formula ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_components", [None, 2])
@pytest.mark.parametrize("solver", ["auto", "full", "covariance_eigh", "arpack", "randomized"])
@pytest.mark.parametrize("shape", [(80, 5), (6, 40)])
def test_against_the_formula(shape, solver, n_components, dtype):
    X = table(*shape, dtype=dtype)
    model = PCA(n_components, svd_solver=solver, random_state=0).fit(X)
    assert_principal(model, X, dtype=dtype)
    assert model.components_.dtype == model.mean_.dtype == dtype
    assert model.explained_variance_.dtype == model.transform(X).dtype == dtype
    assert model.n_components_ == (n_components or min(shape) - (solver == "arpack"))
    assert (model.approximation_ is not None) == (solver == "randomized")
    assert model.n_samples_ == shape[0]
    assert model.n_features_in_ == shape[1]


# ---- every route ---------------------------------------------------------------------


def low_rank(m, d, dtype=np.float64):
    """Three strong axes and noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 3)) * [9, 6, 4] @ np.linalg.qr(rng.normal(size=(d, 3)))[0].T
    return (X + 0.01 * rng.normal(size=(m, d)) + 0.5).astype(dtype)


ROUTES = {  # how to make auto, or a solver, take each route
    "scatter": ((90, 20), {}),
    "factor": ((90, 20), {"svd_solver": "full"}),
    "dual": ((20, 90), {}),
    "svd": ((20, 90), {"svd_solver": "full"}),
    "implicit": ((90, 20), {"svd_solver": "arpack"}),
    "randomized": ((90, 20), {"svd_solver": "randomized", "random_state": 0}),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("route", ROUTES)
def test_every_route_gives_the_same(route, weighted):
    shape, options = ROUTES[route]
    X = low_rank(*shape)
    w = np.random.default_rng(1).uniform(0.5, 2, shape[0]) if weighted else None
    model = PCA(3, **options).fit(X, sample_weight=w)
    assert model.route_ == route
    _, lam, axes, _ = literal_pca(X, w)
    np.testing.assert_allclose(model.singular_values_, np.sqrt(lam[:3]), rtol=1e-10)
    np.testing.assert_allclose(model.components_, fix_signs(axes[:3]), atol=1e-8)
    np.testing.assert_allclose(model.explained_variance_ratio_, lam[:3] / lam.sum(), rtol=1e-10)
    left = min(shape) - 3
    degrees = (len(X) if w is None else w.sum()) - 1
    np.testing.assert_allclose(model.noise_variance_, lam[3:].sum() / left / degrees, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_auto_takes_the_implicit_route_for_few_axes_of_a_large_table(dtype):
    X = low_rank(900, 890, dtype)
    model, exact = PCA(2).fit(X), PCA(2, svd_solver="covariance_eigh").fit(X)
    assert (model.route_, exact.route_) == ("implicit", "scatter")
    np.testing.assert_allclose(
        model.singular_values_, exact.singular_values_, rtol=50 * np.finfo(dtype).eps
    )
    np.testing.assert_allclose(model.components_, exact.components_, atol=5e3 * np.finfo(dtype).eps)


def sparse_table(m, d, seed=0):
    """One cell in ten, with two strong axes over it."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((m, d), density=0.1, rng=rng, format="csr")
    strong = sparse.csr_array(np.outer(np.arange(m) % 3 == 0, np.arange(d) % 4 == 0) * 0.5)
    other = sparse.csr_array(np.outer(np.arange(m) % 5 == 0, np.arange(d) % 7 == 0) * 0.5)
    return (X + strong + other).tocsr()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_components", [2, 0.3])
@pytest.mark.parametrize("shape", [(560, 520), (520, 560), (900, 40), (40, 900)])
def test_sparse_equals_dense(shape, n_components, weighted):
    X = sparse_table(*shape)
    w = np.random.default_rng(1).uniform(0.5, 2, shape[0]) if weighted else None
    got = PCA(n_components).fit(X, sample_weight=w)
    expected = PCA(n_components, svd_solver="full").fit(X.toarray(), sample_weight=w)
    assert got.route_ == ("scatter" if shape[1] == 40 else "implicit")
    assert got.n_components_ == expected.n_components_
    np.testing.assert_allclose(got.explained_variance_, expected.explained_variance_, rtol=1e-9)
    ratio = expected.explained_variance_ratio_
    np.testing.assert_allclose(got.explained_variance_ratio_, ratio, rtol=1e-9)
    np.testing.assert_allclose(got.noise_variance_, expected.noise_variance_, rtol=1e-8)
    two = slice(2)  # the others are noise of nearly equal strength
    np.testing.assert_allclose(got.components_[two], expected.components_[two], atol=1e-7)
    Z = got.transform(X)
    np.testing.assert_allclose(Z, got.transform(X.toarray()), atol=1e-10)


@pytest.mark.parametrize("kind", [sparse.csc_array, sparse.coo_matrix, sparse.csr_matrix])
def test_sparse_kinds(kind):
    X = sparse_table(60, 8)
    np.testing.assert_allclose(
        PCA(2).fit(kind(X)).components_, PCA(2).fit(X.toarray()).components_, atol=1e-10
    )


@pytest.mark.parametrize("n_components", [2, 0.3])
def test_sparse_is_never_made_dense(n_components, monkeypatch):
    X = sparse_table(600, 560)

    def refuse(self, *args, **options):
        raise AssertionError("made dense")

    for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix):
        monkeypatch.setattr(kind, "toarray", refuse)
        monkeypatch.setattr(kind, "todense", refuse)
    model = PCA(n_components).fit(X)
    assert model.route_ == "implicit"
    assert model.transform(X).shape == (600, model.n_components_)


# ---- scikit-learn --------------------------------------------------------------------

ATTRIBUTES = [
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "mean_",
    "noise_variance_",
    "n_components_",
    "n_samples_",
    "n_features_in_",
]


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("n_components", [None, 1, 3, 5, 0.5, 0.8, 0.9999, "mle", 0])
@pytest.mark.parametrize("solver", ["auto", "full", "covariance_eigh"])
def test_agrees_with_scikit_learn(solver, n_components, whiten):
    X, new = table(200, 5), table(30, 5, seed=1)
    if n_components == "mle":
        X[:, 3:] = X[:, :2] @ [[1, 2], [3, 4]] + 0.01 * X[:, 3:]
    ours = PCA(n_components, svd_solver=solver, whiten=whiten).fit(X)
    theirs = sklearn.decomposition.PCA(n_components, svd_solver="full", whiten=whiten).fit(X)
    for name in ATTRIBUTES:
        rtol = 1e-6 if name == "noise_variance_" else 1e-9
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=rtol)
    np.testing.assert_allclose(
        fix_signs(ours.components_), fix_signs(theirs.components_), atol=1e-8
    )
    signs = np.sign(np.sum(ours.components_ * theirs.components_, axis=1))
    np.testing.assert_allclose(ours.transform(new), theirs.transform(new) * signs, atol=1e-7)
    if n_components != 0:  # scikit-learn refuses to come back from nothing
        Z = ours.transform(new)
        back = theirs.inverse_transform(Z * signs)
        np.testing.assert_allclose(ours.inverse_transform(Z), back, atol=1e-8)
    # What the model says of X does not depend on the scale of Z; scikit-learn's does (a relic).
    theirs = sklearn.decomposition.PCA(n_components, svd_solver="full").fit(X)
    np.testing.assert_allclose(ours.get_covariance(), theirs.get_covariance(), atol=1e-8)
    precision = theirs.get_precision()
    size = np.abs(precision).max()
    np.testing.assert_allclose(ours.get_precision(), precision, atol=1e-8 * size)
    np.testing.assert_allclose(ours.score_samples(new), theirs.score_samples(new), rtol=1e-7)
    np.testing.assert_allclose(ours.score(new), theirs.score(new), rtol=1e-7)


@pytest.mark.parametrize("n_components", [None, 2, 0.7])
def test_agrees_with_scikit_learn_on_wide_tables(n_components):
    X = table(7, 30)
    ours = PCA(n_components).fit(X)
    theirs = sklearn.decomposition.PCA(n_components).fit(X)
    assert ours.components_.shape == theirs.components_.shape
    k = min(ours.n_components_, 6)  # the seventh axis has no variance: any will do
    for name in ATTRIBUTES[:3]:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-6)
        np.testing.assert_allclose(getattr(ours, name)[:k], getattr(theirs, name)[:k], rtol=1e-9)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, atol=1e-12)
    np.testing.assert_allclose(
        fix_signs(ours.components_[:k]), fix_signs(theirs.components_[:k]), atol=1e-8
    )


def test_randomized_agrees_with_scikit_learn():
    X = low_rank(200, 60)
    ours = PCA(3, svd_solver="randomized", random_state=0).fit(X)
    theirs = sklearn.decomposition.PCA(3, svd_solver="full").fit(X)
    np.testing.assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-10)
    ratio = theirs.explained_variance_ratio_  # needs the total variance, which it does not see
    np.testing.assert_allclose(ours.explained_variance_ratio_, ratio, rtol=1e-10)
    again = PCA(3, svd_solver="randomized", random_state=0).fit(X)
    np.testing.assert_array_equal(ours.components_, again.components_)


# ---- how many axes (10.18) -----------------------------------------------------------


def share_sources(X, folder):
    path = folder / "x.parquet"
    pl.DataFrame(X).write_parquet(path)
    np.save(folder / "x.npy", X)
    return {
        "dense": (X, {}),
        "factor": (X, {"svd_solver": "full"}),
        "randomized": (X, {"svd_solver": "randomized", "random_state": 0}),
        "sparse": (sparse.csr_array(X), {}),
        "parquet": (path, {}),
        "npy": (folder / "x.npy", {}),
    }


@pytest.mark.parametrize("share", [0.2, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("shape", [(60, 12), (12, 60)])
def test_a_share_works_on_every_route(shape, share, tmp_path):
    X = table(*shape)
    lam = literal_pca(X)[1][: min(shape)]
    expected = int(np.argmax(np.cumsum(lam) / lam.sum() > share)) + 1
    for source, options in share_sources(X, tmp_path).values():
        model = PCA(share, **options).fit(source)
        assert model.n_components_ == expected
        np.testing.assert_allclose(
            model.explained_variance_ratio_, (lam / lam.sum())[:expected], rtol=1e-8
        )


def test_a_share_of_a_large_sparse_table_grows_until_it_is_reached():
    X = sparse_table(600, 560)
    model = PCA(0.5).fit(X)
    lam = np.linalg.svd(X.toarray() - X.toarray().mean(axis=0), compute_uv=False) ** 2
    assert model.route_ == "implicit"
    assert model.n_components_ == np.argmax(np.cumsum(lam) / lam.sum() > 0.5) + 1
    assert model.n_components_ > 16  # more than one round


@pytest.mark.parametrize("bad", [-1, 6, 1.5, -0.5, 0.0, "all", True, [2]])
def test_bad_n_components(bad):
    with pytest.raises(ValueError, match="n_components"):
        PCA(bad).fit(table(20, 5))


def test_mle_needs_enough_rows():
    with pytest.raises(InputError, match="mle"):
        PCA("mle").fit(table(4, 5))


def test_bad_solver_and_arpack_with_all_axes():
    with pytest.raises(ValueError, match=r"'svd_solver' parameter.*'magic'"):
        PCA(svd_solver="magic").fit(table())
    with pytest.raises(InputError, match="strictly less"):
        PCA(5, svd_solver="arpack").fit(table())


# ---- weights -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((40, 5), {}),
        ((40, 5), {"svd_solver": "full"}),
        ((6, 30), {}),
        ((40, 5), {"n_components": 2, "svd_solver": "arpack"}),
    ],
)
def test_weights_count_rows(shape, options):
    X = table(*shape)
    repeat = np.random.default_rng(0).integers(1, 4, len(X))
    repeat[0] = 0
    got = PCA(**options).fit(X, sample_weight=repeat)
    expected = PCA(**options).fit(np.repeat(X, repeat, axis=0))
    varies = np.sum(got.explained_variance_ > 1e-9)
    assert varies >= 2
    for name in ("components_", "explained_variance_", "explained_variance_ratio_"):
        one, two = getattr(got, name)[:varies], getattr(expected, name)[:varies]
        np.testing.assert_allclose(one, two, atol=1e-9)
    np.testing.assert_allclose(got.mean_, expected.mean_, atol=1e-9)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("bad", [np.ones(79), np.ones(81), -np.ones(80), np.zeros(80)])
def test_bad_weights(bad, streamed, tmp_path):
    X = table()
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ValueError, match=r"(?i)sample.weight"):
        PCA().fit(tmp_path / "x.npy" if streamed else X, sample_weight=bad)


@pytest.mark.parametrize("total", [1.0, 0.5])
def test_weights_that_sum_to_one_or_less_are_not_silent_garbage(total):
    """Weights count rows: with one row or less there is no variance to divide by m - 1."""
    X = table()
    try:
        model = PCA(2).fit(X, sample_weight=np.full(80, total / 80))
    except InputError:
        return
    assert model.explained_variance_[0] < 1e3 * X.var(axis=0).sum()


# ---- accuracy ------------------------------------------------------------------------


def test_float32_is_close_to_float64():
    X = table(500, 8, dtype=np.float32)
    one, two = PCA(3).fit(X), PCA(3).fit(X.astype(np.float64))
    assert one.transform(X).dtype == one.components_.dtype == np.float32
    np.testing.assert_allclose(one.components_, two.components_, atol=1e-5)
    np.testing.assert_allclose(one.explained_variance_, two.explained_variance_, rtol=1e-5)


@pytest.mark.parametrize(("shape", "route"), [((60, 6), "factor"), ((60, 90), "svd")])
def test_a_graded_spectrum_keeps_its_small_values(shape, route):
    s = np.logspace(0, -10, 6)
    X = graded(s, *shape)
    model = PCA(6).fit(X)
    assert model.route_ == route
    np.testing.assert_allclose(model.singular_values_, s, rtol=1e-4)
    if route == "factor":
        squared = PCA(svd_solver="covariance_eigh").fit(X).singular_values_
        assert abs(squared[-1] / s[-1] - 1) > 0.1


def test_the_noise_of_a_graded_spectrum_is_not_a_difference():
    """Total minus kept leaves only rounding where the rest is 1e-16 of the total."""
    s = np.logspace(0, -10, 6)
    model = PCA(4).fit(graded(s))
    assert model.route_ == "factor"
    np.testing.assert_allclose(model.noise_variance_, np.sum(s[4:] ** 2) / 2 / 59, rtol=1e-3)


def test_a_graded_spectrum_in_float32():
    s = np.logspace(0, -5, 6)
    X = graded(s, dtype=np.float32)
    model = PCA(6).fit(X)
    assert model.route_ == "scatter in float64"
    exact = np.linalg.svd(X.astype(float) - X.astype(float).mean(axis=0), compute_uv=False)
    np.testing.assert_allclose(model.singular_values_, exact, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_graded_spectrum_on_the_implicit_route(form, dtype):
    """The last value is far below sqrt(eps) of the first: its square is lost in rounding."""
    small = 1e-9 if dtype == np.float64 else 1e-4
    X = graded(np.array([1.0, small]), 900, 890, dtype=dtype)
    model = PCA(2).fit(form(X))
    exact = np.linalg.svd(X.astype(float) - X.astype(float).mean(axis=0), compute_uv=False)[:2]
    np.testing.assert_allclose(model.singular_values_, exact, rtol=1e-3)


def test_a_graded_spectrum_streamed(tmp_path, monkeypatch):
    s = np.logspace(0, -10, 6)
    X = graded(s, 600)
    np.save(tmp_path / "x.npy", X)
    monkeypatch.setattr("nearfold.blocks.rows.BLOCK_BYTES", 2048)
    model = PCA(6).fit(tmp_path / "x.npy")
    assert model.route_ == "factor"
    np.testing.assert_allclose(model.singular_values_, s, rtol=1e-4)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((300, 5), {}),
        ((300, 5), {"svd_solver": "full"}),
        ((6, 30), {}),
        ((300, 5), {"svd_solver": "arpack"}),
    ],
)
def test_an_offset_of_1e8(shape, options):
    X = table(*shape, offset=0.0)
    far = X + 1e8
    near = far - 1e8  # what is left of X after its own rounding
    got, expected = PCA(2, **options).fit(far), PCA(2, **options).fit(near)
    np.testing.assert_allclose(got.explained_variance_, expected.explained_variance_, rtol=1e-6)
    np.testing.assert_allclose(got.components_, expected.components_, atol=1e-6)
    np.testing.assert_allclose(got.transform(far), expected.transform(near), atol=1e-6)


# ---- degenerate tables ---------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_constant_columns_have_no_part(form):
    X = table(50, 4)
    X[:, 1], X[:, 3] = 7.0, 0.0
    model = PCA(whiten=True).fit(form(X))
    assert model.n_components_ == 4
    np.testing.assert_allclose(model.components_[:2, [1, 3]], 0.0, atol=1e-12)
    np.testing.assert_array_equal(model.explained_variance_[2:], 0.0)
    assert np.isfinite(model.transform(form(X))).all()
    np.testing.assert_allclose(model.inverse_transform(model.transform(form(X))), X, atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"svd_solver": "full"}, {"whiten": True}])
@pytest.mark.parametrize("X", [np.full((5, 3), 2.0), np.ones((1, 4)), np.ones((1, 1))], ids=str)
def test_rows_without_variance(X, options):
    model = PCA(**options).fit(X)
    assert model.n_components_ == min(X.shape)
    for name in ("explained_variance_", "explained_variance_ratio_", "singular_values_"):
        np.testing.assert_array_equal(getattr(model, name), 0.0)
    assert model.noise_variance_ == 0.0
    np.testing.assert_allclose(model.transform(X), 0.0, atol=1e-12)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X)


def test_one_column():
    X = table(30, 1)
    model = PCA().fit(X)
    np.testing.assert_array_equal(model.components_, [[1.0]])
    np.testing.assert_allclose(model.explained_variance_, X.var(ddof=1), rtol=1e-12)
    np.testing.assert_allclose(model.explained_variance_ratio_, 1.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["auto", "full", "covariance_eigh", "arpack", "randomized"])
@pytest.mark.parametrize(
    ("shape", "form"),
    [
        ((300, 20), np.asarray),
        ((20, 300), np.asarray),
        ((300, 20), sparse.csr_array),
        ((600, 550), sparse.csr_array),
    ],
    ids=["tall", "wide", "sparse", "large-sparse"],
)
def test_axes_beyond_the_rank_complete_the_others(shape, form, solver, dtype):
    X = form(graded(np.array([3.0, 2.0, 1.0]), *shape, dtype=dtype))
    with pytest.warns(NearfoldWarning, match="3 directions only.*other 5 axes.*variance 0"):
        model = PCA(8, svd_solver=solver, random_state=0).fit(X)
    assert model.n_components_ == 8
    assert model.transform(X).shape == (shape[0], 8)
    W = model.components_
    np.testing.assert_allclose(W @ W.T, np.eye(8), atol=100 * np.finfo(dtype).eps)
    np.testing.assert_allclose(model.singular_values_[:3], [3, 2, 1], rtol=1e-4)
    np.testing.assert_array_equal(model.singular_values_[3:], 0.0)
    assert model.noise_variance_ == 0.0


def test_without_a_count_nobody_is_warned():
    X = graded(np.array([3.0, 2.0, 1.0]), 60, 10)
    assert PCA(0.9999999).fit(X).n_components_ == 3
    model = PCA().fit(X)
    assert model.components_.shape == (10, 10)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(10), atol=1e-12)
    np.testing.assert_array_equal(model.explained_variance_[3:], 0.0)


def test_duplicated_rows_and_columns():
    X = np.repeat(table(20, 3), 3, axis=0)
    model = PCA().fit(np.hstack([X, X]))
    expected = PCA().fit(X)
    assert model.n_components_ == 6
    np.testing.assert_allclose(model.explained_variance_[:3], 2 * expected.explained_variance_)
    np.testing.assert_array_equal(model.explained_variance_[3:], 0.0)


# ---- NaN, inf, overflow, memory ------------------------------------------------------


def fill(source, X, folder):
    match source:
        case "array":
            return X
        case "sparse":
            return sparse.csr_array(X)
        case "pandas":
            return pd.DataFrame(X, columns=NAMES)
        case "npy":
            np.save(folder / "x.npy", X)
            return folder / "x.npy"
        case _:
            pl.DataFrame(X, schema=NAMES).write_parquet(folder / "x.parquet")
            return folder / "x.parquet"


@pytest.mark.parametrize("source", ["array", "sparse", "pandas", "npy", "parquet"])
@pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
def test_nonfinite_values_are_located(value, kind, source, tmp_path):
    X = table(50, 5)
    X[17, 2] = X[31, 4] = value
    named = source in ("pandas", "parquet")
    c, e = ("c", "e") if named else (2, 4)
    bad = fill(source, X, tmp_path)
    said = rf"2 {kind} \(column '?{c}'?: 1, column '?{e}'?: 1; first rows: \[17, 31\]"
    with pytest.raises(NonFiniteError, match=said):
        PCA(2).fit(bad)
    good = PCA(2).fit(fill(source, table(50, 5), tmp_path))
    with pytest.raises(NonFiniteError, match=said):
        np.asarray(good.transform(fill(source, X, tmp_path)))


@pytest.mark.parametrize("source", ["array", "sparse", "npy", "parquet"])
def test_nonfinite_rows_are_counted_from_the_start_of_the_table(source, tmp_path, monkeypatch):
    X = table(4000, 5)
    X[3500, 2] = np.nan
    monkeypatch.setattr("nearfold.blocks.rows.BLOCK_BYTES", 4096)  # many blocks
    with pytest.raises(NonFiniteError, match=r"first rows: \[3500\]"):
        PCA(2).fit(fill(source, X, tmp_path))


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
@pytest.mark.parametrize("solver", ["auto", "full", "arpack", "randomized"])
def test_nonfinite_values_on_every_solver(solver, shape):
    X = table(*shape)
    X[1, 2] = np.nan
    with pytest.raises(NonFiniteError, match=r"column 2: 1; first rows: \[1\]"):
        PCA(2, svd_solver=solver).fit(X)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("shape", [(20, 4), (4, 20)])
@pytest.mark.parametrize("solver", ["auto", "full", "covariance_eigh", "arpack", "randomized"])
def test_values_whose_squares_overflow_are_refused(solver, shape, form):
    with pytest.raises(InputError, match="large"):
        PCA(2, svd_solver=solver, random_state=0).fit(form(table(*shape) * 1e300))


def test_float32_values_whose_squares_overflow():
    """Right, or refused: never garbage."""
    X = table(50, 4, dtype=np.float32)
    try:
        model = PCA(2).fit(X * np.float32(1e30))
    except InputError:
        return
    ratio = PCA(2).fit(X).explained_variance_ratio_
    np.testing.assert_allclose(model.explained_variance_ratio_, ratio, rtol=1e-3)


@pytest.mark.parametrize("scale", [1e-140, 1e140, 1e-300])
def test_extreme_scales_are_right_or_refused(scale):
    X = table(50, 4)
    try:
        model = PCA(2).fit(X * scale)
    except InputError:
        assert scale == 1e-300  # the squares of the others can be held
    else:
        expected = PCA(2).fit(X)
        assert model.n_components_ == 2
        ratio = expected.explained_variance_ratio_
        np.testing.assert_allclose(model.explained_variance_ratio_, ratio, rtol=1e-8)
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-8)


@pytest.mark.parametrize("source", ["npy", "parquet"])
def test_a_scatter_over_the_budget_is_refused_before_it_is_made(source, tmp_path):
    X = table(60, 50)
    if source == "npy":
        np.save(path := tmp_path / "x.npy", X)
    else:
        pl.DataFrame(X).write_parquet(path := tmp_path / "x.parquet")
    nearfold.set_memory("100KB")
    with pytest.raises(MemoryBudgetError, match=r"50 features needs about 117\.2 KB.*100\.0 KB"):
        PCA(2).fit(path)
    nearfold.set_memory("120KB")
    PCA(2).fit(path)


# ---- use -----------------------------------------------------------------------------


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_transform_is_row_wise_and_equals_fit_transform(dtype, whiten):
    X = table(100, 5, dtype=dtype)
    model = PCA(3, whiten=whiten)
    Z = model.fit_transform(X)
    np.testing.assert_array_equal(model.transform(X), Z)
    rows = np.vstack([model.transform(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(rows, Z, atol=50 * np.finfo(dtype).eps)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_error_of_reconstruction_is_the_variance_left_out(k):
    X = table(70, 5)
    model = PCA(k).fit(X)
    back = model.inverse_transform(model.transform(X))
    lam = literal_pca(X)[1]
    np.testing.assert_allclose(np.sum((X - back) ** 2), lam[k:].sum(), rtol=1e-10)  # (10.14)


@pytest.mark.parametrize("solver", ["auto", "full", "randomized"])
def test_whitened_rows_have_identity_covariance(solver):
    X = table(200, 6)
    Z = PCA(4, whiten=True, svd_solver=solver, random_state=0).fit_transform(X)
    np.testing.assert_allclose(np.cov(Z.T), np.eye(4), atol=1e-10)


@pytest.mark.parametrize("whiten", [False, True])
def test_the_covariance_of_all_axes_is_that_of_the_rows(whiten):
    X = table(100, 5)
    model = PCA(whiten=whiten).fit(X)
    np.testing.assert_allclose(model.get_covariance(), np.cov(X.T), atol=1e-12)


def test_precision_is_the_inverse_of_the_covariance():
    for k in (2, 5):
        model = PCA(k).fit(table(100, 5))
        product = model.get_precision() @ model.get_covariance()
        np.testing.assert_allclose(product, np.eye(5), atol=1e-10)


def test_names_and_output_containers():
    X = pd.DataFrame(table(), columns=NAMES)
    model = PCA(2).fit(X)
    assert model.get_feature_names_out().tolist() == ["pca0", "pca1"]
    assert model.feature_names_in_.tolist() == NAMES
    Z = model.transform(X)
    for kind, frame in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        out = model.set_output(transform=kind).transform(X)
        assert isinstance(out, frame)
        assert list(out.columns) == ["pca0", "pca1"]
        np.testing.assert_array_equal(out.to_numpy(), Z)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_equal_arrays(frame):
    X = table()
    model = PCA(2).fit(frame(dict(zip(NAMES, X.T, strict=True))))
    np.testing.assert_allclose(model.components_, PCA(2).fit(X).components_, atol=1e-12)


@pytest.mark.parametrize("fitted_on", ["frame", "file"])
@pytest.mark.parametrize("projected", ["frame", "file"])
@pytest.mark.parametrize("names", [["a", "b", "c", "d", "z"], ["b", "a", "c", "d", "e"]])
def test_columns_that_do_not_match_are_refused_or_matched_by_name(
    names, projected, fitted_on, tmp_path
):
    X = pl.DataFrame(table(), schema=NAMES)
    other = X.rename({"e": "z"}) if "z" in names else X.select(names)
    X.write_parquet(tmp_path / "x.parquet")
    other.write_parquet(tmp_path / "other.parquet")
    model = PCA(2).fit(X if fitted_on == "frame" else tmp_path / "x.parquet")
    try:
        Z = model.transform(other if projected == "frame" else tmp_path / "other.parquet")
    except ValueError:
        return
    assert "z" not in names
    np.testing.assert_allclose(Z, model.transform(X), atol=1e-12)


def test_a_second_fit_forgets_the_names_of_the_first(tmp_path):
    X = table()
    pl.DataFrame(X, schema=NAMES).write_parquet(tmp_path / "x.parquet")
    np.save(tmp_path / "x.npy", X)
    model = PCA(2).fit(tmp_path / "x.parquet")
    assert model.feature_names_in_.tolist() == NAMES
    assert not hasattr(model.fit(tmp_path / "x.npy"), "feature_names_in_")


def test_wrong_width_at_transform(tmp_path):
    model = PCA(2).fit(table(30, 5))
    np.save(tmp_path / "x.npy", table(30, 4))
    for X in (table(30, 4), tmp_path / "x.npy"):
        with pytest.raises(ValueError, match=r"4.*5"):
            model.transform(X)


# ---- streaming -----------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_components", [None, 2, 0.8])
@pytest.mark.parametrize("kind", ["npy", "parquet", "csv", "lazy"])
def test_streamed_equals_in_memory(kind, n_components, weighted, tmp_path, monkeypatch):
    X = table(3000, 5)
    w = np.random.default_rng(1).uniform(0.5, 2, 3000) if weighted else None
    expected = PCA(n_components).fit(X, sample_weight=w)
    Z = expected.transform(X)
    frame, source = pl.DataFrame(X, schema=NAMES), tmp_path / f"x.{kind}"
    match kind:
        case "npy":
            np.save(source, X)
        case "parquet":
            frame.write_parquet(source, row_group_size=500)
        case "csv":
            frame.write_csv(source)
        case "lazy":
            source = frame.lazy()
    monkeypatch.setattr("nearfold.blocks.rows.BLOCK_BYTES", 3200)  # blocks of eighty rows
    model = PCA(n_components).fit(source, sample_weight=w)
    for name in ("components_", "mean_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(model, name), getattr(expected, name), atol=1e-10)
    np.testing.assert_allclose(model.noise_variance_, expected.noise_variance_, atol=1e-10)
    assert model.n_samples_ == 3000
    got = model.transform(source)
    assert isinstance(got, nearfold.blocks.Rows)
    starts = [block.start for block in got.blocks()]
    assert len(starts) > 3
    np.testing.assert_allclose(np.vstack([b.X for b in got.blocks()]), Z, atol=1e-10)
    np.testing.assert_allclose(got.to_array(), Z, atol=1e-10)
    np.testing.assert_allclose(model.fit_transform(source, sample_weight=w), Z, atol=1e-10)


def test_streamed_wide_table_equals_in_memory(tmp_path):
    """Fewer rows than columns, as only the end of the file tells."""
    X = table(8, 30)
    pl.DataFrame(X).write_parquet(tmp_path / "x.parquet")
    for n_components in (None, 3):
        got = PCA(n_components).fit(tmp_path / "x.parquet")
        expected = PCA(n_components).fit(X)
        assert got.n_components_ == expected.n_components_
        np.testing.assert_allclose(got.components_[:7], expected.components_[:7], atol=1e-9)


def test_some_columns_of_a_file(tmp_path):
    X = table()
    pl.DataFrame(X, schema=NAMES).write_parquet(tmp_path / "x.parquet")
    model = PCA(2).fit(nearfold.scan(tmp_path / "x.parquet", columns=["b", "d", "e"]))
    expected = PCA(2).fit(X[:, [1, 3, 4]])
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-10)
    assert model.feature_names_in_.tolist() == ["b", "d", "e"]


def test_threads_do_not_change_the_result(monkeypatch):
    X = table(3000, 5)
    monkeypatch.setattr("nearfold.blocks.rows.BLOCK_BYTES", 3200)
    several = PCA().fit(X)
    monkeypatch.setattr("nearfold.run._available_cores", lambda: 1)
    np.testing.assert_array_equal(PCA().fit(X).components_, several.components_)


def test_randomized_needs_the_table_in_memory(tmp_path):
    np.save(tmp_path / "x.npy", table())
    with pytest.raises(InputError, match="in memory"):
        PCA(2, svd_solver="randomized").fit(tmp_path / "x.npy")


@pytest.mark.parametrize("n_components", [None, 0.999])
def test_a_wide_sparse_table_never_needs_its_scatter(n_components):
    X = sparse.random(40, 20_000, density=0.01, random_state=0, format="csr")
    nearfold.set_memory("500MB")  # the scatter would need 18 GB
    try:
        model = PCA(n_components).fit(X)
    finally:
        nearfold.set_memory(None)
    exact = np.linalg.svd(X.toarray() - X.toarray().mean(axis=0), compute_uv=False)
    assert model.route_ == "implicit"
    assert model.n_components_ == (40 if n_components is None else 39)
    np.testing.assert_allclose(model.singular_values_[:39], exact[:39], rtol=1e-9)


# ---- the probabilistic model, shares, copies, states -------------------------------------


@pytest.mark.parametrize("n_components", [None, 5, 19, 20])
def test_the_score_of_wide_tables_is_finite_and_tells_rows_apart(n_components):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 60))
    model = PCA(n_components).fit(X)
    inside, outside = model.score_samples(X), model.score_samples(rng.normal(size=(20, 60)))
    assert np.isfinite(inside).all()
    assert np.isfinite(outside).all()
    assert inside.mean() > outside.mean()
    assert abs(inside.mean()) < 2000
    if n_components != 5:
        assert model.noise_variance_ == 0.0


@pytest.mark.parametrize("k", [0, 2, 5])
def test_the_score_is_the_gaussian_density(k):
    X = table(100, 5)
    model = PCA(k).fit(X)
    C = model.get_covariance()
    offset = X - X.mean(axis=0)
    square = np.einsum("ij,ij->i", offset @ np.linalg.inv(C), offset)
    expected = -0.5 * (square + np.linalg.slogdet(2 * np.pi * C)[1])
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_share_counts_the_ratios_that_are_reported(dtype):
    X = table(200, 8, dtype=dtype)
    ratios = PCA(svd_solver="full").fit(X).explained_variance_ratio_
    for d in range(1, 8):
        t = float(np.cumsum(ratios)[d - 1])
        if t < 1:  # exactly t is not more than t
            model = PCA(t, svd_solver="full").fit(X)
            assert model.n_components_ == d + 1
            assert np.cumsum(model.explained_variance_ratio_)[-1] > t


@pytest.mark.parametrize(
    "parameters",
    [
        {"whiten": "no"},
        {"tol": -1.0},
        {"iterated_power": -1},
        {"n_oversamples": 0},
        {"power_iteration_normalizer": "SVD"},
        {"random_state": "seed"},
        {"copy": "yes"},
    ],
    ids=str,
)
def test_parameters_are_checked_by_fit(parameters):
    with pytest.raises(ValueError, match=f"'{next(iter(parameters))}' parameter of PCA"):
        PCA(**parameters).fit(table())


def test_a_normalizer_that_cannot_be_honoured_is_said():
    with pytest.warns(NearfoldWarning, match="normalised by QR"):
        PCA(2, svd_solver="randomized", power_iteration_normalizer="LU", random_state=0).fit(
            table()
        )


def test_the_budget_changes_no_result():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 8)).astype(np.float32)
    nearfold.set_memory("4GB")
    one = PCA().fit(X)
    nearfold.set_memory("64MB")
    two = PCA().fit(X)
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.transform(X), two.transform(X))


@pytest.mark.parametrize("n_components", [None, 0, 2, 0.8])
@pytest.mark.parametrize("route", ROUTES)
def test_the_state_is_as_described(route, n_components):
    shape, options = ROUTES[route]
    if n_components == 0 and options.get("svd_solver") in ("arpack", "randomized"):
        n_components = 1
    model = PCA(n_components, **options).fit(low_rank(*shape))
    PCA.fitted_state.check(fields_of(model))
    for damage in ({"n_features_in_": 3}, {"mean_": model.mean_ * np.nan}, {"route_": "magic"}):
        broken = copy.copy(model)
        vars(broken).update(damage)
        with pytest.raises(StateError):
            PCA.fitted_state.check(fields_of(broken))


@pytest.mark.parametrize("method", ["transform", "inverse_transform"])
def test_a_result_beyond_the_budget_is_refused_before_work(method):
    X = np.random.default_rng(0).normal(size=(20_000, 10))
    model = PCA().fit(X)
    nearfold.set_memory("1MB")
    try:
        with pytest.raises(MemoryBudgetError, match=r"20,000 x 10 numbers needs about 1\.5 MB"):
            getattr(model, method)(X)
    finally:
        nearfold.set_memory(None)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["auto", "full", "covariance_eigh", "arpack", "randomized"])
def test_a_row_without_weight_may_lie_anywhere(solver, dtype):
    X = np.random.default_rng(0).normal(size=(100, 4)).astype(dtype)
    far = np.vstack([X, np.full((1, 4), 1e12, dtype)])
    expected = PCA(3, svd_solver=solver, random_state=0).fit(X)
    found = PCA(3, svd_solver=solver, random_state=0).fit(far, sample_weight=[1.0] * 100 + [0.0])
    rtol = 1e-5 if dtype == np.float32 or solver == "randomized" else 1e-12
    np.testing.assert_allclose(found.explained_variance_, expected.explained_variance_, rtol=rtol)
    np.testing.assert_allclose(found.mean_, expected.mean_, atol=1e-6)


@pytest.mark.parametrize("shape", [(20, 60), (60, 20)])
@pytest.mark.parametrize("solver", ["auto", "full", "covariance_eigh"])
def test_far_from_the_origin_only_the_data_are_rounded(shape, solver):
    far = np.round(np.random.default_rng(0).normal(size=shape) * 8) / 8 + 1e15
    centred = far.astype(np.longdouble)
    centred = (centred - centred.mean(axis=0)).astype(np.float64)
    expected = np.linalg.svd(centred, compute_uv=False)[:5] ** 2 / (shape[0] - 1)
    found = PCA(5, svd_solver=solver).fit(far).explained_variance_
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_lanczos_in_float32_centres_by_an_unrounded_mean():
    X = np.round(np.random.default_rng(0).normal(size=(60, 20)) * 8) / 8 + 1e6
    found = PCA(5, svd_solver="arpack").fit(X.astype(np.float32)).explained_variance_
    np.testing.assert_allclose(
        found, PCA(5, svd_solver="full").fit(X).explained_variance_, rtol=1e-4
    )
