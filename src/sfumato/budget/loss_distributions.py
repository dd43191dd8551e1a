"""Privacy loss distributions: on a grid for Laplace and Gaussian noise, as atoms for pure mechanisms.

The privacy profile of a noise, delta as a function of e^epsilon, is convex. Chords between its values at grid
points l_i = i log q are nowhere below it ("connect the dots"; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi
2022), and they are the profile of a distribution of losses on the grid. Losses of independent noises add up,
so their distributions are convolved.

A mass is a whole number of 2^-96, rounded up. One product of two long integers, whose digits are the masses,
convolves exactly (Kronecker substitution); the digits of the product are rounded up again. The masses need
not sum to 1: a larger mass only raises delta (docs/proofs/privacy_loss.md), so no error has to be tracked.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import accumulate, pairwise
from math import ceil, expm1, floor, log2, sqrt
from typing import Any, NamedTuple

from sfumato.exact.outward_rounding import Real, convert, directed, exactly, from_digits, tail, to_digits

BITS = 96  # of a mass
TAIL = 1 << 12  # masses of up to 2^-84 together are cut off at each end, and moved up
FINEST, COARSEST = 2.0**-200, 64.0  # of the grid's steps
POINTS = 1 << 14  # of the grid, about; beyond this it coarsens
RESOLUTION = 1 << 12  # the grid adds about a sixth of 2^-12 to the variance of the loss
LARGEST = 1 << 16  # of a rate, and of mu^2: larger losses are not worth a grid
PANEL = 15  # grid points on each side of one about which the profile of Gaussian noise is expanded

Laplace = tuple[tuple[Fraction, int], ...]


class Masses(NamedTuple):
    """A privacy loss distribution: the mass of each grid point from `lowest` on, and the mass at infinity."""

    lowest: int
    finite: list[int]
    infinite: int

    def convolved(self, other: Masses) -> Masses:
        """Return the distribution of the sum of two independent privacy losses."""
        here, there = sum(self.finite), sum(other.finite)
        width = here.bit_length() + there.bit_length()
        product = to_digits(from_digits(self.finite, width) * from_digits(other.finite, width), width)
        infinite = self.infinite * (there + other.infinite) + here * other.infinite
        finite = [-(-mass >> BITS) for mass in product]
        return Masses(self.lowest + other.lowest, finite, -(-infinite >> BITS)).trimmed()

    def trimmed(self) -> Masses:
        """Move the tails of a loss distribution up: large losses to infinity, small ones to the lowest."""
        masses = self.finite
        low = bisect(list(accumulate(masses)), TAIL)
        end = len(masses) - bisect(list(accumulate(reversed(masses))), TAIL)
        if low >= end:
            return self
        kept = [sum(masses[: low + 1]), *masses[low + 1 : end]]
        return Masses(self.lowest + low, kept, self.infinite + sum(masses[end:]))

    def power(self, count: int) -> Masses:
        """Return the distribution of the sum of `count` independent privacy losses."""
        result = self
        for bit in bin(count)[3:]:
            result = result.convolved(result)
            if bit == "1":
                result = result.convolved(self)
        return result


class Grid:
    """The grid of a privacy loss distribution: multiples of log q, for a rational number q.

    Args:
        step: log q, up to rounding, and what decides on the number of bits.
        rate: a loss that lies on the grid, up to rounding; None where none has to.
        parts: how many steps that loss is.
    """

    def __init__(self, step: float, rate: Fraction | None = None, parts: int = 1) -> None:
        fine = max(0, ceil(-log2(step)))
        self.bits = BITS + 16 + fine  # of the values of a profile, whose second differences are masses
        self.shift = self.bits + 32 + fine
        self.down, self.up = directed(self.shift + ceil(1.5 * step))
        wanted = Fraction(step) if rate is None else rate / parts
        self.numerator = _in_units(self.up.exp(convert(wanted, self.up)), self.shift, up=True)
        q = Fraction(self.numerator, 1 << self.shift)
        self.low, self.high = (context.log(convert(q, context)) for context in (self.down, self.up))

    def laplace(self, rate: Fraction) -> list[int]:
        """Return the privacy profile of Laplace noise at grid points from 0 on: 1 - e^((epsilon - rate)/2).

        Args:
            rate: sensitivity / scale.
        """
        down, largest = self.down, convert(rate, self.up)
        top = int(self.up.ceil(self.up.div(largest, self.low)))  # delta is 0 from here on
        last = down.div(down.sub(down.mul(top - 1, self.low), largest), 2)
        ratio = _in_units(down.exp(down.div(down.minus(self.high), 2)), self.bits)
        kept = min(1 << self.bits, _in_units(down.exp(last), self.bits))  # 1 - delta
        profile = [0]
        for _ in range(top):
            profile.append((1 << self.bits) - kept)
            kept = kept * ratio >> self.bits
        return profile[::-1]

    def gaussian(self, mu_squared: Fraction) -> list[int]:
        """Return the privacy profile of Gaussian noise at the grid points from 0 on, until it is below 2^-88.

        Args:
            mu_squared: (L2 sensitivity / sigma)^2.
        """
        mu = sqrt(mu_squared)
        half = min(PANEL, int(min(mu, 1.0) / (8.01 * float(self.low))))
        degree = self.bits // 4 if half else 0
        bits = self.bits + 16 + degree * half.bit_length()
        profile: list[int] = []
        while len(profile) < 2 or profile[-1] >> (self.bits - 88):
            coefficients = self._expand(mu_squared, len(profile) + half, degree, bits)
            for offset in range(-half, half + 1):
                value = 0
                for coefficient in coefficients:
                    value = value * offset + coefficient
                profile.append((value >> (bits - self.bits)) + 2)
        return profile

    def _expand(self, mu_squared: Fraction, index: int, degree: int, bits: int) -> list[int]:
        """Return the Taylor coefficients of the Gaussian privacy profile about a grid point, in grid steps.

        Returns:
            The coefficients in units of 2^-bits, the highest first.
        """
        _, up = directed(bits + 32)
        mu = up.sqrt(convert(mu_squared, up))
        epsilon, ratio = up.mul(index, self.low), up.div(self.low, mu)
        place = up.sub(up.div(epsilon, mu), up.div(mu, 2))
        above = up.div(tail(place, bits + 32, up=True), 2)
        second = up.mul(up.exp(epsilon), up.div(tail(up.add(place, mu), bits + 32, up=True), 2))
        density = up.div(up.exp(up.div(up.square(place), -2)), up.sqrt(up.mul(2, up.const_pi())))
        step, slope, square = (_in_units(x, bits) for x in (self.low, up.mul(ratio, place), up.square(ratio)))
        delta, e, g = (_in_units(x, bits) for x in (up.sub(above, second), second, up.mul(ratio, density)))
        coefficients, before = [delta], 0
        for n in range(1, degree + 1):
            change = step * e >> bits
            coefficients.append(-change // n)
            e, g, before = (change - g) // n, -((slope * g + square * before) >> bits) // n, g
        return coefficients[::-1]

    def masses(self, profile: list[int]) -> Masses:
        """Return the privacy loss distribution whose profile joins these values by chords.

        Args:
            profile: at least two values of delta, at l_0 = 0, l_1, ..., rounded up to units of 2^-bits.
        """
        q, one = self.numerator, 1 << self.shift
        # Neighbours can be exchanged, so that delta(-epsilon) = 1 - e^-epsilon + e^-epsilon delta(epsilon).
        before = ((q - one) << self.bits) + one * profile[1] - q * profile[0]
        drops = [before, *(q * (a - b) for a, b in pairwise(profile))]
        after = [*(one * (a - b) for a, b in pairwise(profile)), 0]
        unit = (q - one) << (self.bits - BITS)
        positive = [max(0, -((y - x) // unit)) for x, y in zip(drops, after, strict=True)]
        inverse, power, negative = -(-(one << self.shift) // q), one, []
        for mass in positive[1:]:
            power = -(-power * inverse >> self.shift)
            negative.append(-(-mass * power >> self.shift))
        infinite = -(-profile[-1] >> (self.bits - BITS))
        return Masses(1 - len(profile), negative[::-1] + positive, infinite).trimmed()


class Profile:
    """The privacy profile of a loss distribution on a grid: upper bounds of delta at any epsilon."""

    def __init__(self, grid: Grid, losses: Masses) -> None:
        self._grid, self._first = grid, losses.lowest - 1
        above, weighted = [losses.infinite], [0]
        for mass in reversed(losses.finite):
            above.append(above[-1] + mass)
            weighted.append(((weighted[-1] + mass) << grid.shift) // grid.numerator)
        # At each grid point: the mass of all larger losses, and the same with weights e^-(their distance).
        self._above, self._weighted = above[::-1], weighted[::-1]

    def delta(self, epsilon: Fraction) -> Fraction:
        """Return an upper bound of delta of the loss distribution at an epsilon.

        Args:
            epsilon: any number; it is rounded down.
        """
        (down, up), grid = (self._grid.down, self._grid.up), self._grid
        place = down.div(convert(epsilon, down), grid.high if epsilon >= 0 else grid.low)
        place = min(down.sub(place, self._first), convert(len(self._above) - 1, down))
        index = max(int(down.floor(place)), 0)
        beyond = down.sub(place, index)
        growth = down.exp(down.mul(beyond, grid.low if beyond >= 0 else grid.high))
        delta = up.sub(self._above[index], down.mul(growth, self._weighted[index]))
        return min(Fraction(1), exactly(delta) / (1 << BITS))


@lru_cache(maxsize=1024)  # a query that is repeated needs the same
def pld_deltas(
    epsilons: tuple[Fraction, ...], laplace: Laplace, gaussian: Fraction
) -> tuple[Fraction, ...] | None:
    """Return upper bounds of delta at several epsilons by privacy loss distributions.

    Args:
        epsilons: negative ones too.
        laplace: (sensitivity / scale, count) of each kind of Laplace noise, at least one.
        gaussian: mu^2 of all Gaussian noise.
    Returns:
        The bounds; None where losses are so large or so small that a grid is of no use.
    Source:
        Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, "Connect the dots: tighter discrete
        approximations of privacy loss distributions"; docs/proofs/privacy_loss.md.
    """
    profile = _composed(laplace, gaussian)
    return None if profile is None else tuple(map(profile.delta, epsilons))


@lru_cache(maxsize=8)  # the search for an epsilon asks for the same composition many times
def _composed(laplace: Laplace, gaussian: Fraction) -> Profile | None:
    if max(gaussian, *(rate for rate, _ in laplace)) > LARGEST:
        return None
    step, parts = _grid_step([(float(rate), count) for rate, count in laplace], sqrt(gaussian))
    if not FINEST <= step <= COARSEST:
        return None
    grid = Grid(step, max(laplace, key=_variance)[0] if parts else None, parts)
    kinds = [grid.masses(grid.laplace(rate)).power(count) for rate, count in laplace]
    if gaussian:
        kinds.append(grid.masses(grid.gaussian(gaussian)))
    return Profile(grid, reduce(Masses.convolved, kinds))


def _variance(kind: tuple[Fraction | float, int]) -> float:
    """Return roughly the variance of the loss distribution of Laplace noises."""
    return kind[1] * min(float(kind[0]) ** 2, 3)


def _grid_step(rates: list[tuple[float, int]], mu: float) -> tuple[float, int]:
    """Choose the grid of a loss distribution: little added variance, and not too many points.

    With probability 1/2 the loss of a Laplace noise is its rate. For the kind with most variance, this rate
    is put on the grid: between two points its mass would be split.

    Returns:
        The step, and how many steps that rate is; 0 where it is less than one.
    """
    main, main_count = max(rates, key=_variance)
    variance = sum(map(_variance, rates)) + mu * mu
    split = sum(count for _, count in rates) - main_count * max(0, 1 - main / 2) + (mu > 0)
    mean = sum(count * (rate + expm1(-rate)) for rate, count in rates) + mu * mu / 2
    largest = sum(count * rate for rate, count in rates) + mu * (11 + mu / 2)
    reach = max(min(largest, mean + 11 * sqrt(variance)), *(rate for rate, _ in rates))
    coarsest = 2 * reach / POINTS
    step = max(sqrt(variance / (RESOLUTION * (1 + split))), coarsest)
    if main < step:
        return step, 0
    parts = min(ceil(main / step), max(1, floor(main / coarsest)))
    return main / parts, parts


def _in_units(number: Real, bits: int, *, up: bool = False) -> int:
    """Return a mass of a loss distribution in units of 2^-bits, rounded to a whole number."""
    context = directed(bits + 256)[up]
    scaled = context.mul_2exp(number, bits)
    return int(context.ceil(scaled) if up else context.floor(scaled))


ATOM_BITS = 128  # of the probabilities of atoms
MANY = 4096  # of one mechanism: beyond, the atoms are too many and basic composition must do

Atoms = dict[Fraction, Any]  # privacy loss -> its probability, an upper bound in MPFR


def two_point_atoms(epsilon: Fraction, count: int) -> list[Any]:
    """Return the loss distribution of `count` pure mechanisms: probabilities of (2j - count) * epsilon.

    Args:
        epsilon: of each of the mechanisms.
        count: how many there are.
    """
    down, up = directed(ATOM_BITS)
    odds = up.exp(convert(-epsilon, up))  # of the smaller loss; those of the larger may be too large a number
    weight = up.pow(up.div(1, down.add(1, down.exp(convert(-epsilon, down)))), count)
    weights = []
    for left in range(count + 1):
        weights.append(weight)
        weight = up.div(up.mul(weight, up.mul(odds, count - left)), left + 1)
    return weights[::-1]


def mixture(parts: Iterable[tuple[Fraction, int]], limit: int) -> Atoms | None:
    """Return the loss distribution of pure mechanisms together, with about `limit` atoms.

    Where there would be more, losses are rounded up to a coarser grid: never less private. Several
    parts are first put on a common grid, their epsilons rounded up by less than 2^-40 of the sum.

    Args:
        parts: (epsilon, count) of pure mechanisms.
        limit: how many atoms may be kept.
    Returns:
        Loss -> probability rounded up; None where one part has over 4096 mechanisms.
    """
    parts = [(epsilon, count) for epsilon, count in parts if epsilon]
    if any(count > MANY for _, count in parts):
        return None
    up = directed(ATOM_BITS).up
    total = sum((epsilon * count for epsilon, count in parts), Fraction(0))
    step = parts[0][0] if len(parts) == 1 else total / 2**40
    atoms: dict[int, Any] = {0: convert(1, up)}  # losses in steps: integers are quick to add and to find
    for epsilon, count in parts:
        steps = -(-epsilon // step)
        weights = two_point_atoms(steps * step, count)
        single = _coarsen({(2 * right - count) * steps: w for right, w in enumerate(weights)}, limit)
        joined: dict[int, Any] = {}
        for loss, weight in atoms.items():
            for other, factor in single.items():
                place = loss + other
                joined[place] = up.add(joined.get(place, 0), up.mul(weight, factor))
        atoms = _coarsen(joined, limit)
    return {loss * step: weight for loss, weight in atoms.items()}


def _coarsen(atoms: dict[int, Any], limit: int) -> dict[int, Any]:
    """Return a loss distribution with at most `limit` atoms, whose losses are rounded up."""
    if len(atoms) <= limit:
        return atoms
    up = directed(ATOM_BITS).up
    top, bottom = max(atoms), min(atoms)
    width = -(-(top - bottom) // limit)
    merged: dict[int, Any] = {}
    for loss, weight in atoms.items():
        raised = top - (top - loss) // width * width
        merged[raised] = up.add(merged.get(raised, 0), weight)
    return merged


def average(weights: Iterable[Any], deltas: Sequence[Fraction]) -> Fraction:
    """Return the average of delta over the atoms of a loss distribution, rounded up."""
    up = directed(ATOM_BITS).up
    total = convert(0, up)
    for weight, delta in zip(weights, deltas, strict=True):
        total = up.add(total, up.mul(weight, convert(delta, up)))
    return exactly(total)


def falling_average(atoms: Atoms, delta_at: Callable[[Fraction], Fraction]) -> Fraction:
    """Return the average of delta over a loss distribution, without its negligible tails.

    It goes from the middle to the ends, and stops where all that is left is negligible.

    Args:
        atoms: losses and their weights.
        delta_at: takes a loss and returns a delta of at most 1, which grows with it.
    """
    up = directed(ATOM_BITS).up
    losses, total = sorted(atoms), convert(0, up)
    middle = len(losses) // 2
    for side, growing in ((losses[middle:], True), (losses[:middle][::-1], False)):
        left = convert(0, up)
        for loss in side:
            left = up.add(left, atoms[loss])
        for loss in side:
            delta = convert(delta_at(loss), up)
            rest = left if growing else up.mul(left, delta)
            if rest <= up.div_2exp(total, 62):
                total = up.add(total, rest)
                break
            total = up.add(total, up.mul(atoms[loss], delta))
            left = up.sub(left, atoms[loss])
    return exactly(total)
