"""Numbers of distinct values: the SQL of what units bring to each value of a group, and maximum matchings.

A value is known by its hash of 64 bits: of ten million values, two are taken for one with a probability of
3 in a million, and a unit changes a number by no more than it may, whatever the hash. A maximum matching is
no SQL: what is left of a group's sets of values, of units that have more than they may bring, goes to
`matched`, which has it from SciPy.

For one group as large as the table most pairs of values and units need no look: `max_matching` reads all
values and the pairs of some rows, then only pairs that could make the matching larger.
docs/proofs/distinct_matched.md says why none is larger then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.resources import keep_open
from sfumato.framework import WHOLE
from sfumato.measurements.int128_array import arrow_column
from sfumato.query import sizes
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.schema import INTEGERS
from sfumato.sql_text import identifier
from sfumato.transformations import DistinctMatched, DistinctShared

Distinct = DistinctMatched | DistinctShared
KINDS = (DistinctMatched, DistinctShared)


@dataclass(frozen=True)
class Rows:
    """Queries of the distinct values of one group, and of the units that have them.

    Args:
        values: a query of `leaf`, which is a value or its code; also of rows without a unit.
        pairs: a query of `leaf` and `unit`, the code of a unit; with repetitions.
        whole: whether leaves are whole numbers, and not codes. Of days there are so few that DuckDB finds
            them sooner than by a table.
    """

    values: str
    pairs: str
    whole: bool = False


def plain(type_name: str) -> bool:
    """Return whether DuckDB counts distinct values faster than their hashes."""
    return (type_name in INTEGERS and "HUGE" not in type_name) or type_name in (
        "DATE",
        "TIMESTAMP",
        "BOOLEAN",
    )


def shares(statistic: DistinctShared, having: str, in_part: bool) -> str:
    """Write the share of a distinct value that each row of a unit contributes."""
    whole = 1 << -statistic.exponent
    each = (
        f"CASE WHEN {having} <= {statistic.values} THEN {whole}::BIGINT "
        f"ELSE {statistic.values * whole}::BIGINT // {having} END"
    )
    return f"((({each}) * w) // {WHOLE})" if in_part else f"({each})"


def brought(statistic: Distinct, keys: Sequence[str], units: str) -> str:
    """Return a SELECT of the distinct values that units contribute to each group, as lists.

    Args:
        statistic: the number.
        keys: names of the key columns.
        units: rows of keys, leaf and, of shares, `one`: of matchings each of a unit `u` and leaf once.
    """
    columns, name = "".join(f"{k}, " for k in keys), identifier(statistic.names[0])
    if isinstance(statistic, DistinctShared):
        leaves = f"SELECT {columns}leaf, CAST(sum(one) AS BIGINT) AS weight FROM ({units}) GROUP BY ALL"
        return _grouped(f"list({{'leaf': leaf, 'weight': weight}}) AS {name}", keys, leaves)
    ctes, rest = _sure_and_rest(statistic.values, keys, units)
    sets = f"WITH {ctes} SELECT {columns}[leaf] AS leaves FROM sure UNION ALL {rest}"
    return _grouped(f"list(leaves) AS {name}", keys, sets)


def _sure_and_rest(limit: int, keys: Sequence[str], units: str, ones: str | None = None) -> tuple[str, str]:
    """Return SQL of distinct values that surely count, and of the sets left for a matching."""
    # Who has no more values than the limit brings them all in some largest matching: each of these values is
    # as good as brought by a unit of its own. Of the others only what is left of their sets is needed.
    columns, same = "".join(f"{k}, " for k in keys), [f"rest.{k} IS NOT DISTINCT FROM sure.{k}" for k in keys]
    each = f"SELECT {columns}u, list(leaf) AS leaves FROM ({units}) GROUP BY {columns}u"
    sure = f"SELECT {columns}unnest(leaves) AS leaf FROM each_unit WHERE len(leaves) <= {limit}"
    if ones is not None:
        sure += f" UNION ALL {ones}"
    rest = f"SELECT {columns}u, unnest(leaves) AS leaf FROM each_unit WHERE len(leaves) > {limit}"
    return (
        f"each_unit AS MATERIALIZED ({each}), sure AS MATERIALIZED (SELECT DISTINCT * FROM ({sure}))",
        f"SELECT {columns}list(leaf) AS leaves FROM ({rest}) AS rest "
        f"ANTI JOIN sure ON ({' AND '.join([*same, 'rest.leaf = sure.leaf'])}) GROUP BY {columns}u",
    )


def join_lists(statistic: Distinct, keys: Sequence[str], lists: str) -> str:
    """Return a SELECT that joins lists of distinct values of each group from several stages."""
    columns, name = "".join(f"{k}, " for k in keys), identifier(statistic.names[0])
    if isinstance(statistic, DistinctMatched):
        return _grouped(f"flatten(list({name})) AS {name}", keys, f"SELECT * FROM {lists}")
    each = f"SELECT {columns}unnest({name}) AS leaf FROM {lists}"
    leaves = (
        f"SELECT {columns}leaf.leaf AS leaf, CAST(sum(leaf.weight) AS BIGINT) AS weight "
        f"FROM ({each}) GROUP BY ALL"
    )
    return _grouped(f"list({{'leaf': leaf, 'weight': weight}}) AS {name}", keys, leaves)


def count_values(statistic: Distinct, keys: Sequence[str], units: str, ones: str) -> str:
    """Return a SELECT of each group's number of distinct values, or the sets left for a matching.

    Args:
        statistic: the number.
        keys: names of the key columns.
        units: rows as of `brought`, of units with several rows in a group.
        ones: rows of keys, leaf and, of shares, `one`, of all others: such a unit brings its value.
    """
    columns, name = "".join(f"{k}, " for k in keys), identifier(statistic.names[0])
    if isinstance(statistic, DistinctShared):
        rows = f"SELECT {columns}leaf, one FROM ({units}) UNION ALL {ones}"
        return _sum(
            statistic, keys, f"SELECT {columns}sum(one) AS weight FROM ({rows}) GROUP BY {columns}leaf"
        )
    ctes, rest = _sure_and_rest(statistic.values, keys, units, ones)
    number = f"SELECT {columns}count(*) AS sure, NULL AS leaves FROM sure"
    both = f"WITH {ctes} {number}{_grouping(keys)} UNION ALL SELECT {columns}0, leaves FROM ({rest})"
    sets = "coalesce(list(leaves) FILTER (leaves IS NOT NULL), [])"
    return _grouped(f"{{'sure': CAST(sum(sure) AS BIGINT), 'sets': {sets}}} AS {name}", keys, both)


def counted_of_lists(statistic: Distinct, keys: Sequence[str], lists: str) -> str:
    """Return a SELECT of each group's number of distinct values from lists of several stages."""
    columns, name = "".join(f"{k}, " for k in keys), identifier(statistic.names[0])
    if isinstance(statistic, DistinctMatched):
        sets = join_lists(statistic, keys, lists)
        return f"SELECT {columns}{{'sure': 0::BIGINT, 'sets': {name}}} AS {name} FROM ({sets})"
    each = f"SELECT {columns}unnest({name}) AS leaf FROM {lists}"
    leaves = f"SELECT {columns}sum(leaf.weight) AS weight FROM ({each}) GROUP BY {columns}leaf.leaf"
    return _sum(statistic, keys, leaves)


