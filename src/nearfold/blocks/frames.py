"""Rows whose columns have names and types: frames here, files in tables.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nearfold.blocks.rows import Block, Rows
from nearfold.errors import InputError
from nearfold.notation import Array


class NamedRows(Rows):
    """Rows whose columns have names and types, as narwhals and polars alike print them."""

    schema: dict[str, Any]
    target_column: str | None = None

    def _with_columns(self, schema: dict[str, Any], target: str | None = None) -> Any:
        """The same rows; these columns are the features."""
        return self._changed(schema=schema, target_column=target, **self._facts(schema))

    @staticmethod
    def _facts(schema: dict[str, Any]) -> dict[str, Any]:
        single = all(str(kind) == "Float32" for kind in schema.values())
        return {
            "feature_names": list(schema),
            "n_features": len(schema),
            "dtype": np.dtype(np.float32 if single else np.float64),
        }

    def select(self, names: list[str], target: str | None = None) -> NamedRows:
        """The same rows with these columns only, in this order, and a target if one is named."""
        chosen: NamedRows = self._with_columns({name: self.schema[name] for name in names}, target)
        return chosen

    def with_target(self, target: str | Array) -> Rows:
        """The same rows with targets; a column taken by name is no feature any more."""
        if not isinstance(target, str):
            return super().with_target(target)
        if target not in self.schema:
            raise InputError(f"there is no column {target!r}; the columns are {list(self.schema)}.")
        features = {name: kind for name, kind in self.schema.items() if name != target}
        chosen: Rows = self._with_columns(features, target)
        return chosen


class FrameRows(NamedRows):
    """Rows of a pandas or polars frame, or of any other that narwhals knows."""

    def __init__(self, frame: Any) -> None:
        import narwhals.stable.v2 as nw

        self._frame = nw.from_native(frame, eager_only=True)
        self.schema = dict(self._frame.schema)
        self.n_rows = len(self._frame)
        vars(self).update(self._facts(self.schema))

    def read(self) -> Iterator[Block]:
        """Slices of the frame, the target column apart."""
        import narwhals.stable.v2 as nw

        refuse_text(self.schema)
        kind = nw.Float32 if self.dtype == np.float32 else nw.Float64
        for span in self.spans(len(self._frame)):
            part = self._frame[span]
            X = np.column_stack([part[name].cast(kind).to_numpy() for name in self.schema])
            y = None if self.target_column is None else part[self.target_column].to_numpy()
            yield Block(X.astype(self.dtype, copy=False), span.start, y)


def refuse_text(kinds: dict[str, Any]) -> None:
    """Raise if any column is not numeric: text is never turned into numbers in silence."""
    text = {n: k for n, k in kinds.items() if not (k.is_numeric() or str(k) == "Boolean")}
    if text:
        shown = ", ".join(f"{name!r} ({kind})" for name, kind in list(text.items())[:5])
        raise InputError(
            f"{len(text)} column(s) are not numeric: {shown}. Leave them out, for example "
            "with nearfold.scan(path, columns=[...]), or encode them first."
        )
