"""Covariances, correlations and linear regressions of several columns within bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import QueryError, shown
from sfumato.exact import Number
from sfumato.noise.laws import Floats
from sfumato.noise.noise_sums import Interval
from sfumato.query.aggregates.aggregate import (
    Aggregate,
    aggregate_function,
    check_numeric,
    checked_bounds,
    column_name,
)
from sfumato.query.aggregates.estimate import Estimate
from sfumato.query.schema import Schema
from sfumato.transformations import CrossMoments

if TYPE_CHECKING:
    from sfumato.plan.noisy_statistics import NoisyNumbers
    from sfumato.plan.required_statistics import Design


# With more, the noise of their products leaves nothing of what is asked.
MAX_EXPLAINING = 8


@dataclass(frozen=True, repr=False)
class OfColumns(Aggregate):
    """Base class of covariance, correlation and regression: several columns, each with bounds.

    Args:
        blocks: each column with its lower and upper bound; of a regression the explained one first.
    """

    blocks: tuple[tuple[str, Fraction, Fraction], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a covariance or regression."""
        return tuple(column for column, _, _ in self.blocks)

    @property
    def bounds(self) -> tuple[tuple[str, Fraction, Fraction], ...]:
        """The columns of a covariance or regression with their bounds."""
        return self.blocks

    def clamps(self, schema: Schema) -> bool:
        """Whether the bounds of a covariance or regression may clamp values: they may."""
        return True

    def of_columns(self, columns: Mapping[str, str]) -> Self:
        """Return a covariance or regression with its columns renamed."""
        return replace(self, blocks=tuple((columns[c], low, high) for c, low, high in self.blocks))

    def check(self, name: str, schema: Schema) -> None:
        """Check that the columns of a covariance or regression hold numbers."""
        super().check(name, schema)
        for column in self.columns:
            check_numeric(name, column, schema)

    def _uses(self, i: int, j: int) -> bool:
        """Whether a covariance or regression needs the product of two of its columns."""
        return True

    def _bounds(self, written: Mapping[str, str]) -> str:
        return ", ".join(
            f"{written.get(column, column)} from {float(low):g} to {float(high):g}"
            for column, low, high in self.blocks
        )

    def _numbers(self, design: Design) -> dict[str, Any]:
        """Return the noisy statistics of a covariance or regression: count, sums and products."""
        cross = design.cross(design.lacking(self.columns))
        assert cross is not None
        places = [[a.label for a in cross.axes].index(design.label(block)) for block in self.blocks]
        order = {place: i for i, place in enumerate(places)}
        wanted = range(len(places))
        products = tuple(
            (order[i], order[j], cross.product_name(i, j))
            for i, j in cross.pairs
            if i in order and j in order and self._uses(order[i], order[j])
        )
        terms = tuple(cross_term(cross, places[i]) for i in wanted)
        return {"count": cross_count(design, cross), "terms": terms, "products": products}


@dataclass(frozen=True, repr=False)
class Covariance(OfColumns):
    """A population covariance, divided by the count."""

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the columns and bounds of a covariance."""
        return f"covariance, bounds of {self._bounds(written)}"

    def _uses(self, i: int, j: int) -> bool:
        return i != j

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a covariance."""
        top = 1.0
        for _, lower, upper in self.blocks:
            top *= (float(upper) - float(lower)) / 2
        return (CovarianceEstimate(name, lower=-top, upper=top, **self._numbers(design)),)


@dataclass(frozen=True, repr=False)
class Correlation(OfColumns):
    """A correlation of two columns."""

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the columns and bounds of a correlation."""
        return f"correlation, bounds of {self._bounds(written)}"

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimate of a correlation."""
        return (CorrelationEstimate(name, lower=-1.0, upper=1.0, **self._numbers(design)),)


@dataclass(frozen=True, repr=False)
class LinearRegression(OfColumns):
    """The coefficients of a linear regression by least squares."""

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return the output columns of a regression: one for each coefficient."""
        return (f"{name}_intercept", *(f"{name}_{column}" for column in self.columns[1:]))

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the columns and bounds of a regression."""
        y = written.get(self.columns[0], self.columns[0])
        return f"linear regression of {y}, bounds of {self._bounds(written)}"

    def note(self, name: str) -> str | None:
        """Return what a NaN coefficient of a regression means."""
        return (
            f"{name}: coefficients are NaN, with an infinite error bar, where the noisy numbers do not rule "
            "out that the columns explain each other (a design near singular)."
        )

    def _uses(self, i: int, j: int) -> bool:
        return i > 0 or j > 0

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimates of a regression's coefficients."""
        of = self._numbers(design)
        outputs = self.outputs(name)
        return tuple(CoefficientEstimate(output, place=i, **of) for i, output in enumerate(outputs))


