"""What a forger changes in several places of a model file at once, so that they still agree."""

import copy

import numpy as np
from forge_files import places
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions

from nearfold.store.model_allowlist import AllowList


def _objects(parts, of=None):
    found = list(places({"tree": parts.tree}, "object"))
    return [(c, k) for c, k in found if of is None or c[k]["class"] == of]


def own_copy(parts, source, node, rng):
    """A copy of a node of `source` with arrays and numbers of its own."""
    made = copy.deepcopy(node)
    more = rng.randrange(10**6, 10**9)
    for container, key in places({"node": made}):
        part = container[key]
        for name in ("id", "as"):
            if type(part.get(name)) is int:
                part[name] += more
        if part["kind"] == "array":
            tensor = f"{part['tensor']}-{more}"
            parts.arrays[tensor] = source.arrays[part["tensor"]]
            part["tensor"] = tensor
    return made


def transplant(parts, rng):
    """An object of another model in the place of one of this, of the same class if there is one."""
    if parts.donor is None:
        return NotImplemented
    given, key = rng.choice(_objects(parts.donor))
    alike = _objects(parts, given[key]["class"])
    inside = [place for place in _objects(parts) if place[1] != "tree"]
    if not alike and not inside:  # a whole model of another class would be asked about other rows
        return NotImplemented
    container, place = rng.choice(alike or inside)
    container[place] = own_copy(parts, parts.donor, given[key], rng)
    if place == "tree":
        parts.tree = parts.manifest["tree"] = container[place]
    return None


def repeat_item(parts, rng):
    """A step, piece or item twice; or one of the donor's among them."""
    found = [c[k] for c, k in places({"tree": parts.tree}) if c[k].get("items")]
    if not found:
        return NotImplemented
    node, source = rng.choice(found), parts
    items = node["items"]
    chosen = rng.choice(items)
    if parts.donor is not None and rng.random() < 0.5:
        others = [c[k] for c, k in places({"tree": parts.donor.tree}) if c[k].get("items")]
        if others:
            chosen, source = rng.choice(rng.choice(others)["items"]), parts.donor
    made = own_copy(parts, source, chosen, rng)
    names = [item for item in made["items"] if isinstance(item, str)] if _is_tuple(made) else []
    if names and rng.random() < 0.7:  # a step of another name
        made["items"][made["items"].index(names[0])] += "2"
    items.insert(rng.randrange(len(items) + 1), made)
    return None


def _is_tuple(node):
    return isinstance(node, dict) and node.get("kind") == "tuple"


def change_layout(parts, rng):
    """What a node says of its array: shape, dtype, order, name; the array stays."""
    found = list(places({"tree": parts.tree}, rng.choice(["array", "sparse", "objects"])))
    if not found:
        return NotImplemented
    container, key = rng.choice(found)
    node = container[key]
    name = rng.choice(["shape", "shape", "dtype", "order", "format", "array", "tensor"])
    if name == "shape":
        sides = node["shape"] or [1]
        sides[rng.randrange(len(sides))] = rng.choice([0, 1, 3, -1, 2**31, 2**47, 2**63, "4", None])
        node["shape"] = sides
    else:
        node[name] = rng.choice(["<f8", "<i8", "F", "C", "csr", "csc", "coo", True, 0, "0", "1"])
    return None


def _valid(constraint, rng):
    """A value that a constraint of scikit-learn's allows; NotImplemented: not of these."""
    if isinstance(constraint, StrOptions):
        return rng.choice(sorted(constraint.options))
    if isinstance(constraint, Interval):
        low = -7 if constraint.left is None else constraint.left
        found = rng.choice([low, low + 1, low + 0.5, 2, 3, 10, 35, 36, 37, 10**6, constraint.right])
        whole = "Integral" in str(constraint.type)
        return found if found is None or not whole else int(found)
    if constraint == "boolean":
        return rng.choice([True, False])
    if constraint == "random_state":
        return rng.randrange(100)
    if constraint == "array-like":
        return {"kind": "list", "items": rng.choice([[], [1, 2], ["a", "b"], [0.5] * 4])}
    if constraint is dict:
        return {"kind": "dict", "items": rng.choice([[], [["w", 1.0]], [["p", 3]], [["V", 2]]])}
    return None if constraint is None else NotImplemented


def change_param(parts, rng):
    """A parameter of an estimator gets another value that it may have."""
    allowed, found = AllowList(), []
    for container, key in _objects(parts):
        cls = allowed.find(container[key]["class"])
        if cls is not None and getattr(cls, "_parameter_constraints", None):
            found.append((container[key]["state"], cls._parameter_constraints))
    if not found:
        return NotImplemented
    state, constraints = rng.choice(found)
    name = rng.choice([name for name in constraints if name in state] or [None])
    listed = constraints.get(name)
    if not isinstance(listed, list):
        return NotImplemented
    value = _valid(rng.choice(listed), rng)
    if value is NotImplemented:
        return NotImplemented
    state[name] = value
    return None


def _resize(value, axis, size):
    if size <= value.shape[axis]:
        return value.take(range(size), axis)
    more = value.take([-1] * (size - value.shape[axis]), axis)
    return np.concatenate([value, more], axis)


