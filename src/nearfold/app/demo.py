"""demo: `nearfold compare` on scikit-learn's handwritten digits."""

from __future__ import annotations

from pathlib import Path

import click

from nearfold.study.told import LANGUAGES


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder for the table and the report.",
)
@click.option("--methods", default="default", show_default=True, help="Spaces to try.")
@click.option("--seed", default=0, show_default=True, help="Which rows are held out.")
@click.option("--lang", type=click.Choice(LANGUAGES), default="en", show_default=True)
def demo(output: Path, methods: str, seed: int, lang: str) -> None:
    """Compare spaces on handwritten digits: a table, an answer, a report.

    \b
    Examples:
      nearfold demo -o demo --methods PCA,LDA
    """  # fmt: skip
    from nearfold.app.compare_command import compare

    output.mkdir(parents=True, exist_ok=True)
    data = write_digits(output / "digits.csv")
    report = output / "report.html"
    words = [str(data), "--label", "digit", "-o", str(report), "--seed", str(seed)]
    words += ["--lang", lang, "--methods", methods]
    click.echo(f"$ nearfold compare {' '.join(words)}")
    compare.main(words, standalone_mode=False)


def write_digits(path: Path) -> Path:
    """scikit-learn's 1,797 digits of 8 x 8 pixels as a CSV file."""
    from sklearn.datasets import load_digits

    from nearfold.store.export import write_table

    digits = load_digits()
    pixels = digits.data.astype("uint8")
    columns = {f"row{j // 8}_col{j % 8}": pixels[:, j] for j in range(pixels.shape[1])}
    write_table(path, {**columns, "digit": digits.target})
    return path
