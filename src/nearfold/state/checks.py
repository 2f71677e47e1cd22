"""What a field may be: sizes, arrays, numbers, texts, other described objects."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from nearfold.state.description import (
    Check,
    Sizes,
    StateError,
    bind,
    check_object,
    held_classes,
    is_whole,
    require,
)

MOST_COLUMNS = 10_000_000  # where no array proves their number, and lists of names would be made
_KINDS = {"f": "f", "i": "i", "b": "b", "number": "fiub", "any": "fiubUSOMm"}


def _described(check: Check, words: str, *inner: Check, classes: tuple[Any, ...] = ()) -> Check:
    """The check, with what it asks in words and the classes of the objects it lets in."""
    vars(check)["words"] = words
    vars(check)["classes"] = (*classes, *held_classes(*inner))
    return check


def _words(check: Check) -> str:
    return str(getattr(check, "words", "checked"))


def size(letter: str, least: int = 0) -> Check:
    """A whole number that is a size of other fields."""

    def check(value: Any, sizes: Sizes) -> None:
        require(is_whole(value) and value >= least, "not a size")
        require(letter != "d" or value <= MOST_COLUMNS, "more columns than a table has")
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
    large: bool = False,
    half: bool = False,
) -> Check:
    """A NumPy array: shape by letters; kind f (float), i (signed integers of 32 or 64 bits, as
    compiled loops take them), b, number or any; limits of its values.

    `above`: every value is larger. `below="n"`: row numbers, each at least 0 and less than n.
    Finite values of either sign are coordinates, whose squares must be finite, too, unless they
    may be `large`; values with a least one and symmetric matrices may be squares themselves.
    `half`: floats may be of 16 bits, which LAPACK and compiled loops do not take.
    """
    letters = shape.split()
    has_squares = finite and not large and least is None and above is None and not symmetric
    lowest = 0 if least is None and below is not None else least

    def check(value: Any, sizes: Sizes) -> None:
        require(type(value) in (np.ndarray, np.memmap), "not an array")
        require(value.dtype.kind in _KINDS[kind], f"an array of {value.dtype}")
        require(value.dtype.isnative or kind == "any", "an array of the other byte order")
        short = value.dtype.itemsize < 4 and (kind == "i" or value.dtype.kind == "f")
        require(not short or half or kind == "any", f"an array of {value.dtype}")
        require(value.ndim == len(letters), f"{value.ndim} axes instead of {len(letters)}")
        for letter, side in zip(letters, value.shape, strict=True):
            bind(letter, side, sizes)
        if value.size == 0 or value.dtype.kind not in "fiub":
            return
        low, high = value.min().item(), value.max().item()
        if value.dtype.kind == "f" and finite:
            require(np.isfinite(low) and np.isfinite(high), "values that are not finite")
        if value.dtype.kind == "f" and has_squares:
            most_square = np.sqrt(float(np.finfo(value.dtype).max))
            require(max(-low, high) <= most_square, "values without a square")
        require(lowest is None or low >= lowest, f"values below {lowest}")
        require(most is None or high <= most, f"values above {most}")
        require(above is None or low > above, f"values that are not above {above}")
        require(below is None or high < sizes.get(below or "", -1), f"values not below {below}")
        require(not ascending or (value[1:] >= value[:-1]).all(), "values that are not ascending")
        if symmetric:
            slack = 1e-5 * max(abs(low), abs(high))
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
        require(value.dtype != np.float16, "half precision, which SciPy cannot multiply")
        require(value.dtype.isnative, "numbers of the other byte order")
        long = value.shape[0 if value.format == "csc" else 1]  # the side that no array proves
        require(long <= max(MOST_COLUMNS, value.nnz), "more columns than a table has")
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
        outputs = getattr(value, "_sklearn_output_config", {})  # frames are for users, not inside
        require(set(outputs.values()) <= {"default"}, "an inner object that gives frames")
        _check_child(value, shared, sizes)

    return _described(check, " or ".join(cls.__name__ for cls in classes), classes=classes)


def fitted(*methods: str, **shared: str) -> Check:
    """A fitted object of any class that describes its state and has these methods.

    For what is handed in from outside, such as a metric learner. `shared` as for `nested`.
    """

    def check(value: Any, sizes: Sizes) -> None:
        has = all(callable(getattr(type(value), name, None)) for name in methods)
        require(has, f"a {type(value).__name__}, which has no {' and '.join(methods)}")
        _check_child(value, shared, sizes)
        for name in methods:  # some have a method only in some states
            require(hasattr(value, name), f"a {type(value).__name__} without {name}")

    return _described(check, f"fitted, with {', '.join(methods)}")


def _check_child(value: Any, shared: dict[str, str], sizes: Sizes) -> None:
    child = {own: sizes[outer] for own, outer in shared.items() if outer in sizes}
    check_object(value, child)
    for own, outer in shared.items():
        if own in child:
            bind(outer, child[own], sizes)
