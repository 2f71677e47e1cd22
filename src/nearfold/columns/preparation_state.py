"""What a fitted `TablePreparation` holds, for model files (nearfold.state).

A table may have tens of thousands of columns, most of them plain numbers. So specifications are
held as an array of names, an array of kinds, and the details of those few that have any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nearfold.columns.kinds import Kind
from nearfold.columns.scaling import SMALLEST
from nearfold.columns.specs import Spec, column_names, find_fault_among, source_names
from nearfold.notation import Array
from nearfold.state import (
    Sizes,
    State,
    array,
    dict_of,
    list_of,
    names,
    require,
    size,
    text,
)


def split_specs(specs: Sequence[Spec]) -> tuple[Array, Array, dict[str, dict[str, Any]]]:
    """Specifications as names, kinds and details by name."""
    plain = ("name", "kind")
    details = {s["name"]: {key: s[key] for key in s if key not in plain} for s in specs}
    return (
        np.asarray([spec["name"] for spec in specs], dtype=object),
        np.asarray([str(spec["kind"]) for spec in specs], dtype=object),
        {name: held for name, held in details.items() if held},
    )


def join_specs(names: Array, kinds: Array, details: dict[str, dict[str, Any]]) -> list[Spec]:
    """The specifications that `split_specs` took apart."""
    pairs = zip(names.tolist(), kinds.tolist(), strict=True)
    return [{"name": name, "kind": kind, **details.get(name, {})} for name, kind in pairs]


def _check_specs(values: dict[str, Any], sizes: Sizes) -> None:
    """That features, categories and numbers fit each other."""
    most = np.finfo(values["dtype_"]).max
    require(np.abs(values["fill_"]).max(initial=0.0) <= most, "fills that overflow the dtype")
    require(set(values["details_"]) <= set(values["names_"].tolist()), "details of no feature")
    specs = join_specs(values["names_"], values["kinds_"], values["details_"])
    fault = find_fault_among(specs)
    require(fault is None, f"a feature that is not specified: {fault and fault[1]}")
    coded = sum(spec["kind"] == Kind.CATEGORY for spec in specs)
    levels, tables = values["levels_"], values["tables_"]
    require(coded == len(levels) == len(tables), "categories without levels")
    for known, table in zip(levels, tables, strict=True):
        require(len(set(known.tolist())) == len(known), "a level that occurs twice")
        require(len(table) == len(known) + 2, "an encoding that does not fit its levels")
        require(table.shape[1] > 0, "an encoding without columns")
    found = values.get("feature_names_in_")
    require((found is None) == (not specs), "names without features, or features without names")
    if found is None:
        require(sizes["d"] == sizes["p"], "numbers that do not fit the columns")
        return
    sources = [name for spec in specs for name in source_names(spec)]
    require(found.tolist() == sources, "names that do not fit the features")
    widths = (len(column_names(spec)) for spec in specs if spec["kind"] != Kind.CATEGORY)
    require(sum(widths) == sizes["p"], "numbers that do not fit the columns")


def _details(value: Any, sizes: Sizes) -> None:
    require(type(value) is dict, "not a dict")
    width = value.get("width", 0)
    # Before names of that number are made.
    require(type(width) is int and width <= sizes["p"], "a width that is not that of the numbers")


STATE = State(
    _check_specs,
    ("feature_names_in_",),
    n_features_in_=size("d", 1),
    feature_names_in_=names("d"),
    fill_=array("p", large=True),
    centre_=array("p", large=True),
    scale_=array("p", above=SMALLEST),
    names_=names("k"),
    kinds_=names("k"),
    details_=dict_of(_details),
    levels_=list_of(names("*")),
    tables_=list_of(array("* *")),
    dtype_=text("float32", "float64"),
)
