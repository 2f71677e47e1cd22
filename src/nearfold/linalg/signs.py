"""The sign rule, one for the whole package.

An axis and its negative span the same line, so a rule must choose. Ours: the entry of
largest magnitude of each axis is positive. It is decided from the axes alone, never from
the data, so fit and fit_transform, batch and stream agree. Where several entries are equally
large up to rounding the first of them decides, so that a last-bit difference flips nothing.
"""

from __future__ import annotations

import numpy as np

from nearfold.notation import Array


def axis_signs(axes: Array) -> Array:
    """For each row of `axes` the factor, +1 or -1, that puts it into the fixed form."""
    size = np.abs(axes)
    largest = size.max(axis=1, keepdims=True, initial=0.0)
    first = np.argmax(size >= largest * (1 - 1e-5), axis=1)
    chosen = axes[np.arange(axes.shape[0]), first]
    return np.where(chosen < 0, -1.0, 1.0).astype(axes.dtype)


def fix_signs(axes: Array) -> Array:
    """The axes (one per row) in the fixed form."""
    return axes * axis_signs(axes)[:, None]
