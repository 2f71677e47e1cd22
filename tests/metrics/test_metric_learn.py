"""metric-learn's names and behaviour under `nearfold.metric_learn`."""

import copy
import inspect
import warnings

import numpy as np
import pytest
from numpy.linalg import LinAlgError
from sklearn.datasets import load_iris

import nearfold.metric_learn as metric_learn
from nearfold.errors import InputError, NearfoldWarning, NonPSDError, PreprocessorError
from nearfold.metric_learn import (
    ITML,
    LFDA,
    LMNN,
    LSML,
    MLKR,
    MMC,
    NCA,
    RCA,
    SCML,
    SDML,
    Constraints,
    Covariance,
    ITML_Supervised,
    LSML_Supervised,
    MMC_Supervised,
    RCA_Supervised,
    SCML_Supervised,
    SDML_Supervised,
)
from nearfold.metrics.threshold import choose_threshold
from nearfold.metrics.weighted_euclidean import WeightedEuclidean
from nearfold.state import StateError, fields_of

X, Y = load_iris(return_X_y=True)
DRAWN = Constraints(Y).positive_negative_pairs(30, same_length=True, random_state=0)
PAIRS = np.vstack([np.column_stack(DRAWN[:2]), np.column_stack(DRAWN[2:])])
SIGN = np.repeat([1, -1], 30)
QUADRUPLETS = np.column_stack(DRAWN)
TRIPLETS = Constraints(Y).generate_knntriplets(X, 2, 2)

FROM_PAIRS = [MMC(), MMC(diagonal=True), ITML(), SDML(balance_param=1e-3), WeightedEuclidean()]
FROM_LABELS = [
    NCA(random_state=0),
    LMNN(),
    LFDA(),
    RCA_Supervised(n_chunks=50, random_state=0),
    ITML_Supervised(random_state=0),
    LSML_Supervised(random_state=0),
    MMC_Supervised(random_state=0),
    SCML_Supervised(random_state=0),
    SDML_Supervised(balance_param=1e-4, random_state=0),
    WeightedEuclidean(),
]
FITS = [
    *[(model, (X[PAIRS], SIGN)) for model in FROM_PAIRS],
    (LSML(), (X[QUADRUPLETS],)),
    (SCML(n_basis=100, random_state=0), (X[TRIPLETS],)),
    *[(model, (X, Y)) for model in FROM_LABELS],
    (MMC(random_state=0), (X, Y)),
    (SCML(basis="lda", random_state=0), (X, Y)),
    (NCA(solver="stochastic", n_epochs=2, random_state=0), (X, Y)),
    (MLKR(n_components=2), (X, X[:, 0] ** 2)),
    (RCA(), (X, Y)),
    (Covariance(), (X,)),
]


def fitted(model, given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return copy.deepcopy(model).fit(*given)


# ---- one line changed ------------------------------------------------------------------


def test_every_public_name_is_there():
    names = (
        "Constraints Covariance ITML ITML_Supervised LMNN LSML LSML_Supervised SDML "
        "SDML_Supervised NCA LFDA RCA RCA_Supervised MLKR MMC MMC_Supervised SCML SCML_Supervised"
    )
    assert set(names.split()) <= set(metric_learn.__all__)
    for name in metric_learn.__all__:
        assert hasattr(metric_learn, name)


def test_defaults_are_those_of_metric_learn():
    assert (NCA().max_iter, NCA().tol) == (100, None)
    assert list(inspect.signature(NCA).parameters)[:3] == ["init", "n_components", "max_iter"]
    assert (MMC().tol, MMC_Supervised().tol) == (1e-3, 1e-6)
    assert SCML_Supervised().basis == "lda"
    assert RCA_Supervised().n_chunks == 100


def test_score_pairs_is_a_deprecated_name_of_pair_distance():
    model = Covariance().fit(X)
    with pytest.warns(FutureWarning, match="score_pairs will be deprecated"):
        scores = model.score_pairs(X[PAIRS])
    np.testing.assert_array_equal(scores, model.pair_distance(X[PAIRS]))


@pytest.mark.parametrize("model", FROM_LABELS, ids=repr)
def test_every_learner_takes_ids_with_a_preprocessor(model):
    ids = np.arange(len(X))
    by_id = fitted(copy.deepcopy(model).set_params(preprocessor=X), (ids, Y))
    np.testing.assert_array_equal(by_id.components_, fitted(model, (X, Y)).components_)
    np.testing.assert_array_equal(by_id.transform(ids[:3]), by_id.transform(X[:3]))
    np.testing.assert_array_equal(by_id.preprocessor_(ids[:3]), X[:3])


def test_preprocessor_attribute():
    assert not hasattr(Covariance(), "preprocessor_")
    assert Covariance().fit(X).preprocessor_ is None
    take = X.__getitem__
    assert Covariance(preprocessor=take).fit(np.arange(150)).preprocessor_ is take
    with pytest.raises(PreprocessorError, match="149"):
        Covariance(preprocessor=X).fit([0, 1, 150])
    with pytest.raises(PreprocessorError, match="TypeError"):
        Covariance(preprocessor={}.__getitem__).fit(["a", "b"])


def test_attributes_of_single_learners():
    mmc = fitted(MMC(), (X[PAIRS], SIGN))
    np.testing.assert_array_equal(mmc.A_, mmc.get_mahalanobis_matrix())
    lsml = LSML().fit(X[QUADRUPLETS], weights=np.arange(1.0, 31))
    np.testing.assert_allclose(lsml.w_, np.arange(1.0, 31) / 465)
    assert fitted(LMNN(), (X, Y)).labels_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "model", [m for m in FROM_LABELS if type(m).__name__.endswith("_Supervised")], ids=repr
)
def test_supervised_learners_judge_no_tuples(model):
    for learner in (model, fitted(model, (X, Y))):
        for name in ("predict", "decision_function", "score", "threshold_", "set_threshold"):
            assert not hasattr(learner, name)
    assert hasattr(ITML(), "predict")


