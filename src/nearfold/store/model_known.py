"""What may be in a model file: the one list of classes, functions and types that a file can name.

A file names things by the words of this list. A name that is not in it is refused; no module is
ever imported because a file asks for it. At saving, what is not in the list is refused too, so that
a file that was written can be read.

Nearfold's own: the methods of the registry (as "nearfold.PCA", wherever they live) and the classes
of the modules below, which fitted methods hold. scikit-learn's: plain preprocessors, and what
puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from nearfold.registry import METHODS

_OUR_MODULES = (
    "nearfold.linalg.moments",
    "nearfold.linalg.principal",
    "nearfold.linalg.gower",
    "nearfold.methods.isomap_extension",
    "nearfold.methods.kernel_functions",
    "nearfold.metrics.mmc",
    "nearfold.metrics.nca",  # the class NCA, a shorter name that is not in the registry
    "nearfold.neighbors.exact",
    "nearfold.neighbors.learned",
    "nearfold.store.preparation",
    "nearfold.store.schema",
)
_SKLEARN = {
    "sklearn.compose": "ColumnTransformer TransformedTargetRegressor make_column_selector",
    "sklearn.covariance": "EmpiricalCovariance LedoitWolf OAS ShrunkCovariance",
    "sklearn.decomposition": "TruncatedSVD",
    "sklearn.feature_selection": "SelectKBest SelectPercentile VarianceThreshold",
    "sklearn.impute": "MissingIndicator SimpleImputer",
    "sklearn.pipeline": "FeatureUnion Pipeline",
    "sklearn.preprocessing": "Binarizer FunctionTransformer KBinsDiscretizer LabelEncoder "
    "MaxAbsScaler MinMaxScaler Normalizer OneHotEncoder OrdinalEncoder PolynomialFeatures "
    "PowerTransformer QuantileTransformer RobustScaler StandardScaler",
}
_FUNCTIONS = {
    "sklearn.feature_selection": "chi2 f_classif f_regression mutual_info_classif "
    "mutual_info_regression",
    "numpy": "abs arcsinh cbrt exp exp2 expm1 log log10 log1p log2 negative reciprocal sign sinh "
    "sqrt square tanh",
}
_TYPES: dict[str, type[Any]] = {
    **{kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, object)},
    **{
        f"numpy.{np.dtype(code).name}": np.dtype(code).type
        for code in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
    },
}
_OUR_METHODS = {f"nearfold.{method.name}": method for method in METHODS}


def _spelled(table: dict[str, str]) -> dict[str, str]:
    """Full name -> module, from module -> names."""
    return {f"{module}.{name}": module for module, names in table.items() for name in names.split()}


_SKLEARN_HOME = _spelled(_SKLEARN)
_FUNCTION_HOME = _spelled(_FUNCTIONS)


def class_name(cls: type[Any]) -> str | None:
    """The name of a class in the list, or None."""
    for name in (f"nearfold.{cls.__name__}", f"{cls.__module__}.{cls.__qualname__}"):
        if find_class(name) is cls:
            return name
    for name in _SKLEARN_HOME:
        if name.endswith(f".{cls.__name__}") and find_class(name) is cls:
            return name
    return None


@lru_cache(maxsize=256)
def find_class(name: str) -> type[Any] | None:
    """The class of that name, or None if it is not in the list."""
    if name in _OUR_METHODS:
        return _OUR_METHODS[name].load()
    module, _, last = name.rpartition(".")
    if name in _SKLEARN_HOME:
        cls: type[Any] = getattr(import_module(module), last)
        return cls
    if module not in _OUR_MODULES:
        return None
    found = vars(import_module(module)).get(last)
    # Defined there, not only imported there: the list would be wider than it reads otherwise.
    return found if isinstance(found, type) and found.__module__ == module else None


def function_name(function: Any) -> str | None:
    """The name of a function in the list, or None."""
    last = getattr(function, "__name__", None)
    for name in _FUNCTION_HOME:
        shown = name.rpartition(".")[2]
        # np.abs calls itself "absolute"
        if (shown == last or name.startswith("numpy.")) and find_function(name) is function:
            return name
    return None


def find_function(name: str) -> Callable[..., Any] | None:
    """The function of that name, or None if it is not in the list."""
    if name not in _FUNCTION_HOME:
        return None
    function: Callable[..., Any] = getattr(
        import_module(_FUNCTION_HOME[name]), name.rpartition(".")[2]
    )
    return function


def type_name(kind: Any) -> str | None:
    """The name of a number type in the list, or None."""
    return next((name for name, known in _TYPES.items() if known is kind), None)


def find_type(name: str) -> type[Any] | None:
    """The number type of that name, or None if it is not in the list."""
    return _TYPES.get(name)
