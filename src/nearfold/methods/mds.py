"""Multidimensional scaling by majorisation (SMACOF), metric and non-metric.

The book's MDS keeps inner products (classical_mds.py); this one keeps the distances themselves: it
minimises the stress, sum over i < j of (|z_i - z_j| - D_ij)^2.

Symbols: D (m, m) dissimilarities, Z (m, d') coordinates, d_ij = |z_i - z_j|, D^ disparities.

Steps
  1. a start: classical MDS, or random
  2. non-metric only: the disparities D^, the monotone function of D closest to d (isotonic
     regression; equal dissimilarities stay equal), scaled to mean square 1
  3. the Guttman transform: z_i <- 1/m sum_j D_ij / d_ij (z_i - z_j), the minimum of a quadratic
     that lies above the stress and touches it at Z: the stress never rises
  4. again from 2, until it falls by less than eps x sum d^2, or max_iter times
  5. a new row: the same step for it alone, the others fixed; a row that is one of them, its place

`stress_` is that of the coordinates returned; of a non-metric fit, with the disparities fitted to
them. A dissimilarity of zero is a dissimilarity (scikit-learn's non-metric MDS takes it for a
missing value). init="warn", scikit-learn's default of the moment, means classical MDS, as its own
next version will.

Cost: m^2 d' per iteration, D held once. Beyond the memory budget, or with `n_landmarks`: MDS of
landmarks spread by max-min, and the other rows placed as new ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from nearfold.blocks import get_memory, show_bytes, spans
from nearfold.errors import ApproximationWarning, InputError, NotConvergedWarning, warn
from nearfold.inputs import check_distances, check_table, refuse_extreme, refuse_nonfinite
from nearfold.linalg.centred import HeldSquares
from nearfold.methods.landmark_mds import (
    affordable_landmarks,
    positive_pairs,
    spread_landmarks,
    spread_over_table,
)
from nearfold.neighbors.distances import Distances
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order, random_state, reporter, reporting

_SMALL = 400  # rows: NumPy is done before a compiler would be
_ROWS = 64  # rows of the transform per task
_STARTS = ("random", "classical_mds", "warn")


def guttman(D: Floats, Z: Floats, n_jobs: int | None) -> tuple[Floats, float, float]:
    """The Guttman transform of Z, and sum (d - D)^2 and sum d^2 over i < j at Z."""
    m = len(D)
    if m <= _SMALL:
        d = np.sqrt(((Z[:, None] - Z) ** 2).sum(axis=2))
        ratio = np.divide(D, d, out=np.zeros_like(d), where=d > 0)
        new = (ratio.sum(axis=1, keepdims=True) * Z - ratio @ Z) / m
        return new, float(((d - D) ** 2).sum() / 2), float((d**2).sum() / 2)
    from nearfold.kernels.smacof import guttman_rows

    columns = np.ascontiguousarray(Z.T)
    moved = np.empty_like(columns)
    sums = map_in_order(
        lambda rows: guttman_rows(D, columns, rows.start, rows.stop, moved),
        spans(m, _ROWS),
        n_jobs=n_jobs,
    )
    stress, size = np.sum(list(sums), axis=0)
    return np.ascontiguousarray(moved.T), float(stress / 2), float(size / 2)


class Monotone:
    """Disparities: the monotone function of the dissimilarities that is closest to distances."""

    def __init__(self, D: Floats) -> None:
        self.levels, self.level_of, self.counts = np.unique(
            squareform(D, checks=False), return_inverse=True, return_counts=True
        )
        self.values = self.levels  # the disparity of each level of dissimilarity

    def fit(self, Z: Floats | None) -> Floats:
        """Disparities for the distances of Z; without Z the dissimilarities themselves, scaled."""
        if Z is None or len(self.levels) == 0:
            self.values = self.levels
        else:
            means = np.bincount(self.level_of, weights=pdist(Z)) / self.counts
            self.values = isotonic_regression(means, sample_weight=self.counts)
        size = float(self.counts @ self.values**2)
        self.values = self.values * (np.sqrt(len(self.level_of) / size) if size > 0 else 1.0)
        return squareform(self.values[self.level_of], checks=False)

    def __call__(self, D: Floats) -> Floats:
        """Disparities of other dissimilarities, between those that were fitted."""
        return np.interp(D, self.levels, self.values)


@dataclass
class Smacof:
    """Where majorisation ended."""

    Z: Floats
    stress: float
    size: float  # sum of d^2 over i < j
    n_iter: int
    converged: bool
    history: list[float] = field(default_factory=list)

    @property
    def normalized(self) -> float:
        """Stress-1 of Kruskal."""
        return float(np.sqrt(self.stress / self.size)) if self.size > 0 else 0.0


def smacof(
    D: Floats, Z: Floats, monotone: Monotone | None, max_iter: int, eps: float, n_jobs: int | None
) -> Smacof:
    """Majorise from Z until the stress hardly falls."""
    report = reporter()
    wanted = D if monotone is None else monotone.fit(None)
    history: list[float] = []
    converged = False
    moved, *_ = guttman(wanted, Z, n_jobs)
    for iteration in range(1, max_iter + 1):
        Z = moved
        # The stress at Z comes with the step away from it, so each iteration is one pass.
        moved, stress, size = guttman(wanted, Z, n_jobs)
        history.append(stress)
        report("stress", iteration, max_iter)
        if stress == 0.0 or (len(history) > 1 and history[-2] - stress < eps * size):
            converged = True
            break
        if monotone is not None and iteration < max_iter:
            wanted = monotone.fit(Z)
            moved, *_ = guttman(wanted, Z, n_jobs)
    if monotone is not None:
        _, stress, size = guttman(monotone.fit(Z), Z, n_jobs)
    return Smacof(Z, stress, size, iteration, converged, history)


def place_row_by_row(
    Z: Floats, wanted: Floats, start: Floats, max_iter: int, eps: float
) -> tuple[Floats, bool]:
    """Coordinates (q, d') of new rows with these dissimilarities (q, m) to the rows at Z."""
    z = np.ascontiguousarray(start)
    if wanted.size > _SMALL**2:
        from nearfold.kernels.smacof import place_rows

        return z, place_rows(np.ascontiguousarray(Z.T), wanted, z, max_iter, eps) == 0
    m, active = len(Z), np.arange(len(z))
    for _ in range(max_iter):
        d = np.sqrt(((z[active, None] - Z) ** 2).sum(axis=2))
        ratio = np.divide(wanted[active], d, out=np.zeros_like(d), where=d > 0)
        new = Z.mean(axis=0) + (ratio.sum(axis=1, keepdims=True) * z[active] - ratio @ Z) / m
        step = ((new - z[active]) ** 2).sum(axis=1)
        z[active] = new
        # By the majorising quadratic, the stress of a row falls by at least m |step|^2.
        active = active[m * step > eps * (d**2).sum(axis=1)]
        if len(active) == 0:
            return z, True
    return z, False


class MDS(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """MDS by SMACOF.

    Parameters are scikit-learn's. New: `n_landmarks`, scale only so many rows and place the others
    as new ones; None: all, or landmarks where the memory budget forbids it.

    `transform` places new rows (features, or with metric="precomputed" their dissimilarities to
    the fitted rows) where their stress against the fitted ones is least. A row at distance 0 from a
    fitted one takes its place, so that the fitted rows come back to `embedding_`.

    New attributes: `converged_`, `stress_history_`, `landmarks_`, `approximation_`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold import MDS
    >>> X, _ = load_iris(return_X_y=True)
    >>> MDS(n_components=2).fit_transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        metric_mds: bool = True,
        n_init: int = 1,
        init: str = "warn",
        max_iter: int = 300,
        verbose: int = 0,
        eps: float = 1e-6,
        n_jobs: int | None = None,
        random_state: Any = None,
        dissimilarity: str = "deprecated",
        metric: Any = "euclidean",
        metric_params: dict[str, Any] | None = None,
        normalized_stress: Any = "auto",
        n_landmarks: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.metric_mds = metric_mds
        self.n_init = n_init
        self.init = init
        self.max_iter = max_iter
        self.verbose = verbose
        self.eps = eps
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.dissimilarity = dissimilarity
        self.metric = metric
        self.metric_params = metric_params
        self.normalized_stress = normalized_stress
        self.n_landmarks = n_landmarks

    def fit(self, X: Any, y: Any = None, init: Any = None) -> MDS:
        """Find coordinates for the rows of X; `init` (m, d') is where to start."""
        self.fit_transform(X, init=init)
        return self

    def fit_transform(self, X: Any, y: Any = None, init: Any = None) -> Floats:
        """Fit, and return `embedding_`."""
        self._check_parameters()
        X = check_table(self, X, reset=True)
        if self._metric() == "precomputed":
            check_distances(X)
        self._fit_X = X
        self.approximation_: str | None = None
        self.landmarks_: Any = None
        with reporting(self.verbose):
            count = self._count_landmarks(X)
            D = self._dissimilarities(X, count)
            refuse_extreme(float(D[0].max()), np.float64)
            best = self._best_run(D, init)
        self._anchors = best.Z  # of the landmarks, or of all rows
        self.n_iter_ = best.n_iter
        self.converged_ = best.converged
        self.stress_history_ = best.history
        normalize = self.normalized_stress
        normalize = not self._is_metric() if normalize == "auto" else normalize
        self.stress_ = best.normalized if normalize else best.stress
        if not best.converged:
            warn(
                f"MDS did not converge in max_iter={self.max_iter} iterations: the stress still "
                f"fell by {self._last_fall(best):.2g} of sum d^2, and eps is {self.eps:g}.",
                NotConvergedWarning,
            )
        self.embedding_ = best.Z.astype(X.dtype)
        if count is not None:
            self.embedding_ = self._place(X)
            self.embedding_[self.landmarks_] = best.Z
        return self.embedding_

    def _last_fall(self, run: Smacof) -> float:
        if len(run.history) < 2 or run.size == 0:
            return np.inf
        return (run.history[-2] - run.history[-1]) / run.size

    def _metric(self) -> Any:
        if self.dissimilarity in ("precomputed", "euclidean"):
            return self.dissimilarity  # the name of the parameter before scikit-learn 1.8
        return "euclidean" if isinstance(self.metric, bool) else self.metric

    def _is_metric(self) -> bool:
        return self.metric if isinstance(self.metric, bool) else bool(self.metric_mds)

    def _check_parameters(self) -> None:
        for name in ("n_components", "n_init", "max_iter"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or int(value) < 1:
                raise InputError(f"{name}={value!r}: give a positive whole number.")
        if self.init not in _STARTS:
            raise InputError(f"init={self.init!r}: use 'random' or 'classical_mds'.")
        if not (isinstance(self.normalized_stress, bool) or self.normalized_stress == "auto"):
            raise InputError(f"normalized_stress={self.normalized_stress!r}: True, False, 'auto'.")
        if self.eps < 0:
            raise InputError(f"eps={self.eps}: must not be negative.")

    def _count_landmarks(self, X: Array) -> int | None:
        m = len(X)
        if self.n_landmarks is not None:
            if not self.n_components < self.n_landmarks <= m:
                raise InputError(
                    f"n_landmarks={self.n_landmarks}: there must be more than n_components="
                    f"{self.n_components}, and at most the {m} rows."
                )
            return int(self.n_landmarks)
        per_pair = 8.0 if self._is_metric() else 48.0
        needed = per_pair * 1.1 * m * m
        if needed <= get_memory():
            return None
        count = affordable_landmarks(m, int(per_pair), self.n_components)
        warn(
            f"the dissimilarities of {m:,} rows need {show_bytes(needed)}, more than the memory "
            f"budget: {count} landmarks are scaled, and the other rows placed among them.",
            ApproximationWarning,
        )
        return count

    def _dissimilarities(self, X: Array, count: int | None) -> Floats:
        precomputed = self._metric() == "precomputed"
        measure = None if precomputed else self._distances(X)
        if count is None:
            D = X if measure is None else measure.all()
            self.dissimilarity_matrix_ = D
            return np.asarray(D, dtype=np.float64)
        if measure is None:
            landmarks, D = spread_landmarks(lambda i: X[i], len(X), count, np.float64)
        else:
            landmarks, D = spread_over_table(measure, count, np.float64)
        self.landmarks_ = landmarks
        self.approximation_ = f"landmarks: {count} of {len(X):,} rows scaled, the others placed"
        among = D[:, landmarks]
        self.dissimilarity_matrix_ = (among + among.T) / 2
        return self.dissimilarity_matrix_

    def _distances(self, X: Array) -> Distances:
        return Distances(X, self._metric(), self.metric_params, n_jobs=self.n_jobs)

    def _best_run(self, D: Floats, init: Any) -> Smacof:
        if init is not None:
            start = np.array(init, dtype=np.float64)
            refuse_nonfinite(start)
            if start.ndim != 2 or len(start) != len(self._fit_X):
                raise InputError(
                    f"init matrix should be of shape ({len(self._fit_X)}, {self.n_components})"
                )
            starts = iter([start if self.landmarks_ is None else start[self.landmarks_]])
        elif self.init == "random":
            rng = random_state(self.random_state)
            size = len(D) * self.n_components
            drawn = (rng.uniform(size=size) for _ in range(self.n_init))
            starts = (u.reshape(len(D), self.n_components) for u in drawn)
        else:
            starts = iter([classical_start(D, self.n_components)])
        best: Smacof | None = None
        for start in starts:
            monotone = None if self._is_metric() else Monotone(D)
            run = smacof(D, start, monotone, self.max_iter, self.eps, self.n_jobs)
            if best is None or run.normalized < best.normalized:
                best, self._monotone = run, monotone
        assert best is not None
        return best

    def transform(self, X: Any) -> Floats:
        """Place new rows where their stress against the fitted ones is least."""
        check_is_fitted(self)
        X = check_table(self, X, reset=False)
        return self._place(X)

    def _place(self, X: Array) -> Floats:
        precomputed = self._metric() == "precomputed"
        measure = None if precomputed else self._distances(self._fit_X)
        if measure is not None and self.landmarks_ is not None:
            measure = measure.among(self.landmarks_)
        ended: list[bool] = []
        nothing = max(1e-13, 20 * float(np.finfo(X.dtype).eps))

        def place(some: slice) -> Floats:
            if measure is None:
                D = X[some] if self.landmarks_ is None else X[some][:, self.landmarks_]
            else:
                D = measure.between(X[some], measure.X)
            D = np.asarray(D, dtype=np.float64)
            # A row's distance to itself may round: what is that small is nothing.
            D = np.where(nothing * D.max(axis=1, keepdims=True) < D, D, 0.0)
            wanted = D if self._monotone is None else self._monotone(D)
            start = nearest_mean(D, self._anchors)
            new = np.flatnonzero((D > 0).all(axis=1))
            start[new], converged = place_row_by_row(
                self._anchors, wanted[new], start[new], 10 * self.max_iter, 1e-14
            )
            ended.append(converged)
            return start

        step = max(1, 2**18 // max(1, len(self._anchors)))
        parts = map_in_order(
            place, spans(len(X), step), n_jobs=self.n_jobs, label="placing", total=None
        )
        Z = np.concatenate(list(parts))
        if not all(ended):
            warn("some rows were still moving when they were placed.", NotConvergedWarning)
        return Z.astype(X.dtype, copy=False)

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._metric() == "precomputed"
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def classical_start(D: Floats, k: int) -> Floats:
    """The coordinates of classical MDS."""
    lam, V = positive_pairs(HeldSquares(D).top(min(k, len(D))), D.dtype)
    Z = V * np.sqrt(lam)
    return np.pad(Z, ((0, 0), (0, k - Z.shape[1])))


def nearest_mean(D: Floats, Z: Floats, k: int = 5) -> Floats:
    """A start for new rows: the mean of the nearest fitted ones; a row that is one, its place."""
    k = min(k, D.shape[1])
    near = np.argpartition(D, k - 1, axis=1)[:, :k]
    d = np.take_along_axis(D, near, 1)
    exact = d == 0
    w = np.where(exact.any(axis=1, keepdims=True), exact, 1.0 / np.where(exact, 1.0, d) ** 2)
    return np.einsum("qk,qkc->qc", w / w.sum(axis=1, keepdims=True), Z[near])
