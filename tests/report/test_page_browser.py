"""The report in a real browser, opened from a file, used by mouse and keys."""

from __future__ import annotations

import csv
import io
import struct
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.path import Path as Polygon
from page_tools import (
    draw_lasso,
    lonely_row,
    normalised,
    pixels_of,
    place_of,
    read_png,
    rows_inside,
    save,
    section_ids,
    selected_rows,
    shown_places,
    wait_until,
)
from synthetic_payload import (
    HOSTILE,
    make_hostile,
    make_synthetic,
    nearest_rows,
)

from nearfold.report.packing import pack_floats, pack_integers, pack_points

PAINTERS = pytest.mark.parametrize("query", ["?webgl", "?canvas"])


@pytest.mark.parametrize(
    ("lang", "words"),
    [
        ("en", ["The spaces compared", "Space 2 is best", "not shown with"]),
        ("zh", ["各空间比较", "空间 2 最好", "无法证实"]),
    ],
)
def test_report_in_both_languages(visit, made, lang, words):
    payload = {**made.payload}
    payload["leaderboard"] = [{**line} for line in payload["leaderboard"]]
    payload["leaderboard"][1]["verdict"] = "noise"
    page = visit(payload, lang)
    text = page.inner_text("body")
    for word in words:
        assert word in text
    assert page.get_attribute("html", "lang") == {"en": "en", "zh": "zh-Hans"}[lang]
    parts = "leaderboard pictures curves scree shepard confusion weights graph schema manifest"
    assert section_ids(page) == parts.split()


def test_language_can_be_switched(visit, made):
    page = visit(made.payload)
    page.click(".legend li:nth-child(2) button")
    page.click("#language")
    text = page.inner_text("body")
    assert "空间 2 最好" in text
    for english in (
        "Selection",
        "Colour by",
        "Verdict",
        "Save as CSV",
        "pieces",
        "Trustworthiness",
    ):
        assert english not in text
    assert "已选" in page.inner_text(".selection")
    page.click("#language")
    assert "Space 2 is best" in page.inner_text("h1")
    assert "可信度" not in page.inner_text("main")


@PAINTERS
def test_hover_tells_the_values_of_the_point(visit, made, query):
    page = visit(made.payload, query=query)
    assert (
        page.evaluate("window.nearfold.left.kind")
        == {"?webgl": "webgl2", "?canvas": "canvas"}[query]
    )
    row = lonely_row(made.spaces[0])
    page.mouse.move(*place_of(page, "left", row))
    tip = page.inner_text(".tooltip")
    assert tip.startswith(f"row-{row}\n")
    assert f"class {made.label[row]}" in tip
    assert str(made.height[row]) in tip  # one decimal: exact
    page.mouse.move(5, 5)
    assert page.is_hidden(".tooltip")


def test_click_shows_the_neighbours(visit, made):
    page = visit(made.payload)
    row = lonely_row(made.spaces[2])
    page.mouse.click(*place_of(page, "right", row))
    lists = page.evaluate(
        "[...document.querySelectorAll('.near')].map((near) => "
        "[...near.querySelectorAll('[data-row]')].map((one) => Number(one.dataset.row)))"
    )
    # The first space is measured in the picture, the last one in its own dimensions.
    expected = [
        made.original[row],
        nearest_rows(made.spaces[0], 5)[row],
        nearest_rows(made.spaces[2], 5)[row],
    ]
    assert lists == [one.tolist() for one in expected]
    heads = page.locator(".near h4").all_inner_texts()
    assert "picture" in heads[1]
    assert heads[2].startswith("space 2 · 2 dimensions")
    for head, rows in zip(heads[1:], expected[1:], strict=True):
        assert f"{len(set(rows) & set(expected[0]))} of 5 kept" in head
    marks = page.evaluate("window.nearfold.bench.left.marks")
    assert marks["centre"] == row
    assert marks["original"] == expected[0].tolist()
    assert marks["space"] == expected[1].tolist()
    page.keyboard.press("Escape")
    assert page.locator(".near").count() == 0


