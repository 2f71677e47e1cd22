"""demo: `nearfold compare` on a mixed table and on scikit-learn's handwritten digits."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from nearfold.app.options import LANG, SEED, about, option

# The quicker half of the spaces: a demonstration of two tables ends within a minute or so.
_FOR_MEMBERS = "weighted,target-coded,Gower,PCA,LDA,LFDA,RCA,NCA,KernelPCA,Isomap"
_FOR_DIGITS = "PCA,LDA,LFDA,NCA,KernelPCA,Isomap,LLE,ClassicalMDS"


@click.command(help=about("demo", "nearfold demo -o demo --methods PCA,LDA"))
@option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("demo"),
        show_default=True, about="folder")  # fmt: skip
@option("--methods", default="default", show_default=True)
@SEED
@LANG
def demo(output: Path, methods: str, seed: int, lang: str) -> None:
    """Compare spaces on two bundled tables: tables, answers, reports."""
    from nearfold.app.compare_command import compare

    output.mkdir(parents=True, exist_ok=True)
    tables = (
        (write_members(output / "members.csv"), "renewed", "members.html", _FOR_MEMBERS),
        (write_digits(output / "digits.csv"), "digit", "report.html", _FOR_DIGITS),
    )
    for data, label, report, usual in tables:
        words = [str(data), "--label", label, "-o", str(output / report), "--seed", str(seed)]
        words += ["--lang", lang, "--methods", usual if methods == "default" else methods]
        words += ["--repeats", "1", "--time", "40s"]
        click.echo(f"$ nearfold compare {shlex.join(words)}")
        compare.main(words, standalone_mode=False)
        click.echo()


def write_digits(path: Path) -> Path:
    """scikit-learn's 1,797 digits of 8 x 8 pixels as a CSV file."""
    from sklearn.datasets import load_digits

    from nearfold.store.export import write_table

    digits = load_digits()
    pixels = digits.data.astype("uint8")
    columns = {f"row{j // 8}_col{j % 8}": pixels[:, j] for j in range(pixels.shape[1])}
    write_table(path, {**columns, "digit": digits.target})
    return path


def write_members(path: Path, n: int = 1_500) -> Path:
    """A made-up table of a gym's members, as such tables are: numbers in different units,
    categories, dates, ids, gaps; whether a member renews depends on a few of them.
    """
    import numpy as np

    from nearfold.store.export import write_table

    draw = np.random.default_rng(20)
    plan = draw.choice(["basic", "plus", "family", "student"], n, p=[0.4, 0.25, 0.2, 0.15])
    city = draw.choice(["Aachen", "Bonn", "Gent", "Lille", "Liège", "Metz", "Trier"], n)
    joined = np.datetime64("2024-01-01") + draw.integers(0, 540, n)
    visits = draw.gamma(2.0, 2.2, n) + np.where(plan == "family", 2.0, 0.0)
    spend = draw.lognormal(3.2, 0.6, n)
    age = np.clip(np.where(plan == "student", 23, 41) + draw.normal(0, 9, n), 16, 80)
    distance = draw.gamma(2.0, 2.0, n)
    noise: dict[str, Any] = {
        "locker": draw.integers(100, 990, n),
        "last_invoice": np.round(draw.lognormal(4, 0.8, n), 2),
        "height_cm": np.round(draw.normal(172, 10, n), 1),
        "minutes_parked": np.round(draw.gamma(3.0, 15.0, n)),
        "towels": draw.poisson(2.0, n),
        "room_temperature": np.round(draw.normal(20.5, 0.8, n), 1),
        "newsletter": draw.choice(["yes", "no"], n),
    }
    strength = (
        0.75 * (visits - 4) - 0.45 * (distance - 4) + np.where(plan == "family", 1.6, 0.0)
        - np.where(plan == "student", 1.4, 0.0) + 0.035 * (age - 38) + 0.012 * (spend - 28)
    )  # fmt: skip
    renewed = np.where(strength + draw.logistic(0, 0.7, n) > 0, "yes", "no")
    known = draw.random(n) > 0.06
    columns: dict[str, Any] = {
        "member_id": [f"{i:05d}" for i in draw.permutation(n)],
        "plan": plan,
        "city": city,
        "joined": [str(day) for day in joined],
        "age": [round(float(a)) if k else None for a, k in zip(age, known, strict=True)],
        "visits_per_month": np.round(visits, 1),
        "distance_km": np.round(distance, 1),
        "spend": np.round(spend, 2),
        **noise,
        "renewed": renewed,
    }
    write_table(path, columns)
    return path
