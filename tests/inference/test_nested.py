"""The multinomial probit: nested EP is binary EP on differences of latents with a shared u."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.inference import EP, nested
from gpclass.inference.nested import nested_ep
from gpclass.inference.sites import Sites
from gpclass.likelihoods import Probit
from gpclass.priors import DensePrior
from gpclass.priors.classes import ClassPosterior, ClassPrior
from gpclass.priors.nested import NestedPrior
from gpclass.testing import check_prior
from helpers import pairs, rbf

TIGHT = EP(tol=1e-10)


def problem(n, n_classes, shared=True, signal=2.0, length=1.0, seed=0, d=2):
    """Inputs, codes and a list of covariances, of all classes alike or not."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    F = 2 * X @ rng.standard_normal((d, n_classes))
    codes = np.argmax(F + rng.gumbel(size=F.shape), axis=1)
    scales = np.ones(n_classes) if shared else np.linspace(0.7, 1.6, n_classes)
    return X, codes, [rbf(X, signal * s, length / s) for s in scales]


def as_prior(Ks, shared):
    return ClassPrior(Ks[0], len(Ks)) if shared else ClassPrior(Ks, len(Ks))


def differences(codes, n_classes):
    """A of shape (n (C - 1), n C): g_ij = f_y - f_j for j in ascending order; f by classes."""
    n, rows = len(codes), []
    for i, y in enumerate(codes):
        for j in range(n_classes):
            if j != y:
                row = np.zeros((n_classes, n))
                row[y, i], row[j, i] = 1.0, -1.0
                rows.append(row.ravel())
    return np.array(rows)


def block_diagonal(Ks):
    n = len(Ks[0])
    K = np.zeros((n * len(Ks),) * 2)
    for c, part in enumerate(Ks):
        K[c * n : (c + 1) * n, c * n : (c + 1) * n] = part
    return K


def shared_u(n, n_classes):
    return np.kron(np.eye(n), np.ones((n_classes - 1,) * 2))


def dense(Ks, codes):
    """A, the classes' covariance and that of g, entry by entry."""
    A, K = differences(codes, len(Ks)), block_diagonal(Ks)
    return A, K, A @ K @ A.T + shared_u(len(codes), len(Ks))


def by_classes(G, n, n_classes):
    """Diagonal blocks of a (C n, C n) cotangent, shape (C, n, n)."""
    blocks = G.reshape(n_classes, n, n_classes, n)
    return np.stack([blocks[c, :, c] for c in range(n_classes)])


def cotangent(G, shared):
    return G.sum(axis=0) if shared else G


def close(got, want, rtol, what=""):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, what
    error = np.abs(got - want).max() / max(1e-300, np.abs(want).max())
    assert error <= rtol, f"{what}: off by {error:.1e}"


PRECISIONS = {
    "usual": lambda r, N: r.uniform(0.0, 1.0, N),
    "none": lambda r, N: np.zeros(N),
    "tiny": lambda r, N: np.where(r.uniform(size=N) < 0.5, 1e-300, r.uniform(0, 1, N)),
    "all tiny": lambda r, N: np.full(N, 1e-300),
    "some zero": lambda r, N: np.where(r.uniform(size=N) < 0.5, 0.0, r.uniform(0, 1, N)),
    "spread": lambda r, N: 10.0 ** r.uniform(-20, 2, N),
}


@pytest.mark.parametrize(
    ("precisions", "size", "shared"),
    pairs(PRECISIONS, [(5, 4), (1, 3), (6, 2), (3, 7)], [True, False]),
)
def test_factor_against_dense_algebra(precisions, size, shared):
    n, n_classes = size
    _, codes, Ks = problem(n, n_classes, shared)
    A, _, K_g = dense(Ks, codes)
    prior, reference = NestedPrior(as_prior(Ks, shared), codes), DensePrior(K_g)
    N = prior.n
    assert len(A) == N
    rng = np.random.default_rng(1)
    tau, r, a = PRECISIONS[precisions](rng, N), *rng.standard_normal((2, N))
    close(prior.diagonal, np.diagonal(K_g), 1e-13, "diagonal")
    close(prior.multiply(r), K_g @ r, 1e-13, "multiply")
    close(prior.gather(r).T.ravel(), A.T @ r, 1e-13, "gather")

    factor, want = prior.factor(tau), reference.factor(tau)
    close(factor.tau, tau, 0.0)
    np.testing.assert_allclose(factor.log_det, want.log_det, rtol=1e-9, atol=1e-10)
    close(factor.solve(r), want.solve(r), 1e-10, "solve")
    covariance, exact = factor.covariance(), want.covariance()
    np.testing.assert_allclose(
        covariance.variances, exact.variances, rtol=1e-9, err_msg="variances"
    )
    G = by_classes(A.T @ exact.pullback(a) @ A, n, n_classes)
    close(covariance.pullback(a), cotangent(G, shared), 1e-9, "pullback")
    reduced = factor.reduced_variance(K_g.copy())
    np.testing.assert_allclose(reduced, want.reduced_variance(K_g.copy()), rtol=1e-9, atol=1e-30)


