"""Statistics of bounded data for the snapping mechanism (section 7): mean, variance, covariance, histogram.

Definitions, sensitivities and ranges are those of `sfumato.transformations`; n is public, and neighbours
differ in one record. NaN and NULL count as the midpoint of the bounds: an error would tell of one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor, isnan
from typing import Any

from numpy.typing import ArrayLike

from sfumato.errors import ParameterError, shown
from sfumato.exact import Number, as_fraction, as_fractions, positive, positive_int, round_down, round_up
from sfumato.exact.library_settings import Isolated
from sfumato.framework import (
    AtomDomain,
    ChangeOneDistance,
    L1Distance,
    Linear,
    Measurement,
    ProductDomain,
    PureDP,
    Transformation,
    VectorDomain,
)
from sfumato.noise.law_tails import floats
from sfumato.noise.random_words import Words
from sfumato.snapping.snapping_mechanism import SnappingMechanism
from sfumato.transformations import clamp, covariance, histogram, impute, mean, variance

REPLACED = ChangeOneDistance()


class BoundedStatistic(Isolated):
    """A statistic of n records, and the snapping mechanism that releases it.

    Args:
        transformation: a transformation from change-one distance of n records to absolute distance of a
            bounded number.
    Source:
        docs/proofs/snapping_statistics.md.

    >>> Mean(4, lower=0, upper=10)([1, 2, 3, 100])
    Fraction(4, 1)
    """

    def __init__(self, transformation: Transformation) -> None:
        self.transformation = transformation

    def __call__(self, data: ArrayLike) -> Any:
        """Return the statistic of the data, exactly: not for release."""
        records, array = self.transformation.input_domain, floats(data, "data")
        assert isinstance(records, VectorDomain)
        parts = (len(records.element.parts),) if isinstance(records.element, ProductDomain) else ()
        if array.shape != (records.size, *parts):
            expected = f"of shape {(records.size, *parts)}"
            raise ParameterError("data", f"an array of shape {array.shape}", expected)
        return self.transformation(array.tolist())

    @property
    def sensitivity(self) -> Fraction:
        """The largest change of the statistic when one record changes."""
        return self.transformation.map(1)

    @property
    def range(self) -> tuple[Fraction, Fraction]:
        """The smallest and largest value of the statistic."""
        return _ends(self.transformation.output_domain)

    def mechanism(self, epsilon: Number, gamma: Number = 0.05) -> SnappingMechanism:
        """Return the snapping mechanism that releases this statistic.

        Args:
            epsilon, gamma: as for `SnappingMechanism`; epsilon is for the change of one record.
        Returns:
            A `SnappingMechanism`.

        >>> mechanism = Mean(200, lower=0, upper=100).mechanism(epsilon=1)
        >>> mechanism.sensitivity, round(mechanism.accuracy(0.05), 3)  # of the mean age of 200 people
        (Fraction(1, 2), 1.998)
        """
        lower, upper = self.range
        return SnappingMechanism(epsilon, sensitivity=self.sensitivity, lower=lower, upper=upper, gamma=gamma)

    def measurement(self, epsilon: Number, gamma: Number = 0.05) -> Measurement:
        """Return the snapped statistic as a measurement.

        Args:
            epsilon, gamma: as for `SnappingMechanism`; epsilon is for the change of one record.
        Returns:
            A Measurement to pure DP, from the data to a release.

        >>> measurement = Mean(200, lower=0, upper=100).measurement(epsilon=1)
        >>> measurement.name, float(measurement.map(1)), float(measurement.map(2))  # one record, or two
        ('impute >> clamp >> mean >> snapping', 1.0, 2.0)
        """
        return self.transformation >> self.mechanism(epsilon, gamma).measurement()

    def release(
        self, data: ArrayLike, *, epsilon: Number, gamma: Number = 0.05, words: Words | None = None
    ) -> Any:
        """Release the statistic of the data by the snapping mechanism.

        Args:
            data: n records.
            epsilon, gamma, words: as for `SnappingMechanism`; epsilon is for the change of one record.
        Returns:
            A float; for a histogram, float64 of shape (bins,).
        Raises:
            ParameterError: there are not n records, or epsilon or gamma is not valid.

        >>> from sfumato.noise import SeededWords
        >>> ages = [30] * 120 + [50] * 80
        >>> Mean(200, lower=0, upper=100).release(ages, epsilon=1, words=SeededWords(2))  # in tests alone
        37.0
        """
        return self.mechanism(epsilon, gamma).release(self(data), words)


class Mean(BoundedStatistic):
    """The mean of n numbers, for the snapping mechanism.

    Args:
        size: n, which is public, at least 1.
        lower, upper: bounds on each number; values outside are clamped.
    Raises:
        ParameterError: a parameter is not valid.

    >>> Mean(4, lower=0, upper=10).sensitivity
    Fraction(5, 2)

    Source:
        Covington 2020, section 7.1. Proof: docs/proofs/snapping_statistics.md.
    """

    def __init__(self, size: int, *, lower: Number, upper: Number) -> None:
        numbers = _numbers(_size(size), *_bounds(lower, upper))
        super().__init__(numbers >> mean(lower, upper, size, metric=REPLACED))


class SampleVariance(BoundedStatistic):
    """The variance of n numbers with divisor n - 1, for the snapping mechanism.

    Args:
        size: n, which is public, at least 2.
        lower, upper: bounds on each number; values outside are clamped.
    Raises:
        ParameterError: a parameter is not valid.

    >>> variance = SampleVariance(3, lower=0, upper=1)
    >>> variance([0, 0, 1]), variance.range[1], variance.sensitivity
    (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))

    Source:
        Covington 2020, section 7.2, whose largest value for odd n is too small. Proof:
        docs/proofs/snapping_statistics.md.
    """

    def __init__(self, size: int, *, lower: Number, upper: Number) -> None:
        numbers = _numbers(_size(size, 2), *_bounds(lower, upper))
        super().__init__(numbers >> variance(lower, upper, size, metric=REPLACED))


class SampleCovariance(BoundedStatistic):
    """The covariance of n pairs (x, y) with divisor n - 1, for the snapping mechanism.

    Args:
        size: n, which is public, at least 2.
        x_bounds, y_bounds: (lower, upper) for each; values outside are clamped.
    Raises:
        ParameterError: a parameter is not valid.

    >>> covariance = SampleCovariance(3, x_bounds=(0, 1), y_bounds=(0, 10))
    >>> covariance([(0, 0), (0, 0), (1, 10)]), covariance.range[1], covariance.sensitivity
    (Fraction(10, 3), Fraction(10, 3), Fraction(10, 3))

    Source:
        Covington 2020, section 7.3, whose largest value for odd n is too small. Proof:
        docs/proofs/snapping_statistics.md.
    """

    def __init__(
        self, size: int, *, x_bounds: tuple[Number, Number], y_bounds: tuple[Number, Number]
    ) -> None:
        x, y = _bounds(*x_bounds, "x_bounds"), _bounds(*y_bounds, "y_bounds")
        exact = covariance(x, y, _size(size, 2), metric=REPLACED)
        super().__init__(_pairs(exact, [x, y]) >> exact)


class Histogram(BoundedStatistic):
    """The counts of n numbers in bins. Changing one record changes at most two counts, each by one.

    Args:
        size: n, which is public, at least 1.
        edges: at least three increasing floats; bin i is [edges[i], edges[i + 1]), and the last one includes
            its upper edge. Numbers outside count in the outer bins.
    Raises:
        ParameterError: a parameter is not valid.

    >>> Histogram(4, edges=[0, 1, 2])([0.5, 1, 1.5, 9])
    [1, 3]
    >>> ages = Histogram(200, edges=[0, 40, 65, 120])
    >>> ages.mechanism(epsilon=1).epsilon, float(ages.measurement(epsilon=1).map(1))
    (Fraction(1, 2), 1.0)

    Source:
        Covington 2020, section 7.4. Proof: docs/proofs/snapping_statistics.md.
    """

    def __init__(self, size: int, *, edges: Sequence[Number]) -> None:
        exact = as_fractions(edges, "edges")
        if len(exact) < 3 or exact != sorted(set(exact)):
            raise ParameterError("edges", edges, "at least three increasing numbers")
        counts = histogram(exact[1:-1], size=_size(size), metric=REPLACED)
        super().__init__(_numbers(size, exact[0], exact[-1]) >> counts)
        self.bins: int = len(exact) - 1

    @property
    def sensitivity(self) -> Fraction:
        """The change of one count of the histogram."""
        return Fraction(1)

    @property
    def range(self) -> tuple[Fraction, Fraction]:
        """The range of each count of the histogram: from 0 to n."""
        counts = self.transformation.output_domain
        assert isinstance(counts, VectorDomain)
        return _ends(counts.element)

    def mechanism(self, epsilon: Number, gamma: Number = 0.05) -> SnappingMechanism:
        """Return the mechanism of one count. It has half of epsilon, because two counts can change.

        Args:
            epsilon, gamma: as for `SnappingMechanism`; epsilon is for the change of one record.
        Returns:
            A `SnappingMechanism`.
        Raises:
            ParameterError: epsilon is not a number above 0, or gamma is not valid.
        """
        return super().mechanism(positive(epsilon, "epsilon") / self.transformation.map(1), gamma)

    def measurement(self, epsilon: Number, gamma: Number = 0.05) -> Measurement:
        """Return the snapped histogram as a measurement.

        Args:
            epsilon, gamma: as for `SnappingMechanism`; epsilon is for the change of one record.
        Returns:
            A Measurement to pure DP, from the data to float64 of shape (bins,).
        """
        mechanism, counts = self.mechanism(epsilon, gamma), self.transformation.output_domain

        def privacy_map(d_in: Fraction) -> Fraction:
            # Whole counts: a distance of d is spread over d counts at most, and each pays for its roundings.
            moved = min(self.bins, floor(d_in))
            return moved * mechanism.privacy_loss(d_in / moved) if moved else Fraction(0)

        return self.transformation >> Measurement(
            "snapping", counts, L1Distance(), PureDP(), mechanism.release, privacy_map
        )


def _ends(domain: Any) -> tuple[Fraction, Fraction]:
    return domain.lower, domain.upper


def _size(size: int, least: int = 1) -> int:
    if positive_int(size, "size") < least:
        raise ParameterError("size", size, f"a whole number of at least {least}")
    return size


def _bounds(lower: Number, upper: Number, name: str = "lower") -> tuple[Fraction, Fraction]:
    low, high = as_fraction(lower, "lower"), as_fraction(upper, "upper")
    if low >= high:
        raise ParameterError(name, lower, f"below the upper bound, which is {shown(upper)}")
    return low, high


def _numbers(size: int, low: Fraction, high: Fraction) -> Transformation:
    """Return the transformation before a statistic: the midpoint for NaN and NULL, then clamping."""
    return impute(_middle(low, high), size=size, metric=REPLACED) >> clamp(
        low, high, size=size, metric=REPLACED
    )


def _pairs(exact: Transformation, sides: Sequence[tuple[Fraction, Fraction]]) -> Transformation:
    """Return the same transformation for both numbers of each pair, before the covariance."""
    taken = exact.input_domain
    assert isinstance(taken, VectorDomain)

    def clamped(value: float | None, low: Fraction, high: Fraction) -> float:
        known = _middle(low, high) if value is None or isnan(value) else value
        return min(max(known, round_up(low)), round_down(high))

    number = AtomDomain(float, nan=True, null=True)
    return Transformation(
        "clamp_pairs",
        VectorDomain(ProductDomain((number, number)), taken.size),
        taken,
        REPLACED,
        REPLACED,
        lambda pairs: [tuple(clamped(v, *s) for v, s in zip(p, sides, strict=True)) for p in pairs],
        Linear(Fraction(1)),
    )


def _middle(low: Fraction, high: Fraction) -> float:
    return float((low + high) / 2)
