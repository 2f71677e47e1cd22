"""Kernel PCA against (10.22)-(10.25), against scikit-learn, and every route against the others."""

import pickle
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.decomposition
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_circles
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel, pairwise_kernels

import nearfold
from nearfold import PCA, KernelPCA
from nearfold.errors import (
    ApproximationWarning,
    InputError,
    MemoryBudgetError,
    NearfoldError,
    NearfoldWarning,
    NonFiniteError,
    SolverError,
)
from nearfold.linalg import fix_signs
from nearfold.methods.kernel_functions import KernelFunction
from nearfold.state import StateError, fields_of

KERNELS = {
    "linear": lambda x, y: x @ y,
    "poly": lambda x, y: (0.2 * (x @ y) + 1) ** 3,
    "rbf": lambda x, y: np.exp(-0.2 * ((x - y) ** 2).sum()),
    "sigmoid": lambda x, y: np.tanh(0.2 * (x @ y) + 1),
    "cosine": lambda x, y: x @ y / np.sqrt((x @ x) * (y @ y)),
}
POSITIVE = ["linear", "poly", "rbf", "cosine"]


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


def table(m=80, d=5, seed=0, dtype=np.float64, offset=0.0):
    """Full rank, with standard deviations from 2 to 0.5 along random axes."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (rng.normal(size=(m, d)) * np.linspace(2, 0.5, d) @ Q + offset).astype(dtype)


def centring(m):
    return np.eye(m) - np.ones((m, m)) / m


def literal_kernel(kernel, A, B):
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    return np.array([[KERNELS[kernel](a, b) for b in B] for a in A])


def literal_kpca(K):
    """All eigenvalues of J K J, largest first, and their vectors."""
    J = centring(len(K))
    lam, V = np.linalg.eigh(J @ K @ J)
    return lam[::-1], V[:, ::-1]


def literal_transform(K, K_new, lam, V):
    """z = sum_i alpha_i (k(x, x_i) - training means), alpha = V lam^(-1/2). (10.25)"""
    centred = (
        K_new - K_new.mean(axis=1, keepdims=True) - K.mean(axis=0) + K.mean()
    )  # the mean over *training* rows, in both
    return centred @ V / np.sqrt(lam)


def same_up_to_sign(Z, W, atol):
    np.testing.assert_allclose(fix_signs(Z.T), fix_signs(W.T), rtol=0, atol=atol)


def quietly(model, X):
    """Fit beyond the budget, or an indefinite kernel, both warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NearfoldWarning)
        return model.fit(X)


# ---- the formula ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [80, 250])  # all eigenpairs at once, and block Lanczos
@pytest.mark.parametrize("kernel", KERNELS)
def test_against_the_formula(kernel, m, dtype):
    X, new = table(m, dtype=dtype), table(7, seed=1, dtype=dtype)
    K = literal_kernel(kernel, X, X)
    lam, V = literal_kpca(K)
    model = KernelPCA(3, kernel=kernel, gamma=0.2)
    Z = model.fit_transform(X)
    size = np.sqrt(lam[0])
    atol = 1e4 * np.finfo(dtype).eps * size
    assert Z.dtype == model.eigenvalues_.dtype == model.transform(new).dtype == dtype
    np.testing.assert_allclose(model.eigenvalues_, lam[:3], rtol=500 * np.finfo(dtype).eps)
    same_up_to_sign(Z, V[:, :3] * np.sqrt(lam[:3]), atol)
    signs = np.sign((Z * V[:, :3]).sum(axis=0))
    want = literal_transform(K, literal_kernel(kernel, new, X), lam[:3], V[:, :3]) * signs
    np.testing.assert_allclose(model.transform(new), want, rtol=0, atol=3 * atol)
    np.testing.assert_allclose(model.explained_variance_, lam[:3] / (m - 1), rtol=1e-4)
    np.testing.assert_allclose(model.explained_variance_ratio_, lam[:3] / lam.sum(), rtol=1e-4)
    assert model.route_ == ("principal" if kernel == "linear" else "held")
    assert model.approximation_ is None


@pytest.mark.parametrize("m", [80, 250])
def test_axes_have_unit_length_and_coordinates_are_uncorrelated(m):
    X = table(m)
    model = KernelPCA(4, kernel="rbf", gamma=0.2).fit(X)
    alpha = model.eigenvectors_ / np.sqrt(model.eigenvalues_)
    J = centring(m)
    K = J @ literal_kernel("rbf", X, X) @ J
    np.testing.assert_allclose(alpha.T @ K @ alpha, np.eye(4), atol=1e-9)  # w^T w
    Z = model.transform(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(np.cov(Z.T), np.diag(model.explained_variance_), atol=1e-10)


def test_signs_follow_the_rule_of_the_package():
    for options in ({}, {"kernel": "rbf"}, {"kernel": "rbf", "low_rank": 40, "random_state": 0}):
        V = KernelPCA(3, **options).fit(table()).eigenvectors_
        np.testing.assert_array_equal(V.T, fix_signs(V.T))


# ---- scikit-learn --------------------------------------------------------------------


@pytest.mark.parametrize("n_components", [1, 4, None])
@pytest.mark.parametrize("m", [60, 230])
@pytest.mark.parametrize("kernel", POSITIVE)
def test_agrees_with_scikit_learn(kernel, m, n_components):
    X, new = table(m), table(9, seed=1)
    ours = KernelPCA(n_components, kernel=kernel).fit(X)
    theirs = sklearn.decomposition.KernelPCA(n_components, kernel=kernel).fit(X)
    k = len(ours.eigenvalues_)
    assert ours.gamma_ == theirs.gamma_
    if kernel != "rbf":  # whose eigenvalues fade into rounding
        assert k == len(theirs.eigenvalues_)
    few = min(k, 4)
    np.testing.assert_allclose(ours.eigenvalues_[:few], theirs.eigenvalues_[:few], rtol=1e-9)
    same_up_to_sign(ours.eigenvectors_[:, :few], theirs.eigenvectors_[:, :few], 1e-7)
    signs = np.sign((ours.eigenvectors_ * theirs.eigenvectors_[:, :k]).sum(axis=0))[:few]
    np.testing.assert_allclose(
        ours.transform(new)[:, :few], theirs.transform(new)[:, :few] * signs, atol=1e-7
    )
    np.testing.assert_allclose(
        ours.fit_transform(X)[:, :few], theirs.fit_transform(X)[:, :few] * signs, atol=1e-7
    )


@pytest.mark.parametrize("solver", ["auto", "dense", "arpack", "randomized"])
def test_every_eigen_solver_is_accepted_and_exact(solver):
    X = table(230)
    theirs = sklearn.decomposition.KernelPCA(3, kernel="rbf", eigen_solver="dense").fit(X)
    ours = KernelPCA(3, kernel="rbf", eigen_solver=solver).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-10)
    same_up_to_sign(ours.eigenvectors_, theirs.eigenvectors_, 1e-8)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "poly", "degree": 2, "coef0": 0.5, "gamma": 0.1},
        {"kernel": "poly", "degree": 4, "coef0": 2},
        {"kernel": "poly", "degree": 3, "coef0": 0},
        {"kernel": "rbf", "gamma": 1.7},
    ],
)
def test_kernel_parameters_mean_what_they_mean_in_scikit_learn(options):
    X, new = table(), table(9, seed=1)
    ours = KernelPCA(3, **options).fit(X)
    theirs = sklearn.decomposition.KernelPCA(3, **options).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    scale = np.abs(theirs.transform(new)).max()
    same_up_to_sign(ours.transform(new), theirs.transform(new), 1e-7 * scale)


