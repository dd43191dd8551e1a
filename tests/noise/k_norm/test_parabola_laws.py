"""Laws of noise on a count, a sum and a sum of squares: against integrals of the body's words, and draws against them.

Draws have fixed seeds. sup |F_n - F| passes sqrt(ln(2 / a) / (2 n)) with probability at most a (Massart); a = 1e-14.
"""

from __future__ import annotations

import math
from fractions import Fraction as F
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from sfumato.framework import ParabolaBody
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import Cone, JointNoise, Parabola, SeparateParabolas
from sfumato.noise.k_norm.gammas import density
from sfumato.noise.k_norm.joint_laws import joint
from sfumato.noise.k_norm.marginals import marginals
from sfumato.noise.k_norm.parabola_tails import squares, tail

from .test_laws import distance, massart

ONE = (F(1),) * 3


def height(a, b, x):
    """How long the line at x is in aM - bM: the largest y less the least."""
    return 2 * (a + b) - 2 * max(x - b, 0) ** 2 / (a or 1) - 2 * max(x - a, 0) ** 2 / (b or 1)


def width(a, b, y):
    """How long the line at y is: at or above n = a - b the one parabola ends it, below the other."""
    one, other, over = (a, b, y) if y >= a - b else (b, a, -y)
    return 2 * (one + math.sqrt(max(other * (a + b - over) / 2, 0)))


def by_lines(coordinate, low, theta):
    """The volume where a number is above `low`, from the lengths of lines: a count of them, or those beyond it."""
    tau = 1 - theta

    def section(n):
        a, b = min(theta, n + tau), min(tau, theta - n)
        line, start = (width, low) if coordinate == 2 else (height, low if coordinate else 0)
        v = a + b
        if (coordinate == 0 and n < low) or start >= v:
            return 0.0
        ends = [p for p in (a, b, a - b) if start < p < v]
        own = integrate.quad(
            lambda z: line(a, b, z), start, v, points=ends or None, epsabs=1e-12, epsrel=1e-12
        )
        return own[0] * (2 if coordinate == 0 else 1)

    cuts = sorted(
        {-tau, theta - tau, theta, *(p for p in (low, low - 2 * tau, 2 * theta - low) if -tau < p < theta)}
    )
    parts = [
        integrate.quad(section, one, other, epsabs=1e-10, epsrel=1e-10)[0] for one, other in pairwise(cuts)
    ]
    return sum(parts)


@pytest.mark.long
@pytest.mark.parametrize("theta", [0.5, 0.8, 0.3, 1.0])
def test_tails_given_the_split_are_those_of_the_body(theta):
    whole = by_lines(0, -1, theta)
    for coordinate, places in (
        (0, (0.0, 0.25, 0.45)),
        (1, (0.0, 0.1, 0.6, 0.9)),
        (2, (0.0, 0.15, 0.65, 0.95)),
    ):
        for y in places:
            found = float(tail(Parabola(), coordinate, np.array(y), np.array(theta)))
            assert found == pytest.approx(by_lines(coordinate, y, theta) / whole, abs=1e-8)


