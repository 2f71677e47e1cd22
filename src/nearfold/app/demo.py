"""The demo: digits, the spaces of every method, a table and a picture."""

from __future__ import annotations

import warnings
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from nearfold.errors import NearfoldWarning
from nearfold.methods.classical_mds import ClassicalMDS
from nearfold.methods.isomap import Isomap
from nearfold.methods.kernel_pca import KernelPCA
from nearfold.methods.lda import LinearDiscriminantAnalysis
from nearfold.methods.lle import LocallyLinearEmbedding
from nearfold.methods.mds import MDS
from nearfold.methods.pca import PCA
from nearfold.metrics.lmnn import LMNN
from nearfold.metrics.mmc import MMC
from nearfold.metrics.nca import NCA
from nearfold.metrics.weighted_euclidean import WeightedEuclidean
from nearfold.report.picture import draw_spaces
from nearfold.study.before_after import SpaceResult, compare_before_after


def run_demo(output: Path, seed: int = 0, console: Console | None = None) -> Path:
    """Compare, print the table, draw the picture; return where it is."""
    console = console or Console()
    X, y = load_digits(return_X_y=True)
    train_X, test_X, train_y, test_y = train_test_split(
        X, y, test_size=0.3, random_state=seed, stratify=y
    )
    console.print(
        f"Digits: {len(train_X)} rows to learn from, {len(test_X)} held out, "
        f"{X.shape[1]} features, {len(set(y))} classes. "
        "A 5-nearest-neighbour learner in each space:"
    )
    spaces = {
        "original": None,
        "PCA, 95 % of the variance": PCA(n_components=0.95),
        "PCA, 2 axes": PCA(n_components=2),
        "LDA": LinearDiscriminantAnalysis(),
        "LDA, 2 axes": LinearDiscriminantAnalysis(n_components=2),
        "Kernel PCA, 20 axes": KernelPCA(20, kernel="rbf", gamma=0.001),
        "Kernel PCA, 2 axes": KernelPCA(2, kernel="rbf", gamma=0.001),
        "Classical MDS, city block": ClassicalMDS(20, metric="cityblock"),
        "MDS, 2 axes": MDS(2),
        "Isomap, 10 axes": Isomap(n_neighbors=10, n_components=10),
        "Isomap, 2 axes": Isomap(n_neighbors=10),
        "LLE, 10 axes": LocallyLinearEmbedding(n_neighbors=12, n_components=10),
        "LLE, 2 axes": LocallyLinearEmbedding(n_neighbors=12, method="modified"),
        "NCA, 10 axes": NCA(10, random_state=seed),
        "NCA, 2 axes": NCA(2, max_iter=200, random_state=seed),
        "LMNN, 10 axes": LMNN(n_components=10),
        "LMNN, 2 axes": LMNN(n_components=2),
        "Weighted Euclidean": WeightedEuclidean(),
        "MMC, pairs from labels": MMC(random_state=seed),
    }
    with warnings.catch_warnings():
        # City-block distances are not Euclidean: that is why the space is there.
        warnings.filterwarnings("ignore", "the distances are not Euclidean", NearfoldWarning)
        results = compare_before_after(spaces, (train_X, train_y), (test_X, test_y))
    console.print(results_table(results))
    output.mkdir(parents=True, exist_ok=True)
    drawn = {r.name: r.Z for r in results if r.name.endswith("2 axes")}
    path = draw_spaces(drawn, test_y, output / "spaces.png", "Held-out digits in eight spaces")
    console.print(f"The picture is at {path.resolve()}", soft_wrap=True)
    return path


def results_table(results: list[SpaceResult]) -> Table:
    """Before first, then the others as given."""
    table = Table(box=None, pad_edge=False)
    table.add_column("space")
    for column in ("d'", "held-out accuracy", "fit", "predict"):
        table.add_column(column, justify="right")
    for result in results:
        table.add_row(
            result.name,
            str(result.n_dimensions),
            f"{100 * result.accuracy:.1f} % ± {100 * result.error_of_accuracy:.1f}",
            f"{1000 * result.fit_seconds:.0f} ms",
            f"{1000 * result.predict_seconds:.0f} ms",
        )
    return table
