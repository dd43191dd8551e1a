"""What one privacy unit adds: to one group, and from there to all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from sfumato.certificate.description import require
from sfumato.certificate.numbers import root_above

Description = Mapping[str, Any]
Counted = tuple[tuple[Fraction, int], ...]

_PARTS = 2**20  # contributions are scaled by whole numbers of these
_CORNERS = 10  # columns of which all combinations of ends are looked at


def half_range(bounds: Description) -> int:
    """Return the largest distance from the centre between bounds, and of 0 where a value may be missing."""
    require(bounds["lower"] <= bounds["upper"], bounds["name"], "the lower bound is above the upper one")
    ends = [bounds["lower"], bounds["upper"], *([Fraction(0)] if bounds.get("missing") else [])]
    return int(max(abs(end - bounds["centre"]) for end in ends))


def coarse_square(x: int, bits: int) -> int:
    """Return x² / 2^bits, rounded to the nearest whole number, halves up."""
    return x * x + (1 << bits >> 1) >> bits


def boxes(statistic: Description) -> list[tuple[str, Fraction]]:
    """Return each coordinate, and the largest number that one row, or one unit, adds or takes away."""
    kind, name, one = statistic["kind"], statistic.get("name", ""), statistic.get("one", Fraction(1))
    if kind == "bins":
        return [(own, one * statistic["weight"]) for own in statistic["names"]]
    if kind == "row_sums":
        half, squares, nulls = half_range(statistic), statistic["squares"], statistic["nulls"]
        found = [(name, Fraction(half))]
        if nulls is not None:
            found.append((nulls["name"], nulls["one"]))
        if squares is not None:
            top = coarse_square(half, squares["bits"]) - squares["centre"]
            found.append((squares["name"], max(abs(squares["centre"]), abs(top))))
        return found
    if kind == "weighted":
        most, values = statistic["weight"], statistic["values"]
        products = [] if values is None else [(values, most * -(-half_range(values) >> values["bits"]))]
        return [(name, most), *((own["name"], size) for own, size in products)]
    if kind == "cross":
        halves = [half_range(column) for column in statistic["columns"]]
        complete = [] if statistic["complete"] is None else [statistic["complete"]]
        sums = [(c["name"], Fraction(half)) for c, half in zip(statistic["columns"], halves, strict=True)]
        tops = [(own, halves[i] * halves[j] - centre, centre) for own, i, j, centre in _products(statistic)]
        squares = [(own, max(abs(centre), abs(top))) for own, top, centre in tops]
        return [*((c["name"], c["one"]) for c in complete), *sums, *squares]
    if kind == "margin":
        parts, whole = statistic["rank"] * (1 << statistic["bits"]), 1 << statistic["bits"]
        one *= max(math.ceil(parts), whole - math.floor(parts))
    elif kind == "distinct":
        one *= statistic["values"]
    elif kind == "unit_sum":
        one = Fraction(half_range(statistic))
    return [(name, statistic["radius"] if kind == "vector" else one)]


def _products(cross: Description) -> list[tuple[str, int, int, Fraction]]:
    """Return for each product its name, its columns, and what is taken off each."""
    columns, found = cross["columns"], []
    for pair in cross["pairs"]:
        i, j = pair["first"], pair["second"]
        require(i <= j < len(columns), pair["name"], "expected two columns in order")
        found.append((pair["name"], i, j, columns[i]["square_centre"] if i == j else Fraction(0)))
    return found


@dataclass(frozen=True)
class Shift:
    """How far one row, or one unit, moves a statistic of one group, over the scales of the noise.

    Args:
        rows: how many rows of a unit there may be; None where a unit counts as a whole.
        pairs: distances, and of how many numbers: at the corners of what is added.
        l1, l2: the largest sums of distances, and of their squares.
        round: what is added is in a ball without corners, of which `pairs` has the l1.
    """

    rows: int | None
    pairs: Counted
    l1: Fraction
    l2: Fraction
    round: bool = False


def shift(statistic: Description, scales: Mapping[str, Fraction]) -> Shift:
    """Return how far one row, or one unit, moves a statistic.

    Args:
        statistic: as described.
        scales: of the noise of its coordinates.
    """
    kind, rows, ratios = statistic["kind"], row_limit(statistic), [b / scales[n] for n, b in boxes(statistic)]
    pairs: Counted = tuple((ratio, 1) for ratio in ratios)
    if kind == "bins":
        pairs = ((max(ratios), 1),)
    elif kind == "nodes":
        pairs = ((ratios[0], statistic["levels"]),)
    elif kind == "vector" and statistic["ball"] == "linf":
        pairs = ((ratios[0], statistic["length"]),)
    l1, l2 = (sum((n * x**power for x, n in pairs), Fraction(0)) for power in (1, 2))
    if kind == "row_sums":
        l1, l2 = _row_sums(statistic, scales, ratios)
    elif kind == "cross" and len(statistic["columns"]) <= _CORNERS:
        l2 = min(l2, _cross_squares(statistic, scales))
    elif kind == "vector" and statistic["ball"] == "l2":
        l1 *= root_above(Fraction(statistic["length"]))
        return Shift(rows, ((l1, 1),), l1, l2, round=True)
    return Shift(rows, pairs, l1, l2)


def row_limit(statistic: Description) -> int | None:
    """Return how many rows of a unit count in a group; None where a unit counts as a whole."""
    return statistic.get("rows")


def _row_sums(s: Description, scales: Mapping[str, Fraction], ratios: Sequence[Fraction]) -> list[Fraction]:
    """Return L1 and L2 of one row, with a value or NULL."""
    half, squares, null = half_range(s), s["squares"], Fraction(0) if s["nulls"] is None else ratios[1]
    if squares is None:
        return [max(null, ratios[0]), max(null, ratios[0]) ** 2]
    one, other, part, centre = (
        scales[s["name"]],
        scales[squares["name"]],
        1 << squares["bits"],
        squares["centre"],
    )
    off = Fraction(1, 2) if squares["bits"] else Fraction(0)
    # L2 is convex in x² but for the rounding of squares, so largest at an end.
    l2 = [(x / one) ** 2 + ((abs(Fraction(x * x, part) - centre) + off) / other) ** 2 for x in (0, half)]
    # L1 rises where squares are at least their centre; up to the last x before that it is below a parabola.
    l1 = [abs(centre) / other, ratios[0] + abs(coarse_square(half, squares["bits"]) - centre) / other]
    if centre >= 1:
        last = min(half, math.isqrt(int((centre - 1 + off) * part)))
        x = min(part * other / (2 * one), Fraction(last))
        l1.append(x / one + (centre + off - x * x / part) / other)
    return [max(null, *l1), max(null**2, *l2)]


def _cross_squares(s: Description, scales: Mapping[str, Fraction]) -> Fraction:
    """Return L2 of one row: convex in the square of each column, so largest at combinations of ends."""
    weights = [1 / scales[column["name"]] ** 2 for column in s["columns"]]
    products = [(i, j, int(centre), 1 / scales[name] ** 2) for name, i, j, centre in _products(s)]
    common = math.lcm(*(w.denominator for w in weights), *(w.denominator for *_, w in products))
    whole, most = [int(w * common) for w in weights], 0
    parts = [(i, j, centre, int(w * common)) for i, j, centre, w in products]
    for x in product(*((0, half_range(column) ** 2) for column in s["columns"])):
        size = sum(w * t for w, t in zip(whole, x, strict=True))
        most = max(most, size + sum(w * ((x[i] - c) ** 2 if i == j else x[i] * x[j]) for i, j, c, w in parts))
    complete = s["complete"]
    return Fraction(most, common) + ((complete["one"] / scales[complete["name"]]) ** 2 if complete else 0)


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

    def corner(self, shift: Shift, groups: int) -> tuple[int, int]:
        """Return how many rows are in one group, and in how many groups, at a corner of what a unit adds."""
        if shift.rows is None:
            return 1, groups
        return (shift.rows, groups) if self.total_rows is None else (self.total_rows, 1)

    def pairs(self, shift: Shift, groups: int) -> Counted:
        """Return distances, and of how many numbers, at a corner."""
        rows, times = self.corner(shift, groups)
        return tuple((rows * x, times * n) for x, n in shift.pairs)

    def l1(self, shifts: Sequence[Shift], groups: int) -> Fraction:
        """Return the largest sum of distances in so many groups."""
        return sum((math.prod(self.corner(s, groups)) * s.l1 for s in shifts), Fraction(0))

    def l2(self, shifts: Sequence[Shift], groups: int) -> Fraction:
        """Return the largest sum of squared distances in so many groups."""
        if self.total_rows is None:
            return sum((groups * (s.rows or 1) ** 2 * s.l2 for s in shifts), Fraction(0))
        unit, row = (
            sum((s.l2 for s in shifts if (s.rows is None) is whole), Fraction(0)) for whole in (True, False)
        )
        # Convex in the number of groups, with one row in each but one: largest in one, or in all of them.
        rest = self.total_rows - groups
        return max(unit + self.total_rows**2 * row, groups * unit + ((rest + 1) ** 2 + groups - 1) * row)


def bounding(part: Description) -> Bounding:
    """Return how contributions are limited, and refuse what no limit covers.

    Args:
        part: of kind "groups".
    """
    groups, counted = part["groups"], [*part["statistics"], *part["choices"]]
    public, total, scaled = groups["keys"] == "public", groups["total_rows"], groups["beyond"] == "scale"
    require((groups["shown"] is not None) == public, "groups.shown", "expected for public keys, else null")
    private = groups["keys"] == "private"
    require((part["selection"] is not None) == private, "selection", "expected for private keys, else null")
    limits = [n for n in (groups["per_unit"], groups["shown"], total) if n is not None]
    require(groups["per_unit"] or total, "groups.per_unit", "nothing limits the groups of a unit")
    require(
        not scaled or (public and not total), "groups.beyond", "scaling needs public keys and no total_rows"
    )
    for own in counted:
        rows, where = row_limit(own), "groups.total_rows"
        require(total is None or rows is None or rows >= total, where, "a statistic has fewer rows")
        steps = [one["one"] for one in (own, own.get("complete")) if one and "one" in one]
        whole = own["kind"] == "quantiles" or not any(one % _PARTS for one in steps)
        fit = own["kind"] != "weighted" and not own.get("matched") and whole
        require(not scaled or fit, "groups.beyond", f"{own['kind']} is not counted in parts of 2^-20")
    return Bounding(min(limits), total, groups["shown"])
