"""Minimisers; each returns an OptimizationResult."""

from nearfold.optim.gradient_sampling import descend
from nearfold.optim.minibatch import adam
from nearfold.optim.quasi_newton import minimise
from nearfold.optim.result import OptimizationResult, warn_unless_converged

__all__ = ["OptimizationResult", "adam", "descend", "minimise", "warn_unless_converged"]
