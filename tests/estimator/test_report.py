"""The report of the optimiser, as a table."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from gpclass.estimator.report import OptimizerReport, ReportedRun
from gpclass.learning import LearningRun
from gpclass.learning.hyperparameters import parameter_names


def run(end, log_evidence, n_evaluations, at_bounds=()):
    trace = (log_evidence,) * n_evaluations
    end, path = np.array(end), np.zeros((n_evaluations, 2))
    return LearningRun(
        np.zeros(2), end, log_evidence, n_evaluations, 0, "done", trace, at_bounds, path
    )


def test_names_are_those_of_get_params():
    kernel = ConstantKernel(2.0) * RBF([1.0, 2.0, 3.0]) + WhiteKernel(0.1)
    names = parameter_names(kernel)
    assert names == (
        "k1__k1__constant_value",
        "k1__k2__length_scale[0]",
        "k1__k2__length_scale[1]",
        "k1__k2__length_scale[2]",
        "k2__noise_level",
    )
    assert {name.split("[")[0] for name in names} <= set(kernel.get_params())


@pytest.mark.parametrize(
    ("kernel", "names"),
    [
        (ConstantKernel(2.0, "fixed") * RBF(1.0), ("k2__length_scale",)),
        (RBF([1.0, 2.0], "fixed"), ()),
        (RBF([1.0]), ("length_scale",)),
    ],
)
def test_a_name_for_each_entry_of_theta(kernel, names):
    assert parameter_names(kernel) == names
    assert len(names) == len(kernel.theta)


def test_rows_are_on_the_scale_of_the_kernel():
    report = OptimizerReport(
        ("a", "b"),
        (
            ReportedRun("one", run(np.log([2.0, 5.0]), -3.0, 4, (1,)), ("a", "b")),
            ReportedRun("two", run(np.log([1.0, 0.5]), -4.0, 6), ("a", "b")),
        ),
    )
    assert report.n_evaluations == 10
    first, second = report.to_rows()
    assert first["problem"] == "one"
    assert first["start"] == {"a": 1.0, "b": 1.0}
    assert first["end"] == pytest.approx({"a": 2.0, "b": 5.0})
    assert first["at_bounds"] == ["b"]
    assert first["log_evidence"] == -3.0
    assert first["n_evaluations"] == 4
    assert first["n_rejected"] == 0
    assert first["message"] == "done"
    assert second["at_bounds"] == []


def test_no_runs_where_nothing_was_learnt():
    report = OptimizerReport((), ())
    assert report.n_evaluations == 0
    assert report.to_rows() == []
