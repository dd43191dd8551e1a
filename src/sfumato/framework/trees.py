"""How far apart Laplace noise tells numbers of time steps that are measured in blocks on several levels."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.errors import ParameterError
from sfumato.exact.trees import Tree
from sfumato.framework.bodies import Body, Norm
from sfumato.framework.domains import Domain, GroupedIntegers
from sfumato.framework.metrics import Distance, Metric


@dataclass(frozen=True)
class TreeDistance(Metric):
    """What changed in the sums of all blocks of each series, each number over its scale, added up.

    Args:
        names: the coordinates.
        scales: for each the scale of the noise of its blocks, in grid steps.
        factor: the blocks.
        series: for each series its groups, in order of time.

    >>> metric = TreeDistance(("n",), (Fraction(2),), Tree(3, (1, 2)), (("jan", "feb", "mar"),))
    >>> metric.distance({"jan": {"n": 1}}, {"feb": {"n": 1}})
    Fraction(1, 1)

    Proof: docs/proofs/tree_laplace.md.
    """

    names: tuple[str, ...]
    scales: tuple[Fraction, ...]
    factor: Tree
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
        """Return the distance; infinite for unknown coordinates."""
        empty = dict[str, int]()
        length = Fraction(0)
        for keys in self.series:
            pairs = [(one.get(key, empty), other.get(key, empty)) for key in keys]
            if any(not {*a, *b} <= set(self.names) for a, b in pairs):
                return math.inf
            for name, scale in zip(self.names, self.scales, strict=True):
                moved = [a.get(name, 0) - b.get(name, 0) for a, b in pairs]
                blocks = (
                    sum(moved[i : i + size]) for size in self.factor.sizes for i in range(0, len(moved), size)
                )
                length += sum(map(abs, blocks)) / scale
        return length

    def moved(self, body: Body, groups: int) -> Fraction:
        """Return how far one unit moves at most: each of its groups is in a block of each level.

        Args:
            body: what it may add to a group.
            groups: the most groups that it is in.
        """
        most = min(groups, self.factor.steps * len(self.series))
        return most * self.factor.levels * body.size(Norm.L1, self.scales)