def nothing(statistic: Distinct) -> str:
    """Return SQL of the number of distinct values of a group without units."""
    return "0" if isinstance(statistic, DistinctShared) else "{'sure': 0::BIGINT, 'sets': []}"


def _sum(statistic: DistinctShared, keys: Sequence[str], leaves: str) -> str:
    whole, name = 1 << -statistic.exponent, identifier(statistic.names[0])
    return _grouped(f"CAST(sum(least(weight, {whole})) AS BIGINT) AS {name}", keys, leaves)


def _grouped(number: str, keys: Sequence[str], rows: str) -> str:
    return f"SELECT {''.join(f'{k}, ' for k in keys)}{number} FROM ({rows}){_grouping(keys)}"


def _grouping(keys: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(keys)}" if keys else ""


# With its ways back a flow has twice as many ways, which SciPy numbers by 32 bits.
_MAX_WAYS = 1 << 30

Numbers = NDArray[np.int64]
Small = NDArray[np.int32]
Units = NDArray[np.uint64] | Numbers
Marks = NDArray[np.bool_]


def fill_matching_sizes(
    batch: pa.RecordBatch | None, query: ExactQuery, known: Mapping[DistinctMatched, int]
) -> pa.RecordBatch:
    """Return statistics with matching sizes in the place of the sets of distinct values.

    Args:
        batch: keys and all statistics but those that are known, matchings as `counted` has them; None where
            all are known.
        query: what is asked.
        known: of a query without keys, the size of some.
    """
    given = iter(() if batch is None else zip(batch.schema.names, batch.columns, strict=True))
    # By position, as a key may have the name of a number.
    columns = list(islice(given, len(query.keys)))
    for statistic in sorted(query.statistics, key=lambda s: s.listed):
        for name in statistic.names:
            if isinstance(statistic, DistinctMatched) and statistic in known:
                columns.append((name, arrow_column(np.array([known[statistic]], np.int64))))
                continue
            _, column = next(given)
            if isinstance(statistic, DistinctMatched):
                sure, sets = column.flatten()
                import pyarrow.compute as pc

                column = pc.add(sure, find_matching(sets, statistic.values))
            columns.append((name, column))
    return pa.RecordBatch.from_arrays([column for _, column in columns], names=[name for name, _ in columns])


