"""A thousand broken model files: a thousand errors of one line, and nothing else happens.

250 are cut off, 350 have one bit turned, 250 are forged with every hash right, so that the checks
behind the hashes are met, and 150 are other things altogether. Each is opened by all readers
while memory is measured and an audit hook watches for what must not happen.
"""

import copy
import functools
import io
import json
import marshal
import os
import pickle
import random
import struct
import sys
import tracemalloc
import warnings
import zipfile
import zlib

import any_holder
import numpy as np
import pytest
from forge_files import places, put_together, take_apart
from safetensors.numpy import save as save_safetensors
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import nearfold
from nearfold.store import model_layout
from nearfold.store.model_allowlist import AllowList, find_function, find_type
from nearfold.store.model_file import ModelFileError, inspect, load, save, verify

X = np.random.RandomState(0).normal(size=(40, 5))
Y = np.array(["a", "b", "ç"], dtype=object)[np.arange(40) % 3]
FORBIDDEN = {
    *("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.remove", "os.rename", "os.mkdir"),
    *("subprocess.Popen", "pickle.find_class", "marshal.loads", "socket.connect", "ctypes.dlopen"),
}
ROOM = 3 * 1024**2  # what reading takes besides the file: Python objects of the manifest, buffers

heard = []
listening = False


def listen(event, args):
    if listening and event in FORBIDDEN:
        heard.append((event, args))


def models():
    table = np.column_stack([X.astype(object), Y])
    columns = [
        ("n", StandardScaler(), [0, 1, 2]),
        ("k", OneHotEncoder(), [5]),
        ("p", "passthrough", [3]),
    ]
    pipeline = make_pipeline(ColumnTransformer(columns), nearfold.PCA(2))
    noted = any_holder.AnyHolder().fit(X)
    noted.held_ = [
        np.float32(1.5), np.array([True, False]), np.array(["x", "yé"]), np.dtype("f4"), np.log1p,
        np.random.RandomState(1), np.random.default_rng(1), slice(1, 2), b"ab", float("nan"),
        (1, 2), {1: "a"}, np.array(["a", None], dtype=object), np.float64, range(3),
    ]  # fmt: skip
    noted.note_ = noted.held_
    return [
        pipeline.fit(table, Y),
        nearfold.KNeighborsClassifier(metric="manhattan").fit(X, Y),
        nearfold.NearestNeighbors(metric="cosine").fit(sparse.csr_array(np.maximum(X, 0))),
        nearfold.NCA(random_state=0, max_iter=5).fit(X, np.arange(40) % 2),
        noted,
    ]


@pytest.fixture(scope="module")
def wholes(tmp_path_factory):
    """The bytes of some good files."""
    folder, found = tmp_path_factory.mktemp("whole"), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, model in enumerate(models()):
            path = save(model, folder / f"{i}.nearfold", extra={"note": "good"})
            verify(path)  # warm: imports belong to no file's memory
            found.append(path.read_bytes())
    return found


def check_refused(path, size, readers=(load, verify)):
    """Each reader gives one line, within the memory of the file, and runs nothing."""
    global listening
    for read in (*readers, inspect):
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        listening = True
        try:
            read(path)
            message = None
        except ModelFileError as error:
            message = str(error)
        finally:
            listening = False
        peak = tracemalloc.get_traced_memory()[1] - before
        if message is None:
            assert read is inspect, f"{path} was opened by {read.__name__}"
        else:
            assert 0 < len(message) < 300, message
            assert message.isprintable(), repr(message)
        assert peak < 2 * size + ROOM, (path, peak, size)
    assert heard == []


@pytest.fixture(autouse=True, scope="module")
def _watched():
    with pytest.MonkeyPatch.context() as patch:
        any_holder.register(patch)
        yield from _watching()


def _watching():
    sys.addaudithook(listen)
    tracemalloc.start()
    yield
    tracemalloc.stop()


