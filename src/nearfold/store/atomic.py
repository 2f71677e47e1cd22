"""Files that are whole or not there: written beside their place, then moved into it.

The bytes go to a hidden temporary file in the same folder, are forced to the disk, and take the
file's name in one step (`os.replace`). Whatever happens before that step (an error, Ctrl-C,
kill -9, a full disk, a power cut) the old file stays as it was.

A killed process leaves its temporary file behind. A write to the same name removes it a day later.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from nearfold.errors import InputError, reason
from nearfold.messages import Message, sentences

_LONGEST_NAME = 200  # bytes; most file systems allow 255, and ours adds to it
_STALE = 24 * 3600  # seconds after which a temporary file is nobody's


def write_atomically(path: str | os.PathLike[str], write: Callable[[BinaryIO], Any]) -> Path:
    """Let `write` fill a file that then becomes `path`, whole, in one step; returns the path.

    A symbolic link stays one: what it points to is replaced. The mode of an old file is kept.
    """
    place = check_place(path)
    _remove_leftovers(place)
    temporary = place.with_name(f"{_prefix(place)}{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        _fill(temporary, place, write)
        os.replace(temporary, place)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            said = Message("file.not_written", name=place.name, why=reason(error))
            kept = [Message("file.unchanged")] if place.exists() else []
            raise InputError(sentences([said, *kept])) from error
        raise
    _force_folder(place.parent)
    return Path(path)


def check_place(path: str | os.PathLike[str]) -> Path:
    """Where a file of this name would be, links followed; refused if it is no place for one."""
    try:
        place = Path(os.path.realpath(path))
        mode = place.stat().st_mode if place.exists() else None
    except (ValueError, OSError) as error:  # a NUL inside, a loop of links, too long a name
        raise InputError(
            Message("file.bad_name", path=repr(str(path)), why=reason(error))
        ) from error
    if mode is not None and stat.S_ISDIR(mode):
        raise InputError(Message("cli.is_folder", name=str(path)))
    if mode is not None and not stat.S_ISREG(mode):
        raise InputError(Message("cli.is_device", name=str(path)))
    if not place.parent.is_dir():
        raise InputError(Message("file.no_folder", folder=str(place.parent)))
    return place


def _prefix(place: Path) -> str:
    name = place.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return f".{name}."


def _fill(temporary: Path, place: Path, write: Callable[[BinaryIO], Any]) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o666)  # less what the umask takes, as for any new file
    with os.fdopen(descriptor, "wb") as file:
        if place.exists() and hasattr(os, "fchmod"):
            os.fchmod(descriptor, stat.S_IMODE(place.stat().st_mode))
        write(file)
        file.flush()
        os.fsync(descriptor)


def _force_folder(folder: Path) -> None:
    """The new name, too, is on the disk after this, where the system lets one ask for it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_leftovers(place: Path) -> None:
    prefix, now = _prefix(place), time.time()
    with suppress(OSError):
        for name in os.listdir(place.parent):
            leftover = place.with_name(name)
            if name.startswith(prefix) and name.endswith(".tmp"):
                with suppress(OSError):  # another writer's, just renamed
                    if now - leftover.stat().st_mtime > _STALE:
                        leftover.unlink()
