"""Estimators fitted on Dask tables against the same fitted in memory, attribute by attribute."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import nearfold
from nearfold import PCA, Covariance, IncrementalPCA, LinearDiscriminantAnalysis
from nearfold.blocks import ArrayRows, DaskRows, MappedRows
from nearfold.errors import InputError, NearfoldWarning, NonFiniteError
from nearfold.metrics.rca import RCA

LDA = LinearDiscriminantAnalysis


def table(n=3000, d=12, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 5
    y = rng.integers(0, 3, n)
    X[:, 0] += y
    return X.astype(dtype), y


def cut_like_blocks(X):
    """A Dask array whose chunks are the blocks of X in memory."""
    lengths = tuple(s.stop - s.start for s in ArrayRows(X).spans(len(X)))
    return da.from_array(X, chunks=(lengths, X.shape[1]))


def public_attributes(estimator):
    return {n: v for n, v in vars(estimator).items() if n.endswith("_") and not n.startswith("_")}


def assert_equal_fits(a, b, rtol=0.0):
    mine, other = public_attributes(a), public_attributes(b)
    assert mine.keys() == other.keys()
    for name, value in mine.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and rtol:
            scale = np.abs(value).max(initial=1e-300)
            np.testing.assert_allclose(other[name] / scale, value / scale, rtol=0, atol=rtol)
        elif isinstance(value, float) and rtol:
            assert other[name] == pytest.approx(value, rel=rtol)
        elif isinstance(value, np.ndarray | float | int | str | type(None)):
            np.testing.assert_array_equal(other[name], value, err_msg=name)


FITS = {
    "PCA": (lambda: PCA(3), False),
    "PCA of a share": (lambda: PCA(0.8), False),
    "PCA by factors": (lambda: PCA(3, svd_solver="full"), False),
    "IncrementalPCA": (lambda: IncrementalPCA(3), False),
    "Covariance": (lambda: Covariance(), False),
    "RCA": (lambda: RCA(n_components=2), True),
    "LDA": (lambda: LDA(), True),
    "LDA, eigen": (lambda: LDA(solver="eigen", shrinkage=0.1), True),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FITS)
def test_fits_cut_alike_have_the_same_bits(name, dtype):
    make, labelled = FITS[name]
    X, y = table(80_000, 80, dtype)  # several blocks
    dX = cut_like_blocks(X)
    assert dX.numblocks[0] > 1
    if labelled:
        assert_equal_fits(make().fit(X, y), make().fit(dX, da.from_array(y, chunks=999)))
    else:
        assert_equal_fits(make().fit(X), make().fit(dX))


@pytest.mark.parametrize("name", FITS)
def test_two_workers_have_the_bits_of_threads(name, client):
    make, labelled = FITS[name]
    X, y = table()
    dX = da.from_array(X, chunks=(700, 12))
    more = (da.from_array(y, chunks=400),) if labelled else ()
    here = make().fit(X, *((y,) if labelled else ()))
    there = make().fit(dX, *more)
    assert_equal_fits(here, there, rtol=1e-10)
    with nearfold_threads():
        assert_equal_fits(make().fit(dX, *more), there)


def nearfold_threads():
    import dask

    return dask.config.set(scheduler="threads")


def test_a_model_fitted_on_a_cluster_is_saved_and_loaded(client, tmp_path):
    X, y = table()
    model = LDA().fit(da.from_array(X, chunks=(800, 12)), da.from_array(y, chunks=800))
    nearfold.save(model, tmp_path / "m.nearfold")
    again = nearfold.load(tmp_path / "m.nearfold")
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


def frame_of(X, y):
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    return frame.assign(label=np.array(["a", "b", "c"])[y])


def test_a_frame_with_its_label_column():
    X, y = table()
    frame = frame_of(X, y)
    here = LDA().fit(frame.drop(columns="label"), frame["label"])
    lazy = dd.from_pandas(frame, npartitions=4)
    assert_equal_fits(here, LDA().fit(lazy, "label"), rtol=1e-10)
    there = LDA().fit(lazy.drop(columns="label"), lazy["label"])
    assert_equal_fits(here, there, rtol=1e-10)
    np.testing.assert_array_equal(there.feature_names_in_, here.feature_names_in_)


def test_a_frame_with_text_is_refused():
    X, y = table()
    frame = frame_of(X, y)
    frame["label"] = frame["label"].astype("category")
    with pytest.raises(InputError, match="not numeric"):
        PCA(2).fit(dd.from_pandas(frame, npartitions=3))


def test_weights_cut_otherwise():
    X, _ = table()
    w = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    here = PCA(3).fit(X, sample_weight=w)
    dX = da.from_array(X, chunks=(700, 12))
    for weights in (w, da.from_array(w, chunks=333), dd.from_pandas(pd.Series(w), npartitions=5)):
        assert_equal_fits(here, PCA(3).fit(dX, sample_weight=weights), rtol=1e-10)
    with pytest.raises(InputError, match="negative"):
        PCA(3).fit(dX, sample_weight=da.from_array(-w, chunks=333))


def test_unknown_sizes_and_empty_parts_are_counted():
    X, y = table()
    dX = da.from_array(X, chunks=(500, 12))
    keep = (X[:, 0] > 5) & (np.arange(len(X)) >= 500)  # the first part is empty
    lazy = dX[da.from_array(keep, chunks=500)]
    assert np.isnan(lazy.shape[0])
    rows = DaskRows(lazy)
    assert rows.n_rows == keep.sum()
    assert len(rows.parts) == 5
    assert_equal_fits(PCA(3).fit(X[keep]), PCA(3).fit(lazy), rtol=1e-10)
    labels = da.from_array(y, chunks=500)[da.from_array(keep, chunks=500)]
    assert_equal_fits(LDA().fit(X[keep], y[keep]), LDA().fit(lazy, labels), rtol=1e-10)


def test_chunks_of_columns_are_joined_and_it_is_said():
    X, _ = table()
    with pytest.warns(NearfoldWarning, match="2 chunks of columns"):
        found = PCA(3).fit(da.from_array(X, chunks=(700, 6)))
    assert_equal_fits(PCA(3).fit(X), found, rtol=1e-10)


def test_sparse_blocks():
    X, _ = table()
    X[np.abs(X - 5) < 2] = 0
    dX = da.from_array(X, chunks=(700, 12)).map_blocks(sparse.csr_array)
    here, there = PCA(3).fit(X), PCA(3).fit(dX)
    np.testing.assert_allclose(there.components_, here.components_, atol=1e-10)


def test_labels_of_another_length_are_refused():
    X, y = table()
    dX = da.from_array(X, chunks=(700, 12))
    for labels in (y[:-1], da.from_array(y[:-1], chunks=500)):
        with pytest.raises(InputError, match=r"2,?999 entries for 3,?000 rows"):
            LDA().fit(dX, labels)


def test_nan_is_named_by_its_row():
    X, _ = table()
    X[2222, 3] = np.nan
    with pytest.raises(NonFiniteError, match=r"first rows: \[2222\]"):
        PCA(3).fit(da.from_array(X, chunks=(700, 12)))


def test_a_learner_that_needs_all_rows_says_what_to_do():
    X, y = table(60)
    dX = da.from_array(X, chunks=(20, 12))
    for name in ("MDS", "LMNN", "LFDA"):
        with pytest.raises(InputError, match=r"nearfold\.sample"):
            getattr(nearfold, name)().fit(dX, y)


def test_rows_are_never_brought_here(client):
    rows = DaskRows(da.from_array(table()[0], chunks=(700, 12)))
    for bring in (rows.to_array, lambda: np.asarray(rows), lambda: list(rows.blocks())):
        with pytest.raises(InputError, match="not brought into the memory"):
            bring()


def test_some_rows_and_narrow_results_come_here(client):
    X, _ = table()
    rows = DaskRows(da.from_array(X, chunks=(700, 12)))
    some = np.array([2999, 5, 700, 5])
    np.testing.assert_array_equal(rows.take(some), X[some])
    narrow = MappedRows(rows, first_columns, 2, X.dtype)
    np.testing.assert_array_equal(narrow.to_array(), X[:, :2])


def first_columns(block):
    return block.X[:, :2]


def test_what_compares_all_rows_refuses_a_dask_table():
    X, y = table(60)
    dX = da.from_array(X, chunks=(20, 12))
    refused = (
        lambda: nearfold.diagnose(dX),
        lambda: PCA(2).fit(X, sample_weight=None).inverse_transform(dX[:, :2, None]),
        lambda: nearfold.choose_dimension(dX),
        lambda: nearfold.compare(dX, y),
    )
    for call in refused:
        with pytest.raises((InputError, TypeError)):
            call()
