"""How texts are cut into cells and cells become values."""

import csv
import io
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nearfold.errors import InputError
from nearfold.store.frames import MISSING_WORDS
from nearfold.store.tables import read_table


def read(text, **options):
    return read_table(io.BytesIO(text.encode()), **options)


def values(text, **options):
    return read(text, **options).frame.to_dict(as_series=False)


# --- an oracle: the rules of types, cell by cell

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


GROUPED = re.compile(r"[+-]?([1-9]\d{0,2}(,\d{3})+|0|[1-9]\d{0,2})(\.\d+)?")


def expected_column(cells):
    cells = [cell.strip() or None for cell in cells]
    plain = [None if cell in MISSING_WORDS else cell for cell in cells]
    present = [cell for cell in plain if cell is not None]
    coded = any(re.match(r"[+-]?0\d", cell) for cell in present)
    if all(NUMBER.fullmatch(cell) for cell in present) and not coded:
        return [None if cell is None else float(cell) for cell in plain]
    if all(cell.lower() in ("true", "false") for cell in present):
        return [None if cell is None else cell.lower() == "true" for cell in plain]
    if all(GROUPED.fullmatch(cell) for cell in present) and any("," in c for c in present):
        return [None if cell is None else float(cell.replace(",", "")) for cell in plain]
    return cells


NUMBERS = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["", "NA", "?", " 7 ", "+3", ".5", "5.", "007", "00", "-01.5", "1,234"]),
)
WORDS = st.one_of(
    st.text(alphabet="aZ é编,;|\t\"'\n.5-", max_size=6),
    st.sampled_from(["true", "FALSE", "-", "None", "1", "1e5"]),
)
COLUMN = st.one_of(st.just(NUMBERS), st.just(WORDS), st.just(st.sampled_from(["true", "False"])))


@st.composite
def tables(draw):
    n, kinds = draw(st.integers(1, 8)), draw(st.lists(COLUMN, min_size=1, max_size=5))
    return [draw(st.lists(kind, min_size=n, max_size=n)) for kind in kinds]


def write(columns, names, separator, quoting, end):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=separator, quoting=quoting, lineterminator=end)
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    return stream.getvalue()


