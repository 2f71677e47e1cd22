"""Forged model files: every hash is right, and the contents are wrong in one to three places.

    python tests/store/forge_models.py 10000 [--seed 0] [--chunk 500]

saves a small model of every method and of many ways of fitting, changes numbers, texts, dtypes,
shapes, values, row numbers, names, classes, parameters and references in the files, loads each and
uses what loads. A file must be refused by one ModelFileError or give a model that works. Each
chunk runs in a process of its own, so that an abort of the interpreter is seen and counted.

    NUMBA_BOUNDSCHECK=1 python tests/store/forge_models.py 2000 --compiled --only "NN|MDS|Neighb"

lets small models take the compiled routes, where any place out of bounds is then an IndexError
(in a copy of the tree that has no compiled code in its cache yet).
"""

import argparse
import collections
import faulthandler
import functools
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np
from forge_bases import BASES
from forge_changes import forge, quietly
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import OrdinalEncoder

from nearfold.errors import InputError, ModelFileError, NearfoldError
from nearfold.methods import smacof
from nearfold.neighbors import exact
from nearfold.store.model_file import load, save

_PATIENCE = 120  # seconds for a case; a hang is a failure, too
ASKED = (
    "transform", "predict", "predict_proba", "decision_function", "kneighbors", "radius_neighbors",
    "kneighbors_graph", "radius_neighbors_graph", "score_samples", "inverse_transform",
    "get_feature_names_out", "get_mahalanobis_matrix", "get_covariance", "get_precision",
    "rows_kept", "pair_distance", "__sklearn_tags__", "__repr__",
)  # fmt: skip
# What scikit-learn says, rightly, of values that are not among the categories (or are numbers where
# these are texts), of names, and of a table of another width.
UNKNOWN = (
    "previously unseen labels", "Found unknown categories", "are not unique",
    "n_neighbors does not take", "Sparse data was passed", "'isnan' not supported",
    "features, but", "feature names should match", "y should be a 1d array",
    "strictly positive data", "no missing values in fit", "works only when", "can not be inverted",
    "does not provide get_feature_names_out", "inverse transform is not available",
    "Cannot center sparse", "Found array with 0 feature(s)",
    "types are expected to be both numerical", "only supported for dataframes",
    "blocks must be 2-D", "there is no threshold_ yet",
    "only accepts non-negative sparse",
    "input_features is not equal to feature_names_in_",
    "MissingIndicator does not accept missing", "SimpleImputer does not accept missing",
)  # fmt: skip


def answers(model, rows):
    """What a model says: by method or property, an array or the name of an error."""
    found = {}
    for name in (*ASKED, *_properties(model)):
        try:
            found[name] = quietly(_ask, model, name, rows)
        except NotImplementedError:
            continue
        except Exception as error:
            found[name] = error
    return found


def _properties(model):
    """The results that are computed when they are read."""
    cls = type(model)
    held = [name for name in dir(cls) if isinstance(getattr(cls, name, None), property)]
    return [name for name in held if name.endswith("_") and not name.startswith("_")]


def _ask(model, name, rows):
    asked = getattr(model, name, NotImplemented)
    if asked is NotImplemented:
        raise NotImplementedError
    if not callable(asked) or name not in ASKED:
        return asked
    size = {"PairsMixin": 2, "TripletsMixin": 3, "QuadrupletsMixin": 4}
    sizes = [size[base.__name__] for base in type(model).__mro__ if base.__name__ in size]
    if name.startswith(("get_", "__")):
        return asked()
    if name == "inverse_transform":
        return asked(model.transform(rows))
    if name == "pair_distance" or (name in ("predict", "decision_function") and sizes):
        table, count = np.asarray(rows), 2 if name == "pair_distance" else sizes[0]
        return asked(np.stack([np.roll(table, i, axis=0) for i in range(count)], axis=1))
    return asked(rows)


def _is_of_imputer(answer):
    """SimpleImputer cannot invert an indicator that a later step does not give back exactly."""
    frames = traceback.extract_tb(getattr(answer, "__traceback__", None))
    return bool(frames) and frames[-1].filename.endswith("sklearn/impute/_base.py")


def _answers_beyond_gaps(model, rows):
    """Answers; where missing values are passed on or refused, those about rows without any.

    A step that filled them may have become another one, which rightly does not.
    """
    found = answers(model, rows)
    if not (isinstance(rows, np.ndarray) and rows.dtype.kind == "f" and np.isnan(rows).any()):
        return found
    filled = answers(model, np.nan_to_num(rows))
    because = {n: "contains NaN" in str(a) or not _is_finite(a) for n, a in found.items()}
    return {name: filled[name] if because[name] else found[name] for name in found}


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
    # Overflow on the way back and an infinitely small likelihood are the formulas' own, NaN is the
    # answer where nothing is in reach, and between pieces there are no geodesics.
    free = {"inverse_transform", "score_samples", "get_precision", "dist_matrix_"} | (
        {"predict"} if hasattr(model, "radius") else set()
    )
    if type(model) is OrdinalEncoder:  # its parameters may say that unknown values are NaN
        free.add("transform")
    texts = (
        ("could not convert string", "invalid literal") if np.asarray(rows).dtype == object else ()
    )
    told = "works", ""
    for method, answer in _answers_beyond_gaps(model, rows).items():
        if method in raises or (method == "inverse_transform" and _is_of_imputer(answer)):
            continue
        if isinstance(answer, NearfoldError):
            told = "clear error", f"{method}: {answer}"
        elif isinstance(answer, NotFittedError) and told[0] == "clear error":
            continue  # results that cannot be computed: a clear error said why
        elif isinstance(answer, Exception) and not any(
            words in str(answer) for words in (*UNKNOWN, *texts)
        ):
            return "RAW EXCEPTION", f"{type(model).__name__}.{method}: {answer!r}"
        elif isinstance(answer, Exception):
            continue
        elif method not in free and finite.get(method, True) and not _is_finite(answer):
            return "NOT FINITE", f"{type(model).__name__}.{method}"
    return _judge_further(model, rows, path) or told


