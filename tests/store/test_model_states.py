"""What a class says it holds is checked when a model is saved and before it is built."""

import copy

import numpy as np
import pytest
from forge_files import Parts, places
from forge_models import BASES, base, run
from scipy import sparse
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import nearfold
from nearfold.errors import InputError
from nearfold.registry import METHODS
from nearfold.state import state_of
from nearfold.store.model_allowlist import SKLEARN
from nearfold.store.model_file import ModelFileError, load, save

X = np.random.RandomState(0).normal(size=(40, 4))
Y = np.arange(40) % 2


def test_nine_hundred_forged_files_are_refused_or_work():
    counts, failures = run(0, 900, seed=1)
    assert [failure for failure in failures if failure[3].isupper()] == []
    assert counts["refused"] > 500
    assert counts["works"] > 150
    assert counts["clear error"] < 15


def test_every_class_that_may_be_in_a_file_is_forged():
    trees = [Parts(base(name)[0]).tree for name in BASES]
    forged = {c[k]["class"] for tree in trees for c, k in places({"tree": tree}, "object")}
    own = {f"nearfold.{method.name}" for method in METHODS}
    theirs = {f"{module}.{name}" for module in SKLEARN for name in SKLEARN[module].split()}
    assert (own | theirs) - forged == set()


def test_a_model_that_does_not_fit_its_description_is_not_saved(tmp_path):
    model = nearfold.PCA(2).fit(X)
    broken = copy.deepcopy(model)
    broken.mean_ = broken.mean_[:3]
    with pytest.raises(InputError, match=r"PCA\.\w+: size"):
        save(broken, tmp_path / "m.nearfold")
    broken = copy.deepcopy(model)
    broken.note_ = "mine"
    with pytest.raises(InputError, match=r"PCA\.fields: unknown \['note_'\]"):
        save(broken, tmp_path / "m.nearfold")
    broken = copy.deepcopy(model)
    del broken.components_
    with pytest.raises(InputError, match="components_"):
        save(broken, tmp_path / "m.nearfold")
    broken = copy.deepcopy(model)
    broken.whiten = "perhaps"
    with pytest.raises(InputError, match="whiten"):
        save(broken, tmp_path / "m.nearfold")
    assert list(tmp_path.iterdir()) == []


def test_steps_of_a_pipeline_fit_each_other(tmp_path):
    pipeline = make_pipeline(StandardScaler(), nearfold.PCA(2), nearfold.NearestNeighbors()).fit(X)
    other = nearfold.PCA(3).fit(X)
    mixed = Pipeline([*pipeline.steps[:1], ("pca", other), pipeline.steps[2]])
    with pytest.raises(InputError, match=r"step nearestneighbors: .*d"):
        save(mixed, tmp_path / "m.nearfold")
    codes = np.column_stack([Y, Y])
    sparse_steps = [("codes", OneHotEncoder().fit(codes)), ("scale", StandardScaler().fit(X))]
    with pytest.raises(InputError, match="takes no sparse matrix"):
        save(Pipeline(sparse_steps), tmp_path / "m.nearfold")
    unfitted = Pipeline([pipeline.steps[0], ("pca", nearfold.PCA(2))])
    with pytest.raises(InputError):
        save(unfitted, tmp_path / "m.nearfold")


def test_behaviour_does_not_travel(tmp_path):
    model = Pipeline(
        [("scale", StandardScaler()), ("knn", nearfold.KNeighborsClassifier(n_jobs=2))],
        memory=str(tmp_path / "cache"),
        verbose=True,
    ).fit(X, Y)
    path = save(model, tmp_path / "m.nearfold")
    again = load(path)
    assert (again.memory, again.verbose, again[1].n_jobs) == (None, False, None)
    assert model.memory is not None  # the saved model keeps its own
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert b"cache" not in path.read_bytes()
    parts = Parts(path.read_bytes())
    for name, value in (("memory", "/tmp/x"), ("verbose", True)):
        forged = copy.deepcopy(parts)
        forged.manifest["tree"]["state"][name] = value
        path.write_bytes(forged.pack())
        with pytest.raises(ModelFileError, match=f"{name} is not kept in files"):
            load(path)


