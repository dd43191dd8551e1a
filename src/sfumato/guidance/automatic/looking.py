"""Noisy histograms of a column's values, or of units' totals; each unit counts once in all bins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import RefusalError
from sfumato.guidance.automatic.bounds import Histogram, ladder
from sfumato.guidance.automatic.tail import Floats
from sfumato.noise import Words
from sfumato.plan.plan import Plan
from sfumato.plan.planning import make_plan
from sfumato.query.aggregates import LARGEST_MAGNITUDE, Aggregate, Automatic, InBins, Sum
from sfumato.query.engine_protocol import Engine
from sfumato.query.query import Query
from sfumato.query.schema import Kind, Step, spelled
from sfumato.query.tables.combined_tables import per_unit
from sfumato.query.tables.table_part import Part
from sfumato.release.release import Release
from sfumato.transformations import Edges

Aggregates = tuple[tuple[str, Aggregate], ...]


@dataclass(frozen=True)
class Values:
    """What is bounded: a column's values in rows, or units' totals in groups; with what is known of them.

    Args:
        column: the column.
        totals: whether each unit's total in a group is bounded, in place of each row.
        lower, upper, magnitudes: as of `Automatic`.
    """

    column: str
    totals: bool
    lower: Fraction | None
    upper: Fraction | None
    magnitudes: tuple[Fraction, Fraction] | None

    @classmethod
    def of(cls, asked: Automatic, rows: int | None, beside: tuple[Automatic, ...]) -> Values:
        """Return what an aggregate bounds; a default sum rows, where a mean beside it does."""
        one, known = asked.stand_in, (asked.lower, asked.upper, asked.magnitudes)
        by_rows = cls(asked.column, False, *known)
        if not isinstance(one, Sum) or one.per == "row":
            return by_rows
        shared = rows == 1 and one.per is None
        if shared and any(cls.of(a, rows, ()) == by_rows for a in beside if not isinstance(a.stand_in, Sum)):
            return by_rows
        return cls(asked.column, True, *known)

    @property
    def fixed(self) -> tuple[float | None, float | None]:
        """The bounds that are given."""
        lower, upper = (None if end is None else float(end) for end in (self.lower, self.upper))
        return lower, upper

    def within(self, ends: tuple[float | Fraction, float | Fraction]) -> tuple[Fraction, Fraction]:
        """Return bounds that every query admits: those that were found, in the place of open ones."""
        given = self.lower, self.upper
        lower, upper = (Fraction(end) if one is None else one for end, one in zip(ends, given, strict=True))
        return admissible(lower, upper, (self.lower is not None, self.upper is not None))

    @property
    def told(self) -> str:
        """What it is, in a few words."""
        return f"{'totals of units' if self.totals else 'rows'} of {self.column!r}"


@dataclass(frozen=True)
class Looking:
    """Draws noisy histograms of values; each is a release of its own.

    Args:
        engine: what reads the rows.
        query: what is asked, of which unit, steps and keys are taken.
        part: the rows.
        values: what is bounded.
        words: a source of random words for tests.
    """

    engine: Engine[Any]
    query: Query
    part: Part
    values: Values
    words: Words | None = None

    @property
    def whole(self) -> bool:
        """Whether the values are whole numbers."""
        return self.query.schema[self.values.column].kind is Kind.INTEGER and not self.values.totals

    @property
    def edges(self) -> Floats:
        """Edges of the first look."""
        wide = self.query.schema[self.values.column].type_name == "HUGEINT"
        return ladder(self.values.magnitudes, self.whole, wide)

    @property
    def known(self) -> tuple[Fraction, Fraction] | None:
        """Bounds that follow from the column's type; None where they do not."""
        boolean = self.query.schema[self.values.column].kind is Kind.BOOLEAN
        return (Fraction(0), Fraction(1)) if boolean and not self.values.totals else None

    @cached_property
    def _source(self) -> tuple[Engine[Any], tuple[Step, ...], str]:
        """What is counted: an engine, steps, and the column that has the values."""
        column = self.values.column
        if not self.values.totals:
            return self.engine, self.query.steps, column
        name = "total"
        while name.casefold() in {other.casefold() for other in self.query.schema}:
            name += "_"
        totals = per_unit(self.part, self.query.keys, {name: f"sum({spelled(column)})"})
        return self.engine.combined(totals), (), name

    def plan(self, edges: Floats, epsilon: Fraction) -> Plan:
        """Return the plan of one look: how many units have values in each bin."""
        engine, steps, column = self._source
        bins = Edges((-math.inf, *edges[1:-1].tolist(), math.inf))
        asked = InBins(column, bins, tuple(map(str, range(bins.count))), "unit")
        schema = engine.schema(steps)
        looked = Query(engine.name, schema, self.query.unit, steps, (), None, None, None, (("n", asked),))
        return make_plan(looked, epsilon=epsilon, noise="laplace")

    def look(self, edges: Floats, epsilon: Fraction) -> Histogram:
        """Draw a noisy histogram, which costs epsilon.

        Args:
            edges: increasing; the first and the last bin also have all that is beyond them.
            epsilon: of this look.
        """
        plan = self.plan(edges, epsilon)
        shown = Release(plan, self._source[0], unsafe_words=self.words).to_arrow()
        counts = np.array([column[0].as_py() for column in shown.columns], dtype=np.float64)
        (deviation, *_) = plan.deviations.values()
        return Histogram(edges, counts, deviation / math.sqrt(2))


