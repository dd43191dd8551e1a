"""Record sums: counts, bounded sums, means, variances and histograms of single records."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sfumato.errors import ParameterError
from sfumato.exact import as_fractions, as_int, root_up
from sfumato.framework import (
    AtomDomain,
    L1Distance,
    L2Distance,
    Metric,
    Norm,
    ProductDomain,
    Transformation,
    VectorDomain,
)
from sfumato.names.suggestions import suggest_arguments
from sfumato.transformations.record_columns import (
    ADD_REMOVE,
    Bounds,
    Kind,
    Number,
    NumberKind,
    Records,
    check_number_kind,
    check_sequence,
    make_domain,
    round_up_to_kind,
)


def check_size(where: str, size: object, least: int = 1) -> int:
    """Take the number of records in a sum, which a constructor needs."""
    found = as_int(size)
    if found is None or found < least:
        raise ParameterError(
            f"{where}: size", size, f"the number of records, a whole number of at least {least}"
        )
    return found


def exact_sum(numbers: Iterable[Number]) -> Fraction:
    """Return the exact sum of records: floats are the rationals that they are.

    >>> exact_sum([1e300, 1.5, -1e300])
    Fraction(3, 2)
    """
    return _sum_of_ratios(number.as_integer_ratio() for number in numbers)


def exact_products(first: Iterable[Number], second: Iterable[Number]) -> Fraction:
    """Return the exact sum of products of records.

    >>> exact_products([1, 2], [0.5, 3])
    Fraction(13, 2)
    """
    ratios = ((x.as_integer_ratio(), y.as_integer_ratio()) for x, y in zip(first, second, strict=True))
    return _sum_of_ratios((a * c, b * d) for (a, b), (c, d) in ratios)


def _sum_of_ratios(ratios: Iterable[tuple[int, int]]) -> Fraction:
    numerators = Counter[int]()  # by denominator, of which floats have few
    for numerator, denominator in ratios:
        numerators[denominator] += numerator
    return sum((Fraction(n, d) for d, n in numerators.items()), Fraction(0))


@suggest_arguments
def variance(
    lower: object, upper: object, size: int, *, kind: NumberKind = float, metric: Metric = ADD_REMOVE
) -> Transformation:
    """Return the exact sample variance of a known number of bounded records, with divisor n - 1.

    Args:
        lower, upper: the bounds, as for `clamp`.
        size: the number of records n, at least 2, which is public and the same in both neighbours.
        kind: int, float or Fraction.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors of n numbers within the bounds to a Fraction under AbsoluteDistance.
        Replacing one record moves it by (upper - lower)^2/n. No two vectors are further apart than the
        largest sample variance, floor(n^2/4)/(n(n-1)) (upper - lower)^2.
    Raises:
        ParameterError: a parameter is not valid.

    >>> spread = variance(0, 1, size=3)
    >>> spread([0.0, 0.0, 1.0]), spread.map(2), spread.output_domain.upper
    (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))

    Source:
        "Snapping mechanism notes", 7.2, with the largest value for odd n corrected. Proof:
        docs/proofs/variance.md.
    """
    bounds, size = Bounds.parse("variance", lower, upper, kind), check_size("variance", size, least=2)
    return _spread(
        Records("variance", bounds.domain, size, metric),
        size,
        lambda values: _codeviation(values, values, size),
        bounds.width**2,
        Fraction(0),
    )


@suggest_arguments
def covariance(
    first: tuple[object, object],
    second: tuple[object, object],
    size: int,
    *,
    kind: NumberKind = float,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Return the exact sample covariance of a known number of bounded pairs of records, divisor n - 1.

    Args:
        first, second: (lower, upper) for the first and the second number of a pair, as for `clamp`.
        size: the number of pairs n, at least 2, which is public and the same in both neighbours.
        kind: int, float or Fraction, of both.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors of n pairs to a Fraction under AbsoluteDistance. Replacing one pair
        moves it by w/n, where w is the product of the widths. No two vectors are further apart than 2
        floor(n^2/4)/(n(n-1)) w.
    Raises:
        ParameterError: a parameter is not valid.

    >>> both = covariance((0, 1), (0, 10), size=4)
    >>> both([(0.0, 0.0), (1.0, 10.0), (0.0, 10.0), (1.0, 10.0)]), both.map(2)
    (Fraction(5, 3), Fraction(5, 2))

    Source:
        "Snapping mechanism notes", 7.3, with the largest value for odd n corrected. Proof:
        docs/proofs/covariance.md.
    """
    size = check_size("covariance", size, least=2)
    sides = []
    for name, given in (("first", first), ("second", second)):
        pair = check_sequence("covariance", name, given)
        if len(pair) != 2:
            raise ParameterError(f"covariance: {name}", pair, "a pair (lower, upper)")
        sides.append(Bounds.parse(f"covariance: {name}", *pair, kind))
    records = Records("covariance", ProductDomain(tuple(side.domain for side in sides)), size, metric)
    widths = sides[0].width * sides[1].width
    return _spread(
        records,
        size,
        lambda pairs: _codeviation([x for x, _ in pairs], [y for _, y in pairs], size),
        widths,
        -widths,
    )