@pytest.mark.parametrize("side", ["left", "right"])
def test_lasso_selects_what_is_inside_in_both_pictures(visit, made, side):
    page = visit(made.payload)
    corners = draw_lasso(page, side)
    expected = rows_inside(page, side, corners)
    assert 10 < len(expected) < 390
    assert selected_rows(page, side) == expected
    assert selected_rows(page, "right" if side == "left" else "left") == expected
    assert f"{len(expected)} of 400 rows" in page.inner_text(".selection")
    # The breakdown by class.
    counts = page.locator(".selection td.number").all_inner_texts()
    assert sorted(map(int, counts)) == sorted(
        np.bincount(made.label[expected])[np.unique(made.label[expected])]
    )


def test_lasso_tool_after_zoom_and_pan(visit, made):
    page = visit(made.payload)
    page.click(".picture:nth-child(1) .tools:nth-of-type(1) button:nth-child(2)")
    page.evaluate("window.nearfold.left.view = { x: 0.2, y: -0.1, zoom: 1.7 }")
    corners = draw_lasso(page, "left", shift=False)
    places = shown_places(page, "left")
    corner_places = np.array(page.evaluate(
        "(all) => all.map(([x, y]) => window.nearfold.left.window.toPlace(x, y))", corners.tolist()
    ))  # fmt: skip
    expected = np.flatnonzero(Polygon(corner_places).contains_points(places)).tolist()
    assert expected
    assert selected_rows(page, "left") == expected


@PAINTERS
def test_colours_follow_the_column(visit, made, query):
    page = visit(made.payload, query=query)
    before = pixels_of(page, "right")
    row = lonely_row(made.spaces[2])
    x, y = np.round(page.evaluate(f"window.nearfold.right.screenOf({row})")).astype(int)
    hexes = ["#0072B2", "#E69F00", "#009E73", "#D55E00"]
    wanted = np.array([int(hexes[made.label[row]][i : i + 2], 16) for i in (1, 3, 5)])
    paper = np.array([0xFB, 0xFB, 0xFC])
    opacity = page.evaluate("window.nearfold.right.opacity")
    np.testing.assert_allclose(before[y, x], opacity * wanted + (1 - opacity) * paper, atol=3)
    np.testing.assert_array_equal(before[2, 2], paper)
    page.select_option("#colour", label="height")
    page.wait_for_selector(".ramp")
    after = pixels_of(page, "right")
    assert (before != after).any()
    options = page.locator("#colour option").all_inner_texts()
    assert options == [
        "class",
        "height",
        "other",
        "Trustworthiness",
        "Trustworthiness",
        "Held out",
        "Trustworthiness",
    ]
    page.select_option("#colour", index=5)
    page.wait_for_selector(".legend button:has-text('held out')")


def test_both_painters_paint_the_same_picture(visit, made):
    pictures = []
    for query in ("?webgl", "?canvas"):
        page = visit(made.payload, query=query)
        page.evaluate("window.nearfold.bench.selectRows(Array.from({ length: 150 }, (_, i) => i))")
        pictures.append(pixels_of(page, "left").astype(int))
    different = (np.abs(pictures[0] - pictures[1]).max(axis=2) > 60).mean()
    painted = (np.abs(pictures[0] - [0xFB, 0xFB, 0xFC]).max(axis=2) > 60).mean()
    assert painted > 0.01
    assert different < 0.3 * painted  # the canvas puts marks on whole pixels


@PAINTERS
def test_morph_ends_where_the_right_picture_is_and_returns(visit, made, query):
    page = visit(made.payload, query=query)
    np.testing.assert_allclose(shown_places(page, "left"), normalised(made.spaces[0]), atol=1e-4)
    page.evaluate("window.nearfold.bench.pace = () => 300")  # ms
    button = page.locator(".controls button")
    assert button.inner_text() == "Morph space 0 → space 2"
    button.click()
    wait_until(page, "window.nearfold.left.mix > 0")  # on the way
    wait_until(page, "!window.nearfold.left.target")
    np.testing.assert_allclose(shown_places(page, "left"), normalised(made.spaces[2]), atol=1e-4)
    np.testing.assert_array_equal(pixels_of(page, "left"), pixels_of(page, "right"))
    assert button.inner_text() == "Back to space 0"
    button.click()
    wait_until(page, "!window.nearfold.left.target")
    np.testing.assert_allclose(shown_places(page, "left"), normalised(made.spaces[0]), atol=1e-4)


