"""What scikit-learn's preprocessors hold when fitted, for model files (nearfold.state).

Read off scikit-learn 1.9. A version that holds something else is refused when saving, by the name
of the field. What puts transformers together (Pipeline, ColumnTransformer, ...) is described in
sklearn_composites.py.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
from sklearn import covariance, decomposition, feature_selection, impute, preprocessing

from nearfold.state import (
    Check,
    Sizes,
    State,
    any_of,
    array,
    describe,
    flag,
    is_whole,
    labels,
    list_of,
    names,
    nested,
    number,
    optional,
    require,
    size,
)

_TINY = 1e-165  # a standard deviation whose square is not zero
_LARGEST_POWER = 200.0  # of PowerTransformer: 30 to the 200th is a number
_IN = {"n_features_in_": size("d", 1), "feature_names_in_": names("d")}
_NAMED = ("feature_names_in_",)


def _transformer(_also: Any = None, _optional: tuple[str, ...] = (), **fields: Check) -> State:
    return State(_also, (*_NAMED, *_optional), **_IN, **fields)


def dtype_of(*kinds: str) -> Check:
    """A dtype of one of these kinds."""

    def check(value: Any, sizes: Sizes) -> None:
        require(isinstance(value, np.dtype) and value.kind in kinds, "not a dtype it may be")

    return check


def _objects_of(check: Check, letter: str) -> Check:
    """An object array whose items fit."""

    def check_all(value: Any, sizes: Sizes) -> None:
        array(letter, "any")(value, sizes)
        require(value.dtype.kind == "O", "not an array of objects")
        for item in value:
            check(item, sizes)

    return check_all


def _categories(value: Any, sizes: Sizes) -> None:
    """The distinct values of a column; numbers ascend, with NaN last."""
    array("*", "any")(value, sizes)
    require(len(value) > 0 and value.dtype.kind != "c", "a column without categories")
    if value.dtype.kind in "fiub":
        known = value[~np.isnan(value)] if value.dtype.kind == "f" else value
        require(len(value) - len(known) <= 1 and (known[1:] > known[:-1]).all(), "not ascending")
        require(len(known) == len(value) or np.isnan(value[-1]), "NaN is not last")
        return
    items = [item for item in value.tolist() if item is not None and item == item]
    require(all(isinstance(item, str | int | float | bytes) for item in items), "odd categories")
    require(len({type(item) for item in items}) <= 1, "categories of several kinds")
    require(len(set(items)) == len(items) >= len(value) - 2, "a category that occurs twice")


def _rows_below(rows: Any, n: int, what: str) -> None:
    require(all(is_whole(row) and 0 <= row < n for row in rows), f"{what} out of range")


def _groups(values: dict[str, Any], i: int) -> tuple[int, int]:
    """Of column i: how many codes there are after rare categories are joined, and the joined."""
    n = len(values["categories_"][i])
    rare = values.get("_infrequent_indices")
    if rare is None or rare[i] is None:
        return n, 0
    return n - len(rare[i]) + 1, len(rare[i])


def _check_rare(values: dict[str, Any], sizes: Sizes) -> None:
    """Rare categories, where they are joined: which they are, and the code of each category."""
    rare, codes = values.get("_infrequent_indices"), values.get("_default_to_infrequent_mappings")
    enabled = bool(values["_infrequent_enabled"])
    require((rare is not None) == (codes is not None) == enabled, "rare categories without codes")
    if not enabled or rare is None or codes is None:
        return
    for i, kept in enumerate(values["categories_"]):
        require((rare[i] is None) == (codes[i] is None), "rare categories without codes")
        if rare[i] is None:
            continue
        _rows_below(rare[i], len(kept), "a rare category")
        require(0 < len(rare[i]) == len(set(rare[i].tolist())), "a rare category twice")
        require(len(codes[i]) == len(kept), "categories without a code")
        _rows_below(codes[i], _groups(values, i)[0], "a code")


def _number_type(value: Any) -> bool:
    kind = isinstance(value, type) and issubclass(value, np.number | float | int)
    return kind or (isinstance(value, np.dtype) and value.kind in "fiu")


def _check_one_hot(values: dict[str, Any], sizes: Sizes) -> None:
    require(values["feature_name_combiner"] == "concat", "feature_name_combiner: not saved")
    _check_rare(values, sizes)
    require(_number_type(values["dtype"]), "dtype: not a type of numbers")
    dropped = values["_drop_idx_after_grouping"]
    shown = values["drop_idx_"]
    require((dropped is None) == (shown is None), "dropped categories that do not agree")
    for i, width in enumerate(values["_n_features_outs"]):
        codes, _ = _groups(values, i)
        gone = None if dropped is None else dropped[i]
        if dropped is not None:
            require((gone is None) == (shown[i] is None), "dropped categories that do not agree")
        if gone is not None:
            _rows_below([gone], codes, "a dropped category")
            _rows_below([shown[i]], len(values["categories_"][i]), "a dropped category")
        require(width == codes - (gone is not None), "columns that do not fit the categories")


def _check_ordinal(values: dict[str, Any], sizes: Sizes) -> None:
    _check_rare(values, sizes)
    require(_number_type(values["dtype"]), "dtype: not a type of numbers")
    real = np.dtype(values["dtype"]).kind == "f"
    unknown, missing = values["unknown_value"], values["encoded_missing_value"]
    uses = values["handle_unknown"] == "use_encoded_value"
    require((unknown is not None) == uses, "unknown_value does not fit handle_unknown")
    require(real or all(v is None or v == v for v in (unknown, missing)), "dtype: NaN needs floats")
    longest = max(len(kept) for kept in values["categories_"])
    require(unknown is None or unknown != unknown or not 0 <= unknown < longest, "unknown_value")
    require(all(v is None or abs(v) < 2**31 for v in (unknown, missing) if v == v), "too large")
    for column, place in values["_missing_indices"].items():
        _rows_below([column], sizes["d"], "a column")
        _rows_below([place], len(values["categories_"][column]), "a missing category")


def _places(value: Any, sizes: Sizes) -> None:
    require(type(value) is dict, "not a dict")
    require(all(is_whole(part) for pair in value.items() for part in pair), "not whole numbers")


_RARE: dict[str, Check] = {
    "_infrequent_indices": list_of(optional(array("*", "i", least=0)), "d"),
    "_default_to_infrequent_mappings": list_of(optional(array("*", "i", least=0)), "d"),
}
_DROPPED = optional(_objects_of(optional(number(0, whole=True)), "d"))


def _check_bins(values: dict[str, Any], sizes: Sizes) -> None:
    one_hot = values["encode"] != "ordinal"
    encoder = values.get("_encoder")
    require(not one_hot or encoder is not None, "one-hot bins without an encoder")
    for i, (edges, n) in enumerate(zip(values["bin_edges_"], values["n_bins_"], strict=True)):
        require(len(edges) == n + 1, "edges that do not fit the bins")
        if encoder is not None:
            require(len(encoder.categories_[i]) == n, "an encoder that does not fit the bins")
            require((encoder.categories_[i] == np.arange(n)).all(), "categories that are no bins")


def _check_polynomial(values: dict[str, Any], sizes: Sizes) -> None:
    degree, d = values["degree"], sizes["d"]
    low, high = (0, degree) if is_whole(degree) else degree
    require((values["_min_degree"], values["_max_degree"]) == (low, high), "another degree")
    require(is_whole(low) and is_whole(high) and 0 <= low <= high <= 64, "degree")
    most = min(high, d) if values["interaction_only"] else high
    way = comb if values["interaction_only"] else lambda d, i: comb(d + i - 1, i)
    count = [way(d, i) for i in range(most + 1)]
    bias = bool(values["include_bias"])
    require(values["_n_out_full"] == sum(count[1:]) + bias, "n_out_full")
    require(values["n_output_features_"] == sum(count[max(1, low) :]) + bias, "n_output_features_")


def _check_imputer(values: dict[str, Any], sizes: Sizes) -> None:
    statistics = values["statistics_"]
    plain = statistics.dtype.kind in "fiub"
    require(plain == (values["_fit_dtype"].kind in "fiub"), "another dtype than its statistics")
    require(plain == (values["_fill_dtype"].kind in "fiub"), "another dtype than its statistics")
    require(plain or values["strategy"] in ("most_frequent", "constant"), "strategy")
    require(not plain or not np.isinf(statistics).any(), "statistics that are not finite")
    if not plain:
        kinds = (str, bytes, int, float, type(None))
        require(all(isinstance(item, kinds) for item in statistics.tolist()), "odd statistics")
    indicator = values["indicator_"]
    require((indicator is not None) == bool(values["add_indicator"]), "an indicator not asked for")
    if indicator is not None:
        same = repr(indicator.missing_values) == repr(values["missing_values"])
        require(bool(indicator._precomputed) and same, "another indicator")


def _check_indicator(values: dict[str, Any], sizes: Sizes) -> None:
    features = values["features_"]
    require((features[1:] > features[:-1]).all(), "features that are not ascending")


def _check_range(values: dict[str, Any], sizes: Sizes) -> None:
    low_high = values["feature_range"]
    require(len(low_high) == 2 and all(np.isreal(v) for v in low_high), "feature_range")
    require(np.isfinite(low_high).all() and low_high[0] < low_high[1], "feature_range")


def _needs(**fields: str) -> Any:
    """A check that a field is there if the parameter of that name is true."""

    def check(values: dict[str, Any], sizes: Sizes) -> None:
        for parameter, field in fields.items():
            require(not values[parameter] or values[field] is not None, f"{field} is missing")

    return check


def _check_function(values: dict[str, Any], sizes: Sizes) -> None:
    for name in ("kw_args", "inv_kw_args"):
        require(not values[name], f"{name}: arguments of functions are not saved")
    kinds = (type(None), str)
    require(isinstance(values["feature_names_out"], kinds), "feature_names_out: not saved")


_SCALE = optional(array("d", above=_TINY))
_SEEN = any_of(number(1), array("d", "number", least=0))
_ROW = array("d")
_COVARIANCE = {
    "location_": _ROW,
    "covariance_": array("d d", symmetric=True),
    "precision_": optional(array("d d", symmetric=True)),
}
_ENCODER: dict[str, Check] = {
    "categories_": list_of(_categories, "d"),
    "_infrequent_enabled": flag(),
}


def describe_preprocessors() -> None:
    """Make the descriptions of all of them known to nearfold.state."""
    p = preprocessing
    for plain in (p.Binarizer, p.Normalizer):
        describe(plain, _transformer())
    describe(
        p.StandardScaler,
        _transformer(
            _needs(with_mean="mean_", with_std="scale_"),
            n_samples_seen_=_SEEN,
            mean_=optional(_ROW),
            var_=optional(array("d", least=0)),
            scale_=_SCALE,
        ),
    )
    describe(
        p.MinMaxScaler,
        _transformer(
            _check_range,
            n_samples_seen_=number(1),
            scale_=array("d", above=_TINY),
            min_=_ROW,
            data_min_=_ROW,
            data_max_=_ROW,
            data_range_=array("d", least=0),
        ),
    )
    describe(
        p.MaxAbsScaler,
        _transformer(
            n_samples_seen_=number(1), max_abs_=array("d", least=0), scale_=array("d", above=_TINY)
        ),
    )
    needs = _needs(with_centering="center_", with_scaling="scale_")
    describe(p.RobustScaler, _transformer(needs, center_=optional(_ROW), scale_=_SCALE))
    describe(
        p.QuantileTransformer,
        _transformer(
            n_quantiles_=size("q", 1),
            references_=array("q", least=0, most=1, ascending=True),
            quantiles_=array("q d", ascending=True),
        ),
    )
    describe(
        p.PowerTransformer,
        _transformer(
            _optional=("_scaler",),
            lambdas_=array("d", least=-_LARGEST_POWER, most=_LARGEST_POWER),
            _scaler=nested(p.StandardScaler, d="d"),
        ),
    )
    describe(p.FunctionTransformer, _transformer(_check_function, ("n_features_in_",)))
    whole = number(0, whole=True)
    describe(
        p.PolynomialFeatures,
        _transformer(
            _check_polynomial,
            _min_degree=whole,
            _max_degree=whole,
            n_output_features_=whole,
            _n_out_full=whole,
        ),
    )
    describe(p.LabelEncoder, State(classes_=labels("c")))
    _describe_encoders()
    _describe_selections()


def _describe_encoders() -> None:
    p = preprocessing
    rare = tuple(_RARE)
    one_hot: dict[str, Check] = {
        "_n_features_outs": list_of(number(0, whole=True), "d"),
        "_drop_idx_after_grouping": _DROPPED,
        "drop_idx_": _DROPPED,
    }
    describe(p.OneHotEncoder, _transformer(_check_one_hot, rare, **_ENCODER, **_RARE, **one_hot))
    describe(
        p.OrdinalEncoder,
        _transformer(_check_ordinal, rare, **_ENCODER, **_RARE, _missing_indices=_places),
    )
    describe(
        p.KBinsDiscretizer,
        _transformer(
            _check_bins,
            ("_encoder",),
            n_bins_=array("d", "i", least=1, most=2**20),
            bin_edges_=_objects_of(array("*", ascending=True), "d"),
            _encoder=nested(p.OneHotEncoder, d="d"),
        ),
    )


def _describe_selections() -> None:
    indicator = State(
        _check_indicator,
        ("n_features_in_", *_NAMED),
        **_IN,
        _n_features=size("d", 1),
        features_=array("f", "i", below="d"),
        _precomputed=flag(),
    )
    describe(impute.MissingIndicator, indicator)
    describe(
        impute.SimpleImputer,
        _transformer(
            _check_imputer,
            statistics_=array("d", "any", finite=False),
            _fit_dtype=dtype_of(*"fiubOUS"),
            _fill_dtype=dtype_of(*"fiubOUS"),
            indicator_=optional(nested(impute.MissingIndicator, d="d")),
        ),
    )
    scores: dict[str, Check] = {
        "scores_": array("d", finite=False),
        "pvalues_": optional(array("d", finite=False)),
    }
    for univariate in (feature_selection.SelectKBest, feature_selection.SelectPercentile):
        describe(univariate, _transformer(**scores))
    describe(feature_selection.VarianceThreshold, _transformer(variances_=array("d", least=0)))
    describe(
        decomposition.TruncatedSVD,
        _transformer(
            components_=array("k d"),
            explained_variance_=array("k"),
            explained_variance_ratio_=array("k"),
            singular_values_=array("k", least=0),
        ),
    )
    describe(covariance.EmpiricalCovariance, _transformer(**_COVARIANCE))
    describe(covariance.ShrunkCovariance, _transformer(**_COVARIANCE))
    for shrunk in (covariance.LedoitWolf, covariance.OAS):
        describe(shrunk, _transformer(**_COVARIANCE, shrinkage_=number(0, 1)))
