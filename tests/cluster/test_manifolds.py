"""MDS, Isomap and LLE of rows on a cluster against the same of the rows in memory."""

import warnings
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_swiss_roll

import nearfold
from nearfold import MDS, ClassicalMDS, Isomap, LocallyLinearEmbedding
from nearfold.blocks import dask_rows
from nearfold.errors import DisconnectedGraphError, InputError, MemoryBudgetError, NonFiniteError
from nearfold.graph import bridges
from tests.cluster.test_fits import assert_equal_fits, cut_like_blocks, nearfold_threads
from tests.cluster.test_neighbors import measured

pytestmark = pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")


def table(n=900, d=8, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    scales = np.linspace(4, 0.3, d)
    return (rng.normal(size=(n, d)) * scales @ rng.normal(size=(d, d)) + 3).astype(dtype)


def roll(n=900, dtype=np.float64, seed=0):
    X = make_swiss_roll(n, random_state=seed)[0]
    return np.column_stack([X, 0.05 * X[:, :2] ** 2]).astype(dtype)


def islands(n=600):
    """Three pieces of unequal size, their rows mixed, and each row once more in the first."""
    X = roll(n)
    X[np.arange(n) % 4 == 1] += 300
    X[np.arange(n) % 9 == 5] -= 250
    return X


def chunked(X):
    return da.from_array(X, chunks=((200, 0, 1, 299, len(X) - 500), X.shape[1]))


FITS = {
    "ClassicalMDS": (lambda **o: ClassicalMDS(3, **o), table),
    "ClassicalMDS, landmarks": (lambda **o: ClassicalMDS(3, n_landmarks=30, **o), table),
    "ClassicalMDS, many landmarks": (lambda **o: ClassicalMDS(3, n_landmarks=120, **o), table),
    "MDS": (lambda **o: MDS(2, n_landmarks=40, **o), table),
    "Isomap": (lambda **o: Isomap(n_neighbors=8, **o), roll),
    "Isomap, landmarks": (lambda **o: Isomap(n_neighbors=8, n_landmarks=60, **o), roll),
    "LLE": (lambda **o: LocallyLinearEmbedding(n_neighbors=9, **o), roll),
    "LLE, landmarks": (lambda **o: LocallyLinearEmbedding(n_neighbors=9, n_landmarks=300), roll),
}
TOLERANCE = {np.float64: 1e-10, np.float32: 1e-5}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FITS)
def test_fits_equal_those_in_memory(name, dtype):
    make, rows = FITS[name]
    X, Q = rows(dtype=dtype), rows(70, dtype=dtype, seed=1)
    here, there = make().fit(X), make().fit(chunked(X))
    rtol = 1e-7 if name == "LLE" and dtype == np.float64 else TOLERANCE[dtype]
    assert_equal_fits(here, there, rtol=rtol)
    assert there.embedding_.dtype == dtype
    scale = np.abs(here.embedding_).max()
    for queries in (Q, X[:40]):
        expected = here.transform(queries) / scale
        np.testing.assert_allclose(there.transform(queries) / scale, expected, atol=rtol)


@pytest.mark.parametrize("name", [name for name in FITS if "MDS" in name or "LLE" in name])
def test_fits_cut_alike_have_the_same_bits(name):
    make, rows = FITS[name]
    X = rows(3000)
    if "MDS" in name:  # several blocks
        X = np.repeat(X, 130, axis=1) + np.arange(1040)
    dX = cut_like_blocks(X)
    assert (dX.numblocks[0] > 1) == ("MDS" in name)
    assert_equal_fits(make().fit(X), make().fit(dX))


@pytest.mark.parametrize("name", FITS)
def test_two_workers_have_the_bits_of_threads(name, client, tmp_path):
    make, rows = FITS[name]
    X, Q = rows(600), rows(90, seed=1)
    dX, dQ = chunked(X), da.from_array(Q, chunks=((40, 0, 50), X.shape[1]))
    there = make().fit(dX)
    Z = there.transform(Q)
    np.testing.assert_allclose(there.transform(dQ).compute(), Z, atol=1e-9 * np.abs(Z).max())
    with nearfold_threads():
        threads = make().fit(dX)
        assert_equal_fits(threads, there)
    nearfold.save(there, tmp_path / "m.nearfold")
    again = nearfold.load(tmp_path / "m.nearfold")
    np.testing.assert_allclose(again.transform(Q), Z, rtol=0, atol=1e-9 * np.abs(Z).max())
    np.testing.assert_array_equal(again.embedding_, there.embedding_)


@pytest.mark.parametrize("name", FITS)
def test_transform_is_lazy(name, forbidden):
    make, rows = FITS[name]
    X, Q = rows(600), rows(90, seed=1)
    there = make().fit(chunked(X))
    names = [f"c{i}" for i in range(X.shape[1])]
    frame = pd.DataFrame(Q, columns=names, index=np.arange(90) * 3 + 1)
    dQ, dframe = da.from_array(Q, chunks=((40, 0, 50), X.shape[1])), dd.from_pandas(frame, 3)
    framed = make().fit(dd.from_pandas(pd.DataFrame(X, columns=names), npartitions=4))
    with forbidden():
        Z, of_frame = there.transform(dQ), framed.transform(dframe)
    expected = there.transform(Q)
    assert (Z.shape, Z.dtype, Z.chunks[0]) == (expected.shape, expected.dtype, dQ.chunks[0])
    scale = np.abs(expected).max()
    np.testing.assert_allclose(Z.compute(), expected, rtol=0, atol=1e-9 * scale)
    found = of_frame.compute()
    assert list(found.columns) == list(framed.get_feature_names_out())
    assert (found.index == frame.index).all()
    np.testing.assert_array_equal(framed.feature_names_in_, names)
    del framed.feature_names_in_
    assert_equal_fits(there, framed, rtol=1e-7)


