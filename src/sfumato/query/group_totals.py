"""Totals of groups: cumulative ones over time steps, and those of coarser groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import EngineError, ParameterError, QueryError, nearest
from sfumato.exact.rollup import Rollup
from sfumato.exact.time_trees import MAX_STEPS
from sfumato.noise.law_tails import Floats
from sfumato.noise.level_noise import MAX_CELLS
from sfumato.query.aggregates import (
    Aggregate,
    CountDistinct,
    CountPrivacyUnits,
    Cumulative,
    Quantiles,
)
from sfumato.query.engine_protocol import BroughtKeys

if TYPE_CHECKING:
    from sfumato.query.query import Query


MAX_GROUPS = 1 << 16  # one batch

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Series:
    """Groups that are time steps, for cumulative totals: each series has all of them.

    Args:
        over: which of the keys is time.
        steps: how many of them there are.
        count: how many series.
    """

    over: int
    steps: int
    count: int

    def groups(self, table: pa.Table, names: Sequence[str]) -> tuple[tuple[Hashable, ...], ...]:
        """Return the groups of each time series in order of time, as values of these keys."""
        columns = [table.column(name).combine_chunks() for name in names]
        groups = list(zip(*(column.to_pylist() for column in columns), strict=True))
        return tuple(tuple(groups[i] for i in one) for one in self.order(columns))

    def order(self, keys: Sequence[pa.Array]) -> Places:
        """Return the row of each time step, of shape (series, steps).

        Args:
            keys: columns of keys, of which each row is a group.
        """
        others, time = _codes(keys, self.over)
        if len(time) != self.count * self.steps:
            raise EngineError(
                f"{len(time)} groups arrived, but there are {self.count * self.steps} steps of series"
            )
        rows = np.lexsort((time, others)).reshape(self.count, self.steps)
        if np.any(np.diff(time[rows], axis=1) != 1) or np.any(others[rows] != others[rows[:, :1]]):
            raise EngineError("the groups that arrived are not the requested steps of the series")
        return rows


def get_series(
    keys: tuple[str, ...],
    public_keys: pa.Table | BroughtKeys | None,
    total_rows: int | None,
    aggregates: Sequence[tuple[str, Aggregate]],
) -> Series:
    """Return which groups are time steps of a query's cumulative totals, of which there are some.

    Raises:
        QueryError: the groups are no complete steps, or something beside them is not added up.
    """
    cumulative = {name: a for name, a in aggregates if isinstance(a, Cumulative)}
    name = next(iter(cumulative))
    overs = {a.over for a in cumulative.values()}
    over = next(iter(overs))
    if len(overs) > 1:
        raise QueryError(f"{', '.join(cumulative)}: cumulative totals of one question must use the same key")
    if over is None:
        if len(keys) != 1:
            raise QueryError(f"{name}: over is missing. Write cumulative(..., over=...) with the key of time")
        over = keys[0]
    if over not in keys:
        raise QueryError(f"{name}: over={over!r} is not a key of the groups. group_by has {', '.join(keys)}")
    if not isinstance(public_keys, pa.Table):
        raise QueryError(
            f"{name}: cumulative totals need all time steps as public groups. Write "
            f"group_by({over!r}, keys=[...]) with each step, including those without rows"
        )
    if total_rows is not None:
        raise QueryError(f"{name}: with cumulative totals give groups=... and rows=..., not total_rows")
    beside = [n for n, a in aggregates if isinstance(a, Quantiles | CountDistinct)]
    if beside:
        raise QueryError(
            f"{beside[0]}: quantiles and counts of distinct values cannot be combined with "
            "cumulative totals. Put them in another question"
        )
    return _series(name, keys.index(over), public_keys, over)


def _series(name: str, over: int, table: pa.Table, key: str) -> Series:
    time = table.column(over).combine_chunks()
    kind = time.type
    if not (pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        raise QueryError(
            f"{name}: {key!r} is {kind}, but the key of time must be whole numbers, dates or times"
        )
    if time.null_count:
        raise QueryError(f"{name}: a key of {key!r} is NULL, which is not a time step. Leave it out")
    others, order = _codes([c.combine_chunks() for c in table.columns], over)
    steps, count = int(order.max(initial=-1)) + 1, int(others.max(initial=-1)) + 1
    if not steps or steps * count != table.num_rows:
        raise QueryError(
            f"{name}: the public groups are not all steps of each series. Give keys with every "
            f"combination of {key!r} and the other keys"
        )
    if steps > MAX_STEPS or table.num_rows > MAX_GROUPS:
        raise QueryError(
            f"{name}: cumulative totals have at most {MAX_STEPS:,} steps, and {MAX_GROUPS:,} "
            "groups in all. Use longer steps, such as weeks instead of days"
        )
    return Series(over, steps, count)


def _codes(keys: Sequence[pa.Array], over: int) -> tuple[Places, Places]:
    """Return the number of the time series and of the step for each row, in order of time."""
    others = np.zeros(len(keys[0]), np.int64)
    for i, column in enumerate(keys):
        if i != over:
            own = column.dictionary_encode(null_encoding="encode")
            both = others * max(len(own.dictionary), 1) + _numbers(own.indices)
            others = np.unique(both, return_inverse=True)[1].reshape(-1).astype(np.int64)
    import pyarrow.compute as pc

    return others, _numbers(pc.rank(keys[over], tiebreaker="dense")) - 1


def _numbers(column: pa.Array) -> Places:
    return np.array(column.to_pylist(), np.int64)


GROUPING = "grouping"  # the column that tells a total from a group
MAX_SETS = 64

Columns = Sequence[pa.Array]


@dataclass(frozen=True)
class GroupingSets:
    """The totals that a query asks for: sets of keys, such as ROLLUP, CUBE or GROUPING SETS.

    Args:
        sets: names of keys, each set in the order of GROUP BY.
        whole: whether counts, and sums of whole numbers, are shown as whole numbers that agree.
    """

    sets: tuple[tuple[str, ...], ...]
    whole: bool = False


@dataclass(frozen=True)
class Totals:
    """Totals over public groups, level by level.

    Args:
        rollup: the groups as cells, and all levels.
        shown: which levels are shown, in order.
        whole: as of `GroupingSets`.
    """

    rollup: Rollup
    shown: tuple[int, ...]
    whole: bool

    def for_keys(self, keys: Columns) -> Totals:
        """Return the same totals over groups in the order in which they came.

        Args:
            keys: columns of keys, of which each row is a group.
        """
        rollup = _rollup(keys, self.rollup.sets)
        if rollup.shape != self.rollup.shape or rollup.values != self.rollup.values:
            raise EngineError("the groups that arrived are not those of the requested totals")
        return replace(self, rollup=rollup)

    def keys(self, keys: Columns, names: Sequence[str]) -> pa.RecordBatch:
        """Return the keys of groups and totals, NULL where a total is of all values, and the GROUPING bits.

        Args:
            keys: as of `of`, which made this.
            names: of the columns.
        """
        parts: list[list[pa.Array]] = [[] for _ in names]
        grouping: list[int] = []
        for level in self.shown:
            own, sizes = self.rollup.sets[level], self.rollup.sizes[level]
            first = np.unique(self.rollup.codes[level], return_index=True)[1]
            for i, column in enumerate(keys):
                rows = pa.array(first) if i in own else pa.nulls(len(sizes), pa.int64())
                parts[i].append(column.take(rows))
            grouping += [self.bits(level, len(names))] * len(sizes)
        columns = [pa.concat_arrays(part) for part in parts]
        return pa.RecordBatch.from_arrays(
            [*columns, pa.array(grouping, pa.int64())], names=[*names, GROUPING]
        )

    def bits(self, level: int, keys: int) -> int:
        """Return GROUPING of all keys of a total: a bit for each, the first one highest, 1 for NULL."""
        return sum(1 << keys - 1 - i for i in range(keys) if i not in self.rollup.sets[level])

    def placed(self, by_level: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Put the numbers of all levels of totals in the order in which they are shown."""
        return np.concatenate([by_level[i] for i in self.shown])

    def agreed(self, values: Floats, least: float) -> Floats:
        """Return whole numbers near the noisy ones such that totals are the sums of their groups.

        From the top of nested levels down: the parts of a total are moved by the same number, but not below
        `least`, to add up to it, and rounded so that they still do. Totals of other levels are what groups
        add up to.

        Args:
            values: of cells.
            least: 0, or -inf where numbers may be negative.
        """
        rollup = self.rollup
        chain = rollup.chain(0, range(1, len(rollup.sets)))
        level = chain.pop()
        found = np.maximum(np.rint(rollup.totals(values, level)), least)
        while chain:
            below = chain.pop()
            place = np.zeros(len(rollup.sizes[below]), np.int64)
            place[rollup.codes[below]] = rollup.codes[level]
            found, level = _divide_total(found, rollup.totals(values, below), place, least), below
        return self.placed([rollup.totals(found, i) for i in range(len(rollup.sets))])


