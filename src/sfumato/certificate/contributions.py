"""What one privacy unit adds: to one group, and from there to all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.certificate.description import require
from sfumato.certificate.numbers import root_above

Description = Mapping[str, Any]
Counted = tuple[tuple[Fraction, int], ...]
# A name, two columns, the largest product, how far rounding moves it, and what is then taken off.
Product = tuple[str, tuple[int, int], Fraction, Fraction, Fraction]
MANY = ("bins", "nodes", "vector")  # kinds of which a group has many numbers

_CUT = ("nodes", "margin", "quantiles")  # are counted of leaves, whose counts are cut towards zero
_PARTS = 2**20  # contributions are scaled by whole numbers of these
_CORNERS = 10  # columns of which all combinations of ends are looked at


def half_range(bounds: Description) -> int:
    """Return the largest distance from the centre between bounds, and of 0 where a value may be missing."""
    require(bounds["lower"] <= bounds["upper"], bounds["name"], "the lower bound is above the upper one")
    ends = [bounds["lower"], bounds["upper"], *([Fraction(0)] if bounds.get("missing") else [])]
    return int(max(abs(end - bounds["centre"]) for end in ends))


def boxes(statistic: Description) -> list[tuple[str, Fraction]]:
    """Return each coordinate, and the largest number that one row, or one unit, adds or takes away."""
    kind, one = statistic["kind"], statistic.get("one", Fraction(1))
    if kind in ("row_sums", "cross"):
        sums, products, beside = _sums(statistic)
        ends = [(name, max(abs(c), abs(math.floor(top + off) - c))) for name, _, top, off, c in products]
        return [*sums, *ends, *((own["name"], own["one"]) for own in beside)]
    if kind == "bins":
        return [(name, one * statistic["weight"]) for name in statistic["names"]]
    if kind == "weighted":
        most, values = statistic["weight"], statistic["values"]
        own = [] if values is None else [(values["name"], most * -(-half_range(values) >> values["bits"]))]
        return [(statistic["name"], most), *own]
    if kind == "margin":
        parts, whole = statistic["rank"] * (1 << statistic["bits"]), 1 << statistic["bits"]
        one *= max(math.ceil(parts), whole - math.floor(parts))
    elif kind == "distinct":
        one *= statistic["values"]
    elif kind == "unit_sum":
        one = Fraction(half_range(statistic))
    return [(statistic["name"], statistic["radius"] if kind == "vector" else one)]


def _sums(statistic: Description) -> tuple[list[tuple[str, Fraction]], list[Product], list[Description]]:
    """Return the columns of a row, with half ranges; products of two of them; and what is counted beside."""
    columns, squares = statistic.get("columns", [statistic]), statistic.get("squares")
    pairs = statistic.get("pairs", [squares | {"first": 0, "second": 0}] if squares else [])
    halves, products = [half_range(column) for column in columns], []
    for pair in pairs:
        i, j, bits = pair["first"], pair["second"], pair.get("bits", 0)
        require(i <= j < len(columns), pair["name"], "expected two columns in order")
        centre = pair["centre"] if squares else columns[i]["square_centre"] if i == j else Fraction(0)
        largest = Fraction(halves[i] * halves[j], 1 << bits)
        products.append((pair["name"], (i, j), largest, Fraction(bits > 0, 2), centre))
    require(len({of for _, of, *_ in products}) == len(products), "pairs", "a product is there twice")
    beside = statistic.get("complete", statistic.get("nulls"))
    sums = [(column["name"], Fraction(half)) for column, half in zip(columns, halves, strict=True)]
    return sums, products, [beside] if beside else []


def _of_sums(statistic: Description, scales: Mapping[str, Fraction]) -> tuple[Fraction, Fraction]:
    """Return L1 and L2 of one row.

    L2 is convex in the square of each column, but for rounding, so largest where each is 0 or at an end. For
    L1 products are at their ends, and a square may be below its centre, within a parabola whose top counts.
    """
    sums, products, beside = _sums(statistic)
    ends = [half / scales[name] for name, half in sums]
    l1, l2, gains = sum(ends, Fraction(0)), Fraction(0), [((i, i), x * x) for i, x in enumerate(ends)]
    for name, (i, j), largest, off, centre in products:
        scale, end = scales[name], ends[i]
        most = abs(math.floor(largest + off) - centre) / scale
        if i == j:
            part = min(end * scale / (2 * largest), Fraction(1)) if largest else Fraction(1)
            most = max(most, end * (part - 1) + (centre + off - largest * part**2) / scale)
        low, high = (((abs(x - centre) + off) / scale) ** 2 for x in (0, largest))
        l1, l2, gains = l1 + most, l2 + low, [*gains, ((i, j), high - low)]
    # In whole parts, and of columns at their ends as bits, which is fast.
    common = math.lcm(*(gain.denominator for _, gain in gains))
    whole = [(1 << i | 1 << j, int(gain * common)) for (i, j), gain in gains]
    corners = range(1 << len(ends)) if len(ends) <= _CORNERS else ()
    tried = (sum(gain for of, gain in whole if of & corner == of) for corner in corners)
    l2 += Fraction(max(tried, default=sum(max(gain, 0) for _, gain in whole)), common)
    extra = sum((own["one"] / scales[own["name"]] for own in beside), Fraction(0))
    if statistic["kind"] == "cross":
        return l1 + extra, l2 + extra**2
    return max(l1, extra), max(l2, extra**2)  # a row has a value, or is NULL


@dataclass(frozen=True)
class Shift:
    """How far one row, or one unit, moves a statistic of one group, over the scales of the noise.

    Args:
        rows: how many rows of a unit there may be; None where a unit counts as a whole.
        pairs: distances, and of how many numbers, where all can be largest together; else empty.
        l1, l2: the largest sums of distances, and of their squares.
    """

    rows: int | None
    pairs: Counted
    l1: Fraction
    l2: Fraction


def shift(statistic: Description, scales: Mapping[str, Fraction]) -> Shift:
    """Return how far one row, or one unit, moves a statistic.

    Args:
        statistic: as described.
        scales: of the noise of its coordinates.
    """
    kind, ball = statistic["kind"], statistic.get("ball")
    pairs: Counted = tuple((box / scales[name], 1) for name, box in boxes(statistic))
    if kind in MANY:  # one bin, a node on each level, one entry or all
        many = statistic["levels"] if kind == "nodes" else statistic["length"] if ball == "linf" else 1
        pairs = ((max(pairs)[0], many),)
    whole, l2 = (sum((n * x**power for x, n in pairs), Fraction(0)) for power in (1, 2))
    l1 = whole
    if kind in ("row_sums", "cross"):
        l1, l2 = _of_sums(statistic, scales)
    elif ball == "l2":
        l1 *= root_above(Fraction(statistic["length"]))
    return Shift(statistic.get("rows"), pairs if l1 == whole else (), l1, l2)


@dataclass(frozen=True)
class Bounding:
    """How the contributions of one unit are limited.

    Args:
        groups: the most groups that it is in.
        total_rows: the most rows in all of them, or None.
        shown: the number of public groups, or None.
    """

    groups: int
    total_rows: int | None
    shown: int | None

    def corner(self, rows: int | None) -> tuple[int, int]:
        """Return how many rows are in one group, and in how many groups, at a corner of what a unit adds."""
        if rows is None:
            return 1, self.groups
        return (rows, self.groups) if self.total_rows is None else (self.total_rows, 1)

    def l1(self, shifts: Sequence[Shift]) -> Fraction:
        """Return the largest sum of distances in all groups."""
        return sum((math.prod(self.corner(s.rows)) * s.l1 for s in shifts), Fraction(0))

    def l2(self, shifts: Sequence[Shift]) -> Fraction:
        """Return the largest sum of squared distances in all groups."""
        k, total = self.groups, self.total_rows
        if total is None:
            return sum((k * (s.rows or 1) ** 2 * s.l2 for s in shifts), Fraction(0))
        unit, row = (sum((s.l2 for s in shifts if bool(s.rows) == of), Fraction(0)) for of in (False, True))
        # Convex in the number of groups, with one row in each but one: largest in one, or in all of them.
        return max(unit + total**2 * row, k * unit + ((total - k + 1) ** 2 + k - 1) * row)


def bounding(part: Description) -> Bounding:
    """Return how contributions are limited, and refuse what no limit covers.

    Args:
        part: of kind "groups".
    """
    groups, where = part["groups"], "groups.beyond"
    keys, shown, total = groups["keys"], groups["shown"], groups["total_rows"]
    for name, given, of in (("groups.shown", shown, "public"), ("selection", part["selection"], "private")):
        require((given is not None) == (keys == of), name, f"expected for {of} keys, else null")
    require(groups["per_unit"] or total, "groups.per_unit", "nothing limits the groups of a unit")
    scaled = groups["beyond"] == "scale"
    require(not (scaled and (total or keys == "private")), where, "scaling needs public keys, no total_rows")
    for own in [*part["statistics"], *part["choices"]]:
        rows = own.get("rows")
        require(not total or not rows or rows >= total, "groups.total_rows", "a statistic has fewer rows")
        ones = [each["one"] for each in (own, own.get("complete") or {}) if "one" in each]
        parts = own["kind"] in _CUT or not any(one % _PARTS for one in ones)
        fit = parts and own["kind"] != "weighted" and not own.get("matched")
        require(not scaled or fit, where, f"{own['kind']} is not counted in parts of 2^-20")
    return Bounding(min(n for n in (groups["per_unit"], shown, total) if n), total, shown)
