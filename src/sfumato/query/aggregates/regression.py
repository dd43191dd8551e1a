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
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import Form, Interval
from sfumato.query.aggregates.aggregate import (
    Aggregate,
    aggregate_function,
    check_bounds,
    check_numeric,
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
            f"{name}: coefficients are NaN, with an infinite error bar, where the noisy numbers do "
            "not exclude that the columns explain each other (a nearly singular design)."
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
    """Return the population covariance of two columns, over rows with both values.

    Args:
        x, y: numeric columns.
        bounds: by column, the lower and upper bound of each row, in the column's unit.
    Returns:
        An aggregate for `agg`, in the product of both columns' units.
    Raises:
        QueryError: a column is not a name or occurs twice, or bounds are missing or name another column.
        ParameterError: a bound is not finite, or lower is not below upper.
    Source:
        Proof: docs/proofs/cross_moments.md.

    >>> covariance("age", "income", bounds={"age": (0, 100), "income": (0, 50)}).columns
    ('age', 'income')
    """
    return Covariance(_blocks("covariance", (x, y), bounds))


@aggregate_function("CORR")
def correlation(x: str, y: str, *, bounds: Bounds | None = None) -> Aggregate:
    """Return the correlation of two columns, over rows with both values; 0 if one column is constant.

    Args:
        x, y, bounds: as for `covariance`.
    Returns:
        An aggregate for `agg`, without unit.
    Raises:
        QueryError, ParameterError: as for `covariance`.
    Source:
        As for `covariance`, divided by the roots of two variances.

    >>> correlation("age", "income", bounds={"age": (0, 100), "income": (0, 50)}).columns
    ('age', 'income')
    """
    return Correlation(_blocks("correlation", (x, y), bounds))


@aggregate_function("LINEAR_REGRESSION")
def linear_regression(y: str, x: Sequence[str], *, bounds: Bounds | None = None) -> Aggregate:
    """Fit a linear regression of one column on others, with an intercept, over rows with all values.

    Args:
        y: the dependent column.
        x: the explanatory columns, at most 8.
        bounds: as for `covariance`.
    Returns:
        An aggregate with an output for each coefficient: for the name `fit`, `fit_intercept` and `fit_` with
        each column's name.
    Raises:
        QueryError: as for `covariance`; or there are no explanatory columns, or more than 8.
        ParameterError: as for `covariance`.

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
        raise QueryError(f"{function}: the columns {names} must be different")
    given = bounds if isinstance(bounds, Mapping) else {}
    form = "bounds={" + ", ".join(f"{shown(name)}: (lower, upper)" for name in names) + "}"
    found = []
    for name in names:
        pair = given.get(name)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise QueryError(
                f"{function}: bounds of {shown(name)} are missing, so no amount of noise is "
                f"enough. Write {form} with ranges known beforehand, not read from the data"
            )
        found.append((name, *check_bounds(f"{function}({shown(name)})", *pair)))
    other = next((name for name in given if name not in names), None)
    if other is not None:
        raise QueryError(
            f"{function}: bounds names {shown(other)}, which is none of its columns. Write {form}"
        )
    return tuple(found)


# Noise must not make a design look regular with the first confidence, or nothing is shown; and not with the
# second one, or error bars are infinite.
RULED_OUT, SURE = 0.95, 0.98
# A covariance is unknown where a mean may be off by this many half-ranges.
FAR = 0.5


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


def noisy_means(
    numbers: NoisyNumbers, rows: Mapping[str, float], terms: Sequence[Term]
) -> tuple[Floats, list[Floats]]:
    """Return a noisy number of rows, at least 1, and the noisy means of columns about their centres.

    Args:
        numbers: noisy statistics.
        rows: the coordinates that count rows, with their signs.
        terms: the columns.
    """
    counted = np.maximum(sum(sign * numbers.values[name] for name, sign in rows.items()), 1.0)
    return counted, [np.clip(numbers.values[t.total] / counted, -t.half_range, t.half_range) for t in terms]


def errors_of_means(
    numbers: NoisyNumbers, rows: Mapping[str, float], terms: Sequence[Term], failure: float
) -> list[Floats]:
    """Return how far noisy means are off, in half-ranges.

    Args:
        numbers, rows, terms: as of `noisy_means`.
        failure: in (0, 1).
    """
    counted, means = noisy_means(numbers, rows, terms)
    weights = (
        {t.total: np.ones_like(m)} | {name: -sign * m for name, sign in rows.items()}
        for t, m in zip(terms, means, strict=True)
    )
    return [
        numbers.noises.tolerance(w, failure) / counted / t.half_range
        for t, w in zip(terms, weights, strict=True)
    ]


def about_means(
    numbers: NoisyNumbers, rows: Mapping[str, float], terms: Sequence[Term], product: str
) -> dict[str, Any]:
    """Return the weights of noisy statistics in a sum of products of distances from the noisy means.

    Over the rows it is the covariance of two columns, but for the product of the means' errors.

    Args:
        numbers, rows: as of `noisy_means`.
        terms: the columns; of a variance the only one.
        product: the coordinate of the products, or of the squares.
    """
    first, last = terms[0], terms[-1]
    _, (m, k) = noisy_means(numbers, rows, [first, last])
    each = m * k + (first.square_centre if len(terms) == 1 else 0.0)
    sums = {first.total: -2 * m} if len(terms) == 1 else {first.total: -k, last.total: -m}
    return {product: 1.0} | sums | {name: sign * each for name, sign in rows.items()}


def covariance_interval(
    numbers: NoisyNumbers, rows: Mapping[str, float], terms: Sequence[Term], product: str, failure: float
) -> Interval:
    """Return Fieller's interval of the covariance of two columns, or of a variance, not yet clamped.

    Args:
        numbers, rows, terms, product: as of `about_means`.
        failure: in (0, 1).
    """
    largest = 4 * terms[0].half_range * terms[-1].half_range
    least = 0.0 if len(terms) == 1 else -largest
    weights = about_means(numbers, rows, terms, product)
    found = numbers.noises.ratio(numbers.values, weights, rows, (least, largest), failure)
    far = errors_of_means(numbers, rows, terms, failure)
    # The square of the mean's error is what a noisy variance lacks.
    more = (far[0] * terms[0].half_range) ** 2 if len(terms) == 1 else 0.0
    known = np.max(far, axis=0) < FAR
    return Interval(np.where(known, found.low, least), np.where(known, found.high + more, largest))


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

    def about_means(self, numbers: NoisyNumbers, i: int, j: int) -> dict[str, Any]:
        """Return the weights of noisy statistics in the covariance of two columns times the rows."""
        terms = [self.terms[place] for place in dict.fromkeys((i, j))]
        return about_means(numbers, self.signs, terms, self.product[i, j])


@dataclass(frozen=True)
class CovarianceEstimate(CrossEstimate):
    """The estimate of a covariance: the noisy mean of products less the product of noisy means."""

    kind: ClassVar[str] = "covariance"

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy covariance, clamped to its possible range."""
        return np.clip(self.moment(numbers, 0, 1), self.lower, self.upper)

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return the interval of a covariance."""
        found = covariance_interval(numbers, self.signs, self.terms, self.product[0, 1], failure)
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
        """Return Fieller's interval of a correlation: a covariance over the mean of two scaled variances."""
        variances = [np.maximum(self.moment(numbers, i, i), 0.0) for i in (0, 1)]
        far = errors_of_means(numbers, self.signs, self.terms, failure)
        known = (variances[0] > 0) & (variances[1] > 0) & (np.max(far, axis=0) < FAR)
        one, other = (np.where(known, v, 1.0) for v in variances)
        # The mean of v / a and a w is least, root(v w), at a = root(v / w): an error of a hardly matters.
        scale = np.sqrt(one / other)
        below: dict[str, Any] = {}
        for i, factor in ((0, 0.5 / scale), (1, 0.5 * scale)):
            for name, weight in self.about_means(numbers, i, i).items():
                below[name] = below.get(name, 0.0) + factor * weight
        above = self.about_means(numbers, 0, 1)
        found = numbers.noises.ratio(numbers.values, above, below, (-1.0, 1.0), failure)
        return Interval(np.where(known, found.low, -1.0), np.where(known, found.high, 1.0))


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
        """Return Fieller's interval of a regression coefficient; infinite where there is none."""
        system = _System(self, numbers)
        above, below = system.fraction(self._weights)
        found = numbers.noises.quotient(numbers.values, Form(above), Form(below), failure).shifted(
            self._shift
        )
        known = np.isfinite(system.box(1 - SURE)).all(axis=1)
        return Interval(np.where(known, found.low, -np.inf), np.where(known, found.high, np.inf))

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

    def fraction(self, weights: Floats) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a weighted sum of regression coefficients as a ratio of sums of noisy statistics.

        With p = M^-1 w / (w M^-1 w) the sum t of coefficients t p + rest is p (b - M rest) / (p M p). As p M
        is a multiple of w, and w rest is 0, an error of the rest hardly matters. See
        docs/proofs/cross_moments.md.
        """
        along = np.einsum("gij,j->gi", self.inverse, weights)
        size = np.einsum("gi,i->g", along, weights)
        p = along / np.where(size > 0, size, 1.0)[:, None]
        rest = self.solution - np.einsum("i,gi->g", weights, self.solution)[:, None] * p
        above, below = dict[str, Any](), dict[str, Any]()
        for i, right in enumerate(self.right):
            for name, w in right.items():
                above[name] = above.get(name, 0.0) + w * p[:, i]
        for (i, j), entry in self.entries.items():
            for name, w in entry.items():
                above[name] = above.get(name, 0.0) - w * p[:, i] * rest[:, j]
                below[name] = below.get(name, 0.0) + w * p[:, i] * p[:, j]
        return above, below

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
