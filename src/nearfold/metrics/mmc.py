"""A metric from must-link and cannot-link pairs, by convex optimisation (section 10.6, (10.39)).

    min_M  sum_{(i,j) in S} |x_i - x_j|_M^2
    s.t.   sum_{(i,k) in D} |x_i - x_k|_M >= 1,   M >= 0                                  (10.39)

Must-link pairs S are drawn together while cannot-link pairs D stay apart; M >= 0 means positive
semidefinite. The distances in the constraint are not squared: squared ones (`squared=True`) always
give an M of rank one.

Symbols: v the difference of a pair, A = sum_S v v^T, so that the objective is tr(M A).

Steps
  1. the differences of the pairs, in units of the columns
  2. a factor of the optimal M, by L-BFGS from the start `init`, with its duality gap
     (mmc_solver.py); with `diagonal=True` M is diagonal
  3. scale M so that the constraint holds with equality

Cost: O((|S| + |D|) d^2 + d^3) once, O(|D| d r) per iteration.

Departures: a direction in which must-link pairs do not differ but cannot-link pairs do makes the
optimum 0 and M unbounded there. Then A gets a ridge (`ridge` times its mean eigenvalue), with a
warning. `init`, `tol`, `max_proj` and `diagonal_c` of metric-learn are accepted: the problem is
convex, so the start does not change the result; the others steer a solver that is not used here
(ours ends at a relative gap of 1e-6 at most, or warns).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError, NotConvergedWarning, warn
from nearfold.metrics.learners import LabelsOnly, PairLearner
from nearfold.metrics.mmc_solver import (
    COLUMNS,
    RIDGE,
    SOLVED,
    certify,
    column_units,
    solve,
    with_ridge,
)
from nearfold.metrics.preparation import require_matrices
from nearfold.metrics.prior import initial_metric
from nearfold.metrics.tuples import Tuples
from nearfold.run import one_blas_thread, random_state


class MMC(PairLearner):
    """The metric in which must-link pairs are nearest while cannot-link pairs stay apart.

    Parameters are metric-learn's (see the head of this file for those that steer nothing here).
    `max_iter`: iterations between two looks at the duality gap. New: `squared`, constrain squared
    distances; `ridge`, added to the must-link scatter in units of its mean eigenvalue, None adds it
    only where the problem has no answer without; `n_constraints`, pairs of each kind drawn when
    fitted on labels; `rank`, to which M is cut (a number, or a share of its trace).

    Fit on pairs of vectors, `fit(pairs, y)`; on pairs of rows, `fit(X, pairs=...)` or
    `fit(X, must_link=..., cannot_link=...)`; or on labels, `fit(X, y)`.

    Attributes besides those of all metrics: `certificate_`, the proof of optimality; `converged_`;
    `objective_`; `n_iter_`; `threshold_`.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfold import MMC
    >>> X = np.array([[0.0, 0.0], [0.1, 5.0], [3.0, 0.3], [3.1, 4.9]])
    >>> mmc = MMC().fit(X, must_link=[(0, 1), (2, 3)], cannot_link=[(0, 2), (1, 3)])
    >>> distance = mmc.pair_distance(X[[[0, 1], [0, 2]]])
    >>> bool(distance[0] < 0.1 * distance[1]), mmc.converged_
    (True, True)
    """

    def __init__(
        self,
        max_iter: int = 100,
        max_proj: int = 10000,
        tol: float = 1e-3,
        init: Any = "identity",
        diagonal: bool = False,
        diagonal_c: float = 1.0,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        squared: bool = False,
        ridge: float | None = None,
        n_constraints: int | None = None,
        rank: int | float | None = None,
    ) -> None:
        self.max_iter = max_iter
        self.max_proj = max_proj
        self.tol = tol
        self.init = init
        self.diagonal = diagonal
        self.diagonal_c = diagonal_c
        self.verbose = verbose
        self.preprocessor = preprocessor
        self.random_state = random_state
        self.squared = squared
        self.ridge = ridge
        self.n_constraints = n_constraints
        self.rank = rank

    def _learn(self, pairs: Tuples) -> None:
        d = pairs.X.shape[1]
        require_matrices("MMC", d, 12 + 45 * min(COLUMNS, d) / d, len(pairs.rows), 5)
        S, D = pairs.split()
        for v, kind in ((S, "must-link"), (D, "cannot-link")):
            if not v.any():
                raise InputError(
                    f"MMC needs {kind} pairs of different points; there are {len(v)} {kind} pairs"
                    + (", all of equal points." if len(v) else ".")
                )
        M0 = initial_metric(pairs.X, self.init, random_state(self.random_state), "init")
        units = column_units(S, D)
        with one_blas_thread():
            S, D = S / units, D / units
            S, unbounded = with_ridge(S, D, self.ridge, self.diagonal)
            start = units / units.max()  # its size does not matter, and might overflow
            M0 = M0 * np.outer(start, start)
            L, found = solve(S, D, M0, self.max_iter, self.diagonal, self.squared)
            L, self.certificate_ = certify(L, S, D, found.gap, self.squared)
        if unbounded:
            warn(
                f"no must-link pair differs in {unbounded} directions in which cannot-link pairs "
                f"do, so (10.39) has no bounded answer; the must-link scatter was given a ridge of "
                f"{RIDGE:g} times its mean. Give more must-link pairs, or set ridge."
            )
        self.objective_ = self.certificate_.objective
        self.n_iter_ = found.n_iter
        self.converged_ = found.gap <= SOLVED
        if not self.converged_:
            warn(
                f"MMC did not converge: after {found.n_iter} iterations the relative duality gap "
                f"is {found.gap:.1e}. Raise max_iter.",
                NotConvergedWarning,
            )
        self._set_map(L / units, pairs.X.dtype, self.rank)


class MMC_Supervised(LabelsOnly, MMC):
    """`MMC` on pairs drawn from class labels, `fit(X, y)`; parameters as in metric-learn."""

    def __init__(
        self,
        max_iter: int = 100,
        max_proj: int = 10000,
        tol: float = 1e-6,
        n_constraints: int | None = None,
        init: Any = "identity",
        diagonal: bool = False,
        diagonal_c: float = 1.0,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        squared: bool = False,
        ridge: float | None = None,
        rank: int | float | None = None,
    ) -> None:
        super().__init__(
            max_iter=max_iter,
            max_proj=max_proj,
            tol=tol,
            init=init,
            diagonal=diagonal,
            diagonal_c=diagonal_c,
            verbose=verbose,
            preprocessor=preprocessor,
            random_state=random_state,
            squared=squared,
            ridge=ridge,
            n_constraints=n_constraints,
            rank=rank,
        )

    def fit(self, X: Any, y: Any) -> MMC_Supervised:  # type: ignore[override]
        """Draw pairs from the labels y of the rows X and learn from them."""
        super().fit(X, y)
        return self
