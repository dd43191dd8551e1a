"""A constant in place of what is missing."""

from __future__ import annotations

from typing import Any

from sfumato.framework import AtomDomain, Metric, Transformation
from sfumato.names.helpful import helpful
from sfumato.transformations.grid import has_value
from sfumato.transformations.records.space import ADD_REMOVE, Kind, Records, any_of, constant


@helpful
def impute(
    value: object, *, kind: Kind = float, size: int | None = None, metric: Metric = ADD_REMOVE
) -> Transformation:
    """Put a constant in the place of each NaN and each NULL.

    Args:
        value: the constant, of the kind; it must not be taken from the data.
        kind: bool, int, float, Fraction or str.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors with NaN and NULL to vectors without. Its map is the identity.
    Raises:
        ParameterError: a parameter is another.

    >>> impute(0)([1.5, float("nan"), None])
    [1.5, 0.0, 0.0]

    Source:
        A function of one record at a time. Proof: docs/proofs/impute.md.
    """
    records = Records("impute", any_of("impute", kind), size, metric)
    filling = constant("impute", "value", value, kind)

    def imputed(record: Any) -> Any:
        return record if has_value(record) else filling

    return records.each(AtomDomain(kind), imputed)