def test_the_description_is_in_the_file_and_not_believed(tmp_path):
    path = save(nearfold.PCA(2).fit(X), tmp_path / "m.nearfold")
    parts = Parts(path.read_bytes())
    assert parts.manifest["states"]["nearfold.PCA"]["components_"].startswith("f (k, d)")
    parts.manifest["states"] = {}
    parts.tree["state"]["note_"] = 1
    path.write_bytes(parts.pack())
    with pytest.raises(ModelFileError, match="note_"):
        load(path)


def test_nothing_is_called_before_the_whole_model_is_checked(tmp_path, monkeypatch):
    model = make_pipeline(nearfold.PCA(2), StandardScaler()).fit(X)
    path = save(model, tmp_path / "m.nearfold")
    parts = Parts(path.read_bytes())
    scaler = parts.tree["state"]["steps"]["items"][1]["items"][1]
    parts.set_array(scaler["state"]["scale_"], np.array([1.0, np.nan]))
    path.write_bytes(parts.pack())
    called = []
    monkeypatch.setattr(
        nearfold.PCA, "__setstate__", lambda self, state: called.append(state), raising=False
    )
    with pytest.raises(ModelFileError, match="scale_"):
        load(path)
    assert called == []


@pytest.mark.parametrize("thing", [None, 5, object()])
def test_what_is_no_path_or_no_model_is_said(thing, tmp_path):
    with pytest.raises(InputError, match="not an estimator"):
        save(thing, tmp_path / "m.nearfold")
    with pytest.raises(InputError, match="path"):
        save(nearfold.PCA(2).fit(X), thing)
    with pytest.raises(InputError, match="path"):
        load(thing)


def test_every_class_that_may_be_saved_is_described():
    for method in METHODS:
        for name in method.names:
            assert "fitted_state" in dir(method.load(name)), name
            assert getattr(method.load(name), "_parameter_constraints", None), name


def test_every_class_of_scikit_learn_on_the_list_is_described():
    from nearfold.store import model_allowlist as listed

    allowed = listed.AllowList()
    for module, names in listed.SKLEARN.items():
        for name in names.split():
            assert state_of(allowed.find(f"{module}.{name}")) is not None, name


def test_negative_counts_of_a_sparse_matrix_are_seen(tmp_path):
    """SciPy's own check passes them over, and its loops would then read before the arrays."""
    rows = sparse.csr_array(np.maximum(X, 0))
    path = save(nearfold.NearestNeighbors(metric="cosine").fit(rows), tmp_path / "m.nearfold")
    parts = Parts(path.read_bytes())
    node = parts.tree["state"]["index_"]["state"]["X"]
    parts.set_array(node["indptr"], -parts.arrays[node["indptr"]["tensor"]])
    path.write_bytes(parts.pack())
    with pytest.raises(ModelFileError, match="sparse matrix"):
        load(path)


def test_room_for_more_in_a_sparse_matrix_is_not_stored(tmp_path):
    rows = sparse.csr_array(np.maximum(X, 0))
    rows.data, rows.indices = np.append(rows.data, 7.0), np.append(rows.indices, 0)
    model = nearfold.NearestNeighbors(metric="cosine").fit(rows)
    again = load(save(model, tmp_path / "m.nearfold"))
    np.testing.assert_array_equal(again.index_.X.toarray(), np.maximum(X, 0))


def test_a_cache_that_is_never_stored_is_refused(tmp_path):
    """`__getstate__` of a shell is not asked: it would leave out what must not be there."""
    path = save(nearfold.IncrementalPCA(2).partial_fit(X), tmp_path / "m.nearfold")
    parts = Parts(path.read_bytes())
    parts.tree["state"]["_buffer"] = {"kind": "list", "items": []}
    path.write_bytes(parts.pack())
    with pytest.raises(ModelFileError, match="_buffer"):
        load(path)