def open_values(aggregates: Aggregates, rows: int | None) -> dict[str, Values]:
    """Return what has bounds that are to be found, by the name of the aggregate.

    Args:
        aggregates: of the query.
        rows: its limit of rows.
    """
    automatic = {name: a for name, a in aggregates if isinstance(a, Automatic)}
    return {name: Values.of(a, rows, tuple(automatic.values())) for name, a in automatic.items()}


def bounded(aggregates: Aggregates, bounds: Mapping[str, tuple[Fraction, Fraction]]) -> Aggregates:
    """Return aggregates with bounds in the place of those that are to be found, as far as these are known."""
    return tuple(
        (name, a.bounded(*bounds[name]) if isinstance(a, Automatic) and name in bounds else a)
        for name, a in aggregates
    )


def stood_in(aggregates: Aggregates) -> Aggregates:
    """Return aggregates with bounds that stand in for those that are to be found."""
    return tuple((name, a.stand_in if isinstance(a, Automatic) else a) for name, a in aggregates)


def admissible(lower: Fraction, upper: Fraction, fixed: tuple[bool, bool]) -> tuple[Fraction, Fraction]:
    """Return bounds that every question admits: of magnitude at most 1e100, in order, and not too near.

    Args:
        lower, upper: as they were found.
        fixed: which of them were given, and stay; not both.
    """
    most = Fraction(LARGEST_MAGNITUDE)
    lower, upper = (
        end if stays else min(max(end, -most), most) for end, stays in zip((lower, upper), fixed, strict=True)
    )
    apart = max(max(abs(lower), abs(upper)) / 2**40, Fraction(1, LARGEST_MAGNITUDE))
    if upper - lower >= apart:
        return lower, upper
    if fixed[0]:
        return lower, lower + 2 * apart
    if fixed[1]:
        return upper - 2 * apart, upper
    middle = min(max((lower + upper) / 2, -most + apart), most - apart)
    return middle - apart, middle + apart


def check_looks(engine: Engine[Any]) -> None:
    """Refuse an engine whose rows cannot be looked at before a release.

    Raises:
        RefusalError: it is one.
    """
    if not engine.looks_first:
        raise RefusalError(
            f"{engine.name}: bounds and limits that are 'auto' are found by a look at the rows before the "
            "release, but a pipeline has none yet. Give numbers, or release from a table that sf.scan opens"
        )
