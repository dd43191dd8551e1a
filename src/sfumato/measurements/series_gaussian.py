"""Gaussian noise on time steps whose cumulative totals are asked."""

from __future__ import annotations

from fractions import Fraction

from sfumato.exact import Number, positive
from sfumato.framework import GaussianDP, Measurement, SeriesDistance
from sfumato.measurements.time_steps import on_time_steps
from sfumato.names.helpful import helpful
from sfumato.noise.series_gaussian import SeriesGaussian


@helpful
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

    >>> from sfumato.framework import SeriesDistance
    >>> from sfumato.exact.toeplitz import Toeplitz
    >>> factor = Toeplitz.of_power(Fraction(1, 2), 2)
    >>> series_gaussian(4, SeriesDistance(("n",), (Fraction(2),), factor, (("jan", "feb"),))).map(1)
    Fraction(1, 4)

    Source:
        Fichtenberger, Henzinger and Upadhyay 2023, "Constant matters: fine-grained error bound on
        differentially private continual observation". Proof: docs/proofs/series_gaussian.md.
    """
    exact = positive(multiplier, "multiplier")
    return on_time_steps("series_gaussian", metric, series_noise(metric, exact), GaussianDP(), exact)


def series_noise(metric: SeriesDistance, multiplier: Fraction) -> SeriesGaussian:
    """Return the noise of a metric's scales, so many times as large.

    Raises:
        ParameterError: the noise could leave 64-bit integers.
    """
    scales = tuple(multiplier * scale for scale in metric.scales)
    return SeriesGaussian(scales, metric.factor, len(metric.series))
