"""What the parameters and the fitted attributes that metric learners share may be.

For `_parameter_constraints` (lists of allowed kinds) and `fitted_state` (checks by name).
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from nearfold.state import Sizes, flag, labels, list_of, number, optional, require, text

Allowed = list[Any]

COUNT: Allowed = [Interval(Integral, 1, None, closed="left")]
POSITIVE: Allowed = [Interval(Real, 0, None, closed="neither")]
NON_NEGATIVE: Allowed = [Interval(Real, 0, None, closed="left")]
SHARE: Allowed = [Interval(Real, 0, 1, closed="both")]
MAX_SAMPLES: Allowed = [Interval(Integral, 2, None, closed="left"), None]
PREPROCESSOR: Allowed = ["array-like", callable, None]
# The rank to which a metric is cut: a number, or the share of the trace of M to keep.
RANK: Allowed = [
    Interval(Integral, 1, None, closed="left"),
    Interval(RealNotInt, 0, 1, closed="right"),
    None,
]
PRIOR: Allowed = [StrOptions({"identity", "covariance", "random"}), "array-like"]
INITIAL_MAP: Allowed = [
    StrOptions({"auto", "pca", "lda", "identity", "random"}),
    np.ndarray,
]
COMMON: dict[str, Allowed] = {"preprocessor": PREPROCESSOR}
TUPLES: dict[str, Allowed] = {
    **COMMON,
    "verbose": ["verbose"],
    "random_state": ["random_state"],
    "rank": RANK,
}
DRAWN: dict[str, Allowed] = {**TUPLES, "n_constraints": [*COUNT, None]}

# Fitted attributes. Some may be infinite, none may be NaN, which is not above -inf.
_NOT_NAN = number(float("-inf"), finite=False)
ITERATED: dict[str, Any] = {
    "objective_": _NOT_NAN,
    "n_iter_": number(0, whole=True),
    "converged_": flag(),
}
RECORDED: dict[str, Any] = {**ITERATED, "history_": list_of(_NOT_NAN)}
ENDED: dict[str, Any] = {**RECORDED, "end_": text()}
SAMPLED: dict[str, Any] = {"approximation_": optional(text())}
CLASSES: dict[str, Any] = {"classes_": labels("c")}
FROM_TUPLES: dict[str, Any] = {**CLASSES, "learned_from_labels_": flag()}
FROM_PAIRS: dict[str, Any] = {**FROM_TUPLES, "threshold_": _NOT_NAN}


def random_source(value: Any, sizes: Sizes) -> None:
    """Check that a fitted attribute is a source of random numbers."""
    require(isinstance(value, np.random.RandomState), "not a RandomState")
