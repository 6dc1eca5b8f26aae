"""The variational Gaussian of the softmax, from Laplace's: equations, symmetries, and the truth."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from gpclass import GaussianProcessClassifier
from gpclass.inference import Laplace, Variational
from gpclass.inference.softmax import SoftmaxLaplace
from gpclass.inference.softmax_variational import (
    SoftmaxVariational,
    averaged_terms,
    canonical_root,
    softmax_form,
)
from gpclass.likelihoods import Logit
from gpclass.likelihoods.classes import SoftmaxLikelihood
from gpclass.likelihoods.probabilities.gaussian import softmax_probabilities
from gpclass.likelihoods.probabilities.points import normals
from gpclass.montecarlo import elliptical_slice_sampling
from gpclass.priors import DensePrior
from gpclass.priors.classes import ClassPrior
from helpers import rbf

PLAIN = SoftmaxVariational()
FINE = SoftmaxVariational(max_turns=60, tol=1e-7, n_points=4096, mode_tol=1e-9)


def problem(n=25, C=4, deviation=5.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    K = deviation**2 * (rbf(X) + 1e-6 * np.eye(n))
    F = np.linalg.cholesky(K) @ rng.standard_normal((n, C))
    codes = np.array([rng.choice(C, p=p) for p in softmax(F, axis=1)])
    return K, codes


def run(K, C, codes, weights=None, method=PLAIN):
    prior = ClassPrior(K, C)
    weights = np.ones(len(codes)) if weights is None else weights
    laplace = SoftmaxLaplace()(prior, codes, weights=weights).posterior
    return method(prior, codes, weights, laplace)


def test_terms_are_derivatives():
    rng = np.random.default_rng(0)
    F, A = rng.standard_normal((5, 3)), rng.standard_normal((5, 3, 3))
    codes, weights = np.array([0, 1, 2, 0, 1]), np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    Z = normals(3, 0, 64)

    def total(F):
        return averaged_terms(F, A, Z, codes, weights)

    h, found = 1e-5, total(F)
    W = found.d[:, :, None] * np.eye(3)
    W -= found.d[:, :, None] * found.d[:, None] / found.d.sum(axis=1)[:, None, None]
    diagonal = np.zeros((5, 3))
    for i in range(5):
        for c in range(3):
            E = np.zeros((5, 3))
            E[i, c] = h
            up, down = total(F + E), total(F - E)
            assert (up.total - down.total) / (2 * h) == pytest.approx(found.first[i, c], abs=1e-8)
            diagonal[i, c] = -(up.first[i, c] - down.first[i, c]) / (2 * h)
    np.testing.assert_allclose(np.einsum("icc->ic", W), diagonal, rtol=0.02)


def test_the_form_of_a_softmax_has_its_own_precisions():
    d = np.random.default_rng(0).uniform(0.1, 0.5, (20, 5))
    v = d * (1.0 - d / d.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(softmax_form(v), d, rtol=1e-4)


def test_two_classes_are_the_variational_logit_under_twice_the_covariance():
    K, codes = problem(C=2, deviation=3.0)
    q = run(K, 2, codes, method=FINE)
    binary = Variational()(DensePrior(2 * K), np.where(codes == 1, 1.0, -1.0), Logit()).posterior
    np.testing.assert_allclose(q.mean[:, 1] - q.mean[:, 0], binary.mean, rtol=2e-3, atol=2e-3)
    S = q.factor.marginals()
    spread = S[:, 0, 0] + S[:, 1, 1] - 2 * S[:, 0, 1]
    np.testing.assert_allclose(spread, binary.with_covariance().variance, rtol=5e-3)


def test_the_means_solve_their_equation():
    K, codes = problem()
    q = run(K, 4, codes, method=FINE)
    P = softmax_probabilities(q.mean, q.factor.marginals())
    np.testing.assert_allclose(q.mean_weights, np.eye(4)[codes] - P, atol=2e-3)
    np.testing.assert_allclose(q.mean, K @ q.mean_weights, atol=1e-9)


def test_neither_the_order_of_the_classes_nor_of_the_rows_matters():
    K, codes = problem()
    q = run(K, 4, codes)
    classes = np.array([2, 0, 3, 1])
    np.testing.assert_allclose(run(K, 4, classes[codes]).mean[:, classes], q.mean, atol=1e-5)
    rows = np.random.default_rng(1).permutation(len(codes))
    np.testing.assert_allclose(
        run(K[np.ix_(rows, rows)], 4, codes[rows]).mean, q.mean[rows], atol=1e-5
    )


def test_a_weight_is_the_row_repeated():
    K, codes = problem(n=12, C=3)
    weights = np.ones(12)
    weights[:4] = 2.0
    again = np.r_[np.arange(12), np.arange(4)]
    q = run(K[np.ix_(again, again)], 3, codes[again])
    np.testing.assert_allclose(run(K, 3, codes, weights).mean, q.mean[:12], atol=1e-4)


@pytest.mark.parametrize("deviation", [1e-4, 1.0, 1e3])
def test_any_deviation_has_finite_marginals(deviation):
    K, codes = problem(deviation=deviation)
    q = run(K, 4, codes)
    assert np.isfinite(q.mean).all()
    assert np.isfinite(q.factor.marginals()).all()


def test_the_root_is_one():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 4, 4))
    S = A @ A.transpose(0, 2, 1)
    R = canonical_root(rng.standard_normal((6, 4)), S)
    np.testing.assert_allclose(R @ R.transpose(0, 2, 1), S, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("deviation", "allowed"), [(3.0, 0.002), (10.0, 0.01)])
def test_probabilities_are_those_of_the_truth(deviation, allowed):
    """Kullback-Leibler divergence from Monte Carlo, at the rows; Laplace's is ten times it."""
    K, codes = problem(n=40, C=3, deviation=deviation)
    prior = ClassPrior(K, 3)
    draws = elliptical_slice_sampling(
        prior, codes, SoftmaxLikelihood(), n_samples=4000, n_burn=1000, random_state=0
    )
    truth = softmax(draws.f.reshape(40, 3, -1), axis=1).mean(axis=2)

    def divergence(q):
        P = softmax_probabilities(q.mean, q.factor.marginals())
        return float((truth * np.log(truth / P)).sum(axis=1).mean())

    laplace = SoftmaxLaplace()(prior, codes).posterior
    found = divergence(SoftmaxVariational()(prior, codes, np.ones(40), laplace))
    assert found < allowed
    assert divergence(laplace) > 10 * found


