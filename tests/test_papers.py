"""Formulas of the papers, as printed and as they must read, against the library.

The misprints of RW06's multi-class pages, GTS19's total variance and its eq. 18, and KG06's Theorem
1 have their tests beside the code too: tests/inference/test_softmax.py and test_linearisation.py,
tests/likelihoods/test_likelihoods.py, tests/learning/test_em.py.
"""

import numpy as np
import pytest
from scipy.special import expit, log_expit, logsumexp, softmax
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpclass.inference import EP, Laplace, PosteriorLinearisation
from gpclass.inference.softmax import SoftmaxLaplace
from gpclass.learning import BinaryProblem
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from gpclass.priors.classes import ClassPrior


def central(function, x, h=1e-5):
    """Gradient by central differences."""
    steps = h * np.eye(len(x))
    return np.array([(function(x + s) - function(x - s)) / (2 * h) for s in steps])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(14, 2))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=14) > 0, 1.0, -1.0)
    return X, y


@pytest.fixture(scope="module")
def kernel():
    return ConstantKernel(3.0) * RBF(0.9)


@pytest.fixture(scope="module")
def laplace(rows, kernel):
    """C_N, t, the mode by (6.83), W_N there."""
    X, y = rows
    C = kernel(X)
    t = (y + 1) / 2
    a = np.zeros(len(y))
    for _ in range(60):
        W = np.diag(expit(a) * expit(-a))
        # (6.83)
        a = C @ np.linalg.solve(np.eye(len(y)) + W @ C, t - expit(a) + W @ a)
    return C, t, a, np.diag(expit(a) * expit(-a))


@pytest.fixture(scope="module")
def three(rows):
    """Laplace's softmax of three classes."""
    X, _ = rows
    codes = np.arange(len(X)) % 3
    K = (ConstantKernel(2.0) * RBF(1.0))(X)
    return K, codes, SoftmaxLaplace()(ClassPrior(K, 3), codes)


class TestB06:
    """Section 6.4.6: t is 0 or 1, C_N the covariance, W_N = diag(sigma (1 - sigma))."""

    @staticmethod
    def evidence(laplace):
        """(6.90) with (6.80)."""
        C, t, a, W = laplace
        n = len(t)
        psi = -0.5 * a @ np.linalg.solve(C, a) - 0.5 * n * np.log(2 * np.pi)
        psi += -0.5 * np.linalg.slogdet(C)[1] + t @ a - np.log1p(np.exp(a)).sum()
        bent = np.linalg.slogdet(W + np.linalg.inv(C))[1]
        return psi - 0.5 * bent + 0.5 * n * np.log(2 * np.pi)

    @staticmethod
    def gradient(laplace, dC, trace, moving):
        """(6.91) with the matrix of its trace, and (6.92) with that of (6.94)."""
        C, t, a, W = laplace
        u, s = np.linalg.solve(C, a), expit(a)
        moved = np.linalg.solve(moving, dC @ (t - s))
        reduced = np.diag(np.linalg.solve(np.eye(len(t)) + C @ W, C))
        explicit = 0.5 * u @ dC @ u - 0.5 * np.trace(trace @ dC)
        return explicit - 0.5 * (reduced * s * (1 - s) * (1 - 2 * s)) @ moved

    def test_evidence_mode_and_prediction_are_ours(self, laplace, rows, kernel):
        X, y = rows
        C, t, a, W = laplace
        q = Laplace()(C, y, Logit())
        np.testing.assert_allclose(q.posterior.mean, a, atol=1e-9)
        assert q.log_evidence == pytest.approx(self.evidence(laplace), rel=1e-9)
        X_new = np.array([[0.3, -0.2], [2.0, 2.0]])
        k = kernel(X, X_new)
        mean, variance = q.posterior.predict(k.copy(), kernel.diag(X_new))
        # (6.87) and (6.88)
        np.testing.assert_allclose(mean, k.T @ (t - expit(a)), rtol=1e-7)
        reduced = np.diag(k.T @ np.linalg.solve(np.linalg.inv(W) + C, k))
        np.testing.assert_allclose(variance, kernel.diag(X_new) - reduced, rtol=1e-7)

    def test_gradient_with_691_and_694_put_right_is_ours(self, laplace, rows, kernel):
        """W and C do not commute: the print has (I + C W)^-1 W in 6.91, (I + W C)^-1 in 6.94."""
        X, y = rows
        C, _, _, W = laplace
        CW, WC = np.eye(len(y)) + C @ W, np.eye(len(y)) + W @ C
        right, printed = np.linalg.solve(WC, W), np.linalg.solve(CW, W)
        problem = BinaryProblem(kernel, X, y, Logit(), Laplace())
        ours = problem.evaluate(problem.theta).gradient
        slopes = np.moveaxis(kernel(X, eval_gradient=True)[1], 2, 0)

        def gradient(trace, moving):
            return [self.gradient(laplace, dC, trace, moving) for dC in slopes]

        np.testing.assert_allclose(gradient(right, CW), ours, rtol=1e-7)
        assert np.abs(np.subtract(gradient(right, WC), ours)).max() > 1e-3
        assert np.abs(np.subtract(gradient(printed, CW), ours)).max() > 1e-3

    def test_the_posterior_is_log_concave_and_not_log_convex(self, laplace):
        C, _, _, W = laplace
        # the Hessian of the log posterior, (6.82)
        assert np.linalg.eigvalsh(-W - np.linalg.inv(C)).max() < 0