def test_model_files_hold_every_learner(tmp_path):
    from nearfold import load, save

    for model, given in FITS:
        learner = fitted(model, given)
        again = load(save(learner, tmp_path / "model.nearfold"))
        assert type(again) is type(learner)
        np.testing.assert_array_equal(again.transform(X), learner.transform(X))


# ---- priors ----------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [ITML, SDML, LSML])
def test_a_prior_must_be_definite(cls):
    given = (X[QUADRUPLETS],) if cls is LSML else (X[PAIRS], SIGN)
    tiny = np.diag([1.0, 1, 1, 1e-20])
    for prior in (tiny, np.zeros((4, 4))):
        with pytest.raises(LinAlgError, match="strictly positive definite"):
            cls(prior=prior).fit(*given)
    with pytest.raises(NonPSDError, match="not positive semidefinite"):
        cls(prior=np.diag([1.0, 1, 1, -1])).fit(*given)
    flat = [np.concatenate([part, part[..., :1]], axis=2) for part in given[:1]]
    with pytest.raises(LinAlgError, match="Unable to get a true inverse"):
        cls(prior="covariance").fit(*flat, *given[1:])


def test_mmc_starts_anywhere():
    pairs = np.concatenate([X[PAIRS], X[PAIRS][:, :, :1]], axis=2)
    expected = MMC().fit(pairs, SIGN).objective_
    with pytest.warns(NearfoldWarning, match="pseudo-inverse"):
        assert MMC(init="covariance").fit(pairs, SIGN).objective_ == pytest.approx(expected)
    for init in (np.diag([1.0, 0, 0, 0, 0]), np.zeros((5, 5))):
        assert MMC(init=init).fit(pairs, SIGN).objective_ == pytest.approx(expected)
    with pytest.raises(NonPSDError):
        MMC(init=-np.eye(5)).fit(pairs, SIGN)


# ---- ids and vectors (D6), unknown labels (D7) -------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        MMC(),
        MMC(init="covariance"),
        ITML(),
        ITML(prior="covariance"),
        SDML(prior="covariance", balance_param=1e-3),
        WeightedEuclidean(),
    ],
    ids=repr,
)
def test_ids_and_vectors_give_the_same_metric(model):
    table = np.vstack([X, 100 + X])  # rows that no pair names
    pairs, y = np.vstack([PAIRS, PAIRS[:5]]), np.append(SIGN, SIGN[:5])  # and repeated pairs
    vectors = fitted(model, (X[pairs], y))
    with pytest.warns(NearfoldWarning, match="repeat others"):
        by_row = copy.deepcopy(model).fit(table, y, pairs=pairs)
    by_id = fitted(copy.deepcopy(model).set_params(preprocessor=table), (pairs, y))
    look_up = fitted(copy.deepcopy(model).set_params(preprocessor=table.__getitem__), (pairs, y))
    for other in (by_row, by_id, look_up):
        np.testing.assert_array_equal(other.components_, vectors.components_)
        assert other.threshold_ == vectors.threshold_


