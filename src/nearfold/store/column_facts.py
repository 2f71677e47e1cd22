"""What the values of each column are like, measured over all columns at once."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nearfold.store.frames import count, show

if TYPE_CHECKING:
    import polars as pl

KINDS = ("number", "whole number", "boolean", "category", "text", "date", "nested")
_FEW_CATEGORIES = 20
_MOST_CELLS = 5_000_000  # up to here distinct numbers are counted too; beyond it takes seconds
_FORMS = {
    "UUIDs": r"(?i)^\{?[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}\}?$",
    "numbers with a percent sign": r"^[+-]?[\d.,]+ ?%$",
    "numbers with separators between thousands": r"^[+-]?\d{1,3}([,.' ]\d{3})+([.,]\d+)?$",
    "numbers with a decimal comma": r"^[+-]?\d*,\d+$",
}


@dataclass(frozen=True)
class Facts:
    """The values of one column, in numbers."""

    name: str
    kind: str
    n_rows: int
    n_missing: int
    n_infinite: int
    n_distinct: int | None
    example: str
    low: Any = None
    high: Any = None
    in_order: bool = False  # whole numbers that never fall
    n_numbers: int = 0  # cells of a text column that read as numbers
    first_word: tuple[int, str] | None = None  # row and text of its first cell that does not
    form: str | None = None  # what all its cells look like, if they look alike

    @property
    def n_present(self) -> int:
        """How many rows have a value."""
        return self.n_rows - self.n_missing

    @property
    def is_constant(self) -> bool:
        """Whether all values that are there are the same."""
        if self.n_distinct is not None:
            return self.n_present > 0 and self.n_distinct == 1
        return self.n_present > 0 and self.low is not None and self.low == self.high

    @property
    def is_numeric(self) -> bool:
        """Whether the column can be a feature as it is."""
        return self.kind in ("number", "whole number", "boolean")

    @property
    def all_differ(self) -> bool:
        """Whether no two rows have the same value, and none is missing."""
        if self.n_missing or self.n_rows == 0:
            return False
        if self.n_distinct is not None:
            return self.n_distinct == self.n_rows
        whole = self.kind == "whole number" and self.in_order
        return whole and self.high - self.low == self.n_rows - 1


def readable_number(text: pl.Expr) -> pl.Expr:
    """Text cells as numbers; words and what stands for missing are null."""
    import polars as pl

    number = text.str.strip_chars().cast(pl.Float64, strict=False)
    return number.fill_nan(pl.lit(None))


def measure(frame: pl.DataFrame) -> list[Facts]:
    """The facts of each column."""
    import polars as pl
    import polars.selectors as cs

    given = frame.columns
    # By number in here: to polars a name such as "*" or "^a.*$" is a pattern.
    frame = pl.DataFrame([c.alias(str(i)) for i, c in enumerate(frame.get_columns())])
    kinds = {name: _kind(kind) for name, kind in frame.schema.items()}
    numbers = frame.select(cs.numeric() | cs.boolean())
    floats, whole = frame.select(cs.float()), frame.select(cs.integer())
    texts = frame.select([name for name, kind in kinds.items() if kind == "text"]).cast(pl.String)
    small = frame.height * max(1, numbers.width) <= _MOST_CELLS
    finite = floats.select(pl.when(pl.all().is_finite()).then(pl.all()))
    numbers = numbers.with_columns(finite)
    found = {
        "null": _row(frame, pl.all().null_count()),
        "nan": _row(floats, pl.all().is_nan().sum()),
        "infinite": _row(floats, pl.all().is_infinite().sum()),
        "low": _row(numbers, pl.all().min()),
        "high": _row(numbers, pl.all().max()),
        "distinct": _row(texts, pl.all().drop_nulls().n_unique()),
        "falls": _row(whole, (pl.all() < pl.all().shift(1)).any()),
        "first": _row(frame, pl.all().drop_nulls().first()),
    }
    found["first"] |= _row(floats, pl.all().drop_nulls().drop_nans().first())
    if small:
        present = frame.select(cs.numeric() | cs.boolean()).select(pl.all().drop_nulls().n_unique())
        found["distinct"] |= present.row(0, named=True) if present.width else {}
    found |= _text_facts(texts)
    every = zip(given, kinds.items(), strict=True)
    return [replace(_facts(i, kind, frame.height, found), name=name) for name, (i, kind) in every]


def _text_facts(texts: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """How far text columns are from numbers."""
    import polars as pl

    word = readable_number(pl.all()).is_null() & pl.all().is_not_null()
    plain = pl.all().str.strip_chars()
    first = _row(texts, plain.drop_nulls().first())
    forms: dict[str, str] = {}
    for form, pattern in _FORMS.items():
        likely = [name for name, text in first.items() if text and re.search(pattern, text)]
        alike = _row(texts.select(likely), plain.str.contains(pattern).all())
        forms |= {name: form for name, yes in alike.items() if yes and name not in forms}
    return {
        "numbers": _row(texts, readable_number(pl.all()).is_not_null().sum()),
        "word": _row(texts, pl.all().filter(word).first()),
        "word row": _row(texts, word.arg_max()),
        "form": forms,
    }


def _row(frame: pl.DataFrame, expression: Any) -> dict[str, Any]:
    """One value per column."""
    return frame.select(expression).row(0, named=True) if frame.width else {}


def _kind(kind: Any) -> str:
    import polars as pl

    if kind == pl.Null or kind == pl.Boolean:
        return "boolean" if kind == pl.Boolean else "text"
    if kind.is_numeric():
        return "whole number" if kind.is_integer() else "number"
    if kind.is_temporal():
        return "date"
    return "text" if kind in (pl.String, pl.Categorical, pl.Enum) else "nested"


def _facts(name: str, kind: str, n: int, found: dict[str, dict[str, Any]]) -> Facts:
    missing = int(found["null"][name]) + int(found["nan"].get(name) or 0)
    distinct = found["distinct"].get(name)
    if kind == "text" and distinct is not None and n:
        if 0 < distinct <= min(_FEW_CATEGORIES, max(2, n // 2)):
            kind = "category"
    if found["nan"].get(name) and distinct is not None:
        distinct -= 1  # NaN is a value to polars, missing to us
    first, word = found["first"][name], found["word"].get(name)
    return Facts(
        name=name,
        kind=kind,
        n_rows=n,
        n_missing=missing,
        n_infinite=int(found["infinite"].get(name) or 0),
        n_distinct=None if distinct is None else int(distinct),
        example="" if first is None else show(first)[1:-1],
        low=found["low"].get(name),
        high=found["high"].get(name),
        in_order=not found["falls"].get(name, True),
        n_numbers=int(found["numbers"].get(name) or 0),
        first_word=None if word is None else (int(found["word row"][name]) + 1, show(word)),
        form=found["form"].get(name) if missing < n else None,
    )


def why_text(facts: Facts) -> str:
    """Why a text column is not a number: what stands in the way, and where first."""
    if facts.n_numbers and facts.first_word is None:
        return "text: numbers written as text; name it as a feature to use them"
    if facts.n_numbers and facts.first_word is not None:
        row, value = facts.first_word
        lost = facts.n_present - facts.n_numbers
        return (
            f"text: {lost:,} of {count(facts.n_present, 'value')} are not numbers, the first: "
            f"{value} in row {row:,}"
        )
    if facts.form is not None:
        return f"text: {facts.form}, such as '{facts.example}'; write plain numbers to use it"
    return f"text: {count(facts.n_distinct or 0, 'distinct value')}; turn it into numbers yourself"
