"""All jobs that are timed against a peer in this process, in the order of the table."""

from __future__ import annotations

from collections.abc import Iterator

from bench import sets
from bench.first_call import import_job
from bench.linear import linear_jobs
from bench.manifolds import manifold_jobs
from bench.measure import Job
from bench.nca import nca_job
from bench.neighbors import neighbor_jobs
from bench.study import trust_job


def jobs(path: str | None) -> Iterator[Job]:
    """One at a time, so that each frees its data before the next."""
    full = path is not None
    n = 70_000 if full else 10_000
    data = sets.load(path)
    further = [sets.clusters(n), sets.smooth(n), sets.isotropic(n)]
    yield from neighbor_jobs([data, *further], full)
    yield from linear_jobs([data, *further[:2]], full)
    yield import_job()
    yield from manifold_jobs(data.all_rows, full)
    rows = 5000 if full else 1500
    yield nca_job(data, rows, 255.0 if full else 16.0, True, full)
    yield nca_job(data, rows, 255.0 if full else 16.0, False, full)
    yield nca_job(further[0], rows, 1.0, False, full)
    for table in (data, further[0]):
        yield trust_job(table.all_rows[:rows], table.name, full)
