"""What a fitted object holds, described once.

A class says so in a public class attribute:

    class PCA:
        fitted_state = State(
            n_features_in_=size("d"),
            components_=array("k d"),
            explained_variance_=array("k", least=0),
            mean_=array("d"),
            ...
        )

The letters of a shape are sizes. The first field that mentions one fixes it, and all others must
agree; "n+1" is one more than n, a number stands for itself and "*" for any size. Model files
check a state against this description when they write it and before anything is built from it
(store/), and the tests check that every estimator keeps to its own.

Constructor parameters are not part of it: `_parameter_constraints` describes those. What relates
parameters and fields is checked by `_also`, which is given both.
"""

from nearfold.state.checks import (
    any_of,
    array,
    dict_of,
    fitted,
    flag,
    labels,
    list_of,
    matrix,
    names,
    nested,
    number,
    optional,
    size,
    text,
)
from nearfold.state.description import (
    Check,
    Sizes,
    State,
    StateError,
    bind,
    check_object,
    comparing,
    describe,
    fields_of,
    is_whole,
    params_of,
    require,
    state_of,
)

__all__ = [
    "Check",
    "Sizes",
    "State",
    "StateError",
    "any_of",
    "array",
    "bind",
    "check_object",
    "comparing",
    "describe",
    "dict_of",
    "fields_of",
    "fitted",
    "flag",
    "is_whole",
    "labels",
    "list_of",
    "matrix",
    "names",
    "nested",
    "number",
    "optional",
    "params_of",
    "require",
    "size",
    "state_of",
    "text",
]