def test_larger_tuples_by_id_and_by_vector():
    table = np.vstack([X, 100 + X])
    for model, tuples in (
        (LSML(prior="covariance"), QUADRUPLETS),
        (SCML(n_basis=100, random_state=0), TRIPLETS),
    ):
        vectors = fitted(model, (X[tuples],))
        by_id = fitted(copy.deepcopy(model).set_params(preprocessor=table), (tuples,))
        np.testing.assert_array_equal(by_id.components_, vectors.components_)


@pytest.mark.parametrize("model", FROM_LABELS[3:-1], ids=repr)
def test_rows_labelled_minus_one_are_not_a_class(model):
    hidden = Y.copy()
    hidden[::3] = -1
    partly = fitted(model, (X, hidden))
    known = fitted(model, (X[hidden >= 0], hidden[hidden >= 0]))
    assert partly.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(partly.components_, known.components_)


def test_minus_one_and_one_are_classes():
    signs = np.where(Y == 0, -1, 1)
    assert fitted(MMC_Supervised(random_state=0), (X, signs)).classes_.tolist() == [-1, 1]
    texts = np.array(["-1", "a", "b"])[Y]
    assert len(fitted(MMC_Supervised(random_state=0), (X, texts)).classes_) == 3


# ---- thresholds, bounds -----------------------------------------------------------------


def test_precision_where_nothing_is_called_must_link():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threshold = choose_threshold(
            np.array([1.0, 2.0]), np.array([-1, 1]), "f_beta", None, beta=0.0
        )
    assert threshold == 2.0  # a precision of 1/2, where calling none has 0


def test_bounds_may_be_a_row():
    rows = [fitted(ITML(), (X[PAIRS], SIGN, b)) for b in ([1.0, 3.0], [[1.0, 3.0]])]
    np.testing.assert_array_equal(rows[0].components_, rows[1].components_)


# ---- constraints --------------------------------------------------------------------------


def test_pairs_from_labels():
    labels = np.array([0, 0, 0, 1, 1, -1, 2, -1])
    with (
        pytest.warns(NearfoldWarning, match="generated 4 positive"),
        pytest.warns(NearfoldWarning, match="generated 11 negative"),
    ):
        a, b, c, d = Constraints(labels).positive_negative_pairs(50, random_state=0)
    assert (labels[a] == labels[b]).all()
    assert (labels[c] != labels[d]).all()
    assert (labels[np.concatenate([a, b, c, d])] >= 0).all()
    assert len({frozenset(p) for p in zip(c.tolist(), d.tolist(), strict=True)}) == 11
    with pytest.warns(NearfoldWarning):
        parts = Constraints(labels).positive_negative_pairs(6, same_length=True, random_state=0)
    assert [len(part) for part in parts] == [4] * 4


def test_triplets_name_the_rows_of_the_table():
    labels = Y.copy()
    labels[:10] = -1
    triplets = Constraints(labels).generate_knntriplets(X, 2, 3)
    assert len(triplets) == 140 * 6
    assert triplets.min() >= 10
    assert (Y[triplets[:, 0]] == Y[triplets[:, 1]]).all()
    assert (Y[triplets[:, 0]] != Y[triplets[:, 2]]).all()


def test_chunks_leave_out_what_is_unknown():
    labels = np.array([0, 0, 1, 1, 1, -1, -1])
    chunks = Constraints(labels).chunks(2, 2, random_state=0)
    assert chunks[5:].tolist() == [-1, -1]
    for number in (0, 1):
        assert len(set(labels[chunks == number])) == 1
    with pytest.raises(InputError, match="maximum number of chunks is 2"):
        Constraints(labels).chunks(3, 2)


# ---- states, copies ------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "given"), FITS, ids=repr)
def test_the_state_is_as_described(model, given):
    learner = fitted(model, given)
    fields = fields_of(learner)
    learner.fitted_state.check(fields)
    for name, damaged in (
        ("components_", learner.components_[:, :1]),
        ("components_", np.full_like(learner.components_, np.nan)),
        ("rank_", learner.rank_ + 1),
    ):
        with pytest.raises(StateError):
            learner.fitted_state.check({**fields, name: damaged})
    with pytest.raises(StateError):
        learner.fitted_state.check({**fields, "other_": 1})


def test_a_refit_forgets_what_was_learned_before():
    model = fitted(WeightedEuclidean(), (X[PAIRS], SIGN))
    fitted_again = model.fit(X, Y)
    assert not hasattr(fitted_again, "certificate_")
    assert not hasattr(fitted_again, "threshold_")
    assert not hasattr(fitted(MMC(), (X, Y)).fit(X[PAIRS], SIGN), "classes_")


