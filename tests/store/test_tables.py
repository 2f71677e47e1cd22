"""Tables from files of every format: what is read, what is said about it, what is refused."""

import gzip
import hashlib
import io
import json
import struct
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import nearfold
from nearfold.errors import InputError, MemoryBudgetError
from nearfold.store.tables import read_table

FRAME = pl.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 2.5], "t": ["x", "y", None]})


@pytest.fixture
def budget():
    yield nearfold.set_memory
    nearfold.set_memory(None)


def read(data, **options):
    return read_table(io.BytesIO(data.encode() if isinstance(data, str) else data), **options)


def npy(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def npz(**arrays):
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def written(frame, how, **options):
    stream = io.BytesIO()
    getattr(frame, how)(stream, **options)
    return stream.getvalue()


FILES = {
    "t.csv": FRAME.write_csv().encode(),
    "t.tsv": FRAME.write_csv(separator="\t").encode(),
    "t.txt": FRAME.write_csv(separator=";").encode(),
    "t.parquet": written(FRAME, "write_parquet"),
    "t.pq": written(FRAME, "write_parquet", compression="zstd"),
    "t.arrow": written(FRAME, "write_ipc"),
    "t.feather": written(FRAME, "write_ipc", compression="lz4"),
    "t.ipc": written(FRAME, "write_ipc_stream"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("keeps_name", [True, False], ids=["named", "unnamed"])
def test_every_format_gives_the_same_table(tmp_path, name, packed, keeps_name):
    data = gzip.compress(FILES[name]) if packed else FILES[name]
    path = tmp_path / ((name + (".gz" if packed else "")) if keeps_name else "unknown")
    path.write_bytes(data)
    table = read_table(path)
    assert table.frame.cast({"a": pl.Int64}).equals(FRAME)
    source = table.source
    assert (source.n_rows, source.n_columns, source.name) == (3, 3, path.name)
    assert source.sha256 == hashlib.sha256(data).hexdigest()
    assert source.compression == ("gzip" if packed else None)
    known = {".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".parquet": "parquet", ".pq": "parquet"}
    assert source.format == known.get("." + name.split(".")[1], "arrow")


def test_describe_says_it_in_one_line():
    text = "größe;name\n1,5;ä\n2,5;ö\n".encode("cp1252")
    source = read(gzip.compress(text)).source
    assert str(source.describe()) == (
        "a stream: 2 rows x 2 columns, CSV, gzip, cp1252, separated by ';', decimal comma"
    )
    one = read("1\n2\n").source
    assert str(one.describe()) == "a stream: 2 rows x 1 column, CSV, utf-8, no header"
    assert str(read("a\tb\n1\t2\n").source.describe()).endswith("TSV, utf-8, separated by tabs")


def test_stdin_is_read_as_bytes(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(FILES["t.parquet"])))
    table = read_table("-")
    assert table.frame.equals(FRAME)
    assert table.source.name == "stdin"


def test_a_text_stream_is_refused():
    with pytest.raises(InputError, match="binary mode"):
        read_table(io.StringIO("a,b\n1,2\n"))


def test_a_given_format_wins_over_the_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(FILES["t.tsv"])
    assert read_table(path, format="tsv").source.separator == "\t"
    with pytest.raises(InputError, match="use one of csv, tsv"):
        read_table(path, format="xls")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_table(path, format="parquet")


def test_the_first_bytes_win_over_the_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(FILES["t.parquet"])
    assert read_table(path).source.format == "parquet"


def test_files_that_are_not_there_or_not_files(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_table("a\0b.csv")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"%PDF-1.7 ...", "PDF"),
        (b"\x89PNG\r\n\x1a\n", "picture"),
        (b"BZh91AY", "bzip2"),
        (b"\x28\xb5\x2f\xfdxxxx", "zstandard"),
        (b"\x80\x04\x95abc", "pickle"),
        (b"NEARFOLD....", "model"),
        (b"FEA1....", "version 1"),
        (bytes(range(1, 32)) * 40, "not a text table"),
    ],
)
def test_foreign_files_are_named(data, says):
    with pytest.raises(InputError, match=says):
        read(data)


def test_text_options_mean_nothing_to_a_parquet_file():
    with pytest.raises(InputError, match="'encoding' has no meaning"):
        read(FILES["t.parquet"], encoding="utf-8")


def test_columns_of_parquet_keep_their_types_but_decimals_and_categories():
    frame = pl.DataFrame(
        {
            "u": pl.Series([1, 2], dtype=pl.UInt8),
            "f": pl.Series([1.5, 2.5], dtype=pl.Float32),
            "d": pl.Series(["1.25", "2.50"]).cast(pl.Decimal(10, 2)),
            "c": pl.Series(["p", "q"], dtype=pl.Categorical),
            "l": [[1], [2, 3]],
        }
    )
    for how in ("write_parquet", "write_ipc", "write_ipc_stream"):
        got = read(written(frame, how)).frame
        assert got.dtypes == [pl.UInt8, pl.Float32, pl.Float64, pl.String, pl.List(pl.Int64)]
        assert got["d"].to_list() == [1.25, 2.5]
        assert got["c"].to_list() == ["p", "q"]


@pytest.mark.parametrize("how", ["write_parquet", "write_ipc", "write_ipc_stream"])
def test_cut_columnar_files_are_one_line(how, capfd):
    data = written(pl.DataFrame({"a": range(1000), "b": ["text"] * 1000}), how)
    for keep in (5, 9, 40, len(data) // 3, len(data) // 2, len(data) - 20):
        with pytest.raises(InputError) as error:
            read(data[:keep])
        assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""


def test_a_panic_of_the_parser_is_one_line(monkeypatch):
    def panic(file, kind):
        raise pl.exceptions.PanicException("index out of bounds\nmore")

    monkeypatch.setattr("nearfold.store.columnar._read", panic)
    with pytest.raises(InputError, match=r"cannot be read as Parquet: index out of bounds\.$"):
        read(FILES["t.parquet"])


# --- NumPy's files


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i4", "i8", "f2", "f4", ">f8", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_keeps_values_and_types(dtype, order):
    X = np.asarray([[0, 1, 1], [1, 0, 1]], dtype=dtype, order=order)
    frame = read(npy(X)).frame
    assert frame.columns == ["x0", "x1", "x2"]
    assert np.array_equal(frame.to_numpy(), X)
    wider = {"f2": np.float32}.get(dtype, np.dtype(dtype).newbyteorder("="))
    assert frame["x0"].to_numpy().dtype == wider


def test_npy_of_other_shapes():
    assert read(npy(np.arange(3.0))).frame.to_dict(as_series=False) == {"x0": [0, 1, 2]}
    cube = np.arange(24).reshape(2, 3, 4)
    table = read(npy(cube))
    assert np.array_equal(table.frame.to_numpy(), cube.reshape(2, 12))
    assert "an array of 3 x 4" in table.source.notices[0]
    record = np.array([(1, 2.5, "p"), (2, 3.5, "q")], dtype=[("n", "i4"), ("v", "f8"), ("s", "U2")])
    got = read(npy(record)).frame.to_dict(as_series=False)
    assert got == {"n": [1, 2], "v": [2.5, 3.5], "s": ["p", "q"]}


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.array(3.0), "a single value"),
        (np.zeros((0, 3)), "nothing"),
        (np.zeros((3, 0)), "nothing"),
        (np.array([1j]), "complex"),
        (np.array(["a", 1], dtype=object), "never opened"),
    ],
)
def test_npy_that_is_no_table(array, says):
    with pytest.raises(InputError, match=says):
        read(npy(array))


