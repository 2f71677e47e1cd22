"""What commands print: tables for people, JSON for machines."""

from __future__ import annotations

import json
import math
from typing import Any

import click
import numpy as np

from nearfold.messages import Message
from nearfold.study.told import Told

_VERDICTS = {
    "reference": Told("reference", "参照"),
    "better": Told("better", "更好"),
    "worse": Told("worse", "更差"),
    "noise": Told("within noise", "噪声之内"),
    "uncompared": Told("not compared", "未比较"),
    "unfinished": Told("unfinished", "未完成"),
    "failed": Told("failed", "失败"),
}
_HEADINGS = (
    Told("space", "空间"),
    Told("d'", "维数"),
    Told("held-out", "留出得分"),
    Told("95 % interval", "95% 区间"),
    Told("difference", "差"),
    Told("p", "p"),
    Told("", ""),
    Told("fit", "拟合"),
)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(_plain(value), ensure_ascii=False, indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Told):
        return value.as_dict()
    if isinstance(value, Message):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def clean(text: str, longest: int = 500) -> str:
    """Text of unknown origin for a terminal: no control characters, not too long."""
    safe = "".join(c if c.isprintable() else "?" for c in text)
    return safe if len(safe) <= longest else f"{safe[: longest - 1]}…"


def console(stderr: bool = False) -> Any:
    """Rich's, without colours guessed for words; wide enough for a leaderboard when piped."""
    from rich.console import Console

    plain = Console(highlight=False, stderr=stderr)
    return plain if plain.is_terminal else Console(highlight=False, stderr=stderr, width=120)


def print_table(table: Any, lang: str) -> None:
    """What was read, and what each column is taken for."""
    out = console(stderr=True)
    out.print(clean(table.source.describe().text(lang)), soft_wrap=True, markup=False)
    out.print(f"  {clean(_roles(table.schema, lang))}", soft_wrap=True, markup=False)
    for notice in [*table.source.notices, *table.schema.notices(), *table.notices]:
        words = notice.text(lang) if isinstance(notice, Message) else notice
        out.print(f"  {clean(words)}", soft_wrap=True, markup=False)


def _roles(schema: Any, lang: str) -> str:
    """Which columns are features, label, target and id."""
    names = schema.features()
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    words = Told(
        f"{len(names):,} feature{'' if len(names) == 1 else 's'}: {shown}",
        f"{len(names):,} 个特征:{shown}",
    )
    parts = [words.get(lang)]
    for role, word in (
        (schema.label, Told("label", "标记")),
        (schema.target, Told("target", "目标")),
        (schema.id, Told("id", "编号")),
    ):
        if role:
            parts.append(f"{word.get(lang)}: {role}")
    return "; ".join(parts)


def print_leaderboard(comparison: Any, lang: str) -> None:
    """Every space with its interval and verdict, then the answer."""
    from rich.table import Table
    from rich.text import Text

    from nearfold.study.headline import show_score

    judge = comparison.judge
    board = Table(box=None, pad_edge=False)
    for i, heading in enumerate(_HEADINGS):
        board.add_column(
            heading.get(lang), justify="left" if i in (0, 6) else "right", no_wrap=True
        )
    for s in comparison.verdict.standings:
        result = s.result
        cells = [result.name, str(result.n_dimensions) if len(result.scores) else "-"]
        if s.score:
            cells.append(show_score(s.score.mean, judge))
            cells.append(f"{show_score(s.score.low, judge)} – {show_score(s.score.high, judge)}")
        else:
            cells += ["", ""]
        cells.append(_difference(s, judge))
        cells.append("" if s.p is None else f"{s.p:.3f}" if s.p >= 0.001 else "<0.001")
        cells.append(_VERDICTS[s.verdict].get(lang))
        cells.append(f"{result.fit_seconds / max(1, len(result.scores)):.2f} s")
        style = "bold" if result.name == comparison.winner else ""
        board.add_row(*(Text(c, style=style) for c in cells))
    out = console()
    out.print(board)
    for s in comparison.verdict.standings:
        for line in [s.result.trouble] if s.result.trouble else s.result.notes:
            out.print(clean(f"{s.result.name}: {line}"), markup=False, soft_wrap=True, style="dim")
    out.print()
    out.print(comparison.headline.get(lang), markup=False)
    if comparison.final:
        out.print(comparison.final.told.get(lang), markup=False)
    for notice in comparison.notices:
        out.print(f"  {notice.get(lang)}", markup=False, style="dim")


def _difference(standing: Any, judge: Any) -> str:
    if standing.difference is None:
        return ""
    gain = standing.difference.mean
    return f"{100 * gain:+.1f}" if judge.is_share else f"{gain:+.3f}"


def print_choice(choice: Any, lang: str) -> None:
    """The curve as a small table, the reason below it."""
    from rich.table import Table

    curve = choice.curve
    table = Table(box=None, pad_edge=False)
    table.add_column(curve.x_name.get(lang), justify="right")
    table.add_column(curve.y_name.get(lang), justify="right")
    table.add_column("")
    top = float(np.max(np.abs(curve.y))) or 1.0
    shown = _thinned(len(curve.x), int(np.argmin(np.abs(curve.x - choice.value))))
    for i in shown:
        error = f" ± {curve.error[i]:.4f}" if curve.error is not None else ""
        mark = " <" if curve.x[i] == choice.value else ""
        bar = "█" * round(20 * max(0.0, float(curve.y[i])) / top)
        table.add_row(f"{curve.x[i]:.6g}", f"{curve.y[i]:.4f}{error}", bar + mark)
    out = console()
    out.print(table)
    out.print(choice.reason.get(lang), markup=False)


def _thinned(n: int, keep: int, most: int = 40) -> list[int]:
    """Every row of a short curve; of a long one an even selection that has the chosen one."""
    if n <= most:
        return list(range(n))
    return sorted({*np.linspace(0, n - 1, most).astype(int).tolist(), keep})
