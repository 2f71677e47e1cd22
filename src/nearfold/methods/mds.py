"""Multidimensional scaling by majorisation (SMACOF), metric and non-metric.

The book's MDS keeps inner products (classical_mds.py); this one keeps the distances themselves: it
minimises the stress, sum over i < j of (|z_i - z_j| - D_ij)^2.

Symbols: D (m, m) dissimilarities, Z (m, d') coordinates, d_ij = |z_i - z_j|, D^ disparities.

Steps
  1. a start: classical MDS, or random
  2. non-metric only: the disparities D^, the monotone function of D closest to d
  3. the Guttman transform: z_i <- 1/m sum_j D_ij / d_ij (z_i - z_j), or, metric and with `relax`,
     twice that step, which halves the number of iterations                      (smacof.py)
  4. again from 2, until a step of 3 lowers the stress by less than eps x sum d^2, or max_iter times
  5. a new row: the same step for it alone, the others fixed; a row that is one of them, its place

`stress_` is that of the coordinates returned; of a non-metric fit, with the disparities fitted to
them. A dissimilarity of zero is a dissimilarity (scikit-learn's non-metric MDS takes it for a
missing value). init="warn", scikit-learn's default of the moment, means classical MDS, as its own
next version will.

Cost: m^2 d' per iteration, D held once. Beyond the memory budget, or with `n_landmarks`: MDS of
landmarks spread by max-min, and the other rows placed as new ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Hidden, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from nearfold.errors import InputError, NotConvergedWarning, warn
from nearfold.inputs import (
    check_distances,
    check_table,
    finite_result,
    refuse_extreme,
    refuse_nonfinite,
)
from nearfold.messages import Message
from nearfold.methods.classical_mds import classical_mds
from nearfold.methods.dissimilarities import (
    Dissimilarities,
    check_landmarks,
    in_learned_space,
    is_precomputed,
    learn_metric,
    learner_state,
)
from nearfold.methods.landmark_mds import LandmarkCount, mean_of_both
from nearfold.methods.reduction import COLUMNS, Embedding
from nearfold.methods.smacof import Smacof, StressMap, best_of
from nearfold.notation import Array, Floats
from nearfold.run import random_state, reporting
from nearfold.state import array, flag, list_of, nested, number, optional, text

_NON_METRIC_BYTES = 48.0  # per pair of rows: their order, levels and disparities
_METRIC = [str, callable, HasMethods(["get_mahalanobis_matrix", "transform"]), Hidden("boolean")]


class MDS(Embedding):
    """MDS by SMACOF.

    `transform` places new rows (features, or with metric="precomputed" their dissimilarities to
    the fitted rows) where their stress against the fitted ones is least. A row at distance 0 from a
    fitted one takes its place, so that the fitted rows come back to `embedding_`.

    Parameters
    ----------
    n_components : int, default=2
        Number of coordinates.
    metric_mds : bool, default=True
        Keep the dissimilarities themselves (True) or only their order (False).
    n_init : int, default=1
        Number of random starts, of which the best result is kept; 1 with init="classical_mds".
    init : {"classical_mds", "random"}, default="warn"
        The start; "warn" means "classical_mds".
    max_iter : int, default=300
        Most iterations of one run.
    verbose : int, default=0
        Show progress.
    eps : float, default=1e-6
        Stop when the stress falls by less than this share of the sum of squared distances.
    n_jobs : int, default=None
        Number of threads; None: all cores. Changes no result.
    random_state : int, RandomState or None, default=None
        Seed of the random starts.
    dissimilarity : {"euclidean", "precomputed"}, default="deprecated"
        The old name of `metric`.
    metric : str, callable or metric learner, default="euclidean"
        Any metric of scikit-learn, "precomputed", or an estimator of `nearfold` that learns one.
    metric_params : dict, default=None
        Parameters of the metric.
    normalized_stress : bool or "auto", default="auto"
        Whether `stress_` is Kruskal's stress-1; "auto": for non-metric MDS.
    n_landmarks : int, default=None
        Scale only so many rows and place the others as new ones. None: all rows, or landmarks where
        the memory budget forbids it.
    relax : bool, default=True
        Use the relaxed update of de Leeuw and Heiser, which needs about half the iterations of the
        Guttman transform and does not let the stress rise either. False: the transform itself, the
        iteration of scikit-learn. Non-metric MDS always uses that.

    Attributes
    ----------
    embedding_ : array of shape (n_samples, n_components)
        The coordinates.
    stress_ : float
        The stress of `embedding_`.
    dissimilarity_matrix_ : array of shape (n_samples, n_samples)
        The dissimilarities scaled; between the landmarks if there are any.
    n_iter_ : int
        Iterations of the best run.
    converged_ : bool
        Whether it converged.
    stress_history_ : list of float
        The stress after each of its iterations.
    landmarks_ : array of shape (n_landmarks,) or None
        Row numbers of the landmarks.
    metric_learner_ : estimator or None
        The fitted metric learner.
    approximation_ : str or None
        What was approximated.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : array
        Their names, if X had names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold import MDS
    >>> X, _ = load_iris(return_X_y=True)
    >>> MDS(n_components=2).fit_transform(X).shape
    (150, 2)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "metric_mds": ["boolean"],
        "n_init": [Interval(Integral, 1, None, closed="left"), Hidden(StrOptions({"warn"}))],
        "init": [StrOptions({"random", "classical_mds"}), Hidden(StrOptions({"warn"}))],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
        "eps": [Interval(Real, 0.0, None, closed="left")],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "dissimilarity": [
            StrOptions({"euclidean", "precomputed"}),
            Hidden(StrOptions({"deprecated"})),
        ],
        "metric": _METRIC,
        "metric_params": [dict, None],
        "normalized_stress": ["boolean", StrOptions({"auto"})],
        "n_landmarks": [Integral, None],
        "relax": ["boolean"],
    }
    params_of_older_files: ClassVar[dict[str, Any]] = {"relax": False}

    fitted_state = COLUMNS.extended(
        check_landmarks,
        metric_learner_=learner_state,
        _fit_X=array("m w"),
        embedding_=array("m k"),
        approximation_=optional(text()),
        landmarks_=optional(array("l", "i", below="m")),
        dissimilarity_matrix_=array("l l", symmetric=True, least=0),
        _map=nested(StressMap, m="l", k="k"),
        n_iter_=number(1, whole=True),
        converged_=flag(),
        stress_=number(0),
        stress_history_=list_of(number(0)),
    )

    def __init__(
        self,
        n_components: int = 2,
        *,
        metric_mds: bool = True,
        n_init: Any = 1,
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
        relax: bool = True,
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
        self.relax = relax

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, init: Any = None) -> MDS:
        """Find coordinates for the rows of X; `init` (m, d') is where to start."""
        if self.dissimilarity != "deprecated" and self.metric not in ("euclidean", True, False):
            raise InputError(
                "You provided both `dissimilarity`, the old name, and `metric`: use `metric` alone."
            )
        given, X = X, check_table(self, X, reset=True)
        if is_precomputed(self._metric()):
            check_distances(X)
        self.metric_learner_, self._fit_X = learn_metric(self._metric(), X, given, y)
        with reporting(self.verbose):
            D = self._dissimilarities(self._count_landmarks(X))
            refuse_extreme(float(D[0].max()), np.float64)
            starts = self._starts(D, init)
            best = best_of(
                D, starts, self._is_metric(), self.max_iter, self.eps, self.relax, self.n_jobs
            )
        self._keep(best)
        self.embedding_ = best.Z.astype(X.dtype)
        if self.landmarks_ is not None:
            self.embedding_ = self._place(self._fit_X)
            self.embedding_[self.landmarks_] = best.Z
            self.embedding_ = self.embedding_.astype(X.dtype, copy=False)
        return self

    def fit_transform(self, X: Any, y: Any = None, init: Any = None) -> Floats:
        """Fit, and return `embedding_`."""
        return self.fit(X, y, init=init).embedding_

    def _keep(self, best: Smacof) -> None:
        self._map = StressMap(best.Z, best.levels, best.disparities)  # landmarks, or all rows
        self.n_iter_ = best.n_iter
        self.converged_ = best.converged
        self.stress_history_ = best.history
        normalize = self.normalized_stress
        normalize = not self._is_metric() if normalize == "auto" else normalize
        self.stress_ = best.normalized if normalize else best.stress
        if not best.converged:
            warn(
                Message(
                    "warn.mds",
                    n=str(self.max_iter),
                    fell=f"{best.last_decrease:.2g}",
                    eps=f"{self.eps:g}",
                ),
                NotConvergedWarning,
            )

    def _metric(self) -> Any:
        if self.dissimilarity in ("precomputed", "euclidean"):
            return self.dissimilarity  # the name of the parameter before scikit-learn 1.8
        return "euclidean" if isinstance(self.metric, bool) else self.metric

    def _is_metric(self) -> bool:
        return self.metric if isinstance(self.metric, bool) else bool(self.metric_mds)

    def _count_landmarks(self, X: Array) -> int | None:
        chosen = LandmarkCount.choose(
            len(X), self.n_components, self.n_landmarks, **self.landmark_sizes(len(X), X.dtype)
        )
        self.approximation_ = chosen.note
        return chosen.count

    def landmark_sizes(self, m: int, dtype: Any) -> dict[str, Any]:
        """What `LandmarkCount` takes to decide for m rows: bytes needed, of all and per pair."""
        # A float64 matrix that was given is scaled where it is.
        held = is_precomputed(self._metric()) and dtype == np.float64
        order = 0.0 if self._is_metric() else _NON_METRIC_BYTES
        needed = 1.1 * ((0.0 if held else 8.0) + order) * m * m
        return {
            "needed": needed, "itemsize": 0, "method": "landmark MDS", "per_pair": 24.0 + order
        }  # fmt: skip

    def _dissimilarities(self, count: int | None) -> Floats:
        measure = self._measure()
        self.landmarks_: Any = None
        if count is None:
            D = measure.all()
        else:
            self.landmarks_, D = measure.among_landmarks(count)
            D = mean_of_both(D)
        self.dissimilarity_matrix_ = D
        return D

    def _measure(self) -> Dissimilarities:
        return Dissimilarities(self._fit_X, self._metric(), self.metric_params, self.n_jobs)

    def _starts(self, D: Floats, init: Any) -> Iterator[Floats]:
        m, k = len(self._fit_X), self.n_components
        if init is not None:
            start = np.array(init, dtype=np.float64)
            refuse_nonfinite(start)
            if start.ndim != 2 or len(start) != m:
                raise InputError(f"init matrix should be of shape ({m}, {k})")
            yield start if self.landmarks_ is None else start[self.landmarks_]
        elif self.init == "random":
            rng = random_state(self.random_state)
            for _ in range(1 if self.n_init == "warn" else self.n_init):
                yield rng.uniform(size=len(D) * k).reshape(len(D), k)
        else:
            yield classical_mds(D, k).Z

    def transform(self, X: Any) -> Floats:
        """Place new rows where their stress against the fitted ones is least."""
        check_is_fitted(self)
        given, X = X, check_table(self, X, reset=False)
        Z = self._place(in_learned_space(self.metric_learner_, X, given))
        return finite_result(Z, X.dtype)

    def _place(self, X: Array) -> Floats:
        negligible = max(1e-13, 20 * float(np.finfo(X.dtype).eps))

        def place(D: Array) -> tuple[Floats, bool]:
            return self._map.place(D, negligible, 10 * self.max_iter)

        parts = self._measure().among(self.landmarks_).place(X, place, 2**18, "placing")
        placed, rested = zip(*parts, strict=True)
        if not all(rested):
            warn("some rows were still moving when they were placed.", NotConvergedWarning)
        return np.concatenate(placed).astype(X.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self._metric())
        return tags
