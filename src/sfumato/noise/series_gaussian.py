"""Gaussian noise on series of time steps, of which cumulative totals have little."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.exact.toeplitz import Toeplitz
from sfumato.noise.law import Gaussian
from sfumato.noise.time_steps import TimeStepsNoise
from sfumato.noise.values import Floats
from sfumato.noise.words import Words, source_of

# Noises are whole numbers of so small a part of a step, that of the factor's coefficients.
FINE = Toeplitz.BITS
_NARROW = 2**34  # up to here fine steps of totals do not, either
_LIMB = 29
_SAFE = 1 + 2.0**-20  # what float arithmetic may lose


@dataclass(frozen=True, repr=False)
class SeriesGaussian(TimeStepsNoise):
    """Noise R^-1 Z of each number of each series: Z is independent Gaussian noise, R running weighted sums.

    Args:
        scales: for each coordinate the deviation of Z, in grid steps.
        factor: the weights of the running sums, R.
        series: how many.

    >>> from sfumato.noise import SeededWords
    >>> noise = SeriesGaussian((Fraction(1000),), Toeplitz.of_power(Fraction(1, 2), 52), series=3)
    >>> noise.rounded(SeededWords(1)).shape
    (1, 3, 52)

    Source:
        Henzinger, Upadhyay and Upadhyay 2023, "Almost tight error bounds on differentially private continual
        counting"; Fichtenberger, Henzinger and Upadhyay 2023, "Constant matters". Proof:
        docs/proofs/series_gaussian.md.
    """

    factor: Toeplitz

    def rounded(self, words: Words | None = None) -> NDArray[Any]:
        """Draw once, step by step: what is drawn is the only w with R w = Z up to half of a fine step each.

        Args:
            words: source of random words; None for this thread's secure words.
        Returns:
            Integers of shape (coordinates, series, steps), in 2^-16 grid steps: int64, or Python's own.
        """
        source, steps = source_of(words), self.factor.steps
        drawn = [Gaussian(scale * 2**FINE).rounded(self.groups, words=source) for scale in self.scales]
        z = np.array(drawn, np.int64).reshape(-1, steps)
        weights = np.array(self.factor.coefficients[:0:-1], np.int64)  # the oldest first
        half = 1 << FINE >> 1
        if max(self.scales) > _NARROW:
            z, weights = z.astype(object), weights.astype(object)
            for t in range(1, steps):
                z[:, t] -= (z[:, :t].dot(weights[steps - 1 - t :]) + half) >> FINE
            return z.reshape(len(self.scales), self.series, steps)
        high, low = np.zeros_like(z), np.zeros_like(z)
        for t in range(steps):
            own = weights[steps - 1 - t :]
            # Limbs of 29 bits: 2^14 of them, each times at most 2^16, are below 2^63. Multiples of 2^64 that
            # the upper ones lose are gone in the sum, which is a whole number of 64 bits.
            before = (low[:, :t] @ own + half) >> FINE
            z[:, t] -= before + ((high[:, :t] @ own) << (_LIMB - FINE))
            high[:, t], low[:, t] = z[:, t] >> _LIMB, z[:, t] & ((1 << _LIMB) - 1)
        return z.reshape(len(self.scales), self.series, steps)

    def description(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what is drawn, as the certificate reads it.

        Args:
            names: of the coordinates, in order.
        """
        sums = {"weights": list(self.factor.coefficients), "weight_bits": FINE}
        scales = dict(zip(names, map(str, self.scales), strict=True))
        return {"shape": "series_gaussian", "series": self.series, **sums, "scales": scales}

    @cached_property
    def inverse(self) -> Floats:
        """The coefficients of R^-1: what each draw does to the steps from its own on."""
        return inverse(self.factor)

    @property
    def laws(self) -> tuple[Gaussian, ...]:
        """For each coordinate a law whose rounded tails are no smaller than those of its noise in any step.

        The noise is within 2^-16 of the sum of |R^-1| of a real number; by twice as much of a step is the law
        wider, so that at a half step, and from there on, it is no less far out.
        """
        wider = math.hypot(*self.inverse) * _SAFE / (1 - 2 * float(np.abs(self.inverse).sum()) * 2.0**-FINE)
        return tuple(Gaussian(scale * Fraction(wider)) for scale in self.scales)

    @property
    def cumulated(self) -> tuple[Floats, Floats]:
        """Of each step's cumulative total the deviation, over the scale; and in steps how far it is off.

        It is off by the rounding of draws, and of what is made of them: of each by half of a fine step.
        """
        totals = np.cumsum(self.inverse)
        return np.sqrt(np.cumsum(totals**2)) * _SAFE, np.cumsum(np.abs(totals)) * _SAFE * 2.0**-FINE


def inverse(factor: Toeplitz) -> Floats:
    """Return the coefficients of its inverse, another matrix of this form: by Newton's iteration."""
    own, found = np.array(factor.coefficients) / 2.0**FINE, np.ones(1)
    while len(found) < len(own):
        size = min(2 * len(found), len(own))
        rest = -_product(own[:size], found, size)
        rest[0] += 2
        found = _product(found, rest, size)
    return found


def _product(one: Floats, other: Floats, size: int) -> Floats:
    """Return the first coefficients of a product of power series."""
    many = 2 * size
    found: Floats = np.fft.irfft(np.fft.rfft(one, many) * np.fft.rfft(other, many), many)[:size]
    return found
