"""What tests of the report's page do to it, and what they read from it."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.image import imread
from matplotlib.path import Path as Polygon
from synthetic_payload import nearest_rows

LASSO = [(0.1, 0.1), (0.62, 0.15), (0.7, 0.55), (0.35, 0.8), (0.12, 0.5)]  # shares of the picture


def place_of(page: Any, side: str, row: int) -> tuple[float, float]:
    box = page.locator(".host").nth(("left", "right").index(side)).bounding_box()
    x, y = page.evaluate(f"window.nearfold.{side}.screenOf({row})")
    return box["x"] + 1 + x, box["y"] + 1 + y  # 1: the frame


def lonely_row(Z: np.ndarray, rank: int = 0) -> int:
    """A row that no other is near to, so that a pointer can only mean it."""
    return int(np.argsort(-np.linalg.norm(Z - Z[nearest_rows(Z, 1)[:, 0]], axis=1))[rank])


def shown_places(page: Any, side: str) -> np.ndarray:
    return np.array(page.evaluate(f"Array.from(window.nearfold.{side}.positions)")).reshape(-1, 2)


def selected_rows(page: Any, side: str) -> list[int]:
    return page.evaluate(f"[...(window.nearfold.{side}.selection ?? []).keys()]"
                         f".filter((i) => window.nearfold.{side}.selection[i])")  # fmt: skip


def normalised(Z: np.ndarray) -> np.ndarray:
    middle = (Z.min(axis=0) + Z.max(axis=0)) / 2
    return (Z - middle) / ((Z.max(axis=0) - Z.min(axis=0)).max() / 2)


def section_ids(page: Any) -> list[str]:
    return page.evaluate("[...document.querySelectorAll('main section[id]')].map((one) => one.id)")


def draw_lasso(page: Any, side: str, shift: bool = True) -> np.ndarray:
    """Draw one by hand; returns its corners in pixels of the picture."""
    box = page.locator(".host").nth(("left", "right").index(side)).bounding_box()
    corners = np.round([(a * box["width"], b * box["height"]) for a, b in LASSO])
    if shift:
        page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 1 + corners[0, 0], box["y"] + 1 + corners[0, 1])
    page.mouse.down()
    for x, y in corners[1:]:
        page.mouse.move(box["x"] + 1 + x, box["y"] + 1 + y)
    page.mouse.up()
    if shift:
        page.keyboard.up("Shift")
    return corners


def rows_inside(page: Any, side: str, corners: np.ndarray) -> list[int]:
    scale, width, height = page.evaluate(
        f"(({{ window: w }}) => [w.scale, w.width, w.height])(window.nearfold.{side})"
    )
    places = shown_places(page, side)
    pixels = np.column_stack([places[:, 0] * scale + width / 2, height / 2 - places[:, 1] * scale])
    return np.flatnonzero(Polygon(corners).contains_points(pixels)).tolist()


def pixels_of(page: Any, side: str) -> np.ndarray:
    """The picture's points as they are on the screen, from a fresh drawing."""
    picture = page.evaluate(
        """(side) => {
            const scatter = window.nearfold[side];
            scatter.paint(scatter.n);
            return scatter.painter.canvas.toDataURL("image/png");
        }""",
        side,
    )
    return read_png(base64.b64decode(picture.partition(",")[2]))


def read_png(data: bytes) -> np.ndarray:
    return (imread(io.BytesIO(data))[:, :, :3] * 255).round().astype(np.uint8)


def wait_until(page: Any, condition: str) -> None:
    """Playwright's own way evaluates texts inside the page, which the page's policy forbids."""
    for _ in range(1000):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(10)
    raise AssertionError(f"never: {condition}")


def save(page: Any, click: Callable[[], None]) -> tuple[str, bytes]:
    with page.expect_download() as waiting:
        click()
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()