Bounds = Mapping[str, tuple[Number, Number]]


@aggregate_function("COVAR_POP")
def covariance(x: str, y: str, *, bounds: Bounds | None = None) -> Aggregate:
    """Return the population covariance of two columns, over rows with a value of both.

    Args:
        x, y: numeric columns.
        bounds: by column, the lower and the upper bound of each row, in the column's unit.
    Raises:
        QueryError: a column is no name or twice there, or bounds of one are missing or of no column.
        ParameterError: a bound is not finite, or lower is not below upper.
    Source:
        Proof: docs/proofs/cross_moments.md.

    >>> covariance("age", "income", bounds={"age": (0, 100), "income": (0, 50)}).columns
    ('age', 'income')
    """
    return Covariance(_blocks("covariance", (x, y), bounds))


@aggregate_function("CORR")
def correlation(x: str, y: str, *, bounds: Bounds | None = None) -> Aggregate:
    """Return the correlation of two columns, over rows with a value of both; 0 where one does not vary.

    Args:
        x, y, bounds: as of `covariance`.
    Raises:
        QueryError, ParameterError: as of `covariance`.
    Source:
        as `covariance`, over the roots of two variances.

    >>> correlation("age", "income", bounds={"age": (0, 100), "income": (0, 50)}).columns
    ('age', 'income')
    """
    return Correlation(_blocks("correlation", (x, y), bounds))


@aggregate_function("LINEAR_REGRESSION")
def linear_regression(y: str, x: Sequence[str], *, bounds: Bounds | None = None) -> Aggregate:
    """Explain a column by others, linearly, with an intercept, over rows with a value of all.

    Args:
        y: the column that is explained.
        x: those that explain it, 8 at most.
        bounds: as of `covariance`.
    Returns:
        An output for each coefficient: asked as `fit`, `fit_intercept`, then `fit_` and the column's name.
    Raises:
        QueryError: as of `covariance`; or no column explains, or more than 8.
        ParameterError: as of `covariance`.

    >>> bounds = {"income": (0, 50), "age": (0, 100)}
    >>> linear_regression("income", ["age"], bounds=bounds).outputs("fit")
    ('fit_intercept', 'fit_age')

    Source:
        Krawczyk 1969 for enclosures of solutions. Proof: docs/proofs/cross_moments.md.
    """
    if isinstance(x, str) or not isinstance(x, Sequence) or not 1 <= len(x) <= MAX_EXPLAINING:
        raise QueryError(
            f"linear_regression: x is {shown(x)}, but must be a list of 1 to {MAX_EXPLAINING} columns: "
            "linear_regression('y', ['x1', 'x2'], bounds={'y': (0, 1), 'x1': (0, 1), 'x2': (0, 1)})"
        )
    return LinearRegression(_blocks("linear_regression", (y, *x), bounds))


def _blocks(
    function: str, columns: Sequence[object], bounds: object
) -> tuple[tuple[str, Fraction, Fraction], ...]:
    names = [column_name(function, column) for column in columns]
    if len(set(names)) < len(names):
        raise QueryError(f"{function}: the columns {names} must be different ones")
    given = bounds if isinstance(bounds, Mapping) else {}
    form = "bounds={" + ", ".join(f"{shown(name)}: (lower, upper)" for name in names) + "}"
    found = []
    for name in names:
        pair = given.get(name)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise QueryError(
                f"{function}: bounds of {shown(name)} missing. Without bounds no noise is enough; write "
                f"{form} with ranges that are known beforehand, not read from the data"
            )
        found.append((name, *checked_bounds(f"{function}({shown(name)})", *pair)))
    other = next((name for name in given if name not in names), None)
    if other is not None:
        raise QueryError(f"{function}: bounds of {shown(other)}, which is none of its columns; write {form}")
    return tuple(found)


# With this confidence the noisy numbers must rule out that a design is singular, or nothing is shown.
RULED_OUT = 0.95
# Of what may fail, the part of the box in which coefficients are looked for at all.
BOX = 0.25


