"""Sums of noise: tails, tolerances and confidence intervals of weighted sums of independent noises."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.dataclass import dataclass
from sfumato.exact.outward_rounding import log_tail
from sfumato.exact.root_finding import first_whole, halve, narrow
from sfumato.noise.form_laws import FormLaws, Parts
from sfumato.noise.law_tails import Floats
from sfumato.noise.laws import Gaussian, Laplace, Law

_SAFE_MIXTURE = 1 + 1e-9  # what float arithmetic may lose
# Tilts, of which any is sound: some of all sizes for every sum, and then more beside the best of them.
_SIZES, _BESIDE = np.geomspace(0.05, 60, 25), np.geomspace(0.75, 1.33, 9)
_BLOCK = 1 << 14  # sums at once, each with all tilts
_LN10 = math.log(10)


def laplaces_tolerance(k: float, deviation: ArrayLike, largest: ArrayLike) -> Floats:
    """Return t with P(|S| > t) <= 10^-k for sums S of independent Laplace noises.

    Args:
        k: greater than 0.
        deviation: of the sum; float64 of any shape.
        largest: at least the largest scale among the noises, in the same shape.

    >>> two_and_one = laplaces_tolerance(2, [2.0, math.sqrt(2)], [1.0, 1.0])
    >>> two_and_one.round(2).tolist()
    [6.79, 5.59]

    Source:
        Chernoff's bound; the mixture: Andrews and Mallows 1974. Proof: docs/proofs/tree_laplace.md.
    """
    spreads, sizes = np.broadcast_arrays(np.asarray(deviation, np.float64), np.asarray(largest, np.float64))
    found = np.empty(spreads.size)
    for start in range(0, len(found), _BLOCK):
        block = slice(start, start + _BLOCK)
        spread, size = spreads.ravel()[block], sizes.ravel()[block]
        best = _SIZES[_reached(k, spread, size, _SIZES[:, None]).argmin(axis=0)]
        found[block] = _reached(k, spread, size, best * _BESIDE[:, None]).min(axis=0)
    return found.reshape(spreads.shape) * _SAFE_MIXTURE


def laplaces_log10_tail(t: float, deviation: float, largest: float) -> float:
    """Return log10 of a bound of P(|S| > t) for a sum S of Laplace noises, as in `laplaces_tolerance`.

    Args:
        t: greater than 0.
        deviation, largest: as of `laplaces_tolerance`.

    >>> round(laplaces_log10_tail(6.79, 2.0, 1.0), 2)
    -2.0
    """
    most, part, exponent = _tilted(deviation, largest, np.geomspace(_SIZES[0], _SIZES[-1], 20 * len(_SIZES)))
    tilts, exponents = _exponents()
    u = part / most * t / _SAFE_MIXTURE
    place = np.searchsorted(tilts, u, "right") - 1
    reached = np.where((place < 0) | (u >= tilts[-1]), u, exponents[np.maximum(place, 0)])
    return min(0.0, float((exponent - reached).min()) / _LN10)


def _reached(k: float, spread: Floats, largest: Floats, tilts: Floats) -> Floats:
    """Return, for each tilt along a first axis, a t with P(|sum of noises| > t) <= 10^-k."""
    most, part, exponent = _tilted(spread, largest, tilts)
    return np.asarray(_reach(k * _LN10 + exponent) * most / part)


def _tilted(deviation: ArrayLike, largest: ArrayLike, tilts: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the largest scale in a noise sum, l times it for l a tilt, and log E exp(l^2 Q / 2)."""
    spread, most = np.asarray(deviation, np.float64), np.asarray(largest, np.float64)
    # One noise has the variance 2 b^2, and no largest scale is beyond that of one noise.
    most = np.minimum(np.maximum(most, spread * 1e-9), spread / math.sqrt(2))
    part = np.minimum(tilts * (most / spread), 1 - 0.01 / tilts)
    return most, part, -(spread**2 / (2 * most**2)) * np.log1p(-(part**2))


def _reach(nats: Floats) -> Floats:
    """Return a u whose Chernoff exponent B(u) of a noise sum is at least so many nats."""
    tilts, exponents = _exponents()
    place = np.searchsorted(exponents, nats)
    # B(u) >= u, for what is beyond the table.
    return np.where(place < len(tilts), tilts[np.minimum(place, len(tilts) - 1)], nats)


