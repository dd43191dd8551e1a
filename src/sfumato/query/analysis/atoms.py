"""What a unit brings to a group, as numbers of which all that is counted is made, whichever the noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sfumato.dataclass import dataclass
from sfumato.query.aggregates import Estimate
from sfumato.query.aggregates.aggregate import BoundedAggregate, short
from sfumato.query.aggregates.derived import DerivedEstimate
from sfumato.query.query import Query
from sfumato.transformations import Count, CountUnits, Margin, Moments, Role, Statistic, UnitSum

QUANTILE = "quantile"  # the kind of an output that is no sum of what units bring
Kind = Literal["unit", "rows", "valued", "sum", "squares", "unit_sum"]


@dataclass(frozen=True)
class Atom:
    """A number that a unit brings to a group.

    Args:
        kind: one for the "unit"; "rows", or rows with a value ("valued"), within the limit; of these rows the
            "sum" of values within bounds, from their middle, and of "squares"; or what the unit has in the
            group, within bounds ("unit_sum").
        rows: the limit, beyond which a unit's rows are scaled down.
        column: of which values are.
        lower, upper: the bounds.
    """

    kind: Kind
    rows: int = 0
    column: str = ""
    lower: float = 0.0
    upper: float = 0.0

    @property
    def centre(self) -> float:
        """The middle of the bounds."""
        return self.lower / 2 + self.upper / 2


UNIT = Atom("unit")
Weights = Mapping[Atom, float]


def coordinates(statistic: Statistic, query: Query) -> dict[str, Weights]:
    """Return of which atoms each number of a statistic is the weighted sum, but for the steps of its grid.

    Args:
        statistic: of a plan of the question.
        query: the question, which has the bounds as they were given.
    """
    if statistic.listed or isinstance(statistic, Margin):  # of which quantiles are, by the values themselves
        return {}
    if isinstance(statistic, CountUnits):
        return {statistic.names[0]: {UNIT: 1.0}}
    if isinstance(statistic, Count):
        rows = _rows(statistic.rows)
        valued = Atom("valued", statistic.rows, statistic.column or "")
        return {statistic.names[0]: {rows if statistic.column is None else valued: 1.0}}
    assert isinstance(statistic, Moments | UnitSum)
    lower, upper = _bounds(query)[statistic.label]
    if isinstance(statistic, UnitSum):
        whole = Atom("unit_sum", 0, statistic.column, lower, upper)
        return {statistic.names[0]: {whole: 1.0, UNIT: -float(statistic.centre * statistic.step)}}
    total = Atom("sum", statistic.rows, statistic.column, lower, upper)
    valued = Atom("valued", statistic.rows, statistic.column)
    step = statistic.grid.step
    # Values are counted from the middle of bounds that were moved to the grid, or from zero.
    moved = total.centre - (float(statistic.grid.centre * step) if statistic.centred else 0.0)
    taken = float(statistic.square_centre * statistic.square_step)
    known: dict[Role, Weights] = {
        Role.SUM: {total: 1.0, valued: moved},
        Role.NULL_COUNT: {_rows(statistic.rows): 1.0, valued: -1.0},
        Role.SQUARES: {
            Atom("squares", statistic.rows, statistic.column, lower, upper): 1.0,
            total: 2 * moved,
            valued: moved**2 - taken,
        },
    }
    return {c.name: known[c.role] for c in statistic.coordinates}


def atoms_of(e: Estimate, made: Mapping[str, Weights]) -> set[Atom]:
    """Return what an output depends on, where some of its numbers have in common what cancels.

    Args:
        e: how it is made of numbers.
        made: of which atoms these are made.
    """
    if e.kind == QUANTILE:
        return set()
    if isinstance(e, DerivedEstimate):
        return {atom for _, one in e.parts for atom in atoms_of(one, made)}
    sums = [{n: 1.0} for n in (e.total, e.squares) if n]
    found = set()
    for numbers in [e.signs, *sums] if e.linear is None else [e.linear]:
        total: dict[Atom, float] = {}
        for name, weight in numbers.items():
            for atom, part in made[name].items():
                total[atom] = total.get(atom, 0.0) + weight * part
        found |= {atom for atom, weight in total.items() if weight}
    return found


def _rows(limit: int) -> Atom:
    """Return the rows of a unit within the limit: where that is one, each unit has one."""
    return UNIT if limit == 1 else Atom("rows", limit)


def _bounds(query: Query) -> dict[str, tuple[float, float]]:
    """Return the bounds of aggregates, as they were given, by what a statistic of them is called."""
    return {
        f"{a.column}[{short(a.lower)},{short(a.upper)}]": (float(a.lower), float(a.upper))
        for _, a in query.measured
        if isinstance(a, BoundedAggregate)
    }
