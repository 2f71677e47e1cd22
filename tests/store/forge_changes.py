"""What a forger changes in a model file: numbers, arrays, names, classes, references."""

import copy
import json
import warnings

import numpy as np
from forge_files import Parts, places
from forge_structures import (
    change_layout,
    change_param,
    change_sides,
    change_sparse,
    repeat_item,
    tell_identity,
    transplant,
)

from nearfold.registry import METHODS
from nearfold.store.model_allowlist import SKLEARN


def quietly(work, *args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return work(*args)


def _leaves(node):
    """(container, key) of the plain values in the tree."""
    pairs = list(node.items()) if isinstance(node, dict) else list(enumerate(node))
    for key, part in pairs:
        if key in ("kind", "shape", "dtype", "tensor", "order", "class", "id", "as", "format"):
            continue
        if isinstance(part, dict | list):
            yield from _leaves(part)
        else:
            yield node, key


_ODD = [None, True, -1, 0, 1, 2, 7, 10**9, 2**70, 0.5, -2.5, 1e300, "", "euclidean", "zzz", "auto",
        {"kind": "float", "value": "nan"}, {"kind": "float", "value": "inf"},
        {"kind": "list", "items": []}, {"kind": "tuple", "items": [1, 2]},
        {"kind": "dict", "items": [["a", 1]]}, {"kind": "type", "value": "numpy.float32"},
        {"kind": "dtype", "value": "<i4"}, {"kind": "bytes", "value": "00"}]  # fmt: skip


def change_scalar(parts, rng):
    found = list(_leaves({"tree": parts.tree}))
    if not found:
        return
    container, key = rng.choice(found)
    old = container[key]
    options = list(_ODD)
    if type(old) in (int, float):
        options += [old + 1, old - 1, -old, old * 2, old * 1000, old / 3] * 3
    if isinstance(old, str):
        options += [old + "x", old[:-1], old.upper()] * 3
        if parts.donor is not None:
            words = [c[k] for c, k in _leaves({"tree": parts.donor.tree}) if isinstance(c[k], str)]
            options += (words or [""]) * max(1, 40 // max(1, len(words)))
    container[key] = copy.deepcopy(rng.choice(options))


def change_numpy_scalar(parts, rng):
    found = list(places({"tree": parts.tree}, "scalar"))
    if not found:
        return change_scalar(parts, rng)
    container, key = rng.choice(found)
    value = np.dtype(rng.choice(["<f8", "<i8", "<f4", "|b1"])).type(rng.choice([0, 1, -1, 1e9]))
    raw = np.asarray(value)
    container[key] = {"kind": "scalar", "dtype": raw.dtype.str, "value": raw.tobytes().hex()}


def _some_array(parts, rng):
    found = list(places({"tree": parts.tree}, "array"))
    if not found:
        return None, None
    container, key = rng.choice(found)
    return container[key], parts.arrays[container[key]["tensor"]]


def change_dtype(parts, rng):
    node, value = _some_array(parts, rng)
    if node is None:
        return change_scalar(parts, rng)
    kind = rng.choice(
        ["<f4", "<f8", "<i8", "<i4", "|b1", "<u1", "<f2", "<c16", "<U4", ">f8", "<u8"]
    )
    try:
        parts.set_array(node, quietly(value.astype, np.dtype(kind)))
        node["order"] = rng.choice("CCF")
    except ValueError:  # texts that are no numbers
        change_shape(parts, rng)


def change_shape(parts, rng):
    node, value = _some_array(parts, rng)
    if node is None:
        return change_scalar(parts, rng)
    changes = [
        lambda a: a[:-1], lambda a: np.concatenate([a, a[-1:]]), lambda a: a.T,
        lambda a: a.ravel(), lambda a: a[None], lambda a: a[..., None], lambda a: a[:0],
        lambda a: a[..., :-1], lambda a: np.concatenate([a, a[..., -1:]], axis=-1),
        lambda a: a[:1], lambda a: np.tile(a, (2,) * a.ndim),
        lambda a: a.reshape(-1)[:1].reshape(()),
    ]  # fmt: skip
    try:
        parts.set_array(node, rng.choice(changes)(value))
    except (ValueError, IndexError):
        change_values(parts, rng)


def change_values(parts, rng):
    node, value = _some_array(parts, rng)
    if node is None or value.size == 0:
        return change_scalar(parts, rng)
    changed = value.copy()
    spot = tuple(rng.randrange(side) for side in changed.shape)
    if changed.dtype.kind == "f":
        wrong = rng.choice(
            [np.nan, np.inf, -np.inf, 1e300, 1e150, -1e6, 0.0, 1e-320, 1e-160, -1.0, 1e9]
        )
    elif changed.dtype.kind in "iu":
        wrong = rng.choice(
            [-1, min(int(changed.max()) + 1, 2**62), 2**31 - 1, 2**40, -(2**40), 10**6, 0, 255]
        )
    else:
        wrong = changed.ravel()[0]
    with np.errstate(all="ignore"):
        wrong = np.asarray(wrong).astype(changed.dtype)
    how = rng.randrange(7)
    if how < 2:
        changed[spot] = wrong
    elif how == 2:
        changed[...] = wrong
    elif how == 3:
        changed = changed[::-1]
    elif how == 4:
        changed = (
            changed[rng.choices(range(len(changed)), k=len(changed))] if changed.ndim else changed
        )
    elif how == 5 and changed.dtype.kind == "f":
        changed = quietly(np.multiply, changed, rng.choice([1e-160, 1e-30, 1e30, 1e152, 1e300]))
    else:
        changed = quietly(np.multiply, changed, -1) if changed.dtype.kind in "fi" else changed[::-1]
    parts.set_array(node, changed)


def swap_values(parts, rng):
    found = [c[k]["state"] for c, k in places({"tree": parts.tree}, "object")]
    state = rng.choice([one for one in found if len(one) > 1] or [{"a": 1, "b": 2}])
    one, other = rng.sample(list(state), 2)
    state[one], state[other] = state[other], state[one]


def swap_nodes(parts, rng):
    kind = rng.choice(["array", "object", "list", "tuple", None])
    found = list(places({"tree": parts.tree["state"]}, kind))
    if len(found) < 2:
        return swap_values(parts, rng)
    (a, i), (b, j) = rng.sample(found, 2)
    if json.dumps(b[j]) not in json.dumps(a[i]) and json.dumps(a[i]) not in json.dumps(b[j]):
        a[i], b[j] = b[j], a[i]


def change_names(parts, rng):
    state = rng.choice([c[k]["state"] for c, k in places({"tree": parts.tree}, "object")])
    name = rng.choice(list(state) or ["x"])
    how = rng.randrange(4)
    if how == 0:
        state.pop(name, None)
    elif how == 3:
        state[name] = None
    elif how == 1:
        state[name + "x"] = state.pop(name, None)
    else:
        state[rng.choice(["note_", "_index", "fit", "transform", "metric", "_y", "X_"])] = 5


def change_class(parts, rng):
    container, key = rng.choice(list(places({"tree": parts.tree}, "object")))
    names = [f"nearfold.{method.name}" for method in METHODS] + ["nearfold.NCA"]
    names += [f"{module}.{name}" for module in SKLEARN for name in SKLEARN[module].split()]
    names += [c[k]["class"] for c, k in places({"tree": parts.tree}, "object")] * 5
    container[key]["class"] = rng.choice(names)
    parts.manifest["model"]["class"] = parts.tree["class"]


def replace_node(parts, rng):
    found = list(places({"tree": parts.tree["state"]}))
    if not found:
        return change_scalar(parts, rng)
    container, key = rng.choice(found)
    container[key] = copy.deepcopy(rng.choice(_ODD))


def refer(parts, rng):
    found = list(places({"tree": parts.tree["state"]}))
    if len(found) < 2:
        return change_scalar(parts, rng)
    (a, i), (b, j) = found[rng.randrange(len(found) - 1)], found[-1]
    b, j = rng.choice(found)
    if a[i] is not b[j] and json.dumps(b[j]) not in json.dumps(a[i]):
        a[i].setdefault("id", 900)
        b[j] = {"kind": "same", "as": a[i]["id"]}


def change_items(parts, rng):
    found = [c[k] for c, k in places({"tree": parts.tree}) if c[k].get("items")]
    if not found:
        return change_scalar(parts, rng)
    node = rng.choice(found)
    items, how = node["items"], rng.randrange(4)
    if how == 0:
        items.pop(rng.randrange(len(items)))
    elif how == 1:
        items.reverse()
    elif how == 2:
        items.append(copy.deepcopy(rng.choice(_ODD)))
    else:
        items[rng.randrange(len(items))] = copy.deepcopy(rng.choice(_ODD))


CHANGES = [
    change_scalar, change_scalar, change_scalar, change_numpy_scalar, change_dtype, change_shape,
    change_shape, change_values, change_values, change_values, swap_values, swap_nodes,
    change_names, change_class, replace_node, refer, change_items,
    change_layout, change_param, change_param, change_sides, change_sides, change_sparse,
    repeat_item, transplant, transplant,
]  # fmt: skip


def forge(raw, rng, donor=None):
    """One forged file, and which changes were made; `donor`: another file to take parts from."""
    parts = Parts(raw)
    parts.donor = None if donor is None else Parts(donor)
    made = []
    chosen = rng.choices(CHANGES, k=rng.choice([1, 1, 1, 2, 3]))
    # What a node says of its array changes last: the other changes go by it.
    for change in sorted(chosen, key=lambda change: change is change_layout):
        try:
            missing = change(parts, rng) is NotImplemented
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
            missing = True  # what it needs was changed into something else before
        if missing:  # the model has nothing of the kind
            change_scalar(parts, rng)
        made.append(change.__name__)
    tell_identity(parts)
    return parts.pack(), made
