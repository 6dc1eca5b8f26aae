"""
Your own likelihood
===================

Samples are tested in pools of five, and a pool is positive when any sample is. With the chance of
one sample, s(f), that of a pool is 1 - (1 - s(f))^5. Say that as a likelihood, and the latent is
about single samples.
"""

from dataclasses import dataclass
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit, log_expit

from gpclass import GaussianProcessClassifier
from gpclass.likelihoods import Likelihood
from gpclass.likelihoods.base import Derivatives
from gpclass.testing import check_likelihood


@dataclass(frozen=True)
class Pooled(Likelihood):
    """``p(-1 | f) = s(-f)^size``: none of the pool is positive."""

    size: int = 5
    name: ClassVar[str] = "pooled"
    log_concave: ClassVar[bool] = True

    def log_prob(self, y, f):
        none = self.size * log_expit(-np.asarray(f))
        # log(1 - exp(none)): to all digits on the right and on the left, and far to the left
        bounded = np.minimum(none, -1e-15)
        right, left = np.log1p(-np.exp(bounded)), np.log(-np.expm1(bounded))
        some = np.where(none < -0.7, right, left)
        some = np.where(np.less(f, -36.0), np.log(self.size) + f, some)
        return np.where(np.asarray(y) > 0.0, some, none)

    def derivatives(self, y, f):
        m, s, q = self.size, expit(f), expit(-np.asarray(f))
        none = m * log_expit(-np.maximum(f, -36.0))
        h = np.where(np.less(f, -36.0), 1.0, m * s * np.exp(none) / -np.expm1(none))
        k = q - m * s - h
        second = h * k
        third = second * k - h * ((1 + m) * s * q + second)
        some = np.asarray(y) > 0.0
        return Derivatives(
            np.where(some, h, -m * s),
            np.where(some, second, -m * s * q),
            np.where(some, third, -m * s * q * (q - s)),
        )


check_likelihood(Pooled())

# %%
# 300 pools along a coast with one infected stretch.
rng = np.random.default_rng(0)
place = rng.uniform(0.0, 10.0, 300)


def prevalence(x):
    return 0.01 + 0.3 * np.exp(-(((x - 6.0) / 1.2) ** 2))


positive = rng.random(300) < 1.0 - (1.0 - prevalence(place)) ** 5
model = GaussianProcessClassifier(likelihood=Pooled()).fit(place[:, None], positive)

# the chance of one sample, from the latent: its median and an interval
x = np.linspace(0.0, 10.0, 101)
mean, variance = model.latent_mean_and_variance(x[:, None])
sd = np.sqrt(variance)
low, middle, high = (expit(mean + z * sd) for z in (-1.96, 0.0, 1.96))
inside = ((low <= prevalence(x)) & (prevalence(x) <= high)).mean()
print(
    f"{positive.mean():.0%} of the pools are positive; the interval has the truth on {inside:.0%}"
)
assert inside > 0.8

_, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.fill_between(x, low, high, alpha=0.25, linewidth=0)
ax.plot(x, middle, label="one sample, by the model")
ax.plot(x, prevalence(x), "k--", linewidth=1, label="truth")
ax.plot(place, np.where(positive, 0.62, -0.04), "|", color="0.4", markersize=6)
ax.set(xlabel="Place (km)", ylabel="Chance that a sample is positive")
ax.legend(frameon=False, loc="upper left")
plt.show()
