"""What scikit-learn's encoders of categories hold when fitted, for model files (nearfold.state)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import preprocessing

from nearfold.state import (
    Check,
    Sizes,
    State,
    array,
    flag,
    is_whole,
    list_of,
    names,
    nested,
    number,
    optional,
    require,
    size,
)

INPUTS: dict[str, Check] = {"n_features_in_": size("d", 1), "feature_names_in_": names("d")}
OPTIONAL_INPUTS = ("feature_names_in_",)


def transformer(_also: Any = None, _optional: tuple[str, ...] = (), /, **fields: Check) -> State:
    """The state of a transformer: what it was given, and these fields."""
    return State(_also, (*OPTIONAL_INPUTS, *_optional), **INPUTS, **fields)


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


_ENCODER: dict[str, Check] = {
    "categories_": list_of(_categories, "d"),
    "_infrequent_enabled": flag(),
}


_RARE_FIELDS = tuple(_RARE)
_p = preprocessing
ENCODERS: dict[type[Any], State] = {
    _p.OneHotEncoder: transformer(
        _check_one_hot,
        _RARE_FIELDS,
        **_ENCODER,
        **_RARE,
        _n_features_outs=list_of(number(0, whole=True), "d"),
        _drop_idx_after_grouping=_DROPPED,
        drop_idx_=_DROPPED,
    ),
    _p.OrdinalEncoder: transformer(
        _check_ordinal, _RARE_FIELDS, **_ENCODER, **_RARE, _missing_indices=_places
    ),
    _p.KBinsDiscretizer: transformer(
        _check_bins,
        ("_encoder",),
        n_bins_=array("d", "i", least=1, most=2**20),
        bin_edges_=_objects_of(array("*", ascending=True), "d"),
        _encoder=nested(_p.OneHotEncoder, d="d"),
    ),
}
