"""What commands print: tables for people, JSON for machines."""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from typing import Any

import click
import numpy as np

from nearfold.messages import Message

_HEADINGS = (
    "space", "dimensions", "k", "held_out", "interval", "difference", "p", "verdict", "fit"
)  # fmt: skip
_MOST_COLUMNS = 60  # of a schema


def clean(text: str, longest: int = 500) -> str:
    """Text of unknown origin for a terminal: no control characters, not too long."""
    safe = "".join(c if c.isprintable() else "?" for c in text)
    return safe if len(safe) <= longest else f"{safe[: longest - 1]}…"


def put(thing: Any, style: str = "") -> None:
    """A line or a table on stdout, by rich; wide enough for a leaderboard when piped."""
    from rich.console import Console

    screen = Console(highlight=False)
    if not screen.is_terminal:
        screen = Console(highlight=False, width=140)
    # Rich would end the program where nobody reads on (`| head`), with a code of its own.
    with screen.capture() as shown:
        screen.print(thing, markup=False, soft_wrap=isinstance(thing, str), style=style or None)
    click.echo(shown.get(), nl=False)


class Printer:
    """Prints in the language, and as much, as a command's options ask for."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.lang = str(options["lang"])
        self.as_json = bool(options["as_json"])
        self.quiet = bool(options["quiet"])

    @property
    def shows_progress(self) -> bool:
        """Whether a bar is drawn on stderr."""
        return sys.stderr.isatty() and not self.quiet

    def json(self, value: Any) -> None:
        """One JSON document on stdout."""
        from nearfold.study.plain import to_json

        click.echo(to_json(value))

    def text(self, message: Any) -> str:
        """A message in the language of the command."""
        return clean(message.text(self.lang) if hasattr(message, "text") else str(message), 2000)

    def say(self, message: Any, err: bool | None = None) -> None:
        """A line, on stderr where stdout is for machines."""
        if not self.quiet or err is False:
            self._echo(self.text(message), self.as_json if err is None else err)

    def _echo(self, line: str, err: bool) -> None:
        # Work is not lost because nobody reads what is said beside it.
        with suppress(OSError) if err else nullcontext():
            click.echo(line, err=err)

    def table(self, table: Any) -> None:
        """What was read, and what each column is taken for, on stderr."""
        if self.as_json or self.quiet:
            return
        from nearfold.columns.kinds import Role

        features = table.schema.features()
        names = [c.name for c in features]
        shown: Any = (
            names if len(names) <= 6 else Message("words.more", names=names[:6], n=len(names) - 6)
        )
        lines = [table.source.describe(), Message("cli.features", n=len(names), names=shown)]
        for role in (Role.LABEL, Role.TARGET, Role.ID, Role.GROUP, Role.TIME):
            if (name := table.schema.named(role)) is not None:
                lines.append(Message("cli.role", role=role.shown, name=name))
        for i, line in enumerate([*lines, *table.notices]):
            self._echo(("  " if i else "") + self.text(line), err=True)

    def schema(self, table: Any) -> None:
        """Each column with its kind, its role, how it will be used and why."""
        from rich.table import Table
        from rich.text import Text

        put(self.text(table.source.describe()))
        board = Table(box=None, pad_edge=False)
        for head in ("column", "kind", "role", "use", "why"):
            board.add_column(self.text(Message(f"cli.head.{head}")), overflow="fold")
        for column in table.schema.columns[:_MOST_COLUMNS]:
            cells = (column.name, column.kind.shown, column.role.shown, column.use, column.reason)
            board.add_row(*(Text(self.text(cell)) for cell in cells))
        put(board)
        left = len(table.schema.columns) - _MOST_COLUMNS
        if left > 0:
            self.say(Message("cli.more_columns", n=left), err=False)
        for notice in table.notices:
            self.say(notice, err=False)

    def comparison(self, found: Any, notices: list[Message]) -> None:
        """Every space with its interval and verdict, then the answer."""
        from nearfold.study.showing import space_name

        if not self.quiet:
            put(self._leaderboard(found))
            for s in found.verdict.standings:
                if s.result.trouble:
                    told = Message("columns.look_at", name=space_name(s.name), why=s.result.trouble)
                    put(self.text(told), "dim")
            put("")
        put(self.text(found.headline), "bold")
        for line in [*found.details, *([found.final.told] if found.final else [])]:
            put(self.text(line))
        for notice in () if self.quiet else [*found.notices, *notices]:
            if notice not in found.table.notices:  # those were shown with the table
                put(f"  {self.text(notice)}", "dim")

    def _leaderboard(self, found: Any) -> Any:
        from rich.table import Table
        from rich.text import Text

        from nearfold.study.showing import leaderboard_row

        board = Table(box=None, pad_edge=False)
        for head in _HEADINGS:
            side: Any = "left" if head in ("space", "verdict") else "right"
            board.add_column(self.text(Message(f"cli.head.{head}")), justify=side, no_wrap=True)
        for s in found.verdict.standings:
            style = "bold" if s.name == found.winner else ""
            row = leaderboard_row(s, found.judge, self.lang)
            board.add_row(*(Text(clean(row[head]), style=style) for head in _HEADINGS))
        return board

    def choice(self, choice: Any) -> None:
        """The curve as a small table, the reason below it."""
        from rich.table import Table

        curve = choice.curve
        table = Table(box=None, pad_edge=False)
        table.add_column(self.text(curve.x_name), justify="right")
        table.add_column(self.text(curve.y_name), justify="right")
        table.add_column("")
        top = float(np.max(np.abs(curve.y))) or 1.0
        shown = _thinned(len(curve.x), int(np.argmin(np.abs(curve.x - choice.value))))
        for i in shown:
            error = f" ± {curve.error[i]:.4f}" if curve.error is not None else ""
            mark = " <" if curve.x[i] == choice.value else ""
            bar = "█" * round(20 * max(0.0, float(curve.y[i])) / top)
            y = f"{curve.y[i]:.4f}{error}" if (curve.y % 1).any() else f"{curve.y[i]:.0f}"
            table.add_row(f"{curve.x[i]:.6g}", y, bar + mark)
        put(table)
        put(self.text(choice.reason))

    def explanation(self, found: Any, most: int) -> None:
        """Columns with their weights as bars."""
        from rich.table import Table
        from rich.text import Text

        put(self.text(found.about))
        table = Table(box=None, pad_edge=False, show_header=False)
        largest = max((abs(float(w)) for w in found.weights), default=0.0) or 1.0
        for i, name in enumerate(found.columns[:most]):
            weight = float(found.weights[i])
            bar = "█" * round(30 * abs(weight) / largest)
            table.add_row(Text(clean(name, 60)), f"{weight:.4g}", found.interval(i), bar)
        put(table)
        if len(found.columns) > most:
            self.say(Message("cli.more_columns", n=len(found.columns) - most), err=False)


def _thinned(n: int, keep: int, most: int = 40) -> list[int]:
    """Every row of a short curve; of a long one an even selection that has the chosen one."""
    if n <= most:
        return list(range(n))
    return sorted({*np.linspace(0, n - 1, most).astype(int).tolist(), keep})
