"""Weighted sums of independent rounded noises: how far they go, and how improbable it is that they go so far.

All error bars and tolerances of several noises come from here. Two Laplace noises of scales b >= c add up to
P(|sum| > t) = e^-u (1 + r^2 / (1 + r) (1 - e^(-u d / r)) / d) with u = t/b, r = c/b, d = 1 - r: by
convolution, written without a difference of near numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.exact.normal import log_tail
from sfumato.exact.roots import first_whole, halve
from sfumato.noise.law import Gaussian, Laplace, Law
from sfumato.noise.mixtures import laplaces_log10_tail, laplaces_tolerance
from sfumato.noise.values import Floats

Weight = Any  # float, or float64 array

_LN10 = math.log(10)
# Beyond so many half steps of each noise, their rounding is small beside the sum.
_FEW = 20
# So many Laplace noises at most are taken two by two.
_MOST_PAIRED = 4
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
        """The largest distance that rounding moves the sum."""
        return sum(abs(w) for w, _ in self.terms) / 2

    def tolerance(self, k: float) -> Any:
        """Return t with P(|sum| > t) <= 10^-k.

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
        """Return log10 of a bound of P(|sum| >= t), for weights that are floats; exact for one noise."""
        if len(self.terms) == 1:
            ((weight, law),) = self.terms
            steps = math.ceil(t / abs(weight) * (1 - 1e-12))
            return log10_outside(law, steps - 0.5) if steps > 0 else 0.0
        smooth = self._log10_smooth(t - self.rounding)
        return smooth if t > _FEW * self.rounding else min(smooth, self._log10_apart(t))

    def _log10_apart(self, t: float) -> float:
        """Return log10 of a bound of P(|sum| >= t) that suits noise of less than a few steps."""
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
        if len(scales) <= _MOST_PAIRED:
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
            return log10_outside(Gaussian(np.hypot.reduce(self._scales)), beyond)
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
        """Units of the weighted noises, the largest first."""
        return -np.sort(-np.array([abs(w) * float(law.unit) for w, law in self.terms], np.float64), axis=0)

    @cached_property
    def _deviation(self) -> Any:
        return np.maximum(math.sqrt(2) * np.hypot.reduce(self._scales, axis=0), _SMALLEST)

    @cached_property
    def _largest(self) -> Any:
        return np.maximum(self._scales[0], _SMALLEST)

    def _tilted(self, enough: Callable[[Any, Any, Any], Any]) -> tuple[Any, Any]:
        """Return a u in (0, 1) and log E e^(u S), S the unrounded sum over its largest scale.

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


def log10_outside(law: Law, x: float) -> float:
    """Return log10 P(|Z| > x), also where the probability is below the smallest float.

    >>> round(log10_outside(Laplace(1), 2302.585093)), round(log10_outside(Gaussian(1), 10.0416376121756), 6)
    (-1000, -23.0)
    """
    if x <= 0:
        return 0.0
    z = x / float(law.unit)
    if isinstance(law, Laplace):
        return -z / _LN10
    return min(0.0, float(log_tail(z)) + math.log(2)) / _LN10


@lru_cache(1 << 12)
def rounded_tolerance(law: Law, k: float) -> int:
    """Return `law.rounded_tolerance(k)`, computed once for all groups."""
    return law.rounded_tolerance(k)


@lru_cache(1 << 12)
def _unit_gaussian(k: float) -> float:
    return Gaussian(1).tolerance(k)


def _big_and_ratio(scales: Floats) -> tuple[Any, Any]:
    """Return the larger one of one or two scales, and the smaller one over it, never quite 0 or 1."""
    big = np.maximum(scales[0], _SMALLEST)
    ratio = scales[1] / big if len(scales) > 1 else 0.0 * big
    return big, np.minimum(np.maximum(ratio, 1e-30), 1 - 1e-12)


def _log_two_laplaces(u: Any, ratio: Any) -> tuple[Any, Any]:
    """Return log P(|X + Y| > u) and its derivative for Laplace variables of scales 1 and `ratio` <= 1."""
    d, share = 1 - ratio, ratio / (1 + ratio)
    lost = -np.expm1(-u * d / ratio)
    more = share * ratio * lost / d
    return np.log1p(more) - u, share * (1 - lost) / (1 + more) - 1


def _two_laplaces(scales: Floats, nats: float) -> Any:
    """Return t with P(|X + Y| > t) = e^-nats for Laplace variables of these scales (one or two), from above.

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
