"""The shared numbers: volumes against integrals, enclosures against mpmath, laws by Massart's bound.

sup |F_n - F| passes sqrt(ln(2 / a) / (2 n)) with probability at most a: here n = 600 and a = 1e-14, so 0.166; seeds
are fixed. A Gamma shape that is off by one moves F by 0.3 at least at the shapes tried.
"""

from __future__ import annotations

import math
from fractions import Fraction as F

import mpmath
import numpy as np
import pytest
from scipy import stats

from sfumato.errors import ParameterError
from sfumato.exact.outward_rounding import Enclosure, is_less
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import Cone, JointNoise
from sfumato.noise.k_norm import sampling as radii_module
from sfumato.noise.k_norm.sampling import Streams, gamma, half_width_squared, radii, share

from . import reference

n = 600
threshold = math.sqrt(math.log(2 / 1e-14) / (2 * n))
CONES = [Cone(m, units) for m in range(5) for units in (False, True)]


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


WIDE = [Cone(m, units) for m in (9, 10, 12, 13, 30, 61, 300) for units in (False, True)]


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


@pytest.mark.parametrize("shape", [1, 2, 7, 200])
def test_gamma_has_its_law(shape):
    drawn = [float(gamma(shape, Streams(SeededWords(i)), 0)(128).low) for i in range(n)]
    assert distance(drawn, stats.gamma(shape).cdf) < threshold
    if shape < 5:
        assert distance(drawn, stats.gamma(shape + 1).cdf) > threshold


@pytest.mark.parametrize(
    "cone, groups",
    [
        (Cone(0), 3),
        # With many signed numbers and units, proposals once had no width: θ was 1/2 each time.
        (Cone(10, True), 3),
        (Cone(12, True), 40),
        (Cone(30), 1),
        (Cone(200, True), 1),
        *(
            pytest.param(*given, marks=pytest.mark.long)
            for given in ((Cone(1), 1), (Cone(2), 6), (Cone(2, True), 3))
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
@pytest.mark.parametrize("groups", [1, 50, 5000, 1 << 22])
def test_one_proposal_in_ten_is_taken(monkeypatch, cone, groups):
    """However many numbers there are: of 50 sums it was once one in millions."""
    tried = []
    for kind in (radii_module._EvenProposal, radii_module._ShareProposal):
        honest = kind.accepted
        monkeypatch.setattr(kind, "accepted", lambda *a, honest=honest: tried.append(1) or honest(*a))
    for seed in range(20):
        share(cone.volume, groups, Streams(SeededWords(seed)), 1)
    assert len(tried) < 10 * 20


def test_more_bits_narrow_the_same_number():
    shared = radii(Cone(1).volume, 2, 4, Streams(SeededWords(3)))
    theta, tau, size = shared.floats
    for coarse, fine in zip(shared.enclose(128), shared.enclose(512), strict=True):
        assert coarse.low <= fine.low <= fine.high <= coarse.high
        assert fine.high - fine.low < 1e-100
    assert math.isclose(theta + tau, 1) and math.isclose(float(shared.enclose(128)[0].low), theta * size)


def test_enclosures_hold_what_they_stand_for():
    numbers = [F(-7, 3), F(-1, 9), F(0), F(1, 7), F(5, 2)]
    for a in numbers:
        one = Enclosure.of(a, 64)
        assert abs(one).holds(abs(a)) and (-one).holds(-a) and one.times(F(1, 3)).holds(a / 3)
        for b in numbers:
            other = Enclosure.of(b, 64)
            assert (one + other).holds(a + b) and (one - other).holds(a - b) and (one * other).holds(a * b)
            assert one.or_less(other).holds(min(a, b))
            if b > 0:
                assert (one / other).holds(a / b)
    third = Enclosure.of(F(1, 3), 64)
    assert third.power(3).root(3).holds(F(1, 3)) and third.log().exp().holds(F(1, 3))
    assert Enclosure.of(F(5, 2), 64).rounded() == 3 and Enclosure.of(F(-5, 2), 64).rounded() == -2
    assert Enclosure.between(1, 3, -1, 64).rounded() is None and Enclosure.of(F(7, 2), 64).floor() == 3
    assert is_less(
        lambda bits: Enclosure.of(F(1, 3), bits), lambda bits: Enclosure.of(F(1, 3) + F(1, 2**300), bits)
    )


@pytest.mark.parametrize("count", [0, -1, F(3, 2)])
def test_groups_are_counted(count):
    with pytest.raises(ParameterError, match="whole number of at least 1"):
        JointNoise(Cone(0), (F(1),), count)