def check_all(broken, tmp_path, count):
    assert len(broken) == count
    assert len(set(broken)) > 0.95 * count  # they are different files
    path = tmp_path / "x.nearfold"
    for raw in broken:
        path.write_bytes(raw)
        check_refused(path, len(raw))


def test_250_cut_off(wholes, tmp_path):
    rng, broken = random.Random(0), []
    for i in range(250):
        raw = wholes[i % len(wholes)]
        middle = model_layout.HEADER_BYTES + struct.unpack_from("<Q", raw, 16)[0]
        if i < 100:
            cut = i
        elif i < 150:
            cut = middle + i - 125
        elif i < 170:
            cut = len(raw) - (i - 149)
        else:
            cut = rng.randrange(96, len(raw))
        broken.append(raw[:cut])
    check_all(broken, tmp_path, 250)


def test_350_with_one_bit_turned(wholes, tmp_path):
    rng, broken = random.Random(1), []
    for i in range(350):
        raw = bytearray(wholes[i % len(wholes)])
        place = i % 96 if i < 192 else rng.randrange(96, len(raw))
        raw[place] ^= 1 << rng.randrange(8) if i >= 96 else 1 << (i % 8)
        broken.append(bytes(raw))
    check_all(broken, tmp_path, 350)


# --- forged with right hashes ------------------------------------------------------------------


NAMES = [
    *("os.system", "builtins.eval", "builtins.exec", "subprocess.Popen", "pickle.loads"),
    *("posix.system", "nearfold.os", "nearfold.errors.warn", "nearfold.run.PerThread"),
    *("nearfold.blocks.rows.Rows", "nearfold.neighbors.exact.np", "nearfold.methods.isomap"),
    *("nearfold.neighbors.exact.PlainIndex", "nearfold.linalg.moments.__loader__"),
    *("nearfold.linalg.moments.__builtins__", "nearfold..PCA", "sklearn.utils.Bunch"),
    *("sklearn.linear_model.Ridge", "sklearn.pipeline.joblib", "this.s", "PCA", "numpy.load"),
    *("numpy.fromfile", "numpy.ctypeslib.load_library", "", "nearfold.PCA\n", "a" * 500),
    *(None, 5, ["nearfold.PCA"], {"kind": "list", "items": []}),
]
SHAPES = [
    [2**60], [2**62, 2**62], [-1], [-1, -40], [0.5], "40", None, [[40]], [True, 5], [1] * 40,
    [10**30], [40, 5, 2], [2**47, 0],
]  # fmt: skip
JUNK = [
    [],
    [1, 2],
    {},
    {"kind": "pickle", "value": "gASVBQAA"},
    {"kind": None},
    {"kind": ["list"]},
    {"kind": "same", "as": 10**6},
    {"kind": "same", "as": [1]},
    {"kind": "same"},
    {"kind": "list", "items": "abc"},
    {"kind": "list", "items": [{"kind": "same", "as": 77}], "id": 77},
    {"kind": "list", "items": [], "id": "x"},
    {"kind": "tuple"},
    {"kind": "dict", "items": [[1]]},
    {"kind": "dict", "items": [[{"kind": "list", "items": []}, 1]]},
    {"kind": "dict", "items": {"a": 1}},
    {"kind": "bytes", "value": "zz"},
    {"kind": "bytes", "value": 5},
    {"kind": "float", "value": "1e5"},
    {"kind": "slice", "items": [1, 2]},
    {"kind": "slice", "items": ["a", "b", "c"]},
    {"kind": "range", "items": [0, 5, 0]},
    {"kind": "range", "items": [None, None, None]},
    {"kind": "dtype", "value": "O,O,O"},
    {"kind": "dtype", "value": "<f99999"},
    {"kind": "dtype", "value": "<f16"},
    {"kind": "scalar", "dtype": "<f8", "value": "00"},
    {"kind": "scalar", "dtype": "|O", "value": "0000000000000000"},
    {"kind": "scalar", "dtype": "|b1", "value": "07"},
    {"kind": "scalar", "dtype": "str", "value": 5},
    {"kind": "scalar", "dtype": "|V8", "value": "0000000000000000"},
    {"kind": "type", "value": "type"},
    {"kind": "function", "value": "os.system"},
    {"kind": "function", "value": "numpy.load"},
    {"kind": "objects", "shape": [2**40], "items": []},
    {"kind": "objects", "shape": [2], "items": [1]},
    {"kind": "array", "tensor": "0", "dtype": "<f8", "shape": [2**60]},
    {"kind": "array", "tensor": "nowhere", "dtype": "<f8", "shape": [0]},
    {"kind": "array", "tensor": ["0"], "dtype": "<f8", "shape": [1]},
    {"kind": "array", "tensor": "0", "dtype": "|O8", "shape": [1]},
    {"kind": "array", "tensor": "0", "dtype": "<U9999999999", "shape": [1]},
    {"kind": "sparse", "format": "dia", "shape": [5, 5]},
    {"kind": "sparse", "format": "csr", "shape": [5]},
    {"kind": "sparse", "format": "csr", "shape": [2**47, 5], "data": 1, "indices": 2, "indptr": 3},
    {"kind": "random_state", "state": {"kind": "tuple", "items": [1, 2, 3]}},
    {"kind": "random_state", "state": 5},
    {"kind": "generator", "state": {"kind": "dict", "items": [["bit_generator", "RandomState"]]}},
    {"kind": "generator", "state": {"kind": "dict", "items": [["bit_generator", "PCG64"]]}},
    {"kind": "object", "class": "nearfold.PCA"},
    {"kind": "object", "class": "nearfold.PCA", "state": {"__class__": 1}},
    {"kind": "object", "class": "nearfold.PCA", "state": {"a b": 1}},
    {"kind": "object", "class": "nearfold.PCA", "state": [1]},
    {"kind": "index"},
]  # fmt: skip


