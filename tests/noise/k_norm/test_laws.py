"""Laws of K-norm noise against mpmath and closed forms, and draws against laws.

Draws have fixed seeds. sup |F_n - F| passes sqrt(ln(2 / a) / (2 n)) with probability at most a (Massart); a = 1e-14.
"""

import math
from fractions import Fraction as F

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaincc

from sfumato.errors import ParameterError
from sfumato.measurements.group_selection import KNormThreshold
from sfumato.noise import Laplace, SeededWords
from sfumato.noise.k_norm import Cone, JointNoise, SeparateNoise
from sfumato.noise.k_norm.joint_marginals import Pieces, joint, marginals
from sfumato.noise.k_norm.marginals import ErlangMixture, separate

ONE = (F(1),) * 5


def law_of(m, groups, signed):
    return joint(JointNoise(Cone(m), ONE[: m + 1], groups), int(signed))


@pytest.mark.parametrize("groups", [1, 5, 1000])
def test_counts_alone_have_a_closed_form(groups):
    """θ is uniform, and n uniform between -μ and λ: P(n > x) = E (1 - x/r)_+^2 / 2, in incomplete Gamma functions."""
    law = law_of(0, groups, False)
    for x in (0.1, 1, 3.7, groups / 3, groups, 2 * groups + 20):
        g = groups
        tail = (
            gammaincc(g + 2, x)
            - 2 * x / (g + 1) * gammaincc(g + 1, x)
            + x * x / (g * (g + 1)) * gammaincc(g, x)
        )
        assert law.outside(x) == pytest.approx(tail, abs=1e-11)
    assert law.variance == pytest.approx((groups + 2) * (groups + 3) / 6, rel=1e-12)


@pytest.mark.parametrize("m, groups, table", [
    (1, 1, (2, 2)), (1, 5, (4.93, 5.64)), (1, 200, (109, 184)), (0, 50, (21.4,)),
])  # fmt: skip
def test_deviations_are_those_of_the_table(m, groups, table):
    found = [law.standard_deviation for law in marginals(JointNoise(Cone(m), ONE[: m + 1], groups))]
    assert found == pytest.approx(table, rel=6e-3)
    assert np.array(found).max() < Laplace(groups * (m + 1)).standard_deviation


def test_mixtures_against_mpmath():
    law = ErlangMixture(F(7, 2), (F(1, 2), F(1, 3), F(1, 6)))
    for x in (0, F(1, 10), 5, 300):
        y = mpmath.mpf(float(x)) * 2 / 7
        truth = sum(
            w * mpmath.gammainc(j, y, regularized=True) for j, w in ((1, 1 / 2), (2, 1 / 3), (3, 1 / 6))
        )
        assert law.outside(x) == pytest.approx(float(truth), rel=1e-12)
    two = separate(SeparateNoise(Cone(1), ONE[:2]), 0)
    assert two.sf(15.2) == pytest.approx(math.exp(-15.2) * (2 + 15.2) / 4, rel=1e-13)
    assert two.sf(-3) + two.sf(3) == 1 and two.rounded_sf(3) == two.sf(3.5)
    assert np.array_equal(two.rounded_sf(np.array([3, 4])), two.sf([3.5, 4.5]))


def test_half_widths_are_the_smallest():
    for law in (
        separate(SeparateNoise(Cone(1), (F(40), F(40))), 0),
        joint(JointNoise(Cone(1), (F(9), F(4)), 6), 1),
    ):
        t = law.rounded_half_width("0.95")
        assert law.outside(t + F(1, 2)) <= 0.05 < law.outside(t - F(1, 2))
    assert law.rounded_half_width(0) == 0
    with pytest.raises(ParameterError):
        law.rounded_half_width(1)


def distance(numbers, law) -> float:
    """sup |F_n - F| over 20 whole numbers at most: laws by quadrature take their time."""
    values, counts = np.unique(numbers, return_counts=True)
    after = np.cumsum(counts) / len(numbers)
    before = after - counts / len(numbers)
    some = np.unique(np.linspace(0, len(values) - 1, 20).astype(int))
    values, after, before = values[some], after[some], before[some]
    return max(
        np.abs(1 - after - law.rounded_sf(values)).max(),
        np.abs(1 - before - law.rounded_sf(values - 1)).max(),
    )


def massart(n):
    return math.sqrt(math.log(2 / 1e-14) / (2 * n))


@pytest.mark.parametrize(
    "cone",
    [*(pytest.param(c, marks=pytest.mark.long) for c in (Cone(0), Cone(2), Cone(1, True)))],
    ids=str,
)
def test_draws_of_each_group_follow_their_laws_and_one_percent_is_seen(cone):
    """A scale that is off by 1% moves F by 0.0025 or more; 0.0015 is allowed for 8,000,000 draws."""
    n, scales = 8_000_000, (F(20),) * cone.dimensions
    drawn = SeparateNoise(cone, scales).rounded(n, SeededWords(f"laws {cone}"))
    wrong = SeparateNoise(cone, tuple(s * F(101, 100) for s in scales))
    for i, row in enumerate(drawn):
        assert distance(row, separate(SeparateNoise(cone, scales), i)) < massart(n)
        assert distance(row, separate(wrong, i)) > massart(n)


@pytest.mark.long
@pytest.mark.parametrize(
    "cone",
    [Cone(1), *(pytest.param(c, marks=pytest.mark.long) for c in (Cone(2), Cone(1, True)))],
    ids=str,
)
def test_one_percent_is_seen_in_joint_draws(cone):
    """The norm of 3,000 groups has a Gamma law of relative deviation 1% or less: 1% moves F by 0.38 or more."""
    groups, n, scales = 3000, 500, (F(2) ** 16,) * cone.dimensions
    noise, words = JointNoise(cone, scales, groups), SeededWords(f"norms {cone}")
    norms = []
    for _ in range(n):
        x = noise.rounded(words) / 2.0**16
        rest = x[1:] if cone.units else x
        size = np.abs(rest).max(axis=0)
        a, b = (size + rest[0]) / 2, (size - rest[0]) / 2
        if cone.units:
            a = np.maximum(a, x[0] + b)
            b = a - x[0]
        norms.append(a.max() + b.max())
    law = stats.gamma(groups * cone.dimensions)
    assert stats.kstest(norms, law.cdf).statistic < massart(n)
    assert stats.kstest(np.array(norms) * 1.01, law.cdf).statistic > massart(n)


@pytest.mark.parametrize("cone", [Cone(0), Cone(2, True)], ids=str)
def test_tails_below_zero_are_the_rest(cone):
    """A threshold is looked for from a guess, which is below zero where there is next to no noise."""
    for epsilon in (1, 20, 1000):
        law = separate(SeparateNoise(cone, (F(1, epsilon),) * cone.dimensions), 0)
        for x in (F(1, 2), F(3, 2), F(40)):
            (low, high), (least, most) = law.tail_bounds(x), law.tail_bounds(-x)
            assert (least, most) == (1 - high, 1 - low)
        assert KNormThreshold(law, F(1, 10**6)).tau >= 2


def test_a_step_is_found_between_smooth_parts():
    steep = Pieces(lambda x: np.tanh((x - 0.5) * 1e4), [0, 0.5, 1], 1e-12)
    x = np.concatenate([[0, 0.5, 1], 0.5 + np.geomspace(1e-7, 0.4, 200)])
    assert np.abs(steep(x) - np.tanh((x - 0.5) * 1e4)).max() < 1e-10
