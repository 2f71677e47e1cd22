"""Weak supervision in every form it comes in, and the contradictions that are refused."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearfold.errors import InputError, NearfoldWarning, NonFiniteError
from nearfold.metrics.mahalanobis import MahalanobisMetric
from nearfold.metrics.pairs import PairsMixin
from nearfold.metrics.parse_tuples import SIGNS
from nearfold.metrics.quadruplets import QuadrupletsMixin, check_quadruplet_weights
from nearfold.metrics.triplets import TripletsMixin
from nearfold.metrics.tuples import from_ids, from_links, from_vectors, look_up

X = np.random.default_rng(0).normal(size=(10, 3))
NAMES = [f"r{i}" for i in range(10)]
PAIRS = [[0, 1], [2, 3], [4, 1]]
Y = [1, -1, 1]


class Pairs(PairsMixin, MahalanobisMetric):
    """Learns M = I, and keeps what it was given."""

    def __init__(self, preprocessor=None, random_state=None):
        self.preprocessor = preprocessor
        self.random_state = random_state

    n_constraints = None

    def learn(self, pairs):
        self.got_ = pairs
        self._set_metric(np.eye(pairs.X.shape[1]), pairs.X.dtype)


class Triplets(TripletsMixin, MahalanobisMetric):
    """Learns M = I."""

    def __init__(self, preprocessor=None):
        self.preprocessor = preprocessor

    def learn(self, triplets):
        self.got_ = triplets
        self._set_metric(np.eye(triplets.X.shape[1]), triplets.X.dtype)


class Quadruplets(QuadrupletsMixin, MahalanobisMetric):
    """Learns M = I."""

    def __init__(self, preprocessor=None, random_state=None):
        self.preprocessor = preprocessor
        self.random_state = random_state

    n_constraints = None

    def learn(self, quadruplets, weights):
        self.got_ = quadruplets
        self.weights_ = check_quadruplet_weights(weights, len(quadruplets.rows))
        self._set_metric(np.eye(quadruplets.X.shape[1]), quadruplets.X.dtype)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks([Pairs(), Quadruplets()])
def test_scikit_learn_check(estimator, check):
    check(estimator)


def rows_of(found, table=X):
    """The row numbers in the table of the members of tuples, which have points of their own."""
    place = [np.flatnonzero((table == point).all(axis=1))[0] for point in found.X]
    return np.array(place)[found.rows].tolist()


def assert_told(found, rows=PAIRS, sign=Y):
    """The same pairs, whichever of the two is named first."""
    got = {(*sorted(pair), s) for pair, s in zip(rows_of(found), found.sign, strict=True)}
    assert got == {(*sorted(pair), s) for pair, s in zip(rows, sign, strict=True)}
    assert len(found.rows) == len(rows)


def named(pairs):
    return [[NAMES[a], NAMES[b]] for a, b in pairs]


def signed(pairs, sign):
    return [[*pair, s] for pair, s in zip(pairs, sign, strict=True)]


@pytest.fixture
def write(tmp_path):
    def to_csv(text, encoding="utf-8"):
        path = tmp_path / "pairs.csv"
        path.write_text(text, encoding=encoding)
        return path

    return to_csv


# ---- the forms -----------------------------------------------------------------------

FORMS = {
    "list": lambda rows: rows,
    "tuples": lambda rows: [tuple(row) for row in rows],
    "array": np.array,
    "objects": lambda rows: np.array(rows, dtype=object),
    "pandas": lambda rows: pd.DataFrame(rows),
    "polars": lambda rows: pl.DataFrame(rows, orient="row"),
}


@pytest.mark.parametrize("form", FORMS)
def test_positions_with_y_and_with_a_third_column(form):
    make = FORMS[form]
    assert_told(Pairs().fit(X, Y, pairs=make(PAIRS)).got_)
    assert_told(Pairs().fit(X, pairs=make(signed(PAIRS, Y))).got_)
    assert_told(Pairs().fit(X, np.array(Y, dtype=float), pairs=make(PAIRS)).got_)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ids", [NAMES, np.array(NAMES), np.array(NAMES, object), pd.Series(NAMES)])
def test_names(form, ids):
    make = FORMS[form]
    assert_told(Pairs().fit(X, Y, pairs=make(named(PAIRS)), ids=ids).got_)
    assert_told(Pairs().fit(X, pairs=make(signed(named(PAIRS), Y)), ids=ids).got_)


@pytest.mark.parametrize("form", FORMS)
def test_two_lists(form):
    make = FORMS[form]
    alike, unlike = [PAIRS[0], PAIRS[2]], [PAIRS[1]]
    assert_told(Pairs().fit(X, must_link=make(alike), cannot_link=make(unlike)).got_)
    found = Pairs().fit(X, must_link=make(named(alike)), cannot_link=make(named(unlike)), ids=NAMES)
    assert_told(found.got_)
    assert_told(Pairs().fit(X, must_link=make(alike)).got_, alike, [1, 1])
    assert_told(Pairs().fit(X, cannot_link=make(unlike)).got_, unlike, [-1])


@pytest.mark.parametrize("header", ["", "first,second,kind\n", " a , b , c \n"])
@pytest.mark.parametrize("as_text", [False, True])
def test_csv_with_and_without_a_header(write, header, as_text):
    path = write(header + "0,1,1\n2,3,-1\n4,1,1\n")
    assert_told(Pairs().fit(X, pairs=str(path) if as_text else path).got_)
    path = write(header + "r0, r1,must-link\nr2 ,r3,cannot-link\nr4,r1,+1\n")
    assert_told(Pairs().fit(X, pairs=path, ids=NAMES).got_)


@pytest.mark.parametrize("header", ["", "first,second\n"])
def test_csv_of_two_columns(write, header):
    path = write(header + "0,1\n2,3\n4,1\n")
    assert_told(Pairs().fit(X, Y, pairs=path).got_)
    assert_told(Pairs().fit(X, must_link=path).got_, PAIRS, [1, 1, 1])


def test_csv_with_a_mark_and_with_windows_lines(write):
    assert_told(
        Pairs().fit(X, pairs=write("\ufeffr0,r1,1\r\nr2,r3,-1\r\nr4,r1,1\r\n"), ids=NAMES).got_
    )


def test_names_that_look_like_numbers_stay_names(write):
    codes = [f"{i:03d}" for i in range(10)]
    path = write("000,001,1\n002,003,-1\n004,001,1\n")
    assert_told(Pairs().fit(X, pairs=path, ids=codes).got_)
    shuffled = [7, 3, 9, 1, 0, 2, 4, 5, 6, 8]  # names of the rows, not their positions
    pairs = [[shuffled[a], shuffled[b]] for a, b in PAIRS]
    assert_told(Pairs().fit(X, Y, pairs=pairs, ids=shuffled).got_)
    assert_told(Pairs().fit(X, Y, pairs=[[str(a), str(b)] for a, b in pairs], ids=shuffled).got_)
    assert_told(Pairs().fit(X, Y, pairs=np.array(pairs, dtype=float), ids=shuffled).got_)


@pytest.mark.parametrize("word", SIGNS)
def test_every_word_for_a_sign(word):
    pairs = [[0, 1, word], [2, 3, word.upper()], [4, 5, "1"]]
    assert_told(Pairs().fit(X, pairs=pairs).got_, [[0, 1], [2, 3], [4, 5]], [SIGNS[word]] * 2 + [1])


@pytest.mark.parametrize("values", [(1, -1), (1.0, -1.0), (True, False), (1, 0), ("+", "-")])
def test_every_value_for_a_sign(values):
    frame = pd.DataFrame({"a": ["r0", "r2"], "b": ["r1", "r3"], "kind": values})
    assert_told(Pairs().fit(X, pairs=frame, ids=NAMES).got_, [[0, 1], [2, 3]], [1, -1])


def test_vectors():
    points = X[np.array(PAIRS)]
    model = Pairs().fit(points, Y)
    np.testing.assert_array_equal(model.got_.differences(), points[:, 0] - points[:, 1])
    assert model.got_.sign.tolist() == Y
    assert model.n_features_in_ == 3
    again = Pairs().fit(y=Y, pairs=points.tolist())
    np.testing.assert_array_equal(again.got_.differences(), model.got_.differences())
    alike, unlike = model.got_.split()
    np.testing.assert_array_equal(alike, (points[:, 0] - points[:, 1])[[0, 2]])
    np.testing.assert_array_equal(unlike, (points[:, 0] - points[:, 1])[[1]])


def test_vectors_count_as_often_as_they_come():
    points = np.repeat(X[np.array(PAIRS[:1])], 4, axis=0)
    assert len(Pairs().fit(points, [1, 1, -1, -1]).got_.rows) == 4


@pytest.mark.parametrize("table", [X, X.tolist(), pd.DataFrame(X), lambda rows: X[rows]])
def test_preprocessor(table):
    model = Pairs(preprocessor=table).fit(np.array(PAIRS), Y)
    expected = X[np.array(PAIRS)][:, 0] - X[np.array(PAIRS)][:, 1]
    np.testing.assert_allclose(np.abs(model.got_.differences()), np.abs(expected))
    np.testing.assert_allclose(model.pair_distance(PAIRS), np.linalg.norm(expected, axis=1))
    np.testing.assert_allclose(model.pair_distance(X[np.array(PAIRS)]), model.pair_distance(PAIRS))
    np.testing.assert_allclose(model.transform([3, 5]), model.transform(X[[3, 5]]))


def test_preprocessor_with_named_tuples_and_pairs():
    model = Pairs(preprocessor=X).fit(pairs=signed(PAIRS, Y))
    assert_told(model.got_)


def test_a_refit_forgets_the_names_of_columns():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = Pairs().fit(frame, Y, pairs=PAIRS)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    model.fit(X[np.array(PAIRS)], Y)
    assert not hasattr(model, "feature_names_in_")


# ---- what cannot be meant ------------------------------------------------------------


@pytest.mark.parametrize("bad", [10, -1, 0.5, np.nan, np.inf, None, "r3", "", 1e300])
def test_unknown_positions_are_shown(bad):
    with pytest.raises(InputError, match=r"not row numbers from 0 to 9: .*\(tuple 1\)"):
        Pairs().fit(X, Y, pairs=np.array([[0, 1], [2, bad], [4, 1]], dtype=object))


@pytest.mark.parametrize("bad", ["r10", "R1", 3, np.nan, None, " r1x"])
def test_unknown_names_are_shown(bad):
    with pytest.raises(InputError, match=r"not ids of the table's rows: .*\(tuple 1\)"):
        Pairs().fit(X, Y, pairs=[["r0", "r1"], ["r2", bad], ["r4", "r1"]], ids=NAMES)


def test_only_the_first_unknown_ids_are_shown():
    with pytest.raises(InputError, match=r"\(tuple 4\) and 3 more\.$"):
        Pairs().fit(X, [1] * 8, pairs=[[0, 20 + i] for i in range(8)])


def test_missing_ids_in_a_frame():
    frame = pd.DataFrame({"a": pd.array([0, None], dtype="Int64"), "b": [1, 2], "s": [1, -1]})
    with pytest.raises(InputError, match="<NA> \\(tuple 1\\)"):
        Pairs().fit(X, pairs=frame)


def test_ids_that_do_not_name_the_rows():
    with pytest.raises(InputError, match="9 ids for 10 rows"):
        Pairs().fit(X, Y, pairs=named(PAIRS), ids=NAMES[:-1])
    with pytest.raises(InputError, match=r"not unique: \['r0'\]"):
        Pairs().fit(X, Y, pairs=named(PAIRS), ids=["r0", *NAMES[:-1]])


@pytest.mark.parametrize("second", [[0, 1], [1, 0]])
def test_contradictions_are_shown(second):
    with pytest.raises(InputError, match=r"both as must-link and as cannot-link: \(0, 1\)"):
        Pairs().fit(X, must_link=[[0, 1], [2, 3]], cannot_link=[second])
    with pytest.raises(InputError, match=r"\('r0', 'r1'\)"):
        Pairs().fit(X, [1, -1], pairs=named([[0, 1], second]), ids=NAMES)


@pytest.mark.parametrize("second", [[0, 1], [1, 0]])
def test_pairs_given_twice_count_twice(second):
    with pytest.warns(NearfoldWarning, match=r"1 pairs repeat others.*\(0, 1\)"):
        model = Pairs().fit(X, [1, 1, -1], pairs=[[0, 1], second, [2, 3]])
    assert rows_of(model.got_) == [[0, 1], second, [2, 3]]  # as for vectors
    assert_told(model.got_.without_repeats(), [[0, 1], [2, 3]], [1, -1])


def test_a_row_with_itself():
    with pytest.warns(NearfoldWarning, match="left out: 5"):
        model = Pairs().fit(X, [1, 1, -1], pairs=[[0, 1], [5, 5], [2, 3]])
    assert_told(model.got_, [[0, 1], [2, 3]], [1, -1])
    with pytest.raises(InputError, match="kept apart from itself: r5"):
        Pairs().fit(X, [1, -1], pairs=[["r0", "r1"], ["r5", "r5"]], ids=NAMES)


def test_the_order_of_the_pairs_is_kept():
    with pytest.warns(NearfoldWarning):
        found = from_ids(X, [[9, 8], [1, 0], [8, 9], [5, 4]], 2, sign=[1, -1, 1, 1])
    assert found.rows.tolist() == [[9, 8], [1, 0], [8, 9], [5, 4]]
    assert found.sign.tolist() == [1, -1, 1, 1]
    assert found.without_repeats().rows.tolist() == [[9, 8], [1, 0], [5, 4]]
    assert found.without_repeats().sign.tolist() == [1, -1, 1]


@pytest.mark.parametrize("y", [[1, 0, 1], ["1", "-1", "1"], [1, np.nan, 1], [True, False, True]])
def test_other_signs_in_y_are_refused(y):
    with pytest.raises(InputError, match=r"only values in \[-1, 1\]"):
        Pairs().fit(X, y, pairs=PAIRS)
    with pytest.raises(InputError, match=r"only values in \[-1, 1\]"):
        Pairs().fit(X[np.array(PAIRS)], y)


def test_other_signs_in_a_column_are_refused():
    for bad in ("maybe", "2", 0.5, None, np.nan):
        with pytest.raises(InputError, match="pair 1 says"):
            Pairs().fit(X, pairs=[[0, 1, "must"], [2, 3, bad]])


def test_pairs_without_signs_and_signs_without_pairs():
    for given in ({"pairs": PAIRS}, {"X": X[np.array(PAIRS)]}):
        with pytest.raises(InputError, match="need to be told apart"):
            Pairs().fit(**{"X": X, **given})
    with pytest.raises(InputError, match="2 signs for 3 pairs"):
        Pairs().fit(X, [1, -1], pairs=PAIRS)
    with pytest.raises(ValueError, match="requires y"):
        Pairs().fit(X)


@pytest.mark.parametrize(
    "pairs",
    [
        [0, 1],
        [[0, 1, 2, 1]],
        [[0]],
        np.zeros((2, 2, 2), dtype=int),
        np.zeros((0, 2), dtype=int),
        np.zeros((0, 3), dtype=int),
        [],
        ["01", "23"],
        [[0, 1], [2]],
        7,
    ],
)
def test_other_shapes_are_refused(pairs):
    with pytest.raises(ValueError):
        Pairs().fit(X, pairs=pairs)
    with pytest.raises(ValueError):
        Pairs().fit(X, must_link=pairs)


@pytest.mark.parametrize("points", [np.zeros((0, 2, 3)), np.zeros((4, 3, 3)), np.zeros((4, 1, 3))])
def test_other_shapes_of_vectors_are_refused(points):
    with pytest.raises(InputError, match=r"(?i)pairs"):
        Pairs().fit(points, np.ones(len(points)))


def test_vectors_that_are_not_finite_are_refused():
    points = X[np.array(PAIRS)].copy()
    points[1, 0, 2] = np.nan
    with pytest.raises(NonFiniteError, match="column 2"):
        Pairs().fit(points, Y)
    model = Pairs().fit(X, Y, pairs=PAIRS)
    for judge in (model.pair_distance, model.predict, model.explain_pairs):
        with pytest.raises(NonFiniteError):
            judge(points)
    with pytest.raises(InputError, match="4 features, but Pairs is expecting 3"):
        model.pair_distance(np.zeros((2, 2, 4)))


def test_files_that_cannot_be_read(write, tmp_path):
    with pytest.raises(InputError, match=r"no file 'none\.csv'"):
        Pairs().fit(X, pairs="none.csv")
    with pytest.raises(InputError, match="cannot be read"):
        Pairs().fit(X, pairs=write(""))
    with pytest.raises(InputError, match="cannot be read"):
        Pairs().fit(X, pairs=write("0,1,1\n", encoding="utf-16"))
    with pytest.raises(InputError):
        Pairs().fit(X, pairs=write("a,b,kind\n"))
    with pytest.raises(InputError, match="these have 1"):
        Pairs().fit(X, pairs=write("0;1;1\n2;3;-1\n"))


def test_ids_without_a_table():
    with pytest.raises(InputError, match="look like row ids"):
        Pairs().fit(np.array(PAIRS), Y)
    with pytest.raises(InputError, match="need the table"):
        Pairs().fit(y=Y, pairs=PAIRS)


def test_look_up():
    np.testing.assert_array_equal(look_up(X, [3, 1]), X[[3, 1]])
    np.testing.assert_array_equal(look_up(lambda ids: X[ids], np.array([3, 1])), X[[3, 1]])
    assert look_up(None, PAIRS) is PAIRS
    assert look_up(X, PAIRS) is PAIRS
    for bad in ([0, 10], [-1], [0.5]):
        with pytest.raises(InputError, match="not row numbers"):
            look_up(X, bad)


# ---- triplets and quadruplets --------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cls", [Triplets, Quadruplets])
def test_larger_tuples(cls, form, write):
    size = 3 if cls is Triplets else 4
    key = "triplets" if size == 3 else "quadruplets"
    rows = [[0, 1, 2, 3][:size], [4, 5, 6, 7][:size], [9, 0, 5, 1][:size]]
    text = [[NAMES[i] for i in row] for row in rows]
    for tuples, ids in ((rows, None), (text, NAMES)):
        model = cls().fit(X, **{key: FORMS[form](tuples)}, ids=ids)
        assert rows_of(model.got_) == rows  # the order of the members means something
    path = write("\n".join(",".join(row) for row in [["a", "b", "c", "d"][:size], *text]))
    assert rows_of(cls().fit(X, **{key: path}, ids=NAMES).got_) == rows
    points = X[np.array(rows)]
    near, far = ((0, 1), (0, 2)) if size == 3 else ((0, 1), (2, 3))
    expected = np.linalg.norm(points[:, far[0]] - points[:, far[1]], axis=1)
    expected -= np.linalg.norm(points[:, near[0]] - points[:, near[1]], axis=1)
    model = cls().fit(points)
    np.testing.assert_allclose(model.decision_function(points), expected)
    np.testing.assert_array_equal(model.predict(points), np.where(expected > 0, 1, -1))
    assert model.score(points) == np.mean(expected > 0)
    with_table = cls(preprocessor=X).fit(np.array(rows))
    np.testing.assert_allclose(with_table.decision_function(rows), expected)


@pytest.mark.parametrize("wrong", [[0, 1, 0], [0, 1, 1], [0, 1, 2, 3], [0, 1], [0, 1, 10]])
def test_impossible_triplets(wrong):
    with pytest.raises(InputError):
        Triplets().fit(X, triplets=[wrong])
    with pytest.raises(InputError, match="there are no triplets"):
        Triplets().fit(X, triplets=np.zeros((0, 3), dtype=int))


@pytest.mark.parametrize("wrong", [[0, 1, 2, 2], [0, 1, 1, 0], [0, 1, 0, 1], [0, 1, 2]])
def test_impossible_quadruplets(wrong):
    with pytest.raises(InputError):
        Quadruplets().fit(X, quadruplets=[[0, 1, 2, 3], wrong][-1:])


@pytest.mark.parametrize("weights", [[1], [1, -1, 1], [0, 0, 0], [1, np.nan, 1], [1, np.inf, 1]])
def test_impossible_weights(weights):
    rows = [[0, 1, 2, 3], [4, 5, 6, 7], [9, 0, 5, 1]]
    with pytest.raises(InputError, match="one per quadruplet"):
        Quadruplets().fit(X, quadruplets=rows, weights=weights)
    good = Quadruplets().fit(X, quadruplets=rows, weights=[1, 2, 1])
    np.testing.assert_allclose(good.weights_, [0.25, 0.5, 0.25])


# ---- judging pairs -------------------------------------------------------------------


def test_threshold_parts_the_pairs():
    points = np.zeros((4, 2, 3))
    points[:, 1, 0] = [1.0, 2.0, 3.0, 4.0]
    y = np.array([1, 1, -1, -1])
    model = Pairs().fit(points, y)
    assert model.threshold_ == 2.5
    np.testing.assert_array_equal(model.predict(points), y)
    assert model.score(points, y) == 1.0
    np.testing.assert_allclose(model.decision_function(points), [-1, -2, -3, -4])
    assert (model.set_threshold(1).predict(points) == [1, -1, -1, -1]).all()
    with pytest.raises(InputError, match="real number"):
        model.set_threshold("far")
    del model.threshold_
    with pytest.raises(AttributeError, match="threshold for this estimator has not been set"):
        model.predict(points)


@pytest.mark.parametrize("strategy", ["accuracy", "f_beta", "max_tpr", "max_tnr"])
def test_calibration_is_as_good_as_any_threshold(strategy):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 2, 3))
    y = np.where(rng.random(40) < 0.5, 1, -1)
    options = {"min_rate": 0.6} if strategy.startswith("max") else {}
    model = Pairs().fit(points, y).calibrate_threshold(points, y, strategy, **options)

    def merit(threshold):
        said = model.pair_distance(points) <= threshold
        hits, alike = np.sum(said & (y > 0)), np.sum(y > 0)
        tpr, tnr = hits / alike, np.mean(~said[y < 0])
        return {
            "accuracy": np.mean(said == (y > 0)),
            "f_beta": 2 * hits / (said.sum() + alike),
            "max_tpr": tpr if tnr >= 0.6 else -1,
            "max_tnr": tnr if tpr >= 0.6 else -1,
        }[strategy]

    every = np.concatenate([[-1], model.pair_distance(points) + 1e-9])
    assert merit(model.threshold_) == pytest.approx(max(merit(t) for t in every))


def test_learned_from_labels_it_judges_no_pairs():
    y = np.arange(10) % 2
    with (
        pytest.warns(NearfoldWarning, match="generated 20 positive"),
        pytest.warns(NearfoldWarning, match="generated 25 negative"),
    ):
        model = Pairs(random_state=0).fit(X, y)
    for name in ("predict", "decision_function", "score"):
        assert not hasattr(model, name)
    assert model.pair_distance(X[np.array(PAIRS)]).shape == (3,)


# ---- found wrong: each is to be mended in the package ----------------------------------


def test_numbers_out_of_range_are_no_header(write):
    with pytest.raises(InputError, match="100"):
        Pairs().fit(X, must_link=write("100,101\n0,1\n"))


def test_a_list_has_no_header():
    with pytest.raises(InputError, match="nobody"):
        Pairs().fit(X, must_link=[["nobody", "no one"], ["r0", "r1"]], ids=NAMES)


def test_an_empty_list_says_nothing():
    found = from_links(X, [[0, 1]], [])
    assert found.sign.tolist() == [1]


def test_an_infinite_sign_is_refused():
    with pytest.raises(InputError, match="pair 0 says"):
        Pairs().fit(X, pairs=[[0, 1, np.inf], [2, 3, -1.0]])


@pytest.mark.filterwarnings("ignore:pairs of a row with itself")
def test_only_pairs_of_rows_with_themselves_are_refused():
    with pytest.raises(InputError, match="no pairs"):
        Pairs().fit(X, [1, 1], pairs=[[0, 0], [3, 3]])


def test_pairs_and_links_together_are_refused_or_both_used():
    try:
        found = Pairs().fit(X, Y, pairs=PAIRS, must_link=[[5, 6]]).got_
    except InputError:
        return
    assert len(found.rows) == 4


def test_a_preprocessor_that_is_not_finite_is_refused():
    table = X.copy()
    table[1, 1] = np.nan
    with pytest.raises(NonFiniteError):
        Pairs(preprocessor=table).fit(np.array(PAIRS), Y)


def test_a_preprocessor_of_whole_numbers_learns_floats():
    table = (10 * X).astype(int)
    assert Pairs(preprocessor=table).fit(np.array(PAIRS), Y).components_.dtype == np.float64


def test_a_callable_preprocessor_with_pairs():
    model = Pairs(preprocessor=lambda rows: X[rows]).fit(pairs=signed(PAIRS, Y))
    assert len(model.got_.rows) == 3


def test_a_callable_preprocessor_with_too_many_rows_is_refused():
    with pytest.raises(InputError):
        Pairs(preprocessor=lambda rows: np.vstack([X[rows], X[rows]])).fit(np.array(PAIRS), Y)


def test_ids_as_a_frame_of_one_column():
    ids = pd.DataFrame({"name": NAMES})
    assert_told(Pairs().fit(X, Y, pairs=named(PAIRS), ids=ids).got_)


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
def test_a_table_of_whole_numbers_with_class_labels_is_a_table():
    table = np.random.default_rng(0).integers(0, 256, size=(30, 4))
    assert Quadruplets(random_state=0).fit(table, np.arange(30) % 3).n_features_in_ == 4


def test_a_chain_of_must_links_that_contradicts_is_shown():
    with pytest.raises((InputError, NearfoldWarning), match=r"0.*1.*2"):  # warnings are errors here
        Pairs().fit(X, must_link=[[0, 1], [1, 2]], cannot_link=[[0, 2]])


def test_unknown_ids_are_shown_as_they_were_written():
    with pytest.raises(InputError, match=r"9: -1 \(tuple 0\)"):
        Pairs().fit(X, [1], pairs=np.array([[0, -1]]))


def test_a_folder_is_not_a_file(write):
    path = write("0,1,1\n2,3,-1\n")
    with pytest.raises(InputError, match="file"):
        Pairs().fit(X, pairs=path.parent)


def test_empty_lines_of_a_file_are_skipped(write):
    assert_told(Pairs().fit(X, pairs=write("0,1,1\n\n2,3,-1\n4,1,1\n\n")).got_)


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
def test_a_refit_from_labels_forgets_the_threshold():
    model = Pairs(random_state=0).fit(X, Y, pairs=PAIRS)
    assert not hasattr(model.fit(X, np.arange(10) % 2), "threshold_")


def test_vectors_are_checked_once_more():
    with pytest.raises(InputError, match="shape"):
        from_vectors(X, 2, [1] * 10)
