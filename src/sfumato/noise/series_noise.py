"""Series noise on time steps, of which cumulative totals have little: Gaussian, or Laplace on trees."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import whole_number
from sfumato.exact.time_trees import Toeplitz, Tree
from sfumato.noise.law_tails import Floats
from sfumato.noise.laws import Gaussian, Laplace
from sfumato.noise.random_words import Words, get_source

MAX_SCALE = Fraction(2**40)  # scales from here on could leave 64-bit integers


@dataclass(frozen=True, repr=False)
class TimeStepsNoise(Spelled, ABC):
    """Noise on each number of each series of time steps.

    Args:
        scales: for each coordinate the scale of what is drawn, in grid steps.
        factor: which sums of steps have it.
        series: how many.
    """

    scales: tuple[Fraction, ...]
    factor: Any
    series: int

    def __post_init__(self) -> None:
        whole_number(self.series, "series", 1)
        if not self.scales or not 0 < min(self.scales) <= max(self.scales) <= MAX_SCALE:
            raise ParameterError("scales", self.scales, f"above 0, and at most {MAX_SCALE} grid steps")

    @property
    def groups(self) -> int:
        """The number of groups, that is time steps in all series together."""
        return int(self.series * self.factor.steps)

    @abstractmethod
    def rounded(self, words: Words | None = None) -> NDArray[Any]:
        """Draw series noise once: integers (coordinates, series, steps), in 2^-16 grid steps."""


# Noises are whole numbers of so small a part of a step, that of the factor's coefficients.
FINE = Toeplitz.BITS
_NARROW = 2**34  # up to here fine steps of totals do not, either
_LIMB = 29
_SAFE = 1 + 2.0**-20  # what float arithmetic may lose


@dataclass(frozen=True, repr=False)
class SeriesGaussian(TimeStepsNoise):
    """Series noise R^-1 Z, where Z is independent Gaussian noise and R sums time steps with weights.

    Args:
        scales: for each coordinate the deviation of Z, in grid steps.
        factor: the weights of the running sums, R.
        series: how many.

    >>> from sfumato.noise import SeededWords
    >>> noise = SeriesGaussian((Fraction(1000),), Toeplitz.from_power(Fraction(1, 2), 52), series=3)
    >>> noise.rounded(SeededWords(1)).shape
    (1, 3, 52)

    Source:
        Henzinger, Upadhyay and Upadhyay 2023, "Almost tight error bounds on differentially private continual
        counting"; Fichtenberger, Henzinger and Upadhyay 2023, "Constant matters". Proof:
        docs/proofs/series_gaussian.md.
    """

    factor: Toeplitz

    def rounded(self, words: Words | None = None) -> NDArray[Any]:
        """Draw series noise once, step by step: the only w with R w = Z up to half a fine step each.

        Args:
            words: source of random words; None for this thread's secure words.
        Returns:
            Integers of shape (coordinates, series, steps), in 2^-16 grid steps: int64, or Python's own.
        """
        source, steps = get_source(words), self.factor.steps
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
        """Return the description of the Gaussian series noise for the certificate.

        Args:
            names: of the coordinates, in order.
        """
        sums = {"weights": list(self.factor.coefficients), "weight_bits": FINE}
        scales = dict(zip(names, map(str, self.scales), strict=True))
        return {"shape": "series_gaussian", "series": self.series, **sums, "scales": scales}

    @cached_property
    def inverse(self) -> Floats:
        """The coefficients of R^-1: what each draw does to the time steps from its own on."""
        return inverse(self.factor)

    @property
    def laws(self) -> tuple[Gaussian, ...]:
        """For each coordinate a law whose rounded tails are no smaller than those of any time step's noise.

        The noise is within 2^-16 of the sum of |R^-1| of a real number; by twice as much of a step is the law
        wider, so that at a half step, and from there on, it is no less far out.
        """
        wider = math.hypot(*self.inverse) * _SAFE / (1 - 2 * float(np.abs(self.inverse).sum()) * 2.0**-FINE)
        return tuple(Gaussian(scale * Fraction(wider)) for scale in self.scales)

    @property
    def cumulated(self) -> tuple[Floats, Floats]:
        """For each step's cumulative total: deviation of its series noise over the scale, rounding error.

        It is off by the rounding of draws, and of what is made of them: of each by half of a fine step.
        """
        totals = np.cumsum(self.inverse)
        return np.sqrt(np.cumsum(totals**2)) * _SAFE, np.cumsum(np.abs(totals)) * _SAFE * 2.0**-FINE


def inverse(factor: Toeplitz) -> Floats:
    """Return the coefficients of the inverse of a series' Toeplitz matrix, by Newton's iteration."""
    own, found = np.array(factor.coefficients) / 2.0**FINE, np.ones(1)
    while len(found) < len(own):
        size = min(2 * len(found), len(own))
        rest = -_product(own[:size], found, size)
        rest[0] += 2
        found = _product(found, rest, size)
    return found


def _product(one: Floats, other: Floats, size: int) -> Floats:
    """Return the first coefficients of a product of power series, for the inverse of a series' matrix."""
    many = 2 * size
    found: Floats = np.fft.irfft(np.fft.rfft(one, many) * np.fft.rfft(other, many), many)[:size]
    return found


