"""Draws from secure words follow their law, by a test that rejects planted defects.

The statistic is sup |F_n - F| over the integers. By Dvoretzky-Kiefer-Wolfowitz with Massart's constant it passes
sqrt(ln(2 / a) / (2 n)) with probability at most a: here n = 300,000 and a = 1e-15, so 0.0077. A scale that is off by
30% moves F by 0.048 (Laplace) or 0.031 (Gauss) at least somewhere, more than four thresholds: draws show two of
them but for 1e-64.
"""

import math

import numpy as np
import pytest

from sfumato.noise import Gaussian, Laplace

pytestmark = pytest.mark.flakiness(k=15, because="by Massart's bound, as said above")
laws = [Laplace, Gaussian]
n = 300_000
threshold = math.sqrt(math.log(2 / 1e-15) / (2 * n))


def _distance(law, draws) -> float:
    values, counts = np.unique(draws, return_counts=True)
    after = np.cumsum(counts) / len(draws)
    before = after - counts / len(draws)
    # Between the values that occur, F_n is flat: its distance from F is largest at the ends of each flat part.
    return max(
        np.abs(after - law.rounded_cdf(values)).max(), np.abs(before - law.rounded_cdf(values - 1)).max()
    )


@pytest.mark.long
@pytest.mark.parametrize("law", laws)
@pytest.mark.parametrize("scale", ["0.4", 1, "3.3", 1000])
def test_draws_follow_the_law(law, scale):
    ours = law(scale)
    assert _distance(ours, ours.rounded(n)) < threshold


@pytest.mark.parametrize("law", laws)
def test_planted_defects_are_rejected(law):
    right = law(5)
    defects = {
        "scale too small": law("3.85").rounded(n),
        "scale too large": law("6.5").rounded(n),
        "no noise": np.zeros(n, np.int64),
        "always positive": np.abs(right.rounded(n)),
        "truncated": np.trunc(right.rounded(n) * 0.999).astype(np.int64),
    }
    for name, draws in defects.items():
        assert _distance(right, draws) > 2 * threshold, name


@pytest.mark.parametrize("law", laws)
def test_low_bits_are_fair(law):
    """At scale 2^40 each of the 20 lowest bits is a fair coin, to 9 standard deviations (false alarm 1e-17)."""
    draws = law(2**40).rounded(100_000)
    for bit in range(20):
        ones = int(((draws >> bit) & 1).sum())
        assert abs(ones - 50_000) < 9 * math.sqrt(25_000), bit
