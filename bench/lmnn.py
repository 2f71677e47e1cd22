"""LMNN on all rows of a table, in 50 principal directions."""

from __future__ import annotations

from bench.child import run_alone

_SETUP = """
import nearfold
from nearfold import LMNN, PCA, KNeighborsClassifier
data = load({path!r})
pca = PCA(50).fit(data.X)
X, Q = pca.transform(data.X), pca.transform(data.Q)
scale = X.std()
X, Q = X / scale, Q / scale
nearfold.set_memory("4GB")
"""
_AFTER = """
score = lambda A, B: KNeighborsClassifier(3).fit(A, data.y).score(B, data.r)
said["rows"] = len(X)
said["steps"] = int(model.n_iter_)
said["3-NN before"] = score(X, Q)
said["3-NN after"] = score(model.transform(X), model.transform(Q))
"""


def large_margin_report(path: str | None) -> str:
    """Seconds, memory and what was gained on rows it did not see."""
    found = run_alone(
        _SETUP.format(path=path), "model = LMNN(random_state=0).fit(X, data.y)", _AFTER
    )
    said = "; ".join(f"{name} {value:,.4g}" for name, value in found.said.items())
    return f"LMNN in 50 dimensions: {found.error or f'{found.seconds:.0f} s; {said}'}"
