"""What the documentation promises runs."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import nearfold
from nearfold.registry import METHODS

ROOT = Path(__file__).parents[2]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_the_algorithm_shown_to_contributors_is_one(tmp_path, monkeypatch):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    (tmp_path / "shown_algorithm.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    Centring = importlib.import_module("shown_algorithm").Centring
    X = np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(Centring().fit_transform(X).mean(axis=0), 0)
    assert all(r["status"] != "failed" for r in check_estimator(Centring(), on_fail=None))


def test_the_readme_imports_what_exists():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for line in re.findall(r"from nearfold import ([\w, ]+)", text):
        for name in line.split(","):
            assert hasattr(nearfold, name.strip())


def test_every_method_is_public_and_the_version_is_one():
    assert {method.name for method in METHODS} <= set(nearfold.__all__)
    assert f"version: {nearfold.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {nearfold.__version__}" in (ROOT / "CHANGELOG.md").read_text()
