"""What one privacy unit adds to one group and to all of them, and what each shape of noise loses of that."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, combinations, pairwise
from typing import NamedTuple

from sfumato.certificate.composition import Counted, Loss, any_of_many, k_norm_tail, sum_exactly, tail_above
from sfumato.certificate.description import Description, require, take

# A name, columns of which it is the product, the largest one, how far rounding moves it, and its centre.
Product = tuple[str, frozenset[int], Fraction, Fraction, Fraction]
Numbers = list[tuple[str, Fraction]]  # the largest that one row, or one unit, adds or takes away
Moves = Mapping[str, Fraction]  # how far numbers of one group move at most, over their scales

_SUMS = ("row_sums", "cross")  # kinds with products of columns
_MANY = ("bins", "nodes", "vector")  # kinds of which a group has many numbers
# Kinds whose first number is not negative.
_COUNTS = ("units", "rows", "values", "vector_rows", "distinct", "weighted")
_CUT = ("nodes", "margin", "quantiles")  # are counted of leaves, whose counts are cut towards zero
_TRIED = 10  # columns of which all combinations of 0 and an end are looked at
_PARTS = 2**20  # contributions are scaled by whole numbers of these


def half_range(bounds: Description) -> int:
    """Return the largest distance from the centre between bounds, and of 0 where a value may be missing."""
    require(bounds["lower"] <= bounds["upper"], bounds["name"], "the lower bound is above the upper one")
    ends = [bounds["lower"], bounds["upper"], *([Fraction(0)] if bounds.get("missing") else [])]
    return int(max(abs(end - bounds["centre"]) for end in ends))


def boxes(statistic: Description) -> Numbers:
    """Return each coordinate, and the largest number that one row, or one unit, adds or takes away."""
    kind, one = statistic["kind"], statistic.get("one", Fraction(1))
    if kind in _SUMS:
        products, beside = _sums(statistic)
        return [(n, max(abs(c), abs(math.floor(top + off) - c))) for n, _, top, off, c in products] + beside
    if kind == "bins":
        return [(name, one * statistic["weight"]) for name in statistic["names"]]
    if kind == "weighted":
        most, values = statistic["weight"], statistic["values"]
        own = [] if values is None else [(values["name"], most * -(-half_range(values) >> values["bits"]))]
        return [(statistic["name"], most), *own]
    if kind == "margin":
        parts, whole = statistic["rank"] * (1 << statistic["bits"]), 1 << statistic["bits"]
        one *= max(math.ceil(parts), whole - math.floor(parts))
    elif kind == "unit_sum":
        one = Fraction(half_range(statistic))
    return [(statistic["name"], statistic.get("radius", one * statistic.get("values", 1)))]


def _sums(statistic: Description) -> tuple[list[Product], Numbers]:
    """Return the columns of a row, then products of two of them; and what is counted beside."""
    columns, squares = statistic.get("columns", [statistic]), statistic.get("squares")
    pairs = statistic.get("pairs", [squares | {"first": 0, "second": 0}] if squares else [])
    halves, zero = [Fraction(half_range(column)) for column in columns], Fraction(0)
    found = [(own["name"], frozenset([i]), halves[i], zero, zero) for i, own in enumerate(columns)]
    for pair in pairs:
        i, j, bits = pair["first"], pair["second"], pair.get("bits", 0)
        require(i <= j < len(columns), pair["name"], "expected two columns in order")
        centre = pair["centre"] if squares else columns[i]["square_centre"] if i == j else zero
        largest = halves[i] * halves[j] / (1 << bits)
        found.append((pair["name"], frozenset([i, j]), largest, Fraction(bits > 0, 2), centre))
    alike = len({of for _, of, *_ in found[len(columns) :]}) < len(pairs)
    require(not alike, "pairs", "a product is there twice")
    beside = statistic.get("complete", statistic.get("nulls"))
    return found, [(beside["name"], beside["one"])] if beside else []


def _sum_row_norms(statistic: Description, scales: Mapping[str, Fraction]) -> tuple[Fraction, Fraction]:
    """Return L1 and L2 of one row.

    L2 is convex in the square of each column, but for rounding, so largest where each is 0 or at an end. For
    L1 products are at their ends, and a square may be below its centre, within a parabola whose top counts.
    """
    products, beside = _sums(statistic)
    l1, l2 = Fraction(0), Fraction(0)
    ends, gains = dict[frozenset[int], Fraction](), dict[frozenset[int], Fraction]()
    for name, of, largest, off, centre in products:
        low, high = ((abs(x - centre) + off) / scales[name] for x in (0, largest))
        most, top = abs(math.floor(largest + off) - centre) / scales[name], largest / scales[name]
        end = ends.setdefault(of, top)  # of the column, if this is its square
        part = min(end / top / 2, Fraction(1)) if top else Fraction(1)
        l1, l2 = l1 + max(most, low - end * (1 - part) - top * part**2), l2 + low**2
        gains[of] = gains.get(of, 0) + high**2 - low**2
    # Of two columns they are not negative, so only columns with losses may be 0 where the sum is largest.
    losses = [of for of, gain in gains.items() if gain < 0]
    if len(losses) > _TRIED:
        gains, losses = {of: max(gain, Fraction(0)) for of, gain in gains.items()}, []
    take(len(gains) << len(losses))
    zeros = (frozenset().union(*own) for n in range(len(losses) + 1) for own in combinations(losses, n))
    l2 += max(sum_exactly(gain for of, gain in gains.items() if not of & zero) for zero in zeros)
    extra = sum_exactly(one / scales[name] for name, one in beside)
    if statistic["kind"] == "cross":
        return l1 + extra, l2 + extra**2
    return max(l1, extra), max(l2, extra**2)  # a row has a value, or is NULL


class Shift(NamedTuple):
    """How far one row, or one unit, moves a statistic of one group, over the scales of the noise.

    Args:
        rows: how many rows of a unit there may be; None where a unit counts as a whole.
        each: distances, and of how many numbers each.
        l1, l2: the largest sums of distances, and of their squares.
    """

    rows: int | None
    each: Counted
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
    if kind in _MANY:  # one bin, a node on each level, one entry or all
        many = statistic["levels"] if kind == "nodes" else statistic["length"] if ball == "linf" else 1
        pairs = ((max(pairs)[0], many),)
    l1, l2 = (sum_exactly(n * x**power for x, n in pairs) for power in (1, 2))
    if kind in _SUMS:
        l1, l2 = map(min, (l1, l2), _sum_row_norms(statistic, scales))
    elif ball == "l2":
        l1 *= Fraction(1 + math.isqrt((statistic["length"] << 512) - 1), 1 << 256)  # the root, rounded up
        pairs = ((l1, 1),)
    return Shift(statistic.get("rows"), pairs, l1, l2)


class Bounding(NamedTuple):
    """How the contributions of one unit are limited.

    Args:
        groups: the most groups that it is in; 1 where it adds as much to all as to one, in the L2 norm.
        total_rows: the most rows in all of them, or None.
        shown: the number of public groups, or None.
    """

    groups: int
    total_rows: int | None
    shown: int | None

    def corner(self, rows: int | None) -> tuple[int, int]:
        """Return how many rows are in one group, and in how many groups, at a corner of what a unit adds."""
        if rows is None or self.total_rows is None:
            return rows or 1, self.groups
        return self.total_rows, 1

    def l2(self, shifts: Sequence[Shift]) -> Fraction:
        """Return the largest sum of squared distances in all groups."""
        k, most = self.groups, self.total_rows
        if most is None:
            return sum_exactly(k * (s.rows or 1) ** 2 * s.l2 for s in shifts)
        unit, row = (sum_exactly(s.l2 for s in shifts if bool(s.rows) == by_row) for by_row in (False, True))
        # Convex in the number of groups, with one row in each but one: largest in one, or in all of them.
        return max(unit + most**2 * row, k * unit + ((most - k + 1) ** 2 + k - 1) * row)

    def laplace(self, shifts: Sequence[Shift]) -> Loss:
        """Return the loss of independent Laplace noise of each number, or of numbers together."""
        loss = Loss()
        for own in shifts:
            rows, times = self.corner(own.rows)
            coins = tuple((rows * x, times * n) for x, n in own.each)
            loss += Loss(coins, times * rows * own.l1, times * rows**2 * own.l2 / 2)
        return loss


def bounding(part: Description) -> Bounding:
    """Return how contributions are limited, and refuse what no limit covers.

    Args:
        part: of kind "groups".
    """
    groups, where = part["groups"], "groups.beyond"
    keys, shown, most = groups["keys"], groups["shown"], groups["total_rows"]
    for name, given, of in (("groups.shown", shown, "public"), ("selection", part["selection"], "private")):
        require((given is not None) == (keys == of), name, f"expected for {of} keys, else null")
    require(groups["per_unit"] or most, "groups.per_unit", "nothing limits the groups of a unit")
    scaled, shared = groups["beyond"] != "sample", groups["beyond"] == "share"
    known = not most and (keys == "private") == shared
    require(not scaled or known, where, "scaling needs public keys, sharing private ones, no total_rows")
    drawn = part["noise"].get("law"), (part["selection"] or {}).get("kind"), part["choices"]
    require(not shared or drawn == ("gaussian", "threshold", []), where, "sharing needs a Gaussian threshold")
    for own in [*part["statistics"], *part["choices"]]:
        rows = own.get("rows")
        require(not most or not rows or rows >= most, "groups.total_rows", "a statistic has fewer rows")
        ones = [each["one"] for each in (own, own.get("complete") or {}) if "one" in each]
        parts = own["kind"] in _CUT or not any(one % _PARTS for one in ones)
        fit = parts and own["kind"] != "weighted" and not own.get("matched")
        require(not scaled or fit, where, f"{own['kind']} is not counted in parts of 2^-20")
    return Bounding(1 if shared else min(n for n in (groups["per_unit"], shown, most) if n), most, shown)


def noise_loss(part: Description, limits: Bounding) -> Loss:
    """Return what the noise of a part loses.

    Args:
        part: of kind "groups".
        limits: of its contributions.
    Raises:
        CertificateError: a coordinate has no noise, or noise that hides nothing of its kind.
    """
    noise, statistics = part["noise"], part["statistics"]
    named = [(name, own, box) for own in statistics for name, box in boxes(own)]
    numbers, scales = {name: own for name, own, _ in named}, noise["scales"]
    fit = sorted(scales) == sorted(name for name, *_ in named)
    require(fit, "noise.scales", "expected one for each coordinate, which is there once, and no other")
    moves = {name: limits.corner(own.get("rows"))[0] * box / scales[name] for name, own, box in named}
    if noise["shape"] == "k_norm":
        return _k_norm(noise, numbers, moves, limits)
    shifts = [shift(statistic, scales) for statistic in statistics]
    if noise["shape"] == "independent":
        return Loss(mu_squared=limits.l2(shifts)) if noise["law"] == "gaussian" else limits.laplace(shifts)
    require(limits.shown and not limits.total_rows, "noise.shape", "expected public keys and no total_rows")
    if "series" in noise:
        steps = noise["steps"] if "steps" in noise else len(noise["weights"])
        require(steps * noise["series"] == limits.shown, "noise.series", "not all groups are steps")
    if noise["shape"] == "tree_laplace":  # a step is in one block on each level
        return pure(len(noise["blocks"]) * limits.laplace(shifts).pure)
    each = limits.l2(shifts) / limits.groups
    if noise["shape"] == "centred_gaussian":
        return Loss(mu_squared=_center_distance(noise, numbers, moves, each, limits))
    return Loss(mu_squared=each * (_levels if "levels" in noise else _series)(noise, limits))


def pure(loss: Fraction, times: int = 1, part: int = 2) -> Loss:
    """Return pure losses, whose rho of zero-concentrated DP is a part of their square."""
    return Loss(((loss, times),), times * loss, times * loss**2 / part)


def _k_norm(noise: Description, numbers: Description, moves: Moves, limits: Bounding) -> Loss:
    """Return the norm of what a unit adds: the largest number, and how far units are off the count below."""
    order, joint, units = noise["order"], noise["joint"], noise["units"]
    single = not any(own["kind"] in _MANY for own in numbers.values())
    require(single, "noise.shape", "K-norm noise is for single numbers")
    require(not joint or limits.shown, "noise.joint", "one draw for all groups needs public keys")
    # Where each group has its own draw, the largest number is the norm, whichever limits the others.
    counts = 1 + units if joint or units else 0
    require(not counts or noise["body"] == "cone", "noise.body", "a cube is for noise of each group")
    _check_limits(order, counts, numbers)
    norm = max(moves[name] for name in order[units:])
    norm += abs(moves[order[0]] - moves[order[1]]) if units else 0
    # The norm of rows in several groups is at most that of all of them in one.
    one = joint or (limits.total_rows and all(own.get("rows") for own in numbers.values()))
    return pure(norm, 1 if one else limits.groups)


def _check_limits(order: Sequence[str], counts: int, numbers: Description) -> None:
    """Refuse numbers of which the first ones do not limit all that come after them."""
    known = sorted(order) == sorted(numbers) and len(order) >= counts
    require(known, "noise", "expected each coordinate once, in order, and one below units")
    for place, name in enumerate(order[:counts]):
        own = numbers[name]
        if own["kind"] == "unit_sum":
            least = min(own["lower"], Fraction(0)) if own["missing"] else own["lower"]
            count = least >= own["centre"]
        else:
            count = own["kind"] in _COUNTS and name == own["name"]
        fit = count and all(_limits(own, numbers[other]) for other in order[place + 1 :])
        require(fit, name, "may be negative, or does not limit all numbers after it")


def _limits(own: Description, other: Description) -> bool:
    """Whether a count is at least the part of its largest value that another number is of its own."""
    rows = other.get("rows") == own.get("rows") is not None
    sums = other["kind"] == "row_sums" and other["nulls"] is None and other["column"] == own.get("column")
    return {"units": True, "rows": rows, "values": rows and sums}.get(own["kind"], own is other)


def _center_distance(
    noise: Description, description: Description, moves: Moves, l2: Fraction, limits: Bounding
) -> Fraction:
    """Return the squared distance with a number in common, moved by the t that makes it the least.

    It is a parabola of t, and k times what a group of the unit adds to it: the highest of some lines.
    """
    k, fine, names = limits.groups, 1 << noise["fine_bits"], [count["name"] for count in noise["counts"]]
    require(len(names) <= 2, "noise.counts", "expected one or two coordinates")
    _check_limits([*names, *sorted({*description} - {*names})], len(names), description)
    each = [(moves[own["name"]], own["weight"] / noise["scales"][own["name"]]) for own in noise["counts"]]
    square = 1 / noise["common"] ** 2 + (limits.shown or 0) * sum(w * w for _, w in each)
    # A value less twice a slope times t: of 0, of the largest numbers, and where a second count is 0.
    zero, ((first, weight), *_) = Fraction(0), each
    lines = {(zero, zero), (l2, sum_exactly(move * w for move, w in each)), (first**2, first * weight)}
    turns = [k * b / square for _, b in lines]
    turns += [(c - d) / (b - e) / 2 for (c, b), (d, e) in combinations(lines, 2) if b != e]
    near = {Fraction(math.floor(t * fine) + i, fine) for t in turns for i in (0, 1)}
    return min(Fraction(square * t * t + k * max(c - 2 * b * t for c, b in lines)) for t in near)


def _levels(noise: Description, limits: Bounding) -> Fraction:
    """Return the largest squared length of what 1 in each group of a unit adds to all levels."""
    found = Fraction(0)
    for place, level in enumerate(noise["levels"]):
        left, squares = limits.groups, 0
        whole = sum(own["cells"] * own["times"] for own in level["totals"])
        require(whole == limits.shown, f"noise.levels[{place}]", "the totals are not of all groups")
        for own in sorted(level["totals"], key=lambda own: -own["cells"]):
            full, part = divmod(min(left, own["cells"] * own["times"]), own["cells"])
            squares += full * own["cells"] ** 2 + part**2
            left -= full * own["cells"] + part
        found += squares / level["size"] ** 2
    return found


def _series(noise: Description, limits: Bounding) -> Fraction:
    """Return the largest squared length of what 1 in each step of a unit adds to weighted sums.

    Weights fall, so that columns of sums have most in common where they are side by side and first. With
    several series the unit's steps are divided, at the best rate of all numbers of columns.
    """
    weights, one = noise["weights"], 1 << noise["weight_bits"]
    falling = weights[0] == one and all(later <= earlier for earlier, later in pairwise(weights))
    require(falling, "noise.weights", "expected 1 first, and then none above the one before")
    sums, most = [0, *accumulate(weights)], min(limits.groups, len(weights))

    def squared(columns: int) -> int:
        take(len(weights) >> 2)
        return sum((sums[t + 1] - sums[max(0, t + 1 - columns)]) ** 2 for t in range(len(weights)))

    # Of many columns some numbers: what is between two of them has at most the larger one's square.
    tried = range(0, most, 1 + (most * len(weights) >> 20)) if noise["series"] > 1 else [most - 1]
    return max(Fraction(limits.groups * squared(j), (i + 1) * one**2) for i, j in pairwise([*tried, most]))


def lone_chance(part: Description, limits: Bounding) -> Fraction:
    """Return a bound of the chance that groups are shown that one unit alone makes large enough.

    A unit that shares a weight may be in any number of groups. From each power of two to the next its share
    is at most that of the power, and its groups are at most those before the next.

    Args:
        part: of kind "groups", with a threshold.
        limits: of its contributions.
    Raises:
        CertificateError: the number is none of units, counted one by one, or has noise of another law.
    """
    rule, noise, name = part["selection"], part["noise"], part["selection"]["name"]
    one, many = 1, [limits.groups]
    if part["groups"]["beyond"] == "share":
        one, most = _PARTS, part["groups"]["per_unit"]
        many = [min((2 << i) - 1, most) for i in range(most.bit_length())]
    known = {"kind": "units", "name": name, "one": one} in part["statistics"]
    require(known, "selection.name", f"expected units, in steps of 1/{one}")
    require(rule["threshold"] > one, "selection.threshold", "a group of one unit is shown as often as not")
    # A share and rounded noise reach a whole threshold where noise reaches a half less than the rest of it.
    scale, top = noise["scales"][name], rule["threshold"] - Fraction(1, 2)
    reaches = [(top - math.isqrt(one**2 >> i)) / scale for i in range(len(many))]
    if noise["shape"] == "independent":
        return max(map(any_of_many, (tail_above(noise["law"], reach, scale) for reach in reaches), many))
    own = noise["shape"] == "k_norm" and not noise["joint"] and noise["order"][0] == name
    require(own, "selection.name", "the tail of this noise is unknown")
    return any_of_many(k_norm_tail(reaches[0], len(noise["order"]) - noise["units"], noise["units"]), many[0])
