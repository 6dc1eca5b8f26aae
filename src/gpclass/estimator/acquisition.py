"""How much a label of a new row would teach: entropies under the posterior of the latents."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, xlogy
from scipy.stats.qmc import Sobol

from gpclass.estimator import binary_model, joint_model
from gpclass.estimator.binary_model import BinaryModel
from gpclass.estimator.joint_model import JointModel, probabilities_of
from gpclass.estimator.model import Setting
from gpclass.likelihoods import Likelihood
from gpclass.linalg import blocks, root_batch
from gpclass.montecarlo import SamplePosterior

Array = NDArray[np.float64]

# Latents beyond this, where a probit or logit label is certain, and deviations of a Gaussian.
FARTHEST: Final = 40.0
DEVIATIONS: Final = 9.0
# Panels between them, of Gauss-Legendre nodes each: exact to 1e-9 for the probit and the logit.
PANELS: Final = 24
NODES: Final = 12
# Rows, and draws of latents, at a time.
ROWS: Final = 1024
DRAWS: Final = 65536


def entropy(P: Array) -> Array:
    """``- sum_c P_c log P_c`` over the last axis, in nats."""
    return np.asarray(-xlogy(P, P).sum(axis=-1))


def expected_entropy(likelihood: Likelihood, mean: Array, variance: Array) -> Array:
    """``E[H(y | f)]`` for f ~ N(mean, variance) and labels -1 and +1, shape (m,).

    By Gauss-Legendre panels where the Gaussian has mass and a label is in doubt; beyond
    ``FARTHEST`` the entropy is that at its ends.
    """
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    edges = np.linspace(0.0, 1.0, PANELS + 1)
    at = (edges[:-1, None] + 0.5 * (nodes + 1.0) / PANELS).ravel()
    share = np.tile(0.5 * weights / PANELS, PANELS)
    found = np.empty(len(mean))
    ends = _label_entropy(likelihood, np.array([-FARTHEST, FARTHEST]))
    for rows in blocks(len(mean), ROWS):
        m, s = mean[rows, None], np.sqrt(variance[rows, None])
        certain = s[:, 0] < 1e-12
        s = np.maximum(s, 1e-12)
        low = np.clip(m - DEVIATIONS * s, -FARTHEST, FARTHEST)
        high = np.clip(m + DEVIATIONS * s, -FARTHEST, FARTHEST)
        f = low + (high - low) * at
        z = (f - m) / s
        density = np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * s)
        total = (high - low)[:, 0] * ((_label_entropy(likelihood, f) * density) @ share)
        total += ends[0] * ndtr(((-FARTHEST - m) / s)[:, 0])
        total += ends[1] * ndtr(((m - FARTHEST) / s)[:, 0])
        found[rows] = np.where(certain, _label_entropy(likelihood, m[:, 0]), total)
    return found


def _label_entropy(likelihood: Likelihood, f: Array) -> Array:
    logs = np.stack([likelihood.log_prob(np.full_like(f, y), f) for y in (-1.0, 1.0)])
    return np.asarray(-(np.exp(logs) * logs).sum(axis=0))


def information_about_latent(models: Sequence[Any], X: Any, n_draws: int) -> Array:
    """Mutual information of the label of each row and the latents, in nats, shape (m,).

    ``H(E[p]) - E[H(p)]`` over the latents and over the settings of the hyperparameters.

    Raises
    ------
    ValueError
        For several binary models, whose probabilities of one class are not those of one latent.
    """
    if len(models) > 1:
        raise ValueError(
            "bald needs one model of all classes: multi_class='joint' or 'differences', or two "
            f"classes; this one is {len(models)} binary models"
        )
    model = models[0]
    if isinstance(model, JointModel):
        return _of_joint(model, X, n_draws)
    return _of_binary(model, X)


def _of_binary(model: BinaryModel, X: Any) -> Array:
    def given_latent(setting: Setting, X: Any) -> Array:
        if isinstance(setting.posterior, SamplePosterior):
            raise ValueError("bald needs a Gaussian posterior, and inference='mcmc' has samples")
        mean, variance = binary_model.latent_at(setting, X)
        return expected_entropy(setting.problem.likelihood, mean, variance)

    weights, found = model.at_settings(given_latent, X)
    # rounding may take away 1e-9
    gained = entropy(np.exp(model.log_probabilities(X))) - weights @ np.stack(found)
    return np.asarray(np.maximum(gained, 0.0))


def _of_joint(model: JointModel, X: Any, n_draws: int) -> Array:
    """By the same draws for every row: the mean of all is at least the mean of their entropies."""
    weights, found = model.at_settings(joint_model.latent_at, X)
    C = model.problem.n_classes
    # the points of a Sobol sequence, moved off its corner
    z = ndtri(Sobol(C, scramble=False).random(n_draws) + 0.5 / n_draws)
    P, given = np.zeros((len(X), C)), np.zeros(len(X))
    for weight, setting, (mean, covariance) in zip(weights, model.settings(), found, strict=True):
        root = root_batch(covariance)
        for rows in blocks(len(X), max(1, DRAWS // n_draws)):
            f = (mean[rows, None] + np.einsum("icd,sd->isc", root[rows], z)).reshape(-1, C)
            at = probabilities_of(setting.problem, f, np.zeros((len(f), C, C)))
            at = at.reshape(-1, n_draws, C)
            P[rows] += weight * at.mean(axis=1)
            given[rows] += weight * entropy(at).mean(axis=1)
    return np.asarray(np.maximum(entropy(P) - given, 0.0))
