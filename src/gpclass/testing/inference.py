"""The laws of an inference method."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpclass.inference import Approximation, InferenceMethod
from gpclass.likelihoods import Likelihood

Array = NDArray[np.float64]


def check_inference(
    method: InferenceMethod,
    likelihood: Likelihood,
    *,
    n: int = 12,
    seed: int = 0,
    rtol: float = 1e-8,
    gradient_rtol: float = 1e-5,
) -> None:
    """Check what every method must satisfy, whatever it approximates.

    Convergence; the same end from another start, for a log-concave likelihood (others may have
    several); evidence that adds up over independent rows; permutations; labels swapped; weights as
    repetition, and weight 0 as absence, in the evidence, its gradients and predictions; the
    gradients by K and by the likelihood's hyperparameters against central differences; arguments
    unchanged. Site precisions may have either sign.

    Parameters
    ----------
    method : InferenceMethod
    likelihood : Likelihood
        With ``p(-1 | f) = p(+1 | -f)``.
    n : int, default=12
        Rows of the problems that are made up.
    seed : int, default=0
    rtol : float, default=1e-8
        Tolerance of equalities.
    gradient_rtol : float, default=1e-5
        Tolerance of the gradient against differences.

    Raises
    ------
    AssertionError
        Naming the law that fails.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    for signal in (0.3, 3.0, 30.0):
        where = f"signal {signal}"
        _check_one(method, likelihood, _covariance(X, signal), y, rng, rtol, where)
        _check_gradient(method, likelihood, X, signal, y, rng, gradient_rtol, where)


def _covariance(X: Array, signal: float, v: Array | None = None) -> Array:
    """A squared exponential; v moves its logarithms of signal and length-scales."""
    v = np.zeros(X.shape[1] + 1) if v is None else v
    Z = X * np.exp(-v[1:])
    K: Array = (signal * np.exp(v[0])) ** 2 * np.exp(-0.5 * ((Z[:, None] - Z[None]) ** 2).sum(-1))
    return K


def _check_gradient(
    method: InferenceMethod,
    likelihood: Likelihood,
    X: Array,
    signal: float,
    y: Array,
    rng: np.random.Generator,
    rtol: float,
    where: str,
) -> None:
    """Both gradients; the pullback along changes of K that keep it positive definite."""
    K = _covariance(X, signal)
    q = method(K, y, likelihood)
    G = q.evidence_pullback()

    def compare(law: str, evidence: Callable[[float], float], got: float, scale: float) -> None:
        difference = _difference(evidence)
        assert abs(got - difference) <= rtol * scale, (
            f"{law} agrees with differences ({where}): {got:.10g} against {difference:.10g}, terms "
            f"of size {scale:.3g}"
        )

    for _ in range(3):
        v = rng.standard_normal(X.shape[1] + 1)
        squares = (X[:, None] - X[None]) ** 2
        terms = G * K * (2 * v[0] + squares @ v[1:])

        def moved(t: float, v: Array = v) -> float:
            return method(_covariance(X, signal, t * v), y, likelihood, init=q.sites).log_evidence

        scale = max(float(np.abs(terms).sum()), 1e-8)
        compare("the gradient", moved, float(terms.sum()), scale)

    theta, slopes = likelihood.theta, q.likelihood_gradient()
    assert slopes.shape == theta.shape, (
        f"likelihood_gradient has one entry for each hyperparameter ({where}): shape "
        f"{slopes.shape} for theta of shape {theta.shape}"
    )
    for k in range(len(theta)):

        def replaced(t: float, k: int = k) -> float:
            other = theta.copy()
            other[k] += t
            return method(K, y, likelihood.with_theta(other), init=q.sites).log_evidence

        # rows add up with either sign, and their parts are not known: none is above one by much
        scale = max(abs(float(slopes[k])), 0.05 * len(y))
        compare(f"likelihood_gradient[{k}]", replaced, float(slopes[k]), scale)


