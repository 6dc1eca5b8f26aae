"""The laws of an inference method."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from gpclass.inference import Approximation, InferenceMethod
from gpclass.inference.leave_one_out import LeaveOneOut
from gpclass.inference.method import as_problem
from gpclass.likelihoods import Likelihood
from gpclass.linalg import Array
from gpclass.testing.comparison import check_close, difference

# Step of the differences; they are of fourth order, so it can stay far above a tolerance.
STEP = 1e-3


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
    gradients by K and by the likelihood's hyperparameters against central differences, for a
    log-concave likelihood that of the leave-one-out log predictive too; arguments unchanged. Site
    precisions may have either sign.

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
        laws = _Laws(method, likelihood, y, rng, rtol, f"signal {signal}")
        laws.check(_covariance(X, signal))
        laws.check_gradients(X, signal, gradient_rtol)


def _covariance(X: Array, signal: float, v: Array | None = None) -> Array:
    """A squared exponential; v moves its logarithms of signal and length-scales."""
    v = np.zeros(X.shape[1] + 1) if v is None else v
    Z = X * np.exp(-v[1:])
    K: Array = (signal * np.exp(v[0])) ** 2 * np.exp(-0.5 * ((Z[:, None] - Z[None]) ** 2).sum(-1))
    return K


@final
@dataclass(frozen=True)
class _Laws:
    """The laws for one method and likelihood at labels y."""

    method: InferenceMethod
    likelihood: Likelihood
    y: Array
    rng: np.random.Generator
    rtol: float
    where: str

    def run(self, K: Array, y: Array, **options: Any) -> Approximation:
        return self.method(K, y, self.likelihood, **options)

    def close(self, law: str, got: ArrayLike, want: ArrayLike) -> None:
        check_close(f"{law} ({self.where})", got, want, self.rtol, 1.0)

    def check(self, K: Array) -> None:
        n, y, run, close = len(self.y), self.y, self.run, self.close
        K_before, y_before = K.copy(), y.copy()
        q = run(K, y)
        G = q.evidence_pullback()
        assert np.array_equal(K, K_before), "K must not be changed"
        assert np.array_equal(y, y_before), "y must not be changed"
        assert q.converged, f"converges ({self.where}): {q.outcome.value}"
        assert np.isfinite(q.log_evidence), f"evidence is finite ({self.where})"
        close("the gradient is symmetric", G, G.T)

        warm = run(K, y, init=q.sites)
        close("starting at the end stays there", warm.log_evidence, q.log_evidence)
        if self.likelihood.log_concave:
            elsewhere = run(K, y, init=run(0.5 * K + 0.1 * np.eye(n), -y).sites)
            close("another start ends at the same evidence", elsewhere.log_evidence, q.log_evidence)
            close("another start ends at the same mean", elsewhere.posterior.mean, q.posterior.mean)

        apart = [run(K[i : i + 1, i : i + 1], y[i : i + 1]).log_evidence for i in range(n)]
        close("independent rows add up", run(np.diag(np.diag(K)), y).log_evidence, sum(apart))

        order = self.rng.permutation(n)
        shuffled = run(np.ascontiguousarray(K[np.ix_(order, order)]), y[order])
        close("rows in another order, evidence", shuffled.log_evidence, q.log_evidence)
        close("rows in another order, mean", shuffled.posterior.mean, q.posterior.mean[order])
        close("labels swapped", run(K, -y).posterior.mean, -q.posterior.mean)
        self._check_weights(K)

    def _check_weights(self, K: Array) -> None:
        n, y = len(self.y), self.y
        counts = self.rng.integers(0, 4, n)
        counts[:2] = 0, 3
        rows = np.repeat(np.arange(n), counts)
        weighted = self.run(K, y, weights=counts.astype(np.float64))
        repeated = self.run(np.ascontiguousarray(K[np.ix_(rows, rows)]), y[rows])
        for name, q in (("weights", weighted), ("repeated rows", repeated)):
            assert q.converged, f"converges with {name}: {q.outcome.value}"
        G = np.zeros((n, n))
        np.add.at(G, np.ix_(rows, rows), repeated.evidence_pullback())
        got = weighted.posterior.predict(K.copy(), K.diagonal())
        want = repeated.posterior.predict(np.ascontiguousarray(K[rows]), K.diagonal())
        for what, one, other in (
            ("evidence", weighted.log_evidence, repeated.log_evidence),
            ("mean", weighted.posterior.mean[rows], repeated.posterior.mean),
            ("gradient", weighted.evidence_pullback(), G),
            ("likelihood_gradient", weighted.likelihood_gradient(), repeated.likelihood_gradient()),
            ("predictive mean", got[0], want[0]),
            ("predictive variance", got[1], want[1]),
        ):
            self.close(f"weights are repetition, {what}", one, other)

    def check_gradients(self, X: Array, signal: float, rtol: float) -> None:
        """Both gradients; the pullback along changes of K that keep it positive definite."""
        y, likelihood, K = self.y, self.likelihood, _covariance(X, signal)
        q = self.run(K, y)
        G = q.evidence_pullback()

        def compare(law: str, evidence: Callable[[float], float], got: float, size: float) -> None:
            want = difference(evidence, STEP)
            assert abs(got - want) <= rtol * size, (
                f"{law} agrees with differences ({self.where}): {got:.10g} against {want:.10g}, "
                f"terms of size {size:.3g}"
            )

        def left_out(K: Array, q: Approximation) -> LeaveOneOut:
            return LeaveOneOut.of(*as_problem(K, y, likelihood, None), q)

        gradients = [("the gradient", G, lambda K, q: q.log_evidence)]
        if likelihood.log_concave:  # every cavity is proper
            total = sum(factor * one for factor, one in left_out(K, q).pullback())
            law = "the leave-one-out gradient"
            gradients.append((law, total, lambda K, q: left_out(K, q).value))
        for _ in range(3):
            v = self.rng.standard_normal(X.shape[1] + 1)
            for law, cotangent, value in gradients:
                terms = cotangent * K * (2 * v[0] + (X[:, None] - X[None]) ** 2 @ v[1:])

                def moved(t: float, v: Array = v, value: Any = value) -> float:
                    there = _covariance(X, signal, t * v)
                    return float(value(there, self.run(there, y, init=q.sites)))

                size = max(float(np.abs(terms).sum()), 1e-8)
                compare(law, moved, float(terms.sum()), size)

        theta, slopes = likelihood.theta, q.likelihood_gradient()
        assert slopes.shape == theta.shape, (
            f"likelihood_gradient has one entry for each hyperparameter ({self.where}): shape "
            f"{slopes.shape} for theta of shape {theta.shape}"
        )
        for k, step in enumerate(np.eye(len(theta))):

            def replaced(t: float, step: Array = step) -> float:
                other = likelihood.with_theta(theta + t * step)
                return self.method(K, y, other, init=q.sites).log_evidence

            # rows add up with either sign, and their parts are not known: none is far above one
            size = max(abs(float(slopes[k])), 0.05 * len(y))
            compare(f"likelihood_gradient[{k}]", replaced, float(slopes[k]), size)
