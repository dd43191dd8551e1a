"""What an engine must do for a question: describe columns, judge expressions, compute, release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from sfumato.noise import Words
from sfumato.query.exact import BroughtKeys, Evaluator
from sfumato.query.payment import Pay, free
from sfumato.query.plans.plan import Plan
from sfumato.query.schema import Schema, Step
from sfumato.query.tables.combining import Combination
from sfumato.query.tables.dummy import Known, Making

if TYPE_CHECKING:
    from sfumato.query.analysis.contributions import Contributed, Contributions
    from sfumato.query.top.asked import Top
    from sfumato.query.top.draw import TopMeasurement

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
        pay: Pay = free,
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
        self, plan: Plan[Top, TopMeasurement], *, unsafe_words: Words | None = None, pay: Pay = free
    ) -> Any:
        """Return the release of the largest groups; nothing is read yet.

        Args:
            plan: of `Top.plan`.
            unsafe_words, pay: as of `release`.
        """
        ...
