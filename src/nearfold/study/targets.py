"""Labels and targets, checked in one place."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearfold.errors import InputError, warn
from nearfold.messages import Message
from nearfold.notation import Array
from nearfold.raw_values import refuse_missing
from nearfold.study.question import Task

_MANY = 20  # distinct whole numbers, and one in twenty rows: more are a target, not classes


def check_targets(y: Any, n: int, task: str | None = None) -> tuple[Array, Task]:
    """y as a vector of n labels (numbers or texts) or of finite targets, and which it is."""
    refuse_missing(y)
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape != (n,):
        raise InputError(Message("study.side_shape", what="y", shape=str(y.shape), n=n))
    if y.dtype.kind not in "fiubUS":
        y = _plain(y)
    if y.dtype.kind == "f":
        wrong = np.isnan(y) if task == Task.CLASSIFICATION else ~np.isfinite(y)
        if wrong.any():
            raise InputError(Message("study.y_not_finite", n=int(wrong.sum())))
    task = Task(task) if task else _task_of(y)
    if task == Task.CLASSIFICATION and y.dtype.kind == "f":
        whole = bool(np.all(np.abs(y) < 2**53) and np.all(y == np.floor(y)))
        y = y.astype(np.int64) if whole else y.astype(str)  # labels are names, not measures
    if task == Task.REGRESSION:
        try:
            y = y.astype(np.float64)
        except ValueError:
            raise InputError(Message("study.y_text")) from None
    if (y == y[0]).all():
        what = "target" if task == Task.REGRESSION else "label"
        raise InputError(Message(f"study.one_{what}"))
    return y, Task(task)


def _plain(y: Array) -> Array:
    """Objects as numbers, if all are numbers, else as texts."""
    try:
        return y.astype(np.float64)
    except (ValueError, TypeError):
        return y.astype(str)


def _task_of(y: Array) -> Task:
    """Numbers that are not whole, or that are many, are a target; everything else is a label."""
    if y.dtype.kind not in "fiu":
        return Task.CLASSIFICATION
    if y.dtype.kind == "f" and np.any(y != np.floor(y)):
        return Task.REGRESSION
    distinct = many_numbers(y)
    if distinct:
        warn(Message("study.taken_as_target", distinct=distinct, n=len(y)))
        return Task.REGRESSION
    return Task.CLASSIFICATION


def many_numbers(y: Array) -> int:
    """How many distinct numbers y has, if they are more than classes would be; else 0."""
    distinct = len(np.unique(y)) if y.dtype.kind in "fiu" else 0
    return distinct if distinct > _MANY and 20 * distinct > len(y) else 0