def nested(depth):
    node = {"kind": "list", "items": []}
    for _ in range(depth):
        node = {"kind": "list", "items": [node]}
    return node


def forge_names(parts, rng):
    for name in NAMES:
        manifest, table, data = copy.deepcopy(parts[rng.randrange(len(parts))])
        container, key = rng.choice(list(places(manifest, "object")))
        container[key]["class"] = name
        yield put_together(manifest, table, data)


def forge_arrays(parts, rng):
    for shape in SHAPES:
        manifest, table, data = copy.deepcopy(parts[rng.randrange(len(parts))])
        container, key = rng.choice(list(places(manifest, "array")))
        container[key]["shape"] = shape
        yield put_together(manifest, table, data)
    for dtype in ("<f4", ">f8", "<U2", "|O8", "float64", None, "<i8,<i8", "|V8", "<M8[ns]"):
        manifest, table, data = copy.deepcopy(parts[1])
        container, key = next(places(manifest, "array"))
        container[key]["dtype"] = dtype
        yield put_together(manifest, table, data)
    manifest, table, data = copy.deepcopy(parts[1])
    container, key = next(places(manifest, "array"))
    container[key]["order"] = "F"
    yield put_together(manifest, table, data)


def forge_table(parts):
    manifest, table, data = parts[1]
    changes = [
        {"dtype": "F128"}, {"dtype": None}, {"dtype": ["F64"]}, {"shape": [2**60]},
        {"shape": [-40, -5]}, {"shape": [40, 5.0]}, {"shape": None}, {"shape": [10**40]},
        {"shape": [200]}, {"shape": [1] * 50},
        {"data_offsets": [0, 2**62]}, {"data_offsets": [-8, 1592]}, {"data_offsets": [8, 1608]},
        {"data_offsets": [1600, 0]}, {"data_offsets": [0]}, {"data_offsets": "01"},
        {"data_offsets": [0.0, 1600.0]},
    ]  # fmt: skip
    for change in changes:
        yield put_together(manifest, {**table, "0": {**table["0"], **change}}, data)
    yield put_together(manifest, {**table, "0": table["1"]}, data)
    yield put_together(manifest, {**table, "1": table["0"]}, data)
    yield put_together(manifest, {k: v for k, v in table.items() if k != "1"}, data)
    yield put_together(manifest, {**table, "0": [1, 2]}, data)
    yield put_together(manifest, {}, data)
    yield put_together(manifest, table, data + b"\0" * 8)
    yield put_together(manifest, table, data[:-8])
    for raw in (b"[]", b"{", b"", b"\xff\xfe{}", b'{"0":1,"0":1}', b"[" * 100_000, b"nul"):
        yield put_together(manifest, raw, data)
    for length in (0, 2**63, 2**64 - 1, 2**31, 1):
        yield put_together(manifest, table, data, length=length)


