"""Many classes as one model, through the estimator."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, WhiteKernel

from gpclass import GaussianProcessClassifier
from gpclass.inference import EP, Laplace, PosteriorLinearisation
from gpclass.likelihoods import Likelihood, Logit, NoisyThreshold, Probit
from gpclass.montecarlo import MonteCarlo

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 2))
Y = np.digitize(X[:, 0] + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=40), [-0.5, 0.5])
X_NEW = RNG.normal(size=(15, 2))
KERNEL = ConstantKernel(4.0) * RBF(1.0)
JOINT = [("joint", "ep"), ("joint", "laplace"), ("differences", "ep"), ("differences", "pl")]
ALL = [*JOINT, ("one_vs_rest", "ep"), ("one_vs_rest", "laplace"), ("one_vs_one", "ep")]


def gpc(multi_class="joint", inference="ep", kernel=KERNEL, **settings):
    return GaussianProcessClassifier(
        kernel, multi_class=multi_class, inference=inference, **settings
    )


def fixed(multi_class="joint", inference="ep", kernel=KERNEL, **settings):
    return gpc(multi_class, inference, kernel, optimizer=None, **settings)


@pytest.mark.parametrize(("multi_class", "inference"), ALL)
def test_probabilities_are_distributions_and_predictions_their_largest(multi_class, inference):
    model = fixed(multi_class, inference).fit(X, Y)
    P = model.predict_proba(X_NEW)
    assert P.shape == (15, 3)
    assert (P > 0).all()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X_NEW), P.argmax(axis=1))
    np.testing.assert_allclose(model.decision_function(X_NEW), np.log(P), rtol=1e-12)
    assert model.converged_
    assert model.score(X, Y) > 0.8
    alone = np.vstack([model.predict_proba(x[None]) for x in X_NEW])
    assert alone.tobytes() == P.tobytes()


@pytest.mark.parametrize(("multi_class", "inference"), JOINT)
def test_the_order_of_rows_and_classes_does_not_matter(multi_class, inference):
    model = fixed(multi_class, inference).fit(X, Y)
    order = np.random.default_rng(0).permutation(len(Y))
    names = np.array([2, 0, 1])
    other = fixed(multi_class, inference).fit(X[order], names[Y[order]])
    np.testing.assert_allclose(
        other.log_marginal_likelihood_value_, model.log_marginal_likelihood_value_, rtol=1e-9
    )
    np.testing.assert_allclose(
        other.predict_proba(X_NEW)[:, names], model.predict_proba(X_NEW), atol=1e-7
    )


@pytest.mark.parametrize(("multi_class", "inference"), JOINT)
@pytest.mark.parametrize("kernel", [KERNEL, [KERNEL, 2.0 * RBF(0.7), 3.0 * RBF([1.0, 2.0])]])
def test_the_gradient_is_that_of_the_evidence(multi_class, inference, kernel):
    model = fixed(multi_class, inference, kernel).fit(X, Y)
    theta = model.kernel_.theta + 0.1
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    step = 1e-4
    differences = [
        (
            model.log_marginal_likelihood(theta + step * e)
            - model.log_marginal_likelihood(theta - step * e)
        )
        / (2 * step)
        for e in np.eye(len(theta))
    ]
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-6)
    assert np.isfinite(value)


@pytest.mark.parametrize(("multi_class", "inference"), JOINT)
def test_a_weight_is_the_row_repeated(multi_class, inference):
    weights = np.random.default_rng(1).integers(0, 4, size=len(Y))
    weighted = fixed(multi_class, inference).fit(X, Y, sample_weight=weights)
    rows = np.repeat(np.arange(len(Y)), weights)
    repeated = fixed(multi_class, inference).fit(X[rows], Y[rows])
    np.testing.assert_allclose(
        weighted.log_marginal_likelihood_value_,
        repeated.log_marginal_likelihood_value_,
        rtol=1e-7,
    )
    np.testing.assert_allclose(
        weighted.predict_proba(X_NEW), repeated.predict_proba(X_NEW), atol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("learning", ["evidence", "em"])
@pytest.mark.parametrize(("multi_class", "inference"), JOINT)
def test_learning_reaches_a_maximum(multi_class, inference, learning):
    model = gpc(multi_class, inference, learning=learning).fit(X, Y)
    start = fixed(multi_class, inference).fit(X, Y)
    assert model.log_marginal_likelihood_value_ > start.log_marginal_likelihood_value_ + 0.1
    _, gradient = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    assert np.abs(gradient).max() < (1e-3 if learning == "evidence" else 3e-2)


@pytest.mark.slow
def test_both_learners_end_at_the_same_evidence():
    for inference in ("ep", "laplace"):
        found = [
            gpc("joint", inference, learning=learning).fit(X, Y).log_marginal_likelihood_value_
            for learning in ("evidence", "em")
        ]
        np.testing.assert_allclose(*found, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_one_kernel_a_class(inference):
    kernels = [
        ConstantKernel(variance, (1e-9, 1e9)) * RBF(length, (1e-9, 1e9))
        for variance, length in ((4.0, 1.0), (2.0, 0.7), (3.0, 2.0))
    ]
    model = gpc("joint", inference, kernels).fit(X, Y)
    assert isinstance(model.kernel_, CompoundKernel)
    assert model.optimizer_report_.parameter_names == tuple(
        f"kernels[{c}]__{name}"
        for c in range(3)
        for name in ("k1__constant_value", "k2__length_scale")
    )
    shared = gpc("joint", inference, kernels[0]).fit(X, Y)
    apart = gpc("joint", inference, [kernels[0]] * 3).fit(X, Y)
    # three times the freedom, from the same start
    assert apart.log_marginal_likelihood_value_ > shared.log_marginal_likelihood_value_ - 1e-6
    again = pickle.loads(pickle.dumps(model))
    assert again.predict_proba(X_NEW).tobytes() == model.predict_proba(X_NEW).tobytes()
    assert clone(model).get_params()["kernel"] == kernels


@pytest.mark.parametrize(
    ("multi_class", "kernels", "classes", "words"),
    [
        ("joint", [KERNEL] * 2, 3, "list of 2: a list has one kernel for each of more than"),
        ("joint", [KERNEL] * 4, 3, "list of 4, but y has 3 classes"),
        ("one_vs_rest", [KERNEL] * 4, 3, "list of 4, but y has 3 classes"),
        ("one_vs_one", [KERNEL] * 3, 3, "one latent function a pair"),
        ("joint", [KERNEL] * 3, 2, "two classes have one latent function"),
        ("joint", [], 3, "list of 0: a list has one kernel"),
    ],
)
def test_lists_of_kernels_that_do_not_fit(multi_class, kernels, classes, words):
    y = np.minimum(Y, classes - 1)
    with pytest.raises(ValueError, match=words):
        fixed(multi_class, "ep", kernels).fit(X, y)


def test_a_list_with_something_else():
    with pytest.raises(TypeError, match="is no scikit-learn kernel"):
        fixed("joint", "ep", [KERNEL, "precomputed", KERNEL]).fit(X, Y)


@pytest.mark.parametrize(
    ("inference", "likelihood", "words"),
    [
        ("mcmc", "probit", "multi_class='one_vs_rest'"),
        ("ep", "logit", "multinomial probit.*multi_class='differences'"),
        ("ep", "threshold", "multinomial probit.*multi_class='differences'"),
        ("laplace", "threshold", "softmax.*likelihood='logit'"),
    ],
)
def test_a_likelihood_that_the_joint_model_has_not_says_what_to_take(inference, likelihood, words):
    with pytest.raises(ValueError, match=words):
        fixed("joint", inference, likelihood=likelihood).fit(X, Y)


def test_two_classes_have_nothing_to_join():
    assert fixed("joint", "ep", likelihood="logit").fit(X, Y > 0).likelihood_ == Logit()


def test_monte_carlo_and_the_differences():
    with pytest.raises(ValueError, match="multi_class='one_vs_rest'"):
        fixed("differences", MonteCarlo(evidence=False)).fit(X, Y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inference", "likelihood"),
    [
        ("ep", "logit"),
        ("ep", NoisyThreshold(0.1, "fixed")),
        (EP(schedule="sequential"), "probit"),
        (PosteriorLinearisation(schedule="sequential"), "logit"),
        ("vi", "probit"),
        ("vi", "logit"),
        ("laplace", "logit"),
        ("bound", "logit"),
    ],
)
def test_every_binary_method_runs_on_the_differences(inference, likelihood):
    model = fixed("differences", inference, likelihood=likelihood).fit(X, Y)
    P = model.predict_proba(X_NEW)
    reference = fixed("joint", "ep").fit(X, Y).predict_proba(X_NEW)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-10)
    assert np.abs(P - reference).max() < 0.25
    assert (P.argmax(axis=1) == reference.argmax(axis=1)).mean() > 0.8


@pytest.mark.slow
def test_epsilon_is_learnt_on_the_differences():
    model = gpc("differences", "ep", likelihood="threshold").fit(X, Y)
    assert model.optimizer_report_.parameter_names[-1] == "likelihood__epsilon"
    assert 0 < model.likelihood_.epsilon < 0.5


def test_the_likelihoods_of_the_joint_models():
    assert fixed("joint", "laplace").fit(X, Y).likelihood_ == Logit()
    assert fixed("joint", Laplace(), likelihood="logit").fit(X, Y).likelihood_ == Logit()
    assert fixed("joint", "ep").fit(X, Y).likelihood_ == Probit()


# ------------------------------------------------------------------- latents


@pytest.mark.parametrize(("multi_class", "inference"), [*JOINT, ("one_vs_rest", "ep")])
def test_latents_and_their_samples(multi_class, inference):
    model = fixed(multi_class, inference).fit(X, Y)
    mean, covariance = model.predict_latent(X_NEW)
    assert mean.shape == (15, 3)
    assert covariance.shape == (15, 3, 3)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9
    samples = model.sample_latent(X_NEW, n_samples=4000, random_state=0)
    assert samples.shape == (15, 3, 4000)
    deviation = np.sqrt(np.einsum("icc->ic", covariance))
    assert (np.abs(samples.mean(axis=2) - mean) < 5 * deviation / np.sqrt(4000)).all()
    drawn = np.array([np.cov(s) for s in samples])
    assert np.abs(drawn - covariance).max() < 0.12 * covariance.max()
    again = model.sample_latent(X_NEW, n_samples=4000, random_state=0)
    assert again.tobytes() == samples.tobytes()


@pytest.mark.parametrize(("multi_class", "inference"), [*JOINT, ("one_vs_rest", "ep")])
def test_samples_are_functions(multi_class, inference):
    """Rows at one place get one value; rows far from all others the prior's."""
    model = fixed(multi_class, inference).fit(X, Y)
    places = np.vstack([X_NEW[:2], X_NEW[:2], [[50.0, 50.0]]])
    samples = model.sample_latent(places, n_samples=500, random_state=1)
    np.testing.assert_allclose(samples[:2], samples[2:4], atol=1e-5)
    assert np.abs(samples[4].var(axis=1) - 4.0).max() < 1.2


