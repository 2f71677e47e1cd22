"""Columns of images, as bytes or as paths of files, read as grey thumbnails of one size."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearfold.columns.frames import show
from nearfold.columns.specs import THUMBNAIL
from nearfold.errors import InputError
from nearfold.messages import Message
from nearfold.notation import Floats

if TYPE_CHECKING:
    import polars as pl

_PATH = r"(?i)\.(png|jpe?g|bmp|gif|webp|tiff?)$"
_LOOKED_AT = 20  # files looked for before a column is taken as paths of images


def are_image_paths(texts: pl.Series) -> bool:
    """Whether all texts end like image files."""
    return all(bool(part.str.contains(_PATH).all()) for part in (texts.head(50), texts))


def are_image_files(texts: pl.Series) -> bool:
    """Whether the first of these paths lead to files."""
    return all(_is_file(Path(text)) for text in texts.head(_LOOKED_AT))


def locate_images(frame: pl.DataFrame, data: Any) -> pl.DataFrame:
    """Paths of images that are relative to the file `data` they were read from, made absolute.

    Paths that lead to a file from the working directory stay as they are.
    """
    import polars as pl

    if not isinstance(data, str | Path):
        return frame
    folder = Path(data).parent.resolve()
    for name, column in zip(frame.columns, frame.get_columns(), strict=True):
        present = column.drop_nulls() if column.dtype == pl.String else column.head(0)
        if len(present) and are_image_paths(present) and not are_image_files(present):
            found = [_within(folder, text) for text in column]
            frame = frame.with_columns(pl.Series(name, found, dtype=pl.String))
    return frame


def _within(folder: Path, text: str | None) -> str | None:
    return str(folder / text) if text is not None and _is_file(folder / text) else text


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # no name that a file can have
        return False


def read_pixels(column: pl.Series) -> Floats:
    """The images of a column as grey thumbnails, row by row; NaN where a cell is missing."""
    values = np.full((len(column), THUMBNAIL**2), np.nan)
    for i, held in enumerate(column):
        if held is None:
            continue
        try:
            values[i] = _thumbnail(io.BytesIO(held) if isinstance(held, bytes) else Path(held))
        except FileNotFoundError:
            raise InputError(Message("columns.no_image_file", name=show(column.name), row=i + 1,
                                     path=show(held))) from None  # fmt: skip
        except Exception:  # decoders raise all sorts of errors for damaged files
            raise InputError(
                Message("columns.bad_image", name=show(column.name), row=i + 1)
            ) from None
    return values


def _thumbnail(source: Any) -> Floats:
    from PIL import Image

    with Image.open(source) as image:
        image.draft("L", (4 * THUMBNAIL, 4 * THUMBNAIL))  # a JPEG can be decoded smaller
        small = image.convert("L").resize((THUMBNAIL, THUMBNAIL))
        return np.asarray(small, dtype=np.float64).ravel() / 255
