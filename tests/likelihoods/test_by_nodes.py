"""The quick rule for ``E[log p]``, against adaptive quadrature."""

import numpy as np
import pytest

from gpclass.likelihoods import Logit, NoisyThreshold, Probit
from gpclass.likelihoods.by_nodes import DEVIATION, GROWTH, LEVELS, expected_log_prob


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=repr)
def test_the_integral(likelihood):
    rng, n = np.random.default_rng(0), 3000
    y, m = rng.choice([-1.0, 1.0], n), rng.normal(size=n) * rng.choice([1.0, 5.0, 50.0], n)
    v = rng.choice([0.0, 1e-12, 1e-3, 1.0, 4.0, 30.0, 300.0], n) * rng.uniform(0.1, 1.0, n)
    quick, exact = expected_log_prob(likelihood, y, m, v), likelihood.expected_log_prob(y, m, v)
    np.testing.assert_allclose(quick.value, exact.value, atol=2e-10, rtol=1e-12)
    np.testing.assert_allclose(quick.d_mean, exact.d_mean, atol=1e-9)
    np.testing.assert_allclose(quick.d_var, exact.d_var, atol=4e-9)


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=repr)
def test_it_does_not_jump_where_the_nodes_change(likelihood):
    edges = (DEVIATION * GROWTH ** np.arange(LEVELS + 1)) ** 2
    for m in (-3.0, 0.0, 1.5):
        below, above = (
            expected_log_prob(likelihood, np.ones(len(edges)), np.full(len(edges), m), v)
            for v in (edges * (1.0 - 1e-12), edges * (1.0 + 1e-12))
        )
        np.testing.assert_allclose(below.value, above.value, atol=4e-10, rtol=1e-11)


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=repr)
def test_a_row_does_not_depend_on_those_beside_it(likelihood):
    """Rows that reach the same nodes are taken together."""
    rng, n = np.random.default_rng(1), 400
    y, v = rng.choice([-1.0, 1.0], n), 10.0 ** rng.uniform(-3.0, 5.0, n)
    m = rng.uniform(-12.0, 12.0, n) * np.sqrt(1.0 + v)
    together = expected_log_prob(likelihood, y, m, v)
    for i in range(0, n, 7):
        alone = expected_log_prob(likelihood, *(one[i : i + 1] for one in (y, m, v)))
        for whole, one in zip(together, alone, strict=True):
            np.testing.assert_allclose(whole[i], one[0], rtol=1e-12, atol=1e-12)


def test_another_likelihood_answers_itself():
    y, m, v = np.ones(3), np.array([-1.0, 0.0, 2.0]), np.ones(3)
    found, own = (
        f(y, m, v)
        for f in (
            lambda *a: expected_log_prob(NoisyThreshold(), *a),
            NoisyThreshold().expected_log_prob,
        )
    )
    np.testing.assert_array_equal(found, own)