@settings(max_examples=250, deadline=None)
@given(
    columns=tables(),
    separator=st.sampled_from(",;\t|"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_pythons_csv_writes_is_read_back(columns, separator, quoting, end):
    # Of one column, a last line of spaces is taken as the end of the file, not as a row.
    assume(len(columns) > 1 or columns[0][-1].strip(" "))
    names = [f"n{i}" for i in range(len(columns))]
    text = write(columns, names, separator, quoting, end)
    got = values(text, separator=separator, decimal=".", header=True)
    assert got == {n: expected_column(c) for n, c in zip(names, columns, strict=True)}


@settings(max_examples=100, deadline=None)
@given(
    columns=st.lists(
        st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4), min_size=2, max_size=6
    ),
    separator=st.sampled_from(",;\t| "),
    comma=st.booleans(),
    names=st.booleans(),
)
def test_layouts_of_numbers_are_detected(columns, separator, comma, names):
    comma = comma and separator in ";\t|"
    rows = zip(*columns, strict=True)
    lines = [separator.join(f"{v:.3f}" for v in row) for row in rows]
    text = "\n".join(lines)
    text = text.replace(".", ",") if comma else text
    heads = [f"n{i}" if names else f"x{i}" for i in range(len(columns))]
    table = read(f"{separator.join(heads)}\n{text}" if names else text)
    ambiguous = comma and all(
        re.fullmatch(r"-?[1-9]\d{0,2},\d{3}", c) for c in text.split(separator)
    )
    if ambiguous:
        return
    assert table.source.separator == separator
    assert table.source.header is names
    assert table.frame.columns == heads
    if table.source.decimal == ("," if comma else "."):
        assert np.allclose(table.frame.to_numpy().T, columns, atol=1e-3)
    else:  # commas that may group thousands: text, never a wrong number
        assert comma
        assert all(str(kind) == "String" for kind in table.frame.dtypes)


@pytest.mark.parametrize("chunk", [1, 30, 200])
@pytest.mark.parametrize("step", [1, 13, 10_000])
def test_cutting_into_chunks_changes_nothing(monkeypatch, chunk, step):
    rows = [
        f'{i},{i / 2},{"late" if i == 37 else i},"q\n{i}",{i % 2 == 0},{i * 100}' for i in range(40)
    ]
    text = "a,b,c,d,e,f\n" + "\n".join(rows[:20]) + "\n\n" + "\n".join(rows[20:]) + "\n"
    whole = read(text)
    monkeypatch.setattr("nearfold.store.delimited._CHUNK", chunk)
    monkeypatch.setattr("nearfold.store.records._STEP", step)
    cut = read(text)
    assert cut.frame.equals(whole.frame)
    assert cut.frame.dtypes == whole.frame.dtypes
    assert whole.frame["c"].to_list() == [str(i) if i != 37 else "late" for i in range(40)]
    assert whole.frame["d"].to_list() == [f"q\n{i}" for i in range(40)]
    assert [str(kind) for kind in whole.frame.dtypes] == [
        "UInt8", "Float64", "String", "String", "Boolean", "Int16",
    ]  # fmt: skip


# --- rows


@pytest.mark.parametrize(
    ("text", "line", "cells"),
    [
        ("a,b\n1,2\n3\n4,5\n", 3, "1 cell"),
        ("a,b\n1,2\n3,4,5\n4,5\n6,7\n", 3, "3 cells"),
        ('a,b\n1,"x\ny\nz"\n3,4,5\n1,2\n', 5, "3 cells"),
        ("\n\na,b\n1,2\n3\n1,2\n", 5, "1 cell"),
        ("a,b\r\n1,2\r\n\r\n3\r\n3,4\r\n", 4, "1 cell"),
    ],
)
def test_ragged_rows_name_the_line(text, line, cells):
    with pytest.raises(InputError, match=f"line {line} has {cells}, where the first has 2"):
        read(text)


def test_ragged_rows_are_counted():
    with pytest.raises(InputError, match=r"line 3 has 1 cell, .* \(2 such lines\)"):
        read("a,b\n1,2\n3\n4,5\n6\n7,8\n9,9\n")


def test_blank_lines():
    assert values("\n\na,b\n1,2\n\n3,4\n  \n\n\n") == {"a": [1, 3], "b": [2, 4]}
    assert values("a\n1\n\n3\n\n") == {"a": [1, None, 3]}  # one column: a missing value


def test_quotes():
    assert values('a,b\n1,"x, ""y""\nz"\n') == {"a": [1], "b": ['x, "y"\nz']}
    assert values('a, b\n1, "x, y"\n') == {"a": [1], "b": ["x, y"]}
    table = read("a,b\n1,5'10\"\n2,6'1\"\n3,x\n")
    assert table.frame["b"].to_list() == ["5'10\"", "6'1\"", "x"]
    assert "do not enclose whole cells" in table.source.notices[0]
    table = read('a,b\n1,"x\n2,y\n')  # never closed
    assert table.frame["b"].to_list() == ['"x', "y"]


def test_line_ends():
    for end in ("\n", "\r\n", "\r"):
        assert values(f"a,b{end}1,2{end}3,4{end}") == {"a": [1, 3], "b": [2, 4]}
        assert values(f"a,b{end}1,2{end}3,x") == {"a": [1, 3], "b": ["2", "x"]}


def test_separators_at_the_end_of_each_line():
    for text in ("a,b,\n1,2,\n3,4,\n", "a,b\n1,2,\n3,4,\n"):
        table = read(text)
        assert table.frame.to_dict(as_series=False) == {"a": [1, 3], "b": [2, 4]}
        assert "a separator ends each line" in table.source.notices[0]
    assert values("a,b,c\n1,2,\n3,4,\n") == {"a": [1, 3], "b": [2, 4], "c": [None, None]}


def test_row_names_as_R_writes_them():
    table = read('"x" "y"\n"r1" 1 2.5\n"r2" 3 4.5\n')
    assert table.frame.to_dict(as_series=False) == {
        "row": ["r1", "r2"],
        "x": [1, 3],
        "y": [2.5, 4.5],
    }


def test_a_title_above_the_table_is_refused_not_taken_as_names():
    with pytest.raises(InputError, match="line 2 has 2 cells, where the first has 1"):
        read("My data\na,b\n1,2\n3,4\n")
    assert values("a\n1,\n2,\n") == {"a": [1, 2]}


def test_long_runs_of_spaces():
    gap = " " * 200_000  # must not be looked at once per space
    assert values(f"a{gap}b\n1{gap}2\n3{gap}4{gap}\n") == {"a": [1, 3], "b": [2, 4]}


def test_the_hint_of_excel():
    assert values("sep=|\na,x|b\n1|2\n") == {"a,x": [1], "b": [2]}


def test_aligned_columns():
    assert values("  a    b\n  1  2.5\n 10 12.5\n") == {"a": [1, 10], "b": [2.5, 12.5]}
    assert values("some words\nmore words\n") == {"some words": ["more words"]}


def test_nul_bytes_are_left_out_and_said():
    table = read("a,b\n1\0,2\n3,4\n")
    assert table.frame.to_dict(as_series=False) == {"a": [1, 3], "b": [2, 4]}
    assert str(table.source.notices[0]) == "1 NUL byte left out of the text"


# --- names


def test_names_become_unique_and_none_is_empty():
    table = read("a,a,,a_2,  b\nx,1,2,3,4\n")
    assert table.frame.columns == ["a", "a_3", "column_3", "a_2", "b"]
    assert len(table.source.notices) == 2


def test_headers_are_detected():
    assert read("1,2\n3,4\n").source.header is False
    assert read("a,b\nc,d\n").source.header is True
    assert read("x,5\ny,6\nz,7\n").source.header is False
    assert read("id,1e3\n1,2\n3,4\n").frame.columns == ["id", "1e3"]
    assert read("inf,nan\n1,2\n").frame.columns == ["inf", "nan"]
    assert read("0,1,2\n5,6,9\n").frame.columns == ["0", "1", "2"]  # pandas' names
    assert read(",0,1\n0,5,6\n").frame.columns == ["column_1", "0", "1"]
    assert read("0,1,2\n3,4,5\n").frame.height == 2
    assert read("country,2019,2020\nFR,1.5,2.5\n").frame.columns == ["country", "2019", "2020"]


def test_a_given_header_is_taken():
    assert read("1,2\n3,4\n", header=True).frame.columns == ["1", "2"]
    assert read("a,b\n3,4\n", header=False).frame.height == 2
    with pytest.raises(InputError, match="no rows below its header"):
        read("1,2\n", header=True)


# --- values


def test_words_are_missing_among_numbers_only():
    table = read("a,b,c\n1,NA,true\nNaN,?,None\n-,x,FALSE\n2,None,true\n")
    assert table.frame.to_dict(as_series=False) == {
        "a": [1, None, None, 2],
        "b": ["NA", "?", "x", "None"],
        "c": [True, None, False, True],
    }
    taken, kept = map(str, table.source.notices)
    assert taken.startswith("3 cells taken as missing")
    assert "'-' (1), 'NaN' (1), 'None' (1) in columns 'a', 'c'" in taken
    assert kept.startswith("3 cells that look like a missing value are kept as text")
    assert "in column 'b'" in kept
    assert "--na" in kept
    assert not read("a,b\n1,\n2,3\n").source.notices  # an empty cell needs no word


def test_given_words_are_missing_everywhere():
    table = read("a,b,c\n1,NA,x\nunknown,?,None\n-999,NA,NA\n", na=("NA", "unknown", "-999"))
    assert table.frame.to_dict(as_series=False) == {
        "a": [1, None, None],
        "b": [None, None, None],  # "?" is all that is left
        "c": ["x", "None", None],
    }
    with pytest.raises(InputError, match="list of words"):
        read("a\n1\n", na="NA")


def test_words_are_missing_among_dates():
    table = read("d,t\n2020-01-31,NA\nNA,x\n2020-02-01,y\n")
    assert table.frame["d"].to_list() == ["2020-01-31", None, "2020-02-01"]
    assert table.frame["t"].to_list() == ["NA", "x", "y"]


def test_codes_with_leading_zeros_stay_as_written():
    got = values("id,plz,x,f\n007,01067,0,0.5\n7,99999,10,00.5\n012,,20,1\n")
    assert got["id"] == ["007", "7", "012"]
    assert got["plz"] == ["01067", "99999", None]
    assert got["x"] == [0, 10, 20]
    assert got["f"] == ["0.5", "00.5", "1"]
    for separator in ";|\t ":
        text = "a,b\n1,02\n3,4\n".replace(",", separator)
        assert values(text) == {"a": [1, 3], "b": ["02", "4"]}
    assert values('"a","b"\n"02","1"\n')["a"] == ["02"]
    assert values("a,b\n +02,1\n", header=True)["a"] == ["+02"]


@pytest.mark.parametrize("big", ["9223372036854775808", "123456789012345678901234567890"])
@pytest.mark.parametrize("other", ["1", "1.5", "9007199254740993"])
def test_whole_numbers_are_never_rounded(big, other):
    assert values(f"a,b\n{big},1\n{other},2\n")["a"] == [big, other]
    assert values(f"a;b\n{big};1,5\n{other};2,5\n")["a"] == [big, other]
    assert values("a,b\n9007199254740993,1\n0.5,2\n")["a"] == ["9007199254740993", "0.5"]


def test_columns_that_change_in_later_chunks(monkeypatch):
    monkeypatch.setattr("nearfold.store.delimited._CHUNK", 1)  # a row for each
    text = 'code,id,mix,word,sum\n1,9007199254740993,NA,None,5\n02,0.5,x,NA,"1,234"\n'
    for number in range(3):
        text += f"{number},1,1,-,{number}\n"
    table = read(text)
    got = table.frame.to_dict(as_series=False)
    assert got["code"] == ["1", "02", "0", "1", "2"]
    assert got["id"] == ["9007199254740993", "0.5", "1", "1", "1"]
    assert got["mix"] == ["NA", "x", "1", "1", "1"]
    assert got["word"] == [None] * 5
    assert got["sum"] == [5, 1234, 0, 1, 2]


def test_infinities_and_huge_numbers():
    got = values("a,b,c\ninf,1e308,1e400\n-Infinity,-1e308,1e-400\n")
    assert got == {"a": [np.inf, -np.inf], "b": [1e308, -1e308], "c": [np.inf, 0.0]}
    assert values("a\n9223372036854775807\n1\n") == {"a": [2**63 - 1, 1]}


def test_decimal_commas():
    assert values("a;b\n1,5;x\n-2,25e1;y\n") == {"a": [1.5, -22.5], "b": ["x", "y"]}
    assert values("a\tb\n,5\t1\n1,5\t2\n") == {"a": [0.5, 1.5], "b": [1, 2]}
    assert values("a;b\n1,5;1.5\n2,5;2.5\n") == {"a": ["1,5", "2,5"], "b": [1.5, 2.5]}
    assert values("a;b\n1,234;1\n5,678;2\n", decimal=",")["a"] == [1.234, 5.678]
    assert values('a,b\n"1,5",1\n"12,25",2\n')["a"] == [1.5, 12.25]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1,234,567", "12"], [1234567, 12]),
        (["1,234.5", "2,000"], [1234.5, 2000]),
        (["1,234", "999", "-12,000"], [1234, 999, -12000]),
        (["1.234.567,8", "2,5"], [1234567.8, 2.5]),
        (["1.234.567", "12"], [1234567, 12]),
        (["NA", "1,234,567", ""], [None, 1234567, None]),
        (["1,234", "1234"], ["1,234", "1234"]),  # not written in one way
        (["1,234", "01,234"], ["1,234", "01,234"]),
        (["1,234", "12,34,567"], ["1,234", "12,34,567"]),
        (["1,234,567", "many"], ["1,234,567", "many"]),
        (["9,007,199,254,740,993", "0.5"], ["9,007,199,254,740,993", "0.5"]),
        (["12.5%", "3%"], [12.5, 3]),
        (["12,5 %", "3,25 %"], [12.5, 3.25]),
        (["12.5%", "3"], ["12.5%", "3"]),
        (["1 000", "2 000"], ["1 000", "2 000"]),
        (["1_000", "2_000"], ["1_000", "2_000"]),
    ],
)
@pytest.mark.parametrize("quoted", [False, True])
def test_grouped_thousands_and_percent_signs(cells, expected, quoted):
    rows = [f'"{cell}",x' if quoted else f"{cell};x" for cell in cells]
    text = "\n".join(["a,b" if quoted else "a;b", *rows])
    table = read(text)
    assert table.frame["a"].to_list() == expected
    said = any("column 'a'" in notice for notice in table.source.notices)
    assert said is (expected != cells)


