"""What commands write: before they print, whole or not at all, and never over what they read."""

import errno
import os
import subprocess
import sys

import pytest
from command_runs import mixed_table, refused, run, succeeds

COMPARE = ("compare", "t.csv", "--label", "kind", "--exclude", "price", "--methods", "PCA",
           "--repeats", "1", "--folds", "3")  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mixed_table().write_csv("t.csv")
    (tmp_path / "p.csv").write_text("".join(f"{i},{i + 1},{(-1) ** i}\n" for i in range(40)))
    succeeds("fit", "PCA", "t.csv", "--exclude", "kind", "--exclude", "price", "-o", "m.nearfold")
    return tmp_path


def process(*words, **kwargs):
    command = [sys.executable, "-m", "nearfold.app.cli", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs)


def is_whole(here):
    return (here / "r.html").read_text("utf-8").rstrip().endswith("</html>") and (
        run("verify", "s.nearfold").exit_code == 0
    )


# Before anything is printed -------------------------------------------------------------------


@pytest.mark.parametrize("both", [False, True])
def test_a_reader_that_stops_early_loses_no_output(here, both):
    """`compare ... | head -1`, and `2>&1` before it."""
    streams = {"stderr": subprocess.STDOUT} if both else {}
    words = [sys.executable, "-m", "nearfold.app.cli", *COMPARE, "-o", "r.html"]
    words += ["--save", "s.nearfold"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, **streams) as started:
        started.stdout.close()
        assert started.wait(120) == 0
    assert is_whole(here)


def test_places_for_a_reader_that_stops_early(here):
    succeeds("fit", "PCA", "t.csv", "--exclude", "kind", "-o", "s.nearfold")
    words = [sys.executable, "-m", "nearfold.app.cli", "transform", "s.nearfold", "t.csv"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        started.stdout.close()
        assert b"fault" not in started.stderr.read()
        assert started.wait(120) == 0


def test_a_terminal_of_few_letters_loses_no_output(here):
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    started = process(*COMPARE, "-o", "r.html", "--save", "s.nearfold", "--lang", "zh",
                      env=environment)  # fmt: skip
    out, err = started.communicate(timeout=120)
    assert started.returncode == 0, err
    assert b"PCA" in out
    assert b"?" in out
    assert is_whole(here)


def test_a_full_stdout_loses_no_output(here):
    with open("/dev/full", "wb") as full:
        words = [sys.executable, "-m", "nearfold.app.cli", *COMPARE, "-o", "r.html"]
        done = subprocess.run([*words, "--save", "s.nearfold"], stdout=full, timeout=120,
                              stderr=subprocess.PIPE)  # fmt: skip
    assert done.returncode == 1
    assert b"report it" not in done.stderr
    assert is_whole(here)


# Not over what is read ------------------------------------------------------------------------


def spellings(here, name):
    """Other names of a file: by a detour, by a link, by a hard link."""
    os.symlink(name, "soft")
    os.link(name, "hard")
    os.symlink(here, "folder")
    return [name, f"./{name}", str(here / name), f"../{here.name}/{name}", "soft", "hard",
            f"folder/{name}"]  # fmt: skip


def commands_with(name):
    compare = list(COMPARE)
    return {
        "t.csv": [[*compare, "-o"], [*compare, "--save"], ["fit", "PCA", "t.csv", "-o"],
                  ["transform", "m.nearfold", "t.csv", "-o"], ["doctor", "t.csv", "-o"],
                  [*compare, "--dry-run", "--schema"]],
        "p.csv": [["compare", "t.csv", "--pairs", "p.csv", "-o"],
                  ["compare", "t.csv", "--pairs", "p.csv", "--save"],
                  ["fit", "MMC", "t.csv", "--pairs", "p.csv", "-o"]],
        "s.json": [[*compare, "--schema", "s.json", "-o"], [*compare, "--schema", "s.json",
                   "--save"], ["fit", "PCA", "t.csv", "--schema", "s.json", "-o"],
                   ["doctor", "t.csv", "--schema", "s.json", "-o"]],
        "m.nearfold": [["transform", "m.nearfold", "t.csv", "-o"]],
        "c.toml": [[*compare, "--config", "c.toml", "-o"]],
    }[name]  # fmt: skip


@pytest.mark.parametrize("name", ["t.csv", "p.csv", "s.json", "m.nearfold", "c.toml"])
def test_no_output_is_an_input_by_whatever_name(here, name):
    succeeds(*COMPARE, "--dry-run", "--schema", "s.json")
    (here / "c.toml").write_text("folds = 3\n")
    before = (here / name).read_bytes()
    for other in spellings(here, name):
        for command in commands_with(name):
            refused(*command, other, says=("same file", name))
    assert (here / name).read_bytes() == before


def test_files_of_a_pattern_are_inputs(here):
    mixed_table(30).write_csv("part1.csv")
    mixed_table(30, seed=1).write_csv("part2.csv")
    refused("fit", "PCA", "part*.csv", "-o", "part2.csv", says="same file")


def test_two_outputs_are_two_files(here):
    os.symlink("x", "y")
    for other in ("x", "./x", str(here / "x"), "y"):
        refused(*COMPARE, "-o", "x", "--save", other, says="same file")
    assert not (here / "x").exists()


# Whole or not at all --------------------------------------------------------------------------


@pytest.fixture
def full_disk(monkeypatch):
    def fsync(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("nearfold.store.atomic.os.fsync", fsync)


@pytest.mark.parametrize(
    "command",
    [
        [*COMPARE, "-o", "r.html"],
        [*COMPARE, "--save", "old"],
        [*COMPARE, "--dry-run", "--schema", "old"],
        ["fit", "PCA", "t.csv", "-o", "old"],
        ["transform", "m.nearfold", "t.csv", "-o", "old.csv"],
        ["doctor", "t.csv", "--feature", "weight", "--feature", "price", "-o", "old.png"],
    ],
    ids=lambda words: " ".join(words[:2] + words[-2:]),
)
def test_a_full_disk_leaves_the_old_file_and_ends_with_1(here, full_disk, command):
    old = here / command[-1]
    old.write_bytes(b"as it was")
    names = sorted(os.listdir(here))
    line = refused(*command, code=1, says=("No space left", "unchanged"))
    assert "report it" not in line
    assert old.read_bytes() == b"as it was"
    assert sorted(os.listdir(here)) == names


def test_the_answer_is_printed_though_it_cannot_be_written(here, full_disk):
    """The work is not lost with the disk."""
    result = run(*COMPARE, "-o", "r.html", "--save", "s.nearfold")
    assert result.exit_code == 1
    assert "PCA" in result.stdout


@pytest.mark.parametrize("option", ["-o", "--save"])
@pytest.mark.parametrize("place", ["/proc/x", "no/x", ".", "/dev/null", "t.csv/x"])
def test_a_place_that_cannot_be_written_is_found_before_the_work(here, monkeypatch, option, place):
    def work(*_, **__):
        pytest.fail("the table was read")

    monkeypatch.setattr("nearfold.study.intake.open_table", work)
    refused(*COMPARE, option, place)
    if option == "-o":
        refused("fit", "PCA", "t.csv", option, place)
        refused("doctor", "t.csv", option, place)


# The browser ----------------------------------------------------------------------------------


def test_open_shows_the_report_that_was_written(here, monkeypatch):
    opened = []
    monkeypatch.setattr("click.launch", opened.append)
    succeeds(*COMPARE, "-o", "r.html", "--open")
    assert opened == [(here / "r.html").resolve().as_uri()]
    refused(*COMPARE, "--open", says="-o")
    assert len(opened) == 1
