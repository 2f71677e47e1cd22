"""A model file as its manifest and its arrays, to change and to put together again."""

import hashlib
import json
import struct

import numpy as np


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
        self.donor = None
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
            if name not in self.arrays:  # a node may name an array that is not there
                continue
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
