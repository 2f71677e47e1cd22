"""Isomap's pieces, and new rows: their geodesics, and where they lie.

Not an estimator but what Isomap ends in, and `transform`.

A new row is joined to its nearest fitted rows (k of them, or all within the radius), so that its
geodesic to row t is min over these of (distance + geodesic from there to t). Gower's formula with
the means of the training geodesics then gives its coordinates. A row belongs to the piece of its
nearest fitted row and is joined only to neighbours there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_regressor

from nearfold.blocks import require_memory, spans
from nearfold.errors import InputError
from nearfold.graph import side_by_side
from nearfold.linalg.centred import CentredSquaredDistances
from nearfold.linalg.gower import GowerMap
from nearfold.methods.knn import KNeighborsRegressor
from nearfold.methods.reduction import padded
from nearfold.neighbors import LearnedIndex, PrecomputedIndex
from nearfold.neighbors.partitioned import rows_at
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order
from nearfold.state import Sizes, State, array, flag, list_of, nested, number, optional, require

_CELLS = 2**18  # geodesics of new rows held by one task


def measured_index(index: Any) -> Any:
    """The index itself; of a learned metric the Euclidean one of the rows it transformed."""
    return index.index if isinstance(index, LearnedIndex) else index


def fit_regressor(regressor: Any, X: Any, Z: Floats) -> Any:
    """The book's way to new rows: a regressor trained on the rows X and their coordinates Z."""
    if regressor is None:
        regressor = KNeighborsRegressor(n_neighbors=min(5, X.shape[0]), weights="distance")
    return clone(regressor).fit(X, Z)


def check_neighbourhood(
    shape: tuple[int, int], k: int | None, radius: float | None, precomputed: bool
) -> None:
    """Raise unless one kind of neighbourhood is asked for, and so many rows have it."""
    if k is not None and radius is not None:
        raise InputError(
            "Both n_neighbors and radius are provided. Use Isomap(radius="
            f"{radius}, n_neighbors=None) if intended to use radius-based neighbors"
        )
    if k is None and radius is None:
        raise InputError("give n_neighbors, or radius with n_neighbors=None.")
    m, d = shape
    if precomputed and m != d:
        raise InputError(
            "Precomputed distances must be a square matrix, one row and one column per "
            f"sample; this one is {m} x {d}."
        )
    if k is not None and k >= m:
        raise InputError(
            f"Expected n_neighbors < n_samples, but n_samples = {m}, n_neighbors = {k} (a row is "
            "not its own neighbour)."
        )


def check_asked(values: dict[str, Any], sizes: Sizes) -> None:
    """What a fitted Isomap holds is what its parameters ask for."""
    regressor = values.get("regressor_")
    width = getattr(regressor, "n_features_in_", None)
    require(width in (None, measured_index(values["index_"]).X.shape[1]), "another width")
    require(regressor is None or is_regressor(regressor), "regressor_: predicts no numbers")
    require(values.get("n_components", sizes["k"]) == sizes["k"], "n_components: other axes")
    trained = values.get("extension") != "regressor" or "regressor_" in values
    require(trained, "extension: there is no regressor_")
    given = isinstance(values["index_"], PrecomputedIndex)
    require(values["_extension"].precomputed == given, "_extension: of another kind of rows")
    if "n_neighbors" in values:
        one = (values["n_neighbors"] is None) != (values["radius"] is None)
        require(one, "n_neighbors or radius, not both")
        require((values["n_neighbors"] or 0) < sizes["m"], "n_neighbors: more than there are")


def _check_piece(values: dict[str, Any], sizes: Sizes) -> None:
    require(min(sizes["n"], sizes["l"]) >= 1, "a piece without rows")
    require(values["landmarks"] is not None or sizes["l"] == sizes["n"], "sizes of D")
    axes = values["place"].axes
    require(axes.shape[1] <= sizes["k"], "more axes than coordinates")
    reach, steep = float(values["D"].max()), float(np.abs(axes).max(initial=0))
    fits = reach < 1e140 and (1 + reach**2) * steep * sizes["l"] < 1e300
    require(fits, "D: squares that overflow along the axes")


