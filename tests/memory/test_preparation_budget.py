"""Preparing a table takes the array it gives, once, and blocks beside it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.memory.measure import can_measure, peak_above, reset_peak

from nearfold.columns.cells import read_cells
from nearfold.columns.preparation import TablePreparation
from nearfold.columns.schema import infer_schema

ROWS, COLUMNS = 20_000, 300
BLOCKS = 40 * 2**20  # of a million cells, a few at a time: less than a second array
RNG = np.random.default_rng(0)
FLOATS = RNG.normal(size=(ROWS, COLUMNS))
PIXELS = RNG.integers(0, 256, (ROWS, 4 * COLUMNS), dtype=np.uint8)
NAMES = [f"c{j}" for j in range(4 * COLUMNS)]


def frames(X):
    yield pl.DataFrame({name: X[:, j] for j, name in enumerate(NAMES[: X.shape[1]])})
    yield pd.DataFrame(X, columns=NAMES[: X.shape[1]])


def peak(work):
    base = reset_peak()
    work()
    return peak_above(base)


@pytest.mark.skipif(not can_measure(), reason="the peak of memory can be reset on Linux only")
@pytest.mark.parametrize("X", [FLOATS, PIXELS], ids=["float64", "uint8"])
@pytest.mark.parametrize("numbers", ["raw", "scale", "range"])
def test_the_array_is_made_once(X, numbers):
    own = X.size * (8 if X.dtype == np.float64 else 4)
    for frame in frames(X):
        TablePreparation(numbers=numbers).fit(frame[:50])  # imports
        specs = [column.spec() for column in infer_schema(frame).features()]
        copied = X.nbytes if isinstance(frame, pd.DataFrame) else 0  # as columns
        assert peak(lambda: read_cells(frame, specs)) < own + copied + BLOCKS  # noqa: B023
        cells = read_cells(frame, specs)
        model = TablePreparation(numbers=numbers)
        assert peak(lambda: model.fit_cells(cells, None, specs)) < own + BLOCKS  # noqa: B023
        assert peak(lambda: model.encode(cells)) < own + BLOCKS  # noqa: B023
