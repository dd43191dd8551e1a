"""Gaussian noise on time steps whose cumulative totals are asked."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sfumato.exact import Number, positive
from sfumato.framework import GaussianDP, GroupedIntegers, Linear, Measurement, SeriesDistance
from sfumato.noise.series_gaussian import FINE, SeriesGaussian


def series_gaussian(multiplier: Number, metric: SeriesDistance) -> Measurement:
    """Add Gaussian noise to the numbers of time steps, of which cumulative totals have little.

    Args:
        multiplier: how many times the scales of the metric the noise has; greater than 0.
        metric: the scales, the weights of running sums, and the groups of each series in order of time, each
            of them shown, empty or not.
    Returns:
        A Measurement of integers by group to Gaussian DP, in steps of 2^-16: mu is the distance / multiplier.
    Raises:
        ParameterError: multiplier is not above 0, or the noise could leave 64-bit integers.

    >>> from sfumato.exact.toeplitz import Toeplitz
    >>> factor = Toeplitz.of_power(Fraction(1, 2), 2)
    >>> series_gaussian(4, SeriesDistance(("n",), (Fraction(2),), factor, (("jan", "feb"),))).map(1)
    Fraction(1, 4)

    Source:
        Fichtenberger, Henzinger and Upadhyay 2023, "Constant matters: fine-grained error bound on
        differentially private continual observation". Proof: docs/proofs/series_gaussian.md.
    """
    exact = positive(multiplier, "multiplier")
    noise = series_noise(metric, exact)

    def function(groups: Mapping[Any, Mapping[Any, int]]) -> dict[Any, dict[str, Fraction]]:
        drawn, empty = noise.rounded().tolist(), dict[str, int]()
        return {
            key: {
                name: groups.get(key, empty).get(name, 0) + Fraction(drawn[i][j][t], 1 << FINE)
                for i, name in enumerate(metric.names)
            }
            for j, keys in enumerate(metric.series)
            for t, key in enumerate(keys)
        }

    domain = GroupedIntegers(metric.names)
    return Measurement("series_gaussian", domain, metric, GaussianDP(), function, Linear(1 / exact))


def series_noise(metric: SeriesDistance, multiplier: Fraction) -> SeriesGaussian:
    """Return the noise of a metric's scales, so many times as large.

    Raises:
        ParameterError: the noise could leave 64-bit integers.
    """
    scales = tuple(multiplier * scale for scale in metric.scales)
    return SeriesGaussian(scales, metric.factor, len(metric.series))
