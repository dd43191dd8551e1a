"""Protocol of engines: validate, compute exact statistics, release; and the exact half of a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.query.schema import Schema, Step
from sfumato.transformations import Statistic

if TYPE_CHECKING:
    from sfumato.api.largest_groups import Top
    from sfumato.guidance.unit_contributions import Contributed, Contributions
    from sfumato.noise import Words
    from sfumato.plan.plan import Plan
    from sfumato.plan.top_measurement import TopMeasurement
    from sfumato.query.tables.combined_tables import Combination
    from sfumato.query.tables.dummy_rows import Known, Making
    from sfumato.release.payment import ChargeBudget


# A limit of groups for questions that need none: nobody can be in more.
ALL_GROUPS = 1 << 62


@dataclass(frozen=True)
class BroughtKeys:
    """Public keys that come with the rows of an engine, so that their number is not known before.

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
    """The exact half of a release, for an engine: everything about rows, nothing about noise.

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
        shared: whether a unit in t groups counts as 1/sqrt(t) in each.
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
    shared: bool = False

    @property
    def description(self) -> dict[str, Any]:
        """How the engine bounds contributions, as the certificate reads it."""
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
            "beyond": "share" if self.shared else "scale" if self.scaled else "sample",
            "total_rows": self.total_rows,
        }


class Evaluator(Protocol):
    """Protocol of an engine's exact half: it computes the exact statistics of one source.

    Or in the place of the first `scale_groups`, or `bound_total_rows`.
    """

    @property
    def name(self) -> str:
        """The name of the engine, for explanations."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the engine reads, which nothing may be written to."""
        ...

    @property
    def made_up(self) -> bool:
        """Whether the engine's rows are made up, so that nothing is private or charged."""
        ...

    @property
    def addresses(self) -> tuple[str, ...] | None:
        """What identifies the places of all rows of the engine, to recognize the same query later.

        None where some are in memory, which nobody knows again.
        """
        ...

    def content(self, steps: Sequence[Step] = ()) -> dict[str, Any]:
        """Return what the engine reads, keeps and derives, as plain data; it reads no private row.

        Returns:
            `table`, which one; `where`, conditions that hold of rows that are kept; and `columns`, SQL of
            each after the steps, in columns of the table.
        """
        ...

    def statistics(self, query: ExactQuery, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the exact statistics of an engine: key columns, then a column for each coordinate.

        At least one batch, be it empty. Columns are told by their position.

        int64 or decimal128(38, 0); a quantile tree's is a list of structs (leaf, weight) sorted by
        leaf. With public keys every key is present, absent ones with zeros.
        """
        ...


Released_co = TypeVar("Released_co", covariant=True)


class Engine(Evaluator, Protocol[Released_co]):
    """Protocol of an engine: it validates, computes and releases queries on one source."""

    @property
    def has_local_rows(self) -> bool:
        """Whether the engine has its rows before a release, for preliminary queries."""
        ...

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the engine's columns after steps; raise QueryError for a step that is not admissible.

        Reads declarations, never rows.
        """
        ...

    def unique(self, steps: Sequence[Step] = ()) -> tuple[str, ...]:
        """Return columns of the engine in which no two rows have the same values after the steps.

        None where that does not follow from how the rows are made, whatever they are.
        """
        ...

    def public_keys(
        self, keys: Sequence[str], values: object, steps: Sequence[Step]
    ) -> pa.Table | BroughtKeys:
        """Return public group keys as a table with the key columns' own types, in a fixed order; or what
        brings them."""
        ...

    @property
    def titles(self) -> tuple[str, ...]:
        """The names that a catalog gives the engine's tables; none without a catalog."""
        ...

    @property
    def timezone(self) -> str:
        """The time zone in which the engine reads times with a zone as texts, dates and hours."""
        ...

    def in_timezone(self, zone: str) -> Engine[Released_co]:
        """Return an engine on the same rows that reads times in another time zone.

        Raises:
            ParameterError: there is no such time zone.
        """
        ...

    def reads_zone(self, steps: Sequence[Step] = ()) -> bool:
        """Whether the engine's steps, or its tables, may depend on the time zone."""
        ...

    def titled(self, title: str) -> None:
        """Give the engine's table the name that its owner has for it."""
        ...

    def dummy(self, making: Making, unit: str | None, known: Mapping[str, Known]) -> Engine[Any]:
        """Return an engine on dummy rows with the same columns; no row is read.

        Args:
            making: how many.
            unit: the column that tells whose a row is, or the first of several.
            known: what is declared of columns, by name.
        Raises:
            QueryError: the table is made of others, or its types were guessed from rows.
        """
        ...

    def combined(self, how: Combination) -> Engine[Released_co]:
        """Return an engine on the rows that are made of its tables; the first one is this engine's.

        Raises:
            QueryError: it combines no tables.
        """
        ...

    def unit_local(self, text: object, tables: Mapping[str, Any]) -> Any:
        """Return the private table that the engine makes by unit-local SQL from named tables.

        Raises:
            QueryError: the SQL is not understood, not unit-local, or does not fit the tables.
        """
        ...

    def with_rows(self, rows: pa.Table) -> Evaluator:
        """Return an engine that evaluates the same on other rows, which are in memory here."""
        ...

    def contributions(self, request: Contributions) -> Contributed:
        """Return what units contribute under many limits, exactly: for the owner of the rows.

        Raises:
            QueryError: the rows are not here.
            RefusalError: they are for analysts, who may see releases alone.
        """
        ...

    def for_analysts(self) -> Engine[Released_co]:
        """Return an engine on the same rows that refuses `contributions`."""
        ...

    def check_release(self, plan: Plan, unsafe_words: Words | None) -> None:
        """Refuse a plan that the engine cannot release, before anything is read or charged.

        Args:
            plan, unsafe_words: as of `release`.
        Raises:
            QueryError, EngineError: no such release is made here.
        """
        ...

    def release(
        self,
        plan: Plan,
        *,
        confidence: float | None = None,
        unsafe_words: Words | None = None,
        pay: ChargeBudget = ...,
    ) -> Released_co:
        """Return the engine's release of a plan; nothing is read yet.

        Args:
            plan: what to do.
            confidence: also give error bars, in columns named `<output>_error`.
            unsafe_words: a source of random words for tests; refused where workers draw the noise.
            pay: called once, when all is checked and before a row is read.
        """
        ...

    def top(
        self, plan: Plan[Top, TopMeasurement], *, unsafe_words: Words | None = None, pay: ChargeBudget = ...
    ) -> Any:
        """Return the engine's release of the largest groups; nothing is read yet.

        Args:
            plan: of `Top.plan`.
            unsafe_words, pay: as of `release`.
        """
        ...
