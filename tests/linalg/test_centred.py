"""J A J without ever holding it, against J A J."""

import numpy as np
import pytest

from nearfold.blocks import spans
from nearfold.linalg import centred
from nearfold.linalg.centred import CentredSquaredDistances, ComputedKernel, HeldKernel


def centring(n):
    return np.eye(n) - np.ones((n, n)) / n


def distances(n, seed=0, dtype=np.float64):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return np.abs(X[:, None] - X).sum(axis=2).astype(dtype)


def gram(n, seed=0, dtype=np.float64):
    X = np.random.default_rng(seed).normal(size=(n, 4)) + 0.3
    return (X @ X.T / 4 + 1).astype(dtype) ** 2


def computed(K, **options):
    return ComputedKernel(lambda a, b: K[a, b], np.diagonal(K).astype(float), K.dtype, **options)


KINDS = {
    "squares": (distances, CentredSquaredDistances, lambda D: -0.5 * D.astype(float) ** 2),
    "kernel": (gram, HeldKernel, lambda K: K.astype(float)),
    "computed": (gram, computed, lambda K: K.astype(float)),
}


@pytest.fixture
def small_tiles(monkeypatch):
    """Several tiles each way, the last ones ragged."""
    monkeypatch.setattr(centred, "_SIDE", 32)
    monkeypatch.setattr(centred, "_ROWS", 16)
    monkeypatch.setattr(centred, "_COLUMNS", 48)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [1, 2, 3, 70, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_product_trace_means_and_dense_are_those_of_the_formula(kind, n, dtype, small_tiles):
    make, operator, matrix = KINDS[kind]
    source = make(n, dtype=dtype)
    A, J = matrix(source), centring(n)
    B, V = operator(source), np.random.default_rng(1).normal(size=(n, 3)).astype(dtype)
    atol = 20 * n * float(np.finfo(dtype).eps) * max(np.abs(A).max(), 1)
    first, second = B @ V, B @ V  # the first brings the row means along
    assert first.dtype == dtype
    np.testing.assert_allclose(first, J @ A @ J @ V, rtol=0, atol=3 * atol)
    np.testing.assert_allclose(second, first, rtol=0, atol=3 * atol)
    np.testing.assert_allclose(B.row_means, A.mean(axis=1), rtol=0, atol=atol)
    assert B.trace == pytest.approx(np.trace(J @ A @ J), abs=n * atol)
    dense = B.dense()
    np.testing.assert_allclose(dense, J @ A @ J, rtol=0, atol=atol)
    np.testing.assert_array_equal(dense, dense.T)
    assert dense.dtype == np.float64


@pytest.mark.parametrize("kind", KINDS)
def test_row_means_need_no_product_before(kind):
    make, operator, matrix = KINDS[kind]
    source = make(40)
    np.testing.assert_allclose(operator(source).row_means, matrix(source).mean(axis=1))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", KINDS)
def test_top_is_the_algebraic_top_of_the_formula(kind, dtype, small_tiles):
    make, operator, matrix = KINDS[kind]
    source = make(120, dtype=dtype)
    B = centring(120) @ matrix(source) @ centring(120)
    lam = np.linalg.eigvalsh(B)[::-1]
    found = operator(source).top(4)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(found.values, lam[:4], rtol=0, atol=1e3 * eps * lam[0])
    V = found.vectors.astype(float)
    assert np.linalg.norm(B @ V - V * found.values) <= 2e3 * eps * lam[0]
    np.testing.assert_allclose(V.sum(axis=0), 0, atol=1e3 * eps)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_squared_norm_is_the_sum_of_squared_eigenvalues(dtype, small_tiles):
    D = distances(90, dtype=dtype)
    lam = np.linalg.eigvalsh(centring(90) @ (-0.5 * D.astype(float) ** 2) @ centring(90))
    rel = 1e3 * float(np.finfo(dtype).eps)
    assert CentredSquaredDistances(D).squared_norm() == pytest.approx(lam @ lam, rel=rel)


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_any_layout_of_the_distances(order, small_tiles):
    D = distances(70)
    V = np.random.default_rng(1).normal(size=(70, 3))
    given = {"C": D, "F": np.asfortranarray(D), "strided": np.repeat(D, 2, axis=1)[:, ::2]}[order]
    np.testing.assert_allclose(
        CentredSquaredDistances(given) @ V, CentredSquaredDistances(D.copy()) @ V, atol=1e-10
    )


@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_no_bit(kind, small_tiles):
    make, operator, _ = KINDS[kind]
    source = make(200)
    V = np.random.default_rng(1).normal(size=(200, 3))
    one = operator(source, n_jobs=1) @ V
    for n_jobs in (2, 3, None):
        np.testing.assert_array_equal(operator(source, n_jobs=n_jobs) @ V, one)


def test_the_input_is_only_read():
    for kind in ("squares", "kernel"):
        make, operator, _ = KINDS[kind]
        source = make(50)
        source.setflags(write=False)
        operator(source).top(3)


def test_computed_tiles_are_one_half_of_the_matrix(small_tiles):
    K, asked = gram(100), []

    def tile(rows, columns):
        asked.append((rows.start, columns.start))
        return K[rows, columns]

    B = ComputedKernel(tile, np.diagonal(K), K.dtype, n_jobs=1)
    B @ np.ones((100, 1))
    assert len(asked) == 10  # 4 pieces: 4 * 5 / 2 tiles
    assert all(rows <= columns for rows, columns in asked)


def test_equal_distances_have_one_eigenvalue():
    """D = 1 - I is a regular simplex: lam = 1/2, n - 1 times."""
    np.testing.assert_allclose(
        CentredSquaredDistances(1 - np.eye(300)).top(5).values, 0.5, rtol=1e-10
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_equal_distances_have_one_eigenvalue_also_when_they_are_many(dtype):
    D = (1 - np.eye(1000)).astype(dtype)
    np.testing.assert_allclose(
        CentredSquaredDistances(D).top(2).values, 0.5, rtol=1000 * np.finfo(dtype).eps * 10
    )


@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_a_constant_in_the_kernel_does_not_matter(offset):
    """J (K + c 1 1^T) J = J K J, up to the rounding of K + c."""
    X = np.random.default_rng(0).normal(size=(400, 4))
    K = X @ X.T
    lam = np.linalg.eigvalsh(centring(400) @ K @ centring(400))[::-1]
    found = HeldKernel(K + offset).top(3)
    np.testing.assert_allclose(found.values, lam[:3], rtol=1e-13 * offset + 1e-10)


def test_spans_cover_everything_once():
    for n, step in [(0, 5), (1, 5), (5, 5), (6, 5), (23, 7)]:
        covered = [i for part in spans(n, step) for i in range(n)[part]]
        assert covered == list(range(n))