def forged_npy(shape, dtype="<f8", data=b"\0" * 16):
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (63 - len(header) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize("shape", [(2**40,), (2**31, 2**31), (-1, -2), (0, 2**60), (2**60, 0)])
def test_forged_npy_headers_allocate_nothing(shape):
    tracemalloc.start()
    with pytest.raises(InputError):
        read(forged_npy(shape))
    assert tracemalloc.get_traced_memory()[1] < 4e6
    tracemalloc.stop()
    with pytest.raises(InputError):
        read(forged_npy(shape, data=b""))


def test_npz_takes_the_table_and_the_vectors_beside_it():
    X = np.arange(6, dtype=np.uint8).reshape(3, 2)
    table = read(npz(X=X, y=["a", "b", "c"], big=np.zeros((9, 9)), short=[1, 2], version=1))
    assert table.frame.columns == ["x0", "x1", "y"]
    assert table.frame["x0"].dtype == pl.UInt8
    assert table.frame["y"].to_list() == ["a", "b", "c"]
    assert str(table.source.notices[0]) == "2 arrays of the file not used: 'big', 'short'"
    assert read(npz(small=np.eye(2), large=np.eye(3))).frame.height == 3
    assert read(npz(p=[1, 2], q=[3.5, 4.5], r=[1])).frame.columns == ["p", "q"]
    assert read(npz(X=np.eye(2), x0=[5, 6])).frame.columns == ["x0", "x1", "x0_2"]


def test_npz_with_a_broken_member():
    data = bytearray(npz(X=np.random.default_rng(0).random((20, 20))))
    data[600] ^= 0xFF
    with pytest.raises(InputError) as error:
        read(bytes(data))
    assert "\n" not in str(error.value)


# --- sizes are known before anything is allocated


def peak_while_refused(data):
    tracemalloc.start()
    try:
        with pytest.raises(MemoryBudgetError, match="memory budget is"):
            read(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_gzip_bombs_are_unpacked_in_steps(budget):
    budget("8MB")
    bomb = gzip.compress(b"0,0\n" * 25_000_000, 9)
    assert len(bomb) < 200_000
    assert peak_while_refused(bomb) < 20e6
    assert peak_while_refused(gzip.compress(bomb[:0]) + bomb) < 20e6  # a second member


def test_npz_bombs_are_refused_by_the_sizes_they_declare(budget):
    budget("8MB")
    bomb = npz(X=np.zeros((1000, 10_000), dtype=np.uint8))
    assert peak_while_refused(bomb) < 4e6


@pytest.mark.parametrize("how", ["write_parquet", "write_ipc", "write_ipc_stream"])
def test_columnar_bombs_are_refused_by_the_rows_they_declare(budget, how):
    bomb = written(pl.DataFrame({"a": np.zeros(3_000_000)}), how, compression="zstd")
    assert len(bomb) < 3e6
    budget("8MB")
    with pytest.raises(MemoryBudgetError, match="the table in a stream needs about"):
        read(bomb)
    budget("80MB")
    assert read(bomb).frame.height == 3_000_000


def test_a_text_is_refused_by_what_its_cells_will_take(budget):
    numbers = b"a,b,c\n" + b"1,2,3\n" * 200_000
    words = b"a,b,c\n" + b"p,q,r\n" * 200_000
    budget("8MB")
    assert read(numbers).frame.height == 200_000  # a byte for each
    with pytest.raises(MemoryBudgetError, match="the table in a stream"):
        read(words)  # sixteen
    budget("1MB")
    with pytest.raises(MemoryBudgetError, match="reading a stream"):
        read(numbers)


def test_an_endless_stream_is_refused(budget):
    budget("8MB")

    class Endless(io.RawIOBase):
        def read(self, size=-1):
            return b"1,2\n" * (size // 4)

    with pytest.raises(MemoryBudgetError):
        read_table(Endless())


def test_cut_and_spoilt_gzip():
    packed = gzip.compress(b"a,b\n" + b"1,2\n" * 1000)
    with pytest.raises(InputError, match="cut off"):
        read(packed[: len(packed) // 2])
    spoilt = bytearray(packed)
    spoilt[20] ^= 0xFF
    with pytest.raises(InputError, match=r"decompressed|cut off"):
        read(bytes(spoilt))
    assert read(packed + b"\0" * 64).frame.height == 1000  # padding behind the end


def test_a_source_goes_into_json():
    source = read("a,b\n1,2\n").source
    assert json.loads(json.dumps(vars(source)))["separator"] == ","
