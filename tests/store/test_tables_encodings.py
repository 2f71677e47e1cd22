"""Texts in the encodings people have: opened as what they are, said, overridable."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearfold.errors import InputError
from nearfold.store.encodings import detect_encoding, to_utf8
from nearfold.store.tables import read_table

# Words of headers and labels, so that a table is short and its text says little.
SIMPLIFIED = (
    "编号 身高 体重 颜色 类别 高度 重量 标签 名称 价格 苹果 温度 湿度 气压 收入 城市 上海 年龄"
)
TRADITIONAL = (
    "編號 身高 體重 顏色 類別 高度 重量 標籤 名稱 價格 蘋果 溫度 濕度 氣壓 城市 臺北 年齡 國文"
)
JAPANESE = "番号 身長 ラベル 名前 高さ 重さ りんご みかん 花びらの幅 カテゴリ 商品 がく片の長さ"
KOREAN = "이름 나이 번호 몸무게 키 색 김철수 이영희"
WESTERN = "numéro étiquette Größe Länge año tamaño Málaga François Straße Höhe Øystein élève été"
RUSSIAN = "имя возраст рост вес цвет класс номер Мария Иван"
SCRIPTS = {
    "gbk": (SIMPLIFIED, "gb18030"),
    "gb18030": (SIMPLIFIED, "gb18030"),
    "big5": (TRADITIONAL, "big5hkscs"),
    "shift_jis": (JAPANESE, "cp932"),
    "cp949": (KOREAN, "cp949"),
    "cp1252": (WESTERN, "cp1252"),
    "latin-1": (WESTERN, "cp1252"),
}


def table_of(words, rows=2):
    header = ",".join([*words, "x"])
    return header + "\n" + "".join(f"{'1.5,' * len(words)}{i}\n" for i in range(rows))


@pytest.mark.parametrize("encoding", SCRIPTS)
def test_single_words_and_pairs_above_numbers_are_told_apart(encoding):
    words, expected = SCRIPTS[encoding]
    words = words.split()
    wrong = [
        (a, b)
        for a in words
        for b in words
        if a != b and detect_encoding(table_of([a, b]).encode(encoding)).name != expected
    ]
    assert not wrong


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_tables_of_words_come_back_whatever_the_encoding(data):
    encoding = data.draw(st.sampled_from(sorted(SCRIPTS)))
    words = SCRIPTS[encoding][0].split()
    names = data.draw(st.lists(st.sampled_from(words), min_size=2, max_size=5, unique=True))
    labels = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=6))
    text = ",".join([*names, "z"]) + "\n"
    text += "".join("1.5," * len(names) + f"{label}\n" for label in labels)
    table = read_table(io.BytesIO(text.encode(encoding)))
    assert table.frame.columns == [*names, "z"]
    assert table.frame["z"].to_list() == labels
    assert any("encoding was guessed" in notice for notice in table.source.notices)


@pytest.mark.parametrize("words", [SIMPLIFIED, WESTERN, RUSSIAN, "a b"], ids=str.split)
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"]
)
@pytest.mark.parametrize("marked", [False, True])
def test_unicode_with_and_without_a_mark(words, encoding, marked):
    text = table_of(words.split()[:2], rows=5)
    data = ("\ufeff" + text if marked and encoding[-2:] in ("le", "be") else text).encode(encoding)
    table = read_table(io.BytesIO(data))
    assert table.frame.columns == [*words.split()[:2], "x"]
    assert encoding.startswith(table.source.encoding[:6])
    assert table.frame["x"].to_list() == list(range(5))


def test_russian_is_left_to_charset_normalizer():
    text = table_of(RUSSIAN.split()) + RUSSIAN.replace(" ", ",") + ",1\n"
    assert to_utf8(text.encode("cp1251"), None)[0].decode() == text


def test_a_given_encoding_is_taken():
    data = "имя,x\nа,1\n".encode("koi8-r")
    table = read_table(io.BytesIO(data), encoding="koi8-r")
    assert table.frame.columns == ["имя", "x"]
    assert table.source.encoding == "koi8-r"
    assert table.source.notices == ()
    marked = read_table(io.BytesIO("é,x\n1,2\n".encode("utf-16")), encoding="UTF-16")
    assert marked.frame.columns == ["é", "x"]
    bom = read_table(io.BytesIO("é,x\n1,2\n".encode("utf-8-sig")), encoding="utf8")
    assert bom.frame.columns == ["é", "x"]


@pytest.mark.parametrize("encoding", ["klingon", "rot13", "hex", ""])
def test_encodings_that_are_none(encoding):
    with pytest.raises(InputError, match="there is no text encoding"):
        read_table(io.BytesIO(b"a,b\n1,2\n"), encoding=encoding)


def test_a_given_encoding_that_does_not_fit_says_where():
    with pytest.raises(InputError, match=r"the text is not utf-8 .* at byte 10\b"):
        read_table(io.BytesIO("a,b\n1,2\n3,编\n".encode("gbk")), encoding="utf-8")


def test_broken_places_are_counted_not_fatal():
    good = ("名,x\n" + "苹果,1\n" * 50).encode()
    table = read_table(io.BytesIO(good + b"\xe8\x8b,2\n"))
    assert table.source.encoding == "utf-8"
    assert table.frame.height == 51
    assert "1 character is not utf-8, the first in line 52" in map(str, table.source.notices)


def test_long_texts_are_decoded_in_steps(monkeypatch):
    monkeypatch.setattr("nearfold.store.encodings._STEP", 7)  # cuts characters in two
    text = table_of(SIMPLIFIED.split(), rows=20)
    for encoding in ("gb18030", "utf-8", "utf-16", "utf-32-be"):
        assert to_utf8(text.encode(encoding), None)[0].decode() == text


def test_zeros_here_and_there_are_not_utf16():
    text = "a,b\n" + "1\0,2\0\0\n3,\0\0\0\0" + "4\n" * 1
    assert detect_encoding(text.encode()).name == "utf-8"
    assert detect_encoding(("a,b\n" + "\0" * 40 + "1,2\n").encode()).name == "utf-8"


def test_a_strange_word_far_along_a_long_line_is_found():
    text = "x," * 200_000 + "编号,身高\n" + "1," * 200_000 + "好,1.5\n"
    found = detect_encoding(text.encode("gbk"))  # must not look at each line once per character
    assert found.name == "gb18030"


def test_bytes_that_can_be_read_but_not_written_again():
    for data in (bytes([a, b]) for a in range(0x81, 0xFF) for b in range(0x40, 0xFF, 3)):
        detect_encoding(b"a,b\n1," + data + b"\n")