def forge_manifest(parts):
    manifest, table, data = parts[0]
    text = json.dumps(take_apart(put_together(manifest, table, data))[0])  # with the right hashes
    for key in ("created", "versions", "model", "payload", "tree"):
        yield put_together({k: v for k, v in manifest.items() if k != key}, table, data)
        for wrong in (None, [], 5):
            yield put_together({**manifest, key: wrong}, table, data)
    for raw in (b"", b"[]", b"null", b"{", b"\xff" * 9, b"{}", b'"NEARFOLD"', b"[" * 200_000):
        yield put_together(raw, table, data)
    for change in (
        text.replace('"extra": {', '"extra": {"a": 1, "a": 2,', 1),
        text.replace('"extra": {', '"extra": {"a": NaN,', 1),
        text.replace('"extra": {', '"extra": {"a": 1e999,', 1),
        text.replace('"extra": {', '"extra": {"a": ' + "9" * 5000 + ",", 1),
        text.replace('"extra": {', '"extra": {"a": ' + "[" * 5000 + "]" * 5000 + ",", 1),
        text.replace('"extra": {', '"extra": {"a": [' + "[]," * 400_000 + "1],", 1),
        text.replace("{", "\ufeff{", 1),
        text + "{}",
    ):
        yield put_together(change.encode(), table, data)
    yield put_together(text.encode("utf-16"), table, data)
    yield put_together(manifest, table, data, lie=1)
    yield put_together(manifest, table, data, lie=2**60)
    yield put_together(manifest, table, data, zero=1)
    other = {**manifest["model"], "class": "nearfold.PCA"}
    yield put_together({**manifest, "model": other}, table, data)
    for tree in ("PCA", True, nested(1), nested(400)):
        yield put_together({**manifest, "tree": tree}, table, data)
    extra = functools.reduce(lambda inner, _: [inner], range(400), 1)
    yield put_together({**manifest, "extra": {"deep": extra}}, table, data)
    for depth in (70, 200):
        deep = copy.deepcopy(parts[4][0])
        deep["tree"]["state"]["deep_"] = nested(depth)
        yield put_together(deep, *parts[4][1:])


def forge_sparse(parts):
    manifest, table, data = parts[2]
    node = next(container[key] for container, key in places(manifest, "sparse"))
    for part, value in (
        ("indices", 5),
        ("indices", -1),
        ("indices", 2**30),
        ("indptr", 10**6),
        ("indptr", -3),
    ):
        place = table[node[part]["tensor"]]["data_offsets"][0]
        kind = "<i" if node[part]["dtype"] == "<i4" else "<q"
        raw = bytearray(data)
        struct.pack_into(kind, raw, place + 8, value)
        yield put_together(manifest, table, bytes(raw))
    for shape in ([41, 5], [40, 1], [2**40, 5], [40], [40, 5, 1]):
        changed = copy.deepcopy(manifest)
        for container, key in places(changed, "sparse"):
            container[key]["shape"] = shape
        yield put_together(changed, table, data)
    for part in ("data", "indices", "indptr"):
        changed = copy.deepcopy(manifest)
        for container, key in places(changed, "sparse"):
            container[key][part] = {"kind": "list", "items": [1, 2]}
        yield put_together(changed, table, data)