def test_a_copy_never_changes_its_original():
    model = fitted(WeightedEuclidean(), (X, Y))
    before = model.components_.copy()
    shorter = model.truncate(2)
    shorter.components_ *= 2
    assert shorter.weights_.sum() > 0
    twin = copy.copy(fitted(MMC(), (X[PAIRS], SIGN)))
    threshold = twin.threshold_
    copy.copy(twin).set_threshold(7.0)
    assert twin.threshold_ == threshold
    np.testing.assert_array_equal(model.components_, before)


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e200])
def test_extreme_columns_are_finite_or_refused(scale):
    for table in (X * scale, X * np.array([scale, 1, 1, 1])):
        for given in ((table, Y), (table[PAIRS], SIGN)):
            try:
                model = fitted(WeightedEuclidean(), given)
            except InputError:
                continue
            assert np.isfinite(model.weights_).all()
            assert np.isfinite(model.get_mahalanobis_matrix()).all()


def test_dates_and_masks_are_refused_in_tuples():
    pairs = X[PAIRS]
    with pytest.raises(InputError, match="masked"):
        MMC().fit(np.ma.masked_greater(pairs, 7), SIGN)
    with pytest.raises(InputError, match="dates"):
        MMC().fit(pairs.astype("datetime64[s]"), SIGN)


# ---- diagonal metrics of many columns --------------------------------------------------------


@pytest.mark.parametrize("cls", [MMC, WeightedEuclidean])
def test_smoothing_keeps_all_columns(cls):
    table = np.column_stack([X, np.full(150, 3.0)])  # a constant column has no weight in any case
    options = {"diagonal": True} if cls is MMC else {}
    sparse = cls(**options).fit(table[PAIRS], SIGN)
    smooth = cls(**options, smoothing=0.1).fit(table[PAIRS], SIGN)
    even = cls(**options, smoothing=1e4).fit(table[PAIRS], SIGN)
    assert len(sparse.unused_columns_) > 1
    assert smooth.unused_columns_.tolist() == even.unused_columns_.tolist() == [4]
    assert smooth.certificate_.gap < 1e-6
    apart = table[PAIRS[SIGN > 0]]
    share = even.column_weights() * np.sum((apart[:, 0] - apart[:, 1]) ** 2, axis=0)
    np.testing.assert_allclose(share[:4] / share.sum(), 0.25, rtol=1e-3)


def test_smoothing_is_the_maximum_of_what_it_says():
    """Against random directions from the solution, in shares v of the objective."""
    V = X[PAIRS][:, 0] - X[PAIRS][:, 1]
    S, D = V[SIGN > 0], V[SIGN < 0]
    A = np.sum(S**2, axis=0)
    E = D**2 / A
    c = 0.3 * len(D) / 4 * np.sqrt(E.sum() / len(D))

    def merit(v):
        return np.sqrt(E @ v).sum() + c * np.sqrt(v).sum()

    weights = MMC(diagonal=True, smoothing=0.3).fit(X[PAIRS], SIGN).column_weights()
    v = weights * A / np.sum(weights * A)
    random = np.random.default_rng(0)
    for other in random.dirichlet(np.ones(4), size=50):
        assert merit(v) >= merit(0.99 * v + 0.01 * other) - 1e-9


def test_parameters_that_cannot_be_honoured_are_told():
    with pytest.warns(NearfoldWarning, match="diagonal_c has no effect"):
        MMC(diagonal=True, diagonal_c=2.0).fit(X[PAIRS], SIGN)
    with pytest.warns(NearfoldWarning, match="smoothing has no effect"):
        MMC(smoothing=0.1).fit(X[PAIRS], SIGN)


def test_weights_are_the_second_argument_of_lsml():
    weights = np.arange(1.0, 31)
    second = LSML().fit(X[QUADRUPLETS], weights)
    named = LSML().fit(X[QUADRUPLETS], weights=weights)
    np.testing.assert_array_equal(second.components_, named.components_)
    assert np.abs(second.components_ - LSML().fit(X[QUADRUPLETS]).components_).max() > 1e-6


def test_a_tuple_learner_needs_memory_for_its_matrices():
    from nearfold import get_memory, set_memory
    from nearfold.errors import MemoryBudgetError

    wide = np.random.default_rng(0).normal(size=(20, 2, 2000))
    before = get_memory()
    try:
        set_memory("64MB")
        for model in (MMC(), ITML(), SDML()):
            with pytest.raises(MemoryBudgetError, match="MB"):
                model.fit(wide, np.repeat([1, -1], 10))
    finally:
        set_memory(before)
