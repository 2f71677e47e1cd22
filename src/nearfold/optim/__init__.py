"""Minimisers: each returns where it ended and how."""

from nearfold.optim.ended import Ended, warn_unless_converged
from nearfold.optim.minibatch import adam
from nearfold.optim.quasi_newton import minimise

__all__ = ["Ended", "adam", "minimise", "warn_unless_converged"]