@pytest.mark.parametrize("name", FITS)
def test_unknown_chunks_and_empty_parts(name):
    make, rows = FITS[name]
    X = rows(700)
    keep = np.arange(700) >= 150
    dX = da.from_array(X, chunks=(140, X.shape[1]))[da.from_array(keep, chunks=140)]
    assert np.isnan(dX.shape[0])
    assert_equal_fits(make().fit(X[keep]), make().fit(dX), rtol=1e-7)


@pytest.mark.parametrize("policy", ["bridge", "largest", "each"])
@pytest.mark.parametrize("make", [Isomap, LocallyLinearEmbedding])
@pytest.mark.parametrize("samples", [False, True])
def test_graphs_in_pieces(make, policy, samples, monkeypatch):
    if samples:
        if policy != "bridge":
            pytest.skip("bridges alone are sought from samples")
        monkeypatch.setattr(bridges, "MOST_PAIRS", 1e4)
        monkeypatch.setattr(bridges, "_SAMPLED", 60)
    X, Q = islands(), islands(700)[600:]
    here = make(n_neighbors=7, disconnected=policy).fit(X)
    there = make(n_neighbors=7, disconnected=policy).fit(chunked(X))
    assert here.label_.max() >= 2
    assert_equal_fits(here, there, rtol=1e-7)
    scale = np.abs(here.embedding_).max()
    np.testing.assert_allclose(there.transform(Q) / scale, here.transform(Q) / scale, atol=1e-7)
    if policy == "bridge" or (make is Isomap and policy == "each"):
        assert there.transform(chunked(X)).shape == (600, 2)
    else:
        with pytest.raises(InputError, match=f"several pieces.*{policy}"):
            there.transform(chunked(X))


def test_small_pieces_are_bridged_from_their_own_rows():
    X = roll(600)
    X[::40] += 500 + 10 * np.arange(15)[:, None] ** 1.5  # 15 rows, each far from all others
    for make in (Isomap, LocallyLinearEmbedding):
        here = make(n_neighbors=4).fit(X)
        assert_equal_fits(here, make(n_neighbors=4).fit(chunked(X)), rtol=1e-6)


def test_a_graph_in_pieces_is_refused_with_the_number_that_connects_it():
    said = []
    for rows in (islands(), chunked(islands())):
        with pytest.raises(DisconnectedGraphError, match="would connect it") as caught:
            Isomap(n_neighbors=7, disconnected="error").fit(rows)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_what_comes_here_is_what_is_said(monkeypatch):
    """The lists and weights of LLE, the lists of Isomap, the coordinates of MDS: not the rows."""
    monkeypatch.setattr(dask_rows, "keep", list)  # without a cluster it keeps them here
    n, k = 1200, 6
    X = np.column_stack([roll(n), np.zeros((n, 60))])  # 624 KB
    for model, bound in (
        (ClassicalMDS(2), 8 * n * 2 + 8 * 66 * 70),
        (ClassicalMDS(2, n_landmarks=20), 8 * n * 12 + 200 * 65 * 8),
        (Isomap(n_neighbors=k, n_landmarks=40), 16 * n * k + 65 * 8 * 5),
        (LocallyLinearEmbedding(n_neighbors=k), 24 * n * k + 65 * 8 * 5),
    ):
        brought: list[int] = []
        with dask.config.set(scheduler=partial(weighed, brought=brought)):
            model.fit(chunked(X))
        assert sum(brought) < 1.1 * bound + 20_000, model


def weighed(graph, keys, brought, **options):
    return measured(graph, keys, brought)


def test_lists_that_do_not_fit_are_refused_first():
    nearfold.set_memory("200KB")
    try:
        with pytest.raises(MemoryBudgetError, match=r"10 neighbours for 900 rows"):
            Isomap(n_neighbors=10, n_landmarks=20).fit(chunked(roll()))
    finally:
        nearfold.set_memory(None)


@pytest.mark.parametrize("name", FITS)
def test_nan_is_named_by_its_row(name):
    make, rows = FITS[name]
    X = rows()
    X[777, 3] = np.nan
    with pytest.raises(NonFiniteError, match=r"first rows: \[777\]"):
        make().fit(chunked(X))


@pytest.mark.parametrize("name", FITS)
def test_one_chunk_on_a_worker(name, client):
    make, rows = FITS[name]
    X = rows(400)
    assert_equal_fits(make().fit(X), make().fit(da.from_array(X, chunks=-1)), rtol=1e-7)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (ClassicalMDS(metric="cityblock"), "Euclidean metric only"),
        (MDS(n_landmarks=20, metric="cityblock"), "Euclidean metric only"),
        (MDS(), "set n_landmarks"),
        (Isomap(p=1), "Euclidean metric only"),
        (Isomap(n_neighbors=None, radius=1.0), "only with n_neighbors"),
        (Isomap(extension="regressor"), "only with extension='geodesic'"),
        (Isomap(neighbors_algorithm="approximate"), "only with neighbors_algorithm='auto'"),
        (LocallyLinearEmbedding(method="ltsa"), "only with method='standard'"),
        (ClassicalMDS(metric=nearfold.Covariance()), "Euclidean metric only"),
    ],
)
def test_what_is_not_done_there_is_refused_in_one_sentence(model, said):
    with warnings.catch_warnings(), pytest.raises(InputError, match=said) as caught:
        model.fit(chunked(table()))
    assert "nearfold.sample" in str(caught.value)
