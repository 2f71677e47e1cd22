"""A toy estimator of one registry entry that may hold anything, to try what files can keep."""

import sys

from sklearn.base import BaseEstimator

from nearfold import registry
from nearfold.state import State


def _anything(value, sizes):
    pass


class AnyHolder(BaseEstimator):
    fitted_state = State(
        _optional=("held_", "note_", "n_samples_", "later_"),
        fitted_=_anything,
        held_=_anything,
        note_=_anything,
        later_=_anything,
        n_samples_=_anything,
        n_features_in_=_anything,
    )

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        self.fitted_ = True
        return self


def register(monkeypatch):
    """Make it a method of the registry until the test ends."""
    entry = registry.Method("AnyHolder", "any_holder", "reduction", "", "holds anything")
    monkeypatch.setattr(registry, "METHODS", (*registry.METHODS, entry))
    monkeypatch.setitem(sys.modules, "nearfold.any_holder", sys.modules[__name__])