class TestMR19:
    """The slides on Laplace's posterior and on EP."""

    def test_gradient_and_hessian_of_the_posterior_have_a_minus(self, rows, kernel):
        X, y = rows
        K = kernel(X)
        K_inv = np.linalg.inv(K)

        def psi(f):
            return log_expit(y * f).sum() - 0.5 * f @ K_inv @ f

        def slope(f):
            return Logit().derivatives(y, f).first - K_inv @ f

        f = np.random.default_rng(0).normal(size=len(y))
        np.testing.assert_allclose(slope(f), central(psi, f), rtol=1e-6, atol=1e-6)
        hessian = np.diag(Logit().derivatives(y, f).second) - K_inv
        np.testing.assert_allclose(hessian, central(slope, f), rtol=1e-6, atol=1e-5)
        # as printed, + K^-1 f
        assert np.abs(slope(f) + 2 * K_inv @ f - central(psi, f)).max() > 1.0
        # what follows on the slides has the sign right: f = K grad log p at the mode
        mode = Laplace()(K, y, Logit()).posterior.mean
        np.testing.assert_allclose(mode, K @ Logit().derivatives(y, mode).first, atol=1e-9)

    def test_determinant_of_the_evidence_is_taken_once(self, rows, kernel):
        X, y = rows
        q = Laplace()(kernel(X), y, Logit())
        root = np.sqrt(q.sites.tau)
        B = np.eye(len(y)) + root[:, None] * kernel(X) * root
        # the slide has B = |I + ...| and then log |B|
        value = -0.5 * q.posterior.mean_weights @ q.posterior.mean
        value += log_expit(y * q.posterior.mean).sum() - 0.5 * np.linalg.slogdet(B)[1]
        assert q.log_evidence == pytest.approx(value, rel=1e-10)

    def test_cavity_variance_has_the_inverse_of_the_marginal_variance(self, rows, kernel):
        X, y = rows
        K = kernel(X)
        tau, nu = (q := EP()(K, y, Probit())).sites.tau, q.sites.nu
        i = 4
        others = np.delete(np.arange(len(y)), i)
        A = K[np.ix_(others, others)] + np.diag(1 / tau[others])
        k = K[others, i]
        variance = K[i, i] - k @ np.linalg.solve(A, k)
        mean = k @ np.linalg.solve(A, nu[others] / tau[others])
        v, m = q.posterior.variance[i], q.posterior.mean[i]
        assert variance == pytest.approx(1 / (1 / v - tau[i]), rel=1e-8)
        # the slide has v in the place of 1 / v
        assert abs(1 / (v - tau[i]) - variance) > 0.1
        assert mean == pytest.approx(variance * (m / v - nu[i]), rel=1e-8)

    def test_predictions_of_ep(self, rows, kernel):
        X, y = rows
        q = EP()(kernel(X), y, Probit())
        X_new = np.array([[0.5, 0.5], [-1.0, 2.0]])
        k, S = kernel(X, X_new), np.diag(1 / q.sites.tau)
        mean, variance = q.posterior.predict(k.copy(), kernel.diag(X_new))
        target = q.sites.nu / q.sites.tau
        np.testing.assert_allclose(mean, k.T @ np.linalg.solve(kernel(X) + S, target), rtol=1e-8)
        reduced = np.diag(k.T @ np.linalg.solve(kernel(X) + S, k))
        np.testing.assert_allclose(variance, kernel.diag(X_new) - reduced, rtol=1e-8)
        proba = Probit().predict_proba(mean, variance)
        np.testing.assert_allclose(proba, norm.cdf(mean / np.sqrt(1 + variance)), rtol=1e-12)


