"""Which groups are time steps, and of which series: from public keys alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import EngineError, QueryError
from sfumato.exact.toeplitz import MOST_STEPS
from sfumato.query.aggregates import Aggregate, CountDistinct, Cumulative, Quantiles
from sfumato.query.exact import BroughtKeys

MOST_GROUPS = 1 << 16  # one batch

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Series:
    """Groups that are time steps: each series has all of them.

    Args:
        over: which of the keys is time.
        steps: how many of them there are.
        count: how many series.
    """

    over: int
    steps: int
    count: int

    def groups(self, table: pa.Table, names: Sequence[str]) -> tuple[tuple[Hashable, ...], ...]:
        """Return the groups of each series in order of time, each the values of the keys of these names."""
        columns = [table.column(name).combine_chunks() for name in names]
        groups = list(zip(*(column.to_pylist() for column in columns), strict=True))
        return tuple(tuple(groups[i] for i in one) for one in self.order(columns))

    def order(self, keys: Sequence[pa.Array]) -> Places:
        """Return which row is each step, of shape (series, steps).

        Args:
            keys: columns of keys, of which each row is a group.
        """
        others, time = _codes(keys, self.over)
        if len(time) != self.count * self.steps:
            raise EngineError(f"{len(time)} groups came where {self.count * self.steps} are steps of series")
        rows = np.lexsort((time, others)).reshape(self.count, self.steps)
        if np.any(np.diff(time[rows], axis=1) != 1) or np.any(others[rows] != others[rows[:, :1]]):
            raise EngineError("the groups that came are not the steps of the series that were asked for")
        return rows


def series_of(
    keys: tuple[str, ...],
    public_keys: pa.Table | BroughtKeys | None,
    total_rows: int | None,
    asked: Sequence[tuple[str, Aggregate]],
) -> Series | None:
    """Return which groups are steps, where cumulative totals are asked; None where they are not.

    Raises:
        QueryError: the groups are no complete steps, or something beside them is not added up.
    """
    cumulative = {name: a for name, a in asked if isinstance(a, Cumulative)}
    if not cumulative:
        return None
    name = next(iter(cumulative))
    overs = {a.over for a in cumulative.values()}
    over = next(iter(overs))
    if len(overs) > 1:
        raise QueryError(f"{', '.join(cumulative)}: cumulative totals of one question are over one key")
    if over is None:
        if len(keys) != 1:
            raise QueryError(f"{name}: over is missing; write cumulative(..., over=...) with the key of time")
        over = keys[0]
    if over not in keys:
        raise QueryError(f"{name}: over={over!r} is no key of the groups; group_by has {', '.join(keys)}")
    if not isinstance(public_keys, pa.Table):
        raise QueryError(
            f"{name}: cumulative totals need all time steps as public groups; write group_by({over!r}, "
            "keys=[...]) with each step, also those without rows"
        )
    if total_rows is not None:
        raise QueryError(f"{name}: beside cumulative totals give groups=... and rows=..., not total_rows")
    beside = [n for n, a in asked if isinstance(a, Quantiles | CountDistinct)]
    if beside:
        raise QueryError(
            f"{beside[0]}: quantiles and numbers of different values are asked in a question of their own, "
            "without cumulative totals beside them"
        )
    return _series(name, keys.index(over), public_keys, over)


def _series(name: str, over: int, table: pa.Table, key: str) -> Series:
    time = table.column(over).combine_chunks()
    kind = time.type
    if not (pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        raise QueryError(f"{name}: {key!r} is {kind}; the key of time is of whole numbers, dates or times")
    if time.null_count:
        raise QueryError(f"{name}: a key of {key!r} is NULL, which is no time step; leave it out")
    others, order = _codes([c.combine_chunks() for c in table.columns], over)
    steps, count = int(order.max(initial=-1)) + 1, int(others.max(initial=-1)) + 1
    if not steps or steps * count != table.num_rows:
        raise QueryError(
            f"{name}: the public groups are not all steps of each series; give keys with every combination "
            f"of {key!r} and the other keys"
        )
    if steps > MOST_STEPS or table.num_rows > MOST_GROUPS:
        raise QueryError(
            f"{name}: cumulative totals are of at most {MOST_STEPS:,} steps, and {MOST_GROUPS:,} groups "
            "in all; take longer steps, such as weeks for days"
        )
    return Series(over, steps, count)


def _codes(keys: Sequence[pa.Array], over: int) -> tuple[Places, Places]:
    """Return for each row a number of its series, and one of its step, in order of time."""
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
