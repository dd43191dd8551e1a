"""How far apart Gaussian noise tells numbers of groups that are measured with their totals."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import root_down
from sfumato.exact.rollup import Rollup
from sfumato.framework.bodies import Body, Norm
from sfumato.framework.domains import Domain, GroupedIntegers
from sfumato.framework.metrics import Distance, Metric


@dataclass(frozen=True, repr=False)
class LevelsDistance(Spelled, Metric):
    """The length of what changed in the totals of all levels, each number over its scale.

    Args:
        names: the coordinates.
        scales: for each the deviation of noise at a level of size 1, in grid steps.
        sizes: for each level how many times the scales its noise has; 0 where it is not measured. The first
            level, of the groups themselves, is.
        rollup: which totals there are.
        keys: the groups, in the order of its cells.
    Raises:
        ParameterError: keys, scales or sizes are not one for each cell, coordinate or level, or out of range.

    >>> from sfumato.exact.rollup import Rollup
    >>> rollup = Rollup(((0,), ()), (2,), ((0, 1), (0, 0)))
    >>> metric = LevelsDistance(("n",), (Fraction(1),), (Fraction(2), Fraction(4)), rollup, ("a", "b"))
    >>> metric.distance({"a": {"n": 4}, "b": {"n": -4}}, {}) ** 2 <= 8
    True
    >>> from sfumato.framework import Segment
    >>> one = Segment("n", Fraction(4))  # what a unit may add to a group
    >>> metric.moved(one, groups=1), metric.moved(one, groups=2)
    (Fraction(5, 1), Fraction(12, 1))

    Proof: docs/proofs/levels_gaussian.md.
    """

    names: tuple[str, ...]
    scales: tuple[Fraction, ...]
    sizes: tuple[Fraction, ...]
    rollup: Rollup
    keys: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        if len(self.keys) != self.rollup.cells or len(set(self.keys)) < len(self.keys):
            raise ParameterError("keys", len(self.keys), "one for each cell, and none twice")
        if len(self.scales) != len(self.names) or not self.names or min(self.scales) <= 0:
            raise ParameterError("scales", self.scales, "one above 0 for each coordinate")
        if len(self.sizes) != len(self.rollup.sets) or min(self.sizes) < 0 or not self.sizes[0]:
            raise ParameterError("sizes", self.sizes, "one of at least 0 for each level, the first above 0")

    def admits(self, domain: Domain) -> bool:
        """Whether its members are integers by group with these coordinates."""
        return isinstance(domain, GroupedIntegers) and domain.coordinates == self.names

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the distance, rounded down where it is not rational; infinite for unknown coordinates."""
        empty = dict[str, int]()
        pairs = [(one.get(key, empty), other.get(key, empty)) for key in self.keys]
        if any(not {*a, *b} <= set(self.names) for a, b in pairs):
            return math.inf
        length = Fraction(0)
        for codes, size in zip(self.rollup.levels, self.sizes, strict=True):
            for name, scale in zip(self.names, self.scales, strict=True) if size else ():
                totals = [0] * (max(codes) + 1)
                for code, (a, b) in zip(codes, pairs, strict=True):
                    totals[code] += a.get(name, 0) - b.get(name, 0)
                length += sum((t / (size * scale)) ** 2 for t in map(Fraction, totals))
        return root_down(length)

    def moved(self, body: Body, groups: int) -> Fraction:
        """Return at most the square of how far one unit moves.

        Args:
            body: what it may add to a group.
            groups: the most groups that it is in.
        """
        return levels_moved(self.rollup, self.sizes, self.scales, body, groups)


def levels_moved(
    rollup: Rollup, sizes: Sequence[Fraction], scales: Sequence[Fraction], body: Body, groups: int
) -> Fraction:
    """Return at most the square of how far one unit moves.

    Args:
        rollup, sizes, scales: as of `LevelsDistance`.
        body, groups: what one unit may add to a group, and the most groups that it is in.
    """
    of_levels = (rollup.squares(i, groups) / s**2 for i, s in enumerate(sizes) if s)
    return sum(of_levels, Fraction(0)) * body.size(Norm.L2, scales)
