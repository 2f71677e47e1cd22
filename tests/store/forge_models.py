"""Forged model files: every hash is right, and the contents are wrong in one to three places.

    python tests/store/forge_models.py 10000 [--seed 0] [--chunk 500]

saves a small model of every method and of many ways of fitting, changes numbers, texts, dtypes,
shapes, values, row numbers, names, classes, parameters and references in the files, loads each and
uses what loads. A file must be refused by one ModelFileError or give a model that works. Each
chunk runs in a process of its own, so that an abort of the interpreter is seen and counted.
"""

import argparse
import collections
import functools
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from forge_bases import BASES
from forge_changes import forge, quietly
from scipy import sparse

from nearfold.errors import ModelFileError, NearfoldError
from nearfold.store.model_file import load, save

ASKED = (
    "transform", "predict", "predict_proba", "decision_function", "kneighbors", "radius_neighbors",
    "score_samples", "inverse_transform", "get_feature_names_out", "get_mahalanobis_matrix",
    "get_covariance", "rows_kept",
)  # fmt: skip
# What scikit-learn says, rightly, of values that are not among the categories (or are numbers where
# these are texts), and of names.
UNKNOWN = (
    "previously unseen labels", "Found unknown categories", "are not unique",
    "n_neighbors does not take", "Sparse data was passed", "'isnan' not supported",
)  # fmt: skip


def answers(model, rows):
    """What a model says: by method, an array or the name of an error."""
    found = {}
    for name in ASKED:
        method = getattr(model, name, None)
        if method is None:
            continue
        try:
            if name.startswith("get_"):
                found[name] = quietly(method)
            elif name == "inverse_transform":
                found[name] = quietly(method, model.transform(rows))
            else:
                found[name] = quietly(method, rows)
        except Exception as error:
            found[name] = error
    return found


def _is_finite(answer):
    if isinstance(answer, tuple | list):
        return all(_is_finite(part) for part in answer)
    if sparse.issparse(answer):
        return _is_finite(answer.data)
    values = np.asarray(answer)
    if values.dtype == object:
        return all(_is_finite(part) for part in values.ravel() if isinstance(part, np.ndarray))
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


@functools.cache
def base(name):
    """The bytes of a good file, rows to ask it about, and its answers."""
    model, rows = quietly(BASES[name])
    with tempfile.TemporaryDirectory() as folder:
        path = save(model, Path(folder) / "m.nearfold")
        raw = path.read_bytes()
        again = answers(load(path), rows)
    return (
        raw,
        rows,
        {n: isinstance(a, Exception) or _is_finite(a) for n, a in again.items()},
        {n for n, a in again.items() if isinstance(a, Exception)},
    )


def judge(name, raw, folder):
    """(outcome, detail): refused, works, a clear error in use, or one of the failures."""
    _, rows, finite, raises = base(name)
    path = Path(folder) / "x.nearfold"
    path.write_bytes(raw)
    try:
        model = quietly(load, path)
    except ModelFileError as error:
        return ("refused", str(error)) if "\n" not in str(error) else ("RAW AT LOAD", str(error))
    except Exception as error:
        return "RAW AT LOAD", repr(error)
    # Overflow on the way back and an infinitely small likelihood are the formulas' own, and NaN is
    # the answer where nothing is in reach.
    free = {"inverse_transform", "score_samples"} | (
        {"predict"} if hasattr(model, "radius") else set()
    )
    told = "works", ""
    for method, answer in answers(model, rows).items():
        if method in raises:
            continue
        if isinstance(answer, NearfoldError):
            told = "clear error", f"{method}: {answer}"
        elif isinstance(answer, Exception) and not any(words in str(answer) for words in UNKNOWN):
            return "RAW EXCEPTION", f"{type(model).__name__}.{method}: {answer!r}"
        elif isinstance(answer, Exception):
            continue
        elif method not in free and finite.get(method, True) and not _is_finite(answer):
            return "NOT FINITE", f"{type(model).__name__}.{method}"
    return told


def run(first, count, seed, note=None, only=""):
    """Counts of outcomes and the failures, for cases first, first + 1, ..."""
    names = sorted(name for name in BASES if re.search(only, name))
    counts, failures = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for case in range(first, first + count):
            rng = random.Random(f"{seed} {case}")
            name = names[case % len(names)]
            raw, made = forge(base(name)[0], rng)
            if note is not None:
                Path(note).write_text(f"{case} {name} {made}")
            outcome, detail = judge(name, raw, folder)
            counts[outcome] += 1
            if outcome.isupper() or outcome == "clear error":
                failures.append([case, name, made, outcome, detail])
    return counts, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chunk", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="", help="Models whose names match.")
    parser.add_argument("--inside", action="store_true", help="Run here, and print JSON.")
    asked = parser.parse_args()
    if asked.inside:
        note = Path(tempfile.gettempdir()) / f"forging {asked.first}"
        counts, failures = run(asked.first, asked.count, asked.seed, note, asked.only)
        note.unlink(missing_ok=True)
        print(json.dumps([counts, failures]))
        return 0
    total = collections.Counter()
    for first in range(asked.first, asked.first + asked.count, asked.chunk):
        count = min(asked.chunk, asked.first + asked.count - first)
        command = [sys.executable, __file__, str(count), "--inside", "--first", str(first)]
        command += ["--only", asked.only]
        done = subprocess.run([*command, "--seed", str(asked.seed)], capture_output=True, text=True)
        if done.returncode:
            note = Path(tempfile.gettempdir()) / f"forging {first}"
            where = note.read_text() if note.exists() else "?"
            print(f"CRASH (exit {done.returncode}) in case {where}", done.stderr[-600:])
            total["CRASH"] += 1
            continue
        counts, failures = json.loads(done.stdout.splitlines()[-1])
        total.update(counts)
        for failure in failures:
            print(*failure)
        print(dict(total), flush=True)
    return int(any(name.isupper() for name in total))


if __name__ == "__main__":
    sys.exit(main())
