"""What scikit-learn's compositions of estimators hold, for model files (nearfold.state).

A pipeline is more than its steps: what one gives the next must take. So each part is checked with
the number of columns that reach it, and the number it gives is worked out from its checked state.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from sklearn import compose, feature_selection, impute, pipeline, preprocessing
from sklearn.utils import get_tags

from nearfold.state import (
    Sizes,
    State,
    array,
    check_object,
    describe,
    dict_of,
    flag,
    is_whole,
    list_of,
    names,
    number,
    optional,
    require,
    size,
    text,
)
from nearfold.store.sklearn_columns import chosen_columns
from nearfold.store.sklearn_states import PREPROCESSORS

_SELECTORS = (
    feature_selection.SelectKBest,
    feature_selection.SelectPercentile,
    feature_selection.VarianceThreshold,
)
_CODES = (
    preprocessing.KBinsDiscretizer,
    preprocessing.OneHotEncoder,
    preprocessing.OrdinalEncoder,
)
_WORDS = ("drop", "passthrough")


def _anything(value: Any, sizes: Sizes) -> None:
    """For what the check of the whole object looks at."""


def check_part(value: Any, sizes: Sizes, *methods: str) -> None:
    """A fitted estimator that has these methods and takes sizes["d"] columns, if that is known."""
    for method in ("fit", *methods):
        require(hasattr(type(value), method), f"a {type(value).__name__}, which has no {method}")
    check_object(value, sizes)
    for method in methods:  # a pipeline has those of its steps
        require(hasattr(value, method), f"a {type(value).__name__} without {method}")
    # An imputer's indicator is given a mask; on its own it looks for the missing values itself.
    alone = not vars(value).get("_precomputed", False)
    require(alone, f"a {type(value).__name__} that belongs to an imputer")


def count_outputs(step: Any, d: int | None) -> int | None:
    """How many columns a checked transformer makes of d; None if it does not say."""
    if isinstance(step, str):
        return 0 if step == "drop" else d
    for kinds, count in _OUTPUTS:
        if isinstance(step, kinds):
            return None if d is None else int(count(step, d))
    told = getattr(step, "_n_features_out", None)  # scikit-learn's name for it
    if told is not None and is_whole(told):
        return int(told)
    return d if hasattr(step, "get_feature_names_out") and _is_one_to_one(step) else None


def _is_one_to_one(step: Any) -> bool:
    return isinstance(step, preprocessing.FunctionTransformer) or any(
        "OneToOne" in base.__name__ for base in type(step).__mro__
    )


def _imputed(step: Any, d: int) -> int:
    lacking = sum(item != item for item in step.statistics_.tolist())
    empty = 0 if step.keep_empty_features else lacking
    indicated = 0 if step.indicator_ is None else len(step.indicator_.features_)
    return d - empty + indicated


def _united(step: Any, d: int) -> int:
    counts = [count_outputs(part, d) for _, part in step.transformer_list]
    require(None not in counts, "a part that does not say how many columns it gives")
    return sum(n for n in counts if n is not None)


def _piped(step: Any, d: int) -> int:
    width: int | None = d
    for _, part in step.steps:
        width = count_outputs(part, width)
    require(width is not None, "a step that does not say how many columns it gives")
    return int(width or 0)


_OUTPUTS: tuple[tuple[Any, Any], ...] = (
    (_SELECTORS, lambda step, d: step.get_support().sum()),
    (impute.SimpleImputer, _imputed),
    (impute.MissingIndicator, lambda step, d: len(step.features_)),
    (preprocessing.OneHotEncoder, lambda step, d: sum(vars(step)["_n_features_outs"])),
    (
        preprocessing.KBinsDiscretizer,
        lambda step, d: d if step.encode == "ordinal" else step.n_bins_.sum(),
    ),
    (preprocessing.PolynomialFeatures, lambda step, d: step.n_output_features_),
    (pipeline.FeatureUnion, _united),
    (pipeline.Pipeline, _piped),
    (
        compose.ColumnTransformer,
        lambda step, d: max((part.stop for part in step.output_indices_.values()), default=0),
    ),
)


def _gives_sparse(step: Any) -> bool:
    if isinstance(step, preprocessing.OneHotEncoder):
        return bool(step.sparse_output)
    if isinstance(step, preprocessing.KBinsDiscretizer):
        return bool(step.encode == "onehot")
    if isinstance(step, compose.ColumnTransformer):
        return bool(step.sparse_output_)
    if isinstance(step, impute.MissingIndicator):
        return step.sparse is True
    return isinstance(step, pipeline.FeatureUnion) and any(
        _gives_sparse(part) for _, part in step.transformer_list
    )


def _named_parts(parts: Any, length: int) -> None:
    require(type(parts) is list and len(parts) > 0, "not a list of named parts")
    require(all(type(p) is tuple and len(p) == length for p in parts), "not a list of named parts")
    given = [part[0] for part in parts]
    require(all(isinstance(name, str) and "__" not in name for name in given), "not a name")
    require(len(set(given)) == len(given), "a name that occurs twice")


def check_composition(value: Any) -> None:
    """That the parts of a pipeline, union or column transformer, fitted or not, have names."""
    for kind, parameter, length in _COMPOSITIONS:
        if isinstance(value, kind):
            _named_parts(vars(value).get(parameter), length)


_COMPOSITIONS = (
    (pipeline.Pipeline, "steps", 2),
    (pipeline.FeatureUnion, "transformer_list", 2),
    (compose.ColumnTransformer, "transformers", 3),
)


def _check_pipeline(values: dict[str, Any], sizes: Sizes) -> None:
    width = sizes.get("d")
    is_sparse = False
    last = len(values["steps"]) - 1
    for i, (name, step) in enumerate(values["steps"]):  # one object may be several steps
        if isinstance(step, str):
            require(step == "passthrough", f"step {name}: neither a transformer nor passthrough")
            continue
        child = {} if width is None else {"d": width}
        try:
            check_part(step, child, *(() if i == last else ("transform",)))
            require(not is_sparse or get_tags(step).input_tags.sparse, "takes no sparse matrix")
        except ValueError as error:
            require(False, f"step {name}: {error}")
        if "d" not in sizes and "d" in child and width is None:
            sizes["d"] = child["d"]
        if i != last:
            width, is_sparse = count_outputs(step, child.get("d")), _gives_sparse(step)


def _check_union(values: dict[str, Any], sizes: Sizes) -> None:
    _check_weights(values["transformer_weights"], values["transformer_list"])
    for name, part in values["transformer_list"]:
        if isinstance(part, str):
            require(part in _WORDS, f"{name}: neither a transformer nor drop or passthrough")
            continue
        check_part(part, sizes, "transform")


def _check_weights(weights: Any, parts: Any) -> None:
    if weights is None:
        return
    require(type(weights) is dict, "transformer_weights")
    require(set(weights) <= {part[0] for part in parts}, "a weight of an unknown part")
    for weight in weights.values():
        number()(weight, {})


def _check_columns(values: dict[str, Any], sizes: Sizes) -> None:
    parts, d = values["transformers_"], sizes["d"]
    known = values.get("feature_names_in_")
    _named_parts(parts, 3)
    _check_weights(values["transformer_weights"], values["transformers"])
    asked = [name for name, _, _ in values["transformers"]]
    require([p[0] for p in parts if p[0] != "remainder"] == asked, "other transformers")
    require(len(values["_columns"]) == len(asked), "columns that do not fit the transformers")
    rest = values["_remainder"]
    require(type(rest) is tuple and len(rest) == 3 and rest[0] == "remainder", "_remainder")
    chosen_columns(rest[2], d, known)
    places, outputs = values["_transformer_to_input_indices"], values["output_indices_"]
    require(set(places) == {*asked, "remainder"} == set(outputs), "columns of unknown transformers")
    start = 0
    for name, part, columns in parts:
        rows = chosen_columns(columns, d, known)
        require(type(places[name]) is list and places[name] == rows, f"{name}: other columns")
        width = _check_column_part(name, part, len(rows))
        named = getattr(part, "feature_names_in_", None)
        agree = named is None or (known is not None and list(named) == list(known[rows]))
        require(agree, f"{name}: columns of other names")
        expected = slice(start, start + width) if width else slice(0, 0)
        require(outputs[name] == expected, f"{name}: gives other columns")
        start += width
    held = [part for _, part, _ in parts if not isinstance(part, str)]
    # Sparse columns come from a part that makes them, or from rows that all parts take as they are.
    sparse_parts = any(map(_gives_sparse, held))
    passed_on = all(get_tags(part).input_tags.sparse for part in held)
    require(not values["sparse_output_"] or sparse_parts or passed_on, "sparse_output_: of dense")


def _check_column_part(name: str, part: Any, n_columns: int) -> int:
    """The columns that one transformer gives, after a check of it."""
    if isinstance(part, str):
        require(part in _WORDS, f"{name}: neither a transformer nor drop or passthrough")
    elif n_columns:
        check_part(part, {"d": n_columns}, "transform")
    width = count_outputs(part, n_columns) if n_columns else 0
    require(width is not None, f"{name}: does not say how many columns it gives")
    return int(width or 0)


def _check_target(values: dict[str, Any], sizes: Sizes) -> None:
    check_part(values["regressor_"], sizes, "predict")
    one = {"d": 1} if values["_training_dim"] == 1 else {}
    check_part(values["transformer_"], one, "transform", "inverse_transform")
    own = values["regressor_"]
    require(get_tags(own).estimator_type == "regressor", "regressor_: predicts no numbers")
    width = getattr(values["transformer_"], "n_features_in_", None)
    counts = {count_outputs(values["transformer_"], width), _count_targets(own)}
    require(len(counts - {None}) <= 1, "transformer_: of other targets than the regressor's")
    _check_way_back(values["transformer_"], _targets(own))


def _targets(regressor: Any) -> Any:
    """What a checked regressor predicts from, which bounds its predictions; None if not kept."""
    while hasattr(regressor, "steps") or hasattr(regressor, "regressor_"):
        regressor = regressor.steps[-1][1] if hasattr(regressor, "steps") else regressor.regressor_
    return vars(regressor).get("_y")


def _count_targets(regressor: Any) -> int | None:
    """How many columns a checked regressor predicts; None if it does not say."""
    y = _targets(regressor)
    return None if y is None else int(np.prod(y.shape[1:]))


def _check_way_back(transformer: Any, y: Any) -> None:
    """Predictions lie between the smallest and the largest target, and are numbers afterwards."""
    steps = transformer.steps if isinstance(transformer, pipeline.Pipeline) else [("", transformer)]
    require(not any(isinstance(step, _CODES) for _, step in steps), "transformer_: gives codes")
    function = getattr(transformer, "inverse_func", None)
    if function is not None and y is not None:
        with np.errstate(all="ignore"):
            ends = function(np.array([y.min(), y.max()], dtype=np.float64))
        require(bool(np.isfinite(ends).all()), "transformer_: targets that overflow")


_COMPOSITES: dict[type[Any], State] = {
    pipeline.Pipeline: State(_check_pipeline),
    pipeline.FeatureUnion: State(
        _check_union,
        ("_transformers_feature_names_out",),
        _transformers_feature_names_out=list_of(names("*")),
    ),
    compose.ColumnTransformer: State(
        _check_columns,
        ("feature_names_in_", "_transformers_feature_names_out"),
        n_features_in_=size("d", 1),
        feature_names_in_=names("d"),
        sparse_output_=flag(),
        transformers_=list_of(_anything),
        output_indices_=dict_of(_anything),
        _columns=list_of(_anything),
        _remainder=_anything,
        _transformer_to_input_indices=dict_of(_anything),
        _transformers_feature_names_out=array("w", "any"),
    ),
    compose.make_column_selector: State(
        pattern=optional(text()), dtype_include=_anything, dtype_exclude=_anything
    ),
    compose.TransformedTargetRegressor: State(
        _check_target,
        ("feature_names_in_",),
        feature_names_in_=names("d"),
        regressor_=_anything,
        transformer_=_anything,
        _training_dim=number(1, 2, whole=True),
    ),
}


@lru_cache(maxsize=1)
def describe_sklearn() -> None:
    """Make the descriptions of scikit-learn's classes known to nearfold.state."""
    for cls, state in (PREPROCESSORS | _COMPOSITES).items():
        describe(cls, state)