def test_laws_of_a_prior():
    # sites of probit terms are never negative, and gradients are by the classes' covariances;
    # with counts multiply is about the mean over a row's copies, and variances about one of them
    _, codes, Ks = problem(4, 3, shared=False)
    check_prior(NestedPrior(as_prior(Ks, False), codes), for_ep_only=True)


def test_factor_with_counts_is_that_of_repeated_rows():
    n, n_classes = 5, 4
    _, codes, Ks = problem(n, n_classes, shared=False)
    counts = np.array([1.0, 3.0, 2.0, 1.0, 4.0])
    rows = np.repeat(np.arange(n), counts.astype(int))
    K_rows = [K[np.ix_(rows, rows)] for K in Ks]
    A, _, K_g = dense(K_rows, codes[rows])
    rng = np.random.default_rng(2)
    one = rng.uniform(0, 1, (n, n_classes - 1))
    force = rng.standard_normal((n, n_classes - 1))
    total = (counts[:, None] * one).ravel()
    totals = (counts[:, None] * force).ravel()
    prior = NestedPrior(as_prior(Ks, False), codes, counts)
    want = DensePrior(K_g).factor(one[rows].ravel())
    got = prior.factor(total)
    first = np.searchsorted(rows, np.arange(n))

    def of_first(x):
        return x.reshape(len(rows), n_classes - 1)[first].ravel()

    np.testing.assert_allclose(got.log_det, want.log_det, rtol=1e-10)
    close(got.covariance().variances, of_first(want.covariance().variances), 1e-10)
    close(prior.diagonal, of_first(np.diagonal(K_g)), 1e-13)
    close(prior.multiply(totals), of_first(K_g @ force[rows].ravel()), 1e-12)
    each = of_first(want.solve(force[rows].ravel()))
    close(got.solve(totals), np.repeat(counts, n_classes - 1) * each, 1e-10)
    G = by_classes(A.T @ want.covariance().pullback(force[rows].ravel()) @ A, len(rows), n_classes)
    folded = np.zeros((n_classes, n, n))
    np.add.at(folded, np.ix_(np.arange(n_classes), rows, rows), G)
    close(got.covariance().pullback(totals), folded, 1e-10)
    sequential = got.sequential_covariance()
    own = [sequential.own_variance(i, got.tau) for i in range(prior.n)]
    shared = np.diagonal(sequential.rows(slice(0, prior.n)))
    close(shared + own, got.covariance().variances, 1e-10)


def test_class_sites_are_the_sites_without_u():
    n, n_classes = 4, 4
    _, codes, Ks = problem(n, n_classes, shared=False)
    A, K, K_g = dense(Ks, codes)
    rng = np.random.default_rng(3)
    tau, nu = rng.uniform(0, 1, len(A)), rng.standard_normal(len(A))
    prior = NestedPrior(as_prior(Ks, False), codes)
    posterior = ClassPosterior.from_sites(prior.class_prior, prior.class_sites(nu, tau))
    R = np.linalg.inv(K_g @ np.diag(tau) + np.eye(len(tau))).T @ np.diag(tau)
    a = np.linalg.solve(np.eye(len(tau)) + tau[:, None] * K_g, nu)
    close(posterior.mean.T.ravel(), K @ A.T @ a, 1e-10)
    Sigma = K - K @ A.T @ R @ A @ K
    want = Sigma.reshape(n_classes, n, n_classes, n)
    _, got = posterior.predict(Ks, np.stack([K_c.diagonal() for K_c in Ks], axis=1))
    for i in range(n):
        close(got[i], want[:, i, :, i], 1e-9)