def get_totals(
    keys: tuple[str, ...],
    public_keys: pa.Table | BroughtKeys | None,
    total_rows: int | None,
    groups: int,
    aggregates: Sequence[tuple[str, Aggregate]],
    grouping: GroupingSets,
) -> Totals:
    """Return the totals that a query asks for.

    Raises:
        QueryError: groups are not public or not known, there are too many, or something does not add up.
    """
    if not isinstance(public_keys, pa.Table):
        raise QueryError(
            "totals: the groups are private or not known yet, and totals of the shown groups would "
            "leave out the rest. Give all groups: group_by(..., keys=[...])"
        )
    if total_rows is not None:
        raise QueryError("bound: with totals give groups=... and rows=..., not total_rows")
    for name, aggregate in aggregates:
        if not aggregate.in_totals:
            raise QueryError(
                f"agg: {name}: totals are for counts, sums, means, variances, and ratios of these. "
                "Put the rest in another question, without totals"
            )
        if isinstance(aggregate, CountPrivacyUnits) and groups > 1:
            raise QueryError(
                f"agg: {name}: a unit in several groups counts once in their total, so numbers of "
                "units do not add up. Write sf.count() for rows, or .bound(groups=1), or count the "
                "units of each level in another question"
            )
    if public_keys.num_rows > MAX_CELLS:
        raise QueryError(f"totals: there are more than {MAX_CELLS:,} groups. Use fewer keys")
    sets = tuple(tuple(keys.index(key) for key in own) for own in grouping.sets)
    every = tuple(range(len(keys)))
    levels = tuple(dict.fromkeys((every, *sets)))
    rollup = _rollup([column.combine_chunks() for column in public_keys.columns], levels)
    return Totals(rollup, tuple(levels.index(own) for own in sets), grouping.whole)


