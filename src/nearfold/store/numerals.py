"""Text columns that are numbers after all: thousands that are grouped, percent signs.

Judged over whole columns, once they are read: `1,234` alone may be a number above a thousand or one
with three decimals. Here is also said which words counted as missing and which stayed text.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nearfold.columns.frames import show, show_names
from nearfold.messages import Message
from nearfold.store.cells import EXACT, WHOLE, count_words, narrowed
from nearfold.store.frames import MISSING_WORDS

if TYPE_CHECKING:
    import polars as pl

Words = Counter[tuple[str, str]]  # by column and word
_LIKELY = r"^[+-]?[0-9.,]+ ?%?$"
_DATE = r"^[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([ T][0-9]{1,2}:[0-9]{2}.*)?$"
_PLAIN = r"^[+-]?(0|[1-9][0-9]*)?([{sign}][0-9]*)?$"
_GROUPED = r"^[+-]?([1-9][0-9]{{0,2}}([{group}][0-9]{{3}})+|0|[1-9][0-9]{{0,2}})([{sign}][0-9]+)?$"
_SIGNS = {",": "or_commas", ".": "or_points"}
_SEEN = 1_000  # cells that are looked at before a whole column is


def read_numerals(
    frame: pl.DataFrame, missing: Words, decimal: str, is_sure: bool, text: frozenset[str]
) -> tuple[pl.DataFrame, list[Message]]:
    """The frame with such columns as numbers, and notices.

    `is_sure` says whether the decimal sign was given or seen in the file; columns in `text` stay
    text. `missing` counts the words that were taken as missing so far.
    """
    import polars as pl

    if pl.String not in frame.dtypes:
        return frame, _counted("tables.missing_taken", missing, frame.columns)
    columns, kept = frame.get_columns(), Words()
    said: dict[str, list[str]] = {}
    for i, column in enumerate(columns):
        if column.dtype != pl.String:
            continue
        for word in MISSING_WORDS:  # met in a part of the column that held only numbers
            missing.pop((column.name, word), None)
        is_word = column.is_in(MISSING_WORDS).fill_null(False)
        words = count_words(column.filter(is_word))
        read = None if column.name in text else _read(column, is_word, decimal, is_sure)
        if read is not None:
            columns[i], kind = read
            said.setdefault(kind, []).append(column.name)
        (kept if read is None else missing).update(words)
    notices = [
        Message(f"tables.{kind}", columns=show_names(names, 3), n=len(names))
        for kind, names in said.items()
        if kind != "dates"
    ]
    notices += _counted("tables.missing_taken", missing, frame.columns)
    notices += _counted("tables.missing_kept", kept, frame.columns)
    return pl.DataFrame(columns), notices


def _counted(id: str, counted: Words, names: list[str]) -> list[Message]:
    """A notice of words, the most frequent first, and of the columns that hold them."""
    if not counted:
        return []
    by_word: Counter[str] = Counter()
    for (_, word), times in sorted(counted.items()):
        by_word[word] += times
    holders = {column for column, _ in counted}
    columns = [name for name in names if name in holders]
    words = [f"{show(word)} ({times:,})" for word, times in by_word.most_common()]
    return [
        Message(id, n=counted.total(), words=words, columns=show_names(columns, 3), k=len(columns))
    ]


def _read(
    column: pl.Series, is_word: pl.Series, decimal: str, is_sure: bool
) -> tuple[pl.Series, str] | None:
    """The column as numbers (or as dates without the words among them) and what to say of it."""
    cells = column.set(is_word, None) if is_word.any() else column
    if is_word.any() and _all_like(cells, _DATE):
        return cells, "dates"
    if not _all_like(cells.head(_SEEN), _LIKELY) or not _all_like(cells, _LIKELY):
        return None
    other = "." if decimal == "," else ","
    if _all_like(cells, "%$"):
        bare = cells.str.strip_suffix("%").str.strip_chars_end()
        if _all_like(bare, _PLAIN.format(sign=decimal)):
            return _said(_values(bare, "", decimal), "percent")
        if _all_like(bare, _PLAIN.format(sign=other)):
            return _said(_values(bare, "", other), "percent")
        found = _grouped(bare, decimal, other, is_sure)
        return None if found is None else _said(found[0], "percent")
    found = _grouped(cells, decimal, other, is_sure)
    if found is None and not is_sure and _all_like(cells, _PLAIN.format(sign=other)):
        # Quoted, or below the first lines, by which the decimal sign was chosen.
        if cells.str.contains(rf"^[+-]?0?[{other}]|[{other}]([0-9]{{1,2}}|[0-9]{{4,}})$").any():
            return _said(_values(cells, "", other), "decimal_commas")
    return found


def _grouped(
    cells: pl.Series, decimal: str, other: str, is_sure: bool
) -> tuple[pl.Series, str] | None:
    """Numbers with a sign between thousands, if that is what the sign is."""
    for sign, group in ((decimal, other), (other, decimal)):
        has_group = cells.str.contains(rf"[{group}][0-9]{{3}}").drop_nulls()
        if not has_group.any() or not _all_like(cells, _GROUPED.format(sign=sign, group=group)):
            continue
        # A second group, or a decimal sign of the other kind, leaves no doubt.
        if bool(cells.str.contains(rf"[{group}][0-9]{{3}}[.,]").any()):
            return _said(_values(cells, group, sign), "thousands")
        if sign == decimal:
            known = is_sure or not has_group.all()
            kind = "thousands" if known else f"thousands_{_SIGNS[group]}"
            return _said(_values(cells, group, sign), kind)
    return None


def _values(cells: pl.Series, group: str, sign: str) -> pl.Series | None:
    """Cells as numbers, without the group sign; None if a number would be rounded."""
    import polars as pl

    text = cells.str.replace_all(group, "", literal=True) if group else cells
    whole = text.cast(pl.Int64, strict=False)
    if whole.null_count() == cells.null_count():
        return narrowed(whole)
    values = text.str.replace(sign, ".", literal=True).cast(pl.Float64, strict=False)
    rounded = values.abs() >= EXACT
    return None if rounded.any() and text.filter(rounded).str.contains(WHOLE).any() else values


def _said(values: pl.Series | None, kind: str) -> tuple[pl.Series, str] | None:
    return None if values is None else (values, kind)


def _all_like(cells: pl.Series, pattern: str) -> bool:
    """Whether there are cells, and all look like this."""
    return cells.null_count() < len(cells) and bool(cells.str.contains(pattern).all())
