"""What a stored metric and the rows under it must be, so that distances are numbers."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import PAIRWISE_DISTANCE_FUNCTIONS
from sklearn.neighbors import VALID_METRICS, VALID_METRICS_SPARSE, BallTree, KDTree

from nearfold.neighbors.distances import effective_metric
from nearfold.state import Check, Sizes, array, number, require

_LARGEST = 1e100


def _square_form(least: float) -> Check:
    """A matrix whose quadratic form is not negative: eigenvalues from `least` of the largest on."""

    def check(value: Any, sizes: Sizes) -> None:
        array("d d", symmetric=True, most=_LARGEST)(value, sizes)
        lam = np.linalg.eigvalsh(value)
        require(bool(lam[0] >= least * lam[-1]), "a matrix with negative eigenvalues or no inverse")

    return check


_WEIGHTS = array("d", "number", least=0, most=_LARGEST)
_POWER = {"p": number(least=0, finite=False), "w": _WEIGHTS}
_TAKES: dict[str, dict[str, Check]] = {
    "seuclidean": {"V": array("d", "number", above=1e-290)},
    "mahalanobis": {"V": _square_form(1e-15), "VI": _square_form(-1e-12)},
    "minkowski": _POWER,
    "wminkowski": _POWER,
}
_METRICS = set(chain(*VALID_METRICS.values())) - {"pyfunc"}


def check_metric_name(metric: Any, params: dict[str, Any] | None, sizes: Sizes) -> None:
    """A metric that has a name, with parameters that it takes and that fit the d columns."""
    require(isinstance(metric, str) and metric in _METRICS, "metric: not the name of one")
    require(metric != "haversine" or sizes["d"] == 2, "metric: haversine is of two columns")
    plain = {} if metric in PAIRWISE_DISTANCE_FUNCTIONS else {"w": _WEIGHTS}
    taken = _TAKES.get(metric, plain)
    given = {name: value for name, value in (params or {}).items() if value is not None}
    for name, value in given.items():
        require(name in taken, f"metric_params: {metric} takes no {name!r}")
        taken[name](np.asarray(value) if isinstance(value, list) else value, sizes)


def check_metric_rows(values: dict[str, Any], sizes: Sizes) -> None:
    """Rows among which the metric of a stored index gives numbers."""
    metric = values["metric"]
    check_metric_name(metric, values["metric_params"], sizes)
    require(metric != "precomputed", "metric: distances are another index")
    X = values["X"].data if sparse.issparse(values["X"]) else values["X"]
    low, high = (np.nanmin, np.nanmax) if metric == "nan_euclidean" else (np.min, np.max)
    largest = max(-float(low(X)), float(high(X))) if X.size else 0.0
    require(largest < _LARGEST, "X: values that are not finite, or whose cubes overflow")
    if sparse.issparse(values["X"]):
        measured, _ = effective_metric(metric, values["p"], values["metric_params"])
        require(measured in VALID_METRICS_SPARSE["brute"], "metric: not for sparse rows")
    trees = {"kd_tree": KDTree, "ball_tree": BallTree}
    if values["algorithm"] in trees and not sparse.issparse(values["X"]):
        valid = trees[values["algorithm"]].valid_metrics
        require(metric in valid, f"metric: not for algorithm={values['algorithm']!r}")
    if metric == "haversine":  # beyond the poles its root is that of a negative number
        require(np.abs(values["X"][:, 0]).max(initial=0) <= np.pi / 2, "X: latitudes beyond pi/2")
    p = (values["metric_params"] or {}).get("p", values["p"])
    weighted = (values["metric_params"] or {}).get("w") is not None
    require(not weighted or p is None or np.isfinite(p), "p: weights need a finite one")
    if p is not None and np.isfinite(p):
        require(p > 0, "p: not above 0")
        require(float(p) * np.log(2 * largest + 2) < 700, "p: powers that overflow")
        root = np.log(2 * largest + 2) + np.log(sizes["d"]) / float(p)
        require(metric != "minkowski" or root < 700, "p: roots that overflow")
