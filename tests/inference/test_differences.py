"""Latent differences: KG06 section 4 by every binary method."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import EP, Laplace, PosteriorLinearisation, TangentBound, Variational
from gpclass.inference.differences import DifferencePosterior, latent_differences
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Likelihood, Logit, NoisyThreshold, Probit
from gpclass.likelihoods.probabilities.differences import difference_probabilities
from gpclass.linalg import TILE
from gpclass.priors.differences import Differences

# the bound is one of the logit's terms
PAIRS = [
    *product(
        [
            EP(),
            EP("sequential"),
            PosteriorLinearisation(),
            PosteriorLinearisation("sequential"),
            Variational(),
            Laplace(),
        ],
        [Probit(), Logit()],
    ),
    (TangentBound("lower"), Logit()),
    (TangentBound("upper"), Logit()),
    (EP(), NoisyThreshold(0.05)),
    (EP("sequential"), NoisyThreshold(0.05)),
    (PosteriorLinearisation(), NoisyThreshold(0.2)),
    (Variational(), NoisyThreshold(0.1)),
]
EVERY_PAIR = pytest.mark.parametrize(("method", "likelihood"), PAIRS, ids=str)
SMOOTH = pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=str)
SHARED = pytest.mark.parametrize("shared", [True, False])


def rows(n, C, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    f = np.stack([X @ rng.standard_normal(2) for _ in range(C)], axis=1)
    return X, np.argmax(f + 0.7 * rng.standard_normal((n, C)), axis=1)


def kernel(X, Z, signal=1.5, length=1.0):
    return signal**2 * np.exp(-0.5 * ((X[:, None] - Z[None]) ** 2).sum(-1) / length**2)


def kernels(X, Z, C, shared):
    if shared:
        return kernel(X, Z)
    return tuple(kernel(X, Z, 1.0 + 0.4 * c, 0.7 + 0.3 * c) for c in range(C))


def each(K, C):
    return [K] * C if isinstance(K, np.ndarray) else list(K)


def pairs(codes, C):
    """KG06 eq. 45, by loops: (row, class of the row, other class)."""
    return [(i, y, j) for i, y in enumerate(codes) for j in range(C) if j != y]


def matrix_of(codes, C):
    """The differences as a dense matrix on f, classes one after the other (KG06 eq. 36)."""
    n = len(codes)
    D = np.zeros((n * (C - 1), C * n))
    for r, (i, y, j) in enumerate(pairs(codes, C)):
        D[r, y * n + i] = 1.0
        D[r, j * n + i] = -1.0
    return D


def block_diagonal(blocks):
    n, m = blocks[0].shape
    K = np.zeros((n * len(blocks), m * len(blocks)))
    for c, block in enumerate(blocks):
        K[c * n : (c + 1) * n, c * m : (c + 1) * m] = block
    return K


@SHARED
@pytest.mark.parametrize(("n", "C"), [(1, 2), (7, 2), (9, 3), (70, 3), (130, 2), (12, 6)])
def test_covariance_is_that_of_the_paper_by_loops(n, C, shared):
    X, codes = rows(n, C)
    K = kernels(X, X, C, shared)
    Ks = each(K, C)
    want = np.zeros((n * (C - 1), n * (C - 1)))
    for r, (i, y, j) in enumerate(pairs(codes, C)):
        for s, (k, z, l) in enumerate(pairs(codes, C)):
            want[r, s] = (
                (y == z) * Ks[y][i, k]
                - (y == l) * Ks[y][i, k]
                - (j == z) * Ks[j][i, k]
                + (j == l) * Ks[j][i, k]
            )
    np.testing.assert_allclose(Differences(codes, C).covariance(K), want, rtol=1e-14, atol=1e-15)
    D = matrix_of(codes, C)
    np.testing.assert_allclose(want, D @ block_diagonal(Ks) @ D.T, atol=1e-13)


@SHARED
@pytest.mark.parametrize(("n", "C"), [(1, 2), (9, 3), (70, 4), (129, 2)])
def test_pullback_is_the_adjoint_of_covariance(n, C, shared):
    rng = np.random.default_rng(0)
    _, codes = rows(n, C)
    G = rng.standard_normal((n * (C - 1), n * (C - 1)))
    K = rng.standard_normal((n, n) if shared else (C, n, n))
    pulled = Differences(codes, C).pullback(G, shared=shared)
    assert pulled.shape == K.shape
    forward = (G * Differences(codes, C).covariance(K)).sum()
    assert forward == pytest.approx((pulled * K).sum(), rel=1e-11)


def test_vectors_of_differences():
    rng = np.random.default_rng(0)
    _, codes = rows(20, 4)
    differences = Differences(codes, 4)
    F, a = rng.standard_normal((20, 4)), rng.standard_normal(60)
    D = matrix_of(codes, 4)
    np.testing.assert_allclose(differences.of(F), D @ F.T.ravel(), atol=1e-14)
    np.testing.assert_allclose(differences.adjoint(a).T.ravel(), D.T @ a, atol=1e-14)


def test_a_class_without_rows_has_a_latent_as_the_others():
    X, codes = rows(15, 3)
    q = latent_differences(kernel(X, X), 2 * codes, 5, EP(), Probit())
    assert q.converged
    mean, covariance = q.posterior.predict(kernel(X, X), np.full(15, 1.5**2))
    # classes 1 and 3, that no row has, are alike, and below what the rows' classes are on average
    np.testing.assert_allclose(mean[:, 1], mean[:, 3], atol=1e-7)
    assert mean[:, 1].mean() < mean[:, ::2].mean()
    np.testing.assert_allclose(covariance[:, 1, 1], covariance[:, 3, 3], atol=1e-7)


NESTED = {
    "iris": (
        np.ones(4),
        1.0,
        -35.23937296789347,
        17.183625713867485,
        [1.5990314589726902, -0.7023237632358724, -0.8967076957368197],
    ),
    "made up": (
        0.3 * np.ones(2),
        10.0,
        -117.19316405403276,
        -8.39726845850464,
        [0.8860295457780012, -4.470040204365843, 3.5840106585878493],
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_with_noise_shared_by_a_row_it_is_nested_ep(name):
    """Terms ``Phi(f_y - f_j + u)``, u ~ N(0, 1), against GPstuff's nested EP.

    Values of its revision 114937e with tight tolerances: evidence, its gradient by the log signal
    deviation, and the latent mean of the first test row.
    """
    if name == "iris":
        X, y = load_iris(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        X, codes, Z = X[::2], y[::2], X[1::2][:1]
    else:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((120, 2))
        F = np.stack([2 * X[:, 0], 2 * X[:, 1], -X.sum(axis=1)], axis=1)
        codes = np.argmax(F + rng.gumbel(size=F.shape), axis=1)
        Z = rng.standard_normal((50, 2))[:1]
    lengths, signal, log_evidence, slope, first_mean = NESTED[name]
    K = kernel(X / lengths, X / lengths, signal)
    noise = np.kron(np.eye(len(X)), np.ones((2, 2)))
    q = EP()(Differences(codes, 3).covariance(K) + noise, np.ones(2 * len(X)), Probit())
    assert q.log_evidence == pytest.approx(log_evidence, rel=1e-7)
    G = Differences(codes, 3).pullback(q.evidence_pullback(), shared=True)
    assert 2 * (G * K).sum() == pytest.approx(slope, rel=1e-6)
    posterior = DifferencePosterior(Differences(codes, 3), q.posterior)
    mean, _ = posterior.predict(kernel(X / lengths, Z / lengths, signal), np.full(1, signal**2))
    np.testing.assert_allclose(mean[0], first_mean, atol=1e-6)


@pytest.mark.slow
@EVERY_PAIR
def test_two_classes_are_the_binary_method_under_twice_the_covariance(method, likelihood):
    X, codes = rows(14, 2, seed=3)
    Z = np.random.default_rng(1).standard_normal((6, 2))
    K, K_cross, k_diag = kernel(X, X), kernel(X, Z), np.full(6, 1.5**2)
    y = np.where(codes == 1, 1.0, -1.0)
    weights = np.random.default_rng(2).integers(1, 3, 14).astype(float)
    binary = method(2 * K, y, likelihood, weights=weights)
    q = latent_differences(K, codes, 2, method, likelihood, weights=weights)
    assert q.converged
    assert binary.converged
    assert q.log_evidence == pytest.approx(binary.log_evidence, rel=1e-7, abs=1e-7)
    np.testing.assert_allclose(q.sites.tau, binary.sites.tau, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(y * q.sites.nu, binary.sites.nu, rtol=1e-6, atol=1e-7)
    G = binary.evidence_pullback()
    scale = np.abs(G).max()
    np.testing.assert_allclose(q.evidence_pullback(), 2 * G, atol=1e-7 * scale)
    np.testing.assert_allclose(q.likelihood_gradient(), binary.likelihood_gradient(), atol=1e-7)
    g, v = binary.posterior.predict(2 * K_cross, 2 * k_diag)
    mean, covariance = q.posterior.predict(K_cross, k_diag)
    np.testing.assert_allclose(mean[:, 1] - mean[:, 0], g, atol=1e-7)
    contrast = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]
    np.testing.assert_allclose(contrast, v, atol=1e-7)
    # what both have in common is not known better than before
    np.testing.assert_allclose(covariance.sum(axis=(1, 2)), 2 * k_diag, rtol=1e-12)
    P = difference_probabilities(mean, covariance, likelihood)
    np.testing.assert_allclose(P[:, 1], likelihood.predict_proba(g, v), atol=1e-7)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)


@SMOOTH
@SHARED
def test_two_classes_with_a_covariance_each(likelihood, shared):
    X, codes = rows(12, 2, seed=5)
    K = kernels(X, X, 2, shared)
    y = np.where(codes == 1, 1.0, -1.0)
    binary = EP()(sum(each(K, 2)), y, likelihood)
    q = latent_differences(K, codes, 2, EP(), likelihood)
    assert q.log_evidence == pytest.approx(binary.log_evidence, rel=1e-7)


# two rows of two classes of three: four differences
X2 = np.array([[0.0, 0.3], [0.9, -0.2]])
CODES2 = np.array([0, 2])


def brute_force(K, likelihood, order=32):
    """Evidence by a tensor Gauss-Hermite rule over the four whitened differences."""
    L = np.linalg.cholesky(Differences(CODES2, 3).covariance(K))
    x, w = np.polynomial.hermite_e.hermegauss(order)
    w = w / w.sum()
    nodes = np.stack(np.meshgrid(x, x, x, x, indexing="ij"), axis=-1).reshape(-1, 4)
    mass = np.einsum("a,b,c,d->abcd", w, w, w, w).ravel()
    g = nodes @ L.T
    total = sum(likelihood.log_prob(np.ones(len(g)), g[:, k]) for k in range(4))
    return float(np.log(mass @ np.exp(total)))


def tuples(shared):
    return kernels(X2, X2, 3, shared)


@SMOOTH
@SHARED
def test_evidence_of_two_rows_beside_quadrature(likelihood, shared):
    K = tuples(shared)
    truth = brute_force(K, likelihood)
    assert truth == pytest.approx(brute_force(K, likelihood, 26), abs=3e-5)

    def evidence(method):
        return latent_differences(K, CODES2, 3, method, likelihood).log_evidence

    assert evidence(EP()) == pytest.approx(truth, abs=2e-3)
    assert evidence(EP("sequential")) == pytest.approx(evidence(EP()), abs=1e-8)
    assert evidence(PosteriorLinearisation()) == pytest.approx(truth, abs=3e-3)
    assert truth - 0.06 < evidence(Variational()) < truth
    assert evidence(Laplace()) == pytest.approx(truth, abs=0.15)
    if likelihood == Logit():
        assert evidence(TangentBound("lower")) < truth < evidence(TangentBound("upper"))


@SHARED
def test_evidence_of_hard_and_noisy_thresholds_beside_orthants(shared):
    """Of four terms ``eps + (1 - 2 eps) H`` each set of them asks for one orthant probability."""
    K_g = Differences(CODES2, 3).covariance(tuples(shared))
    epsilon = 0.1
    orthant = {}
    for chosen in product([False, True], repeat=4):
        part = np.flatnonzero(chosen)
        mass = 1.0
        if len(part):
            mass = multivariate_normal(cov=K_g[np.ix_(part, part)], seed=0).cdf(np.zeros(len(part)))
        orthant[chosen] = mass
    truth = sum(
        (1 - 2 * epsilon) ** sum(chosen) * epsilon ** (4 - sum(chosen)) * mass
        for chosen, mass in orthant.items()
    )
    hard = np.log(orthant[True, True, True, True])
    for likelihood, want in ((NoisyThreshold(epsilon), np.log(truth)), (NoisyThreshold(0.0), hard)):
        q = latent_differences(tuples(shared), CODES2, 3, EP(), likelihood)
        assert q.converged
        assert q.log_evidence == pytest.approx(want, abs=0.03)


def textbook(K, K_cross, k_diag, codes, C, sites):
    """Posterior of all f at new inputs by dense matrices, from K + T^-1 of the differences."""
    n, m = len(codes), len(k_diag)
    D = matrix_of(codes, C)
    prior = block_diagonal(each(K, C))
    V = D @ block_diagonal(each(K_cross, C))
    R = np.linalg.inv(D @ prior @ D.T + np.diag(1 / sites.tau))
    a = R @ (sites.nu / sites.tau)
    mean = (V.T @ a).reshape(C, m).T
    prior_new = block_diagonal([np.diag(k_diag[:, c]) for c in range(C)])
    full = (prior_new - V.T @ R @ V).reshape(C, m, C, m)
    covariance = np.stack([full[:, i, :, i] for i in range(m)])
    assert n == len(K_cross) or n == len(K_cross[0])
    return mean, covariance


@SHARED
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("C", [2, 3, 5])
def test_prediction_is_the_textbook_one(C, negative, shared):
    X, codes = rows(11, C)
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((13, 2))
    K, K_cross = kernels(X, X, C, shared), kernels(X, Z, C, shared)
    k_diag = np.stack([Kc.diagonal() for Kc in each(kernels(Z, Z, C, shared), C)], axis=1)
    sites = Sites(rng.standard_normal(11 * (C - 1)), rng.uniform(0.1, 2.0, 11 * (C - 1)))
    if negative:
        sites.tau[::4] = -0.02
    posterior = DifferencePosterior.from_sites(K, codes, C, sites)
    before = [Kc.copy() for Kc in each(K_cross, C)]
    mean, covariance = posterior.predict(K_cross, k_diag)
    want = textbook(K, K_cross, k_diag, codes, C, sites)
    np.testing.assert_allclose(mean, want[0], atol=1e-11)
    np.testing.assert_allclose(covariance, want[1], atol=1e-11)
    assert np.array_equal(covariance, covariance.transpose(0, 2, 1))
    assert (np.linalg.eigvalsh(covariance) > 0).all()
    for Kc, old in zip(each(K_cross, C), before, strict=True):
        assert np.array_equal(Kc, old)
    if shared:
        again = posterior.predict(K_cross, k_diag[:, 0])
        assert np.array_equal(again[1], covariance)
        # the mean of the classes is what no difference tells anything about
        np.testing.assert_allclose(mean.sum(axis=1), 0.0, atol=1e-12)
        np.testing.assert_allclose(covariance.sum(axis=2), k_diag, atol=1e-11)


@SHARED
@pytest.mark.parametrize("negative", [False, True])
def test_a_row_predicted_alone_has_the_same_bits(negative, shared):
    X, codes = rows(40, 3)
    Z = np.random.default_rng(0).standard_normal((75, 2))
    K, K_cross = kernels(X, X, 3, shared), kernels(X, Z, 3, shared)
    tau = np.random.default_rng(1).uniform(0.1, 2.0, 80)
    if negative:
        tau[::7] = -0.01
    posterior = DifferencePosterior.from_sites(K, codes, 3, Sites(np.ones(80), tau))
    k_diag = np.full((75, 3), 5.0)
    mean, covariance = posterior.predict(K_cross, k_diag)
    assert 80 // 3 // TILE * TILE < 75  # so that they came in several chunks
    for part in (slice(0, 1), slice(3, 5), slice(20, 75), slice(74, 75), slice(1, 75, 2)):
        some = [Kc[:, part] for Kc in each(K_cross, 3)]
        got = posterior.predict(some[0] if shared else some, k_diag[part])
        assert np.array_equal(got[0], mean[part])
        assert np.array_equal(got[1], covariance[part])


def test_predicting_nothing():
    X, codes = rows(5, 3)
    posterior = DifferencePosterior.from_sites(
        kernel(X, X), codes, 3, Sites(np.ones(10), np.ones(10))
    )
    mean, covariance = posterior.predict(np.empty((5, 0)), np.empty(0))
    assert mean.shape == (0, 3)
    assert covariance.shape == (0, 3, 3)


@SHARED
@pytest.mark.parametrize("likelihood", [Probit(), Logit(), NoisyThreshold(0.1)], ids=str)
def test_classes_and_rows_in_another_order(likelihood, shared):
    X, codes = rows(16, 4)
    K = kernels(X, X, 4, shared)
    q = latent_differences(K, codes, 4, EP(), likelihood)
    k_diag = np.stack([Kc.diagonal() for Kc in each(K, 4)], axis=1)
    mean, covariance = q.posterior.predict(K, k_diag)

    new_name = np.array([2, 0, 3, 1])
    old_name = np.argsort(new_name)
    renamed = K if shared else [K[c] for c in old_name]
    other = latent_differences(renamed, new_name[codes], 4, EP(), likelihood)
    assert other.log_evidence == pytest.approx(q.log_evidence, rel=1e-7)
    got = other.posterior.predict(renamed, k_diag[:, old_name])
    np.testing.assert_allclose(got[0][:, new_name], mean, atol=1e-7)
    np.testing.assert_allclose(got[1][:, new_name][:, :, new_name], covariance, atol=1e-7)
    G, H = q.evidence_pullback(), other.evidence_pullback()
    np.testing.assert_allclose(H if shared else H[new_name], G, atol=1e-7)

    order = np.random.default_rng(0).permutation(16)
    shuffled = [np.ascontiguousarray(Kc[np.ix_(order, order)]) for Kc in each(K, 4)]
    other = latent_differences(
        shuffled[0] if shared else shuffled, codes[order], 4, EP(), likelihood
    )
    assert other.log_evidence == pytest.approx(q.log_evidence, rel=1e-7)
    np.testing.assert_allclose(other.evidence_pullback(), G[..., order, :][..., order], atol=1e-7)


@pytest.mark.parametrize(
    ("method", "likelihood"),
    [
        (EP(), Probit()),
        (Laplace(), Logit()),
        (Variational(), Logit()),
        (PosteriorLinearisation(), Probit()),
        (EP(), NoisyThreshold(0.1)),
    ],
    ids=str,
)
def test_weights_are_repetition(method, likelihood):
    X, codes = rows(10, 3)
    weights = np.array([0, 3, 1, 2, 1, 1, 1, 2, 1, 1])
    again = np.repeat(np.arange(10), weights)
    K = kernel(X, X)
    q = latent_differences(K, codes, 3, method, likelihood, weights=weights)
    r = latent_differences(
        np.ascontiguousarray(K[np.ix_(again, again)]), codes[again], 3, method, likelihood
    )
    assert q.converged
    assert r.converged
    assert q.log_evidence == pytest.approx(r.log_evidence, rel=1e-8)
    G = np.zeros((10, 10))
    np.add.at(G, np.ix_(again, again), r.evidence_pullback())
    np.testing.assert_allclose(q.evidence_pullback(), G, atol=1e-7)
    np.testing.assert_allclose(q.likelihood_gradient(), r.likelihood_gradient(), atol=1e-7)
    got = q.posterior.predict(K, K.diagonal())
    want = r.posterior.predict(np.ascontiguousarray(K[again]), K.diagonal())
    np.testing.assert_allclose(got[0], want[0], atol=1e-7)
    np.testing.assert_allclose(got[1], want[1], atol=1e-7)


@pytest.mark.slow
@SHARED
@EVERY_PAIR
def test_gradient_by_differences(method, likelihood, shared):
    X, codes = rows(9, 3)
    K = kernels(X, X, 3, shared)
    q = latent_differences(K, codes, 3, method, likelihood)
    assert q.converged
    G = np.asarray(q.evidence_pullback())
    assert G.shape == ((9, 9) if shared else (3, 9, 9))
    np.testing.assert_allclose(G, np.swapaxes(G, -1, -2), atol=1e-12 * np.abs(G).max())
    direction = np.stack([kernel(X, X, 1.0, 1.0 + c) for c in range(3)])

    def slope(change, step=1e-3):
        """Of fourth order; K + t change is a covariance for small t of either sign."""

        def at(t):
            if shared:
                moved = K + t * change
            else:
                moved = [Kc + t * d for Kc, d in zip(K, change, strict=True)]
            found = latent_differences(moved, codes, 3, method, likelihood, init=q)
            return found.log_evidence

        v = [at(t * step) for t in (-2, -1, 1, 2)]
        return (8 * (v[2] - v[1]) - (v[3] - v[0])) / (12 * step)

    if shared:
        changes = [direction[0] + 0.5 * np.eye(9)]
    else:
        changes = [d[:, None, None] * direction for d in np.eye(3)]
    for change in changes:
        terms = G * change
        scale = max(1.0, np.abs(terms).sum())
        assert terms.sum() == pytest.approx(slope(change), abs=1e-5 * scale)


def test_gradient_by_epsilon():
    X, codes = rows(20, 3)
    K, likelihood = kernel(X, X), NoisyThreshold(0.08)
    q = latent_differences(K, codes, 3, EP(), likelihood)
    v = [
        latent_differences(
            K, codes, 3, EP(), likelihood.with_theta(likelihood.theta + t), init=q
        ).log_evidence
        for t in (-1e-4, 1e-4)
    ]
    assert q.likelihood_gradient()[0] == pytest.approx((v[1] - v[0]) / 2e-4, abs=1e-5)


def test_noisy_threshold_gives_negative_precisions_and_a_proper_posterior():
    X, codes = rows(30, 3)
    codes = codes.copy()
    codes[:4] = (codes[:4] + 1) % 3  # labels that the others contradict
    K = kernel(X, X, 3.0, 2.0)
    q = latent_differences(K, codes, 3, EP(), NoisyThreshold(0.02))
    assert q.converged
    assert (q.sites.tau < 0).any()
    k_diag = np.full(30, 9.0)
    mean, covariance = q.posterior.predict(K, k_diag)
    want = textbook(K, K, np.tile(k_diag[:, None], 3), codes, 3, q.sites)
    np.testing.assert_allclose(mean, want[0], atol=1e-6)
    np.testing.assert_allclose(covariance, want[1], atol=1e-6)
    assert (np.linalg.eigvalsh(covariance) > 0).all()


def test_start_does_not_move_the_end():
    X, codes = rows(20, 3)
    K = kernel(X, X)
    q = latent_differences(K, codes, 3, EP(), Probit())
    for init in (q, q.sites):
        again = latent_differences(K, codes, 3, EP(), Probit(), init=init)
        assert again.log_evidence == pytest.approx(q.log_evidence, abs=1e-9)
        assert again.n_iter <= q.n_iter
    restored = DifferencePosterior.from_sites(K, codes, 3, q.sites)
    got, want = (p.predict(K, K.diagonal()) for p in (restored, q.posterior))
    np.testing.assert_allclose(got[0], want[0], atol=1e-9)
    np.testing.assert_allclose(got[1], want[1], atol=1e-9)


def test_both_label_schemes_of_the_paper_are_the_largest_latent_mean():
    """Eq. 52 by loops; 53 and 54 as printed."""
    X, codes = rows(25, 4)
    Z = np.random.default_rng(0).standard_normal((40, 2))
    q = latent_differences(kernel(X, X), codes, 4, EP(), Probit())
    K_cross = kernel(X, Z)
    mean, _ = q.posterior.predict(K_cross, np.full(40, 1.5**2))
    alpha = q.binary.posterior.mean_weights
    g = np.zeros((40, 4, 4))
    for a, (i, y, j) in zip(alpha, pairs(codes, 4), strict=True):
        for c, d in product(range(4), repeat=2):
            g[:, c, d] += a * (int(y == c) - (y == d) - (c == j) + (j == d)) * K_cross[i]
    np.testing.assert_allclose(g, mean[:, :, None] - mean[:, None, :], atol=1e-10)
    wins = np.array(
        [[sum(g[r, c, d] > 0 for d in range(4) if d != c) for c in range(4)] for r in range(40)]
    )
    assert (wins.max(axis=1) == 3).all()
    assert np.array_equal(mean.argmax(axis=1), wins.argmax(axis=1))
    for reference in range(4):
        others = [c for c in range(4) if c != reference]
        printed = [
            reference
            if (row[reference, others] > 0).all()
            else min(others, key=lambda d, row=row: row[reference, d])
            for row in g
        ]
        assert np.array_equal(printed, mean.argmax(axis=1))


def test_wrong_arguments():
    K, codes = np.eye(3), np.array([0, 1, 2])
    for (covariance, given, C), message in (
        ((K, np.array([0, 1, 3]), 3), "codes must be from 0 to 2, got 0 to 3"),
        ((K, np.array([-1, 1, 2]), 3), "codes must be from 0 to 2"),
        ((K, codes.astype(float), 3), "integers"),
        ((K, np.zeros(3, dtype=int), 1), "n_classes must be at least 2"),
        ((np.eye(2), codes, 3), "3 rows"),
        ((np.ones((3, 2)), codes, 3), "square"),
        (([K, K], codes, 3), "or 3 of one shape, got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            Differences(given, C).covariance(covariance)
    with pytest.raises(ValueError, match=r"G must have shape \(6, 6\)"):
        Differences(codes, 3).pullback(K, shared=True)
    with pytest.raises(ValueError, match="6 sites are needed, got 3"):
        DifferencePosterior.from_sites(K, codes, 3, Sites(np.ones(3), np.ones(3)))
    with pytest.raises(ValueError, match="weights must be"):
        latent_differences(K, codes, 3, EP(), Probit(), weights=np.ones(6))
    posterior = DifferencePosterior.from_sites(K, codes, 3, Sites(np.ones(6), np.ones(6)))
    with pytest.raises(ValueError, match="k_diag must have shape"):
        posterior.predict(K, np.ones((3, 2)))
    with pytest.raises(ValueError, match="3 rows"):
        posterior.predict(np.eye(2), np.ones(2))


def some_latents(m, C, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, C, C))
    return 1.5 * rng.standard_normal((m, C)), A @ A.transpose(0, 2, 1)


def orthants(mean, covariance, noise):
    """KG06 eq. 50: the volume where all differences of a class are positive."""
    m, C = mean.shape
    P = np.empty((m, C))
    for c in range(C):
        D = np.delete(np.eye(C)[c] - np.eye(C), c, axis=0)
        for i in range(m):
            S = D @ (covariance[i] + noise * np.eye(C)) @ D.T
            P[i, c] = multivariate_normal(cov=S, abseps=1e-6, seed=0).cdf(D @ mean[i])
    return P


@pytest.mark.parametrize("C", [3, 4])
def test_probabilities_are_orthants_of_the_differences(C):
    mean, covariance = some_latents(3, C)
    hard = orthants(mean, covariance, 0.0)
    got = difference_probabilities(mean, covariance, NoisyThreshold(0.0))
    np.testing.assert_allclose(got, hard, atol=1e-4)
    # the terms of the largest class against each other are those of the binary threshold
    noisy = difference_probabilities(mean, covariance, NoisyThreshold(0.1))
    np.testing.assert_allclose(noisy, (0.8 * hard + 0.1) / (0.8 + 0.1 * C), atol=1e-4)
    got = difference_probabilities(mean, covariance, Probit())
    np.testing.assert_allclose(got, orthants(mean, covariance, 0.5), atol=1e-4)
    for likelihood in (Probit(), Logit(), NoisyThreshold(0.1)):
        P = difference_probabilities(mean, covariance, likelihood)
        np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)


def test_probabilities_of_the_logit_average_the_softmax():
    mean, covariance = some_latents(6, 3)
    x, w = np.polynomial.hermite_e.hermegauss(50)
    nodes = np.stack(np.meshgrid(x, x, x, indexing="ij"), axis=-1).reshape(-1, 3)
    mass = np.einsum("a,b,c->abc", w, w, w).ravel() / w.sum() ** 3
    got = difference_probabilities(mean, covariance, Logit())
    for i in range(6):
        f = np.exp(mean[i] + nodes @ np.linalg.cholesky(covariance[i]).T)
        want = mass @ (f / f.sum(axis=1, keepdims=True))
        np.testing.assert_allclose(got[i], want, atol=1e-4)


def test_terms_are_the_pairwise_probabilities_where_latents_are_known():
    f = np.array([[0.4, -0.3, 0.1], [0.4, -0.3, -30.0]])
    known = np.zeros((2, 3, 3))
    one = np.ones(1)
    P = difference_probabilities(f, known, Logit())
    for c, d in product(range(3), repeat=2):
        term = np.exp(Logit().log_prob(1.0, f[:, c] - f[:, d]))
        np.testing.assert_allclose(P[:, c] / (P[:, c] + P[:, d]), term, atol=1e-4)
    # the third class is out of reach
    P = difference_probabilities(f[1:], known[1:], Probit())
    assert P[0, 0] == pytest.approx(np.exp(Probit().log_prob(one, 0.7 * one))[0], abs=1e-4)
    P = difference_probabilities(f, known, NoisyThreshold(0.1))
    np.testing.assert_allclose(P[:, 0] / (P[:, 0] + P[:, 1]), 0.9, atol=1e-4)
    np.testing.assert_allclose(P[:, 0] / (P[:, 0] + P[:, 2]), 0.9, atol=1e-4)


def test_probabilities_of_another_likelihood_are_refused_beyond_two_classes():
    class Other(Likelihood):
        name = "other"

    Other.__abstractmethods__ = frozenset()
    with pytest.raises(TypeError, match="pairwise probabilities"):
        difference_probabilities(np.zeros((1, 3)), np.eye(3)[None], Other())


@pytest.mark.parametrize("bad", [np.inf, np.nan, -1.0])
def test_the_kernel_is_named_where_it_fails(bad):
    K = np.diag([bad, bad])
    with pytest.raises(NotPositiveDefiniteError, match="my kernel"):
        latent_differences(K, np.array([0, 1]), 3, EP(), Probit(), description="my kernel")
