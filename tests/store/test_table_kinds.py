"""Excel, JSON lines, several files, frames; lists and decimals in any of them."""

import datetime
import hashlib
import io
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import nearfold
from nearfold.errors import InputError, MemoryBudgetError
from nearfold.store.tables import read_table

xlsxwriter = pytest.importorskip("xlsxwriter")


@pytest.fixture
def budget():
    yield nearfold.set_memory
    nearfold.set_memory(None)


def read(data, **options):
    return read_table(io.BytesIO(data.encode() if isinstance(data, str) else data), **options)


def workbook(**sheets):
    stream = io.BytesIO()
    book = xlsxwriter.Workbook(stream, {"default_date_format": "yyyy-mm-dd"})
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                write = sheet.write_string if isinstance(value, str) else sheet.write
                write(i, j, value)
    book.close()
    return stream.getvalue()


# --- Excel

DAY = datetime.datetime(2020, 1, 31)
ROWS = [
    ["id", "n", "f", "gap", "word", "day", "yes", "tiny", "sum"],
    ["007", 1, 0.1, 1.5, "NA", DAY, True, 1e-12, "1,234,567"],
    ["012", 300, 2.5, "NA", "x", DAY, False, 1e300, "12"],
    ["1", -7, -1, None, "y", DAY, True, 3, "7"],
]


def test_a_sheet_is_typed_as_a_text_is():
    table = read(workbook(First=ROWS, Second=[["a"], [5]]))
    got = table.frame.to_dict(as_series=False)
    assert got["id"] == ["007", "012", "1"]
    assert got["n"] == [1, 300, -7]
    assert table.frame["n"].dtype == pl.Int16
    assert got["f"] == [0.1, 2.5, -1]
    assert got["gap"] == [1.5, None, None]
    assert got["word"] == ["NA", "x", "y"]
    assert table.frame["day"].dtype.is_temporal()
    assert got["yes"] == [True, False, True]
    assert got["tiny"] == [1e-12, 1e300, 3]
    assert got["sum"] == [1234567, 12, 7]
    said = " ".join(map(str, table.source.notices))
    for words in ("'Second'", "'NA' (1) in column 'gap'", "'NA' (1) in column 'word'"):
        assert words in said
    assert str(table.source.describe()) == "a stream: 3 rows x 9 columns, Excel"


def test_a_sheet_is_named_behind_the_file(tmp_path):
    path = tmp_path / "book.xlsx"
    path.write_bytes(workbook(First=ROWS, 二=[["a", "b"], [5, "-999"], ["missing", 1.5]]))
    table = read_table(f"{path}#二", na=("-999", "missing"))
    assert table.frame.to_dict(as_series=False) == {"a": [5, None], "b": [None, 1.5]}
    assert table.source.name == "book.xlsx#二"
    with pytest.raises(InputError, match=r"book.xlsx has no sheet 'x'. There are: 'First', '二'"):
        read_table(f"{path}#x")
    assert read_table(path, header=False).frame.height == 4


def test_sheets_without_a_header_or_rows():
    assert read(workbook(a=[[1, 2], [3, 4.5]])).frame.columns == ["x0", "x1"]
    with pytest.raises(InputError, match="no rows"):
        read(workbook(a=[["p", "q"]]))
    with pytest.raises(InputError):
        read(workbook(a=[]))
    with pytest.raises(InputError, match="'separator' has no meaning"):
        read(workbook(a=ROWS), separator=";")


def test_a_workbook_that_unpacks_to_too_much_is_refused(budget):
    data = workbook(a=[[f"w{i}" * 3, "same" * 50] for i in range(20_000)])
    budget("4MB")
    with pytest.raises(MemoryBudgetError):
        read(data)