def cauchy(x, y, width=1.0):
    return 1 / (1 + ((x - y) ** 2).sum() / width)


@pytest.mark.parametrize("params", [None, {"width": 3.0}])
def test_a_function_is_a_kernel(params):
    X, new = table(50), table(9, seed=1)
    ours = KernelPCA(3, kernel=cauchy, kernel_params=params).fit(X)
    theirs = sklearn.decomposition.KernelPCA(3, kernel=cauchy, kernel_params=params).fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    same_up_to_sign(ours.transform(new), theirs.transform(new), 1e-9)


@pytest.mark.parametrize("m", [60, 230])
def test_precomputed_kernels(m):
    X, new = table(m), table(9, seed=1)
    K, K_new = laplacian_kernel(X), laplacian_kernel(new, X)
    given = K.copy()
    ours = KernelPCA(3, kernel="precomputed").fit(K)
    np.testing.assert_array_equal(K, given)
    theirs = sklearn.decomposition.KernelPCA(3, kernel="precomputed").fit(K)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    same_up_to_sign(ours.transform(K_new), theirs.transform(K_new), 1e-8)
    by_function = KernelPCA(3, kernel="precomputed").fit(sparse.csr_array(K))
    np.testing.assert_allclose(by_function.transform(K_new), ours.transform(K_new), atol=1e-9)


def sparse_table(m=60, seed=0):
    rng = np.random.default_rng(seed)
    return sparse.random_array((m, 30), density=0.2, rng=rng, format="csr")


@pytest.mark.parametrize("options", [{}, {"low_rank": 60, "random_state": 0}])
@pytest.mark.parametrize("kernel", [*POSITIVE, "sigmoid"])
def test_sparse_rows_are_dense_rows(kernel, options):
    if kernel == "sigmoid" and options:
        pytest.skip("not positive semi-definite")
    X, new = sparse_table(), sparse_table(9, seed=1)
    ours = KernelPCA(3, kernel=kernel, **options).fit(X)
    dense = KernelPCA(3, kernel=kernel).fit(X.toarray())
    theirs = sklearn.decomposition.KernelPCA(3, kernel=kernel, eigen_solver="arpack").fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, dense.eigenvalues_, rtol=1e-7)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-7)
    Z = ours.transform(new)
    same_up_to_sign(Z, dense.transform(new.toarray()), 1e-6)
    np.testing.assert_allclose(ours.transform(new.toarray()), Z, atol=1e-7)  # dense after sparse


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid", "cosine"])
def test_sparse_new_rows_after_a_dense_fit(kernel):
    X, new = sparse_table().toarray(), sparse_table(9, seed=1)
    model = KernelPCA(3, kernel=kernel).fit(X)
    np.testing.assert_allclose(model.transform(new), model.transform(new.toarray()), atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"low_rank": 60, "random_state": 0}])
def test_sparse_new_rows_after_a_dense_fit_with_rbf(options):
    X, new = sparse_table().toarray(), sparse_table(9, seed=1)
    model = KernelPCA(3, kernel="rbf", **options).fit(X)
    np.testing.assert_allclose(model.transform(new), model.transform(new.toarray()), atol=1e-9)


def test_remove_zero_eig_and_none_leave_out_what_has_no_variance():
    X = np.c_[table(40, 2), np.zeros(40)]
    assert KernelPCA(3).fit(X).eigenvalues_.shape == (3,)
    assert KernelPCA(3, remove_zero_eig=True).fit(X).eigenvalues_.shape == (2,)
    assert KernelPCA().fit(X).eigenvalues_.shape == (2,)
    assert KernelPCA().fit(X).transform(X).shape == (40, 2)
    for options in ({"kernel": "poly", "degree": 1}, {"low_rank": 10, "random_state": 0}):
        assert KernelPCA(**options).fit(X).eigenvalues_.shape == (2,)
        model = KernelPCA(3, remove_zero_eig=True, **options).fit(X)
        assert model.transform(X).shape == (40, 2)
        assert len(model.get_feature_names_out()) == 2


# ---- laws ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "poly", "degree": 1, "gamma": 1, "coef0": 0},
        {"kernel": "precomputed"},
        {"low_rank": 20, "random_state": 0},
    ],
)
@pytest.mark.parametrize("shape", [(80, 5), (250, 5), (12, 40)])
def test_the_linear_kernel_is_pca(shape, options):
    X, new = table(*shape, offset=1.0), table(9, shape[1], seed=1)
    pca = PCA(4).fit(X)
    model = KernelPCA(4, **options)
    pre = options.get("kernel") == "precomputed"
    Z = model.fit_transform(X @ X.T if pre else X)
    signs = np.sign((Z * pca.transform(X)).sum(axis=0))
    np.testing.assert_allclose(Z, pca.transform(X) * signs, atol=1e-8)
    np.testing.assert_allclose(
        model.transform(new @ X.T if pre else new), pca.transform(new) * signs, atol=1e-8
    )
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, pca.explained_variance_ratio_, rtol=1e-8
    )


@pytest.mark.parametrize("kernel", POSITIVE)
def test_low_rank_of_full_rank_is_exact(kernel):
    X, new = table(60), table(9, seed=1)
    exact = KernelPCA(3, kernel=kernel, gamma=0.2).fit(X)
    low = KernelPCA(3, kernel=kernel, gamma=0.2, low_rank=60, random_state=0).fit(X)
    assert low.route_ == "low rank"
    assert low.trace_left_ < 1e-9
    np.testing.assert_allclose(low.eigenvalues_, exact.eigenvalues_, rtol=1e-7)
    scale = np.abs(exact.transform(new)).max()
    np.testing.assert_allclose(low.transform(new), exact.transform(new), atol=1e-5 * scale)
    np.testing.assert_allclose(
        low.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-6
    )


@pytest.mark.parametrize("low_rank", [10, 40, 0.1, 0.01])
def test_what_a_low_rank_fit_says_of_itself_is_true(low_rank):
    X = table(150)
    K = literal_kernel("rbf", X, X)
    lam, _ = literal_kpca(K)
    model = KernelPCA(3, kernel="rbf", gamma=0.2, low_rank=low_rank, random_state=0).fit(X)
    short = lam[:3] - model.eigenvalues_
    assert (short >= -1e-9).all()
    assert (short <= model.eigenvalue_error_ + 1e-9).all()
    if low_rank >= 1:
        assert model.rank_ == low_rank
    else:
        assert model.trace_left_ <= low_rank * 1.01
    assert f"rank {model.rank_}: {model.trace_left_:.2%}" in model.approximation_
    total = lam.sum()
    assert model.trace_left_ == pytest.approx(model.eigenvalue_error_ / total, rel=0.1)


