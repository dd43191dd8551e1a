"""From aggregates to the statistics that serve them and the estimates made of them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.framework import Body, Norm
from sfumato.query.aggregates import Derived, Estimate
from sfumato.query.design import Design
from sfumato.query.query import Query
from sfumato.transformations import Coordinate, Leaves, Statistic, body_in_all


@dataclass(frozen=True, repr=False)
class Requirements(Spelled):
    """Statistics with the estimates made of them.

    Args:
        statistics: whose numbers get noise.
        estimates: the outputs.
        weights: how much each output matters, by name.
        chosen: counts, and the ranks of which places are chosen from them.
        groups, total: the most groups of a unit; and the most rows in all of them, where that is limited.
    """

    statistics: tuple[Statistic, ...]
    estimates: tuple[Estimate, ...]
    weights: Mapping[str, Fraction]
    chosen: tuple[tuple[Leaves, tuple[Fraction, ...]], ...] = ()
    groups: int = 1
    total: int | None = None

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """All noisy numbers, in order."""
        return tuple(c for s in self.statistics for c in s.coordinates)

    @property
    def times(self) -> int:
        """How many times a unit may add a vector of the body: once for each group."""
        return self.groups if self.body.groups == 1 else 1

    @cached_property
    def body(self) -> Body:
        """All that one unit may add to one group; or to all, where its rows in all of them are limited."""
        return body_in_all(self.statistics, self.groups, self.total)

    def body_of(self, statistic: Statistic) -> Body:
        """What one unit may add to the numbers of one of the statistics."""
        return body_in_all((statistic,), self.groups, self.total)


def requirements(
    query: Query,
    norm: Norm,
    multiplier: Fraction,
    units: bool,
    *,
    together: bool = False,
    apart: bool = False,
) -> Requirements:
    """Choose the statistics that answer a question.

    Args:
        query: what is asked.
        norm: of the noise that will be added; it decides how squares are shifted.
        multiplier: the expected noise multiplier, from which grids are chosen.
        units: whether a noisy count of units is there anyway, for the selection of groups.
        together: whether noise is drawn for all numbers together, which needs a count that limits them.
        apart: whether it is drawn for each group by itself: then quantiles alone need no count.
    Returns:
        Statistics, none twice, and how each output is made of them:

        - with rows=1 counting rows and counting units is one statistic;
        - sum, mean and variance of one column and the same bounds share their numbers;
        - where rows are counted, a column's values are counted as rows less missing values, which
          costs nothing (see `Moments`);
        - a sum is centred where a count is there to give the centre back.
    """
    design = Design(query, norm, multiplier, units, together, apart)
    measured = {e.name: e for name, a in query.measured for e in a.estimates(design, name)}
    computed = {n: a.estimate(n, measured) for n, a in query.aggregates if isinstance(a, Derived)}
    estimates = tuple((measured | computed)[name] for name in query.output_names)
    distinct = {id(s): s for s in design.statistics.values()}
    chosen = tuple((leaves, tuple(ranks)) for leaves, ranks in design.chosen.items())
    return Requirements(
        tuple(distinct.values()), estimates, query.output_weights, chosen, query.groups, query.total_rows
    )
