"""KG06 Table 2: one length-scale, or one a column, of three relevant columns and three others."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

from gpclass.experiments.form import Experiment, Found, Piece, Place, Published, Results, Size
from gpclass.experiments.kg06_methods import em_ep, multiple, single, spread_over_columns
from gpclass.experiments.paper_tables import DRAWS

RELEVANT: Final = 3
COLUMNS: Final = 6
KINDS: Final = ("single lengthscale", "multiple lengthscale")
EVIDENCE: Final = "log evidence"
ERROR: Final = "error rate"
VANISHES: Final = "irrelevant columns have inverse length-scales near zero"


def draw(n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Labels -1 and +1, equally probable, and columns of which three have the label for mean."""
    y = rng.choice([-1, 1], size=n)
    X = rng.standard_normal((n, COLUMNS))
    X[:, :RELEVANT] += y[:, None]
    return X, y


def learn(seed: int, n: int, n_test: int) -> dict[str, Any]:
    """Both models by EM-EP on one pair of training and test sets."""
    rng = np.random.default_rng(seed)
    (X, y), (X_test, y_test) = draw(n, rng), draw(n_test, rng)
    one = em_ep(single(), X, y, X_test)
    kernel = multiple(COLUMNS, 0)
    each = em_ep(kernel, X, y, X_test, spread_over_columns(kernel, one.theta))
    return {
        "log_evidence": [one.log_evidence, each.log_evidence],
        "error": [float(np.mean(model.predicted != y_test)) for model in (one, each)],
        "inverse_scales": np.exp(-2.0 * each.theta[1 : 1 + COLUMNS]).tolist(),
    }


def pieces(size: Size) -> Iterable[Piece]:
    """Four times five sets; a smaller one quickly."""
    if size == "quick":
        yield Piece("set 0", learn, {"seed": 0, "n": 100, "n_test": 2000}, cost=4.0)
        return
    for seed in range(4 * DRAWS):
        yield Piece(f"set {seed}", learn, {"seed": seed, "n": 300, "n_test": 10_000}, cost=10.0)


def found(results: Results) -> Mapping[Place, Found | float | bool]:
    """Means over sets, with the deviation of one set from another and the range."""
    sets = list(results.values())
    if not sets:
        return {}
    cells: dict[Place, Found | float | bool] = {}
    for row, key in ((EVIDENCE, "log_evidence"), (ERROR, "error")):
        values = np.array([one[key] for one in sets])
        errors = values.std(axis=0, ddof=1) if len(sets) > 1 else np.zeros(2)
        for j, kind in enumerate(KINDS):
            spread = float(values[:, j].min()), float(values[:, j].max())
            cells[row, kind] = Found(float(values[:, j].mean()), float(errors[j]), spread)
    gains = np.diff([one["log_evidence"] for one in sets])
    spread = float(gains.min()), float(gains.max())
    cells["gain of log evidence by one for each (20.0 in the paper)", KINDS[1]] = Found(
        float(gains.mean()), spread=spread
    )
    scales = np.array([one["inverse_scales"] for one in sets])
    relevant, rest = scales[:, :RELEVANT].mean(axis=1), scales[:, RELEVANT:].mean(axis=1)
    share = float(np.mean(rest < 0.1 * relevant))
    cells[VANISHES, KINDS[1]] = share > 0.5
    cells["part of the sets where they are below a tenth of the relevant ones'", KINDS[1]] = share
    cells["lowest error rate there is", KINDS[1]] = float(ndtr(-np.sqrt(RELEVANT)))
    return cells


SETTINGS: Final = """\
As the paper says: labels -1 and +1; three columns N(y, 1), three N(0, 1); 300 training and 10,000
test rows; EM-EP with one length-scale for all columns, or one for each, from the start of footnote
11 and, with one for each, from where the other ended.

The paper has one training and one test set. Ours are twenty (seeds 0 to 19): the value is their
mean, its error the deviation of one set from another, as the paper has one, and the range that of
the twenty. The lowest error rate of any classifier on this distribution is Phi(-sqrt(3)) = 0.0416.
"""

EXPERIMENT = Experiment(
    name="kg06-2",
    title="One length-scale, or one for each column",
    source="KG06 Table 2",
    settings=SETTINGS,
    published=(
        Published(EVIDENCE, KINDS[0], -55.448, 0.0001),
        Published(EVIDENCE, KINDS[1], -35.4119, 0.0001),
        Published(ERROR, KINDS[0], 0.0928, 0.0001),
        Published(ERROR, KINDS[1], 0.0556, 0.0001),
        Published(VANISHES, KINDS[1], True, where="section 3.5.1"),
    ),
    pieces=pieces,
    found=found,
    remarks={
        "": "the paper's one set may lie outside of the range of twenty.",
        (ERROR, KINDS[0]): "the classes are best divided by a plane, and one long length-scale "
        "for all columns is nearly that: on none of twenty sets is its error above 0.06. An "
        "error of 0.093, with an evidence 20 nats below that of the other model (ours: see the "
        "gain), points to an EM-EP that ended away from the maximum of the evidence, at too "
        "short a length-scale.",
    },
)
