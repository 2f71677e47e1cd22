"""NCA on Dask tables against NCA in memory: the same batches, so the same bits."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pytest

import nearfold
import nearfold.metrics.nca as module
from nearfold import NCA
from nearfold.errors import InputError, MemoryBudgetError, NonFiniteError
from tests.cluster.test_faults import DEATHS, deadly
from tests.cluster.test_faults import mortal as mortal
from tests.cluster.test_fits import assert_equal_fits, cut_like_blocks, frame_of, table

SMALL = {"batch_size": 100, "n_epochs": 3, "n_candidates": 300, "random_state": 0}

# What a dying worker leaves open, Dask's event loop complains of when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def short_passes(monkeypatch):
    """Passes of 1,000 rows, so that a table of 3,000 is a long one."""
    monkeypatch.setattr(module, "_PASS", 1000)


def labelled(y, cut=999):
    return da.from_array(y, chunks=cut)


@pytest.mark.parametrize("solver", ["auto", "lbfgs", "stochastic"])
def test_a_table_of_one_pass_has_the_bits_of_memory(solver):
    X, y = table()
    here = NCA(2, solver=solver, **SMALL).fit(X, y)
    there = NCA(2, solver=solver, **SMALL).fit(da.from_array(X, chunks=(700, 12)), labelled(y))
    assert_equal_fits(here, there)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("init", ["pca", "lda", "identity"])
def test_blocks_cut_alike_have_the_same_bits(short_passes, init, dtype):
    X, y = table(80_000, 80, dtype)  # several blocks
    dX = cut_like_blocks(X)
    assert dX.numblocks[0] > 1
    options = {"init": init, "solver": "stochastic", **SMALL, "trace_penalty": 0.01}
    here = NCA(2, **options).fit(X, y)
    assert here.approximation_.startswith("3 passes of 1,000 rows")
    assert_equal_fits(here, NCA(2, **options).fit(dX, labelled(y, 33_333)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_cut_otherwise_and_two_workers(short_passes, client, dtype):
    X, y = table(dtype=dtype)
    here = NCA(2, solver="stochastic", **SMALL).fit(X, y)
    dX = da.from_array(X, chunks=((700, 0, 1, 1299, 1000), 12))
    there = NCA(2, solver="stochastic", **SMALL).fit(dX, labelled(y))
    assert there.components_.dtype == dtype
    assert_equal_fits(here, there)
    with dask.config.set(scheduler="threads"):
        assert_equal_fits(NCA(2, solver="stochastic", **SMALL).fit(dX, labelled(y)), there)


def test_the_order_of_rows_changes_nothing(short_passes):
    X, y = table()
    X[::7] = -0.0
    mixed = np.random.default_rng(1).permutation(len(X))
    fits = [NCA(2, solver="stochastic", **SMALL).fit(X[o], y[o])
            for o in (np.arange(len(X)), mixed)]  # fmt: skip
    assert_equal_fits(*fits)


def test_a_frame_of_unknown_sizes_with_its_label_column(short_passes, tmp_path):
    X, y = table()
    frame = frame_of(X, y)
    lazy = dd.from_pandas(frame, npartitions=4)
    lazy = lazy[lazy["c0"] > 4]
    kept = frame[frame["c0"] > 4]
    here = NCA(2, solver="stochastic", **SMALL).fit(kept.drop(columns="label"), kept["label"])
    there = NCA(2, **SMALL).fit(lazy, "label")  # "auto" takes batches
    assert_equal_fits(here, there)
    nearfold.save(there, tmp_path / "m.nearfold")
    again, features = nearfold.load(tmp_path / "m.nearfold"), kept.drop(columns="label")
    np.testing.assert_array_equal(again.transform(features), there.transform(features))
    Z = there.transform(lazy.drop(columns="label"))
    np.testing.assert_allclose(Z.compute(), there.transform(features), rtol=1e-12)


@pytest.mark.parametrize("how", DEATHS)
def test_outlives_a_worker(how, mortal, short_passes, tmp_path):
    """One dies as rows of the second pass are taken."""
    X, y = table(2400, 6)
    options = {"init": "identity", "solver": "stochastic", **SMALL}
    expected = NCA(2, **options).fit(da.from_array(X, chunks=(400, 6)), y)
    marker = tmp_path / "died"
    marker.touch()  # not yet
    calls = []

    def call(L, epoch):
        calls.append(epoch)
        if calls[-2:] == [module._FIRST_STEPS, 1]:  # steps on the sample, then the first pass
            marker.unlink()

    found = NCA(2, callback=call, **options).fit(deadly(X, how, marker), y)
    assert marker.exists()
    assert_equal_fits(expected, found)


def test_what_is_refused(short_passes):
    X, y = table()
    dX = da.from_array(X, chunks=(700, 12))
    with pytest.raises(InputError, match=r"more than 1,000 rows.*stochastic"):
        NCA(2, solver="lbfgs").fit(dX, y)
    for labels in (y[:-1], labelled(y[:-1])):
        with pytest.raises(InputError, match=r"2,?999 entries for 3,?000 rows"):
            NCA(2).fit(dX, labels)
    with pytest.raises(InputError, match="at least two classes"):
        NCA(2).fit(dX, np.zeros(3000, dtype=int))
    with pytest.raises(InputError, match=r"nearfold\.sample"):
        NCA(2, preprocessor=X).fit(dX, y)


@pytest.mark.parametrize("most", [1000, 10_000])
def test_nan_is_named_by_its_row(monkeypatch, most):
    monkeypatch.setattr(module, "_PASS", most)
    X, y = table()
    X[2222, 3] = np.nan
    with pytest.raises(NonFiniteError, match=r"first rows: \[2222\]"):
        NCA(2, init="identity").fit(da.from_array(X, chunks=(700, 12)), y)


def test_rows_of_a_pass_must_fit_the_budget():
    X = da.random.random((90_000, 500), chunks=(9_000, 500))  # 360 MB
    nearfold.set_memory("100MB")
    try:
        with pytest.raises(MemoryBudgetError, match="90,000 rows"):
            NCA(2).fit(X, np.arange(90_000) % 2)
    finally:
        nearfold.set_memory(None)