class TestRW06:
    """The many classes of section 3.5, and Algorithm 3.5 with another likelihood."""

    def test_second_derivatives_of_the_softmax_are_those_of_338(self):
        f = np.array([0.3, -1.0, 0.8])
        pi = softmax(f)
        hessian = central(lambda f: (np.arange(3) == 1) - softmax(f), f)
        np.testing.assert_allclose(hessian, -np.diag(pi) + np.outer(pi, pi), atol=1e-8)
        assert np.abs(hessian - (-np.diag(pi) - np.outer(pi, pi))).max() > 0.1

    def test_evidence_of_algorithm_33_with_its_two_corrections(self, three):
        K, codes, q = three
        n, C = len(K), 3
        f, a = q.posterior.mean, q.posterior.mean_weights
        pi = softmax(f, axis=1)
        E, z = [], 0.0
        for c in range(C):
            root = np.sqrt(pi[:, c])
            L = np.linalg.cholesky(np.eye(n) + root[:, None] * K * root)
            half = np.linalg.solve(L, np.diag(root))
            E.append(half.T @ half)
            z += np.log(np.diag(L)).sum()
        M = np.log(np.diag(np.linalg.cholesky(np.sum(E, axis=0)))).sum()
        fit = -0.5 * (a * f).sum() + f[np.arange(n), codes].sum()
        norms = logsumexp(f, axis=1).sum()
        assert q.log_evidence == pytest.approx(fit - norms - z - M, rel=1e-9)
        printed = fit + norms - z
        assert abs(printed - q.log_evidence) > 1.0

    def test_mean_weights_of_algorithm_34_have_a_block_for_each_class(self, three, rows):
        K, codes, q = three
        pi = softmax(q.posterior.mean, axis=1)
        slope = (codes[:, None] == np.arange(3)) - pi
        # at the mode K^-1 f is the gradient, class by class
        np.testing.assert_allclose(q.posterior.mean_weights, slope, atol=1e-8)
        # line 11: c = E R (M^T \ (M \ (R^T b))) for b of (3.39), a = b' - c of line 12
        n = len(K)
        E = [np.diag(p) @ np.linalg.inv(np.eye(n) + K @ np.diag(p)) for p in pi.T]
        f = q.posterior.mean
        b = (pi * f - pi * (pi * f).sum(axis=1, keepdims=True) + slope).T
        inner = np.linalg.solve(np.sum(E, axis=0), sum(E[c] @ K @ b[c] for c in range(3)))
        for c in range(3):
            weights = b[c] - E[c] @ K @ b[c] + E[c] @ inner
            np.testing.assert_allclose(weights, q.posterior.mean_weights[:, c], atol=1e-8)

    def test_a_site_of_the_noisy_threshold_can_have_a_negative_precision(self):
        # Algorithm 3.5 takes the root of the precisions
        tilted = NoisyThreshold(0.05).tilted_moments(1.0, np.array([-3.0]), 1.0)
        assert 1 / tilted.variance[0] - 1.0 < 0
        # and of no log-concave likelihood: footnote 15
        means, variances = np.linspace(-20, 20, 41), np.full(41, 4.0)
        for likelihood in (Probit(), Logit(), NoisyThreshold(0.0)):
            assert (likelihood.tilted_moments(1.0, means, variances).variance <= variances).all()


class TestGTS19:
    def test_the_total_variance_of_a_label(self):
        """1 - (2 alpha - 1)^2, alpha the probability of +1; the supplement has 1 - alpha^2."""
        mean, var = np.array([0.7, -1.5]), np.array([0.5, 2.0])
        slope, _, noise = Probit().linearise(mean, var)
        alpha = Probit().predict_proba(mean, var)
        np.testing.assert_allclose(slope**2 * var + noise, 1 - (2 * alpha - 1) ** 2, rtol=1e-10)
        assert np.abs(slope**2 * var + noise - (1 - alpha**2)).max() > 0.1

    def test_the_evidence_of_eq_18_is_the_ep_energy_and_its_cavities_are_proper(self, rows, kernel):
        """Likelihood over its Gaussian, averaged over the posterior, is Z over the cavity."""
        X, y = rows
        q = PosteriorLinearisation()(kernel(X), y, Probit())
        m, v, tau, nu = q.posterior.mean, q.posterior.variance, q.sites.tau, q.sites.nu
        precision = 1 / v - tau
        assert (precision > 0).all()
        cavity = (m / v - nu) / precision, 1 / precision
        t, w = np.polynomial.hermite_e.hermegauss(60)
        f = m + np.sqrt(v) * t[:, None]
        # eq. 18 term by term: the average of p / site under the marginal, times the site's log
        # partition function
        ratio = w @ (norm.cdf(y * f) * np.exp(0.5 * tau * f**2 - nu * f)) / w.sum()
        value = np.log(ratio).sum() + q.posterior.log_partition()
        assert q.log_evidence == pytest.approx(value, rel=1e-6)
        log_z = Probit().tilted_moments(y, *cavity).log_z
        by_cavity = 0.5 * np.log(cavity[1] / v) + 0.5 * (cavity[0] ** 2 * precision - m**2 / v)
        np.testing.assert_allclose(np.log(ratio), log_z + by_cavity, rtol=1e-5, atol=1e-7)
