"""What every layer stands on: warnings, compiled kernels without a cache, what X may be."""

import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import polars as pl
import pytest

from nearfold import PCA, Isomap, KNeighborsClassifier
from nearfold.errors import InputError, NearfoldWarning, NonFiniteError


def test_a_filter_for_scikit_learns_convergence_warning_catches_ours():
    from sklearn.exceptions import ConvergenceWarning

    from nearfold.errors import NotConvergedWarning

    assert issubclass(NotConvergedWarning, ConvergenceWarning)
    assert issubclass(NotConvergedWarning, NearfoldWarning)


def test_kernels_compile_where_no_cache_can_be_written():
    code = """
    import numba.core.caching as caching

    def refuse(self, *args, **kwargs):
        raise RuntimeError("cannot cache function 'f': no locator available for file 'f.py'")

    caching.CacheImpl.__init__ = refuse
    import numpy as np
    from nearfold import Isomap

    X = np.random.default_rng(0).normal(size=(1600, 3))
    print(Isomap(n_neighbors=6).fit(X).embedding_.shape)
    """
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == "(1600, 2)", found.stderr


DATES = np.array([["2020-01-01", "2020-01-02"], ["2021-01-01", "2021-01-02"]], dtype="M8[D]")
FRAME = {"a": [1.0, 2.0], "day": DATES[:, 0].astype("M8[ns]")}


@pytest.mark.parametrize(
    "X", [DATES, DATES - DATES[:1], pd.DataFrame(FRAME), pl.DataFrame(FRAME)], ids=lambda X: type(X)
)
@pytest.mark.parametrize("make", [PCA, KNeighborsClassifier, Isomap])
def test_dates_are_not_taken_for_numbers(make, X):
    with pytest.raises(InputError, match="dates"):
        make().fit(X, [0, 1])


def test_masked_cells_have_no_value():
    X = np.ma.masked_array(np.ones((3, 2)), mask=[[0, 0], [0, 1], [0, 0]])
    with pytest.raises(NonFiniteError, match="1 masked cells"):
        PCA().fit(X)
    X.mask = False
    PCA().fit(np.ma.masked_array(np.arange(6.0).reshape(3, 2), mask=False))
