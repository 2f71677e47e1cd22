"""Plan before you run: what a fit would hold, move and read, without doing it.

The figures are those by which the fit itself chooses its route and refuses: plan_local.py and
plan_metrics.py have an entry for each method, plan_cluster.py one for each that is fitted on Dask.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from unicodedata import east_asian_width

from nearfold.blocks import get_memory, require_memory
from nearfold.errors import InputError
from nearfold.messages import Message, Verbatim
from nearfold.registry import method_of
from nearfold.run import thread_count
from nearfold.study.plain import AsJson, plain
from nearfold.study.plan_cluster import CLUSTER
from nearfold.study.plan_facts import CLUSTER as ON_CLUSTER
from nearfold.study.plan_facts import FILE, Facts, Need, Size, look_at
from nearfold.study.plan_local import LOCAL, STREAMED
from nearfold.study.plan_metrics import METRICS

# Measured peaks stay within MARGIN times `peak_bytes`, as tests/memory allows, and SLACK: what
# threads, the allocator and small arrays take in any fit.
MARGIN, SLACK = 1.2, 16 * 1024**2


@dataclass(frozen=True)
class Plan(AsJson):
    """What a fit would take.

    Attributes
    ----------
    estimator : str
        The name of the estimator's class.
    facts : Facts
        What is known of the table: place, rows, columns, dtype, blocks.
    need : Need
        The route and its bytes.
    budget : int
        The memory budget in bytes.
    threads : int
        Tasks at once in this process; 0 on a cluster, where workers run them.
    """

    estimator: str
    facts: Facts
    need: Need
    budget: int
    threads: int

    @property
    def here_bytes(self) -> float:
        """Bytes that this process holds; NaN where only reading the table would tell."""
        return self.need.here if self.need.known else math.nan

    @property
    def task_bytes(self) -> float:
        """Bytes that a task holds: of a thread of this process or, with Dask, of a worker."""
        return self.need.task if self.need.known else math.nan

    @property
    def moved_bytes(self) -> float:
        """Bytes that come from the workers to this process; 0 without a cluster."""
        return self.need.moved if self.need.known else math.nan

    @property
    def peak_bytes(self) -> float:
        """The peak of this process above the table: what it holds, and a task on each thread."""
        at_once = min(self.threads, self.facts.blocks) if self.threads else 0
        at_once = self.threads if math.isnan(at_once) else at_once
        return self.here_bytes + at_once * self.task_bytes

    def lines(self) -> list[tuple[Message, Any]]:
        """What is said of it, in two columns."""
        f, need = self.facts, self.need
        said: list[tuple[Message, Any]] = [(Message("plan.head.route"), need.route)]
        blocks: Any = Message("plan.unknown")
        if not math.isnan(f.blocks):
            blocks = Verbatim(f"{f.blocks:,.0f}")
            if not math.isnan(f.block_rows):
                blocks = Message("plan.blocks", n=int(f.blocks), rows=int(f.block_rows))
        said.append((Message("plan.head.blocks"), blocks))
        if need.known:
            said += [
                (Message("plan.head.task"), Size(self.task_bytes)),
                (Message("plan.head.here"), Size(self.here_bytes)),
                (Message("plan.head.moved"), Size(self.moved_bytes)),
                (Message("plan.head.passes"), _passes(need.passes)),
            ]
        return [*said, (Message("plan.head.budget"), Size(self.budget))]

    def text(self, language: str = "en") -> str:
        """The plan as a small table."""
        f = self.facts
        rows: Any = f"{f.n:,}" if f.counted else Message("plan.unknown")
        title = Message(
            f"plan.title.{f.place}", name=self.estimator, rows=rows, columns=f.d, dtype=str(f.dtype)
        )
        shown = [(head.text(language), value.text(language)) for head, value in self.lines()]
        width = max(_width(head) for head, _ in shown)
        lines = [f"  {head}{' ' * (width - _width(head))}  {value}" for head, value in shown]
        notes = [f"  {note.text(language)}" for note in (*f.notes, *self.need.notes)]
        if self.here_bytes > self.budget:
            notes.append("  " + Message("plan.note.beyond").text(language))
        return "\n".join([title.text(language), *lines, *notes])

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON; what is not known is None, words are in both languages."""
        f, need = self.facts, self.need
        found: dict[str, Any] = plain(
            {
                "estimator": self.estimator,
                "place": f.place,
                "rows": f.n if f.counted else None,
                "columns": f.d,
                "dtype": str(f.dtype),
                "blocks": f.blocks,
                "rows_of_block": f.block_rows,
                "route": need.route,
                "estimated": need.known,
                "bytes_per_task": self.task_bytes,
                "bytes_here": self.here_bytes,
                "bytes_moved": self.moved_bytes,
                "peak_bytes": self.peak_bytes,
                "passes": list(need.passes) if need.known else None,
                "budget": self.budget,
                "notes": [*f.notes, *need.notes],
            }
        )
        return found