def test_reduced_motion_needs_no_journey(visit, made):
    page = visit(made.payload, reduced_motion="reduce")
    page.click(".controls button")
    assert page.evaluate("window.nearfold.left.target") is None
    np.testing.assert_allclose(shown_places(page, "left"), normalised(made.spaces[2]), atol=1e-4)


def test_leaderboard_sorts_and_shows_a_space(visit, made):
    page = visit(made.payload)
    names = lambda: page.locator(".leaderboard tbody .name").all_inner_texts()  # noqa: E731
    assert names() == ["space 2", "space 1", "space 0", "slow"]
    page.click(".leaderboard thead th:nth-child(6) button")
    assert names() == ["space 2", "space 1", "space 0", "slow"]  # slowest first, unknown last
    page.click(".leaderboard thead th:nth-child(6) button")
    assert names() == ["space 0", "space 1", "space 2", "slow"]
    assert page.get_attribute(".leaderboard thead th:nth-child(6)", "aria-sort") == "ascending"
    page.click(".leaderboard tbody tr:nth-child(2) .link")
    wait_until(page, "window.nearfold.right.positions === window.nearfold.points.spaces[1].places")
    np.testing.assert_allclose(shown_places(page, "right"), normalised(made.spaces[1]), atol=1e-4)
    dots = page.evaluate(
        """[...document.querySelectorAll(".leaderboard .interval")].map((svg) => {
            const [reach, dot] = [svg.querySelector(".reach"), svg.querySelector(".dot")];
            return [reach.x1, reach.x2, dot.cx].map((length) => length.baseVal.value);
        })"""
    )
    assert len(dots) == 3
    for low, high, middle in dots:
        assert low < middle < high
        assert middle == pytest.approx((low + high) / 2, abs=0.01)


def test_csv_has_the_selected_rows_and_nothing_that_runs(visit, made):
    payload = make_hostile().payload
    page = visit(payload)
    corners = draw_lasso(page, "left")
    expected = rows_inside(page, "left", corners)
    name, data = save(page, lambda: page.click(".csv"))
    assert name.endswith(".csv")
    assert data.startswith(b"\xef\xbb\xbf")
    lines = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    assert lines[0][:4] == ["id", "class", "'=1+1", "other"]
    assert len(lines) - 1 == len(expected)
    ids = payload["points"]["ids"]
    hostile = make_hostile()
    for line, row in zip(lines[1:], expected, strict=True):
        neutral = "'=1+1" if ids[row] == "=1+1" else ids[row].replace("\ud800", "\ufffd")
        assert line[0] == neutral
        assert float(line[2]) == hostile.height[row]
        assert [float(one) for one in line[4:6]] == pytest.approx(hostile.spaces[0][row], abs=1e-3)
    assert not any(cell.startswith(("=", "+", "@")) for line in lines for cell in line)


def test_csv_cells(visit, made):
    page = visit(made.payload)
    for value, cell in [
        ("=1+1", "'=1+1"), ("+1 234", "'+1 234"), ("-x", "'-x"), ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "\"'\t=1\""), ("＝1+1", "'＝1+1"), ("-1.5", "-1.5"), (-1.5, "-1.5"),
        ('a "b", c', '"a ""b"", c"'), ("plain", "plain"), (None, ""),
    ]:  # fmt: skip
        assert page.evaluate("(value) => window.nearfold.csvCell(value)", value) == cell


@PAINTERS
def test_png_is_a_picture_of_twice_the_size(visit, made, query):
    page = visit(made.payload, query=query)
    name, data = save(page, lambda: page.click(".picture:nth-child(2) .tool:text('PNG')"))
    assert name == "clusters.csv - space 2.png"
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    points = page.evaluate("[window.nearfold.right.width, window.nearfold.right.height]")
    assert width > 2 * points[0] + 200  # the legend
    assert height > 2 * points[1] + 60  # title and note
    colours = np.unique(read_png(data).astype(int) @ [65536, 256, 1])
    assert len(colours) > 50


