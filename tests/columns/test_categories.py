"""Categories as numbers: indicators, target means and Gower's distance, against their formulas."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.spatial.distance import cdist
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import TargetEncoder

from nearfold.columns.converters import MISSING, UNSEEN
from nearfold.columns.preparation import TablePreparation
from nearfold.columns.words import as_words
from nearfold.errors import InputError

RNG = np.random.default_rng(3)
N = 300
COLOURS = RNG.choice(["red", "green", "blue"], N, p=[0.5, 0.3, 0.2])
FRAME = pl.DataFrame({"x": RNG.normal(size=N), "colour": COLOURS, "sex": RNG.choice(["f", "m"], N)})


def fitted(frame, y=None, **params):
    model = TablePreparation(**params)
    return model, model.fit_transform(frame, y)


def part(model, X, name):
    return X[:, model.origin == model.names_.tolist().index(name)]


def test_indicators_are_one_hot():
    model, X = fitted(FRAME)
    words = model.levels_[0].tolist()
    assert words == ["blue", "green", "red"]
    expected = (COLOURS[:, None] == np.array(words)).astype(float)
    assert np.array_equal(part(model, X, "colour"), expected)


@pytest.mark.parametrize("weight", [0.25, 1.0, 4.0])
def test_a_category_counts_as_much_as_it_weighs(weight):
    model, X = fitted(FRAME, numbers="scale", category_weight=weight)
    x = part(model, X, "x")
    # On average two rows differ by 2 in a scaled number, and rows of different levels by as much.
    assert ((x - x.T) ** 2).mean() == pytest.approx(2)
    for name in ("colour", "sex"):
        own = part(model, X, name)
        D = ((own[:, None] - own[None]) ** 2).sum(axis=2)
        words = FRAME[name].to_numpy()
        differ = words[:, None] != words[None]
        assert D[differ] == pytest.approx(2 * weight)
        assert not D[~differ].any()


def test_two_levels_need_one_column():
    model, X = fitted(FRAME)
    assert part(model, X, "sex").shape[1] == 1
    assert np.array_equal(part(model, X, "sex")[:, 0], FRAME["sex"].to_numpy() == "m")


def test_rare_levels_share_a_column():
    words = ["a"] * 2600 + ["b"] * 500 + ["r1", "r2", "r3", "r3"]
    _, X = fitted(pl.DataFrame({"c": words}))
    assert X.shape[1] == 3  # a, b, the rare ones
    assert X[3100:].tolist() == [[0, 0, 1]] * 4


def test_many_levels_are_grouped_beyond_the_most_frequent():
    words = np.repeat([f"w{i}" for i in range(160)], np.arange(20, 180))
    _, X = fitted(pl.DataFrame({"c": words}))
    assert X.shape[1] == 101
    assert np.array_equal(X.sum(axis=1), np.ones(len(words)))
    assert X[words == "w159"].sum(axis=0).max() == 179
    assert X[words == "w0", -1].all()


def test_a_missing_category_is_a_level_if_training_rows_have_some():
    frame = FRAME.with_columns(colour=pl.Series([None, None, None, *COLOURS[3:]]))
    model, X = fitted(frame)
    own = part(model, X, "colour")
    assert own.shape[1] == 4
    assert own[:3].tolist() == [[0, 0, 0, 1]] * 3
    model, _ = fitted(FRAME)
    new = part(model, model.transform(frame), "colour")
    assert new[:3].tolist() == [[0, 0, 0]] * 3


def test_an_unseen_level_is_none_of_the_known_ones_and_is_told():
    model, _ = fitted(FRAME, numbers="scale")
    new = pl.DataFrame({"x": [0.0, 1.0], "colour": ["pink", "red"], "sex": ["m", "?"]})
    X = model.transform(new)
    assert part(model, X, "colour")[0].tolist() == [0, 0, 0]
    cells = model.read(new)
    assert cells.codes[:, 0].tolist() == [UNSEEN, 2]
    told = [str(line) for line in model.unseen(cells)]
    assert [line.split(":")[0] for line in told] == ["'colour'", "'sex'"]
    assert "1 row has a category" in told[0]


def test_levels_that_a_fold_lacks_are_unknown_to_it():
    """Codes are of the whole table; what they mean is learned from the rows of a fold alone."""
    model, _ = fitted(FRAME)
    cells = model.read(FRAME)
    fold = TablePreparation()
    own = fold.fit_cells(cells.take(COLOURS != "blue"), None, model.columns_)
    assert own.shape[1] == 1 + 1 + 1  # two colours, as one column
    assert (
        fold.encode(cells.take(COLOURS == "blue"))[:, 1].tolist() == [0] * (COLOURS == "blue").sum()
    )


@pytest.mark.parametrize("kind", ["binary", "multiclass", "continuous"])
def test_target_means_are_scikit_learns(kind):
    y = {
        "binary": RNG.integers(0, 2, N),
        "multiclass": RNG.choice(["a", "b", "c"], N),
        "continuous": RNG.normal(size=N),
    }[kind]
    frame = FRAME.select("colour")
    model, own = fitted(frame, y, categories="target", random_state=7)
    oracle = TargetEncoder(target_type=kind, cv=KFold(5, shuffle=True, random_state=7))
    words = frame.to_numpy()
    np.testing.assert_allclose(own, oracle.fit_transform(words, y), rtol=1e-12)
    np.testing.assert_allclose(model.transform(frame), oracle.transform(words), rtol=1e-12)
    unseen = np.array([["pink"]], dtype=object)
    np.testing.assert_allclose(
        model.transform(pl.DataFrame({"colour": ["pink"]})), oracle.transform(unseen), rtol=1e-12
    )


def test_no_row_sees_its_own_answer():
    """Random answers of a category with many levels: nothing can be learned from it."""
    rng = np.random.default_rng(0)
    words = rng.choice([f"w{i}" for i in range(400)], 2000)
    y, fresh = rng.integers(0, 2, 2000), rng.integers(0, 2, 2000)
    frame = pl.DataFrame({"c": words})
    specs = [{"name": "c", "kind": "category"}]
    model, own = fitted(frame, y, categories="target", columns=specs)
    alone = TablePreparation(categories="target", columns=specs).fit(frame, y).transform(frame)
    assert not np.allclose(own, alone)
    knn = KNeighborsClassifier(15)
    leaking = np.mean(knn.fit(alone, y).predict(alone) == y)
    honest = np.mean(knn.fit(own, y).predict(own) == y)
    assert leaking > 0.65  # what encoding all rows by themselves would show
    assert abs(honest - 0.5) < 0.1
    assert abs(np.mean(knn.fit(own, y).predict(model.transform(frame)) == fresh) - 0.5) < 0.05


def test_target_means_have_the_weight_of_a_category():
    y = RNG.integers(0, 3, N)
    model, X = fitted(FRAME, y, categories="target", numbers="scale")
    assert part(model, X, "colour").var(axis=0).sum() == pytest.approx(1)


def test_a_missing_category_has_a_target_mean_of_its_own():
    words = [None] * 100 + ["a"] * 100 + ["b"] * 50 + ["c"] * 50
    y = np.r_[np.ones(100), np.zeros(200)]
    model, _ = fitted(pl.DataFrame({"c": words}), y, categories="target")
    rows = pl.DataFrame({"c": [None, "a", "zzz"]})
    missing, known, unseen = model.transform(rows)[:, 0]
    assert missing > 0.99 > 0.01 > known
    assert unseen == pytest.approx(1 / 3)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_a_few_rows_can_be_encoded_by_targets(n):
    frame = pl.DataFrame({"c": list("abcabc")[:n], "x": np.arange(n) * 1.5})
    specs = [{"name": "c", "kind": "category"}, {"name": "x", "kind": "number"}]
    for y in (np.arange(n) % 2, np.arange(n), np.arange(n) / 3, ["u"] * n):
        model, X = fitted(frame, y, categories="target", columns=specs)
        assert np.isfinite(X).all()
        assert np.isfinite(model.transform(frame)).all()


@pytest.mark.parametrize(
    ("y", "says"),
    [
        (None, "give y"),
        (np.ones(3), "y has the shape"),
        (np.full(N, np.nan), "missing or infinite"),
        (np.array([None] * N), "missing or infinite"),
    ],
)
def test_targets_that_cannot_be_used(y, says):
    with pytest.raises(InputError, match=says):
        TablePreparation(categories="target").fit(FRAME, y)


def test_answers_of_any_shape_are_no_matter_to_indicators():
    for y in (np.ones((N, 2)), np.full(N, np.nan), ["a"] * 3):
        assert TablePreparation(missing="drop").fit_transform(FRAME, y).shape == (N, 5)


def gower(numbers, words):
    """Literally: |difference| / range of a number, 1 for a category that differs; their mean."""
    n = len(numbers)
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            parts = np.abs(numbers[i] - numbers[j]) / np.ptp(numbers, axis=0)
            differ = [a != b for a, b in zip(words[i], words[j], strict=True)]
            found[i, j] = (parts.sum() + sum(differ)) / (len(parts) + len(differ))
    return found


def test_ranges_and_indicators_are_gowers_distance():
    rng = np.random.default_rng(5)
    numbers = rng.normal(size=(40, 3)) * [1, 100, 0.01]
    words = np.column_stack([rng.choice(list("abc"), 40), rng.choice(list("uv"), 40)])
    names = ["p", "q", "r"]
    frame = pl.DataFrame(dict(zip(names, numbers.T, strict=True))).with_columns(
        s=pl.Series(words[:, 0]), t=pl.Series(words[:, 1])
    )
    X = TablePreparation(numbers="range").fit_transform(frame)
    found = cdist(X, X, "cityblock") / 5
    np.testing.assert_allclose(found, gower(numbers, words), atol=1e-14)


def test_an_order_is_a_number():
    sizes = ["small", "large", "medium", None, "small"] * 4
    ordered = pd.Categorical(sizes, categories=["small", "medium", "large"], ordered=True)
    enum = pl.Series(sizes, dtype=pl.Enum(["small", "medium", "large"]))
    specs = [{"name": "s", "kind": "ordered", "levels": ["small", "medium", "large"]}]
    for frame, columns in (
        (pd.DataFrame({"s": ordered}), None),
        (pl.DataFrame({"s": enum}), None),
        (pl.DataFrame({"s": sizes}), specs),
    ):
        model, X = fitted(frame, columns=columns, missing="zero")
        assert X[:5, 0].tolist() == [0, 2, 1, 0, 0]
        assert model.columns_ == specs
        new = pl.DataFrame({"s": ["large", "huge"]})
        assert model.transform(new)[:, 0].tolist() == [2, 0]
        (told,) = model.unseen(model.read(new))
        assert "'s': 1 cell that cannot be read as ordered category" in str(told)
        assert "'huge' in row 2" in str(told)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pl.Series([1, 2, None]), ["1", "2", None]),
        (pl.Series([1.0, 2.0, float("nan")]), ["1", "2", None]),
        (pl.Series([1.0, 2.5, None]), ["1", "2.5", None]),
        (pl.Series(["1", " 2 ", None]), ["1", "2", None]),
        (pl.Series([1e300, 1.0, float("inf")]), ["1e+300", "1", "inf"]),
        (pl.Series([2**60 + 1, 1, None]), [str(2**60 + 1), "1", None]),
        (pl.Series(["1.50", "2.00"]).cast(pl.Decimal(10, 2)), ["1.5", "2"]),
        (pl.Series([True, None]), ["true", None]),
        (pl.Series([None, None]), [None, None]),
        (pl.Series(["b", "a"], dtype=pl.Categorical), ["b", "a"]),
    ],
)
def test_a_word_has_one_spelling(values, words):
    assert as_words(values).to_list() == words


def test_numbers_texts_and_categoricals_spell_the_same_category():
    store = [1, 2, 3, 2, 1, 1] * 5
    specs = [{"name": "s", "kind": "category"}]
    model, X = fitted(pl.DataFrame({"s": store}), columns=specs)
    for same in (
        pl.DataFrame({"s": [float(v) for v in store]}),
        pl.DataFrame({"s": [str(v) for v in store]}),
        pd.DataFrame({"s": pd.Categorical(store)}),
        pd.DataFrame({"s": pd.Categorical([float(v) for v in store])}),
        pd.DataFrame({"s": pd.array(store, dtype="Int64")}),
        pd.DataFrame({"s": pd.Series(store, dtype=object)}),
    ):
        assert np.array_equal(model.transform(same), X)
    gap = pd.DataFrame({"s": [1, None]})  # pandas makes floats of them
    assert model.read(gap).codes[:, 0].tolist() == [0, MISSING]


def test_a_declared_category_of_digits_is_no_number():
    for held in (
        pd.Categorical([1, 2, 3] * 9),
        pl.Series(["1", "2", "3"] * 9, dtype=pl.Categorical),
    ):
        frame = (pl if isinstance(held, pl.Series) else pd).DataFrame({"grade": held})
        model, X = fitted(frame)
        assert model.columns_ == [{"name": "grade", "kind": "category"}]
        assert X.shape[1] == 3
