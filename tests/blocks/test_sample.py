"""Rows drawn at random: the same ones however the table is cut."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import nearfold
from nearfold.errors import InputError


def table(n=5000):
    return np.column_stack([np.arange(n), np.arange(n) % 7]).astype(float)


def test_the_same_rows_however_the_table_is_cut(tmp_path):
    X = table()
    drawn = nearfold.sample(X, 100)
    assert drawn.shape == (100, 2)
    assert (np.diff(drawn[:, 0]) > 0).all()
    for chunks in ((999, 2), (5000, 2), (17, 2)):
        found = nearfold.sample(da.from_array(X, chunks=chunks), 100)
        np.testing.assert_array_equal(found, drawn)
    frame = pd.DataFrame(X, columns=["a", "b"])
    np.testing.assert_array_equal(nearfold.sample(frame, 100), drawn)
    np.testing.assert_array_equal(nearfold.sample(dd.from_pandas(frame, npartitions=3), 100), drawn)
    frame.to_parquet(tmp_path / "t.parquet")
    np.testing.assert_array_equal(nearfold.sample(tmp_path / "t.parquet", 100), drawn)


def test_targets_come_along():
    X = table()
    for y in (X[:, 1], da.from_array(X[:, 1], chunks=333)):
        given = X if isinstance(y, np.ndarray) else da.from_array(X, chunks=(700, 2))
        drawn, target = nearfold.sample(given, 50, y)
        np.testing.assert_array_equal(target, drawn[:, 1])
    frame = pd.DataFrame(X, columns=["a", "b"])
    drawn, target = nearfold.sample(frame, 50, "b")
    np.testing.assert_array_equal(target, drawn[:, 0] % 7)


def test_all_rows_where_there_are_fewer_and_other_seeds():
    X = table(20)
    np.testing.assert_array_equal(nearfold.sample(X, 100), X)
    assert not np.array_equal(nearfold.sample(table(), 9), nearfold.sample(table(), 9, None, 1))
    with pytest.raises(InputError, match="at least one row"):
        nearfold.sample(X, 0)


def test_every_row_is_equally_likely():
    """Counts of 2,000 draws of 20 out of 100: chi-square with 99 degrees of freedom."""
    X = table(100)
    counts = np.zeros(100)
    for seed in range(2000):
        counts[nearfold.sample(X, 20, random_state=seed)[:, 0].astype(int)] += 1
    chi = ((counts - 400) ** 2 / 400).sum() / 0.8  # without replacement the variance is 0.8
    assert 60 < chi < 145