@cache
def _exponents() -> tuple[Floats, Floats]:
    """Return rising u and the Chernoff exponents B(u) of noise sums, by the hazard of the Gaussian tail."""
    x = np.geomspace(1e-4, 60, 1 << 15)
    tail = log_tail(x)
    hazard = np.exp(-(x**2) / 2 - math.log(2 * math.pi) / 2 - tail)
    return np.sqrt(x**3 * hazard), (x * hazard / 2 - tail - math.log(2)) * (1 - 1e-12)


Weight = Any  # float, or float64 array

# Beyond so many half steps of each noise, their rounding is small beside the sum.
_FEW = 20
# From so many steps of deviation on, rounding is like uniform noise; less noise ends at so many deviations.
_FINE, _STEPS = 8, 30
# So many Laplace noises at most are taken two by two.
_MAX_PAIRED = 4
# What float arithmetic may lose, and that scales are told apart by 10^-12, on the safe side.
_SAFE = 1 + 2e-12
_SMALLEST = 1e-140
_NEWTONS = 60  # six are enough, but for failures near 1
_HALVINGS = 20  # of the tilt, which need not be the best


@dataclass(frozen=True, eq=False)
class NoiseSum:
    """The sum of weight * R over independent noises R, each rounded to whole steps.

    Args:
        terms: (weight, law in steps) of each noise: weights in units per step, any sign, floats or float64
            arrays of one shape for many sums at once; laws all Laplace or all Gaussian.

    >>> law = Laplace(2)
    >>> NoiseSum(((1.0, law),)).tolerance(5), round(NoiseSum(((1.0, law), (2.0, law))).tolerance(5), 2)
    (23.0, 48.7)
    """

    terms: Sequence[tuple[Weight, Law]]

    @cached_property
    def rounding(self) -> Any:
        """The largest distance by which rounding moves the noise sum."""
        return sum(abs(w) * (0.5 + law.shift) for w, law in self.terms)

    def tolerance(self, k: float) -> Any:
        """Return t with P(|noise sum| > t) <= 10^-k.

        Args:
            k: greater than 0.
        Returns:
            float, or float64 in the shape of the weights: the smallest such t for one noise. For several, the
            smaller of two sound ones: that of the unrounded sum (exact for two Laplace or any Gaussian
            noises) plus all that rounding can do, and the sum of the single tolerances among which 10^-k
            is shared.
        """
        count = len(self.terms)
        apart = sum(abs(w) * rounded_tolerance(law, k + math.log10(count)) for w, law in self.terms)
        if count > 1:
            apart = np.minimum(apart, self._smooth(k) + self.rounding) * _SAFE
        return apart if np.ndim(apart) else float(apart)

    def log10_tail(self, t: float) -> float:
        """Return log10 of a bound of P(|noise sum| >= t), for float weights; exact for one noise."""
        if len(self.terms) == 1:
            ((weight, law),) = self.terms
            steps = math.ceil(t / abs(weight) * (1 - 1e-12))
            return log10_two_sided_tail(law, steps - 0.5) if steps > 0 else 0.0
        smooth = self._log10_smooth(t - self.rounding)
        return smooth if t > _FEW * self.rounding else min(smooth, self._log10_separate_bound(t))

    def _log10_separate_bound(self, t: float) -> float:
        """Return log10 of a bound of P(|noise sum| >= t) that suits noise of less than a few steps."""
        count = math.log10(len(self.terms))

        def within(k: float) -> bool:
            return bool(sum(abs(w) * rounded_tolerance(law, k + count) for w, law in self.terms) < t)

        return (1 - first_whole(lambda quarters: not within(quarters / 4), 0, 120)) / 4

    def _smooth(self, k: float) -> Any:
        """Return a t with P(|sum of the unrounded noises| > t) <= 10^-k."""
        if self._gaussian:
            return _unit_gaussian(k) * np.hypot.reduce(self._scales, axis=0)
        nats, scales = k * _LN10, self._scales
        found = np.inf
        if len(scales) <= _MAX_PAIRED:
            pairs = [scales[i : i + 2] for i in range(0, len(scales), 2)]
            found = sum(_two_laplaces(pair, nats + math.log(len(pairs))) for pair in pairs)
        if len(scales) > 2:
            needed = nats + math.log(2)
            tilt, exponent = self._tilted(lambda u, exponent, slope: u * slope - exponent >= needed)
            found = np.minimum(found, (needed + exponent) / tilt * self._largest)
            found = np.minimum(found, laplaces_tolerance(k, self._deviation, self._largest))
        return found

    def _log10_smooth(self, beyond: float) -> float:
        """Return log10 of a bound of P(|sum of the unrounded noises| > beyond)."""
        if beyond <= 0:
            return 0.0
        if self._gaussian:
            return log10_two_sided_tail(Gaussian(np.hypot.reduce(self._scales)), beyond)
        if len(self._scales) <= 2:
            big, ratio = _big_and_ratio(self._scales)
            return float(_log_two_laplaces(beyond / big, ratio)[0] / _LN10)
        far = beyond / self._largest
        tilt, exponent = self._tilted(lambda u, exponent, slope: slope >= far)
        chernoff = float(math.log(2) + exponent - tilt * far) / _LN10
        return min(0.0, chernoff, laplaces_log10_tail(beyond, float(self._deviation), float(self._largest)))

    @property
    def _gaussian(self) -> bool:
        return isinstance(self.terms[0][1], Gaussian)

    @cached_property
    def _scales(self) -> Floats:
        """The scales of the weighted noises in the sum, the largest first."""
        return -np.sort(-np.array([abs(w) * float(law.unit) for w, law in self.terms], np.float64), axis=0)

    @cached_property
    def _deviation(self) -> Any:
        return np.maximum(math.sqrt(2) * np.hypot.reduce(self._scales, axis=0), _SMALLEST)

    @cached_property
    def _largest(self) -> Any:
        return np.maximum(self._scales[0], _SMALLEST)

    def _tilted(self, enough: Callable[[Any, Any, Any], Any]) -> tuple[Any, Any]:
        """Return a tilt u in (0, 1) and log E e^(u S), S the unrounded noise sum over its largest scale.

        Chernoff's bound, P(|S| > t) <= 2 e^(-u t) E e^(u S), is true for every u.

        Args:
            enough: takes u, that logarithm and its derivative, and says whether the best u is not larger.
        """
        squares = np.square(self._scales / self._largest)

        def at(u: Any) -> tuple[Any, Any]:
            rest = 1 - u * u * squares
            return -np.log(rest).sum(axis=0), (2 * u * squares / rest).sum(axis=0)

        low, _ = halve(lambda u: enough(u, *at(u)), 0.0 * self._largest, 0.0 * self._largest + 1, _HALVINGS)
        tilt = np.maximum(low, 2.0**-_HALVINGS)
        return tilt, at(tilt)[0]


