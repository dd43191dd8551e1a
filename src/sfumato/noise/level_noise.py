"""Level noise: Gaussian noise on groups and on their totals at several levels, joined by least squares."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError
from sfumato.exact.rollup import Rollup
from sfumato.noise.law_tails import Floats
from sfumato.noise.laws import Gaussian
from sfumato.noise.level_tolerances import variances
from sfumato.noise.random_words import Words, get_source

# Noises are whole numbers of so small a part of a step, 2^-16; of large ones the part is larger, as noise of
# 2^16 cells could leave 64-bit integers, were it more than 2^48 of them.
FINE = 16
_BITS = 48
MAX_SCALE = Fraction(2**_BITS)
MAX_CELLS = 2**16
_SAFE = 1 + 2.0**-20  # what float arithmetic may lose
_NEAR = 1e-13  # of what least squares solve, where they are done
_SOLVED = 2.0**-20  # of its deviation, which a total is then within of them: `test_what_least_squares_leave`
_STEPS = 10_000


@dataclass(frozen=True, repr=False)
class LevelsGaussian(Spelled):
    """Level noise of each number of each cell, with which totals of all levels have little noise.

    Args:
        scales: for each coordinate the deviation of noise at a level of size 1, in grid steps.
        sizes: for each level how many times the scales its noise has; 0 where it is not measured.
        rollup: which totals there are of which cells.

    >>> from sfumato.noise import SeededWords
    >>> rollup = Rollup(((0,), ()), (3,), ((0, 1, 2), (0, 0, 0)))
    >>> noise = LevelsGaussian((Fraction(1000),), (Fraction(1), Fraction(1)), rollup)
    >>> noise.rounded(SeededWords(1)).shape, [round(float(d[0]), 3) for d in noise.deviations]
    ((1, 3), [0.866, 0.866])

    Source:
        Hay, Rastogi, Miklau and Suciu 2010, "Boosting the accuracy of differentially private histograms
        through consistency", for least squares over a tree. Proof: docs/proofs/levels_gaussian.md.
    """

    scales: tuple[Fraction, ...]
    sizes: tuple[Fraction, ...]
    rollup: Rollup

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.rollup.sets) or min(self.sizes) < 0 or not self.sizes[0]:
            raise ParameterError("sizes", self.sizes, "one of at least 0 for each level, the first above 0")
        largest = max(self.scales) * max(self.sizes)
        if not min(self.scales) > 0 or largest > MAX_SCALE or self.groups > MAX_CELLS:
            raise ParameterError("scales", self.scales, f"above 0, and at most {MAX_SCALE} grid steps")

    @property
    def groups(self) -> int:
        """The number of cells that get level noise."""
        return self.rollup.cells

    @cached_property
    def fine(self) -> tuple[int, ...]:
        """For each coordinate b, where its level noise is a whole number of 2^-b grid steps."""
        largest = (int(scale * max(self.sizes)).bit_length() for scale in self.scales)
        return tuple(min(FINE, max(0, _BITS - bits)) for bits in largest)

    @property
    def weights(self) -> list[float]:
        """For each level one over the square of its noise size; 0 where it is not measured."""
        return [float(1 / s**2) if s else 0.0 for s in self.sizes]

    def rounded(self, words: Words | None = None) -> NDArray[np.int64]:
        """Draw level noise once: noise of each level, then what least squares make of it for cells.

        Args:
            words: source of random words; None for this thread's secure words.
        Returns:
            Integers of shape (coordinates, cells), in fine steps of each coordinate: see `fine`.
        """
        source, rollup = get_source(words), self.rollup
        drawn: list[NDArray[np.int64]] = []
        for size, counts in zip(self.sizes, rollup.sizes, strict=True):
            scales = zip(self.scales, self.fine, strict=True)
            laws = [Gaussian(scale * size * 2**bits) for scale, bits in scales] if size else []
            drawn.append(np.array([law.rounded(len(counts), words=source) for law in laws], np.int64))
        # What was drawn of totals, less what their cells add up to: of what is measured it is the same, as
        # exact totals are those of exact cells.
        apart = {i: own - rollup.totals(drawn[0], i) for i, own in enumerate(drawn) if i and own.size}
        moved = least_squares(rollup, self.weights, apart, len(self.scales))
        return drawn[0] + np.rint(moved).astype(np.int64)

    def description(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the description of the level noise for the certificate.

        Args:
            names: of the coordinates, in order.
        """
        levels = []
        for size, shape in zip(self.sizes, self.rollup.shape, strict=True):
            totals = [{"cells": cells, "times": n} for cells, n in Counter(shape).items()]
            levels += [{"size": str(size), "totals": totals}] if size else []
        return {
            "shape": "levels_gaussian",
            "levels": levels,
            "scales": dict(zip(names, map(str, self.scales), strict=True)),
        }

    @cached_property
    def deviations(self) -> tuple[Floats, ...]:
        """For each level, and each of its totals, a bound of the deviation of its noise.

        Over the scale of the coordinate: exactly that, where levels are nested, or cells complete.
        """
        return tuple(np.sqrt(v) * _SAFE for v in variances(self.rollup, self.weights))

    def off(self, coordinate: int) -> tuple[Floats, ...]:
        """Return by level how far noise of totals is from a Gaussian number at most, in grid steps.

        Args:
            coordinate: which.
        """
        bits = self.fine[coordinate]
        found, solved = [], float(self.scales[coordinate]) * 2**bits * _SOLVED  # of a deviation
        drawn = sum(w * len(s) for w, s in zip(self.weights, self.rollup.sizes, strict=True))
        for deviations, sizes in zip(self.deviations, self.rollup.sizes, strict=True):
            # Draws are rounded to fine steps, of which least squares make a sum whose weights have a bounded
            # sum of squares; cells are rounded too, and off by what is left of the equations.
            fine = deviations * (math.sqrt(drawn) / 2 + solved) + sizes * (0.5 + 2.0**-10)
            found.append(np.asarray(fine * _SAFE * 2.0**-bits))
        return tuple(found)

    @property
    def laws(self) -> tuple[Gaussian, ...]:
        """For each coordinate a law whose tails are no smaller than those of any cell's level noise."""
        widest = float(self.deviations[0].max()) * _SAFE
        return tuple(Gaussian(scale * Fraction(widest)) for scale in self.scales)


