"""How every kernel is compiled: without the GIL, cached on disk where a cache can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered into SIMD lanes; NaN and inf keep their meaning.
_REORDER = {"reassoc", "contract", "nsz"}


def kernel(function: Function) -> Function:
    """Compile on first call, cache the machine code, release the GIL."""
    return _compile(function)


def summing_kernel(function: Function) -> Function:
    """The same for a reduction whose order of summation is free."""
    return _compile(function, fastmath=_REORDER)


def _compile(function: Function, **options: Any) -> Function:
    try:
        return cast(Function, numba.njit(nogil=True, cache=True, **options)(function))
    except RuntimeError:
        # Neither the package's folder nor the user's cache can be written, as in a read-only
        # container: compile in every process. (A shared temporary folder would be no remedy:
        # cached code is run, and anyone could have put it there.)
        return cast(Function, numba.njit(nogil=True, **options)(function))
