"""What the cells of each column are: its kind, and the reason in a sentence.

Numbers are looked at all columns together, everything else column by column. The same rules hold
at any size: distinct values are counted only where they decide something.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nearfold.columns.dates import as_days, cyclic_parts, find_format, is_ambiguous, parse
from nearfold.columns.frames import show
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
_UUID = r"(?i)^\{?[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}\}?$"
_LEADING_ZERO = r"^[+-]?0[0-9]"
_MANY_DIGITS = r"^[+-]?[0-9]{16,}$"
_IMAGE_PATH = r"(?i)\.(png|jpe?g|bmp|gif|webp)$"
_IMAGE_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM", b"RIFF")
_FEW = 20  # distinct ids: fewer are categories, and counters of so few rows come by chance
_MOSTLY = 0.9  # share of numbers from which a mixed column is one of numbers
_MOST_WORDS = 10  # different words in it
_LONGEST_EXACT = 2**53  # whole numbers beyond it are names, not measures


@dataclass(frozen=True)
class Facts:
    """What was seen of one column."""

    name: str
    kind: Kind
    reason: Message
    n_rows: int
    n_missing: int = 0
    n_distinct: int | None = None
    example: str = ""
    constant: bool = False
    details: dict[str, Any] = field(default_factory=dict)  # what it takes to read the cells


def measure(frame: pl.DataFrame, kinds: dict[str, Kind] | None = None) -> list[Facts]:
    """The facts of each column; `kinds` are those that somebody who knows has named."""
    given = frame.columns
    numeric = [i for i, kind in enumerate(frame.dtypes) if kind.is_numeric()]
    summary = _summarise(frame, numeric)
    found = []
    for i, name in enumerate(given):
        column, named = frame.to_series(i), (kinds or {}).get(name)
        if named is not None:
            found.append(_as_named(column, named))
        elif i in summary:
            found.append(_number(column, *summary[i]))
        else:
            found.append(_other(column))
    return found


def _summarise(frame: pl.DataFrame, numeric: list[int]) -> dict[int, tuple[int, Any, Any]]:
    """Missing cells, smallest and largest value of each column of numbers, all together."""
    import polars as pl
    import polars.selectors as cs

    if not numeric:
        return {}
    # By number: to polars a name such as "*" or "^a.*$" is a pattern.
    part = pl.DataFrame([frame.to_series(i).alias(str(i)) for i in numeric])
    floats = part.select(cs.float())
    if floats.width:
        part = part.with_columns(floats.select(pl.when(pl.all().is_finite()).then(pl.all())))
    rows = [part.select(e).row(0) for e in (pl.all().null_count(), pl.all().min(), pl.all().max())]
    return {i: (int(n), low, high) for i, n, low, high in zip(numeric, *rows, strict=True)}


def _number(column: pl.Series, missing: int, low: Any, high: Any) -> Facts:
    n, name = len(column), column.name
    reason = Message("columns.numbers")
    if missing == n:
        return Facts(name, Kind.OTHER, Message("columns.empty"), n, missing)
    example = f"{low:.6g}"
    if low == high:
        return Facts(name, Kind.NUMBER, reason, n, missing, 1, example, constant=True)
    if not column.dtype.is_integer():
        return Facts(name, Kind.NUMBER, reason, n, missing, None, example)
    found = _whole_number_id(column, missing, int(low), int(high))
    return found or Facts(name, Kind.NUMBER, reason, n, missing, None, str(low))


def _whole_number_id(column: pl.Series, missing: int, low: int, high: int) -> Facts | None:
    """Whole numbers that name rows or groups of rows, by their name and their values."""
    n, name = len(column), column.name.strip()
    by_name = bool(_ID_NAME.fullmatch(name) or _CAMEL_ID.fullmatch(name))
    counts = bool(_COUNTER_NAME.fullmatch(name))
    long = max(-low, high) > _LONGEST_EXACT
    may_count_rows = missing == 0 and low in (0, 1) and high - low == n - 1 and n >= _FEW
    if not (by_name or counts or long or may_count_rows):
        return None
    distinct = int(column.drop_nulls().n_unique())
    facts = {"n_missing": missing, "n_distinct": distinct, "example": str(low)}
    if by_name and distinct < min(_FEW, n):
        few = Message("columns.id_of_few", n=distinct)
        return Facts(column.name, Kind.CATEGORY, few, n, **facts)  # type: ignore[arg-type]
    reason = None
    if by_name:
        reason = Message("columns.id_by_name", distinct=distinct)
    elif long:
        reason = Message("columns.id_long")
    elif may_count_rows and column.is_sorted():
        reason = Message("columns.id_counts")
    elif counts and distinct >= _FEW and high - low + 1 == distinct:
        reason = Message("columns.id_by_name", distinct=distinct)
    return None if reason is None else Facts(column.name, Kind.ID, reason, n, **facts)  # type: ignore[arg-type]


def _other(column: pl.Series) -> Facts:
    import polars as pl

    n, name, held = len(column), column.name, column.dtype
    missing = column.null_count()
    if missing == n:
        return Facts(name, Kind.OTHER, Message("columns.empty"), n, missing)
    present = column.drop_nulls()
    example = show(present[0])[1:-1]
    if held == pl.Boolean:
        one = present.n_unique() == 1
        reason = Message("columns.yes_no")
        return Facts(name, Kind.BOOLEAN, reason, n, missing, None, example, one)
    if held.is_temporal():
        return _dates(column, missing, example, {})
    if isinstance(held, pl.List | pl.Array):
        return _vectors(column, missing)
    if held == pl.Binary:
        image = all(bytes(v).startswith(_IMAGE_MAGIC) for v in present.head(20))
        kind = Kind.IMAGE if image else Kind.OTHER
        return Facts(
            name, kind, Message("columns.images" if image else "columns.nested"), n, missing
        )
    if isinstance(held, pl.Enum):
        levels = held.categories.to_list()
        reason = Message("columns.ordered", levels=levels[:6])
        one = present.n_unique() == 1
        return Facts(
            name, Kind.ORDERED, reason, n, missing, len(levels), example, one, {"levels": levels}
        )
    if held not in (pl.String, pl.Categorical):
        return Facts(name, Kind.OTHER, Message("columns.nested"), n, missing)
    return _words(column.cast(pl.String), missing)


def _dates(column: pl.Series, missing: int, example: str, details: dict[str, Any]) -> Facts:
    days = as_days(column)
    parts = cyclic_parts(days)
    details = {**details, "parts": parts}
    reason = Message("columns.dates")
    one = column.drop_nulls().n_unique() == 1
    return Facts(column.name, Kind.DATE, reason, len(column), missing, None, example, one, details)


def _vectors(column: pl.Series, missing: int) -> Facts:
    import polars as pl

    held: Any = column.dtype
    widths = [held.size] if isinstance(held, pl.Array) else column.drop_nulls().list.len().unique()
    inner = held.inner
    if len(widths) == 1 and inner.is_numeric() and int(widths[0]) > 0:
        width = int(widths[0])
        reason = Message("columns.vectors", n=width)
        return Facts(
            column.name, Kind.EMBEDDING, reason, len(column), missing, details={"width": width}
        )
    return Facts(column.name, Kind.OTHER, Message("columns.nested"), len(column), missing)


def _words(column: pl.Series, missing: int) -> Facts:
    """Text: numbers with a few words among them, dates, categories, ids or sentences."""
    n, name = len(column), column.name
    present = column.drop_nulls()
    example = show(present[0])[1:-1]
    facts: dict[str, Any] = {"n_missing": missing, "example": example}
    as_number = _mostly_numbers(column, present)
    if as_number is not None:
        return Facts(name, Kind.NUMBER, as_number, n, **facts)
    form = find_format(present)
    if form is not None:
        found = _dates(parse(column, form), missing, example, {"format": form})
        if is_ambiguous(present, form):
            return replace(found, reason=Message("columns.dates_ambiguous", example=show(example)))
        return found
    distinct = int(present.n_unique())
    facts["n_distinct"] = distinct
    if distinct == 1:
        reason = Message("columns.categories", n=1)
        return Facts(name, Kind.CATEGORY, reason, n, constant=True, **facts)
    return _categories_or_names(present, n, facts)


def _mostly_numbers(column: pl.Series, present: pl.Series) -> Message | None:
    """Why a text column is one of numbers, if it is; cells that are not are counted."""
    import polars as pl

    text = present.str.strip_chars()
    number = text.cast(pl.Float64, strict=False).fill_nan(None)
    lost = number.null_count()
    if lost > (1 - _MOSTLY) * len(present):
        return None
    if text.str.contains(_LEADING_ZERO).any() or text.str.contains(_MANY_DIGITS).any():
        return None  # written so on purpose: a code, not a measure
    if lost == 0:
        return Message("columns.numbers_as_text")
    words = text.filter(number.is_null())
    if words.n_unique() > _MOST_WORDS:
        return None
    row = column.str.strip_chars().index_of(words[0])
    return Message("columns.mostly_numbers", lost=lost, n=len(present), word=show(words[0]),
                   row=int(row or 0) + 1)  # fmt: skip


def _categories_or_names(present: pl.Series, n: int, facts: dict[str, Any]) -> Facts:
    name, distinct = present.name, facts["n_distinct"]
    all_differ = distinct == len(present)
    stripped = name.strip()
    by_name = bool(_ID_NAME.fullmatch(stripped) or _CAMEL_ID.fullmatch(stripped))
    if all_differ and present.str.contains(_UUID).all():
        return Facts(name, Kind.ID, Message("columns.id_uuid"), n, **facts)
    if by_name and distinct >= min(_FEW, n):
        return Facts(name, Kind.ID, Message("columns.id_by_name", distinct=distinct), n, **facts)
    if present.head(50).str.contains(_IMAGE_PATH).all() and present.str.contains(_IMAGE_PATH).all():
        return Facts(name, Kind.TEXT, Message("columns.image_paths"), n, **facts)
    if distinct <= 2 or 2 * distinct <= len(present):
        return Facts(name, Kind.CATEGORY, Message("columns.categories", n=distinct), n, **facts)
    if all_differ and not present.str.contains(r"\s").any():
        return Facts(name, Kind.ID, Message("columns.id_names"), n, **facts)
    return Facts(name, Kind.TEXT, Message("columns.text", n=distinct), n, **facts)


def _as_named(column: pl.Series, kind: Kind) -> Facts:
    """The facts of a column whose kind was named."""
    import polars as pl

    n, name, missing = len(column), column.name, column.null_count()
    found = measure(column.to_frame())[0]
    if found.kind == kind and kind not in (Kind.CATEGORY, Kind.ORDERED):
        return found
    reason = Message("columns.named")
    example = found.example
    present = column.drop_nulls()
    details: dict[str, Any] = {}
    if kind == Kind.DATE and column.dtype == pl.String:
        form = find_format(present)
        return _dates(parse(column, form), missing, example, {"format": form}) if form else found
    if kind == Kind.DATE and not column.dtype.is_temporal():
        return found
    distinct = (
        int(present.n_unique()) if kind in (Kind.CATEGORY, Kind.ORDERED) and len(present) else None
    )
    if kind == Kind.ORDERED:
        details["levels"] = found.details.get("levels") or [str(v) for v in present.unique().sort()]
    return Facts(name, kind, reason, n, missing, distinct, example, found.constant, details)
