"""A column of a table as a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import ColumnError, ParameterError
from sfumato.framework import Domain, Linear, Metric, ProductDomain, TableDomain, Transformation, VectorDomain
from sfumato.framework.domains import check_length
from sfumato.names.helpful import helpful
from sfumato.transformations.records.space import ADD_REMOVE, check_metric, listed


@helpful
def column(name: str | Sequence[str], domain: TableDomain, *, metric: Metric = ADD_REMOVE) -> Transformation:
    """Take one column of a table, or several side by side, in the order of the rows.

    Args:
        name: the column; or several names, for records that are tuples.
        domain: the tables, with the domain of each column.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from tables to vectors of the column's domain. Its map is the identity.
    Raises:
        ParameterError: a parameter is another.
        ColumnError: the tables have no such column.

    >>> from sfumato.framework import TableDomain
    >>> from sfumato.framework import AtomDomain
    >>> people = TableDomain((("age", AtomDomain(int, 0, 120)), ("name", AtomDomain(str))))
    >>> column("age", people)([{"age": 30, "name": "a"}, {"age": 41, "name": "b"}])
    [30, 41]

    Source:
        A function of one record at a time. Proof: docs/proofs/column.md.
    """
    check_metric("column", metric)
    if not isinstance(domain, TableDomain):
        raise ParameterError("column: domain", domain, "a TableDomain")
    names = (name,) if isinstance(name, str) else listed("column", "name", name)
    if not names:
        raise ParameterError("column: name", name, "the name of a column, or several")
    known = dict(domain.columns)
    for wanted in names:
        if wanted not in known:
            raise ColumnError.unknown(wanted, known, "column")
    element: Domain = known[names[0]]
    if not isinstance(name, str):
        element = ProductDomain(tuple(known[n] for n in names))

    def taken(row: Mapping[str, Any]) -> Any:
        return row[name] if isinstance(name, str) else tuple(row[n] for n in names)

    size = domain.size
    return Transformation(
        "column",
        domain,
        VectorDomain(element, size),
        metric,
        metric,
        lambda rows: [taken(row) for row in check_length(rows, size, "column")],
        Linear(Fraction(1)),
    )