def test_mean_squares_are_those_of_tails():
    place, weight = np.polynomial.legendre.leggauss(60)
    for theta in (0.5, 0.7, 0.95, 1.0):
        ends = np.array(sorted({0.0, 1 - theta, 2 * theta - 1, theta, 1.0}))
        low, length = ends[:-1, None], np.diff(ends)[:, None]
        y, chance = low + length * (place + 1) / 2, length * weight / 2
        for coordinate, square in enumerate(squares(Parabola(), np.array([theta]))):
            both = tail(Parabola(), coordinate, y, np.array(theta)) + tail(
                Parabola(), coordinate, y, np.array(1 - theta)
            )
            assert float((2 * chance * y * both).sum()) == pytest.approx(float(square[0]), abs=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("groups, coordinate, x", [(4, 2, 9.5)])
def test_marginals_are_the_mean_over_what_groups_share(groups, coordinate, x):
    """By adaptive quadrature between all places where the pieces of tails meet."""
    volume, shape = [float(c) for c in Parabola().volume], 3 * groups + 2

    def chance(theta):
        return (volume[0] + volume[1] * (theta - 0.5) ** 2) ** groups

    def given(y):
        def both(theta):
            arguments = coordinate, np.array(y), np.array([theta, 1 - theta])
            return chance(theta) * float(tail(Parabola(), *arguments).sum())

        ends = sorted({0.5, *(p for p in (y, 1 - y, (1 + y) / 2) if p > 0.5), 1.0})
        return sum(integrate.quad(both, a, b, epsabs=1e-10, epsrel=1e-8)[0] for a, b in pairwise(ends))

    whole = integrate.quad(chance, 0.5, 1, epsabs=1e-14)[0]

    def at(r):
        return float(density(shape, np.array([r]))[0]) * given(x / r) / whole

    ends = (x, 2 * x, 3 * x, 3 * x + 80)
    found = sum(integrate.quad(at, a, b, epsabs=1e-9, epsrel=1e-8)[0] for a, b in pairwise(ends))
    law = joint(JointNoise(Parabola(), ONE, groups), coordinate)
    assert law.outside(x) == pytest.approx(found, abs=1e-8)


@pytest.mark.long
@pytest.mark.parametrize("theta", [0.6, 1.0, 0.2])
def test_tails_with_units_are_the_integral_of_those_without(theta):
    """Over u: what can be beside it is λ'C - μ'C, whose tails are those of its own split, at its own size."""

    def volume(size, share):
        return size**3 * (2 / 9 + share * (1 - share))

    def beside(u, coordinate, y):
        left, right = min(theta, 1 - theta + u), min(1 - theta, theta - u)
        size = left + right
        if size <= y:
            return 0.0
        share = left / size
        part = tail(Parabola(), coordinate, np.array(y / size), np.array(share)) if coordinate >= 0 else 1.0
        return float(part) * volume(size, share)

    def over_units(coordinate, y, start=theta - 1):
        places = (2 * theta - 1, 2 * theta - 1 + y, 2 * theta - 1 - y, y, -y, theta - y, y - (1 - theta))
        ends = sorted({start, theta, *(p for p in places if start < p < theta)})
        return sum(
            integrate.quad(beside, a, b, args=(coordinate, y), epsabs=1e-12, epsrel=1e-12)[0]
            for a, b in pairwise(ends)
        )

    cone, whole = Parabola(units=True), over_units(-1, 0.0)
    for coordinate in range(4):
        for y in (0.1, 0.35, 0.8):
            found = float(tail(cone, coordinate, np.array(y), np.array(theta)))
            wanted = (
                over_units(coordinate - 1, y) if coordinate else over_units(-1, 0.0, y) if y < theta else 0
            )
            assert found == pytest.approx(wanted / whole, abs=1e-9)


@pytest.mark.parametrize(
    "cone", [Parabola(), pytest.param(Parabola(units=True), marks=pytest.mark.long)], ids=str
)
def test_one_group_is_noise_of_each_group(cone):
    """The first number has a closed form, and is joint noise of one group too."""
    scales = (F(1),) * cone.dimensions
    apart = marginals(SeparateParabolas(cone, scales))
    for i, law in enumerate(marginals(JointNoise(cone, scales, 1))):
        assert law.variance == pytest.approx(apart[i].variance, rel=1e-12)
        for x in (0.01, 0.5, 2, 7.5, 30):
            assert law.outside(x) == pytest.approx(apart[i].outside(x), abs=2e-10)
    assert [round(law.standard_deviation, 2) for law in apart] == [2.88, 2.51, 2.16, 2.46][1 - cone.units :]


@pytest.mark.parametrize("groups", [1, 2, 5, 30, 1000, 50_000])
def test_every_number_has_less_noise_than_in_the_cube(groups):
    """So there is no choice to make."""
    bodies = (JointNoise(body, ONE, groups) for body in (Parabola(), Cone(2)))
    (count, total, square), (other, *signed) = (
        [law.standard_deviation for law in marginals(b)] for b in bodies
    )
    assert count < 0.98 * other and total < 0.86 * signed[0] and square < 0.96 * signed[1]


@pytest.mark.long
def test_draws_of_each_group_follow_their_laws_and_one_percent_is_seen():
    """A scale that is off by 1% moves F by 0.0025 or more; 0.0015 is allowed for 8,000,000 draws."""
    n, scales = 8_000_000, (F(20),) * 3
    drawn = SeparateParabolas(Parabola(), scales).rounded(n, SeededWords("laws of parabolas"))
    wrong = SeparateParabolas(Parabola(), tuple(s * F(101, 100) for s in scales))
    for row, law, off in zip(
        drawn, marginals(SeparateParabolas(Parabola(), scales)), marginals(wrong), strict=True
    ):
        assert distance(row, law) < massart(n) < distance(row, off)


@pytest.mark.long
@pytest.mark.parametrize("cone", [Parabola(), Parabola(units=True)], ids=str)
def test_joint_draws_follow_their_laws(cone):
    n, groups, scales = 300 if cone.units else 800, 3, (F(9),) * cone.dimensions
    noise, words = JointNoise(cone, scales, groups), SeededWords(f"joint laws of {cone}")
    drawn = np.array([noise.rounded(words) for _ in range(n)])
    for i, law in enumerate(marginals(noise)):
        assert distance(drawn[:, i, 0], law) < massart(n)
        assert distance(drawn[:, i, -1], law) < massart(n)
        largest = np.abs(drawn[:, i]).max(axis=1)
        places = np.linspace(0, largest.max(), 3).astype(int)
        beyond = np.array([law.outside_anywhere(v + F(1, 2)) for v in places.tolist()])
        assert np.abs((largest[:, None] > places).mean(axis=0) - beyond).max() < massart(n)


def norm(n, x, y):
    """The K-norm over all groups, in floats."""
    a = (np.maximum(np.maximum(np.abs(x), np.abs(y)), np.abs(n)) + n) / 2
    b, reach, other = a - n, np.abs(x) + n, np.abs(x) - n
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.where(reach > a, 2 * reach**2 / (4 * reach + y - n), 0)
        above = np.where(other > b, 2 * other**2 / (4 * other + n - y), 0)
    a = np.maximum(np.maximum(a, below), n + above)
    return a.max() + (a - n).max()


@pytest.mark.long
def test_one_percent_is_seen_in_joint_draws():
    """The norm of 3,000 groups has a Gamma law of relative deviation 1%: 1% moves F by 0.38 or more."""
    groups, n, scales = 3000, 300, (F(2) ** 16,) * 3
    noise, words = JointNoise(Parabola(), scales, groups), SeededWords("norms of parabolas")
    drawn = [noise.rounded(words) / 2.0**16 for _ in range(n)]
    body, few = ParabolaBody(("n", "x", "y"), ONE), drawn[0][:, :20]
    parts = zip(*(body.sides([F(v) for v in own]) for own in few.T.tolist()), strict=True)
    assert norm(*few) == pytest.approx(float(sum(map(max, parts))))
    found, law = [norm(*x) for x in drawn], stats.gamma(3 * groups)
    assert stats.kstest(found, law.cdf).statistic < massart(n)
    assert stats.kstest(np.array(found) * 1.01, law.cdf).statistic > massart(n)
