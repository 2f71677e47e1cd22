"""How work is run: order, threads, progress, cancel."""

import io
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from rich.console import Console
from threadpoolctl import threadpool_info, threadpool_limits

from nearfold import PCA, run, set_memory
from nearfold.errors import Cancelled, InputError
from nearfold.run import (
    PerThread,
    ProgressBar,
    map_in_order,
    one_blas_thread,
    progress,
    reporting,
    thread_count,
)

every_pool = pytest.mark.parametrize("n_jobs", [1, 2, 3])


def blas_counts():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture
def left_running():
    """Names of the pool's threads that this test has started and that still live."""
    before = set(threading.enumerate())
    return lambda: [t.name for t in set(threading.enumerate()) - before]


@every_pool
def test_results_come_in_order(n_jobs):
    def task(i):
        time.sleep(0.01 * (i % 3 == 0))  # some are overtaken
        return i * i

    assert list(map_in_order(task, range(20), n_jobs=n_jobs)) == [i * i for i in range(20)]
    assert list(map_in_order(task, [], n_jobs=n_jobs)) == []


@every_pool
def test_threads_do_not_change_sums(n_jobs):
    X = np.random.default_rng(0).standard_normal((4000, 7))
    blocks = [X[a : a + 100] for a in range(0, 4000, 100)]
    total = sum(map_in_order(lambda b: b.T @ b, blocks, n_jobs=n_jobs))
    alone = sum(map_in_order(lambda b: b.T @ b, blocks, n_jobs=1))
    np.testing.assert_array_equal(total, alone)


@every_pool
def test_a_stream_is_not_read_far_ahead(n_jobs):
    taken = 0

    def stream():
        nonlocal taken
        for i in range(100):
            taken += 1
            yield i

    for done, _ in enumerate(map_in_order(str, stream(), n_jobs=n_jobs), start=1):
        assert taken <= done + 2 * n_jobs
    assert taken == 100


def test_tasks_run_side_by_side():
    meet = threading.Barrier(2)
    # Each waits for the other: one thread alone would break the barrier.
    assert len(list(map_in_order(lambda _: meet.wait(30), range(2), n_jobs=2))) == 2


@every_pool
@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_in_a_task_stops_the_work(left_running, n_jobs, error):
    started = []

    def task(i):
        started.append(i)
        if i == 3:
            raise error("here")

    with pytest.raises(error, match="here"):
        list(map_in_order(task, range(1000), n_jobs=n_jobs))
    assert max(started) <= 3 + 2 * n_jobs
    assert left_running() == []


def test_what_has_not_begun_is_dropped():
    """Of four tasks on two threads the first fails, two are under way, the last never starts."""
    started = []

    def task(i):
        started.append(i)
        if i == 0:
            raise ZeroDivisionError
        time.sleep(0.3)

    with pytest.raises(ZeroDivisionError):
        list(map_in_order(task, range(4), n_jobs=2))
    assert 3 not in started


@every_pool
def test_an_error_in_the_stream_stops_the_work(left_running, n_jobs):
    def stream():
        yield 1
        raise OSError("unreadable")

    with pytest.raises(OSError, match="unreadable"):
        list(map_in_order(str, stream(), n_jobs=n_jobs))
    assert left_running() == []


@every_pool
def test_a_callback_may_cancel(n_jobs):
    started = []

    def stop(label, done, total):
        if done == 2:
            raise Cancelled("enough")

    with progress(stop), pytest.raises(Cancelled, match="enough"):
        list(map_in_order(started.append, range(1000), n_jobs=n_jobs, label="work"))
    assert max(started) <= 2 + 2 * n_jobs


@pytest.mark.parametrize("error", [Cancelled, KeyboardInterrupt])
def test_cancelled_work_is_over_when_the_error_arrives(left_running, error):
    """Not when the last reference to its traceback is dropped."""

    def stop(label, done, total):
        raise error

    with progress(stop), pytest.raises(error) as held:
        list(map_in_order(str, range(100), n_jobs=2, label="work"))
    assert held.tb is not None
    assert left_running() == []


@every_pool
def test_leaving_early_ends_the_pool(left_running, n_jobs):
    for result in map_in_order(str, range(1000), n_jobs=n_jobs):
        if result == "5":
            break
    assert left_running() == []


@every_pool
def test_progress_counts(n_jobs):
    seen = []
    with progress(lambda *step: seen.append(step)):
        list(map_in_order(str, range(3), n_jobs=n_jobs, label="rows", total=3))
        list(map_in_order(str, range(2), n_jobs=n_jobs, label="blocks"))
        list(map_in_order(str, range(9), n_jobs=n_jobs))
    list(map_in_order(str, range(9), n_jobs=n_jobs, label="unheard"))
    steps = [("rows", 1, 3), ("rows", 2, 3), ("rows", 3, 3), ("blocks", 1, None)]
    assert seen == [*steps, ("blocks", 2, None)]


