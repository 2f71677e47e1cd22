"""From the tree of a model file back to objects: only what the closed list of kinds allows.

Nothing in the tree is trusted. Each node is checked before it is used; classes, functions and
types come from the list in model_allowlist.py; an array is read once and must be what the node
says; a reference leads back to something finished, so there are no cycles.

An object is a shell at first: an instance with the attributes of the file, on which nothing has
been called. When the whole tree has been read every shell is compared with what its class says it
holds (model_check.py). Only then do objects get their state as unpickling would give it, by hooks
that are ours or scikit-learn's; trees and other indexes are built there, from checked rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.notation import Array
from nearfold.state import StateError
from nearfold.store.model_allowlist import AllowList, find_function, find_type
from nearfold.store.model_check import check_objects
from nearfold.store.model_encode import DEEPEST, GENERATORS, SPARSE_KINDS
from nearfold.store.model_error import invalid
from nearfold.store.model_tensors import TensorReader, check_dtype

_MOST_OBJECTS = 2000
_LARGEST_SHARE = 8  # bytes that all objects refer to, in units of the arrays of the file
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_LARGEST_SIDE = 2**48


class Decoder:
    """Turns nodes into objects."""

    def __init__(self, tensors: TensorReader, payload_bytes: int) -> None:
        self._tensors = tensors
        self._left_to_share = _LARGEST_SHARE * payload_bytes
        self._allowed = AllowList()
        self._shells: list[tuple[Any, dict[str, Any]]] = []  # each after those that it holds
        self._finished: dict[int, Any] = {}
        self._depth = 0
        self._kinds: dict[str, Callable[[dict[str, Any]], Any]] = {
            "float": lambda node: _FLOATS[_text(node, "value")],
            "list": lambda node: self._items(node),
            "tuple": lambda node: tuple(self._items(node)),
            "dict": self._dict,
            "bytes": lambda node: bytes.fromhex(_text(node, "value")),
            "slice": lambda node: slice(*self._bounds(node)),
            "range": lambda node: range(*self._bounds(node)),  # type: ignore[arg-type]
            "array": self._array,
            "objects": self._objects,
            "texts": self._texts,
            "scalar": _scalar,
            "dtype": _dtype,
            "type": lambda node: _known(find_type, _text(node, "value")),
            "function": lambda node: _known(find_function, _text(node, "value")),
            "sparse": self._sparse,
            "random_state": self._random_state,
            "generator": self._generator,
            "object": self._object,
        }

    def model(self, node: Any) -> Any:
        """The model of a tree: read, checked as a whole, then built."""
        made = self.decode(node)
        if not self._shells or made is not self._shells[-1][0]:
            raise invalid("it is no estimator")
        try:
            check_objects([shell for shell, _ in self._shells])
        except StateError as error:
            raise invalid(str(error)) from error
        for shell, state in self._shells:
            if hasattr(shell, "__setstate__"):
                vars(shell).clear()
                shell.__setstate__(state)
        return made

    def decode(self, node: Any) -> Any:
        """The value of a node; objects are shells that are neither checked nor built."""
        if node is None or type(node) in (bool, int, float, str):
            return node
        if not isinstance(node, dict):
            raise invalid("a list where a value should be")
        kind = node.get("kind")
        if kind == "same":
            number = node.get("as")
            if type(number) is not int or number not in self._finished:
                raise invalid("a reference to nothing")
            return self._finished[number]
        if not isinstance(kind, str) or kind not in self._kinds:
            raise invalid(f"something of an unknown kind ({str(kind)[:40]!r})")
        if self._depth > DEEPEST:
            raise invalid("nested too deeply")
        self._depth += 1
        value = self._kinds[kind](node)
        self._depth -= 1
        if "id" in node:
            self._remember(node["id"], value)
        return value

    def _remember(self, number: Any, value: Any) -> None:
        if type(number) is not int or number in self._finished:
            raise invalid("two parts of the same number")
        self._finished[number] = value

    def _items(self, node: dict[str, Any]) -> list[Any]:
        return [self.decode(item) for item in _list(node, "items")]

    def _bounds(self, node: dict[str, Any]) -> list[int | None]:
        bounds = self._items(node)
        if len(bounds) != 3 or not all(b is None or type(b) is int for b in bounds):
            raise invalid("a slice without bounds")
        return bounds

    def _dict(self, node: dict[str, Any]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for pair in _list(node, "items"):
            if not isinstance(pair, list) or len(pair) != 2:
                raise invalid("a key without a value")
            key = self.decode(pair[0])
            found[key] = self.decode(pair[1])
        return found

    def _array(self, node: dict[str, Any]) -> Array:
        dtype, shape = check_dtype(node.get("dtype")), _shape(node)
        return self._tensors.read(node.get("tensor"), dtype, shape, node.get("order") == "F")

    def _objects(self, node: dict[str, Any]) -> Array:
        shape, items = _shape(node), _list(node, "items")
        if math.prod(shape) != len(items):
            raise invalid("a shape that does not fit")
        flat = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            flat[i] = self.decode(item)
        return flat.reshape(shape)

    def _texts(self, node: dict[str, Any]) -> Array:
        shape, packed = _shape(node), self.decode(node.get("bytes"))
        counts = self.decode(node.get("lengths"))
        for part in (packed, counts):
            if not isinstance(part, np.ndarray) or part.ndim != 1 or part.dtype.kind != "u":
                raise invalid("texts without bytes and lengths")
        ends = np.cumsum(counts, dtype=np.uint64).tolist()
        fits = math.prod(shape) == len(ends) and ends[-1:] == [len(packed)]
        if not fits or packed.dtype != np.uint8 or counts.max() > len(packed):
            raise invalid("texts whose lengths do not fit")
        whole = packed.tobytes()
        flat = np.empty(len(ends), dtype=object)
        for i, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            flat[i] = whole[start:end].decode("utf-8", "surrogatepass")
        return flat.reshape(shape)

    def _sparse(self, node: dict[str, Any]) -> Any:
        kind, shape = _text(node, "format"), _shape(node)
        if kind not in SPARSE_KINDS or len(shape) != 2:
            raise invalid("an unknown sparse matrix")
        data, indices, indptr = (self.decode(node.get(k)) for k in ("data", "indices", "indptr"))
        for part in (data, indices, indptr):
            if not isinstance(part, np.ndarray) or part.ndim != 1:
                raise invalid("a sparse matrix without its parts")
        if indices.dtype.kind != "i" or indptr.dtype.kind != "i":
            raise invalid("places that are not whole numbers")
        stored = "csc" if kind == "csc" else "csr"
        major, minor = shape if stored == "csr" else shape[::-1]
        # SciPy's own check passes over negative counts, and compiled loops read where indices lead.
        whole = len(indptr) == major + 1 and indptr[0] == 0 and (np.diff(indptr) >= 0).all()
        if not whole or not indptr[-1] == len(indices) == len(data):
            raise invalid("rows of a sparse matrix that do not fit")
        if len(indices) and not (indices.min() >= 0 and indices.max() < minor):
            raise invalid("places beyond a sparse matrix")
        make = getattr(sparse, stored + ("_array" if node.get("array") is True else "_matrix"))
        X = make((data, indices, indptr), shape=shape)
        return X.tocoo() if kind == "coo" else X

    def _random_state(self, node: dict[str, Any]) -> np.random.RandomState:
        found = np.random.RandomState(0)
        found.set_state(("MT19937", *self.decode(node.get("state"))))
        return found

    def _generator(self, node: dict[str, Any]) -> np.random.Generator:
        state = self.decode(node.get("state"))
        name = state.get("bit_generator") if isinstance(state, dict) else None
        if name not in GENERATORS:
            raise invalid("an unknown source of random numbers")
        bits = getattr(np.random, name)(0)
        bits.state = state
        return np.random.Generator(bits)

    def _object(self, node: dict[str, Any]) -> Any:
        cls = _known(self._allowed.find, _text(node, "class"))
        pairs = node.get("state")
        if not isinstance(pairs, dict):
            raise invalid("an object without a state")
        if any(name.startswith("__") or not name.isidentifier() for name in pairs):
            raise invalid("an attribute of a forbidden name")
        state = {name: self.decode(part) for name, part in pairs.items()}
        # A file older than a parameter means what its class did without it.
        for name, value in getattr(cls, "params_of_older_files", {}).items():
            state.setdefault(name, value)
        shell = object.__new__(cls)
        vars(shell).update(state)
        self._shells.append((shell, state))
        # References let one array serve many indexes: a small file must not grow without bound.
        self._left_to_share -= sum(_bytes(part) for part in state.values())
        if len(self._shells) > _MOST_OBJECTS or self._left_to_share < 0:
            raise invalid("too many objects")
        return shell


def _bytes(value: Any) -> int:
    if sparse.issparse(value):
        return int(value.data.nbytes)
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _known(find: Callable[[str], Any], name: str) -> Any:
    found = find(name)
    if found is None:
        raise invalid(f"it names {name[:80]!r}, which a model file may not hold")
    return found


def _text(node: dict[str, Any], key: str) -> str:
    value = node.get(key)
    if not isinstance(value, str):
        raise invalid(f"no text for {key!r}")
    return value


def _list(node: dict[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    if not isinstance(value, list):
        raise invalid(f"no list for {key!r}")
    return value


def _shape(node: dict[str, Any]) -> tuple[int, ...]:
    sides = _list(node, "shape")
    if len(sides) > 32 or not all(type(n) is int and 0 <= n < _LARGEST_SIDE for n in sides):
        raise invalid("an impossible shape")
    return tuple(sides)


def _dtype(node: dict[str, Any]) -> np.dtype[Any]:
    code = _text(node, "value")
    return np.dtype(object) if code == "object" else check_dtype(code)


def _scalar(node: dict[str, Any]) -> Any:
    if node.get("dtype") == "str":
        return np.str_(_text(node, "value"))
    dtype = check_dtype(node.get("dtype"))
    raw = bytes.fromhex(_text(node, "value"))
    bad = dtype.kind == "b" and raw not in (b"\0", b"\1")
    if bad or len(raw) != dtype.itemsize or dtype.kind not in "biufcMmS":
        raise invalid("a number of the wrong length")
    return np.frombuffer(raw, dtype)[0]