def change_sides(parts, rng):
    """One size of the model changes wherever it occurs: rows, columns, axes, classes."""
    shapes = [c[k]["shape"] for c, k in places({"tree": parts.tree}) if c[k].get("shape")]
    sides = sorted({side for shape in shapes for side in shape if type(side) is int and side > 0})
    if not sides:
        return NotImplemented
    old = rng.choice(sides)
    new = rng.choice([old - 1, old + 1, 1, 0, old // 2])
    clip = rng.random() < 0.5
    of_sparse = ("data", "indices", "indptr")
    for container, key in places({"tree": parts.tree}):
        node = container[key]
        if node["kind"] == "sparse":
            _resize_sparse(parts, node, old, new)
        elif node["kind"] == "array" and key not in of_sparse:
            value = parts.arrays[node["tensor"]]
            for axis in range(value.ndim):
                if value.shape[axis] == old:
                    value = _resize(value, axis, new)
            if clip and value.dtype.kind == "i" and value.size:
                value = np.minimum(value, max(new - 1, 0)).astype(value.dtype)
            parts.set_array(node, value)
        elif node["kind"] == "objects" and node["shape"] == [old]:
            node["items"] = (node["items"] * 2)[:new]
            node["shape"] = [len(node["items"])]
        elif node["kind"] == "object":
            for name, leaf in node["state"].items():
                if type(leaf) is int and leaf == old:
                    node["state"][name] = new
    return None


def _has_parts(node):
    held = [node.get(name) for name in ("data", "indices", "indptr")]
    return all(isinstance(part, dict) and part.get("kind") == "array" for part in held)


def _sparse_parts(parts, node):
    return [parts.arrays[node[name]["tensor"]] for name in ("data", "indices", "indptr")]


def _resize_sparse(parts, node, old, new):
    if not _has_parts(node) or old not in node["shape"]:
        return
    kind = sparse.csc_array if node["format"] == "csc" else sparse.csr_array
    held = kind(tuple(_sparse_parts(parts, node)), shape=tuple(node["shape"]))
    held.check_format(full_check=True)  # changed before, it might crash SciPy here
    if (np.diff(held.indptr) < 0).any():
        return
    X = held.toarray()
    for axis in range(2):
        if X.shape[axis] == old:
            X = _resize(X, axis, new)
    X = kind(X)
    node["shape"] = list(X.shape)
    for name in ("data", "indices", "indptr"):
        parts.set_array(node[name], getattr(X, name))


def change_sparse(parts, rng):
    """The parts of a sparse matrix: places unsorted, twice, beyond; counts that do not fit."""
    found = [c[k] for c, k in places({"tree": parts.tree}, "sparse") if _has_parts(c[k])]
    if not found:
        return NotImplemented
    node = rng.choice(found)
    data, indices, indptr = _sparse_parts(parts, node)
    at = rng.randrange(max(1, len(indices)))
    changes = [
        ("indices", indices[::-1]),
        ("indices", np.zeros_like(indices)),
        ("indices", np.append(indices[1:], indices[:1])),
        ("indices", np.where(np.arange(len(indices)) == at, indices.max(initial=0) + 1, indices)),
        ("indices", np.where(np.arange(len(indices)) == at, -1, indices)),
        ("indices", indices.astype("i8")),
        ("indices", indices.astype("i2")),
        ("indptr", indptr[::-1]),
        ("indptr", np.append(indptr[:-1], indptr[-1:] + 1)),
        ("indptr", np.append(indptr[:1] + 1, indptr[1:])),
        ("indptr", np.append([0, len(indices)], np.full(max(0, len(indptr) - 2), len(indices)))),
        ("indptr", np.append(np.zeros(max(0, len(indptr) - 1), indptr.dtype), len(indices))),
        ("indptr", indptr.astype("i8")),
        ("data", data.astype(rng.choice(["f4", "f2", "i8", "u1", "?", "c16"]))),
        ("data", np.zeros_like(data)),
        ("data", data * -1),
        ("data", np.where(np.arange(len(data)) == at, np.nan, data)),
        ("data", data[:-1]),
    ]
    name, value = rng.choice(changes)
    parts.set_array(node[name], value)
    if rng.random() < 0.3:
        node["format"] = rng.choice(["csr", "csc", "coo", "bsr"])
    return None


def tell_identity(parts):
    """Let the manifest say of the model what it says of itself: otherwise that alone refuses it."""
    about, node = parts.manifest["model"], parts.tree
    about["class"] = node["class"]
    for _ in range(5):  # a pipeline takes what its first step takes
        state = node["state"]
        inner = state.get("steps") or state.get("transformer_list")
        if "n_features_in_" in state or not isinstance(inner, dict):
            break
        try:
            node = inner["items"][0]["items"][1]
            node["state"]
        except (KeyError, IndexError, TypeError):
            return
    if type(state.get("n_features_in_")) is int:
        about["n_features"] = state["n_features_in_"]
    names = state.get("feature_names_in_")
    if isinstance(names, dict) and names.get("kind") == "objects":
        about["feature_names"] = [str(name) for name in names["items"]]
    elif "feature_names_in_" not in state:
        about["feature_names"] = None
