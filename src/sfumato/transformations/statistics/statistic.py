"""What a statistic is: integers that add up over units, and how large one unit's can be."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from sfumato.exact import root_up
from sfumato.framework import (
    ContributionDomain,
    GroupedIntegers,
    L1Distance,
    L2Distance,
    Linear,
    PrivacyUnitDistance,
    Transformation,
)
from sfumato.transformations.rows import Contributions, Values


class Norm(Enum):
    """How the change of all numbers of a release is measured: for Laplace or for Gaussian noise."""

    L1 = "l1"
    L2 = "l2"


@dataclass(frozen=True)
class Statistic(ABC):
    """Integers per group to which each unit contributes independently of every other unit.

    A statistic of a group is the sum of `contribution(rows)` over the units in it, so adding or
    removing a unit changes it by that unit's contribution and by nothing else.
    """

    @property
    @abstractmethod
    def coordinates(self) -> tuple[str, ...]:
        """Names of the numbers; each has a noise scale of its own."""

    @property
    @abstractmethod
    def steps(self) -> tuple[Fraction, ...]:
        """The grid step of each coordinate, in the statistic's unit."""

    @abstractmethod
    def contribution(self, rows: Sequence[Values]) -> Counter[Hashable]:
        """Return what one unit with these rows in one group adds, by coordinate, in steps."""

    @property
    @abstractmethod
    def largest(self) -> tuple[Fraction, ...]:
        """The largest |contribution| to each coordinate, in steps."""

    @abstractmethod
    def shares(self, norm: Norm) -> tuple[Fraction, ...]:
        """Noise scales, in steps, at a noise multiplier of one: how noise is split inside."""

    @abstractmethod
    def sensitivity(self, norm: Norm, scales: Sequence[Fraction]) -> Fraction:
        """Return the largest size of one contribution, each coordinate divided by its scale.

        For L1 the sum of absolute values; for L2 the sum of *squares*, which stays rational.
        """


def per_group(
    statistics: Sequence[Statistic],
    norm: Norm,
    scales: Sequence[Fraction],
    groups: int,
    rows: int | None = None,
) -> Transformation:
    """Add up statistics per group.

    Args:
        statistics: what to add up, with distinct coordinates.
        norm: L1 before Laplace noise, L2 before Gaussian noise.
        scales: one noise scale for each coordinate of all statistics, in grid steps.
        groups: the limit that `bound_groups` enforced.
        rows: the limit that `bound_rows` enforced, or None without it: statistics scale rows down.
    Returns:
        A Transformation from contributions to integers per group. A unit changes at most `groups`
        groups, in each by one contribution: L1 sensitivities add over statistics and groups,
        squares of L2 sensitivities do.

    >>> from sfumato.transformations import Row, bound_groups, Count
    >>> count = bound_groups(2) >> per_group([Count(rows=1)], Norm.L1, [Fraction(1)], groups=2)
    >>> count([Row(1, "a", {}), Row(2, "a", {})]), count.map(1)
    ({'a': Counter({'rows': 2})}, Fraction(2, 1))

    Source:
        Triangle inequality, Pythagoras. Proof: docs/proofs/per_group.md.
    """
    statistics, scales = tuple(statistics), tuple(scales)
    names = tuple(name for s in statistics for name in s.coordinates)

    def function(contributions: Contributions) -> dict[Hashable, Counter[Any]]:
        totals: dict[Hashable, Counter[Any]] = {}
        for key, units in contributions.items():
            total = totals.setdefault(key, Counter())
            for unit in units:
                for statistic in statistics:
                    total.update(statistic.contribution(unit))
        return totals

    total, start = Fraction(0), 0
    for statistic in statistics:
        end = start + len(statistic.coordinates)
        total += statistic.sensitivity(norm, scales[start:end])
        start = end
    named = tuple(zip(names, scales, strict=True))
    metric: L1Distance | L2Distance = L1Distance(named)
    reach = groups * total
    if norm is Norm.L2:
        metric, reach = L2Distance(named), root_up(reach)
    return Transformation(
        f"per_group({', '.join(names)})",
        ContributionDomain(groups, rows),
        GroupedIntegers(names),
        PrivacyUnitDistance(groups, rows),
        metric,
        function,
        Linear(reach),
    )


def weighted(norm: Norm, sizes: Sequence[Fraction | int], scales: Sequence[Fraction]) -> Fraction:
    """Return sum |size/scale|, or the sum of its squares for L2."""
    parts = [abs(Fraction(size) / scale) for size, scale in zip(sizes, scales, strict=True)]
    return sum((p if norm is Norm.L1 else p * p for p in parts), Fraction(0))
