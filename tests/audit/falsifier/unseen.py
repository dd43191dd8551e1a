"""Twelve wrong claims and twelve right ones, written by somebody who had not written the falsifier, and before looking.

First result, by the 4,000 evaluations of the default: all right ones were left alone, and nine of the wrong ones were
found, five of them within a second. Missed were "small totals are suppressed" and "a counter of a signed byte", as no
length near 20 or 128 was tried, and "bytes of eight characters", as no long text had characters of several bytes. Since
then every length up to 64 is tried, with 127 to 129 and 32,768, and such texts are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, groupby, pairwise
from typing import Any

from sfumato.framework import (
    AtomDomain,
    L1Distance,
    LInfDistance,
    PrivacyUnitDistance,
    RowsDomain,
    Transformation,
    VectorDomain,
)

from .defects import ABSOLUTE, ADDING, FLOAT, WHOLE, claim, total, vectors

TEXTS = VectorDomain(AtomDomain(str))
MAYBE = VectorDomain(AtomDomain(int, 0, 10, null=True))


def suppressed(values: Sequence[int]) -> int:
    """Totals of fewer than 20 records are not shown, and are 0."""
    return sum(values) if len(values) >= 20 else 0


def signed_byte(values: Sequence[int]) -> int:
    return (len(values) + 128) % 256 - 128


def encoded(texts: Sequence[str]) -> int:
    """Eight characters of each text are kept, and their bytes are counted."""
    return sum(len(text[:8].encode()) for text in texts)


def above_average(values: Sequence[int]) -> int:
    count, whole = len(values), sum(values)
    return sum(v * count > whole for v in values)


def imputed(values: Sequence[int | None]) -> Fraction:
    """What is missing becomes the mean of the others."""
    known = [v for v in values if v is not None]
    mean = total(known) / len(known) if known else Fraction(0)
    return total([mean if v is None else v for v in values])


def large_groups(rows: Sequence[Any]) -> int:
    """Groups with at least three units."""
    units = {(r.key, r.unit) for r in rows if r.unit is not None}
    return sum(count >= 3 for count in Counter(key for key, _ in units).values())


def largest_group(rows: Sequence[Any]) -> int:
    units = {(r.key, r.unit) for r in rows if r.unit is not None}
    return max(Counter(key for key, _ in units).values(), default=0)


def running_totals(values: Sequence[int]) -> list[int]:
    """How many are at most 1, 2, ..., 5."""
    return list(accumulate(values.count(k) for k in range(1, 6)))


def longest_run(values: Sequence[int]) -> int:
    return max((len(list(run)) for _, run in groupby(values)), default=0)


def winsorised(values: Sequence[int]) -> int:
    """Values above twice the median are moved there."""
    middle = sorted(values)[len(values) // 2] if values else 0
    return sum(min(v, 2 * middle) for v in values)


def folded(angle: Fraction) -> Fraction:
    """How far an angle is from the nearest full turn."""
    return min(angle % 360, 360 - angle % 360)


def rows(name: str, count: Any) -> Transformation:
    return claim(name, RowsDomain(()), PrivacyUnitDistance(), count, 1, WHOLE)


FIVE = VectorDomain(WHOLE, 5)
WRONG = {
    "small totals are suppressed": claim("sum", vectors(0, 9), ADDING, suppressed, 9, WHOLE),
    "a counter of a signed byte": claim("count", vectors(0, 9), ADDING, signed_byte, 1, WHOLE),
    "bytes of eight characters": claim("bytes", TEXTS, ADDING, encoded, 8, WHOLE),
    "the first 40 records": claim("sum", vectors(0, 9), ADDING, lambda v: sum(v[:40]), 9, WHOLE),
    "records above the average": claim("count", vectors(0, 9), ADDING, above_average, 1, WHOLE),
    "missing values by the mean": claim("sum", MAYBE, ADDING, imputed, 10),
    "an angle at the full turn": claim(
        "angle", AtomDomain(Fraction, 0, 1000), ABSOLUTE, lambda x: x % 360, 1
    ),
    "groups of three units": rows("groups", large_groups),
    "an exact sum as a float": claim("sum", vectors(0, 1, kind=float), ADDING, math.fsum, 1, FLOAT),
    "running totals in L1": claim("totals", vectors(1, 5), ADDING, running_totals, 1, FIVE, L1Distance()),
    "the longest run": claim("run", vectors(0, 9), ADDING, longest_run, 1, WHOLE),
    "winsorised at twice the median": claim("sum", vectors(0, 9), ADDING, winsorised, 9, WHOLE),
}
RIGHT = {
    "a total that is cut": claim("sum", vectors(0, 9), ADDING, lambda v: min(sum(v), 180), 9, WHOLE),
    "a counter that stops": claim("count", vectors(0, 9), ADDING, lambda v: min(len(v), 127), 1, WHOLE),
    "eight characters": claim("length", TEXTS, ADDING, lambda v: sum(len(t[:8]) for t in v), 8, WHOLE),
    "the 40 largest records": claim("sum", vectors(0, 9), ADDING, lambda v: sum(sorted(v)[-40:]), 9, WHOLE),
    "records above 5": claim("count", vectors(0, 9), ADDING, lambda v: sum(x > 5 for x in v), 1, WHOLE),
    "missing values by 3": claim(
        "sum", MAYBE, ADDING, lambda v: sum(3 if x is None else x for x in v), 10, WHOLE
    ),
    "an angle from the nearest turn": claim("angle", AtomDomain(Fraction, 0, 1000), ABSOLUTE, folded, 1),
    "units of the largest group": rows("units", largest_group),
    "an exact sum": claim("sum", vectors(0, 1, kind=float), ADDING, total, 1),
    "running totals, each": claim("totals", vectors(1, 5), ADDING, running_totals, 1, FIVE, LInfDistance()),
    "the most frequent value": claim(
        "times", vectors(0, 9), ADDING, lambda v: max(Counter(v).values(), default=0), 1, WHOLE
    ),
    "gaps between neighbours": claim(
        "gaps", vectors(0, 9), ADDING, lambda v: sum(b - a for a, b in pairwise(sorted(v))), 9, WHOLE
    ),
}
