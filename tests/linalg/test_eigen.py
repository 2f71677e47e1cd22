"""Eigenpairs, singular values, triangular factors, signs, implicit tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import linalg, sparse
from scipy.sparse.linalg import LinearOperator

from nearfold.blocks import combine_pairwise
from nearfold.errors import SolverError
from nearfold.linalg import (
    CentredRows,
    axis_signs,
    bottom_eigenpairs,
    combine_triangles,
    fix_signs,
    thin_svd,
    top_axes_implicit,
    top_axes_randomized,
    top_eigenpairs,
    triangular_factor,
)

DTYPES = [np.float64, np.float32]


def symmetric(d, dtype=np.float64, seed=0):
    """A full matrix whose eigenvalue of largest magnitude is negative."""
    rng = np.random.default_rng(seed)
    Q = linalg.qr(rng.normal(size=(d, d)))[0]
    values = np.r_[-10.0, np.linspace(-2.0, 5.0, d - 1)]
    A = (Q * values) @ Q.T
    return ((A + A.T) / 2).astype(dtype), np.sort(values)


def path_laplacian(n):
    """Of the path graph: sparse, singular, eigenvalues 2 - 2 cos(pi j / n)."""
    degree = np.r_[1.0, np.full(n - 2, 2.0), 1.0]
    L = sparse.diags_array([-np.ones(n - 1), degree, -np.ones(n - 1)], offsets=[-1, 0, 1])
    return L.tocsr(), 2 - 2 * np.cos(np.pi * np.arange(n) / n)


def as_kind(A, kind):
    if kind == "sparse":
        return sparse.csr_array(A)
    if kind == "operator":
        return LinearOperator(A.shape, matvec=lambda v: A @ v, dtype=A.dtype)
    return A


def assert_eigenpairs(A, pairs, k, limit=30.0):
    """|A V - V lam| / (|A| d eps) and |V^T V - I| / (d eps), as LAPACK tests its own."""
    d = A.shape[0]
    scale = d * np.finfo(pairs.vectors.dtype).eps
    V = pairs.vectors
    assert pairs.values.shape == (k,)
    assert V.shape == (d, k)
    size = np.linalg.norm(A, 2)
    assert np.linalg.norm(A @ V - V * pairs.values) <= limit * size * scale
    assert np.linalg.norm(V.T @ V - np.eye(k)) <= limit * scale
    assert pairs.residuals.shape == (k,)
    assert (pairs.residuals <= limit * size * scale).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["dense", "sparse", "operator"])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (30, 1), (30, 5), (30, 30), (30, 99), (520, 4)])
@pytest.mark.parametrize("end", ["top", "bottom"])
def test_eigenpairs(end, d, k, kind, dtype):
    A, values = symmetric(d, dtype) if d > 1 else (np.full((1, 1), 3.0, dtype), np.array([3.0]))
    k_found = min(k, d)
    pairs = {"top": top_eigenpairs, "bottom": bottom_eigenpairs}[end](as_kind(A, kind), k)
    assert_eigenpairs(A, pairs, k_found)
    expected = values[::-1][:k_found] if end == "top" else values[:k_found]  # algebraic order
    tolerance = 30 * d * np.finfo(dtype).eps * np.abs(values).max()
    np.testing.assert_allclose(pairs.values, expected, atol=tolerance)


@pytest.mark.parametrize("kind", ["dense", "sparse", "operator"])
def test_same_input_same_output(kind):
    A, _ = symmetric(520)
    one, two = (top_eigenpairs(as_kind(A, kind), 3) for _ in range(2))
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.vectors, two.vectors)


@pytest.mark.parametrize("n", [50, 800])
def test_bottom_of_a_singular_laplacian(n):
    L, values = path_laplacian(n)
    pairs = bottom_eigenpairs(L, 3)
    np.testing.assert_allclose(pairs.values, values[:3], atol=4 * n * np.finfo(float).eps)
    assert (np.diff(pairs.values) > 0).all()
    np.testing.assert_allclose(np.abs(pairs.vectors[:, 0]), n**-0.5, rtol=1e-6)
    assert (pairs.residuals < 1e-11).all()


def test_bottom_of_a_laplacian_in_pieces_finds_every_null_vector():
    L, _ = path_laplacian(300)
    pairs = bottom_eigenpairs(sparse.block_diag([L, L], format="csr"), 3)
    np.testing.assert_allclose(pairs.values[:2], 0.0, atol=1e-11)
    assert pairs.values[2] > 1e-5


def test_bottom_of_an_indefinite_sparse_matrix():
    """The shift lies below the spectrum even where that is negative."""
    L, values = path_laplacian(700)
    pairs = bottom_eigenpairs(L - 3.0 * sparse.eye_array(700, format="csr"), 2)
    np.testing.assert_allclose(pairs.values, values[:2] - 3.0, atol=1e-11)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("solve", [top_eigenpairs, bottom_eigenpairs])
@pytest.mark.parametrize(("kind", "d"), [("dense", 6), ("sparse", 6), ("sparse", 600)])
@pytest.mark.parametrize("k", [1, 6])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_matrix_that_is_not_finite_is_named(k, kind, d, solve, bad):
    A = np.eye(d)
    A[1, 2] = A[2, 1] = bad
    with pytest.raises(SolverError, match="the odd matrix"):
        solve(as_kind(A, kind), k, name="the odd matrix")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (9, 9), (1, 5), (5, 1)])
def test_thin_svd(shape, dtype):
    A = np.random.default_rng(0).normal(size=shape).astype(dtype)
    U, s, Vt = thin_svd(A)
    r, scale = min(shape), max(shape) * np.finfo(dtype).eps
    assert U.shape == (shape[0], r)
    assert Vt.shape == (r, shape[1])
    assert (np.diff(s) <= 0).all()
    assert np.linalg.norm(U * s @ Vt - A) <= 10 * scale * np.linalg.norm(A)
    assert np.linalg.norm(U.T @ U - np.eye(r)) <= 10 * scale
    assert np.linalg.norm(Vt @ Vt.T - np.eye(r)) <= 10 * scale


def test_thin_svd_takes_the_sure_way_then_names_the_matrix(monkeypatch):
    A = np.random.default_rng(0).normal(size=(5, 3))
    svd = linalg.svd

    def failing(A, lapack_driver="gesdd", **options):
        if lapack_driver in fails:
            raise linalg.LinAlgError("did not converge")
        return svd(A, lapack_driver=lapack_driver, **options)

    monkeypatch.setattr(linalg, "svd", failing)
    fails = {"gesdd"}
    np.testing.assert_allclose(thin_svd(A)[1], svd(A)[1])
    fails = {"gesdd", "gesvd"}
    with pytest.raises(SolverError, match="the odd matrix"):
        thin_svd(A, "the odd matrix")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_thin_svd_of_what_is_not_finite_names_the_matrix(bad):
    with pytest.raises(SolverError, match="the odd matrix"):
        thin_svd(np.array([[1.0, bad], [0.0, 1.0]]), "the odd matrix")


@pytest.mark.parametrize("sizes", [[50], [3, 4, 2], [1] * 9, [30, 1, 20, 6]])
def test_triangles_combine(sizes):
    A = np.random.default_rng(0).normal(size=(sum(sizes), 6)) * 10.0 ** np.arange(6)
    parts = np.split(A, np.cumsum(sizes)[:-1])
    R = combine_pairwise((triangular_factor(part) for part in parts), combine_triangles)
    assert R.shape == (min(len(A), 6), 6)
    np.testing.assert_array_equal(R, np.triu(R))
    scale = len(A) * np.finfo(float).eps
    lengths = np.linalg.norm(A, axis=0)
    error = np.abs(R.T @ R - A.T @ A) / np.outer(lengths, lengths)  # columnwise, as QR is
    assert error.max() <= 10 * scale


def test_the_factor_keeps_small_singular_values():
    rng = np.random.default_rng(0)
    s = np.logspace(0, -12, 6)
    A = linalg.qr(rng.normal(size=(60, 6)), mode="economic")[0] * s
    R = combine_triangles(triangular_factor(A[:30]), triangular_factor(A[30:]))
    np.testing.assert_allclose(thin_svd(R)[1], s, rtol=1e-3)
    # what the squares leave of the last one, for a matrix that is not graded by columns
    Q = linalg.qr(rng.normal(size=(6, 6)))[0]
    squared = np.sqrt(np.abs(np.linalg.eigvalsh((A @ Q).T @ (A @ Q))[0]))
    assert abs(squared / s[-1] - 1) > 0.5


# ---- signs ---------------------------------------------------------------------------

axes_arrays = arrays(
    np.float64,
    st.tuples(st.integers(0, 4), st.integers(1, 6)),
    elements=st.floats(-10, 10).map(lambda v: round(v, 3)),
)


@given(axes_arrays)
def test_the_sign_rule(axes):
    fixed = fix_signs(axes)
    np.testing.assert_array_equal(np.abs(fixed), np.abs(axes))
    for row in fixed:
        largest = np.abs(row).max()
        first = next(v for v in row if abs(v) >= largest * (1 - 1e-5))
        assert first >= 0
    np.testing.assert_array_equal(fix_signs(fixed), fixed)  # idempotent
    np.testing.assert_array_equal(fix_signs(-axes), fixed)  # one form of each line
    assert set(axis_signs(axes).tolist()) <= {-1.0, 1.0}


@pytest.mark.parametrize("dtype", DTYPES)
def test_near_ties_are_decided_by_the_first(dtype):
    eps = np.finfo(dtype).eps
    for wobble in (-4 * eps, 0.0, 4 * eps):
        axes = np.array([[0.1, -1.0, 1.0 + wobble]], dtype)
        np.testing.assert_array_equal(axis_signs(axes), [-1.0])
    assert fix_signs(axes).dtype == dtype


def test_a_clearly_larger_entry_decides_wherever_it_is():
    np.testing.assert_array_equal(
        axis_signs(np.array([[-0.9, 0.1, 1.0], [0.9, 0.1, -1.0]])), [1, -1]
    )


def test_no_axes_have_no_signs():
    assert fix_signs(np.empty((0, 3))).shape == (0, 3)


# ---- implicit tables -----------------------------------------------------------------


def centred_table(kind, weighted, dtype=np.float64, shape=(60, 25)):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) * np.linspace(3, 0.5, shape[1]) + 2.0
    X[rng.random(shape) < 0.6] = 0.0
    X = X.astype(dtype)
    w = rng.uniform(0.5, 2.0, shape[0]) if weighted else None
    weights = np.ones(shape[0]) if w is None else w
    mean = weights @ X.astype(float) / weights.sum()
    dense = np.sqrt(weights)[:, None] * (X - mean)
    return CentredRows(sparse.csr_array(X) if kind == "sparse" else X, mean, w), dense


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_products_with_centred_rows(kind, weighted, dtype):
    A, dense = centred_table(kind, weighted, dtype)
    rng = np.random.default_rng(1)
    tolerance = 30 * np.finfo(dtype).eps * np.linalg.norm(dense)
    for width in ((), (1,), (4,)):
        V = rng.normal(size=(25, *width)).astype(dtype)
        U = rng.normal(size=(60, *width)).astype(dtype)
        assert A.times(V).dtype == A.transposed_times(U).dtype == dtype
        np.testing.assert_allclose(A.times(V), dense @ V, atol=tolerance)
        np.testing.assert_allclose(A.transposed_times(U), dense.T @ U, atol=tolerance)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("shape", [(60, 25), (25, 60), (620, 530), (530, 620)])
def test_implicit_axes(shape, kind, weighted):
    A, dense = centred_table(kind, weighted, shape=shape)
    k = 4
    lam, axes = top_axes_implicit(A, k)
    exact = np.linalg.svd(dense, compute_uv=False)[:k] ** 2
    scale = max(shape) * np.finfo(float).eps
    np.testing.assert_allclose(lam, exact, rtol=30 * scale)
    assert np.linalg.norm(axes @ axes.T - np.eye(k)) < 100 * scale
    residual = dense.T @ (dense @ axes.T) - axes.T * lam
    assert np.linalg.norm(residual) < 100 * scale * exact[0]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_randomized_axes_of_a_falling_spectrum(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 40)) @ np.diag(0.5 ** np.arange(40)) @ rng.normal(size=(40, 40))
    mean = X.mean(axis=0)
    A = CentredRows(sparse.csr_array(X) if kind == "sparse" else X, mean, None)
    lam, axes = top_axes_randomized(
        A, 3, oversamples=10, iterations=4, rng=np.random.RandomState(0)
    )
    _, s, Vt = np.linalg.svd(X - mean, full_matrices=False)
    np.testing.assert_allclose(lam, s[:3] ** 2, rtol=1e-9)
    np.testing.assert_allclose(fix_signs(axes), fix_signs(Vt[:3]), atol=1e-7)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 1000))
def test_randomized_axes_of_all_directions_are_exact(m, d, seed):
    X = np.random.default_rng(seed).normal(size=(m, d))
    mean = X.mean(axis=0)
    k = min(m, d)
    lam, _ = top_axes_randomized(
        CentredRows(X, mean, None), k, oversamples=5, iterations=1, rng=np.random.RandomState(0)
    )
    s = np.linalg.svd(X - mean, compute_uv=False)
    np.testing.assert_allclose(lam, s**2, atol=1e-10 * max(m, d))
