"""Section 7: mean, sample variance, sample covariance and histogram of bounded data, ready to be snapped.

Each has a definition (exact rationals of the records as they are, clamped), its sensitivity when one of its n
records changes, and the range that it can have; n is public. NaN counts as the midpoint of the bounds: an
error would tell of one record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, positive, positive_int, round_down, round_up
from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    ChangeOneDistance,
    Domain,
    L1Distance,
    Linear,
    Measurement,
    ProductDomain,
    PureDP,
    Transformation,
    VectorDomain,
)
from sfumato.noise.words import Words
from sfumato.snapping.mechanism import SnappingMechanism

Floats = NDArray[np.float64]
_number = AtomDomain(float, nan=True)


class BoundedStatistic(ABC):
    """A number of n bounded records, with its sensitivity and its range.

    Attributes:
        size: n, public.
    """

    size: int

    @property
    @abstractmethod
    def sensitivity(self) -> Fraction:
        """The largest change of the statistic when one record changes."""

    @property
    @abstractmethod
    def range(self) -> tuple[Fraction, Fraction]:
        """The least and the largest value of the statistic."""

    @property
    @abstractmethod
    def record(self) -> Domain:
        """What a record may be."""

    @abstractmethod
    def __call__(self, data: ArrayLike) -> Any:
        """Return the statistic of the data, exactly."""

    @property
    def transformation(self) -> Transformation:
        """The statistic for the framework: from change-one distance of records to absolute distance."""
        return Transformation(
            type(self).__name__,
            VectorDomain(self.record, self.size),
            AtomDomain(Fraction, *self.range),
            ChangeOneDistance(),
            AbsoluteDistance(),
            self,
            Linear(self.sensitivity),
        )

    def mechanism(self, epsilon: Number, gamma: Number = 0.05) -> SnappingMechanism:
        """Return the mechanism that releases this statistic.

        Args:
            epsilon, gamma: as for `SnappingMechanism`.
        """
        lower, upper = self.range
        return SnappingMechanism(epsilon, sensitivity=self.sensitivity, lower=lower, upper=upper, gamma=gamma)

    def measurement(self, epsilon: Number, gamma: Number = 0.05) -> Measurement:
        """Return `transformation >> mechanism(epsilon, gamma).measurement()`.

        Args:
            epsilon, gamma: as for `SnappingMechanism`; epsilon is for the change of one record.
        Returns:
            A Measurement to pure DP. It takes the data and gives a release.
        """
        return self.transformation >> self.mechanism(epsilon, gamma).measurement()

    def release(
        self, data: ArrayLike, *, epsilon: Number, gamma: Number = 0.05, words: Words | None = None
    ) -> Any:
        """Release the statistic of the data, with epsilon for the change of one record.

        Args:
            data: `size` records.
            epsilon, gamma, words: as for `SnappingMechanism`.
        Returns:
            A float; for a histogram, float64 of shape (bins,).
        """
        return self.mechanism(epsilon, gamma).release(self(data), words)


@dataclass(frozen=True)
class Mean(BoundedStatistic):
    """The mean of n numbers in [lower, upper].

    Args:
        size: n, public, at least 1.
        lower, upper: bounds on each number; what lies outside is clamped.
    Raises:
        ParameterError: size is not a whole number of at least 1, or lower is not below upper; when called,
            the data are not `size` numbers.

    >>> Mean(4, lower=0, upper=10)([1, 2, 3, 100]), Mean(4, lower=0, upper=10).sensitivity
    (Fraction(4, 1), Fraction(5, 2))

    Source:
        Covington 2020, section 7.1. Proof: docs/proofs/snapping_statistics.md.
    """

    size: int
    lower: Fraction
    upper: Fraction

    def __init__(self, size: int, *, lower: Number, upper: Number) -> None:
        _set(self, size=positive_int(size, "size"))
        _set(self, **dict(zip(("lower", "upper"), _bounds(lower, upper), strict=True)))

    @property
    def sensitivity(self) -> Fraction:
        """(upper - lower) / n."""
        return (self.upper - self.lower) / self.size

    @property
    def range(self) -> tuple[Fraction, Fraction]:
        """The bounds of each number."""
        return self.lower, self.upper

    @property
    def record(self) -> Domain:
        """A float."""
        return _number

    def __call__(self, data: ArrayLike) -> Fraction:
        """Return the mean of `size` numbers, exactly."""
        records = _array(data, self.size)
        whole, unit = _integers(_clamped(records, self.lower, self.upper))
        return sum(whole) * unit / self.size


@dataclass(frozen=True)
class SampleVariance(BoundedStatistic):
    """The variance of n numbers in [lower, upper], with divisor n - 1.

    Args:
        size: n, public, at least 2.
        lower, upper, Raises: as for `Mean`.

    >>> variance = SampleVariance(3, lower=0, upper=1)
    >>> variance([0, 0, 1]), variance.range[1], variance.sensitivity
    (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))

    Source:
        Covington 2020, section 7.2, whose largest value for odd n is too small. Proof:
        docs/proofs/snapping_statistics.md.
    """

    size: int
    lower: Fraction
    upper: Fraction

    def __init__(self, size: int, *, lower: Number, upper: Number) -> None:
        _set(self, size=_at_least_two(size))
        _set(self, **dict(zip(("lower", "upper"), _bounds(lower, upper), strict=True)))

    @property
    def sensitivity(self) -> Fraction:
        """(upper - lower)^2 / n."""
        return (self.upper - self.lower) ** 2 / self.size

    @property
    def range(self) -> tuple[Fraction, Fraction]:
        """0, and the variance of two halves at the ends."""
        return Fraction(0), largest_spread(self.size) * (self.upper - self.lower) ** 2

    @property
    def record(self) -> Domain:
        """A float."""
        return _number

    def __call__(self, data: ArrayLike) -> Fraction:
        """Return the sample variance of `size` numbers, exactly."""
        records = _array(data, self.size)
        whole, unit = _integers(_clamped(records, self.lower, self.upper))
        return _covariance(whole, whole) * unit**2


@dataclass(frozen=True)
class SampleCovariance(BoundedStatistic):
    """The covariance of n pairs, x in x_bounds and y in y_bounds, with divisor n - 1.

    Args:
        size: n, public, at least 2.
        x_bounds, y_bounds: (lower, upper) each.
    Raises:
        ParameterError: as for `Mean`.

    >>> covariance = SampleCovariance(3, x_bounds=(0, 1), y_bounds=(0, 10))
    >>> covariance([(0, 0), (0, 0), (1, 10)]), covariance.range[1], covariance.sensitivity
    (Fraction(10, 3), Fraction(10, 3), Fraction(10, 3))

    Source:
        Covington 2020, section 7.3, whose largest value for odd n is too small. Proof:
        docs/proofs/snapping_statistics.md.
    """

    size: int
    x_bounds: tuple[Fraction, Fraction]
    y_bounds: tuple[Fraction, Fraction]

    def __init__(
        self, size: int, *, x_bounds: tuple[Number, Number], y_bounds: tuple[Number, Number]
    ) -> None:
        _set(self, size=_at_least_two(size))
        _set(self, x_bounds=_bounds(*x_bounds, "x_bounds"), y_bounds=_bounds(*y_bounds, "y_bounds"))

    @property
    def sensitivity(self) -> Fraction:
        """(b - a) (d - c) / n."""
        return self._area / self.size

    @property
    def range(self) -> tuple[Fraction, Fraction]:
        """The covariance of two halves at opposite corners."""
        largest = largest_spread(self.size) * self._area
        return -largest, largest

    @property
    def _area(self) -> Fraction:
        return (self.x_bounds[1] - self.x_bounds[0]) * (self.y_bounds[1] - self.y_bounds[0])

    @property
    def record(self) -> Domain:
        """A pair of floats."""
        return ProductDomain((_number, _number))

    def __call__(self, data: ArrayLike) -> Fraction:
        """Return the sample covariance of `size` pairs, exactly."""
        pairs = _array(data, self.size, 2)
        whole_x, unit_x = _integers(_clamped(pairs[:, 0], *self.x_bounds))
        whole_y, unit_y = _integers(_clamped(pairs[:, 1], *self.y_bounds))
        return _covariance(whole_x, whole_y) * unit_x * unit_y


@dataclass(frozen=True)
class Histogram(BoundedStatistic):
    """The counts of n numbers in bins. One record that changes moves two counts at most, each by one.

    Args:
        size: n, public, at least 1.
        edges: at least three increasing floats; bin i is [edges[i], edges[i + 1]), and the last one has its
            upper edge as well. Numbers outside are clamped to the outer edges.
    Raises:
        ParameterError: size is not a whole number of at least 1, or the edges do not increase; when called,
            the data are not `size` numbers.

    >>> Histogram(4, edges=[0, 1, 2])([0.5, 1, 1.5, 9])
    [1, 3]

    Source:
        Covington 2020, section 7.4. Proof: docs/proofs/snapping_statistics.md.
    """

    size: int
    edges: tuple[float, ...]

    def __init__(self, size: int, *, edges: Sequence[float]) -> None:
        floats = tuple(float(as_fraction(edge, "edges")) for edge in edges)
        if len(floats) < 3 or any(a >= b for a, b in pairwise(floats)):
            raise ParameterError("edges", edges, "at least three increasing floats")
        _set(self, size=positive_int(size, "size"), edges=floats)

    @property
    def bins(self) -> int:
        """The number of counts."""
        return len(self.edges) - 1

    @property
    def sensitivity(self) -> Fraction:
        """The change of one count."""
        return Fraction(1)

    @property
    def range(self) -> tuple[Fraction, Fraction]:
        """From 0 to n, for each count."""
        return Fraction(0), Fraction(self.size)

    @property
    def record(self) -> Domain:
        """A float."""
        return _number

    def __call__(self, data: ArrayLike) -> list[int]:
        """Return the counts."""
        records = _array(data, self.size)
        inside = _clamped(records, Fraction(self.edges[0]), Fraction(self.edges[-1]))
        counts: list[int] = np.histogram(inside, np.array(self.edges))[0].tolist()
        return counts

    @property
    def transformation(self) -> Transformation:
        """The counts for the framework: from change-one distance of records to L1 distance of counts."""
        return Transformation(
            "Histogram",
            VectorDomain(_number, self.size),
            VectorDomain(AtomDomain(int, *self.range), self.bins),
            ChangeOneDistance(),
            L1Distance(),
            self,
            Linear(Fraction(2)),
        )

    def mechanism(self, epsilon: Number, gamma: Number = 0.05) -> SnappingMechanism:
        """Return the mechanism of one count: it has half of epsilon, as two counts can change.

        Args:
            epsilon, gamma: as for `SnappingMechanism`.
        """
        return super().mechanism(positive(epsilon, "epsilon") / 2, gamma)

    def measurement(self, epsilon: Number, gamma: Number = 0.05) -> Measurement:
        """Return `transformation`, then the mechanism for each count.

        Args:
            epsilon, gamma: as for `SnappingMechanism`; epsilon is for the change of one record.
        Returns:
            A Measurement to pure DP. It takes the data and gives float64 of shape (bins,).
        """
        transformation, mechanism = self.transformation, self.mechanism(epsilon, gamma)

        def privacy_map(d_in: Fraction) -> Fraction:
            # Whole counts: a distance of d is spread over d counts at most, and each pays for its roundings.
            moved = min(self.bins, floor(d_in))
            return moved * mechanism.privacy_loss(d_in / moved) if moved else Fraction(0)

        return transformation >> Measurement(
            "snapping", transformation.output_domain, L1Distance(), PureDP(), mechanism.release, privacy_map
        )


def largest_spread(size: int) -> Fraction:
    """Return the largest sample variance of n numbers in [0, 1], and the largest covariance of n pairs.

    >>> largest_spread(2), largest_spread(3), largest_spread(4)
    (Fraction(1, 2), Fraction(1, 3), Fraction(1, 3))

    Source:
        docs/proofs/snapping_statistics.md; ERRATA's item 12 for odd n.
    """
    return Fraction((size // 2) * ((size + 1) // 2), size * (size - 1))


def _set(frozen: object, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


def _at_least_two(size: int) -> int:
    if positive_int(size, "size") < 2:
        raise ParameterError("size", size, "a whole number of at least 2")
    return positive_int(size, "size")


def _bounds(lower: Number, upper: Number, name: str = "lower") -> tuple[Fraction, Fraction]:
    low, high = as_fraction(lower, "lower"), as_fraction(upper, "upper")
    if low >= high:
        raise ParameterError(name, lower, f"below the upper bound, which is {upper!r}")
    return low, high


def _array(data: ArrayLike, *shape: int) -> Floats:
    array = np.asarray(data, np.float64)
    if array.shape != shape:
        raise ParameterError("data", f"an array of shape {array.shape}", f"of shape {shape}")
    return array


def _clamped(values: Floats, lower: Fraction, upper: Fraction) -> Floats:
    """Clamp to the floats inside the bounds; NaN becomes the midpoint."""
    middle = float((lower + upper) / 2)
    return np.clip(np.where(np.isnan(values), middle, values), round_up(lower), round_down(upper))


def _integers(values: Floats) -> tuple[list[int], Fraction]:
    """Return floats as whole numbers of one unit, exactly."""
    fraction, exponent = np.frexp(values)
    whole = np.ldexp(fraction, 53).astype(np.int64).tolist()
    least = int(exponent.min())
    shifts = (exponent - least).tolist()
    return [w << s for w, s in zip(whole, shifts, strict=True)], Fraction(2) ** (least - 53)


def _covariance(x: list[int], y: list[int]) -> Fraction:
    """sum (x - mean x) (y - mean y) / (n - 1) = (n sum x y - sum x sum y) / (n (n - 1))."""
    n = len(x)
    products = sum(a * b for a, b in zip(x, y, strict=True))
    return Fraction(n * products - sum(x) * sum(y), n * (n - 1))
