"""Tables that a careless or a malicious person brings, as bytes of files."""

from __future__ import annotations

import gzip
import io

import numpy as np
import polars as pl

RNG = np.random.default_rng(0)
MARKUP = ["[red]", "[/red]", "[bold", "[/]", "[link=x]", "\\[a]"]
FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "@SUM(A1)", "-2+3"]
SCRIPT = "</script><script>alert(1)</script>"


def quoted(cell):
    return '"' + str(cell).replace('"', '""') + '"'


def csv(columns):
    """A CSV file from name -> values, every name and text quoted."""
    lines = [",".join(quoted(name) for name in columns)]
    for row in zip(*columns.values(), strict=True):
        lines.append(",".join(quoted(v) if isinstance(v, str) else str(v) for v in row))
    return ("\n".join(lines) + "\n").encode()


def table(X, names=None, **more):
    """Columns of X, then the further ones."""
    X = np.asarray(X)
    names = names or [f"v{j}" for j in range(X.shape[1])]
    columns = {name: X[:, j].tolist() for j, name in enumerate(names)}
    return csv({**columns, **{name: list(values) for name, values in more.items()}})


def two_classes(n=24, d=3, **more):
    """Two groups, with labels."""
    X = RNG.normal(size=(n, d)) + 3 * (np.arange(n) % 2)[:, None]
    return table(X.round(3), kind=["ab"[i % 2] for i in range(n)], **more)


def numbers(n=24, d=3, scale=1.0, offset=0.0):
    return RNG.normal(size=(n, d)) * scale + offset


def labelled(n, d=3, kinds="ab", **how):
    return table(numbers(n, d, **how), kind=[kinds[i % len(kinds)] for i in range(n)])


def with_kind(values, d=3):
    return table(numbers(len(values), d), kind=values)


def in_parquet(**columns):
    stream = io.BytesIO()
    pl.DataFrame(columns).write_parquet(stream)
    return stream.getvalue()


def in_npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def repeated(row, n):
    return np.repeat([row], n, axis=0)


def nearly_equal(n=24):
    X = np.ones((n, 2))
    X[0] = 2
    return X


def two_distinct(n=24):
    return np.array([[0.0, 1.0], [2.0, 5.0]])[np.arange(n) % 2]


ALTERNATING = ["ab"[i % 2] for i in range(24)]
DAYS = [f"2020-01-{1 + i % 2:02d}" for i in range(24)]

