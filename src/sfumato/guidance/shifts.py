"""Estimated shifts: how far limits and bounds move an output, with error bars, from noisy values.

Proof: docs/proofs/diagnostics.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.laws import Law
from sfumato.noise.noise_sums import Interval, NoiseSum
from sfumato.query.aggregates import (
    Aggregate,
    Correlation,
    LinearRegression,
    Mean,
    StandardDeviation,
    Sum,
    Variance,
)
from sfumato.query.aggregates.regression import solution_radius

Weights = Mapping[str, float]
LIMITS = "without limits and bounds"


def between(low: float, high: float) -> Interval:
    """Return the interval of one shift or number between two ends."""
    return Interval(np.asarray(low, float), np.asarray(high, float))


ZERO, ONE = between(0, 0), between(1, 1)


@dataclass(frozen=True)
class Shift:
    """How far limits and bounds shift an output, over all groups together.

    Args:
        output: the name of the output.
        shift: the difference that limits and bounds make, as a fraction of the output without them if
            `relative`, otherwise in the unit of the output. Below 0 the output is too small.
        half_width: the half-width of the error bar of the shift.
        relative: whether the shift is a fraction.
        of: what is shifted: the "value" of the output, or the "length" of the vectors added up.
        against: a description of what the output is compared with.

    Made by `Diagnostics.shifts`.

    >>> print(Shift("n", -0.312, 0.021, True))
    n is about 31% ± 2% lower than without limits and bounds
    >>> print(Shift("q", 0.083, 0.012, False))
    q is about 0.083 ± 0.012 higher than without limits and bounds
    """

    output: str
    shift: float
    half_width: float
    relative: bool
    of: str = "value"
    against: str = LIMITS

    def __str__(self) -> str:
        name = self.output if self.of == "value" else f"the {self.of} of {self.output}"
        if not math.isfinite(self.half_width):
            return f"the noise is too large to estimate the bias of {name} from limits and bounds"
        if self.relative:
            digits = 0 if self.half_width >= 0.01 else 1
            size, bar = f"{abs(self.shift):.{digits}%}", f"{self.half_width:.{digits}%}"
        else:
            size, bar = f"{abs(self.shift):.3g}", f"{self.half_width:.2g}"
        if abs(self.shift) <= self.half_width:
            return f"the bias of {name} from limits and bounds is no larger than the noise: {size} ± {bar}"
        way = "higher" if self.shift > 0 else "lower"
        return f"{name} is about {size} ± {bar} {way} than {self.against}"


class Ends(NamedTuple):
    """The intervals of a shifted output with limits and without, and their difference if known better."""

    limited: Interval
    without: Interval
    moved: Interval | None = None

    @property
    def both(self) -> tuple[Interval, Interval]:
        """The intervals of a shifted output with limits and without."""
        return self.limited, self.without

    @property
    def difference(self) -> Interval:
        """The interval of the shift."""
        return self.limited - self.without if self.moved is None else self.moved

    @property
    def part(self) -> Interval:
        """The interval of the shift as a part of the output without limits."""
        if self.moved is None:
            return self.limited / self.without - ONE
        return self.moved / self.without


@dataclass(frozen=True)
class NoisyValues:
    """Noisy values from which shifts follow, with the laws of their independent noise.

    Args:
        values: the numbers, by name.
        laws: the law of the noise of each, in steps.
        steps: the step of each.
    """

    values: Mapping[str, float]
    laws: Mapping[str, Law]
    steps: Mapping[str, float]

    def total(self, weights: Weights, k: float | None = None) -> Interval:
        """Return the interval of a weighted sum of noisy values without their noise."""
        value = math.fsum(self.values[name] * weight for name, weight in weights.items())
        if k is None:
            return between(value, value)
        terms = [(w * self.steps[name], self.laws[name]) for name, w in weights.items() if w]
        far = float(NoiseSum(terms).tolerance(k)) if terms else 0.0
        return between(value - far, value + far)


@dataclass(frozen=True)
class ShiftFormula:
    """How the shift of an output follows from weighted sums of noisy values.

    Args:
        output: its name.
        sums: weights of the noisy numbers, by name, of each sum of these that it follows from.
        ends: makes of their intervals those of the output.
        relative, of, against: as of `Shift`.
    """

    output: str
    sums: tuple[Weights, ...]
    ends: Callable[[Sequence[Interval]], Ends]
    relative: bool
    of: str = "value"
    against: str = LIMITS

    def shift(self, noisy: NoisyValues, confidence: float) -> Shift:
        """Return the estimated shift with its error bar."""
        k = -math.log10((1 - confidence) / len(self.sums))  # that all of the sums hold at once
        middle, ends = (self._moved([noisy.total(weights, at) for weights in self.sums]) for at in (None, k))
        shift, far = 0.0, math.inf
        if np.isfinite(middle.low) and middle.low == middle.high:
            shift = float(middle.low)
            far = max(float(ends.high) - shift, shift - float(ends.low))
        half_width = math.inf if math.isnan(far) else far
        return Shift(self.output, shift, half_width, self.relative, self.of, self.against)

    def _moved(self, sums: Sequence[Interval]) -> Interval:
        ends = self.ends(sums)
        return ends.part if self.relative else ends.difference


def linear(output: str, limited: Weights, without: Weights) -> ShiftFormula:
    """Return the formula of the shift of an output that is a weighted sum of noisy values."""
    names = dict.fromkeys([*limited, *without])
    limited, without = ({name: side.get(name, 0.0) for name in names} for side in (limited, without))
    moved = {name: limited[name] - without[name] for name in names}
    return ShiftFormula(output, (limited, without, moved), lambda sums: Ends(*sums), True)


def make_shift_formula(
    output: str,
    both: Sequence[Sequence[Weights]],
    make: Callable[[Sequence[Interval], bool], Interval],
) -> ShiftFormula:
    """Return the formula of the shift of an output that is a function of sums with limits, and without."""
    limited, without = both
    few = len(limited)
    return ShiftFormula(
        output, (*limited, *without), lambda at: Ends(make(at[:few], True), make(at[few:], False)), False
    )


def shares(output: str, limited: Sequence[str], without: Sequence[Sequence[str]], j: int) -> ShiftFormula:
    """Return the formula of the shift of a bin's share.

    Args:
        output: its name.
        limited: the noisy number of each bin, with limits.
        without: the noisy numbers that add up to that of each bin without them.
        j: the bin.
    """
    both = [
        [
            dict.fromkeys([n for i, names in enumerate(side) if (i == j) == own for n in names], 1.0)
            for own in (True, False)
        ]
        for side in ([[one] for one in limited], without)
    ]
    return make_shift_formula(output, both, lambda at, _: divide_intervals(*at))


def quantile(sums: Sequence[Interval], places: Sequence[tuple[float, float]]) -> Interval:
    """Return the interval of a quantile whose shift is estimated, from sums over bins.

    Args:
        sums: of each bin but the last: 1 - q times what is up to it, less q times what is beyond.
        places: the ends of each bin.
    """
    first = next((i for i, one in enumerate(sums) if one.high >= 0), len(sums))
    last = next((i for i, one in enumerate(sums) if one.low >= 0), len(sums))
    low, high = places[first][0], places[last][1]
    if all(one.low == one.high for one in sums):  # no bar is wanted, but a number
        below, upto = (float(sums[i].low) if 0 <= i < len(sums) else 0.0 for i in (first - 1, first))
        low = high = low + (high - low) * (below / (below - upto) if below < upto else 0.5)
    return between(low, high)


def statistic(
    aggregate: Aggregate,
    scales: Sequence[tuple[float, float]],
    means: Sequence[Interval],
    products: Mapping[tuple[int, int], Interval],
    k: int,
) -> Interval:
    """Return the interval of a shifted statistic, from means and products of values between -1 and 1."""
    half = [width / 2 for _, width in scales]
    centre = [low + width / 2 for low, width in scales]

    def cross(i: int, j: int) -> Interval:
        square = means[i].squared() if i == j else means[i] * means[j]
        found = (products[i, j] - square).scaled(half[i] * half[j])
        return found.clipped(0, math.inf) if i == j else found

    if isinstance(aggregate, Mean):
        return means[0].scaled(half[0]).shifted(centre[0])
    if isinstance(aggregate, Variance):
        return cross(0, 0)
    if isinstance(aggregate, StandardDeviation):
        return cross(0, 0).map(np.sqrt)
    if isinstance(aggregate, LinearRegression):
        return _coefficient(half, centre, means, products, k)
    if not isinstance(aggregate, Correlation):
        return cross(0, 1)
    below = (cross(0, 0) * cross(1, 1)).map(np.sqrt)
    if below.low <= 0 and below.low == below.high:
        return ZERO
    return (cross(0, 1) / below).clipped(-1, 1)


def _coefficient(
    half: Sequence[float],
    centre: Sequence[float],
    means: Sequence[Interval],
    products: Mapping[tuple[int, int], Interval],
    k: int,
) -> Interval:
    """Return the interval of a shifted regression coefficient, from those of the normal equations."""
    size = len(means)
    matrix = [[ONE, *means[1:]]]
    matrix += [[means[i], *(products[min(i, j), max(i, j)] for j in range(1, size))] for i in range(1, size)]
    right = [means[0], *(products[0, i] for i in range(1, size))]
    unknown = between(-math.inf, math.inf)
    a = np.array([[float(one.middle) for one in row] for row in matrix])
    b = np.array([float(one.middle) for one in right])
    off = np.array([[float(one.high - one.low) / 2 for one in row] for row in matrix])
    off_right = np.array([float(one.high - one.low) / 2 for one in right])
    # Nothing is known of a mean whose noise hides how much there is.
    if not all(np.isfinite(each).all() for each in (a, b, off, off_right)):
        return unknown
    if np.linalg.eigvalsh(a)[0] <= 1e-12:
        return unknown
    inverse = np.linalg.inv(a)
    found = inverse @ b
    (far,) = solution_radius(inverse[None], found[None], off[None], off_right[None])
    if not np.isfinite(far).all():
        return unknown
    slopes = np.array([half[0] / one for one in half[1:]])
    weights = np.array([half[0], *(-slopes * centre[1:])])
    if k:
        weights = np.where(np.arange(size) == k, np.array([0.0, *slopes]), 0.0)
    middle = float(weights @ found) + (0.0 if k else centre[0])
    radius = float(np.abs(weights) @ far)
    return between(middle - radius, middle + radius)


@dataclass(frozen=True)
class Basis:
    """Functions of one or two values that add up to 1, whose sums give means and products for shifts.

    Args:
        sql: SQL of each.
        means: by column, the weights with which they add up to its position.
        product: the weights of twice a product of distances from the middle, from 0 to 1; none of one column.
    """

    sql: tuple[str, ...]
    means: Mapping[int, tuple[float, ...]]
    product: tuple[float, ...] = ()


def basis(values: Sequence[str], columns: tuple[int, ...]) -> Basis:
    """Return the basis functions of one column, of its square, or of two columns."""
    i, j = columns[0], columns[-1]
    x, y = values[i], values[j]
    if len(columns) == 1:
        return Basis((x, f"1.0 - {x}"), {i: (1, 0)})
    if i == j:
        mixed = f"2.0 * {x} * (1.0 - {x})"
        return Basis((f"{x} * {x}", mixed, f"(1.0 - {x}) * (1.0 - {x})"), {i: (1, 0.5, 0)}, (1, 0, 1))
    ends = [(x, y), (x, f"(1.0 - {y})"), (f"(1.0 - {x})", y), (f"(1.0 - {x})", f"(1.0 - {y})")]
    return Basis(tuple(f"{a} * {b}" for a, b in ends), {i: (1, 1, 0, 0), j: (1, 0, 1, 0)}, (1, 0, 0, 1))


def bases(aggregate: Aggregate, count: int) -> list[tuple[int, ...]]:
    """Return the columns, or pairs of columns, of which the shift of an aggregate needs basis functions."""
    if isinstance(aggregate, Mean | Sum):
        return [(0,)]
    pairs: list[tuple[int, ...]] = [(i, j) for i in range(count) for j in range(i, count)]
    if isinstance(aggregate, LinearRegression):
        return pairs[1:]
    return pairs if count == 1 or isinstance(aggregate, Correlation) else [(0, 1)]


def divide_intervals(one: Interval, rest: Interval) -> Interval:
    """Return the interval of the part that one number has in the sum of two."""
    one, rest = (some.clipped(0, math.inf) for some in (one, rest))
    pairs = (float(one.low), float(rest.high)), (float(one.high), float(rest.low))
    low, high = (a / (a + b) if a + b > 0 else math.nan for a, b in pairs)
    return between(low, high)
