"""What the page says: one language, one format of a score, numbers of what is drawn."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest
from page_tools import place_of
from synthetic_payload import Synthetic, both, make_synthetic

# Keys of a keyboard, formats of files, the names of this program and of the other language.
ALLOWED = {"Nearfold", "CSV", "PNG", "SVG", "Shift", "Esc", "Ctrl", "English", "Python"}
SAID = """() => {
    const found = [document.body.innerText];
    for (const one of document.querySelectorAll("body *")) {
        for (const name of ["title", "aria-label", "data-name", "label"]) {
            found.push(one.getAttribute(name) ?? "");
        }
        if (one.matches("svg text, svg title, option")) found.push(one.textContent);
    }
    return found.join("\\n");
}"""


@pytest.fixture
def payload() -> dict[str, Any]:
    """A report that has everything, its spaces called as methods are."""
    made: Synthetic = make_synthetic(n=80)
    payload = deepcopy(made.payload)
    names = {"space 0": "raw", "space 1": "PCA", "space 2": "NCA"}
    payload["score"].update(is_share=True, name=both("accuracy", "准确率"), column="种类")
    payload["winner"] = "NCA"
    for part in (payload["leaderboard"], payload["spaces"]):
        for one in part:
            one["name"] = names.get(one["name"], one["name"])
    for part in ("shepard", "confusion", "weights"):
        for one in payload[part]:
            one["space"] = names[one["space"]]
    return payload


def test_no_english_is_left_in_the_chinese_page(visit, payload):
    verdicts = ["better", "worse", "not_shown", "uncompared", "failed", "unfinished", "reference"]
    line = payload["leaderboard"][1]
    payload["leaderboard"] = [{**line, "verdict": verdict, "about": None} for verdict in verdicts]
    payload["schema"] = [
        {"name": "高度", "role": role, "kind": kind, "reason": ""}
        for role, kind in zip(
            ["feature", "label", "target", "id", "excluded", "constant", "text"],
            ["number", "whole number", "boolean", "text", "category", "date", "nested"],
            strict=True,
        )
    ]
    payload.update(corrected_for=3, command="命令", manifest=[["Nearfold", "0.1"]], source="表")
    payload["points"]["of"] = 500
    payload["weights"][0]["total"] = 50
    data = {"clusters.csv", "class", "height", "other", "row", "sha"}
    methods = {"PCA", "NCA"}
    page = visit(payload, "zh")
    page.mouse.click(*place_of(page, "left", 3))
    page.mouse.move(*place_of(page, "left", 3))
    page.click(".legend li:nth-child(1) button")
    words = set(re.findall("[A-Za-z]{3,}", page.evaluate(SAID).replace("clusters.csv", "")))
    assert words - ALLOWED - data - methods == set()


def test_methods_have_their_chinese_name_beside_the_english_one(visit, payload):
    payload["spaces"][2]["name"] = payload["leaderboard"][0]["name"] = "近邻"
    page = visit(payload, "zh")
    names = page.locator(".leaderboard .name").all_inner_texts()
    assert names[:3] == ["近邻", "主成分分析（PCA）", "原始列"]
    assert page.locator("#scree h3").inner_text() == "主成分分析（PCA）"
    assert "主成分分析（PCA）" in page.inner_text("#curves .keys")
    options = page.locator(".picture:nth-child(1) .bar option").all_inner_texts()
    assert options[0] == "原始列 · 2 维"
    page.click("#language")
    assert page.locator(".leaderboard .name").all_inner_texts()[:3] == ["近邻", "PCA", "raw"]
    assert "主成分分析" not in page.evaluate(SAID)


def test_a_share_is_written_as_a_percentage_everywhere(visit, payload):
    payload["confusion"] = payload["confusion"][:1]
    page = visit(payload)
    board = page.inner_text("#leaderboard")
    assert "97.0 % [95.0, 99.0]" in board
    assert "+17.0 [+16.0, +18.0] p = 0.003" in board
    assert "Guessing would score 25.0 %." in board
    assert not re.search(r"0\.9\d|0\.25", board)
    ticks = page.locator("#curves svg text[text-anchor=end]").all_text_contents()
    assert "80 %" in ticks
    assert all(tick.endswith(" %") for tick in ticks)
    assert re.search(r"rows predicted correctly \(\d+\.\d %\)", page.inner_text("#confusion"))
    page.click("#language")
    assert "97.0% [95.0, 99.0]" in page.inner_text("#leaderboard")
    assert "80%" in page.locator("#curves svg text[text-anchor=end]").all_text_contents()


def test_other_scores_have_three_decimals_and_may_be_losses(visit, payload):
    payload["score"].update(is_share=False, lower_is_better=True, chance=1.0)
    page = visit(payload)
    board = page.inner_text("#leaderboard")
    assert "0.970 [0.950, 0.990]" in board
    assert "+0.170 [+0.160, +0.180]" in board
    assert "Lower is better." in board
    assert "Guessing would score 1.000." in board
    page.click(".leaderboard thead th:nth-child(3) button")  # the best first
    assert page.locator(".leaderboard .name").all_inner_texts() == ["raw", "PCA", "NCA", "slow"]


def test_what_intervals_and_p_are_corrected_for_is_said(visit, payload):
    assert "corrected" not in visit(payload).inner_text("#leaderboard")
    payload["corrected_for"] = 16
    payload["minimal_gain"] = both("A gain below 1 point does not count.", "不足 1 点不算。")
    board = visit(payload).inner_text("#leaderboard")
    assert "p-values are corrected for 16 comparisons" in board
    assert "A gain below 1 point does not count." in board


@pytest.mark.parametrize("verdict", ["noise", "not_shown"])
def test_a_gain_that_is_not_shown_is_not_called_noise(visit, payload, verdict):
    payload["leaderboard"][1]["verdict"] = verdict
    page = visit(payload)
    assert page.locator(".verdict.not_shown").inner_text() == "not shown with this many rows"
    assert "noise" not in page.inner_text("#leaderboard")
    page.click("#language")
    assert page.locator(".verdict.not_shown").inner_text() == "以现有样本量无法证实"


def test_the_fit_time_says_what_it_is(visit, payload):
    assert "Fit time (mean of folds)" in visit(payload).inner_text("thead")


def test_one_row_is_not_rows(visit, payload):
    payload["schema"] = payload["schema"][:1]
    page = visit(payload)
    assert page.inner_text("summary") == "1 column"
    page.evaluate("window.nearfold.bench.points.n = 1; window.nearfold.bench.selectRows([0])")
    assert "1 of 1 row\n" in page.inner_text(".selection")
    payload["spaces"][0]["n_dimensions"] = 1
    assert "raw · 1 dimension\n" in visit(payload).inner_text("body") + "\n"


def test_the_column_asked_about_is_called_by_its_name(visit, payload):
    payload["points"]["columns"][0]["name"] = payload["points"]["default_color"] = "label"
    page = visit(payload)
    assert page.inner_text(".legend .column") == "种类"
    assert page.locator("#colour option").first.inner_text() == "种类"
    assert "Predicted column: 种类." in page.inner_text("#leaderboard")
    payload["score"]["column"] = None
    assert visit(payload, "zh").inner_text(".legend .column") == "标记"


def test_the_true_number_of_columns_is_said(visit, payload):
    weights = payload["weights"][0]
    weights.update(columns=[f"c{i}" for i in range(30)], weights=[1 / (i + 1) for i in range(30)])
    assert "The 20 largest of 30 columns." in visit(payload).inner_text("#weights")
    weights["total"] = 61
    assert "The 20 largest of 61 columns." in visit(payload).inner_text("#weights")


def test_numbers_under_a_picture_are_those_of_the_picture(visit, payload):
    read = "[...document.querySelectorAll('.picture:nth-child(2) .quality tr')].map((one) => [...one.cells].map((cell) => cell.textContent))"  # noqa: E501
    assert visit(payload).evaluate(read)[0] == ["Agreement with the data", "this picture"]
    space = payload["spaces"][2]
    space["n_dimensions"] = 61
    head, first, *_ = visit(payload).evaluate(read)
    assert head == ["Agreement with the data", "all 61 dimensions"]
    assert first == ["Trustworthiness", "0.910"]
    space["picture_quality"] = {"trustworthiness": 0.83, "continuity": 0.8}
    head, first, _, third, *_ = visit(payload).evaluate(read)
    assert head == ["Agreement with the data", "this picture", "all 61 dimensions"]
    assert first == ["Trustworthiness", "0.830", "0.910"]
    assert third == ["Neighbours kept", "–", "0.400"]


def test_the_shepard_chart_says_what_to_look_for(visit, payload):
    said = visit(payload).inner_text("#shepard")
    assert "Points on one rising curve mean that distances are preserved." in said
