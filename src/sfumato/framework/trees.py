"""How far apart Laplace noise tells numbers of time steps that are measured in blocks on several levels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.exact.trees import Tree
from sfumato.framework.bodies import Body, Norm
from sfumato.framework.metrics import Distance
from sfumato.framework.time_steps import TimeStepsDistance


@dataclass(frozen=True, repr=False)
class TreeDistance(TimeStepsDistance):
    """What changed in the sums of all blocks of each series, each number over its scale, added up.

    Args:
        names: the coordinates.
        scales: for each the scale of the noise of its blocks, in grid steps.
        factor: the blocks.
        series: for each series its groups, in order of time.

    >>> from sfumato.exact.trees import Tree
    >>> metric = TreeDistance(("n",), (Fraction(2),), Tree(3, (1, 2)), (("jan", "feb", "mar"),))
    >>> metric.distance({"jan": {"n": 1}}, {"feb": {"n": 1}})
    Fraction(1, 1)
    >>> from sfumato.framework import Segment
    >>> metric.moved(Segment("n", Fraction(1)), groups=2)  # two months, each in a block of both levels
    Fraction(2, 1)

    Proof: docs/proofs/tree_laplace.md.
    """

    factor: Tree

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the distance; infinite for unknown coordinates."""
        changes = self.changes(one, other)
        if changes is None:
            return math.inf
        length = Fraction(0)
        for scale, moved in changes:
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
        return tree_moved(self.factor, self.scales, len(self.series), body, groups)


def tree_moved(factor: Tree, scales: Sequence[Fraction], series: int, body: Body, groups: int) -> Fraction:
    """Return how far one unit moves at most: each of its groups is in a block of each level.

    Args:
        factor, scales: as of `TreeDistance`.
        series: how many there are.
        body, groups: what one unit may add to a group, and the most groups that it is in.
    """
    most = min(groups, factor.steps * series)
    return most * factor.levels * body.size(Norm.L1, scales)
