"""What each shape of noise loses of one unit, in all of its groups together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, combinations, pairwise
from math import floor
from operator import mul

from sfumato.certificate.composition import Loss
from sfumato.certificate.contributions import MANY, Bounding, Description, Shift, boxes, half_range, shift
from sfumato.certificate.description import require
from sfumato.certificate.numbers import DIGITS, decimal, exp_above, tail_above, widened

Coordinates = Mapping[str, tuple[Description, Fraction]]  # their statistics, and the largest number of a row

# Kinds whose first number is not negative.
_COUNTS = ("units", "rows", "values", "vector_rows", "distinct", "weighted")


def noise_losses(part: Description, limits: Bounding) -> list[Loss]:
    """Return what the noise of a part loses: losses of which each is a bound.

    Args:
        part: of kind "groups".
        limits: of its contributions.
    Raises:
        CertificateError: a coordinate has no noise, or noise that hides nothing of its kind.
    """
    noise, statistics = part["noise"], part["statistics"]
    named = [(name, (statistic, box)) for statistic in statistics for name, box in boxes(statistic)]
    coordinates, scales = dict(named), {} if noise is None else noise["scales"]
    require(len(coordinates) == len(named), "statistics", "a coordinate is there twice")
    for name in {*coordinates} ^ {*scales}:
        require(False, f"noise.scales.{name}", "expected a scale of noise for each coordinate, and no other")
    if noise is None:
        return [Loss()]
    if noise["shape"] == "k_norm":
        return [_k_norm(noise, coordinates, limits)]
    shifts = [shift(statistic, scales) for statistic in statistics]
    if noise["shape"] == "independent" and noise["law"] == "laplace":
        return [Loss(pure=((limits.l1(shifts), 1),)), _laplace(shifts, limits)]
    if noise["shape"] == "independent":
        return [Loss(mu_squared=limits.l2(shifts))]
    require(limits.shown and not limits.total_rows, "noise.shape", "expected public keys and no total_rows")
    if noise["shape"] == "tree_laplace":
        return [Loss(pure=((_blocks(noise, limits) * limits.l1(shifts), 1),))]
    each = limits.l2(shifts) / limits.groups
    if noise["shape"] == "centred_gaussian":
        return [Loss(mu_squared=_centred(noise, coordinates, each, limits))]
    return [Loss(mu_squared=each * (_levels if "levels" in noise else _series)(noise, limits))]


def _laplace(shifts: Sequence[Shift], limits: Bounding) -> Loss:
    """Return the loss at corners, where each number moves as far as it can.

    Delta is largest at a corner of what a unit adds, as noise is log-concave. Statistics whose numbers do not
    move together as far as they can have a pure loss instead.
    """
    loss = Loss()
    for own in shifts:
        rows, times = limits.corner(own.rows)
        corner = Loss(laplace=tuple((rows * x, times * n) for x, n in own.pairs))
        loss += corner if own.pairs else Loss(pure=((rows * own.l1, times),))
    return loss


def _moves(names: Sequence[str], noise: Description, of: Coordinates, limits: Bounding) -> list[Fraction]:
    """Return how far numbers of one group move at most, over their scales."""
    return [limits.corner(of[n][0].get("rows"))[0] * of[n][1] / noise["scales"][n] for n in names]


def _k_norm(noise: Description, coordinates: Coordinates, limits: Bounding) -> Loss:
    """Return the norm of what a unit adds: the largest number, and how far units are off the count below."""
    order, joint, units = noise["order"], noise["joint"], noise["units"]
    require(sorted(order) == sorted(coordinates), "noise.order", "expected each coordinate once")
    kinds = {own["kind"] for own, _ in coordinates.values()}
    require(kinds.isdisjoint(MANY), "noise.shape", "K-norm noise is for single numbers")
    require(not joint or limits.shown, "noise.joint", "one draw for all groups needs public keys")
    if limits.total_rows is not None and limits.groups > 1:
        by_row = not joint and all(own.get("rows") for own, _ in coordinates.values())
        require(by_row, "noise.shape", "total_rows is for rows, by group")
    if joint or units:  # else the largest number is the norm, whichever limits the others
        require(noise["body"] == "cone", "noise.body", "a cube is for noise of each group")
        _check_limits(order, 1 + units, coordinates)
    moves = _moves(order, noise, coordinates, limits)
    norm = max(moves[units:]) + (abs(moves[0] - moves[1]) if units else 0)
    groups = limits.groups if limits.total_rows is None else 1
    return Loss(pure=((norm, 1 if joint else groups),))


def _check_limits(order: Sequence[str], counts: int, coordinates: Coordinates) -> None:
    """Refuse numbers of which the first ones do not limit all that come after them."""
    require(len(order) >= counts, "noise", "expected a number below units")
    for place, name in enumerate(order[:counts]):
        own, rest = coordinates[name][0], order[place + 1 :]
        if own["kind"] == "unit_sum" and not rest:
            least = min(own["lower"], Fraction(0)) if own["missing"] else own["lower"]
            require(half_range(own) and least >= own["centre"], name, "may be negative, so limits nothing")
        else:
            require(own["kind"] in _COUNTS and name == own["name"], name, "is no count, so limits nothing")
        for other in rest:
            require(_limits(own, coordinates[other][0]), name, f"does not limit {other}")


def _limits(own: Description, other: Description) -> bool:
    """Whether a count is at least the part of its largest value that another number is of its own."""
    kind, same = own["kind"], other.get("rows") == own.get("rows") is not None
    if kind == "values":
        same &= other["kind"] == "row_sums" and other["nulls"] is None and other["column"] == own["column"]
    return kind == "units" or (kind in ("rows", "values") and same) or (kind == "weighted" and own is other)


def _centred(noise: Description, coordinates: Coordinates, l2: Fraction, limits: Bounding) -> Fraction:
    """Return the squared distance with a number in common, moved by the t that makes it the least.

    It is a parabola of t, and k times what a group of the unit adds to it: the highest of some lines.
    """
    counts, k, fine = noise["counts"], limits.groups, 1 << noise["fine_bits"]
    names = [count["name"] for count in counts]
    known = len({*names}) == len(names) <= 2 and {*names} <= {*coordinates}
    require(known, "noise.counts", "expected one or two coordinates")
    _check_limits([*names, *sorted({*coordinates} - {*names})], len(names), coordinates)
    moves = _moves(names, noise, coordinates, limits)
    weights = [count["weight"] / noise["scales"][count["name"]] for count in counts]
    square = 1 / noise["common"] ** 2 + (limits.shown or 0) * sum(w * w for w in weights)
    # A value less twice a slope times t: of 0, of the largest numbers, and where a second count is 0.
    zero, whole = Fraction(0), sum(map(mul, moves, weights), Fraction(0))
    lines = {(zero, zero), (l2, whole), (moves[0] ** 2, moves[0] * weights[0])}
    turns = [k * b / square for _, b in lines]
    turns += [(c - d) / (b - e) / 2 for (c, b), (d, e) in combinations(lines, 2) if b != e]
    near = {Fraction(floor(t * fine) + i, fine) for t in turns for i in (0, 1)}
    return min(Fraction(square * t * t + k * max(c - 2 * b * t for c, b in lines)) for t in near)


def _levels(noise: Description, limits: Bounding) -> Fraction:
    """Return the largest squared length of what 1 in each group of a unit adds to all levels."""
    found, cells = Fraction(0), [{"cells": 1, "times": limits.shown}]
    require(noise["levels"][0]["totals"] == cells, "noise.levels[0]", "expected a total for each group")
    for place, level in enumerate(noise["levels"]):
        left, squares = limits.groups, 0
        whole = sum(total["cells"] * total["times"] for total in level["totals"])
        require(whole == limits.shown, f"noise.levels[{place}]", "the totals are not of all groups")
        for total in sorted(level["totals"], key=lambda total: -total["cells"]):
            full, part = divmod(min(left, total["cells"] * total["times"]), total["cells"])
            squares += full * total["cells"] ** 2 + part**2
            left -= full * total["cells"] + part
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
    tried = [*range(0, most, 1 + (most * len(weights) >> 20)), most]
    return max(Fraction(limits.groups * squared(j), (i + 1) * one**2) for i, j in pairwise(tried))


def _blocks(noise: Description, limits: Bounding) -> int:
    """Return in how many blocks a step is: one on each level."""
    blocks = noise["blocks"]
    nested = blocks[0] == 1 and all(one < other and not other % one for one, other in pairwise(blocks))
    require(nested, "noise.blocks", "expected 1 first, and then multiples of the one before")
    require(noise["steps"] * noise["series"] == limits.shown, "noise.steps", "not all groups are steps")
    return len(blocks)


def lone_chance(part: Description) -> Fraction:
    """Return a bound of the chance that a group is shown that one unit alone makes large enough.

    Args:
        part: of kind "groups", with a threshold.
    Raises:
        CertificateError: the number is none of units, counted one by one, or has noise of another law.
    """
    rule, noise = part["selection"], part["noise"]
    units = [s for s in part["statistics"] if s["kind"] == "units" and s["name"] == rule["name"]]
    require(units and units[0]["one"] == 1, "selection.name", "expected units, in steps of one")
    require(rule["threshold"] > 1, "selection.threshold", "a group of one unit is shown as often as not")
    # 1 + round(Z) reaches a whole threshold where Z reaches it less 3/2.
    reach = Fraction(2 * rule["threshold"] - 3, 2) / noise["scales"][rule["name"]]
    if noise["shape"] == "independent":
        return exp_above(-reach) / 2 if noise["law"] == "laplace" else tail_above(reach)
    own = noise["shape"] == "k_norm" and not noise["joint"] and noise["order"][0] == rule["name"]
    require(own, "selection.name", "the tail of this noise is unknown")
    return _k_norm_tail(reach, len(noise["order"]) - noise["units"], noise["units"])


def _k_norm_tail(reach: Fraction, numbers: int, units: bool) -> Fraction:
    """Return a bound of the tail of the first number of K-norm noise of one group.

    The count that limits so many numbers, itself included, has the law of a signed Erlang number of a shape
    that is any of 1 to `numbers`. Units above it are another signed exponential number off it.
    """
    with localcontext(DIGITS):
        x, none = decimal(reach), Decimal(0)
        density = (-x).exp()
        erlang, term, total, off = [none], density, none, none
        for j in range(1, numbers + 2):
            erlang.append(erlang[-1] + term)  # the tail of Erlang of shape j
            term *= x / j
        for j in range(1, numbers + 1):
            off = (erlang[j] + off) / 2  # of Erlang less an exponential number
            both = (erlang[j + 1] + off + density / 2**j) / 2
            total += both if units else erlang[j]
        return widened(total / numbers / 2, total)
