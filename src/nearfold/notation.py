"""The letters of the book, as they are used in this code.

Rows are samples here; the book writes samples as columns, so our matrices are
the transposes of its.

    X   (m, d)   the samples                     m   number of samples
    Z   (m, d')  the samples in the new space    d   number of features
    W   (d, d')  the axes, one per column        d'  dimension of the new space
    D   (m, m)   distances                       k   number of neighbours
    B   (m, m)   inner products
    K   (m, m)   kernel values                   lam eigenvalues
    M   (d, d)   a Mahalanobis metric, M = P P^T
    P   (d, r)   its factor

scikit-learn's words stay on the outside: `components_` is W^T, `explained_variance_`
is lam / (m - 1), `n_components` is d', `n_neighbors` is k.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# For the reader: shapes are in the docstrings, dtypes are checked where data come in.
Array = NDArray[Any]
Floats = NDArray[Any]  # float32 or float64
Ints = NDArray[np.int64]  # row numbers