def test_latents_of_two_classes():
    model = fixed().fit(X, Y > 0)
    mean, covariance = model.predict_latent(X_NEW)
    f, v = model.latent_mean_and_variance(X_NEW)
    np.testing.assert_allclose(mean[:, 1] - mean[:, 0], f, rtol=1e-12)
    contrast = np.array([-1.0, 1.0])
    np.testing.assert_allclose(np.einsum("c,icd,d->i", contrast, covariance, contrast), v)
    samples = model.sample_latent(X_NEW, 2000, random_state=0)
    assert samples.shape == (15, 2, 2000)
    error = np.abs((samples[:, 1] - samples[:, 0]).mean(axis=1) - f)
    assert (error < 5 * np.sqrt(v / 2000)).all()


def test_latents_that_do_not_exist():
    model = fixed("one_vs_one").fit(X, Y)
    for call in (model.predict_latent, model.sample_latent):
        with pytest.raises(ValueError, match="each pair of classes"):
            call(X_NEW)
    with pytest.raises(ValueError, match="only supported for binary"):
        fixed().fit(X, Y).latent_mean_and_variance(X_NEW)
    with pytest.raises(ValueError, match="n_samples must be at least 1"):
        model.sample_latent(X_NEW, 0)
    with pytest.raises(TypeError, match="n_samples must be an integer"):
        model.sample_latent(X_NEW, 1.5)


