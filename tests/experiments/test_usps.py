"""The experiments on the USPS digits: pieces against values that are known, and quick runs."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from gpclass import GaussianProcessClassifier
from gpclass.app.reproduce import load
from gpclass.decision import error_reject_curve
from gpclass.experiments import experiments, usps
from gpclass.experiments.linear_softmax import LinearSoftmax
from gpclass.experiments.runner import run
from gpclass.experiments.rw06_error_reject import RejectCurve, platt
from gpclass.inference import Laplace
from gpclass.inference.joint import Softmax
from gpclass.learning import JointProblem
from gpclass.likelihoods import Logit
from gpclass.likelihoods.probabilities.gaussian import softmax_probabilities
from gpclass.metrics import information_bits
from helpers import folder


@pytest.fixture(scope="module")
def table():
    folder("GPCLASS_DATA")
    return load("usps")


@pytest.mark.parametrize("name", ["rw06-3.9", "rw06-3.10", "rw06-3.13"])
def test_the_quick_size_gives_every_cell(name, tmp_path):
    folder("GPCLASS_DATA")
    (one,) = run([experiments()[name]], "quick", load, tmp_path, lambda _: None)
    cells = one.experiment.found(one.results)
    assert {(cell.row, cell.column) for cell in one.experiment.published} <= set(cells)


def made_up(experiment, result):
    return {piece.name: result(piece.name, piece.arguments) for piece in experiment.pieces("full")}


def test_cells_of_the_annealing():
    """Evidence with its maximum at 3.1, 3.6; EP is right to 0.2, Laplace is off by log sigma_f."""

    def result(name, arguments):
        u, v = arguments["theta"]
        truth = -90.0 - 10.0 * ((u - 3.1) ** 2 + (v - 3.6) ** 2)
        found = {"log_evidence": truth, "error": 0.1, "bits": 0.5, "effective_chains": 50.0}
        gaps = {"ep": -0.2, "laplace": -4.0 - v, "pl": 0.1, "vi": -1.0}
        methods = {m: {"log_evidence": truth + gap, "bits": 0.4} for m, gap in gaps.items()}
        return found if name.startswith("from") else found | methods

    experiment = experiments()["rw06-3.12"]
    results = made_up(experiment, result)
    cells = experiment.found(results)
    grid = "AIS, over the grid"
    assert cells[grid, "log l of the largest evidence"] == 3.1
    assert cells[grid, "log σ_f of the largest evidence"] == 3.6
    assert cells["Laplace, over the grid", "largest"] == pytest.approx(9.1)
    assert all(cells[cell.row, cell.column] for cell in experiment.published)
    assert len(experiment.figures(results)) == 2
    # a setting is missing: no values over the grid, and no figure of them
    some = {name: one for name, one in results.items() if name != "2.1 0.6"}
    assert (grid, "largest standard error") not in experiment.found(some)
    assert experiment.figures(some) == {}


def test_cells_of_the_ten_digits():
    """Evidence largest in the middle, fewest errors at the shortest l, most bits in the middle."""

    def result(name, arguments):
        found = {"log_evidence": -1000.0, "error": 3.0, "bits": 2.7, "log_loss": 0.4}
        if name.startswith("SVM"):
            return {"cv_error": abs(arguments["length"] - 3.5), "error": arguments["C"]}
        if "grid" in name:
            u, v = arguments["theta"]
            away = (u - 2.35) ** 2 + (v - 2.6) ** 2
            return found | {"log_evidence": -1000.0 - away, "error": u, "bits": 2.7 - away}
        return found | {"pi": 0.9, "theta": 0.5}

    experiment = experiments()["rw06-3.11"]
    results = made_up(experiment, result)
    cells = experiment.found(results)
    assert {(cell.row, cell.column) for cell in experiment.published} <= set(cells)
    grid = "softmax, Laplace, largest evidence on the grid"
    assert (cells[grid, "log l"], cells[grid, "log σ_f"]) == (2.35, 2.6)
    assert (cells["SVM", "C"], cells["SVM", "l"], cells["SVM", "error (%)"]) == (1.0, 3.5, 1.0)
    assert [value for (row, _), value in cells.items() if row.startswith("the fewest")] == [True]
    assert len(experiment.figures(results)) == 1


def test_rows_are_those_of_the_book(table):
    data = usps.Digits.of(table)
    assert data.X.shape == (767, 256)
    assert data.counts.tolist() == [361, 406]
    assert [(data.y_test == label).sum() for label in (-1, 1)] == [355, 418]
    # RW06 eq. 3.76: what certain and right predictions have
    assert usps.bits_of(data, (data.y_test > 0).astype(float)) == pytest.approx(0.9956, abs=5e-5)
    assert usps.Digits.ten(table, 24).X_test.shape == (194, 256)


def test_a_setting_is_that_of_the_classifier(table):
    data = usps.Digits.of(table, 16)
    theta = (2.6, 1.5)
    kernel = ConstantKernel(np.exp(2 * theta[1])) * RBF(np.exp(theta[0]))
    for method in ("laplace", "ep"):
        model = GaussianProcessClassifier(kernel, inference=method, optimizer=None)
        model.fit(data.X, data.y)
        found = usps.predictions(table, method=method, theta=theta, step=16)
        judge = model.predict_proba(data.X_test)[:, 1]
        assert found["log_evidence"] == pytest.approx(model.log_marginal_likelihood_value_)
        np.testing.assert_allclose(found["positive"], judge, rtol=1e-6)
        assert found["errors"] == (model.predict(data.X_test) != data.y_test).sum()


def test_a_column_is_settings_one_by_one(table):
    column = usps.column(table, method="ep", log_length=2.6, log_deviations=(0.0, 2.0), step=16)
    for i, v in enumerate((0.0, 2.0)):
        alone = usps.predictions(table, method="ep", theta=(2.6, v), step=16)
        for key in ("log_evidence", "bits", "errors"):
            assert column[key][i] == pytest.approx(alone[key], rel=1e-6)
    assert column["range"] == pytest.approx([min(alone["positive"]), max(alone["positive"])])


def test_a_surface_knows_its_best_point():
    columns = [
        {"log_evidence": [-3.0, -1.0], "bits": [0.1, 0.2], "errors": [5, 4]},
        {"log_evidence": [-2.0, -4.0], "bits": [0.3, 0.0], "errors": [3, 6]},
    ]
    surface = usps.Surface.of((1.0, 2.0), (0.0, 0.5), columns)
    assert surface.best == (1, 0)
    assert surface.near((1.9, 0.1)) == (0, 1)
    assert surface.bits[surface.near((1.9, 0.1))] == 0.3


def test_reject_curves_are_those_of_decision():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=40)
    labels = np.where(rng.uniform(size=40) < p, 1, -1)
    curve = RejectCurve.of({"positive": p}, labels, 0.5)
    known = error_reject_curve(labels, p)
    np.testing.assert_allclose(curve.error_rate[::-1], known.error_rate)
    np.testing.assert_allclose(curve.rejected[::-1], known.reject_fraction, atol=1e-12)
    judge = information_bits(labels, p, baseline=[1, 1])
    assert curve.bits[-1] == pytest.approx(judge)
    assert curve.error_at(0.0) == curve.error_rate[-1]
    by_distance = RejectCurve.of({"positive": p, "certainty": -np.arange(40.0)}, labels, 0.5)
    assert by_distance.error_rate[0] == float((p[0] > 0.5) != (labels[0] > 0))


def test_platt_finds_the_line_that_made_the_labels():
    rng = np.random.default_rng(0)
    outputs = rng.normal(size=20_000)
    labels = np.where(2.0 * outputs - 0.5 + rng.normal(size=len(outputs)) > 0, 1, -1)
    np.testing.assert_allclose(platt(outputs, labels), (2.0, -0.5), atol=0.06)


def test_the_linear_softmax_is_the_process_with_a_linear_kernel():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(40, 3)), rng.integers(0, 3, 40)
    theta, new = 0.7, rng.normal(size=(6, 3))
    kernel = ConstantKernel(theta**2) * DotProduct(1.0, "fixed")
    problem = JointProblem(kernel, X, codes, 3, Softmax(), Logit(), Laplace())
    judge = problem.evaluate(problem.theta, gradient=False)
    model = LinearSoftmax.at(theta, X, codes)
    assert model.log_evidence == pytest.approx(judge.log_evidence, rel=1e-8)
    latent = judge.approximation.posterior.predict(*problem.cross(new))
    np.testing.assert_allclose(model.probabilities(new), softmax_probabilities(*latent), atol=1e-4)


def test_the_linear_softmax_learns_its_width():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 2))
    codes = (X @ rng.normal(size=(2, 3)) + 0.5 * rng.normal(size=(120, 3))).argmax(axis=1)
    theta, model = LinearSoftmax.learnt(X, codes)
    for other in (0.8 * theta, 1.25 * theta):
        assert LinearSoftmax.at(other, X, codes).log_evidence < model.log_evidence