def test_exact_fits_do_not_keep_what_a_low_rank_fit_said():
    model = KernelPCA(2, kernel="rbf", low_rank=10, random_state=0).fit(table())
    assert {"rank_", "trace_left_", "eigenvalue_error_"} <= set(vars(model))
    model.set_params(low_rank="auto").fit(table())
    assert not {"rank_", "trace_left_", "eigenvalue_error_"} & set(vars(model))
    assert model.approximation_ is None


def test_random_state_decides_the_pivots():
    X = table(200)

    def fit(seed):
        return KernelPCA(3, kernel="rbf", low_rank=15, random_state=seed).fit(X).eigenvalues_

    np.testing.assert_array_equal(fit(3), fit(3))
    assert not np.array_equal(fit(3), fit(4))
    np.testing.assert_array_equal(fit(np.random.RandomState(5)), fit(np.random.RandomState(5)))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("m", [80, 250])
def test_float32_is_near_float64(kernel, m):
    X = table(m)
    small = KernelPCA(2, kernel=kernel).fit(X.astype(np.float32))
    large = KernelPCA(2, kernel=kernel).fit(X)
    np.testing.assert_allclose(small.eigenvalues_, large.eigenvalues_, rtol=1e-4)
    same_up_to_sign(small.eigenvectors_, large.eigenvectors_.astype(np.float32), 1e-3)


def test_circles_come_apart():
    X, y = make_circles(200, factor=0.3, noise=0.05, random_state=0)
    Z = KernelPCA(2, kernel="rbf", gamma=2).fit_transform(X)
    inner, outer = Z[y == 1, 0], Z[y == 0, 0]
    assert max(inner.min(), outer.min()) > min(inner.max(), outer.max())


# ---- eigenvalues that are zero, negative, many times the same --------------------------


@pytest.mark.parametrize("options", [{}, {"kernel": "poly", "degree": 1}, {"low_rank": 8}])
def test_zero_eigenvalues_give_zero_not_infinity(options):
    X = np.c_[table(30, 2), np.zeros((30, 3))]
    model = KernelPCA(5, **options).fit(X)
    assert model.eigenvalues_.shape == (5,)
    np.testing.assert_array_equal(model.eigenvalues_[2:], 0)
    Z = model.transform(np.ones((3, 5)))
    assert np.isfinite(Z).all()
    np.testing.assert_array_equal(Z[:, 2:], 0)
    np.testing.assert_array_equal(model.fit_transform(X)[:, 2:], 0)


def test_an_indefinite_kernel_is_clamped_and_warned_of():
    X = table(60)
    K = literal_kernel("sigmoid", X, X)
    lam, _ = literal_kpca(K)
    assert lam[-1] < -0.1
    with pytest.warns(NearfoldWarning, match="not positive semi-definite.*clamped to 0"):
        model = KernelPCA(60, kernel="sigmoid", gamma=0.2).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, np.maximum(lam, 0), atol=1e-9)
    assert np.isfinite(model.transform(X)).all()
    np.testing.assert_array_equal(model.transform(X)[:, lam < -1e-6], 0)
    with pytest.raises(ValueError, match="negative eigenvalues"):  # what scikit-learn does
        sklearn.decomposition.KernelPCA(60, kernel="sigmoid", gamma=0.2).fit(X)


def test_the_largest_eigenvalues_are_algebraic_not_by_magnitude():
    lam = np.r_[-50.0, 3.0, 2.0, 1.0, np.zeros(236)]
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(centring(240) @ rng.normal(size=(240, 239)))[0]
    K = (Q[:, :239] * lam[:239]) @ Q[:, :239].T
    model = KernelPCA(3, kernel="precomputed").fit((K + K.T) / 2)
    np.testing.assert_allclose(model.eigenvalues_, [3, 2, 1], rtol=1e-8)


@pytest.mark.parametrize(
    "coef0",
    [
        1,
        pytest.param(
            -1,
        ),
    ],
)
@pytest.mark.parametrize("gamma", [0.1, 0.5])
def test_low_rank_of_an_indefinite_kernel_is_right_or_refused(gamma, coef0):
    X = table(120)
    options = {"kernel": "sigmoid", "gamma": gamma, "coef0": coef0}
    lam, _ = literal_kpca(np.tanh(gamma * X @ X.T + coef0))
    try:
        low = quietly(KernelPCA(2, low_rank=60, random_state=0, **options), X)
    except NearfoldError:
        return
    assert (np.abs(low.eigenvalues_ - lam[:2]) <= low.eigenvalue_error_ + 1e-6).all()


def test_an_indefinite_kernel_beyond_the_budget_is_right_or_refused():
    X = table(600)
    exact = KernelPCA(2, kernel="sigmoid", gamma=0.5).fit(X)
    nearfold.set_memory("2MB")
    try:
        model = quietly(KernelPCA(2, kernel="sigmoid", gamma=0.5, random_state=0), X)
    except NearfoldError:
        return
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=0.05)


@pytest.mark.parametrize("kernel", ["cosine", "rbf"])
def test_groups_of_duplicates_have_one_eigenvalue_many_times(kernel):
    X = np.repeat(np.eye(60), 10, axis=0)
    model = KernelPCA(50, kernel=kernel, gamma=1.0).fit(X)
    same = 10 * (1.0 if kernel == "cosine" else 1 - np.exp(-2.0))
    np.testing.assert_allclose(model.eigenvalues_, same, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "rbf", "gamma": 1e-4},
        {"kernel": "rbf", "gamma": 1e-6},
        {"kernel": "cosine"},
        {"kernel": "sigmoid", "gamma": 1e-4},
    ],
)
def test_kernels_that_hardly_vary_are_solved(options, dtype):
    """K is nearly 1 everywhere: what varies is far smaller than K itself."""
    X = table(300, dtype=dtype)
    if options["kernel"] == "cosine":
        X += dtype(100)
    model = KernelPCA(2, **options).fit(X)
    gamma = options.get("gamma")
    K = pairwise_kernels(
        X.astype(float),
        metric=options["kernel"],
        **({} if gamma is None else {"gamma": gamma}),
    )
    lam, _ = literal_kpca(K)
    noise = 300 * float(np.finfo(dtype).eps)  # of K, which has entries of about 1
    np.testing.assert_allclose(model.eigenvalues_, lam[:2], rtol=1e-6, atol=noise)


# ---- new rows ------------------------------------------------------------------------