def test_svg_has_a_mark_for_each_point(visit, made):
    page = visit(made.payload)
    page.evaluate("window.nearfold.bench.click(7)")
    name, data = save(page, lambda: page.click(".picture:nth-child(2) .tool:text('SVG')"))
    assert name.endswith(".svg")
    root = ElementTree.fromstring(data)
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    assert len(root.findall(f"{space}g/{space}path")) == 400
    assert len(root.findall(f"{space}g/{space}rect")) == 5  # near in the data
    assert len(root.findall(f"{space}g/{space}circle")) == 6  # near in this space, and itself
    texts = [one.text for one in root.iter(f"{space}text")]
    assert texts[:2] == ["clusters.csv · space 2", "both of 2 axes"]
    assert texts[2:] == ["class", "class 0", "class 1", "class 2", "class 3"]


def test_svg_of_very_many_points_holds_one_image(visit):
    page = visit(make_synthetic(n=21_000, n_spaces=2).payload)
    _, data = save(page, lambda: page.click(".picture:nth-child(1) .tool:text('SVG')"))
    root = ElementTree.fromstring(data)
    space = "{http://www.w3.org/2000/svg}"
    images = root.findall(f"{space}g/{space}image")
    assert len(images) == 1
    assert images[0].get("href", "").startswith("data:image/png;base64,")
    assert any(
        "21,000 points, stored as one image" in (one.text or "")
        for one in root.iter(f"{space}text")
    )


def test_keys_move_the_picture(visit, made):
    page = visit(made.payload)
    page.focus(".picture:nth-child(1) canvas:last-of-type")
    view = lambda: page.evaluate("window.nearfold.left.view")  # noqa: E731
    page.keyboard.press("ArrowRight")
    assert view()["x"] > 0
    page.keyboard.press("ArrowUp")
    assert view()["y"] > 0
    page.keyboard.press("+")
    assert view()["zoom"] == 1.25
    page.keyboard.press("-")
    assert view()["zoom"] == 1.0
    page.keyboard.press("0")
    assert view() == {"x": 0, "y": 0, "zoom": 1}
    page.keyboard.press("l")
    assert page.get_attribute(".picture:nth-child(1) .tool:nth-child(2)", "aria-pressed") == "true"
    page.keyboard.press("Enter")
    middle = int(np.argmin(np.linalg.norm(shown_places(page, "left"), axis=1)))
    assert page.evaluate("window.nearfold.bench.clicked") == middle
    page.keyboard.press("Escape")
    assert page.evaluate("window.nearfold.bench.clicked") == -1


def test_everything_can_be_reached_by_tab(visit, made):
    page = visit(made.payload)
    page.evaluate("document.activeElement.blur()")
    name = "((one) => one.id || one.textContent.trim() || one.tagName)(document.activeElement)"
    reached = set()
    for _ in range(48):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(name))
    assert {"language", "theme", "colour", "size", "PNG", "SVG", "CANVAS"} <= reached
    assert {"Morph space 0 → space 2", "space 2", "Verdict"} <= reached
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, select, canvas[tabindex], input')]"
        ".filter((one) => !one.textContent.trim() && !one.closest('label'))"
        ".filter((one) => !one.getAttribute('aria-label')).length"
    )
    assert unnamed == 0


