"""algorithm="approximate" in the estimators, the doctor and model files."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import nearfold
from nearfold import (
    Certificate,
    Covariance,
    Isomap,
    KNeighborsClassifier,
    KNeighborsRegressor,
    KNeighborsTransformer,
    LocallyLinearEmbedding,
    NearestNeighbors,
    diagnose,
)
from nearfold.errors import InputError
from nearfold.neighbors import approximate, cells, probing


@pytest.fixture(autouse=True)
def _small_scale(monkeypatch):
    """Cells so small that a few thousand rows have many of them."""
    monkeypatch.setattr(approximate, "_FEW_ROWS", 500)
    monkeypatch.setattr(cells, "CELL", 16)
    monkeypatch.setattr(probing, "_LOOKED_AT", 24)


def sheet(n=1500, d=12, seed=0):
    """A curved sheet in many columns."""
    rng = np.random.default_rng(seed)
    t = rng.random((n, 2))
    B = rng.standard_normal((2, d))
    return np.sin(2 * t @ B) + t @ rng.standard_normal((2, d)), t


def test_nearest_neighbors_has_certificates():
    X, _ = sheet()
    search = NearestNeighbors(n_neighbors=7, algorithm="approximate", recall=0.9).fit(X)
    assert isinstance(search.certificate_, Certificate)  # the graph is searched for it
    assert (search.certificate_.n_queries, search.certificate_.n_neighbors) == (1500, 7)
    assert search.certificate_.holds
    with pytest.raises(AttributeError, match="no other rows"):
        _ = search.query_certificate_
    search.kneighbors(X[:1000] + 0.01)
    assert search.query_certificate_.n_queries == 1000
    exact = NearestNeighbors().fit(X)
    assert not hasattr(exact, "certificate_")
    near = search.kneighbors(return_distance=False)
    assert (near == exact.kneighbors(n_neighbors=7, return_distance=False)).mean() > 0.9
    for found, want in zip(
        search.radius_neighbors(X[:20], 0.2), exact.radius_neighbors(X[:20], 0.2), strict=True
    ):
        for a, b in zip(found, want, strict=True):  # by radius: exact
            np.testing.assert_array_equal(a, b)


def test_parameters_are_checked_and_cloned():
    X, _ = sheet(50)
    for recall in (0.0, 1.0, -1, "high"):
        with pytest.raises(ValueError, match="recall"):
            NearestNeighbors(algorithm="approximate", recall=recall).fit(X)
    again = clone(KNeighborsClassifier(algorithm="approximate", recall=0.8, random_state=3))
    assert (again.recall, again.random_state) == (0.8, 3)
    with pytest.raises(InputError, match="learned metric"):
        NearestNeighbors(algorithm="approximate", metric="manhattan").fit(X)
    for state in (5, np.random.RandomState(5)):
        NearestNeighbors(algorithm="approximate", random_state=state).fit(X).kneighbors()


def test_predictions_agree_with_the_exact_ones():
    X, t = sheet(4000)
    y = (t[:, 0] > 0.5).astype(int)
    Q = sheet(2000)[0] + 0.01
    for model, target in ((KNeighborsClassifier, y), (KNeighborsRegressor, t[:, 1])):
        approximate_ = model(5, algorithm="approximate").fit(X, target)
        exact = model(5).fit(X, target)
        for rows in (None, Q):
            np.testing.assert_allclose(approximate_.predict(rows), exact.predict(rows), atol=0.3)
        assert approximate_.certificate_.holds
        assert approximate_.query_certificate_.holds


def test_one_certificate_for_queries_in_many_blocks(monkeypatch):
    from nearfold.neighbors import lists

    X, t = sheet(3000)
    whole = KNeighborsRegressor(algorithm="approximate").fit(X, t).predict(X + 0.01)
    monkeypatch.setattr(lists, "PAIRS", 1000)
    model = KNeighborsRegressor(algorithm="approximate").fit(X, t)
    np.testing.assert_array_equal(model.predict(X + 0.01), whole)
    assert model.query_certificate_.n_queries == 3000


def test_a_learned_metric():
    X, _ = sheet(2000)
    X[:, 0] *= 100
    model = NearestNeighbors(algorithm="approximate", metric=Covariance()).fit(X)
    near = model.kneighbors(return_distance=False)
    want = NearestNeighbors(metric=Covariance()).fit(X).kneighbors(return_distance=False)
    assert (near == want).mean() > 0.93
    assert model.certificate_.holds
    model.kneighbors(X[:800])
    assert model.query_certificate_.n_queries == 800


def test_the_transformer():
    X, _ = sheet(2000)
    graph = KNeighborsTransformer(n_neighbors=6, algorithm="approximate").fit_transform(X)
    want = KNeighborsTransformer(n_neighbors=6).fit_transform(X)
    assert graph.shape == want.shape
    assert graph.nnz == want.nnz
    assert ((graph > 0) != (want > 0)).nnz < 0.1 * want.nnz


@pytest.mark.parametrize("model", [
    Isomap(n_neighbors=8), LocallyLinearEmbedding(n_neighbors=8)
])  # fmt: skip
def test_embeddings_equal_the_exact_ones_where_no_neighbour_is_missed(model):
    X, _ = sheet()
    k = model.n_neighbors
    options = {"neighbors_algorithm": "approximate", "recall": 0.9999, "random_state": 1}
    lists = NearestNeighbors(
        n_neighbors=k, algorithm="approximate", recall=0.9999, random_state=1
    ).fit(X)
    exact = NearestNeighbors(n_neighbors=k).fit(X)
    np.testing.assert_array_equal(lists.kneighbors()[1], exact.kneighbors()[1])
    found, want = clone(model).set_params(**options).fit(X), clone(model).fit(X)
    np.testing.assert_allclose(found.embedding_, want.embedding_, atol=1e-8)
    assert found.certificate_ == lists.certificate_
    assert not hasattr(want, "certificate_")
    np.testing.assert_allclose(found.transform(X[:30]), want.transform(X[:30]), atol=1e-6)
    assert found.nbrs_.certificate_ == found.certificate_


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
def test_a_graph_in_pieces_is_bridged():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 10)) + 40.0 * (np.arange(1500) % 3)[:, None]
    found = Isomap(n_neighbors=8, neighbors_algorithm="approximate").fit(X)
    assert np.isfinite(found.embedding_).all()
    LocallyLinearEmbedding(n_neighbors=12, neighbors_algorithm="approximate").fit(X)


@pytest.mark.parametrize("model", [
    NearestNeighbors(n_neighbors=6, algorithm="approximate", recall=0.9, random_state=2),
    NearestNeighbors(algorithm="approximate", metric="cosine"),
    NearestNeighbors(algorithm="approximate", metric=Covariance()),
    Isomap(n_neighbors=8, neighbors_algorithm="approximate"),
    LocallyLinearEmbedding(n_neighbors=8, neighbors_algorithm="approximate"),
])  # fmt: skip
def test_saved_and_loaded(model, tmp_path):
    X, _ = sheet()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(model).fit(X)
    nearfold.save(model, tmp_path / "model.nearfold")
    again = nearfold.load(tmp_path / "model.nearfold")
    assert again.certificate_ == model.certificate_
    if isinstance(model, NearestNeighbors):
        for found, want in zip(again.kneighbors(), model.kneighbors(), strict=True):
            np.testing.assert_array_equal(found, want)
    else:
        np.testing.assert_array_equal(again.transform(X[:20]), model.transform(X[:20]))


def test_the_doctor_says_what_is_certain():
    X, _ = sheet()
    found = diagnose(X, n_neighbors=8, algorithm="approximate", recall=0.9)
    assert found.certificate is not None
    assert found.certificate.holds
    assert "recall between" in str(found)
    assert "召回率" in found.text("zh")
    assert found.to_dict()["certificate"]["n_neighbors"] == 8
    plain = diagnose(X, n_neighbors=8)
    assert plain.certificate is None
    assert plain.to_dict()["certificate"] is None
    assert found.sizes.tolist() == plain.sizes.tolist()