@dataclass
class Piece:
    """One embedding: the rows it covers, geodesics to its landmarks (or to all), its map."""

    rows: Ints  # (n,) of the table
    D: Floats  # (n, L) geodesics between rows and landmarks
    landmarks: Ints | None  # (L,) positions in `rows`; None: all of them
    place: GowerMap
    Z: Floats  # (n, d')
    lam: Floats  # (d',)
    V: Floats | None  # (n, d') eigenvectors, of an exact embedding
    shift: float = 0.0  # along the first axis, when pieces lie side by side

    fitted_state = State(
        _check_piece,
        rows=array("n", "i", below="m", ascending=True),
        D=array("n l", least=0),
        landmarks=optional(array("l", "i", below="n")),
        place=nested(GowerMap, n="l"),
        Z=array("n k"),
        lam=array("k", least=0),
        V=optional(array("n k")),
        shift=number(),
    )


@dataclass(frozen=True)
class NeighbourLists:
    """The fitted rows that each of q new rows is joined to, nearest first, in one array."""

    first: Ints  # (q + 1,) where the list of each row begins
    row: Ints
    distance: Floats

    @classmethod
    def of(cls, index: Any, Q: Any, k: int | None, radius: float | None) -> NeighbourLists:
        """The k nearest fitted rows of each row of Q, or all within the radius."""
        q = Q.shape[0]
        if k is not None:
            distance, row = index.nearest(Q, k)
            return cls(np.arange(0, (q + 1) * k, k), row.ravel(), distance.ravel())
        query, row, distance = index.within(Q, radius)
        first = np.searchsorted(query, np.arange(q + 1))
        alone = np.flatnonzero(np.diff(first) == 0)
        if len(alone):
            raise InputError(
                f"{len(alone)} of {q} rows have no fitted row within radius={radius} (first "
                f"rows: {alone[:5].tolist()}): they cannot be joined to the graph. Fit with a "
                "larger radius, or with n_neighbors."
            )
        return cls(first, row, distance)

    @property
    def nearest(self) -> Ints:
        """The nearest fitted row of each."""
        return self.row[self.first[:-1]]


def extend_geodesics(D: Floats, first: Ints, count: Ints, near: Ints, distance: Floats) -> Floats:
    """Geodesics (q, L) of new rows: min over their neighbours of distance + geodesic.

    The neighbours of row i are near[first[i] : first[i] + count[i]], numbers of rows of D.
    """
    found = np.full((len(first), D.shape[1]), np.inf, dtype=D.dtype)
    for j in range(int(count.max(initial=0))):
        some = np.flatnonzero(count > j)
        at = first[some] + j
        through = D[near[at]] + distance[at, None]
        found[some] = np.minimum(found[some], through)
    return found


def _check_extension(values: dict[str, Any], sizes: Sizes) -> None:
    piece_of_row, index_in_piece = values["piece_of_row"], values["index_in_piece"]
    require(len(values["pieces"]) >= 1, "no pieces")
    embedded = 0
    for i, piece in enumerate(values["pieces"]):
        require((piece_of_row[piece.rows] == i).all(), "rows of another piece")
        numbers = np.arange(len(piece.rows))
        require((index_in_piece[piece.rows] == numbers).all(), "places in a piece")
        embedded += len(piece.rows)
    require(embedded == int((piece_of_row >= 0).sum()), "rows of no piece")


