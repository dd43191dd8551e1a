"""Contributions of units to groups under many limits at once, and the sums of them that an analysis needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.framework import WHOLE
from sfumato.noise.law_tails import Floats
from sfumato.query.aggregates import Estimate
from sfumato.query.aggregates.aggregate import BoundedAggregate, short
from sfumato.query.aggregates.derived_outputs import DerivedEstimate
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.query import Query
from sfumato.transformations import Count, CountUnits, Margin, Moments, Role, Statistic, UnitSum

QUANTILE = "quantile"  # the kind of an output that is no sum of what units bring
Kind = Literal["unit", "rows", "valued", "sum", "squares", "unit_sum"]


@dataclass(frozen=True)
class Atom:
    """A contribution of a unit to a group, of which statistics are sums.

    Args:
        kind: one for the "unit"; "rows", or rows with a value ("valued"), within the limit; of these rows the
            "sum" of values within bounds, from their middle, and of "squares"; or what the unit has in the
            group, within bounds ("unit_sum").
        rows: the limit, beyond which a unit's rows are scaled down.
        column: of which values are.
        lower, upper: the bounds.
    """

    kind: Kind
    rows: int = 0
    column: str = ""
    lower: float = 0.0
    upper: float = 0.0

    @property
    def centre(self) -> float:
        """The middle of the bounds of a contribution."""
        return self.lower / 2 + self.upper / 2


UNIT = Atom("unit")
Weights = Mapping[Atom, float]


def coordinates(statistic: Statistic, query: Query) -> dict[str, Weights]:
    """Return each noisy statistic as a weighted sum of units' contributions.

    Args:
        statistic: of a plan of the question.
        query: the question, which has the bounds as they were given.
    """
    if statistic.listed or isinstance(statistic, Margin):  # of which quantiles are, by the values themselves
        return {}
    if isinstance(statistic, CountUnits):
        return {statistic.names[0]: {UNIT: 1.0}}
    if isinstance(statistic, Count):
        rows = _rows(statistic.rows)
        valued = Atom("valued", statistic.rows, statistic.column or "")
        return {statistic.names[0]: {rows if statistic.column is None else valued: 1.0}}
    assert isinstance(statistic, Moments | UnitSum)
    lower, upper = _bounds(query)[statistic.label]
    if isinstance(statistic, UnitSum):
        whole = Atom("unit_sum", 0, statistic.column, lower, upper)
        return {statistic.names[0]: {whole: 1.0, UNIT: -float(statistic.centre * statistic.step)}}
    total = Atom("sum", statistic.rows, statistic.column, lower, upper)
    valued = Atom("valued", statistic.rows, statistic.column)
    step = statistic.grid.step
    # Values are counted from the middle of bounds that were moved to the grid, or from zero.
    moved = total.centre - (float(statistic.grid.centre * step) if statistic.centred else 0.0)
    taken = float(statistic.square_centre * statistic.square_step)
    known: dict[Role, Weights] = {
        Role.SUM: {total: 1.0, valued: moved},
        Role.NULL_COUNT: {_rows(statistic.rows): 1.0, valued: -1.0},
        Role.SQUARES: {
            Atom("squares", statistic.rows, statistic.column, lower, upper): 1.0,
            total: 2 * moved,
            valued: moved**2 - taken,
        },
    }
    return {c.name: known[c.role] for c in statistic.coordinates}


def collect_atoms(e: Estimate, made: Mapping[str, Weights]) -> set[Atom]:
    """Return the contributions that an output depends on, without those that cancel.

    Args:
        e: how it is made of numbers.
        made: of which atoms these are made.
    """
    if e.kind == QUANTILE:
        return set()
    if isinstance(e, DerivedEstimate):
        return {atom for _, one in e.parts for atom in collect_atoms(one, made)}
    sums = [{n: 1.0} for n in (e.total, e.squares) if n]
    found = set()
    for numbers in [e.signs, *sums] if e.linear is None else [e.linear]:
        total: dict[Atom, float] = {}
        for name, weight in numbers.items():
            for atom, part in made[name].items():
                total[atom] = total.get(atom, 0.0) + weight * part
        found |= {atom for atom, weight in total.items() if weight}
    return found


def _rows(limit: int) -> Atom:
    """Return the contribution of a unit's rows within a limit."""
    return UNIT if limit == 1 else Atom("rows", limit)


def _bounds(query: Query) -> dict[str, tuple[float, float]]:
    """Return the exact bounds of contributions, by the label of their statistic."""
    return {
        f"{a.column}[{short(a.lower)},{short(a.upper)}]": (float(a.lower), float(a.upper))
        for _, a in query.measured
        if isinstance(a, BoundedAggregate)
    }


Pair = tuple[Atom, Atom]


