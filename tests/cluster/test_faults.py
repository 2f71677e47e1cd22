"""Workers that die, blocks that cannot be read, work that is cancelled."""

import ctypes
import os
import signal
import time

import dask.array as da
import numpy as np
import pytest

from nearfold import PCA, ClassicalMDS, Isomap, NearestNeighbors
from nearfold.errors import BlockError, Cancelled
from nearfold.run import progress

# What a dying worker leaves open, Dask's event loop complains of when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore")

DEATHS = {
    "exit": lambda: os._exit(1),
    "segfault": lambda: ctypes.string_at(0),
    "SIGKILL": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def table(n=2400, d=6):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d))


def die(block, block_info=None, how="exit", marker=None):
    """Ends the worker that reads block 2: the first time, or each time where there is no marker."""
    if block_info[None]["chunk-location"][0] == 2 and (marker is None or not marker.exists()):
        if marker is not None:
            marker.touch()
        DEATHS[how]()
    return block


def deadly(X, how, marker=None):
    dX = da.from_array(X, chunks=(400, X.shape[1]))
    return dX.map_blocks(die, how=how, marker=marker, dtype=X.dtype, meta=X[:0])


@pytest.fixture
def mortal():
    """A cluster of its own, whose workers may die."""
    import dask
    from distributed import Client, LocalCluster

    patient = {"distributed.comm.timeouts.connect": "60s", "distributed.comm.timeouts.tcp": "60s"}
    with dask.config.set(patient):
        cluster = LocalCluster(
            2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=60
        )
        with cluster, Client(cluster, timeout="60s") as client:
            yield client


@pytest.mark.parametrize("how", DEATHS)
def test_a_fit_outlives_a_worker(how, mortal, tmp_path):
    X = table()
    expected = PCA(3).fit(da.from_array(X, chunks=(400, 6)))
    found = PCA(3).fit(deadly(X, how, tmp_path / "died"))
    assert (tmp_path / "died").exists()
    np.testing.assert_array_equal(found.components_, expected.components_)
    np.testing.assert_array_equal(found.explained_variance_, expected.explained_variance_)


def test_a_search_outlives_a_worker(mortal, tmp_path):
    """One dies while indexes are built, another after: theirs are built again elsewhere."""
    X = table()
    expected = NearestNeighbors(n_neighbors=4).fit(X).kneighbors(X[:100])
    search = NearestNeighbors(n_neighbors=4).fit(deadly(X, "SIGKILL", tmp_path / "died"))
    np.testing.assert_array_equal(search.kneighbors(X[:100])[1], expected[1])
    mortal.restart_workers(list(mortal.scheduler_info(n_workers=-1)["workers"])[:1])
    np.testing.assert_array_equal(search.kneighbors(X[:100])[1], expected[1])


def test_a_block_that_kills_every_worker_is_named(mortal):
    with pytest.raises(BlockError, match=r"rows 800 to 1199 \(block 2\).*every worker"):
        PCA(3).fit(deadly(table(), "exit"))


def unreadable(block, block_info=None):
    if block_info[None]["chunk-location"][0] == 3:
        raise OSError("disk on fire")
    return block


@pytest.mark.parametrize("place", ["threads", "cluster"])
def test_a_block_that_cannot_be_read_is_named(place, request):
    if place == "cluster":
        request.getfixturevalue("client")
    X = table()
    dX = da.from_array(X, chunks=(400, 6)).map_blocks(unreadable, dtype=X.dtype, meta=X[:0])
    for model in (PCA(3), NearestNeighbors(), Isomap(n_landmarks=20), ClassicalMDS(n_landmarks=20)):
        with pytest.raises(BlockError, match=r"rows 1200 to 1599 \(block 3\).*disk on fire"):
            model.fit(dX)


def slowly(block, folder):
    time.sleep(0.3)
    (folder / str(time.monotonic_ns())).touch()
    return block


def test_cancel_stops_the_work_there(client, tmp_path):
    X = table()
    dX = da.from_array(X, chunks=(50, 6)).map_blocks(slowly, tmp_path, dtype=X.dtype, meta=X[:0])

    def stop(label, done, total):
        raise Cancelled("enough")

    with pytest.raises(Cancelled), progress(stop):
        PCA(3).fit(dX)
    time.sleep(1.0)
    begun = len(list(tmp_path.iterdir()))
    time.sleep(1.0)
    assert len(list(tmp_path.iterdir())) == begun < 48
