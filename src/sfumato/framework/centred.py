"""How far apart Gaussian noise tells counts of public groups that are counted from a part of all units."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import root_down
from sfumato.framework.bodies import Body, Norm, Product
from sfumato.framework.cones import ConeBody
from sfumato.framework.domains import Domain, GroupedIntegers
from sfumato.framework.metrics import Distance, Metric


@dataclass(frozen=True, repr=False)
class CentredDistance(Spelled, Metric):
    """The length of what changed, as seen through Gaussian noise that has a part in common in all groups.

    Each number has noise of its own, and each count (of units, or of what they limit) has the noise of all
    units besides: so many times its bound as `centre` says, the same in all groups.

    Args:
        body: what one unit may add to a group.
        scales: for each coordinate the deviation of its own noise, in grid steps.
        total: the deviation of the noise of all units.
        centre: the part of all units from which each count is counted, in [0, 1].
        keys: the groups that are shown, each once, on which alone noise is seen.
    Raises:
        ParameterError: a group is named twice, or there is none; scales are not one above 0 for each
            coordinate; centre is not from 0 to 1.

    >>> body = ConeBody(("n",), (Fraction(1),))
    >>> metric = CentredDistance(body, (Fraction(1),), Fraction(2), Fraction(1, 2), keys=("a", "b", "c"))
    >>> float(metric.distance({"a": {"n": 1}, "b": {"n": 1}}, {})), metric.moved(body, groups=3)
    (1.0, Fraction(1, 1))

    Source:
        Sherman and Morrison 1950, for the inverse. Proof: docs/proofs/centred_gaussian.md.
    """

    body: ConeBody
    scales: tuple[Fraction, ...]
    total: Fraction
    centre: Fraction
    keys: Sequence[Hashable]

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys))
        if not self.keys or len(set(self.keys)) < len(self.keys):
            raise ParameterError("keys", self.keys, "at least one group, and none twice")
        if len(self.scales) != len(self.body.bounds) or min(*self.scales, self.total) <= 0:
            raise ParameterError("scales", self.scales, "one above 0 for each coordinate, and in total")
        if not 0 <= self.centre <= 1:
            raise ParameterError("centre", self.centre, "from 0 to 1")

    @property
    def counts(self) -> int:
        """How many coordinates, the first ones, are counted from a part of all units."""
        return 1 + self.body.units

    @property
    def common(self) -> tuple[Fraction, ...]:
        """For each coordinate the deviation of the noise that groups have in common, in grid steps."""
        counted = [bound * self.centre * self.total for bound in self.body.bounds[: self.counts]]
        return (*counted, *[Fraction(0)] * self.body.signed)

    def admits(self, domain: Domain) -> bool:
        """Whether its members are integers by group with the body's coordinates."""
        return isinstance(domain, GroupedIntegers) and domain.coordinates == self.body.names

    def distance(self, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Distance:
        """Return the distance, rounded down where it is not rational; infinite for unknown coordinates."""
        names, empty = self.body.names, dict[str, int]()
        own, along = Fraction(0), Fraction(0)
        for group in self.keys:
            a, b = one.get(group, empty), other.get(group, empty)
            if not {*a, *b} <= set(names):
                return math.inf
            for name, scale, common in zip(names, self.scales, self.common, strict=True):
                by = a.get(name, 0) - b.get(name, 0)
                own += (by / scale) ** 2
                along += by * common / scale**2
        every = sum(((c / s) ** 2 for c, s in zip(self.common, self.scales, strict=True)), Fraction(0))
        return root_down(own - along**2 / (1 + len(self.keys) * every))

    def moved(self, body: Body, groups: int) -> Fraction:
        """Return at most the square of how far one unit moves.

        Args:
            body: what it may add to a group, part by part: the counts, and then numbers that they limit.
            groups: the most groups that it is in.
        Raises:
            ParameterError: a count is not a part by itself.
        """
        parts = Product(body.parts).of_parts(self.scales)
        counts, rest = parts[: self.counts], parts[self.counts :]
        if len(counts) < self.counts or any(len(part.names) > 1 for part, _ in counts):
            raise ParameterError("body", body, "one part for each count, and then the others")
        own = [part.size(Norm.L2, scale) for part, scale in counts]
        near, far = self.centre**2, (1 - self.centre) ** 2
        outside = near * sum(own, Fraction(0))
        inside = far * sum(own, Fraction(0)) + sum((p.size(Norm.L2, s) for p, s in rest), Fraction(0))
        if self.body.units:
            inside = max(inside, far * own[0] + near * own[1])
        return 1 / self.total**2 + len(self.keys) * outside + groups * max(inside - outside, Fraction(0))
