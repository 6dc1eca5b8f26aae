"""Laplace's softmax against differences, brute force, the binary method, repetition, hostility."""

import itertools
import json

import mpmath
import numpy as np
import pytest
from scipy.special import logsumexp

from gpclass.inference import Laplace, Outcome
from gpclass.inference.softmax import SoftmaxLaplace
from gpclass.inference.solvers.softmax_mode import softmax_terms
from gpclass.likelihoods import Logit
from gpclass.priors.classes import ClassPosterior, ClassPrior, ClassSites
from helpers import each, folder, pairs, rbf


def problem(n=25, C=3, seed=0):
    rng = np.random.default_rng([seed, n, C])
    X = rng.standard_normal((n, 2))
    codes = (X @ rng.standard_normal((2, C)) + 0.5 * rng.gumbel(size=(n, C))).argmax(1)
    return X, codes, rng


def kernels(X, C, shared, signal=2.0):
    if shared:
        return rbf(X, signal)
    return [rbf(X, signal * (1 + 0.2 * c), 1.0 + 0.3 * c) for c in range(C)]


def textbook(K, codes, C, weights):
    """Undamped Newton with dense (n C) x (n C) matrices."""
    n = len(codes)
    blocks = [K] * C if isinstance(K, np.ndarray) else K
    big = np.zeros((n * C, n * C))
    for c, block in enumerate(blocks):
        big[c * n : (c + 1) * n, c * n : (c + 1) * n] = block
    Y = (codes[:, None] == np.arange(C)) * weights[:, None]
    f, a = np.zeros((n, C)), np.zeros((n, C))
    for _ in range(60):
        pi = np.exp(f - logsumexp(f, axis=1, keepdims=True))
        W = np.zeros_like(big)
        for i in range(n):
            at = i + n * np.arange(C)
            W[np.ix_(at, at)] = weights[i] * (np.diag(pi[i]) - np.outer(pi[i], pi[i]))
        b = W @ f.T.ravel() + (Y - weights[:, None] * pi).T.ravel()
        a = np.linalg.solve(np.eye(n * C) + W @ big, b)
        new = (big @ a).reshape(C, n).T
        done = np.abs(new - f).max() < 1e-13
        f = new
        if done:
            break
    value = (Y * f).sum() - weights @ logsumexp(f, axis=1) - 0.5 * a @ f.T.ravel()
    return f, value - 0.5 * np.linalg.slogdet(np.eye(n * C) + W @ big)[1]


@pytest.mark.parametrize("shared", [True, False])
def test_the_textbook_loop_finds_the_same_mode(shared):
    X, codes, rng = problem()
    weights = rng.uniform(0.3, 3.0, size=len(codes))
    K = kernels(X, 3, shared)
    f, value = textbook(K, codes, 3, weights)
    q = SoftmaxLaplace()(ClassPrior(K, 3), codes, weights=weights)
    assert q.outcome is Outcome.CONVERGED
    np.testing.assert_allclose(q.posterior.mean, f, atol=1e-10)
    assert q.log_evidence == pytest.approx(value, rel=1e-12)


def test_the_terms_and_their_derivatives():
    rng = np.random.default_rng(0)
    F, codes, weights = 3 * rng.standard_normal((8, 4)), np.arange(8) % 4, rng.gamma(2.0, size=8)
    terms = softmax_terms(F, codes, weights)
    log_p = (F - logsumexp(F, axis=1, keepdims=True))[np.arange(8), codes]
    assert terms.total == pytest.approx(weights @ log_p, rel=1e-14)
    h = 1e-6
    for i, c in itertools.product(range(8), range(4)):
        step = np.zeros_like(F)
        step[i, c] = h
        up, down = (softmax_terms(F + s * step, codes, weights) for s in (1, -1))
        assert (up.total - down.total) / (2 * h) == pytest.approx(terms.first[i, c], abs=1e-8)
        W = np.diag(terms.d[i]) - np.outer(terms.d[i], terms.d[i]) / weights[i]
        np.testing.assert_allclose((down.first - up.first)[i] / (2 * h), W[c], atol=1e-8)


def test_terms_keep_their_digits_in_the_tails():
    F = np.array([[800.0, 0.0, -50.0], [0.0, 40.0, 0.0], [-1e308, 1e308, 0.0]])
    with np.errstate(over="ignore"):
        terms = softmax_terms(F, np.array([0, 1, 1]), np.ones(3))
    assert terms.total == pytest.approx(-2 * np.exp(-40.0), rel=1e-14)
    assert terms.first[1, 1] == pytest.approx(2 * np.exp(-40.0), rel=1e-14)


