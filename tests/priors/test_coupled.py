"""The factor of coupled sites against dense brute force."""

import numpy as np
import pytest

from gpclass.exceptions import NotPositiveDefiniteError
from gpclass.priors.classes import ClassPosterior, ClassPrior, ClassSites

N, C = 6, 3


def covariance(seed, n=N, signal=1.3):
    X = np.random.default_rng(seed).standard_normal((n, 2))
    return signal**2 * np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))


def precisions(kind, n=N, classes=C):
    rng = np.random.default_rng(7)
    d = rng.gamma(1.0, size=(n, classes))
    if kind == "tiny":
        d[0, 1], d[2, 0], d[3, :2] = 1e-200, 0.0, 1e-300
        d[4] = 0.0
        d[:, 2][1] = 1e-9
    if kind == "one-hot":
        d = np.full((n, classes), 1e-11)
        d[np.arange(n), np.arange(n) % classes] = 1.0
    if kind == "no sites":
        d[:] = 0.0
    return d


class Dense:
    """The same, from the n C x n C matrices, a class after the other."""

    def __init__(self, covariances, d):
        n, classes = d.shape
        self.n, self.C = n, classes
        self.K = np.zeros((n * classes, n * classes))
        for c, K in enumerate(covariances):
            self.K[c * n : (c + 1) * n, c * n : (c + 1) * n] = K
        self.W = np.zeros_like(self.K)
        for i, row in enumerate(d):
            at = i + n * np.arange(classes)
            total = row.sum()
            W = np.diag(row) - (np.outer(row, row / total) if total > 0 else 0.0)
            self.W[np.ix_(at, at)] = W
        self.P = np.linalg.inv(np.eye(n * classes) + self.W @ self.K)
        self.F = self.P @ self.W
        self.Sigma = self.K - self.K @ self.F @ self.K

    def block(self, A, c, other):
        n = self.n
        return A[c * n : (c + 1) * n, other * n : (other + 1) * n]

    def flat(self, B):
        return B.T.ravel()

    def unflat(self, v):
        return v.reshape(self.C, self.n).T


CASES = [
    pytest.param((shared, kind), id=f"{'shared' if shared else 'each'}-{kind}")
    for shared in (True, False)
    for kind in ("random", "tiny", "one-hot", "no sites")
]


@pytest.fixture(params=CASES)
def pair(request):
    shared, kind = request.param
    K = covariance(0) if shared else [covariance(s) for s in range(C)]
    prior = ClassPrior(K, C)
    d = precisions(kind)
    return prior, prior.factor(d), Dense(prior.covariances, d)


def test_log_determinant(pair):
    _, factor, dense = pair
    want = np.linalg.slogdet(np.eye(N * C) + dense.W @ dense.K)[1]
    assert factor.log_det == pytest.approx(want, abs=1e-12)


def test_products(pair):
    prior, factor, dense = pair
    B = np.random.default_rng(1).standard_normal((N, C))
    close = {"rtol": 1e-11, "atol": 1e-12}
    np.testing.assert_allclose(prior.multiply(B), dense.unflat(dense.K @ dense.flat(B)), **close)
    np.testing.assert_allclose(factor.solve(B), dense.unflat(dense.P @ dense.flat(B)), **close)


def test_variances_of_differences(pair):
    _, factor, dense = pair
    d, codes = factor.d, np.array([0, 1, 2, 2, 1, 0])
    got = factor.difference_variances(codes)
    for i in np.flatnonzero(d.sum(axis=1)):
        block = np.array(
            [[dense.block(dense.Sigma, c, k)[i, i] for k in range(C)] for c in range(C)]
        )
        contrast = d[i] / d[i].sum() - np.eye(C)
        want = np.einsum("kc,cl,kl->k", contrast, block, contrast)
        want[codes[i]] = 0.0
        np.testing.assert_allclose(got[i], want, rtol=1e-10, atol=1e-12)


