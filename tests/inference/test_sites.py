import numpy as np
import pytest

from gpclass.inference.sites import Sites


def test_damping_moves_natural_parameters():
    old, new = Sites(np.zeros(3), np.ones(3)), Sites(np.ones(3), np.full(3, 3.0))
    half = old.damped_towards(new, 0.25)
    np.testing.assert_allclose(half.nu, 0.25)
    np.testing.assert_allclose(half.tau, 1.5)


def test_sites_of_zero_say_nothing():
    sites = Sites.zero(2)
    np.testing.assert_array_equal(sites.nu, [0.0, 0.0])
    np.testing.assert_array_equal(sites.tau, [0.0, 0.0])


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="one length"):
        Sites(np.zeros(2), np.zeros(3))
