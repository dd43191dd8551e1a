"""Gaussian noise on groups whose totals are asked, too."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sfumato.exact import Number, positive
from sfumato.framework import GaussianDP, GroupedIntegers, LevelsDistance, Linear, Measurement
from sfumato.names.helpful import helpful
from sfumato.noise.levels_gaussian import LevelsGaussian


@helpful
def levels_gaussian(multiplier: Number, metric: LevelsDistance) -> Measurement:
    """Add Gaussian noise to the numbers of groups, of which their totals have little.

    Args:
        multiplier: how many times the scales of the metric the noise has; greater than 0.
        metric: the scales, the size of noise at each level, and the groups, each shown, empty or not.
    Returns:
        A Measurement of integers by group to Gaussian DP, in steps of 2^-16, or larger ones where noise is
        large: mu is the distance / multiplier.
    Raises:
        ParameterError: multiplier is not above 0, or the noise could leave 64-bit integers.

    >>> from sfumato.framework import LevelsDistance
    >>> from sfumato.exact.rollup import Rollup
    >>> rollup = Rollup(((0,), ()), (2,), ((0, 1), (0, 0)))
    >>> sizes = Fraction(1), Fraction(1)
    >>> levels_gaussian(4, LevelsDistance(("n",), (Fraction(2),), sizes, rollup, ("a", "b"))).map(1)
    Fraction(1, 4)

    Source:
        Hay, Rastogi, Miklau and Suciu 2010, "Boosting the accuracy of differentially private histograms
        through consistency". Proof: docs/proofs/levels_gaussian.md.
    """
    exact = positive(multiplier, "multiplier")
    noise = levels_noise(metric, exact)

    def function(groups: Mapping[Any, Mapping[Any, int]]) -> dict[Any, dict[str, Fraction]]:
        drawn, empty = noise.rounded(), dict[str, int]()
        return {
            key: {
                name: groups.get(key, empty).get(name, 0) + Fraction(own, 1 << bits)
                for name, own, bits in zip(metric.names, of_cell, noise.fine, strict=True)
            }
            for key, of_cell in zip(metric.keys, drawn.T.tolist(), strict=True)
        }

    domain = GroupedIntegers(metric.names)
    return Measurement("levels_gaussian", domain, metric, GaussianDP(), function, Linear(1 / exact))


def levels_noise(metric: LevelsDistance, multiplier: Fraction) -> LevelsGaussian:
    """Return the noise of a metric's scales, so many times as large.

    Raises:
        ParameterError: the noise could leave 64-bit integers.
    """
    return LevelsGaussian(tuple(multiplier * scale for scale in metric.scales), metric.sizes, metric.rollup)
