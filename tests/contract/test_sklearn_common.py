"""What scikit-learn's own suite asks of its estimators beyond `check_estimator`."""

import pytest
from sklearn.utils import estimator_checks

from nearfold.registry import instances_to_check

OF_ALL = ["check_param_validation", "check_inplace_ensure_writeable"]
OF_TRANSFORMERS = [
    "check_get_feature_names_out_error",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
]


@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names:UserWarning")
@pytest.mark.parametrize("estimator", instances_to_check(), ids=lambda e: type(e).__name__)
def test_scikit_learn_common_checks(estimator):
    for name in OF_ALL + (OF_TRANSFORMERS if hasattr(estimator, "transform") else []):
        getattr(estimator_checks, name)(type(estimator).__name__, estimator)