def test_what_cannot_be_is_refused():
    prior = NestedPrior(ClassPrior(np.eye(3), 3), np.array([0, 1, 2]))
    with pytest.raises(NotPositiveDefiniteError, match="negative"):
        prior.factor(np.full(6, -0.1))
    with pytest.raises(NotImplementedError, match="explicit"):
        prior.factor(np.ones(6)).covariance().pullback(np.ones(6), np.ones(6))
    for codes in (np.zeros(2, int), np.array([0, 1, 3]), np.array([-1, 0, 1]), np.zeros(3)):
        with pytest.raises(ValueError, match="codes"):
            NestedPrior(ClassPrior(np.eye(3), 3), codes)
    for counts in (np.array([1.0, 0.0, 1.0]), np.ones(2)):
        with pytest.raises(ValueError, match="counts"):
            NestedPrior(ClassPrior(np.eye(3), 3), np.array([0, 1, 2]), counts)
    for weights in (np.ones(2), [1, -1, 1], [1, np.nan, 1]):
        with pytest.raises(ValueError, match="weights"):
            nested_ep(ClassPrior(np.eye(3), 3), [0, 1, 2], weights=weights)


NINE = [
    # n, classes, shared, signal, length, seed
    (12, 3, True, 1.0, 1.0, 0),
    (12, 3, False, 1.0, 1.0, 1),
    (20, 3, True, 10.0, 0.5, 2),
    (20, 4, False, 3.0, 2.0, 3),
    (15, 5, True, 0.3, 1.0, 4),
    (10, 6, True, 30.0, 1.0, 5),
    (25, 3, False, 50.0, 2.0, 6),
    (8, 8, False, 5.0, 1.0, 7),
    (30, 4, True, 2.0, 0.3, 8),
]


@pytest.fixture(params=["one matrix", "by classes"])
def both_forms(request, monkeypatch):
    """With few latents as one matrix, as `nested_ep` does, and by the classes all the same."""
    if request.param == "by classes":
        monkeypatch.setattr(nested, "FEW_LATENTS", 0)
        monkeypatch.setattr(nested, "FEW_OF_THREE", 0)


@pytest.mark.usefixtures("both_forms")
@pytest.mark.parametrize("case", NINE, ids=str)
def test_is_binary_ep_on_the_differences(case):
    n, n_classes, shared, signal, length, seed = case
    X, codes, Ks = problem(n, n_classes, shared, signal, length, seed)
    A, _, K_g = dense(Ks, codes)
    want = TIGHT(K_g, np.ones(len(A)), Probit())
    got = nested_ep(as_prior(Ks, shared), codes, TIGHT)
    assert want.converged
    assert got.converged
    np.testing.assert_allclose(got.log_evidence, want.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(got.sites.tau, want.sites.tau, rtol=1e-6)
    G = by_classes(A.T @ want.evidence_pullback() @ A, n, n_classes)
    close(got.evidence_pullback(), cotangent(G, shared), 1e-7)

    # latents f at training rows and at new ones, from the dense posterior of g
    new = np.random.default_rng(9).standard_normal((4, X.shape[1]))
    Z = np.concatenate([X, new])
    scales = np.ones(n_classes) if shared else np.linspace(0.7, 1.6, n_classes)
    crosses = [rbf(X, signal * s, length / s, Z) for s in scales]
    k_diag = np.repeat((signal * scales[None]) ** 2, len(Z), axis=0)
    mean, cov = got.posterior.predict(
        crosses[0].copy() if shared else [k.copy() for k in crosses],
        k_diag[:, 0] if shared else k_diag,
    )
    tau, a = want.sites.tau, want.posterior.mean_weights
    s = np.sqrt(tau)
    R = s[:, None] * np.linalg.solve(np.eye(len(tau)) + s[:, None] * K_g * s, np.diag(s))
    for i in range(len(Z)):
        cross = np.zeros((n_classes, n_classes * n))
        for c in range(n_classes):
            cross[c, c * n : (c + 1) * n] = crosses[c][:, i]
        to_g = cross @ A.T
        close(mean[i], to_g @ a, 1e-6)
        close(cov[i], np.diag(k_diag[i]) - to_g @ R @ to_g.T, 1e-6)
    close(got.posterior.mean, mean[:n], 1e-9)


def moved_evidence(Ks, directions, shared, codes, t, weights=None):
    moved = [K + t * D for K, D in zip(Ks, directions, strict=True)]
    return nested_ep(as_prior(moved, shared), codes, TIGHT, weights).log_evidence


@pytest.mark.slow
@pytest.mark.usefixtures("both_forms")
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "one a class"])
@pytest.mark.parametrize("signal", [0.5, 3.0, 30.0])
def test_gradient_agrees_with_differences(shared, signal):
    n, n_classes = 14, 4
    X, codes, Ks = problem(n, n_classes, shared, signal)
    Ks = [K + 1e-3 * signal**2 * np.eye(n) for K in Ks]
    for weights in (None, np.r_[2.0, 0.5, 0.0, 3.0, np.ones(n - 4)]):
        G = nested_ep(as_prior(Ks, shared), codes, TIGHT, weights).evidence_pullback()
        rng = np.random.default_rng(4)
        for k in range(3):
            v = rng.standard_normal((n_classes, 3))
            squares = (X[:, None] - X[None]) ** 2
            moves = [K * (2 * w[0] + squares @ w[1:]) for K, w in zip(Ks, v, strict=True)]
            if shared:
                moves = [moves[0]] * n_classes
            elif k == 2:
                moves = [M * (c == 1) for c, M in enumerate(moves)]
            terms = G * (moves[0] if shared else np.stack(moves))
            h = 1e-4
            up, down, up2, down2 = (
                moved_evidence(Ks, moves, shared, codes, t, weights) for t in (h, -h, 2 * h, -2 * h)
            )
            numerical = (8 * (up - down) - (up2 - down2)) / (12 * h)
            assert abs(terms.sum() - numerical) <= 1e-6 * np.abs(terms).sum()