# Every one has a column "kind": once it is the label, once it is left out.
TABLES = {
    "plain": two_classes(),
    "label constant": with_kind(["a"] * 24),
    "label all distinct": with_kind([f"k{i}" for i in range(24)]),
    "label of lonely classes": with_kind(["a"] * 20 + ["b", "c", "d", "e"]),
    "label of floats": with_kind([[0.5, 1.5][i % 2] for i in range(24)]),
    "label of many floats": with_kind(RNG.normal(size=24).tolist()),
    "label of booleans": with_kind(["true", "false"] * 12),
    "label of dates": with_kind(DAYS),
    "label with gaps": with_kind(["a", "b", ""] * 8),
    "label empty": with_kind([""] * 24),
    "label but for one empty": with_kind(["a"] + [""] * 23),
    "label with infinity": with_kind(["inf", "1", "2"] * 8),
    "label of markup": with_kind((MARKUP * 4)[:24]),
    "label of HTML": with_kind([SCRIPT, "<img src=x onerror=alert(1)>"] * 12),
    "label of newlines": with_kind(["a\nb", "c\r\nd"] * 12),
    "label of control characters": with_kind(["\x1b[31mred", "\x07bell"] * 12),
    "label of formulas": with_kind((FORMULAS * 6)[:24]),
    "label very long": with_kind(["x" * 10_000, "y" * 10_000] * 12),
    "label of emoji": with_kind(["👩‍👩‍👧", "\u202eabc"] * 12),
    "label of huge numbers": with_kind([10**30, -(10**30)] * 12),
    "nothing": b"",
    "a header": b"v0,kind\n",
    "1 row": labelled(1),
    "2 rows": labelled(2),
    "3 rows": labelled(3),
    "4 rows": labelled(4),
    "9 rows": labelled(9),
    "10 rows": labelled(10),
    "11 rows": labelled(11),
    "1 feature": labelled(24, 1),
    "1 feature, 10 rows": labelled(10, 1),
    "no feature": csv({"kind": ALTERNATING}),
    "all text": csv({"a": ALTERNATING, "b": ALTERNATING, "kind": ALTERNATING}),
    "all null": csv({"a": [""] * 24, "b": [""] * 24, "kind": ALTERNATING}),
    "all constant": table(np.ones((24, 3)), kind=ALTERNATING),
    "1e300": labelled(24, scale=1e300),
    "1e308": labelled(24, scale=3e307),
    "1e200": labelled(24, scale=1e200),
    "1e-300": labelled(24, scale=1e-300),
    "1e-160": labelled(24, scale=1e-160),
    "offset 1e12": labelled(24, offset=1e12),
    "offset 1e300": labelled(24, scale=1e280, offset=1e300),
    "1e300 beside 1e-300": table(
        np.column_stack([numbers(24, 1, 1e300), numbers(24, 1, 1e-300)]), kind=ALTERNATING
    ),
    "infinity": table(np.where(numbers() > 1, np.inf, numbers()), kind=ALTERNATING),
    "NaN": table(np.where(numbers() > 1, np.nan, numbers()), kind=ALTERNATING),
    "all rows equal": table(repeated([1.0, 2.0], 24), kind=ALTERNATING),
    "all rows equal but one": table(nearly_equal(), kind=ALTERNATING),
    "2 distinct rows": table(two_distinct(), kind=ALTERNATING),
    "2 distinct rows against the label": table(two_distinct(), kind=["a", "a", "b", "b"] * 6),
    "12 distinct rows": table(np.repeat(numbers(12), 2, axis=0), kind=ALTERNATING),
    "20 rows x 500 columns": labelled(20, 500),
    "12 rows x 10,000 columns": labelled(12, 10_000),
    "names of markup": table(numbers(24, 6), MARKUP, kind=ALTERNATING),
    "names of formulas": table(numbers(24, 4), FORMULAS, kind=ALTERNATING),
    "names of control characters": table(
        numbers(24, 3), ["a\x1b[31m", "b\x07", "c\x00d"], kind=ALTERNATING
    ),
    "names of 10 KB": table(numbers(24, 2), ["n" * 10_000, "m" * 10_000], kind=ALTERNATING),
    "names of HTML": table(numbers(24, 2), [SCRIPT, "<b>&amp;"], kind=ALTERNATING),
    "names of paths": table(numbers(24, 2), ["../../etc/passwd", "C:\\x"], kind=ALTERNATING),
    "names of newlines": table(numbers(24, 2), ["a\nb", "c\r\nd"], kind=ALTERNATING),
    "names of emoji": table(numbers(24, 2), ["👩‍👩‍👧", "\u202eabc"], kind=ALTERNATING),
    "names of nothing": table(numbers(24, 2), ["", " "], kind=ALTERNATING),
    "names of patterns": table(numbers(24, 3), ["*", "^.*$", "z1"], kind=ALTERNATING),
    "names twice": b"a,a,kind\n" + b"1,2,x\n3,5,y\n2,7,x\n4,9,y\n" * 5 + b"7,7,x\n8,8,y\n",
    "ids twice": two_classes(24, 3, id=[f"r{i % 12}" for i in range(24)]),
    "UTF-16": two_classes().decode().encode("utf-16"),
    "GBK": two_classes().decode().replace("v0", "身高").replace("v1", "体重").encode("gbk"),
    "semicolons, decimal commas": two_classes().replace(b",", b";").replace(b".", b","),
    "gzip": gzip.compress(two_classes()),
    "gzip cut short": gzip.compress(two_classes())[:-20],
    "garbage": RNG.bytes(3000),
    "zeros": bytes(3000),
    "Parquet": in_parquet(a=numbers(24, 1)[:, 0], b=numbers(24, 1)[:, 0], kind=ALTERNATING),
    "Parquet of lists": in_parquet(a=[[1.0, 2.0]] * 24, b=range(24), kind=[["a"], ["b"]] * 12),
    "Parquet of bytes": in_parquet(a=[b"x", b"y"] * 12, b=range(24), kind=[b"p", b"q"] * 12),
    "Parquet of structs": in_parquet(a=numbers(24, 1)[:, 0], kind=[{"x": 1}, {"x": 2}] * 12),
    "Parquet of nulls": in_parquet(a=numbers(24, 1)[:, 0], kind=[None] * 24),
    "npy of objects": in_npy(np.array([{}, []], dtype=object)),
    "npy of a scalar": in_npy(np.float64(1)),
    "ragged": b"a,b,kind\n1,2,x\n3\n",
    "HTML page": b"<!doctype html>\n<html><body>404</body></html>\n",
}  # fmt: skip

_TARGET_VALUES = {
    "plain": RNG.normal(size=24),
    "constant": np.ones(24),
    "infinite": [np.inf, *range(23)],
    "NaN": [np.nan, *range(23)],
    "1e300": RNG.normal(size=24) * 1e300,
    "1e-300": RNG.normal(size=24) * 1e-300,
    "1e160": RNG.normal(size=24) * 1e160,
    "offset": RNG.normal(size=24) + 1e15,
    "one outlier": [1e300, *range(23)],
    "two values": [0.5, 1.5] * 12,
    "words": ALTERNATING,
    "booleans": ["true", "false"] * 12,
    "dates": DAYS,
    "whole": range(24),
    "empty": [""] * 24,
    "huge whole": [10**400 + i for i in range(24)],
}
TARGETS = {name: table(numbers(), y=list(values)) for name, values in _TARGET_VALUES.items()}
