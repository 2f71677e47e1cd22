"""Soft neighbours from a sparse softmax: weights and gradient in one pass over its entries."""

from __future__ import annotations

from nearfold.kernels.compile import summing_kernel
from nearfold.notation import Array


@summing_kernel
def negative_squares(at: Array, first: Array, Z: Array, Z_row: Array, out: Array) -> None:
    """out: minus the squared distances of the rows Z_row to rows of Z, at flat places `at`.

    The places of row i are at[first[i]:first[i + 1]], its entry for row j of Z at i m + j.
    """
    m, r = Z.shape
    for i in range(len(first) - 1):
        z = Z_row[i]
        for k in range(first[i], first[i + 1]):
            z_j = Z[at[k] - i * m]
            total = z[0] - z[0]
            for q in range(r):
                off = z_j[q] - z[q]
                total += off * off
            out[k] = -total


@summing_kernel
def add_soft(
    e: Array,
    at: Array,
    first: Array,
    y: Array,
    y_row: Array,
    by_class: bool,
    with_one: Array,
    with_one_row: Array,
    own: Array,
    onto: Array,
) -> float:
    """Add the soft neighbours of a block of b rows; e: entries of the softmax, at: their places.

    With s_i = sum_j e_ij and mean_i = sum_j e_ij t_ij / s_i, where t_ij is [y_i = y_j] (by_class)
    or y_j: W_ij = c_i e_ij (t_ij - mean_i) / s_i, c_i = 1 (by_class) or 2 (mean_i - y_i).
    own (b, r) becomes W z; W^T [z, 1] is added to onto (m, r + 1). Returns the sum of the mean_i,
    or of the (mean_i - y_i)^2.
    """
    b, m, r = own.shape[0], onto.shape[0], own.shape[1]
    value = 0.0
    for i in range(b):
        begin, s, sum_t = i * m, 0.0, 0.0
        for k in range(first[i], first[i + 1]):
            y_j = y[at[k] - begin]
            t = y_j
            if by_class:
                t = 1.0 if y_j == y_row[i] else 0.0
            s += e[k]
            sum_t += e[k] * t
        mean = sum_t / s
        scale = 1.0 / s
        if by_class:
            value += mean
        else:
            off = mean - y_row[i]
            value += off * off
            scale *= 2.0 * off
        own_i, z = own[i], with_one_row[i]
        own_i[:] = 0.0
        for k in range(first[i], first[i + 1]):
            j = at[k] - begin
            t = y[j]
            if by_class:
                t = 1.0 if t == y_row[i] else 0.0
            w = e.dtype.type(scale * e[k] * (t - mean))
            z_j, onto_j = with_one[j], onto[j]
            for q in range(r):
                own_i[q] += w * z_j[q]
            for q in range(r + 1):
                onto_j[q] += w * z[q]
    return value
