"""Base class of estimates: how one output and its error bar follow from noisy statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.measurements.int128_array import arrow_column
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import ONE, Form, Interval

if TYPE_CHECKING:
    from sfumato.plan.noisy_statistics import NoisyNumbers

# A sum is shown in 64-bit integers where these hold what so many units (more than anybody has), or noise
# of so many scales (beyond with probability below e^-4000), can add up to; else in float64.
MAX_UNITS, MAX_SCALES = 1 << 40, 1 << 12
LARGEST_WHOLE = 1 << 62
_SURE = 5  # standard errors
_NEARBY = 2.0**-10  # of a standard error, between which slopes are taken


@dataclass(frozen=True)
class Estimate(ABC):
    """Base class of estimates: how an output is computed from noisy statistics, as post-processing.

    Args:
        name: the output's name.
        count: the coordinate that counts; this and the next are empty where there is none.
        null_count: the coordinate of missing values to be taken off the count.
        total, squares: coordinates of the sum and of the squares.
        centre: what a value was counted from, in the column's unit.
        square_centre: what a squared distance was counted from, in squared units.
        lower, upper: the bounds in which the output lies.
        half_range: the largest distance of a value from the centre, in the column's unit.
        rank: of a quantile.
        least: the least number by which a sum is divided.
        whole: whether the output is a whole number.
        wide: a whole number that 64-bit integers may not hold, so shown as float64.
        entries: how many numbers it has for each group, which are shown as a list; 0 for one number.
        nonnegative: whether numbers below 0 are shown as 0, as the exact number is never below 0.
    """

    kind: ClassVar[str]
    # Whether it is computed of other outputs.
    derived: ClassVar[bool] = False

    name: str
    count: str = ""
    null_count: str = ""
    total: str = ""
    squares: str = ""
    centre: float = 0.0
    square_centre: float = 0.0
    lower: float = 0.0
    upper: float = 0.0
    half_range: float = 0.0
    rank: float = 0.0
    least: float = 1.0
    whole: bool = False
    wide: bool = False
    entries: int = 0
    nonnegative: bool = False

    @property
    def integer(self) -> bool:
        """Whether the column of an estimate is int64 rather than float64; it follows from the query."""
        return self.whole and not self.wide

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of an estimate's column."""
        return self._entry_type(pa.int64() if self.integer else pa.float64())

    @property
    def error_type(self) -> pa.DataType:
        """The Arrow type of the column of an estimate's error bars."""
        return self._entry_type(pa.float64())

    def _entry_type(self, number: pa.DataType) -> pa.DataType:
        return pa.list_(number, self.entries) if self.entries else number

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The noisy statistics that an estimate depends on."""
        return tuple(c for c in (self.count, self.null_count, self.total, self.squares) if c)

    @property
    def factors(self) -> dict[str, float] | None:
        """How much the noise of each statistic adds to an estimate's error; None if `noise_error` says so."""
        return None

    @property
    def has_standard_error(self) -> bool:
        """Whether an estimate has a standard error: it is a smooth function of noisy statistics."""
        return True

    @property
    def linear(self) -> Mapping[str, float] | None:
        """The weights of the noisy statistics that an estimate is the sum of; None if it is no sum."""
        return None

    @property
    def forms(self) -> tuple[Form, Form] | None:
        """The linear forms of noisy statistics of which an estimate is the ratio; None if it is none."""
        return None if self.linear is None else (Form(self.linear), ONE)

    @abstractmethod
    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the estimate of each group before rounding, of shape (groups,) or (groups, entries)."""

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return an interval that holds the exact statistic of an output but with probability `failure`.

        That of a sum of noisy statistics is the output, give or take the tolerance of their noise; that of a
        ratio of two is Fieller's.
        """
        assert self.forms is not None
        (top, bottom), used = self.noisy_forms(numbers), self.used(numbers)
        if bottom == ONE:
            return numbers.noises.interval(used, top, failure)
        return numbers.noises.quotient(used, top, bottom, failure)

    def noisy_forms(self, numbers: NoisyNumbers) -> tuple[Form, Form]:
        """Return the forms of an estimate for the law of its error, without missing values that are clipped.

        If no value is missing, the rest has the law of the error, by symmetry. If some are, the error
        includes their number. So their noise is left out only where it has at most twice the variance of
        the rest: then bars lose 2 points at most.
        """
        forms = self.forms
        assert forms is not None
        if not self.null_counts or numbers.levels:
            return forms
        used, values = self.used(numbers), numbers.values
        below = forms[1].value(used)
        ratio = forms[0].value(used) / np.where(below, below, 1.0)

        def counted(where: Mapping[str, NDArray[np.bool_]]) -> tuple[Form, Form]:
            top, bottom = (
                Form({n: w * where.get(n, 1.0) for n, w in form.weights.items()}, form.constant)
                for form in forms
            )
            return top, bottom

        def variance(top: Form, bottom: Form) -> Floats:
            return numbers.noises.deviation(top.plus(bottom, -ratio).weights) ** 2

        some = {n: np.asarray(values[n] > 0) for n in self.null_counts}
        large = np.asarray(3 * variance(*counted(some)) < variance(*forms))
        return counted({n: own | large for n, own in some.items()})

    def output(self, numbers: NoisyNumbers) -> pa.Array:
        """Return the Arrow column of an estimate: int64 for whole numbers it surely holds, else float64."""
        value = self.shown(numbers)
        if self.integer:
            # Nobody has the rows to get here; 2^63 is the first float64 beyond int64.
            return arrow_column(np.clip(value, -(2.0**63), np.nextafter(2.0**63, 0)).astype(np.int64))
        return arrow_column(value)

    def half_width(self, numbers: NoisyNumbers, confidence: float, among: int = 1) -> Floats:
        """Return the error bars of an estimate: the exact statistic is within them with this confidence.

        Of so many `among` it is the confidence that all are, each of them failing with an equal part.

        The exact statistic is that of the bounded contributions; what bounding itself changed is
        not part of it.
        """
        value, interval = self.shown(numbers), self.interval(numbers, (1 - confidence) / among)
        if self.nonnegative:
            interval = interval.clipped(0.0, np.inf)
        return np.maximum(np.maximum(interval.high - value, value - interval.low), 0.0)

    def standard_error(self, numbers: NoisyNumbers) -> Floats:
        """Return the standard error of an estimate: the standard deviation of its noise, to first order.

        It is exact for a sum of noisy statistics, and NaN where the noise is too large for a first order.

        Source:
            Cochran 1977, "Sampling techniques", section 6.4: the standard error of a ratio.
        """
        if self.linear is not None and self.whole and numbers.levels is None:
            size = len(self.value(numbers))
            return np.full(
                size, numbers.noises.rounded_deviation({n: w for n, w in self.linear.items() if w})
            )
        error = numbers.noises.deviation(self.slopes(numbers))
        steady = self.is_steady(numbers)
        return np.where(steady.reshape(-1, *[1] * (error.ndim - 1)), error, np.nan)

    def slopes(self, numbers: NoisyNumbers) -> dict[str, Floats]:
        """Return the derivative of an estimate by each noisy statistic, in the shape of the estimate."""
        if self.linear is not None:
            shape = np.zeros_like(self.value(numbers))
            return {name: weight + shape for name, weight in self.linear.items()}
        found = {}
        for name in dict.fromkeys(self.coordinates):
            # Where noise is 0 as good as always, slopes do not matter.
            by = float(numbers.noises.deviation({name: np.ones(1)})[0]) * _NEARBY or 1e-300
            above, below = (
                self.value(replace(numbers, values={**numbers.values, name: numbers.values[name] + way}))
                for way in (by, -by)
            )
            found[name] = (above - below) / (2 * by)
        return found

    def is_steady(self, numbers: NoisyNumbers) -> NDArray[np.bool_]:
        """Whether noise changes each estimate by a small part: what it is divided by is large."""
        if self.linear is not None or not self.count:
            return np.ones(1, np.bool_)
        return is_sure(self.counted(numbers), numbers.noises.deviation(ones(self.signs)))

    def shown(self, numbers: NoisyNumbers) -> Floats:
        """Return the estimate of each group as released: whole numbers rounded, so that totals agree."""
        if self.whole and numbers.levels is not None:
            return numbers.levels.totals.agreed(self.value(numbers.levels.cells), self.lower)
        value = np.rint(self.value(numbers)) if self.whole else self.value(numbers)
        return np.maximum(value, 0.0) if self.nonnegative else value

    def counted(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy count of an estimate, of rows with a value if some have none."""
        if not self.count:
            return np.zeros(1)
        if not self.null_count:
            return numbers.values[self.count]
        # No statistic counts fewer than zero missing values; clipping halves their noise. But totals would
        # not agree.
        null_count = numbers.values[self.null_count]
        return numbers.values[self.count] - (null_count if numbers.levels else np.maximum(null_count, 0.0))

    @property
    def null_counts(self) -> tuple[str, ...]:
        """The coordinates of missing values in an estimate."""
        return (self.null_count,) if self.null_count else ()

    def used(self, numbers: NoisyNumbers) -> Mapping[str, Floats]:
        """Return the noisy statistics as an estimate uses them: missing values are no fewer than zero.

        Noise is then no larger in any interval: what is left is symmetric whatever the size of that noise.
        """
        if numbers.levels:
            return numbers.values
        clipped = {n: np.maximum(numbers.values[n], 0.0) for n in self.null_counts}
        return {**numbers.values, **clipped}

    @property
    def signs(self) -> dict[str, float]:
        """The noisy statistics of an estimate's count, with their signs."""
        return {n: sign for n, sign in ((self.count, 1.0), (self.null_count, -1.0)) if n}


def is_sure(divisor: Floats, error: Floats) -> NDArray[np.bool_]:
    """Whether a number is so many times its standard error that an estimate may be divided by it."""
    return np.asarray(np.abs(divisor) >= _SURE * error)


def nullable_column(values: Floats) -> pa.Array:
    """Return numbers as an Arrow column with NULL for NaN; of two dimensions, as lists with NaN."""
    import pyarrow.compute as pc  # which takes long to import

    column = arrow_column(values)
    return column if values.ndim > 1 else pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)


def ones(weights: Mapping[str, float]) -> dict[str, Floats]:
    """Return weights of noisy statistics as arrays that fit any number of groups."""
    return {name: np.full(1, weight) for name, weight in weights.items()}
