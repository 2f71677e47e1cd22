"""Rows in groups, each rounded to digits about a centre of its own.

Groups are found by a few rounds of k-means on the sketches psi. The digits of a group count steps
of the size that its rows need, so that rows far out, or groups far apart, cost the others nothing.
"""

from __future__ import annotations

import numpy as np

from nearfold.blocks import spans
from nearfold.linalg import square_norms
from nearfold.neighbors.grouped import Groups
from nearfold.neighbors.sketch import U32, U64, Sketcher
from nearfold.notation import Array, Ints
from nearfold.run import map_in_order, one_blas_thread

ROW_TILE = 1024  # rows of a group, at the most
_LEAST = 256  # rows of a group on the average, at the least
_ROUNDS = 5  # of k-means
_PER_GROUP = 16  # rows of its sample
_PANEL = 16  # places of a group are a multiple of it: see kernels/digits.py
_TOGETHER = 16  # groups arranged by one task


def group_rows(
    sketcher: Sketcher, X: Array, rng: np.random.Generator, n_jobs: int | None
) -> Groups:
    """The groups of all rows."""
    from nearfold.kernels.groups import arrange_group

    n, D = len(X), sketcher.width
    sketch = sketcher.sketch(X, n_jobs)
    with one_blas_thread():
        centres = group_centres(sketch.psi, max(1, min(int(np.sqrt(n) / 2), n // _LEAST)), rng)
    order, first = sort_by_group(sketch.psi, centres, n_jobs)
    size = np.diff(first)
    first, size = first[:-1][size > 0], size[size > 0]
    start = np.append(0, np.cumsum(-(-size // _PANEL) * _PANEL))
    places = int(start[-1])
    row_of = np.full(places, -1)
    row_of[np.repeat(start[:-1] - first, size) + np.arange(n)] = order
    total = np.add.reduceat(sketch.psi[order], first, axis=0)
    errors = (
        # Distances that decide are rounded too, and the axes are orthonormal up to rounding.
        sketcher.scale * (1 + 16 * (sketcher.d + 4) * U64),
        (D + 4) * U32,
    )
    groups = Groups(
        X, row_of, start, size,
        psi=np.empty((places, 0 if sketcher.whole else D), dtype=np.float32),
        digits=np.empty(places * depth_of(D), dtype=np.uint8),
        square=np.zeros(places, dtype=np.int32),
        centres=total / size[:, None].astype(np.float32),
        facts=np.empty((len(size), 4)),
        levels=largest_digit(D),
        errors=errors,
    )  # fmt: skip

    def arrange(span: slice) -> None:
        for g in range(span.start, span.stop):
            arrange_group(groups, g, sketch.psi, sketch.slack)

    for _ in map_in_order(arrange, spans(len(size), _TOGETHER), n_jobs=n_jobs):
        pass
    return groups


def depth_of(width: int) -> int:
    """Digits of a row: they are multiplied four at a time."""
    return -(-width // 4) * 4


def largest_digit(width: int) -> int:
    """At most a signed byte, and sums of so many products must stay below 2^27."""
    return max(1, min(127, int(np.sqrt(2**27 / width + 64**2) - 64)))


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
