"""What a fitted classifier says: its summary, log probabilities, iterations, representations."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.gaussian_process.tests._mini_sequence_kernel import MiniSeqKernel

from gpclass import GaussianProcessClassifier
from gpclass.estimator import prediction
from gpclass.estimator.decomposition import OneVsRest
from gpclass.kernels import ColumnKernel, MixedRBF
from gpclass.montecarlo import MonteCarlo

RNG = np.random.default_rng(2)
X = RNG.standard_normal((60, 2))
Y = np.where(X[:, 0] + 0.3 * RNG.standard_normal(60) > 0.2, "ill", "well")
CLASSES = np.digitize(X[:, 0], [-0.5, 0.5])
NEW = RNG.standard_normal((20, 2))
FRAME = pd.DataFrame(
    {"age": 10.0 * X[:, 0] + 40.0, "town": RNG.integers(3, size=60), "id": np.arange(60)}
)


def gpc(kernel=None, **settings):
    return GaussianProcessClassifier(kernel, **{"inference": "laplace", **settings})


# ------------------------------------------------------------------------------------ summary


def test_a_summary_says_what_was_learnt():
    kernel = ConstantKernel(4.0) * MixedRBF([10.0, 1e5], "town", 0.5) + ColumnKernel(
        "age", RBF(2e3)
    )
    model = gpc(kernel, optimizer=None).fit(FRAME, Y)
    lines = model.summary().splitlines()
    evidence = model.log_marginal_likelihood_value_
    share = np.mean(Y == "ill")
    alone = share * np.log(share) + (1 - share) * np.log(1 - share)
    probabilities = model.predict_proba(FRAME).max(axis=1)
    relative = 10.0 / FRAME["age"].std(ddof=0)
    assert lines == [
        f"60 rows of 3 columns: ill ({np.sum(Y == 'ill')}), well ({np.sum(Y == 'well')})",
        "inference: Laplace, CONVERGED; hyperparameters not learnt",
        f"log evidence: {evidence:.2f} nats, {evidence / 60:.3f} a row (class frequencies alone: "
        f"{alone:.3f})",
        f"kernel: {model.kernel_}",
        "length-scales in deviations of the column (a short one bends, and need not matter most):",
        "  town      0.5  another level multiplies the covariance by 0.14",
        f"  age   {relative:>7.3g}  gently curved",
        "  do not matter: id, age",
        f"on 60 training rows: a probability above 0.9 in {np.mean(probabilities > 0.9):.0%}, the "
        f"most probable class right in {model.score(FRAME, Y):.0%}",
    ]


def test_the_levels_of_a_category_have_one_line():
    rng = np.random.default_rng(0)
    town = np.array(["Bonn", "Linz", None, "Chur"], dtype=object)[rng.integers(0, 4, 60)]
    X = np.column_stack([rng.standard_normal(60).astype(object), town])
    model = GaussianProcessClassifier(inference="laplace").fit(X, town == "Bonn")
    assert model.summary().count("x1") == 1
    assert len(model.kernel_.k1.k1.k2.kernel.theta) == 2
    assert model.kernel_.k1.k1.k2.shared == [0, 1, 1, 1, 1]


def test_a_summary_of_learning_and_of_several_problems():
    learnt = gpc(1.0 * RBF([1.0, 1.0])).fit(X, Y)
    text = learnt.summary()
    assert f"learnt in {learnt.optimizer_report_.n_evaluations} evaluations" in text
    assert re.search(r"^  column 0 +[\d.]+  ", text, re.MULTILINE)
    rest = gpc(RBF(1.0), multi_class="one_vs_rest", optimizer=None).fit(X, CLASSES)
    assert "the mean over 3 binary problems" in rest.summary()
    assert "kernel 3: RBF(length_scale=1)" in rest.summary()
    joint = gpc(1.0 * RBF(1.0), optimizer=None).fit(X, CLASSES)
    assert joint.summary().count("\n") == 4
    pairs = gpc([RBF(1.0)] * 3, optimizer=None).fit(X, CLASSES, sample_weight=2.0 * (X[:, 1] < 1))
    assert "kernel 3: " in pairs.summary()
    assert "frequencies" not in pairs.summary()


@pytest.mark.parametrize("diagonal", ["constant", "varies"])
def test_a_summary_of_a_covariance_matrix(diagonal):
    K = RBF(1.0)(X) + (np.diag(np.arange(60.0) / 60.0) if diagonal == "varies" else 0.0)
    text = gpc("precomputed").fit(K, Y).summary()
    assert "kernel: Precomputed()" in text
    assert "on 60 training rows" in text
    assert "that matter" not in text


def test_a_summary_of_objects():
    words = ["AB", "AAB", "BB", "BAB", "A", "AAA"]
    text = gpc(MiniSeqKernel(0.5, "fixed")).fit(words, [0, 0, 1, 1, 0, 0]).summary()
    assert text.startswith("6 rows: 0 (4), 1 (2)")


def test_nothing_is_said_before_a_fit():
    for read in (lambda m: m.summary(), lambda m: m.predict_log_proba(X), lambda m: m.kernel_):
        with pytest.raises(NotFittedError):
            read(gpc())


# -------------------------------------------------------------------- log probabilities and more


@pytest.mark.parametrize("multi_class", ["two", "joint", "one_vs_rest", "one_vs_one"])
def test_log_probabilities(multi_class):
    two = multi_class == "two"
    settings = {} if two else {"multi_class": multi_class}
    model = gpc(9.0 * RBF(1.0), optimizer=None, **settings).fit(X, Y if two else CLASSES)
    log_p = model.predict_log_proba(NEW)
    np.testing.assert_allclose(np.exp(log_p), model.predict_proba(NEW), rtol=1e-12)
    scores = model.decision_function(NEW)
    np.testing.assert_array_equal(scores, log_p[:, 1] - log_p[:, 0] if two else log_p)


def test_log_probabilities_keep_what_underflows():
    # P(c or not) of three classes, two of which are below the smallest float64
    log_pairs = np.array([[[-1e-9, -800.0]], [[-1e-9, -900.0]], [[-2.0, -0.145]]])
    log_p = prediction.log_combined([None], OneVsRest(), 3, log_pairs)
    np.testing.assert_allclose(log_p, [[-800.0 + 0.145, -900.0 + 0.145, 0.0]], rtol=1e-12)
    log_p = prediction.log_combined([None], OneVsRest(), 2, log_pairs[:1])
    np.testing.assert_array_equal(log_p, log_pairs[0])


def test_iterations_are_evaluations_of_the_evidence():
    for y, settings in ((Y, {}), (CLASSES, {"multi_class": "one_vs_rest"})):
        model = gpc(n_restarts_optimizer=1, random_state=0, **settings).fit(X, y)
        runs = model.optimizer_report_.runs
        assert model.n_iter_ == max(one.run.n_evaluations for one in runs) > 1
    fixed = gpc(9.0 * RBF(1.0), optimizer=None).fit(X, Y)
    assert fixed.n_iter_ == fixed.models_[0].n_iter > 1


@pytest.mark.parametrize("inference", ["laplace", "ep", "pl", "vi", "bound"])
def test_approximations_print_one_line(inference):
    likelihood = "logit" if inference in ("laplace", "bound") else "probit"
    model = gpc(RBF(1.0), inference=inference, likelihood=likelihood, optimizer=None).fit(X, Y)
    q = model.approximation_
    assert repr(q) == (
        f"{type(q).__name__}({q.outcome.name}, log_evidence={q.log_evidence:.6g}, n_sites=60)"
    )
    if inference in ("laplace", "ep", "pl"):
        settings = {"inference": inference, "optimizer": None}
        joint = repr(gpc(RBF(1.0), **settings).fit(X, CLASSES).approximation_)
        assert re.fullmatch(r"\w+Approximation\(\w+, log_evidence=-[\d.]+, n_sites=\d+\)", joint)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_samples_print_one_line():
    sampler = MonteCarlo(20, 5, 4, thin=1, n_temperatures=5, n_annealed=4)
    model = gpc(RBF(1.0), inference=sampler, optimizer=None).fit(X, Y)
    assert repr(model.approximation_).startswith("MonteCarloApproximation(SHORT_CHAINS, log_evid")
