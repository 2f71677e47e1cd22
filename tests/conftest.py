"""What all tests share: English, and a cache folder of their own."""

import os

import pytest

# Tables of tests are small: waking threads for them takes longer than the work.
os.environ.setdefault("POLARS_MAX_THREADS", "1")


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("NEARFOLD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    for name in ("NEARFOLD_LANG", "NEARFOLD_DEBUG"):
        monkeypatch.delenv(name, raising=False)