@dataclass(frozen=True)
class Term:
    """A column of a covariance or regression, with the coordinate of its sum.

    Args:
        total: the coordinate of its sum, about the centre.
        centre, half_range: of its bounds, in the column's unit.
        square_centre: what was taken off each square, in squared units.
    """

    total: str
    centre: float
    half_range: float
    square_centre: float


def covariance_interval(
    numbers: NoisyNumbers, rows: Mapping[str, float], terms: Sequence[Term], product: str, failure: float
) -> Interval:
    """Return an interval of the covariance of two columns, or of the variance of one, not yet clamped.

    Args:
        numbers: noisy statistics.
        rows: the coordinates that count rows, with their signs.
        terms: the columns; of a variance the only one.
        product: the coordinate of the products, or of the squares.
        failure: of each of the three ratios that it follows from, or two.
    """
    noises, values = numbers.noises, numbers.values
    first, last = terms[0], terms[-1]
    largest = first.half_range * last.half_range
    shift, least = (first.square_centre, 0.0) if len(terms) == 1 else (0.0, -largest)
    mean_product = noises.ratio(values, {product: 1.0}, rows, (least - shift, largest - shift), failure)
    means = [
        noises.ratio(values, {t.total: 1.0}, rows, (-t.half_range, t.half_range), failure) for t in terms
    ]
    squared = means[0].squared() if len(terms) == 1 else means[0] * means[1]
    return mean_product.shifted(shift) - squared


@dataclass(frozen=True)
class CrossEstimate(Estimate):
    """Base class of estimates of a covariance, correlation or regression. Adds to an `Estimate`:

    Args:
        terms: the columns.
        products: coordinates of their products, and squares, by places in `terms`.
    """

    terms: tuple[Term, ...] = ()
    products: tuple[tuple[int, int, str], ...] = ()

    @cached_property
    def product(self) -> dict[tuple[int, int], str]:
        """The coordinate of each product of two columns of a covariance, in both orders."""
        return {pair: name for i, j, name in self.products for pair in ((i, j), (j, i))}

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The noisy count, sums and products of a covariance or regression."""
        return (*super().coordinates, *(t.total for t in self.terms), *(name for *_, name in self.products))

    @property
    def factors(self) -> dict[str, float]:
        """How much each noisy statistic adds to the error of a covariance, as if of one row."""
        half = [t.half_range for t in self.terms]
        size = half[0] * half[1]
        found = {name: size / (half[i] * half[j]) for i, j, name in self.products}
        found |= {t.total: size / (2 * t.half_range) for t in self.terms}
        return found | dict.fromkeys(self.signs, size / 4)

    def rows(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy number of rows of a covariance, at least 1."""
        return np.maximum(self.counted(numbers), 1.0)

    def moment(self, numbers: NoisyNumbers, i: int, j: int) -> Floats:
        """Return the noisy covariance, or variance, of two columns, not yet clamped."""
        rows, values = self.rows(numbers), numbers.values
        means = [values[self.terms[k].total] / rows for k in (i, j)]
        shift = self.terms[i].square_centre if i == j else 0.0
        return np.asarray(values[self.product[i, j]] / rows + shift - means[0] * means[1])

    def moment_interval(self, numbers: NoisyNumbers, i: int, j: int, failure: float) -> Interval:
        """Return the interval of a covariance or variance; `failure` is that of each ratio in it."""
        terms = [self.terms[place] for place in dict.fromkeys((i, j))]
        return covariance_interval(numbers, self.signs, terms, self.product[i, j], failure)


@dataclass(frozen=True)
class CovarianceEstimate(CrossEstimate):
    """The estimate of a covariance: the noisy mean of products less the product of noisy means."""

    kind: ClassVar[str] = "covariance"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy covariance, clamped to its possible range."""
        return np.clip(self.moment(numbers, 0, 1), self.lower, self.upper)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of a covariance from those of three ratios."""
        found = self.moment_interval(numbers, 0, 1, failure / 3)
        return found.clipped(self.lower, self.upper)


