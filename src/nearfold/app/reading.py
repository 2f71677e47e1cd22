"""What commands read: tables, pairs of rows, and new rows for a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nearfold.app.options import table_options_of
from nearfold.errors import InputError
from nearfold.messages import Message

_AMBIGUOUS = ("tables.thousands_or_commas", "tables.thousands_or_points")


def existing(data: str) -> str:
    """The data's path, if there is such a file; patterns and stdin are taken as they are."""
    if data != "-" and not any(sign in data for sign in "*?[#"):
        path = Path(data)
        if "\0" in data or not path.exists():
            raise InputError(Message("cli.no_file", name=data))
        if path.is_dir():
            raise InputError(Message("cli.is_folder", name=data))
    return data


def pairs_of(path: str | None, table: Any) -> tuple[Any, list[Message]]:
    """Pairs of rows of the table, by id or by position in the file; pairs with a row that was left
    out are left out, too.
    """
    if path is None:
        return None, []
    from nearfold.store.pairs import read_pairs

    return table.place_pairs(read_pairs(existing(path), table.all_ids, table.n_given))


def read_new(data: str, options: dict[str, Any], extra: dict[str, Any], out: Any) -> Any:
    """The frame of new rows, as written, for a model with this card.

    1,234 may be 1234 or 1.234. Where a file leaves it open, it is read as the file of the fit if
    that had decimal commas; else the user has to say, as a guess would move every row.
    """
    from nearfold.store.tables import read_table

    reading = table_options_of(options).reading()
    table = read_table(existing(data), **reading)
    open_questions = [n for n in table.source.notices if n.id in _AMBIGUOUS]
    if open_questions and reading["decimal"] is None:
        if extra.get("decimal") != "," or data == "-":
            columns = open_questions[0].values["columns"]
            raise InputError(Message("cli.which_decimal", name=table.source.name, columns=columns))
        table = read_table(data, **{**reading, "decimal": ","})
    for notice in table.source.notices:
        out.say(notice, err=True)
    return table.frame


def kept_rows(model: Any, data: str, frame: Any, out: Any) -> tuple[Any, Any]:
    """The rows of a file that the model takes, and their numbers; those with missing values are
    left out if it was fitted so. Categories that it does not know are told.
    """
    import numpy as np

    from nearfold.columns.images import locate_images

    frame = locate_images(frame, data)
    step = preparation_of(model)
    rows = np.arange(frame.height)
    if step is None:
        return frame, rows
    for notice in step.unseen(step.read(frame)):
        out.say(notice, err=True)
    kept = step.rows_kept(frame)
    if not kept.any():
        raise InputError(Message("study.no_rows_left"))
    if not kept.all():
        out.say(Message("study.rows_dropped", n=int((~kept).sum())), err=True)
    return frame.filter(kept), rows[kept]


def preparation_of(model: Any) -> Any:
    """The step of a model that reads tables, or None."""
    first = model.steps[0][1] if hasattr(model, "steps") else None
    return first if hasattr(first, "rows_kept") else None


def name_of(model: Any) -> str:
    """What a model, or the last step of a pipeline, is called."""
    return type(model.steps[-1][1] if hasattr(model, "steps") else model).__name__