def test_whole_weights_are_repeated_rows():
    n, n_classes = 9, 4
    X, codes, Ks = problem(n, n_classes, shared=False, signal=4.0)
    weights = np.array([1, 2, 0, 3, 1, 1, 5, 2, 1])
    rows = np.repeat(np.arange(n), weights)
    weighted = nested_ep(as_prior(Ks, False), codes, TIGHT, weights)
    repeated = nested_ep(
        as_prior([np.ascontiguousarray(K[np.ix_(rows, rows)]) for K in Ks], False),
        codes[rows],
        TIGHT,
    )
    np.testing.assert_allclose(weighted.log_evidence, repeated.log_evidence, rtol=1e-9)
    first = np.searchsorted(rows, np.flatnonzero(weights))
    there = weights > 0

    def part(x, chosen):
        return x.reshape(-1, n_classes - 1)[chosen]

    for name in ("mean", "variance"):
        a, b = (
            q.binary.posterior.mean
            if name == "mean"
            else q.binary.posterior.with_covariance().variance
            for q in (weighted, repeated)
        )
        close(part(a, there), part(b, first), 1e-7, name)
    close(weighted.posterior.mean[rows], repeated.posterior.mean, 1e-7)
    folded = np.zeros((n_classes, n, n))
    G = repeated.evidence_pullback()
    np.add.at(folded, np.ix_(np.arange(n_classes), rows, rows), G)
    close(weighted.evidence_pullback(), folded, 1e-7)
    crosses = [rbf(X, 1.0 + c, 1.0, X[:3] + 0.1) for c in range(n_classes)]
    k_diag = np.tile((1.0 + np.arange(n_classes)) ** 2, (3, 1))
    got = weighted.posterior.predict([k.copy() for k in crosses], k_diag)
    want = repeated.posterior.predict([np.ascontiguousarray(k[rows]) for k in crosses], k_diag)
    close(got[0], want[0], 1e-7)
    close(got[1], want[1], 1e-7)


def test_a_fractional_weight_is_a_power_of_each_term():
    # the same power on every term of the binary problem, whose rows are given once
    _, codes, Ks = problem(10, 3)
    weights = np.random.default_rng(5).uniform(0.2, 1.0, 10)
    A, _, K_g = dense(Ks, codes)
    got = nested_ep(as_prior(Ks, True), codes, TIGHT, weights)
    want = TIGHT(K_g, np.ones(len(A)), Probit(), weights=np.repeat(weights, 2))
    np.testing.assert_allclose(got.log_evidence, want.log_evidence, rtol=1e-9)


