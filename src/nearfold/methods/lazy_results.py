"""Results that are computed when first read after rows have come in, not after every batch."""

from __future__ import annotations

from typing import Any

from nearfold.errors import NearfoldError


class LazyResults:
    """Mixin: names in `lazy_results` are computed by `_finish` when first read.

    `_stale` says that rows came in after the last `_finish`, which must set the results and call
    `_fresh`. Reading a result that cannot be computed yet is an AttributeError, as for any
    estimator that is not fitted; methods call `_settle`, which says why.
    """

    lazy_results: tuple[str, ...] = ()
    _stale: bool

    def _finish(self) -> None:
        raise TypeError(f"{type(self).__name__} does not say how its results are computed.")

    def _outdate(self) -> None:
        """Rows came in."""
        self._stale = True
        for name in self.lazy_results:
            self.__dict__.pop(name, None)

    def _settle(self) -> None:
        """Compute the results if that has not been done."""
        if self.__dict__.get("_stale", False):
            self._finish()
            self._stale = False

    def __getattr__(self, name: str) -> Any:
        if name in type(self).lazy_results and self.__dict__.get("_stale", False):
            try:
                self._settle()
            except NearfoldError as error:
                raise AttributeError(f"{name!r} is not available: {error}") from error
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
