"""Constraints from labels, as arrays of row numbers: metric-learn's `Constraints`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError
from nearfold.inputs import check_rows
from nearfold.metrics.drawing import (
    chunks_of_labels,
    draw_alike,
    draw_unlike,
    nearest_triplets,
)
from nearfold.notation import Ints
from nearfold.run import random_state as random_source


class Constraints:
    """Pairs, triplets and chunklets drawn from class labels.

    Parameters
    ----------
    partial_labels : array-like of int, shape (n_samples,)
        Class labels; negative ones are unknown, and their rows are never drawn.

    Attributes
    ----------
    partial_labels : ndarray of shape (n_samples,)
        The labels.

    Examples
    --------
    >>> from nearfold.metric_learn import Constraints
    >>> a, b, c, d = Constraints([0, 0, 1, -1]).positive_negative_pairs(1, random_state=0)
    >>> a, b
    (array([0]), array([1]))
    """

    def __init__(self, partial_labels: Any) -> None:
        labels = np.asanyarray(partial_labels)
        if labels.ndim != 1:
            raise InputError(f"labels are one number per row; these have shape {labels.shape}.")
        self.partial_labels = labels.astype(int)

    def positive_negative_pairs(
        self, n_constraints: int, same_length: bool = False, random_state: Any = None
    ) -> tuple[Ints, Ints, Ints, Ints]:
        """Draw pairs of rows with equal and with different labels, no pair twice.

        Parameters
        ----------
        n_constraints : int
            How many of each kind; fewer, with a warning, if there are fewer.
        same_length : bool, default=False
            Drop pairs of the larger set until both are of equal length.
        random_state : int, RandomState instance or None, default=None
            Source of the draws.

        Returns
        -------
        a, b, c, d : ndarray of shape (n_pairs,)
            Rows a[i] and b[i] have the same label, c[i] and d[i] different ones.
        """
        random = random_source(random_state)
        order, label = self._known()
        alike = order[draw_alike(label, n_constraints, random)]
        unlike = order[draw_unlike(label, n_constraints, random)]
        if same_length:
            n = min(len(alike), len(unlike))
            alike = alike[np.sort(random.permutation(len(alike))[:n])]
            unlike = unlike[np.sort(random.permutation(len(unlike))[:n])]
        return alike[:, 0], alike[:, 1], unlike[:, 0], unlike[:, 1]

    def generate_knntriplets(self, X: Any, k_genuine: int, k_impostor: int) -> Ints:
        """All triplets of a row, a near row of its class and a near row of another class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        k_genuine, k_impostor : int
            How many nearest rows of the same class and of other classes are paired; all there
            are, with a warning, where there are fewer.

        Returns
        -------
        triplets : ndarray of shape (n_triplets, 3)
            Row numbers.
        """
        known = np.flatnonzero(self.partial_labels >= 0)
        names, label = np.unique(self.partial_labels[known], return_inverse=True)
        rows = check_rows(X)[known]
        return known[nearest_triplets(rows, label, k_genuine, k_impostor, names).rows]

    def chunks(self, n_chunks: int = 100, chunk_size: int = 2, random_state: Any = None) -> Ints:
        """Draw chunklets: groups of rows of one class, no row twice.

        Parameters
        ----------
        n_chunks, chunk_size : int
            How many chunklets, and how many rows each.
        random_state : int, RandomState instance or None, default=None
            Source of the draws.

        Returns
        -------
        chunks : ndarray of shape (n_samples,)
            The number of each row's chunklet, -1 for none.
        """
        random = random_source(random_state)
        return chunks_of_labels(self.partial_labels, n_chunks, chunk_size, random)

    def _known(self) -> tuple[Ints, Ints]:
        """The labelled rows in the order of their labels, and these as numbers from 0."""
        order = np.argsort(self.partial_labels, kind="stable")
        order = order[self.partial_labels[order] >= 0]
        return order, np.unique(self.partial_labels[order], return_inverse=True)[1]