def test_mouse_pans_and_the_wheel_zooms_only_a_chosen_picture(visit, made):
    page = visit(made.payload)
    x, y = place_of(page, "left", 0)
    page.mouse.move(x, y)
    page.mouse.wheel(0, -100)
    page.wait_for_timeout(100)
    assert page.evaluate("window.nearfold.left.view.zoom") == 1
    canvas = page.evaluate("window.nearfold.left.overlay.getBoundingClientRect().toJSON()")
    x, y = round(canvas["x"]) + 200, round(canvas["y"]) + 200  # a wheel knows whole pixels only
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 50, y - 20, steps=3)
    page.mouse.up()
    scale = page.evaluate("window.nearfold.left.window.scale")
    view = page.evaluate("window.nearfold.left.view")
    assert view["x"] == pytest.approx(-50 / scale)
    assert view["y"] == pytest.approx(-20 / scale)
    pixel = [x + 50 - canvas["x"], y - 20 - canvas["y"]]
    under = f"window.nearfold.left.window.toPlace({pixel[0]}, {pixel[1]})"
    before = page.evaluate(under)
    assert page.evaluate("document.activeElement === window.nearfold.left.overlay")
    page.mouse.wheel(0, -100)
    wait_until(page, "window.nearfold.left.view.zoom > 1.1")
    assert page.evaluate(under) == pytest.approx(before, abs=1e-6)


def test_legend_highlights_classes(visit, made):
    page = visit(made.payload)
    page.click(".legend li:nth-child(2) button")
    assert selected_rows(page, "right") == np.flatnonzero(made.label == 1).tolist()
    page.click(".legend li:nth-child(4) button")
    assert selected_rows(page, "left") == np.flatnonzero(np.isin(made.label, [1, 3])).tolist()
    page.click(".legend li:nth-child(2) button")
    page.click(".legend li:nth-child(4) button")
    assert page.evaluate("window.nearfold.left.selection") is None


def test_hostile_text_stays_text(visit):
    page = visit(make_hostile().payload)
    page.mouse.move(*place_of(page, "left", 0))
    page.mouse.click(*place_of(page, "left", 0))
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert page.inner_text("h1") == HOSTILE[1]
    names = page.locator(".legend .name").all_inner_texts()
    assert names[:3] == list(HOSTILE[:3])
    assert "{{script}} {n}" in names[3]
    for lang in ("zh", "en"):
        page.click("#language")
        assert HOSTILE[3] in page.inner_text("header"), lang


def test_parts_without_data_are_left_out(visit):
    page = visit({"version": 1, "title": "nothing"})
    assert page.inner_text("h1") == "nothing"
    assert page.locator("main section").count() == 0
    few = make_synthetic(n=30, n_spaces=2).payload
    few["points"].update(ids=None, columns=[], default_color=None)
    for space in few["spaces"]:
        space.update(quality=None, per_row=None, held_out=None, shown=None)
    for part in (
        "curves",
        "graph",
        "weights",
        "original_neighbors",
        "leaderboard",
        "score",
        "winner",
        "final",
    ):
        few[part] = None
    page = visit(few)
    assert section_ids(page) == ["pictures", "scree", "shepard", "confusion", "schema", "manifest"]
    page.mouse.click(*place_of(page, "left", 3))
    assert page.locator(".near.space").count() == 2
    assert page.locator(".near.original").count() == 0


def test_arrays_arrive_as_they_were_packed(visit):
    made = make_synthetic(n=50)
    code = np.where(np.arange(50) % 7 == 0, -1, np.arange(50) % 4)
    number = np.where(np.arange(50) % 5 == 0, np.nan, np.geomspace(1e-3, 1e9, 50))
    Z = made.spaces[0].copy()
    Z[4] = np.nan
    columns = made.payload["points"]["columns"]
    columns[0]["values"] = pack_integers(code)
    columns[2]["values"] = pack_floats(number)
    made.payload["spaces"][0]["xy"] = pack_points(Z)
    page = visit(made.payload)
    values = "(i) => Array.from(window.nearfold.points.columns[i].values, (one) => String(one))"
    assert [int(one) for one in page.evaluate(values, 0)] == code.tolist()
    np.testing.assert_array_equal([float(one) for one in page.evaluate(values, 1)], made.height)
    back = np.array([float(one) for one in page.evaluate(values, 2)])
    np.testing.assert_allclose(back, number, atol=1e9 / 65534)
    rows = page.evaluate("Array.from(window.nearfold.points.neighborRows)")
    assert rows == made.original.ravel().tolist()
    assert page.evaluate("window.nearfold.points.spaces[0].neighborsOf(4, 5)") == []
    assert "(no value)\n8" in page.inner_text(".legend")
    places = shown_places(page, "left")
    np.testing.assert_allclose(np.delete(places, 4, 0), normalised(np.delete(Z, 4, 0)), atol=1e-4)
    page.click(".legend button:has-text('(no value)')")
    assert selected_rows(page, "left") == np.flatnonzero(code < 0).tolist()