def log10_two_sided_tail(law: Law, x: float) -> float:
    """Return log10 P(|Z| > x) of one noise, also where the probability is below the smallest float.

    >>> round(log10_two_sided_tail(Laplace(1), 2302.585093))
    -1000
    >>> round(log10_two_sided_tail(Gaussian(1), 10.0416376121756), 6)
    -23.0
    """
    if law.discrete:
        x = math.floor(x) + 0.5
    if x <= 0:
        return 0.0
    z = (x + law.shift) / float(law.unit)
    if isinstance(law, Laplace):
        return -z / _LN10
    return min(0.0, float(log_tail(z)) + math.log(2)) / _LN10


@lru_cache(1 << 12)
def rounded_tolerance(law: Law, k: float) -> int:
    """Return `law.rounded_tolerance(k)` of one noise, computed once for all groups."""
    return law.rounded_tolerance(k)


@lru_cache(1 << 12)
def rounded_variance(law: Law, step: float) -> float:
    """Return the variance of step * Z, rounded to a whole number."""
    if law.discrete and step % 1 == 0:
        return law.variance * step**2
    if law.standard_deviation * step >= _FINE:
        return law.variance * step**2 + 1 / 12
    # The sum of (2 m + 1) P(|R| > m); beyond, it is nothing that a float has.
    m = np.arange(math.ceil(_STEPS * law.standard_deviation * step) + 1)
    return float((2 * m + 1) @ (2 * np.asarray(law.sf((m + 0.5) / step))))


