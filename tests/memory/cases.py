"""What is measured: every estimator of the registry x action x shape of the table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_regressor
from sklearn.utils import get_tags

import nearfold
from nearfold.quality import held_out_score, judge_space, trustworthiness
from nearfold.registry import METHODS, find

ACTIONS = (
    "fit",
    "fit_transform",
    "transform",
    "predict",
    "predict_proba",
    "kneighbors",
    "radius_neighbors",
    "score_samples",
    "inverse_transform",
)
_ITERATE = ("MDS", "NeighborhoodComponentsAnalysis", "LMNN", "MLKR")
_NEEDS_CONTINUOUS_TARGET = ("MLKR",)
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "compare": lambda X, y: nearfold.compare(X, y, time_budget=20),
    "compare without y": lambda X, y: nearfold.compare(X, time_budget=20),
    "choose_dimension": lambda X, y: nearfold.choose_dimension(nearfold.PCA(), X, y),
    "choose_neighbors": lambda X, y: nearfold.choose_neighbors(nearfold.Isomap(), X),
    "diagnose": lambda X, y: nearfold.diagnose(X),
    "judge_space": lambda X, y: judge_space(X, X[:, :2]),
    "trustworthiness": lambda X, y: trustworthiness(X, X[:, :2]),
    "held_out_score": lambda X, y: held_out_score(X[::2], y[::2], X[1::2], y[1::2]),
}


@dataclass(frozen=True)
class Shape:
    """A table to work on."""

    n: int
    d: int
    kind: str = "blobs"  # blobs, ties or sparse
    dtype: str = "float32"
    metric: str | None = None  # other than the default


SHAPES = {
    "small": Shape(5_000, 50, dtype="float64"),
    "tall": Shape(200_000, 200),
    "wide": Shape(20_000, 2_000),
    "ties": Shape(20_000, 8, "ties"),
    "sparse": Shape(20_000, 2_000, "sparse"),
    "manhattan": Shape(5_000, 50, dtype="float64", metric="manhattan"),
    "cosine": Shape(5_000, 50, dtype="float64", metric="cosine"),
    "tall-cosine": Shape(200_000, 200, metric="cosine"),
    "wide-cosine": Shape(20_000, 2_000, metric="cosine"),
    "wide-manhattan": Shape(20_000, 2_000, metric="manhattan"),
    # For the test that runs with the suite: as much as fits into a minute.
    "fast": Shape(2_500, 30, dtype="float64"),
    "fast-wide": Shape(6_000, 500),
    "fast-ties": Shape(2_500, 6, "ties"),
    "fast-sparse": Shape(2_500, 1_000, "sparse"),
    "fast-manhattan": Shape(2_500, 20, dtype="float64", metric="manhattan"),
    "fast-cosine": Shape(2_500, 50, metric="cosine"),
}
FAST = tuple(name for name in SHAPES if name.startswith("fast"))


@dataclass(frozen=True)
class Case:
    """One run."""

    estimator: str
    action: str
    shape: str

    def __str__(self) -> str:
        return f"{self.estimator}.{self.action} {self.shape}"


def make_table(shape: Shape, n: int | None = None) -> tuple[Any, np.ndarray]:
    """Rows of ten classes, and the class of each."""
    n = shape.n if n is None else n
    draw = np.random.default_rng(0)
    y = np.arange(n) % 10
    if shape.kind == "sparse":
        X = sparse.random(n, shape.d, 0.01, "csr", np.float32, rng=draw)
        X.data += 0.5
        return X, y
    if shape.kind == "ties":
        return draw.integers(0, 4, (n, shape.d)).astype(shape.dtype), y
    centres = 3 * draw.standard_normal((10, shape.d), dtype=np.float32)
    scale = (1 + np.arange(shape.d, dtype=np.float32)) ** -0.5
    X = np.empty((n, shape.d), dtype=shape.dtype)
    for start in range(0, n, 4096):  # no second table beside X
        part = X[start : start + 4096]
        part[:] = draw.standard_normal(part.shape, dtype=np.float32)
        part += centres[y[start : start + 4096]]
        part *= scale
    return X, y


@lru_cache(maxsize=2)
def cached_table(name: str) -> tuple[Any, np.ndarray]:
    return make_table(SHAPES[name])


def build(case: Case, radius: float) -> Any:
    """The estimator of a case, unfitted."""
    method = find(case.estimator)
    cls, shape = method.load(), SHAPES[case.shape]
    params = dict(method.check_params)
    accepted = inspect.signature(cls).parameters
    if "radius" in accepted and case.estimator.startswith("Radius"):
        params["radius"] = radius
    if shape.metric is not None:
        params["metric"] = shape.metric
    if "random_state" in accepted:
        params["random_state"] = 0
    if case.action == "inverse_transform" and "fit_inverse_transform" in accepted:
        params["fit_inverse_transform"] = True
    if case.estimator in _ITERATE:  # all iterations take the same memory
        params["max_iter"] = 3
    return cls(**params)


def typical_radius(X: Any, metric: str | None) -> float:
    """A radius that some twenty rows lie within, from a sample."""
    from sklearn.metrics import pairwise_distances

    sample = X[: min(1000, X.shape[0])]
    distance = pairwise_distances(sample[:50], sample, metric=metric or "euclidean")
    return float(np.quantile(distance, min(0.5, 20 / X.shape[0] + 1 / sample.shape[0])))


def target_of(model: Any, case: Case, X: Any, y: np.ndarray) -> np.ndarray:
    if is_regressor(model) or case.estimator in _NEEDS_CONTINUOUS_TARGET:
        first = X[:, [0]].toarray() if sparse.issparse(X) else X[:, [0]]
        return np.asarray(first, dtype=np.float64).ravel() + y
    return y


def prepare_and_work(
    case: Case, X: Any, y: np.ndarray
) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """What is done before the peak is reset, and what is measured."""
    if case.estimator in FUNCTIONS:
        return lambda: None, lambda _: FUNCTIONS[case.estimator](X, y)
    radius = typical_radius(X, SHAPES[case.shape].metric)

    def unfitted() -> Any:
        model = build(case, radius)
        return model, target_of(model, case, X, y)

    def fitted() -> Any:
        model, target = unfitted()
        model.fit(X, target)
        if not hasattr(model, case.action):  # only after another fit, such as one to pairs
            raise NotImplementedError(case.action)
        return model, (model.transform(X) if case.action == "inverse_transform" else X)

    if case.action in ("fit", "fit_transform"):
        return unfitted, lambda given: getattr(given[0], case.action)(X, given[1])
    if case.action == "radius_neighbors":
        return fitted, lambda given: given[0].radius_neighbors(given[1], radius=radius)
    return fitted, lambda given: getattr(given[0], case.action)(given[1])


def all_cases(shapes: tuple[str, ...]) -> Iterator[Case]:
    """Every action that an estimator has, on every shape that it takes."""
    for method in METHODS:
        cls = method.load()
        model = cls(**method.check_params)
        for name in shapes:
            shape = SHAPES[name]
            if shape.metric is not None and not _takes_metric(model):
                continue
            if shape.kind == "sparse" and not get_tags(model).input_tags.sparse:
                continue
            for action in ACTIONS:
                if hasattr(cls, action):
                    yield Case(method.name, action, name)
    for function in FUNCTIONS:
        for name in shapes:
            if SHAPES[name].metric is None and SHAPES[name].kind != "sparse":
                yield Case(function, "call", name)


def _takes_metric(model: Any) -> bool:
    name = type(model).__name__
    return "Neighbors" in name or name in ("Isomap", "ClassicalMDS")
