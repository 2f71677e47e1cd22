"""What scikit-learn's preprocessors hold when fitted, for model files (nearfold.state).

Read off scikit-learn 1.9. A version that holds something else is refused when saving, by the name
of the field. What puts transformers together (Pipeline, ColumnTransformer, ...) is described in
sklearn_composites.py.
"""

from __future__ import annotations

from math import comb
from numbers import Real
from typing import Any

import numpy as np
from sklearn import covariance, decomposition, feature_selection, impute, preprocessing

from nearfold.state import (
    Check,
    Sizes,
    State,
    any_of,
    array,
    flag,
    is_whole,
    labels,
    nested,
    number,
    optional,
    require,
    size,
)
from nearfold.store.sklearn_encoders import ENCODERS, INPUTS, OPTIONAL_INPUTS, transformer

_TINY = 1e-165  # a standard deviation whose square is not zero
_LARGEST = 1e154  # whose square is a number
_LARGEST_POWER = 200.0  # of PowerTransformer: 30 to the 200th is a number


def dtype_of(*kinds: str) -> Check:
    """A dtype of one of these kinds."""

    def check(value: Any, sizes: Sizes) -> None:
        require(isinstance(value, np.dtype) and value.kind in kinds, "not a dtype it may be")

    return check


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
    of_numbers = values["_fit_dtype"].kind in "fiub"
    require(of_numbers == (values["_fill_dtype"].kind in "fiub"), "dtypes that do not agree")
    require(of_numbers or statistics.dtype.kind not in "fiub", "another dtype than its statistics")
    real = isinstance(values["missing_values"], Real)
    require(real or not of_numbers, "missing_values: none of the numbers")
    require(of_numbers or values["strategy"] in ("most_frequent", "constant"), "strategy")
    kinds = (int, float) if of_numbers else (str, bytes, int, float, type(None))
    items = statistics.tolist()
    require(all(isinstance(item, kinds) for item in items), "odd statistics")
    known = [item for item in items if of_numbers and item == item]
    require(all(abs(item) < _LARGEST for item in known), "statistics too large")
    indicator = values["indicator_"]
    require((indicator is not None) == bool(values["add_indicator"]), "an indicator not asked for")
    if indicator is not None:
        same = repr(indicator.missing_values) == repr(values["missing_values"])
        require(bool(vars(indicator)["_precomputed"]) and same, "another indicator")
        require(indicator.sparse == "auto", "an indicator of another form than the rows")


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
            require(not values[parameter] or values.get(field) is not None, f"{field} is missing")

    return check


def _check_threshold(values: dict[str, Any], sizes: Sizes) -> None:
    require(np.isfinite(values["threshold"]), "threshold: not finite")


def _check_function(values: dict[str, Any], sizes: Sizes) -> None:
    for name in ("kw_args", "inv_kw_args"):
        require(not values[name], f"{name}: arguments of functions are not saved")
    kinds = (type(None), str)
    require(isinstance(values["feature_names_out"], kinds), "feature_names_out: not saved")


_SCALE = optional(array("d", above=_TINY))
_SEEN = any_of(number(1), array("d", "number", least=0))
_ROW = array("d", half=True)
_COVARIANCE: dict[str, Check] = {
    "location_": _ROW,
    "covariance_": array("d d", symmetric=True),
    "precision_": optional(array("d d", symmetric=True)),
}


_WHOLE = number(0, whole=True)
_SCORES: dict[str, Check] = {
    "scores_": array("d", finite=False),
    "pvalues_": optional(array("d", finite=False)),
}
_p = preprocessing
PREPROCESSORS: dict[type[Any], State] = {
    **ENCODERS,
    _p.Normalizer: transformer(),
    _p.Binarizer: transformer(_check_threshold),
    _p.StandardScaler: transformer(
        _needs(with_mean="mean_", with_std="scale_"),
        n_samples_seen_=_SEEN,
        mean_=optional(_ROW),
        var_=optional(array("d", least=0)),
        scale_=_SCALE,
    ),
    _p.MinMaxScaler: transformer(
        _check_range,
        n_samples_seen_=number(1),
        scale_=array("d", above=_TINY, half=True),
        min_=_ROW,
        data_min_=_ROW,
        data_max_=_ROW,
        data_range_=array("d", least=0, half=True),
    ),
    _p.MaxAbsScaler: transformer(
        n_samples_seen_=number(1),
        max_abs_=array("d", least=0, half=True),
        scale_=array("d", above=_TINY, half=True),
    ),
    _p.RobustScaler: transformer(
        _needs(with_centering="center_", with_scaling="scale_"),
        center_=optional(_ROW),
        scale_=_SCALE,
    ),
    _p.QuantileTransformer: transformer(
        n_quantiles_=size("q", 1),
        references_=array("q", least=0, most=1, ascending=True),
        quantiles_=array("q d", ascending=True),
    ),
    _p.PowerTransformer: transformer(
        _needs(standardize="_scaler"),
        ("_scaler",),
        lambdas_=array("d", least=-_LARGEST_POWER, most=_LARGEST_POWER),
        _scaler=nested(_p.StandardScaler, d="d"),
    ),
    _p.FunctionTransformer: transformer(_check_function),
    _p.PolynomialFeatures: transformer(
        _check_polynomial,
        _min_degree=_WHOLE,
        _max_degree=_WHOLE,
        n_output_features_=_WHOLE,
        _n_out_full=_WHOLE,
    ),
    _p.LabelEncoder: State(classes_=labels("c")),
    impute.MissingIndicator: State(
        _check_indicator,
        OPTIONAL_INPUTS,
        **INPUTS,
        _n_features=size("d", 1),
        features_=array("f", "i", below="d"),
        _precomputed=flag(),
    ),
    impute.SimpleImputer: transformer(
        _check_imputer,
        statistics_=array("d", "any", finite=False),
        _fit_dtype=dtype_of(*"fiubOUS"),
        _fill_dtype=dtype_of(*"fiubOUS"),
        indicator_=optional(nested(impute.MissingIndicator, d="d")),
    ),
    feature_selection.SelectKBest: transformer(**_SCORES),
    feature_selection.SelectPercentile: transformer(**_SCORES),
    feature_selection.VarianceThreshold: transformer(variances_=array("d", least=0)),
    decomposition.TruncatedSVD: transformer(
        components_=array("k d"),
        explained_variance_=array("k"),
        explained_variance_ratio_=array("k"),
        singular_values_=array("k", least=0),
    ),
    covariance.EmpiricalCovariance: transformer(**_COVARIANCE),
    covariance.ShrunkCovariance: transformer(**_COVARIANCE),
    covariance.LedoitWolf: transformer(**_COVARIANCE, shrinkage_=number(0, 1)),
    covariance.OAS: transformer(**_COVARIANCE, shrinkage_=number(0, 1)),
}