@lru_cache(1 << 12)
def _unit_gaussian(k: float) -> float:
    return Gaussian(1).tolerance(k)


def _big_and_ratio(scales: Floats) -> tuple[Any, Any]:
    """Return the larger of the scales of one or two noises, and the smaller over it, never 0 or 1."""
    big = np.maximum(scales[0], _SMALLEST)
    ratio = scales[1] / big if len(scales) > 1 else 0.0 * big
    return big, np.minimum(np.maximum(ratio, 1e-30), 1 - 1e-12)


def _log_two_laplaces(u: Any, ratio: Any) -> tuple[Any, Any]:
    """Return log P(|X + Y| > u) and its derivative for two Laplace noises of scales 1 and `ratio` <= 1."""
    d, share = 1 - ratio, ratio / (1 + ratio)
    lost = -np.expm1(-u * d / ratio)
    more = share * ratio * lost / d
    return np.log1p(more) - u, share * (1 - lost) / (1 + more) - 1


def _two_laplaces(scales: Floats, nats: float) -> Any:
    """Return t with P(|X + Y| > t) = e^-nats for one or two Laplace noises of these scales, from above.

    The density of a sum is log-concave, as its parts are, and so is its tail: Newton's method on its
    logarithm, from beyond the root on, stays beyond it. Where to begin is said by
    P(|X + Y| > t) <= e^(-t / (b + c)).
    """
    big, ratio = _big_and_ratio(scales)
    u = (1 + ratio) * nats
    for _ in range(_NEWTONS):
        log_tail_there, slope = _log_two_laplaces(u, ratio)
        step = (log_tail_there + nats) / slope
        u = u - np.maximum(step, 0.0)
        if np.all(step <= 1e-14 * u):
            break
    return u * big


_BRACKETINGS = 50  # by which brackets become shorter
_FAR_RATIO = 1e30  # beside it no numerator counts


@dataclass(frozen=True)
class Interval:
    """Confidence intervals of sums of noisy numbers: lower and upper ends, one for each group."""

    low: Floats
    high: Floats

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Interval) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(np.minimum.reduce(ends), np.maximum.reduce(ends))

    def __truediv__(self, other: Interval) -> Interval:
        """Return the interval of a ratio of noisy sums; all numbers if the divisor's holds 0."""
        holds = (other.low <= 0) & (other.high >= 0)
        below = [np.where(holds, 1.0, end) for end in (other.low, other.high)]
        with np.errstate(invalid="ignore"):
            ends = [above / end for above in (self.low, self.high) for end in below]
        low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
        holds = holds | np.isnan(low)  # infinite over infinite
        return Interval(np.where(holds, -np.inf, low), np.where(holds, np.inf, high))

    @property
    def middle(self) -> Floats:
        """The middle of each confidence interval of noisy sums."""
        return (self.low + self.high) / 2

    def map(self, increasing: Callable[[Floats], Floats]) -> Interval:
        """Apply an increasing function to the ends of confidence intervals of noisy sums."""
        return Interval(increasing(self.low), increasing(self.high))

    def clipped(self, low: float, high: float) -> Interval:
        """Return the confidence intervals of numbers that are clamped to a range."""
        return self.map(lambda end: np.clip(end, low, high))

    def shifted(self, number: float) -> Interval:
        """Return the confidence intervals of sums with a number."""
        return Interval(self.low + number, self.high + number)

    def scaled(self, factor: float) -> Interval:
        """Return the confidence intervals of multiples, also by a factor below 0."""
        ends = self.low * factor, self.high * factor
        return Interval(np.minimum(*ends), np.maximum(*ends))

    def squared(self) -> Interval:
        """Return the confidence intervals of the squares of noisy sums."""
        squares = self.low**2, self.high**2
        low = np.where((self.low < 0) & (self.high > 0), 0.0, np.minimum(*squares))
        return Interval(low, np.maximum(*squares))


