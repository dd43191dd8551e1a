"""Weighted sums of independent rounded noises: how far they go, and how near to 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

from sfumato.noise import Gaussian, Laplace, Law

_LN10 = math.log(10)
_BISECTIONS = 100
# Beyond so many half steps of each noise, their rounding is small beside the sum.
_FEW = 20
# What float arithmetic may lose, on the safe side.
_SAFE = 1 + 1e-12


@dataclass(frozen=True)
class NoiseSum:
    """The sum of weight * R over independent noises R, each rounded to whole steps.

    Args:
        terms: (weight, law in steps) of each noise: weights in units per step, not 0, any sign; laws
            all Laplace or all Gaussian.

    >>> law = Laplace(2)
    >>> NoiseSum(((1.0, law),)).tolerance(5), round(NoiseSum(((1.0, law), (2.0, law))).tolerance(5), 2)
    (23.0, 48.7)
    """

    terms: tuple[tuple[float, Law], ...]

    @property
    def rounding(self) -> float:
        """The largest distance that rounding moves the sum."""
        return sum(abs(w) for w, _ in self.terms) / 2

    def tolerance(self, k: float) -> float:
        """Return t with P(|sum| > t) <= 10^-k.

        Args:
            k: greater than 0.
        Returns:
            The smallest such t for one noise. For several, the smaller of two sound ones: the exact
            one of the unrounded sum (for two Laplace or any Gaussian noises) plus all that rounding
            can do, and the sum of the single tolerances among which 10^-k is shared.
        Source:
            Laplace plus Laplace: by convolution, see docs/testing.md.
        """
        count = len(self.terms)
        apart = sum(abs(w) * rounded_tolerance(law, k + math.log10(count)) for w, law in self.terms)
        if count == 1:
            return apart
        return min(apart, self._smooth(k) + self.rounding) * _SAFE

    def log10_tail(self, t: float) -> float:
        """Return log10 of a bound of P(|sum| >= t); exact for one noise."""
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
            return sum(abs(w) * rounded_tolerance(law, k + count) for w, law in self.terms) < t

        found = [k / 4 for k in range(1, 120) if within(k / 4)]
        return -found[-1] if found else 0.0

    def _log10_smooth(self, beyond: float) -> float:
        """Return log10 of a bound of P(|sum of the unrounded noises| > beyond)."""
        if beyond <= 0:
            return 0.0
        if self._gaussian:
            return log10_outside(Gaussian(self._sigma), beyond)
        pairs = self._pairs
        if len(pairs) == 1:
            return _log10_two_laplaces(*pairs[0], beyond)
        # Chernoff's bound: P(|sum| > t) <= 2 exp(-u t) / prod(1 - (u b)^2).
        scales = [b for pair in pairs for b in pair]
        tries = [i / 200 / max(scales) for i in range(1, 200)]
        bounds = [math.log(2) - u * beyond - sum(math.log1p(-((u * b) ** 2)) for b in scales) for u in tries]
        return min(0.0, *bounds) / _LN10

    def _smooth(self, k: float) -> float:
        """Return a t with P(|sum of the unrounded noises| > t) <= 10^-k."""
        if self._gaussian:
            return _unit_gaussian(k) * self._sigma
        pairs = self._pairs
        each = k + math.log10(len(pairs))
        return sum(_two_laplaces(b, c, each) for b, c in pairs)

    @property
    def _gaussian(self) -> bool:
        return isinstance(self.terms[0][1], Gaussian)

    @cached_property
    def _sigma(self) -> float:
        return math.hypot(*(w * float(law.unit) for w, law in self.terms))

    @cached_property
    def _pairs(self) -> list[tuple[float, float]]:
        scales = sorted((abs(w) * float(law.unit) for w, law in self.terms), reverse=True)
        scales += [0.0] * (len(scales) % 2)
        return list(zip(scales[::2], scales[1::2], strict=True))


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
    inside = math.erfc(z / math.sqrt(2))
    if inside > 1e-290:
        return math.log10(inside)
    return (-z * z / 2 - math.log(z) + math.log(2 / math.pi) / 2) / _LN10


def log10_gamma_deviation(shape: float, total: float) -> float:
    """Return log10 of Chernoff's bound that a Gamma(shape, 1) variable lies at `total` or beyond.

    Beyond is away from its mean, `shape`: below where `total` is below it, else above.

    >>> log10_gamma_deviation(10, 10), round(log10_gamma_deviation(1000, 700), 1)
    (0.0, -24.6)
    """
    if total <= 0:
        return -math.inf
    return min(0.0, (shape - total + shape * math.log(total / shape)) / _LN10)


def log10_many(successes: int, tries: int, p: float) -> float:
    """Return log10 of Chernoff's bound that so many of independent tries of probability p succeed.

    >>> round(log10_many(10, 10, 0.1), 6), log10_many(1, 10, 0.5)
    (-10.0, 0.0)
    """
    share = successes / tries
    if share <= p:
        return 0.0
    divergence = share * math.log(share / p) if p > 0 else math.inf
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - p))
    return -tries * divergence / _LN10


@lru_cache(1 << 12)
def rounded_tolerance(law: Law, k: float) -> int:
    """Return `law.rounded_tolerance(k)`, computed once for all groups."""
    return law.rounded_tolerance(k)


@lru_cache(1 << 12)
def _unit_gaussian(k: float) -> float:
    return Gaussian(1).tolerance(k)


def _log10_two_laplaces(b: float, c: float, t: float) -> float:
    """Return log10 P(|X + Y| > t) for Laplace variables of scales b >= c >= 0.

    P = exp(-u) (1 + r^2 / (1 + r) * (1 - exp(-u d / r)) / d) with r = c/b, d = 1 - r, u = t/b; for
    r = 1 it is exp(-u) (1 + u/2). No difference of near numbers is left in it.
    """
    u, r = t / b, c / b
    if r < 1e-300:
        return -u / _LN10
    d = 1 - r
    inner = u / r if d == 0 else -math.expm1(-u * d / r) / d
    return (-u + math.log1p(r * r / (1 + r) * inner)) / _LN10


def _two_laplaces(b: float, c: float, k: float) -> float:
    """Return t with P(|X + Y| > t) = 10^-k, rounded up, by bisection."""
    low, high = 0.0, (b + c) * (k * _LN10 + 1)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if _log10_two_laplaces(b, c, middle) > -k:
            low = middle
        else:
            high = middle
        if high - low <= 1e-13 * high:
            break
    return high
