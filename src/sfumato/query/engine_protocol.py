"""The exact half of a release, and what an engine must do: describe columns, validate, compute, release."""

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


Released_co = TypeVar("Released_co", covariant=True)


class Engine(Evaluator, Protocol[Released_co]):
    """Evaluates questions on one source, and releases them in the form that suits it."""

    @property
    def looks_first(self) -> bool:
        """Whether its rows are there before a release, for a first noisy look; not those of a pipeline."""
        ...

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the columns after the steps; raise QueryError for a step that is not admissible.

        Reads declarations, never rows.
        """
        ...

    def unique(self, steps: Sequence[Step] = ()) -> tuple[str, ...]:
        """Return columns in which no two rows have the same values after the steps.

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
        """What a catalog calls the tables that the rows are of; none where one is of no catalog."""
        ...

    @property
    def timezone(self) -> str:
        """The time zone in which times with a zone are read as texts, dates and hours."""
        ...

    def in_timezone(self, zone: str) -> Engine[Released_co]:
        """Return an engine on the same rows that reads times with a zone in another one.

        Raises:
            ParameterError: there is no such time zone.
        """
        ...

    def reads_zone(self, steps: Sequence[Step] = ()) -> bool:
        """Whether steps, or how the rows are made, may follow from the time zone in which times are read."""
        ...

    def titled(self, title: str) -> None:
        """Let the table have the name that its owner gives it, which tells it from others in plans."""
        ...

    def dummy(self, making: Making, unit: str | None, known: Mapping[str, Known]) -> Engine[Any]:
        """Return an engine on made-up rows with the same columns; no row is read.

        Args:
            making: how many.
            unit: the column that tells whose a row is, or the first of several.
            known: what is declared of columns, by name.
        Raises:
            QueryError: the table is made of others, or its types were guessed from rows.
        """
        ...

    def combined(self, how: Combination) -> Engine[Released_co]:
        """Return an engine on the rows that are made of its tables, of which the first is this engine's.

        Raises:
            QueryError: it combines no tables.
        """
        ...

    def unit_local(self, text: object, tables: Mapping[str, Any]) -> Any:
        """Return the private table that unit-local SQL makes of tables, by name.

        Raises:
            QueryError: the SQL is not understood, not unit-local, or does not fit the tables.
        """
        ...

    def of_rows(self, rows: pa.Table) -> Evaluator:
        """Return what evaluates the same on other rows, which are in memory here."""
        ...

    def contributions(self, asked: Contributions) -> Contributed:
        """Return what units bring to groups under many limits, exactly: for the owner of the rows alone.

        Raises:
            QueryError: the rows are not here.
            RefusalError: they are for analysts, who may see releases alone.
        """
        ...

    def for_analysts(self) -> Engine[Released_co]:
        """Return an engine on the same rows that refuses `contributions`, as do those that are made of it."""
        ...

    def check_release(self, plan: Plan, unsafe_words: Words | None) -> None:
        """Refuse what `release` would, before anything is read, drawn or paid.

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
        """Return the release of a plan; nothing is read yet.

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
        """Return the release of the largest groups; nothing is read yet.

        Args:
            plan: of `Top.plan`.
            unsafe_words, pay: as of `release`.
        """
        ...