def index_of(manifest):
    """The state of the index in a model."""
    objects = [container[key]["state"] for container, key in places(manifest, "object")]
    return next(state for state in objects if "leaf_size" in state and "X" in state)


def forge_index(parts):
    manifest, table, data = parts[1]
    options = {
        "metric": ["pickle", "precomputed", 5, None, "haversine"],
        "algorithm": ["magic", None],
        "leaf_size": [-1, "x"],
        "metric_params": [5, {"kind": "dict", "items": [["V", "x"]]}],
        "color": [1],
    }
    for name, values in options.items():
        for value in values:
            changed = copy.deepcopy(manifest)
            index_of(changed)[name] = value
            yield put_together(changed, table, data)
    changed = copy.deepcopy(manifest)
    held = next(c for c, k in places(changed, "object") if k == "index_")
    held["index_"] = {"kind": "list", "items": [held["index_"]] * 300}
    yield put_together(changed, table, data)


def forge_values(parts):
    manifest, table, data = parts[4]
    for code, value in (("|b1", 2), ("<U2", 0x110000), ("<U2", 2**32 - 1)):
        node = next(c[k] for c, k in places(manifest, "array") if c[k]["dtype"] == code)
        begin = table[node["tensor"]]["data_offsets"][0]
        raw = bytearray(data)
        struct.pack_into("<B" if code == "|b1" else "<I", raw, begin, value)
        yield put_together(manifest, table, bytes(raw))


def test_250_forged_with_right_hashes(wholes, tmp_path):
    rng, parts = random.Random(2), [take_apart(raw) for raw in wholes]
    good = tmp_path / "good.nearfold"
    for manifest, table, data in parts:  # the forger's tools are right: unchanged, it opens
        good.write_bytes(put_together(manifest, table, data))
        verify(good)
    broken = [
        *forge_names(parts, rng), *forge_arrays(parts, rng), *forge_table(parts),
        *forge_values(parts), *forge_manifest(parts), *forge_sparse(parts), *forge_index(parts),
    ]  # fmt: skip
    for i in range(250 - len(broken)):
        manifest, table, data = copy.deepcopy(parts[i % len(parts)])
        container, key = rng.choice(list(places(manifest["tree"])))
        container[key] = JUNK[i % len(JUNK)]
        broken.append(put_together(manifest, table, data))
    assert 250 - len(broken) == 0
    check_all(broken, tmp_path, 250)
    assert "this" not in sys.modules


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: json.dumps(junk)[:60])
def test_every_kind_of_junk_is_refused_wherever_it_is(junk, wholes, tmp_path):
    path = tmp_path / "x.nearfold"
    for raw in wholes:
        manifest, table, data = take_apart(raw)
        if manifest["tree"]["class"] != "sklearn.pipeline.Pipeline":
            manifest["tree"]["state"]["later_"] = junk
            path.write_bytes(put_together(manifest, table, data))
            check_refused(path, path.stat().st_size)


def test_only_what_is_in_the_list_has_a_name():
    for name in NAMES:
        if isinstance(name, str):
            assert AllowList().find(name) is None
            assert find_function(name) is None
            assert find_type(name) is None
    assert AllowList().find("nearfold.PCA") is nearfold.PCA


# --- foreign -----------------------------------------------------------------------------------


