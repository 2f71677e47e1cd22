"""The report as one HTML file that asks nothing of any network.

A browser does not import modules from file://, so the modules of `page/` are joined here into one
script, by a rule small enough to trust: in the order of `MODULES`, `import` lines go and the word
`export` goes. It needs names that are unique over all modules; a test sees to that. Served over
HTTP, the same modules run as they are.

What comes from the data, and every word of the page (`nearfold.messages`, the ids "page.*" and
"method.*"), reaches it as JSON without a single `<`, and the page shows it as text only. The
security policy allows the script and the style of this file, by their hashes, and nothing else.

`page/PAYLOAD.md` lists what a payload may hold.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from nearfold.errors import InputError
from nearfold.messages import LANGUAGES, catalogue
from nearfold.report.packing import pack_texts
from nearfold.study.plain import plain

MODULES = (
    "text",
    "shapes",
    "colours",
    "data",
    "grid",
    "paint_webgl",
    "scatter_canvas",
    "pointing",
    "hands",
    "order",
    "view",
    "frames",
    "scatter",
    "points",
    "charts",
    "marks",
    "export",
    "leaderboard",
    "panels",
    "picture",
    "pictures",
    "sections",
    "report",
)
_VERSION = 1
_MANY_IDS = 200  # from here on they are packed
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z_]+\.js";\n', re.MULTILINE)


def write_page(payload: Mapping[str, Any], path: str | Path, lang: str = "en") -> Path:
    """Write the report to one HTML file, in one step; `lang` is the language it opens in."""
    from nearfold.store.atomic import write_atomically

    text = render_page(payload, lang).encode("utf-8")
    return write_atomically(path, lambda file: file.write(text))


def render_page(payload: Mapping[str, Any], lang: str = "en") -> str:
    """The text of the HTML file."""
    if lang not in LANGUAGES:
        raise InputError(f"lang={lang!r}: the report speaks {' and '.join(LANGUAGES)}.")
    if payload.get("version") != _VERSION:
        raise InputError(f"The payload has version {payload.get('version')!r}, not {_VERSION}.")
    script, style = join_modules(), _source("style.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "lang": "zh-Hans" if lang == "zh" else "en",
        "title": html.escape(_title(payload)),
        "policy": html.escape(policy, quote=False),
        "style": style,
        "payload": _embed({**payload, "lang": lang, "words": page_words()}),
        "script": script,
        **{key: html.escape(_in_each_language(f"page.{key}")) for key in ("broken", "noscript")},
    }
    # One pass: what is put in is never searched for places to put things in.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _source("page.html"))


def page_words() -> dict[str, dict[str, str]]:
    """The words of the page by language: its own without their prefix, and names of methods."""
    return {
        language: {
            id.removeprefix("page."): template
            for id, template in catalogue(language).items()
            if id.startswith(("page.", "method."))
        }
        for language in LANGUAGES
    }


def join_modules() -> str:
    """The modules of the page as one script."""
    return "\n".join(_as_part(name, _source(f"{name}.js")) for name in MODULES)


def _as_part(name: str, source: str) -> str:
    bare = re.sub(r"^export ", "", _IMPORT.sub("", source), flags=re.MULTILINE)
    left = re.search(r"^(import|export)\b.*", bare, re.MULTILINE)
    if left:
        raise AssertionError(
            f'{name}.js: only `import {{...}} from "./x.js";` is joined: {left[0]}'
        )
    return f"// {name}.js\n{bare}"


def _in_each_language(id: str) -> str:
    return " ".join(catalogue(language)[id] for language in LANGUAGES)


def _title(payload: Mapping[str, Any]) -> str:
    title = payload.get("title")
    return f"{title} · Nearfold" if title else "Nearfold"


def _embed(payload: dict[str, Any]) -> str:
    """JSON that can stand inside <script>: no `<`, no lone surrogate, no NaN."""
    points = payload.get("points")
    if points and isinstance(points.get("ids"), list) and len(points["ids"]) > _MANY_IDS:
        payload["points"] = {**points, "ids": pack_texts([str(one) for one in points["ids"]])}
    text = json.dumps(plain(payload), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _source(name: str) -> str:
    text = files("nearfold.report").joinpath("page", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")  # the hash is of what a browser sees
