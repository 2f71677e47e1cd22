"""What a reader sees: nothing overlaps, nothing is cut, nothing jumps."""

from __future__ import annotations

import io
import itertools
import struct
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from page_tools import draw_lasso, save, wait_until
from synthetic_payload import make_synthetic

PHONE = {"viewport": {"width": 390, "height": 844}}
CHINESE = [
    "山鸢尾",
    "变色鸢尾的一个变种",
    "维吉尼亚鸢尾",
    "其他",
    "未知类别",
    "杂交品种甲",
    "杂交品种乙",
]
LONG = [f"a rather long name of class {i}" for i in range(12)]


def boxes_of(page: Any, selector: str) -> list[dict[str, float]]:
    return page.evaluate(
        "(selector) => [...document.querySelectorAll(selector)]"
        ".map((one) => one.getBoundingClientRect().toJSON())",
        selector,
    )


def touch(a: dict[str, float], b: dict[str, float]) -> bool:
    across = min(a["right"], b["right"]) - max(a["left"], b["left"])
    down = min(a["bottom"], b["bottom"]) - max(a["top"], b["top"])
    return across > 1 and down > 1  # a pixel: boxes are rounded


@pytest.mark.parametrize("screen", [{}, PHONE])
@pytest.mark.parametrize("labels", [CHINESE, LONG, list("0123456789")])
def test_names_in_the_confusion_matrix_neither_touch_nor_are_cut(visit, labels, screen):
    payload = make_synthetic(n=60).payload
    counts = np.eye(len(labels), dtype=int) * 5 + 1
    payload["confusion"] = [{"space": "PCA", "labels": labels, "counts": counts.tolist()}]
    page = visit(payload, lang="zh", **screen)
    [frame] = boxes_of(page, ".heat")
    texts = boxes_of(page, ".heat text")
    assert len(texts) >= 2 + 2 * len(labels)
    for one in texts:
        assert one["left"] >= frame["left"] - 1
        assert one["right"] <= frame["right"] + 1
        assert one["top"] >= frame["top"] - 1
        assert one["bottom"] <= frame["bottom"] + 1
    for one, other in itertools.combinations(texts, 2):
        assert not touch(one, other)


@pytest.mark.parametrize("width", [1400, 1000])
def test_a_click_or_a_lasso_moves_nothing_on_the_page(visit, width):
    made = make_synthetic(classes=12)
    page = visit(made.payload, viewport={"width": width, "height": 1000})
    seen = "[scrollY, document.documentElement.scrollHeight, ...boxes]"
    layout = (
        "(() => { const boxes = [...document.querySelectorAll('section[id], .host, .side')].map("
        f"(one) => JSON.stringify(one.getBoundingClientRect())); return {seen}; }})()"
    )
    before = page.evaluate(layout)
    page.evaluate("window.nearfold.bench.click(3)")
    assert page.locator(".near").count() == 3
    assert page.evaluate(layout) == before
    draw_lasso(page, "left")
    assert page.locator(".selection tr").count() > 2
    assert page.evaluate(layout) == before
    [side] = boxes_of(page, ".side")
    for panel in boxes_of(page, ".side .panel"):  # each can be seen, and scrolled by itself
        assert panel["bottom"] <= side["bottom"] + 1
        assert panel["height"] > 80


