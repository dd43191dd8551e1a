"""What an engine must do for a query: describe columns, judge expressions, compute statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any, Protocol

import pyarrow as pa

from sfumato.framework import AtomDomain
from sfumato.transformations import Statistic


class Kind(Enum):
    """What a column holds, as far as statistics care."""

    INTEGER = "integer"
    REAL = "real"
    BOOLEAN = "boolean"
    OTHER = "other"
    # Values that do not compare, or print, alike everywhere: no keys and no units.
    OPAQUE = "opaque"

    @property
    def numeric(self) -> bool:
        """Whether bounds make sense."""
        return self in (Kind.INTEGER, Kind.REAL, Kind.BOOLEAN)


@dataclass(frozen=True)
class Column:
    """A column as a query sees it.

    Args:
        kind: what it holds.
        type_name: the engine's name of the type, for messages: without labels, which may come from rows.
        missing: whether a row may lack a value (NULL or NaN), as far as the declared types tell.
        declared: the type as the engine's SQL has it, where that is more; not for messages.
    """

    kind: Kind
    type_name: str
    missing: bool = True
    declared: str | None = field(default=None, repr=False)

    @property
    def values(self) -> AtomDomain:
        """What a row may hold; integers of up to 128 bits. Of what is no number only NULL matters: text."""
        if self.kind is Kind.INTEGER:
            return AtomDomain(int, Fraction(-(2**127)), Fraction(2**128 - 1), null=self.missing)
        if self.kind is Kind.REAL:
            return AtomDomain(float, nan=self.missing, null=self.missing)
        return AtomDomain(bool if self.kind is Kind.BOOLEAN else str, null=self.missing)


Schema = dict[str, Column]


@dataclass(frozen=True)
class Filter:
    """Keep the rows where an expression is true; NULL and errors count as not true."""

    expression: str


@dataclass(frozen=True)
class Derive:
    """Add a column, or put one in the place of another; errors give NULL."""

    name: str
    expression: str


Step = Filter | Derive


@dataclass(frozen=True)
class ExactQuery:
    """The exact half of a release: everything about rows, nothing about noise.

    Args:
        steps: filters and derived columns, in order.
        unit: the privacy unit's column.
        keys: the columns to group by.
        public_keys: a table with one row for each public group, or None for private groups.
        groups: at most so many groups per unit.
        statistics: what to add up per group.
    """

    steps: tuple[Step, ...]
    unit: str
    keys: tuple[str, ...]
    public_keys: pa.Table | None
    groups: int
    statistics: tuple[Statistic, ...] = field(default=())


class Engine(Protocol):
    """Evaluates `bound_groups >> per_group`, exactly, on one source."""

    name: str

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the columns after the steps; raise QueryError for a step that is not admissible.

        Reads declarations, never rows.
        """
        ...

    def public_keys(self, keys: Sequence[str], values: object, steps: Sequence[Step]) -> pa.Table:
        """Return public group keys as a table with the key columns' own types, in a fixed order."""
        ...

    def statistics(self, query: ExactQuery, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield key columns, then a column for each coordinate, trees last; sorted by key.

        At least one batch, be it empty. Columns are told by their position.

        int64 or decimal128(38, 0); a quantile tree's is a list of structs (leaf, weight) sorted by
        leaf. With public keys every key is present, absent ones with zeros.
        """
        ...

    @property
    def release(self) -> Callable[..., Any]:
        """A function of a plan, and of `confidence` and `unsafe_words` by name, to the release of it.

        In the form that suits the engine, which refuses what it does not offer; nothing is read yet.
        """
        ...