def find_matching(column: pa.Array, limit: int) -> pa.Array:
    """Return the size of a maximum matching of each group's units and distinct values.

    Args:
        column: of each group a list of its units' lists of hashes, none twice in a list; in any order.
        limit: how many values a unit brings at most.
    Returns:
        int64, of as many groups.
    """
    groups = _lengths(column)
    units = pa.ListArray.flatten(column)  # without what lies outside a slice, and under NULL
    sizes_of = _lengths(units)
    codes = hash_codes(pa.ListArray.flatten(units))
    unit = np.repeat(np.arange(len(sizes_of)), sizes_of)
    group = np.repeat(np.repeat(np.arange(len(groups)), groups), sizes_of)
    # A value of a group is one node, also where another group has the same.
    order = np.lexsort((codes, group))
    codes, group, unit = codes[order], group[order], unit[order]
    new = _new(codes) | _new(group)
    brought = Pruned(unit, np.cumsum(new) - 1, int(new.sum()), limit).matching().brought
    return arrow_column(np.bincount(group[new][brought], minlength=len(groups)))


@dataclass
class Matching:
    """A maximum matching of the known pairs of units and values, with a proof that none is larger.

    Each known pair has a value that is not exposed, or a full unit. All values that are not exposed are
    brought, and full units bring exposed values, as many as they may. Only other pairs can add to that.

    Args:
        brought: of each value whether it is brought.
        exposed: of each value whether it is left out, or brought by a full unit.
        full: units that bring as many values as they may, all of them exposed.
    """

    brought: Marks
    exposed: Marks
    full: Units


