"""Tables that lie, or that take more than they seem to: read or refused within the budget."""

from contextlib import suppress

import pytest
from tests.memory.hostile_tables import TABLES
from tests.memory.measure import LIMIT, can_measure, measure

import nearfold
from nearfold.errors import NearfoldError
from nearfold.store.tables import read_table

BUDGET = 64 * 2**20


@pytest.mark.skipif(not can_measure(), reason="the peak of memory can be reset on Linux only")
@pytest.mark.parametrize("share", [0.1, 0.25, 0.8])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_or_refused_within_the_budget(name, share, tmp_path):
    def read(path):
        with suppress(NearfoldError):  # refused: the peak counts all the same
            read_table(path)

    warm = tmp_path / "warm"
    warm.write_bytes(TABLES[name](100_000))
    read(warm)  # the parser takes some 30 MB when it is first used
    path = tmp_path / "table"
    path.write_bytes(TABLES[name](int(share * BUDGET)))
    nearfold.set_memory(BUDGET)
    try:
        measured = measure(lambda: path, read)
    finally:
        nearfold.set_memory(None)
    assert measured.ratio <= LIMIT
