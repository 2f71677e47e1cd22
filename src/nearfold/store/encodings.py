"""Which text encoding bytes are written in.

A byte order mark or the zeros of UTF-16 decide, then a strict decoding as UTF-8. What is left are
the old encodings, most of which can decode almost anything, so the question is which reading is
the likely one. Each candidate is a small model of its script (how often a frequent character, a
rare one, a symbol, an accented letter beside plain ones), and the likeliest reading of the bytes
wins. charset-normalizer is asked only where no reading is likely. Given the same candidates, it
finds 15 of 60 GBK tables with two words in the header above rows of numbers, 40 of 60 in Big5 and
38 of 60 in cp1252, where these models find all of them (tests/store/test_tables_encodings.py).
"""

from __future__ import annotations

import codecs
import io
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nearfold.blocks import require_memory
from nearfold.errors import InputError, quoted
from nearfold.messages import Message
from nearfold.store.file_bytes import ADVICE
from nearfold.store.letters import ACCENTED, HANGUL, KANJI, SIGNS, SIMPLIFIED, TRADITIONAL

_MARKS = (  # the longer ones first: UTF-32's begins as UTF-16's does
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_STEP = 2**20  # bytes decoded at once
_GROWTH = 1.125  # room that a growing buffer takes in advance
_STRANGE = re.compile(rb"[\x80-\xff]")
_SAMPLE = 2**16  # bytes of lines that are not plain ASCII
_ASCII_COST, _WRONG_COST, _UNLIKELY = 3.0, 20.0, 13.0  # natural logarithms of likelihoods


@dataclass(frozen=True)
class Detected:
    """An encoding, how many bytes its mark takes, and whether it was guessed."""

    name: str
    mark: int = 0
    guessed: bool = False


def detect_encoding(data: bytes) -> Detected:
    """The encoding that `data` are most likely written in."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return Detected(name, len(mark))
    wide = _wide_without_mark(data[:_SAMPLE])
    if wide is not None:
        return Detected(wide, guessed=True)
    if data.isascii():
        return Detected("utf-8")
    try:
        _transcode(data, "utf-8", "strict")
        return Detected("utf-8")
    except UnicodeDecodeError:
        sample = _telling_lines(data)
    if _nearly_utf8(sample):
        return Detected("utf-8", guessed=True)
    return Detected(_likeliest(sample), guessed=True)


def to_utf8(data: bytes, encoding: str | None) -> tuple[bytes, str, list[Message]]:
    """The text as UTF-8, the encoding it came in, and notices of what was guessed or unreadable."""
    found = detect_encoding(data) if encoding is None else _given(data, encoding)
    if found.mark or found.name != "utf-8":
        require_memory(2 * len(data), Message("memory.text"), ADVICE)
    body = data[found.mark :] if found.mark else data
    guess = Message("tables.encoding_guessed", encoding=found.name)
    notices = [guess] if found.guessed else []
    try:
        return _transcode(body, found.name, "strict"), found.name, notices
    except UnicodeDecodeError as error:
        if encoding is not None:
            why = quoted(error.reason)
            raise InputError(Message("tables.error.encoding", encoding=found.name, why=why,
                                     at=error.start)) from None  # fmt: skip
    text = _transcode(body, found.name, "replace")
    lost = text.count("\ufffd".encode())
    line = text.count(b"\n", 0, text.find("\ufffd".encode())) + 1
    notices.append(Message("tables.not_decodable", n=lost, encoding=found.name, line=line))
    return text, found.name, notices


def _transcode(body: bytes, name: str, errors: str) -> bytes:
    """In steps, so that no long text is alive as str; valid UTF-8 is returned as it is."""
    whole = io.BytesIO()
    decoder = codecs.getincrementaldecoder(name)(errors)
    same = codecs.lookup(name).name == "utf-8" and errors == "strict"
    for start in range(0, len(body), _STEP):
        try:
            text = decoder.decode(body[start : start + _STEP], start + _STEP >= len(body))
        except UnicodeDecodeError as error:
            error.start += start
            raise
        if not same:
            whole.write(text.encode("utf-8", errors="replace"))
            require_memory(len(body) + _GROWTH * whole.tell(), Message("memory.text"), ADVICE)
    return body if same else whole.getvalue()


def _given(data: bytes, encoding: str) -> Detected:
    """The encoding someone asked for, without the mark it may begin with."""
    try:
        name = codecs.lookup(encoding).name
        codecs.getincrementaldecoder(name)
        "".encode(name)
    except (LookupError, ValueError, TypeError):
        raise InputError(Message("tables.error.no_encoding", encoding=repr(encoding))) from None
    if name in ("utf-8-sig", "utf-16", "utf-32"):  # the mark says which byte comes first
        name = name.removesuffix("-sig")
        marked = [(m, n) for m, n in _MARKS if n.startswith(name) and data.startswith(m)]
        if marked:
            return Detected(marked[0][1], len(marked[0][0]))
        likely = _wide_without_mark(data[:_SAMPLE]) or ""
        unmarked = likely if likely.startswith(name) else f"{name}-le"
        return Detected(name if name == "utf-8" else unmarked)
    same = [m for m, n in _MARKS if n == name and data.startswith(m)]
    return Detected(name, len(same[0]) if same else 0)


def _wide_without_mark(sample: bytes) -> str | None:
    """UTF-16 or UTF-32 by their zeros: digits and separators have them in fixed places."""
    if sample.count(0) < 3:
        return None
    for size, names in ((4, ("utf-32-le", "utf-32-be")), (2, ("utf-16-le", "utf-16-be"))):
        whole = sample[: len(sample) // size * size]
        zeros = (np.frombuffer(whole, dtype=np.uint8).reshape(-1, size) == 0).mean(axis=0)
        for name, order in zip(names, (zeros, zeros[::-1]), strict=True):
            # order: from the byte that tells ASCII characters apart to the highest one
            if order[1:].min() > 0.2 and order[0] < order[1:].min() / 20:
                try:
                    whole[: -2 * size].decode(name)  # the end may cut a pair of surrogates
                except UnicodeDecodeError:
                    continue
                return name
    return None


def _telling_lines(data: bytes) -> bytes:
    """Lines that are not ASCII, up to the size of a sample; a line break never cuts a character."""
    lines: list[bytes] = []
    size = at = 0
    while size < _SAMPLE and (found := _STRANGE.search(data, at)):
        begin = max(data.rfind(b"\n", 0, found.start()), data.rfind(b"\r", 0, found.start())) + 1
        end = data.find(b"\n", found.start())
        at = end if end >= 0 else len(data)
        begin = max(begin, found.start() - _SAMPLE // 4)  # of a long line, where it is strange
        lines.append(data[begin : min(at, found.start() + _SAMPLE // 4)])
        size += len(lines[-1])
    return b"\n".join(lines)


def _nearly_utf8(sample: bytes) -> bool:
    """UTF-8 with a few broken places, such as a text cut in the middle of a character."""
    text = sample.decode("utf-8", errors="replace")
    strange = len(re.findall(r"[^\x00-\x7f]", text))
    return text.count("\ufffd") <= strange * 0.1


def _likeliest(sample: bytes) -> str:
    costs = {name: cost(sample) for name, cost in _MODELS.items()}
    best = min(costs, key=lambda name: costs[name])
    strange = sum(byte >= 0x80 for byte in sample)
    if costs[best] - _ASCII_COST * (len(sample) - strange) > _UNLIKELY * strange / 2:
        return _asked(sample) or best
    return best


def _asked(sample: bytes) -> str | None:
    """charset-normalizer's opinion."""
    from charset_normalizer import from_bytes

    found = from_bytes(sample).best()
    return found.encoding if found is not None and found.encoding != "ascii" else None


def _east_asian(
    name: str, frequent: frozenset[str], common: Callable[[bytes], bool]
) -> Callable[[bytes], float]:
    """A script of thousands of characters, of which the encoding keeps the common ones together."""

    def cost(sample: bytes) -> float:
        text = sample.decode(name, errors="replace")
        return sum(count * _one(letter) for letter, count in Counter(text).items())

    def _one(letter: str) -> float:
        if letter < "\x80":
            return _ASCII_COST
        if letter == "\ufffd":
            return _WRONG_COST
        if letter in frequent:
            return 7.0
        if "\u3041" <= letter <= "\u30fe":  # kana
            return 5.5 if frequent is KANJI else 12.0
        if "\uac00" <= letter <= "\ud7a3":  # Korean: as unlikely as need be for Chinese to win
            return 10.5
        if "\uff61" <= letter <= "\uff9f":  # one byte each: any bytes look like these
            return 8.0
        if "\u3000" <= letter <= "\u303f" or "\uff00" <= letter <= "\uff5e":
            return 8.0  # full-width signs
        # Not every character of big5 that can be read can be written; those are rare ones.
        return 9.0 if common(letter.encode(name, errors="ignore")) else 14.0

    return cost


def _western(sample: bytes) -> float:
    """Accented letters stand alone beside plain ones; other scripts are rows of strange bytes."""
    text = sample.decode("cp1252", errors="replace")
    total = _ASCII_COST * sum(letter < "\x80" for letter in text)
    for match in re.finditer(r"[^\x00-\x7f]+", text):
        run = match[0]
        around = (
            text[max(0, match.start() - 1) : match.start()] + text[match.end() : match.end() + 1]
        )
        beside = any(letter.isalnum() for letter in around)
        each = [
            (3.5 if beside else 5.5) if c in ACCENTED else 5.0 if c in SIGNS else 8.0 for c in run
        ]
        total += sum(each) + 5.0 * (len(run) - 1)
        total += 12.0 * run.count("\ufffd")
    return total


_MODELS: dict[str, Callable[[bytes], float]] = {
    "gb18030": _east_asian(
        "gb18030", SIMPLIFIED, lambda b: len(b) == 2 and 0xB0 <= b[0] <= 0xD7 and b[1] >= 0xA1
    ),
    "big5hkscs": _east_asian(
        "big5hkscs", TRADITIONAL, lambda b: len(b) == 2 and 0xA4 <= b[0] <= 0xC6
    ),
    "cp932": _east_asian("cp932", KANJI, lambda b: len(b) == 2 and 0x88 <= b[0] <= 0x97),
    "cp949": _east_asian("cp949", HANGUL, lambda b: False),
    "cp1252": _western,
}