class Pruned:
    """Pairs of units and values that a maximum matching may need; all others are pruned.

    A unit with no more values than the limit brings them all, and other units do not need these values.

    Args:
        unit: the code of each pair's unit.
        value: the number of each pair's value, from 0; pairs may repeat.
        values: how many numbers of values there are.
        most: how many values a unit brings at most.
    """

    def __init__(self, unit: Units, value: Numbers | Small, values: int, most: int) -> None:
        self.most = most
        self.sure: Marks = np.zeros(values, bool)
        # Units are counted by bucket. Those that share one seem to have more values, so fewer are sure.
        buckets = min(1 << (2 * len(unit)).bit_length(), sizes.UNIT_BUCKETS)
        *_, self.unit, self.value = self._left(
            (unit & unit.dtype.type(buckets - 1)).astype(np.int64), unit, value
        )

    def _left(self, place: Numbers, *pairs: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the pruned pairs whose values are not sure, with the places of their units."""
        columns = [place, *pairs]
        # The rounds are limited, as units in a row may be freed one by one.
        for _ in range(sizes.PRUNINGS):
            place, value = columns[0], columns[-1]
            free = (np.bincount(place) <= self.most)[place]
            if not free.any():
                break
            self.sure[value[free]] = True
            kept = np.flatnonzero(~self.sure[value])
            columns = [column[kept] for column in columns]
        return columns

    def matching(self) -> Matching:
        """Return a maximum matching of the pruned pairs."""
        codes, unit = _numbered(self.unit)
        width = len(self.sure)
        pairs = np.sort(unit * width + self.value)
        unit, value = np.divmod(pairs[_new(pairs)], width)
        unit, value = self._left(unit, value)
        brought, exposed = self.sure.copy(), ~self.sure
        if not len(value):
            return Matching(brought, exposed, codes[:0])
        units, unit = _dense(unit, len(codes))
        values, value = _dense(value, width)
        brought[values], exposed[values], full = _flow(unit, value, self.most)
        return Matching(brought, exposed, codes[units[full]])


def _flow(unit: Numbers, value: Numbers, limit: int) -> tuple[Marks, Marks, Marks]:
    """Return which values a maximum flow matches, which are exposed, and which units are full.

    A maximum flow runs from a source to values, to units that have them, and to a sink. What the source
    still reaches, where the flow leaves room, is exposed or full.
    """
    # They take a fifth of a second to import, and few questions need them.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    values, units = int(value.max()) + 1, int(unit.max()) + 1
    source, sink = values + units, values + units + 1
    tails = np.concatenate([np.full(values, source), value, values + np.arange(units)])
    heads = np.concatenate([np.arange(values), values + unit, np.full(units, sink)])
    if len(tails) >= _MAX_WAYS:
        raise MemoryError
    room = np.ones(len(tails), np.int32)
    room[-units:] = min(limit, len(value))
    graph = csr_array((room, (tails.astype(np.int32), heads.astype(np.int32))), shape=(sink + 1, sink + 1))
    flow = maximum_flow(graph, source, sink).flow
    left = graph - flow
    left.eliminate_zeros()
    reached = np.zeros(sink + 1, bool)
    reached[breadth_first_order(left, source, return_predecessors=False)] = True
    brought = flow[[source], :values].toarray()[0] > 0
    return brought, reached[:values], reached[values:source]


def _numbered(codes: Units) -> tuple[Units, Numbers]:
    """Return the different codes of a matching's units, and the place of each code."""
    # NumPy's `unique` hashes, which takes longer.
    order = np.argsort(codes)
    found = codes[order]
    new = _new(found)
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.cumsum(new) - 1
    return found[new], numbers


def _new(ordered: Units) -> Marks:
    """Return which sorted codes of a matching differ from those before them."""
    new = np.ones(len(ordered), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return new


def _dense(numbers: Numbers, end: int) -> tuple[Numbers, Numbers]:
    """Return which node numbers of a matching there are, and the place of each."""
    there = np.zeros(end, bool)
    there[numbers] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]


def hash_codes(column: pa.Array) -> NDArray[np.uint64]:
    """Return hash codes of a matching's column; `to_numpy` of Arrow would import pandas."""
    return np.frombuffer(column.buffers()[1] or b"", np.uint64, len(column), 8 * column.offset)


def _lengths(lists: pa.Array) -> np.ndarray:
    if not len(lists):
        return np.zeros(0, np.int64)
    offsets = lists.offsets
    each = offsets.type.bit_width // 8
    return np.diff(np.frombuffer(offsets.buffers()[1], f"i{each}", len(offsets), each * offsets.offset))


WANTED, FULL = "sfumato_wanted", "sfumato_full"

Read = Callable[[str], pa.RecordBatchReader]
Offer = Callable[[str, pa.Table], object]


def known(
    session: duckdb.DuckDBPyConnection, query: ExactQuery, rows: Callable[[DistinctMatched], Rows]
) -> dict[DistinctMatched, int]:
    """Return sizes of maximum matchings, for a query without keys, that few pairs show.

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
        s: max_matching(read, offer, rows(s), s.values)
        for s in query.statistics
        if isinstance(s, DistinctMatched)
    }
    return {s: number for s, number in found.items() if number is not None}


def max_matching(read: Read, offer: Offer, rows: Rows, limit: int) -> int | None:
    """Return the size of a maximum matching of all units, where few pairs show it.

    Args:
        read: runs a query.
        offer: puts a table where queries find it, by name.
        rows: queries of values and pairs.
        limit: how many values a unit brings at most.
    Returns:
        The number, or None where it takes a look at all pairs.
    """
    with suppress(_TooMuch):
        return _Search(read, offer, rows).found(limit)
    return None


class _TooMuch(Exception):
    """More values or pairs than sparse matching looks at."""


class _Near:
    """Matching values that are near whole numbers, numbered by distance from the least."""

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
        """Return the matching number of each value."""
        return np.concatenate([np.zeros(0, np.int32), *map(self._distances, values.chunks)])

    def values(self, numbers: NDArray[np.int64]) -> pa.Array:
        """Return the values that have some matching numbers."""
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
    """Matching values of any kind, numbered by their place in a list."""

    def __init__(self, read: Read, values: str) -> None:
        found = f"SELECT DISTINCT leaf FROM ({values}) LIMIT {sizes.MATCHED_VALUES + 1}"
        self.leaves = read(found).read_all().column(0)
        if len(self.leaves) > sizes.MATCHED_VALUES:
            raise _TooMuch
        self.there: Marks = np.ones(len(self.leaves), bool)

    def numbers(self, values: pa.ChunkedArray) -> Small:
        """Return the matching number of each value."""
        known = len(self.leaves)
        coded = pa.chunked_array([*self.leaves.chunks, *values.chunks]).dictionary_encode().combine_chunks()
        numbers = np.frombuffer(coded.indices.buffers()[1], np.int32, len(coded), 4 * coded.offset)
        return np.minimum(numbers[known:], known - 1)

    def values(self, numbers: NDArray[np.int64]) -> pa.Array:
        """Return the values that have some matching numbers."""
        return self.leaves.take(arrow_column(numbers))


class _Search:
    """A search for a maximum matching among few known pairs of values and units."""

    def __init__(self, read: Read, offer: Offer, rows: Rows) -> None:
        self.read, self.offer, self.pairs = read, offer, rows.pairs
        near = _Near(read, rows.values) if rows.whole else None
        self.leaves = near if near is not None and near.is_near else _Listed(read, rows.values)
        self.value, self.unit = np.zeros(0, np.int32), np.zeros(0, np.uint64)

    def found(self, limit: int) -> int:
        """Return the size of a maximum matching that the search proves."""
        there = self.leaves.there
        number = int(there.sum())
        many, some = number > sizes.MANY_VALUES, max(sizes.ROWS_OF_A_VALUE * number, sizes.FIRST_ROWS)
        first = sizes.FIRST_ROWS_OF_MANY if many else some
        whole = not number or self._read_pairs(f"{self.pairs} LIMIT {first}") < first
        for look in range(sizes.LOOKS):
            pruned = Pruned(self.unit, self.value, len(there), limit)
            matching = Matching(pruned.sure, ~pruned.sure, self.unit[:0])
            # At first, more pairs of values that are not sure show more, and take less time.
            if whole or look or not self._are_few(there & matching.exposed):
                matching = pruned.matching()
            exposed = there & matching.exposed
            if whole or not exposed.any() or not self._read_pairs(self._uncovered(exposed, matching.full)):
                return int(matching.brought.sum())
            if not self._are_few(exposed):
                break
        raise _TooMuch

    def _are_few(self, values: Marks) -> bool:
        return bool(values.sum() <= sizes.SHARE_LEFT_OUT * self.leaves.there.sum())

    def _uncovered(self, exposed: Marks, full: Units) -> str:
        """Write a query of pairs that could make the matching larger.

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

    def _read_pairs(self, text: str) -> int:
        """Read more pairs for the matching, and return how many."""
        batches, known = [], len(self.value)
        reader = self.read(text)
        for batch in reader:
            batches.append(batch)
            known += len(batch)
            if known > sizes.MATCHED_PAIRS:
                raise _TooMuch
        value, unit = pa.Table.from_batches(batches, reader.schema).columns
        self.value = np.concatenate([self.value, self.leaves.numbers(value)])
        self.unit = np.concatenate([self.unit, *map(hash_codes, unit.chunks)])
        return len(value)