# ------------------------------------------------------------------ the classifier


@pytest.fixture(scope="module")
def halves():
    X, y = load_iris(return_X_y=True)
    return train_test_split(X, y, train_size=0.5, stratify=y, random_state=0)


def test_laplace_on_iris(halves):
    A, B, a, b = halves
    # without the temperature, which mends the mode's posterior in part
    model = GaussianProcessClassifier(inference="laplace", calibration=None).fit(A, a)
    variational = GaussianProcessClassifier(inference="laplace", calibration=None)
    variational.set_params(inference__marginals="variational").fit(A, a)
    # one evidence, one kernel; another posterior
    assert variational.kernel_ == model.kernel_
    assert variational.log_marginal_likelihood_value_ == model.log_marginal_likelihood_value_
    assert log_loss(b, model.predict_proba(B)) > 0.4
    assert log_loss(b, variational.predict_proba(B)) < 0.25


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_two_classes_predict_by_the_variational_gaussian(halves, likelihood):
    A, B, a, _ = halves
    A, a = A[a > 0], a[a > 0]
    options = {"likelihood": likelihood, "multi_class": "one_vs_rest"}
    laplace = Laplace(marginals="variational")
    model = GaussianProcessClassifier(1.0 * RBF(1.0), inference=laplace, **options).fit(A, a)
    vi = GaussianProcessClassifier(model.kernel_, inference="vi", optimizer=None, **options)
    np.testing.assert_allclose(model.predict_proba(B), vi.fit(A, a).predict_proba(B), atol=1e-7)


def test_differences_predict_by_the_variational_gaussian(halves):
    A, B, a, _ = halves
    options = {"likelihood": "logit", "multi_class": "differences"}
    laplace = Laplace(marginals="variational")
    model = GaussianProcessClassifier(1.0 * RBF(1.0), inference=laplace, **options)
    model.fit(A[::3], a[::3])
    vi = GaussianProcessClassifier(model.kernel_, inference="vi", optimizer=None, **options)
    vi.fit(A[::3], a[::3])
    np.testing.assert_allclose(model.predict_proba(B), vi.predict_proba(B), atol=1e-6)


def test_other_marginals_do_not_exist():
    with pytest.raises(ValueError, match="marginals must be one of"):
        Laplace(marginals="exact")
