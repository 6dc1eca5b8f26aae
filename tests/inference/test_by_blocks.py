"""Variational inference with inducing points, by blocks of rows."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern, PairwiseKernel
from tests.helpers import slow

from gpclass.blocks import LocalBlocks
from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import Outcome, Variational
from gpclass.inference.by_blocks import VariationalByBlocks
from gpclass.inference.probit_terms import MultinomialProbitTerms
from gpclass.inference.row_sums import gradient_sums
from gpclass.inference.row_terms import BinaryTerms, SoftmaxTerms
from gpclass.inference.weight_steps import WeightState
from gpclass.inference.weights import WeightPosterior, WeightSites
from gpclass.kernels import cross, evaluate
from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from gpclass.priors.basis import Basis

LIKELIHOODS = {"probit": Probit(), "logit": Logit(), "threshold": NoisyThreshold(0.1)}


def table(n=60, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    latent = 2 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(n)
    return X, np.where(latent > 0, 1.0, -1.0)


def fit(kernel, Z, X, y, terms, weights=None, size=16, init=None, **settings):
    rows = LocalBlocks(X, y, np.ones(len(y)) if weights is None else weights, size=size)
    return VariationalByBlocks(**settings)(Basis.of(kernel, Z), rows, terms, init)


@pytest.mark.parametrize("name", slow(LIKELIHOODS, "threshold"))
@pytest.mark.parametrize("kernel", [2.0 * RBF([1.0, 2.0, 1.5]), 1.3 * Matern(1.5, nu=1.5)], ids=str)
def test_with_all_rows_as_points_it_is_the_dense_posterior(name, kernel):
    X, y = table()
    likelihood, K = LIKELIHOODS[name], evaluate(kernel, X)
    dense = Variational(tol=1e-10)(K.copy(), y, likelihood)
    found = fit(kernel, X, X, y, BinaryTerms(likelihood), max_passes=200)
    assert found.converged
    assert found.log_evidence == pytest.approx(dense.log_evidence, abs=1e-7)
    L = np.tril(found.basis.L)
    U = np.linalg.solve(L, K)
    (mu,), (root,) = found.posterior.means, found.posterior.roots
    np.testing.assert_allclose(U.T @ mu, dense.posterior.mean, atol=1e-5)
    own = ((root @ U) ** 2).sum(axis=0)
    np.testing.assert_allclose(own, dense.posterior.with_covariance().variance, atol=1e-5)


def test_the_bound_is_the_expectation_less_the_divergence_of_the_inducing_values():
    # by the textbook's formulas in terms of f(Z), and Gauss-Hermite quadrature
    X, y = table(3)
    Z, kernel = X[:2] + 0.1, 1.5 * RBF(1.2)
    found = fit(kernel, Z, X, y, BinaryTerms(Probit()))
    K, Kx, k = kernel(Z), kernel(Z, X), kernel.diag(X)
    L = np.linalg.cholesky(K)
    (mu,), (root,) = found.posterior.means, found.posterior.roots
    m, S = L @ mu, L @ root.T @ root @ L.T
    A = np.linalg.solve(K, Kx)
    mean, variance = A.T @ m, k - (Kx * A).sum(axis=0) + (A * (S @ A)).sum(axis=0)
    divergence = 0.5 * (
        np.trace(np.linalg.solve(K, S))
        + m @ np.linalg.solve(K, m)
        - 2
        + np.linalg.slogdet(K)[1]
        - np.linalg.slogdet(S)[1]
    )
    x, w = np.polynomial.hermite_e.hermegauss(80)
    f = mean[:, None] + np.sqrt(variance)[:, None] * x
    expected = (Probit().log_prob(y[:, None], f) @ w).sum() / np.sqrt(2 * np.pi)
    assert found.log_evidence == pytest.approx(expected - divergence, abs=1e-8)


def test_no_other_gaussian_has_a_larger_bound():
    X, y = table(40)
    kernel, terms = 1.5 * RBF(1.2), BinaryTerms(Logit())
    found = fit(kernel, X[:6], X, y, terms, tol=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(5):
        W = 0.1 * rng.standard_normal((6, 6))
        start = WeightSites(
            found.sites.b + 0.1 * rng.standard_normal((1, 6)),
            found.sites.A + W @ W.T,
            found.sites.L,
        )
        other = fit(kernel, X[:6], X, y, terms, init=start, max_passes=1)
        assert other.outcome is Outcome.MAX_ITER
        assert other.log_evidence < found.log_evidence


@pytest.mark.parametrize(
    "terms", [BinaryTerms(Probit()), SoftmaxTerms(3), MultinomialProbitTerms(3)], ids=repr
)
def test_how_rows_are_split_and_ordered_does_not_matter(terms):
    X, y = table(90)
    if terms.n_latents > 1:
        y = np.digitize(X[:, 0], [-0.5, 0.5])
    kernel, Z = 1.5 * RBF([1.2, 2.0, 1.0]), X[:12]
    one = fit(kernel, Z, X, y, terms, size=1000)
    order = np.random.default_rng(0).permutation(90)
    others = [fit(kernel, Z, X, y, terms, size=size) for size in (1, 7, 89)]
    for other in [*others, fit(kernel, Z, X[order], y[order], terms)]:
        assert other.log_evidence == pytest.approx(one.log_evidence, abs=1e-8)
        for a, b in zip(one.gradients, other.gradients, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-7)


@pytest.mark.parametrize("n_latents", [1, 3])
def test_one_pass_gives_the_sums_of_a_step_and_the_gradient(n_latents):
    X, y = table(90)
    terms = BinaryTerms(Probit()) if n_latents == 1 else SoftmaxTerms(3)
    classes = y if n_latents == 1 else np.digitize(X[:, 0], [-0.5, 0.5])
    kernel, Z = 1.5 * RBF(1.2), X[:12]
    found = fit(kernel, Z, X, classes, terms)
    both = found.rows.reduce(gradient_sums, found.basis, terms, found.posterior)
    for one, alone in zip(both[:3], found.sums, strict=True):
        np.testing.assert_allclose(one, alone, atol=1e-9)
    # a start that is one step away: its pass finds the gradients as well
    near = found.sites.scaled(1.0 + 1e-4)
    gain = WeightState.at(found.rows, terms, near).predicted_gain()
    again = fit(kernel, Z, X, classes, terms, init=near, tol=0.2 * gain)
    assert again.n_iter == 2
    assert again.slopes is not None
    for one, alone in zip(again.gradients, replace(again, slopes=None).gradients, strict=True):
        np.testing.assert_array_equal(one, alone)


def test_weights_are_repetition_and_zero_leaves_a_row_out():
    X, y = table(50)
    weights = np.random.default_rng(0).integers(0, 4, 50).astype(float)
    rows = np.repeat(np.arange(50), weights.astype(int))
    kernel, Z, terms = 1.5 * RBF(1.2), X[:9], BinaryTerms(Probit())
    weighted = fit(kernel, Z, X, y, terms, weights=weights)
    repeated = fit(kernel, Z, X[rows], y[rows], terms)
    assert weighted.log_evidence == pytest.approx(repeated.log_evidence, abs=1e-8)
    np.testing.assert_allclose(
        weighted.evidence_pullback(), repeated.evidence_pullback(), atol=1e-6
    )


def test_the_softmax_has_as_many_latents_as_classes_however_few_rows_one_has():
    X, _ = table(60)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    y[7] = 3
    kernel = 1.5 * RBF(1.2)
    found = fit(kernel, X[:10], X, y, SoftmaxTerms(4))
    assert found.converged
    assert found.sites.A.shape == (4, 10, 10)
    # classes in another order, with the points of their averages
    swapped = fit(kernel, X[:10], X, 3 - y, SoftmaxTerms(4, order=(3, 2, 1, 0)))
    assert swapped.log_evidence == pytest.approx(found.log_evidence, abs=1e-8)
    np.testing.assert_allclose(swapped.posterior.means[::-1], found.posterior.means, atol=1e-4)


def test_sites_are_carried_to_another_kernel():
    X, y = table(300)
    terms = BinaryTerms(Probit())
    old = fit(1.5 * RBF([1.2, 2.0, 1.0]), X[:20], X, y, terms)
    kernel = 1.6 * RBF([1.25, 1.9, 1.05])
    cold, warm = (fit(kernel, X[:20], X, y, terms, init=init) for init in (None, old.sites))
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-8)
    assert warm.n_iter < cold.n_iter
    # what the rows say of f(Z) is the same: the precision of N(f(Z)) less that of the prior
    said = []
    for sites in (old.sites, old.sites.carried(cold.basis.L)):
        root = np.linalg.inv(np.tril(sites.L))
        A = np.tril(sites.A[0])
        said.append(root.T @ (A + np.tril(A, -1).T) @ root)
    np.testing.assert_allclose(said[1], said[0], rtol=1e-7, atol=1e-7)
    assert old.sites.carried(old.basis.L) is old.sites


def test_predictions_are_those_of_the_inducing_values():
    X, y = table(80)
    kernel, Z = 1.5 * RBF(1.2), X[:7]
    found = fit(kernel, Z, X, y, BinaryTerms(Probit()))
    q, L = WeightPosterior.from_sites(found.sites), found.basis.L
    new = table(16, seed=5)[0]
    mean, own, delta = q.marginals(L, cross(kernel, Z, new), kernel.diag(new))
    U = np.linalg.solve(np.tril(L), kernel(Z, new))
    covariance = q.roots[0].T @ q.roots[0]
    np.testing.assert_allclose(mean[:, 0], U.T @ q.means[0], atol=1e-10)
    np.testing.assert_allclose(own[:, 0], np.diag(U.T @ covariance @ U), atol=1e-10)
    np.testing.assert_allclose(delta, kernel.diag(new) - (U * U).sum(axis=0), atol=1e-10)
    drawn = q.draws(L, cross(kernel, Z, new), kernel.diag(new), 20_000, np.random.RandomState(0))
    np.testing.assert_allclose(drawn[:, 0].mean(axis=1), mean[:, 0], atol=0.05)
    np.testing.assert_allclose(drawn[:, 0].var(axis=1), own[:, 0] + delta, rtol=0.05)


def test_a_large_variance_and_hardly_any_noise_converge():
    X, y = table(400)
    found = fit(1e4 * RBF(3.0), X[:40], X, y, BinaryTerms(Logit()))
    assert found.converged, found


def test_it_says_how_it_ended():
    X, y = table(50)
    terms = BinaryTerms(Probit())
    found = fit(RBF(1.0), X[:5], X, y, terms, max_passes=2)
    assert found.outcome is Outcome.MAX_ITER
    assert found.n_iter == 2
    assert repr(found).startswith("BlockApproximation(MAX_ITER, log_evidence=-")
    with pytest.raises(ValueError, match="tol positive"):
        VariationalByBlocks(tol=0.0)
    with pytest.raises(
        NotPositiveDefiniteError, match=r"inducing points .* by the kernel Pairwise"
    ):
        fit(PairwiseKernel(metric="sigmoid"), X[:5], X, y, terms)


def test_what_is_sent_to_workers_can_be_pickled():
    X, y = table(50)
    found = fit(RBF(1.0), X[:5], X, y, BinaryTerms(Probit()))
    for one in (found.basis, found.terms, found.posterior, found.sites, VariationalByBlocks()):
        assert type(pickle.loads(pickle.dumps(one))) is type(one)
