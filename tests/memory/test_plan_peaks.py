"""What was planned is enough: measured peaks of fits stay within the margin that is promised."""

import pytest
from tests.memory.cases import SHAPES, Case, build, make_table, target_of
from tests.memory.harness import run_child
from tests.memory.measure import can_measure

import nearfold
from nearfold.study.plan import MARGIN, SLACK

BUDGET = "256MB"
METHODS = (
    "PCA", "IncrementalPCA", "LinearDiscriminantAnalysis", "Covariance", "RCA",
    "KNeighborsClassifier", "ClassicalMDS", "MDS", "Isomap", "LocallyLinearEmbedding",
    "KernelPCA", "NeighborhoodComponentsAnalysis", "LMNN", "MLKR", "LFDA", "ITML_Supervised",
)  # fmt: skip
WIDE = ("PCA", "IncrementalPCA", "LinearDiscriminantAnalysis", "Covariance", "ClassicalMDS")
CASES = [Case(name, "fit", "fast") for name in METHODS]
CASES += [Case(name, "fit", "fast-wide") for name in WIDE]
CASES += [Case("Isomap", "fit", "fast-manhattan"), Case("ClassicalMDS", "fit", "fast-manhattan")]


@pytest.fixture(scope="module")
def peaks():
    """Bytes at the peak of each fit, from one process: the peak is reset between them."""
    if not can_measure():
        pytest.skip("the peak of memory can be reset on Linux only")
    budget = nearfold.blocks.memory.parse_bytes(BUDGET)
    return {
        (r["estimator"], r["shape"]): (r["outcome"], r["ratio"] * budget)
        for r in run_child(CASES, BUDGET, seconds=600)
    }


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_peak_of_a_fit_is_within_its_plan(case, peaks):
    X, y = make_table(SHAPES[case.shape])
    nearfold.set_memory(BUDGET)
    try:
        model = build(case, 1.0)
        planned = nearfold.plan(model, X, target_of(model, case, X, y))
    finally:
        nearfold.set_memory(None)
    outcome, peak = peaks[case.estimator, case.shape]
    assert outcome == "done"
    assert peak <= MARGIN * planned.peak_bytes + SLACK, (peak, planned.peak_bytes)
