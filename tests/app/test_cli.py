"""The command line as a person meets it."""

import re

import pytest
from click.testing import CliRunner

import nearfold
from nearfold.app import demo as demo_module
from nearfold.app.cli import main
from nearfold.errors import InputError
from nearfold.registry import METHODS


def run(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_help_lists_every_command_with_an_example():
    text = run("--help").output
    for command in ("demo", "methods"):
        assert command in text
        assert "Example: nearfold " + command in run(command, "--help").output


def test_version():
    assert nearfold.__version__ in run("--version").output


def test_methods_lists_the_registry():
    text = run("methods").output
    for method in METHODS:
        assert method.name in text


def test_demo_prints_the_table_and_draws_the_picture(tmp_path):
    result = run("demo", "-o", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    rows = re.findall(
        r"^(\S.*?)\s+(\d+)\s+(\d+\.\d) % ± \d\.\d\s+\d+ ms\s+\d+ ms", result.output, re.M
    )
    accuracy = {name.strip(): float(share) for name, _, share in rows}
    dimensions = {name.strip(): int(d) for name, d, _ in rows}
    assert dimensions["original"] == 64
    assert dimensions["LDA"] == 9
    assert accuracy["original"] > 95
    # Two axes that know the classes beat two that do not, by more than noise.
    assert accuracy["LDA, 2 axes"] > accuracy["PCA, 2 axes"] + 4
    picture = (tmp_path / "out" / "spaces.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert "spaces.png" in result.output


@pytest.mark.parametrize(
    ("error", "code"),
    [(InputError("no such thing"), 2), (OSError(28, "no space"), 2), (KeyboardInterrupt(), 130)],
)
def test_a_mistake_is_one_line_and_ctrl_c_is_130(monkeypatch, error, code):
    def fail(*_):
        raise error

    monkeypatch.setattr(demo_module, "run_demo", fail)
    result = run("demo")
    assert result.exit_code == code
    assert "Traceback" not in result.output
    assert len(result.output.strip().splitlines()) == 1
