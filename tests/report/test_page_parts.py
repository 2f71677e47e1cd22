"""Parts of the report that a payload may have: views, images, the command, details."""

from __future__ import annotations

import csv
import io
import json
import re
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from page_tools import draw_lasso, lonely_row, normalised, place_of, save, shown_places, wait_until
from synthetic_payload import HOSTILE, both, make_synthetic

from nearfold.report.packing import pack_integers, pack_points
from nearfold.report.page_file import page_words, write_page


def page_source(name: str) -> str:
    return files("nearfold.report").joinpath("page", name).read_text(encoding="utf-8")


def test_headline_and_details_are_apart(visit, made):
    payload = {**made.payload, "headline": both("NCA wins.", "近邻成分分析胜出。")}
    payload["details"] = [both("It gains 2 points.", "高出 2 点。"), HOSTILE[1]]
    payload["holds_rows"] = both(
        "This file holds values of 400 rows.", "本文件含 400 个样本的数据。"
    )
    page = visit(payload)
    assert page.inner_text("h1") == "NCA wins."
    assert page.locator(".details p").all_inner_texts() == ["It gains 2 points.", HOSTILE[1]]
    assert "This file holds values of 400 rows." in page.inner_text("header")
    page.click("#language")
    assert page.locator(".details p").first.inner_text() == "高出 2 点。"
    assert "本文件含 400 个样本的数据。" in page.inner_text("header")


def test_the_command_can_be_copied(visit, made):
    command = "nearfold compare 'a b.csv' --label class --seed 0 <x>"
    page = visit({**made.payload, "command": command})
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    assert page.inner_text("#manifest pre") == command
    page.click("#manifest .copy")
    wait_until(page, "document.querySelector('.copy').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == command


def test_columns_say_how_they_are_used(visit, made):
    schema = [
        {
            "name": "colour",
            "role": "feature",
            "kind": both("3 categories", "3 个类别"),
            "use": both("one column per value", "每个取值一列"),
            "reason": None,
        },
        {"name": "height", "role": "feature", "kind": "number", "reason": ""},
    ]
    page = visit({**made.payload, "schema": schema})
    lines = page.locator("#schema tr").all_inner_texts()
    assert lines[0].split("\t") == ["Column", "Role", "Type", "Use", "Reason"]
    assert lines[1].split("\t")[:4] == ["colour", "feature", "3 categories", "one column per value"]
    assert lines[2].split("\t")[:3] == ["height", "feature", "number"]
    page.click("#language")
    assert "每个取值一列" in page.inner_text("#schema")
    assert "数值" in page.inner_text("#schema")


def test_a_space_can_be_seen_from_other_sides(visit):
    made = make_synthetic(n=120)
    other = np.random.default_rng(5).normal(size=(120, 2))
    space = made.payload["spaces"][2]
    view = {"name": both("separates classes best", "最能区分类别"), "xy": pack_points(other)}
    space["views"] = [{**view, "quality": {"trustworthiness": 0.5}}]
    space["n_dimensions"] = 9
    page = visit(made.payload, reduced_motion="reduce")
    choices = page.locator(".picture .view")
    assert [choices.nth(i).is_visible() for i in (0, 1)] == [False, True]
    options = page.locator(".picture:nth-child(2) .view option").all_inner_texts()
    assert options == ["both of 2 axes", "separates classes best"]
    page.select_option(".picture:nth-child(2) .view", index=1)
    wait_until(
        page, "window.nearfold.bench.right.view === window.nearfold.points.spaces[2].views[1]"
    )
    np.testing.assert_allclose(shown_places(page, "right"), normalised(other), atol=1e-4)
    caption = page.inner_text(".picture:nth-child(2) figcaption")
    assert "0.500" in caption
    page.click(".controls button")  # the left picture becomes the right one, as it is seen
    wait_until(page, "window.nearfold.bench.left.space.name === 'space 2'")
    np.testing.assert_allclose(shown_places(page, "left"), normalised(other), atol=1e-4)
    draw_lasso(page, "right")
    _, data = save(page, lambda: page.click(".csv"))
    head, first, *_ = list(csv.reader(io.StringIO(data.decode("utf-8-sig"))))
    assert head[-2:] == [f"space 2 (separates classes best) {axis}" for axis in "xy"]
    row = int(first[0].removeprefix("row-"))
    np.testing.assert_allclose([float(cell) for cell in first[-2:]], other[row], atol=1e-3)
    page.select_option(".picture:nth-child(2) .bar select:first-child", index=1)
    wait_until(page, "window.nearfold.bench.right.space.name === 'space 1'")
    assert not choices.nth(1).is_visible()


def test_rows_that_are_images_show_themselves(visit):
    made = make_synthetic(n=60)
    pixels = np.random.default_rng(0).integers(0, 256, (60, 4 * 3))
    made.payload["points"]["images"] = {
        "width": 4,
        "height": 3,
        "channels": 1,
        "values": pack_integers(pixels),
    }
    page = visit(made.payload)
    row = lonely_row(made.spaces[0])
    page.mouse.move(*place_of(page, "left", row))
    read = (
        "(one) => Array.from(one.getContext('2d').getImageData(0, 0, one.width, one.height).data)"
    )
    shown = np.array(page.locator(".tooltip .thumbnail").evaluate(read)).reshape(12, 4)
    np.testing.assert_array_equal(shown, np.column_stack([pixels[row]] * 3 + [np.full(12, 255)]))
    assert page.locator(".tooltip .thumbnail").bounding_box()["width"] >= 48
    page.mouse.click(*place_of(page, "left", row))
    assert page.locator(".neighbors .thumbnail").count() == 1 + 5 * 3
    first = page.locator(".near.original .thumbnail").first.evaluate(read)
    assert first[::4] == pixels[made.original[row][0]].tolist()


def test_what_the_data_are_is_said(visit, made):
    points = {
        **made.payload["points"],
        "about_data": both("Distances are of scaled columns.", "距离按标准化列计算。"),
    }
    page = visit({**made.payload, "points": points})
    assert "Distances are of scaled columns." in page.inner_text("#pictures")


def test_the_modules_run_when_they_are_served(browser, made):
    payload = {**made.payload, "lang": "zh", "words": page_words()}
    start = page_source("page.html").split("<script", 1)[0]
    start = re.sub("<meta http-equiv.*|<style>.*", "", start)
    text = json.dumps(payload).replace("<", "\\u003c")
    html = (
        f'{start}<script type="application/json" id="payload">{text}</script>'
        '<script type="module" src="report.js"></script>'
    )

    def answer(route: Any) -> None:
        name = urlsplit(route.request.url).path.strip("/")
        if not name:
            route.fulfill(body=html, content_type="text/html; charset=utf-8")
        else:
            route.fulfill(body=page_source(name), content_type="text/javascript; charset=utf-8")

    context = browser.new_context()
    page = context.new_page()
    page.route("http://localhost/**", answer)
    page.goto("http://localhost/")
    page.wait_for_selector("html[data-ready]")
    assert "各空间比较" in page.inner_text("main")
    assert page.is_hidden("#broken")
    context.close()


def test_a_damaged_file_says_so_in_both_languages(browser, made, tmp_path):
    path = write_page(made.payload, tmp_path / "r.html")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('id="payload">{', 'id="payload">{{'), encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("#broken:not([hidden])")
    assert "the file is damaged" in page.inner_text("#broken")
    assert "文件已损坏" in page.inner_text("#broken")
    context.close()
