"""What may be in a model file: the one list of classes, functions and types that a file can name.

A file names things by the words of this list. A name that is not in it is refused; no module is
ever imported because a file asks for it. At saving, what is not in the list is refused too, so that
a file that was written can be read.

Nearfold's own: the methods of the registry (as "nearfold.PCA", wherever they live), the classes of
objects that these hold by their own description (`fitted_state`), and the preparation of tables.
scikit-learn's: plain preprocessors, and what puts them together.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from nearfold import registry
from nearfold.state import state_of

_OTHERS = (
    "nearfold.columns.preparation.TablePreparation",
    "nearfold.metric_learn.NCA",  # with metric-learn's defaults; its other classes are methods
)
SKLEARN = {
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


def _spelled(table: dict[str, str]) -> dict[str, str]:
    """Full name -> module, from module -> names."""
    return {f"{module}.{name}": module for module, names in table.items() for name in names.split()}


_SKLEARN_HOME = _spelled(SKLEARN)
_FUNCTION_HOME = _spelled(_FUNCTIONS)


class AllowList:
    """The classes that one model may hold; grows by what each class in it holds."""

    def __init__(self) -> None:
        self._held: dict[str, type[Any]] = {}

    def name(self, cls: type[Any]) -> str | None:
        """The name of a class in the list, or None."""
        for name in (f"nearfold.{cls.__name__}", f"{cls.__module__}.{cls.__qualname__}"):
            if self.find(name) is cls:
                return name
        for name in _SKLEARN_HOME:
            if name.endswith(f".{cls.__name__}") and self.find(name) is cls:
                return name
        return None

    def find(self, name: str) -> type[Any] | None:
        """The class of that name, or None if it is not in the list."""
        cls = self._held.get(name) or _find(name)
        if cls is not None:
            self._add_held(cls)
        return cls

    def _add_held(self, cls: type[Any]) -> None:
        state = state_of(cls)
        for part in () if state is None else state.classes():
            name = f"{part.__module__}.{part.__qualname__}"
            if part.__module__.startswith("nearfold.") and name not in self._held:
                self._held[name] = part
                self._add_held(part)


def _find(name: str) -> type[Any] | None:
    for method in registry.METHODS:
        if name in (f"nearfold.{known}" for known in method.names):
            return method.load(name.removeprefix("nearfold."))
    module, _, last = name.rpartition(".")
    if name in _SKLEARN_HOME:
        from nearfold.store.sklearn_composites import describe_sklearn

        describe_sklearn()
    elif name not in _OTHERS:
        return None
    cls: type[Any] = getattr(import_module(module), last)
    return cls


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
