"""Columns that name rows or groups of rows, and measure nothing: by their name and values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nearfold.columns.kinds import Kind
from nearfold.messages import Message

if TYPE_CHECKING:
    import polars as pl

_ID_NAME = re.compile(
    r"(.*[_ .-])?(ids?|uuid|guid|key|rowid|row_?names?)|column_1|.*(编号|編號|番号)", re.IGNORECASE
)
_CAMEL_ID = re.compile(r".*[a-z](Id|ID)")
_COUNTER_NAME = re.compile(
    r"(.*[_ .-])?(index|idx|row|rownum|number|num|nr|no|serial|individual|subject|patient|household"
    r"|person|respondent|participant|case|obs|observation|sample|student|customer|user|account)"
    r"|.*(序号|序號)",
    re.IGNORECASE,
)
FEW = 20  # distinct ids: fewer are categories, and counters of so few rows come by chance
_LARGEST_EXACT = 2**53  # whole numbers beyond it are names, not measures


def is_id_name(name: str) -> bool:
    """Whether a column of this name holds ids."""
    name = name.strip()
    return bool(_ID_NAME.fullmatch(name) or _CAMEL_ID.fullmatch(name))


def is_counter_name(name: str) -> bool:
    """Whether a column of this name may number things: `Sample Number`, but also `no` of rooms."""
    return bool(_COUNTER_NAME.fullmatch(name.strip()))


def judge_whole_numbers(
    column: pl.Series, missing: int, low: int, high: int
) -> tuple[Kind, Message, int] | None:
    """Kind, reason and number of distinct values, if whole numbers are ids or a category of ids."""
    n = len(column)
    by_name, counts = is_id_name(column.name), is_counter_name(column.name)
    long = max(-low, high) > _LARGEST_EXACT
    may_count_rows = missing == 0 and low in (0, 1) and high - low == n - 1 and n >= FEW
    if not (by_name or counts or long or may_count_rows):
        return None
    distinct = int(column.drop_nulls().n_unique())
    if by_name and distinct < min(FEW, n):
        return Kind.CATEGORY, Message("columns.id_of_few", n=distinct), distinct
    if by_name:
        return Kind.ID, Message("columns.id_by_name", distinct=distinct), distinct
    if long:
        return Kind.ID, Message("columns.id_long"), distinct
    if may_count_rows and column.is_sorted():
        return Kind.ID, Message("columns.id_counts"), distinct
    if counts and distinct >= FEW and high - low + 1 == distinct:
        return Kind.ID, Message("columns.id_by_name", distinct=distinct), distinct
    return None
