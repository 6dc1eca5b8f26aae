"""What several test files share: covers of combinations, small problems, comparisons."""

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from gpclass.learning import HyperPrior


def slow(values, *names):
    """The values as pytest params; those named are left out of `make fast`."""
    unknown = set(names) - set(values)
    assert not unknown, unknown
    return [pytest.param(v, marks=pytest.mark.slow if v in names else ()) for v in values]


def pairs(*factors, when=lambda *values: True, marks=lambda *values: ()):
    """Few combinations in which each pair of values of two factors appears, as pytest params.

    A full product tests each combination; faults nearly always need no more than two settings to
    show. Greedy, in the order of the product, so that the list is the same in every process.
    `when` says which combinations exist, `marks` gives a combination its marks.

    >>> [case.id for case in pairs("ab", "xy", (1, 2))]
    ['a-x-1', 'a-y-2', 'b-x-2', 'b-y-1']
    """
    factors = [list(factor) for factor in factors]
    # the places of a combination's values in the factors, a row a combination
    places = np.array(
        [
            row
            for row in itertools.product(*(range(len(factor)) for factor in factors))
            if when(*(factor[k] for factor, k in zip(factors, row, strict=True)))
        ]
    )
    missing = {}
    for i, j in itertools.combinations(range(len(factors)), 2):
        missing[i, j] = np.zeros((len(factors[i]), len(factors[j])), dtype=int)
        missing[i, j][places[:, i], places[:, j]] = 1
    chosen = []
    while any(table.any() for table in missing.values()):
        gain = sum(table[places[:, i], places[:, j]] for (i, j), table in missing.items())
        best = int(np.argmax(gain))
        for (i, j), table in missing.items():
            table[places[best, i], places[best, j]] = 0
        chosen.append(best)
    return [_param(factors, places[row], marks) for row in sorted(chosen)]


def each(*factors, marks=lambda *values: ()):
    """As many combinations as the longest factor has values; the others take turns.

    >>> [case.id for case in each("abc", (1, 2))]
    ['a-1', 'b-2', 'c-1']
    """
    factors = [list(factor) for factor in factors]
    longest = max(map(len, factors))
    rows = [tuple(k % len(factor) for factor in factors) for k in range(longest)]
    return [_param(factors, places, marks) for places in rows]


def _param(factors, places, marks):
    values = [factor[k] for factor, k in zip(factors, places, strict=True)]
    names = (_name(value) or str(k) for value, k in zip(values, places, strict=True))
    return pytest.param(*values, marks=marks(*values), id="-".join(names))


def _name(value):
    if isinstance(value, tuple):
        return " ".join(map(_name, value))
    name = value if isinstance(value, str) else getattr(value, "__name__", repr(value))
    return name if len(name) <= 40 and "0x" not in name else ""


def rbf(X, signal=1.0, length=1.0, Z=None):
    """Squared exponential covariances of the rows of X with those of Z (X by default)."""
    Z = X if Z is None else Z
    return signal**2 * np.exp(-0.5 * ((X[:, None] - Z[None]) ** 2).sum(-1) / length**2)


def noisy_problem(n, seed=0, noise=0.7):
    """Rows in two dimensions, and labels -1 and 1 by the first column with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.where(X[:, 0] + noise * rng.standard_normal(n) > 0, 1.0, -1.0)


def folder(variable):
    """The folder that GPCLASS_DATA or GPCLASS_REFERENCE names; the test is skipped without it."""
    if variable not in os.environ:
        pytest.skip(f"{variable} is not set")
    return Path(os.environ[variable])


@dataclass(frozen=True)
class Normal(HyperPrior):
    """Independent normals of one mean and deviation."""

    mean: float
    deviation: float

    def log_density(self, theta):
        z = (theta - self.mean) / self.deviation
        return -0.5 * float(z @ z), -z / self.deviation
