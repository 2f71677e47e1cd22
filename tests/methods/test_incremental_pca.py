"""IncrementalPCA: whatever the batches, the result is that of PCA on all rows."""

import copy
import pickle
from unittest.mock import Mock

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError

import nearfold
from nearfold import PCA, IncrementalPCA
from nearfold.errors import ApproximationWarning, InputError, MemoryBudgetError, NonFiniteError
from nearfold.state import StateError, fields_of

RESULTS = [
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "mean_",
    "noise_variance_",
    "n_components_",
]


@pytest.fixture(autouse=True)
def default_budget():
    yield
    nearfold.set_memory(None)


def table(m=90, d=5, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return (rng.normal(size=(m, d)) * np.linspace(3, 0.5, d) @ Q + 1.0).astype(dtype)


def assert_same(got, expected, atol=1e-9):
    for name in RESULTS:
        np.testing.assert_allclose(getattr(got, name), getattr(expected, name), atol=atol)


def feed(model, X, ends, weights=None):
    for part in np.split(np.arange(X.shape[0]), ends):
        if len(part):
            w = None if weights is None else weights[part]
            model.partial_fit(X[part], sample_weight=w)
    return model


@settings(max_examples=40, deadline=None)
@given(
    ends=st.lists(st.integers(1, 89), max_size=8).map(sorted),
    n_components=st.sampled_from([None, 1, 3, 0.7]),
    weighted=st.booleans(),
)
def test_any_batches_equal_pca(ends, n_components, weighted):
    X = table()
    w = np.random.default_rng(1).uniform(0.2, 3, 90) if weighted else None
    ends = [max(end, 3) for end in ends]  # the first batch has at least n_components rows
    model = feed(IncrementalPCA(n_components), X, ends, w)
    expected = PCA(n_components).fit(X, sample_weight=w)
    assert_same(model, expected)
    np.testing.assert_allclose(model.transform(X), expected.transform(X), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1, 2, 7, 90])
def test_batches_of_equal_size(size, dtype):
    X = table(dtype=dtype)
    model = feed(IncrementalPCA(2), X, range(max(size, 2), 90, size))
    assert_same(model, PCA(2).fit(X), atol=1e-9 if dtype == np.float64 else 2e-4)
    assert model.components_.dtype == model.transform(X).dtype == dtype
    assert model.n_samples_seen_ == 90
    assert model.approximation_ is None


def test_batches_beyond_the_buffer(monkeypatch):
    """Batches wait to be absorbed together; here they are absorbed many times."""
    monkeypatch.setattr("nearfold.linalg.batches.BUFFER_BYTES", 1000)
    X = table(300)
    assert_same(feed(IncrementalPCA(3), X, range(11, 300, 11)), PCA(3).fit(X))


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix])
def test_sparse_batches(form):
    X = table()
    X[np.abs(X) < 1] = 0.0
    model = IncrementalPCA(2)
    for part in np.array_split(X, 4):
        model.partial_fit(form(part))
    assert_same(model, PCA(2).fit(X))
    assert_same(IncrementalPCA(2).fit(form(X)), PCA(2).fit(X))
    np.testing.assert_allclose(model.transform(form(X)), model.transform(X), atol=1e-12)


@pytest.mark.parametrize("kinds", [(np.float32, np.float64), (np.float64, np.float32)])
def test_batches_of_both_dtypes(kinds):
    X = table(dtype=np.float32)
    model = IncrementalPCA(2)
    for i, part in enumerate(np.array_split(X, 6)):
        model.partial_fit(part.astype(kinds[i % 2]))
    assert model.components_.dtype == kinds[0]
    assert_same(model, PCA(2).fit(X.astype(np.float64)), atol=2e-4)


def test_weights_count_rows():
    X = table()
    repeat = np.random.default_rng(0).integers(1, 4, 90)
    model = feed(IncrementalPCA(2), X, [20, 50], repeat.astype(float))
    assert_same(model, PCA(2).fit(np.repeat(X, repeat, axis=0)))
    assert model.n_samples_seen_ == 90  # rows, not their weight
    mixed = IncrementalPCA(2).partial_fit(X[:40]).partial_fit(X[40:], sample_weight=np.ones(50))
    assert_same(mixed, PCA(2).fit(X))


def test_var():
    X = table()
    model = feed(IncrementalPCA(2), X, [13, 60])
    np.testing.assert_allclose(model.var_, X.var(axis=0), rtol=1e-12)


