"""Cumulative totals over time steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Self

from sfumato.dataclass import dataclass
from sfumato.errors import QueryError, shown
from sfumato.names import helpful
from sfumato.query.aggregates.aggregate import Aggregate, Unbounded, column_name
from sfumato.query.aggregates.automatic import Automatic
from sfumato.query.aggregates.called import remembered
from sfumato.query.aggregates.counts import CountPrivacyUnits, CountRows
from sfumato.query.aggregates.moments import Sum
from sfumato.query.schema import Schema


@dataclass(frozen=True, repr=False)
class Cumulative(Aggregate):
    """A count or a sum of all steps up to each.

    Args:
        of: what is added up.
        over: the key of time; None for the only one.
    """

    of: Aggregate
    over: str | None = None

    @property
    def each(self) -> Aggregate:
        """What is asked of each step."""
        return self.of

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are added up."""
        return self.of.columns

    @property
    def needs_rows(self) -> bool:
        """As what is added up."""
        return self.of.needs_rows

    @property
    def bounds(self) -> tuple[tuple[str, Fraction, Fraction], ...]:
        """Those of what is added up."""
        return self.of.bounds

    def clamps(self, schema: Schema) -> bool:
        """As what is added up."""
        return self.of.clamps(schema)

    def of_columns(self, columns: Mapping[str, str]) -> Self:
        """Return the same, of columns by other names."""
        return replace(self, of=self.of.of_columns(columns))

    def check(self, name: str, schema: Schema) -> None:
        """Check that it can be asked of its columns."""
        self.of.check(name, schema)

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return what is added up."""
        return f"cumulative {self.of.meaning(written)}"

    def note(self, name: str) -> str | None:
        """Say what a cumulative number of units is."""
        if not isinstance(self.of, CountPrivacyUnits):
            return None
        return (
            f"{name}: a privacy unit counts once in each step that it is in, so several times in the total."
        )


@helpful
@remembered
def cumulative(of: Aggregate, *, over: str | None = None) -> Aggregate:
    """Add up a count or a sum over all time steps up to each, with little more noise than one step has.

    Groups are public, `group_by(..., keys=...)`, and a complete list of the steps; with further keys, such as
    a region, each has all steps, and a total of its own.

    Args:
        of: `count()`, `count_units()` or `sum(...)`.
        over: the key column of time: whole numbers, dates or times. May be left out where it is the only key.
    Returns:
        What `agg` takes: of each step the total so far.
    Raises:
        QueryError: what is added up is none of these.

    >>> from sfumato.query.aggregates import count
    >>> cumulative(count(), over="week").over
    'week'

    Source:
        Fichtenberger, Henzinger and Upadhyay 2023, "Constant matters: fine-grained error bound on
        differentially private continual observation". Proofs: docs/proofs/series_gaussian.md, and with a
        delta of 0 docs/proofs/tree_laplace.md.
    """
    if isinstance(of, Unbounded):
        raise of.refusal()
    if isinstance(of, Automatic):
        raise QueryError(
            "cumulative: no bounds are found of what is added up over steps; give lower and upper"
        )
    if not isinstance(of, CountRows | CountPrivacyUnits | Sum):
        raise QueryError(
            f"cumulative: {shown(of)} cannot be added up over steps; write cumulative(count()), "
            "cumulative(count_units()) or cumulative(sum(...)), whose quotients are means so far"
        )
    return Cumulative(of, over if over is None else column_name("cumulative", over))
