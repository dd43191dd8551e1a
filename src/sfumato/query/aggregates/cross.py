"""Covariances, correlations and linear regressions of columns within bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Self

from sfumato.dataclass import dataclass
from sfumato.errors import QueryError, shown
from sfumato.exact import Number
from sfumato.names import helpful
from sfumato.query.aggregates.aggregate import Aggregate, check_numeric, checked_bounds, column_name
from sfumato.query.aggregates.called import remembered
from sfumato.query.schema import Schema

# With more, the noise of their products leaves nothing of what is asked.
MOST_EXPLAINING = 8


@dataclass(frozen=True, repr=False)
class OfColumns(Aggregate):
    """What is asked of several columns together, each with its bounds.

    Args:
        blocks: each column with its lower and upper bound; of a regression the explained one first.
    """

    blocks: tuple[tuple[str, Fraction, Fraction], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, all different."""
        return tuple(column for column, _, _ in self.blocks)

    @property
    def bounds(self) -> tuple[tuple[str, Fraction, Fraction], ...]:
        """The columns with their bounds."""
        return self.blocks

    def clamps(self, schema: Schema) -> bool:
        """Values may be beyond the bounds."""
        return True

    def of_columns(self, columns: Mapping[str, str]) -> Self:
        """Return the same, of columns by other names."""
        return replace(self, blocks=tuple((columns[c], low, high) for c, low, high in self.blocks))

    def check(self, name: str, schema: Schema) -> None:
        """Check that the columns are there, and hold numbers."""
        super().check(name, schema)
        for column in self.columns:
            check_numeric(name, column, schema)

    def _bounds(self, written: Mapping[str, str]) -> str:
        return ", ".join(
            f"{written.get(column, column)} from {float(low):g} to {float(high):g}"
            for column, low, high in self.blocks
        )


@dataclass(frozen=True, repr=False)
class Covariance(OfColumns):
    """A covariance (divided by the count, not the count less one)."""

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the columns and bounds."""
        return f"covariance, bounds of {self._bounds(written)}"


@dataclass(frozen=True, repr=False)
class Correlation(OfColumns):
    """A correlation."""

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the columns and bounds."""
        return f"correlation, bounds of {self._bounds(written)}"


@dataclass(frozen=True, repr=False)
class LinearRegression(OfColumns):
    """The coefficients of a linear regression, by least squares."""

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return a column for each coefficient."""
        return (f"{name}_intercept", *(f"{name}_{column}" for column in self.columns[1:]))

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return the columns and bounds."""
        y = written.get(self.columns[0], self.columns[0])
        return f"linear regression of {y}, bounds of {self._bounds(written)}"

    def note(self, name: str) -> str | None:
        """What NaN means."""
        return (
            f"{name}: coefficients are NaN, with an infinite error bar, where the noisy numbers do not rule "
            "out that the columns explain each other (a design near singular)."
        )


Bounds = Mapping[str, tuple[Number, Number]]


@helpful
@remembered
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


@helpful
@remembered
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


@helpful
@remembered
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
    if isinstance(x, str) or not isinstance(x, Sequence) or not 1 <= len(x) <= MOST_EXPLAINING:
        raise QueryError(
            f"linear_regression: x is {shown(x)}, but must be a list of 1 to {MOST_EXPLAINING} columns: "
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
