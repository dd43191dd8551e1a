"""How far apart Gaussian noise tells numbers of time steps that are measured as running weighted sums."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.exact import root_down
from sfumato.exact.toeplitz import Toeplitz
from sfumato.framework.bodies import Body, Norm
from sfumato.framework.metrics import Distance
from sfumato.framework.time_steps import TimeStepsDistance


@dataclass(frozen=True, repr=False)
class SeriesDistance(TimeStepsDistance):
    """The length of what changed in running weighted sums of each series, each number over its scale.

    Args:
        names: the coordinates.
        scales: for each the deviation of the noise of its running weighted sums, in grid steps.
        factor: the weights of these sums.
        series: for each series its groups, in order of time.

    >>> from sfumato.exact.toeplitz import Toeplitz
    >>> factor = Toeplitz.of_power(Fraction(1, 2), 3)
    >>> metric = SeriesDistance(("n",), (Fraction(1),), factor, (("jan", "feb", "mar"),))
    >>> round(float(metric.distance({"jan": {"n": 1}}, {})) ** 2, 9), float(factor.squared_sum(1))
    (1.390625, 1.390625)
    >>> from sfumato.framework import Segment
    >>> one = Segment("n", Fraction(1))  # what a unit may add to a month
    >>> float(metric.moved(one, groups=1)), float(metric.moved(one, groups=2))
    (1.390625, 4.015625)

    Proof: docs/proofs/series_gaussian.md.
    """

    factor: Toeplitz

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the distance, rounded down where it is not rational; infinite for unknown coordinates."""
        changes = self.changes(one, other)
        if changes is None:
            return math.inf
        length = Fraction(0)
        for scale, moved in changes:
            length += sum((s * s for s in self.factor.times([m / scale for m in moved])), Fraction(0))
        return root_down(length)

    def moved(self, body: Body, groups: int) -> Fraction:
        """Return at most the square of how far one unit moves.

        Args:
            body: what it may add to a group.
            groups: the most groups that it is in.
        """
        return series_moved(self.factor, self.scales, len(self.series), body, groups)


def series_moved(
    factor: Toeplitz, scales: Sequence[Fraction], series: int, body: Body, groups: int
) -> Fraction:
    """Return at most the square of how far one unit moves.

    Args:
        factor, scales: as of `SeriesDistance`.
        series: how many there are.
        body, groups: what one unit may add to a group, and the most groups that it is in.
    """
    most = min(groups, factor.steps)
    if series == 1:
        columns = factor.squared_sum(most)
    else:
        # Its groups may be spread over several series, so many in each.
        columns = groups * max(factor.squared_sum(j) / j for j in range(1, most + 1))
    return columns * body.size(Norm.L2, scales)
