"""The bottom eigenpairs of M = A^T A, and of a symmetric M, whose null vectors are known.

LLE needs the smallest eigenvalues of M = (I - W)^T (I - W). They are tiny and close together, so
only inverse iteration finds them; but M is singular, forming it squares the condition number of
A = I - W, and its factor, on a graph of neighbours of neighbours, fills in beyond any memory.

A itself is far sparser, and M^-1 = A^-1 A^-T. On 20,000 MNIST rows its factor takes seconds, where
that of M takes minutes. Three things make it work:

  Grounding. A has the null vector 1 (rows of W sum to one) and a left null vector p, the stationary
  distribution of the walk W. A~ = A + e_r e_r^T is regular, and solves A x = b exactly whenever b
  is in the range: from p^T A~ x = p_r x_r = p^T b = 0 follows x_r = 0. No shift spoils anything.
  The row r must carry much of p, or A~ is nearly singular: a few steps of the walk find it.

  Closed classes. If the lists of some rows lead only to each other, whatever leads to them, 1 is
  not the only null vector: there is one per closed class of the walk. Each gets its own ground.

  Cost before work. A large graph without separators is not factored (filtered.py). Of others the
  fill of the factor is counted symbolically first. If it exceeds the memory budget or takes too
  long, an incomplete factor preconditions GMRES, to nearly the same accuracy.

A symmetric M (the other variants of LLE) is grounded in the same way. Small problems are solved
densely: by the singular values of A, which do not square the condition number either, or by the
eigenvalues of a given M.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, gmres, spilu, splu

from nearfold.blocks import get_memory, require_memory, show_bytes
from nearfold.errors import SolverError
from nearfold.linalg.eigen import bottom_eigenpairs, thin_svd
from nearfold.linalg.filtered import bottom_by_filter, filter_bytes, has_no_separators
from nearfold.notation import Array, Floats, Ints
from nearfold.run import one_blas_thread

_ENTRY_BYTES = 24  # of L and U together, for each entry of L, as measured
MOST_WORK = 1e13  # multiplications: a factor that takes some minutes
_SURE_ROWS = 20_000  # up to here a factor is cheap however it fills, if it fits
_SVD_ROWS = 800  # up to here a singular I - W that cannot be grounded is decomposed densely
_FILTER_ROWS = 10_000  # from here on a graph without separators may be solved without a factor
_PRODUCT_WORK = 20.0  # multiplications of a factor in the time of a product, per entry of I - W
_FILTER_PRODUCTS = 15_000  # a factor that costs more of them is worth the trial of a filter
_STEPS = 50  # of a walk that finds where it stays: more chose the same rows
_RESTART = 100  # vectors GMRES keeps
_FILL = 10  # of the incomplete factor, beside the entries of the matrix
_PATTERN = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0}


@dataclass(frozen=True)
class BottomPairs:
    """Values (k,) ascending, vectors (n, k), and how they were found."""

    values: Floats
    vectors: Floats
    null: int  # how many values are zero because the graph is split, not counting the constant
    route: str
    converged: bool = True
    approximation: str | None = None  # what the memory budget decided, if it did


def closed_classes(W: Any) -> list[Ints]:
    """The sets of rows from which the walk W cannot leave, each strongly connected."""
    n = W.shape[0]
    ones = sparse.csr_array((np.ones(len(W.data)), W.indices, W.indptr), shape=W.shape)
    count, label = connected_components(ones, directed=True, connection="strong")
    tails = np.repeat(np.arange(n), np.diff(W.indptr))
    leaves = np.zeros(count, dtype=bool)
    leaves[label[tails[label[tails] != label[W.indices]]]] = True
    order = np.argsort(label, kind="stable")
    first = np.searchsorted(label[order], np.arange(count + 1))
    return [order[first[i] : first[i + 1]] for i in np.flatnonzero(~leaves)]


def _choose_grounds(W: Any, classes: list[Ints]) -> Ints:
    """In each class the row where a walk is found most often."""
    size = abs(W)
    steps = (sparse.diags_array(1.0 / np.maximum(size.sum(axis=1), 1e-300)) @ size).T.tocsr()
    p = np.full(W.shape[0], 1.0 / W.shape[0])
    for _ in range(_STEPS):
        p = 0.5 * p + 0.5 * (steps @ p)
    return np.array([rows[p[rows].argmax()] for rows in classes], dtype=np.int64)


def gmres_bytes(n: int, entries: int) -> float:
    """About what GMRES with an incomplete factor of a matrix of so many entries holds."""
    return 8.0 * n * (_RESTART + 10) + 12.0 * entries * (_FILL + 4)


def factor_size(G: Any) -> tuple[float, float]:
    """Bytes and multiplications of a sparse factor of G, counted symbolically."""
    from nearfold.kernels.symbolic import factor_cost

    # An incomplete factor with next to nothing in it costs little and brings the ordering.
    rough = spilu(G.tocsc(), drop_tol=0.5, fill_factor=1, **_PATTERN)
    pattern = (abs(G) + abs(G.T)).tocsr()
    entries, work = factor_cost(
        pattern.indptr.astype(np.int64), pattern.indices, rough.perm_c.astype(np.int64)
    )
    return float(_ENTRY_BYTES * entries), float(work)


class _Solver:
    """Solves with a sparse regular matrix and its transpose: directly, or by GMRES.

    `choice`: "factor" (refused beyond the budget), "gmres", or "auto", a factor if it fits.
    """

    def __init__(self, G: Any, choice: str, size: tuple[float, float] | None = None) -> None:
        self.converged = True
        self.approximation: str | None = None
        self._size = size  # of the factor, if it has been counted
        self.direct = choice != "gmres" and self._is_cheap(G, refuse=choice == "factor")
        try:
            if self.direct:
                self._factor = splu(G.tocsc(), options={"SymmetricMode": True}, **_PATTERN)
                return
            advice = "Use fewer rows, or transform the others."
            require_memory(gmres_bytes(G.shape[0], G.nnz), "GMRES for the eigenvectors", advice)
            self._rows, self._columns = G.tocsr(), G.T.tocsr()
            self._factor = spilu(G.tocsc(), drop_tol=1e-3, fill_factor=_FILL, **_PATTERN)
        except RuntimeError as error:
            raise SolverError(f"the weights of LLE could not be factored: {error}") from None

    def _is_cheap(self, G: Any, refuse: bool) -> bool:
        """Whether a factor fits half of the budget and takes no more than minutes."""
        n, budget = G.shape[0], get_memory()
        if n <= _SURE_ROWS and _ENTRY_BYTES / 2 * n * n < budget / 2:
            return True
        needed, work = self._size or factor_size(G)
        if refuse:
            advice = "Use eigen_solver='gmres' or 'auto'."
            require_memory(2 * needed, "A sparse factor and its work space", advice)
            return True
        if 2 * needed >= budget:
            self.approximation = (
                f"GMRES instead of a sparse factor, which needs {show_bytes(2 * needed)} "
                f"(memory budget {show_bytes(budget)})"
            )
        return bool(2 * needed < budget and work < MOST_WORK)

    def solve(self, b: Floats, trans: str = "N") -> Floats:
        if self.direct:
            return self._factor.solve(b, trans=trans)
        A = self._rows if trans == "N" else self._columns
        rough = LinearOperator(A.shape, lambda c: self._factor.solve(c, trans=trans))
        # As far as it goes: the last digits are sometimes out of reach, and are not needed.
        x, _ = gmres(A, b, M=rough, rtol=1e-12, restart=_RESTART, maxiter=4)
        self.converged &= bool(np.linalg.norm(A @ x - b) <= 1e-9 * np.linalg.norm(b))
        return x


def _ground(A: Any, rows: Ints) -> Any:
    ones = np.full(len(rows), float(abs(A.diagonal()).max()) or 1.0)
    return (A + sparse.csr_array((ones, (rows, rows)), shape=A.shape)).tocsc()


def _suits_filter(W: Any, k: int) -> bool:
    """Whether a factor of I - W would fill in, and a filter (less than GMRES) fits the budget."""
    n = W.shape[0]
    fits = n >= _FILTER_ROWS and filter_bytes(n, k, W.nnz + n) <= get_memory()
    return fits and has_no_separators(W)


@one_blas_thread()
def bottom_of_gram(
    W: Any, k: int, tol: float, choice: str = "auto", max_iter: int = 100
) -> BottomPairs:
    """The k smallest eigenpairs of M = (I - W)^T (I - W), the constant vector left out."""
    n = W.shape[0]
    A = (sparse.eye_array(n, format="csr") - W).tocsr()
    classes = closed_classes(W)
    grounds, size = _choose_grounds(W, classes), None
    G = _ground(A, grounds)
    if choice == "auto" and len(classes) == 1 and _suits_filter(W, k):
        size = factor_size(G)
        most = size[1] / (_PRODUCT_WORK * A.nnz)
        filtered = bottom_by_filter(A, k, tol, most) if most > _FILTER_PRODUCTS else None
        if filtered is not None:
            return BottomPairs(*filtered, 0, "Lanczos on a Chebyshev filter of M")
    unit = np.zeros((n, len(grounds)))
    unit[grounds, np.arange(len(grounds))] = 1.0
    try:
        solver = _Solver(G, choice, size)
        raw = np.column_stack([solver.solve(u) for u in unit.T])
        regular = np.linalg.norm(A @ raw) <= 1e-6 * np.linalg.norm(raw)
    except SolverError:
        regular = False
    constant = np.full((n, 1), 1.0 / np.sqrt(n))
    if regular:
        null = np.linalg.qr(raw)[0]
        U, s, _ = np.linalg.svd(null - constant @ (constant.T @ null), full_matrices=False)
        split = U[:, s > 1e-2]  # the others are 1: between them lies what rounding leaves
        null = np.column_stack([constant, split])
        regular = split.shape[1] == len(grounds) - 1
    if not regular:  # more null vectors than classes: the weights reconstruct rows exactly
        if n <= _SVD_ROWS:
            return bottom_of_factor(A.toarray(), k, len(classes) - 1)
        return bottom_of_symmetric((A.T @ A).tocsr(), k, tol, choice, max_iter)
    left = np.linalg.qr(np.column_stack([solver.solve(u, "T") for u in unit.T]))[0]

    def invert(c: Floats) -> Floats:
        """M^+ c = A^+ A^+^T c, outside of the null space."""
        y = solver.solve(_project_out(null, c), "T")
        return _project_out(null, solver.solve(_project_out(left, y)))

    # The null space but for the constant vector: values zero, one for each further closed class.
    split = split[:, :k]
    found = _invert_and_iterate(invert, n, k - split.shape[1], tol, max_iter)
    values = np.concatenate([np.zeros(split.shape[1]), found[0]])
    vectors = np.column_stack([split, found[1]])
    route = (
        "sparse factor of I - W" if solver.direct else "GMRES with an incomplete factor of I - W"
    )
    return BottomPairs(
        values, vectors, split.shape[1], route, solver.converged, solver.approximation
    )


@one_blas_thread()
def bottom_of_symmetric(
    M: Any, k: int, tol: float, choice: str = "auto", max_iter: int = 100
) -> BottomPairs:
    """The k smallest eigenpairs of a semi-definite M with M 1 = 0, the constant left out."""
    n = M.shape[0]
    diagonal = M.diagonal()
    # Rounding may leave M with further null vectors, or slightly indefinite.
    shift = 1e-13 * float(diagonal.max())
    ground = np.array([int(diagonal.argmax())])
    solver = _Solver(_ground((M + shift * sparse.eye_array(n)).tocsr(), ground), choice)
    constant = np.full((n, 1), 1.0 / np.sqrt(n))

    def invert(c: Floats) -> Floats:
        """Refined in two cheap steps: with the shift the grounded solution is not quite exact."""
        c = _project_out(constant, c)
        x = _project_out(constant, solver.solve(c))
        for _ in range(2 if solver.direct else 0):
            rest = _project_out(constant, c - M @ x - shift * x)
            x += _project_out(constant, solver.solve(rest))
        return x

    values, vectors = _invert_and_iterate(invert, n, k, tol, max_iter)
    route = "sparse factor of M" if solver.direct else "GMRES with an incomplete factor of M"
    values = np.maximum(values - shift, 0.0)
    return BottomPairs(values, vectors, 0, route, solver.converged, solver.approximation)


def dense_bytes(n: int) -> float:
    """About what the dense routes hold at their peak: the matrix, its copies and factors."""
    return 8.0 * 8 * n * n


@one_blas_thread()
def bottom_of_factor(A: Floats, k: int, null: int = 0) -> BottomPairs:
    """The k smallest eigenpairs of A^T A for a dense A with A 1 = 0, the constant left out.

    From the singular values of A: their squares are accurate far below eps |A|^2, which is all
    that the eigenvalues of A^T A could give. `null`: how many other null vectors there are.
    """
    u = _constant_reflector(len(A))
    _, s, Vt = thin_svd((A - np.outer(A @ u, 2.0 * u))[:, 1:], name="I - W")
    V = _reflect_back(u, Vt[::-1][:k].T)
    return BottomPairs(s[::-1][:k] ** 2, V, min(null, k), "dense")


@one_blas_thread()
def bottom_of_dense(M: Floats, k: int) -> BottomPairs:
    """The k smallest eigenpairs of a dense symmetric M with M 1 = 0, the constant left out."""
    u = _constant_reflector(len(M))
    half = M @ u
    cross = np.outer(2.0 * u, half - u * (u @ half))
    pairs = bottom_eigenpairs((M - cross - cross.T)[1:, 1:], k, name="M")
    V = _reflect_back(u, pairs.vectors)
    return BottomPairs(np.maximum(pairs.values, 0.0), V, 0, "dense")


def _constant_reflector(n: int) -> Floats:
    """u of the reflection I - 2 u u^T that exchanges the constant vector and the first axis."""
    u = np.full(n, 1.0 / np.sqrt(n))
    u[0] += 1.0
    return np.asarray(u / np.linalg.norm(u))


def _reflect_back(u: Floats, V: Floats) -> Floats:
    """Vectors of all axes but the first, after the reflection: all orthogonal to the constant."""
    V = np.vstack([np.zeros((1, V.shape[1])), V])
    return V - np.outer(2.0 * u, u @ V)


def _invert_and_iterate(
    invert: Any, n: int, k: int, tol: float, max_iter: int
) -> tuple[Floats, Floats]:
    if k <= 0:
        return np.empty(0), np.empty((n, 0))
    start = np.random.default_rng(0).standard_normal(n)
    inverse = LinearOperator((n, n), matvec=lambda v: invert(np.ravel(v)), dtype=np.float64)
    try:
        mu, V = eigsh(inverse, k, which="LA", v0=start - start.mean(), tol=tol, maxiter=max_iter)
    except (ArpackError, RuntimeError) as error:
        raise SolverError(
            f"the bottom eigenvectors of M ({n} x {n}) were not found: {error}"
        ) from None
    if not (np.isfinite(mu).all() and np.isfinite(V).all()):
        raise SolverError(f"M ({n} x {n}) is too close to singular: its inverse is not finite.")
    order = np.argsort(-mu)
    return 1.0 / np.maximum(mu[order], 1e-300), V[:, order]


def _project_out(Q: Array, c: Floats) -> Floats:
    return c - Q @ (Q.T @ c)
