"""What the explorer shows is what the library computes; its command and its server."""

import socket
import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from gpclass import GaussianProcessClassifier
from gpclass.app.commands import app
from gpclass.app.explorer import figures, state
from gpclass.app.explorer.serve import is_local, serve
from gpclass.app.explorer.state import PLACES, Explorer, Setting
from gpclass.app.explorer.subjects import KeptDistances, families, subject
from gpclass.app.model_file import save_model
from gpclass.likelihoods import NoisyThreshold
from gpclass.priors import Dense


@pytest.fixture(scope="module")
def iris():
    return Explorer(subject("iris", positive="versicolor"))


@pytest.fixture(scope="module")
def three():
    return Explorer(subject("iris"))


def at(values, method="laplace", likelihood="probit", epsilon=0.01):
    """A setting of the kernel's sliders and that of the noisy threshold."""
    return Setting((*values, float(np.log(epsilon))), method, likelihood)


def fitted(values, method, likelihood, joint=False, epsilon=0.01):
    """The classifier at the explorer's setting of log sigma_f and log l."""
    X, y = load_iris(return_X_y=True)
    kernel = ConstantKernel(np.exp(2 * values[0])) * RBF(np.exp(values[1]))
    if likelihood == "threshold":
        likelihood = NoisyThreshold(epsilon)
    model = GaussianProcessClassifier(
        kernel, likelihood=likelihood, inference=method, optimizer=None
    )
    return model.fit(StandardScaler().fit_transform(X), y if joint else y == 1)


@pytest.mark.parametrize("method", ["laplace", "ep"])
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_numbers_are_the_classifiers_from_a_warm_start_as_well(iris, method, likelihood):
    for values in ((1.0, 0.7), (1.05, 0.7), (3.0, -0.5)):
        shown = iris.at(at(values, method, likelihood))
        equals(shown, fitted(values, method, likelihood))


def equals(shown, model):
    """The numbers are those of a fitted classifier."""
    assert shown.log_evidence == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-5)
    np.testing.assert_allclose(shown.P, model.loo_proba_, rtol=0, atol=1e-5)
    wrong = model.loo_proba_.argmax(axis=1) != model.y_train_
    assert shown.errors == wrong.sum()
    assert shown.curve.error_rate[0] == wrong.mean()


@pytest.mark.parametrize(
    ("method", "likelihood"),
    [("laplace", "probit"), ("laplace", "logit"), ("ep", "probit"), ("vi", "logit")],
)
def test_three_classes_are_the_joint_model_that_the_classifier_takes(three, method, likelihood):
    assert three.subject.classes == ("setosa", "versicolor", "virginica")
    for values in ((1.0, 0.7), (1.05, 0.7), (2.0, 0.1)):
        shown = three.at(at(values, method, likelihood))
        model = fitted(values, method, likelihood, joint=True)
        equals(shown, model)
    X = model.X_train_
    x, y, mean = shown.plane(2, 3, 2)
    point = np.median(X, axis=0)
    point[[2, 3]] = x[5], y[20]
    assert mean[20, 5] == pytest.approx(model.predict_latent(point[None])[0][0, 2], abs=1e-6)
    bars = figures.probabilities(three.subject, shown, 2)["data"]
    assert [bar["name"] for bar in bars] == ["other classes", "virginica"]
    assert [sum(bar["y"]) for bar in bars] == [100, 50]


def test_the_likelihoods_hyperparameter_is_moved(iris, three, monkeypatch):
    monkeypatch.setattr(state, "SURFACE_POINTS", 2)
    labels = [one.label for one in iris.subject.parameters]
    assert labels[2] == "log epsilon of the threshold likelihood"
    for explorer, joint in ((iris, False), (three, True)):
        for epsilon in (0.01, 0.05):
            shown = explorer.at(at((1.0, 0.7), "pl", "threshold", epsilon))
            equals(shown, fitted((1.0, 0.7), "pl", "threshold", joint, epsilon))
    surface = iris.surface(at((1.0, 0.7), "pl", "threshold", 0.05))
    exact = iris.at(at((surface.y[0], surface.x[1]), "pl", "threshold", 0.05)).log_evidence
    assert surface.values[0, 1] == pytest.approx(exact, abs=1e-4)


