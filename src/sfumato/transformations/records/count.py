"""The number of records, in all and by category or interval."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sfumato.errors import ParameterError
from sfumato.exact import as_fractions, root_up
from sfumato.framework import AtomDomain, L1Distance, L2Distance, Metric, Norm, Transformation, VectorDomain
from sfumato.names.helpful import helpful
from sfumato.transformations.records.space import (
    ADD_REMOVE,
    Kind,
    NumberKind,
    Records,
    any_of,
    check_number_kind,
    least_of,
    listed,
)


@helpful
def count(*, kind: Kind = float, size: int | None = None, metric: Metric = ADD_REMOVE) -> Transformation:
    """Count the records, NaN and NULL too.

    Args:
        kind: bool, int, float, Fraction or str.
        size: the number of records where it is known; then there is nothing to protect, and the map is 0.
        metric: SymmetricDistance() or ChangeOneDistance(). Vectors that are any finite change-one
            distance apart have one length: the map is 0.
    Returns:
        A Transformation from vectors to an int under AbsoluteDistance. Its map is the identity under
        SymmetricDistance for vectors of any length, else 0.
    Raises:
        ParameterError: a parameter is another.

    >>> count()([1.5, None, 2.5]), count().map(2), count(size=3).map(2)
    (3, Fraction(2, 1), Fraction(0, 1))

    Source:
        The definition of the metrics. Proof: docs/proofs/count.md.
    """
    records = Records("count", any_of("count", kind), size, metric)
    return records.total(
        AtomDomain(int, Fraction(records.size or 0), records.most), len, records.stability(ONE, ZERO)
    )


@helpful
def count_by_categories(
    categories: Sequence[Hashable],
    *,
    other: bool = True,
    norm: Norm = Norm.L1,
    size: int | None = None,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Count the records in each of some known categories, and all others together.

    Args:
        categories: the values to count, at least one, all different and of one kind (bool, int, float,
            Fraction or str); they must not be taken from the data.
        other: add a last count of the records in none of them, NaN and NULL too.
        norm: L1 before Laplace noise, L2 before Gaussian noise.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors to a vector of ints. One record added or removed moves it by 1 in
        both norms; one replaced by 2 in L1 and by the root of 2 in L2 (by 1 where there is one count).
    Raises:
        ParameterError: a parameter is another.

    >>> by_answer = count_by_categories(["yes", "no"])
    >>> by_answer(["yes", None, "yes", "Yes"]), by_answer.map(1)
    ([2, 0, 2], Fraction(1, 1))

    Source:
        Triangle inequality. Proof: docs/proofs/count_by_categories.md.
    """
    where = "count_by_categories"
    categories = listed(where, "categories", categories)
    kinds = set(map(type, categories))
    kind: Any = kinds.pop() if len(kinds) == 1 else None
    known = (
        isinstance(kind, type)
        and kind in (bool, int, float, Fraction, str)
        and all(map(AtomDomain(kind).contains, categories))
    )
    if not known or len(set(categories)) < len(categories):
        raise ParameterError(
            f"{where}: categories",
            categories,
            "different values of one kind (bool, int, float, Fraction or str), at least one, not NaN",
        )
    if not isinstance(other, bool):
        raise ParameterError(f"{where}: other", other, "True or False")
    records = Records(where, any_of(where, kind), size, metric)
    places = {category: place for place, category in enumerate(categories)}
    beyond = len(places) if other else None
    return _counts(records, lambda record: places.get(record, beyond), len(places) + other, norm)


@helpful
def histogram(
    edges: Sequence[object],
    *,
    kind: NumberKind = float,
    norm: Norm = Norm.L1,
    size: int | None = None,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Count the numbers below the first edge, between each two edges, and from the last edge on.

    An interval holds its lower edge and not its upper one. The outer intervals are open-ended, so that
    every number is in one; NaN and NULL are not in the domain: put `impute` before.

    Args:
        edges: at least one number, increasing.
        kind: int, float or Fraction.
        norm: L1 before Laplace noise, L2 before Gaussian noise.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors to a vector of ints, one more than edges. Its map is that of
        `count_by_categories`.
    Raises:
        ParameterError: a parameter is another.

    >>> histogram([0, 10])([-3.0, 0.0, 9.5, 10.0, float("inf")])
    [1, 2, 2]

    Source:
        Triangle inequality. Proof: docs/proofs/histogram.md.
    """
    check_number_kind("histogram", kind)
    exact = as_fractions(listed("histogram", "edges", edges), "histogram: edges")
    if not exact or any(a >= b for a, b in pairwise(exact)):
        raise ParameterError("histogram: edges", edges, "increasing numbers, at least one")
    records = Records("histogram", AtomDomain(kind), size, metric)
    starts = [least_of(kind, edge) for edge in exact]  # where intervals begin, among numbers of the kind
    return _counts(records, lambda number: bisect_right(starts, number), len(starts) + 1, norm)


ZERO, ONE = Fraction(0), Fraction(1)


def _counts(records: Records, place: Callable[[Any], int | None], length: int, norm: Norm) -> Transformation:
    """Count records by place; None is counted nowhere."""
    if not isinstance(norm, Norm):
        raise ParameterError(f"{records.where}: norm", norm, "Norm.L1 or Norm.L2")

    def function(values: Sequence[Any]) -> list[int]:
        counts = [0] * length
        for value in values:
            found = place(value)
            if found is not None:
                counts[found] += 1
        return counts

    replaced = ONE
    if length > 1:  # one count goes down and another up
        replaced = Fraction(2) if norm is Norm.L1 else root_up(Fraction(2))
    return records.total(
        VectorDomain(AtomDomain(int, ZERO, records.most), length),
        function,
        records.stability(ONE, replaced),
        L1Distance() if norm is Norm.L1 else L2Distance(),
    )
