"""KernelPCA on Dask tables, by a factor whose rows stay there, against the same in memory."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest
from scipy import sparse

import nearfold
from nearfold import KernelPCA
from nearfold.errors import (
    ApproximationWarning,
    BlockError,
    InputError,
    MemoryBudgetError,
    NonFiniteError,
)
from tests.cluster.test_faults import unreadable
from tests.cluster.test_fits import assert_equal_fits, cut_like_blocks, frame_of, table

KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.002},
    "poly": {"kernel": "poly", "degree": 2, "gamma": 0.002},
    "cosine": {"kernel": "cosine"},
    "linear": {"kernel": "linear"},
}


def cauchy(a, b):
    return 1.0 / (1.0 + 0.01 * ((a - b) ** 2).sum())


def model(kernel="rbf", **options):
    given = {**KERNELS.get(kernel, {}), "low_rank": 150, "random_state": 0, **options}
    if kernel == "function":
        given["kernel"] = cauchy
    return KernelPCA(3, **given)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "cosine", "linear"])
def test_blocks_cut_alike_have_the_same_bits(kernel, dtype):
    X, _ = table(80_000, 80, dtype)  # several blocks
    dX = cut_like_blocks(X)
    assert dX.numblocks[0] > 1
    here = model(kernel, low_rank=140).fit(X)
    assert here.route_ == "low rank"
    assert here.rank_ > 70
    assert_equal_fits(here, model(kernel, low_rank=140).fit(dX))


@pytest.mark.parametrize(("dtype", "close"), [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_blocks_cut_otherwise_and_two_workers(client, dtype, close, tmp_path):
    X, _ = table(2000, dtype=dtype)
    X -= 5
    dX = da.from_array(X, chunks=((700, 0, 1, 299, 1000), 12))
    here, there = model().fit(X), model().fit(dX)
    assert there.eigenvectors_.dtype == dtype
    assert_equal_fits(here, there, rtol=close)
    with dask.config.set(scheduler="threads"):
        assert_equal_fits(model().fit(dX), there)
    Z = there.transform(dX).compute()
    np.testing.assert_allclose(Z, there.transform(X), atol=100 * close)
    nearfold.save(there, tmp_path / "m.nearfold")
    again = nearfold.load(tmp_path / "m.nearfold")
    np.testing.assert_array_equal(again.transform(X), there.transform(X))


def test_a_share_of_the_trace():
    X, _ = table(1500, 3)
    here, there = (model(low_rank=0.01).fit(rows) for rows in (X, da.from_array(X, chunks=400)))
    assert 0.001 < there.trace_left_ < 0.01
    assert_equal_fits(here, there, rtol=1e-10)


def test_a_function_is_a_kernel():
    X, _ = table(60)
    dX = da.from_array(X, chunks=(25, 12))
    here, there = (model("function", low_rank=20).fit(table) for table in (X, dX))
    assert_equal_fits(here, there, rtol=1e-10)


def test_the_linear_kernel_is_pca():
    X, _ = table(2000)
    dX = da.from_array(X, chunks=(700, 12))
    here, there = KernelPCA(3).fit(X), KernelPCA(3).fit(dX)
    assert here.route_ == there.route_ == "principal"
    assert not hasattr(there, "X_fit_")  # the rows stay where they are
    del here.X_fit_
    assert_equal_fits(here, there, rtol=1e-10)
    np.testing.assert_allclose(there.transform(dX).compute(), here.transform(X), atol=1e-10)


def test_low_rank_is_said(client):
    X, _ = table(500)
    with pytest.warns(ApproximationWarning, match="500 rows on a cluster"):
        found = KernelPCA(2, **KERNELS["rbf"], random_state=0).fit(da.from_array(X, chunks=200))
    assert found.trace_left_ <= 1.1e-3
    assert "memory budget" not in found.approximation_


def test_a_factor_in_this_process_must_fit_its_budget(client):
    dX = da.from_array(table(20_000)[0] - 5, chunks=5000)
    nearfold.set_memory("64MB")
    try:
        assert model(low_rank=500).fit(dX).rank_ == 500  # 80 MB, on the workers
        with dask.config.set(scheduler="threads"), pytest.raises(MemoryBudgetError, match="500"):
            model(low_rank=500).fit(dX)
    finally:
        nearfold.set_memory(None)


def test_frames_of_unknown_sizes():
    X, y = table(900)
    frame = frame_of(X - 5, y).drop(columns="label")
    lazy = dd.from_pandas(frame, npartitions=4)
    here = model().fit(frame[frame["c0"] > 0])
    there = model().fit(lazy[lazy["c0"] > 0])
    assert_equal_fits(here, there, rtol=1e-10)
    np.testing.assert_array_equal(there.feature_names_in_, here.feature_names_in_)


def test_sparse_blocks():
    X, _ = table(900)
    X[np.abs(X - 5) < 3] = 0
    dX = da.from_array(X, chunks=(300, 12))
    assert_equal_fits(model().fit(X), model().fit(dX.map_blocks(sparse.csr_array)), rtol=1e-10)


def test_equal_rows_have_no_axes():
    X = np.full((90, 4), 2.5)
    here, there = (model(low_rank=9).fit(table) for table in (X, da.from_array(X, chunks=(40, 4))))
    assert_equal_fits(here, there)
    assert not there.eigenvalues_.any()


@pytest.mark.parametrize(
    "options", [{"kernel": "precomputed"}, {"low_rank": "never"}, {"fit_inverse_transform": True}]
)
def test_what_needs_all_rows_is_refused(options):
    X, _ = table(60)
    with pytest.raises(InputError, match=r"nearfold\.sample"):
        KernelPCA(2, **{"kernel": "rbf", **options}).fit(da.from_array(X, chunks=(20, 12)))


def test_faults_are_named():
    X, _ = table(2400, 6)
    dX = da.from_array(X, chunks=(400, 6))
    with pytest.raises(BlockError, match=r"rows 1200 to 1599 \(block 3\).*disk on fire"):
        model().fit(dX.map_blocks(unreadable, dtype=X.dtype, meta=X[:0]))
    X[2222, 3] = np.nan
    with pytest.raises(NonFiniteError, match=r"first rows: \[2222\]"):
        model().fit(da.from_array(X, chunks=(400, 6)))


def test_what_comes_here_must_fit_the_budget():
    X = da.random.random((400_000, 4), chunks=(100_000, 4))
    nearfold.set_memory("64MB")
    try:
        with pytest.raises(MemoryBudgetError, match="factor"):
            KernelPCA(5, kernel="rbf", low_rank=20).fit(X)
    finally:
        nearfold.set_memory(None)
