"""The bottom eigenpairs of M = A^T A, and of a symmetric M, whose null vectors are known.

LLE needs the smallest eigenvalues of M = (I - W)^T (I - W). They are tiny and close together, so
only inverse iteration finds them; but M is singular, and factoring M, a graph of neighbours of
neighbours, fills in terribly: that is what makes others need minutes and n^2 memory.

A = I - W itself is sparser by far, and M^-1 = A^-1 A^-T. On 20,000 MNIST rows its factor takes two
seconds, where that of M takes minutes. Three things make it work:

  Grounding. A has the null vector 1 (rows of W sum to one) and a left null vector p, the stationary
  distribution of the walk W. A~ = A + e_r e_r^T is regular, and solves A x = b exactly whenever b
  is in the range: from p^T A~ x = p_r x_r = p^T b = 0 follows x_r = 0. No shift spoils anything.
  The row r must carry much of p, or A~ is nearly singular: a few steps of the walk find it.

  Closed classes. If the lists of some rows lead only to each other, whatever leads to them, 1 is
  not the only null vector: there is one per closed class of the walk. Each gets its own ground.

  Cost before work. The fill of the factor is counted symbolically first. If it exceeds the memory
  budget or takes too long, an incomplete factor preconditions GMRES, to the same accuracy.

A symmetric M (the other variants of LLE) is grounded in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, gmres, spilu, splu

from nearfold.blocks import get_memory
from nearfold.errors import SolverError
from nearfold.notation import Array, Floats, Ints

_ENTRY_BYTES = 24  # of L and U together, for each entry of L, as measured
_MOST_WORK = 1e13  # multiplications: a factor that takes some minutes
_SURE_ROWS = 2000  # up to here a factor is cheap however it fills
_PATTERN = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0}


@dataclass(frozen=True)
class BottomPairs:
    """Values (k,) ascending, vectors (n, k), and how they were found."""

    values: Floats
    vectors: Floats
    null: int  # how many values are zero because the graph is split, not counting the constant
    route: str
    converged: bool = True


def closed_classes(W: Any) -> list[Ints]:
    """The sets of rows from which the walk W cannot leave, each strongly connected."""
    n = W.shape[0]
    ones = sparse.csr_array((np.ones(len(W.data)), W.indices, W.indptr), shape=W.shape)
    count, label = connected_components(ones, directed=True, connection="strong")
    tails = np.repeat(np.arange(n), np.diff(W.indptr))
    leaves = np.zeros(count, dtype=bool)
    leaves[label[tails[label[tails] != label[W.indices]]]] = True
    return [np.flatnonzero(label == i) for i in np.flatnonzero(~leaves)]


def _grounds(W: Any, classes: list[Ints]) -> Ints:
    """In each class the row where a walk is found most often."""
    size = abs(W)
    steps = (sparse.diags_array(1.0 / np.maximum(size.sum(axis=1), 1e-300)) @ size).T.tocsr()
    p = np.full(W.shape[0], 1.0 / W.shape[0])
    for _ in range(100):
        p = 0.5 * p + 0.5 * (steps @ p)
    return np.array([rows[p[rows].argmax()] for rows in classes], dtype=np.int64)


class _Solver:
    """Solves with a sparse regular matrix and its transpose: directly, or by GMRES."""

    def __init__(self, G: Any) -> None:
        self.G = G.tocsr()
        self.transposed = G.T.tocsr()
        self.converged = True
        # An incomplete factor with next to nothing in it costs little and brings the ordering.
        self.direct = self._is_cheap(G)
        try:
            if self.direct:
                self._factor = splu(G.tocsc(), options={"SymmetricMode": True}, **_PATTERN)
            else:
                self._factor = spilu(G.tocsc(), drop_tol=1e-3, fill_factor=10, **_PATTERN)
        except RuntimeError as error:
            raise SolverError(f"the weights of LLE could not be factored: {error}") from None

    def _is_cheap(self, G: Any) -> bool:
        n = G.shape[0]
        if n <= _SURE_ROWS and _ENTRY_BYTES / 2 * n * n < get_memory():
            return True
        from nearfold.kernels.symbolic import factor_cost

        rough = spilu(G.tocsc(), drop_tol=0.5, fill_factor=1, **_PATTERN)
        pattern = (abs(G) + abs(G.T)).tocsr()
        entries, work = factor_cost(
            pattern.indptr.astype(np.int64), pattern.indices, rough.perm_c.astype(np.int64)
        )
        return bool(_ENTRY_BYTES * entries < get_memory() / 2 and work < _MOST_WORK)

    def solve(self, b: Floats, trans: str = "N") -> Floats:
        if self.direct:
            return self._factor.solve(b, trans=trans)
        A = self.G if trans == "N" else self.transposed
        rough = LinearOperator(A.shape, lambda c: self._factor.solve(c, trans=trans))
        # As far as it goes: the last digits are sometimes out of reach, and are not needed.
        x, _ = gmres(A, b, M=rough, rtol=1e-12, restart=100, maxiter=4)
        self.converged &= bool(np.linalg.norm(A @ x - b) <= 1e-9 * np.linalg.norm(b))
        return x


def _ground(A: Any, rows: Ints) -> Any:
    ones = np.full(len(rows), float(abs(A.diagonal()).max()) or 1.0)
    return (A + sparse.csr_array((ones, (rows, rows)), shape=A.shape)).tocsc()


def bottom_of_gram(W: Any, k: int, tol: float) -> BottomPairs:
    """The k smallest eigenpairs of M = (I - W)^T (I - W), the constant vector left out."""
    n = W.shape[0]
    A = (sparse.eye_array(n, format="csr") - W).tocsr()
    grounds = _grounds(W, closed_classes(W))
    unit = np.zeros((n, len(grounds)))
    unit[grounds, np.arange(len(grounds))] = 1.0
    try:
        solver = _Solver(_ground(A, grounds))
        raw = np.column_stack([solver.solve(u) for u in unit.T])
        regular = np.linalg.norm(A @ raw) <= 1e-6 * np.linalg.norm(raw)
    except SolverError:
        regular = False
    constant = np.full((n, 1), 1.0 / np.sqrt(n))
    if regular:
        null = _orthonormal(raw)
        split = _orthonormal(null - constant @ (constant.T @ null), drop=1e-6)
        regular = split.shape[1] == len(grounds) - 1
    if not regular:  # more null vectors than classes: the weights reconstruct rows exactly
        return bottom_of_symmetric((A.T @ A).tocsr(), k, tol)
    left = _orthonormal(np.column_stack([solver.solve(u, "T") for u in unit.T]))

    def invert(c: Floats) -> Floats:
        """M^+ c = A^+ A^+^T c, outside of the null space."""
        y = solver.solve(_without(null, c), "T")
        return _without(null, solver.solve(_without(left, y)))

    # The null space but for the constant vector: values zero, one for each further closed class.
    split = split[:, :k]
    found = _invert_and_iterate(invert, n, k - split.shape[1], tol)
    values = np.concatenate([np.zeros(split.shape[1]), found[0]])
    vectors = np.column_stack([split, found[1]])
    route = (
        "sparse factor of I - W" if solver.direct else "GMRES with an incomplete factor of I - W"
    )
    return BottomPairs(values, vectors, split.shape[1], route, solver.converged)


def bottom_of_symmetric(M: Any, k: int, tol: float) -> BottomPairs:
    """The k smallest eigenpairs of a semi-definite M with M 1 = 0, the constant left out."""
    n = M.shape[0]
    diagonal = M.diagonal()
    # Rounding may leave M with further null vectors, or slightly indefinite: a hair is added.
    hair = 1e-13 * float(diagonal.max())
    ground = np.array([int(diagonal.argmax())])
    solver = _Solver(_ground((M + hair * sparse.eye_array(n)).tocsr(), ground))
    constant = np.full((n, 1), 1.0 / np.sqrt(n))

    def invert(c: Floats) -> Floats:
        return _without(constant, solver.solve(_without(constant, c)))

    values, vectors = _invert_and_iterate(invert, n, k, tol)
    route = "sparse factor of M" if solver.direct else "GMRES with an incomplete factor of M"
    return BottomPairs(np.maximum(values - hair, 0.0), vectors, 0, route, solver.converged)


def bottom_of_dense(M: Floats, k: int, null: int = 0) -> BottomPairs:
    """The same for a small dense M: the constant vector is moved to the other end.

    `null`: how many other null vectors are known to be there.
    """
    from nearfold.linalg.eigen import bottom_eigenpairs

    above = 2.0 * float(np.trace(M)) or 1.0  # more than any eigenvalue
    pairs = bottom_eigenpairs(M + above / len(M), k, name="M = (I - W)^T (I - W)")
    return BottomPairs(np.maximum(pairs.values, 0.0), pairs.vectors, min(null, k), "dense")


def _invert_and_iterate(invert: Any, n: int, k: int, tol: float) -> tuple[Floats, Floats]:
    if k <= 0:
        return np.empty(0), np.empty((n, 0))
    start = np.random.default_rng(0).standard_normal(n)
    inverse = LinearOperator((n, n), matvec=lambda v: invert(np.ravel(v)), dtype=np.float64)
    try:
        mu, V = eigsh(inverse, k, which="LA", v0=start - start.mean(), tol=tol)
    except (ArpackError, RuntimeError) as error:
        raise SolverError(
            f"the bottom eigenvectors of M ({n} x {n}) were not found: {error}"
        ) from None
    if not (np.isfinite(mu).all() and np.isfinite(V).all()):
        raise SolverError(f"M ({n} x {n}) is too close to singular: its inverse is not finite.")
    order = np.argsort(-mu)
    return 1.0 / np.maximum(mu[order], 1e-300), V[:, order]


def _without(Q: Array, c: Floats) -> Floats:
    return c - Q @ (Q.T @ c)


def _orthonormal(V: Floats, drop: float = 0.0) -> Floats:
    if drop:
        U, s, _ = np.linalg.svd(V, full_matrices=False)
        return U[:, s > drop]
    return np.linalg.qr(V)[0]
