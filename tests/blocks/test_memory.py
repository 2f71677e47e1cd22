"""The memory budget: sizes as text, where the default comes from, what a refusal says."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import nearfold
from nearfold.blocks import memory
from nearfold.errors import InputError, MemoryBudgetError

KB, MB, GB = 1024, 1024**2, 1024**3
UNLIMITED = 1 << 62


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.delenv("NEARFOLD_MEMORY", raising=False)
    nearfold.set_memory(None)
    memory._default_budget.cache_clear()
    yield
    nearfold.set_memory(None)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (1, 1),
        (4_000_000_000, 4_000_000_000),
        ("4000", 4000),
        ("4GB", 4 * GB),
        ("4 gb", 4 * GB),
        ("512MiB", 512 * MB),
        ("1.5 g", 3 * GB // 2),
        (" 64k ", 64 * KB),
        ("2T", 2048 * GB),
        ("7B", 7),
    ],
)
def test_sizes(text, size):
    assert memory.parse_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "GB", "four", "-1", "-4GB", "0", "0GB", "1.2.3GB", "4 XB", "4GB!", ".", True, "nan"],
)
def test_texts_that_are_no_sizes(text):
    with pytest.raises(InputError, match="is not a size: write for example '4GB'"):
        memory.parse_bytes(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KB"),
        (MB, "1.0 MB"),
        (5000 * GB, "5000.0 GB"),
    ],
)
def test_sizes_are_shown(size, text):
    assert memory.show_bytes(size) == text


def test_budget_is_set_then_environment_then_half_of_what_is_free(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 10 * GB)
    assert nearfold.get_memory() == 5 * GB
    monkeypatch.setenv("NEARFOLD_MEMORY", "3GB")
    assert nearfold.get_memory() == 3 * GB
    nearfold.set_memory("2GB")
    assert nearfold.get_memory() == 2 * GB
    nearfold.set_memory(None)
    assert nearfold.get_memory() == 3 * GB
    monkeypatch.setenv("NEARFOLD_MEMORY", "")
    assert nearfold.get_memory() == 5 * GB
    monkeypatch.setattr(memory, "free_bytes", lambda: 0)
    assert nearfold.get_memory() == 5 * GB  # looked at once per process, whatever is free later
    memory._default_budget.cache_clear()
    assert nearfold.get_memory() == 64 * MB  # the least one can work with


def test_a_bad_budget_changes_nothing(monkeypatch):
    nearfold.set_memory("2GB")
    with pytest.raises(InputError):
        nearfold.set_memory("lots")
    assert nearfold.get_memory() == 2 * GB
    nearfold.set_memory(None)
    monkeypatch.setenv("NEARFOLD_MEMORY", "lots")
    with pytest.raises(InputError, match="lots"):
        nearfold.get_memory()


def test_a_refusal_says_how_much_and_what_to_do():
    nearfold.set_memory("1MB")
    memory.require_memory(MB, "The table", "Take less.")  # just fits
    with pytest.raises(MemoryBudgetError) as refusal:
        memory.require_memory(3 * GB, "The table", "Take less.")
    assert str(refusal.value) == (
        "The table needs about 3.0 GB, and the memory budget is 1.0 MB. Take less. "
        "(Raise the budget with nearfold.set_memory or --memory.)"
    )
    assert isinstance(refusal.value, MemoryError)


def test_free_is_the_least_of_machine_and_group(monkeypatch):
    for machine, group in ((5, 7), (7, 5)):
        seen = SimpleNamespace(available=machine)
        monkeypatch.setattr(memory.psutil, "virtual_memory", lambda seen=seen: seen)
        monkeypatch.setattr(memory, "_cgroup_free", lambda free=group: free)
        assert memory.free_bytes() == 5


def test_this_machine_has_memory():
    assert memory.free_bytes() > MB


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Fake control groups: files under a root, and the line that says where we are."""
    root = tmp_path / "cgroup"
    root.mkdir()
    (tmp_path / "self").write_text("")

    def write(folder="", line="", **files):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (root / folder / name.replace("__", ".")).write_text(f"{text}\n")
        if line:
            (tmp_path / "self").write_text(f"{line}\n")
        return memory._cgroup_free(root=root)

    real = {"/proc/self/cgroup": tmp_path / "self"}
    monkeypatch.setattr(memory, "Path", lambda path: real.get(str(path), Path(path)))
    return write


def test_no_group_no_limit(group):
    assert group() == UNLIMITED
    assert group(memory__max="max", memory__current=5) == UNLIMITED


def test_version_2(group):
    assert group(memory__max=10 * GB, memory__current=4 * GB) == 6 * GB
    stat = f"anon 5\nfile 9\ninactive_file {GB}\nactive_file 77"
    assert group(memory__stat=stat) == 7 * GB
    assert group(memory__current=20 * GB) == 0


def test_version_2_the_tightest_group_above_counts(group):
    group("a", memory__max=8 * GB, memory__current=3 * GB)
    group("a/b", memory__max="max", memory__current=2 * GB)
    group("other", memory__max=MB, memory__current=0)
    assert group("a/b/c", line="0::/a/b/c", memory__max=9 * GB, memory__current=GB) == 5 * GB
    assert group(memory__max=4 * GB, memory__current=3 * GB) == GB


def test_version_1(group):
    stat = f"cache 1\ntotal_inactive_file {GB}"
    files = {"memory__limit_in_bytes": 10 * GB, "memory__usage_in_bytes": 4 * GB}
    assert group("memory", memory__stat=stat, **files) == 7 * GB
    nested = {"memory__limit_in_bytes": 3 * GB, "memory__usage_in_bytes": GB}
    line = "5:cpu,cpuacct:/x\n4:memory:/docker/abc"
    assert group("memory/docker/abc", line=line, **nested) == 2 * GB


def test_version_1_without_a_limit(group):
    files = {"memory__limit_in_bytes": 9223372036854771712, "memory__usage_in_bytes": GB}
    assert group("memory", **files) == UNLIMITED


@pytest.mark.parametrize("line", ["nonsense", "0::/gone", "a:b", "0::/../.."])
def test_odd_groups_are_survived(group, line):
    assert group(memory__max=2 * GB, memory__current=GB, memory__stat="\n\nodd", line=line) == GB
    assert group(memory__current="garbage") == UNLIMITED
