"""Pictures of a space: its two or three main directions, or its best ones for the classes.

Main directions are the principal axes of a sample of the rows. The best ones for the classes are
the discriminant axes (LDA) of the space, all rows of the sample judged by their own label: a
picture, not a held-out score. Where there are fewer of them than a picture has (classes - 1), the
main directions of what they leave are added.

`align` turns one picture onto another: the orthogonal Procrustes problem with a scale. With
centred X and Y (n, k), X^T Y = U S V^T, the nearest similarity of X to Y is (tr S / |X|^2) X U V^T.
Reflections are allowed: a mirrored space is the same space, and shall not turn inside out in a
morph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from nearfold.errors import InputError, NearfoldError, hearing
from nearfold.linalg import fix_signs
from nearfold.messages import Message
from nearfold.methods.lda import LinearDiscriminantAnalysis
from nearfold.methods.pca import PCA
from nearfold.notation import Array, Floats
from nearfold.run import one_blas_thread
from nearfold.study.actions import AXES, DIMENSIONS
from nearfold.study.table import sample_by_class

_SAMPLE = 20_000  # rows that directions are learned from


@dataclass(frozen=True, eq=False)
class Picture:
    """Rows in two or three directions of a space."""

    xy: Floats  # (n, 2 or 3), float32, centred, scaled so that the largest coordinate is 1
    axes: str  # "main" or "classes", as drawn
    share: float  # of the variance of the space
    told: Message


def draw_picture(
    Z: Floats, axes: str = "main", dimensions: int = 2, label: Array | None = None, seed: int = 0
) -> Picture:
    """The rows Z of a space in its main directions, or in its best ones for the classes."""
    if axes not in AXES or dimensions not in DIMENSIONS:
        raise InputError(Message("picture.options", axes=list(AXES), dimensions=list(DIMENSIONS)))
    if axes == "classes" and (label is None or len(np.unique(label)) < 2):
        raise InputError(Message("picture.no_classes"))
    draw = np.random.default_rng(seed)
    rows = sample_by_class(label if axes == "classes" else None, len(Z), _SAMPLE, draw)
    sample = Z[rows].astype(np.float64)
    mean = sample.mean(axis=0)
    with one_blas_thread(), hearing():  # of fewer directions than asked for
        found = None
        if axes == "classes" and label is not None:
            found = _class_directions(sample - mean, label[rows], dimensions)
        W = _main_directions(sample - mean, dimensions) if found is None else found
        moved = (Z - mean) @ W
        spread = float(((sample - mean) @ W).var(axis=0).sum())
    whole = float(sample.var(axis=0).sum())
    drawn = np.zeros((len(Z), dimensions))
    drawn[:, : moved.shape[1]] = moved
    largest = float(np.abs(drawn).max(initial=0.0))
    kind = "main" if found is None else "classes"
    share = spread / whole if whole > 0 else 0.0
    id = f"picture.{kind}" if axes == kind else "picture.no_directions"
    told = Message(id, n=dimensions, share=f"{100 * share:.0f}")
    unit = largest if largest > 0 else 1.0
    return Picture((drawn / unit).astype(np.float32), kind, share, told)


def _main_directions(X: Floats, k: int) -> Floats:
    """Up to k principal axes, in columns."""
    most = min(k, X.shape[1], max(1, len(X) - 1))
    return np.asarray(PCA(n_components=most).fit(X).components_.T, dtype=np.float64)


def _class_directions(X: Floats, label: Array, k: int) -> Floats | None:
    """Orthonormal directions that hold the first discriminant axes; None if there are none."""
    try:
        scalings = LinearDiscriminantAnalysis().fit(X, label).scalings_[:, :k]
    except NearfoldError:
        return None
    if scalings.shape[1] == 0 or not np.isfinite(scalings).all() or not scalings.any():
        return None
    Q = np.linalg.qr(scalings)[0]
    if Q.shape[1] < min(k, X.shape[1]):  # fewer than asked for: main directions of the rest
        rest = X - (X @ Q) @ Q.T
        more = _main_directions(rest, k - Q.shape[1])
        Q = np.linalg.qr(np.hstack([Q, more]))[0][:, : min(k, X.shape[1])]
    return np.asarray(fix_signs(Q.T).T)


def align(xy: Floats, onto: Floats) -> Floats:
    """The picture moved, turned, mirrored and scaled so that its rows lie nearest to the other's.

    Of two pictures of different numbers of directions the smaller one is given zeros.
    """
    if len(xy) != len(onto):
        raise InputError(Message("picture.rows", n=len(xy), other=len(onto)))
    k = max(xy.shape[1], onto.shape[1])
    X, Y = (_widened(values, k) for values in (xy, onto))
    centre = Y.mean(axis=0)
    X, Y = X - X.mean(axis=0), Y - centre
    size = float((X**2).sum())
    if size == 0:
        return X + centre
    U, s, Vt = svd(X.T @ Y)
    scale = float(s.sum()) / size
    if scale <= np.finfo(np.float64).eps:  # nothing in common: only moved, at the other's size
        scale = float(np.sqrt((Y**2).sum() / size)) or 1.0
    return np.asarray(scale * (X @ (U @ Vt)) + centre)


def _widened(values: Floats, k: int) -> Floats:
    wide = np.zeros((len(values), k))
    wide[:, : values.shape[1]] = values
    return wide
