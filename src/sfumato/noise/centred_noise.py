"""Centred Gaussian noise: each group's own noise, and a part that all groups have in common."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import root_up, whole_number
from sfumato.noise.laws import Gaussian
from sfumato.noise.random_words import Words, get_source

# The noises of a count are whole numbers of so small a part of a step, 2^-20, before they are added up.
FINE = 20
MAX_SCALE = Fraction(2**36)  # scales from here on could leave 64-bit integers
MAX_WEIGHT = 2**10  # or could be so many times a fine step that it is no longer fine


@dataclass(frozen=True, repr=False)
class CentredGaussian(Spelled):
    """Centred Gaussian noise: noise of each number, and one draw more that all groups' counts share.

    Args:
        scales: for each coordinate the deviation of its own noise, in grid steps.
        shared: the deviation of the number that all groups share, in grid steps.
        weights: for each coordinate, how many times it takes that number: 0 for what is no count.
        groups: how many.
        centre: the part of all units from which counts are counted, for the proof of the loss alone.

    >>> from sfumato.noise import SeededWords
    >>> noise = CentredGaussian((Fraction(1000), Fraction(10**6)), Fraction(500), (1, 0), groups=3)
    >>> noise.rounded(SeededWords(1)).shape
    (2, 3)

    Source:
        Lebeda 2024, "Better Gaussian mechanism using correlated noise", for counts. Proof:
        docs/proofs/centred_gaussian.md.
    """

    scales: tuple[Fraction, ...]
    shared: Fraction
    weights: tuple[int, ...]
    groups: int
    centre: Fraction = Fraction(1, 2)

    def __post_init__(self) -> None:
        whole_number(self.groups, "groups", 1)
        if len(self.scales) != len(self.weights) or min(*self.scales, self.shared) <= 0:
            raise ParameterError("scales", self.scales, "greater than 0, with a weight for each")
        if not all(0 <= w <= MAX_WEIGHT for w in self.weights):
            raise ParameterError("weights", self.weights, f"whole numbers from 0 to {MAX_WEIGHT}")
        pairs = zip(self.scales, self.weights, strict=True)
        if any(scale + weight * self.shared > MAX_SCALE for scale, weight in pairs if weight):
            raise ParameterError("scales", self.scales, f"at most {MAX_SCALE} grid steps, of counts")

    def rounded(self, words: Words | None = None) -> NDArray[np.int64]:
        """Draw centred noise once: own and common parts on the fine grid, added up, then rounded.

        Args:
            words: source of random words; None for this thread's secure words.
        Returns:
            int64 of shape (coordinates, groups).
        """
        source = get_source(words)
        (shared,) = Gaussian(self.shared * 2**FINE).rounded(1, words=source).tolist()
        rows = []
        for scale, weight in zip(self.scales, self.weights, strict=True):
            if weight:
                fine = Gaussian(scale * 2**FINE).rounded(self.groups, words=source) + weight * shared
                rows.append((fine + (1 << FINE >> 1)) >> FINE)
            else:
                rows.append(Gaussian(scale).rounded(self.groups, words=source))
        return np.array(rows, np.int64)

    def description(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the description of the centred noise for the certificate.

        Args:
            names: of the coordinates, in order.
        """
        counts = [{"name": n, "weight": w} for n, w in zip(names, self.weights, strict=True) if w]
        shape = {"shape": "centred_gaussian", "counts": counts, "common": str(self.shared)}
        return shape | {"fine_bits": FINE, "scales": dict(zip(names, map(str, self.scales), strict=True))}

    @property
    def laws(self) -> tuple[Gaussian, ...]:
        """For each coordinate a law whose rounded tails are no smaller than those of its centred noise.

        The noises are within (weight + 1) / 2 fine steps of real numbers; by twice as much of a step is the
        law wider, so that at a half step, and from there on, it is no less far out.
        """
        found = []
        for scale, weight in zip(self.scales, self.weights, strict=True):
            off = Fraction(weight + 1, 2 ** (FINE + 1)) if weight else Fraction(0)
            whole = root_up(scale**2 + (weight * self.shared) ** 2) if weight else scale
            found.append(Gaussian(whole / (1 - 2 * off)))
        return tuple(found)
