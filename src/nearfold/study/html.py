"""Results as HTML for notebooks: small tables and a picture, no script."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from nearfold.study.inline_picture import space_svg
from nearfold.study.showing import leaderboard_row


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table whose cells are text."""
    head = "".join(f"<th style='text-align:left'>{html.escape(h)}</th>" for h in heads)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{html.escape(str(c))}</td>" for c in row)
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraph(text: Any, strong: bool = False) -> str:
    """A line of text."""
    escaped = html.escape(str(text))
    return f"<p><strong>{escaped}</strong></p>" if strong else f"<p>{escaped}</p>"


def comparison_html(found: Any) -> str:
    """The answer, the leaderboard and the picture of a comparison."""
    shown = [leaderboard_row(s, found.judge) for s in found.verdict.standings]
    keys = ["space", "dimensions", "held_out", "interval", "difference", "p", "verdict"]
    heads = ["space", "d'", str(found.judge.score_name), "95 % interval", "difference", "p", ""]
    told = [*found.details, *([found.final.told] if found.final else [])]
    return (
        paragraph(found.headline, strong=True)
        + "".join(paragraph(line) for line in told)
        + table(heads, [[row[key] for key in keys] for row in shown])
        + space_svg(found)
    )
