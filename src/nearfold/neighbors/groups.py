"""Rows in groups, each sketched on axes of its own.

Groups are found by a few rounds of k-means on the sketches psi. About its centre c a group has few
strong directions, fewer than the whole table: with V an orthonormal basis of these,

    phi(y) = (V^T (y - c), |the rest of y - c|)

never stretches a distance, and needs fewer axes than psi for a bound as tight. How many is found
out on a few groups: what each number of axes would let through is counted and priced.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from nearfold.blocks import spans
from nearfold.linalg import pair_squares, square_norms
from nearfold.neighbors.grouped import Groups
from nearfold.neighbors.plan import AXES, Pilot, choose_short
from nearfold.neighbors.sketch import U32, U64, Sketch, Sketcher
from nearfold.notation import Array, Floats, Ints
from nearfold.run import map_in_order, one_blas_thread

ROW_TILE = 512  # rows of a group, at the most
_LEAST = 128  # rows of a group on the average, at the least
_ROUNDS = 5  # of k-means
_PER_GROUP = 16  # rows of its sample
_PILOTS, _PILOT_GROUPS, _PILOT_ROWS = 32, 6, 2**14
_LOCAL_AXES = [h for h in AXES if h <= 63]


def group_rows(
    sketcher: Sketcher, X: Array, k: int, short: int | None, rng: np.random.Generator,
    n_jobs: int | None,
) -> tuple[Groups, Floats]:  # fmt: skip
    """The groups of all rows, and the centres (G, D); `short` axes each, or as many as pay."""
    n = len(X)
    sketch = sketcher.sketch(X, n_jobs)
    if short is None or short < sketcher.d:
        with one_blas_thread():
            centres = group_centres(sketch.psi, max(1, min(int(np.sqrt(n)), n // _LEAST)), rng)
        row_of, start = sort_by_group(sketch.psi, centres, n_jobs)
        if short is None:
            with one_blas_thread():
                pilot = _fly(sketcher, X, sketch.psi, row_of, start, k, rng)
            short = choose_short(pilot, n, sketcher.d, sketcher.width, len(start) - 1)
    if short < sketcher.d:
        sketch = sketch.take(row_of)
    else:  # where no axis stands out no grouping will help: the rows stay as they are
        row_of, start = np.arange(n), np.append(np.arange(0, n, ROW_TILE), n)
    return _local_sketches(sketcher, X, sketch, row_of, start, short, n_jobs)


def group_centres(psi: Array, groups: int, rng: np.random.Generator) -> Array:
    """A few rounds of k-means on a sample: enough to put near rows side by side."""
    sample = psi[np.sort(rng.permutation(len(psi))[: _PER_GROUP * groups])]
    centres = sample[rng.permutation(len(sample))[:groups]]
    for _ in range(_ROUNDS):
        nearest = nearest_centre(sample, centres)
        order = np.argsort(nearest, kind="stable")
        found, first = np.unique(nearest[order], return_index=True)
        total = np.add.reduceat(sample[order], first, axis=0)
        centres[found] = total / np.diff(np.append(first, len(order)))[:, None]
    return centres[np.argsort(centres[:, 0], kind="stable")]


def nearest_centre(psi: Array, centres: Array) -> Ints:
    """The number of the centre that is nearest to each row."""
    return np.argmax(psi @ centres.T - 0.5 * square_norms(centres), axis=1)


def sort_by_group(psi: Array, centres: Array, n_jobs: int | None) -> tuple[Ints, Ints]:
    """Rows by group, and where groups begin; large groups are cut."""
    blocks = (psi[span] for span in spans(len(psi), 1024))
    group = np.concatenate(
        list(map_in_order(lambda block: nearest_centre(block, centres), blocks, n_jobs=n_jobs))
    )
    ends = np.cumsum(np.bincount(group, minlength=len(centres))).tolist()
    start = [0]
    for end in ends:
        parts = -(-(end - start[-1]) // ROW_TILE)
        start += np.linspace(start[-1], end, parts + 1).astype(int)[1:].tolist()
    return np.argsort(group, kind="stable"), np.array(start)


def local_axes(rows: Array, count: int) -> Floats:
    """Leading axes (D, count) of centred rows, roughly: any orthonormal ones are valid."""
    noise = _noise(max(rows.shape), count)
    axes = np.linalg.qr(rows.T @ (rows @ (rows.T @ noise[: len(rows)])))[0]
    axes = (rows.T @ (rows @ axes)).astype(np.float64)
    axes /= max(float(np.abs(axes).max()), 1e-300)
    # A group of few rows has fewer directions; noise fills up.
    return np.linalg.qr(axes + 1e-9 * noise[: len(axes)])[0]


@lru_cache(maxsize=2)
def _noise(n: int, count: int) -> Array:
    size = 1 << (n - 1).bit_length()
    return np.random.default_rng(0).standard_normal((size, count), np.float32)


def _fly(
    sketcher: Sketcher, X: Array, psi: Array, row_of: Ints, start: Ints, k: int,
    rng: np.random.Generator,
) -> Pilot:  # fmt: skip
    """What sketches of each length would let through, on a few rows and groups."""
    n = len(row_of)
    seen = rng.permutation(n)[:_PILOT_ROWS]
    pilot = seen[:_PILOTS]
    queries, others = psi[pilot], psi[seen]
    score = queries @ others.T - 0.5 * square_norms(others)
    rank = min(-(-k * len(seen) // n) + 1, len(seen))  # a pilot finds itself
    best = np.argpartition(-score, rank - 1, axis=1)[:, :rank]
    square = pair_squares(X, X, np.repeat(pilot, rank), seen[best.ravel()])
    reach = square.reshape(best.shape).max(axis=1) * sketcher.scale**2
    axes = [h for h in _LOCAL_AXES if h < sketcher.width]
    through, met, rows_seen = np.zeros(len(axes)), np.zeros(len(axes)), 0
    for g in np.searchsorted(start, np.linspace(0, n - 1, _PILOT_GROUPS), side="right") - 1:
        rows = psi[row_of[start[g] : start[g + 1]]]
        centre = rows.mean(axis=0)
        basis = local_axes(rows - centre, max(axes, default=1)).astype(np.float32)
        rows_seen += len(rows)
        for i, h in enumerate(axes):
            own, phi = (_with_tail(A - centre, basis[:, :h]) for A in (queries, rows))
            bound = square_norms(own)[:, None] + square_norms(phi) - 2 * own @ phi.T
            through[i] += (bound <= reach[:, None]).sum()
            far = np.sqrt(square_norms(own[:, :h])) - np.sqrt(square_norms(phi[:, :h]).max())
            off = np.maximum(own[:, h] - phi[:, h].max(), phi[:, h].min() - own[:, h])
            gap = np.maximum(far, 0) ** 2 + np.maximum(off, 0) ** 2
            met[i] += (gap <= reach).sum() * len(rows)
    pairs = max(1, rows_seen * len(pilot))
    return Pilot(axes, through / pairs, met / pairs)


def _with_tail(centred: Array, axes: Array) -> Array:
    part = centred @ axes
    tail = np.sqrt(np.maximum(square_norms(centred) - square_norms(part), 0.0))
    return np.column_stack([part, tail])


def _local_sketches(
    sketcher: Sketcher, X: Array, sketch: Sketch, row_of: Ints, start: Ints, short: int,
    n_jobs: int | None,
) -> tuple[Groups, Floats]:  # fmt: skip
    n, D = sketch.psi.shape
    G = len(start) - 1
    plain = short >= sketcher.d
    h = 0 if plain else min(short, D)
    width = D + 1 if plain else h + 2
    tiles = np.empty(n * width, dtype=np.float32)
    basis, origin = np.zeros((G, D, h), dtype=np.float32), np.zeros((G, h))
    centres, facts = np.zeros((G, D)), np.zeros((G, 6))

    def arrange(g: int) -> None:
        place = slice(start[g], start[g + 1])
        if place.start == place.stop:
            return
        # In float64: what float32 would round here might rule out a group that is near.
        psi = sketch.psi[place].astype(np.float64)
        centres[g] = psi.mean(axis=0)
        rows = psi - centres[g]
        square = square_norms(rows)
        tile = tiles[place.start * width : place.stop * width].reshape(width, -1)
        if plain:
            phi = psi
            error = 0.0
        else:
            axes = local_axes(rows.astype(np.float32), h)
            basis[g], origin[g] = axes, centres[g] @ axes.astype(np.float32).astype(np.float64)
            phi = _with_tail(rows, axes)
            facts[g, 3:] = np.sqrt(square_norms(phi[:, :h]).max()), phi[:, h].min(), phi[:, h].max()
            # Of the tail, a difference in float64, and of storing in float32.
            error = np.sqrt(8 * D * (np.sqrt(h) + 2) * U64 * square.max()) + 2 * U32 * np.sqrt(
                square.max()
            )
        tile[:-1] = phi.T
        size = square_norms(tile[:-1].T.astype(np.float64))
        tile[-1] = -0.5 * size
        facts[g, 0] = sketch.slack[place].max() + error
        facts[g, 1], facts[g, 2] = np.sqrt(size.max()), np.sqrt(square.max()) * (1 + 1e-9)

    for _ in map_in_order(arrange, range(G), n_jobs=n_jobs):
        pass
    errors = (
        # Distances that decide are rounded too, and the axes are orthonormal up to rounding.
        sketcher.scale * (1 + 16 * (sketcher.d + 4) * U64),
        (width + 1) * U32,
        (D + 4) * U32,
        np.sqrt(h) * (D + 8) * U32,
        16 * (D + 4) * U64,
    )
    long = sketch.psi[:, :0].copy() if plain else sketch.psi  # all of it is in the scores
    groups = Groups(X, row_of, start, long, tiles, basis, origin, facts, errors)
    return groups, centres