def test_a_draw_that_is_too_large_says_so():
    model = fixed().fit(X, Y)
    with pytest.raises(ValueError, match="draw for fewer rows"):
        model.sample_latent(np.zeros((6000, 2)))


# ---------------------------------------------------------------- hard tables


@pytest.mark.slow
@pytest.mark.parametrize("inference", ["ep", "laplace"])
def test_fifty_classes_and_a_class_of_one_row(inference):
    rng = np.random.default_rng(0)
    y = np.r_[np.repeat(np.arange(49), 2), 49]
    centres = rng.normal(size=(50, 4)) * 3
    table = centres[y] + 0.3 * rng.normal(size=(len(y), 4))
    kernel = ConstantKernel(10.0) * RBF(2.0)
    model = fixed("joint", inference, kernel).fit(table, y)
    assert model.converged_
    P = model.predict_proba(table)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-10)
    assert P[np.arange(len(y)), y].mean() > 4.0 / 50.0
    if inference == "ep":
        assert model.score(table, y) > 0.95


@pytest.mark.slow
def test_defaults_on_iris():
    table, y = load_iris(return_X_y=True)
    model = GaussianProcessClassifier().fit(table, y)
    assert len(model.models_) == 1
    assert model.score(table, y) > 0.95
    assert model.log_marginal_likelihood() == model.log_marginal_likelihood_value_
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    assert set(GaussianProcessClassifier().fit(table, names).predict(table[:60])) <= set(names)


