"""Laplace noise on blocks of time steps; least squares make steps of them, whose totals have little."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.exact.trees import Tree
from sfumato.noise.law import Laplace
from sfumato.noise.series_gaussian import FINE
from sfumato.noise.time_steps import TimeStepsNoise
from sfumato.noise.values import Floats
from sfumato.noise.words import Words, source_of

_NARROW = 2**34  # up to here fine steps do not, either
_SAFE = 1 + 2.0**-20  # what float arithmetic may lose


@dataclass(frozen=True, repr=False)
class TreeLaplace(TimeStepsNoise):
    """Noise of the steps that least squares make of sums of blocks with Laplace noise.

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
        """Draw once.

        Steps have their own noise, and a correction that depends on no more than how far noisy blocks are
        off the sums of noisy steps in them: whole numbers, in which exact numbers have no part.

        Args:
            words: source of random words; None for this thread's secure words.
        Returns:
            Integers of shape (coordinates, series, steps), in 2^-16 grid steps: int64, or Python's own.
        """
        source, tree, bits = source_of(words), self.factor, self._bits
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
        """Return what is drawn, as the certificate reads it.

        Args:
            names: of the coordinates, in order.
        """
        blocks = {"steps": self.factor.steps, "blocks": list(self.factor.sizes)}
        scales = dict(zip(names, map(str, self.scales), strict=True))
        return {"shape": "tree_laplace", "series": self.series, **blocks, "scales": scales}

    @property
    def _bits(self) -> int:
        """Noises are whole numbers of 2^-16 steps, or of steps where these are small enough."""
        return FINE if max(self.scales) <= _NARROW else 0

    @property
    def laws(self) -> tuple[Laplace, ...]:
        """For each coordinate the law of the noise of a block, before least squares."""
        return tuple(map(Laplace, self.scales))

    @property
    def cumulated(self) -> tuple[Floats, Floats]:
        """Of each step's cumulative total the deviation, over the scale; and in steps how far it is off.

        It is off by the rounding of corrections, each by half of a fine step, and of draws.
        """
        variances, _ = self.factor.totals
        blocks = sum(map(self.factor.nodes, range(self.factor.levels)))
        rounding = np.arange(1, self.factor.steps + 1) + blocks * self.largest
        return np.sqrt(2 * variances) * _SAFE, rounding * 2.0 ** -(self._bits + 1) * _SAFE

    @property
    def largest(self) -> Floats:
        """Of each step's total at least the largest scale of a block's noise in it, over the scale."""
        return self.factor.totals[1] * _SAFE

    @property
    def deviation(self) -> float:
        """The root mean square of the deviations of all totals, over the scale."""
        return math.sqrt(2) * self.factor.error
