"""What each shape of noise loses of one unit, in so many groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

from sfumato.certificate.composition import Loss
from sfumato.certificate.contributions import Bounding, Description, Shift, boxes, half_range, shift
from sfumato.certificate.description import require

# For a number of groups, losses of which each is a bound.
NoiseLoss = Callable[[int], Sequence[Loss]]
Ordered = Sequence[tuple[str, Description]]  # coordinates with their statistics; those come first that limit

_MOST_SUMS = 1 << 20
_MANY = ("bins", "nodes", "vector")  # kinds of which a group has many numbers
_COUNTS = (
    "units",
    "rows",
    "values",
    "vector_rows",
    "distinct",
    "weighted",
)  # whose first number is not negative


def noise_loss(part: Description, limits: Bounding) -> NoiseLoss:
    """Return what the noise of a part loses.

    Args:
        part: of kind "groups".
        limits: of its contributions.
    Raises:
        CertificateError: a coordinate has no noise, or noise that hides nothing of its kind.
    """
    noise, statistics = part["noise"], part["statistics"]
    of = [(name, statistic, box) for statistic in statistics for name, box in boxes(statistic)]
    scales = {} if noise is None else noise["scales"]
    require(len({name for name, *_ in of}) == len(of), "statistics", "a coordinate is there twice")
    for name in {name for name, *_ in of} ^ {*scales}:
        require(False, f"noise.scales.{name}", "expected a scale of noise for each coordinate, and no other")
    if noise is None:
        return lambda groups: [Loss()]
    if noise["shape"] == "k_norm":
        return _k_norm(noise, of, limits)
    shifts = [shift(statistic, scales) for statistic in statistics]
    if noise["shape"] == "independent" and noise["law"] == "laplace":
        return lambda groups: _laplace(shifts, limits, groups)
    if noise["shape"] == "independent":
        return lambda groups: [Loss(mu_squared=limits.l2(shifts, groups))]
    public = limits.shown is not None and limits.total_rows is None
    require(public, "noise.shape", "expected public keys and no total_rows")
    if noise["shape"] == "tree_laplace":
        blocks = noise["blocks"]
        nested = blocks[0] == 1 and all(one < other and not other % one for one, other in pairwise(blocks))
        require(nested, "noise.blocks", "expected 1 first, and then multiples of the one before")
        require(noise["steps"] * noise["series"] == limits.shown, "noise.steps", "not all groups are steps")
        most = len(blocks) * limits.l1(shifts, limits.groups)
        return lambda groups: [Loss(pure=((most, 1),))]
    if noise["shape"] == "centred_gaussian":
        moved = _centred(noise, of, shifts, limits)
    elif noise["shape"] == "levels_gaussian":
        moved = limits.l2(shifts, 1) * _levels(noise, limits)
    else:
        moved = limits.l2(shifts, 1) * _series(noise, limits)
    return lambda groups: [Loss(mu_squared=moved)]


def _laplace(shifts: Sequence[Shift], limits: Bounding, groups: int) -> list[Loss]:
    """Return one pure loss of all; and losses at corners, where each number moves as far as it can.

    Delta is largest at a corner of what a unit adds, as noise is log-concave. Statistics whose numbers do not
    move together as far as they can have a pure loss instead.
    """
    found = [Loss(pure=((limits.l1(shifts, groups), 1),))]
    for apart in (False, True):
        pure = {
            i for i, s in enumerate(shifts) if s.round or (apart and s.l1 < sum(x * n for x, n in s.pairs))
        }
        loss = Loss()
        for i, own in enumerate(shifts):
            rows, times = limits.corner(own, groups)
            corner = Loss(laplace=limits.pairs(own, groups))
            loss += Loss(pure=((rows * own.l1, times),)) if i in pure else corner
        found.append(loss)
    return found


def _k_norm(
    noise: Description, of: Sequence[tuple[str, Description, Fraction]], limits: Bounding
) -> NoiseLoss:
    order, joint = noise["order"], noise["joint"]
    total = None if limits.groups == 1 else limits.total_rows  # in one group statistics have as many rows
    named = {name: (statistic, box) for name, statistic, box in of}
    require(sorted(order) == sorted(named), "noise.order", "expected each coordinate once")
    numbers = [(name, named[name][0]) for name in order]
    kinds, rows = {s["kind"] for _, s in numbers}, [s.get("rows") for _, s in numbers]
    require(kinds.isdisjoint(_MANY), "noise.shape", "K-norm noise is for single numbers")
    require(not joint or limits.shown, "noise.joint", "one draw for all groups needs public keys")
    require(total is None or (not joint and all(rows)), "noise.shape", "total_rows is for rows, by group")
    size = [
        named[name][1] * (1 if r is None else total or r) / noise["scales"][name]
        for name, r in zip(order, rows, strict=True)
    ]
    if noise["body"] == "cube":
        require(not joint and not noise["units"], "noise.body", "a cube is for noise of each group")
        sides = [(max(size), Fraction(0))]
    else:
        count = 1 + noise["units"]
        check_limits(numbers, count)
        n, most = (
            size[noise["units"] :][0] if len(size) >= count else Fraction(0),
            max(size[count:], default=0),
        )
        corners = [(n, Fraction(0)), (n, Fraction(most)), (Fraction(0), Fraction(0))]
        sides = [_sides(size[0] if noise["units"] else None, *corner) for corner in corners]
    if joint:
        whole = max(a for a, _ in sides) + max(b for _, b in sides)
        return lambda groups: [Loss(pure=((whole, 1),))]
    each = max(a + b for a, b in sides)
    return lambda groups: [Loss(pure=((each, groups if total is None else 1),))]


def _sides(u: Fraction | None, n: Fraction, t: Fraction) -> tuple[Fraction, Fraction]:
    """Return the least a and b with a point in the body times a, less the body times b: its norm is a + b."""
    a = (max(abs(n), t) + n) / 2
    if u is None:
        return a, a - n
    a = max(a, u + a - n)
    return a, a - u


def check_limits(numbers: Ordered, counts: int) -> None:
    """Refuse counts that do not limit what comes after them.

    Args:
        numbers: coordinates in order, with their statistics.
        counts: how many of them come first and limit.
    """
    require(len(numbers) >= counts, "noise", "expected a number below units")
    for place, (name, own) in enumerate(numbers[:counts]):
        rest = numbers[place + 1 :]
        if own["kind"] == "unit_sum" and not rest:
            least = min(own["lower"], Fraction(0)) if own["missing"] else own["lower"]
            require(half_range(own) and least >= own["centre"], name, "may be negative, so limits nothing")
        else:
            require(own["kind"] in _COUNTS and name == own["name"], name, "is no count, so limits nothing")
        for other, statistic in rest:
            require(_limits(own, statistic), name, f"does not limit {other}")


def _limits(own: Description, other: Description) -> bool:
    """Whether a count is at least the part of its largest value that another number is of its own."""
    if own["kind"] in ("units", "weighted"):
        return own["kind"] == "units" or own is other
    same = other.get("rows") == own.get("rows") is not None
    if own["kind"] != "values":
        return own["kind"] == "rows" and same
    sums = other["kind"] == "row_sums" and other["nulls"] is None
    return same and sums and bool(own["column"] == other["column"])


def _centred(
    noise: Description,
    of: Sequence[tuple[str, Description, Fraction]],
    shifts: Sequence[Shift],
    limits: Bounding,
) -> Fraction:
    """Return the squared distance with a number in common, moved by the t that makes it about the least."""
    counts, named = noise["counts"], {name: (statistic, box) for name, statistic, box in of}
    counted = [count["name"] for count in counts]
    known = len({*counted}) == len(counted) <= 2 and {*counted} <= {*named}
    require(known, "noise.counts", "expected one or two coordinates")
    check_limits(
        [(name, named[name][0]) for name in counted + [n for n in named if n not in counted]], len(counts)
    )
    alone = all(len(boxes(named[name][0])) == 1 for name in counted)
    require(alone, "noise.counts", "expected counts by themselves")
    own = {id(named[name][0]) for name in counted}
    statistics = {id(statistic): statistic for _, statistic, _ in of}
    others = [s for key, s in zip(statistics, shifts, strict=True) if key not in own]
    size = [box * (statistic.get("rows") or 1) for statistic, box in (named[name] for name in counted)]
    weights = [(count["weight"], noise["scales"][count["name"]]) for count in counts]
    rest, common = limits.l2(others, 1), noise["common"]

    def moved(t: Any, weights: Any, size: Any, rest: Any, common: Any) -> Any:
        near = [(t * w / s) ** 2 for w, s in weights]
        far = [((box - t * w) / s) ** 2 for box, (w, s) in zip(size, weights, strict=True)]
        inside = max(sum(far) + rest, far[0] + sum(near[1:]))
        return (t / common) ** 2 + limits.shown * sum(near) + limits.groups * max(inside - sum(near), 0)

    # Convex in t: by thirds in floats, then exactly at the nearest points of the fine grid.
    near = [(w, float(s)) for w, s in weights], [float(x) for x in size], float(rest), float(common)
    low, high = 0.0, max(near[1])
    for _ in range(40):
        one, other = (2 * low + high) / 3, (low + 2 * high) / 3
        low, high = (low, other) if moved(one, *near) <= moved(other, *near) else (one, high)
    fine = 1 << noise["fine_bits"]
    around = (Fraction(round(low * fine) + i, fine) for i in (-1, 0, 1))
    return min(Fraction(moved(t, weights, size, rest, common)) for t in around)


def _levels(noise: Description, limits: Bounding) -> Fraction:
    """Return the largest squared length of what 1 in each group of a unit adds to all levels."""
    found, cells = Fraction(0), [{"cells": 1, "times": limits.shown}]
    require(noise["levels"][0]["totals"] == cells, "noise.levels[0]", "expected a total for each group")
    for place, level in enumerate(noise["levels"]):
        left, squares = limits.groups, 0
        whole = sum(total["cells"] * total["times"] for total in level["totals"])
        require(whole == limits.shown, f"noise.levels[{place}]", "the totals are not of all groups")
        for total in sorted(level["totals"], key=lambda total: -total["cells"]):
            full = min(total["times"], left // total["cells"])
            part = left - full * total["cells"] if full < total["times"] else 0
            squares, left = (
                squares + full * total["cells"] ** 2 + part**2,
                left - full * total["cells"] - part,
            )
        found += squares / level["size"] ** 2
    return found


def _series(noise: Description, limits: Bounding) -> Fraction:
    """Return the largest squared length of what 1 in each step of a unit adds to weighted sums.

    Weights fall, so that columns of sums have most in common where they are side by side and first.
    """
    weights, series, one = noise["weights"], noise["series"], 1 << noise["weight_bits"]
    falling = weights[0] == one and all(later <= earlier for earlier, later in pairwise(weights))
    require(falling, "noise.weights", "expected 1 first, and then none above the one before")
    require(len(weights) * series == limits.shown, "noise.series", "not all groups are steps")
    sums, most = [0, *accumulate(weights)], min(limits.groups, len(weights))

    def squared(columns: int) -> int:
        return sum((sums[t + 1] - sums[max(0, t + 1 - columns)]) ** 2 for t in range(len(weights)))

    if series == 1:
        return Fraction(squared(most), one**2)
    # Of many columns some numbers: what is between two of them has at most the larger one's square.
    tried = [*range(0, most, 1 + most * len(weights) // _MOST_SUMS), most]
    return max(Fraction(limits.groups * squared(j), (i + 1) * one**2) for i, j in pairwise(tried))
