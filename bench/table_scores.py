"""Held-back rows scored twice: in the space of a saved model, and by a plain pipeline.

Every score is a mean over held-back rows of what each row contributes, so that the standard error
of a difference is that of paired contributions.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bench.table_sources import Entry, Split

ACCURACY, BALANCED, R2 = "accuracy", "balanced accuracy", "R2"
_SCORERS = {ACCURACY: "accuracy", BALANCED: "balanced_accuracy", R2: "r2"}
_NEIGHBORS = (1, 3, 5, 7, 9, 15, 25)
_DEFAULT_NEIGHBORS = 5
_FOLDS = 5
_ID_NAME = re.compile(r"(?i)(^|[^a-z])id|id$|cod|case|number|rownames")


def score_named(text: str, question: str) -> str:
    """Which of our scores the comparison used, by the name it printed ("": the usual one)."""
    if question == "target":
        return R2
    if text and "accuracy" not in text.lower():
        raise ValueError(f"a score that is not known here: {text}")
    return BALANCED if "balanced" in text.lower() else ACCURACY


def contributions(truth: np.ndarray, predicted: np.ndarray, score: str) -> np.ndarray:
    """One number per row; their mean is the score."""
    if score == R2:
        spread = truth.var()
        return 1 - (truth - predicted) ** 2 / (spread if spread > 0 else 1.0)
    right = (truth == predicted).astype(float)
    if score == ACCURACY:
        return right
    _, place, counts = np.unique(truth, return_inverse=True, return_counts=True)
    return right * len(truth) / (len(counts) * counts[place])


def difference(ours: np.ndarray, plain: np.ndarray) -> tuple[float, float]:
    """Mean of the paired differences and its standard error."""
    each = ours - plain
    error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else float("nan")
    return float(each.mean()), float(error)


def answers(frame: pd.DataFrame, entry: Entry) -> np.ndarray:
    """Text for labels, numbers for targets; NaN or "nan" where there is none."""
    values = frame[entry.answer]
    # Not to_numpy(str): where some are missing, pandas cuts the texts to a letter.
    return (
        np.array([str(v) for v in values]) if entry.question == "label" else values.to_numpy(float)
    )


def predict_in_space(split: Split, entry: Entry, model_file: Path) -> tuple[np.ndarray, Any]:
    """k-NN in the space of the saved model, by the files that a person would give it; the card."""
    from nearfold.store.model_file import load_with_card
    from nearfold.store.tables import read_table

    model, card = load_with_card(model_file)
    places = []
    for file, rows in ((split.train_file, len(split.train)), (split.held_file, len(split.held))):
        Z = np.asarray(model.transform(read_table(file).frame), dtype=float)
        if len(Z) != rows or not np.isfinite(Z).all():
            raise ValueError(f"{file.name}: {rows} rows became {Z.shape}, finite or not")
        places.append(Z)
    known = split.train[entry.answer].notna().to_numpy()
    about = card.extra or {}
    k = int(about.get("n_neighbors") or _DEFAULT_NEIGHBORS)
    learner = _learner(entry)(
        min(k, int(known.sum())),
        weights=about.get("weights") or "uniform",
        metric=about.get("metric") or "euclidean",
    )
    learner.fit(places[0][known], answers(split.train, entry)[known])
    return learner.predict(places[1]), card


def predict_plainly(split: Split, entry: Entry, score: str) -> tuple[np.ndarray, dict[str, int]]:
    """The pipeline a sensible person writes; how many numbers and categories it uses."""
    train = split.train[split.train[entry.answer].notna()]
    numbers, categories = _kinds(train.drop(columns=entry.answer))
    if not numbers and not categories:
        raise ValueError("no column to predict from")
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (
            make_pipeline(
                SimpleImputer(strategy="most_frequent"),
                OneHotEncoder(handle_unknown="ignore", sparse_output=False),
            ),
            categories,
        ),
    )
    fitted_on = len(train) - -(-len(train) // _FOLDS)
    folds = StratifiedKFold if entry.question == "label" else KFold
    search = GridSearchCV(
        Pipeline([("columns", columns), ("knn", _learner(entry)())]),
        {"knn__n_neighbors": [k for k in _NEIGHBORS if k <= fitted_on]},
        scoring=_SCORERS[score],
        cv=folds(_FOLDS, shuffle=True, random_state=0),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small classes, unknown categories: as intended
        search.fit(_values(train, numbers, categories), answers(train, entry))
        predicted = search.predict(_values(split.held, numbers, categories))
    return predicted, {"numbers": len(numbers), "categories": len(categories)}


def _learner(entry: Entry) -> Any:
    return KNeighborsClassifier if entry.question == "label" else KNeighborsRegressor


def _kinds(frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Numbers and categories, without ids, free text and empty columns."""
    numbers, categories = [], []
    for name in frame.columns:
        values = frame[name].dropna()
        if values.empty:
            continue
        distinct = values.nunique()
        if pd.api.types.is_numeric_dtype(values) and values.dtype != bool:
            if not _numbers_rows(values, distinct):
                numbers.append(name)
        elif distinct < len(values) and not (distinct > 50 and distinct > len(values) / 2):
            categories.append(name)
    return numbers, categories


def _numbers_rows(values: pd.Series, distinct: int) -> bool:
    """Whether integers are names of rows: all distinct, and close together or called an id.

    Distinct integers alone are not enough: incomes in a small table are distinct too.
    """
    if distinct < len(values) or not pd.api.types.is_integer_dtype(values):
        return False
    close = values.max() - values.min() < 2 * len(values)
    return bool(close or _ID_NAME.search(values.name))


def _values(frame: pd.DataFrame, numbers: list[str], categories: list[str]) -> pd.DataFrame:
    """Floats and text, with NaN for what is missing or infinite."""
    found = {n: frame[n].astype(float).replace([np.inf, -np.inf], np.nan) for n in numbers}
    for name in categories:
        found[name] = frame[name].astype(object).map(str, na_action="ignore").astype(object)
    return pd.DataFrame(found, index=frame.index)