@pytest.mark.parametrize(
    ("size", "shared", "weighted"),
    pairs([(0.3, 3), (2.0, 4), (10.0, 3)], [True, False], [False, True]),
)
def test_gradient_by_central_differences(size, shared, weighted):
    signal, C = size
    X, codes, rng = problem(20, C)
    weights = rng.uniform(0.3, 3.0, size=len(codes)) if weighted else None
    K = kernels(X, C, shared, signal)
    run = SoftmaxLaplace()
    G = run(ClassPrior(K, C), codes, weights=weights).evidence_pullback()
    assert G.shape == ((20, 20) if shared else (C, 20, 20))
    np.testing.assert_array_equal(G, np.swapaxes(G, -1, -2))
    # within the cone of covariances: K is nearly singular
    directions = [rbf(X, signal, length) for length in (0.5, 0.8, 1.5)]
    directions.append(signal**2 * np.eye(20))
    for trial, D in enumerate(directions):
        h = 1e-4
        if shared:
            values = [
                run(ClassPrior(K + s * h * D, C), codes, weights=weights).log_evidence
                for s in (2, 1, -1, -2)
            ]
            slope = float((G * D).sum())
        else:
            c = trial % C
            values = []
            for s in (2, 1, -1, -2):
                moved = [k + (s * h * D if j == c else 0.0) for j, k in enumerate(K)]
                values.append(run(ClassPrior(moved, C), codes, weights=weights).log_evidence)
            slope = float((G[c] * D).sum())
        difference = (8 * (values[1] - values[2]) - (values[0] - values[3])) / (12 * h)
        assert slope == pytest.approx(difference, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("signal", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_two_classes_are_the_logit_with_twice_the_kernel(signal, weighted):
    X, codes, rng = problem(40, 2)
    weights = rng.uniform(0.3, 3.0, size=40) if weighted else None
    K = rbf(X, signal)
    q = SoftmaxLaplace()(ClassPrior(K, 2), codes, weights=weights)
    binary = Laplace()(2 * K, np.where(codes == 1, 1, -1), Logit(), weights=weights)
    assert q.log_evidence == pytest.approx(binary.log_evidence, rel=1e-10)
    want = 2 * binary.evidence_pullback()
    got = q.evidence_pullback()
    assert np.abs(got - want).max() <= 1e-9 * max(1.0, np.abs(want).max())
    difference = q.posterior.mean[:, 1] - q.posterior.mean[:, 0]
    np.testing.assert_allclose(difference, binary.posterior.mean, atol=1e-9)
    Z = rng.standard_normal((7, 2))
    cross = rbf(X, signal, Z=Z)
    _, cov = q.posterior.predict(cross, np.full(7, signal**2))
    contrast = cov[:, 0, 0] + cov[:, 1, 1] - 2 * cov[:, 0, 1]
    _, variance = binary.posterior.predict(
        np.hstack([2 * cross, np.zeros((40, 1))]), np.full(8, 2 * signal**2)
    )
    np.testing.assert_allclose(contrast, variance[:7], atol=1e-9 * signal**2)


@pytest.mark.parametrize("shared", [True, False])
def test_a_weight_is_repetition(shared):
    X, codes, rng = problem(15, 3)
    counts = rng.integers(1, 4, size=15)
    at = np.repeat(np.arange(15), counts)
    K = kernels(X, 3, shared)
    repeated = K[np.ix_(at, at)] if shared else [np.ascontiguousarray(k[np.ix_(at, at)]) for k in K]
    one = SoftmaxLaplace()(ClassPrior(K, 3), codes, weights=counts)
    other = SoftmaxLaplace()(ClassPrior(repeated, 3), codes[at])
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-12)
    np.testing.assert_allclose(one.posterior.mean[at], other.posterior.mean, atol=1e-10)
    G = other.evidence_pullback()
    gather = np.zeros((15, len(at)))
    gather[at, np.arange(len(at))] = 1.0
    np.testing.assert_allclose(one.evidence_pullback(), gather @ G @ gather.T, atol=1e-9)


@pytest.mark.parametrize(
    ("weight", "shared"), each([0.0, 1e-300, 1e-200, 1e-100, 1e-30], [True, False])
)
def test_a_weight_of_nothing_or_next_to_it_leaves_a_row_out(shared, weight):
    X, codes, _ = problem(15, 3)
    weights = np.ones(15)
    weights[[2, 7]] = weight
    kept = np.flatnonzero(weights == 1.0)
    K = kernels(X, 3, shared)
    part = (
        np.ascontiguousarray(K[np.ix_(kept, kept)])
        if shared
        else [np.ascontiguousarray(k[np.ix_(kept, kept)]) for k in K]
    )
    one = SoftmaxLaplace()(ClassPrior(K, 3), codes, weights=weights)
    other = SoftmaxLaplace()(ClassPrior(part, 3), codes[kept])
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-12)
    G, want = one.evidence_pullback(), other.evidence_pullback()
    np.testing.assert_allclose(G[..., kept[:, None], kept], want, atol=1e-10)
    assert np.abs(G[..., [2, 7], :]).max() <= 1e-10