def _judge_further(model, rows, path):
    """A model that loads can be saved again; one that learns by batches goes on learning."""
    try:
        quietly(save, model, path)
        quietly(load, path)
    except InputError as error:  # values that are too large for a file, for example
        return "clear error", f"save: {error}"
    except Exception as error:
        return "NOT SAVED AGAIN", f"{type(model).__name__}: {error!r}"
    if type(model).__name__ in ("IncrementalPCA", "LinearDiscriminantAnalysis"):
        target = [model.classes_[:1].repeat(len(rows))] if hasattr(model, "classes_") else []
        try:
            quietly(quietly(model.partial_fit, rows, *target).transform, rows)
        except (NearfoldError, NotImplementedError):
            return None
        except Exception as error:
            if not any(words in str(error) for words in UNKNOWN):
                return "RAW EXCEPTION", f"{type(model).__name__}.partial_fit: {error!r}"
    return None


def run(first, count, seed, note=None, only="", patience=None):
    """Counts of outcomes and the failures, for cases first, first + 1, ..."""
    names = sorted(name for name in BASES if re.search(only, name))
    counts, failures = collections.Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for case in range(first, first + count):
            rng = random.Random(f"{seed} {case}")
            name = names[case % len(names)]
            if note is not None:
                Path(note).write_text(f"{case} {name} not yet forged")
            raw, made = forge(base(name)[0], rng, base(rng.choice(names))[0])
            if note is not None:
                Path(note).write_text(f"{case} {name} {made}")
                faulthandler.dump_traceback_later(patience, exit=True)
            outcome, detail = judge(name, raw, folder)
            counts[outcome] += 1
            if outcome.isupper() or outcome == "clear error":
                failures.append([case, name, made, outcome, detail])
    faulthandler.cancel_dump_traceback_later()
    return counts, failures


def _take_compiled_routes():
    """Small models, too, are searched and placed by the compiled loops."""
    exact._PLAIN_PAIRS = exact._TREE_FEATURES = 0
    smacof._SMALL = 0


def _run_inside(asked):
    """A chunk of cases, in this process and within a limit of its memory."""
    if asked.compiled:
        _take_compiled_routes()
    limit = asked.memory * 2**30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    note = _note(asked.first)
    counts, failures = run(asked.first, asked.count, asked.seed, note, asked.only, _PATIENCE)
    note.unlink(missing_ok=True)
    print(json.dumps([counts, failures]))
    return 0


def _note(first):
    return Path(tempfile.gettempdir()) / f"forging {os.getppid()} {first}"


def _run_chunk(first, count, asked):
    """(counts, failures, cases done) of a process that runs a chunk, or crashes or hangs in one."""
    command = [sys.executable, __file__, str(count), "--inside", "--first", str(first)]
    command += ["--only", asked.only, "--seed", str(asked.seed), "--memory", str(asked.memory)]
    command += ["--compiled"] * asked.compiled
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return *json.loads(done.stdout.splitlines()[-1]), count
    note = Path(tempfile.gettempdir()) / f"forging {os.getpid()} {first}"
    where = note.read_text() if note.exists() else f"{first} ?"
    note.unlink(missing_ok=True)
    case = int(where.split()[0])
    before = _run_chunk(first, case - first, asked) if case > first else ({}, [], 0)
    crash = [where, f"CRASH (exit {done.returncode})", done.stderr[-1500:]]
    counts = collections.Counter(before[0])
    counts["CRASH"] += 1
    return counts, [*before[1], crash], before[2] + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chunk", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="", help="Models whose names match.")
    parser.add_argument("--memory", type=int, default=4, help="Limit of a process in GB.")
    parser.add_argument("--compiled", action="store_true", help="Take compiled routes.")
    parser.add_argument("--inside", action="store_true", help="Run here, and print JSON.")
    asked = parser.parse_args()
    if asked.inside:
        return _run_inside(asked)
    total = collections.Counter()
    first, end = asked.first, asked.first + asked.count
    while first < end:
        counts, failures, done = _run_chunk(first, min(asked.chunk, end - first), asked)
        first += done
        total.update(counts)
        for failure in failures:
            print(*failure)
        print(dict(total), flush=True)
    return int(any(name.isupper() for name in total))


if __name__ == "__main__":
    sys.exit(main())
