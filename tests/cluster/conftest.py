"""A cluster of two worker processes of one thread, on this machine only, for all tests here."""

import warnings
from contextlib import contextmanager

import dask
import pytest


@pytest.fixture(scope="session")
def cluster():
    from distributed import LocalCluster

    quiet = {"distributed.comm.timeouts.connect": "60s", "logging.distributed": "critical"}
    with dask.config.set(quiet), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with LocalCluster(
            2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit="1GB"
        ) as running:
            yield running


@pytest.fixture
def client(cluster):
    from distributed import Client

    with Client(cluster) as connected:
        yield connected


def _refuse(*args, **named):
    raise AssertionError("something was computed")


@pytest.fixture
def forbidden():
    """A context within which nothing may be computed."""

    @contextmanager
    def context():
        with dask.config.set(scheduler=_refuse):
            yield

    return context
