"""What every layer stands on: warnings, compiled kernels without a cache, what X may be."""

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest

from nearfold import PCA, Isomap, KNeighborsClassifier
from nearfold.errors import InputError, NearfoldWarning, NonFiniteError, hearing, warn
from nearfold.run import map_in_order


def test_a_filter_for_scikit_learns_convergence_warning_catches_ours():
    from sklearn.exceptions import ConvergenceWarning

    from nearfold.errors import NotConvergedWarning

    assert issubclass(NotConvergedWarning, ConvergenceWarning)
    assert issubclass(NotConvergedWarning, NearfoldWarning)


def test_each_thread_hears_its_own_warnings_and_those_of_its_pool(recwarn):
    heard, both = {}, threading.Barrier(2)

    def request(name):
        with hearing() as own:
            both.wait()
            list(map_in_order(warn, [f"{name} {i}" for i in range(3)], n_jobs=2))
            both.wait()
        heard[name] = sorted(str(warning) for warning in own)

    threads = [threading.Thread(target=request, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == {name: [f"{name} {i}" for i in range(3)] for name in ("a", "b")}
    assert len(recwarn) == 0
    with pytest.warns(NearfoldWarning, match="aloud"):
        warn("aloud")


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
