"""Monte Carlo for many classes: what the two-class tests do not reach."""

import numpy as np
import pytest

from gpclass.inference import EP
from gpclass.inference.nested import nested_ep
from gpclass.inference.sites import Sites
from gpclass.inference.softmax import SoftmaxLaplace
from gpclass.likelihoods import Logit, Probit
from gpclass.likelihoods.classes import MultinomialProbitLikelihood, SoftmaxLikelihood
from gpclass.montecarlo import (
    SamplePosterior,
    Samples,
    annealed_importance_sampling,
    elliptical_slice_sampling,
    nested_ep_sites,
)
from gpclass.montecarlo.gaussian import LatentGaussian, SiteTerms
from gpclass.priors.classes import ClassPosterior, ClassPrior, ClassSites

BOTH = pytest.mark.parametrize(
    "likelihood", [SoftmaxLikelihood(), MultinomialProbitLikelihood()], ids=lambda q: q.name
)


def squared_exponential(x, sd=2.0, length=1.0):
    x = np.asarray(x, dtype=float)
    return sd**2 * np.exp(-0.5 * ((x[:, None] - x) / length) ** 2)


@pytest.fixture
def several():
    """Five rows of three classes, and another kernel for each class."""
    x = np.array([0.0, 0.5, 1.2, 2.0, 3.1])
    K = [squared_exponential(x, 1.0 + c, 0.5 + 0.5 * c) for c in range(3)]
    return ClassPrior(K, 3), np.array([0, 0, 1, 2, 1])


def random_sites(n, C, seed=0):
    rng = np.random.default_rng(seed)
    b = rng.normal(size=(n, C))
    return ClassSites(b - b.mean(axis=1, keepdims=True), rng.uniform(0.1, 2.0, size=(n, C)))


def stacked(F):
    return np.moveaxis(F, 1, 0).reshape(-1, *F.shape[2:])


def unstacked(f, n_classes):
    return np.moveaxis(f.reshape(n_classes, -1, *f.shape[1:]), 0, 1)


def test_values_of_sites_are_their_quadratic_forms():
    sites, other = random_sites(4, 3), random_sites(4, 3, 1)
    sites.d[2] = 0.0
    F = np.random.default_rng(2).normal(size=(4, 3))

    def value(s):
        mass = np.where(s.d.sum(axis=1) > 0, s.d.sum(axis=1), 1.0)
        W = [np.diag(d) - np.outer(d, d) / m for d, m in zip(s.d, mass, strict=True)]
        return sum(b @ f - 0.5 * f @ w @ f for b, w, f in zip(s.b, W, F, strict=True))

    f = stacked(F)[:, None]
    one, two = SiteTerms.of(sites), SiteTerms.of(other)
    assert one.log_value(f)[0] == pytest.approx(value(sites))
    assert two.over(one, 0.3).log_value(f)[0] == pytest.approx(0.3 * value(other) - value(sites))
    assert one.over(one, 1.0).trivial


def test_a_dominant_class_keeps_the_digits_of_its_precision():
    W = SiteTerms.of(ClassSites(np.zeros((1, 3)), np.array([[1.0, 1e-20, 2e-20]]))).W[0]
    assert np.allclose(np.diag(W), [3e-20, 1e-20, 2e-20], rtol=1e-12, atol=0)


def test_the_prior_given_sites_is_the_posterior_of_those_sites(several):
    prior, _ = several
    sites = random_sites(5, 3)
    expected = ClassPosterior.from_sites(prior, sites)
    found = LatentGaussian.prior(prior).given(SiteTerms.of(sites))
    assert np.allclose(unstacked(found.mean, 3), expected.mean)
    assert np.allclose(unstacked(found.mean_weights, 3), expected.mean_weights)
    precision = np.zeros((3, 5, 3, 5))
    for i, W in enumerate(SiteTerms.of(sites).W):
        precision[:, i, :, i] = W
    for c, K in enumerate(prior.covariances):
        precision[c, :, c, :] += np.linalg.inv(K)
    (root,) = found.roots
    assert np.allclose(root @ root.T, np.linalg.inv(precision.reshape(15, 15)))
    b = stacked(sites.b)
    log_mass = 0.5 * b @ found.mean - 0.5 * expected.factor.log_det
    assert found.log_mass == pytest.approx(log_mass)


