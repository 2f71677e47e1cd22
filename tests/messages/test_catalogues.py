"""Every sentence is in every language, with the same values, and is Chinese where it should be."""

import json
import re
from importlib.resources import files

import pytest

from nearfold.messages import LANGUAGES, Message, Verbatim, catalogue, sentences

PLACE = re.compile(r"\{(\w+)")
HAN = re.compile("[\u4e00-\u9fff]")


def parts(language):
    return [
        p for p in files("nearfold.messages").joinpath(language).iterdir() if p.suffix == ".json"
    ]


def test_every_id_is_in_every_language():
    known = [set(catalogue(language)) for language in LANGUAGES]
    assert known[0] == known[1], known[0] ^ known[1]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_id_is_defined_twice(language):
    pairs = []
    for part in parts(language):
        json.loads(part.read_text("utf-8"), object_pairs_hook=lambda p: pairs.extend(p))
    ids = [id for id, _ in pairs]
    assert len(ids) == len(set(ids))


def test_both_languages_use_the_same_values():
    english, chinese = catalogue("en"), catalogue("zh")
    for id, template in english.items():
        assert set(PLACE.findall(template)) == set(PLACE.findall(chinese[id])), id


def test_chinese_sentences_have_chinese_punctuation():
    for id, text in catalogue("zh").items():
        bare = re.sub(r"\{[^}]*\}|`[^`]*`|--[\w-]+( \S+)?", "", text)
        if HAN.search(bare):
            assert not re.search("[\u4e00-\u9fff][,;:?!()]|[,;:?!()][\u4e00-\u9fff]", bare), (
                id,
                text,
            )


def test_values_are_shown_as_the_language_does_it():
    message = Message("words.more", names=["a", Verbatim("b")], n=1234)
    assert message.text("en") == "a, b and 1,234 more"
    assert message.text("zh") == "a、b 等，另有 1,234 项"
    one, many = Message("words.rows", n=1), Message("words.rows", n=2)
    assert str(one) == "1 row"
    assert sentences([one, many]).as_dict() == {"en": "1 row 2 rows", "zh": "1 行2 行"}
