"""completion: what a shell needs to complete commands and options."""

from __future__ import annotations

import click

from nearfold.app.options import about


@click.command(help=about("completion", "nearfold completion bash >> ~/.bashrc"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that a shell runs for completion."""
    from click.shell_completion import get_completion_class

    from nearfold.app.cli import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "nearfold", "_NEARFOLD_COMPLETE").source())
