"""One entry of the registry makes a method public everywhere."""

import ast
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

import nearfold
from nearfold import public_names, registry
from nearfold.columns.cells import cells_of_array
from nearfold.messages import catalogue
from nearfold.registry import Method, Space
from nearfold.state import State, array, nested, size
from nearfold.study.candidates import all_candidates, pick_candidates
from nearfold.study.choose import nests
from nearfold.study.question import Question, Task

HOME = Path(nearfold.__file__).parent
X = np.random.default_rng(0).normal(size=(60, 3)) * [3, 2, 1]


class Origin:
    """What the toy holds: an object of a class of its own."""

    fitted_state = State(mean=array("d"))

    def __init__(self, mean):
        self.mean = mean


class Toy(TransformerMixin, BaseEstimator):
    """The first columns, centred."""

    fitted_state = State(n_features_in_=size("d", 1), origin_=nested(Origin, d="d"))

    def __init__(self, n_components=None):
        self.n_components = n_components

    def fit(self, X, y=None):
        X = validate_data(self, X, dtype=np.float64)
        self.origin_ = Origin(X.mean(axis=0))
        return self

    def transform(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return (X - self.origin_.mean)[:, : self.n_components]


@pytest.fixture
def _toy(monkeypatch):
    module = types.ModuleType("nearfold.methods.toy")
    for cls in (Toy, Origin):
        monkeypatch.setattr(cls, "__module__", module.__name__)
        setattr(module, cls.__name__, cls)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = Method("Toy", "methods.toy", "reduction", "10.0", "the first columns", nests=True,
                   space=Space(0, lambda s: {"n_components": s.axes}))  # fmt: skip
    monkeypatch.setattr(registry, "METHODS", (*registry.METHODS, entry))


@pytest.mark.usefixtures("_toy")
def test_one_entry_is_found_everywhere(tmp_path):
    assert nearfold.Toy is Toy
    assert "Toy" in nearfold.__all__
    assert "Toy" in dir(nearfold)
    assert "from nearfold.methods.toy import Toy as Toy" in public_names.stub()
    assert (
        "| `Toy` | reduction | 10.0 | the first columns | as Toy |" in public_names.methods_table()
    )
    from nearfold.app.cli import main

    listed = json.loads(CliRunner().invoke(main, ["methods", "--json"]).output)
    assert "Toy" in {method["name"] for method in listed}
    assert CliRunner().invoke(main, ["methods"]).exit_code == 0
    cells = cells_of_array(X)
    names = [c.name for c in all_candidates(cells, Task.CLASSIFICATION)]
    assert names[2] == "Toy"  # rank 0: right after raw and scaled
    chosen = pick_candidates(Question(methods=["toy"]), cells, Task.CLASSIFICATION)
    assert "Toy" in {c.name for c in chosen}
    assert nests(Toy())
    from nearfold.app.methods_by_name import make_method

    assert make_method("toy", ("n_components=2",)).n_components == 2


@pytest.mark.usefixtures("_toy")
def test_one_entry_may_be_compared_and_saved(tmp_path):
    y = (X[:, 0] > 0).astype(int)
    found = nearfold.compare(X, y, methods=["Toy"], n_repeats=1)
    assert found.result("Toy").status == "finished"
    model = Toy(2).fit(X)
    path = nearfold.save(model, tmp_path / "toy.nearfold")
    np.testing.assert_array_equal(nearfold.load(path).transform(X), model.transform(X))
    assert nearfold.inspect(path).model == "nearfold.Toy"


@pytest.mark.usefixtures("_toy")
def test_one_entry_is_in_the_contract_tests():
    from nearfold.registry import instances_to_check

    (toy,) = [model for model in instances_to_check() if type(model) is Toy]
    results = check_estimator(toy, on_fail=None, on_skip=None)
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []


def test_without_the_entry_the_toy_is_nowhere(tmp_path):
    with pytest.raises(AttributeError, match="no attribute 'Toy'"):
        nearfold.Toy
    with pytest.raises(nearfold.errors.InputError, match="which a model file cannot hold"):
        nearfold.save(Toy().fit(X), tmp_path / "toy.nearfold")


def test_written_files_are_what_the_registry_says():
    written = {
        HOME / "__init__.pyi": public_names.stub(),
        Path(__file__).parents[2] / "docs" / "methods.md": public_names.methods_table(),
    }
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, "run python -m nearfold.public_names"


def test_summaries_in_the_catalogue_are_those_of_the_registry():
    for method in registry.METHODS:
        assert catalogue("en")[f"summary.{method.name}"] == method.summary


def test_type_checkers_read_the_names_in_the_stub():
    """mypy (make check) proves that the stub's imports exist; this, that no name is missing."""
    tree = ast.parse((HOME / "__init__.pyi").read_text(encoding="utf-8"))
    imported = {
        alias.asname: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(imported) == set(nearfold.__all__)
    for name in nearfold.__all__:
        public = getattr(nearfold, name)
        assert getattr(sys.modules[imported[name]], name) is public
    assert (HOME / "py.typed").exists()


def test_entries_name_what_there_is():
    names = [name for method in registry.METHODS for name in method.names]
    assert len(set(names)) == len(names)
    ranks = [method.space.rank for method in registry.METHODS if method.space]
    assert len(set(ranks)) == len(ranks)
    for method in registry.METHODS:
        for name in method.names:
            assert method.load(name).__name__ == name
        if method.tells_shares:
            assert method.nests
