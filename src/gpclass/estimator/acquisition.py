"""How much a label of a new row would teach: entropies under the posterior of the latents."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, xlogy

from gpclass.estimator import binary_model, joint_model
from gpclass.estimator.binary_model import BinaryModel
from gpclass.estimator.decomposition import Decomposition
from gpclass.estimator.joint_model import JointModel, probabilities_of
from gpclass.estimator.model import Setting
from gpclass.estimator.prediction import Models
from gpclass.likelihoods import Likelihood
from gpclass.likelihoods.probabilities.points import normals
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


def information_about_latent(
    models: Models, decomposition: Decomposition, n_classes: int, X: Any, n_draws: int
) -> Array:
    """Mutual information of the label of each row and the latents, in nats, shape (m,).

    ``H(E[p]) - E[H(p)]`` over the latents and over the settings of the hyperparameters.

    Raises
    ------
    ValueError
        For a posterior held as samples.
    """
    first = models[0]
    if isinstance(first, JointModel):
        return _of_joint(first, X, n_draws)
    if any(isinstance(setting.posterior, SamplePosterior) for setting in first.settings()):
        raise ValueError("bald needs a Gaussian posterior, and inference='mcmc' has samples")
    if len(models) == 1:
        return _of_binary(first, X)
    return _of_several(models, decomposition, n_classes, X, n_draws)


def _of_binary(model: BinaryModel, X: Any) -> Array:
    def given_latent(setting: Setting, X: Any) -> Array:
        mean, variance = binary_model.latent_at(setting, X)
        return expected_entropy(setting.problem.likelihood, mean, variance)

    weights, found = model.at_settings(given_latent, X)
    # rounding may take away 1e-9
    gained = entropy(np.exp(model.log_probabilities(X))) - weights @ np.stack(found)
    return np.asarray(np.maximum(gained, 0.0))


def _of_joint(model: JointModel, X: Any, n_draws: int) -> Array:
    weights, found = model.at_settings(joint_model.latent_at, X)
    C = model.problem.n_classes
    P, given = np.zeros((len(X), C)), np.zeros(len(X))
    for weight, setting, (mean, covariance) in zip(weights, model.settings(), found, strict=True):

        def label(f: Array, problem: Any = setting.problem) -> Array:
            return probabilities_of(problem, f, np.zeros((len(f), C, C)))

        at, left = _averaged(label, mean, root_batch(covariance), n_draws)
        P += weight * at
        given += weight * left
    return np.asarray(np.maximum(entropy(P) - given, 0.0))


def _of_several(
    models: Models, decomposition: Decomposition, n_classes: int, X: Any, n_draws: int
) -> Array:
    latents = [model.latent(X) for model in models]
    mean, variance = (np.stack(part, axis=1) for part in zip(*latents, strict=True))

    def label(f: Array) -> Array:
        logs = [
            [model.problem.likelihood.log_prob(np.full(len(f), y), one) for y in (-1.0, 1.0)]
            for model, one in zip(models, f.T, strict=True)
        ]
        return decomposition.combine(np.array(logs).transpose(2, 0, 1), n_classes)

    root = np.sqrt(variance)[:, :, None] * np.eye(len(models))
    P, given = _averaged(label, mean, root, n_draws)
    return np.asarray(np.maximum(entropy(P) - given, 0.0))


def _averaged(
    label: Callable[[Array], Array], mean: Array, root: Array, n_draws: int
) -> tuple[Array, Array]:
    """Means of p(y | f), (m, C), and of its entropy, (m,), over latents ``N(mean, root root^T)``.

    By the same draws for every row: the entropy of the mean is at least the mean of the entropies.
    """
    Z = normals(mean.shape[1], 0, n_draws)
    P, left = [], []
    for rows in blocks(len(mean), max(1, DRAWS // n_draws)):
        f = mean[rows, :, None] + np.matmul(root[rows], Z)
        at = label(f.transpose(0, 2, 1).reshape(-1, f.shape[1])).reshape(len(f), n_draws, -1)
        P.append(at.mean(axis=1))
        left.append(entropy(at).mean(axis=1))
    return np.concatenate(P), np.concatenate(left)