def test_warm_start_of_a_joint_model():
    model = gpc(warm_start=True).fit(X, Y)
    before = model.log_marginal_likelihood_value_
    model.fit(X, Y)
    np.testing.assert_allclose(model.log_marginal_likelihood_value_, before, atol=1e-4)
    model.set_params(multi_class="one_vs_rest").fit(X, Y)
    assert len(model.models_) == 3


def test_theta_of_the_estimator():
    model = fixed().fit(X, Y)
    theta = model.kernel_.theta
    assert model.log_marginal_likelihood(theta) == pytest.approx(
        model.log_marginal_likelihood_value_, rel=1e-10
    )
    with pytest.raises(ValueError, match="theta must have length 2, got shape"):
        model.log_marginal_likelihood(np.zeros(6))
    model.log_marginal_likelihood(theta + 0.3, clone_kernel=False)
    np.testing.assert_allclose(model.kernel_.theta, theta + 0.3)


def test_precomputed_covariances():
    K = KERNEL(X)
    cross = np.hstack([KERNEL(X_NEW, X), np.full((15, 1), 4.0)])
    model = fixed(kernel="precomputed").fit(K, Y)
    direct = fixed().fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(cross), direct.predict_proba(X_NEW), atol=1e-9)
    with pytest.raises(ValueError, match="take predict_latent"):
        model.sample_latent(cross)


def test_a_likelihood_without_class_probabilities_is_refused_before_it_is_fitted():
    class Other(Likelihood):
        name = "other"

    Other.__abstractmethods__ = frozenset()
    with pytest.raises(ValueError, match="take the probit, the logit"):
        fixed("differences", "ep", likelihood=Other()).fit(X, Y)


def test_a_bound_that_learning_ends_on_is_reported_once_for_each_kernel():
    tight = [ConstantKernel(4.0, "fixed") * RBF(1.0, (0.9, 1.01))] * 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gpc("joint", "laplace", tight).fit(X, Y)
    convergence = [w for w in caught if issubclass(w.category, SklearnConvergenceWarning)]
    assert 1 <= len(convergence) <= 3


def test_noise_in_the_kernel_is_part_of_the_prediction():
    noisy = fixed(kernel=KERNEL + WhiteKernel(2.0)).fit(X, Y)
    _, covariance = noisy.predict_latent(np.array([[50.0, 50.0]]))
    np.testing.assert_allclose(np.diag(covariance[0]), 6.0, rtol=1e-6)


def test_one_against_the_rest_with_kernels_of_unequal_lengths():
    kernels = [KERNEL, ConstantKernel(2.0) * RBF([1.0, 1.0]), RBF(0.8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SklearnConvergenceWarning)
        model = gpc("one_vs_rest", "laplace", kernels).fit(X, Y)
    theta = model.kernel_.theta
    assert len(theta) == len(model.optimizer_report_.parameter_names) == 6
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood_value_)
    assert gradient.shape == (6,)
    assert len(model.optimizer_report_.to_rows()) == 3
    with pytest.raises(ValueError, match=r"theta must have length 6, \[2, 3, 1\] for the 3"):
        model.log_marginal_likelihood(theta[:2])
