"""`nearfold`: the command line. Heavy imports wait until a command needs them.

Exit codes: 0 done; 2 a mistake in what was given (one line on stderr); 1 a fault of ours or of the
machine; 130 stopped by Ctrl-C. NEARFOLD_DEBUG=1 shows where an error comes from.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from pathlib import Path

import click

from nearfold import __version__
from nearfold.app.click_words import translate_click
from nearfold.app.options import about, language
from nearfold.app.printing import clean
from nearfold.errors import NearfoldError, reason
from nearfold.messages import Message

# command -> the module that has it: one command does not load what another needs.
_COMMANDS = {
    "compare": "nearfold.app.compare_command",
    "choose": "nearfold.app.study_commands",
    "explain": "nearfold.app.study_commands",
    "doctor": "nearfold.app.study_commands",
    "fit": "nearfold.app.fit_command",
    "transform": "nearfold.app.transform_command",
    "inspect": "nearfold.app.model_commands",
    "verify": "nearfold.app.model_commands",
    "methods": "nearfold.app.model_commands",
    "completion": "nearfold.app.completion",
    "demo": "nearfold.app.demo",
}
translate_click()
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


class _Commands(click.Group):
    """Turns a user's mistake into one line and exit code 2, a fault of ours into 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(_COMMANDS[cmd_name]), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a terminal of few letters shows ? for the others
                stream.reconfigure(errors="replace")
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `| head` has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (KeyboardInterrupt, click.Abort):
            click.echo(f"nearfold: {Message('cli.stopped').text(language())}", err=True)
            sys.exit(130)
        except Exception as error:
            if os.environ.get("NEARFOLD_DEBUG"):
                raise
            click.echo(f"nearfold: {one_line(error)}", err=True)
            sys.exit(exit_code(error))


def exit_code(error: Exception) -> int:
    """2 for the user's mistakes, 1 for ours and for a machine that fails."""
    cause = error if isinstance(error, OSError) else error.__cause__
    if isinstance(cause, OSError) and cause.errno in _FULL:
        return 1
    return 2 if isinstance(error, NearfoldError | OSError) else 1


def one_line(error: Exception) -> str:
    """What went wrong, without the file's folder and in one line."""
    lang = language()
    if isinstance(error, MemoryError) and not isinstance(error, NearfoldError):
        return Message("cli.out_of_memory").text(lang)
    why = reason(error)
    if isinstance(error, OSError) and error.strerror and not isinstance(error, NearfoldError):
        name = Path(error.filename).name if isinstance(error.filename, str) else "nearfold"
        said = Message("cli.unknown_file", name=name, why=why)
    elif isinstance(error, NearfoldError):
        said = Message("cli.failed", why=why) if why.id == "words.quoted" else why
    else:
        said = Message("cli.fault", kind=type(error).__name__, why=why, version=__version__)
    return clean(" ".join(said.text(lang).split()))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=about("main", "nearfold compare DATA.csv --label COLUMN -o report.html"),
)
@click.version_option(__version__, prog_name="nearfold")
def main() -> None:
    """Find the space in which nearest neighbours mean something."""


if __name__ == "__main__":
    main()