def plan(estimator: Any, X: Any, y: Any = None, *, count: bool = False) -> Plan:
    """What fitting an estimator would take: blocks, bytes, passes; nothing is fitted.

    Parameters
    ----------
    estimator : estimator
        One of Nearfold's, with its parameters.
    X : array, frame, path, pattern of paths, `Rows`, LazyFrame, or Dask array or frame
        The table. Of a Dask table nothing is computed.
    y : array, Dask array or series, name of a column of X, or None
        What belongs to the rows; some estimates need the sizes of its classes.
    count : bool, default=False
        Count the rows of a Dask table whose chunk sizes are not known, in one pass, as the fit
        would do first. Without it what depends on them is unknown, and that is said.

    Returns
    -------
    Plan
        Prints as a small table; `to_dict()` has the figures. `here_bytes` is what this process
        would hold above the table, `task_bytes` what each task holds, in a worker if there is a
        cluster, `moved_bytes` what comes from workers. The measured peak stays within 1.2 times
        `peak_bytes` and 16 MB (what compiling takes, some 90 MB in a first call, excepted).

    Raises
    ------
    MemoryBudgetError
        If the fit would refuse, because this process's share exceeds the memory budget.
    InputError
        If the fit does not take such a table, or the estimator is not one of Nearfold's.

    Examples
    --------
    >>> import numpy as np
    >>> import nearfold
    >>> X = np.zeros((100_000, 50), dtype=np.float32)
    >>> print(nearfold.plan(nearfold.PCA(n_components=2), X).need.route)
    scatter of blocks of rows, joined pairwise
    """
    name = type(estimator).__name__
    method = method_of(estimator)
    if method is None:
        raise InputError(Message("plan.foreign", name=name))
    f = look_at(X, y, count)
    need = _need(method.name, estimator, f)
    if need.checked > get_memory():
        what = Message("plan.fit_of", name=name, rows=f.n if f.counted else 0, columns=f.d)
        advice = "cluster" if f.place == ON_CLUSTER else "here"
        require_memory(need.checked, what, Message(f"plan.advice.{advice}"))
    threads = 0 if f.place == ON_CLUSTER else thread_count(getattr(estimator, "n_jobs", None))
    return Plan(name, f, need, get_memory(), threads)


def _need(name: str, estimator: Any, f: Facts) -> Need:
    if f.place == ON_CLUSTER:
        if name not in CLUSTER:
            raise InputError(Message("cluster.not_fitted", name=name))
        found: Need = CLUSTER[name](estimator, f)
        return found
    if f.place == FILE and name not in STREAMED:
        raise InputError(Message("plan.in_memory", name=name))
    entry = (LOCAL | METRICS).get(name)
    if entry is None:
        return Need(Message("plan.route.none"), known=False)
    found = entry(estimator, f)
    return found


def _passes(passes: tuple[float, float]) -> Message:
    if math.isinf(passes[0]):
        return Message("plan.passes.many")
    low, high = (f"{count:.0f}" for count in passes)
    return Verbatim(low) if low == high else Message("plan.passes.range", low=low, high=high)


def _width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)
