"""The exact half of a release, and what evaluates it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, Protocol

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.query.schema import Step
from sfumato.transformations import Statistic

# A limit of groups for questions that need none: nobody can be in more.
ALL_GROUPS = 1 << 62


@dataclass(frozen=True)
class BroughtKeys:
    """Public keys that come when the rows do, so that nobody knows before how many they are.

    Args:
        collection: the name by which they are brought.
        rows: the key columns, in order, with the Arrow types in which they are read.
        streams: the keys, as Arrow streams of columns k0, k1, ...: of a worker, to which they came.
    """

    collection: str
    rows: pa.Schema
    streams: tuple[bytes, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class ExactQuery:
    """The exact half of a release: everything about rows, nothing about noise.

    Args:
        steps: filters and derived columns, in order.
        unit: the privacy unit's column.
        keys: the columns to group by.
        public_keys: a table with one row for each public group, or what brings them; None for private groups.
        groups: at most so many groups per unit.
        statistics: what to add up per group.
        scaled: whether a unit that is in more public groups counts in part in each, in place of a choice.
        total_rows: at most so many rows per unit in all groups, in place of a choice of groups; or None.
        largest: of private groups only so many, those with the largest number of the only statistic, and of
            equal ones the first by key; None for all.
    """

    steps: tuple[Step, ...]
    unit: str
    keys: tuple[str, ...]
    public_keys: pa.Table | BroughtKeys | None
    groups: int
    statistics: tuple[Statistic, ...] = field(default=())
    scaled: bool = False
    total_rows: int | None = None
    largest: int | None = None

    @property
    def description(self) -> dict[str, Any]:
        """How units are bounded, as the certificate reads it."""
        keys, known, shown = self.public_keys, "public", None
        if not self.keys:
            shown = 1
        elif isinstance(keys, BroughtKeys):
            known = "brought"
        elif keys is None:
            known = "private"
        else:
            shown = keys.num_rows
        return {
            "keys": known,
            "shown": shown,
            "per_unit": self.groups,
            "beyond": "scale" if self.scaled else "sample",
            "total_rows": self.total_rows,
        }


class Evaluator(Protocol):
    """Evaluates `bound_groups >> per_group`, exactly, on one source.

    Or in the place of the first `scale_groups`, or `bound_total_rows`.
    """

    @property
    def name(self) -> str:
        """What the rows are read with, for explanations."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """The files that rows come from, which nothing may be written to."""
        ...

    @property
    def made_up(self) -> bool:
        """Whether its rows are made up, so that nothing is private, and nothing need be paid."""
        ...

    @property
    def addresses(self) -> tuple[str, ...] | None:
        """What tells the places of all its rows from others, so that a question is known again.

        None where some are in memory, which nobody knows again.
        """
        ...

    def content(self, steps: Sequence[Step] = ()) -> dict[str, Any]:
        """Return what is read, and what steps keep and derive, as plain data; no private row is read.

        Returns:
            `table`, which one; `where`, conditions that hold of rows that are kept; and `columns`, SQL of
            each after the steps, in columns of the table.
        """
        ...

    def statistics(self, query: ExactQuery, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield key columns, then a column for each coordinate, trees last; sorted by key.

        At least one batch, be it empty. Columns are told by their position.

        int64 or decimal128(38, 0); a quantile tree's is a list of structs (leaf, weight) sorted by
        leaf. With public keys every key is present, absent ones with zeros.
        """
        ...