@dataclass(frozen=True)
class CorrelationEstimate(CrossEstimate):
    """The estimate of a correlation: a noisy covariance over the root of noisy variances."""

    kind: ClassVar[str] = "correlation"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy correlation, from -1 to 1; 0 where a variance is not positive."""
        variances = np.maximum(self.moment(numbers, 0, 0), 0) * np.maximum(self.moment(numbers, 1, 1), 0)
        known = variances > 0
        return np.where(
            known, np.clip(self.moment(numbers, 0, 1) / np.sqrt(np.where(known, variances, 1)), -1, 1), 0.0
        )

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of a correlation from those of five ratios."""
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
    """The estimate of a regression coefficient; NaN where the design may be singular.

    The exact coefficients b solve the exact normal equations, so what they leave of the noisy ones is
    noise: in each row a sum of noises with weights of 1 and b. Proof: docs/proofs/cross_moments.md.

    Args:
        place: of the explaining column in `terms`, 1 or more; 0 for the intercept.
    """

    kind: ClassVar[str] = "coefficient"

    place: int = 0

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy regression coefficient, from the noisy normal equations."""
        system = _System(self, numbers)
        found = self._shift + np.einsum("i,gi->g", self._weights, system.solution)
        return np.where(np.isfinite(system.box(1 - RULED_OUT)).all(axis=1), found, np.nan)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of a regression coefficient; infinite where there is none."""
        system = _System(self, numbers)
        centre = self._shift + np.einsum("i,gi->g", self._weights, system.solution)
        radius = system.radius(self._weights, failure)
        return Interval(centre - radius, centre + radius)

    def half_width(self, numbers: NoisyNumbers, confidence: float, among: int = 1) -> Floats:
        """Return half-widths of a regression coefficient; infinite where it is NaN."""
        found = super().half_width(numbers, confidence, among)
        return np.where(np.isnan(found), np.inf, found)

    @property
    def _weights(self) -> Floats:
        """The weights of the scaled solution in a regression coefficient."""
        y, *x = self.terms
        slopes = np.array([y.half_range / t.half_range for t in x])
        if self.place:
            return np.where(np.arange(len(x) + 1) == self.place, np.concatenate([[0.0], slopes]), 0.0)
        return np.concatenate([[y.half_range], -slopes * [t.centre for t in x]])

    @property
    def _shift(self) -> float:
        return 0.0 if self.place else self.terms[0].centre


class _System:
    """The noisy normal equations of a regression, and how far noise may move their solution."""

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
        """Return how far each regression coefficient is off at most; infinite where it is unbounded."""
        distinct = len({frozenset(w.items()) for w in (*self.entries.values(), *self.right)})
        each = failure / distinct
        tolerances = np.empty((self.groups, self.size, self.size))
        for (i, j), weights in self.entries.items():
            tolerances[:, i, j] = self._tolerance(weights, each)
        right = np.stack([self._tolerance(weights, each) for weights in self.right], axis=1) + self.left
        found = solution_radius(self.inverse, self.solution, tolerances, right)
        return np.where(self.usable[:, None], found, np.inf)

    def radius(self, weights: Floats, failure: float) -> Floats:
        """Return how far a weighted sum of regression coefficients is off at most."""
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


def solution_radius(inverse: Floats, solution: Floats, matrix: Floats, right: Floats) -> Floats:
    """Return how far the solution of a regression's equations is off at most; infinite if unbounded.

    Args:
        inverse: of the matrix of the equations, shape (groups, size, size).
        solution: of the equations, shape (groups, size).
        matrix, right: how far each entry of the matrix, and of the right side, is off at most.
    """
    size = np.abs(inverse)
    most = np.einsum("gij,gj->gi", size, np.einsum("gij,gj->gi", matrix, np.abs(solution)) + right)
    change = np.einsum("gij,gjk->gik", size, matrix)
    # Below 1 the error d is bounded by a contraction's fixed point: |d| <= most + change |d|.
    known = np.abs(np.linalg.eigvals(change)).max(axis=1) < 0.999
    change[~known] = 0.0
    found = np.linalg.solve(np.eye(right.shape[1]) - change, most[..., None])[..., 0]
    return np.where(known[:, None], found * (1 + 1e-9), np.inf)


def cross_count(design: Design, cross: CrossMoments) -> str:
    """Return the coordinate that counts the rows of a covariance."""
    found = design.base if cross.complete_exponent is None else cross.complete
    assert found is not None
    return found


def cross_term(cross: CrossMoments, place: int) -> Term:
    """Return a column of a covariance, with the coordinate of its sum."""
    axis = cross.axes[place]
    step, square = axis.grid.step, axis.square_centre * axis.square_step
    return Term(
        cross.sum_name(place),
        float(axis.grid.centre * step),
        float(axis.grid.half_range * step),
        float(square),
    )
