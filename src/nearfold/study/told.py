"""What is told to a person, in English and in Simplified Chinese."""

from __future__ import annotations

from dataclasses import asdict, dataclass

LANGUAGES = ("en", "zh")


@dataclass(frozen=True)
class Told:
    """The same sentence in each language."""

    en: str
    zh: str

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


def join(parts: list[Told]) -> Told:
    """Sentences one after the other."""
    whole = Told("", "")
    for part in parts:
        whole = whole + part
    return whole