def test_a_share_is_decided_after_the_stream():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(60, 1)) * [5.0, 0, 0, 0]  # one direction
    round_ = rng.normal(size=(600, 4)) * 5.0  # four equal ones
    model = IncrementalPCA(0.9).partial_fit(flat)
    assert model.n_components_ == 1
    model.partial_fit(round_)
    assert model.n_components_ == PCA(0.9).fit(np.vstack([flat, round_])).n_components_ == 4


def test_results_appear_and_follow_the_batches():
    X = table()
    model = IncrementalPCA(2)
    assert not hasattr(model, "components_")
    with pytest.raises(NotFittedError):
        model.transform(X)
    model.partial_fit(X[:30])
    assert model.n_samples_seen_ == 30
    assert_same(model, PCA(2).fit(X[:30]))
    early = model.components_
    assert model.components_ is early  # found once
    model.partial_fit(X[30:])
    assert model.n_samples_seen_ == 90
    assert_same(model, PCA(2).fit(X))
    assert not np.allclose(model.components_, early, atol=1e-6)


def test_asking_in_between_changes_nothing():
    X = table()
    asked, silent = IncrementalPCA(3), IncrementalPCA(3)
    for part in np.array_split(X, 9):
        asked.partial_fit(part).explained_variance_
        silent.partial_fit(part)
    assert_same(asked, silent, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_caller_may_reuse_its_buffers(weighted):
    X = table()
    buffer, weight = np.empty((30, 5)), np.empty(30)
    model = IncrementalPCA(2)
    for part in np.split(X, 3):
        buffer[:], weight[:] = part, 2.0
        model.partial_fit(buffer, sample_weight=weight if weighted else None)
        buffer[:], weight[:] = -99.0, 77.0
    assert_same(model, PCA(2).fit(X, sample_weight=np.full(90, 2.0) if weighted else None))


def test_fit_forgets_and_partial_fit_goes_on():
    X, other = table(), table(seed=5) * 3
    model = IncrementalPCA(2).partial_fit(other).fit(X)
    assert_same(model, PCA(2).fit(X))
    assert model.n_samples_seen_ == 90
    model.partial_fit(other)
    assert_same(model, PCA(2).fit(np.vstack([X, other])))
    assert model.n_samples_seen_ == 180
    narrow = table(d=3)
    assert_same(model.fit(narrow), PCA(2).fit(narrow))


@pytest.mark.parametrize("kind", ["array", "npy", "parquet", "csv", "pandas"])
def test_fit_reads_every_source(kind, tmp_path):
    X, path = table(2000), tmp_path / f"x.{kind}"
    source = {"array": X, "pandas": pd.DataFrame(X, columns=list("abcde"))}.get(kind, path)
    if kind == "npy":
        np.save(path, X)
    if kind == "parquet":
        pl.DataFrame(X).write_parquet(path)
    if kind == "csv":
        pl.DataFrame(X).write_csv(path)
    expected = PCA(2).fit(X)
    nearfold.set_memory("100KB")
    model = IncrementalPCA(2).fit(source)
    assert_same(model, expected)
    assert model.n_samples_seen_ == 2000
    w = np.random.default_rng(0).uniform(0.5, 2, 2000)
    assert_same(IncrementalPCA(2).fit(source, sample_weight=w), PCA(2).fit(X, sample_weight=w))


def test_batch_size_changes_nothing_but_is_kept():
    X = table()
    model = IncrementalPCA(2, batch_size=10).fit(X)
    assert model.batch_size_ == 10
    assert_same(model, PCA(2).fit(X))


def test_whiten_and_back():
    X = table(300)
    model = feed(IncrementalPCA(3, whiten=True), X, [100, 150])
    Z = model.transform(X)
    np.testing.assert_allclose(np.cov(Z.T), np.eye(3), atol=1e-10)
    expected = PCA(3).fit(X)
    back = expected.inverse_transform(expected.transform(X))
    np.testing.assert_allclose(model.inverse_transform(Z), back, atol=1e-9)
    np.testing.assert_allclose(model.score(X), expected.score(X), rtol=1e-9)


def test_names():
    X = pd.DataFrame(table(), columns=list("abcde"))
    model = IncrementalPCA(2).partial_fit(X)
    assert model.get_feature_names_out().tolist() == ["incrementalpca0", "incrementalpca1"]
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(X[list("edcba")])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("how", ["fit", "partial_fit", "file"])
def test_nonfinite_values(how, value, tmp_path):
    X = table()
    X[7, 3] = value
    np.save(tmp_path / "x.npy", X)
    model = IncrementalPCA(2)
    with pytest.raises(NonFiniteError, match=r"column 3: 1; first rows: \[7\]"):
        model.fit(tmp_path / "x.npy") if how == "file" else getattr(model, how)(X)


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_values_whose_squares_overflow_are_refused(how):
    with pytest.raises(InputError, match="large"):
        getattr(IncrementalPCA(2), how)(table() * 1e300).explained_variance_


@pytest.mark.parametrize("bad", [0, 6, 1.5, "mle", True])
def test_bad_n_components(bad):
    with pytest.raises(ValueError, match="n_components"):
        IncrementalPCA(bad).fit(table(20, 5))


def test_a_first_batch_with_too_few_rows_is_refused_and_leaves_nothing_behind():
    X = table()
    model = IncrementalPCA(4)
    with pytest.raises(InputError, match="n_components=4 must be less or equal to the batch"):
        model.partial_fit(X[:2])
    assert not hasattr(model, "components_")
    assert not hasattr(model, "n_samples_seen_")
    assert_same(model.partial_fit(X[:6]).partial_fit(X[6:]), PCA(4).fit(X))


@pytest.mark.parametrize("bad", [0, -5, 1.5])
def test_bad_batch_size(bad):
    with pytest.raises(ValueError, match="batch_size"):
        IncrementalPCA(2, batch_size=bad).fit(table())


# ---- accuracy: what PCA finds in two passes, one pass over batches must find ------------


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    dtype=st.sampled_from([np.float64, np.float32]),
    decades=st.integers(0, 8),
    offset=st.sampled_from([0.0, 1.0, 1e3]),
    drift=st.sampled_from([0.0, 10.0]),
    n_components=st.sampled_from([None, 3, 6, 0.9]),
    ends=st.lists(st.integers(6, 149), max_size=8).map(sorted),
    asked=st.booleans(),
    room=st.sampled_from([500, 10_000, 2**24]),
    free=st.sampled_from([0.0, 2e8]),
    weighted=st.booleans(),
)
def test_graded_spectra_offsets_dtypes_and_batches_equal_pca(
    seed, dtype, decades, offset, drift, n_components, ends, asked, room, free, weighted
):
    """Every eigenvalue to a relative error that the rounding of the rows themselves explains."""
    rng = np.random.default_rng(seed)
    decades = decades if dtype == np.float64 else decades / 2
    sd = np.logspace(0, -decades, 6)
    Q = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    X = (rng.normal(size=(150, 6)) * sd) @ Q + offset
    X += drift * np.linspace(0, 1, 150)[:, None] * Q[0]
    X = X.astype(dtype)
    w = rng.uniform(0.5, 2, 150) if weighted else None
    eps = float(np.finfo(dtype).eps)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearfold.linalg.batches.BUFFER_BYTES", room)
        patch.setattr("nearfold.linalg.moments.FREE_PRODUCTS", free)
        expected = PCA(n_components).fit(X, sample_weight=w)
        model = IncrementalPCA(n_components)
        for part in np.split(np.arange(150), ends):
            if len(part):
                model.partial_fit(X[part], sample_weight=None if w is None else w[part])
                if asked:
                    model.explained_variance_
    root = np.ones((150, 1)) if w is None else np.sqrt(w)[:, None]
    centred = X - np.average(X.astype(float), axis=0, weights=w)
    exact = np.linalg.svd(centred * root, compute_uv=False)
    assert model.n_components_ == expected.n_components_
    k = model.n_components_
    # rounding of rows at this offset, and of half the digits where float32 products were enough
    rounding = 100 * np.finfo(float).eps * (exact[0] + np.sqrt(150) * (offset + drift))
    half = 30 * np.sqrt(eps) if dtype == np.float32 else 1e-6
    limit = np.maximum(half * exact[:k], rounding + (100 * eps * exact[0] if eps > 1e-8 else 0))
    assert (np.abs(model.singular_values_ - exact[:k]) <= limit).all()
    assert (np.abs(model.singular_values_ - expected.singular_values_) <= 2 * limit).all()
    assert model.components_.shape == expected.components_.shape
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(k), atol=100 * eps)