def test_thousands_or_decimals_follow_the_file_and_are_said():
    alone = read("a;b\n1,234;1\n5,678;2\n")
    assert alone.frame["a"].to_list() == [1234, 5678]
    assert "--decimal ," in alone.source.notices[0]
    points = read("a;b\n1,234;1.5\n5,678;2.25\n")
    assert points.frame["a"].to_list() == [1234, 5678]
    assert "--decimal" not in points.source.notices[0]
    commas = read("a;b;c\n1,234;1,5;1.234\n5,678;2,25;2.000\n")
    assert commas.frame["a"].to_list() == [1.234, 5.678]
    assert commas.frame["c"].to_list() == [1234, 2000]


def test_mixed_columns_stay_as_written():
    text = "a;b\n" + "".join(f"{i},5;{i},25\n" for i in range(40)) + "bad;1,5\n"
    column = read(text).frame["a"].to_list()
    assert column[3] == "3,5"
    assert column[-1] == "bad"


def test_whole_numbers_take_little_room():
    frame = read("a,b,c,d,e\n0,-1,70000,5000000000,1.0\n255,300,-70000,1,2\n").frame
    kinds = [str(kind) for kind in frame.dtypes]
    assert kinds == ["UInt8", "Int16", "Int32", "Int64", "Float64"]


@pytest.mark.parametrize("separator", ["", "ab", '"', "\n", "é"])
def test_bad_separators(separator):
    with pytest.raises(InputError, match="separator"):
        read("a,b\n1,2\n", separator=separator or "::")


def test_bad_decimals():
    with pytest.raises(InputError, match="decimal"):
        read("a,b\n1,2\n", decimal="'")
