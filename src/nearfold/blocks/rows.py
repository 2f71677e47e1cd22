"""One way to see rows: in blocks, wherever they come from.

    ndarray, memmap             sliced, never copied whole
    SciPy sparse matrix         sliced as CSR, never densified
    pandas or polars frame      converted block by block (any frame narwhals knows)
    .npy                        read block by block, so pages do not pile up in memory
    .parquet, .csv, .tsv        see tables.py; the file may be larger than memory

Every source says how many features it has, their names if they have any, and the dtype
its blocks will have (float32 stays float32, all else becomes float64). A block is small
enough that a few of them per thread fit the memory budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from nearfold.blocks.memory import get_memory
from nearfold.errors import InputError
from nearfold.notation import Array

# Large enough that a matrix product on a block runs at full speed and that combining
# blocks costs little beside it, small enough that some dozen of them are no burden.
_BLOCK_BYTES = 16 * 1024**2
_BLOCKS_ALIVE = 32  # blocks read ahead, their centred copies and temporaries, all threads


@dataclass(frozen=True)
class Block:
    """Some consecutive rows: their values, where they start, and their targets if asked for."""

    X: Any
    start: int
    y: Array | None = None


class Rows:
    """A table seen in blocks of rows. Iterate with `blocks()`, as often as needed."""

    n_features: int
    n_rows: int | None
    feature_names: list[str] | None = None
    dtype: np.dtype[Any]

    def blocks(self, target: str | None = None) -> Iterator[Block]:
        """The blocks in order; `target` names a column to deliver as y instead of X."""
        if target is not None:
            raise InputError(f"column {target!r} cannot be taken by name from {self.describe()}.")
        yield from self._blocks()

    def _blocks(self) -> Iterator[Block]:
        raise TypeError(f"{type(self).__name__} does not say how its blocks are read.")

    def describe(self) -> str:
        """Say in a few words what the source is, for messages."""
        return f"a table of {self.n_features} columns"

    def block_rows(self) -> int:
        """Rows in a block, from the width of a row and the memory budget."""
        row_bytes = max(1, self.n_features) * self.dtype.itemsize
        block_bytes = min(_BLOCK_BYTES, get_memory() // _BLOCKS_ALIVE)
        return max(16, block_bytes // row_bytes)

    def spans(self, n_rows: int) -> list[slice]:
        """Consecutive slices of equal length that cover `n_rows` rows.

        A multiple of four of them, so that a few threads end at about the same time.
        """
        count = -(-n_rows // self.block_rows())
        if count > 1:
            count = -(-count // 4) * 4
        step = -(-n_rows // max(count, 1))
        return [slice(a, min(a + step, n_rows)) for a in range(0, n_rows, max(step, 1))]


class ArrayRows(Rows):
    """Rows of an ndarray, a memmap or a SciPy sparse matrix."""

    def __init__(self, X: Any, feature_names: list[str] | None = None) -> None:
        self._X = X.tocsr() if sparse.issparse(X) else X
        if self._X.ndim != 2:
            raise InputError(f"a table has rows and columns; this array has shape {X.shape}.")
        self.n_rows, self.n_features = self._X.shape
        self.dtype = floating_dtype(self._X.dtype)
        self.feature_names = feature_names

    def _blocks(self) -> Iterator[Block]:
        for span in self.spans(self._X.shape[0]):
            block = self._X[span]
            if block.dtype != self.dtype:
                block = block.astype(self.dtype)
            yield Block(block, span.start)

    def describe(self) -> str:
        """What the source is."""
        return f"an array of shape {self._X.shape}"


class NpyRows(Rows):
    """Rows of a .npy file, read (not mapped) so that what is done with is not kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            try:
                version = np.lib.format.read_magic(file)
                read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
                shape, fortran, self._stored = read_header(file)
            except (ValueError, AttributeError) as error:
                raise InputError(f"{path} is not a .npy file: {error}") from None
            self._offset = file.tell()
        if len(shape) != 2 or fortran or self._stored.kind not in "fiub":
            raise InputError(
                f"{path} holds {self._stored} of shape {shape}"
                f"{' in column order' if fortran else ''}: "
                "rows are read from numeric two-dimensional arrays in row order."
            )
        self.n_rows, self.n_features = shape
        self.dtype = floating_dtype(self._stored)
        expected = self._offset + shape[0] * shape[1] * self._stored.itemsize
        if path.stat().st_size < expected:
            raise InputError(f"{path} is cut short: its header promises {expected} bytes.")

    def _blocks(self) -> Iterator[Block]:
        assert self.n_rows is not None
        with self._path.open("rb") as file:
            file.seek(self._offset)
            for span in self.spans(self.n_rows):
                count = (span.stop - span.start) * self.n_features
                values = np.fromfile(file, dtype=self._stored, count=count)
                block = values.reshape(-1, self.n_features)
                yield Block(block.astype(self.dtype, copy=False), span.start)

    def describe(self) -> str:
        """What the source is."""
        return str(self._path)


class NamedRows(Rows):
    """Rows whose columns have names and types, as narwhals and polars alike print them."""

    _schema: dict[str, Any]

    def _use(self, names: list[str]) -> None:
        """These columns are the features."""
        self.feature_names = names
        self.n_features = len(names)
        single = all(str(self._schema[name]) == "Float32" for name in names)
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def select(self, names: list[str]) -> NamedRows:
        """The same rows with these columns only, in this order."""
        chosen = copy(self)
        chosen._schema = {name: self._schema[name] for name in names}
        chosen._use(names)
        return chosen

    def _use_all_but(self, target: str | None) -> list[str]:
        """All columns but the target are the features, and must be numeric."""
        names = list(self._schema)
        if target is not None and target not in names:
            raise InputError(f"there is no column {target!r}; the columns are {names}.")
        names = [name for name in names if name != target]
        refuse_text({name: self._schema[name] for name in names})
        self._use(names)
        return names


class FrameRows(NamedRows):
    """Rows of a pandas or polars frame, or of any other that narwhals knows."""

    def __init__(self, frame: Any) -> None:
        import narwhals.stable.v2 as nw

        self._frame = nw.from_native(frame, eager_only=True)
        self._schema = dict(self._frame.schema)
        self.n_rows = len(self._frame)
        self._use(list(self._schema))

    def blocks(self, target: str | None = None) -> Iterator[Block]:
        """The blocks in order, the target column apart."""
        import narwhals.stable.v2 as nw

        names = self._use_all_but(target)
        kind = nw.Float32 if self.dtype == np.float32 else nw.Float64
        for span in self.spans(len(self._frame)):
            part = self._frame[span]
            X = np.column_stack([part[name].cast(kind).to_numpy() for name in names])
            y = part[target].to_numpy() if target is not None else None
            yield Block(X.astype(self.dtype, copy=False), span.start, y)


def floating_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """float32 stays float32; everything else is computed in float64."""
    return np.dtype(np.float32 if np.dtype(dtype) == np.float32 else np.float64)


def refuse_text(kinds: dict[str, Any]) -> None:
    """Raise if any column is not numeric: text is never turned into numbers in silence."""
    text = {n: k for n, k in kinds.items() if not (k.is_numeric() or str(k) == "Boolean")}
    if text:
        shown = ", ".join(f"{name!r} ({kind})" for name, kind in list(text.items())[:5])
        raise InputError(
            f"{len(text)} column(s) are not numeric: {shown}. Leave them out, for example "
            "with nearfold.scan(path, columns=[...]), or encode them first."
        )