class GeodesicExtension:
    """The fitted pieces, and where new rows lie among them."""

    fitted_state = State(
        _check_extension,
        piece_of_row=array("m", "i", least=-1),
        index_in_piece=array("m", "i", least=0),
        pieces=list_of(nested(Piece, m="m", k="k")),
        precomputed=flag(),
    )

    def __init__(self, pieces: list[Piece], m: int, precomputed: bool = False) -> None:
        side_by_side([piece.Z for piece in pieces])
        self.pieces = pieces
        self.precomputed = precomputed  # rows are distances to the fitted rows
        self.piece_of_row = np.full(m, -1, dtype=np.int64)  # -1: not embedded (policy "largest")
        self.index_in_piece = np.zeros(m, dtype=np.int64)
        for i, piece in enumerate(pieces):
            piece.shift = float(piece.Z[:, 0].mean()) if len(pieces) > 1 else 0.0
            self.piece_of_row[piece.rows] = i
            self.index_in_piece[piece.rows] = np.arange(len(piece.rows))

    @property
    def complete(self) -> bool:
        """Whether every fitted row is in a piece."""
        return bool((self.piece_of_row >= 0).all())

    def embedding(self, index: Any, k: int, dtype: Any, n_jobs: int | None) -> Floats:
        """Coordinates of all fitted rows; those in no piece are placed as new ones."""
        m = len(self.piece_of_row)
        Z = np.zeros((m, self.pieces[0].Z.shape[1]), dtype=dtype)
        for piece in self.pieces:
            Z[piece.rows] = piece.Z
        outside = np.flatnonzero(self.piece_of_row < 0)
        if len(outside):
            X = rows_at(index, outside)[outside]
            Z[outside] = self._place_in_largest(index, X, k, n_jobs)
        return Z

    def place(
        self, index: Any, Q: Any, k: int | None, radius: float | None, n_jobs: int | None
    ) -> Floats:
        """Coordinates (q, d') of new rows."""
        lists = NeighbourLists.of(index, Q, k, radius)
        Z = np.empty((Q.shape[0], self.pieces[0].Z.shape[1]))
        owner = self.piece_of_row[lists.nearest]
        for i, piece in enumerate(self.pieces):
            mine = np.flatnonzero(owner == i)
            if len(mine):
                inside = self.piece_of_row[lists.row] == i
                distance = np.where(inside, lists.distance, np.inf)
                near = np.where(inside, self.index_in_piece[lists.row], 0)
                joined = NeighbourLists(lists.first, near, distance)
                Z[mine] = _place_in(piece, joined, mine, n_jobs)
        lost = np.flatnonzero(owner < 0)  # nearest to a row that no piece embeds
        if len(lost):
            Z[lost] = self._place_in_largest(index, Q[lost], k or 5, n_jobs)
        return Z

    def _place_in_largest(self, index: Any, Q: Any, k: int, n_jobs: int | None) -> Floats:
        """Rows among their nearest of the largest piece, whatever lies outside of it."""
        piece = self.pieces[0]
        if self.precomputed:
            if sparse.issparse(Q):
                raise InputError(
                    "rows outside the largest piece cannot be placed: the sparse graph holds no "
                    "distances to it. Use disconnected='each', or a graph with more edges."
                )
            Q = Q[:, piece.rows]
        lists = NeighbourLists.of(index.part(piece.rows), Q, min(k, len(piece.rows)), None)
        return _place_in(piece, lists, np.arange(Q.shape[0]), n_jobs)

    def dist_matrix(self) -> Floats:
        """The geodesics between fitted rows (m, m), or to the landmarks (m, L)."""
        m, first = len(self.piece_of_row), self.pieces[0]
        if len(first.rows) == m:
            return first.D
        needed = float(first.D.itemsize) * m * m
        require_memory(needed, f"dist_matrix_ of {m:,} rows in pieces", "")
        D = np.full((m, m), np.inf, dtype=first.D.dtype)
        for piece in self.pieces:
            among = piece.rows if piece.landmarks is None else piece.rows[piece.landmarks]
            D[np.ix_(piece.rows, among)] = piece.D
        return D

    def reconstruction_error(self) -> float:
        """|B - Z Z^T|_F / n of the first piece."""
        first = self.pieces[0]
        if first.landmarks is not None:
            raise InputError("reconstruction_error needs all geodesics: fit without landmarks.")
        left = CentredSquaredDistances(first.D).squared_norm() - float(first.lam @ first.lam)
        return float(np.sqrt(max(left, 0.0)) / len(first.rows))


def _place_in(piece: Piece, lists: NeighbourLists, some: Ints, n_jobs: int | None) -> Floats:
    """Coordinates of some of the listed rows, their neighbours numbered within the piece."""

    def place(part: slice) -> Array:
        first, end = lists.first[some[part]], lists.first[some[part] + 1]
        return piece.place.place(
            extend_geodesics(piece.D, first, end - first, lists.row, lists.distance)
        )

    step = max(1, _CELLS // max(1, piece.D.shape[1]))
    Z = np.concatenate(list(map_in_order(place, spans(len(some), step), n_jobs=n_jobs)))
    Z = padded(Z, piece.Z.shape[1])
    Z[:, 0] += piece.shift
    return Z
