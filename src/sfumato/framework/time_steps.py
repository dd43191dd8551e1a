"""How far apart noise on time steps tells numbers: what all such metrics have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import ParameterError
from sfumato.framework.bodies import Body
from sfumato.framework.domains import Domain, GroupedIntegers
from sfumato.framework.metrics import Metric


@dataclass(frozen=True, repr=False)
class TimeStepsDistance(Spelled, Metric):
    """A distance of numbers of time steps, in one series or several.

    Such as `SeriesDistance` and `TreeDistance`.

    Args:
        names: the coordinates.
        scales: for each the scale of its noise, in grid steps.
        factor: which sums of steps have noise.
        series: for each series its groups, in order of time.
    Raises:
        ParameterError: a group is in two series, a series has not as many groups as there are steps, or
            scales are not one above 0 for each coordinate.

    >>> from sfumato.exact.trees import Tree
    >>> from sfumato.framework import Segment, TreeDistance
    >>> metric = TreeDistance(("visits",), (Fraction(2),), Tree(3, (1, 2)), (("jan", "feb", "mar"),))
    >>> metric.admits(GroupedIntegers(("visits",))), metric.admits(GroupedIntegers(("hours",)))
    (True, False)
    >>> metric.changes({"jan": {"visits": 5}}, {"jan": {"visits": 4}, "mar": {"visits": 2}})
    [(Fraction(2, 1), [1, 0, -2])]
    >>> metric.moved(Segment("visits", Fraction(3)), groups=1)  # of a person with 3 visits in one month
    Fraction(3, 1)
    """

    names: tuple[str, ...]
    scales: tuple[Fraction, ...]
    factor: Any
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
        """Whether its members are integers by group with these coordinates."""
        return isinstance(domain, GroupedIntegers) and domain.coordinates == self.names

    def changes(
        self, one: Mapping[Any, Any], other: Mapping[Any, Any]
    ) -> list[tuple[Fraction, list[int]]] | None:
        """Return how far each number of each series moved, step by step, with its scale.

        None where there are unknown coordinates.

        Args:
            one, other: integers by group, as `distance` takes them.
        """
        empty, found = dict[str, int](), []
        for keys in self.series:
            pairs = [(one.get(key, empty), other.get(key, empty)) for key in keys]
            if any(not {*a, *b} <= set(self.names) for a, b in pairs):
                return None
            found += [
                (scale, [a.get(name, 0) - b.get(name, 0) for a, b in pairs])
                for name, scale in zip(self.names, self.scales, strict=True)
            ]
        return found

    @abstractmethod
    def moved(self, body: Body, groups: int) -> Fraction:
        """Return how far one unit moves at most, or its square.

        Args:
            body: what it may add to a group.
            groups: the most groups that it is in.
        """
