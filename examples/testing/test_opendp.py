"""Results of OpenDP, held to tolerances and to the presence of their noise.

pip install "opendp>=0.16,<0.17" ../.. pytest
pytest test_opendp.py
"""

from __future__ import annotations

import opendp.prelude as dp
import pytest

from sfumato.noise import DiscreteLaplace, Gaussian
from sfumato.testing import assert_approx_equal, assert_noisy, gaussian_tolerance

dp.enable_features("contrib")

AGES = [20 + i % 60 for i in range(10_000)]
CLAMPED = [min(max(age, 18), 65) for age in AGES]


def noisy_sum(scale: float) -> dp.Measurement:
    """Add Laplace noise to the sum of ages between 18 and 65."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    return space >> dp.t.then_clamp((18, 65)) >> dp.t.then_sum() >> dp.m.then_laplace(scale=scale)


@pytest.mark.flakiness(k=23)
def test_a_sum_is_near() -> None:
    """Sensitivity 65 at epsilon 1: the scale is 65. On integers OpenDP draws discrete Laplace noise."""
    measurement = noisy_sum(65.0)
    assert measurement.map(1) <= 1.0
    assert_approx_equal(measurement(AGES), sum(CLAMPED), law=DiscreteLaplace(65))


@pytest.mark.flakiness(k=23)
def test_many_sums_are_noisy_as_they_should_be() -> None:
    """A thousand runs on a small table tell noise of this scale from none, less or more."""
    measurement = noisy_sum(65.0)
    noisy = [measurement([30, 40]) for _ in range(1500)]
    assert_approx_equal(noisy, [70] * 1500, law=DiscreteLaplace(65))
    assert_noisy(noisy, [70] * 1500, law=DiscreteLaplace(65))


@pytest.mark.flakiness(k=23)
def test_less_noise_is_found() -> None:
    """The same test fails where the scale is 0.7 times what it should be."""
    measurement = noisy_sum(0.7 * 65)
    noisy = [measurement([30, 40]) for _ in range(1500)]
    with pytest.raises(AssertionError, match="too narrow"):
        assert_noisy(noisy, [70] * 1500, law=DiscreteLaplace(65))


@pytest.mark.flakiness(k=23)
def test_gaussian_noise_on_floats() -> None:
    """A tolerance by (epsilon, delta) works as well, as a function of the k that each value gets."""
    sigma = float(Gaussian(4).sigma)
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    measurement = dp.m.make_gaussian(*space, scale=sigma)
    noisy = [measurement(100.0) for _ in range(800)]
    assert_approx_equal(noisy, [100.0] * 800, tolerance=lambda k: gaussian_tolerance(k, sigma=sigma))
    assert_noisy(noisy, [100.0] * 800, law=Gaussian(sigma))
