"""`nearfold`: the command line. Heavy imports wait until a command needs them."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from nearfold import __version__
from nearfold.errors import NearfoldError


class _Commands(click.Group):
    """Turns a user's mistake into one line and exit code 2, and Ctrl-C into 130."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (NearfoldError, OSError) as error:
            click.echo(f"nearfold: {error}", err=True)
            sys.exit(2)
        except KeyboardInterrupt:
            click.echo("nearfold: stopped.", err=True)
            sys.exit(130)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nearfold")
def main() -> None:
    """Find the space in which nearest neighbours mean something."""


@main.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder for the picture.",
)
@click.option("--seed", default=0, show_default=True, help="Which rows are held out.")
def demo(output: Path, seed: int) -> None:
    """A kNN learner on handwritten digits, before and after each kind of reduction.

    Example: nearfold demo -o demo
    """
    from nearfold.app.demo import run_demo

    run_demo(output, seed)


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("-k", "--neighbors", default=10, show_default=True, help="Neighbours of each row.")
@click.option("--radius", type=float, help="Join all rows within it, instead of the k nearest.")
@click.option("--metric", default="euclidean", show_default=True, help="Any of scikit-learn's.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Draw the graph, as PNG.")
def doctor(
    file: str, neighbors: int, radius: float | None, metric: str, output: str | None
) -> None:
    """Examine the neighbourhood graph of a table: pieces, short circuits, holes.

    Columns that are not numbers are left out of a CSV or Parquet file.

    Example: nearfold doctor points.csv -k 8 -o graph.png
    """
    from nearfold.report.doctor import diagnose
    from nearfold.run import reporting

    with reporting(sys.stderr.isatty()):
        diagnosis = diagnose(file, n_neighbors=neighbors, radius=radius, metric=metric)
    click.echo(str(diagnosis))
    if output is not None:
        click.echo(f"The picture is at {diagnosis.draw(output).resolve()}")


@main.command()
def methods() -> None:
    """What there is: every method, in one line each.

    Example: nearfold methods
    """
    from rich.console import Console
    from rich.table import Table

    from nearfold.registry import METHODS

    table = Table(box=None, pad_edge=False)
    for column in ("method", "kind", "book", "what it does"):
        table.add_column(column, no_wrap=column == "method")
    for method in METHODS:
        table.add_row(method.name, method.kind, method.section, method.summary)
    Console().print(table)
