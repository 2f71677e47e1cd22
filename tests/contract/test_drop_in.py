"""Same names as scikit-learn: constructor parameters, defaults and fitted attributes."""

import inspect
import subprocess
import sys
import warnings

import numpy as np
import pytest
import sklearn.decomposition
import sklearn.discriminant_analysis
import sklearn.manifold
import sklearn.neighbors
from sklearn.base import clone
from sklearn.datasets import load_iris

import nearfold
from nearfold.registry import METHODS

THEIRS = {
    name: getattr(module, name)
    for module in (
        sklearn.neighbors,
        sklearn.decomposition,
        sklearn.discriminant_analysis,
        sklearn.manifold,
    )
    for name in (method.name for method in METHODS)
    if hasattr(module, name)
}
OURS = {method.name: method.load() for method in METHODS if method.name in THEIRS}
X, y = load_iris(return_X_y=True)


def test_every_method_has_a_counterpart():
    """Metric learners have theirs in metric-learn: tests/metrics/test_contract.py."""
    others = {method.name for method in METHODS if method.kind != "metric"}
    assert set(THEIRS) == others | {"NeighborhoodComponentsAnalysis"}


@pytest.mark.parametrize("name", OURS)
def test_constructor_has_the_same_parameters_and_new_ones_are_keyword_only(name):
    theirs = inspect.signature(THEIRS[name]).parameters
    ours = inspect.signature(OURS[name]).parameters
    for parameter in theirs.values():
        assert ours[parameter.name].default == parameter.default
        assert ours[parameter.name].kind == parameter.kind
    for parameter in set(ours) - set(theirs):
        assert ours[parameter].kind == inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("name", OURS)
def test_fitted_attributes_and_methods_are_all_there(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = THEIRS[name]().fit(X, y), OURS[name]().fit(X, y)
    public = [
        name
        for name in dir(theirs)
        if not name.startswith("_") and (name.endswith("_") or callable(getattr(theirs, name)))
    ]
    assert [name for name in public if not hasattr(ours, name)] == []


@pytest.mark.parametrize("name", ["PCA", "IncrementalPCA", "LinearDiscriminantAnalysis"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transform_is_row_wise_and_keeps_the_dtype(name, dtype):
    model = OURS[name]().fit(X.astype(dtype), y)
    Z = model.transform(X.astype(dtype))
    alone = np.vstack([model.transform(row[None]) for row in X.astype(dtype)])
    assert Z.dtype == dtype
    np.testing.assert_allclose(Z, alone, rtol=0, atol=40 * np.finfo(dtype).eps * np.abs(X).max())


@pytest.mark.parametrize("name", ["PCA", "IncrementalPCA", "LinearDiscriminantAnalysis"])
@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_frames_in_and_out(name, frame):
    pytest.importorskip(frame)
    make = __import__(frame).DataFrame
    names = [f"f{i}" for i in range(4)]
    table = make(dict(zip(names, X.T, strict=True)))
    model = OURS[name](n_components=2).set_output(transform=frame).fit(table, y)
    Z = model.transform(table)
    assert list(Z.columns) == [f"{name.lower()}{i}" for i in range(2)]
    assert list(model.feature_names_in_) == names
    expected = OURS[name](n_components=2).fit(X, y).transform(X)
    np.testing.assert_allclose(Z.to_numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("name", OURS)
def test_clone_and_repr(name):
    model = OURS[name]()
    assert clone(model).get_params() == model.get_params()
    assert repr(model) == f"{name}()"


def test_public_names_load_and_are_listed():
    for name in nearfold.__all__:
        assert getattr(nearfold, name) is not None
        assert name in dir(nearfold)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        nearfold.Nothing


def test_import_is_light():
    """`import nearfold` and the help text load none of the heavy libraries."""
    code = (
        "import sys, nearfold, nearfold.app.cli;"
        "heavy = {'sklearn', 'numba', 'polars', 'matplotlib', 'scipy'} & set(sys.modules);"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_small_problems_never_wait_for_the_compiler():
    code = (
        "import sys, numpy as np;"
        "from nearfold import KNeighborsClassifier, LocallyLinearEmbedding, PCA;"
        "X = np.random.default_rng(0).normal(size=(3000, 20)); y = (X[:, 0] > 0).astype(int);"
        "KNeighborsClassifier().fit(PCA(15).fit_transform(X), y).predict(PCA(15).fit_transform(X));"
        "LocallyLinearEmbedding(n_neighbors=5).fit(X);"
        "sys.exit('numba was loaded' if 'numba' in sys.modules else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
