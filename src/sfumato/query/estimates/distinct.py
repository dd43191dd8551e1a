"""Numbers of different values."""

from __future__ import annotations

from sfumato.query.aggregates import CountDistinct
from sfumato.query.design import Design
from sfumato.query.estimates.counts import CountEstimate
from sfumato.query.estimates.estimate import Estimate
from sfumato.transformations import DistinctMatched, DistinctShared, Statistic


def distinct(design: Design, name: str, aggregate: CountDistinct) -> tuple[Estimate, ...]:
    """Ask for the number of different values."""
    statistic: Statistic = (
        DistinctMatched(aggregate.column, aggregate.values)
        if aggregate.method == "matching"
        else DistinctShared(aggregate.column, aggregate.values)
    )
    design.add(statistic)
    return (CountEstimate(name, statistic.names[0], whole=True),)
