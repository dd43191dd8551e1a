"""Maximum matchings of one group as large as the table, in which most pairs need no look.

All values are asked for, and the pairs of some rows; then all pairs of the values that these leave out, and
of those that stand in their way. docs/proofs/distinct_matched.md says why no matching is larger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import duckdb
import numpy as np
import pyarrow as pa

from sfumato.engines.duckdb import spill
from sfumato.engines.duckdb.distinct import Rows
from sfumato.engines.duckdb.greedy import Greedy, Marks
from sfumato.engines.duckdb.matching import largest
from sfumato.engines.duckdb.numbering import Codes, Near, Numbering, Small, codes_of, looked_up
from sfumato.query import sizes
from sfumato.query.exact import ExactQuery
from sfumato.query.noisy.numbers import arrow_column
from sfumato.transformations import DistinctMatched

WANTED = "sfumato_wanted"

Read = Callable[[str], pa.RecordBatchReader]
Offer = Callable[[pa.Table], object]


def known(
    session: duckdb.DuckDBPyConnection, query: ExactQuery, rows: Callable[[DistinctMatched], Rows]
) -> dict[DistinctMatched, int]:
    """Return matchings of a query without keys that few pairs show, by what they are of.

    Args:
        session: where rows are read.
        query: what is asked.
        rows: writes queries of values and pairs.
    """

    def read(text: str) -> pa.RecordBatchReader:
        reader: pa.RecordBatchReader = spill.keep(session.sql(text).to_arrow_reader(sizes.PAIRS_AT_ONCE))
        return reader

    def offer(table: pa.Table) -> None:
        session.register(WANTED, table)

    found = {
        s: most_brought(read, offer, rows(s), s.values)
        for s in query.statistics
        if isinstance(s, DistinctMatched) and not query.keys
    }
    return {s: number for s, number in found.items() if number is not None}


def most_brought(read: Read, offer: Offer, rows: Rows, most: int) -> int | None:
    """Return the size of a maximum matching of all units to their values, where few pairs show it.

    Args:
        read: runs a query.
        offer: puts a table where queries find it, as `WANTED`.
        rows: queries of values and pairs.
        most: how many values a unit brings at most.
    Returns:
        The number, or None where it takes a look at all pairs.
    """
    with suppress(_TooMuch):
        return _Search(read, offer, rows, most).found()
    return None


class _TooMuch(Exception):
    """More values or pairs than are looked at here."""


class _Search:
    """A matching, and the pairs that are known: of the number of a value, and a unit's code."""

    def __init__(self, read: Read, offer: Offer, rows: Rows, most: int) -> None:
        self.read, self.offer, self.most = read, offer, most
        self.pairs = rows.pairs
        self.number_of: Callable[[pa.Array], Small]
        if not (rows.whole and self._near(rows)):
            self._by_code(rows)
        if len(self.leaves) > sizes.MATCHED_VALUES:
            raise _TooMuch
        # Room for all, of which no page is touched before it is filled.
        self._values, self._units = (
            np.empty(sizes.MATCHED_PAIRS, np.int32),
            np.empty(sizes.MATCHED_PAIRS, np.uint64),
        )
        self.known = 0
        many = len(self.leaves) > sizes.MANY_VALUES
        first = (
            sizes.FIRST_ROWS_OF_MANY
            if many
            else max(sizes.ROWS_OF_A_VALUE * len(self.leaves), sizes.FIRST_ROWS)
        )
        self._look(f"{self.coded} ({rows.pairs} LIMIT {first})")
        # Of which values all pairs are known.
        self.complete = np.full(len(self.leaves), len(self.value) < first)
        self.greedy = Greedy(len(self.leaves), most, 2 * len(self.value))
        self.greedy.take(self.value, self.unit)

    def _near(self, rows: Rows) -> bool:
        """Find all values, and a number for each, where they are whole numbers that lie near each other."""
        # A few are read first, as it takes a while to stop the reading of all.
        for some in (f" LIMIT {sizes.PROBED_VALUES}", ""):
            values = self.read(f"SELECT leaf FROM ({rows.values}){some}")
            near = Near(values.schema.field(0).type)
            if not all(near.add(batch.column(0)) for batch in values):
                return False
        self.leaves, self.number_of = near.found(), near
        self.coded = "SELECT leaf, unit FROM"
        return True

    def _by_code(self, rows: Rows) -> None:
        """Find all values, and a number for the code of each."""
        found = f"SELECT DISTINCT leaf FROM ({rows.values}) LIMIT {sizes.MATCHED_VALUES + 1}"
        values = self.read(f"SELECT leaf, {rows.code} AS code FROM ({found})").read_all()
        self.leaves = values.column("leaf")
        number_of = Numbering(_codes(values.column("code").chunks))
        self.number_of = lambda column: number_of(codes_of(column))
        self.coded = f"SELECT {rows.code} AS code, unit FROM"

    def found(self) -> int:
        """Return the size of a maximum matching."""
        number = len(self.leaves)
        left = ~self.greedy.brought & ~self.complete
        if left.any() and (places := self._all_places()) is not None:
            return places
        if left.sum() > number * sizes.SHARE_LEFT_OUT:
            raise _TooMuch
        if left.any():
            self._look_at(left)
        return number if self.greedy.brought.all() else self._repaired()

    def _repaired(self) -> int:
        """Match the values that are left out again, with those that may be in their way, and no others."""
        brought, by = self.greedy.brought, self.greedy.by
        inside = ~brought
        inside |= self._in_the_way(inside)
        for _ in range(sizes.REPAIRS):
            pairs = np.flatnonzero(looked_up(inside, self.value))
            units, unit = np.unique(self.unit[pairs], return_inverse=True)
            numbers = np.flatnonzero(inside)
            # What the same units bring of other values stays.
            others = brought & ~inside
            by_them = by[others & self._in_the_way(inside)]
            at = np.searchsorted(units[:-1], by_them)
            held = at[units[at] == by_them] if len(units) else at[:0]
            places = self.most - np.bincount(held, minlength=len(units))
            value = np.searchsorted(numbers, self.value[pairs])
            taken, blocked = largest(unit, value, len(numbers), places)
            if taken.all():
                return len(self.leaves)
            stuck = np.zeros(len(self.leaves), bool)
            stuck[numbers[blocked]] = True
            missing = stuck & ~self.complete
            if missing.any():
                self._look_at(missing)
            more = self._in_the_way(stuck) & ~inside
            if not missing.any() and not more.any():
                return int(others.sum()) + int(taken.sum())
            inside |= more
        raise _TooMuch

    def _in_the_way(self, values: Marks) -> Marks:
        """Return the values that are brought by units that have one of the values; perhaps a few more."""
        near = np.zeros(self.greedy.buckets, bool)
        near[self.greedy.bucket(self.unit[np.flatnonzero(looked_up(values, self.value))])] = True
        return self.greedy.brought & near[self.greedy.bucket(self.greedy.by)]

    def _all_places(self) -> int | None:
        """Return how many places all units have, if these are known already, and each place is taken."""
        if np.count_nonzero(self.greedy.taken) * self.most > len(self.leaves):
            return None
        units = np.unique(self.unit)
        places = self.most * len(units)
        again = Greedy(len(self.leaves), self.most, len(units))
        if len(units) <= again.buckets:
            # Each unit has a bucket of its own.
            again.take(self.value, Numbering(units)(self.unit).astype(np.uint64))
        if again.brought.sum() < places:
            return None
        self.offer(pa.table({"unit": arrow_column(units)}))
        more = f"SELECT r.unit FROM ({self.pairs}) AS r ANTI JOIN {WANTED} AS w ON r.unit = w.unit LIMIT 1"
        return None if self.read(more).read_all().num_rows else places

    def _look_at(self, values: Marks) -> None:
        """Get all pairs of some values."""
        before = len(self.value)
        self.offer(pa.table({"leaf": self.leaves.take(arrow_column(np.flatnonzero(values)))}))
        self._look(f"{self.coded} ({self.pairs}) WHERE leaf IN (FROM {WANTED})")
        self.complete |= values
        self.greedy.take(self.value[before:], self.unit[before:])

    def _look(self, text: str) -> None:
        """Get pairs."""
        for batch in self.read(text):
            value, unit = batch.columns
            start, self.known = self.known, self.known + len(value)
            if self.known > sizes.MATCHED_PAIRS:
                raise _TooMuch
            self._values[start : self.known] = self.number_of(value)
            self._units[start : self.known] = codes_of(unit)

    @property
    def value(self) -> Small:
        """Of each known pair the number of its value."""
        return self._values[: self.known]

    @property
    def unit(self) -> Codes:
        """Of each known pair the unit's code."""
        return self._units[: self.known]


def _codes(columns: Sequence[pa.Array]) -> Codes:
    return np.concatenate([np.zeros(0, np.uint64), *map(codes_of, columns)])