ROUTES = {
    "principal": (80, {}),
    "held, all pairs": (80, {"kernel": "rbf"}),
    "held, few pairs": (250, {"kernel": "rbf"}),
    "held, cosine": (250, {"kernel": "cosine"}),
    "held, poly": (80, {"kernel": "poly"}),
    "held, sigmoid": (80, {"kernel": "sigmoid"}),
    "held, function": (40, {"kernel": cauchy}),
    "low rank": (250, {"kernel": "rbf", "low_rank": 30, "random_state": 0}),
    "low rank, linear": (80, {"low_rank": 4, "random_state": 0}),
    "low rank, share": (250, {"kernel": "rbf", "low_rank": 0.05, "random_state": 0}),
    "low rank, function": (40, {"kernel": cauchy, "low_rank": 20, "random_state": 0}),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("route", ROUTES)
def test_fitted_rows_come_back_and_transform_is_row_wise(route, dtype):
    m, options = ROUTES[route]
    X, new = table(m, dtype=dtype), table(9, seed=1, dtype=dtype)
    model = KernelPCA(3, **options)
    Z = model.fit_transform(X)
    assert model.route_ == route.split(",")[0]
    atol = 1e4 * np.finfo(dtype).eps * np.abs(Z).max()
    np.testing.assert_allclose(model.transform(X), Z, rtol=0, atol=atol)
    found = model.transform(new)
    assert found.dtype == dtype
    alone = np.vstack([model.transform(row[None]) for row in new])
    np.testing.assert_allclose(found, alone, rtol=0, atol=atol)


@pytest.mark.parametrize("m", [60, 250])
def test_rows_of_a_precomputed_kernel_come_back(m):
    X, new = table(m), table(9, seed=1)
    model = KernelPCA(3, kernel="precomputed")
    Z = model.fit_transform(laplacian_kernel(X))
    np.testing.assert_allclose(model.transform(laplacian_kernel(X)), Z, atol=1e-10)
    K_new = laplacian_kernel(new, X)
    alone = np.vstack([model.transform(row[None]) for row in K_new])
    np.testing.assert_allclose(model.transform(K_new), alone, atol=1e-12)


def test_many_new_rows_go_through_many_blocks():
    X, new = table(2100), table(2500, seed=1)
    model = KernelPCA(2, kernel="rbf").fit(X)
    Z = model.transform(new)
    np.testing.assert_allclose(Z[::500], model.transform(new[::500]), atol=1e-10)


# ---- memory and threads --------------------------------------------------------------


def test_beyond_the_budget_a_low_rank_is_used_and_said():
    X = table(500)
    exact = KernelPCA(2, kernel="rbf", gamma=0.05).fit(X)
    nearfold.set_memory("2MB")  # the kernel alone needs 1.9 MB
    with pytest.warns(ApproximationWarning, match=r"500 rows and its eigenv.* need 4\.3 MB.*low"):
        model = KernelPCA(2, kernel="rbf", gamma=0.05, random_state=0).fit(X)
    assert model.route_ == "low rank"
    assert model.trace_left_ <= 1e-3
    assert "of the trace is left over" in model.approximation_
    assert model.approximation_.endswith("(memory budget 2.0 MB)")
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=0.01)
    same_up_to_sign(model.transform(X), exact.transform(X), 0.02)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "cosine", "sigmoid"])
def test_never_low_rank_computes_the_kernel_at_each_pass_and_is_exact(kernel, dtype, monkeypatch):
    monkeypatch.setattr("nearfold.linalg.centred._SIDE", 256)
    X, new = table(1000, dtype=dtype), table(9, seed=1, dtype=dtype)
    exact = KernelPCA(2, kernel=kernel).fit(X)
    nearfold.set_memory("6MB" if dtype == np.float64 else "3MB")  # held: 8.4 MB, or half of it
    model = KernelPCA(2, kernel=kernel, low_rank="never").fit(X)
    assert (model.route_, exact.route_) == ("computed", "held")
    assert model.approximation_ is None
    rtol = 500 * np.finfo(dtype).eps
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=rtol)
    ratio = exact.explained_variance_ratio_
    np.testing.assert_allclose(model.explained_variance_ratio_, ratio, rtol=1e-4)
    Z = exact.transform(new)
    atol = 5e3 * np.finfo(dtype).eps * np.abs(exact.transform(X)).max()
    np.testing.assert_allclose(model.transform(new), Z, rtol=0, atol=atol)
    np.testing.assert_allclose(model.transform(X), model.fit_transform(X), rtol=0, atol=atol)


def test_the_linear_kernel_needs_no_kernel():
    nearfold.set_memory("2MB")
    model = KernelPCA(2).fit(table(2000))
    assert (model.route_, model.approximation_) == ("principal", None)


def test_what_no_way_can_afford_is_refused_with_numbers():
    nearfold.set_memory("100KB")
    X = table(1000)
    with pytest.raises(MemoryBudgetError, match="A factor of rank 500 needs about"):
        KernelPCA(2, kernel="rbf", low_rank=500).fit(X)
    with pytest.raises(MemoryBudgetError, match="A basis for 2 axes"):
        KernelPCA(2, kernel="rbf", low_rank="never").fit(X)
    with (
        pytest.warns(ApproximationWarning),
        pytest.raises(MemoryBudgetError, match="A factor for 90 axes"),
    ):
        KernelPCA(90, kernel="rbf").fit(X)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "rbf"},
        {"kernel": "poly"},
        {"kernel": "rbf", "low_rank": 60, "random_state": 0},
        {"kernel": "rbf", "low_rank": "never"},
    ],
)
def test_threads_change_no_bit(options):
    X, new = table(1500), table(40, seed=1)
    if options.get("low_rank") == "never":
        nearfold.set_memory("12MB")
    models = [KernelPCA(2, n_jobs=n_jobs, **options).fit(X) for n_jobs in (1, 2, 3, None)]
    for other in models[1:]:
        assert other.route_ == models[0].route_
        np.testing.assert_array_equal(models[0].eigenvalues_, other.eigenvalues_)
        np.testing.assert_array_equal(models[0].eigenvectors_, other.eigenvectors_)
        np.testing.assert_array_equal(models[0].transform(new), other.transform(new))


# ---- the way back --------------------------------------------------------------------


def test_the_linear_pre_image_reconstructs_the_mean():
    X = table(offset=7.0)
    model = KernelPCA(5, fit_inverse_transform=True, alpha=1e-6)
    Z = model.fit_transform(X)
    np.testing.assert_allclose(model.inverse_transform(np.zeros((1, 5)))[0], X.mean(axis=0))
    np.testing.assert_allclose(model.inverse_transform(Z), X, atol=1e-5)
    two = KernelPCA(2, fit_inverse_transform=True, alpha=1e-6)
    Z = two.fit_transform(X)
    pca = PCA(2).fit(X)
    np.testing.assert_allclose(
        two.inverse_transform(Z), pca.inverse_transform(pca.transform(X)), atol=1e-5
    )


@pytest.mark.parametrize("alpha", [1e-3, 1.0])
@pytest.mark.parametrize("inverse_gamma", [None, 0.7])
def test_the_pre_image_is_ridge_regression_on_the_embedding_about_the_mean(inverse_gamma, alpha):
    X = table(offset=3.0)
    model = KernelPCA(
        3, kernel="rbf", gamma=0.2, fit_inverse_transform=True, alpha=alpha,
        inverse_gamma=inverse_gamma,
    )  # fmt: skip
    Z = model.fit_transform(X)
    gamma = inverse_gamma or 0.2
    K = np.exp(-gamma * ((Z[:, None] - Z) ** 2).sum(axis=2))
    want = np.linalg.solve(K + alpha * np.eye(80), X - X.mean(axis=0))
    np.testing.assert_allclose(model.dual_coef_, want, atol=1e-8 / alpha)
    np.testing.assert_allclose(model.X_transformed_fit_, Z)
    new = model.transform(table(9, seed=1, offset=3.0))
    K_new = np.exp(-gamma * ((new[:, None] - Z) ** 2).sum(axis=2))
    back = model.inverse_transform(new)
    np.testing.assert_allclose(back, K_new @ want + X.mean(axis=0), atol=1e-8 / alpha)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "cosine", "poly"])