class Bomb:
    """Unpickling it would leave a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def png():
    rows = b"".join(b"\0" + bytes(12) for _ in range(4))

    def chunk(kind, body):
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    size = struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def zipped(name, body):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, body)
    return buffer.getvalue()


def array_file(write, *args):
    buffer = io.BytesIO()
    write(buffer, *args)
    return buffer.getvalue()


def foreign_files(bomb):
    """About other formats, and noise."""
    pickles = [pickle.dumps(Bomb(bomb), protocol=p) for p in range(6)]
    yield from pickles
    yield from (b"NEARFOLD" + raw for raw in pickles)
    yield from (pickle.dumps(nearfold.PCA(2).fit(X), protocol=p) for p in range(6))
    yield from (
        zipped("a.pkl", pickles[2]),
        zipped("__MACOSX", b""),
        png(),
        zlib.compress(b"x" * 99),
    )
    yield from (
        array_file(np.save, X),
        array_file(np.savez, X),
        array_file(functools.partial(np.save, allow_pickle=True), Y),
    )
    yield from (
        save_safetensors({"a": X}),
        marshal.dumps(compile("1", "x", "exec")),
        b"",
        b"\n",
        b"\0",
    )
    yield from (
        b"NEARFOLD",
        b"nearfold" + bytes(200),
        b"NEARFOL",
        b"NEARFOLD" + bytes(88),
        b"NEARFOLD" * 200,
    )
    yield from (
        b"a,b\n1,2\n",
        "é,ü\n".encode("utf-16"),
        b"{}",
        b"<html>",
        b"%PDF-1.7",
        b"\x7fELF" + bytes(300),
    )
    yield from (
        b"#!/bin/sh\nrm -rf /\n",
        b"PAR1" + bytes(99) + b"PAR1",
        b"ARROW1\0\0",
        b"\x1f\x8b\x08" + bytes(40),
    )
    rng = random.Random(3)
    for i in range(60):
        yield rng.randbytes(rng.choice([1, 7, 8, 95, 96, 97, 300, 5000]))
        yield b"NEARFOLD" + rng.randbytes(rng.choice([1, 4, 87, 88, 89, 300, 5000]) + i)


def test_150_of_another_kind(tmp_path):
    bomb = tmp_path / "bomb went off"
    pieces = list(foreign_files(str(bomb)))[:143]
    check_all(pieces, tmp_path, 143)
    odd = [
        tmp_path / name
        for name in ("folder", "pipe", "zeros", "loop", "missing", "a\nb", "n" * 300)
    ]
    odd[0].mkdir()
    os.mkfifo(odd[1])
    odd[2].symlink_to("/dev/zero")
    odd[3].symlink_to(odd[3])
    odd[5].write_bytes(b"NEARFOLD")
    for path in odd:
        check_refused(path, 0)
    with pytest.raises(ModelFileError):
        load("a\0b")
    assert not bomb.exists()
    assert len(pieces) + len(odd) == 150


def turned(raw, place):
    changed = bytearray(raw)
    changed[place] ^= 4
    return bytes(changed)


def test_the_messages_say_what_is_wrong(wholes, tmp_path):
    path = tmp_path / "x.nearfold"
    cases = [
        (b"", r"^x\.nearfold: this is not a Nearfold model file; it is empty\.$"),
        (pickle.dumps(1), "looks like a pickle, which Nearfold never opens"),
        (wholes[0][:-1], r"^x\.nearfold: the file is cut off: [\d,]+ bytes instead of [\d,]+\.$"),
        (wholes[0] + b"x", "too long"),
        (turned(wholes[0], 50), "the header is damaged"),
        (turned(wholes[0], 200), "the manifest is damaged"),
        (turned(wholes[0], -9), "the arrays are damaged"),
    ]
    for raw, words in cases:
        path.write_bytes(raw)
        with pytest.raises(ModelFileError, match=words):
            load(path)
    with pytest.raises(ModelFileError, match="no such file"):
        load(tmp_path / "y.nearfold")
    with pytest.raises(ModelFileError, match="folder"):
        inspect(tmp_path)


def test_a_small_file_does_not_grow_by_references(wholes, tmp_path):
    """A list of two references to a list of two references to ... has no cost until it is read."""
    manifest, table, data = take_apart(wholes[4])
    items = []
    for i in range(40):
        inside = [{"kind": "same", "as": 100 + i - 1}] * 2 if i else []
        items.append({"kind": "list", "items": inside, "id": 100 + i})
    manifest["tree"]["state"]["later_"] = {"kind": "list", "items": items}
    path = tmp_path / "x.nearfold"
    path.write_bytes(put_together(manifest, table, data))
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    verify(path)
    assert tracemalloc.get_traced_memory()[1] - before < ROOM
