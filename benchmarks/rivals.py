"""EP of other packages on the same problem, where they are installed.

None of them is a dependency of anything here. What is missing is a row with the reason. GPy is
taken from the Python that runs the benchmarks; GPML from the folder that the environment variable
GPML_HOME names, run by Octave.
"""

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.evidence import COLUMNS
from benchmarks.figures import Figures, seconds, times
from benchmarks.floor import PARTS, floor_contestants
from benchmarks.ours import our_problem
from benchmarks.problems import IRRELEVANT, LENGTH_SCALES, SIGNAL_VARIANCE, Problem, make_problem
from benchmarks.turns import Contestant, median, ratio, take_turns

N, DRY_N = 1000, 60
# Each of them is run once, in seconds to minutes.
PATIENCE: Final = 120


class MissingError(Exception):
    """A rival that cannot be run here, and why."""


def length_scales() -> np.ndarray:
    """Length-scales of `benchmarks.problems.learnt_kernel`."""
    scales = np.full(COLUMNS, IRRELEVANT)
    scales[: len(LENGTH_SCALES)] = LENGTH_SCALES
    return scales


def gpy(problem: Problem) -> dict[str, Any]:
    """One cold EP and the gradient by GPy, to its own tolerance."""
    if importlib.util.find_spec("GPy") is None:
        raise MissingError("GPy is not installed")
    import GPy

    kernel = GPy.kern.RBF(COLUMNS, variance=SIGNAL_VARIANCE, lengthscale=length_scales(), ARD=True)
    # the constructor infers once: what is timed is inference from nothing on the same object
    model = GPy.models.GPClassification(problem.X, problem.y[:, None].astype(float), kernel=kernel)
    model.inference_method.reset()
    start = time.perf_counter()
    model.parameters_changed()
    spent = time.perf_counter() - start
    return {"seconds": spent, "log_evidence": float(model.log_likelihood())}


_OCTAVE: Final = """
addpath('{home}'); startup;
data = dlmread('{table}');
X = data(:, 1:end-1); y = data(:, end);
hyp.mean = []; hyp.lik = []; hyp.cov = dlmread('{theta}')(:);
tic;
[value, slope] = gp(hyp, @infEP, @meanZero, @covSEard, @likErf, X, y);
printf('\\nRESULT %.17g %.17g\\n', toc, -value);
"""


def gpml(problem: Problem) -> dict[str, Any]:
    """One cold EP and the gradient by GPML in Octave, to its own tolerance of 1e-4."""
    octave = shutil.which("octave-cli") or shutil.which("octave")
    if octave is None:
        raise MissingError("Octave is not installed")
    home = os.environ.get("GPML_HOME")
    if home is None or not (Path(home) / "gp.m").is_file():
        raise MissingError("GPML_HOME does not name the folder of GPML")
    with tempfile.TemporaryDirectory() as folder:
        table, theta, script = (Path(folder) / name for name in ("table", "theta", "once.m"))
        np.savetxt(table, np.column_stack([problem.X, np.where(problem.y == 1, 1, -1)]))
        np.savetxt(theta, np.append(np.log(length_scales()), 0.5 * np.log(SIGNAL_VARIANCE)))
        script.write_text(_OCTAVE.format(home=home, table=table, theta=theta))
        done = subprocess.run(
            [octave, "--no-gui", str(script)],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
    found = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    spent, value = found.split()[1:]
    return {"seconds": float(spent), "log_evidence": float(value)}


def bayesnewton(_: Problem) -> dict[str, Any]:
    """Nothing yet: it is written for time series, by kernels that this problem does not use."""
    if importlib.util.find_spec("bayesnewton") is None:
        raise MissingError("BayesNewton is not installed")
    raise MissingError("BayesNewton is installed, but nobody has written this comparison")


RIVALS: Final[dict[str, Callable[[Problem], dict[str, Any]]]] = {
    "GPy": gpy,
    "GPML": gpml,
    "BayesNewton": bayesnewton,
}
ROWS: Final = tuple(name.lower() for name in RIVALS)


def run(repeat: int, dry: bool, rows: Sequence[str] = ROWS) -> Figures:
    """Ours in turns with the floor, each rival once after them."""
    n = DRY_N if dry else N
    problem = make_problem(n, COLUMNS)
    ours = our_problem(problem, "ep-probit")
    theta = ours.theta
    spent = take_turns(
        [*floor_contestants(problem), Contestant("ours", lambda _: ours.evaluate(theta))], repeat
    )
    floor = sum(median(spent, part) for part in PARTS)
    evidence = ours.evaluate(theta, gradient=False).log_evidence
    figures = Figures(
        f"EP by other packages: probit, n = {n}, {COLUMNS} columns, ARD, cold, with gradient",
        ("who", "time", "/ floor", "log evidence", "remark"),
        notes=[
            "each to its own tolerance; another package is run once, and its evidence says how far "
            "it came"
        ],
    )
    figures.records.append({"who": "ours", "n": n, "seconds": spent, "log_evidence": evidence})
    figures.rows.append(
        (
            "ours",
            seconds(median(spent, "ours")),
            times(ratio(spent, "ours", *PARTS)),
            f"{evidence:.6f}",
            "",
        )
    )
    for name, rival in RIVALS.items():
        if name.lower() not in rows:
            continue
        try:
            found = rival(problem)
        except MissingError as reason:
            figures.records.append({"who": name, "skipped": str(reason)})
            figures.rows.append((name, "", "", "", f"skipped: {reason}"))
        except Exception as error:  # another package's failure is a row, not the end of the run
            reason = f"{type(error).__name__}: {error}"
            figures.records.append({"who": name, "failed": reason})
            figures.rows.append((name, "", "", "", f"failed: {reason.splitlines()[0][:60]}"))
        else:
            figures.records.append({"who": name, "n": n, **found})
            value = found["log_evidence"]
            cells = (seconds(found["seconds"]), times(found["seconds"] / floor), f"{value:.6f}")
            figures.rows.append((name, *cells, ""))
    return figures
