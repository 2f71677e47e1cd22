"""`nearfold`: the command line. Heavy imports wait until a command needs them.

Exit codes: 0 done, 2 a mistake in what was given (one line on stderr), 130 stopped by Ctrl-C.
NEARFOLD_DEBUG=1 shows where an error comes from.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import click

from nearfold import __version__
from nearfold.app.printing import clean
from nearfold.errors import NearfoldError

# command -> the module that has it: one command does not load what another needs.
_COMMANDS = {
    "compare": "nearfold.app.compare_command",
    "choose": "nearfold.app.study_commands",
    "explain": "nearfold.app.study_commands",
    "doctor": "nearfold.app.study_commands",
    "fit": "nearfold.app.model_commands",
    "transform": "nearfold.app.model_commands",
    "inspect": "nearfold.app.model_commands",
    "verify": "nearfold.app.model_commands",
    "methods": "nearfold.app.model_commands",
    "demo": "nearfold.app.demo",
}


class _Commands(click.Group):
    """Turns a user's mistake into one line and exit code 2, and Ctrl-C into 130."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(_COMMANDS[cmd_name]), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `| head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except (NearfoldError, OSError, ValueError) as error:
            # ValueError: what scikit-learn says of a parameter or of data it cannot use.
            if os.environ.get("NEARFOLD_DEBUG"):
                raise
            click.echo(f"nearfold: {one_line(error)}", err=True)
            sys.exit(2)
        except MemoryError:
            click.echo("nearfold: out of memory; give fewer rows or a smaller --memory.", err=True)
            sys.exit(2)
        except KeyboardInterrupt:
            click.echo("nearfold: stopped.", err=True)
            sys.exit(130)


def one_line(error: BaseException) -> str:
    """What went wrong, without the file's folder and in one line."""
    if isinstance(error, OSError) and error.strerror:
        name = f"{Path(error.filename).name}: " if isinstance(error.filename, str) else ""
        return clean(f"{name}{error.strerror}.")
    return clean(" ".join(str(error).split()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nearfold")
def main() -> None:
    """Find the space in which nearest neighbours mean something.

    \b
    Begin with your own table:
      nearfold compare DATA.csv --label COLUMN -o report.html
    """


if __name__ == "__main__":
    main()
