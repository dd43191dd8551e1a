"""Maximum matchings of units to their values, of which a unit brings a limited number."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engines.duckdb.numbering import codes_of
from sfumato.query.exact import ExactQuery
from sfumato.query.noisy.numbers import arrow_column
from sfumato.transformations import DistinctMatched

Numbers = NDArray[np.int64]
Marks = NDArray[np.bool_]


def numbered(
    batch: pa.RecordBatch | None, query: ExactQuery, known: Mapping[DistinctMatched, int]
) -> pa.RecordBatch:
    """Return statistics with the size of a maximum matching in the place of the sets that it is made of.

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

                column = pc.add(sure, matched(sets, statistic.values))
            columns.append((name, column))
    return pa.RecordBatch.from_arrays([column for _, column in columns], names=[name for name, _ in columns])


def matched(column: pa.Array, most: int) -> pa.Array:
    """Return the size of a maximum matching of each group.

    Args:
        column: of each group a list of its units' lists of hashes, none twice in a list; in any order.
        most: how many values a unit brings at most.
    Returns:
        int64, of as many groups.
    """
    groups = _lengths(column)
    units = pa.ListArray.flatten(column)  # without what lies outside a slice, and under NULL
    sizes = _lengths(units)
    codes = codes_of(pa.ListArray.flatten(units))
    unit = np.repeat(np.arange(len(sizes)), sizes)
    group = np.repeat(np.repeat(np.arange(len(groups)), groups), sizes)
    # A value of a group is one node, also where another group has the same.
    order = np.lexsort((codes, group))
    codes, group, unit = codes[order], group[order], unit[order]
    new = np.ones(len(codes), bool)
    new[1:] = (codes[1:] != codes[:-1]) | (group[1:] != group[:-1])
    value = np.cumsum(new) - 1
    group_of_value = group[new]
    brings, _ = largest(unit, value, int(new.sum()), most)
    return arrow_column(np.bincount(group_of_value[brings], minlength=len(groups)))


def largest(unit: Numbers, value: Numbers, values: int, most: int | Numbers) -> tuple[Marks, Marks]:
    """Return which values are brought in a maximum matching, and which an exchange could free in vain.

    Args:
        unit: of each pair who has the value, by numbers from 0 that are not much larger than there are pairs.
        value: of each pair what it has, from 0; repetitions are one.
        values: how many there are.
        most: how many a unit brings at most, or each of them.
    Returns:
        Of each value whether it is brought; and whether it is not, or is brought by a unit that could bring
        one of these instead, in any number of steps.
    """
    taken, blocked = np.zeros(values, bool), np.zeros(values, bool)
    if not len(unit):
        return taken, blocked
    unit, value = _different(unit, value)
    left = np.bincount(unit)
    places = np.broadcast_to(most, left.shape) if isinstance(most, int) else most[: len(left)]
    # A unit with no more values than it may bring does bring them all; others need them no longer.
    while len(unit):
        free = left[unit] <= places[unit]
        if not free.any():
            break
        taken[value[free]] = True
        kept = ~taken[value]
        unit, value = unit[kept], value[kept]
        left = np.bincount(unit, minlength=len(left))
    if not len(unit):
        return taken, blocked
    units, unit = _dense(unit, len(left))
    wanted, value = _dense(value, values)
    by, spare = _tried(unit, value, len(wanted), np.minimum(left[units], places[units]))
    out = by < 0
    if out.any():
        by, out = _exchanged(unit, value, by, spare)
    taken[wanted] = by >= 0
    blocked[wanted] = out
    return taken, blocked