def test_test_rows_are_predicted_by_the_kept_distances():
    digits = subject("digits", positive="8")
    values = tuple(one.start for one in digits.parameters)
    shown = Explorer(digits).at(Setting(values, "laplace", "probit"))
    model = GaussianProcessClassifier(
        shown.problem.kernel, inference="laplace", optimizer=None
    ).fit(shown.problem.X, shown.problem.y)
    np.testing.assert_allclose(shown.P, model.predict_proba(digits.X_new), rtol=0, atol=1e-6)
    assert len(shown.codes) == len(digits.X_new) == 800
    # two latents that differ by the one here
    latent = model.predict_latent(digits.X_new)[0]
    np.testing.assert_allclose(shown.means[:, 1], latent[:, 1] - latent[:, 0], atol=1e-5)
    bars = figures.means(digits, shown)["data"]
    assert [bar["name"] for bar in bars] == ["not 8", "8"]
    assert [sum(bar["y"]) for bar in bars] == np.bincount(shown.codes).tolist()
    drawn = figures.pictures(digits, shown)
    least = shown.P[shown.least_certain(1)[0]].max()
    assert least == shown.P.max(axis=1).min()
    assert drawn[0][1].endswith(f"= {least:.2f}")
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
    setting = at((1.0, 0.7))
    surface = iris.surface(setting)
    for row, place in ((0, 0), (4, 4), (3, 8)):
        values = np.empty(2)
        values[list(PLACES)] = surface.x[place], surface.y[row]
        exact = iris.at(at(values)).log_evidence
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
    assert labels[1:3] == [f"log length-scale of column {j}" for j in range(2)]
    values = (0.5, 0.1, 1.2)
    shown = Explorer(found).at(at(values, "ep", "logit"))
    model.set_params(inference="ep", likelihood="logit").fit(model.X_train_, y[:80])
    assert shown.log_evidence == pytest.approx(
        model.log_marginal_likelihood(np.array(values)), abs=1e-5
    )


def saved(tmp_path, kernel, **given):
    """A classifier of iris, and its subject."""
    X, y = load_iris(return_X_y=True)
    model = GaussianProcessClassifier(kernel, optimizer=None, **given).fit(X[::3], y[::3])
    save_model(model, "target", tmp_path / "model.skops")
    return model, str(tmp_path / "model.skops")


@pytest.mark.parametrize(
    "given",
    [
        {"inference": "laplace"},
        {"inference": "ep"},
        {"inference": "ep", "multi_class": "differences"},
        {"inference": "pl", "likelihood": NoisyThreshold(0.03)},
    ],
)
def test_a_fitted_joint_model_starts_where_it_was_fitted(tmp_path, given):
    one = 2.0 * RBF(1.5)
    model, path = saved(tmp_path, [one, one + WhiteKernel(0.1), DotProduct(1.0)], **given)
    found = subject(path)
    # each class's kernel, and the likelihood's epsilon
    assert len(found.parameters) == 2 + 3 + 1 + 1
    assert found.parameters[-1].start == pytest.approx(
        np.log(model.likelihood_.epsilon if "likelihood" in given else 0.01), abs=1e-3
    )
    start = tuple(one.start for one in found.parameters)
    method, likelihood = families(found.problem)
    assert likelihood == ("threshold" if "likelihood" in given else "probit")
    shown = Explorer(found).at(Setting(start, method, likelihood))
    assert shown.log_evidence == pytest.approx(model.log_marginal_likelihood_value_, abs=2e-3)
    np.testing.assert_allclose(shown.P, model.loo_proba_, rtol=0, atol=1e-3)
    # moved to the joint model of another method, as the classifier has it
    model.set_params(inference="laplace", likelihood="logit").fit(*training(model))
    shown = Explorer(found).at(Setting(start, "laplace", "logit"))
    assert shown.log_evidence == pytest.approx(model.log_marginal_likelihood_value_, abs=2e-3)
    with pytest.raises(ValueError, match="one model of all 3 classes"):
        subject(path, positive="2")


def training(model):
    return model.X_train_, model.y_train_


def test_a_model_of_each_class_is_one_against_the_rest(tmp_path):
    model, path = saved(tmp_path, 2.0 * RBF(1.5), multi_class="one_vs_rest")
    found = subject(path, positive="1")
    assert found.classes == ("not 1", "1")
    shown = Explorer(found).at(Setting(tuple(p.start for p in found.parameters), "ep", "probit"))
    assert shown.log_evidence == pytest.approx(model.models_[1].log_evidence, abs=2e-3)


def test_a_model_of_pairs_is_refused(tmp_path):
    _, path = saved(tmp_path, RBF(1.0), multi_class="one_vs_one")
    with pytest.raises(ValueError, match="each pair of its 3 classes"):
        subject(path)


def test_of_two_classes_either_is_the_positive_one():
    first, last = (subject("breast_cancer", positive=name) for name in ("benign", None))
    assert first.classes == last.classes[::-1]
    np.testing.assert_array_equal(first.codes, 1 - last.codes)


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
        iris.at(at((1.0, 0.7), "laplace", "threshold"))


def test_three_classes_have_no_joint_model_of_every_pair(three):
    with pytest.raises(ValueError, match="softmax"):
        three.at(at((1.0, 0.7), "laplace", "threshold"))
