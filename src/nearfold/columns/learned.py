"""What a preparation learns from the parts of a Dask frame: fills, scales, levels.

Each part is read where it is and only statistics come here, so the frame is read a few times: once
for extremes, gaps and levels; two or three times for medians, which are exact (their leading
binary digits are counted until few values are left); once for scales. Means are sums of parts;
everything else is what the same rows in memory would give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from nearfold.blocks import combine_pairwise
from nearfold.blocks.cluster import compute, shared, task
from nearfold.columns.cells import Cells, read_cells
from nearfold.columns.converters import MISSING
from nearfold.columns.encodings import indicators_of_counts
from nearfold.columns.scaling import join_moments, moments_of, safe_unit, scale_of
from nearfold.columns.specs import Spec
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array, Floats, Ints

_DIGIT = 11  # binary digits counted in one pass: 2,048 counters for each column
_FEW = 2048  # values of a column that may come here


@dataclass(frozen=True, eq=False)
class Learned:
    """What `TablePreparation.fit_learned` takes; `cells` has no rows, but says what is read."""

    cells: Cells
    lengths: tuple[int, ...]  # rows of each part
    fill: Floats
    centre: Floats
    scale: Floats
    levels: tuple[Array, ...]
    tables: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class _Facts:
    cells: Cells
    lengths: tuple[int, ...]
    known: Ints  # finite numbers of each column
    total: Floats  # their sum
    low: Floats
    high: Floats
    levels: tuple[Counter[Any], ...]  # rows of each word; None: missing


def learn_from_parts(
    frame: Any, specs: Sequence[Spec], missing: str = "median", scaled: bool = False
) -> Learned:
    """What the parts of a Dask frame teach a preparation with these parameters."""
    parts = frame.to_delayed()
    facts: _Facts = _over(parts, _facts_of_part, _join_facts, specs)
    n, cells = sum(facts.lengths), facts.cells
    if n == 0 or not cells.parts:
        raise InputError(Message(f"columns.nothing.{'columns' if n else 'rows'}"))
    if missing == "error" and (facts.known < n).any():
        gaps = int((n - facts.known).sum())
        raise InputError(Message("columns.gaps_in_parts", n=gaps))
    p = len(facts.known)
    fill = np.zeros(p)
    if missing == "mean":
        fill = facts.total / np.maximum(facts.known, 1)
    elif missing == "median" and p:
        fill = _medians(parts, specs, facts.known)
    centre, scale = np.zeros(p), np.ones(p)
    if scaled and p:
        gaps_in = facts.known < n
        low = np.where(gaps_in, np.minimum(facts.low, fill), facts.low)
        high = np.where(gaps_in, np.maximum(facts.high, fill), facts.high)
        moments = _over(parts, _moments_of_part, _join_moments, specs, fill, safe_unit(low, high))
        own = [part for part in cells.parts if not part.is_coded]
        centre, scale = scale_of(moments, low, high, own, cells.numbers.dtype)
    levels = tuple(np.asarray(sorted(w for w in c if w is not None), dtype=object)
                   for c in facts.levels)  # fmt: skip
    tables = tuple(
        indicators_of_counts(np.array([count[w] for w in words], int), n, count[None] > 0)
        for count, words in zip(facts.levels, levels, strict=True)
    )
    return Learned(cells, facts.lengths, fill, centre, scale, levels, tables)


def _over(
    parts: Sequence[Any], function: Callable[..., Any], combine: Callable[..., Any], *given: Any
) -> Any:
    """A statistic of all parts, joined where they are."""
    common = [shared(value) for value in given]
    tasks = [task(function, part, *common, block=f"block {i}") for i, part in enumerate(parts)]
    return compute([combine_pairwise(tasks, partial(task, combine))])[0]


def _facts_of_part(part: Any, specs: Sequence[Spec]) -> _Facts:
    cells = read_cells(part, specs)
    X = cells.numbers.astype(np.float64)
    finite = np.isfinite(X)
    counts = []
    for codes, words in zip(cells.codes.T, cells.levels, strict=True):
        times = np.bincount(codes[codes >= 0], minlength=len(words))
        count = Counter(dict(zip(words.tolist(), times.tolist(), strict=True)))
        count[None] = int((codes == MISSING).sum())
        counts.append(count)
    return _Facts(
        cells.take(np.arange(0)), (len(cells),), finite.sum(axis=0),
        np.where(finite, X, 0.0).sum(axis=0),
        np.where(finite, X, np.inf).min(axis=0, initial=np.inf),
        np.where(finite, X, -np.inf).max(axis=0, initial=-np.inf), tuple(counts),
    )  # fmt: skip


def _join_facts(a: _Facts, b: _Facts) -> _Facts:
    wide = a if a.cells.numbers.dtype == np.float64 else b
    return _Facts(
        wide.cells, a.lengths + b.lengths, a.known + b.known, a.total + b.total,
        np.minimum(a.low, b.low), np.maximum(a.high, b.high),
        tuple(one + other for one, other in zip(a.levels, b.levels, strict=True)),
    )  # fmt: skip


def _moments_of_part(part: Any, specs: Sequence[Spec], fill: Floats, unit: Floats) -> Any:
    cells = read_cells(part, specs)
    return moments_of(cells.numbers, fill, unit) if len(cells) else None


def _join_moments(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else join_moments(a, b)


# ---- medians ---------------------------------------------------------------------------


def _medians(parts: Sequence[Any], specs: Sequence[Spec], known: Ints) -> Floats:
    """The exact median of the known numbers of each column; 0 where there are none.

    Floats are ordered as their bits are. The leading digits of the middle value are found a few at
    a time, by counting; once few values share them, these come here.
    """
    rank, last = np.maximum(known - 1, 0) // 2, known // 2  # of the two middle values
    prefix, shift = np.zeros(len(known), np.uint64), 64
    below, inside = np.zeros(len(known), int), known.copy()
    while inside.max() > _FEW and shift > 0:
        step = min(_DIGIT, shift)
        counts = _over(parts, _digits_of_part, np.add, specs, prefix, shift, step)
        before = np.cumsum(counts, axis=1)
        digit = np.minimum((before <= (rank - below)[:, None]).sum(axis=1), 2**step - 1)
        column = np.arange(len(known))
        inside = counts[column, digit]
        below += before[column, digit] - inside
        shift -= step
        prefix = (prefix << np.uint64(step)) | digit.astype(np.uint64)
    values, above = _over(parts, _values_of_part, _join_values, specs, prefix, shift)
    fill = np.zeros(len(known))
    for j in np.flatnonzero(known):
        held = np.sort(values[j]) if shift else np.full(1, _value(prefix[j]))
        first = held[min(rank[j] - below[j], len(held) - 1)]
        beyond = last[j] >= below[j] + inside[j]
        second = above[j] if beyond else held[min(last[j] - below[j], len(held) - 1)]
        fill[j] = first / 2 + second / 2 if abs(first) > 1e300 else (first + second) / 2
    return fill


def _keys(part: Any, specs: Sequence[Spec]) -> tuple[Array, Array]:
    """Whole numbers in the order of the values, and which values are known."""
    X = read_cells(part, specs).numbers.astype(np.float64) + 0.0  # one zero, not two
    bits = np.ascontiguousarray(X).view(np.uint64)
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign), np.isfinite(X)


def _value(key: Any) -> float:
    sign = np.uint64(1 << 63)
    bits = key & ~sign if key & sign else ~key
    return float(np.array([bits], np.uint64).view(np.float64)[0])


def _inside(keys: Array, known: Array, prefix: Array, shift: int) -> Array:
    """Which keys begin with the prefix of their column."""
    return known if shift >= 64 else known & ((keys >> np.uint64(shift)) == prefix)


def _digits_of_part(part: Any, specs: Sequence[Spec], prefix: Array, shift: int, step: int) -> Ints:
    """How many keys of each column go on with which digits."""
    keys, known = _keys(part, specs)
    size = 2**step
    inside = _inside(keys, known, prefix, shift)
    counts = np.empty((len(prefix), size), np.int64)
    for j in range(len(prefix)):
        digit = (keys[inside[:, j], j] >> np.uint64(shift - step)) & np.uint64(size - 1)
        counts[j] = np.bincount(digit.astype(np.int64), minlength=size)
    return counts


def _values_of_part(
    part: Any, specs: Sequence[Spec], prefix: Array, shift: int
) -> tuple[list[Floats], Floats]:
    """The values that begin with the prefix (none, if that is all of them), the least beyond."""
    keys, known = _keys(part, specs)
    X = read_cells(part, specs).numbers.astype(np.float64)
    inside = _inside(keys, known, prefix, shift)
    beyond = known & ~inside
    if shift < 64:
        beyond &= (keys >> np.uint64(shift)) > prefix
    above = np.where(beyond, X, np.inf).min(axis=0, initial=np.inf)
    values = [X[inside[:, j], j] if shift else X[:0, j] for j in range(X.shape[1])]
    return values, above


def _join_values(a: Any, b: Any) -> Any:
    joined = [np.concatenate(pair) for pair in zip(a[0], b[0], strict=True)]
    return joined, np.minimum(a[1], b[1])