@dataclass(frozen=True)
class Share:
    """The share of a unit's contribution that counts in each of its groups, or the chance that it does.

    Args:
        groups: the limit; None where there is none.
        scaled: whether a unit beyond it counts in part, in steps of 2^-20, in place of a random choice.
        total: the limit of rows in all groups together, in the place of both; each row of a unit beyond it is
            as likely to be chosen as any other.
    """

    groups: int | None
    scaled: bool = False
    total: int | None = None

    @property
    def sampled(self) -> bool:
        """Whether a random choice decides which contributions of a unit count."""
        return self.total is not None or (self.groups is not None and not self.scaled)

    def part(self, groups: int) -> float:
        """Return the share of a unit's contribution that counts if it is in so many groups.

        >>> Share(1).part(3) == 1 / 3, Share(1, scaled=True).part(3) == 349525 / 2**20, Share(4).part(3)
        (True, True, 1.0)
        """
        if self.groups is None or groups <= self.groups:
            return 1.0
        return (self.groups * WHOLE // groups) / WHOLE if self.scaled else self.groups / groups


@dataclass(frozen=True)
class Column:
    """A column whose contributions an analysis needs without limits and bounds.

    Args:
        name: of the column.
        lower, upper: what infinite values count as.
        numeric: whether it holds numbers; of others values are counted.
        squares: whether its squares are needed.
    """

    name: str
    lower: float = 0.0
    upper: float = 0.0
    numeric: bool = True
    squares: bool = False

    @property
    def centre(self) -> float:
        """The middle of the bounds, from which contributions of the column are measured."""
        return self.lower / 2 + self.upper / 2


@dataclass(frozen=True)
class Ranked:
    """A column of which quantiles are analysed, with the limits under which its values count.

    Args:
        column: of the values.
        limits: pairs of a share, by its place, and a limit of rows of a unit in a group.
    """

    column: Column
    limits: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ValuesCounted:
    """The values of a column by group, in rising order, and how much each contributes.

    Args:
        starts: shape (groups + 1,): where the values of each group begin, and end.
        values: shape (values,).
        rows: of each value, without limits.
        expected, variances: by the limits of `Ranked`, what is expected of the rows that count, and its
            variance as if the choice of each row had nothing to do with that of others.
    """

    starts: NDArray[np.int64]
    values: Floats
    rows: Floats
    expected: tuple[Floats, ...]
    variances: tuple[Floats, ...]

    @classmethod
    def from_arrow(cls, column: pa.ChunkedArray, limits: int) -> ValuesCounted:
        """Read the values and contributions of each group from a column of lists."""
        lists = column.combine_chunks()
        lengths = np.asarray(lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int64)
        entries = [np.asarray(one, np.float64) for one in lists.flatten().flatten()]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        return cls(
            starts, entries[0], entries[1], tuple(entries[2::2][:limits]), tuple(entries[3::2][:limits])
        )


@dataclass(frozen=True)
class Contributions:
    """The sums of unit contributions that an analysis asks of an engine.

    Args:
        exact: steps, unit, keys and public keys.
        columns: of exact answers.
        shares: what of a unit counts.
        atoms: what is added up, by share.
        pairs: of which products are, by share: where groups or rows are chosen at random.
        ranked: columns of which quantiles are asked.
    """

    exact: ExactQuery
    columns: tuple[Column, ...]
    shares: tuple[Share, ...]
    atoms: tuple[tuple[Atom, ...], ...]
    pairs: tuple[tuple[Pair, ...], ...]
    ranked: tuple[Ranked, ...] = ()


@dataclass(frozen=True)
class Contributed:
    """The sums of unit contributions that an engine found: arrays of shape (groups,).

    Args:
        keys: the key columns.
        rows, units: without limits.
        valued, sums, squares: of each column: rows with a value, and sums of values and of squares, both from
            the centre.
        atoms: by share, what is expected of each sum over units.
        moments: by share, the variances and covariances of these that a random choice of groups makes.
        kept: by share, mean, variance and third central moment of the number of units that are chosen.
        ranked: of each column of which quantiles are asked, its values.
    """

    keys: pa.Table
    rows: Floats
    units: Floats
    valued: tuple[Floats, ...]
    sums: tuple[Floats, ...]
    squares: tuple[Floats, ...]
    atoms: tuple[dict[Atom, Floats], ...]
    moments: tuple[dict[Pair, Floats], ...]
    kept: tuple[tuple[Floats, Floats, Floats], ...]
    ranked: dict[Ranked, ValuesCounted]

    @classmethod
    def of_columns(cls, request: Contributions, found: pa.Table) -> Contributed:
        """Read the sums of unit contributions from an engine's columns."""
        width = len(request.exact.keys)
        keys = pa.table(dict(zip(request.exact.keys, found.columns[:width], strict=True)))
        rest = iter(found.columns[width:])

        def number() -> Floats:
            # Of a public group without rows nothing was added up.
            column = next(rest).combine_chunks().fill_null(0)
            return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)

        rows, units = number(), number()
        of_columns = [(number(), number(), number()) for _ in request.columns]
        atoms, moments, kept = [], [], []
        for share_atoms, share_pairs in zip(request.atoms, request.pairs, strict=True):
            kept.append((number(), number(), number()))
            atoms.append({atom: number() for atom in share_atoms})
            moments.append({pair: number() for pair in share_pairs})
        ranked = {one: ValuesCounted.from_arrow(next(rest), len(one.limits)) for one in request.ranked}
        valued, sums, squares = (tuple(c[i] for c in of_columns) for i in range(3))
        return cls(
            keys, rows, units, valued, sums, squares, tuple(atoms), tuple(moments), tuple(kept), ranked
        )

    @property
    def groups(self) -> int:
        """The number of groups that units contributed to."""
        return len(self.rows)
