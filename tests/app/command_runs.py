"""Commands as a person types them, for tests."""

import numpy as np
import polars as pl
from click.testing import CliRunner

from nearfold.app.cli import main


def run(*words, **kwargs):
    return CliRunner().invoke(main, [str(w) for w in words], **kwargs)


def succeeds(*words, **kwargs):
    result = run(*words, **kwargs)
    assert result.exit_code == 0, result.output
    return result


def refused(*words, code=2, says=(), **kwargs):
    """One line on stderr that says why."""
    result = run(*words, **kwargs)
    assert result.exit_code == code, result.output
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("nearfold: "), result.output
    for word in (says,) if isinstance(says, str) else says:
        assert word in line, line
    return line


def mixed_table(n=60, seed=0):
    """Numbers, categories, a date, an id, gaps; the class depends on a category and a number."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "blue"], n)
    size = rng.normal(size=n).round(3)
    kind = np.where((colour == "red") | (size > 1.2), "yes", "no")
    day = np.datetime64("2024-01-01") + rng.integers(0, 300, n)
    return pl.DataFrame({
        "code": [f"{i:04d}" for i in rng.permutation(n)],
        "colour": colour,
        "size": [None if i % 9 == 4 else float(v) for i, v in enumerate(size)],
        "weight": (1000 * rng.normal(size=n)).round(1),
        "day": [str(d) for d in day],
        "kind": kind,
        "price": (size + (colour == "red") + 0.1 * rng.normal(size=n)).round(3),
    })  # fmt: skip
