"""Dates and times: read from text, and turned into elapsed time and cyclic parts."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfold.notation import Floats

if TYPE_CHECKING:
    import polars as pl

_DAY = 86_400_000_000.0  # microseconds
_FORMATS = (
    "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y年%m月%d日", "%Y%m%d",
    "%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%b %d %Y", "%d %B %Y", "%B %d, %Y",
)  # fmt: skip
_CLOCKS = (" %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %H:%M:%S%.f", "T%H:%M:%S%.f")
_TIMES = ("", *(clock + zone for zone in ("", "%z") for clock in _CLOCKS))
_UTC = r"( UTC|Z)$"
_PERIODS = {"month": 365.25, "weekday": 7.0, "hour": 1.0}  # days
_NEEDED = {"month": 90.0, "weekday": 14.0}  # days that the dates must span


PARTS = tuple(_PERIODS)
FORMATS = tuple(date + time for date in _FORMATS for time in _TIMES if date + time != "%Y%m%d")


def find_format(texts: pl.Series) -> str | None:
    """The format that all texts (none missing) have; None if they are no dates.

    Of two that fit, month/day/year is taken before day/month/year: `is_ambiguous` tells.
    """
    sample = [re.sub(_UTC, "", str(text).strip()) for text in texts.head(50)]
    if max(map(len, sample), default=99) > 40:
        return None
    # Few texts and plain patterns first: most columns of words have no format at all.
    likely = (form for form in FORMATS if all(map(_pattern(form).fullmatch, sample)))
    return next((form for form in likely if _fits(texts, form)), None)


@cache
def _pattern(form: str) -> re.Pattern[str]:
    """What texts of a format look like."""
    pattern = re.escape(form).replace("%\\.f", r"\.\d+")
    pattern = pattern.replace("%z", r"(\s?[+-]\d\d:?\d\d)?")  # none where UTC is written
    for sign, digits in (("Y", r"\d{4}"), ("[mdHMS]", r"\d{1,2}"), ("[bB]", r"[^\W\d]+")):
        pattern = re.sub(f"%{sign}", digits.replace("\\", r"\\"), pattern)
    return re.compile(pattern)


def is_ambiguous(texts: pl.Series, form: str) -> bool:
    """Whether day and month could be exchanged in every text."""
    return form.startswith("%m/%d/%Y") and _fits(texts, form.replace("%m/%d", "%d/%m"))


def _fits(texts: pl.Series, form: str) -> bool:
    return parse(texts, form).null_count() == texts.null_count()


def parse(texts: pl.Series, form: str) -> pl.Series:
    """Texts as dates and times; null where one has another format."""
    import polars as pl

    clean = texts.str.strip_chars()
    if "%H" not in form:
        return clean.str.to_date(form, strict=False).cast(pl.Datetime("us"))
    in_zone = form.endswith("%z")
    clean = clean.str.replace(_UTC, "+00:00" if in_zone else "")
    if in_zone:  # the space before an offset is not always there
        clean = clean.str.replace(r"\s([+-][0-9:]+)$", "$1")
    return clean.str.to_datetime(form, strict=False, time_unit="us").cast(pl.Datetime("us"))


def as_days(column: pl.Series) -> Floats:
    """Days since 1970 in UTC (of a time of day: since midnight), missing ones as NaN."""
    import polars as pl

    if column.dtype == pl.Time:
        column = column.cast(pl.Duration("ns"))
    unit: Any = pl.Duration if column.dtype == pl.Duration else pl.Datetime
    micro = column.cast(unit("us")).cast(pl.Int64).cast(pl.Float64)
    return np.asarray(micro.to_numpy()) / _DAY


def cyclic_parts(days: Floats) -> list[str]:
    """Which cycles the dates span, and so can tell apart: month (of the year), weekday, hour."""
    known = days[np.isfinite(days)]
    if len(known) == 0:
        return []
    reach = float(known.max() - known.min())
    found = [name for name, least in _NEEDED.items() if reach >= least]
    if len(np.unique(np.round(known % 1.0, 4))) > 2:
        found.append("hour")
    return found


def expand(days: Floats, parts: list[str]) -> Floats:
    """Elapsed days, and a point on the circle (sine and cosine) for each cyclic part."""
    columns = [days]
    for part in parts:
        angle = 2 * np.pi * (days % _PERIODS[part]) / _PERIODS[part]
        columns += [np.sin(angle), np.cos(angle)]
    return np.column_stack(columns)