def test_about_a_zero_mean_the_pre_image_is_scikit_learns(kernel):
    X = table()
    X -= X.mean(axis=0)
    options = {"kernel": kernel, "gamma": 0.05, "fit_inverse_transform": True, "alpha": 0.1}
    ours = KernelPCA(3, **options).fit(X)
    theirs = sklearn.decomposition.KernelPCA(3, **options).fit(X)
    np.testing.assert_allclose(
        ours.inverse_transform(ours.transform(X)),
        theirs.inverse_transform(theirs.transform(X)),
        atol=1e-7,
    )


@pytest.mark.parametrize("options", [{}, {"low_rank": 150, "random_state": 0}])
def test_the_pre_image_denoises(options):
    X, _ = load_digits(return_X_y=True)
    X = X[:400] / 16
    noisy = X + 0.3 * np.random.default_rng(0).normal(size=X.shape)
    model = KernelPCA(
        20, kernel="rbf", gamma=0.01, fit_inverse_transform=True, alpha=1e-2, **options
    ).fit(X)
    back = model.inverse_transform(model.transform(noisy))
    assert back.shape == X.shape
    assert np.linalg.norm(back - X) < 0.6 * np.linalg.norm(noisy - X)


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf", "gamma": 0.05}])
def test_a_low_rank_pre_image_is_learned_on_the_pivots(options):
    X = table(200, offset=2.0)
    model = KernelPCA(
        5, low_rank=40, random_state=0, fit_inverse_transform=True, alpha=1e-6, **options
    )
    Z = model.fit_transform(X)
    assert model.dual_coef_.shape == (model.rank_, 5)
    assert model.X_transformed_fit_.shape == (model.rank_, 5)
    error = np.linalg.norm(model.inverse_transform(Z) - X)
    assert error < 0.25 * np.linalg.norm(X - X.mean(axis=0))


def test_float32_comes_back_as_float32():
    X = table(dtype=np.float32)
    for options in ({}, {"kernel": "rbf"}, {"kernel": "rbf", "low_rank": 20, "random_state": 0}):
        model = KernelPCA(3, fit_inverse_transform=True, **options).fit(X)
        assert model.inverse_transform(model.transform(X)).dtype == np.float32


def test_the_way_back_must_be_asked_for_and_possible():
    X = table()
    with pytest.raises(NotFittedError, match="fit_inverse_transform parameter was not set"):
        KernelPCA(2).fit(X).inverse_transform(np.zeros((1, 2)))
    with pytest.raises(InputError, match="Cannot fit_inverse_transform with a precomputed"):
        KernelPCA(2, kernel="precomputed", fit_inverse_transform=True).fit(X @ X.T)
    with pytest.raises(NotImplementedError, match="sparse"):
        KernelPCA(2, kernel="rbf", fit_inverse_transform=True).fit(sparse_table())


def test_the_way_back_respects_the_budget():
    X = table(400)
    nearfold.set_memory("2MB")
    with pytest.raises(MemoryBudgetError, match=r"pre-image of 400 rows.*low_rank"):
        KernelPCA(2, fit_inverse_transform=True).fit(X)
    model = KernelPCA(2, low_rank=10, fit_inverse_transform=True, random_state=0).fit(X)
    assert model.inverse_transform(model.transform(X)).shape == X.shape


def test_a_pre_image_that_cannot_be_solved_is_an_error_that_says_so():
    with pytest.raises(SolverError, match="pre-image"):
        KernelPCA(3, kernel="sigmoid", coef0=-1, fit_inverse_transform=True).fit(table())


# ---- what a fitted model holds -------------------------------------------------------

HELD = {
    **{name: options for name, (_, options) in ROUTES.items() if "function" not in name},
    "computed": {"kernel": "rbf", "low_rank": "never"},
    "pre-image": {"kernel": "rbf", "fit_inverse_transform": True},
    "pre-image of pivots": {"low_rank": 20, "random_state": 0, "fit_inverse_transform": True},
    "precomputed": {"kernel": "precomputed"},
    "sparse": {"kernel": "poly"},
    "none": {"n_components": None, "kernel": "cosine"},
}


def fitted(name, dtype=np.float64):
    options = {"n_components": 3, **HELD[name]}
    X = table(250, dtype=dtype)
    if name == "computed":
        nearfold.set_memory("1400KB" if dtype == np.float64 else "700KB")
    if name == "precomputed":
        X = laplacian_kernel(X)
    if name == "sparse":
        X = sparse_table()
    return KernelPCA(**options).fit(X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", HELD)
def test_a_fitted_model_is_as_its_state_describes(name, dtype):
    model = fitted(name, dtype)
    assert name != "computed" or model.route_ == "computed"
    KernelPCA.fitted_state.check(fields_of(model))


def test_a_model_from_eigenpairs_is_as_its_state_describes():
    model = KernelPCA.from_eigenpairs(np.ones(2), np.ones((9, 2)), np.zeros(9))
    KernelPCA.fitted_state.check(fields_of(model))
    assert model.transform(np.ones((3, 9))).shape == (3, 2)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("low rank", "_axes.pivots", np.full(30, 250)),
        ("low rank", "_axes.axes", np.zeros((29, 3))),
        ("low rank", "_axes.X", np.zeros((31, 5))),
        ("low rank", "_axes.X", None),
        ("low rank", "X_fit_", np.zeros((31, 5))),
        ("low rank", "rank_", 31),
        ("held, all pairs", "X_fit_", np.zeros((249, 5))),
        ("held, all pairs", "_axes.X", np.zeros((249, 5))),
        ("held, all pairs", "_axes.X", None),
        ("held, all pairs", "_axes.row_means", np.full(250, np.nan)),
        ("held, all pairs", "_axes.row_means", None),
        ("held, all pairs", "_axes.V", np.zeros((250, 2))),
        ("held, all pairs", "_axes.lam", np.array([2.0, 1.0, -1.0])),
        ("held, all pairs", "eigenvalues_", np.array([2.0, 1.0, -1.0])),
        ("held, all pairs", "route_", "principal"),
        ("held, all pairs", "_axes.function", "rbf"),
        ("held, all pairs", "_axes.function", None),
        ("held, all pairs", "_axes", None),
        ("precomputed", "n_features_in_", 249),
        ("principal", "_axes.axes", np.zeros((4, 3))),
        ("pre-image", "dual_coef_", np.zeros((250, 6))),
        ("pre-image", "_preimage.coefficients", np.zeros((250, 6))),
        ("pre-image", "_preimage.function", None),
        ("pre-image", "_preimage", None),
    ],
)
def test_a_damaged_model_is_refused_by_its_state(name, field, value):
    held = fields_of(fitted(name))
    whole, _, part = field.partition(".")
    if part:
        held[whole] = replace(held[whole], **{part: value})
    elif value is None:
        del held[whole]
    else:
        held[whole] = value
    with pytest.raises(StateError):
        KernelPCA.fitted_state.check(held)


