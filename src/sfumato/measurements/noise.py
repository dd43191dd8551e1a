"""Laplace and Gaussian noise on integers per group."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.errors import ParameterError
from sfumato.framework import (
    GaussianDP,
    GroupedIntegers,
    L1Distance,
    L2Distance,
    Measurement,
    PureDP,
)
from sfumato.noise import Gaussian, Laplace
from sfumato.transformations import Norm

Law = Laplace | Gaussian


@dataclass(frozen=True)
class NoiseKind:
    """A kind of noise: its law, the norm that its privacy is stated in, and its measurement."""

    name: str
    norm: Norm
    law: Callable[[Fraction], Law]
    measurement: Callable[[Sequence[str], Sequence[Fraction]], Measurement]


def laplace(coordinates: Sequence[str], scales: Sequence[Fraction]) -> Measurement:
    """Add exactly rounded Laplace noise to each coordinate of each group.

    Args:
        coordinates: names of the integers per group.
        scales: Fraction > 0 for each, in grid steps.
    Returns:
        A Measurement from `GroupedIntegers` under `L1Distance(scales)` to pure DP: epsilon is the
        distance, which is already divided by the scales.
    Raises:
        ParameterError: a scale is not positive, or there is not one for each coordinate.

    >>> laplace(["units"], [Fraction(2)]).map(1)
    Fraction(1, 1)

    Source:
        Dwork, McSherry, Nissim, Smith 2006, Laplace mechanism; rounding is post-processing, because
        the statistic is a whole number of steps.
    """
    names, scales = tuple(coordinates), tuple(scales)
    function = _adder(names, _laws(Laplace, names, scales))
    domain, metric = GroupedIntegers(names), L1Distance(scales)
    return Measurement("laplace", domain, metric, PureDP(), function, lambda distance: distance)


def gaussian(coordinates: Sequence[str], scales: Sequence[Fraction]) -> Measurement:
    """Add exactly rounded Gaussian noise to each coordinate of each group.

    Args:
        coordinates: names of the integers per group.
        scales: standard deviation for each, in grid steps, Fraction > 0.
    Returns:
        A Measurement from `GroupedIntegers` under `L2Distance(scales)` to Gaussian DP: mu is the
        distance.
    Raises:
        ParameterError: a scale is not positive, or there is not one for each coordinate.

    >>> gaussian(["units"], [Fraction(2)]).map(1)
    Fraction(1, 1)

    Source:
        Dong, Roth, Su 2022, "Gaussian differential privacy", theorem 2.7 (d-dimensional by rotation).
    """
    names, scales = tuple(coordinates), tuple(scales)
    function = _adder(names, _laws(Gaussian, names, scales))
    domain, metric = GroupedIntegers(names), L2Distance(scales)
    return Measurement("gaussian", domain, metric, GaussianDP(), function, lambda distance: distance)


def _laws(
    law: Callable[[Fraction], Law], names: tuple[str, ...], scales: tuple[Fraction, ...]
) -> dict[str, Law]:
    if len(names) != len(scales):
        raise ParameterError("scales", scales, f"one scale for each of {names}")
    return {name: law(scale) for name, scale in zip(names, scales, strict=True)}


def _adder(
    names: tuple[str, ...], laws: Mapping[str, Law]
) -> Callable[[Mapping[Hashable, Mapping[Any, int]]], dict[Hashable, dict[str, int]]]:
    def function(groups: Mapping[Hashable, Mapping[Any, int]]) -> dict[Hashable, dict[str, int]]:
        drawn = {name: laws[name].rounded(len(groups)).tolist() for name in names}
        return {
            key: {name: int(total.get(name, 0)) + drawn[name][i] for name in names}
            for i, (key, total) in enumerate(groups.items())
        }

    return function


NOISES = {
    "laplace": NoiseKind("laplace", Norm.L1, Laplace, laplace),
    "gaussian": NoiseKind("gaussian", Norm.L2, Gaussian, gaussian),
}