def test_broken_workbooks_are_one_line():
    data = workbook(a=ROWS)
    empty = io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    for broken in (data[: len(data) // 2], data[:-30], empty.getvalue()):
        with pytest.raises(InputError) as error:
            read(broken, format="xlsx")
        assert "\n" not in str(error.value)


# --- JSON lines


def test_json_lines(tmp_path):
    text = '{"a":1,"t":"007","v":[1,2],"o":{"p":1}}\n\n{"a":2.5,"t":null,"v":[3,4],"o":{"p":2}}\n'
    table = read(text)
    assert table.source.format == "jsonl"
    assert table.frame["a"].to_list() == [1, 2.5]
    assert table.frame["t"].to_list() == ["007", None]
    assert table.frame["v"].dtype == pl.Array(pl.Float64, 2)
    assert isinstance(table.frame["o"].dtype, pl.Struct)
    for name in ("t.jsonl", "t.ndjson"):
        (tmp_path / name).write_text('{"a": 1}\n')
        assert read_table(tmp_path / name).frame["a"].to_list() == [1]
    assert read('{"a":"-"}\n{"a":"x"}\n', na=("-",)).frame["a"].to_list() == [None, "x"]


def test_json_lines_keep_long_whole_numbers():
    long = 12345678901234567890123
    assert read(f'{{"a":{long}}}\n{{"a":1}}\n').frame["a"].to_list() == [str(long), "1"]


@pytest.mark.parametrize("text", ['{"a":1}\n{"a":\n', "[1,2]\n[3]\n", '{"a": {"b": 1}}'])
def test_json_that_is_no_lines(text):
    with pytest.raises(InputError) as error:
        read(text)
    assert "\n" not in str(error.value)


# --- several files


def test_files_by_a_pattern(tmp_path):
    for i in (2, 10, 1):
        frame = pl.DataFrame({"a": [i, i], "b": [i / 2, None]})
        frame.write_parquet(tmp_path / f"part-{i:02}.parquet")
    table = read_table(str(tmp_path / "part-*.parquet"))
    assert table.frame["a"].to_list() == [1, 1, 2, 2, 10, 10]
    assert table.source.name == "part-*.parquet (3 files)"
    hashes = [
        hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(tmp_path.glob("*.parquet"))
    ]
    assert table.source.sha256 == hashlib.sha256("".join(hashes).encode()).hexdigest()
    with pytest.raises(InputError, match="no file matches"):
        read_table(str(tmp_path / "none-*.csv"))


def test_a_column_that_is_text_in_one_file_is_text_in_all(tmp_path):
    (tmp_path / "p1.csv").write_text("id,x\n1,5\n2,7\n")
    (tmp_path / "p2.csv").write_text("x;id\n1,5;007\n")
    table = read_table(tmp_path / "p?.csv")
    assert table.frame.to_dict(as_series=False) == {"id": ["1", "2", "007"], "x": [5, 7, 1.5]}


def test_files_of_other_columns_are_refused(tmp_path):
    (tmp_path / "p1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "p2.csv").write_text("a,c\n1,2\n")
    with pytest.raises(InputError, match=r"p2.csv has no column 'b', which p1.csv has"):
        read_table(tmp_path / "p*.csv")
    (tmp_path / "p2.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(InputError, match=r"p2.csv has a column 'c'"):
        read_table(tmp_path / "p*.csv")
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "q1.parquet")
    pl.DataFrame({"a": ["x"]}).write_parquet(tmp_path / "q2.parquet")
    with pytest.raises(InputError, match=r"column 'a' is String in q2\.parquet and Int64"):
        read_table(tmp_path / "q*.parquet")


def test_files_are_held_to_one_budget(tmp_path, budget):
    for i in range(8):
        pl.DataFrame({"a": np.arange(200_000) + 0.5}).write_parquet(tmp_path / f"{i}.parquet")
    budget("8MB")
    with pytest.raises(MemoryBudgetError):
        read_table(tmp_path / "*.parquet")


# --- frames


def test_pandas_frames():
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], dtype="Int64"),
            "b": pd.array([True, None, False], dtype="boolean"),
            "f": [0.5, np.nan, 2.5],
            "o": np.array(["x", np.nan, None], dtype=object),
            "s": pd.array(["p", pd.NA, "q"], dtype="string"),
            "size": pd.Categorical(["S", "L", None], categories=["S", "M", "L"], ordered=True),
            "kind": pd.Categorical(["v", "u", "v"]),
            "t": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
        }
    )
    table = read_table(frame)
    got = table.frame.to_dict(as_series=False)
    assert got["n"] == [1, None, 3]
    assert table.frame["n"].dtype == pl.Int64
    assert got["b"] == [True, None, False]
    assert got["o"] == ["x", None, None]
    assert got["s"] == ["p", None, "q"]
    assert table.frame["size"].dtype == pl.Enum(["S", "M", "L"])
    assert got["size"] == ["S", "L", None]
    assert got["kind"] == ["v", "u", "v"]
    assert table.frame["t"].dtype.is_temporal()
    assert got["t"][1] is None
    assert table.source.format == "frame"
    assert "3 rows x 8 columns, a frame in memory" in table.source.describe()


def test_polars_and_arrow_frames():
    frame = pl.DataFrame({"a": [1, 2], "t": ["NA", "-9"], "v": [[1.0], [2.0]]})
    table = read_table(frame, na=("NA", "2"))
    assert table.frame["a"].to_list() == [1, None]
    assert table.frame["t"].to_list() == [None, "-9"]
    assert table.frame["v"].dtype == pl.Array(pl.Float64, 1)
    assert frame["a"].to_list() == [1, 2]  # untouched
    arrow = read_table(pa.table({"a": [1, 2], "c": pa.array(["x", "y"]).dictionary_encode()}))
    assert arrow.frame.to_dict(as_series=False) == {"a": [1, 2], "c": ["x", "y"]}
    assert read_table(frame).source.sha256 == read_table(frame.clone()).source.sha256
    assert read_table(frame).source.sha256 != read_table(frame.head(1)).source.sha256


# --- types that need care


def written(frame, how):
    stream = io.BytesIO()
    getattr(frame, how)(stream)
    return stream.getvalue()


@pytest.mark.parametrize("how", ["write_parquet", "write_ipc", "write_ipc_stream"])
def test_lists_bytes_and_decimals(how):
    frame = pl.DataFrame(
        {
            "same": pl.Series([[1, 2], None, [3, 4]], dtype=pl.List(pl.Int32)),
            "single": pl.Series([[1.5], [2.5], [None]], dtype=pl.List(pl.Float32)),
            "fixed": pl.Series([[1, 2]] * 3, dtype=pl.Array(pl.Float32, 2)),
            "other": [[1], [2, 3], []],
            "words": [["a"], ["b"], ["c"]],
            "bytes": [b"\0", b"\1", None],
            "money": pl.Series([Decimal("1.25"), None, Decimal("-3.50")], dtype=pl.Decimal(30, 2)),
            "long": pl.Series([Decimal("12345678901234.567")] * 3, dtype=pl.Decimal(38, 3)),
        }
    )
    got = read(written(frame, how)).frame
    assert got.dtypes[:4] == [
        pl.Array(pl.Float64, 2),
        pl.Array(pl.Float32, 1),
        pl.Array(pl.Float32, 2),
        pl.List(pl.Int64),
    ]
    assert got["same"].to_list() == [[1, 2], None, [3, 4]]
    assert got["words"].dtype == pl.List(pl.String)
    assert got["bytes"].dtype == pl.Binary
    assert got["money"].to_list() == [1.25, None, -3.5]
    assert got["long"].to_list() == ["12345678901234.567"] * 3
