"""inspect, verify, methods: what is in a model file, and what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nearfold.app.options import about, talking_options
from nearfold.messages import Message, catalogue


@click.command(
    help=about("inspect", "nearfold inspect pca.nearfold", "nearfold inspect pca.nearfold --json")
)
@click.argument("model")
@talking_options
def inspect(model: str, **options: Any) -> None:
    """What is in a model file: method, columns, versions, whether it holds training rows."""
    from nearfold.app.printing import Printer
    from nearfold.store.model_file import inspect as look

    out = Printer(options)
    card = look(model)
    out.json(card.as_dict()) if out.as_json else click.echo(card.text(out.lang))


@click.command(help=about("verify", "nearfold verify pca.nearfold"))
@click.argument("model")
@talking_options
def verify(model: str, **options: Any) -> None:
    """Check a model file to the last byte: lengths, hashes, shapes, and that it loads."""
    from nearfold.app.printing import Printer
    from nearfold.store.model_file import verify as check

    out = Printer(options)
    card = check(model)
    if out.as_json:
        out.json({"whole": True, **card.as_dict()})
    else:
        out.say(Message("cli.verified", name=Path(model).name, model=card.model), err=False)


@click.command(help=about("methods", "nearfold methods"))
@talking_options
def methods(**options: Any) -> None:
    """What there is: every method, in one line each."""
    from rich.table import Table

    from nearfold import registry
    from nearfold.app.printing import Printer, put

    out = Printer(options)
    if out.as_json:
        out.json([{"name": m.name, "kind": m.kind, "section": m.section, "summary": m.summary}
                  for m in registry.METHODS])  # fmt: skip
        return
    table = Table(box=None, pad_edge=False)
    for head in ("method", "method_kind", "book", "what"):
        table.add_column(out.text(Message(f"cli.head.{head}")), no_wrap=head == "method")
    for method in registry.METHODS:
        kind = out.text(Message(f"method_kind.{method.kind}"))
        id = f"summary.{method.name}"  # a method that is new may have no Chinese summary yet
        summary = Message(id) if id in catalogue("en") else method.summary
        table.add_row(method.name, kind, method.section, out.text(summary))
    put(table)
