"""metric-learn's public names: change `from metric_learn import ...` to
`from nearfold.metric_learn import ...`.

The classes are Nearfold's own, with metric-learn's constructor arguments, defaults and methods;
docs/differences.md lists where results or errors differ, and why.
"""

from __future__ import annotations

from typing import Any

from nearfold.errors import NonPSDError, PreprocessorError
from nearfold.metrics.constraints import Constraints
from nearfold.metrics.covariance import Covariance
from nearfold.metrics.itml import ITML, ITML_Supervised
from nearfold.metrics.labels import keep_parameters
from nearfold.metrics.lfda import LFDA
from nearfold.metrics.lmnn import LMNN
from nearfold.metrics.lsml import LSML, LSML_Supervised
from nearfold.metrics.mlkr import MLKR
from nearfold.metrics.mmc import MMC, MMC_Supervised
from nearfold.metrics.nca import NeighborhoodComponentsAnalysis
from nearfold.metrics.rca import RCA, RCA_Supervised
from nearfold.metrics.scml import SCML, SCML_Supervised
from nearfold.metrics.sdml import SDML, SDML_Supervised

__version__ = "0.7.0"  # of metric-learn, whose names these are

__all__ = [
    "ITML",
    "LFDA",
    "LMNN",
    "LSML",
    "MLKR",
    "MMC",
    "NCA",
    "RCA",
    "SCML",
    "SDML",
    "Constraints",
    "Covariance",
    "ITML_Supervised",
    "LSML_Supervised",
    "MMC_Supervised",
    "NonPSDError",
    "PreprocessorError",
    "RCA_Supervised",
    "SCML_Supervised",
    "SDML_Supervised",
    "__version__",
]


class NCA(NeighborhoodComponentsAnalysis):
    """`NeighborhoodComponentsAnalysis` with metric-learn's order of parameters and defaults.

    Parameters
    ----------
    init, n_components, max_iter, tol, verbose, preprocessor, random_state
        As in `NeighborhoodComponentsAnalysis`, whose defaults for `max_iter` and `tol` are those
        of scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from nearfold.metric_learn import NCA
    >>> X, y = load_iris(return_X_y=True)
    >>> NCA(n_components=2, random_state=0).fit(X, y).transform(X).shape
    (150, 2)
    """

    def __init__(
        self,
        init: Any = "auto",
        n_components: int | None = None,
        max_iter: int = 100,
        tol: float | None = None,
        verbose: bool = False,
        preprocessor: Any = None,
        random_state: Any = None,
        *,
        warm_start: bool = False,
        callback: Any = None,
        solver: str = "auto",
        batch_size: int = 512,
        n_candidates: int | None = 8192,
        n_epochs: int = 10,
        trace_penalty: float = 0.0,
        rank: int | float | None = None,
    ) -> None:
        keep_parameters(self, locals())
