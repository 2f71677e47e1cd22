"""An ordinary user in a read-only container: no writable home, no writable package."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nearfold

WORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import nearfold
package = os.path.dirname(nearfold.__file__)
for place in (package, package + "/kernels", os.environ["HOME"]):
    assert not os.access(place, os.W_OK)
X = np.random.default_rng(0).normal(size=(300, 5))
y = np.arange(300) % 3
X[:, 0] += y
nearfold.Isomap().fit(X)
nearfold.LocallyLinearEmbedding(n_neighbors=8).fit(X)
nearfold.NeighborhoodComponentsAnalysis(max_iter=5).fit(X, y)
nearfold.MDS(n_init=1, max_iter=5).fit(X)
nearfold.KNeighborsClassifier().fit(X, y).predict(X)
found = nearfold.compare(X, y, methods=["PCA", "LDA"], n_repeats=1)
assert found.result("LDA").status == "finished"
nearfold.save(nearfold.PCA(2).fit(X), sys.argv[1] + "/model.nearfold")
nearfold.diagnose(X).draw(sys.argv[1] + "/graph.png")
print("done")
"""


def _give_up_rights() -> None:
    """Root without the right to override permissions is a user like any other."""
    for capability in (1, 2):  # DAC_OVERRIDE, DAC_READ_SEARCH
        if ctypes.CDLL(None).prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
            os._exit(77)


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.getuid(), reason="for root on Linux")
def test_everything_works_where_nothing_can_be_written():
    root = Path("/tmp") / f"nearfold-read-only-{os.getpid()}"
    root.mkdir(mode=0o755)
    try:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(nearfold.__file__).parent, root / "lib" / "nearfold", ignore=ignored)
        (root / "home").mkdir(mode=0o555)
        out = root / "out"
        out.mkdir()
        for folder, _, names in os.walk(root / "lib"):
            os.chmod(folder, 0o555)
            for name in names:
                os.chmod(os.path.join(folder, name), 0o444)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root / "home"),
            "TMPDIR": str(root / "home"),  # not even there
            "PYTHONPATH": str(root / "lib"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", WORK, str(out)],
            env=environment,
            cwd=root,
            preexec_fn=_give_up_rights,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 77:
            pytest.skip("rights cannot be given up here")
        assert done.stdout == "done\n", done.stderr[-2000:]
        assert {p.name for p in out.iterdir()} == {"model.nearfold", "graph.png"}
    finally:
        shutil.rmtree(root, ignore_errors=True)
