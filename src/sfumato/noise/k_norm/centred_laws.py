"""The law of one number of centred noise: a Laplace number, and a uniform one within a Gamma number."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.k_norm.centred import CentredNoise
from sfumato.noise.k_norm.gammas import lowest
from sfumato.noise.k_norm.laws import Marginal
from sfumato.noise.k_norm.sides import rule
from sfumato.noise.values import Floats

_nodes = 80


@dataclass(frozen=True, repr=False)
class CentredMarginal(Marginal):
    """A number of centred noise; by quadrature over the Gamma number, with an absolute error below 1e-10.

    Args:
        scale: in grid steps.
        groups: how many.
        total: the part of epsilon for all units.

    >>> law = CentredMarginal(Fraction(1), 52, Fraction(1, 9))
    >>> round(law.standard_deviation, 2), law.rounded_half_width("0.95")
    (18.5, 33)
    """

    groups: int
    total: Fraction
    error: ClassVar[float] = 1e-10

    @property
    def _stretches(self) -> tuple[float, float]:
        middle, radius = CentredNoise((self.scale,), self.groups, self.total).stretches
        return float(middle), float(radius)

    def _outside(self, x: float) -> float:
        """Average P(|Z| > x), given the radius, over its law."""
        middle, stretch = self._stretches

        def given(size: Floats) -> Floats:
            # The mean of a Laplace number's tail over [x - radius, x + radius], and the same below.
            radius = stretch * size
            near, far = np.exp(-np.abs(x - radius) / middle), np.exp(-(x + radius) / middle)
            return np.asarray((np.maximum(radius - x, 0.0) + middle / 2 * (near - far)) / radius)

        shape = self.groups + 1
        low, high = lowest(shape), shape + 20 * math.sqrt(shape) + 60
        edge = min(max(x / stretch, low), high)
        # On either side of where the radius is x, and closer to it, as the middle's tail may be steep.
        ends = sorted(
            {low, high, *(min(max(edge + s * math.sqrt(shape) * 2, low), high) for s in (-1, 0, 1))}
        )
        total = 0.0
        for start, end in pairwise(ends):
            place, weight = rule(_nodes)
            size = start + (end - start) * (place + 1) / 2
            density = np.exp((shape - 1) * np.log(size) - size - math.lgamma(shape))
            total += (end - start) / 2 * float((weight * density * given(size)).sum())
        return min(1.0, total)

    def _size_tail(self, x: float) -> float:
        """Return Chernoff's bound of |X| and Y together, each stretched as it is: any slope gives one."""
        middle, radius = self._stretches

        def log_bound(slope: float) -> float:
            each = math.log1p(-slope * middle) + (self.groups + 1) * math.log1p(-slope * radius)
            return -each - slope * x

        low, high = 0.0, 1 / middle
        for _ in range(60):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, right) if log_bound(left) < log_bound(right) else (left, high)
        return math.exp(min(0.0, log_bound(low)))

    @property
    def variance(self) -> float:
        """The variance of Z, in squared steps."""
        middle, radius = self._stretches
        shape = self.groups + 1
        return float(self.scale**2) * (2 * middle**2 + radius**2 * shape * (shape + 1) / 3)


def centred(noise: CentredNoise) -> CentredMarginal:
    """Return the law of each number of centred noise."""
    return CentredMarginal(noise.scales[0], noise.groups, noise.total)


def best_total(groups: int) -> Fraction:
    """Return the part of epsilon for all units that makes the deviation the smallest, to 1/1024.

    >>> best_total(1), best_total(52)
    (Fraction(1, 2), Fraction(29, 256))
    """
    # The variance is 1 / (2 t²) + (G + 1) (G + 2) / (12 (1 - t)²): where (1 - t)/t is this, it is flat.
    odds = ((groups + 1) * (groups + 2) / 6) ** (1 / 3)
    return max(Fraction(round(1024 / (1 + odds)), 1024), Fraction(1, 1024))