# ---- the budget decides no digit -------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "poly", "cosine"])
def test_never_low_rank_is_the_same_under_every_budget(kernel):
    X, new = table(1200), table(9, seed=1)
    held = KernelPCA(2, kernel=kernel, low_rank="never").fit(X)
    nearfold.set_memory("8MB")
    computed = KernelPCA(2, kernel=kernel, low_rank="never").fit(X)
    assert (held.route_, computed.route_) == ("held", "computed")
    np.testing.assert_array_equal(held.eigenvalues_, computed.eigenvalues_)
    np.testing.assert_array_equal(held.eigenvectors_, computed.eigenvectors_)
    np.testing.assert_array_equal(held.transform(new), computed.transform(new))


def test_a_rank_pins_a_low_rank_fit_whatever_the_budget():
    X = table(600)
    models = []
    for budget in ("2MB", "200MB"):
        nearfold.set_memory(budget)
        models.append(KernelPCA(2, kernel="rbf", low_rank=15, random_state=0).fit(X))
    np.testing.assert_array_equal(models[0].eigenvectors_, models[1].eigenvectors_)
    assert models[0].approximation_ == models[1].approximation_
    assert "budget" not in models[0].approximation_


def test_a_share_that_the_budget_cuts_short_says_so():
    nearfold.set_memory("1MB")
    model = KernelPCA(2, kernel="rbf", gamma=5.0, low_rank=1e-6, random_state=0).fit(table(900))
    assert model.trace_left_ > 1e-6
    assert model.approximation_.endswith("(memory budget 1.0 MB)")


# ---- kernels that hardly vary ----------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"low_rank": "never"}, {"low_rank": 6, "random_state": 0}])
@pytest.mark.parametrize("m", [80, 250])
@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
def test_cosines_far_from_the_origin_are_right(offset, m, options):
    """Cosines differ from 1 by 1e-18 there; the unit rows about their mean keep their digits."""
    X = table(m, offset=offset)
    length = np.sqrt((np.asarray(X, np.longdouble) ** 2).sum(axis=1, keepdims=True))
    U = np.asarray(X, np.longdouble) / length
    U = (U - U.mean(axis=0)).astype(np.float64)
    _, s, Vt = np.linalg.svd(U, full_matrices=False)
    model = KernelPCA(2, kernel="cosine", **options)
    Z = model.fit_transform(X)
    np.testing.assert_allclose(model.eigenvalues_, s[:2] ** 2, rtol=1e-5)
    same_up_to_sign(Z, (U @ Vt[:2].T), 1e-5 * s[0])
    np.testing.assert_allclose(model.transform(X), Z, rtol=0, atol=1e-5 * s[0])


@pytest.mark.parametrize(
    ("options", "X"),
    [
        ({"kernel": "rbf", "gamma": 1e-25}, table(80)),
        ({"kernel": "sigmoid"}, table(80) * 1e3 + 1e6),
        ({"kernel": "cosine"}, np.outer(np.arange(1.0, 81.0), [1.0, 2.0, 4.0])),
    ],
)
def test_a_kernel_without_variation_is_warned_of(options, X):
    with pytest.warns(NearfoldWarning, match="does not vary beyond rounding"):
        model = KernelPCA(2, **options).fit(X)
    np.testing.assert_array_equal(model.eigenvalues_, 0)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
@pytest.mark.parametrize("m", [60, 230])
def test_a_sparse_precomputed_kernel_is_the_dense_one(kind, m):
    rng = np.random.default_rng(0)
    F = sparse.random_array((m, 30), density=0.2, rng=rng).toarray()
    new = sparse.random_array((9, 30), density=0.2, rng=rng).toarray()
    dense = KernelPCA(3, kernel="precomputed").fit(F @ F.T)
    model = KernelPCA(3, kernel="precomputed").fit(kind(F @ F.T))
    want = dense.transform(new @ F.T)
    np.testing.assert_allclose(model.transform(kind(new @ F.T)), want, atol=1e-9)
    np.testing.assert_allclose(dense.transform(kind(new @ F.T)), want, atol=1e-12)
    np.testing.assert_allclose(model.transform(kind(F @ F.T)), dense.transform(F @ F.T), atol=1e-9)


# ---- residuals of every eigenpair, scaled by norm, size and eps ------------------------

SHAPES = {
    "tall": lambda: table(230),
    "wide": lambda: table(30, 60),
    "square": lambda: table(40, 40),
    "one column": lambda: table(70, 1),
    "duplicates": lambda: np.repeat(table(25), 4, axis=0),
    "collinear": lambda: np.outer(np.linspace(-3, 3, 90), [1.0, -2.0, 0.5]),
    "two clusters": lambda: np.vstack([table(60), table(50, seed=1) + 9.0]),
}


@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "cosine", "precomputed"])
def test_residuals(kernel, shape, scale):
    X = SHAPES[shape]()
    if kernel in ("poly", "sigmoid"):
        K = pairwise_kernels(X, metric=kernel, gamma=0.2, coef0=1)
    elif kernel == "rbf":
        K = pairwise_kernels(X, metric="rbf", gamma=0.2)
    else:
        K = scale * (X @ X.T) * scale if kernel != "cosine" else pairwise_kernels(X, metric=kernel)
    gamma = 0.2 / scale**2
    given = K if kernel == "precomputed" else X * scale
    k = min(4, len(X))
    model = quietly(KernelPCA(k, kernel=kernel, gamma=gamma), given)
    B = centring(len(X)) @ K @ centring(len(X))
    V, lam = model.eigenvectors_, model.eigenvalues_
    unit = len(X) * np.finfo(float).eps * np.linalg.norm(K, 2)
    assert np.linalg.norm(B @ V - V * lam, axis=0)[lam > 0].max(initial=0.0) <= 20 * unit
    want = np.maximum(np.linalg.eigvalsh(B)[::-1][:k], 0.0)
    assert np.abs(lam - want).max() <= 20 * unit
    kept = V[:, lam > 0]
    assert np.abs(kept.T @ kept - np.eye(kept.shape[1])).max() <= 1e-7  # lam may be tiny


# ---- frames, pickles -----------------------------------------------------------------


@pytest.mark.parametrize("route", ROUTES)
def test_pickle_round_trip(route):
    m, options = ROUTES[route]
    X = table(m)
    model = KernelPCA(3, fit_inverse_transform=True, **options).fit(X)
    again = pickle.loads(pickle.dumps(model))
    Z = model.transform(X[:9])
    np.testing.assert_array_equal(again.transform(X[:9]), Z)
    np.testing.assert_array_equal(again.inverse_transform(Z), model.inverse_transform(Z))


