"""Rows in blocks: every source gives the same rows, in order, in the promised dtype."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import nearfold
from nearfold.blocks import (
    Block,
    MappedRows,
    as_rows,
    combine_blocks,
    combine_pairwise,
    get_memory,
    is_streamed,
    scan,
    use_executor,
)
from nearfold.blocks.memory import parse_bytes
from nearfold.errors import InputError, MemoryBudgetError

NAMES = ["a", "b", "c"]
SMALL = 2 * 1024  # bytes: a block of it holds some dozens of rows


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


def cut_small(monkeypatch):
    """Blocks, slices and chunks of a few dozen rows."""
    monkeypatch.setattr("nearfold.blocks.rows.BLOCK_BYTES", SMALL)
    monkeypatch.setattr("nearfold.blocks.tables.CHUNK_BYTES", 4 * SMALL)
    monkeypatch.setattr("nearfold.blocks.tables.SLICE_BYTES", 2 * SMALL)


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def X(request):
    return np.random.default_rng(0).normal(size=(1003, 3)).astype(request.param)


def write(kind, X, folder):
    """X as the named source."""
    frame = pl.DataFrame(X, schema=NAMES)
    path = folder / f"table.{kind}"
    match kind:
        case "ndarray":
            return X
        case "memmap":
            np.save(path.with_suffix(".npy"), X)
            return np.load(path.with_suffix(".npy"), mmap_mode="r")
        case "csr":
            return sparse.csr_array(X)
        case "csc":
            return sparse.csc_matrix(X)
        case "list":
            return X.tolist()
        case "pandas":
            return pd.DataFrame(X, columns=NAMES)
        case "polars":
            return frame
        case "lazy":
            return frame.lazy()
        case "npy":
            np.save(path, X)
        case "parquet" | "pq":
            frame.write_parquet(path, row_group_size=100)
        case "csv":
            frame.write_csv(path)
        case "tsv":
            frame.write_csv(path, separator="\t")
    return path


SOURCES = ["ndarray", "memmap", "csr", "csc", "list", "pandas", "polars", "lazy"]
SOURCES += ["npy", "parquet", "pq", "csv", "tsv"]


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def read_all(rows, target=None):
    return np.vstack([dense(block.X) for block in rows.blocks(target)])


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_yields_the_same_rows_in_order(kind, small, X, tmp_path, monkeypatch):
    if small:
        cut_small(monkeypatch)
    rows = as_rows(write(kind, X, tmp_path))
    text = kind in ("csv", "tsv", "list")  # these do not remember float32
    blocks = list(rows.blocks())
    assert len(blocks) > 3 if small else len(blocks) >= 1
    starts = np.cumsum([0, *(block.X.shape[0] for block in blocks)])
    assert [block.start for block in blocks] == starts[:-1].tolist()
    assert starts[-1] == len(X)
    assert {block.X.dtype for block in blocks} == {rows.dtype}
    assert rows.dtype == (np.float64 if text else X.dtype)
    assert rows.n_features == 3
    assert rows.n_rows in (None, len(X))
    assert rows.feature_names in (None, NAMES)
    got = read_all(rows)
    np.testing.assert_array_equal(got if not text else got.astype(X.dtype), X)
    np.testing.assert_array_equal(read_all(rows), got)  # as often as needed
    some = np.array([len(X) - 1, 0, 7, 7])
    np.testing.assert_array_equal(rows.take(some), got[some])
    with pytest.raises(InputError, match="has no row"):
        rows.take(np.array([0, len(X)]))


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "parquet", "csv"])
def test_named_sources_know_their_names(kind, X, tmp_path):
    assert as_rows(write(kind, X, tmp_path)).feature_names == NAMES


def test_sparse_blocks_stay_sparse(X):
    assert all(sparse.issparse(block.X) for block in as_rows(sparse.csr_array(X)).blocks())


@pytest.mark.parametrize(
    "kind", ["int64", "uint8", "bool", "float16", "float64", ">f8"], ids=lambda k: k
)
@pytest.mark.parametrize("how", ["ndarray", "npy", "csr"])
def test_all_but_float32_becomes_float64(kind, how, tmp_path):
    if how == "csr" and kind in ("float16", ">f8"):
        pytest.skip("SciPy has no such sparse matrices")
    X = np.array([[0, 1], [1, 0], [1, 1]]).astype(kind)
    rows = as_rows(write(how, X, tmp_path))
    block = next(iter(rows.blocks()))
    assert rows.dtype == block.X.dtype == np.float64
    np.testing.assert_array_equal(dense(block.X), X.astype(np.float64))


@pytest.mark.parametrize("how", [pl.DataFrame, pl.LazyFrame, pd.DataFrame])
def test_mixed_columns_become_float64(how):
    one, two = np.array([1, 2], dtype=np.float32), np.array([3, 4], dtype=np.int16)
    rows = as_rows(how({"a": one, "b": two, "c": [True, False]}))
    block = next(iter(rows.blocks()))
    assert rows.dtype == block.X.dtype == np.float64
    np.testing.assert_array_equal(block.X, [[1, 3, 1], [2, 4, 0]])


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "parquet", "csv"])
def test_target_column_comes_as_y(kind, small, X, tmp_path, monkeypatch):
    if small:
        cut_small(monkeypatch)
    rows = as_rows(write(kind, X, tmp_path))
    blocks = list(rows.blocks(target="b"))
    y = np.concatenate([block.y for block in blocks])
    np.testing.assert_array_equal(y.astype(X.dtype), X[:, 1])
    got = np.vstack([block.X for block in blocks])
    np.testing.assert_array_equal(got.astype(X.dtype), X[:, [0, 2]])


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy"])
def test_target_may_be_text(kind):
    how = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame}[kind]
    rows = as_rows(how({"a": [1.0, 2.0], "kind": ["x", "y"]}))
    (block,) = rows.blocks(target="kind")
    assert block.y.tolist() == ["x", "y"]
    np.testing.assert_array_equal(block.X, [[1.0], [2.0]])


@pytest.mark.parametrize("kind", ["ndarray", "npy"])
def test_target_needs_names(kind, X, tmp_path):
    with pytest.raises(InputError, match="'b'"):
        next(iter(as_rows(write(kind, X, tmp_path)).blocks(target="b")))


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "parquet"])
def test_unknown_target_lists_the_columns(kind, X, tmp_path):
    with pytest.raises(InputError, match=r"'zz'.*'a', 'b', 'c'"):
        next(iter(as_rows(write(kind, X, tmp_path)).blocks(target="zz")))


@pytest.mark.parametrize("kind", ["lazy", "parquet", "csv", "tsv"])
def test_scan_takes_some_columns_in_the_order_given(kind, X, tmp_path):
    rows = scan(write(kind, X, tmp_path), columns=["c", "a"])
    assert rows.feature_names == ["c", "a"]
    assert rows.n_features == 2
    np.testing.assert_array_equal(read_all(rows).astype(X.dtype), X[:, [2, 0]])


def test_scan_leaves_text_out(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,name\n1,one\n2,two\n")
    np.testing.assert_array_equal(read_all(scan(path, columns=["x"])), [[1.0], [2.0]])


def test_scan_unknown_column(X, tmp_path):
    with pytest.raises(InputError, match=r"'zz'.*'a', 'b', 'c'"):
        scan(write("parquet", X, tmp_path), columns=["a", "zz"])


def test_scan_npy_has_no_columns(X, tmp_path):
    with pytest.raises(InputError, match="no column names"):
        scan(write("npy", X, tmp_path), columns=["a"])


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"no file .*gone\.csv"):
        scan(tmp_path / "gone.csv")


def test_wrong_suffix(tmp_path):
    path = tmp_path / "t.xlsx"
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"\.parquet"):
        scan(path)


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "csv"])
def test_text_columns_are_named(kind, tmp_path):
    frame = pl.DataFrame({"x": [1.0], "town": ["Ulm"], "day": ["Monday"]})
    source = {"pandas": frame.to_pandas(), "polars": frame, "lazy": frame.lazy()}.get(kind)
    if kind == "csv":
        source = tmp_path / "t.csv"
        frame.write_csv(source)
    with pytest.raises(InputError, match=r"2 column\(s\).*'town' .*'day'"):
        list(as_rows(source).blocks())


def test_npy_cut_short(X, tmp_path):
    path = write("npy", X, tmp_path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InputError, match="cut short"):
        scan(path)


@pytest.mark.parametrize("content", [b"", b"\x93NUM", b"not an array at all", b"\x93NUMPY\x09\x00"])
def test_not_npy(content, tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"x\.npy is not a \.npy file"):
        scan(path)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(4), r"\(4,\)"),
        (np.zeros((2, 2, 2)), r"\(2, 2, 2\)"),
        (np.array([[1, "x"]], dtype=object), "object"),
        (np.array([["u", "v"]]), "<U1"),
        (np.zeros((2, 2), dtype=complex), "complex128"),
        (np.asfortranarray(np.ones((3, 2))), "column order"),
    ],
    ids=["1d", "3d", "object", "text", "complex", "fortran"],
)
def test_npy_of_the_wrong_kind(array, said, tmp_path):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match=said):
        scan(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("junk.parquet", b"PAR1 this is not parquet"),
        ("empty.csv", b""),
        ("late.csv", b"a,b\n" + b"1,2\n" * 10_500 + b"x,3\n"),
    ],
    ids=["junk-parquet", "empty-csv", "late-text-csv"],
)
def test_unreadable_tables_are_input_errors_that_name_the_file(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        list(scan(tmp_path / name).blocks())


@pytest.mark.parametrize("shape", [(4,), (2, 2, 2)])
def test_arrays_must_have_rows_and_columns(shape):
    with pytest.raises(InputError, match="shape"):
        as_rows(np.zeros(shape))


@pytest.mark.parametrize("kind", ["pandas", "pandas-nullable", "polars", "lazy", "csv"])
def test_nulls_become_nan(kind, tmp_path):
    frame = pl.DataFrame({"i": [1, None, 3], "f": [0.5, 1.5, None], "b": [True, None, False]})
    expected = [[1, 0.5, 1], [np.nan, 1.5, np.nan], [3, np.nan, 0]]
    match kind:
        case "pandas":
            source = frame.to_pandas()
        case "pandas-nullable":
            source = frame.to_pandas().astype({"i": "Int64", "f": "Float64", "b": "boolean"})
        case "polars":
            source = frame
        case "lazy":
            source = frame.lazy()
        case "csv":
            source = tmp_path / "t.csv"
            frame.write_csv(source)
    if kind == "pandas":  # here a column of booleans with nulls is one of objects
        source, expected = source[["i", "f"]], np.array(expected)[:, :2]
    np.testing.assert_array_equal(read_all(as_rows(source)), expected)


def test_no_rows_is_an_error_when_combined(tmp_path):
    with pytest.raises(InputError, match="no rows"):
        combine_blocks(as_rows(np.empty((0, 3))).blocks(), lambda block: block.X.sum(), np.add)


def test_is_streamed(X, tmp_path):
    path = write("npy", X, tmp_path)
    streamed = [path, str(path), scan(path), pl.LazyFrame({"a": [1]})]
    held = [X, sparse.csr_array(X), pl.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]}), [[1.0]]]
    assert [is_streamed(x) for x in streamed + held] == [True] * 4 + [False] * 5


# ---- the budget ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", SOURCES)
def test_cuts_do_not_depend_on_the_budget(kind, tmp_path, monkeypatch):
    cut_small(monkeypatch)
    rows = as_rows(write(kind, np.random.default_rng(0).normal(size=(1003, 3)), tmp_path))
    cuts = set()
    for budget in ("1GB", "512KB", "64KB"):
        nearfold.set_memory(budget)
        cuts.add(tuple((block.start, block.X.shape[0]) for block in rows.blocks()))
    assert len(cuts) == 1
    assert len(cuts.pop()) > 3


def test_a_block_has_some_rows_however_wide_they_are():
    rows = as_rows(np.broadcast_to(0.0, (100, 2_000_000)))
    assert rows.block_rows() >= 16


@pytest.mark.parametrize("n_rows", [0, 1, 15, 16, 17, 1000, 1001])
def test_spans_cover_every_row_once(n_rows, monkeypatch):
    cut_small(monkeypatch)
    spans = as_rows(np.zeros((1, 3))).spans(n_rows)
    assert [i for span in spans for i in range(span.start, span.stop)] == list(range(n_rows))


@pytest.mark.parametrize(
    ("text", "size"),
    [(1000, 1000), ("4GB", 4 << 30), ("512 MiB", 512 << 20), ("1.5 g", 3 << 29), ("7", 7)],
)
def test_sizes(text, size):
    nearfold.set_memory(text)
    assert parse_bytes(text) == get_memory() == size


@pytest.mark.parametrize("text", ["", "lots", "-1", "0", "4XB", "1.2.3GB"])
def test_not_sizes(text):
    with pytest.raises(InputError, match="not a size"):
        nearfold.set_memory(text)


def test_budget_from_the_environment(monkeypatch):
    monkeypatch.setenv("NEARFOLD_MEMORY", "3MB")
    assert get_memory() == 3 << 20
    nearfold.set_memory("1MB")  # said in the program: stronger
    assert get_memory() == 1 << 20
    nearfold.set_memory(None)
    monkeypatch.delenv("NEARFOLD_MEMORY")
    assert get_memory() >= 64 << 20


def test_require_memory_gives_numbers_and_advice():
    nearfold.set_memory("1MB")
    nearfold.blocks.require_memory(1 << 20, "It", "Do less.")
    with pytest.raises(MemoryBudgetError, match=r"It needs about 2\.0 MB.*1\.0 MB\. Do less\."):
        nearfold.blocks.require_memory(2 << 20, "It", "Do less.")


# ---- immutable, attached, picklable --------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "parquet", "csv"])
def test_taking_a_target_leaves_the_source_as_it_was(kind, X, tmp_path):
    rows = as_rows(write(kind, X, tmp_path))
    before = dict(vars(rows))
    list(rows.blocks(target="b"))
    rows.with_target("b"), rows.select(["c", "a"]), rows.with_weights(np.ones(1003))
    assert vars(rows) == before
    assert rows.n_features == 3
    assert rows.with_target("b").feature_names == ["a", "c"]
    assert read_all(rows).shape == (1003, 3)


@pytest.mark.parametrize("kind", SOURCES)
def test_blocks_carry_weights_and_targets(kind, X, tmp_path, monkeypatch):
    cut_small(monkeypatch)
    w, y = np.arange(1003.0), np.arange(1003) % 7
    rows = as_rows(write(kind, X, tmp_path)).with_weights(w).with_target(y)
    blocks = list(rows.blocks())
    assert len(blocks) > 3
    np.testing.assert_array_equal(np.concatenate([b.weights for b in blocks]), w)
    np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), y)


@pytest.mark.parametrize("count", [1002, 1004])
def test_a_wrong_number_of_weights(count, X):
    with pytest.raises(InputError, match="sample_weight"):
        list(as_rows(X).with_weights(np.ones(count)).blocks())


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_and_their_blocks_can_be_pickled(kind, X, tmp_path):
    rows = as_rows(write(kind, X, tmp_path)).with_weights(np.arange(1003.0))
    copied = pickle.loads(pickle.dumps(rows))
    np.testing.assert_array_equal(read_all(copied), read_all(rows))
    block = next(iter(rows.blocks()))
    again = pickle.loads(pickle.dumps(block))
    np.testing.assert_array_equal(again.weights, block.weights)


def double(block: Block):
    return 2 * block.dense()


def test_mapped_rows_are_iterated_or_taken_whole(X, tmp_path, monkeypatch):
    cut_small(monkeypatch)
    rows = MappedRows(as_rows(write("npy", X, tmp_path)), double, 3, X.dtype)
    assert rows.shape == (1003, 3)
    assert len(list(rows.blocks())) > 3
    np.testing.assert_array_equal(rows.to_array(), 2 * X)
    np.testing.assert_array_equal(np.asarray(rows, dtype=np.float64), 2 * X.astype(np.float64))
    nearfold.set_memory("2KB")
    with pytest.raises(MemoryBudgetError, match="as one array"):
        rows.to_array()


@pytest.mark.parametrize("where", ["early", "last"])
def test_a_stray_quote_is_refused_and_not_read_as_one_cell(where, tmp_path, monkeypatch):
    cut_small(monkeypatch)
    nearfold.set_memory("64KB")
    lines = ["x,y"] + [f"{i},{i}" for i in range(20_000)]
    lines[12_000 if where == "early" else -1] += '"'
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    said = "has no end within" if where == "early" else "never closed"
    with pytest.raises(InputError, match=rf"t\.csv: .* after line \d+ .*{said}|{said}"):
        list(scan(tmp_path / "t.csv").blocks())


def test_line_breaks_inside_quotes_do_not_end_a_row(tmp_path, monkeypatch):
    cut_small(monkeypatch)
    text = "x,name\n" + "".join(f'{i},"two\nlines, ""{i}"" "\n' for i in range(3000))
    (tmp_path / "t.csv").write_text(text)
    got = np.vstack([b.X for b in scan(tmp_path / "t.csv", columns=["x"]).blocks()])
    np.testing.assert_array_equal(got[:, 0], np.arange(3000))


# ---- combining -----------------------------------------------------------------------


def literal_tree(items):
    """Layer by layer: neighbours joined in pairs, an odd one at the end carried up."""
    while len(items) > 1:
        pairs = [tuple(items[i : i + 2]) for i in range(0, len(items), 2)]
        items = [pair if len(pair) == 2 else pair[0] for pair in pairs]
    return items[0]


@given(st.integers(1, 200))
def test_combine_pairwise_is_the_literal_tree(count):
    got = combine_pairwise(iter(range(count)), lambda a, b: (a, b))
    assert got == literal_tree(list(range(count)))


@pytest.mark.parametrize("n_jobs", [1, 2, 3, None])
@pytest.mark.parametrize("count", [1, 2, 7, 32, 53])
def test_the_tree_does_not_depend_on_threads(count, n_jobs):
    got = combine_blocks(range(count), lambda i: i, lambda a, b: (a, b), n_jobs=n_jobs)
    assert got == literal_tree(list(range(count)))


def test_rounding_does_not_depend_on_threads():
    values = np.random.default_rng(0).normal(size=999) * 10.0 ** np.arange(999)[::-1].clip(0, 12)
    sums = {combine_blocks(values, float, lambda a, b: a + b, n_jobs=j) for j in (1, 2, 5)}
    assert len(sums) == 1


class Recorder:
    """An executor that counts its tasks."""

    def __init__(self):
        self.tasks = 0

    def map(self, task, items):
        for item in items:
            self.tasks += 1
            yield task(item)


def test_an_executor_can_be_handed_in():
    given_, used = Recorder(), Recorder()
    assert combine_blocks(range(5), abs, max, executor=given_) == 4
    with use_executor(used):
        assert combine_blocks(range(7), abs, max) == 6
    assert combine_blocks(range(3), abs, max) == 2
    assert (given_.tasks, used.tasks) == (5, 7)


def test_nothing_to_combine():
    with pytest.raises(InputError, match="no rows"):
        combine_pairwise([], lambda a, b: a)
