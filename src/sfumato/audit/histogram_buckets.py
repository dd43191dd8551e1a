"""Buckets of a histogram over two samples, and the privacy predicate on each bucket."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.audit.claims import Pair


Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Column = tuple[Floats, Codes]

# Narrower buckets than this are not made for values that hardly vary.
MIN_WIDTH = 1e-10


@dataclass(frozen=True)
class Buckets:
    """The buckets of a histogram: intervals of equal width, and one for each value that is no number.

    Args:
        boundaries: increasing numbers, the left ends of the intervals; the last interval has no right end.
            Empty if there is no finite number.
        words: codes of all that is no finite number.
    """

    boundaries: Floats
    words: Codes

    def __len__(self) -> int:
        return len(self.boundaries) + len(self.words)

    @classmethod
    def over(cls, x: Column, y: Column, count: int | None = None) -> Buckets:
        """Lay histogram buckets over two samples.

        Args:
            x: numbers, and a code for each that says what it is if it is not finite.
            y: the same of the other sample.
            count: number of intervals between the smallest and the largest number; None chooses their
                width by the rule of Freedman and Diaconis: the mean over both samples of
                2 IQR / cube root of n, or of the range / cube root of n where the IQR is 0.
        Returns:
            The buckets; an interval without right end is added to those between the numbers.

        >>> zeros = np.zeros(4, np.int64)
        >>> len(Buckets.over((np.arange(4.0), zeros), (np.arange(4.0), zeros), count=3))
        4

        Source:
            Freedman and Diaconis 1981; Desfontaines 2020, section 4.2.6, allows both.
        """
        finite = [values[np.isfinite(values)] for values, _ in (x, y)]
        words = np.unique(np.concatenate([codes[~np.isfinite(values)] for values, codes in (x, y)]))
        both = np.concatenate(finite)
        if not both.size:
            return cls(np.empty(0), words)
        low, high = float(both.min()), float(both.max())
        if count is None:
            width = sum(_width(values) / 2 for values in finite if values.size)
            width *= 2 / sum(1 for values in finite if values.size)
            # As many buckets as draws tell no less than more of them would.
            count = int(min(max(math.ceil((high / 2 - low / 2) / width * 2), 2), both.size))
        # So written, it overflows for no finite numbers.
        share = np.arange(count + 1) / count
        return cls(np.unique(low * (1 - share) + high * share), words)

    def counts(self, sample: Column) -> Codes:
        """Count a sample's values in each bucket: the intervals from left to right, then the words."""
        values, codes = sample
        finite = np.isfinite(values)
        place = np.searchsorted(self.boundaries, values[finite], side="right") - 1
        inside = np.bincount(place, minlength=len(self.boundaries))
        outside = np.bincount(np.searchsorted(self.words, codes[~finite]), minlength=len(self.words))
        return np.concatenate([inside, outside]) if len(self.words) else inside

    def describe(self, bucket: int, name: str, words: list[str]) -> str:
        """Describe a histogram bucket, such as "0.5 <= value < 0.75"."""
        if bucket >= len(self.boundaries):
            return f"{name} is {words[int(self.words[bucket - len(self.boundaries)])]}"
        left = f"{self.boundaries[bucket]:.6g} <= {name}"
        if bucket + 1 == len(self.boundaries):
            return left
        return f"{left} < {self.boundaries[bucket + 1]:.6g}"


def _width(values: Floats) -> float:
    with np.errstate(over="ignore"):
        quarter, three_quarters = np.quantile(values, [0.25, 0.75])
        spread = 2 * (three_quarters - quarter) if three_quarters > quarter else np.ptp(values)
    return float(np.clip(spread / np.cbrt(len(values)), MIN_WIDTH, np.finfo(float).max / 4))


@dataclass(frozen=True)
class Comparison:
    """The predicate P(bucket) <= e^epsilon Q(bucket) + delta on each histogram bucket, in one direction.

    Args:
        lower: lower ends of the confidence intervals of P.
        upper: upper ends of those of Q.
        claim: the epsilon and delta.
    """

    lower: Floats
    upper: Floats
    claim: Pair

    @classmethod
    def compare(
        cls, counts: Codes, neighbour_counts: Codes, claim: Pair, *, samples: int, confidence: float
    ) -> Comparison:
        """Compare the bucket counts of two samples of equal size.

        Args:
            counts: draws of P in each bucket.
            neighbour_counts: draws of Q.
            claim: the epsilon and delta.
            samples: draws on each side.
            confidence: of all intervals of one side at once, nearly: the square root of a share has
                standard deviation of about 1 / (2 sqrt(samples)).

        >>> from sfumato.audit.claims import Pair
        >>> x, y = np.array([800, 200]), np.array([200, 800])
        >>> Comparison.compare(x, y, Pair(1.0), samples=1000, confidence=0.95).failing
        array([ True, False])

        Source:
            Wasserman 2006, All of Nonparametric Statistics, p. 130, as in the published tester.
        """
        buckets = len(counts)
        quantile = NormalDist().inv_cdf(1 - (1 - confidence) / (2 * buckets))
        half_width = quantile / (2 * math.sqrt(samples))
        roots = [np.sqrt(c / samples) for c in (counts, neighbour_counts)]
        return cls(np.maximum(roots[0] - half_width, 0) ** 2, (roots[1] + half_width) ** 2, claim)

    @property
    def failing(self) -> NDArray[Any]:
        """Whether each bucket breaks the predicate, even at the generous ends of both intervals."""
        return np.asarray(self.lower > self.claim.factor * self.upper + self.claim.delta)

    @property
    def epsilon_lower(self) -> float:
        """The largest epsilon that some bucket needs at this delta, by the intervals; at least 0."""
        above = np.maximum(self.lower - self.claim.delta, 0)
        return max(0.0, float(np.log(np.maximum(above, 1e-300) / self.upper).max(initial=0.0)))
