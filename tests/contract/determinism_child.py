"""Fit every method and print a hash of everything it holds and answers (run by the test)."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
import warnings

import numpy as np
from scipy import sparse
from sklearn.base import is_regressor

from nearfold.registry import METHODS, find


def digest_of(value: object, depth: int = 0) -> str:
    """A hash of the numbers in a value: arrays, and objects that hold arrays."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        about = f"{value.dtype}{value.shape}".encode()
        return hashlib.sha256(about + np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    if sparse.issparse(value):
        return digest_of([value.data, value.indices, value.indptr], depth)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(digest_of(v, depth + 1) for v in value) + "]"
    if isinstance(value, np.ndarray):
        return digest_of(value.tolist(), depth)
    if isinstance(value, dict):
        return digest_of([(str(k), value[k]) for k in sorted(value, key=str)], depth)
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, (str, int, bool, bytes, type(None), np.generic)):
        return repr(value)
    if depth < 6 and hasattr(value, "__dict__") and not callable(value):
        return digest_of({k: v for k, v in vars(value).items() if k != "n_jobs"}, depth + 1)
    return type(value).__name__


VARIANTS: list[tuple[str, dict[str, object]]] = [
    *((method.name, dict(method.check_params)) for method in METHODS),
    ("PCA", {"svd_solver": "full"}),
    ("PCA", {"svd_solver": "randomized", "n_components": 5}),
    ("KernelPCA", {"kernel": "rbf", "n_components": 5}),
    ("KernelPCA", {"kernel": "rbf", "n_components": 5, "fit_inverse_transform": True}),
    ("LinearDiscriminantAnalysis", {"solver": "eigen"}),
    ("LinearDiscriminantAnalysis", {"solver": "lsqr"}),
    ("LocallyLinearEmbedding", {"method": "modified", "n_neighbors": 12}),
    ("LocallyLinearEmbedding", {"method": "ltsa", "n_neighbors": 12}),
    ("MDS", {"metric_mds": False, "n_init": 1}),
    ("Isomap", {"metric": "manhattan"}),
    ("KNeighborsClassifier", {"metric": "cosine", "weights": "distance"}),
]


def main(n_jobs: int) -> None:
    draw = np.random.default_rng(0)
    n, d = 700, 30
    y = np.arange(n) % 4
    X = draw.normal(size=(n, d)) @ np.diag(np.linspace(3, 0.1, d))
    X[:, :5] += 2.0 * draw.normal(size=(4, 5))[y]
    target = X[:, 0] + draw.normal(size=n)
    found = {}
    for name, given in VARIANTS:
        cls = find(name).load()
        params = dict(given)
        words = ", ".join(f"{k}={v}" for k, v in given.items())
        shown = f"{name}({words})"
        accepted = inspect.signature(cls).parameters
        if "n_jobs" in accepted:
            params["n_jobs"] = n_jobs
        if "random_state" in accepted:
            params["random_state"] = 0
        if name in ("MDS", "LMNN", "MLKR", "NeighborhoodComponentsAnalysis"):
            params["max_iter"] = 15
        if "radius" in accepted and name.startswith("Radius"):
            params["radius"] = 6.0
        model = cls(**params)
        model.fit(X, target if is_regressor(model) or name == "MLKR" else y)
        fitted = {k: v for k, v in vars(model).items() if k not in params}
        for attribute, value in fitted.items():
            found[f"{shown}.{attribute}"] = digest_of(value)
        for action in ("transform", "predict", "predict_proba", "kneighbors"):
            if hasattr(model, action):
                found[f"{shown}.{action}()"] = digest_of(getattr(model, action)(X[:100]))
    print(json.dumps(found))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]))
