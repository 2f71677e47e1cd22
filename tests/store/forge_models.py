"""Forged model files: every hash is right, and the contents are wrong in one to three places.

    python tests/store/forge_models.py 10000 [--seed 0] [--chunk 500]

saves a small model of every method and of many ways of fitting, changes numbers, texts, dtypes,
shapes, values, row numbers, names, classes, parameters and references in the files, loads each and
uses what loads. A file must be refused by one ModelFileError or give a model that works. Each
chunk runs in a process of its own, so that an abort of the interpreter is seen and counted.
"""

import argparse
import collections
import copy
import functools
import hashlib
import json
import random
import re
import struct
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from forge_bases import BASES
from scipy import sparse

from nearfold.errors import ModelFileError, NearfoldError
from nearfold.registry import METHODS
from nearfold.store.model_file import load, save

ASKED = (
    "transform", "predict", "predict_proba", "decision_function", "kneighbors", "radius_neighbors",
    "score_samples", "inverse_transform", "get_feature_names_out", "get_mahalanobis_matrix",
    "get_covariance", "rows_kept",
)  # fmt: skip
# What scikit-learn says, rightly, of values that are not among the categories, and of names.
UNKNOWN = ("previously unseen labels", "Found unknown categories", "are not unique",
           "n_neighbors does not take", "Sparse data was passed")  # fmt: skip


