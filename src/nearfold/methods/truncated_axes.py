"""Axes kept between batches where the scatter does not fit the memory budget.

Not an estimator but IncrementalPCA's fallback: each batch is merged into the axes kept so far by an
SVD (Ross et al., 2008), which forgets what lies outside of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.blocks import get_memory, require_memory, show_bytes, spans
from nearfold.errors import ApproximationWarning, warn
from nearfold.linalg import (
    Principal,
    is_count,
    merge_truncated,
    require_scatter_memory,
    scatter_bytes,
)
from nearfold.notation import Array, Floats

_ROWS_MERGED = 128  # at least, by one SVD
_MOST_MERGED = 256  # axes that are kept where no count is asked for
_SMALL = 2**20  # bytes: work space that no budget counts
_COPIES = 4  # of axes and rows, that an SVD holds


def keeps_axes_only(d: int, truncate: str) -> bool:
    """Whether axes are kept between batches, not the scatter of d features."""
    if truncate == "auto":
        return scatter_bytes(d) > get_memory()
    return truncate == "always"


def truncation_note(d: int, truncate: str) -> str | None:
    """What is approximated if only axes are kept, not the scatter of d features; else None.

    `truncate` is "always", "never" (refused beyond the memory budget) or "auto": beyond it only.
    """
    if truncate == "never":
        require_scatter_memory(d)
    if truncate == "always":
        return "only the leading axes are kept between batches (truncate)"
    if not keeps_axes_only(d, truncate):
        return None
    needed = scatter_bytes(d)
    note = (
        f"only the leading axes are kept between batches: the scatter of {d} features "
        f"would need {show_bytes(needed)} (memory budget {show_bytes(get_memory())})"
    )
    warn(
        f"IncrementalPCA: {note}. Raise the budget with nearfold.set_memory, or pin the route with "
        "truncate.",
        ApproximationWarning,
    )
    return note


def axes_kept(d: int, n_components: Any) -> int:
    """How many axes are kept between batches."""
    return int(n_components) if is_count(n_components) else min(d, _MOST_MERGED)


def merge_bytes(d: int, k: int) -> float:
    """What merging a batch into k axes of d columns takes."""
    return 8.0 * _COPIES * (k + max(k, _ROWS_MERGED) + 1) * d


def merge_batch(
    merged: Principal | None, X: Array, weights: Floats | None, n_components: Any, note: str
) -> Principal:
    """The axes so far (None: there are none yet) and one more batch."""
    d = X.shape[1]
    k = axes_kept(d, n_components)
    if merged is None:
        none, empty = np.zeros(0), np.zeros((0, d))
        merged = Principal(none, empty, 0.0, np.zeros(d), 0.0, 0, "merged", note)
    # An SVD of b rows costs b^2 d, so fewer rows at a time cost less, down to about k.
    rows = max(k, _ROWS_MERGED)
    needed = merge_bytes(d, k)
    if needed > _SMALL:
        require_memory(needed, f"Merging {k} axes of {d:,} columns", "Ask for fewer components.")
    for part in spans(len(X), rows):
        w = None if weights is None else weights[part]
        merged = merge_truncated(merged, X[part], w, k)
    return merged