_SAFE_TREE = 1 + 2.0**-20  # what float arithmetic may lose


@dataclass(frozen=True, repr=False)
class TreeLaplace(TimeStepsNoise):
    """Series noise by a tree: Laplace noise on sums of blocks of time steps, joined by least squares.

    Args:
        scales: for each coordinate the scale of the noise of each block, in grid steps.
        factor: the blocks.
        series: how many.

    >>> from fractions import Fraction
    >>> from sfumato.noise import SeededWords
    >>> noise = TreeLaplace((Fraction(1000),), Tree.best(52), series=3)
    >>> noise.rounded(SeededWords(1)).shape
    (1, 3, 52)

    Source:
        Hay, Rastogi, Miklau and Suciu 2010, "Boosting the accuracy of differentially private histograms
        through consistency". Proof: docs/proofs/tree_laplace.md.
    """

    factor: Tree

    def rounded(self, words: Words | None = None) -> NDArray[Any]:
        """Draw tree noise of time steps once.

        Steps have their own noise, and a correction that depends on no more than how far noisy blocks are
        off the sums of noisy steps in them: whole numbers, in which exact numbers have no part.

        Args:
            words: source of random words; None for this thread's secure words.
        Returns:
            Integers of shape (coordinates, series, steps), in 2^-16 grid steps: int64, or Python's own.
        """
        source, tree, bits = get_source(words), self.factor, self._bits
        own: list[NDArray[np.int64]] = []
        for level in range(tree.levels):
            count = self.series * tree.nodes(level)
            drawn = [Laplace(scale * 2**bits).rounded(count, words=source) for scale in self.scales]
            own.append(np.array(drawn, np.int64).reshape(len(self.scales), self.series, -1))
        residues = [
            (blocks - tree.added_up(own[0], level)).astype(np.float64)
            for level, blocks in enumerate(own[1:], 1)
        ]
        found: NDArray[Any] = own[0] + np.rint(tree.corrections(residues)).astype(np.int64)
        return found if bits == FINE else found.astype(object) << (FINE - bits)

    def description(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the description of the tree's Laplace noise for the certificate.

        Args:
            names: of the coordinates, in order.
        """
        blocks = {"steps": self.factor.steps, "blocks": list(self.factor.sizes)}
        scales = dict(zip(names, map(str, self.scales), strict=True))
        return {"shape": "tree_laplace", "series": self.series, **blocks, "scales": scales}

    @property
    def _bits(self) -> int:
        """The bits b of the tree noise's unit of 2^-b grid steps: 16, or 0 for large noise."""
        return FINE if max(self.scales) <= _NARROW else 0

    @property
    def laws(self) -> tuple[Laplace, ...]:
        """For each coordinate the law of the Laplace noise of a block, before least squares."""
        return tuple(map(Laplace, self.scales))

    @property
    def cumulated(self) -> tuple[Floats, Floats]:
        """For each step's cumulative total: deviation of its tree noise over the scale, rounding error.

        It is off by the rounding of corrections, each by half of a fine step, and of draws.
        """
        variances, _ = self.factor.totals
        blocks = sum(map(self.factor.nodes, range(self.factor.levels)))
        rounding = np.arange(1, self.factor.steps + 1) + blocks * self.largest
        return np.sqrt(2 * variances) * _SAFE_TREE, rounding * 2.0 ** -(self._bits + 1) * _SAFE_TREE

    @property
    def largest(self) -> Floats:
        """For each step's total a bound of the largest scale of a block's noise in it, over the scale."""
        return self.factor.totals[1] * _SAFE_TREE

    @property
    def deviation(self) -> float:
        """The root mean square deviation of all cumulative totals' tree noise, over the scale."""
        return math.sqrt(2) * self.factor.error
