"""The figures, tables and exercises of the papers, and our own comparisons: one file each.

Each module of MODULES has an `Experiment` called EXPERIMENT; ``gpclass reproduce`` runs them.
"""

from importlib import import_module
from typing import Final

from gpclass.experiments.form import (
    Experiment,
    Found,
    Piece,
    Place,
    Published,
    Results,
    Size,
    Table,
    Verdict,
    judge,
    panels,
)

__all__ = [
    "Experiment",
    "Found",
    "Piece",
    "Place",
    "Published",
    "Results",
    "Size",
    "Table",
    "Verdict",
    "experiments",
    "judge",
    "panels",
]

# In the order of the summary.
MODULES: Final = (
    "rw06_linear",
    "rw06_sample",
    "rw06_likelihoods",
    "rw06_cavity",
    "rw06_toy",
    "rw06_groups",
    "rw06_digit_surfaces",
    "rw06_averaging",
    "rw06_error_reject",
    "rw06_ten_digits",
    "rw06_annealing",
    "rw06_softmax_regions",
    "b06_regions",
    "kg06_table1",
    "kg06_table2",
    "kg06_table45",
    "kg06_table7",
    "gts19_table1",
    "gts19_example",
    "ljs23",
    "truth_binary",
    "truth_joint",
    "loo_refits",
    "average_truth",
    "average_tables",
    "em_speed",
    "pairs",
)


def experiments() -> dict[str, Experiment]:
    """All experiments by their names.

    Examples
    --------
    >>> from gpclass.experiments import experiments
    >>> experiments()["rw06-3.4"].source
    'RW06 Figure 3.4, section 3.6'
    """
    found = (import_module(f"{__name__}.{module}").EXPERIMENT for module in MODULES)
    return {one.name: one for one in found}
