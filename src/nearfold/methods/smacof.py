"""SMACOF: multidimensional scaling by majorisation of the stress, metric and non-metric.

Not an estimator but the iteration of methods/mds.py. With d_ij = |z_i - z_j| and dissimilarities D

    stress(Z) = sum over i < j of (d_ij - D_ij)^2

lies below a quadratic that touches it at Z and is least at the Guttman transform of Z,

    z_i <- 1/m sum_j D_ij / d_ij (z_i - z_j),

so the stress never rises. The relaxed update of de Leeuw and Heiser goes twice as far,

    Z <- 2 G(Z) - Z,

where the quadratic is again what it was at Z: the stress never rises either, and iterations halve.
It keeps the error of the scale (G does not depend on the scale of Z), so Z is first multiplied by
the factor of least stress. Convergence is judged by a plain step.

Non-metric: D is replaced by disparities, the monotone function of D closest to d (isotonic
regression; equal dissimilarities stay equal), scaled to mean square 1. All steps are plain.

References
----------
De Leeuw, J. and Heiser, W. J. (1980). Multidimensional scaling with restrictions on the
configuration. Multivariate Analysis V, 501-522.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.isotonic import isotonic_regression

from nearfold.blocks import spans
from nearfold.notation import Array, Floats
from nearfold.run import map_in_order, one_blas_thread, reporter
from nearfold.state import Sizes, State, array, optional, require

_SMALL = 400  # rows: JIT compilation dominates below this size
_TASKS = 32  # at most: each adds its own sums to the transform
_ROWS = 125  # at least, of a task


class Transform(NamedTuple):
    """The Guttman transform of Z, and what the distances of Z are worth, over i < j."""

    Z: Floats
    stress: float  # sum (d - D)^2
    size: float  # sum d^2
    excess: float  # sum (d - D) d


def guttman(D: Floats, Z: Floats, n_jobs: int | None) -> Transform:
    """The Guttman transform of Z for dissimilarities D."""
    m = len(D)
    if m <= _SMALL:
        d = np.sqrt(((Z[:, None] - Z) ** 2).sum(axis=2))
        ratio = np.divide(D, d, out=np.zeros_like(d), where=d > 0)
        new = (ratio.sum(axis=1, keepdims=True) * Z - ratio @ Z) / m
        sums = ((d - D) ** 2).sum(), (d**2).sum(), ((d - D) * d).sum()
        return Transform(new, *(float(total / 2) for total in sums))
    from nearfold.kernels.smacof import guttman_pairs

    columns = np.ascontiguousarray(Z.T)

    def work(rows: slice) -> tuple[Floats, Floats]:
        pull = np.zeros_like(columns)
        sums = guttman_pairs(D, columns, rows.start, rows.stop, pull)
        return pull, np.array(sums)

    half = (m + 1) // 2
    parts = map_in_order(work, spans(half, max(_ROWS, -(-half // _TASKS))), n_jobs=n_jobs)
    pull, totals = next(parts)
    for more, further in parts:
        pull += more
        totals += further
    return Transform(np.ascontiguousarray(pull.T) / m, *totals.tolist())


class Disparities:
    """The monotone function of the dissimilarities that is closest to distances."""

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


@dataclass
class Smacof:
    """Where majorisation ended."""

    Z: Floats
    stress: float
    size: float  # sum of d^2 over i < j
    n_iter: int
    converged: bool
    history: list[float] = field(default_factory=list)
    levels: Floats | None = None  # of non-metric MDS: dissimilarities, ascending,
    disparities: Floats | None = None  # and the distances that stand for them

    @property
    def normalized(self) -> float:
        """Stress-1 of Kruskal."""
        return float(np.sqrt(self.stress / self.size)) if self.size > 0 else 0.0

    @property
    def last_decrease(self) -> float:
        """How much the stress fell in the last iteration, relative to sum d^2."""
        if len(self.history) < 2 or self.size == 0:
            return np.inf
        return (self.history[-2] - self.history[-1]) / self.size


@one_blas_thread()  # sums in an order that does not depend on the number of BLAS threads
def smacof(
    D: Floats,
    Z: Floats,
    disparities: Disparities | None,
    max_iter: int,
    eps: float,
    relax: bool,
    n_jobs: int | None,
) -> Smacof:
    """Majorise from Z until a plain step lowers the stress by less than eps x sum d^2."""
    report = reporter()
    wanted = D if disparities is None else disparities.fit(None)
    history: list[float] = []
    plain, converged = True, False
    step = guttman(wanted, Z, n_jobs)
    for iteration in range(1, max_iter + 1):
        Z = step.Z if plain else 2 * step.Z - Z
        # The stress at Z comes with the step away from it, so each iteration is one pass.
        step = guttman(wanted, Z, n_jobs)
        if relax:
            Z, step = _least_scale(Z, step)
        history.append(step.stress)
        report("stress", iteration, max_iter)
        resting = len(history) > 1 and history[-2] - step.stress < eps * step.size
        if step.stress == 0.0 or (resting and plain):
            converged = True
            break
        plain = resting or not relax
        if disparities is not None and iteration < max_iter:
            wanted = disparities.fit(Z)
            step = guttman(wanted, Z, n_jobs)
    run = Smacof(Z, step.stress, step.size, iteration, converged, history)
    if disparities is not None:
        _, run.stress, run.size, _ = guttman(disparities.fit(Z), Z, n_jobs)
        run.levels, run.disparities = disparities.levels, disparities.values
    return run


def _least_scale(Z: Floats, step: Transform) -> tuple[Floats, Transform]:
    """Z times the factor that makes its stress least; its Guttman transform is the same."""
    if step.size == 0.0:
        return Z, step
    surplus = step.excess / step.size
    stress = max(0.0, step.stress - surplus * step.excess)
    size = (1.0 - surplus) ** 2 * step.size
    return (1.0 - surplus) * Z, Transform(step.Z, stress, size, 0.0)


def best_of(
    D: Floats,
    starts: Iterable[Floats],
    metric: bool,
    max_iter: int,
    eps: float,
    relax: bool,
    n_jobs: int | None,
) -> Smacof:
    """The run of least stress, the first of those."""
    runs = (
        smacof(D, Z, None if metric else Disparities(D), max_iter, eps, relax and metric, n_jobs)
        for Z in starts
    )
    return min(runs, key=lambda run: run.normalized)


def _check_levels(values: dict[str, Any], sizes: Sizes) -> None:
    require((values["levels"] is None) == (values["disparities"] is None), "half of a scale")
    require(min(sizes["m"], sizes.get("v", 1)) >= 1, "no rows")


@dataclass(frozen=True)
class StressMap:
    """Rows that stay at Z (m, k), and others placed where their stress against them is least."""

    Z: Floats
    levels: Floats | None = None  # as in Smacof
    disparities: Floats | None = None

    fitted_state = State(
        _check_levels,
        Z=array("m k"),
        levels=optional(array("v", ascending=True)),
        disparities=optional(array("v")),
    )

    def place(self, D: Array, negligible: float, max_iter: int) -> tuple[Floats, bool]:
        """Coordinates of rows with dissimilarities D (q, m), and whether all came to rest.

        A row at dissimilarity 0 from some of the others takes their (mean) place; one that is
        `negligible` beside the largest is the rounding of 0.
        """
        D = np.array(D, dtype=np.float64)
        D[D <= negligible * D.max(axis=1, keepdims=True)] = 0.0
        new = np.flatnonzero((D > 0).all(axis=1))
        Z = nearest_mean(D, self.Z)
        wanted = D[new]
        if self.levels is not None and self.disparities is not None:
            wanted = np.interp(wanted, self.levels, self.disparities)
        Z[new], rested = place_row_by_row(self.Z, wanted, Z[new], max_iter, 1e-14)
        return Z, rested


def nearest_mean(D: Floats, Z: Floats, k: int = 5) -> Floats:
    """A start for new rows: the mean of the nearest others; for a row that is one, its place."""
    k = min(k, D.shape[1])
    near = np.argpartition(D, k - 1, axis=1)[:, :k]
    d = np.take_along_axis(D, near, 1)
    exact = d == 0
    w = np.where(exact.any(axis=1, keepdims=True), exact, 1.0 / np.where(exact, 1.0, d) ** 2)
    return np.einsum("qk,qkc->qc", w / w.sum(axis=1, keepdims=True), Z[near])


def place_row_by_row(
    Z: Floats, wanted: Floats, start: Floats, max_iter: int, eps: float
) -> tuple[Floats, bool]:
    """Move each row alone from `start` (q, k) to least stress, Z fixed; whether all came to rest.

    By Newton's method where that lowers the stress, else by majorisation (kernels/smacof.py).
    """
    z = np.ascontiguousarray(start)
    if wanted.size > _SMALL**2:
        from nearfold.kernels.smacof import place_rows

        return z, place_rows(np.ascontiguousarray(Z.T), wanted, z, max_iter, eps) == 0
    m, active = len(Z), np.arange(len(z))
    least, safe = np.full(len(z), np.inf), z.copy()
    for _ in range(max_iter):
        u = z[active, None] - Z
        square = (u**2).sum(axis=2)
        d = np.sqrt(square)
        stress = ((d - wanted[active]) ** 2).sum(axis=1)
        back = stress > least[active]  # Newton's step went too far
        ratio = np.divide(wanted[active], d, out=np.zeros_like(d), where=d > 0)
        step = Z.mean(axis=0) - z[active] + np.einsum("qm,qmk->qk", ratio, u) / m
        # By the majorising quadratic, the stress of a row falls by at least m |step|^2.
        resting = ~back & (m * (step**2).sum(axis=1) <= eps * square.sum(axis=1))
        newton, definite = _newton_steps(u, ratio, square, m * step)
        by_newton = definite & ~back & ~resting
        safe[active[~back]] = (z[active] + step)[~back]
        least[active] = np.where(by_newton, stress, np.inf)
        z[active] = np.where(by_newton[:, None], z[active] + newton, safe[active])
        active = active[~resting]
        if len(active) == 0:
            return z, True
    return z, False


def _newton_steps(u: Floats, ratio: Floats, square: Floats, g: Floats) -> tuple[Floats, Array]:
    """H^-1 g of each row, and whether its Hessian H is positive definite."""
    curved = np.divide(ratio, square, out=np.zeros_like(square), where=square > 0)
    H = np.einsum("qm,qmk,qml->qkl", curved, u, u)
    k = H.shape[1]
    H[:, range(k), range(k)] += (u.shape[1] - ratio.sum(axis=1))[:, None]
    definite = np.linalg.eigvalsh(H)[:, 0] > 0
    H[~definite] = np.eye(k)
    return np.linalg.solve(H, g[..., None])[..., 0], definite
