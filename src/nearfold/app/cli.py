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
    """A kNN learner on handwritten digits, before and after PCA and LDA.

    Example: nearfold demo -o demo
    """
    from nearfold.app.demo import run_demo

    run_demo(output, seed)


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
        table.add_column(column)
    for method in METHODS:
        table.add_row(method.name, method.kind, method.section, method.summary)
    Console().print(table)
