"""Which kind of pairs a domain and a metric have: neighbours for the falsifier."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from sfumato.audit.falsifier.members import member, near, near_record, record
from sfumato.audit.falsifier.number_pairs import Coordinates, GroupedCoordinates, Numbers, Pairs, Values
from sfumato.audit.falsifier.record_pairs import Contributions, Records, Source, Units
from sfumato.errors import QueryError
from sfumato.framework.domains import (
    AtomDomain,
    ContributionDomain,
    Domain,
    GroupedIntegers,
    ProductDomain,
    RowsDomain,
    TableDomain,
    VectorDomain,
)
from sfumato.framework.metrics import (
    AbsoluteDistance,
    ChangeOneDistance,
    DiscreteDistance,
    L1Distance,
    L2Distance,
    LInfDistance,
    Metric,
    ProductMetric,
    SymmetricDistance,
)
from sfumato.framework.privacy_units import PrivacyUnitDistance

NORMS = (LInfDistance, L1Distance, L2Distance)  # by their power; 0 for the largest difference


def pairs_of(domain: Domain, metric: Metric, members: Sequence[Any]) -> Pairs:
    """Return the kind of pairs of a domain in a metric.

    Args:
        members: of the domain, to build on; of a domain that is not known here, all there are.
    Raises:
        QueryError: it is not known how to make members of the domain, and none is given.
    """
    for known in (_of_numbers, _of_records):
        found = known(domain, metric, members)
        if found is not None:
            return found
    if len(members) < 2:
        raise QueryError(
            f"falsify cannot make neighbours in {domain} by {metric}; pass some: members=[one, other, ...]"
        )
    return Values(domain, members, alone=True)


def _of_numbers(domain: Domain, metric: Metric, members: Sequence[Any]) -> Pairs | None:
    if isinstance(metric, DiscreteDistance):
        return Values(domain, members)
    if isinstance(metric, AbsoluteDistance) and isinstance(domain, AtomDomain):
        return Numbers(domain, members)
    if isinstance(metric, ProductMetric) and isinstance(domain, ProductDomain):
        return _of_product(domain, metric.inner, 1, members)
    norm = next((n for n, kind in enumerate(NORMS) if isinstance(metric, kind)), None)
    if norm is None:
        return None
    if isinstance(domain, GroupedIntegers) and isinstance(metric, (L1Distance, L2Distance)):
        return GroupedCoordinates(metric.scales, norm, members)
    if isinstance(domain, ProductDomain):
        return _of_product(domain, AbsoluteDistance(), norm, members)
    if isinstance(domain, VectorDomain):
        entry = pairs_of(domain.element, AbsoluteDistance(), [v for m in members for v in m])
        return Coordinates([entry], domain.size, norm, list)
    return None


def _of_product(domain: ProductDomain, inner: Metric, norm: int, members: Sequence[Any]) -> Pairs:
    parts = [pairs_of(p, inner, [m[i] for m in members]) for i, p in enumerate(domain.parts)]
    return Coordinates(parts, len(parts), norm, tuple)


def _of_records(domain: Domain, metric: Metric, members: Sequence[Any]) -> Pairs | None:
    if isinstance(metric, (SymmetricDistance, ChangeOneDistance)):
        changes = isinstance(metric, ChangeOneDistance)
        if isinstance(domain, VectorDomain):
            entry = domain.element
            source = Source(partial(member, entry), partial(near, entry))
            return Records(source, domain.size, changes, members)
        if isinstance(domain, TableDomain):
            source = Source(partial(record, domain.columns), partial(near_record, domain.columns))
            return Records(source, domain.size, changes, members)
    if isinstance(metric, PrivacyUnitDistance) and isinstance(domain, RowsDomain):
        return Units(domain.columns, members)
    if isinstance(domain, ContributionDomain) and not domain.scaled:
        return Contributions(domain.groups, members, domain.rows, domain.total)
    return None
