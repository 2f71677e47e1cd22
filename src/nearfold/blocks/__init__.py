"""Rows in blocks: where they come from, how work runs over them, how much memory they may take."""

from nearfold.blocks.cluster import is_dask
from nearfold.blocks.dask_rows import DaskRows, collect_vector
from nearfold.blocks.executor import Executor, current_executor, use_executor
from nearfold.blocks.frames import NamedRows
from nearfold.blocks.memory import (
    get_memory,
    require_memory,
    require_output,
    reserve_memory,
    set_memory,
    show_bytes,
)
from nearfold.blocks.rows import ArrayRows, Block, MappedRows, Rows, floating_dtype
from nearfold.blocks.sources import as_rows, is_streamed, scan
from nearfold.blocks.work import combine_blocks, combine_pairwise, spans

__all__ = [
    "ArrayRows",
    "Block",
    "DaskRows",
    "Executor",
    "MappedRows",
    "NamedRows",
    "Rows",
    "as_rows",
    "collect_vector",
    "combine_blocks",
    "combine_pairwise",
    "current_executor",
    "floating_dtype",
    "get_memory",
    "is_dask",
    "is_streamed",
    "require_memory",
    "require_output",
    "reserve_memory",
    "scan",
    "set_memory",
    "show_bytes",
    "spans",
    "use_executor",
]
