"""fit and transform with --scheduler: files are read, and work is done, on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nearfold.app.options import table_options_of
from nearfold.app.reading import existing
from nearfold.errors import InputError
from nearfold.messages import Message


def prepared(data: str, options: dict[str, Any], *, learn: bool) -> Any:
    """The table of a fit, its columns prepared on the cluster."""
    from nearfold.store.dask_tables import open_dask
    from nearfold.study.dask_table import prepare_dask

    if options["pairs"] is not None:
        raise InputError(Message("cluster.no_pairs"))
    asked = table_options_of(options)
    table = open_dask(existing(data), asked.reading(), [asked.id] if asked.id else [])
    return prepare_dask(table, asked, options["scale"], learn=learn)


def transform_blocks(
    client: Any, model: Any, extra: dict[str, Any], data: str, options: dict[str, Any]
) -> int:
    """Transform a table part by part where its rows are, and write what comes; returns rows."""
    from nearfold.blocks.cluster import compute, shared, task
    from nearfold.store.dask_tables import (
        check_folder,
        check_written,
        open_dask,
        write_blocks,
        write_part,
    )

    path = options["output"]
    kind = check_written(path)
    schema = extra.get("schema")
    known = schema.get("columns", []) if isinstance(schema, dict) else []
    ids = [c["name"] for c in known if isinstance(c, dict) and c.get("role") == "id"]
    reading = table_options_of(options).reading()
    table = open_dask(existing(data), reading, [*ids, *options["keep"]])
    sent = shared(model)
    place = partial(task, place_part, schema=schema, keep=options["keep"])
    parts = [
        place(part, sent, block=f"block {i}") for i, part in enumerate(table.frame.to_delayed())
    ]
    at_once = 2 * max(1, sum(client.nthreads().values()))
    if kind != "folder":
        return write_blocks(path, kind, _in_order(parts, at_once, compute), options["protect"])
    Path(path).mkdir(parents=True, exist_ok=True)
    folder = str(Path(path).resolve())
    counts = compute([task(write_part, part, folder, i) for i, part in enumerate(parts)], "reading")
    check_folder(folder, len(parts))
    return int(sum(counts))


def _in_order(parts: list[Any], at_once: int, compute: Any) -> Iterator[Any]:
    """The results of tasks, a few of them here at a time; empty ones are left out but the last."""
    some = False
    for start in range(0, len(parts), at_once):
        for frame in compute(parts[start : start + at_once]):
            if frame.height or (not some and start + at_once >= len(parts)):
                some = True
                yield frame


def place_part(part: Any, model: Any, schema: Any, keep: tuple[str, ...]) -> Any:
    """A part in the space of the model, with its id and the columns to keep, as a polars frame."""
    import polars as pl

    from nearfold.app.reading import preparation_of
    from nearfold.app.transform_command import copied, placed
    from nearfold.columns.frames import as_polars

    frame = as_polars(part)
    step = preparation_of(model)
    if step is not None and frame.height:
        frame = frame.filter(step.rows_kept(frame))
    columns = copied(frame, schema, keep)
    if frame.height == 0:
        return pl.DataFrame(columns)
    columns |= placed(model, frame, columns)
    return pl.DataFrame({name: np.asarray(v) if not isinstance(v, pl.Series) else v
                         for name, v in columns.items()})  # fmt: skip