def test_draws_of_a_shared_singular_prior():
    x = np.array([0.0, 0.0, 1.0])
    prior = LatentGaussian.prior(ClassPrior(squared_exponential(x), 3))
    assert (prior.size, prior.rank) == (9, 6)
    f, a = prior.draw(np.random.default_rng(0), 4000)
    F = unstacked(f, 3)
    assert np.allclose(F[0], F[1])
    assert np.allclose(
        stacked(np.einsum("ij,jcs->ics", squared_exponential(x), unstacked(a, 3))), f
    )
    assert np.allclose(prior.inverse_times(f), a)
    assert np.cov(F[0]) == pytest.approx(4.0 * np.eye(3), abs=0.4)


@pytest.mark.slow
def test_two_classes_are_the_binary_evidence():
    x = np.array([0.0, 0.7, 2.0])
    K, codes = squared_exponential(x), np.array([1, 0, 1])
    y = 2.0 * codes - 1.0
    settings = {"n_temperatures": 200, "n_chains": 300, "random_state": 0}
    for likelihood, binary, scale in (
        (SoftmaxLikelihood(), Logit(), 1.0),
        (MultinomialProbitLikelihood(), Probit(), 2.0),
    ):
        # f_1 - f_0 has covariance 2 K; the probit's scale is 2^1/2
        K2 = 2.0 * K / scale
        start = EP()(K2, y, binary)
        known = annealed_importance_sampling(K2, y, binary, start=start, **settings)
        begin = nested_ep_sites(K, codes, likelihood)
        found = annealed_importance_sampling(K, codes, likelihood, start=begin, **settings)
        error = np.hypot(found.standard_error, known.standard_error)
        assert abs(found.log_evidence - known.log_evidence) < 4 * error < 0.03


@pytest.mark.slow
def test_the_nested_prior_is_another_way_to_the_same_evidence(several):
    # the probit's noise u among the latents, and binary annealing of all terms
    prior, codes = several
    near = nested_ep(prior, codes)
    settings = {"n_temperatures": 200, "n_chains": 200, "random_state": 0}
    covariance = np.stack([near.prior.multiply(e) for e in np.eye(near.prior.n)])
    binary = annealed_importance_sampling(
        covariance, np.ones(near.prior.n), Probit(), start=near.sites, **settings
    )
    found = annealed_importance_sampling(
        prior, codes, MultinomialProbitLikelihood(), start=near, **settings
    )
    error = np.hypot(found.standard_error, binary.standard_error)
    assert abs(found.log_evidence - binary.log_evidence) < 4 * error < 0.1


@pytest.mark.slow
@BOTH
def test_every_start_has_one_limit(several, likelihood):
    prior, codes = several
    # of precisions far below the posterior's: from above them chains would need long to get away
    weak = random_sites(5, 3)
    weak = ClassSites(0.2 * weak.b, 0.05 * weak.d)
    starts = ["prior", SoftmaxLaplace()(prior, codes), nested_ep(prior, codes), weak]
    found = [
        annealed_importance_sampling(
            prior, codes, likelihood, start=s, n_temperatures=100, n_chains=150, random_state=i
        )
        for i, s in enumerate(starts)
    ]
    unguided = annealed_importance_sampling(
        prior, codes, likelihood, guides="none", n_temperatures=200, n_chains=100, random_state=9
    )
    best = min(found, key=lambda q: q.standard_error)
    for q in (*found, unguided):
        error = np.hypot(q.standard_error, best.standard_error)
        assert abs(q.log_evidence - best.log_evidence) <= 4 * error < 0.5


@pytest.mark.slow
@BOTH
def test_a_weight_is_a_repetition(several, likelihood):
    prior, codes = several
    twice = [0, 1, 1, 2, 3]
    repeated = ClassPrior([K[np.ix_(twice, twice)] for K in prior.covariances], 3)
    settings = {"n_temperatures": 150, "n_chains": 200}
    a = annealed_importance_sampling(repeated, codes[twice], likelihood, random_state=0, **settings)
    weighted = [1, 2, 1, 1, 0]
    start = nested_ep_sites(prior, codes, likelihood, weights=weighted)
    for begin in ("prior", start):
        b = annealed_importance_sampling(
            prior, codes, likelihood, weights=weighted, start=begin, random_state=1, **settings
        )
        error = np.hypot(a.standard_error, b.standard_error)
        assert abs(a.log_evidence - b.log_evidence) < 4 * error < 0.3


@pytest.mark.slow
def test_an_array_shared_a_list_and_a_prior_are_one_problem():
    K, codes = squared_exponential([0.0, 1.0, 1.5]), [0, 2, 1]
    settings = {"n_temperatures": 20, "n_chains": 5, "random_state": 0}
    values = [
        annealed_importance_sampling(k, codes, SoftmaxLikelihood(), **settings).log_evidence
        for k in (K, ClassPrior(K, 3), [K, K, K], np.stack([K, K, K]))
    ]
    assert values[0] == values[1]
    assert values[2] == values[3]
    assert np.ptp(values) < 1e-6


