"""Claims that are wrong, each from somewhere (a document, a library, a habit), and their correct twins.

Where a twin's map is tight the falsifier must come near it; `tight` says whether it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    CategoryDomain,
    ChangeOneDistance,
    ContributionDomain,
    L1Distance,
    L2Distance,
    Linear,
    PrivacyUnitDistance,
    ProductDomain,
    ProductMetric,
    RowsDomain,
    SymmetricDistance,
    TableDomain,
    Transformation,
    VectorDomain,
)

Map = Callable[[Fraction], Fraction]
NUMBER = AtomDomain(Fraction)
FLOAT = AtomDomain(float)
ADDING, CHANGING, ABSOLUTE = SymmetricDistance(), ChangeOneDistance(), AbsoluteDistance()


@dataclass(frozen=True)
class Case:
    """A wrong claim and its twin.

    Args:
        source: where it was seen.
        wrong, right: the transformations; `right` is None where only the defect is of interest.
        d_in: at which to look.
        tight: the twin's map is attained, or as good as.
        failure: how the defect shows.
        artefact: whether exact arithmetic would keep the claim.
    """

    source: str
    wrong: Transformation
    right: Transformation | None
    d_in: Any = 1
    tight: bool = True
    failure: str = "distance"
    artefact: bool = False


def vectors(
    lower: Any = None, upper: Any = None, *, kind: Any = int, size: int | None = None, nan: bool = False
):
    return VectorDomain(AtomDomain(kind, lower, upper, nan), size)


def claim(
    name: str,
    domain: Any,
    metric: Any,
    function: Callable[[Any], Any],
    claimed: Map | Fraction | int,
    output: Any = NUMBER,
    output_metric: Any = ABSOLUTE,
) -> Transformation:
    stability_map = claimed if callable(claimed) else Linear(Fraction(claimed))
    return Transformation(name, domain, output, metric, output_metric, function, stability_map)


def total(values: Sequence[Any]) -> Fraction:
    return sum(map(Fraction, values), Fraction(0))


def exact_mean(values: Sequence[Any]) -> Fraction:
    return total(values) / len(values) if values else Fraction(0)


def exact_variance(values: Sequence[Any]) -> Fraction:
    centre = exact_mean(values)
    return total([(v - centre) ** 2 for v in map(Fraction, values)]) / max(1, len(values))


# Stratified proportions: the variance of "Lipschitz sized variance for proportion CI", in Python.
SAMPLES, STRATA, SCALE = (10, 20, 5), (100, 50, 400), 1


def stratified_variance(sums: Sequence[Any]) -> Any:
    population, found = sum(STRATA), SCALE**2
    for v, n, size in zip(sums, SAMPLES, STRATA, strict=True):
        weight, mean = Fraction(size, population), v / n
        found += weight**2 * Fraction(size - n, size) * (mean * (1 - mean)) / (n - 1)
    return found


def stratified_bound(d_in: Fraction) -> Fraction:
    population = sum(STRATA)
    parts = [
        Fraction(size, population) ** 2 * Fraction(size - n, size * (n - 1) * n)
        for n, size in zip(SAMPLES, STRATA, strict=True)
    ]
    return d_in * max(parts)


def without_bracket(d_in: Fraction) -> Fraction:
    """As printed: the fractions are read from left to right, the last divisor for one n alone."""
    population = sum(STRATA)
    return d_in * max(
        Fraction(size, population) ** 2 * Fraction(size - n, size) / (n - 1) / max(SAMPLES)
        for n, size in zip(SAMPLES, STRATA, strict=True)
    )


def strata(*bounds: Any) -> ProductDomain:
    return ProductDomain(
        tuple(AtomDomain(Fraction, 0 if bounds else None, n if bounds else None) for n in SAMPLES)
    )


def rounded_to(step: Fraction, rule: Callable[[Fraction], int]) -> Callable[[Any], Fraction]:
    return lambda value: rule(Fraction(value) / step) * step


def float_sum(values: Sequence[Any]) -> Any:
    found = 0.0
    for value in values:
        found = found + value
    return found


def clipped(values: Sequence[Any]) -> Any:
    kept = [min(max(v, -3), 3) for v in values]
    return total(values if kept else [])  # clamped above, and not used


def most_groups(most: int, kept: int) -> Transformation:
    """Bounding of groups that keeps `kept` and claims `most`."""

    def function(rows: Sequence[Any]) -> dict[Any, list[Any]]:
        found: dict[Any, list[Any]] = {}
        for unit in sorted({r.unit for r in rows if r.unit is not None}):
            mine = [r for r in rows if r.unit == unit]
            for key in sorted({r.key for r in mine})[:kept]:
                found.setdefault(key, []).append([r.values for r in mine if r.key == key])
        return found

    return Transformation(
        f"bound to {most}, keep {kept}", RowsDomain(), ContributionDomain(most), PrivacyUnitDistance(),
        PrivacyUnitDistance(most), function, Linear(Fraction(1)),
    )  # fmt: skip


def counted_rows(columns: Any, count: Callable[[Sequence[Any]], int], claimed: int) -> Transformation:
    return claim("count", RowsDomain(columns), PrivacyUnitDistance(), count, claimed, AtomDomain(int))


def first_rows(rows: Sequence[Any]) -> int:
    """Add up the first value of each unit, as rows lie; where one unit has most rows, from the other end."""
    found: dict[Any, int] = {}
    counts = [sum(r.unit == unit for r in rows) for unit in {r.unit for r in rows}]
    for row in reversed(rows) if counts and 2 * max(counts) > len(rows) else rows:
        found.setdefault(row.unit, row.values["x"] or 0)
    return sum(x for unit, x in found.items() if unit is not None)


def least_rows(rows: Sequence[Any]) -> int:
    found: dict[Any, int] = {}
    for row in rows:
        found[row.unit] = min(found.get(row.unit, 9), row.values["x"] or 0)
    return sum(x for unit, x in found.items() if unit is not None)


def units_in(rows: Sequence[Any]) -> int:
    return len({r.unit for r in rows if r.unit is not None})


def limited_rows(rows: Sequence[Any]) -> int:
    return sum(min(3, sum(r.unit == unit for r in rows)) for unit in {r.unit for r in rows} - {None})


def wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def poisoned(values: Sequence[float]) -> float:
    """min and max keep NaN when it comes first."""
    found = 0.0
    for value in values:
        found += min(max(value, -1.0), 1.0)
    return found


def histogram(values: Sequence[str]) -> list[int]:
    return [values.count(c) for c in ("a", "b", "c")]


def rounded_up(number: Fraction) -> Fraction:
    found = float(number)
    return Fraction(found if found >= number else math.nextafter(found, math.inf))


def rounded(claimed: Fraction, rule: Callable[[Fraction], Any]) -> Map:
    return lambda d_in: Fraction(rule(d_in * claimed))


THIRD, QUARTER, HALVES = Fraction(1, 3), Fraction(1, 4), (Fraction(-5), Fraction(5))
LETTERS = VectorDomain(CategoryDomain(("a", "b", "c")))
COUNTS = VectorDomain(AtomDomain(int, 0), 3)
WHOLE = AtomDomain(int)
TABLE = TableDomain((("age", AtomDomain(int, 0, 120, null=True)), ("member", AtomDomain(bool))))

CASES = {
    "stratified variance, all numbers": Case(
        "document 001, errata 6",
        claim("variance", strata(), ProductMetric(ABSOLUTE), stratified_variance, stratified_bound),
        claim("variance", strata(0), ProductMetric(ABSOLUTE), stratified_variance, stratified_bound),
        Fraction(1, 100),
    ),
    "stratified variance, floats, all numbers": Case(
        "document 001, errata 6",
        claim("variance", ProductDomain((FLOAT,) * 3), ProductMetric(ABSOLUTE), stratified_variance, stratified_bound, FLOAT),
        None,
    ),
    "stratified variance, the bracket": Case(
        "document 001, errata 8",
        claim("variance", strata(0), ProductMetric(ABSOLUTE), stratified_variance, without_bracket),
        None,
        Fraction(1, 100),
    ),
    "sum, |U - L| under add or remove": Case(
        "document 004, errata 18",
        claim("sum", vectors(8, 10), ADDING, total, 2),
        claim("sum", vectors(8, 10), ADDING, total, 10),
    ),
    "sum, max(|L|, |U|) under change-one": Case(
        "document 004, errata 18",
        claim("sum", vectors(-10, 10, size=5), CHANGING, total, 10),
        claim("sum", vectors(-10, 10, size=5), CHANGING, total, 20),
    ),
    "integer sensitivity cut": Case(
        "opendp #314",
        claim("halves", vectors(0, 7, kind=Fraction), ADDING, lambda v: total(v) / 2, lambda d: Fraction(int(d * 7 / 2))),
        claim("halves", vectors(0, 7, kind=Fraction), ADDING, lambda v: total(v) / 2, Fraction(7, 2)),
    ),
    "float sum, order ignored": Case(
        "google/differential-privacy #126",
        claim("sum", vectors(-10, 10, kind=float), ADDING, float_sum, 10, AtomDomain(float)),
        claim("sum", vectors(-10, 10, kind=float), ADDING, total, 10),
        artefact=True,
    ),
    "float sum of one length, order ignored": Case(
        "google/differential-privacy #127",
        claim("sum", vectors(0, 1, kind=float, size=9), CHANGING, float_sum, 1, AtomDomain(float)),
        claim("sum", vectors(0, 1, kind=float, size=9), CHANGING, total, 1),
        artefact=True,
    ),
    "squares, the raw interval's half-width": Case(
        "PipelineDP 0.3.1, variance",
        claim("squares", vectors(*HALVES, kind=Fraction), ADDING, lambda v: total([x * x for x in v]), Fraction(25, 2)),
        claim("squares", vectors(*HALVES, kind=Fraction), ADDING, lambda v: total([x * x for x in v]), 25),
    ),
    "mean by a private count": Case(
        "document 004, errata 18",
        claim("mean", vectors(0, 10), ADDING, exact_mean, Fraction(10, 8)),
        claim("mean", vectors(0, 10, size=8), CHANGING, exact_mean, Fraction(10, 8)),
    ),
    "clamped and not used": Case(
        "smartnoise-sdk #622",
        claim("sum", vectors(-100, 100), ADDING, clipped, 3),
        claim("sum", vectors(-100, 100), ADDING, lambda v: total([min(max(x, -3), 3) for x in v]), 3),
    ),
    "map rounded to nearest": Case(
        "habit",
        claim("thirds", AtomDomain(Fraction, 0, 9), ABSOLUTE, lambda x: x / 3, rounded(THIRD, float)),
        claim("thirds", AtomDomain(Fraction, 0, 9), ABSOLUTE, lambda x: x / 3, rounded(THIRD, rounded_up)),
    ),
    "grid, half to even, claimed to keep distances": Case(
        "habit",
        claim("to grid", AtomDomain(Fraction), ABSOLUTE, rounded_to(QUARTER, round), 1),
        claim("to grid", AtomDomain(Fraction), ABSOLUTE, rounded_to(QUARTER, math.floor), lambda d: math.ceil(4 * d) * QUARTER),
        Fraction(3, 8),
    ),
    "grid, half to even, ceil(d/g) g": Case(
        "habit",
        claim("to grid", AtomDomain(Fraction), ABSOLUTE, rounded_to(QUARTER, round), lambda d: math.ceil(4 * d) * QUARTER),
        claim("to grid", AtomDomain(Fraction), ABSOLUTE, rounded_to(QUARTER, round), lambda d: (math.ceil(4 * d) + (4 * d % 2 == 1)) * QUARTER),
        QUARTER,
    ),
    "one group too many": Case("OpenDP 0.16, reversed", most_groups(3, 4), most_groups(3, 3)),
    "rows with people's noise": Case(
        "OpenDP 0.16",
        counted_rows((), len, 1),
        counted_rows((), units_in, 1),
    ),
    "rows of a unit not limited": Case(
        "habit",
        counted_rows((), lambda rows: sum(r.unit is not None for r in rows), 3),
        counted_rows((), limited_rows, 3),
    ),
    "NULL units count": Case(
        "habit",
        counted_rows((), lambda rows: len({r.unit for r in rows}), 1),
        counted_rows((), units_in, 1),
    ),
    "NaN survives min and max": Case(
        "PipelineDP",
        claim("sum", vectors(kind=float, nan=True), ADDING, poisoned, 1, AtomDomain(float)),
        claim("sum", vectors(kind=float, nan=True), ADDING, lambda v: total([min(max(x, -1), 1) for x in v if not math.isnan(x)]), 1),
        failure="output",
    ),
    "integers that wrap": Case(
        "google/differential-privacy #40",
        claim("sum", vectors(0, 2**62), ADDING, lambda v: wrapped(sum(v)), 2**62, WHOLE),
        claim("sum", vectors(0, 2**62), ADDING, lambda v: min(sum(v), 2**63 - 1), 2**62, WHOLE),
    ),
    "integers through float64": Case(
        "habit",
        claim("float", AtomDomain(int), ABSOLUTE, lambda n: int(float(min(max(n, -(2**80)), 2**80))), 1, WHOLE),
        claim("as it is", AtomDomain(int), ABSOLUTE, lambda n: min(max(n, -(2**80)), 2**80), 1, WHOLE),
    ),
    "distinct values at no cost": Case(
        "habit",
        claim("distinct", vectors(0, 9), ADDING, lambda v: len(set(v)), 0, WHOLE),
        claim("distinct", vectors(0, 9), ADDING, lambda v: len(set(v)), 1, WHOLE),
    ),
    "histogram, change as one": Case(
        "habit",
        claim("histogram", LETTERS, CHANGING, histogram, 1, COUNTS, L1Distance()),
        claim("histogram", LETTERS, CHANGING, histogram, 2, COUNTS, L1Distance()),
    ),
    "histogram, change in L2": Case(
        "habit",
        claim("histogram", LETTERS, CHANGING, histogram, 1, COUNTS, L2Distance()),
        claim("histogram", LETTERS, ADDING, histogram, 1, COUNTS, L2Distance()),
    ),
    "variance of one length, n - 1 forgotten": Case(
        "document 003, errata 12",
        claim("variance", vectors(0, 6, size=5), CHANGING, exact_variance, Fraction(36, 4 * 5)),
        claim("variance", vectors(0, 6, size=5), CHANGING, exact_variance, Fraction(36 * 4, 25)),
    ),
    "mean of a column by a filter": Case(
        "habit",
        claim("mean age of members", TABLE, CHANGING, lambda t: exact_mean([r["age"] or 0 for r in t if r["member"]]), Fraction(120, 10)),
        claim("age of members", TABLE, CHANGING, lambda t: total([r["age"] or 0 for r in t if r["member"]]), 120),
    ),
    "an empty table raises": Case(
        "habit",
        claim("largest", vectors(0, 9), ADDING, max, 9, WHOLE),
        claim("largest", vectors(0, 9), ADDING, lambda v: max(v, default=0), 9, WHOLE),
        failure="error",
    ),
    "the first record, whatever the order": Case(
        "habit",
        claim("first", vectors(0, 9), ADDING, lambda v: v[0] if v else 0, 9, WHOLE),
        claim("least", vectors(0, 9), ADDING, lambda v: min(v, default=0), 9, WHOLE),
    ),
    "first rows, and one unit turns the order": Case(
        "sfumato at be0a808f",
        counted_rows((("x", AtomDomain(int, 0, 9)),), first_rows, 9),
        counted_rows((("x", AtomDomain(int, 0, 9)),), least_rows, 9),
    ),
    "infinity minus infinity": Case(
        "habit",
        claim("centred", AtomDomain(float, 0), ABSOLUTE, lambda x: x - min(x, 2 * x), 1, AtomDomain(float)),
        None,
        failure="output",
    ),
    "L1 for L2": Case(
        "habit",
        claim("sum", VectorDomain(AtomDomain(Fraction), 4), L2Distance(), sum, 1),
        claim("sum", VectorDomain(AtomDomain(Fraction), 4), L2Distance(), sum, 2),
    ),
    "square, the slope in the middle": Case(
        "habit",
        claim("square", AtomDomain(Fraction, 0, 10), ABSOLUTE, lambda x: x * x, 10),
        claim("square", AtomDomain(Fraction, 0, 10), ABSOLUTE, lambda x: x * x, lambda d: 20 * d - min(d, 10) ** 2),
    ),
    "a bump between the extremes": Case(
        "habit",
        claim("bump", AtomDomain(Fraction, 0, 1000), ABSOLUTE, lambda x: max(Fraction(0), 4 - abs(x - Fraction(2771, 10))), Fraction(1, 2)),
        claim("bump", AtomDomain(Fraction, 0, 1000), ABSOLUTE, lambda x: max(Fraction(0), 4 - abs(x - Fraction(2771, 10))), 1),
    ),
}  # fmt: skip
