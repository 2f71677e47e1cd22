"""Embeddings of other packages, tried where they are installed (`pip install nearfold[guests]`).

They are neighbour embeddings: made for pictures, learned without labels, and new rows are placed
approximately. t-SNE is openTSNE's, whose embeddings can place new rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from nearfold.notation import Floats


@dataclass(frozen=True)
class Guest:
    """An embedding of another package."""

    name: str
    module: str
    build: Callable[[Any], Any]
    most_rows: int


class OpenTSNE(TransformerMixin, BaseEstimator):
    """openTSNE as a transformer: `fit` keeps the embedding, `transform` places new rows in it."""

    def __init__(self, perplexity: float = 30, random_state: int = 0) -> None:
        self.perplexity = perplexity
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> OpenTSNE:
        """Embed the rows."""
        import openTSNE

        perplexity = min(self.perplexity, max(2.0, (len(X) - 1) / 3))
        tsne = openTSNE.TSNE(perplexity=perplexity, random_state=self.random_state, n_jobs=1)
        self.embedding_ = tsne.fit(np.asarray(X))
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Floats:
        """The embedding of the rows."""
        return np.asarray(self.fit(X).embedding_)

    def transform(self, X: Any) -> Floats:
        """New rows placed in the embedding."""
        return np.asarray(self.embedding_.transform(np.asarray(X)))


class PaCMAP(TransformerMixin, BaseEstimator):
    """PaCMAP as a transformer of scikit-learn's kind."""

    def __init__(self, n_components: int = 2, random_state: int = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> PaCMAP:
        """Embed the rows."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Floats:
        """The embedding of the rows."""
        import pacmap

        self.model_ = pacmap.PaCMAP(
            n_components=self.n_components, random_state=self.random_state, save_tree=True
        )
        self.basis_ = np.asarray(X, dtype=np.float32)
        return np.asarray(self.model_.fit_transform(self.basis_))

    def transform(self, X: Any) -> Floats:
        """New rows placed in the embedding."""
        return np.asarray(self.model_.transform(np.asarray(X, dtype=np.float32), basis=self.basis_))


def _umap(setting: Any) -> Any:
    import umap

    neighbors = max(2, min(15, setting.n - 1))
    return umap.UMAP(n_components=min(setting.n_axes or 10, max(1, setting.n - 2)),
                     n_neighbors=neighbors, random_state=setting.seed, n_jobs=1)  # fmt: skip


_GUESTS = (
    Guest("UMAP", "umap", _umap, 10_000),
    Guest("t-SNE", "openTSNE", lambda s: OpenTSNE(random_state=s.seed), 5_000),
    Guest("PaCMAP", "pacmap", lambda s: PaCMAP(s.n_axes or 2, s.seed), 10_000),
)


def installed_guests() -> list[Guest]:
    """Those that can be imported."""
    return [guest for guest in _GUESTS if find_spec(guest.module) is not None]