@pytest.mark.parametrize(
    ("signal", "shared", "weighted"), pairs([0.3, 3.0, 30.0], [True, False], [False, True])
)
def test_two_classes_are_the_binary_probit(signal, shared, weighted):
    # f_1 - f_0 has the covariance K_0 + K_1 and int N(u) Phi(h + u) du = Phi(h / sqrt 2), so that
    # h / sqrt 2 is a latent of the binary probit with the mean of the two covariances
    _, codes, Ks = problem(25, 2, shared, signal)
    weights = np.random.default_rng(6).integers(0, 4, 25) if weighted else None
    half = 0.5 * (Ks[0] + Ks[1])
    want = TIGHT(half, np.where(codes == 1, 1.0, -1.0), Probit(), weights=weights)
    got = nested_ep(as_prior(Ks, shared), codes, TIGHT, weights)
    np.testing.assert_allclose(got.log_evidence, want.log_evidence, rtol=1e-9)
    h = got.posterior.mean[:, 1] - got.posterior.mean[:, 0]
    close(h / np.sqrt(2.0), want.posterior.mean, 1e-7)
    _, cov = got.posterior.predict(Ks, np.stack([K.diagonal() for K in Ks], axis=1))
    variance = cov[:, 0, 0] + cov[:, 1, 1] - 2 * cov[:, 0, 1]
    close(0.5 * variance, want.posterior.with_covariance().variance, 1e-7)
    G = got.evidence_pullback()
    close(G if shared else G[0] + G[1], want.evidence_pullback(), 1e-7)
    if not shared:
        close(G[0], G[1], 1e-7)


def test_rows_and_classes_in_another_order():
    n, n_classes = 20, 4
    _, codes, Ks = problem(n, n_classes, shared=False, signal=5.0)
    q = nested_ep(as_prior(Ks, False), codes, TIGHT)
    rng = np.random.default_rng(7)
    order = rng.permutation(n)
    moved = [np.ascontiguousarray(K[np.ix_(order, order)]) for K in Ks]
    rows = nested_ep(as_prior(moved, False), codes[order], TIGHT)
    np.testing.assert_allclose(rows.log_evidence, q.log_evidence, rtol=1e-9)
    close(rows.posterior.mean, q.posterior.mean[order], 1e-7)
    names = rng.permutation(n_classes)  # class c is called names[c]
    back = np.argsort(names)
    called = nested_ep(as_prior([Ks[c] for c in back], False), names[codes], TIGHT)
    np.testing.assert_allclose(called.log_evidence, q.log_evidence, rtol=1e-9)
    close(called.posterior.mean[:, names], q.posterior.mean, 1e-7)
    close(called.evidence_pullback()[names], q.evidence_pullback(), 1e-7)


def test_independent_rows_add_up():
    codes = np.array([0, 2, 1, 1])
    alone = [nested_ep(ClassPrior(np.eye(1) * 3.0, 3), [c], TIGHT).log_evidence for c in codes]
    q = nested_ep(ClassPrior(np.eye(4) * 3.0, 3), codes, TIGHT)
    np.testing.assert_allclose(q.log_evidence, sum(alone), rtol=1e-10)


def test_schedules_and_starts_end_at_the_same_place():
    _, codes, Ks = problem(20, 4, signal=5.0)
    prior = as_prior(Ks, True)
    q = nested_ep(prior, codes, TIGHT)
    again = nested_ep(prior, codes, TIGHT, init=q)
    one_by_one = nested_ep(prior, codes, EP("sequential", tol=1e-10))
    elsewhere = nested_ep(prior, codes, TIGHT, init=Sites(-q.sites.nu, 0.3 + q.sites.tau))
    for other in (again, one_by_one, elsewhere):
        assert other.converged
        np.testing.assert_allclose(other.log_evidence, q.log_evidence, rtol=1e-10)
    assert again.n_factorisations <= 3


@pytest.mark.parametrize("shared", [True, False])
def test_sequential_sweeps_visit_every_copy_of_a_row(shared):
    _, codes, Ks = problem(7, 3, signal=2.0)
    prior = as_prior(Ks, shared)
    weights = np.array([1.0, 3.0, 0.0, 0.5, 2.5, 1.0, 2.0])
    q = nested_ep(prior, codes, TIGHT, weights=weights)
    one_by_one = nested_ep(prior, codes, EP("sequential", tol=1e-10), weights=weights)
    assert one_by_one.converged
    assert one_by_one.n_iter > 2
    np.testing.assert_allclose(one_by_one.log_evidence, q.log_evidence, rtol=1e-10)
    np.testing.assert_allclose(one_by_one.sites.tau, q.sites.tau, rtol=1e-7, atol=1e-10)
    again = nested_ep(prior, codes, EP("sequential"), weights=weights, init=one_by_one)
    assert again.n_iter < one_by_one.n_iter
    np.testing.assert_allclose(again.log_evidence, q.log_evidence, rtol=1e-9)


