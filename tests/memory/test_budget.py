"""Every estimator keeps to the memory budget, or refuses before it works: the fast cases.

`make memory` runs all of them, on tables of up to 200,000 x 200 and 20,000 x 2,000.
"""

import pytest
from tests.memory.cases import FAST, all_cases
from tests.memory.harness import run_child
from tests.memory.measure import LIMIT, can_measure

from nearfold.registry import METHODS

BUDGET = "64MB"
# Cases beyond the limit that are known, with the largest ratio seen. This list must only shrink.
KNOWN: dict[str, float] = {}
_WIDE = ("PCA", "LinearDiscriminantAnalysis", "Covariance")
_SEARCH = ("KNeighborsClassifier", "RadiusNeighborsClassifier")


def _cases():
    """Every estimator on a small table; other shapes where they are quick or tell most."""
    for case in all_cases(FAST):
        everywhere = case.shape == "fast" and case.action in ("fit", "transform", "predict_proba")
        wide = case.shape == "fast-wide" and case.estimator in _WIDE and case.action == "fit"
        other = case.shape not in ("fast", "fast-wide") and case.action == "predict_proba"
        if everywhere or wide or (other and case.estimator in _SEARCH):
            yield case


@pytest.fixture(scope="module")
def measured():
    """The results of all fast cases, from one process: the peak is reset between them."""
    if not can_measure():
        pytest.skip("the peak of memory can be reset on Linux only")
    return run_child(list(_cases()), BUDGET, seconds=600)


@pytest.mark.parametrize("name", [method.name for method in METHODS])
def test_the_budget_is_kept(measured, name):
    results = [r for r in measured if r["estimator"] == name]
    assert results
    for result in results:
        case = f"{name}.{result['action']} {result['shape']}"
        assert result["outcome"] in ("done", "refused", "no fit"), (case, result["note"])
        assert result["ratio"] <= KNOWN.get(case, LIMIT), case
