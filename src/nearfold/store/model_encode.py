"""A fitted estimator as a tree of plain values, and a list of arrays beside it.

Numbers, texts, true, false and null stand for themselves. Everything else is a JSON object with
a `kind` from a closed list:

    float       nan, inf, -inf                        list, tuple, dict, bytes, slice, range
    array       one of the arrays beside the tree     objects    an array of texts, None, mixtures
    texts       an array of a thousand texts or more: their bytes and lengths, beside the tree
    scalar      a NumPy number                        dtype, type, function    by name
    sparse      CSR or CSC parts                      random_state, generator  with their state
    object      one of ours or of scikit-learn's: its class's name and its state
    same        what has been seen before, so that shared things stay shared

Functions have no kind but those of a fixed list (model_allowlist.py): reading a file never runs
code that came with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Array
from nearfold.store.model_allowlist import AllowList, function_name, type_name
from nearfold.store.model_check import default_behaviour
from nearfold.store.model_tensors import is_transposed, storable

DEEPEST = 60
GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
SPARSE_KINDS = ("csr", "csc", "coo")
_LARGEST_INTEGER = 2**1024
_MANY_TEXTS = 1_000  # fewer are readable in the manifest, more would make it long

Node = Any  # a value of JSON


class Encoder:
    """Turns objects into nodes; `arrays` collects what goes beside the tree."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.objects: list[Any] = []  # each after those that it holds
        self._allowed = AllowList()
        self._seen: dict[int, dict[str, Node]] = {}
        self._alive: list[Any] = []  # an id means its object only while that lives
        self._inside: set[int] = set()
        self._shared = 0
        self._where: list[str] = []

    def encode(self, value: Any, name: str) -> Node:
        """The node of a value; `name` says what it is in messages."""
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int and abs(value) < _LARGEST_INTEGER:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
        if id(value) in self._seen:
            return self._same(self._seen[id(value)])
        if id(value) in self._inside or len(self._where) >= DEEPEST:
            raise InputError(Message("model.nested", place=self._place(name)))
        self._where.append(name)
        self._inside.add(id(value))
        node = self._encode_parts(value)
        self._inside.discard(id(value))
        self._where.pop()
        self._seen[id(value)] = node
        self._alive.append(value)
        return node

    def _same(self, node: dict[str, Node]) -> Node:
        if "id" not in node:
            node["id"] = self._shared
            self._shared += 1
        return {"kind": "same", "as": node["id"]}

    def _place(self, name: str = "") -> str:
        return ".".join([*self._where, name] if name else self._where)

    def _encode_parts(self, value: Any) -> dict[str, Node]:
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            return self._scalar(value)
        if isinstance(value, list | tuple | dict):
            return self._container(value)
        if sparse.issparse(value):
            return self._sparse(value)
        if isinstance(value, np.random.RandomState | np.random.Generator):
            return self._random(value)
        plain = self._small(value)
        return self._object(value) if plain is None else plain

    def _container(self, value: Any) -> dict[str, Node]:
        if type(value) in (list, tuple):
            items = [self.encode(item, str(i)) for i, item in enumerate(value)]
            return {"kind": type(value).__name__, "items": items}
        if type(value) is dict:
            pairs = [
                [self.encode(key, "key"), self.encode(item, str(key))]
                for key, item in value.items()
            ]
            return {"kind": "dict", "items": pairs}
        raise self._refusal(value)

    def _small(self, value: Any) -> dict[str, Node] | None:
        """What a name or a few numbers tell."""
        if type(value) is bytes:
            return {"kind": "bytes", "value": value.hex()}
        if type(value) in (slice, range):
            parts = [value.start, value.stop, value.step]
            items = [self.encode(part, "bound") for part in parts]
            return {"kind": type(value).__name__, "items": items}
        if isinstance(value, np.dtype):
            code = "object" if value.kind == "O" else storable(np.empty(0, value), "").dtype.str
            return {"kind": "dtype", "value": code}
        for kind, find in (("type", type_name), ("function", function_name)):
            name = find(value)
            if name is not None:
                return {"kind": kind, "value": name}
        return None

    def _scalar(self, value: Any) -> dict[str, Node]:
        if isinstance(value, np.str_):
            return {"kind": "scalar", "dtype": "str", "value": str(value)}
        cell = storable(np.asarray(value), self._place())
        return {"kind": "scalar", "dtype": cell.dtype.str, "value": cell.tobytes().hex()}

    def _array(self, X: Array) -> dict[str, Node]:
        if type(X) not in (np.ndarray, np.memmap):
            raise self._refusal(X)
        if X.dtype.kind == "O" and X.size >= _MANY_TEXTS and all(type(t) is str for t in X.flat):
            return self._texts(X)
        if X.dtype.kind == "O":
            items = [self.encode(item, str(i)) for i, item in enumerate(X.ravel())]
            return {"kind": "objects", "shape": list(X.shape), "items": items}
        X = storable(X, self._place())
        node: dict[str, Node] = {"kind": "array", "tensor": str(len(self.arrays))}
        node |= {"dtype": X.dtype.str, "shape": list(X.shape)}
        if is_transposed(X):
            node["order"] = "F"
        self.arrays.append(X)
        return node

    def _texts(self, X: Array) -> dict[str, Node]:
        parts = [text.encode("utf-8", "surrogatepass") for text in X.ravel()]
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        node: dict[str, Node] = {"kind": "texts", "shape": list(X.shape)}
        node["bytes"] = self.encode(np.frombuffer(b"".join(parts), np.uint8), "bytes")
        short = np.min_scalar_type(int(lengths.max()))
        return node | {"lengths": self.encode(lengths.astype(short), "lengths")}

    def _sparse(self, X: Any) -> dict[str, Node]:
        if X.format not in SPARSE_KINDS:
            raise InputError(Message("model.sparse", place=self._place(), form=repr(X.format)))
        # COO through CSR: only there does the length of a part bound the number of rows.
        stored = X.tocsr() if X.format == "coo" else X
        node: dict[str, Node] = {"kind": "sparse", "format": X.format, "shape": list(X.shape)}
        node["array"] = isinstance(X, sparse.sparray)
        used = stored.indptr[-1]  # there may be room for more
        node["data"] = self.encode(stored.data[:used], "data")
        node["indices"] = self.encode(stored.indices[:used], "indices")
        return node | {"indptr": self.encode(stored.indptr, "indptr")}

    def _random(self, value: Any) -> dict[str, Node]:
        if isinstance(value, np.random.RandomState):
            state = value.get_state(legacy=True)
            if isinstance(state, tuple) and state[0] == "MT19937":
                return {"kind": "random_state", "state": self.encode(state[1:], "state")}
        elif type(value.bit_generator).__name__ in GENERATORS:
            state = dict(value.bit_generator.state)
            return {"kind": "generator", "state": self.encode(state, "state")}
        raise self._refusal(value)

    def _object(self, value: Any) -> dict[str, Node]:
        cls = type(value)
        name = self._allowed.name(cls)
        if name is None:
            raise self._refusal(value)
        state = value.__getstate__()
        if state is not None and type(state) is not dict:
            raise self._refusal(value)
        state = dict(state or {})
        state |= {key: part for key, part in default_behaviour(cls).items() if key in state}
        pairs = {str(key): self.encode(part, str(key)) for key, part in state.items()}
        self.objects.append(value)
        return {"kind": "object", "class": name, "state": pairs}

    def _refusal(self, value: Any) -> InputError:
        place, kind = self._place(), type(value).__name__
        if callable(value) and not isinstance(value, type) and not hasattr(value, "get_params"):
            shown = getattr(value, "__name__", kind)
            return InputError(Message("model.function", place=place, name=shown))
        kind = f"{type(value).__module__}.{kind}"
        return InputError(Message("model.stranger", place=place, kind=kind))