def test_the_selector_names_the_space_that_is_drawn(visit, made):
    page = visit(made.payload, reduced_motion="reduce")
    named = (
        "[...document.querySelectorAll('.picture')].map((one) =>"
        " one.querySelector('select').selectedIndex)"
    )
    assert page.evaluate(named) == [0, 2]
    page.click(".controls button")
    wait_until(page, "window.nearfold.bench.left.space.name === 'space 2'")
    assert page.evaluate(named) == [2, 2]
    page.click(".controls button")
    wait_until(page, "window.nearfold.bench.left.space.name === 'space 0'")
    assert page.evaluate(named) == [0, 2]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_phone_shows_score_interval_and_verdict(visit, made, lang):
    payload = {**made.payload, "leaderboard": [{**x} for x in made.payload["leaderboard"]]}
    payload["leaderboard"][0]["verdict"] = "not_shown"
    payload["leaderboard"][0]["name"] = "WeightedEuclidean"
    page = visit(payload, lang, **PHONE)
    for selector in (".figures", ".interval", ".verdict", ".difference"):
        boxes = boxes_of(page, f".leaderboard tbody {selector}")
        assert len(boxes) >= 3
        for box in boxes:
            assert box["left"] >= 0
            assert 0 < box["width"]
            assert box["right"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    [first, *_] = page.locator(".leaderboard tbody tr").all_inner_texts()
    assert ("Peak memory" if lang == "en" else "内存峰值") in page.evaluate(
        "[...document.querySelectorAll('.leaderboard td')].map((one) =>"
        " getComputedStyle(one, '::before').content).join()"
    ), first


def test_the_leaderboard_fits_a_usual_screen(visit, made):
    payload = {**made.payload, "score": {**made.payload["score"], "is_share": True}}
    payload["leaderboard"] = [{**line, "verdict": "not_shown"} for line in payload["leaderboard"]]
    payload["leaderboard"][0]["about"] = "NeighborhoodComponentsAnalysis(n_components=32)"
    for lang, width in itertools.product(("en", "zh"), (1400, 1000)):
        page = visit(payload, lang, viewport={"width": width, "height": 900})
        inner, outer = page.evaluate(
            "((one) => [one.scrollWidth, one.clientWidth])(document.querySelector('.scroll'))"
        )
        assert inner <= outer


def test_png_has_title_legend_and_colour_scale(visit, made):
    page = visit(made.payload, device_scale_factor=1)
    push = lambda: page.click(".picture:nth-child(2) .tool:text('PNG')")  # noqa: E731
    width, height = page.evaluate("[window.nearfold.right.width, window.nearfold.right.height]")

    def picture() -> np.ndarray:
        _, data = save(page, push)
        assert struct.unpack(">II", data[16:24])[0] > 2 * width + 200
        return (imread(io.BytesIO(data))[:, :, :3] * 255).round().astype(int)

    def count(part: np.ndarray, colour: tuple[int, int, int]) -> int:
        return int((np.abs(part - colour).max(axis=2) < 12).sum())

    image = picture()
    side = image[:, int(2 * width) + 2 :]
    for colour in ((0x00, 0x72, 0xB2), (0xE6, 0x9F, 0x00), (0x00, 0x9E, 0x73), (0xD5, 0x5E, 0x00)):
        assert count(side, colour) > 100  # the marks of the classes
    ink = (0x1B, 0x1F, 0x24)
    assert count(side, ink) > 200  # their names
    assert count(image[:60, : int(2 * width)], ink) > 200  # the title
    assert count(image[int(2 * height) + 70 :, : int(2 * width)], ink) > 100  # the note
    page.select_option("#colour", label="height")
    page.wait_for_selector(".ramp")
    scale = picture()[:, int(2 * width) + 2 :]
    assert len(np.unique(scale.reshape(-1, 3), axis=0)) > 100  # from dark blue to yellow
    assert count(scale, (0x00, 0x22, 0x4E)) > 20


def test_letters_of_charts_can_be_read_on_a_phone(visit, made):
    page = visit(made.payload, **PHONE)
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg.chart')].map((one) =>"
        " 12 * one.getBoundingClientRect().width / one.viewBox.baseVal.width)"
    )
    assert len(sizes) >= 4
    assert min(sizes) > 10


def test_the_quality_of_many_dimensions_fits_a_phone(visit, made):
    """Beside that of the picture: two columns of numbers below it."""
    quality = dict.fromkeys(
        ("trustworthiness", "continuity", "overlap", "shepard", "stress"), 0.812
    )
    spaces = [
        {**space, "n_dimensions": 61, "quality": quality, "picture_quality": quality}
        for space in made.payload["spaces"]
    ]
    page = visit({**made.payload, "spaces": spaces}, "en", **PHONE)
    assert page.locator(".quality").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
