"""scikit-learn's own tests of its GP classifier, fetched from the installed package, on ours.

Three changes: the import; the `xfail` mark of the gradient test, removed; the step of its finite
differences, 1e-9 there, which is at the tolerance of a mode search, 1e-6 here.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFTEST = """
import pytest

@pytest.fixture
def global_random_seed():
    return 42
"""


def changed_source() -> str:
    spec = importlib.util.find_spec("sklearn.gaussian_process.tests.test_gpc")
    if spec is None or spec.origin is None:
        pytest.skip("the installed scikit-learn comes without its tests")
    source = Path(spec.origin).read_text()
    source, imports = re.subn(
        r"^from sklearn\.gaussian_process import GaussianProcessClassifier$",
        "from gpclass import GaussianProcessClassifier",
        source,
        flags=re.MULTILINE,
    )
    source, _ = re.subn(r"@pytest\.mark\.xfail\(\n(?:    .*\n)*\)\n", "", source)
    source, steps = re.subn(r"epsilon = 1e-9$", "epsilon = 1e-6", source, flags=re.MULTILINE)
    assert (imports, steps) == (1, 1), "scikit-learn's test file has changed its shape"
    assert "xfail" not in source
    return source


def test_the_whole_file_passes(tmp_path):
    (tmp_path / "test_gpc.py").write_text(changed_source())
    (tmp_path / "conftest.py").write_text(CONFTEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_gpc.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed.group(1)) >= 78
    assert "skipped" not in done.stdout
