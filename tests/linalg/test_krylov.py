"""Block Lanczos against full eigendecompositions: every copy, every sign, honest residuals."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfold.errors import SolverError
from nearfold.linalg.krylov import block_lanczos, estimate_absolute_trace


@lru_cache(maxsize=8)
def random_axes(n, seed):
    return np.linalg.qr(np.random.default_rng(seed + 100).normal(size=(n, n)))[0]


def with_eigenvalues(values, seed=0, dtype=np.float64):
    """A dense symmetric matrix with these eigenvalues along random axes."""
    Q = random_axes(len(values), seed)
    A = (Q * np.asarray(values, dtype=np.float64)) @ Q.T
    return ((A + A.T) / 2).astype(dtype)


def lanczos(A, k, **options):
    return block_lanczos(lambda V: A @ V, len(A), k, A.dtype, **options)


def assert_top(found, A, k):
    """Values, orthonormality and residuals, scaled by norm, size and eps."""
    lam = np.linalg.eigvalsh(A.astype(np.float64))[::-1]
    V = found.vectors.astype(np.float64)
    scale = 30 * np.sqrt(len(A)) * np.finfo(A.dtype).eps
    norm = np.abs(lam).max()
    assert found.vectors.shape == (len(A), k)
    assert found.vectors.dtype == A.dtype
    np.testing.assert_allclose(found.values, lam[:k], rtol=0, atol=scale * norm)
    np.testing.assert_allclose(V.T @ V, np.eye(k), rtol=0, atol=scale)
    true = np.linalg.norm(A.astype(np.float64) @ V - V * found.values, axis=0)
    assert (true <= scale * norm).all()
    np.testing.assert_allclose(found.residuals, true, rtol=0, atol=scale * norm)
    assert (np.diff(found.values) <= scale * norm).all()


SPECTRA = {
    "spread": np.linspace(0, 1, 200),
    "decaying": 0.7 ** np.arange(200),
    "indefinite": np.r_[np.linspace(-3, 2, 200)],
    "negative": -np.linspace(1, 2, 200),
    "of rank one": np.r_[1.0, np.zeros(199)],
    "of rank twenty": np.r_[np.arange(20) + 1.0, np.zeros(180)],
    "large": 1e150 * np.linspace(0, 1, 200),
    "small": 1e-100 * np.linspace(0, 1, 200),
    "zero": np.zeros(200),
}


@pytest.mark.parametrize("k", [1, 6, 40])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_equals_a_full_eigendecomposition(spectrum, k):
    A = with_eigenvalues(SPECTRA[spectrum])
    assert_top(lanczos(A, k), A, k)


@pytest.mark.parametrize("k", [1, 6, 40])
@pytest.mark.parametrize("spectrum", ["spread", "decaying", "indefinite", "zero"])
def test_float32_stays_float32(spectrum, k):
    A = with_eigenvalues(SPECTRA[spectrum], dtype=np.float32)
    assert_top(lanczos(A, k), A, k)


def test_the_largest_are_algebraic_not_by_magnitude():
    A = with_eigenvalues(np.r_[-1000.0, -500.0, np.linspace(0, 1, 298)])
    found = lanczos(A, 3)
    np.testing.assert_allclose(found.values, [1, 1 - 1 / 297, 1 - 2 / 297], atol=1e-10)
    assert found.lowest == pytest.approx(-1000)


def test_lowest_is_never_below_the_smallest_eigenvalue():
    for seed in range(5):
        A = with_eigenvalues(np.random.default_rng(seed).normal(size=120), seed)
        found = lanczos(A, 2)
        smallest = np.linalg.eigvalsh(A)[0]
        assert smallest - 1e-10 <= found.lowest <= found.values[-1]


@pytest.mark.parametrize(("copies", "k"), [(2, 2), (2, 5), (16, 16), (20, 5), (40, 10)])
def test_every_copy_of_a_multiple_eigenvalue(copies, k):
    A = with_eigenvalues(np.r_[np.full(copies, 5.0), np.linspace(0, 1, 260)])
    assert_top(lanczos(A, k), A, k)


@pytest.mark.parametrize(("copies", "k"), [(59, 50), (33, 33), (100, 40)])
def test_more_copies_than_the_block_has_columns(copies, k):
    A = with_eigenvalues(np.r_[np.full(copies, 5.0), np.zeros(200)])
    assert_top(lanczos(A, k), A, k)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 15, 16, 17, 33, 50])
def test_all_pairs_of_a_small_matrix(n):
    A = with_eigenvalues(np.random.default_rng(n).normal(size=n))
    for k in {1, n - 1, n} - {0}:
        assert_top(lanczos(A, k), A, k)


@pytest.mark.parametrize("k", [150, 299, 300])
def test_most_pairs_of_a_large_matrix(k):
    A = with_eigenvalues(np.linspace(-1, 1, 300))
    assert_top(lanczos(A, k), A, k)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(0, 10**6),
    st.sampled_from([np.float64, np.float32]),
    st.data(),
)
def test_any_small_matrix(n, seed, dtype, data):
    k = data.draw(st.integers(1, n))
    A = np.random.default_rng(seed).integers(-2, 3, size=(n, n)).astype(dtype)  # ties happen
    A = A + A.T
    assert_top(lanczos(A, k), A, k)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_crowded_top_survives_restarts(dtype):
    A = with_eigenvalues(np.linspace(0, 1, 900), dtype=dtype)
    found = lanczos(A, 6)
    assert found.passes > 20  # beyond what one basis holds
    assert_top(found, A, 6)


def test_a_good_start_saves_passes():
    A = with_eigenvalues(np.linspace(0, 1, 400))
    cold = lanczos(A, 4)
    warm = lanczos(A, 4, start=cold.vectors)
    assert warm.passes < cold.passes
    assert_top(warm, A, 4)


@pytest.mark.parametrize("kind", ["zeros", "twins", "wrong", "many"])
def test_a_bad_start_does_no_harm(kind):
    A = with_eigenvalues(np.linspace(0, 1, 200))
    bottom = np.linalg.eigh(A)[1]
    start = {
        "zeros": np.zeros((200, 3)),
        "twins": np.ones((200, 3)),
        "wrong": bottom[:, :3],
        "many": np.random.default_rng(1).normal(size=(200, 60)),
    }[kind]
    assert_top(lanczos(A, 3, start=start), A, 3)


def test_the_same_operator_gives_the_same_bits():
    A = with_eigenvalues(np.linspace(0, 1, 250))
    a, b = lanczos(A, 5), lanczos(A, 5)
    np.testing.assert_array_equal(a.vectors, b.vectors)
    np.testing.assert_array_equal(a.values, b.values)


def test_a_looser_tolerance_takes_fewer_passes_and_says_so():
    A = with_eigenvalues(np.linspace(0, 1, 400))
    tight, loose = lanczos(A, 4), lanczos(A, 4, tol=1e-3)
    assert loose.passes < tight.passes
    assert (loose.residuals <= 1e-3).all()
    true = np.linalg.norm(A @ loose.vectors - loose.vectors * loose.values, axis=0)
    np.testing.assert_allclose(loose.residuals, true, rtol=1e-8)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_are_an_error_that_names_the_matrix(bad):
    A = with_eigenvalues(np.linspace(0, 1, 50))
    A[3, 7] = A[7, 3] = bad
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(SolverError, match=r"the thing \(50 x 50\) holds NaN or inf"),
    ):
        lanczos(A, 2, name="the thing")


def test_too_few_passes_are_an_error_with_the_residuals():
    A = with_eigenvalues(np.linspace(0, 1, 400))
    with pytest.raises(SolverError, match=r"did not converge in 2 passes: residuals \["):
        lanczos(A, 4, max_passes=2)


@pytest.mark.parametrize("size", [1e-200, 1e-300])
def test_squares_that_vanish_do_not_look_like_convergence(size):
    A = with_eigenvalues(size * np.linspace(0, 1, 100))
    found = lanczos(A, 3)
    np.testing.assert_allclose(found.values, size * np.linspace(0, 1, 100)[:-4:-1], rtol=1e-8)


# ---- sum |lam| -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        np.linspace(0, 1, 500),
        np.linspace(-1, 1, 500),
        np.r_[-100.0, 80.0, np.linspace(-1, 1, 498)],
        0.9 ** np.arange(500) * np.where(np.arange(500) % 2, 1, -1),
    ],
    ids=["positive", "both", "outliers", "decaying"],
)
def test_absolute_trace_is_near_the_truth(values):
    A = with_eigenvalues(values)
    got = estimate_absolute_trace(lambda V: A @ V, len(A), probes=200)
    assert got == pytest.approx(np.abs(values).sum(), rel=0.05)
    few = estimate_absolute_trace(lambda V: A @ V, len(A))
    assert few == pytest.approx(np.abs(values).sum(), rel=0.2)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_absolute_trace_of_a_diagonal_matrix_is_exact(n):
    # random signs see the diagonal of |A| alone, and |A| is diagonal
    A = np.diag(np.arange(n) - 2.5)
    got = estimate_absolute_trace(lambda V: A @ V, n)
    assert got == pytest.approx(np.abs(np.arange(n) - 2.5).sum(), rel=1e-10)


def test_absolute_trace_of_zero_is_zero():
    assert estimate_absolute_trace(lambda V: 0 * V, 30) == 0


def test_rounding_of_the_products_ends_the_passes():
    """Products with an error of 60 eps: no residual can reach 30 eps, and waiting does not help."""
    n = 700
    A = with_eigenvalues(np.r_[1.0, 0.5, np.linspace(0.01, 0.0, n - 2)])
    grid = 2.0**-49

    def coarse(V):
        return np.round((A @ V) / grid) * grid

    found = block_lanczos(coarse, n, 8, np.float64)
    assert found.passes < 150
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(A)[::-1][:8], rtol=0, atol=1e-13)
    with pytest.raises(SolverError, match="did not converge"):
        block_lanczos(coarse, n, 8, np.float64, max_passes=10)
