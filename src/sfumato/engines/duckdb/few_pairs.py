"""Maximum matchings of one group as large as the table, in which most pairs need no look.

It reads all values and the pairs of some rows, then only pairs that could make the matching larger.
docs/proofs/distinct_matched.md says why no matching is larger where there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engines.duckdb.distinct_values import Marks, Matching, Pruned, Rows, Small, Units, codes_of
from sfumato.engines.duckdb.resources import keep_open
from sfumato.query import sizes
from sfumato.query.arrow_columns import arrow_column
from sfumato.query.engine_protocol import ExactQuery
from sfumato.transformations import DistinctMatched

WANTED, FULL = "sfumato_wanted", "sfumato_full"

Read = Callable[[str], pa.RecordBatchReader]
Offer = Callable[[str, pa.Table], object]


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
        reader: pa.RecordBatchReader = keep_open(session.sql(text).to_arrow_reader(sizes.PAIRS_AT_ONCE))
        return reader

    def offer(name: str, table: pa.Table) -> None:
        session.register(name, table)

    found = {
        s: most_brought(read, offer, rows(s), s.values)
        for s in query.statistics
        if isinstance(s, DistinctMatched)
    }
    return {s: number for s, number in found.items() if number is not None}


def most_brought(read: Read, offer: Offer, rows: Rows, most: int) -> int | None:
    """Return the size of a maximum matching of all units to their values, where few pairs show it.

    Args:
        read: runs a query.
        offer: puts a table where queries find it, by name.
        rows: queries of values and pairs.
        most: how many values a unit brings at most.
    Returns:
        The number, or None where it takes a look at all pairs.
    """
    with suppress(_TooMuch):
        return _Search(read, offer, rows).found(most)
    return None


class _TooMuch(Exception):
    """More values or pairs than are looked at here."""


class _Near:
    """Values that are whole numbers near each other; the number of each is its distance from the least."""

    def __init__(self, read: Read, values: str) -> None:
        least, largest = read(f"SELECT min(leaf), max(leaf) FROM ({values})").read_all().columns
        self.kind, self.least = least.type, least[0].as_py() or 0
        width = 0 if largest[0].as_py() is None else largest[0].as_py() - self.least + 1
        self.is_near = width <= sizes.TABLE_RANGE
        self.there: Marks = np.zeros(width * self.is_near, bool)
        if len(self.there):
            for batch in read(values):
                self.there[self._distances(batch.column(0))] = True

    def numbers(self, values: pa.ChunkedArray) -> Small:
        """Return the number of each value."""
        return np.concatenate([np.zeros(0, np.int32), *map(self._distances, values.chunks)])

    def values(self, numbers: NDArray[np.int64]) -> pa.Array:
        """Return the values that have some numbers."""
        values = numbers.astype(self._type) + self._type.type(self.least)
        return pa.Array.from_buffers(self.kind, len(values), [None, pa.py_buffer(values)])

    def _distances(self, values: pa.Array) -> Small:
        each = self._type.itemsize
        whole = np.frombuffer(values.buffers()[1] or b"", self._type, len(values), each * values.offset)
        distances = (whole - self._type.type(self.least)).view(f"u{each}")
        # A file that changes while it is read may have others.
        found: Small = np.minimum(distances, len(self.there) - 1).astype(np.int32)
        return found

    @property
    def _type(self) -> np.dtype[Any]:
        return np.dtype(
            f"{'u' if pa.types.is_unsigned_integer(self.kind) else 'i'}{self.kind.bit_width // 8}"
        )


class _Listed:
    """Values of any kind, or their codes; the number of each is its place in a list."""

    def __init__(self, read: Read, values: str) -> None:
        found = f"SELECT DISTINCT leaf FROM ({values}) LIMIT {sizes.MATCHED_VALUES + 1}"
        self.leaves = read(found).read_all().column(0)
        if len(self.leaves) > sizes.MATCHED_VALUES:
            raise _TooMuch
        self.there: Marks = np.ones(len(self.leaves), bool)

    def numbers(self, values: pa.ChunkedArray) -> Small:
        """Return the number of each value."""
        known = len(self.leaves)
        coded = pa.chunked_array([*self.leaves.chunks, *values.chunks]).dictionary_encode().combine_chunks()
        numbers = np.frombuffer(coded.indices.buffers()[1], np.int32, len(coded), 4 * coded.offset)
        return np.minimum(numbers[known:], known - 1)

    def values(self, numbers: NDArray[np.int64]) -> pa.Array:
        """Return the values that have some numbers."""
        return self.leaves.take(arrow_column(numbers))


class _Search:
    """The pairs that are known: of the number of a value, and a unit's code."""

    def __init__(self, read: Read, offer: Offer, rows: Rows) -> None:
        self.read, self.offer, self.pairs = read, offer, rows.pairs
        near = _Near(read, rows.values) if rows.whole else None
        self.leaves = near if near is not None and near.is_near else _Listed(read, rows.values)
        self.value, self.unit = np.zeros(0, np.int32), np.zeros(0, np.uint64)

    def found(self, most: int) -> int:
        """Return the size of a maximum matching."""
        there = self.leaves.there
        number = int(there.sum())
        many, some = number > sizes.MANY_VALUES, max(sizes.ROWS_OF_A_VALUE * number, sizes.FIRST_ROWS)
        first = sizes.FIRST_ROWS_OF_MANY if many else some
        whole = not number or self._look(f"{self.pairs} LIMIT {first}") < first
        for look in range(sizes.LOOKS):
            pruned = Pruned(self.unit, self.value, len(there), most)
            matching = Matching(pruned.sure, ~pruned.sure, self.unit[:0])
            # At first, more pairs of values that are not sure show more, and take less time.
            if whole or look or not self._are_few(there & matching.exposed):
                matching = pruned.matching()
            exposed = there & matching.exposed
            if whole or not exposed.any() or not self._look(self._uncovered(exposed, matching.full)):
                return int(matching.brought.sum())
            if not self._are_few(exposed):
                break
        raise _TooMuch

    def _are_few(self, values: Marks) -> bool:
        return bool(values.sum() <= sizes.SHARE_LEFT_OUT * self.leaves.there.sum())

    def _uncovered(self, exposed: Marks, full: Units) -> str:
        """Write a query of the pairs of exposed values with units that are not full.

        Of many values it asks only for a pair of any such unit.
        """
        text = f"SELECT leaf, unit FROM ({self.pairs}) AS r"
        if len(full):
            self.offer(FULL, pa.table({"full": arrow_column(full)}))
            text += f" ANTI JOIN {FULL} ON r.unit = {FULL}.full"
        if not self._are_few(exposed):
            return f"{text} LIMIT 1"
        self.offer(WANTED, pa.table({"leaf": self.leaves.values(np.flatnonzero(exposed))}))
        return f"{text} WHERE leaf IN (FROM {WANTED})"

    def _look(self, text: str) -> int:
        """Get pairs, and return how many there are."""
        batches, known = [], len(self.value)
        reader = self.read(text)
        for batch in reader:
            batches.append(batch)
            known += len(batch)
            if known > sizes.MATCHED_PAIRS:
                raise _TooMuch
        value, unit = pa.Table.from_batches(batches, reader.schema).columns
        self.value = np.concatenate([self.value, self.leaves.numbers(value)])
        self.unit = np.concatenate([self.unit, *map(codes_of, unit.chunks)])
        return len(value)