def shown(*calls, terminal=True):
    """What a terminal of 60 columns is sent for these steps."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=60, color_system=None)
    with ProgressBar(console) as bar:
        for call in calls:
            bar(*call)
    return stream.getvalue()


def test_the_bar_is_one_line_that_shows_the_work_under_way():
    text = shown(("rows", 500, 2000), ("blocks [/red]", 7, 10))
    assert text.count("\n") == 1
    last = text.partition("\n")[0].rpartition("\r")[2]
    assert re.search(r"blocks \[/red\] .* +7/10$", last)
    assert "rows" not in last


def test_work_of_unknown_length_has_a_count():
    assert "7/?" in shown(("rows", 7, None))


def test_a_bar_that_nobody_watches_is_one_line_at_the_end():
    text = shown(("rows", 1, 3), ("rows", 2, 3), ("rows", 3, 3), terminal=False)
    assert len(text.strip().splitlines()) == 1
    assert "3/3" in text
    assert shown(terminal=False) == ""


def test_a_bar_leaves_the_streams_alone():
    before = sys.stdout, sys.stderr
    stream = io.StringIO()
    with ProgressBar(Console(file=stream, force_terminal=True)) as bar:
        bar("rows", 1, 2)
        assert (sys.stdout, sys.stderr) == before


def test_verbose_shows_a_bar_unless_somebody_listens(capsys):
    def work():
        list(map_in_order(str, range(2), n_jobs=1, label="work", total=2))

    with reporting(False):
        work()
    assert capsys.readouterr().err == ""
    with reporting(True):
        work()
    assert re.fullmatch(r"work .* 2/2\s*", capsys.readouterr().err)
    seen = []
    with progress(lambda *step: seen.append(step)), reporting(True):
        work()
    assert len(seen) == 2
    assert capsys.readouterr().err == ""


def test_thread_count(monkeypatch):
    monkeypatch.setattr(run, "_available_cores", lambda: 4)
    found = {n: run.thread_count(n) for n in (None, -1, -2, -4, -9, 1, 3, 64)}
    assert found == {None: 4, -1: 4, -2: 3, -4: 1, -9: 1, 1: 1, 3: 3, 64: 64}
    with pytest.raises(InputError, match="n_jobs=0"):
        run.thread_count(0)


def test_available_cores():
    assert run._available_cores() >= 1


@every_pool
def test_blas_is_held_to_one_thread_and_given_back(n_jobs):
    with threadpool_limits(2):
        before = blas_counts()
        inside = list(map_in_order(lambda _: blas_counts(), range(4), n_jobs=n_jobs))
        assert {count for counts in inside for count in counts} == {1}
        assert blas_counts() == before
        with pytest.raises(ZeroDivisionError):
            list(map_in_order(lambda i: 1 / i, range(4), n_jobs=n_jobs))
        assert blas_counts() == before
        with one_blas_thread():
            assert set(blas_counts()) == {1}
        assert blas_counts() == before


def test_blas_is_given_back_after_cancel():
    def stop(label, done, total):
        raise Cancelled

    with threadpool_limits(2):
        before = blas_counts()
        with progress(stop), pytest.raises(Cancelled):
            list(map_in_order(str, range(9), n_jobs=2, label="work"))
        assert blas_counts() == before


def test_blas_is_given_back_after_overlapping_work():
    """Whatever ends last, as when two threads of a server search at once."""
    with threadpool_limits(2):
        before = blas_counts()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__(), second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_counts()) == {1}  # the second still works
        second.__exit__(None, None, None)
        assert blas_counts() == before


def test_each_thread_has_its_own_workspace():
    made = []
    spaces = PerThread(lambda: made.append(object()) or made[-1])
    assert spaces.get() is spaces.get()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(spaces.get).result() is not spaces.get()
    assert len(made) == 2


@pytest.mark.parametrize("n", [100, 1000, 3001])
def test_the_bar_of_a_fit_ends_at_its_total(n):
    seen = []
    set_memory("1MB")
    try:
        with progress(lambda label, done, total: seen.append((done, total))):
            PCA(2).fit(np.random.default_rng(0).normal(size=(n, 40)))
    finally:
        set_memory(None)
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert seen
    assert {total for _, total in seen} == {len(seen)}


def test_blas_threads_are_restored_while_a_traceback_keeps_the_work_alive():
    before = blas_counts()

    def consume():
        for number in map_in_order(lambda item: item, range(20), n_jobs=2):
            if number == 3:
                raise KeyError("the consumer fails")

    with pytest.raises(KeyError) as kept:
        consume()
    time.sleep(0.2)
    assert kept.tb is not None  # the frame of the generator is still alive
    assert blas_counts() == before


def test_blas_is_not_limited_between_tasks():
    before = blas_counts()
    for _ in map_in_order(lambda item: item, range(3), n_jobs=1):
        assert blas_counts() == before


def test_n_jobs_none_follows_joblib():
    from joblib import Parallel, delayed, parallel_config

    cores = thread_count(None)
    assert cores == thread_count(-1)
    with parallel_config(n_jobs=3):
        assert thread_count(None) == 3
    with parallel_config(backend="threading"):
        assert thread_count(None) == cores
    for backend in ("threading", "loky"):
        inside = Parallel(n_jobs=2, backend=backend)(delayed(thread_count)(None) for _ in range(2))
        assert inside == [1, 1]
        asked = Parallel(n_jobs=2, backend=backend)(delayed(thread_count)(2) for _ in range(2))
        assert asked == [2, 2]


def test_blas_is_given_back_by_another_thread_than_the_one_that_took_it():
    before = blas_counts()
    took, ended = threading.Event(), threading.Event()

    def first():
        with one_blas_thread():
            took.set()
            ended.wait(10)

    other = threading.Thread(target=first)
    other.start()
    took.wait(10)
    with one_blas_thread():
        ended.set()
        other.join()
        assert set(blas_counts()) == {1}
    assert blas_counts() == before
