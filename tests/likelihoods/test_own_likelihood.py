"""The examples of docs/own-likelihood.md: right ones pass the laws, wrong ones do not."""

import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from gpclass.likelihoods import Likelihood
from gpclass.testing import check_likelihood

DOCS = Path(__file__).resolve().parents[2] / "docs"

pytestmark = pytest.mark.skipif(not (DOCS / "parts").is_dir(), reason="this copy has no docs")


@pytest.fixture
def examples(monkeypatch):
    """The module of the page, importable as the page imports it."""
    monkeypatch.syspath_prepend(str(DOCS / "parts"))
    import own_likelihoods

    yield own_likelihoods
    del sys.modules["own_likelihoods"]


def cauchit(f):
    return mp.atan2(1, -f) / mp.pi


def cloglog(f):
    return -mp.expm1(-mp.exp(f))


def integral(g, m, sd):
    """Over the Gaussian, by panels of two deviations and of two about f = 0."""
    cuts = {m + 2 * sd * k for k in range(-5, 6)}
    cuts |= {mp.mpf(c) for c in range(-10, 11, 2) if abs(c - m) < 10 * sd}
    return mp.quad(lambda f: g(f) * mp.npdf(f, m, sd), sorted(cuts), maxdegree=5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Cauchit", "ComplementaryLogLog"])
@pytest.mark.parametrize(("m", "v"), [(0.5, 0.04), (1.0, 40.0)])
def test_integrals_agree_with_twenty_digits(examples, name, m, v):
    likelihood = getattr(examples, name)()
    p = {"Cauchit": cauchit, "ComplementaryLogLog": cloglog}[name]
    with mp.workdps(20):
        sd = mp.sqrt(v)
        z = integral(p, m, sd)
        slope = integral(lambda f: p(f) * (f - m) / v, m, sd) / z
        expected = integral(lambda f: mp.log(p(f)), m, sd)
    tilted = likelihood.tilted_moments(1.0, m, v)
    assert float(tilted.log_z) == pytest.approx(float(mp.log(z)), rel=1e-10)
    assert float(tilted.d_mean) == pytest.approx(float(slope), rel=1e-9)
    found = likelihood.expected_log_prob(1.0, m, v)
    assert float(found.value) == pytest.approx(float(expected), rel=1e-10)


def test_the_expected_log_probability_of_no_event_has_a_closed_form(examples):
    likelihood = examples.ComplementaryLogLog()
    for m, v in ((-6.0, 0.04), (0.9, 40.0), (7.0, 150.0)):
        found = likelihood.expected_log_prob(-1.0, m, v)
        truth = -np.exp(m + 0.5 * v)
        np.testing.assert_allclose(found, [truth, truth, 0.5 * truth], rtol=1e-10)


def broken(likelihood, method, change):
    """The likelihood with one method's answer changed by ``change(answer, *arguments)``."""

    def replaced(self, *arguments):
        return change(getattr(likelihood, method)(*arguments), *arguments)

    kept = ("name", "log_concave", "log_prob", "derivatives")
    own = {key: vars(type(likelihood))[key] for key in kept}
    return type("Broken", (Likelihood,), own | {method: replaced})()


@pytest.mark.parametrize("name", ["Cauchit", "ComplementaryLogLog"])
@pytest.mark.parametrize(
    ("method", "change", "law"),
    [
        ("tilted_moments", lambda a, y, m, v: a._replace(log_z=a.log_z - 1e-9 * v), "log_z"),
        ("expected_log_prob", lambda a, *_: a._replace(value=a.value * (1 + 1e-8)), "= E.log p"),
        (
            "expected_log_prob",
            lambda a, *_: a._replace(d_mean=a.d_mean * (1 + 1e-6)),
            "d_mean = dE",
        ),
        ("predict_proba", lambda a, *_: a * (1 - 1e-9), "predict_proba"),
        ("derivatives", lambda a, *_: a._replace(third=a.third + 1e-7), "third"),
    ],
)
def test_a_wrong_answer_fails_the_law_it_breaks(examples, name, method, change, law):
    with pytest.raises(AssertionError, match=law):
        check_likelihood(broken(getattr(examples, name)(), method, change))
