"""Results of diffprivlib, held to tolerances and to the presence of their noise.

pip install "diffprivlib>=0.6.6,<0.7" "scikit-learn<1.9" ../.. pytest
pytest test_diffprivlib.py
"""

from __future__ import annotations

import diffprivlib as dpl
import numpy as np
import pytest

from sfumato.noise import Laplace
from sfumato.testing import assert_approx_equal, assert_noisy, laplace_tolerance

VISITS = np.arange(10_000) % 31


@pytest.mark.flakiness(k=23)
def test_a_sum_is_near() -> None:
    """Bounds (0, 30) at epsilon 0.5: the tolerance follows from both."""
    noisy = dpl.tools.sum(VISITS, epsilon=0.5, bounds=(0, 30))
    assert_approx_equal(float(noisy), VISITS.sum(), tolerance=lambda k: laplace_tolerance(k, 30, "0.5"))


@pytest.mark.flakiness(k=23)
def test_a_mean_of_fixed_count_is_near() -> None:
    """diffprivlib takes the number of rows as public: a row changes the mean by 30 / n."""
    noisy = dpl.tools.mean(VISITS, epsilon=1.0, bounds=(0, 30))
    assert_approx_equal(float(noisy), float(VISITS.mean()), law=Laplace(30 / len(VISITS)))


@pytest.mark.flakiness(k=23)
def test_a_histogram_by_bin() -> None:
    """One tolerance for all ten bins: 10^-23 is divided over them. Its counts are whole."""
    noisy, edges = dpl.tools.histogram(VISITS, epsilon=1.0, bins=10, range=(0, 30))
    truth, _ = np.histogram(VISITS, bins=10, range=(0, 30))
    expected = {f"from {low:g}": int(n) for low, n in zip(edges, truth, strict=False)}
    actual = {f"from {low:g}": int(n) for low, n in zip(edges, noisy, strict=False)}
    assert_approx_equal(actual, expected, law=Laplace(1))


@pytest.mark.flakiness(k=23)
def test_the_mechanism_is_noisy_and_a_wrong_sensitivity_is_found() -> None:
    """Half of the sensitivity is half of the noise."""
    right = dpl.mechanisms.Laplace(epsilon=1.0, sensitivity=2.0)
    wrong = dpl.mechanisms.Laplace(epsilon=1.0, sensitivity=1.0)
    truth = [5.0] * 1500
    assert_noisy([right.randomise(x) for x in truth], truth, law=Laplace(2))
    with pytest.raises(AssertionError, match="too narrow"):
        assert_noisy([wrong.randomise(x) for x in truth], truth, law=Laplace(2))
