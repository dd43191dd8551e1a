"""Randomness of the zoo: exactly rounded noise on a fine grid, from a seed, so that runs repeat."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.noise import Gaussian, Laplace, Law, SeededWords

GRID = 2.0**-20  # a step of all statistics; noise is exact on it, so no low bit tells anything
NUMPY = np.random.default_rng(0)  # for what a mechanism draws besides exact noise, and for naive noise
_words = [SeededWords(0)]


def seed(value: int | str) -> None:
    """Begin again from a seed."""
    _words[0] = SeededWords(value)
    state = int.from_bytes(str(value).encode(), "big")
    NUMPY.bit_generator.state = np.random.PCG64(state).state


def rounded(law: Law, shape: Any) -> np.ndarray:
    """Whole numbers: noise of a law, rounded exactly."""
    return law.rounded(math.prod(np.atleast_1d(shape)), _words[0]).reshape(shape)


def laplace(scale: float | Fraction, shape: Any, grid: float = GRID) -> np.ndarray:
    """Laplace noise as if drawn with infinite precision and rounded to the grid."""
    return rounded(Laplace(Fraction(scale) / Fraction(grid)), shape) * grid


def gaussian(sigma: float | Fraction, shape: Any, grid: float = GRID) -> np.ndarray:
    """Gaussian noise as if drawn with infinite precision and rounded to the grid."""
    return rounded(Gaussian(Fraction(sigma) / Fraction(grid)), shape) * grid


def on_grid(values: np.ndarray) -> np.ndarray:
    """Values rounded to the grid, so that their low bits tell nothing."""
    return np.rint(values / GRID) * GRID


def numbers(values: Iterable[Any]) -> np.ndarray:
    """The numbers among the values, NaN left out."""
    kept = [float(v) for v in values if isinstance(v, (int, float))]
    return np.array([v for v in kept if not math.isnan(v)], np.float64)


def clamped(values: Iterable[Any], lower: float, upper: float) -> np.ndarray:
    """The numbers among the values, clamped and put on the grid: their float sums are exact."""
    return on_grid(np.clip(numbers(values), lower, upper))


def total(values: Iterable[Any], lower: float, upper: float) -> float:
    """The exact sum of clamped values."""
    return float(clamped(values, lower, upper).sum())
