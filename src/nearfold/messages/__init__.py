"""Every sentence for people, in English and in Simplified Chinese, under one id in both languages.

A catalogue is a folder of JSON files (`en/`, `zh/`), id -> template. Python renders messages from
it, and the report's page is given the ids that begin with "page.". In a template `{name}` stands
for a value and `{n|row|rows}` for one of two words by the number n. A value may itself be a
message, or a list, which is joined as the language does it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

LANGUAGES = ("en", "zh")
_PLACE = re.compile(r"\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}")
_HAN_SPACE = re.compile("(?<=[\u4e00-\u9fff（）]) (?=[\u4e00-\u9fff（）])")  # values bring words
_COMMA = {"en": ", ", "zh": "、"}
_BETWEEN_SENTENCES = {"en": " ", "zh": ""}


class Message:
    """A sentence that can be said in each language: an id of the catalogues and its values.

    Examples
    --------
    >>> from nearfold.messages import Message
    >>> rows = Message("words.rows", n=1797)
    >>> str(rows), rows.text("zh")
    ('1,797 rows', '1,797 行')
    """

    __slots__ = ("id", "values")

    def __init__(self, id: str, /, **values: Any) -> None:
        self.id = id
        self.values = values

    def text(self, language: str = "en") -> str:
        """The sentence in this language."""
        return render(catalogue(language)[self.id], self.values, language)

    def as_dict(self) -> dict[str, str]:
        """By language, for JSON and for the page."""
        return {language: self.text(language) for language in LANGUAGES}

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.values.items())
        return f"Message({self.id!r}{given})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.id, self.values) == (other.id, other.values)

    def __hash__(self) -> int:
        return hash((self.id, str(self)))

    def __add__(self, other: Message) -> Message:
        return sentences([self, other])

    def __contains__(self, words: str) -> bool:
        return words in self.text()

    def __reduce__(self) -> Any:
        return _rebuilt, (type(self), self.id, self.values)


class Verbatim(Message):
    """Words that are not ours (a name, another library's warning): the same in each language."""

    __slots__ = ()

    def __init__(self, words: Any, /) -> None:
        super().__init__("verbatim", words=str(words))

    def text(self, language: str = "en") -> str:
        """The words as they are."""
        return str(self.values["words"])


class _Sentences(Message):
    __slots__ = ()

    def text(self, language: str = "en") -> str:
        said = [part.text(language) for part in self.values["parts"]]
        return _BETWEEN_SENTENCES[language].join(words for words in said if words)


def _rebuilt(kind: type[Message], id: str, values: dict[str, Any]) -> Message:
    message = object.__new__(kind)
    Message.__init__(message, id, **values)
    return message


def sentences(parts: Iterable[Message]) -> Message:
    """Sentences one after the other."""
    flat: list[Message] = []
    for part in parts:
        flat += part.values["parts"] if isinstance(part, _Sentences) else [part]
    return _Sentences("sentences", parts=flat)


def render(template: str, values: dict[str, Any], language: str) -> str:
    """A template with its values filled in."""

    def fill(match: re.Match[str]) -> str:
        value = values[match[1]]
        if match[2] is not None:
            return match[2] if value == 1 else match[3]
        return _show(value, language)

    text = _PLACE.sub(fill, template)
    return _HAN_SPACE.sub("", text) if language == "zh" else text


def _show(value: Any, language: str) -> str:
    if hasattr(value, "text") and callable(value.text):  # a message, or a score with its unit
        return str(value.text(language))
    if isinstance(value, list | tuple):
        return _COMMA[language].join(_show(item, language) for item in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


@cache
def catalogue(language: str) -> dict[str, str]:
    """All templates of a language, by id."""
    if language not in LANGUAGES:
        raise KeyError(f"there is no catalogue for {language!r}; there are {LANGUAGES}")
    found: dict[str, str] = {}
    for part in sorted(files(__package__).joinpath(language).iterdir(), key=lambda p: p.name):
        if part.name.endswith(".json"):
            found |= json.loads(part.read_text(encoding="utf-8"))
    return found
