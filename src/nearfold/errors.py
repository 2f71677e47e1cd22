"""What can go wrong, as one tree.

    NearfoldError
    ├── InputError (also ValueError)        the data or a parameter cannot be used as given
    │   ├── NonFiniteError                  NaN or inf, with the rows and columns that hold them
    │   ├── DisconnectedGraphError (also RuntimeError)  the neighbourhood graph is in pieces
    │   ├── PreprocessorError               a preprocessor could not look up the given ids
    │   ├── SingularMatrixError (also NumPy's LinAlgError)  a prior or its covariance is singular
    │   │   └── NonPSDError                 a matrix has a negative eigenvalue
    │   └── ModelFileError                  a model file is damaged, foreign or from the future
    ├── MemoryBudgetError (also MemoryError)  does not fit the budget and has no bounded way
    ├── BlockError (also RuntimeError)      a block of rows could not be computed; names the block
    ├── SolverError (also ArithmeticError)  a numerical routine failed; the message names the matrix
    └── Cancelled                           a progress callback asked to stop

    NearfoldWarning (UserWarning)
    ├── ApproximationWarning                the bounded way was taken; `approximation_` says which
    └── NotConvergedWarning (also scikit-learn's ConvergenceWarning)  an iteration was stopped early

Every error says what is wrong, where, and what to do about it.
"""

from __future__ import annotations

import errno
import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from nearfold.messages import Message, catalogue


class NearfoldError(Exception):
    """Base of every error Nearfold raises on purpose."""


class InputError(NearfoldError, ValueError):
    """The data or a parameter cannot be used as given."""


class NonFiniteError(InputError):
    """The data hold NaN or inf."""


class DisconnectedGraphError(InputError, RuntimeError):
    """The neighbourhood graph is in pieces; a RuntimeError is what scikit-learn raises."""


class PreprocessorError(InputError):
    """A metric learner's preprocessor could not look up the given ids."""


class ModelFileError(InputError):
    """A model file is damaged, invalid, foreign, or from a future version."""


class MemoryBudgetError(NearfoldError, MemoryError):
    """The work needs more memory than the budget allows, and has no bounded way."""


class BlockError(NearfoldError, RuntimeError):
    """A block of rows on a cluster could not be read or computed."""


class SolverError(NearfoldError, ArithmeticError):
    """A numerical routine failed or returned something that is not a solution."""


class Cancelled(NearfoldError):
    """Raise this from a progress callback to stop the work at its next step."""


class NearfoldWarning(UserWarning):
    """Base of every warning Nearfold issues on purpose."""


class ApproximationWarning(NearfoldWarning):
    """The memory budget forbade the exact way, so a bounded one was taken."""


if TYPE_CHECKING:

    class NotConvergedWarning(NearfoldWarning):
        """An iteration was stopped before it converged."""

    class SingularMatrixError(InputError):
        """A matrix that must be positive definite is singular."""

    class NonPSDError(SingularMatrixError):
        """A matrix that must be positive semidefinite has a negative eigenvalue."""


def __getattr__(name: str) -> Any:
    """Define a class when it is first used, if its base takes long to import."""
    if name == "NotConvergedWarning":
        from sklearn.exceptions import ConvergenceWarning

        bases: tuple[type, ...] = (NearfoldWarning, ConvergenceWarning)
        about = "An iteration was stopped before it converged."
    elif name == "SingularMatrixError":
        from numpy.linalg import LinAlgError

        bases, about = (InputError, LinAlgError), "A matrix is singular or not definite."
    elif name == "NonPSDError":
        bases = (__getattr__("SingularMatrixError"),)
        about = "A matrix that must be positive semidefinite has a negative eigenvalue."
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, type(name, bases, {"__doc__": about, "__module__": __name__}))


_PACKAGE = str(Path(__file__).parent)
# What scikit-learn puts around fit and transform, between the package and its caller.
_WRAPPERS = tuple(str(Path("sklearn", *p)) for p in (("base.py",), ("utils", "_set_output.py")))


_heard: ContextVar[list[Warning] | None] = ContextVar("nearfold_warnings", default=None)


@contextmanager
def hearing() -> Iterator[list[Warning]]:
    """Collect the package's own warnings instead of showing them: of this thread and its pools.

    `warnings.catch_warnings` changes filters of the whole process, so that two requests at a time
    would take each other's warnings, and might leave the filters changed.
    """
    heard: list[Warning] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


def warn(message: str | Message, category: type[Warning] = NearfoldWarning) -> None:
    """Warn the caller of the package, however deep inside it this is called."""
    heard = _heard.get()
    if heard is not None:
        heard.append(category(message))
        return
    frame, depth = inspect.currentframe(), 1
    while frame and frame.f_back and _is_inside(frame.f_code.co_filename):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(category(message), stacklevel=depth)  # it keeps a message with its languages


def reason(error: BaseException) -> Message:
    """Why something failed, for a sentence of ours: the error's message, the system's reason, or
    the words of another package (a first line, quoted where the language is another one).
    """
    if error.args and isinstance(error.args[0], Message):
        return error.args[0]
    if isinstance(error, OSError) and error.strerror:
        known = f"os.{errno.errorcode.get(error.errno or 0)}"
        return Message(known) if known in catalogue("en") else quoted(error.strerror)
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    if isinstance(error, NearfoldError):
        return quoted(" ".join(lines))
    first = lines[0] if lines else type(error).__name__
    return quoted(shorten(first.rstrip(".: "), 160, placeholder=" …"))


def quoted(words: str) -> Message:
    """Words that are in English only."""
    return Message("words.quoted", words=words)


def _is_inside(file: str) -> bool:
    return file.startswith(_PACKAGE) or file.endswith(_WRAPPERS)