def quietly(work, *args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return work(*args)


# --- a file taken apart and put together --------------------------------------------------------


def take_apart(raw):
    """(manifest, header of the arrays, their bytes)."""
    n_manifest = struct.unpack_from("<Q", raw, 16)[0]
    manifest = json.loads(raw[96 : 96 + n_manifest])
    payload = raw[96 + n_manifest :]
    n_header = struct.unpack_from("<Q", payload)[0]
    return manifest, json.loads(payload[8 : 8 + n_header]), payload[8 + n_header :]


def put_together(manifest, table, data, *, lie=0, zero=0, length=None):
    """A file whose hashes are all right, whatever is in it."""
    head = table if isinstance(table, bytes) else json.dumps(table).encode()
    payload = struct.pack("<Q", len(head) if length is None else length) + head + data
    if isinstance(manifest, dict) and isinstance(manifest.get("payload"), dict):
        digest = hashlib.sha256(payload).hexdigest()
        manifest = {**manifest, "payload": {"bytes": len(payload), "sha256": digest}}
    text = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    top = struct.pack("<8sHHIQQ", b"NEARFOLD", 1, 0, zero, len(text), len(payload) + lie)
    top += hashlib.sha256(text).digest()
    return top + hashlib.sha256(top).digest() + text + payload


def places(node, kind=None):
    """(container, key) of every node of the tree, or of those of one kind."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for key, part in list(pairs):
        if isinstance(part, dict) and "kind" in part and kind in (None, part["kind"]):
            yield node, key
        if isinstance(part, dict | list) and key != "shape":
            yield from places(part, kind)


_NAMES = {
    "|b1": "BOOL", "|u1": "U8", "|i1": "I8", "<i2": "I16", "<u2": "U16", "<f2": "F16",
    "<i4": "I32", "<u4": "U32", "<f4": "F32", "<i8": "I64", "<u8": "U64", "<f8": "F64",
}  # fmt: skip


class Parts:
    """A file as its manifest and its arrays."""

    def __init__(self, raw):
        self.manifest, table, data = take_apart(raw)
        self.tree = self.manifest["tree"]
        self.arrays = {}
        for container, key in places({"tree": self.tree}, "array"):
            node = container[key]
            begin, end = table[node["tensor"]]["data_offsets"]
            dtype = np.dtype(node["dtype"])
            shape = node["shape"][::-1] if node.get("order") == "F" else node["shape"]
            stored = np.frombuffer(data[begin:end], dtype).reshape(shape)
            self.arrays[node["tensor"]] = stored.T if node.get("order") == "F" else stored

    def set_array(self, node, value):
        """Give a node other contents."""
        value = np.ascontiguousarray(value)
        node.pop("order", None)
        node["dtype"], node["shape"] = value.dtype.str, list(value.shape)
        self.arrays[node["tensor"]] = value

    def pack(self):
        """The file."""
        used = [c[k]["tensor"] for c, k in places({"tree": self.tree}, "array")]
        nodes = {c[k]["tensor"]: c[k] for c, k in places({"tree": self.tree}, "array")}
        table, blobs, end = {}, [], 0
        for name in dict.fromkeys(used):
            value, node = self.arrays[name], nodes[name]
            value = value.T if node.get("order") == "F" else value
            blob = np.ascontiguousarray(value).tobytes()
            kind = _NAMES.get(value.dtype.str)
            shape = list(value.shape) if kind else [*value.shape, value.dtype.itemsize]
            table[name] = {
                "dtype": kind or "U8",
                "shape": shape,
                "data_offsets": [end, end + len(blob)],
            }
            end += len(blob)
            blobs.append(blob)
        return put_together(self.manifest, table, b"".join(blobs))


# --- the changes --------------------------------------------------------------------------------


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
    container, key = rng.choice(list(_leaves({"tree": parts.tree})))
    old = container[key]
    options = list(_ODD)
    if type(old) in (int, float):
        options += [old + 1, old - 1, -old, old * 2, old * 1000, old / 3] * 3
    if isinstance(old, str):
        options += [old + "x", old[:-1], old.upper()] * 3
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
        wrong = rng.choice([np.nan, np.inf, -np.inf, 1e300, -1e6, 0.0, 1e-320, -1.0, 1e9])
    elif changed.dtype.kind in "iu":
        wrong = rng.choice([-1, int(changed.max()) + 1, 2**31 - 1, 2**40, -(2**40), 10**6, 0, 255])
    else:
        wrong = changed.ravel()[0]
    with np.errstate(all="ignore"):
        wrong = np.asarray(wrong).astype(changed.dtype)
    how = rng.randrange(5)
    if how < 2:
        changed[spot] = wrong
    elif how == 2:
        changed[...] = wrong
    elif how == 3:
        changed = changed[::-1]
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
    how = rng.randrange(3)
    if how == 0:
        state.pop(name, None)
    elif how == 1:
        state[name + "x"] = state.pop(name, None)
    else:
        state[rng.choice(["note_", "_index", "fit", "transform", "metric", "_y", "X_"])] = 5


def change_class(parts, rng):
    container, key = rng.choice(list(places({"tree": parts.tree}, "object")))
    names = [f"nearfold.{method.name}" for method in METHODS]
    names += ["sklearn.preprocessing.StandardScaler", "sklearn.pipeline.Pipeline", "nearfold.NCA"]
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
]  # fmt: skip


def forge(raw, rng):
    """One forged file, and which changes were made."""
    parts = Parts(raw)
    made = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        change = rng.choice(CHANGES)
        change(parts, rng)
        made.append(change.__name__)
    return parts.pack(), made


# --- the judge ----------------------------------------------------------------------------------


def answers(model, rows):
    """What a model says: by method, an array or the name of an error."""
    found = {}
    for name in ASKED:
        method = getattr(model, name, None)
        if method is None:
            continue
        try:
            if name.startswith("get_"):
                found[name] = quietly(method)
            elif name == "inverse_transform":
                found[name] = quietly(method, model.transform(rows))
            else:
                found[name] = quietly(method, rows)
        except Exception as error:
            found[name] = error
    return found


def _is_finite(answer):
    if isinstance(answer, tuple | list):
        return all(_is_finite(part) for part in answer)
    if sparse.issparse(answer):
        return _is_finite(answer.data)
    values = np.asarray(answer)
    if values.dtype == object:
        return all(_is_finite(part) for part in values.ravel() if isinstance(part, np.ndarray))
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


@functools.cache
def base(name):
    """The bytes of a good file, rows to ask it about, and its answers."""
    model, rows = quietly(BASES[name])
    with tempfile.TemporaryDirectory() as folder:
        path = save(model, Path(folder) / "m.nearfold")
        raw = path.read_bytes()
        again = answers(load(path), rows)
    return (
        raw,
        rows,
        {n: isinstance(a, Exception) or _is_finite(a) for n, a in again.items()},
        {n for n, a in again.items() if isinstance(a, Exception)},
    )


def judge(name, raw, folder):
    """(outcome, detail): refused, works, a clear error in use, or one of the failures."""
    _, rows, finite, raises = base(name)
    path = Path(folder) / "x.nearfold"
    path.write_bytes(raw)
    try:
        model = quietly(load, path)
    except ModelFileError as error:
        return ("refused", str(error)) if "\n" not in str(error) else ("RAW AT LOAD", str(error))
    except Exception as error:
        return "RAW AT LOAD", repr(error)
    # Overflow on the way back is the formula's, and NaN is the answer where nothing is in reach.
    free = {"inverse_transform"} | ({"predict"} if hasattr(model, "radius") else set())
    told = "works", ""
    for method, answer in answers(model, rows).items():
        if method in raises:
            continue
        if isinstance(answer, NearfoldError):
            told = "clear error", f"{method}: {answer}"
        elif isinstance(answer, Exception) and not any(words in str(answer) for words in UNKNOWN):
            return "RAW EXCEPTION", f"{type(model).__name__}.{method}: {answer!r}"
        elif isinstance(answer, Exception):
            continue
        elif method not in free and finite.get(method, True) and not _is_finite(answer):
            return "NOT FINITE", f"{type(model).__name__}.{method}"
    return told


def run(first, count, seed, note=None, only=""):
    """Counts of outcomes and the failures, for cases first, first + 1, ..."""
    names = sorted(name for name in BASES if re.search(only, name))
    counts, failures = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for case in range(first, first + count):
            rng = random.Random(f"{seed} {case}")
            name = names[case % len(names)]
            raw, made = forge(base(name)[0], rng)
            if note is not None:
                Path(note).write_text(f"{case} {name} {made}")
            outcome, detail = judge(name, raw, folder)
            counts[outcome] += 1
            if outcome.isupper() or outcome == "clear error":
                failures.append([case, name, made, outcome, detail])
    return counts, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chunk", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="", help="Models whose names match.")
    parser.add_argument("--inside", action="store_true", help="Run here, and print JSON.")
    asked = parser.parse_args()
    if asked.inside:
        note = Path(tempfile.gettempdir()) / f"forging {asked.first}"
        counts, failures = run(asked.first, asked.count, asked.seed, note, asked.only)
        note.unlink(missing_ok=True)
        print(json.dumps([counts, failures]))
        return 0
    total = collections.Counter()
    for first in range(asked.first, asked.first + asked.count, asked.chunk):
        count = min(asked.chunk, asked.first + asked.count - first)
        command = [sys.executable, __file__, str(count), "--inside", "--first", str(first)]
        command += ["--only", asked.only]
        done = subprocess.run([*command, "--seed", str(asked.seed)], capture_output=True, text=True)
        if done.returncode:
            note = Path(tempfile.gettempdir()) / f"forging {first}"
            where = note.read_text() if note.exists() else "?"
            print(f"CRASH (exit {done.returncode}) in case {where}", done.stderr[-600:])
            total["CRASH"] += 1
            continue
        counts, failures = json.loads(done.stdout.splitlines()[-1])
        total.update(counts)
        for failure in failures:
            print(*failure)
        print(dict(total), flush=True)
    return int(any(name.isupper() for name in total))


if __name__ == "__main__":
    sys.exit(main())
