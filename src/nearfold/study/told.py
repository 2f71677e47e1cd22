"""What is told to a person, in English and in Simplified Chinese."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

LANGUAGES = ("en", "zh")


@dataclass(frozen=True)
class Told:
    """The same sentence in each language."""

    en: str
    zh: str

    def __post_init__(self) -> None:
        if self.zh != self.en:  # the same words twice are a message of its own, left as it is
            object.__setattr__(self, "zh", _chinese_marks(self.zh))

    def __str__(self) -> str:
        return self.en

    def __add__(self, other: Told) -> Told:
        return Told(f"{self.en} {other.en}".strip(), f"{self.zh}{other.zh}")

    def get(self, language: str) -> str:
        """In this language."""
        return self.zh if language == "zh" else self.en

    def as_dict(self) -> dict[str, str]:
        """By language."""
        return asdict(self)


_MARKS = {",": "\uff0c", ":": "\uff1a", ";": "\uff1b", "(": "\uff08", ")": "\uff09"}
_HALF_WIDTH = re.compile(r"(?<=\d),(?=\d)|([,:;()]) ?")


def _chinese_marks(text: str) -> str:
    """Full-width punctuation in a Chinese sentence; commas inside numbers stay."""
    if not re.search("[\u4e00-\u9fff]", text):
        return text
    return _HALF_WIDTH.sub(lambda m: _MARKS[m[1]] if m[1] else m[0], text)


def join(parts: list[Told]) -> Told:
    """Sentences one after the other."""
    whole = Told("", "")
    for part in parts:
        whole = whole + part
    return whole
