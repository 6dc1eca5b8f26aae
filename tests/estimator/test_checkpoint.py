"""The file of the best hyperparameters so far."""

import json

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from gpclass import GaussianProcessClassifier


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    return X, (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)


def classifier(path, kernel=None, **settings):
    kernel = 1.0 * RBF([1.0, 1.0]) if kernel is None else kernel
    return GaussianProcessClassifier(kernel, checkpoint=path, **settings)


def test_it_has_the_best_so_far(table, tmp_path):
    path = tmp_path / "fit.json"
    model = classifier(path).fit(*table)
    held = json.loads(path.read_text())
    assert held["names"] == ["k1__constant_value", "k2__length_scale[0]", "k2__length_scale[1]"]
    np.testing.assert_allclose(held["theta"], model.kernel_.theta, atol=1e-3)
    assert held["log_evidence"] == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-4)
    assert [one.name for one in tmp_path.iterdir()] == ["fit.json"]


def test_a_fit_that_broke_off_goes_on(table, tmp_path, monkeypatch):
    path = str(tmp_path / "fit.json")
    whole = classifier(path).fit(*table)
    evaluations = whole.optimizer_report_.n_evaluations
    (tmp_path / "fit.json").unlink()
    from gpclass.learning import BinaryProblem

    evaluate, calls = BinaryProblem.evaluate, []

    def break_off(self, *args, **settings):
        calls.append(1)
        if len(calls) == evaluations - 2:
            raise ConnectionError("the cluster is gone")
        return evaluate(self, *args, **settings)

    monkeypatch.setattr(BinaryProblem, "evaluate", break_off)
    with pytest.raises(ConnectionError):
        classifier(path).fit(*table)
    monkeypatch.undo()
    model = classifier(path, warm_start=True).fit(*table)
    assert model.optimizer_report_.n_evaluations < evaluations
    np.testing.assert_allclose(
        model.predict_proba(table[0]), whole.predict_proba(table[0]), atol=1e-3
    )
    # without warm_start the file is not read
    assert classifier(path).fit(*table).optimizer_report_.n_evaluations == evaluations


def test_what_is_refused(table, tmp_path):
    path = tmp_path / "fit.json"
    classifier(path).fit(*table)
    with pytest.raises(ValueError, match="has the hyperparameters k1__constant_value"):
        classifier(path, Matern(1.0), warm_start=True).fit(*table)
    path.write_text("{}")
    with pytest.raises(ValueError, match="cannot be read"):
        classifier(path, warm_start=True).fit(*table)
    with pytest.raises(ValueError, match="there is no folder"):
        classifier(tmp_path / "none" / "fit.json").fit(*table)
    X = table[0]
    with pytest.raises(ValueError, match="3 binary ones"):
        classifier(path, multi_class="one_vs_rest").fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
