"""The linear map L (r, d) from which NCA, LMNN and MLKR start."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from nearfold.errors import InputError
from nearfold.methods.lda import LinearDiscriminantAnalysis
from nearfold.methods.pca import PCA
from nearfold.notation import Array, Floats, Ints


def initial_map(
    init: Any, X: Any, y: Ints, r: int, random: Any, before: Array | None = None
) -> Floats:
    """L (r, d) to begin with: that of `init`, or what was learned `before`."""
    m, d = X.shape
    if before is not None:
        if before.shape[1] != d:
            raise InputError(
                f"The new inputs dimensionality ({d}) does not match the input dimensionality of "
                f"the previously learned transformation ({before.shape[1]})."
            )
        # Rows are sorted, the largest first.
        return fill_up(np.asarray(before[:r], dtype=np.float64), r, random)
    if not isinstance(init, str):
        return np.asarray(init, dtype=np.float64)
    if init == "auto":
        n_classes = len(np.unique(y))
        init = "lda" if r <= min(d, n_classes - 1) else "pca" if r < min(d, m) else "identity"
    if init == "identity":
        return np.eye(r, d)
    if init == "random":
        return np.asarray(random.standard_normal(size=(r, d)))
    if init == "pca":
        axes = PCA(n_components=min(r, m, d)).fit(X).components_
    elif init == "lda":
        axes = LinearDiscriminantAnalysis(n_components=min(r, len(np.unique(y)) - 1)).fit(X, y)
        axes = axes.scalings_.T[:r]
    else:
        raise InputError(
            f"init={init!r}: use 'auto', 'pca', 'lda', 'identity', 'random' or an array."
        )
    return fill_up(np.asarray(axes, dtype=np.float64), r, random)


def fill_up(axes: Floats, r: int, random: Any) -> Floats:
    """r axes: where the data have fewer, small random ones, which the gradient can turn."""
    missing = r - len(axes)
    if missing <= 0:
        return axes
    size = 1e-3 * np.linalg.norm(axes) / np.sqrt(axes.size)
    return np.vstack([axes, size * random.standard_normal((missing, axes.shape[1]))])


def check_map(init: Any, X: Any, n_components: Any) -> tuple[Any, int]:
    """The given init and the number r of dimensions, after refusing what does not fit."""
    d = X.shape[1]
    if n_components is not None:
        if not isinstance(n_components, int | np.integer) or n_components < 1:
            raise InputError(f"n_components={n_components!r}: use a positive whole number.")
        if n_components > d:
            raise InputError(
                "The preferred dimensionality of the projected space `n_components` "
                f"({n_components}) cannot be greater than the given data dimensionality ({d})!"
            )
    if isinstance(init, str):
        return init, int(n_components or d)
    init = check_array(init, dtype=np.float64)
    if init.shape[1] != d:
        raise InputError(
            f"The input dimensionality ({init.shape[1]}) of the given linear transformation "
            f"`init` must match the dimensionality of the given inputs `X` ({d})."
        )
    if init.shape[0] > d:
        raise InputError(
            f"The output dimensionality ({init.shape[0]}) of the given linear transformation "
            f"`init` cannot be greater than its input dimensionality ({d})."
        )
    if n_components is not None and n_components != init.shape[0]:
        raise InputError(
            "The preferred dimensionality of the projected space `n_components` "
            f"({n_components}) does not match the output dimensionality of the given linear "
            f"transformation `init` ({init.shape[0]})!"
        )
    return init, len(init)