def _tried(unit: Numbers, value: Numbers, values: int, places: Numbers) -> tuple[Numbers, Numbers]:
    """Match what finds a place at once; return of each value its pair, or -1, and the units' places left."""
    by, spare = np.full(values, -1), places.copy()
    # Of its pairs a value takes the one whose unit is in fewest.
    order = np.argsort(np.bincount(unit, minlength=len(places))[unit], kind="stable")[::-1]
    while True:
        order = order[(by[value[order]] < 0) & (spare[unit[order]] > 0)]
        if not len(order):
            return by, spare
        chosen = np.full(values, -1)
        chosen[value[order]] = order  # the last one stays
        chosen = chosen[chosen >= 0]
        chosen = chosen[np.argsort(unit[chosen], kind="stable")]
        whose = unit[chosen]
        new = np.ones(len(whose), bool)
        new[1:] = whose[1:] != whose[:-1]
        starts = np.flatnonzero(new)
        rank = np.arange(len(whose)) - np.repeat(starts, np.diff(np.append(starts, len(whose))))
        placed = chosen[rank < spare[whose]]
        by[value[placed]] = placed
        spare -= np.bincount(unit[placed], minlength=len(spare))


def _exchanged(unit: Numbers, value: Numbers, by: Numbers, spare: Numbers) -> tuple[Numbers, Marks]:
    """Make a matching largest by exchanges; return of each value its pair, or -1, and what none could free.

    An exchange goes from a value that is not brought to a unit, from there to a value that this unit brings,
    and so on to a unit with a place left; the most of them are a largest flow.
    """
    # They take a fifth of a second to import, and few questions need an exchange.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    values, first = len(by), len(by)
    source, sink = first + len(spare), first + len(spare) + 1
    matched_pair = np.zeros(len(unit), bool)
    matched_pair[by[by >= 0]] = True
    there, back = np.flatnonzero(~matched_pair), np.flatnonzero(matched_pair)
    out, room = np.flatnonzero(by < 0), np.flatnonzero(spare)
    tails = np.concatenate([np.full(len(out), source), value[there], first + unit[back], first + room])
    heads = np.concatenate([out, first + unit[there], value[back], np.full(len(room), sink)])
    limits = np.ones(len(tails), np.int32)
    limits[len(tails) - len(room) :] = np.minimum(spare[room], len(out))
    graph = csr_array((limits, (tails, heads)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(graph, source, sink).flow.tocoo()
    changed = np.zeros(len(unit), bool)
    through = flow.data > 0
    ends = flow.coords[0][through], flow.coords[1][through]
    width = np.int64(sink + 1)
    used = ends[0] * width + ends[1]
    changed[there] = np.isin(value[there] * width + first + unit[there], used)
    changed[back] = np.isin((first + unit[back]) * width + value[back], used)
    matched_pair ^= changed
    by = np.full(values, -1)
    pairs = np.flatnonzero(matched_pair)
    by[value[pairs]] = pairs
    out = np.flatnonzero(by < 0)
    ways = (
        np.concatenate([np.full(len(out), source), value, first + unit[pairs]]),
        np.concatenate([out, first + unit, value[pairs]]),
    )
    steps = csr_array((np.ones(len(ways[0]), np.int8), ways), shape=(sink, sink))
    reached = breadth_first_order(steps, source, return_predecessors=False)
    blocked = np.zeros(values, bool)
    blocked[reached[reached < values]] = True
    return by, blocked


def _numbered(codes: NDArray[np.uint64]) -> Numbers:
    """Return the same number from 0 for equal codes. NumPy's `unique` hashes, which takes longer."""
    order = np.argsort(codes)
    found = codes[order]
    new = np.ones(len(codes), bool)
    new[1:] = found[1:] != found[:-1]
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.cumsum(new) - 1
    return numbers


def _different(unit: Numbers, value: Numbers) -> tuple[Numbers, Numbers]:
    """Return pairs, none twice."""
    width = value.max() + 1
    pairs = np.sort(unit * width + value)
    kept = np.ones(len(pairs), bool)
    kept[1:] = pairs[1:] != pairs[:-1]
    unit, value = np.divmod(pairs[kept], width)
    return unit, value


def _dense(numbers: Numbers, end: int) -> tuple[Numbers, Numbers]:
    """Return which numbers below the end there are, and the place of each among them."""
    there = np.zeros(end, bool)
    there[numbers] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]


def _lengths(lists: pa.Array) -> np.ndarray:
    if not len(lists):
        return np.zeros(0, np.int64)
    offsets = lists.offsets
    each = offsets.type.bit_width // 8
    return np.diff(np.frombuffer(offsets.buffers()[1], f"i{each}", len(offsets), each * offsets.offset))
