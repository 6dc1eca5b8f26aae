"""Settings of likelihood and inference as parameters of the estimator."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GaussianProcessClassifier
from gpclass.inference import EP, METHODS, Laplace
from gpclass.likelihoods import NoisyThreshold
from gpclass.montecarlo import MonteCarlo

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))
Y = (X[:, 0] + 0.5 * RNG.standard_normal(40) > 0).astype(int)


@pytest.mark.parametrize("name", [*METHODS, "mcmc"])
def test_a_named_inference_lists_its_settings(name):
    model = GaussianProcessClassifier(inference=name, max_iter_predict=70, random_state=3)
    listed = {k: v for k, v in model.get_params().items() if k.startswith("inference__")}
    if name == "mcmc":
        assert listed["inference__random_state"] == 3
        assert listed["inference__n_samples"] == MonteCarlo().n_samples
    else:
        assert listed["inference__max_iter"] == 70
        assert listed["inference__tol"] == METHODS[name]().tol
    assert not any("__" in key for key in model.get_params(deep=False))
    # what is listed may be set, and is what a name means
    assert model.set_params(**model.get_params()).inference == name


def test_a_setting_turns_a_name_into_an_object():
    model = GaussianProcessClassifier(max_iter_predict=70)
    assert model.set_params(inference__schedule="sequential") is model
    assert model.inference == EP(max_iter=70, schedule="sequential")
    assert model.get_params()["inference__schedule"] == "sequential"
    assert clone(model).inference == model.inference
    assert model.fit(X, Y).models_[0].problem.inference == model.inference
    model.set_params(inference=Laplace(), max_iter_predict=100, inference__tol=1e-8)
    assert model.inference == Laplace(tol=1e-8)
    both = GaussianProcessClassifier().set_params(inference__tol=1e-6, likelihood="threshold")
    both.set_params(likelihood__epsilon=0.2)
    assert (both.inference, both.likelihood) == (EP(tol=1e-6), NoisyThreshold(0.2))


@pytest.mark.parametrize(
    ("inference", "settings", "words"),
    [
        ("ep", {"inference__step": 1}, r"the inference EP\(.* has no settings \['step'\]; it has"),
        ("ep", {"inference__schedule": "best"}, "schedule must be one of"),
        ("eep", {"inference__tol": 1.0}, "inference='eep' does not exist; the values that do are"),
        (Laplace(), {"inference__schedule": "parallel"}, r"no settings \['schedule'\]"),
        (print, {"inference__tol": 1.0}, r"no settings \['tol'\]; it has \[\]"),
    ],
)
def test_settings_that_do_not_exist(inference, settings, words):
    model = GaussianProcessClassifier(inference=inference)
    with pytest.raises(ValueError, match=words):
        model.set_params(**settings)
    assert model.inference is inference


def test_what_does_not_exist_is_refused_by_fit_and_not_by_get_params():
    for inference in ("eep", EP, 3, None):
        model = GaussianProcessClassifier(inference=inference)
        assert not any(key.startswith("inference__") for key in model.get_params())
        with pytest.raises((ValueError, TypeError), match="inference"):
            model.fit(X, Y)


@pytest.mark.slow
def test_a_grid_search_over_settings():
    model = GaussianProcessClassifier(RBF(1.0), likelihood="threshold", optimizer=None)
    grid = {
        "gp__inference__schedule": ["parallel", "sequential"],
        "gp__likelihood__epsilon": [1e-6, 0.1],
    }
    pipeline = Pipeline([("scale", StandardScaler()), ("gp", model)])
    search = GridSearchCV(pipeline, grid, cv=3, scoring="neg_log_loss").fit(X, Y)
    assert search.best_params_["gp__likelihood__epsilon"] == 0.1
    best = search.best_estimator_.get_params()
    assert {key: best[key] for key in grid} == search.best_params_
