"""Covariances, correlations and regressions, from noisy sums and products."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.intervals import Interval
from sfumato.noise.values import Floats
from sfumato.query.aggregates import Correlation, Covariance, LinearRegression
from sfumato.query.design import Design
from sfumato.query.estimates.estimate import Estimate
from sfumato.query.noisy.numbers import NoisyNumbers
from sfumato.transformations import CrossMoments

# With this confidence the noisy numbers must rule out that a design is singular, or nothing is shown.
RULED_OUT = 0.95
# Of what may fail, the part of the box in which coefficients are looked for at all.
BOX = 0.25


@dataclass(frozen=True)
class Term:
    """A column of several that are asked together.

    Args:
        total: the coordinate of its sum, about the centre.
        centre, half_range: of its bounds, in the column's unit.
        square_centre: what was taken off each square, in squared units.
    """

    total: str
    centre: float
    half_range: float
    square_centre: float


@dataclass(frozen=True)
class CrossEstimate(Estimate):
    """Something of several columns. Adds to an `Estimate`:

    Args:
        terms: the columns.
        products: coordinates of their products, and squares, by places in `terms`.
    """

    terms: tuple[Term, ...] = ()
    products: tuple[tuple[int, int, str], ...] = ()

    @cached_property
    def product(self) -> dict[tuple[int, int], str]:
        """The coordinate of each product, in both orders."""
        return {pair: name for i, j, name in self.products for pair in ((i, j), (j, i))}

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Count, sums and products."""
        return (*super().coordinates, *(t.total for t in self.terms), *(name for *_, name in self.products))

    @property
    def factors(self) -> dict[str, float]:
        """Of all numbers as if one row were counted, half-way from the middle to the end of the bounds."""
        half = [t.half_range for t in self.terms]
        size = half[0] * half[1]
        found = {name: size / (half[i] * half[j]) for i, j, name in self.products}
        found |= {t.total: size / (2 * t.half_range) for t in self.terms}
        return found | dict.fromkeys(self.signs, size / 4)

    def rows(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy number of rows, one at least."""
        return np.maximum(self.counted(numbers), 1.0)

    def moment(self, numbers: NoisyNumbers, i: int, j: int) -> Floats:
        """Return the noisy covariance, or variance, of two columns, not yet clamped."""
        rows, values = self.rows(numbers), numbers.values
        means = [values[self.terms[k].total] / rows for k in (i, j)]
        shift = self.terms[i].square_centre if i == j else 0.0
        return np.asarray(values[self.product[i, j]] / rows + shift - means[0] * means[1])

    def moment_interval(self, numbers: NoisyNumbers, i: int, j: int, failure: float) -> Interval:
        """Return an interval of the covariance, or variance, where three ratios fail with `failure` each."""
        noises, values, one, other = numbers.noises, numbers.values, self.terms[i], self.terms[j]
        largest = one.half_range * other.half_range
        shift = one.square_centre if i == j else 0.0
        within = (-shift, largest - shift) if i == j else (-largest, largest)
        product = noises.ratio(values, {self.product[i, j]: 1.0}, self.signs, within, failure).map(
            lambda x: x + shift
        )
        means = [
            noises.ratio(values, {t.total: 1.0}, self.signs, (-t.half_range, t.half_range), failure)
            for t in (one, other)
        ]
        return product - (means[0].squared() if i == j else means[0] * means[1])


@dataclass(frozen=True)
class CovarianceEstimate(CrossEstimate):
    """A covariance: the noisy mean of products less the product of noisy means."""

    kind: ClassVar[str] = "covariance"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the covariance, at most as large as it can be."""
        return np.clip(self.moment(numbers, 0, 1), self.lower, self.upper)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return what intervals of three ratios leave."""
        found = self.moment_interval(numbers, 0, 1, failure / 3)
        return found.map(lambda x: np.clip(x, self.lower, self.upper))


@dataclass(frozen=True)
class CorrelationEstimate(CrossEstimate):
    """The noisy covariance over the root of both noisy variances; 0 where one is not positive."""

    kind: ClassVar[str] = "correlation"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the correlation, from -1 to 1."""
        variances = np.maximum(self.moment(numbers, 0, 0), 0) * np.maximum(self.moment(numbers, 1, 1), 0)
        known = variances > 0
        return np.where(
            known, np.clip(self.moment(numbers, 0, 1) / np.sqrt(np.where(known, variances, 1)), -1, 1), 0.0
        )

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return what intervals of five ratios leave; all from -1 to 1 where a variance may be 0."""
        covariance = self.moment_interval(numbers, 0, 1, failure / 5)
        variances = [self.moment_interval(numbers, i, i, failure / 5) for i in (0, 1)]
        low, high = (
            np.sqrt(np.maximum(getattr(variances[0], end), 0) * np.maximum(getattr(variances[1], end), 0))
            for end in ("low", "high")
        )
        known = low > 0
        found = covariance * Interval(1 / np.where(known, high, 1), 1 / np.where(known, low, 1))
        return Interval(
            np.where(known, np.clip(found.low, -1, 1), -1.0), np.where(known, np.clip(found.high, -1, 1), 1.0)
        )


@dataclass(frozen=True)
class CoefficientEstimate(CrossEstimate):
    """A coefficient of a linear regression, or the intercept; NaN where the design may be singular.

    The exact coefficients b solve the exact normal equations, so what they leave of the noisy ones is
    noise: in each row a sum of noises with weights of 1 and b. Proof: docs/proofs/cross_moments.md.

    Args:
        place: of the explaining column in `terms`, 1 or more; 0 for the intercept.
    """

    kind: ClassVar[str] = "coefficient"

    place: int = 0

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the solution of the noisy normal equations."""
        system = _System(self, numbers)
        found = self._shift + np.einsum("i,gi->g", self._weights, system.solution)
        return np.where(np.isfinite(system.box(1 - RULED_OUT)).all(axis=1), found, np.nan)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the enclosure, infinite where there is none."""
        system = _System(self, numbers)
        centre = self._shift + np.einsum("i,gi->g", self._weights, system.solution)
        radius = system.radius(self._weights, failure)
        return Interval(centre - radius, centre + radius)

    def half_width(self, numbers: NoisyNumbers, confidence: float, among: int = 1) -> Floats:
        """Return half-widths, infinite where the output is NaN."""
        found = super().half_width(numbers, confidence, among)
        return np.where(np.isnan(found), np.inf, found)

    @property
    def _weights(self) -> Floats:
        """How the output follows from what explains in units of half-ranges, about the centres."""
        y, *x = self.terms
        slopes = np.array([y.half_range / t.half_range for t in x])
        if self.place:
            return np.where(np.arange(len(x) + 1) == self.place, np.concatenate([[0.0], slopes]), 0.0)
        return np.concatenate([[y.half_range], -slopes * [t.centre for t in x]])

    @property
    def _shift(self) -> float:
        return 0.0 if self.place else self.terms[0].centre


class _System:
    """The noisy normal equations of values between -1 and 1, and what noise may do to their solution."""

    def __init__(self, estimate: CoefficientEstimate, numbers: NoisyNumbers) -> None:
        self.numbers = numbers
        y, *x = estimate.terms
        self.size = len(x) + 1
        counts = estimate.signs
        # Each entry is a sum of noisy numbers: weights by coordinate.
        one = dict(counts)
        entries: dict[tuple[int, int], Mapping[str, float]] = {(0, 0): one}
        for i, t in enumerate(x, 1):
            entries[0, i] = entries[i, 0] = {t.total: 1 / t.half_range}
            for j, other in enumerate(x, 1):
                scale = 1 / (t.half_range * other.half_range)
                entries[i, j] = {estimate.product[i, j]: scale}
                if i == j:
                    shift = t.square_centre * scale
                    entries[i, j] = {**entries[i, j], **{name: sign * shift for name, sign in counts.items()}}
        right: list[Mapping[str, float]] = [{y.total: 1 / y.half_range}]
        right += [{estimate.product[i, 0]: 1 / (t.half_range * y.half_range)} for i, t in enumerate(x, 1)]
        self.entries, self.right = entries, right
        self.groups = len(numbers.values[y.total])
        matrix = np.empty((self.groups, self.size, self.size))
        for (i, j), weights in entries.items():
            matrix[:, i, j] = self._noisy(weights)
        b = np.stack([self._noisy(weights) for weights in right], axis=1)
        # A matrix of squares has no negative eigenvalue: one that noise made so is of no use.
        eigenvalues, vectors = np.linalg.eigh(matrix)
        self.usable = eigenvalues[:, 0] > 0
        inverse = np.where(eigenvalues > 0, 1 / np.where(eigenvalues > 0, eigenvalues, 1), 0.0)
        self.inverse = np.einsum("gik,gk,gjk->gij", vectors, inverse, vectors)
        self.solution = np.einsum("gij,gj->gi", self.inverse, b)
        # What floats leave of the equations is treated like noise.
        self.left = np.abs(np.einsum("gij,gj->gi", matrix, self.solution) - b)

    def box(self, failure: float) -> Floats:
        """Return how far each coefficient is off at most, from a tolerance of each number; else infinite."""
        distinct = len({frozenset(w.items()) for w in (*self.entries.values(), *self.right)})
        each = failure / distinct
        tolerances = np.empty((self.groups, self.size, self.size))
        for (i, j), weights in self.entries.items():
            tolerances[:, i, j] = self._tolerance(weights, each)
        right = np.stack([self._tolerance(weights, each) for weights in self.right], axis=1) + self.left
        size = np.abs(self.inverse)
        most = np.einsum(
            "gij,gj->gi", size, np.einsum("gij,gj->gi", tolerances, np.abs(self.solution)) + right
        )
        change = np.einsum("gij,gjk->gik", size, tolerances)
        # Below 1 the solution is a contraction's fixed point: |d| <= most + change |d|.
        radius = np.abs(np.linalg.eigvals(change)).max(axis=1)
        known = self.usable & (radius < 0.999)
        change[~known] = 0.0
        found = np.linalg.solve(np.eye(self.size) - change, most[..., None])[..., 0]
        return np.where(known[:, None], found * (1 + 1e-9), np.inf)

    def radius(self, weights: Floats, failure: float) -> Floats:
        """Return how far a weighted sum of the coefficients is off at most; infinite where nobody knows."""
        box = self.box(BOX * failure)
        known = np.asarray(np.isfinite(box).all(axis=1))
        most = np.abs(self.solution) + np.where(known[:, None], box, 0.0)
        each = (1 - BOX) * failure / self.size
        noise = np.empty((self.groups, self.size))
        for i in range(self.size):
            combined: dict[str, Floats] = {
                name: np.full(self.groups, abs(w)) for name, w in self.right[i].items()
            }
            for j in range(self.size):
                for name, w in self.entries[i, j].items():
                    combined[name] = combined.get(name, np.zeros(self.groups)) + abs(w) * most[:, j]
            noise[:, i] = self.numbers.noises.tolerance(combined, each)
        size = np.abs(np.einsum("i,gij->gj", weights, self.inverse))
        found = np.einsum("gj,gj->g", size, noise + self.left) * (1 + 1e-9)
        return np.where(known, np.minimum(found, np.einsum("i,gi->g", np.abs(weights), box)), np.inf)

    def _noisy(self, weights: Mapping[str, float]) -> Floats:
        return np.asarray(sum(w * self.numbers.values[name] for name, w in weights.items()))

    def _tolerance(self, weights: Mapping[str, float], failure: float) -> Floats:
        found = {name: np.full(self.groups, w) for name, w in weights.items()}
        return self.numbers.noises.tolerance(found, failure)


def covariances(design: Design, name: str, aggregate: Covariance | Correlation) -> tuple[Estimate, ...]:
    """Ask for a covariance or a correlation."""
    if isinstance(aggregate, Correlation):
        return (CorrelationEstimate(name, lower=-1.0, upper=1.0, **_of(design, aggregate)),)
    top = 1.0
    for _, lower, upper in aggregate.blocks:
        top *= (float(upper) - float(lower)) / 2
    return (CovarianceEstimate(name, lower=-top, upper=top, **_of(design, aggregate)),)


def regressions(design: Design, name: str, aggregate: LinearRegression) -> tuple[Estimate, ...]:
    """Ask for the coefficients of a regression."""
    of = _of(design, aggregate)
    outputs = aggregate.outputs(name)
    return tuple(CoefficientEstimate(output, place=i, **of) for i, output in enumerate(outputs))


def _of(design: Design, aggregate: Covariance | Correlation | LinearRegression) -> dict[str, Any]:
    """Return the numbers that something of several columns is made of."""
    cross = design.cross(design.lacking(aggregate.columns))
    assert cross is not None
    places = [[a.label for a in cross.axes].index(design.label(block)) for block in aggregate.blocks]
    order = {place: i for i, place in enumerate(places)}
    wanted = range(len(places))
    products = tuple(
        (order[i], order[j], cross.product_name(i, j))
        for i, j in cross.pairs
        if i in order and j in order and _uses(aggregate, order[i], order[j])
    )
    terms = tuple(term(cross, places[i]) for i in wanted)
    return {"count": count(design, cross), "terms": terms, "products": products}


def _uses(aggregate: Covariance | Correlation | LinearRegression, i: int, j: int) -> bool:
    if isinstance(aggregate, Covariance):
        return i != j
    return isinstance(aggregate, Correlation) or i > 0 or j > 0


def count(design: Design, cross: CrossMoments) -> str:
    """Return the coordinate that counts the rows."""
    found = design.base if cross.complete_exponent is None else cross.complete
    assert found is not None
    return found


def term(cross: CrossMoments, place: int) -> Term:
    """Return a column of those that are asked together."""
    axis = cross.axes[place]
    step, square = axis.grid.step, axis.square_centre * axis.square_step
    return Term(
        cross.sum_name(place),
        float(axis.grid.centre * step),
        float(axis.grid.half_range * step),
        float(square),
    )