def test_clone_keeps_parameters_and_nothing_fitted():
    model = KernelPCA(3, kernel="poly", degree=2, low_rank=20, inverse_gamma=0.1).fit(table())
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert not hasattr(fresh, "eigenvalues_")


@pytest.mark.parametrize(
    "options", [{}, {"kernel": "rbf"}, {"kernel": "rbf", "low_rank": 9, "random_state": 0}]
)
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_in_and_out(frame, options):
    names = list("abcde")
    X = table()
    given = frame(dict(zip(names, X.T, strict=True)))
    kind = "pandas" if frame is pd.DataFrame else "polars"
    model = KernelPCA(2, **options).set_output(transform=kind)
    first = model.fit_transform(given)
    assert list(model.feature_names_in_) == names
    for Z in (first, model.transform(given)):
        assert isinstance(Z, frame)
        assert list(Z.columns) == ["kernelpca0", "kernelpca1"]
        np.testing.assert_allclose(
            Z.to_numpy(), KernelPCA(2, **options).fit_transform(X), atol=1e-9
        )


def test_columns_renamed_or_missing_are_an_error():
    model = KernelPCA(2, kernel="rbf").fit(pd.DataFrame(table(), columns=list("abcde")))
    with pytest.raises(ValueError, match="feature names"):
        model.transform(pd.DataFrame(table(), columns=list("abcdx")))
    with pytest.raises(ValueError, match="features"):
        KernelPCA(2).fit(table()).transform(table(d=4))


def test_the_rows_may_change_after_the_fit():
    X = table()
    given = X.copy()
    model = KernelPCA(2, kernel="rbf").fit(given)
    Z = model.transform(X)
    given[:] = 0
    np.testing.assert_array_equal(model.transform(X), Z)
    np.testing.assert_array_equal(model.X_fit_, X)


# ---- what is refused -----------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_nan_and_inf_are_named_by_row_and_column(kernel, kind, bad):
    X = table()
    X[7, 3] = X[11, 3] = bad
    word = "NaN" if np.isnan(bad) else "inf"
    with pytest.raises(NonFiniteError, match=rf"2 {word} \(column 3: 2; first rows: \[7, 11\]"):
        KernelPCA(2, kernel=kernel).fit(kind(X))
    model = KernelPCA(2, kernel=kernel).fit(table())
    with pytest.raises(NonFiniteError, match=r"column 3: 2; first rows: \[7, 11\]"):
        model.transform(kind(X))


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "gauss"},
        {"n_components": 0},
        {"n_components": 1.5},
        {"n_components": "all"},
        {"eigen_solver": "qr"},
        {"low_rank": 0},
        {"low_rank": -3},
        {"low_rank": 2.5},
        {"low_rank": True},
        {"low_rank": "some"},
        {"gamma": -1},
        {"degree": -1},
        {"coef0": None},
        {"kernel_params": 3},
        {"alpha": -1},
        {"fit_inverse_transform": "yes"},
        {"tol": -1},
        {"max_iter": 0},
        {"iterated_power": -1},
        {"remove_zero_eig": "no"},
        {"random_state": "x"},
        {"copy_X": None},
        {"n_jobs": 1.5},
        {"inverse_gamma": -2},
    ],
)
def test_parameters_without_meaning_are_refused(options):
    name = next(iter(options))
    with pytest.raises(ValueError, match=f"The '{name}' parameter of KernelPCA must be"):
        KernelPCA(**options).fit(table())


def test_a_kernel_matrix_must_be_square():
    with pytest.raises(InputError, match=r"square matrix\. Input is a 80x5"):
        KernelPCA(2, kernel="precomputed").fit(table())


@pytest.mark.parametrize("m", [60, 300])
def test_an_asymmetric_kernel_is_taken_for_its_symmetric_part(m):
    K = laplacian_kernel(table(m))
    K += 0.1 * np.triu(np.random.default_rng(0).normal(size=(m, m)), 1)
    ours = KernelPCA(2, kernel="precomputed").fit(K)
    lam, _ = literal_kpca((K + K.T) / 2)
    np.testing.assert_allclose(ours.eigenvalues_, lam[:2], rtol=1e-8)


def test_an_asymmetric_kernel_is_seen_also_far_down():
    K = laplacian_kernel(table(1500))
    K[1200:, 1200:] += 0.1 * np.triu(np.random.default_rng(0).normal(size=(300, 300)), 1)
    ours = KernelPCA(2, kernel="precomputed", max_iter=40).fit(K)
    S = (K + K.T) / 2
    S = S - S.mean(axis=0) - S.mean(axis=1, keepdims=True) + S.mean()
    np.testing.assert_allclose(ours.eigenvalues_, np.linalg.eigvalsh(S)[:-3:-1], rtol=1e-8)


def test_an_iteration_that_is_cut_short_is_an_error():
    with pytest.raises(SolverError, match="did not converge in 1 passes"):
        KernelPCA(3, kernel="rbf", max_iter=1).fit(table(400))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_kernel_with_nan_is_an_error_that_names_it():
    with pytest.raises(SolverError, match=r"centred kernel.*NaN or inf"):
        KernelPCA(2, kernel="poly", degree=2.5, coef0=-1).fit(table())
    with pytest.raises(SolverError, match="NaN or inf"):
        KernelPCA(2, kernel="poly", degree=2.5, coef0=-1).fit(table(300))


# ---- degenerate data -----------------------------------------------------------------


@pytest.mark.parametrize("low_rank", ["auto", 3])
@pytest.mark.parametrize("kernel", [*POSITIVE, "sigmoid"])
@pytest.mark.parametrize("m", [1, 12, 250])
def test_constant_rows_are_all_at_zero(kernel, low_rank, m):
    X = np.full((m, 3), 0.5)
    model = KernelPCA(2, kernel=kernel, low_rank=low_rank, random_state=0).fit(X)
    k = min(2, m)
    np.testing.assert_allclose(model.fit_transform(X), np.zeros((m, k)), atol=1e-7)
    assert np.isfinite(model.transform(X + 1)).all()


@pytest.mark.parametrize(
    ("kernel", "m"),
    [
        pytest.param(
            "linear",
            250,
        ),
        ("rbf", 250),
        ("poly", 12),
        ("sigmoid", 12),
        ("cosine", 12),
    ],
)
def test_constant_rows_have_no_variance(kernel, m):
    model = KernelPCA(2, kernel=kernel).fit(np.full((m, 3), 3.3))
    np.testing.assert_array_equal(model.eigenvalues_, 0)
    np.testing.assert_array_equal(model.transform(table(9, 3)), 0)


@pytest.mark.parametrize(
    ("kernel", "low_rank"),
    [("poly", "auto"), ("sigmoid", "auto"), ("cosine", "auto"), ("poly", 3), ("linear", 3)],
)
def test_rounding_is_not_taken_for_variance(kernel, low_rank):
    """Rows all equal, a kernel that is not exactly representable: new rows would be noise."""
    model = KernelPCA(2, kernel=kernel, low_rank=low_rank, random_state=0)
    model.fit(np.full((250, 3), 3.3))
    np.testing.assert_allclose(model.transform(table(9, 3)), 0, atol=1e-9)