@pytest.mark.parametrize("shared", [True, False])
def test_rows_and_classes_in_another_order(shared):
    X, codes, rng = problem(30, 4)
    rows, classes = rng.permutation(30), rng.permutation(4)
    K = kernels(X, 4, shared)
    moved = (
        np.ascontiguousarray(K[np.ix_(rows, rows)])
        if shared
        else [np.ascontiguousarray(K[c][np.ix_(rows, rows)]) for c in classes]
    )
    one = SoftmaxLaplace()(ClassPrior(K, 4), codes)
    other = SoftmaxLaplace()(ClassPrior(moved, 4), np.argsort(classes)[codes[rows]])
    assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-12)
    np.testing.assert_allclose(
        other.posterior.mean, one.posterior.mean[np.ix_(rows, classes)], atol=1e-10
    )
    G = one.evidence_pullback() if shared else one.evidence_pullback()[classes]
    np.testing.assert_allclose(other.evidence_pullback(), G[..., rows[:, None], rows], atol=1e-10)


@pytest.mark.parametrize("shared", [True, False])
def test_a_start_affects_the_time_and_not_the_result(shared):
    X, codes, _ = problem(60, 3)
    cold = SoftmaxLaplace()(ClassPrior(kernels(X, 3, shared), 3), codes)
    K = kernels(X, 3, shared, 2.05)
    want = SoftmaxLaplace()(ClassPrior(K, 3), codes)
    for init in (cold, cold.sites, want, ClassSites(np.full((60, 3), np.nan), cold.sites.d)):
        got = SoftmaxLaplace()(ClassPrior(K, 3), codes, init=init)
        assert got.log_evidence == pytest.approx(want.log_evidence, rel=1e-12)
        np.testing.assert_allclose(
            got.evidence_pullback(), want.evidence_pullback(), rtol=1e-9, atol=1e-9
        )
    assert SoftmaxLaplace()(ClassPrior(K, 3), codes, init=want).n_iter <= 1


@pytest.mark.parametrize("signal", [1.0, 5.0, 30.0])
def test_the_preconditioner_affects_the_time_and_not_the_result(signal, monkeypatch):
    X, codes, _ = problem(150, 5)
    prior = ClassPrior(rbf(X, signal), 5)
    fast = SoftmaxLaplace()(prior, codes)
    warm = SoftmaxLaplace()(prior, codes, init=ClassSites(0.9 * fast.sites.b, fast.sites.d))
    if signal < 30.0:
        assert fast.n_factorisations == warm.n_factorisations == 1
    monkeypatch.setattr(ClassPrior, "preconditioner", lambda *_: None)
    slow = SoftmaxLaplace()(prior, codes)
    assert slow.n_factorisations > 1
    want = slow.evidence_pullback()
    for q in (fast, warm):
        assert q.log_evidence == pytest.approx(slow.log_evidence, rel=1e-12)
        np.testing.assert_allclose(q.evidence_pullback(), want, rtol=1e-9, atol=1e-9)


def test_sites_give_the_posterior_back():
    X, codes, _ = problem(40, 3)
    prior = ClassPrior(rbf(X, 3.0), 3)
    q = SoftmaxLaplace()(prior, codes)
    again = ClassPosterior.from_sites(prior, q.sites)
    np.testing.assert_allclose(again.mean, q.posterior.mean, atol=1e-9)
    np.testing.assert_allclose(again.mean_weights, q.posterior.mean_weights, atol=1e-9)


