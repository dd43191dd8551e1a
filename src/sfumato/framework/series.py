"""How far apart Gaussian noise tells numbers of time steps that are measured as running weighted sums."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.errors import ParameterError
from sfumato.exact import root_down
from sfumato.exact.toeplitz import Toeplitz
from sfumato.framework.bodies import Body, Norm
from sfumato.framework.domains import Domain, GroupedIntegers
from sfumato.framework.metrics import Distance, Metric


@dataclass(frozen=True)
class SeriesDistance(Metric):
    """The length of what changed in running weighted sums of each series, each number over its scale.

    Args:
        names: the coordinates.
        scales: for each the deviation of the noise of its running weighted sums, in grid steps.
        factor: the weights of these sums.
        series: for each series its groups, in order of time.

    >>> factor = Toeplitz.of_power(Fraction(1, 2), 3)
    >>> metric = SeriesDistance(("n",), (Fraction(1),), factor, (("jan", "feb", "mar"),))
    >>> round(float(metric.distance({"jan": {"n": 1}}, {})) ** 2, 9), float(factor.squared_sum(1))
    (1.390625, 1.390625)

    Proof: docs/proofs/series_gaussian.md.
    """

    names: tuple[str, ...]
    scales: tuple[Fraction, ...]
    factor: Toeplitz
    series: tuple[tuple[Hashable, ...], ...]

    def __post_init__(self) -> None:
        keys = [key for one in self.series for key in one]
        if not keys or len(set(keys)) < len(keys):
            raise ParameterError("series", len(keys), "at least one group, and none twice")
        if any(len(one) != self.factor.steps for one in self.series):
            raise ParameterError("series", len(self.series), f"of {self.factor.steps} steps each")
        if len(self.scales) != len(self.names) or not self.names or min(self.scales) <= 0:
            raise ParameterError("scales", self.scales, "one above 0 for each coordinate")

    def admits(self, domain: Domain) -> bool:
        """Integers by group with these coordinates."""
        return isinstance(domain, GroupedIntegers) and domain.coordinates == self.names

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the distance, rounded down where it is not rational; infinite for unknown coordinates."""
        empty = dict[str, int]()
        length = Fraction(0)
        for keys in self.series:
            pairs = [(one.get(key, empty), other.get(key, empty)) for key in keys]
            if any(not {*a, *b} <= set(self.names) for a, b in pairs):
                return math.inf
            for name, scale in zip(self.names, self.scales, strict=True):
                moved = [(a.get(name, 0) - b.get(name, 0)) / scale for a, b in pairs]
                length += sum((s * s for s in self.factor.times(moved)), Fraction(0))
        return root_down(length)

    def moved(self, body: Body, groups: int) -> Fraction:
        """Return at most the square of how far one unit moves.

        Args:
            body: what it may add to a group.
            groups: the most groups that it is in.
        """
        most = min(groups, self.factor.steps)
        if len(self.series) == 1:
            columns = self.factor.squared_sum(most)
        else:
            # Its groups may be spread over several series, so many in each.
            columns = groups * max(self.factor.squared_sum(j) / j for j in range(1, most + 1))
        return columns * body.size(Norm.L2, self.scales)
