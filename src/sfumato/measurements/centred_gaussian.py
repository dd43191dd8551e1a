"""Gaussian noise on public groups whose counts are counted from a part of all units."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sfumato.errors import ParameterError
from sfumato.exact import Number, positive
from sfumato.framework import (
    Body,
    CentredDistance,
    ConeBody,
    GaussianDP,
    GroupedIntegers,
    Linear,
    Measurement,
)
from sfumato.names.helpful import helpful
from sfumato.noise.centred_gaussian import FINE, CentredGaussian


@helpful
def centred_gaussian(multiplier: Number, metric: CentredDistance) -> Measurement:
    """Add Gaussian noise that has a part in common in all groups.

    Args:
        multiplier: how many times the scales of the metric the noise has; greater than 0.
        metric: the scales of each number's own noise, and of the noise of all units; and the public groups,
            each of them shown, empty or not.
    Returns:
        A Measurement of integers by group to Gaussian DP: mu is the distance / multiplier.
    Raises:
        ParameterError: multiplier is not above 0; the part of all units is not on the fine grid of the noise,
            or the noise could leave 64-bit integers.

    >>> from sfumato.framework import CentredDistance
    >>> from sfumato.framework import ConeBody
    >>> body = ConeBody(("n",), (Fraction(1),))
    >>> metric = CentredDistance(body, (Fraction(2),), Fraction(2), Fraction(1, 2), keys=("a", "b"))
    >>> centred_gaussian(4, metric).map(1)
    Fraction(1, 4)

    Source:
        Lebeda 2024, "Better Gaussian mechanism using correlated noise".
        Proof: docs/proofs/centred_gaussian.md.
    """
    exact = positive(multiplier, "multiplier")
    noise = noise_of(metric, exact)

    def function(groups: Mapping[Any, Mapping[Any, int]]) -> dict[Any, dict[str, int]]:
        drawn, empty = noise.rounded().T.tolist(), dict[str, int]()
        return {
            key: {
                name: int(groups.get(key, empty).get(name, 0)) + step
                for name, step in zip(metric.body.names, own, strict=True)
            }
            for key, own in zip(metric.keys, drawn, strict=True)
        }

    domain = GroupedIntegers(metric.body.names)
    return Measurement("centred_gaussian", domain, metric, GaussianDP(), function, Linear(1 / exact))


def noise_of(metric: CentredDistance, multiplier: Fraction) -> CentredGaussian:
    """Return the noise of a metric's scales, so many times as large.

    Raises:
        ParameterError: a part of all units is not on the fine grid, or the noise could leave 64-bit integers.
    """
    bounds = metric.body.bounds[: metric.counts]
    weights = [bound / bounds[0] for bound in bounds]
    if any((metric.centre * bound * 2**FINE).denominator > 1 for bound in bounds):
        raise ParameterError("centre", metric.centre, f"a whole number of 2^-{FINE} of each count's bound")
    if any(weight.denominator > 1 for weight in weights):
        raise ParameterError("metric", bounds, "one whose second count's bound is a multiple of the first's")
    return CentredGaussian(
        tuple(multiplier * scale for scale in metric.scales),
        multiplier * metric.common[0],
        (*(int(weight) for weight in weights), *[0] * metric.body.signed),
        len(metric.keys),
        metric.centre,
    )


def centred_moved(noise: CentredGaussian, cone: ConeBody, body: Body, groups: int) -> Fraction:
    """Return at most the square of how far one unit moves, in deviations of the noise that is drawn.

    Args:
        noise: that is drawn.
        cone: what one unit may add to a group, of which counts limit the other numbers.
        body: the same, part by part.
        groups: the most groups that a unit is in.
    """
    # A larger bound of a count than its weight allows for would have more noise in common: refuse it.
    weights = tuple(bound / cone.bounds[0] for bound in cone.bounds[: 1 + cone.units])
    if noise.weights[: len(weights)] != weights:
        raise ParameterError("weights", noise.weights, f"{weights} for the counts")
    total = noise.shared / (noise.centre * cone.bounds[0])
    metric = CentredDistance(cone, noise.scales, total, noise.centre, range(noise.groups))
    return metric.moved(body, groups)
