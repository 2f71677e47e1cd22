"""The small tables that models of forged files are fitted on."""

import numpy as np
import pandas as pd
from scipy import sparse

N, D = 36, 4
RANDOM = np.random.RandomState(5)
X = RANDOM.normal(size=(N, D)) * np.arange(1, D + 1)
Y = np.arange(N) % 3
NEW = X[::4] + 0.01
WORDS = np.array(["a", "b", "c"], dtype=object)[Y]
DISTANCES = np.sqrt(((X[:, None] - X) ** 2).sum(-1))
MANY = np.tile(X, (8, 1)) + np.arange(8 * N)[:, None] / 99
APART = np.vstack([X[:18], X[18:] + 500])
GAPS = np.where(X > 4, np.nan, X)
SPARSE = sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))
GRAPH = sparse.csr_array(np.where(np.sort(DISTANCES)[:, [20]] >= DISTANCES, DISTANCES, 0.0))
MIXED = np.column_stack([X.astype(object), WORDS])
CODES = np.column_stack([X, Y])
TABLE = pd.DataFrame(X, columns=list("abcd"))
TEXTS = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "t": WORDS})
MANY_KINDS = pd.DataFrame(
    {
        "a": X[:, 0],
        "w": np.where(np.arange(N) % 7 == 0, None, WORDS),
        "s": np.where(Y > 0, "f", "m"),
        "d": pd.date_range("2020-01-01", periods=N, freq="11D").strftime("%Y-%m-%d"),
        "v": list(X[:, :3]),
        "o": pd.Categorical(WORDS, categories=["c", "a", "b"], ordered=True),
        "n": ["?" if i == 5 else str(v) for i, v in enumerate(X[:, 1])],
    }
)
VECTORS = pd.DataFrame(
    np.tile(X, (1, 5)) * np.arange(1, 21), columns=[f"emb_{j}" for j in range(20)]
)
PAIRS = np.stack([X[:20], X[16:]], axis=1)
ALIKE = np.where(np.arange(20) % 2, 1, -1)
NUMBERS = np.column_stack([np.arange(20), np.arange(16, 36)])