def test_marginals_of_the_rows(pair):
    _, factor, dense = pair
    blocks = [[np.diagonal(dense.block(dense.Sigma, c, k)) for k in range(C)] for c in range(C)]
    want = np.array(blocks).transpose(2, 0, 1)
    np.testing.assert_allclose(factor.marginals(), want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("with_mean", [False, True])
def test_pullback(pair, with_mean):
    prior, factor, dense = pair
    a, g = np.random.default_rng(2).standard_normal((2, N, C))
    flat = dense.flat(a)
    G = (np.outer(flat, flat) - dense.F) / 2
    if with_mean:
        moved = np.outer(dense.P @ dense.flat(g), flat)
        G += (moved + moved.T) / 2
    blocks = np.array([dense.block(G, c, c) for c in range(C)])
    want = blocks.sum(0) if prior.shared else blocks
    seen = []

    def mean_adjoint(F_diagonal):
        seen.append(F_diagonal)
        return g

    for _ in range(2):
        got = factor.pullback(a, mean_adjoint if with_mean else None)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)
    F_diagonal = np.stack([dense.block(dense.F, c, c).diagonal() for c in range(C)], axis=1)
    for found in seen:
        np.testing.assert_allclose(found, F_diagonal, rtol=1e-10, atol=1e-12)


def test_the_preconditioner_is_a_factor_of_one_precision_a_row():
    K, omega = covariance(0), np.random.default_rng(5).gamma(1.0, size=N)
    R = np.random.default_rng(6).standard_normal((N, C))
    Z, KZ = ClassPrior(K, C).preconditioner(omega)(R)
    np.testing.assert_allclose(Z, np.linalg.solve(np.eye(N) + omega[:, None] * K, R), rtol=1e-10)
    np.testing.assert_allclose(KZ, K @ Z, rtol=1e-10, atol=1e-12)
    assert ClassPrior([K] * C, C).preconditioner(omega) is None


def test_predictions(pair):
    prior, factor, dense = pair
    rng = np.random.default_rng(3)
    m = 11
    crosses = [0.1 * rng.standard_normal((N, m)) for _ in range(C)]
    k_diag = rng.gamma(2.0, size=(m, C)) + 1.0
    if prior.shared:
        crosses, k_diag = [crosses[0]] * C, np.repeat(k_diag[:, :1], C, axis=1)
    b = rng.standard_normal((N, C))
    posterior = ClassPosterior.from_sites(prior, ClassSites(b, factor.d))
    given = (crosses[0].copy(), k_diag[:, 0]) if prior.shared else (crosses, k_diag)
    mean, cov = posterior.predict(*given)
    a = dense.unflat(dense.P @ dense.flat(b))
    for i in range(m):
        k = np.zeros((N * C, C))
        for c in range(C):
            k[c * N : (c + 1) * N, c] = crosses[c][:, i]
        np.testing.assert_allclose(cov[i], np.diag(k_diag[i]) - k.T @ dense.F @ k, atol=1e-12)
        np.testing.assert_allclose(mean[i], [crosses[c][:, i] @ a[:, c] for c in range(C)])
        alone = posterior.predict(
            *(
                (crosses[0][:, [i]], k_diag[[i], 0])
                if prior.shared
                else ([k[:, [i]] for k in crosses], k_diag[[i]])
            )
        )
        np.testing.assert_array_equal(alone[0][0], mean[i])
        np.testing.assert_array_equal(alone[1][0], cov[i])
    np.testing.assert_allclose(posterior.mean, prior.multiply(a), atol=1e-12)


def test_joint_predictions(pair):
    prior, factor, dense = pair
    rng = np.random.default_rng(3)
    m = 5
    crosses = [0.1 * rng.standard_normal((N, m)) for _ in range(C)]
    news = [covariance(10 + c, m) for c in range(C)]
    if prior.shared:
        crosses, news = [crosses[0]] * C, [news[0]] * C
    posterior = ClassPosterior.from_sites(prior, ClassSites(rng.standard_normal((N, C)), factor.d))
    mean, cov = posterior.joint(*((crosses[0], news[0]) if prior.shared else (crosses, news)))
    k, new = np.zeros((N * C, m * C)), np.zeros((m * C, m * C))
    for c in range(C):
        k[c * N : (c + 1) * N, c * m : (c + 1) * m] = crosses[c]
        new[c * m : (c + 1) * m, c * m : (c + 1) * m] = news[c]
    want = (new - k.T @ dense.F @ k).reshape(C, m, C, m).transpose(1, 0, 3, 2)
    np.testing.assert_allclose(cov, want, atol=1e-12)
    k_diag = np.stack([K.diagonal() for K in news], axis=1)
    each = posterior.predict(crosses, k_diag)
    np.testing.assert_allclose(mean, each[0], atol=1e-13)
    np.testing.assert_allclose(np.einsum("icid->icd", cov), each[1], atol=1e-13)


