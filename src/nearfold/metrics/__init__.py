"""Learned metrics: one file per learner, every one ends in M = P P^T."""