def hostile():
    for case in pairs(
        (2, 12, 40), (3, 30), (1e-10, 1.0, 1e6, 1e10), (1e-6, 0.3, 10.0, 1e6), (0, 1, 2)
    ):
        n, C, variance, length, twins = case.values
        rng = np.random.default_rng([n, C])
        X = rng.standard_normal((n, 2))
        codes = rng.integers(C, size=n)
        codes[0] = C - 1  # of one row, mostly
        if twins == 1:
            X[n // 2 :] = X[: n - n // 2]
        if twins == 2:
            X[:] = X[0]
        yield n, C, variance, length, twins, X, codes


def test_hostile_problems_end_with_finite_numbers():
    worst = []
    for n, C, variance, length, twins, X, codes in hostile():
        K = rbf(X, np.sqrt(variance), length)
        q = SoftmaxLaplace()(ClassPrior(K, C), codes)
        G = q.evidence_pullback()
        case = (n, C, variance, length, twins, q.outcome.name, q.n_iter)
        if not (q.converged and np.isfinite(G).all() and np.isfinite(q.log_evidence)):
            worst.append(case)
        # a probability of labels, which are discrete
        if q.log_evidence > 1e-6 + 1e-12 * variance:
            worst.append((*case, q.log_evidence))
    assert worst == []


@pytest.mark.parametrize("variance", [0.0, 1e-300, 1e-60, 1e-10, 1e30, 1e100])
@pytest.mark.parametrize("weight", [1e-30, 1.0, 1e30])
def test_scales_that_no_one_means(variance, weight):
    X, codes, _ = problem(10, 3)
    q = SoftmaxLaplace()(ClassPrior(variance * rbf(X), 3), codes, weights=np.full(10, weight))
    assert np.isfinite(q.log_evidence)
    assert np.isfinite(q.evidence_pullback()).all()
    if variance * weight <= 1e-10:
        assert q.log_evidence == pytest.approx(-10 * np.log(3) * weight, rel=1e-8)


def by_many_digits(K, codes, C, F):
    """Laplace's evidence and pullback at the mode beside F, with 60 digits."""
    with mpmath.workdps(60):
        n = len(codes)
        big = mpmath.zeros(n * C)
        for c, i, j in itertools.product(range(C), range(n), range(n)):
            big[c * n + i, c * n + j] = mpmath.mpf(K[i, j])
        f = mpmath.matrix([mpmath.mpf(F[i, c]) for c in range(C) for i in range(n)])
        one = mpmath.eye(n * C)
        for _ in range(8):
            W, first, total = mpmath.zeros(n * C), mpmath.zeros(n * C, 1), mpmath.mpf(0)
            P = mpmath.zeros(n, C)
            for i in range(n):
                e = [mpmath.exp(f[c * n + i]) for c in range(C)]
                P[i, :] = mpmath.matrix([e]) / mpmath.fsum(e)
                total += mpmath.log(P[i, codes[i]])
                for c in range(C):
                    first[c * n + i] = (c == codes[i]) - P[i, c]
                    for k in range(C):
                        W[c * n + i, k * n + i] = P[i, c] * ((c == k) - P[i, k])
            Q = mpmath.inverse(one + W * big)
            a = Q * (W * f + first)
            f = big * a
        value = total - (a.T * f)[0] / 2 + mpmath.log(mpmath.det(Q)) / 2
        Sigma, R = big * Q, Q * W
        s = mpmath.zeros(n * C, 1)
        for i in range(n):
            h = [
                Sigma[c * n + i, c * n + i]
                - 2 * mpmath.fsum(Sigma[c * n + i, k * n + i] * P[i, k] for k in range(C))
                for c in range(C)
            ]
            mean = mpmath.fsum(P[i, c] * h[c] for c in range(C))
            for c in range(C):
                s[c * n + i] = -P[i, c] * (h[c] - mean) / 2
        u = Q * s
        G = np.zeros((n, n))
        for c, i, j in itertools.product(range(C), range(n), range(n)):
            p, q = c * n + i, c * n + j
            G[i, j] += float((a[p] * a[q] - R[p, q] + u[p] * a[q] + a[p] * u[q]) / 2)
        return float(value), G


@pytest.mark.slow
@pytest.mark.parametrize("signal", [1.0, 1e3])
@pytest.mark.parametrize("twins", [False, True])
def test_digits(signal, twins):
    X, codes, _ = problem(8, 3)
    if twins:
        X[1], codes[:2] = X[0], (0, 1)
    K = rbf(X, signal, 0.5)
    q = SoftmaxLaplace()(ClassPrior(K, 3), codes)
    assert q.converged
    value, G = by_many_digits(K, codes, 3, q.posterior.mean)
    assert q.log_evidence == pytest.approx(value, rel=1e-12 if signal == 1.0 else 1e-9)
    # what matters is the derivative by the signal, the sum of G * K
    error = np.abs(q.evidence_pullback() - G).max() * signal**2
    assert error <= (1e-10 if signal == 1.0 else 1e-5)


def test_brute_force_bounds_the_error_for_two_rows():
    K = np.array([[1.5, 0.9], [0.9, 2.0]])
    codes = np.array([0, 2])
    # contrasts with class 0: variances of both latents add, four dimensions in all
    t, w = np.polynomial.hermite_e.hermegauss(24)
    w = w / w.sum()
    L = np.linalg.cholesky(K)
    grid = np.stack(np.meshgrid(t, t, t, t, indexing="ij")).reshape(4, -1)
    mass = np.prod(np.stack(np.meshgrid(w, w, w, w, indexing="ij")).reshape(4, -1), axis=0)
    mix = np.linalg.cholesky(np.array([[2.0, 1.0], [1.0, 2.0]]))
    contrasts = np.einsum("ij,cd,djk->cik", L, mix, grid.reshape(2, 2, -1))
    F = np.concatenate([np.zeros((1, *contrasts.shape[1:])), contrasts])
    log_p = F - logsumexp(F, axis=0)
    truth = np.log(mass @ np.exp(log_p[codes[0], 0] + log_p[codes[1], 1]))
    q = SoftmaxLaplace()(ClassPrior(K, 3), codes)
    assert q.log_evidence == pytest.approx(truth, abs=0.15)
    assert q.log_evidence != pytest.approx(truth, abs=1e-6)


def test_bad_arguments():
    X, codes, _ = problem(5, 3)
    prior, run = ClassPrior(rbf(X), 3), SoftmaxLaplace()
    with pytest.raises(ValueError, match="one class for each of 5 rows"):
        run(prior, codes[:4])
    with pytest.raises(ValueError, match="from 0 to 2"):
        run(prior, codes + 1.5)
    with pytest.raises(ValueError, match="from 0 to 2"):
        run(prior, np.full(5, 3))
    with pytest.raises(ValueError, match="non-negative"):
        run(prior, codes, weights=-np.ones(5))
    with pytest.raises(ValueError, match="init has sites"):
        run(prior, codes, init=ClassSites(np.zeros((4, 3)), np.zeros((4, 3))))
    with pytest.raises(ValueError, match="max_iter"):
        SoftmaxLaplace(max_iter=0)
    assert not SoftmaxLaplace(max_iter=1)(ClassPrior(rbf(X, 5.0), 3), codes).converged


def reference_kernel(k):
    def covariance(A, B, log_signal=0.0, log_length=0.0):
        lengths = np.asarray(k["lengthscale"]) * np.exp(log_length)
        r2 = (((A[:, None] - B[None]) / lengths) ** 2).sum(-1)
        if k["type"] == "mat3":
            r = np.sqrt(3 * r2)
            shape = (1 + r) * np.exp(-r)
        else:
            shape = np.exp(-0.5 * r2)
        return k["signal_std"] ** 2 * np.exp(2 * log_signal) * shape

    return covariance


def test_values_of_another_implementation():
    """GPstuff's Laplace, one kernel shared by all classes; GPCLASS_REFERENCE names the folder."""
    values = folder("GPCLASS_REFERENCE")
    entries = json.loads((values / "reference.json").read_text())["entries"]
    entries = [e for e in entries if e["likelihood"] == "softmax"]
    assert entries
    for e in entries:
        data = np.load(values / f"{e['dataset']}.npz")
        X, codes, Z = data["X"], data["y"].ravel().astype(int), data["Xt"][:5]
        kernel = reference_kernel(e["kernel"])
        C = codes.max() + 1
        q = SoftmaxLaplace()(ClassPrior(kernel(X, X), C), codes)
        assert q.log_evidence == pytest.approx(e["log_evidence"], rel=1e-7), e["id"]
        k_diag = np.full(5, e["kernel"]["signal_std"] ** 2)
        mean, cov = q.posterior.predict(kernel(X, Z), k_diag)
        for got, name in ((mean, "latent_mean"), (cov, "latent_cov")):
            want = np.array(e["test_first5"][name])
            assert np.abs(got - want).max() <= 1e-5 * max(1.0, np.abs(want).max()), e["id"]
        G, h = q.evidence_pullback(), 1e-5
        gradient = [(G * kernel(X, X)).sum() * 2]
        d = len(np.atleast_1d(e["kernel"]["lengthscale"]))
        for step in np.eye(d) * h:
            move = step if d > 1 else step[0]
            up, down = kernel(X, X, 0.0, move), kernel(X, X, 0.0, -move)
            gradient.append((G * (up - down)).sum() / (2 * h))
        want = np.r_[e["grad_log_signal_std"], e["grad_log_lengthscale"]]
        assert np.abs(gradient - want).max() <= 2e-6 * max(1.0, np.abs(want).max()), e["id"]