@dataclass(frozen=True)
class Form:
    """A linear form of noisy statistics: a weighted sum of the coordinates of a group, and a constant."""

    weights: Mapping[str, Weight]
    constant: float = 0.0

    def plus(self, other: Form, times: Weight = 1.0) -> Form:
        """Return the sum of a form and a multiple of another one."""
        names = dict.fromkeys((*self.weights, *other.weights))
        weights = {n: self.weights.get(n, 0.0) + times * other.weights.get(n, 0.0) for n in names}
        return Form(weights, self.constant + times * other.constant)

    def value(self, numbers: Mapping[str, Floats]) -> Floats:
        """Return the form of noisy numbers by coordinate."""
        size = len(next(iter(numbers.values()), ()))
        return np.asarray(
            sum((w * numbers[n] for n, w in self.weights.items()), np.full(size, self.constant))
        )


ONE = Form({}, 1.0)
InGroups = Sequence[tuple[int, Form]]  # forms of so many groups each


@dataclass(frozen=True)
class Noises:
    """The noise of a release, for confidence intervals of linear forms of its statistics and of their ratios.

    Args:
        noise: of all coordinates, in grid steps.
        steps: by coordinate, in order, the grid step.
    """

    noise: Any
    steps: Mapping[str, float]

    @cached_property
    def _laws(self) -> FormLaws:
        return FormLaws(self.noise)

    def _parts(self, groups: InGroups) -> Parts:
        found = []
        for n, form in groups:
            weights = [form.weights.get(name, 0.0) * np.asarray(step) for name, step in self.steps.items()]
            found.append((n, np.stack(np.broadcast_arrays(*weights), axis=-1)))
        return found

    def _law(self, name: str) -> Law:
        law: Law = self._laws.laws[list(self.steps).index(name)]
        return law

    def reach(self, groups: InGroups, failure: float) -> float:
        """Return t with P(|noise in a sum of forms of several groups| > t) <= failure."""
        return self._laws.tolerance(self._parts(groups), failure)

    def tolerance(self, weights: Mapping[str, Weight], failure: float) -> Floats:
        """Return t with P(|weighted sum of the noises| > t) <= failure, for each group.

        Args:
            weights: by coordinate, numbers or of shape (groups,), any sign.
            failure: in (0, 1).
        """
        ((_, rows),) = self._parts([(1, Form(weights))])
        return self._laws.tolerances(np.atleast_2d(rows), failure)

    def along(self, top: InGroups, bottom: InGroups, failure: float) -> Callable[[Floats], Floats]:
        """Return a function: of m, t with P(|noise in top - m bottom| > t) <= failure."""
        return self._laws.along(self._parts(top), self._parts(bottom), failure)

    def deviation(self, weights: Mapping[str, Floats]) -> Floats:
        """Return the standard deviation of a weighted sum of the noises.

        Args:
            weights: by coordinate, of any shapes that fit each other.
        """
        return np.atleast_1d(self._laws.spread(self._parts([(1, Form(weights))])))

    def rounded_deviation(self, weights: Mapping[str, float]) -> float:
        """Return the standard deviation of a weighted sum of the noises that is rounded to a whole number.

        Args:
            weights: by coordinate.
        Source:
            Sheppard 1898, for sums and large noise: rounding is like independent uniform noise.
        """
        if len(weights) == 1:
            ((name, weight),) = weights.items()
            return math.sqrt(rounded_variance(self._law(name), abs(weight) * self.steps[name]))
        (real,) = self.deviation({name: np.full(1, weight) for name, weight in weights.items()}).tolist()
        whole = all(self._law(n).discrete and w * self.steps[n] % 1 == 0 for n, w in weights.items())
        return real if whole else math.hypot(real, math.sqrt(1 / 12))

    def interval(self, numbers: Mapping[str, Floats], form: Form, failure: float) -> Interval:
        """Return a confidence interval of a form of noisy numbers without their noise.

        Args:
            numbers, failure: as of `ratio`.
            form: the form.
        """
        value, half = form.value(numbers), self.tolerance(form.weights, failure)
        return Interval(value - half, value + half)

    def ratio(
        self,
        numbers: Mapping[str, Floats],
        top: Mapping[str, Weight],
        bottom: Mapping[str, Weight],
        within: tuple[float, float],
        failure: float,
    ) -> Interval:
        """Return a confidence interval of a ratio of noisy sums that is known to lie in `within`.

        For the true ratio m, top - m * bottom is a linear form of noise and nothing else: the
        values of m that it does not contradict are a confidence set, here cut to `within`.

        Args:
            numbers: noisy numbers by coordinate, shape (groups,).
            top, bottom: the coordinates of which numerator and denominator are the sums, with their weights.
            within: lower and upper end.
            failure: in (0, 1).

        Source:
            Fieller 1954, "Some problems in interval estimation".
        """
        reach = self.along([(1, Form(top))], [(1, Form(bottom))], failure)
        return fieller(Form(top).value(numbers), Form(bottom).value(numbers), reach, within)

    def quotient(self, numbers: Mapping[str, Floats], top: Form, bottom: Form, failure: float) -> Interval:
        """Return a confidence interval of a ratio of forms; infinite where the divisor may be 0.

        Args:
            numbers, failure: as of `ratio`.
            top, bottom: the forms.
        """
        reach = self.along([(1, top)], [(1, bottom)], failure)
        return quotient(top.value(numbers), bottom.value(numbers), reach)


