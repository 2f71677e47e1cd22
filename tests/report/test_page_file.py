from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from synthetic_payload import HOSTILE, make_hostile, make_synthetic

from nearfold.columns.cells import Cells
from nearfold.errors import InputError
from nearfold.report.page_file import MODULES, join_modules, page_words, render_page, write_page
from nearfold.study import colours
from nearfold.study.candidates import all_candidates
from nearfold.study.question import Task

PAGE = Path(str(files("nearfold.report").joinpath("page")))


def payload_of(text: str) -> dict:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', text, re.S)
    assert found
    return json.loads(found[1])


def test_every_module_is_joined_and_only_once():
    assert sorted(MODULES) == sorted(path.stem for path in PAGE.glob("*.js"))


def test_modules_come_after_what_they_import():
    for i, name in enumerate(MODULES):
        source = (PAGE / f"{name}.js").read_text(encoding="utf-8")
        for needed in re.findall(r'from "\./(\w+)\.js"', source):
            assert needed in MODULES[:i], f"{name}.js needs {needed}.js before it"


def test_imports_name_what_is_exported():
    for name in MODULES:
        source = (PAGE / f"{name}.js").read_text(encoding="utf-8")
        for names, needed in re.findall(r'import \{([^}]*)\} from "\./(\w+)\.js"', source):
            other = (PAGE / f"{needed}.js").read_text(encoding="utf-8")
            for wanted in filter(None, (one.strip() for one in names.split(","))):
                declared = rf"^export (?:async )?(?:function|class|const) {wanted}\b"
                assert re.search(declared, other, re.MULTILINE), f"{wanted} in {needed}.js"
                assert len(re.findall(rf"\b{wanted}\b", source)) > 1, (
                    f"{wanted} unused in {name}.js"
                )


def test_no_name_is_declared_in_two_modules():
    seen: dict[str, str] = {}
    pattern = r"^(?:export )?(?:async )?(?:function|class|const|let) +(\w+)"
    for name in MODULES:
        for declared in re.findall(pattern, (PAGE / f"{name}.js").read_text("utf-8"), re.M):
            assert seen.setdefault(declared, name) == name, f"{declared}: {seen[declared]}, {name}"
    assert len(seen) > 80


def test_joined_script_has_no_trace_of_modules_or_networks():
    script = join_modules()
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert "</script" not in script.lower()
    assert "<!--" not in script
    assert set(re.findall(r"https?://[^\s\"']+", script)) == {"http://www.w3.org/2000/svg"}
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert forbidden not in script
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|sendBeacon)\b", script)


def test_the_words_of_the_page_are_those_of_the_catalogues():
    words = page_words()
    assert words == payload_of(render_page({"version": 1}))["words"]
    assert words["zh"]["method.NCA"] == "近邻成分分析（NCA）"
    assert words["en"]["columns_count"] == "{n} {n|column|columns}"
    own = [key for key in words["en"] if "." not in key]
    assert own == sorted(own)
    for key in own:
        assert re.search("[\u4e00-\u9fff]", words["zh"][key]) or key in ("chosen_d", "percent"), key


def test_every_space_that_is_offered_has_a_chinese_name():
    cells = Cells((), np.zeros((2, 1)), np.zeros((2, 1), dtype=np.int32), (np.array(list("abc")),))
    offered = all_candidates(cells, Task.CLASSIFICATION)
    for name in [candidate.name for candidate in offered]:
        assert re.search("[\u4e00-\u9fff]", page_words()["zh"][f"method.{name}"]), name


def test_colours_are_those_of_the_other_figures():
    source = (PAGE / "colours.js").read_text("utf-8")
    for name, expected in (
        ("BY_DAY", colours.CATEGORY_COLOURS),
        ("BY_NIGHT", colours.CATEGORY_COLOURS_DARK),
        ("CIVIDIS", colours.SEQUENTIAL_COLOURS),
    ):
        listed = re.search(rf"const {name} = (\[.*?\]);", source, re.DOTALL)
        assert listed
        assert json.loads(listed[1]) == list(expected)
    assert f'light: "{colours.NO_VALUE}", dark: "{colours.NO_VALUE_DARK}"' in source


def test_a_hundred_thousand_points_take_less_than_five_megabytes(large):
    payload = large.payload
    assert len(payload["spaces"]) == 4
    assert len(payload["points"]["columns"]) == 6
    assert len(render_page(payload).encode()) < 5_000_000


def test_every_word_is_used_and_every_used_word_is_there():
    script = "\n".join((PAGE / f"{name}.js").read_text("utf-8") for name in MODULES)
    words = {key for key in page_words()["en"] if "." not in key}
    told_by_html = {"broken", "noscript"}
    for key in words - told_by_html:
        # `verdict_${...}`, `${...}_help`, known("role", ...)
        group, _, last = key.partition("_")
        built = rf"`{group}_\$|\}}_{last}`|known\(\"{group}\"" if last else "$^"
        assert re.search(rf'"{key}"|^    {key}: |{built}', script, re.MULTILINE), key
    used = re.findall(r'\b(?:say|wordsOf|worded\("\w+",|tell\(\w+,|label\(\w+,)[( ]"(\w+)"', script)
    assert len(used) > 30
    assert set(used) <= words


def test_policy_allows_this_script_and_this_style_only():
    text = render_page(make_synthetic(n=20).payload)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        inner = re.findall(rf"<{tag}(?: type=\"module\")?>(.*?)</{tag}>", text, re.DOTALL)
        assert len(inner) == 1
        digest = base64.b64encode(hashlib.sha256(inner[0].encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy[1]
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]


def test_data_stay_data():
    made = make_hostile()
    text = render_page(made.payload)
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert "<img" not in text
    back = payload_of(text)
    assert back["points"]["columns"][0]["categories"] == list(HOSTILE)
    text.encode("utf-8")  # a lone surrogate would not


def test_numbers_json_cannot_say_become_null():
    payload = make_synthetic(n=20).payload
    payload["leaderboard"][0].update(score=float("nan"), p=np.float64("inf"), folds=np.int64(5))
    payload["confusion"][0]["counts"] = np.eye(2, dtype=int)
    back = payload_of(render_page(payload))
    assert back["leaderboard"][0]["score"] is None
    assert back["leaderboard"][0]["p"] is None
    assert back["leaderboard"][0]["folds"] == 5
    assert back["confusion"][0]["counts"] == [[1, 0], [0, 1]]


def test_payload_is_left_as_it_was():
    payload = make_synthetic(n=300).payload
    ids = payload["points"]["ids"]
    back = payload_of(render_page(payload, "zh"))
    assert "numbers" in back["points"]["ids"]
    assert payload["points"]["ids"] is ids
    assert "lang" not in payload
    assert back["lang"] == "zh"


def test_file_is_written_whole(tmp_path):
    path = tmp_path / "report.html"
    assert write_page(make_synthetic(n=20).payload, path, lang="zh") == path
    text = path.read_text(encoding="utf-8")
    assert text.startswith('<!DOCTYPE html>\n<html lang="zh-Hans">')
    assert "{{" not in text.split('id="payload"')[0]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("payload", "lang", "message"),
    [({"version": 1}, "fr", "lang='fr'"), ({"version": 2}, "en", "version 2"), ({}, "en", "None")],
)
def test_what_cannot_be_written_is_refused(payload, lang, message):
    with pytest.raises(InputError, match=message):
        render_page(payload, lang)
