import numpy as np
import pytest

from gpclass.inference.sites import Sites


def test_damping_moves_natural_parameters():
    old, new = Sites(np.zeros(3), np.ones(3)), Sites(np.ones(3), np.full(3, 3.0))
    half = old.damped_towards(new, 0.25)
    np.testing.assert_allclose(half.nu, 0.25)
    np.testing.assert_allclose(half.tau, 1.5)


def test_tempering_is_a_power():
    sites = Sites(np.array([1.0, -2.0]), np.array([0.5, 0.1])).tempered(np.array([2.0, 0.0]))
    np.testing.assert_array_equal(sites.nu, [2.0, 0.0])
    np.testing.assert_array_equal(sites.tau, [1.0, 0.0])


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="one length"):
        Sites(np.zeros(2), np.zeros(3))