def test_progress_and_the_same_bits_again(several):
    prior, codes = several
    seen = []
    run = {"n_samples": 20, "n_burn": 3, "n_chains": 5, "thin": 2, "random_state": 4}
    a = elliptical_slice_sampling(
        prior,
        codes,
        SoftmaxLikelihood(),
        progress=lambda done, total: seen.append((done, total)),
        **run,
    )
    assert seen[-1] == (11, 11)
    b = elliptical_slice_sampling(prior, codes, SoftmaxLikelihood(), **run)
    assert np.array_equal(a.f, b.f)
    assert a.f.shape == a.a.shape == (5, 3, 4, 5)
    K = np.stack(prior.covariances)
    assert np.allclose(np.einsum("cij,jcdr->icdr", K, a.a), a.f)
    assert a.effective_sample_size.shape == a.mean.shape == a.rhat.shape == (5, 3)
    assert len(a.samples) == 5


def test_predictions_of_samples_are_those_of_the_mixture(several):
    prior, codes = several
    draws = elliptical_slice_sampling(
        prior,
        codes,
        SoftmaxLikelihood(),
        n_samples=40,
        n_burn=10,
        n_chains=10,
        thin=2,
        random_state=0,
    )
    posterior = SamplePosterior.from_samples(prior, draws.samples)
    # at the training rows nothing is left of the prior's variance: the draws themselves
    k_diag = np.stack([np.diag(K) for K in prior.covariances], axis=1)
    mean, covariance = posterior.predict(prior.covariances, k_diag)
    assert np.allclose(mean, draws.mean, atol=1e-6)
    variance = np.einsum("icc->ic", covariance)
    assert np.allclose(variance, draws.variance, atol=1e-5)
    p = posterior.probabilities(SoftmaxLikelihood(), prior.covariances, k_diag, n_draws=1)
    by_draw = SoftmaxLikelihood().probabilities(draws.f.reshape(5, 3, -1).transpose(2, 0, 1))
    assert np.allclose(p, by_draw.mean(axis=0), atol=1e-3)
    # far away: the prior
    far = posterior.predict([np.zeros((5, 40))] * 3, np.ones((40, 3)) * [1.0, 4.0, 9.0])
    assert np.allclose(far[0], 0.0)
    assert np.allclose(far[1], np.diag([1.0, 4.0, 9.0]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"y": [0, 1, 3, 2, 1]}, ValueError, "y must lie in 0 to 2, got 0 to 3"),
        ({"y": [0, 1]}, ValueError, "y must be 5 integers"),
        ({"y": [0.0, 1.0, 2.0, 1.0, 0.0]}, ValueError, "y must be 5 integers"),
        ({"weights": [1, 2]}, ValueError, "weights must be 5 finite"),
        ({"weights": [1, 2, -1, 0, 0]}, ValueError, "weights must be 5 finite"),
        ({"K": np.zeros(4)}, ValueError, "K must be one"),
        ({"start": Sites(np.zeros(5), np.ones(5))}, TypeError, "start must be ClassSites"),
        ({"start": "ep"}, ValueError, "start must be"),
        ({"start": None}, TypeError, "start must be"),
        ({"start": random_sites(4, 3)}, ValueError, "start must have sites of 5 rows and 3"),
        ({"n_chains": 0}, ValueError, "n_chains must be"),
    ],
)
def test_what_annealing_refuses(several, change, error, match):
    prior, codes = several
    given = {"K": prior, "y": codes, "likelihood": SoftmaxLikelihood(), **change}
    with pytest.raises(error, match=match):
        annealed_importance_sampling(**given)


def test_what_samples_and_gaussians_refuse(several):
    prior, _ = several
    with pytest.raises(ValueError, match="weights must have shape"):
        Samples(np.zeros((3, 2, 4, 1)))
    with pytest.raises(ValueError, match="finite"):
        Samples(np.full((3, 2, 1), np.nan))
    with pytest.raises(ValueError, match="the samples are of 4 rows and 3"):
        SamplePosterior.from_samples(prior, Samples(np.zeros((4, 3, 2))))
    posterior = SamplePosterior.from_samples(prior, Samples(np.zeros((5, 3, 2))))
    with pytest.raises(ValueError, match=r"K_cross must have shape \(5, m\)"):
        posterior.predict(np.zeros((4, 2)), np.ones(2))
