"""Measures of spaces on Dask tables: the values of the same tables in memory."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import nearfold
from nearfold.quality import continuity, held_out_score, trustworthiness
from nearfold.errors import BlockError, InputError, MemoryBudgetError, NonFiniteError
from tests.cluster.test_faults import unreadable
from tests.cluster.test_fits import table


def halves(dtype=np.float64):
    X, y = table(1200, dtype=dtype)
    return X[:800, :3], y[:800], X[800:, :3], y[800:]


def chunked(values, cut):
    return da.from_array(values, chunks=(cut, *values.shape[1:]))


def assert_equal_scores(found, expected):
    for name, value in vars(expected).items():
        np.testing.assert_array_equal(getattr(found, name), value, err_msg=name)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_held_out_score(task, dtype, client):
    train, y, test, truth = halves(dtype)
    here = held_out_score(train, y, test, truth, task=task)
    cuts = (300, 0, 500), (150, 250)
    far = chunked(train, cuts[0]), chunked(y, 333), chunked(test, cuts[1]), chunked(truth, 100)
    assert_equal_scores(held_out_score(*far, task=task), here)
    assert_equal_scores(held_out_score(train, y, *far[2:], task=task), here)
    assert_equal_scores(held_out_score(*far[:2], test, truth, task=task), here)


def test_the_held_out_score_of_frames_of_unknown_sizes():
    train, y, test, truth = halves()
    names = np.array(["a", "b", "long"])
    there = pd.DataFrame(test, columns=list("abc")).assign(label=names[truth])
    there, kept = dd.from_pandas(there, npartitions=3), test[:, 0] > 5
    there = there[there["a"] > 5]
    here = held_out_score(train, names[y], test[kept], names[truth][kept])
    found = held_out_score(
        pd.DataFrame(train, columns=list("abc")), names[y], there[list("abc")], there["label"]
    )
    assert_equal_scores(found, here)


def test_targets_of_another_length_are_refused():
    train, y, test, truth = halves()
    with pytest.raises(InputError, match="one target per row"):
        held_out_score(train, y, chunked(test, 100), chunked(truth[:-1], 100))