def _codeviation(first: Sequence[Any], second: Sequence[Any], size: int) -> Fraction:
    return (exact_products(first, second) - exact_sum(first) * exact_sum(second) / size) / (size - 1)


def _spread(records: Records, size: int, function: Any, widths: Fraction, least: Fraction) -> Transformation:
    """Return the (co)variance of records by exact sums, within [least, widths] times the largest share."""
    share = Fraction(size * size // 4, size * (size - 1))
    stability = records.stability(widths / size, widths / size)
    return records.total(
        AtomDomain(Fraction, share * least, share * widths),
        function,
        lambda d_in: min(stability(d_in), share * (widths - least)),
    )


@suggest_arguments
def mean(
    lower: object, upper: object, size: int, *, kind: NumberKind = float, metric: Metric = ADD_REMOVE
) -> Transformation:
    """Return the exact mean of a known number of bounded records.

    Args:
        lower, upper: the bounds, as for `clamp`.
        size: the number of records n, at least 1, which is public and the same in both neighbours.
        kind: int, float or Fraction.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors of n numbers within the bounds to a Fraction under AbsoluteDistance.
        Replacing one record moves it by (upper - lower)/n; two vectors at symmetric distance d differ in d/2
        records.
    Raises:
        ParameterError: a parameter is not valid.

    >>> mean(0, 1, size=4)([0.0, 1.0, 1.0, 0.5]), mean(0, 1, size=4).map(2)
    (Fraction(5, 8), Fraction(1, 4))

    Source:
        Triangle inequality. Proof: docs/proofs/mean.md.
    """
    bounds, size = Bounds.parse("mean", lower, upper, kind), check_size("mean", size)
    records = Records("mean", bounds.domain, size, metric)
    return records.total(
        AtomDomain(Fraction, bounds.lower, bounds.upper),
        lambda values: exact_sum(values) / size,
        records.stability(bounds.width / size, bounds.width / size),
    )


@suggest_arguments
def bounded_sum(
    lower: object,
    upper: object,
    *,
    kind: NumberKind = float,
    size: int | None = None,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Add up records between two bounds, exactly.

    It does not clamp numbers: apply `clamp` with the same bounds first.

    Args:
        lower, upper: the bounds, as for `clamp`.
        kind: int, float or Fraction. Sums of floats are Fractions, which depend neither on the order of
            summation nor on rounding; sums of ints are ints.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors within the bounds to an int or a Fraction under AbsoluteDistance. Adding
        or removing one record moves it by max(|lower|, |upper|), replacing one by upper - lower. Vectors of a
        known size at symmetric distance d differ in d/2 records.
    Raises:
        ParameterError: a parameter is not valid.

    >>> from sfumato.transformations import clamp
    >>> total = clamp(0, 10) >> bounded_sum(0, 10)
    >>> total([0.5, 12.0]), total.map(1)
    (Fraction(21, 2), Fraction(10, 1))

    Source:
        Triangle inequality. Proof: docs/proofs/bounded_sum.md.
    """
    bounds = Bounds.parse("bounded_sum", lower, upper, kind)
    records = Records("bounded_sum", bounds.domain, size, metric)
    whole = kind is int
    output = AtomDomain(int if whole else Fraction)
    if records.size is not None:
        output = AtomDomain(output.kind, records.size * bounds.lower, records.size * bounds.upper)

    def function(values: Sequence[Any]) -> int | Fraction:
        return sum(values) if whole else exact_sum(values)

    return records.total(
        output, function, records.stability(max(abs(bounds.lower), abs(bounds.upper)), bounds.width)
    )


@suggest_arguments
def count(*, kind: Kind = float, size: int | None = None, metric: Metric = ADD_REMOVE) -> Transformation:
    """Count the records, including NaN and NULL: a sum of ones.

    Args:
        kind: bool, int, float, Fraction or str.
        size: the number of records if it is known; then there is nothing to protect, and the map is 0.
        metric: SymmetricDistance() or ChangeOneDistance(). Vectors at any finite change-one distance have the
            same length, so the map is 0.
    Returns:
        A Transformation from vectors to an int under AbsoluteDistance. Its map is the identity under
        SymmetricDistance for vectors of any length, otherwise 0.
    Raises:
        ParameterError: a parameter is not valid.

    >>> count()([1.5, None, 2.5]), count().map(2), count(size=3).map(2)
    (3, Fraction(2, 1), Fraction(0, 1))

    Source:
        The definition of the metrics. Proof: docs/proofs/count.md.
    """
    records = Records("count", make_domain("count", kind), size, metric)
    return records.total(
        AtomDomain(int, Fraction(records.size or 0), records.most), len, records.stability(ONE, ZERO)
    )


@suggest_arguments
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
            Fraction or str); they must not come from the data.
        other: add a last count of records in none of the categories, including NaN and NULL.
        norm: L1 before Laplace noise, L2 before Gaussian noise.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors to a vector of ints. Adding or removing one record moves it by 1 in both
        norms. Replacing one moves it by 2 in L1 and by the root of 2 in L2, or by 1 if there is only one
        count.
    Raises:
        ParameterError: a parameter is not valid.

    >>> by_answer = count_by_categories(["yes", "no"])
    >>> by_answer(["yes", None, "yes", "Yes"]), by_answer.map(1)
    ([2, 0, 2], Fraction(1, 1))

    Source:
        Triangle inequality. Proof: docs/proofs/count_by_categories.md.
    """
    where = "count_by_categories"
    categories = check_sequence(where, "categories", categories)
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
    records = Records(where, make_domain(where, kind), size, metric)
    places = {category: place for place, category in enumerate(categories)}
    beyond = len(places) if other else None
    return _counts(records, lambda record: places.get(record, beyond), len(places) + other, norm)


@suggest_arguments
def histogram(
    edges: Sequence[object],
    *,
    kind: NumberKind = float,
    norm: Norm = Norm.L1,
    size: int | None = None,
    metric: Metric = ADD_REMOVE,
) -> Transformation:
    """Count the records below the first edge, between consecutive edges, and from the last edge on.

    An interval includes its lower edge and not its upper one. The outer intervals are open-ended, so every
    number is in one. NaN and NULL are not in the domain: apply `impute` first.

    Args:
        edges: at least one number, increasing.
        kind: int, float or Fraction.
        norm: L1 before Laplace noise, L2 before Gaussian noise.
        size: the number of records, or None.
        metric: SymmetricDistance() or ChangeOneDistance().
    Returns:
        A Transformation from vectors to a vector of ints, one more than there are edges. Its map is that of
        `count_by_categories`.
    Raises:
        ParameterError: a parameter is not valid.

    >>> histogram([0, 10])([-3.0, 0.0, 9.5, 10.0, float("inf")])
    [1, 2, 2]

    Source:
        Triangle inequality. Proof: docs/proofs/histogram.md.
    """
    check_number_kind("histogram", kind)
    exact = as_fractions(check_sequence("histogram", "edges", edges), "histogram: edges")
    if not exact or any(a >= b for a, b in pairwise(exact)):
        raise ParameterError("histogram: edges", edges, "increasing numbers, at least one")
    records = Records("histogram", AtomDomain(kind), size, metric)
    starts = [
        round_up_to_kind(kind, edge) for edge in exact
    ]  # where intervals begin, among numbers of the kind
    return _counts(records, lambda number: bisect_right(starts, number), len(starts) + 1, norm)


ZERO, ONE = Fraction(0), Fraction(1)


def _counts(records: Records, place: Callable[[Any], int | None], length: int, norm: Norm) -> Transformation:
    """Return the transformation that counts records by place; None is counted nowhere."""
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