@pytest.mark.parametrize(
    ("dtype", "decades"), [(np.float64, 4), (np.float64, 8), (np.float32, 2), (np.float32, 3.5)]
)
@pytest.mark.parametrize("how", ["fit", "batches"])
def test_every_axis_of_a_graded_spectrum_is_kept(how, dtype, decades):
    sd = np.logspace(0, -decades, 6)
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(300, 6)) * sd).astype(dtype)
    model = IncrementalPCA(6)
    model = model.fit(X) if how == "fit" else feed(model, X, [50, 51, 170])
    expected = PCA(6).fit(X)
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=1e-5)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-3)
    np.testing.assert_allclose(expected.singular_values_ / sd, np.sqrt(300), rtol=0.2)


def test_a_late_graded_batch(monkeypatch):
    """What was absorbed as a scatter is turned into a factor when one becomes necessary."""
    monkeypatch.setattr("nearfold.linalg.batches.BUFFER_BYTES", 1)
    rng = np.random.default_rng(0)
    small = rng.normal(size=(100, 3)) * [1e-7, 1e-7, 1e-7]
    large = rng.normal(size=(100, 3)) * [1.0, 1e-4, 1e-9]
    for X in (np.vstack([small, large]), np.vstack([large, small])):
        model = feed(IncrementalPCA(3), X, [100])
        exact = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
        np.testing.assert_allclose(model.singular_values_, exact, rtol=1e-6)