def least_squares(
    rollup: Rollup, weights: Sequence[float], apart: Mapping[int, NDArray[np.int64]], coordinates: int
) -> Floats:
    """Return the cells' moves by which noisy levels agree best: least squares by conjugate gradients.

    Args:
        rollup, weights: as of `variances`.
        apart: by level, of shape (coordinates, totals): what was measured less what cells add up to.
        coordinates: how many.
    Returns:
        Of shape (coordinates, cells).
    """
    moved = np.zeros((coordinates, rollup.cells))
    levels = list(apart)

    def to_cells(totals: Mapping[int, Any]) -> Floats:
        of_levels = (weights[i] * totals[i][rollup.codes[i]] for i in levels)
        return np.asarray(sum(of_levels, np.zeros(rollup.cells)))

    def times(x: Floats) -> Floats:
        return np.asarray(weights[0] * x + to_cells({i: np.bincount(rollup.codes[i], x) for i in levels}))

    for c in range(coordinates if levels else 0):
        wanted = to_cells({i: apart[i][c].astype(np.float64) for i in levels})
        goal = _NEAR * math.sqrt(wanted @ wanted)
        x, rest = moved[c], wanted
        direction, length = rest.copy(), float(rest @ rest)
        for _ in range(_STEPS):
            if math.sqrt(length) <= goal:
                break
            after = times(direction)
            step = length / float(direction @ after)
            x += step * direction
            rest = rest - step * after
            length, before = float(rest @ rest), length
            direction = rest + length / before * direction
    return moved