def test_two_fingers_zoom(visit, made):
    page = visit(made.payload, has_touch=True)
    box = page.locator(".host").nth(0).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = page.context.new_cdp_session(page)
    for kind, apart in (("touchStart", 40), ("touchMove", 60), ("touchMove", 80)):
        fingers = [{"x": x - apart, "y": y, "id": 1}, {"x": x + apart, "y": y, "id": 2}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert page.evaluate("window.nearfold.left.view.zoom") == pytest.approx(2, rel=0.1)
    assert page.evaluate("window.nearfold.bench.clicked") == -1


def test_sampled_points_are_said(visit):
    payload = make_synthetic(n=60).payload
    payload["points"]["of"] = 70_000
    assert "60 of 70,000 rows" in visit(payload).inner_text("#pictures .notice")


def test_more_than_ten_classes_get_other_marks(visit):
    made = make_synthetic(n=300, classes=23)
    page = visit(made.payload)
    look = np.array(page.evaluate("Array.from(window.nearfold.left.look)")).reshape(-1, 4)
    np.testing.assert_array_equal(look[:, 3], made.label // 10)
    pairs = {tuple(line) for line in look.tolist()}
    assert len(pairs) == 23


def test_dark_paper_by_the_system_and_by_hand(visit, made):
    page = visit(made.payload, color_scheme="dark")
    np.testing.assert_array_equal(pixels_of(page, "left")[1, 1], [0x18, 0x1C, 0x22])
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    page.click("#theme")
    np.testing.assert_array_equal(pixels_of(page, "left")[1, 1], [0xFB, 0xFB, 0xFC])
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_lost_graphics_card_comes_back(visit, made):
    page = visit(made.payload, query="?webgl")
    before = pixels_of(page, "left")
    card = "window.nearfold.left.painter.gl"
    page.evaluate(f"(window.cut = {card}.getExtension('WEBGL_lose_context')).loseContext()")
    wait_until(page, f"{card}.isContextLost()")
    page.evaluate("window.cut.restoreContext()")
    wait_until(page, f"!{card}.isContextLost()")
    page.wait_for_timeout(200)
    np.testing.assert_array_equal(pixels_of(page, "left"), before)


def test_a_hundred_thousand_points_move_and_rest(visit, large):
    page = visit(large.payload)
    box = page.locator(".host").nth(1).bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 280, box["y"] + 240, steps=12)
    page.mouse.up()
    assert page.evaluate("window.nearfold.right.view.x") < 0
    wait_until(page, "window.nearfold.right.drawn === 100000")
    page.evaluate("window.nearfold.bench.click(77)")
    assert page.locator(".near.space li").count() == 10


def test_fewer_points_are_drawn_while_a_slow_machine_moves_them(visit, made):
    page = visit(make_synthetic(n=20_000, n_spaces=2, search=False).payload)
    counts = page.evaluate(
        """() => {
            const { frames } = window.nearfold.left;
            const counts = [];
            const paint = frames.paint;
            frames.paint = (count) => counts.push(count);
            for (let i = 0; i < 30; i += 1) { // a frame every 100 ms
                frames.stirred = true;
                frames.frame(1e7 + 100 * i);
            }
            frames.movedAt = -Infinity;
            frames.frame(2e7);
            frames.paint = paint;
            return counts;
        }"""
    )
    assert counts[0] == 20_000
    assert counts[-2] == 6_000  # the fewest
    assert counts[-1] == 20_000  # at rest
    assert counts[:-1] == sorted(counts[:-1], reverse=True)


def test_fits_a_narrow_window(visit, made):
    for width in (900, 420):
        page = visit(made.payload, viewport={"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