# ---- shapes, copies, interrupts ----------------------------------------------------------


def test_axes_beyond_the_rank_complete_the_others():
    X = table(60, 2) @ np.random.default_rng(0).normal(size=(2, 6))
    model = feed(IncrementalPCA(4), X, [10, 30])
    with pytest.warns(UserWarning, match="vary in 2 directions"):
        model.components_
    assert model.components_.shape == (4, 6)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(4), atol=1e-12)
    np.testing.assert_array_equal(model.explained_variance_[2:], 0.0)
    with pytest.warns(UserWarning, match="vary in 2 directions"):
        expected = PCA(4).fit(X)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-8)
    assert IncrementalPCA().fit(X).components_.shape == (6, 6)
    assert IncrementalPCA().fit(X[:3]).components_.shape == (3, 6)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("read", [False, True])
def test_copies_go_their_own_way(how, read):
    X, other = table(), table(seed=5) * 3
    for dtype in (np.float64, np.float32):
        model = IncrementalPCA(2).partial_fit(X[:50].astype(dtype))
        if read:
            model.components_
        twin = how(model)
        twin.partial_fit(other.astype(dtype)).components_
        model.partial_fit(X[50:].astype(dtype))
        atol = 1e-9 if dtype == np.float64 else 2e-4
        assert_same(model, PCA(2).fit(X.astype(dtype)), atol)
        joined = np.vstack([X[:50], other]).astype(dtype)
        assert_same(twin, PCA(2).fit(joined), atol)


