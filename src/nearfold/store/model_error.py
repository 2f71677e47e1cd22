"""What is wrong with a model file, in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from nearfold.errors import MemoryBudgetError, ModelFileError, quoted, reason
from nearfold.messages import Message

_LONGEST = 290


def one_line(text: str, longest: int = _LONGEST) -> str:
    """The text without line breaks and control characters, cut to a length."""
    flat = " ".join(text.split())
    flat = "".join(c if c.isprintable() else "?" for c in flat)
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def invalid(what: str) -> ModelFileError:
    """The error for a file that `save` cannot have written; `what` is for whoever looks into it."""
    return ModelFileError(Message("model.invalid", why=quoted(one_line(what))))


@contextmanager
def refusing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever goes wrong inside into a `ModelFileError` of one line that names the file.

    A hostile file may provoke any error in NumPy, SciPy or scikit-learn, which is why all of
    them are caught here, and only here.
    """
    name = one_line(os.path.basename(os.fspath(path)) or os.fspath(path), 80)
    try:
        yield
    except MemoryBudgetError:
        raise
    except ModelFileError as error:
        raise ModelFileError(Message("model.in_file", name=name, why=reason(error))) from error
    except OSError as error:
        raise ModelFileError(Message("model.unreadable", name=name, why=reason(error))) from error
    except Exception as error:
        why = quoted(one_line(f"{type(error).__name__}: {error}"))
        raise ModelFileError(Message("model.unusable", name=name, why=why)) from error