def test_a_row_of_a_large_batch_has_its_own_bits():
    n, m = 150, 600
    X = np.random.default_rng(0).standard_normal((n + m, 2))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))
    prior = ClassPrior(np.ascontiguousarray(K[:n, :n]), 4)
    factor = prior.factor(precisions("random", n, 4))
    cross, k_diag = np.ascontiguousarray(K[:n, n:]), np.ones(m)
    everything = factor.predict(cross, k_diag)
    for rows in ([0], [255, 256, 257], np.arange(300, 600), np.arange(m)[::-1]):
        part = factor.predict(np.ascontiguousarray(cross[:, rows]), k_diag[rows])
        np.testing.assert_array_equal(part, everything[rows])


def test_classes_and_rows_in_another_order():
    rng = np.random.default_rng(5)
    covariances = [covariance(s) for s in range(C)]
    d, codes = precisions("random"), rng.integers(C, size=N)
    rows, classes = rng.permutation(N), rng.permutation(C)
    one = ClassPrior(covariances, C).factor(d)
    moved = [np.ascontiguousarray(covariances[c][np.ix_(rows, rows)]) for c in classes]
    other = ClassPrior(moved, C).factor(np.ascontiguousarray(d[np.ix_(rows, classes)]))
    assert other.log_det == pytest.approx(one.log_det, abs=1e-12)
    np.testing.assert_allclose(
        other.difference_variances(np.argsort(classes)[codes[rows]]),
        one.difference_variances(codes)[np.ix_(rows, classes)],
        rtol=1e-11,
        atol=1e-13,
    )


def test_variances_of_differences_keep_their_digits():
    """Scaling K up and d down by the same factor scales the variances: no digit is lost."""
    K, d, codes = covariance(0), precisions("random"), np.arange(N) % C
    want = ClassPrior(K, C).factor(d).difference_variances(codes)
    for factor in (2.0**-60, 2.0**60):
        got = ClassPrior(K * factor, C).factor(d / factor).difference_variances(codes)
        np.testing.assert_allclose(got / factor, want, rtol=1e-12)
    # nearly no site: the prior's own variance, to the last digits
    got = ClassPrior(K, C).factor(d * 1e-30).difference_variances(codes)
    share = d / d.sum(axis=1, keepdims=True)
    want = ((share[:, None, :] - np.eye(C)) ** 2).sum(axis=2) * K.diagonal()[:, None]
    want[np.arange(N), codes] = 0.0
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_bad_arguments():
    K = covariance(0)
    with pytest.raises(ValueError, match="at least 2"):
        ClassPrior(K, 1)
    with pytest.raises(ValueError, match="each of the 3 classes"):
        ClassPrior([K, K], 3)
    with pytest.raises(ValueError, match="one size"):
        ClassPrior([K, K, covariance(0, 5)], 3)
    with pytest.raises(NotPositiveDefiniteError, match="class 1"):
        ClassPrior([K, K * np.nan, K], 3)
    with pytest.raises(ValueError, match="shape"):
        ClassPrior(K, 3).factor(np.ones((N, 2)))
    with pytest.raises(ValueError, match="not negative"):
        ClassPrior(K, 2).factor(-np.ones((N, 2)))
    with pytest.raises(ValueError, match="one shape"):
        ClassSites(np.ones((N, 2)), np.ones((N, 3)))
    indefinite = K - 10.0 * np.ones_like(K) + 10.0 * np.eye(N)
    with pytest.raises(NotPositiveDefiniteError, match="RBF"):
        ClassPrior(indefinite, 2, "RBF").factor(np.ones((N, 2)))
