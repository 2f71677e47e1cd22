"""Several processes and threads at once: results are those of serial work, files are whole."""

import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import nearfold
from nearfold.registry import find

# Not by catch_warnings in each thread: that is not safe where several threads work.
pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = (
    "PCA",
    "KNeighborsClassifier",
    "Isomap",
    "LocallyLinearEmbedding",
    "LinearDiscriminantAnalysis",
    "NeighborhoodComponentsAnalysis",
    "MDS",
)
RNG = np.random.default_rng(0)
Y = np.arange(240) % 3
X = RNG.normal(size=(240, 6)) + 2.0 * RNG.normal(size=(3, 6))[Y]


def _answer(name):
    """What a fitted model says about some rows."""
    params = {"random_state": 0} if name in ("MDS", "NeighborhoodComponentsAnalysis") else {}
    model = find(name).load()(**params).fit(X, Y)
    return model.transform(X[:50]) if hasattr(model, "transform") else model.predict_proba(X)


def _same(name, answer, serial):
    return np.array_equal(answer, serial)


def test_threads_that_fit_at_once_give_the_serial_results():
    serial = {name: _answer(name) for name in NAMES}
    found, trouble = {}, []

    def work(name, turn):
        try:
            found[name, turn] = _answer(name)
        except BaseException as error:
            trouble.append(error)

    threads = [threading.Thread(target=work, args=(n, t)) for t in (0, 1) for n in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not trouble
    for (name, _), answer in found.items():
        assert _same(name, answer, serial[name]), name


def _in_child(names, sender):
    sender.send({name: _answer(name) for name in names})
    sender.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_after_use_gives_the_serial_results():
    serial = {name: _answer(name) for name in NAMES}  # threads, compiled code and BLAS are in use
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_in_child, args=(NAMES, sender), daemon=True)
    child.start()
    try:
        assert receiver.poll(120), "the forked process hangs"
        found = receiver.recv()
    finally:
        child.kill()
        child.join()
    for name in NAMES:
        assert _same(name, found[name], serial[name]), name


_SAVE = """
import sys, numpy as np, nearfold
number, path = int(sys.argv[1]), sys.argv[2]
X = np.random.default_rng(number).normal(size=(200, 30))
model = nearfold.PCA(5).fit(X)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(40):
    nearfold.save(model, path)
"""


def test_two_processes_that_save_to_one_path_leave_a_whole_file(tmp_path):
    path = tmp_path / "model.nearfold"
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _SAVE, str(number), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in (0, 1)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    expected = [
        nearfold.PCA(5).fit(np.random.default_rng(number).normal(size=(200, 30))).components_
        for number in (0, 1)
    ]
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    seen = 0
    while any(child.poll() is None for child in children):
        if path.exists():  # a file that is there is whole, whoever is writing at the moment
            components = nearfold.load(path).components_
            assert any(np.array_equal(components, one) for one in expected)
            seen += 1
    for child in children:
        child.communicate()
        assert child.returncode == 0
    assert seen
    assert [p.name for p in tmp_path.iterdir()] == ["model.nearfold"]  # nothing left behind
