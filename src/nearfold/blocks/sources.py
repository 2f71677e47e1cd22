"""Whatever holds a table, as `Rows`."""

from __future__ import annotations

from glob import glob, has_magic
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nearfold.blocks.cluster import is_dask
from nearfold.blocks.dask_rows import DaskRows
from nearfold.blocks.frames import FrameRows
from nearfold.blocks.rows import ArrayRows, NpyRows, Rows
from nearfold.blocks.tables import CsvRows, LazyRows, ManyRows, ParquetRows, TableRows
from nearfold.errors import InputError

_SUFFIXES = (".npy", ".parquet", ".pq", ".csv", ".tsv")


def scan(source: Any, columns: list[str] | None = None) -> Rows:
    """Open a file (.npy, .parquet, .csv, .tsv) or a polars LazyFrame to be read in blocks.

    Estimators that can stream accept the path itself; use `scan` to take some columns only. A
    pattern such as "data/*.parquet" stands for all files of that name, in the order of their names.
    """
    if not isinstance(source, str | Path):
        return LazyRows(source, columns, "a lazy frame")
    path = Path(source)
    if not path.exists() and has_magic(str(path)):
        return _scan_many(str(path), columns)
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(f"{path}: rows are read from {', '.join(_SUFFIXES)} files.")
    if suffix == ".npy":
        if columns is not None:
            raise InputError("a .npy file has no column names; slice the array instead.")
        return NpyRows(path)
    return _scan_table(path, suffix, columns)


def _scan_many(pattern: str, columns: list[str] | None) -> Rows:
    files = [scan(path, columns) for path in sorted(glob(pattern, recursive=True))]
    tables = [file for file in files if isinstance(file, TableRows)]
    if not files:
        raise InputError(f"no file is called {pattern}.")
    if len(tables) < len(files):
        raise InputError(f"{pattern}: several files are read together if their columns have names.")
    return tables[0] if len(tables) == 1 else ManyRows(tables, pattern)


def _scan_table(path: Path, suffix: str, columns: list[str] | None) -> Rows:
    import polars as pl

    try:
        if suffix in (".csv", ".tsv"):
            return CsvRows(path, columns, "\t" if suffix == ".tsv" else ",")
        return ParquetRows(path, columns)
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path} cannot be read as a table: {reason}") from None


def is_streamed(X: Any) -> bool:
    """Whether X is read block by block: a path, a `Rows`, a polars LazyFrame, a Dask table."""
    return isinstance(X, str | Path | Rows) or type(X).__name__ == "LazyFrame" or is_dask(X)


def as_rows(X: Any) -> Rows:
    """Any table as `Rows`."""
    if isinstance(X, Rows):
        return X
    if is_dask(X):
        return DaskRows(X)
    if is_streamed(X):
        return scan(X)
    if sparse.issparse(X) or isinstance(X, np.ndarray):
        return ArrayRows(X)
    if hasattr(X, "__dataframe__") or hasattr(X, "__narwhals_dataframe__") or hasattr(X, "columns"):
        return FrameRows(X)
    return ArrayRows(np.asarray(X))
