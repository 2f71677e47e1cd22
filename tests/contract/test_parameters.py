"""Values that a parameter cannot have are refused, scikit-learn's and those of the examples."""

import numpy as np
import pytest
import sklearn.decomposition
import sklearn.discriminant_analysis
import sklearn.manifold
import sklearn.neighbors
from sklearn.utils._param_validation import (
    InvalidParameterError,
    generate_invalid_param_val,
    make_constraint,
)

from nearfold import (
    LMNN,
    NCA,
    PCA,
    IncrementalPCA,
    KernelPCA,
    KNeighborsClassifier,
    LinearDiscriminantAnalysis,
    SCML_Supervised,
)
from nearfold.registry import METHODS

X = np.random.default_rng(0).normal(size=(40, 4))
y = np.arange(40) % 3
MODULES = (
    sklearn.decomposition,
    sklearn.discriminant_analysis,
    sklearn.manifold,
    sklearn.neighbors,
)


class Nonsense:
    """A value of no known type."""


def wrong_values(constraints):
    if constraints == "no_validation":
        return
    allowed = [make_constraint(one) for one in constraints]
    yield Nonsense()
    for one in allowed:
        try:
            value = generate_invalid_param_val(one)
        except NotImplementedError:  # every value of the type is allowed
            continue
        if not any(other.is_satisfied_by(value) for other in allowed):
            yield value


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_wrong_values_are_refused(method):
    ours = method.load()
    names = ours._get_param_names()
    assert set(names) <= set(ours._parameter_constraints)
    theirs = [getattr(module, method.name, None) for module in MODULES]
    for cls in filter(None, [ours, *theirs]):
        for name, constraints in cls._parameter_constraints.items():
            for value in wrong_values(constraints) if name in names else ():
                with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter of"):
                    ours(**{**method.check_params, name: value}).fit(X, y)


@pytest.mark.parametrize(
    "model",
    [
        KNeighborsClassifier(0),
        KNeighborsClassifier(-7),
        KNeighborsClassifier(weights="foo"),
        PCA(whiten="no"),
        NCA(max_iter=0),
        NCA(batch_size=0),
        LMNN(max_iter=-3),
        KernelPCA(kernel="rbf", gamma=-1),
        LinearDiscriminantAnalysis(n_components=-7),
        IncrementalPCA(batch_size=-5),
        SCML_Supervised(batch_size=2.5),
        SCML_Supervised(n_basis=5.5),
    ],
    ids=repr,
)
def test_nonsense_is_refused(model):
    with pytest.raises(InvalidParameterError):
        model.fit(X, y)


def test_fewer_rows_than_axes_in_the_first_batch():
    model = IncrementalPCA(5)
    with pytest.raises(ValueError, match="for the first partial_fit call"):
        model.partial_fit(X[:3, [0, 1, 2, 3, 0, 1]])
    assert not hasattr(model, "components_")
