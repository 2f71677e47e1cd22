"""Files are the old ones or the new ones, whole: after errors, kill -9, a full disk."""

import os
import random
import signal
import stat
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import nearfold
from nearfold.errors import InputError
from nearfold.store.atomic import write_atomically
from nearfold.store.model_file import load, save, verify


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_writes_replaces_and_keeps_the_mode(tmp_path):
    path = tmp_path / "a.txt"
    old = os.umask(0o027)
    try:
        assert write_atomically(path, lambda file: file.write(b"one")) == path
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640  # as a new file has it
    path.chmod(0o604)
    write_atomically(str(path), lambda file: file.write(b"two"))
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert names(tmp_path) == ["a.txt"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "real", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, lambda file: file.write(b"new"))
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "far" / "later")
    write_atomically(dangling, lambda file: file.write(b"made"))
    assert (tmp_path / "far" / "later").read_bytes() == b"made"
    assert names(tmp_path / "far") == ["later", "real"]


def test_places_that_cannot_be_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    cases = [
        (tmp_path, "is a folder"),
        (tmp_path / "pipe", "is a device or a pipe"),
        (tmp_path / "no" / "x", "there is no folder"),
        ("a\0b", "not a usable file name"),
        (tmp_path / ("n" * 300), "name"),
    ]
    for path, words in cases:
        with pytest.raises(InputError, match=words):
            write_atomically(path, lambda file: file.write(b"x"))
    assert names(tmp_path) == ["pipe"]


def test_long_names_fit(tmp_path):
    path = tmp_path / ("列" * 84)  # 252 bytes of 255
    write_atomically(path, lambda file: file.write(b"x"))
    assert names(tmp_path) == [path.name]


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt, OSError(28, "No space")])
def test_an_error_leaves_the_old_file_and_nothing_else(failure, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def write(file):
        file.write(b"new" * 100_000)
        raise failure

    expected = InputError if isinstance(failure, OSError) else failure
    with pytest.raises(expected):
        write_atomically(path, write)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


class _FullDisk:
    """A file that takes so many bytes and no more."""

    def __init__(self, file, room):
        self._file, self._room = file, room

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *details):
        self._file.close()

    def write(self, data):
        self._room -= len(data)
        if self._room < 0:
            raise OSError(28, "No space left on device")
        return self._file.write(data)


@pytest.mark.parametrize("room", [0, 100, 5_000, 50_000])
def test_a_full_disk_while_saving(room, tmp_path, monkeypatch):
    path = tmp_path / "m.nearfold"
    A, B = (nearfold.NearestNeighbors().fit(np.full((900, 10), i + 1.0)) for i in range(2))
    save(A, path)
    before = path.read_bytes()
    fdopen = os.fdopen
    monkeypatch.setattr(os, "fdopen", lambda *args: _FullDisk(fdopen(*args), room))
    with pytest.raises(InputError, match=r"m\.nearfold cannot be written: No space.*unchanged"):
        save(B, path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert names(tmp_path) == ["m.nearfold"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fails_at_the_end(call, tmp_path, monkeypatch):
    path = tmp_path / "m.nearfold"
    save(nearfold.PCA(2).fit(np.eye(4)), path)
    before = path.read_bytes()

    def fails(*args):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, call, fails)
    with pytest.raises(InputError, match="Input/output error"):
        save(nearfold.PCA(3).fit(np.eye(4)), path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert names(tmp_path) == ["m.nearfold"]


def test_bytes_reach_the_disk_before_the_name_changes(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(descriptor):
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        done.append((kind, os.fstat(descriptor).st_size if kind == "file" else None))
        fsync(descriptor)

    def note_replace(*paths):
        done.append(("replace", None))
        replace(*paths)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_atomically(tmp_path / "a", lambda file: file.write(b"12345"))
    assert done == [("file", 5), ("replace", None), ("folder", None)]


def test_old_leftovers_are_removed_and_young_ones_stay(tmp_path):
    old, young = tmp_path / ".a.123.0123abcd.tmp", tmp_path / ".a.124.0123abcd.tmp"
    others = [tmp_path / name for name in (".b.123.0123abcd.tmp", "a.tmp", ".a.txt")]
    for path in (old, young, *others):
        path.write_bytes(b"")
    for path in (old, *others):
        os.utime(path, (0, 0))
    write_atomically(tmp_path / "a", lambda file: file.write(b"x"))
    assert not old.exists()
    assert young.exists()
    assert all(path.exists() for path in others)


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path):
    path, errors = tmp_path / "a", []

    def write_often(letter):
        try:
            for _ in range(20):
                write_atomically(path, lambda file: file.write(letter * 100_000))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write_often, args=(c,)) for c in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            content = path.read_bytes()
            assert len(content) == 100_000
            assert len(set(content)) == 1
    assert errors == []
    assert names(tmp_path) == ["a"]


def _save_for_ever(path, models):
    while True:
        for model in models:
            save(model, path)


def _seconds_to_save(model, path):
    """The fastest of a few times: the machine may be busy with other things."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        save(model, path)
        times.append(time.perf_counter() - started)
    return min(times)


def _wait_for_another(before, folder):
    deadline = time.monotonic() + 10
    while not set(names(folder)) - before:
        assert time.monotonic() < deadline, "nothing is being written"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_kill_9_while_saving_200_times(tmp_path):
    """Children that do nothing but save two models in turn are killed at random moments."""
    path, rng = tmp_path / "m.nearfold", random.Random(0)
    rows = [np.full((13_000, 20), value) for value in (1.0, 2.0)]  # 2 MB each
    models = [nearfold.NearestNeighbors().fit(X) for X in rows]
    once = _seconds_to_save(models[0], path)
    seen, interrupted = [1.0], 0
    for turn in range(200):
        before = set(names(tmp_path))
        child = os.fork()
        if child == 0:
            try:
                _save_for_ever(path, models[:: 1 if seen[-1] == 2.0 else -1])  # the other one first
            finally:
                os._exit(1)
        if turn % 2:  # at any moment; otherwise soon after it has begun to write
            time.sleep(rng.uniform(0, 1.5 * once))
        else:
            _wait_for_another(before, tmp_path)
            time.sleep(rng.uniform(0, 0.5 * once))
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        left = set(names(tmp_path)) - before
        interrupted += bool(left)
        for name in left:
            (tmp_path / name).unlink()
        value = load(path)._fit_X
        assert value.shape == rows[0].shape
        assert value.min() == value.max()
        seen.append(value[0, 0])
    assert set(seen) == {1.0, 2.0}
    assert interrupted > 20  # many were killed while they wrote, or this proves nothing
    verify(path)
    save(models[1], path)
    assert names(tmp_path) == ["m.nearfold"]


def test_the_folder_is_not_needed_to_be_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert write_atomically("x", lambda file: file.write(b"1")) == Path("x")
    assert (tmp_path / "x").read_bytes() == b"1"