def grouping_sets(keys: Sequence[str], given: Sequence[Any], cube: bool, is_integer: bool) -> GroupingSets:
    """Return the sets of keys whose totals are requested by name.

    Args:
        keys: of GROUP BY.
        given: sets of them; none for ROLLUP, or CUBE.
        cube: whether all sets are asked.
        is_integer: as of `GroupingSets`.
    Raises:
        QueryError: there are no keys, a set has a name that is none of them, or there are too many.
    """
    if not keys:
        raise QueryError("totals: there are no groups to add up. Write group_by(...) before it")
    sets: list[tuple[str, ...]] = []
    if given:
        if cube:
            raise QueryError("totals: cube=True means all sets of keys. Leave it out, or the sets")
        for own in given:
            if isinstance(own, str) or not isinstance(own, Sequence):
                raise ParameterError("totals", own, "a list of keys for each set, such as ['region'] or []")
            for key in own:
                if key not in keys:
                    near = nearest(str(key), keys)
                    hint = f"; did you mean {near!r}?" if near else ""
                    raise QueryError(f"totals: {key!r} is not a key of group_by{hint}")
            sets.append(tuple(key for key in keys if key in own))
    elif cube:
        if 1 << len(keys) > MAX_SETS:
            raise QueryError(f"totals: cube=True has more than {MAX_SETS} sets of keys. Name those you need")
        masks = sorted(range(1 << len(keys)), key=int.bit_count)
        sets = [tuple(k for i, k in enumerate(keys) if not m >> len(keys) - 1 - i & 1) for m in masks]
    else:
        sets = [tuple(keys[:count]) for count in range(len(keys), -1, -1)]
    sets = list(dict.fromkeys(sets))
    if len(sets) > MAX_SETS:
        raise QueryError(f"totals: at most {MAX_SETS} sets of keys")
    return GroupingSets(tuple(sets), is_integer)


