"""Whether objects are what their classes say they hold, when a model file is written and read.

Parameters are checked by scikit-learn's own constraints (`_parameter_constraints`), everything
else by the description of the class (nearfold.state). Reading, the objects are shells at this
point: instances that have their attributes and on which nothing has been called.
"""

from __future__ import annotations

import re
from inspect import signature
from typing import Any

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

from nearfold.state import (
    StateError,
    check_object,
    comparing,
    fields_of,
    params_of,
    require,
)
from nearfold.store.sklearn_composites import check_composition, check_part

BEHAVIOUR = ("n_jobs", "verbose", "memory")  # of a process, not of a model: not in files
_CALLED = ("dtype", "func", "inverse_func", "score_func", "weights")  # what may be functions
_VERSION = re.compile(r"[0-9A-Za-z.+]{1,30}")
_OUTPUTS = {"default", "pandas", "polars"}


def default_behaviour(cls: type[Any]) -> dict[str, Any]:
    """The defaults of those parameters of a constructor that are behaviour."""
    parameters = signature(cls.__init__).parameters
    return {name: parameters[name].default for name in BEHAVIOUR if name in parameters}


def check_objects(objects: list[Any], *, stored: bool = True) -> None:
    """Check all objects of a model, each after those that it holds; the last is the model.

    `stored`: as they are in a file, where behaviour has its default values.
    """
    with comparing(stored=stored) as compared:
        # Estimators first: what they hold may have sizes and row numbers that only they know.
        for value in sorted(objects, key=lambda value: not hasattr(value, "fit")):
            try:
                _check_params(value, stored)
                _check_marks(value)
                if value is objects[-1]:
                    check_part(value, {})
                elif id(value) not in compared and (fields_of(value) or not hasattr(value, "fit")):
                    check_object(value, {})
            except (StateError, InvalidParameterError) as error:
                raise StateError(f"{type(value).__name__}.{error}") from None
            except Exception as error:
                # Descriptions look at values that may be anything: what they stumble over is wrong.
                what = f"{type(value).__name__}: {type(error).__name__}: {error}"
                raise StateError(what) from error


def _check_params(value: Any, stored: bool) -> None:
    params, held = params_of(value), vars(value)
    for name, default in default_behaviour(type(value)).items() if stored else ():
        require(held.get(name, default) == default, f"{name} is not kept in files")
    if not params:
        return
    require(set(params) <= set(held), f"{min(set(params) - set(held), default='')} is missing")
    for name, param in params.items():
        plain = not isinstance(param, type) and (
            hasattr(param, "get_params") or not callable(param)
        )
        require(plain or name in _CALLED, f"{name}: a function or a type")
    constraints = getattr(type(value), "_parameter_constraints", None)
    if constraints:
        for name, param in params.items():
            # scikit-learn takes True for the number 1; what computes with it may not.
            if isinstance(param, bool | np.bool_) and name in constraints:
                allowed = re.search("bool|verbose|no_validation", str(constraints[name]))
                require(allowed is not None, f"{name}: a truth value")
        validate_parameter_constraints(constraints, params, type(value).__name__)
    check_composition(value)


def _check_marks(value: Any) -> None:
    """What scikit-learn adds to every estimator."""
    held = vars(value)
    version, output = held.get("_sklearn_version", "0"), held.get("_sklearn_output_config", {})
    require(
        isinstance(version, str) and _VERSION.fullmatch(version) is not None, "_sklearn_version"
    )
    known = isinstance(output, dict) and set(output) <= {"transform"}
    require(known and set(output.values()) <= _OUTPUTS, "_sklearn_output_config")