def hostile():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((30, 2))
    codes = rng.integers(0, 4, 30)
    for signal in (1e-3, 1.0, 30.0, 1e3):
        for length in (1e-2, 1.0, 100.0):
            yield f"signal {signal}, length {length}", rbf(X, signal, length), codes, 4
    twins = np.concatenate([X[:15], X[:15]])
    for signal in (1.0, 30.0, 1e3):
        K = rbf(twins, signal)
        yield f"twins of other labels, signal {signal}", K, np.r_[codes[:15], codes[:15] + 1], 5
        yield f"twins of one label, signal {signal}", K, np.r_[codes[:15], codes[:15]], 4
    yield "all rows alike", np.full((30, 30), 25.0), codes, 4
    yield "linear", 1e4 * X @ X.T, codes, 4
    many = rng.integers(0, 20, 60)
    Z = rng.standard_normal((60, 2))
    for signal in (1.0, 1e2, 1e3):
        yield f"20 classes, signal {signal}", rbf(Z, signal), many, 20
    one = np.r_[2, np.arange(29) % 2]
    for signal in (1.0, 1e3):
        yield f"a class of one row, signal {signal}", rbf(X, signal), one, 3
        yield f"a class of no row, signal {signal}", rbf(X, signal), one, 4
        yield f"two rows, signal {signal}", rbf(X[:2], signal), np.array([0, 1]), 3
        yield f"one row, signal {signal}", rbf(X[:1], signal), np.array([1]), 3
        ordered = np.argmax(np.c_[X, -X.sum(1)], axis=1)
        yield f"separable, signal {signal}", rbf(X, signal), ordered, 3


@pytest.mark.parametrize("case", list(hostile()), ids=lambda case: case[0])
def test_hostile_problems_converge(case):
    _, K, codes, n_classes = case
    q = nested_ep(ClassPrior(K, n_classes), codes)
    assert q.converged, q.outcome
    assert np.isfinite(q.log_evidence)
    assert q.log_evidence < 0.0
    assert np.isfinite(q.evidence_pullback()).all()
    assert np.isfinite(q.posterior.mean).all()
    assert (q.binary.posterior.with_covariance().variance > 0).all()


def entries():
    folder = os.environ.get("GPCLASS_REFERENCE")
    if folder is None:
        return []
    found = json.loads((Path(folder) / "reference.json").read_text())["entries"]
    return [e for e in found if e["likelihood"] == "multinomial probit"]


def reference_kernel(k):
    signal, length, wide = ConstantKernel(k["signal_std"] ** 2), k["lengthscale"], (1e-12, 1e12)
    signal.constant_value_bounds = wide
    if k["type"] == "mat3":
        return signal * Matern(length, wide, nu=1.5)
    return signal * RBF(length, wide)


@pytest.mark.skipif("GPCLASS_REFERENCE" not in os.environ, reason="GPCLASS_REFERENCE is not set")
@pytest.mark.parametrize("entry", entries(), ids=lambda e: e["id"])
def test_values_of_other_programs(entry):
    data = np.load(Path(os.environ["GPCLASS_REFERENCE"]) / f"{entry['dataset']}.npz")
    X, y, Z = data["X"], data["y"].ravel(), data["Xt"][:5]
    kernel = reference_kernel(entry["kernel"])
    K, dK = kernel(X, eval_gradient=True)
    classes, codes = np.unique(y, return_inverse=True)
    q = nested_ep(ClassPrior(K, len(classes)), codes)
    assert q.converged
    np.testing.assert_allclose(q.log_evidence, entry["log_evidence"], rtol=1e-7)
    gradient = np.einsum("ij,ijp->p", q.evidence_pullback(), dK)
    # theta has the log of the variance, the reference that of its root
    want = np.r_[entry["grad_log_signal_std"] / 2, entry["grad_log_lengthscale"]]
    np.testing.assert_allclose(gradient, want, atol=1e-5 * max(1.0, np.abs(want).max()))
    mean, cov = q.posterior.predict(kernel(X, Z), kernel.diag(Z))
    test = entry["test_first5"]
    close(mean, np.array(test["latent_mean"]), 1e-5)
    close(cov, np.array(test["latent_cov"]), 1e-5)
