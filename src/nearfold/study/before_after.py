"""Judge a space by the learner in it (end of section 10.2): kNN before and after a reduction.

Each space is fitted on training rows alone; held-out rows are transformed, never fitted on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfold.methods.knn import KNeighborsClassifier
from nearfold.notation import Array, Floats


@dataclass(frozen=True)
class SpaceResult:
    """How a kNN learner does in one space, on held-out rows."""

    name: str
    n_dimensions: int
    accuracy: float
    error_of_accuracy: float  # one standard error
    fit_seconds: float
    predict_seconds: float
    Z: Floats  # the held-out rows in this space


def standard_error(accuracy: float, n: int) -> float:
    """Of a share of n independent trials (Agresti and Coull's n + 4, so that 100 % is not sure)."""
    share = (accuracy * n + 2) / (n + 4)
    return float(np.sqrt(share * (1 - share) / (n + 4)))


def compare_before_after(
    spaces: dict[str, Any], train: tuple[Array, Array], held_out: tuple[Array, Array], k: int = 5
) -> list[SpaceResult]:
    """Score a k-nearest-neighbour classifier in each space; None stands for the original one."""
    X, y = train
    Q, truth = held_out
    results = []
    for name, space in spaces.items():
        started = time.perf_counter()
        Z = X if space is None else space.fit_transform(X, y)
        learner = KNeighborsClassifier(n_neighbors=k).fit(Z, y)
        fitted = time.perf_counter()
        projected = Q if space is None else space.transform(Q)
        accuracy = float(np.mean(learner.predict(projected) == truth))
        ended = time.perf_counter()
        results.append(
            SpaceResult(
                name=name,
                n_dimensions=Z.shape[1],
                accuracy=accuracy,
                error_of_accuracy=standard_error(accuracy, len(truth)),
                fit_seconds=fitted - started,
                predict_seconds=ended - fitted,
                Z=np.asarray(projected, dtype=np.float64),
            )
        )
    return results
