"""What a fitted object holds, described once.

A class says so in a public class attribute:

    class PCA:
        fitted_state = State(
            n_features_in_=size("d"),
            components_=array("k d"),
            explained_variance_=array("k", least=0),
            mean_=array("d"),
            ...
        )

The letters of a shape are sizes. The first field that mentions one fixes it, and all others must
agree; "n+1" is one more than n, a number stands for itself and "*" for any size. Model files
check a state against this description when they write it and before anything is built from it
(store/), and the tests check that every estimator keeps to its own.

Constructor parameters are not part of it: `_parameter_constraints` describes those. What relates
parameters and fields is checked by `_also`, which is given both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.errors import NearfoldError

Sizes = dict[str, int]
Check = Callable[[Any, Sizes], None]  # raises StateError

_KINDS = {"f": "f", "i": "iu", "b": "b", "number": "fiub", "any": "fiubUSOMm"}


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
        return _held(*self.fields.values())

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


def _described(check: Check, words: str, *inner: Check, classes: tuple[Any, ...] = ()) -> Check:
    """The check, with what it asks in words and the classes of the objects it lets in."""
    vars(check)["words"] = words
    vars(check)["classes"] = (*classes, *_held(*inner))
    return check


def _held(*checks: Check) -> tuple[type[Any], ...]:
    return tuple(cls for check in checks for cls in getattr(check, "classes", ()))


def _words(check: Check) -> str:
    return str(getattr(check, "words", "checked"))


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


def size(letter: str, least: int = 0) -> Check:
    """A whole number that is a size of other fields."""

    def check(value: Any, sizes: Sizes) -> None:
        require(is_whole(value) and value >= least, "not a size")
        bind(letter, int(value), sizes)

    return _described(check, f"the size {letter}")


def array(
    shape: str,
    kind: str = "f",
    *,
    finite: bool = True,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: str | None = None,
    ascending: bool = False,
    symmetric: bool = False,
) -> Check:
    """A NumPy array: shape by letters; kind f (float), i, b, number or any; limits of its values.

    `above`: every value is larger. `below="n"`: row numbers, each at least 0 and less than n.
    """
    letters = shape.split()
    lowest = 0 if least is None and below is not None else least

    def check(value: Any, sizes: Sizes) -> None:
        require(type(value) in (np.ndarray, np.memmap), "not an array")
        require(value.dtype.kind in _KINDS[kind], f"an array of {value.dtype}")
        require(value.dtype.isnative or kind == "any", "an array of the other byte order")
        require(value.ndim == len(letters), f"{value.ndim} axes instead of {len(letters)}")
        for letter, side in zip(letters, value.shape, strict=True):
            bind(letter, side, sizes)
        if value.size == 0 or value.dtype.kind not in "fiub":
            return
        low, high = value.min(), value.max()
        if value.dtype.kind == "f" and finite:
            require(np.isfinite(low) and np.isfinite(high), "values that are not finite")
        require(lowest is None or low >= lowest, f"values below {lowest}")
        require(most is None or high <= most, f"values above {most}")
        require(above is None or low > above, f"values that are not above {above}")
        require(below is None or high < sizes.get(below or "", -1), f"values not below {below}")
        require(not ascending or (value[1:] >= value[:-1]).all(), "values that are not ascending")
        if symmetric:
            slack = 1e-5 * max(abs(float(low)), abs(float(high)))
            require(np.abs(value - value.T).max() <= slack, "a matrix that is not symmetric")

    limits = {"least": least, "most": most, "above": above, "below": below}
    traits = {"not finite": not finite, "ascending": ascending, "symmetric": symmetric}
    words = [f"{kind} ({', '.join(letters)})"]
    words += [f"{name} {limit}" for name, limit in limits.items() if limit is not None]
    return _described(check, ", ".join(words + [name for name, holds in traits.items() if holds]))


def matrix(shape: str, *, finite: bool = True) -> Check:
    """A SciPy sparse matrix or array of numbers, in any format whose indices were checked."""
    letters = shape.split()

    def check(value: Any, sizes: Sizes) -> None:
        require(sparse.issparse(value) and value.dtype.kind in "fiub", "not a sparse matrix")
        for letter, side in zip(letters, value.shape, strict=True):
            bind(letter, side, sizes)
        if finite and value.dtype.kind == "f":
            require(np.isfinite(value.data).all(), "values that are not finite")

    return _described(check, f"sparse ({', '.join(letters)})")


def number(
    least: float | None = None,
    most: float | None = None,
    *,
    whole: bool = False,
    finite: bool = True,
) -> Check:
    """A Python or NumPy number within limits."""

    def check(value: Any, sizes: Sizes) -> None:
        real = isinstance(value, float | np.floating) and not whole
        require(real or is_whole(value), "not a number")
        require(not finite or np.isfinite(value), "a number that is not finite")
        require(least is None or value >= least, f"a number below {least}")
        require(most is None or value <= most, f"a number above {most}")

    return _described(check, "whole number" if whole else "number")


def flag() -> Check:
    """True or False."""

    def check(value: Any, sizes: Sizes) -> None:
        require(isinstance(value, bool | np.bool_), "not true or false")

    return _described(check, "true or false")


def text(*choices: str) -> Check:
    """A text; one of the choices if there are any."""

    def check(value: Any, sizes: Sizes) -> None:
        require(isinstance(value, str), "not a text")
        require(not choices or value in choices, "an unknown text")

    return _described(check, "one of " + ", ".join(choices) if choices else "text")


def names(letter: str) -> Check:
    """An array of column names."""

    def check(value: Any, sizes: Sizes) -> None:
        array(letter, "any")(value, sizes)
        require(all(isinstance(name, str) for name in value.tolist()), "names that are not texts")

    return _described(check, f"names ({letter})")


def labels(letter: str) -> Check:
    """Distinct class labels of one sortable kind, in ascending order."""

    def check(value: Any, sizes: Sizes) -> None:
        array(letter, "any")(value, sizes)
        items = value.tolist()
        require(all(isinstance(v, str | int | float | bool) for v in items), "labels of odd kinds")
        texts = sum(isinstance(v, str) for v in items)
        require(texts in (0, len(items)), "texts and numbers as labels")
        require(len(set(items)) == len(items), "a label that occurs twice")
        require(sorted(items) == items, "labels that are not ascending")

    return _described(check, f"labels ({letter})")


def optional(check: Check) -> Check:
    """None, or what is described."""

    def check_unless_none(value: Any, sizes: Sizes) -> None:
        if value is not None:
            check(value, sizes)

    return _described(check_unless_none, f"None or {_words(check)}", check)


def any_of(*checks: Check) -> Check:
    """What fits at least one description."""

    def check(value: Any, sizes: Sizes) -> None:
        for one in checks:
            trial = dict(sizes)
            try:
                one(value, trial)
            except StateError:
                continue
            sizes.update(trial)
            return
        raise StateError("none of the kinds it may be")

    return _described(check, " or ".join(_words(one) for one in checks), *checks)


def list_of(check: Check, letter: str = "*") -> Check:
    """A list whose items fit; `letter` is its length."""

    def check_all(value: Any, sizes: Sizes) -> None:
        require(type(value) is list, "not a list")
        bind(letter, len(value), sizes)
        for item in value:
            check(item, sizes)

    return _described(check_all, f"list ({letter}) of {_words(check)}", check)


def dict_of(check: Check) -> Check:
    """A dict from texts to what fits."""

    def check_all(value: Any, sizes: Sizes) -> None:
        require(type(value) is dict and all(isinstance(key, str) for key in value), "not a dict")
        for item in value.values():
            check(item, sizes)

    return _described(check_all, f"dict of {_words(check)}", check)


def nested(*classes: type[Any], **shared: str) -> Check:
    """An object of one of these classes, whose own `fitted_state` has been checked.

    `shared`: child's size = parent's size, such as nested(Piece, m="n").
    """

    def check(value: Any, sizes: Sizes) -> None:
        require(type(value) in classes, f"not a {classes[0].__name__}")
        _check_child(value, shared, sizes)

    return _described(check, " or ".join(cls.__name__ for cls in classes), classes=classes)


def fitted(*methods: str, **shared: str) -> Check:
    """A fitted object of any class that describes its state and has these methods.

    For what is handed in from outside, such as a metric learner. `shared` as for `nested`.
    """

    def check(value: Any, sizes: Sizes) -> None:
        described = isinstance(getattr(type(value), "fitted_state", None), State)
        require(described, f"a {type(value).__name__}, which does not describe what it holds")
        has = all(callable(getattr(type(value), name, None)) for name in methods)
        require(has, f"a {type(value).__name__}, which has no {' and '.join(methods)}")
        _check_child(value, shared, sizes)

    return _described(check, f"fitted, with {', '.join(methods)}")


def _check_child(value: Any, shared: dict[str, str], sizes: Sizes) -> None:
    child = {own: sizes[outer] for own, outer in shared.items() if outer in sizes}
    value.fitted_state.check(fields_of(value), child, params_of(value))
    for own, outer in shared.items():
        if own in child:
            bind(outer, child[own], sizes)


def params_of(value: Any) -> dict[str, Any]:
    """The constructor's parameters of an estimator; none for another object."""
    params: dict[str, Any] = value.get_params(deep=False) if hasattr(value, "get_params") else {}
    return params


def fields_of(value: Any) -> dict[str, Any]:
    """What an object holds beside its constructor's parameters, as a model file stores it."""
    state = value.__getstate__() if hasattr(value, "__getstate__") else vars(value)
    params = params_of(value)
    behaviour = ("_sklearn_version", "_sklearn_output_config")
    return {
        name: part
        for name, part in (state or {}).items()
        if name not in params and name not in behaviour
    }


def is_whole(value: Any) -> bool:
    """Whether a value is an integer and not a truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
