"""Every method of the registry passes every check scikit-learn has for its kind."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearfold.registry import instances_to_check

# The one public list of checks that are expected to fail, with reasons. It is empty.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:One or more samples have no neighbors:UserWarning")
@pytest.mark.filterwarnings("ignore::nearfold.errors.NearfoldWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(
    instances_to_check(),
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator).__name__, {}),
)
def test_scikit_learn_check(estimator, check):
    check(estimator)