@pytest.mark.parametrize("low_rank", ["auto", 3])
@pytest.mark.parametrize("kernel", ["linear", "cosine"])
def test_rows_of_zeros(kernel, low_rank):
    model = KernelPCA(2, kernel=kernel, low_rank=low_rank).fit(np.zeros((9, 3)))
    np.testing.assert_array_equal(model.transform(np.zeros((9, 3))), np.zeros((9, 2)))


@pytest.mark.parametrize("kernel", [*POSITIVE, "sigmoid"])
def test_duplicates_stay_together(kernel):
    X = np.repeat(table(20), 4, axis=0)
    Z = KernelPCA(3, kernel=kernel).fit_transform(X)
    np.testing.assert_allclose(Z, np.repeat(Z[::4], 4, axis=0), atol=1e-10)


def test_more_components_than_rows():
    X = table(6, 3)
    for options in ({}, {"kernel": "rbf"}, {"kernel": "rbf", "low_rank": 9, "random_state": 0}):
        model = KernelPCA(10, **options)
        Z = model.fit_transform(X)
        assert Z.shape == (6, 6)  # as in scikit-learn
        assert len(model.get_feature_names_out()) == 6
        np.testing.assert_allclose(model.transform(X), Z, atol=1e-9)
        assert np.isfinite(model.transform(table(4, 3, seed=1))).all()


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("m", [80, 250])
def test_a_huge_offset_does_not_matter(kernel, m):
    near = KernelPCA(2, kernel=kernel).fit(table(m))
    far = KernelPCA(2, kernel=kernel).fit(table(m, offset=1e6))
    np.testing.assert_allclose(far.eigenvalues_, near.eigenvalues_, rtol=1e-7)
    same_up_to_sign(
        far.transform(table(9, seed=1, offset=1e6)), near.transform(table(9, seed=1)), 1e-6
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("scale", [1e300, 1e200])
def test_values_whose_squares_overflow_are_refused(scale):
    for options in ({}, {"kernel": "rbf"}, {"kernel": "rbf", "low_rank": 20}, {"kernel": "poly"}):
        for m in (80, 300):
            with pytest.raises(NearfoldError, match=r"overflow|NaN or inf"):
                KernelPCA(2, random_state=0, **options).fit(table(m) * scale)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "options",
    [{"kernel": "sigmoid"}, {"low_rank": 20}, {"kernel": "poly", "low_rank": 20}],
)
def test_products_that_overflow_are_refused(options):
    """An infinite sum has the sign of whichever product came first."""
    with pytest.raises(NearfoldError):
        KernelPCA(2, random_state=0, **options).fit(table() * 1e300)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("scale", [1e300, 1e200, 1e-200])
def test_cosines_do_not_depend_on_the_scale(scale):
    want = KernelPCA(2, kernel="cosine").fit_transform(table())
    try:
        got = KernelPCA(2, kernel="cosine").fit_transform(table() * scale)
    except NearfoldError:
        return
    same_up_to_sign(got, want, 1e-7)


def test_values_whose_squares_vanish_are_refused_or_right():
    with pytest.raises(InputError, match="squares vanish"):
        KernelPCA(2).fit(table() * 1e-200)
    K = laplacian_kernel(table(250))
    want = KernelPCA(2, kernel="precomputed").fit(K)
    for scale in (1e-30, 1e30):
        got = KernelPCA(2, kernel="precomputed").fit(K * scale)
        np.testing.assert_allclose(got.eigenvalues_ / scale, want.eigenvalues_, rtol=1e-8)


@pytest.mark.parametrize("scale", [1e-200, 1e-300])
def test_a_tiny_kernel_is_solved_as_well_as_any(scale):
    K = laplacian_kernel(table(250))
    want = KernelPCA(2, kernel="precomputed").fit(K)
    got = KernelPCA(2, kernel="precomputed").fit(K * scale)
    np.testing.assert_allclose(got.eigenvalues_ / scale, want.eigenvalues_, rtol=1e-8)


def test_integers_are_computed_in_float64():
    X, _ = load_iris(return_X_y=True)
    whole = (10 * X).astype(int)
    model = KernelPCA(2, kernel="rbf", gamma=0.01).fit(whole)
    assert model.eigenvalues_.dtype == np.float64
    np.testing.assert_allclose(
        model.eigenvalues_, KernelPCA(2, kernel="rbf", gamma=0.01).fit(whole * 1.0).eigenvalues_
    )


def tight_groups(dtype):
    """Groups far apart, near within: |a|^2 + |b|^2 - 2 a b loses what tells members apart."""
    rng = np.random.default_rng(1)
    X = np.repeat(30 * rng.normal(size=(20, 5)), 20, axis=0) + 1e-3 * rng.normal(size=(400, 5))
    return X.astype(dtype)


def test_a_gaussian_kernel_is_never_called_indefinite():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = np.repeat(100 * rng.normal(size=(40, 5)), 20, axis=0) + 1e-3 * rng.normal(size=(800, 5))
        low = KernelPCA(3, kernel="rbf", gamma=1.0, low_rank=700, random_state=seed).fit(X)
        exact = KernelPCA(3, kernel="rbf", gamma=1.0).fit(X)
        np.testing.assert_allclose(low.eigenvalues_, exact.eigenvalues_, rtol=1e-6)


def test_near_pairs_keep_their_digits_in_float32():
    X = tight_groups(np.float32)
    want = KernelPCA(3, kernel="rbf", gamma=1.0).fit(X.astype(np.float64)).eigenvalues_
    theirs = sklearn.decomposition.KernelPCA(3, kernel="rbf", gamma=1.0, eigen_solver="dense")
    np.testing.assert_allclose(theirs.fit(X).eigenvalues_, want, rtol=3e-6)
    got = KernelPCA(3, kernel="rbf", gamma=1.0).fit(X).eigenvalues_
    np.testing.assert_allclose(got, want, rtol=3e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_powers_that_overflow_are_refused_also_at_low_rank():
    with pytest.raises(NearfoldError):
        KernelPCA(2, kernel="poly", low_rank=20, random_state=0).fit(table() * 1e60)


def test_all_axes_of_the_linear_kernel_take_no_more_than_the_rank_needs():
    X = np.random.default_rng(0).standard_normal((4000, 3))
    tracemalloc.start()
    model = KernelPCA().fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.eigenvectors_.shape == (4000, 3)
    assert peak < 10 * X.nbytes  # a matrix (4000, 4000) is 128 MB


@pytest.mark.parametrize("kernel", ["rbf", "poly", "cosine", "sigmoid", "linear"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_centring_rows_once_or_in_every_tile_changes_no_bit(kernel, dtype):
    X = np.random.default_rng(0).normal(size=(300, 2000)).astype(dtype) + 3  # several tiles
    function = KernelFunction(kernel, 1e-3, 3, 1.0, None)
    function.measure_from_mean(X)
    once = function.matrix(X, dtype)
    nearfold.set_memory("1KB")
    np.testing.assert_array_equal(function.matrix(X, dtype), once)
