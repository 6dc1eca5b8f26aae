"""What the explorer shows is what the library computes; its command and its server."""

import socket
import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from gpclass import GaussianProcessClassifier
from gpclass.app.commands import app
from gpclass.app.explorer import figures
from gpclass.app.explorer.serve import is_local, serve
from gpclass.app.explorer.state import PLACES, Explorer, Setting
from gpclass.app.explorer.subjects import KeptDistances, subject
from gpclass.app.model_file import save_model
from gpclass.priors import Dense


@pytest.fixture(scope="module")
def iris():
    return Explorer(subject("iris", positive="versicolor"))


def fitted(values, method, likelihood):
    """The classifier at the explorer's setting of log sigma_f and log l."""
    X, y = load_iris(return_X_y=True)
    kernel = ConstantKernel(np.exp(2 * values[0])) * RBF(np.exp(values[1]))
    model = GaussianProcessClassifier(
        kernel, likelihood=likelihood, inference=method, optimizer=None
    )
    return model.fit(StandardScaler().fit_transform(X), y == 1)


@pytest.mark.parametrize("method", ["laplace", "ep"])
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_numbers_are_the_classifiers_from_a_warm_start_as_well(iris, method, likelihood):
    for values in ((1.0, 0.7), (1.05, 0.7), (3.0, -0.5)):
        shown = iris.at(Setting(values, method, likelihood))
        model = fitted(values, method, likelihood)
        assert shown.log_evidence == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-5)
        np.testing.assert_allclose(shown.positive, model.loo_proba_[:, 1], atol=1e-5)
        wrong = model.loo_proba_.argmax(axis=1) != model.y_train_
        assert shown.errors == wrong.sum()
        assert shown.curve.error_rate[0] == wrong.mean()


def test_test_rows_are_predicted_by_the_kept_distances():
    digits = subject("digits", positive="8")
    values = tuple(one.start for one in digits.parameters)
    shown = Explorer(digits).at(Setting(values, "laplace", "probit"))
    model = GaussianProcessClassifier(
        shown.problem.kernel, inference="laplace", optimizer=None
    ).fit(shown.problem.X, shown.problem.y)
    np.testing.assert_allclose(
        shown.positive, model.predict_proba(digits.X_new)[:, 1], rtol=0, atol=1e-6
    )
    assert len(shown.labels) == len(digits.X_new) == 800
    drawn = figures.pictures(digits, shown)
    least = np.abs(shown.positive - 0.5).min()
    assert drawn[0][1].endswith(f"P(8) = {shown.positive[shown.least_certain(1)[0]]:.2f}")
    assert np.abs(shown.positive[shown.least_certain(1)[0]] - 0.5) == least
    assert drawn[0][0].startswith("data:image/png;base64,")


def test_kept_distances_are_the_kernels_matrix(iris):
    problem = iris.subject.problem
    X_new = problem.X[:7] + 0.1
    kept = KeptDistances.of(problem.X, X_new)
    for jitter in (0.0, 0.5):
        own = Dense().make(problem.kernel, problem.X, jitter)
        np.testing.assert_allclose(kept.make(problem.kernel, problem.X, jitter).K, own.K)
    for rows in (X_new, X_new[:2]):
        for ours, exact in zip(
            kept.cross(problem.kernel, problem.X, rows),
            Dense().cross(problem.kernel, problem.X, rows),
            strict=True,
        ):
            np.testing.assert_allclose(ours, exact, atol=1e-12)


def test_surface_and_plane_are_the_library_at_their_points(iris):
    setting = Setting((1.0, 0.7), "laplace", "probit")
    surface = iris.surface(setting)
    for row, place in ((0, 0), (4, 4), (3, 8)):
        values = np.empty(2)
        values[list(PLACES)] = surface.x[place], surface.y[row]
        exact = iris.at(Setting(tuple(values), "laplace", "probit")).log_evidence
        assert surface.values[row, place] == pytest.approx(exact, abs=1e-6)
    shown = iris.at(setting)
    x, y, mean = shown.plane(2, 3)
    point = np.median(shown.problem.X, axis=0)
    point[[2, 3]] = x[5], y[20]
    # the classifier gives a latent value to each class, of which the difference is the one here
    latent = fitted((1.0, 0.7), "laplace", "probit").predict_latent(point[None])[0][0]
    assert mean[20, 5] == pytest.approx(latent[1] - latent[0], abs=1e-6)


def test_a_fitted_model_has_a_slider_for_each_hyperparameter(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    kernel = 2.0 * RBF([1.0, 2.0])
    model = GaussianProcessClassifier(kernel, inference="laplace", optimizer=None)
    model.fit(StandardScaler().fit_transform(X[:80, :2]), y[:80])
    path = tmp_path / "model.skops"
    save_model(model, "target", path)
    found = subject(str(path))
    labels = [one.label for one in found.parameters]
    assert labels[0] == "log variance of the smooth part"
    assert labels[1:] == [f"log length-scale of column {j}" for j in range(2)]
    values = (0.5, 0.1, 1.2)
    shown = Explorer(found).at(Setting(values, "ep", "logit"))
    model.set_params(inference="ep", likelihood="logit").fit(model.X_train_, y[:80])
    assert shown.log_evidence == pytest.approx(
        model.log_marginal_likelihood(np.array(values)), abs=1e-5
    )


def test_a_model_of_many_classes_is_refused(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = GaussianProcessClassifier(RBF(1.0), optimizer=None, inference="laplace").fit(X, y)
    path = tmp_path / "model.skops"
    save_model(model, "target", path)
    with pytest.raises(ValueError, match="one_vs_rest"):
        subject(str(path))


def test_mistakes_of_the_command_are_named(monkeypatch, tmp_path):
    pytest.importorskip("dash")
    table = tmp_path / "text.csv"
    table.write_text("a,b\n" + "\n".join(f"{'uv'[i % 2]},{'xy'[i // 5]}" for i in range(10)))
    for arguments, words in (
        (["iris", "--class", "rose"], "--class rose is none of the classes setosa"),
        ([str(table), "--target", "b"], "columns of text or with gaps"),
    ):
        error = CliRunner().invoke(app, ["explore", *arguments]).exception
        assert isinstance(error, ValueError)
        assert words in str(error)
    monkeypatch.setitem(sys.modules, "dash", None)
    error = CliRunner().invoke(app, ["explore", "iris"]).exception
    assert isinstance(error, ImportError)
    assert "pip install 'gpclass[explorer]'" in str(error)


def test_a_port_in_use_is_an_os_error():
    pytest.importorskip("werkzeug")
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        serve(None, port=taken.getsockname()[1])


def test_only_loopback_addresses_are_local():
    assert [is_local(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "pc")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_a_method_that_cannot_use_the_likelihood_says_so(iris):
    with pytest.raises(ValueError, match="cannot use"):
        iris.at(Setting((1.0, 0.7), "laplace", "threshold"))
