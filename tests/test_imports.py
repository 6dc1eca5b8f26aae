"""What ``import gpclass`` loads: nothing that scikit-learn does not load itself."""

import subprocess
import sys

# what the estimator needs of other packages
NEEDED = """
import numpy, scipy.linalg, scipy.optimize, scipy.sparse.linalg, scipy.spatial.distance
import scipy.special, scipy.stats, sklearn.base, sklearn.gaussian_process, sklearn.utils
"""
LOADED = "{name.partition('.')[0] for name in sys.modules}"


def packages(code):
    run = [sys.executable, "-c", f"import sys; {code}"]
    return set(subprocess.run(run, check=True, capture_output=True, text=True).stdout.split())


def test_the_package_alone_loads_nothing():
    found = packages(f"import gpclass; print(*{LOADED})")
    assert "gpclass" in found
    assert not found & {"numpy", "scipy", "sklearn", "pandas"}


def test_the_estimator_adds_itself_alone_to_what_scikit_learn_loads():
    lines = f"exec('''{NEEDED}'''); before = {LOADED}; import gpclass"
    found = packages(f"{lines}; gpclass.GaussianProcessClassifier; print(*{LOADED} - before)")
    assert found - sys.stdlib_module_names == {"gpclass"}