def fieller(
    above: Floats, below: Floats, reach: Callable[[Floats], Floats], within: tuple[Weight, Weight]
) -> Interval:
    """Return the m in `within` that above - m below does not contradict; `within` where below is not above 0.

    Args:
        above, below: noisy numerators and denominators.
        reach: how far above - m below may be off, as a function of m.
        within: lower and upper end.
    """

    def beyond(m: Floats) -> Floats:
        # How much more noise there is than its tolerance, if m is the ratio.
        return np.asarray(np.abs(above - m * below) - reach(m))

    centre = np.clip(above / np.where(below > 0, below, np.inf), *within)
    ends = []
    for limit in within:
        end = np.zeros_like(centre) + limit
        open_ended = ~(beyond(end) > 0) | (below <= 0)
        ends.append(np.where(open_ended, limit, narrow(beyond, centre, end, _BRACKETINGS)[1]))
    return Interval(*ends)


def quotient(above: Floats, below: Floats, reach: Callable[[Floats], Floats]) -> Interval:
    """Return a confidence interval of a ratio of noisy sums; infinite where the divisor may be 0.

    Args:
        above, below, reach: as of `fieller`.
    """
    off, far = reach(np.zeros(1)), np.full(1, _FAR_RATIO)
    off_below = reach(far) / far
    sure = np.abs(below) > off_below * (1 + 1e-6)
    distance = np.where(sure, np.abs(below) - off_below, 1.0)
    most = np.where(sure, (np.abs(above) + off) / distance * (1 + 1e-6) + 1e-300, 0.0)
    side = np.where(below < 0, -1.0, 1.0)
    found = fieller(above * side, below * side, reach, (-most, most))
    # The tolerance of a sum is at most the sum of tolerances, so that ends are nearer.
    low = np.where(sure & (found.low > -most), found.low, -np.inf)
    return Interval(low, np.where(sure & (found.high < most), found.high, np.inf))


_SHARES = (0.02, 0.2, 0.5, 0.8, 0.98)  # of the chance to fail, at one end


def balanced_half_width(interval: Callable[[float], Interval], value: Floats, failure: float) -> Floats:
    """Return half-widths of ratios of noisy sums, whose intervals are farther at one end.

    A half-width is that of an interval whose ends fail with unequal chances, so that they are as far from
    the ratio, or nearly so. It is infinite where there is no ratio.

    Args:
        interval: gives the interval whose two ends fail with half of a chance each.
        value: the ratios.
        failure: the chance that the half-width does not hold.
    """
    ends = [interval(2 * share * failure) for share in _SHARES]
    above = np.array([e.high for e in ends]) - value
    below = value - np.array([e.low for e in reversed(ends)])
    with np.errstate(invalid="ignore", divide="ignore"):  # of what is infinite or NaN
        apart = above - below
        part = apart[:-1] / (apart[:-1] - apart[1:])
        meet = np.where((part >= 0) & (part <= 1), above[:-1] + part * np.diff(above, axis=0), np.inf)
    halves = np.concatenate([np.maximum(above, below), meet])
    return np.asarray(np.where(np.isnan(halves), np.inf, halves).min(axis=0))
