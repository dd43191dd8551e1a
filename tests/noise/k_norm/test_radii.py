"""The shared numbers of K-norm noise: volumes against integrals, laws by Massart's bound, tails beside mpmath.

sup |F_n - F| passes sqrt(ln(2 / a) / (2 n)) with probability at most a: here n = 600 and a = 1e-14, so 0.166; seeds
are fixed. A Gamma shape that is off by one moves F by 0.3 at least at the shapes tried.
"""

import math
from fractions import Fraction as F

import mpmath
import numpy as np
import pytest
from scipy import stats

from sfumato.errors import ParameterError
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import Cone, JointNoise
from sfumato.noise.k_norm import sampling as radii_module
from sfumato.noise.k_norm.sampling import (
    Streams,
    density,
    half_width_squared,
    lowest,
    share,
    upper_tail,
)
from tests.support import k_norm_reference as reference

n = 600

threshold = math.sqrt(math.log(2 / 1e-14) / (2 * n))

CONES = [Cone(m, units) for m in (0, 1, 4) for units in (False, True)]


def distance(numbers, cdf):
    return stats.kstest(numbers, cdf).statistic


@pytest.mark.parametrize("cone", CONES, ids=str)
def test_the_volume_is_the_integral(cone):
    for theta in (F(1, 2), F(2, 3), F(9, 10), F(1)):
        x = (theta - F(1, 2)) ** 2
        polynomial = sum(c * x**j for j, c in enumerate(cone.volume))
        with mpmath.workdps(30):
            integral = reference.volume(
                cone.signed, cone.units, mpmath.mpf(theta.numerator) / theta.denominator
            )
        assert float(abs(integral - polynomial.numerator / mpmath.mpf(polynomial.denominator))) < 1e-14


WIDE = [Cone(9), Cone(10, True), Cone(61, True), Cone(300)]


@pytest.mark.long
@pytest.mark.parametrize("cone", [*CONES, *WIDE], ids=str)
def test_proposals_of_the_share_are_never_too_few(cone):
    volume = cone.volume
    if any(volume[1:]):
        square = half_width_squared(volume)
        assert square > F(1, 4)
        for i in range(101):
            x = F(i, 200) ** 2
            value = sum(c * x**j for j, c in enumerate(volume))
            assert 0 < value <= volume[0] * (1 - x / square)
            assert value <= volume[0]


@pytest.mark.long
@pytest.mark.parametrize(
    "cone, groups",
    [
        (Cone(2, True), 3),
        # With many signed numbers and units, proposals once had no width: θ was 1/2 each time.
        *(
            pytest.param(*given, marks=pytest.mark.long)
            for given in ((Cone(0), 3), (Cone(1), 1), (Cone(2), 6), (Cone(10, True), 3), (Cone(200, True), 1))
        ),
    ],
    ids=str,
)
def test_share_has_its_law(cone, groups):
    xs = np.linspace(-0.5, 0.5, 10_001)
    density = np.polyval([float(c) for c in cone.volume[::-1]], xs**2) ** groups
    cdf = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    drawn = [float(share(cone.volume, groups, Streams(SeededWords(i)), 1)(128).low) for i in range(n)]
    assert distance(drawn, lambda v: np.interp(v, xs, cdf / cdf[-1])) < threshold


@pytest.mark.parametrize("cone", WIDE, ids=str)
@pytest.mark.parametrize("groups", [1, 5000])
def test_one_proposal_in_ten_is_taken(monkeypatch, cone, groups):
    """However many numbers there are: of 50 sums it was once one in millions."""
    tried = []
    for kind in (radii_module._EvenProposal, radii_module._ShareProposal):
        honest = kind.accepted
        monkeypatch.setattr(kind, "accepted", lambda *a, honest=honest: tried.append(1) or honest(*a))
    for seed in range(20):
        share(cone.volume, groups, Streams(SeededWords(seed)), 1)
    assert len(tried) < 10 * 20


@pytest.mark.parametrize("count", [0, -1, F(3, 2)])
def test_groups_are_counted(count):
    with pytest.raises(ParameterError, match="whole number of at least 1"):
        JointNoise(Cone(0), (F(1),), count)


@pytest.mark.parametrize("shape", [1, 5, 100, 2000, 4_000_000])
def test_tails_and_densities_are_right_however_small(shape):
    with mpmath.workdps(30):
        for deviations in (-30, -9, -3, 0, 4, 12) if shape < 10**6 else (0, 5):
            x = max(shape + deviations * math.sqrt(shape), 1e-9)
            own = mpmath.exp((shape - 1) * mpmath.log(x) - x - mpmath.loggamma(shape))
            if shape > 1 and own > 1e-290:
                assert float(density(shape, np.array(x)) / own) == pytest.approx(1, rel=1e-11)
            exact = mpmath.gammainc(shape, x, mpmath.inf, regularized=True)
            assert float(upper_tail(shape, x) / exact) == pytest.approx(1, rel=1e-11)
            if x <= lowest(shape):
                assert 1 - exact < 1e-17
