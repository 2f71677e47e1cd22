"""What all tests share: English, and a cache folder of their own."""

import pytest


@pytest.fixture(autouse=True)
def _own_surroundings(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("NEARFOLD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    for name in ("NEARFOLD_LANG", "NEARFOLD_DEBUG"):
        monkeypatch.delenv(name, raising=False)