def _rollup(keys: Columns, sets: tuple[tuple[int, ...], ...]) -> Rollup:
    """Return the levels of groups and totals, each numbered in the order of the keys."""
    ranks, values = [], []
    for column in keys:
        own = column.dictionary_encode(null_encoding="encode")
        import pyarrow.compute as pc

        order = np.array(pc.sort_indices(own.dictionary).to_pylist(), np.int64)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        ranks.append(place[np.array(own.indices.to_pylist(), np.int64)])
        values.append(len(order))
    levels = []
    for own_set in sets:
        codes = np.zeros(len(keys[0]), np.int64)
        for i in own_set:
            codes = np.unique(codes * values[i] + ranks[i], return_inverse=True)[1].reshape(-1)
        levels.append(tuple(codes.tolist()))
    return Rollup(sets, tuple(values), tuple(levels))


def _divide_total(totals: Floats, parts: Floats, place: NDArray[np.int64], least: float) -> Floats:
    """Divide whole totals into whole numbers near the parts, none below `least`.

    Args:
        totals: whole numbers, none below `least`.
        parts: of them.
        place: of which total each is a part.
        least: 0 or -inf.
    """
    order = np.lexsort((-parts, place))
    own, at = parts[order], place[order]
    starts = np.searchsorted(at, np.arange(len(totals)))
    rank = np.arange(len(own)) - starts[at]
    if least == 0:
        # The nearest parts of at least 0: the largest ones are moved by the same number, the rest is 0.
        sums = np.cumsum(own)
        sums = sums - np.where(starts > 0, sums[starts - 1], 0.0)[at]
        shift = (sums - totals[at]) / (rank + 1)
        kept = np.maximum.reduceat(np.where(own - shift > 0, rank, 0), starts)
        own = np.maximum(own - shift[starts + kept][at], 0.0)
    else:
        shift = (np.add.reduceat(own, starts) - totals) / np.diff([*starts, len(own)])
        own = own - shift[at]
    whole = np.floor(own)
    # What is missing, at most one of each, goes to those that lost the most.
    missing = totals - np.add.reduceat(whole, starts)
    again = np.lexsort((whole - own, at))
    first = np.empty(len(own), np.int64)
    first[again] = rank
    whole += first < missing[at]
    found = np.empty(len(parts))
    found[order] = whole
    return found


class _All:
    """All values of a key, in the row of a total."""

    def __str__(self) -> str:
        return "all"


ALL: Final = _All()


def shown_keys(query: Query, table: pa.Table) -> dict[str, list[Any]]:
    """Return the values of each key by row; `ALL` where the row is a total of all its values.

    Args:
        query: what was asked.
        table: what was released of it, perhaps a part of its rows.
    """
    columns = {name: table.column(i).to_pylist() for i, name in enumerate(query.keys)}
    if query.totals is None:
        return columns
    bits = table.column(len(columns)).to_pylist()
    high = len(columns) - 1
    return {
        name: [ALL if b >> high - i & 1 else value for value, b in zip(values, bits, strict=True)]
        for i, (name, values) in enumerate(columns.items())
    }
