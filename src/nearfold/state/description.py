"""The description of a fitted object, and where descriptions are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from nearfold.errors import NearfoldError

Sizes = dict[str, int]
Check = Callable[[Any, Sizes], None]  # raises StateError
_FOREIGN: dict[type[Any], State] = {}
_REACHED: ContextVar[set[int]] = ContextVar("_REACHED", default=set())  # noqa: B039
_STORED: ContextVar[bool] = ContextVar("_STORED", default=False)


class StateError(NearfoldError, ValueError):
    """A value is not what its class says it holds."""


class State:
    """The fields of a fitted object and what each must be.

    `_optional` names fields that may be absent. `_also` is called with all values (fields and, if
    they are known, constructor parameters) and the sizes after the fields have been checked, for
    what involves several of them.
    """

    def __init__(
        self,
        _also: Callable[[dict[str, Any], Sizes], None] | None = None,
        _optional: tuple[str, ...] = (),
        **fields: Check,
    ) -> None:
        self.fields = fields
        self.optional = frozenset(_optional)
        self.also = _also

    def extended(
        self,
        _also: Callable[[dict[str, Any], Sizes], None] | None = None,
        _optional: tuple[str, ...] = (),
        **fields: Check,
    ) -> State:
        """This description with more fields, for a subclass."""
        merged = State(_also or self.also, (), **{**self.fields, **fields})
        merged.optional = self.optional | set(_optional)
        return merged

    def classes(self) -> tuple[type[Any], ...]:
        """The classes of the objects that the fields hold."""
        return held_classes(*self.fields.values())

    def describe(self) -> dict[str, str]:
        """The fields in words, for people who inspect a file."""
        return {
            name: getattr(check, "words", "checked") + (", optional" * (name in self.optional))
            for name, check in self.fields.items()
        }

    def check(
        self,
        values: dict[str, Any],
        sizes: Sizes | None = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        """Raise StateError unless exactly these fields are there and each is as described."""
        unknown = sorted(set(values) - set(self.fields))
        missing = sorted(set(self.fields) - self.optional - set(values))
        if unknown or missing:
            what = f"unknown {unknown[:3]}" if unknown else f"missing {missing[:3]}"
            raise StateError(f"fields: {what}")
        known: Sizes = {} if sizes is None else sizes
        for name, check in self.fields.items():
            if name in values:
                try:
                    check(values[name], known)
                except StateError as error:
                    raise StateError(f"{name}: {error}") from None
        if self.also is not None:
            self.also({**(params or {}), **values}, known)


def held_classes(*checks: Check) -> tuple[type[Any], ...]:
    """The classes of the objects that these checks let in."""
    return tuple(cls for check in checks for cls in getattr(check, "classes", ()))


def require(holds: bool | np.bool_, reason: str) -> None:
    """Raise StateError for that reason unless it holds."""
    if not holds:
        raise StateError(reason)


def bind(letter: str, value: int, sizes: Sizes) -> None:
    """Fix a size by its first use; afterwards it must agree."""
    if letter == "*":
        return
    if letter.isdigit():
        require(value == int(letter), f"size {value} instead of {letter}")
        return
    base, _, more = letter.partition("+")
    expected = sizes.setdefault(base, value - int(more or 0))
    require(
        expected >= 0 and value == expected + int(more or 0),
        f"size {value} does not fit {letter} = {expected + int(more or 0)}",
    )


def is_whole(value: Any) -> bool:
    """Whether a value is an integer and not a truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


class _Undescribed(State):
    """Of our classes that do not describe themselves yet."""

    def check(self, *args: Any, **options: Any) -> None:
        """Let everything pass."""


_UNDESCRIBED = _Undescribed()


def describe(cls: type[Any], state: State) -> None:
    """Describe a class of another package, which has no `fitted_state`."""
    _FOREIGN[cls] = state


def state_of(cls: type[Any]) -> State | None:
    """The description of a class: its `fitted_state`, or the one given for it."""
    own = getattr(cls, "fitted_state", None)
    if isinstance(own, State):
        return own
    return _FOREIGN.get(cls, _UNDESCRIBED if cls.__module__.startswith("nearfold.") else None)


def check_object(value: Any, sizes: Sizes) -> None:
    """Compare an object with the description of its class."""
    state = state_of(type(value))
    require(state is not None, f"a {type(value).__name__}, which does not describe what it holds")
    if state is not None:
        state.check(fields_of(value), sizes, params_of(value))
        _REACHED.get().add(id(value))


@contextmanager
def comparing(*, stored: bool) -> Iterator[set[int]]:
    """The ids of the objects that are compared with their descriptions inside.

    `stored`: they are as a file has them, and nothing may be called on them.
    """
    tokens = _REACHED.set(set()), _STORED.set(stored)
    try:
        yield _REACHED.get()
    finally:
        _REACHED.reset(tokens[0])
        _STORED.reset(tokens[1])


def params_of(value: Any) -> dict[str, Any]:
    """The constructor's parameters of an estimator; none for another object."""
    params: dict[str, Any] = value.get_params(deep=False) if hasattr(value, "get_params") else {}
    return params


def fields_of(value: Any) -> dict[str, Any]:
    """What an object holds beside its constructor's parameters, as a model file stores it."""
    state = vars(value) if _STORED.get() else value.__getstate__()
    params = params_of(value)
    behaviour = ("_sklearn_version", "_sklearn_output_config")
    return {
        name: part
        for name, part in (state or {}).items()
        if name not in params and name not in behaviour
    }
