"""Several files by pattern are one table."""

import numpy as np
import polars as pl
import pytest

import nearfold
from nearfold import PCA, LinearDiscriminantAnalysis
from nearfold.blocks import scan
from nearfold.errors import InputError


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 4)) * [4, 3, 2, 1]
    frame = pl.DataFrame(X, schema=list("abcd")).with_columns(
        y=pl.Series((X[:, 0] > 0).astype(int))
    )
    for i, part in enumerate((frame[:300], frame[300:310], frame[310:])):
        columns = list("abcdy") if i != 1 else list("ydcba")
        part.select(columns).write_parquet(tmp_path / f"part-{i}.parquet")
        part.select(columns).write_csv(tmp_path / f"part-{i}.csv")
    return tmp_path, frame


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_pattern_is_the_table_of_all_files(folder, suffix):
    path, frame = folder
    pattern = str(path / f"part-*.{suffix}")
    whole = PCA(2).fit(frame.select(list("abcd")).to_numpy())
    rows = scan(pattern, columns=list("abcd"))
    assert rows.n_rows in (900, None)
    np.testing.assert_allclose(PCA(2).fit(rows).components_, whole.components_, atol=1e-12)
    np.testing.assert_array_equal(rows.to_array(), frame.select(list("abcd")).to_numpy())
    lda = LinearDiscriminantAnalysis().fit(pattern, "y")
    expected = LinearDiscriminantAnalysis().fit(frame.drop("y").to_numpy(), frame["y"].to_numpy())
    np.testing.assert_allclose(lda.scalings_, expected.scalings_, atol=1e-10)
    drawn, y = nearfold.sample(pattern, 20, "y")
    np.testing.assert_array_equal(y, drawn[:, 0] > 0)


def test_other_columns_are_refused(folder):
    path, frame = folder
    frame.drop("d").write_parquet(path / "part-9.parquet")
    with pytest.raises(InputError, match=r"part-9.*other columns.*'d'"):
        scan(str(path / "part-*.parquet"))
    with pytest.raises(InputError, match="no file is called"):
        scan(str(path / "nothing-*.parquet"))