def _difference(function: Callable[[float], float], step: float = 1e-3) -> float:
    """Derivative at zero; of fourth order, so that the step can stay far above a tolerance."""
    value = [function(t * step) for t in (-2, -1, 1, 2)]
    return (8 * (value[2] - value[1]) - (value[3] - value[0])) / (12 * step)


def _check_one(
    method: InferenceMethod,
    likelihood: Likelihood,
    K: Array,
    y: Array,
    rng: np.random.Generator,
    rtol: float,
    where: str,
) -> None:
    n = len(y)

    def run(K: Array, y: Array, **options: Any) -> Approximation:
        return method(K, y, likelihood, **options)

    def close(law: str, got: Any, want: Any, tolerance: float = rtol) -> None:
        got, want = np.asarray(got), np.asarray(want)
        size = max(1.0, float(np.abs(want).max(initial=0.0)))
        error = float(np.abs(got - want).max(initial=0.0)) / size
        assert error <= tolerance, f"{law} ({where}): off by {error:.2e}, allowed {tolerance:g}"

    K_before, y_before = K.copy(), y.copy()
    q = run(K, y)
    G = q.evidence_pullback()
    assert np.array_equal(K, K_before), "K must not be changed"
    assert np.array_equal(y, y_before), "y must not be changed"
    assert q.converged, f"converges ({where}): {q.outcome.value}"
    assert np.isfinite(q.log_evidence), f"evidence is finite ({where})"
    close("the gradient is symmetric", G, G.T)

    warm = run(K, y, init=q.sites)
    close("starting at the end stays there", warm.log_evidence, q.log_evidence)
    if likelihood.log_concave:
        elsewhere = run(K, y, init=run(0.5 * K + 0.1 * np.eye(n), -y).sites)
        close("another start ends at the same evidence", elsewhere.log_evidence, q.log_evidence)
        close("another start ends at the same mean", elsewhere.posterior.mean, q.posterior.mean)

    apart = [run(K[i : i + 1, i : i + 1], y[i : i + 1]).log_evidence for i in range(n)]
    close("independent rows add up", run(np.diag(np.diag(K)), y).log_evidence, sum(apart))

    order = rng.permutation(n)
    shuffled = run(np.ascontiguousarray(K[np.ix_(order, order)]), y[order])
    close("rows in another order, evidence", shuffled.log_evidence, q.log_evidence)
    close("rows in another order, mean", shuffled.posterior.mean, q.posterior.mean[order])
    close("labels swapped", run(K, -y).posterior.mean, -q.posterior.mean)

    _check_weights(run, close, K, y, rng)


def _check_weights(
    run: Callable[..., Approximation],
    close: Callable[..., None],
    K: Array,
    y: Array,
    rng: np.random.Generator,
) -> None:
    n = len(y)
    counts = rng.integers(0, 4, n)
    counts[:2] = 0, 3
    rows = np.repeat(np.arange(n), counts)
    weighted = run(K, y, weights=counts.astype(np.float64))
    repeated = run(np.ascontiguousarray(K[np.ix_(rows, rows)]), y[rows])
    for name, q in (("weights", weighted), ("repeated rows", repeated)):
        assert q.converged, f"converges with {name}: {q.outcome.value}"
    close("weights are repetition, evidence", weighted.log_evidence, repeated.log_evidence)
    close("weights are repetition, mean", weighted.posterior.mean[rows], repeated.posterior.mean)
    G = np.zeros((n, n))
    np.add.at(G, np.ix_(rows, rows), repeated.evidence_pullback())
    close("weights are repetition, gradient", weighted.evidence_pullback(), G)
    close(
        "weights are repetition, likelihood_gradient",
        weighted.likelihood_gradient(),
        repeated.likelihood_gradient(),
    )
    k_diag = K.diagonal()
    got = weighted.posterior.predict(K.copy(), k_diag)
    want = repeated.posterior.predict(np.ascontiguousarray(K[rows]), k_diag)
    close("weights are repetition, predictive mean", got[0], want[0])
    close("weights are repetition, predictive variance", got[1], want[1])
