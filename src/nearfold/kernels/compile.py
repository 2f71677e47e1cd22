"""How every kernel is compiled: cached on disk, without the GIL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered into SIMD lanes; NaN and inf keep their meaning.
_REORDER = {"reassoc", "contract", "nsz"}


def kernel(function: Function) -> Function:
    """Compile on first call, cache the machine code, release the GIL."""
    return cast(Function, numba.njit(nogil=True, cache=True)(function))


def summing_kernel(function: Function) -> Function:
    """The same for a reduction whose order of summation is free."""
    return cast(Function, numba.njit(nogil=True, cache=True, fastmath=_REORDER)(function))
