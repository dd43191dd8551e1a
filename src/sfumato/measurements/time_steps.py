"""Noise on time steps whose cumulative totals are asked: the measurement, whatever the noise."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sfumato.framework import GroupedIntegers, Linear, Measure, Measurement, TimeStepsDistance
from sfumato.noise.series_gaussian import FINE
from sfumato.noise.time_steps import TimeStepsNoise


def on_time_steps(
    name: str, metric: TimeStepsDistance, noise: TimeStepsNoise, measure: Measure, multiplier: Fraction
) -> Measurement:
    """Return the measurement that adds noise to the groups of each series, empty or not.

    Args:
        name: its name.
        metric: how the noise sees numbers.
        noise: what is drawn, in steps of 2^-16.
        measure: in which the loss is distance / multiplier.
        multiplier: how many times the scales of the metric the noise has.
    """

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

    return Measurement(name, GroupedIntegers(metric.names), metric, measure, function, Linear(1 / multiplier))