def test_an_interrupt_while_absorbing_loses_nothing(monkeypatch):
    X = table()
    model = feed(IncrementalPCA(2), X, [30])
    with monkeypatch.context() as patch:
        patch.setattr(
            "nearfold.methods.incremental_pca.add_batch", Mock(side_effect=KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            model.components_
    assert_same(model, PCA(2).fit(X))


def test_hasattr_never_raises():
    model = IncrementalPCA(2)
    assert not hasattr(model, "components_")
    model.partial_fit(table())
    assert hasattr(model, "components_")
    assert not hasattr(model, "no_such_thing")


@pytest.mark.filterwarnings("ignore::nearfold.errors.ApproximationWarning")
@pytest.mark.parametrize("options", [{}, {"n_components": 2}, {"n_components": 0.7}])
@pytest.mark.parametrize("how", ["fit", "batches", "unread", "frame", "bounded", "graded"])
def test_the_state_is_as_described(how, options):
    X = table(d=60, m=200) if how == "bounded" else table()
    if how == "bounded":
        nearfold.set_memory("100KB")
    if how == "graded":
        X = X * np.logspace(0, -9, 5)
    if how == "frame":
        X = pd.DataFrame(X, columns=list("abcde"))
    model = IncrementalPCA(**options)
    model = model.fit(X) if how in ("fit", "frame", "graded") else model.partial_fit(X)
    if how != "unread":
        model.components_
    IncrementalPCA.fitted_state.check(fields_of(model))
    broken = copy.deepcopy(model)
    broken.n_features_in_ = 3
    with pytest.raises(StateError):
        IncrementalPCA.fitted_state.check(fields_of(broken))


# ---- the memory-bounded fallback -----------------------------------------------------------------


def low_rank(m=400, d=60, noise=1e-6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 3)) * [9, 6, 4] @ np.linalg.qr(rng.normal(size=(d, 3)))[0].T
    return X + noise * rng.normal(size=(m, d)) + 0.5


@pytest.mark.parametrize("how", ["fit", "partial_fit", "file", "sparse"])
def test_over_budget_the_leading_axes_are_kept_and_it_is_said(how, tmp_path):
    X = low_rank()
    expected = PCA(3).fit(X)
    np.save(tmp_path / "x.npy", X)
    nearfold.set_memory("100KB")  # the scatter would take 169 KB
    model = IncrementalPCA(3)
    source = {"sparse": sparse.csr_array(X), "file": tmp_path / "x.npy"}.get(how, X)
    with pytest.warns(ApproximationWarning, match=r"168\.8 KB.*100\.0 KB") as caught:
        feed(model, X, range(50, 400, 50)) if how == "partial_fit" else model.fit(source)
    assert len(caught) == 1
    assert "168.8 KB" in model.approximation_
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-5)
    np.testing.assert_allclose(model.mean_, expected.mean_, atol=1e-12)
    for name in ("explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(model, name), getattr(expected, name), rtol=1e-6)
    assert model.n_samples_seen_ == 400
    assert model.transform(X).shape == (400, 3)


def test_truncate_pins_the_route_under_any_budget():
    X = low_rank()
    free = IncrementalPCA(3, truncate="always").fit(X)
    assert "truncate" in free.approximation_
    nearfold.set_memory("100KB")
    tight = IncrementalPCA(3, truncate="always").fit(X)
    np.testing.assert_array_equal(free.components_, tight.components_)
    np.testing.assert_array_equal(free.explained_variance_, tight.explained_variance_)
    assert tight.approximation_ == free.approximation_
    for how in ("fit", "partial_fit"):
        with pytest.raises(MemoryBudgetError, match="scatter matrix of 60 features"):
            getattr(IncrementalPCA(3, truncate="never"), how)(X)


def test_within_budget_again_it_is_exact_again():
    X = low_rank()
    nearfold.set_memory("100KB")
    with pytest.warns(ApproximationWarning):
        model = IncrementalPCA(3).fit(X)
    nearfold.set_memory(None)
    assert model.fit(X).approximation_ is None
    assert_same(model, PCA(3).fit(X))


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
@pytest.mark.filterwarnings("ignore::nearfold.errors.ApproximationWarning")
def test_the_fallback_minds_the_weights(how):
    """Or refuses them: it must not drop them in silence."""
    X = low_rank()
    w = np.where(np.arange(400) < 200, 0.0, 1.0)
    expected = PCA(3).fit(X, sample_weight=w)
    nearfold.set_memory("100KB")
    try:
        model = getattr(IncrementalPCA(3), how)(X, sample_weight=w)
    except InputError:
        return
    np.testing.assert_allclose(model.mean_, expected.mean_, atol=1e-10)
    np.testing.assert_allclose(model.explained_variance_, expected.explained_variance_, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::nearfold.errors.ApproximationWarning")
def test_the_fallback_takes_a_share_and_finds_nan():
    X = low_rank()
    expected = PCA(0.9).fit(X)
    nearfold.set_memory("100KB")
    model = IncrementalPCA(0.9).fit(X)
    assert model.n_components_ == expected.n_components_
    X[5, 7] = np.nan
    with pytest.raises(NonFiniteError, match=r"column 7: 1; first rows: \[5\]"):
        IncrementalPCA(3).fit(X)


def test_a_batch_without_weight_changes_nothing():
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = IncrementalPCA(2).partial_fit(X)
    before = model.explained_variance_.copy()
    model.partial_fit(np.full((1, 3), 1e12), sample_weight=[0.0])
    np.testing.assert_allclose(model.explained_variance_, before, rtol=1e-12)
    with pytest.raises(ValueError, match="at least one non-zero"):
        IncrementalPCA(2).partial_fit(X, sample_weight=np.zeros(30))


def test_a_state_of_both_kinds_of_axes_is_refused():
    held = fields_of(IncrementalPCA(2).fit(np.random.default_rng(0).normal(size=(30, 4))))
    IncrementalPCA.fitted_state.check(held)
    with pytest.raises(StateError, match="another kind"):
        IncrementalPCA.fitted_state.check({**held, "approximation_": "some axes"})
