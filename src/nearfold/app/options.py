"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path

import click

from nearfold.errors import InputError
from nearfold.study.told import LANGUAGES

LANG = click.option(
    "--lang",
    type=click.Choice(LANGUAGES),
    default="en",
    show_default=True,
    help="Language of messages.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
SEED = click.option("--seed", default=0, show_default=True, help="Same seed, same result.")
FOLDS = click.option("--folds", default=5, show_default=True, help="Parts held out in turn.")
LEARNER = click.option(
    "-k", "--neighbors", default=5, show_default=True, help="Neighbours of the kNN judge."
)


def refuse_outputs(data: str, *paths: str | None) -> None:
    """What cannot be written, or would overwrite what is read, is found out before the work."""
    for path in paths:
        if not path or path == "-":
            continue
        if "\0" in path or not Path(path).resolve().parent.is_dir():
            raise InputError(f"there is no folder {Path(path).parent} for {Path(path).name}.")
        if data != "-" and "\0" not in data and Path(path).resolve() == Path(data).resolve():
            raise InputError(f"{Path(path).name} is what is read: write to another file.")
