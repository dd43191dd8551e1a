"""What engines have in common whose rows are on many machines."""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.combinations import check_joined_rows
from sfumato.engines.duckdb.combined_stages import GIVEN, CombinedStages, describe_for_workers, published
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.stages import ForeignKeyJoin, Stages
from sfumato.errors import ParameterError, QueryError
from sfumato.noise import Words
from sfumato.query.engine_protocol import BroughtKeys, ExactQuery
from sfumato.query.schema import Schema, Step
from sfumato.query.tables.combined_tables import Combination, Reached, over_parts
from sfumato.query.tables.dummy_rows import Known, Making
from sfumato.query.tables.shaped_tables import Computed
from sfumato.query.tables.table_part import Part, UnitPart, unit_name

if TYPE_CHECKING:
    from sfumato.guidance.unit_contributions import Contributed, Contributions
    from sfumato.plan.plan import Plan

_numbers = itertools.count()
# By what reads a table, so that one that stands in a question twice is sent once.
_relations: WeakKeyDictionary[object, dict[str | None, str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Leaf:
    """A table that workers read for a combination, and that is itself none.

    Args:
        engine: what reads it.
        relation: its name in the combination's SQL.
        unit: the privacy unit's column; None of a public table.
        with_unit: as of `Sent`.
        by_key: how its rows, which `engine` reads without a unit, reach the one that they have here.
    """

    engine: DistributedEngine | DuckDBEngine
    relation: str
    unit: str | None
    with_unit: str = ""
    by_key: ByKey | None = None

    @property
    def schema(self) -> Schema:
        """The columns of a table that workers read."""
        return self.engine.schema() if self.by_key is None else self.by_key.schema

    @property
    def read(self) -> tuple[DistributedEngine | DuckDBEngine, ...]:
        """The distributed engines that read a table's rows, and those that lead to its units."""
        return (self.engine,) if self.by_key is None else (self.engine, *self.by_key.owners.read)


@dataclass(frozen=True)
class ByKey:
    """A foreign key on workers, from rows without a unit to their units.

    Args:
        owners: the table that it names.
        how: the key.
        there: the owners' columns.
        schema: the columns of the rows, with their units.
    """

    owners: Leaf
    how: Reached
    there: Schema
    schema: Schema


class DistributedEngine:
    """Plans queries on rows that workers hold; DuckDB checks steps and keys on an empty table.

    Args:
        rows: the columns, with their Arrow types.
        timezone: in which times with a zone are read.
        public: whether the rows are public knowledge.
    Raises:
        EngineError: a column cannot be read.
        ParameterError: there is no such time zone.
    """

    name: str
    has_local_rows: bool
    files: tuple[str, ...] = ()  # which workers read, wherever they are

    def __init__(self, rows: pa.Schema, timezone: str = "UTC", public: bool = False) -> None:
        self._rows, self._public = rows, public
        self._local = DuckDBEngine.open(rows, timezone)
        self._leaves: tuple[Leaf, ...] = ()
        self._by_rows = True

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the distributed engine's columns after the steps."""
        return self._local.schema(steps)

    def with_rows(self, rows: pa.Table) -> DuckDBEngine:
        """Return a DuckDB engine on rows in this process, beside a distributed one."""
        return self._local.with_rows(rows)

    def unique(self, steps: Sequence[Step] = ()) -> tuple[str, ...]:
        """Return columns of distributed rows in which no two rows have the same values, where known."""
        return self._local.unique(steps)

    def public_keys(
        self, keys: Sequence[str], values: object, steps: Sequence[Step]
    ) -> pa.Table | BroughtKeys:
        """Return public keys with the types of distributed columns, sorted."""
        return self._local.public_keys(keys, values, steps)

    def combined(self, how: Combination) -> Any:
        """Return a distributed engine on a combination of tables that the same workers read.

        Raises:
            QueryError: they are not; or as DuckDB does, which judges the combination on tables without rows.
        """
        if isinstance(how, Computed):
            return self._computed(how)
        if isinstance(how, Reached):
            return self._reached(how)
        leaves: dict[str, Leaf] = {}
        by_rows = [getattr(how, "by_rows", False)]

        def local(part: Part) -> Part:
            engine, found, alone = self._prepare_part(part)
            leaves.update((leaf.relation, leaf) for leaf in found)
            by_rows.append(alone)
            return replace(part, engine=engine)

        made = copy.copy(self)
        made._local = self._local.combined(over_parts(how, local))
        made._leaves, made._by_rows = tuple(leaves.values()), all(by_rows)
        made._public = all(leaf.unit is None for leaf in made._leaves)
        made._collect_files()
        return made

    def _reached(self, how: Reached) -> Self:
        """Return a distributed engine on rows that reach their units by a foreign key."""
        owners = how.owners.engine
        if not isinstance(owners, DistributedEngine) or owners.name != self.name:
            raise QueryError(f"foreign_keys: the referenced table is not read by {self.name}, as this one is")
        parts = replace(how.part, engine=self._local), replace(how.owners, engine=owners._local)
        local = self._local.combined(replace(how, part=parts[0], owners=parts[1]))
        # A catalog opens the two as they are: the owners are one table, without steps.
        (there,) = owners._leaves or (Leaf(owners, f"sfumato_sent_{next(_numbers)}", how.owners.unit),)
        relation = f"sfumato_sent_{next(_numbers)}"
        made = copy.copy(self)
        made._local = local.named(relation).in_timezone(self._local.timezone)
        by_key = ByKey(there, how, how.owners.schema, local.schema())
        made._leaves = (Leaf(self, relation, how.unit, by_key=by_key),)
        made._collect_files()
        return made

    def _collect_files(self) -> None:
        """Collect the files of all tables that workers read."""
        engines = [engine for leaf in self._leaves for engine in leaf.read]
        self.files = tuple(dict.fromkeys(file for engine in engines for file in engine.files))

    def in_timezone(self, zone: str) -> Self:
        """Return a distributed engine on the same rows that reads times in another time zone."""
        local = self._local.in_timezone(zone)
        if local is self._local:
            return self
        made = copy.copy(self)
        made._local = local
        return made

    def reads_zone(self, steps: Sequence[Step] = ()) -> bool:
        """Whether steps, or how the rows are made, may follow from the time zone in which times are read."""
        return self._local.reads_zone(steps)

    @property
    def timezone(self) -> str:
        """The time zone in which times with a zone are read as texts, dates and hours."""
        return self._local.timezone

    def composite(self, parts: Sequence[str], timezone: str) -> tuple[Self, tuple[UnitPart, ...]]:
        """Return a distributed engine with a composite privacy unit, and its parts."""
        local, units = self._local.named(GIVEN).composite(parts, timezone)
        relation = f"sfumato_sent_{next(_numbers)}"
        made = copy.copy(self)
        made._local = local.named(relation)
        made._leaves = (Leaf(self, relation, unit_name(parts), f"FROM {local.relation}"),)
        return made, units

    def contributions(self, request: Contributions) -> Contributed:
        """Refuse an analysis of rows that workers hold."""
        raise QueryError(
            f"analyze: {self.name} reads the rows, but an analysis needs them in one place. Write "
            "them, or all rows of a random sample of units, to Parquet, and call analyze on sf.scan "
            "of that file"
        )

    def for_analysts(self) -> Self:
        """Return this distributed engine, which shows no rows."""
        return self

    def unit_local(self, text: object, tables: Mapping[str, Any]) -> Any:
        """Return the private table that unit-local SQL makes of tables, by name."""
        from sfumato.dialect.subqueries import unit_local_table

        return unit_local_table(text, tables)

    def content(self, steps: Sequence[Step] = ()) -> dict[str, Any]:
        """Return what is read, and what steps keep and derive, as plain data."""
        return self._local.content(steps)

    made_up = False
    addresses = None  # an answer here is computed anew each time

    def dummy(self, making: Making, unit: str | None, known: Mapping[str, Known]) -> DuckDBEngine:
        """Return a DuckDB engine on dummy rows with the distributed columns."""
        if self._leaves:
            raise QueryError("dummy: this table is made from other tables. Make dummy tables of those first")
        return self._local.dummy(making, unit, known)

    @property
    def titles(self) -> tuple[str, ...]:
        """What a catalog calls the tables that the rows are of."""
        return self._local.titles

    def titled(self, title: str) -> None:
        """Let the table have the name that its owner gives it."""
        self._local.titled(title)

    def stages(self, query: ExactQuery, shards: int) -> Stages:
        """Prepare the stages that workers run for a query; only columns that are read are sent."""
        if not self._leaves:
            read = pa.schema([self._rows.field(name) for name in self._local.reads(query)])
            return Stages.prepare(self._local, read, query, shards)
        leaves, key_joins = self._followed
        tables = [
            describe_for_workers(leaf.relation, leaf.schema, _arrow(leaf), leaf.unit, leaf.with_unit)
            for leaf in leaves
        ]
        stages = CombinedStages.from_tables(self._local, tables, query, shards, self._by_rows, key_joins)
        data = {
            number: published(here, number, stages.tables[number].rows.names)
            for number, leaf in enumerate(self._leaves)
            if leaf.unit is None and (here := _public_rows(leaf.engine, stages.tables[number].rows.names))
        }
        return stages.with_public(data)

    def _computed(self, how: Computed) -> DuckDBEngine:
        """Return a DuckDB engine on SQL of public tables, beside a distributed one."""
        engines = [part.engine for _, part in how.parts]
        if not all(isinstance(engine, DuckDBEngine) for engine in engines):
            raise QueryError(
                f"a SELECT of public tables is computed in this process, but {self.name} reads one "
                "of them. Open them with sf.public of a file or an Arrow table, or compute the table "
                "before sf.public"
            )
        return next((e for e in engines if isinstance(e, DuckDBEngine)), self._local).combined(how)

    @property
    def tables(self) -> dict[int, Leaf]:
        """The tables that workers read, by the numbers that the stages have for them."""
        if not self._leaves:
            return {0: Leaf(self, "", "")}
        return {number: leaf for number, leaf in enumerate(self._followed[0]) if leaf.by_key is None}

    @property
    def _followed(self) -> tuple[list[Leaf], list[ForeignKeyJoin]]:
        """All tables that workers read, by number, and the foreign-key joins between them."""
        tables, key_joins = list(self._leaves), list[ForeignKeyJoin]()

        def follow(number: int) -> None:
            by_key = tables[number].by_key
            if by_key is None:
                return
            owners, rows = len(tables), len(tables) + 1
            # Under names of their own, as they may stand in the combination too.
            there = replace(by_key.owners, relation=f"{by_key.owners.relation}_{owners}")
            here = Leaf(tables[number].engine, f"{tables[number].relation}_{rows}", None)
            tables.extend([there, here])
            follow(owners)
            how, unit = by_key.how, str(by_key.how.owners.unit)
            compared = {name: by_key.there[name] for name in (how.key, unit)}
            foreign = {how.column: here.schema[how.column]}
            key_joins.append(
                ForeignKeyJoin(owners, rows, number, how.key, unit, how.column, how.unit, compared, foreign)
            )

        for number in range(len(self._leaves)):
            follow(number)
        return tables, key_joins

    def public_rows(self, names: Sequence[str]) -> DuckDBEngine | None:
        """Return columns of a distributed public table in this process; None where workers read them."""
        return None

    def here(self) -> DuckDBEngine | None:
        """Return all rows of a distributed public table in this process; None where they come later."""
        return None if self._leaves or not self._public else self.public_rows([*self.schema()])

    def _prepare_part(self, part: Part) -> tuple[DuckDBEngine, tuple[Leaf, ...], bool]:
        """Return the local engine of a distributed part, its tables, and whether it goes row by row."""
        engine = part.engine
        if isinstance(engine, DistributedEngine) and (engine.name, engine._public) == (
            self.name,
            part.unit is None,
        ):
            local = engine._local
            if engine._leaves:
                return local, engine._leaves, engine._by_rows
        elif isinstance(engine, DuckDBEngine) and part.unit is None:
            local = engine
        else:
            other = getattr(engine, "name", type(engine).__name__)
            raise QueryError(
                f"a table of {other} cannot be combined with a private one of {self.name}. Read "
                f"all private tables with {self.name}, and open public ones with sf.public"
            )
        named = _relations.setdefault(engine, {})
        relation = named.setdefault(part.unit, f"sfumato_sent_{next(_numbers)}")
        return local.named(relation), (Leaf(engine, relation, part.unit),), True

    def check_release(self, plan: Plan, unsafe_words: Words | None) -> None:
        """Refuse a release on workers before anything is read, drawn or charged."""
        if plan.sampling:
            raise QueryError(
                f"sampling=True: a release on {plan.query.engine} has error bars for the noise "
                "only. Leave sampling out, or query the table in a file"
            )
        self._refuse(unsafe_words)
        self._check_joined_rows()

    def _check_joined_rows(self) -> None:
        """Refuse joins on workers that make too much of one row, as far as public tables are known."""
        leaves = {leaf.relation: leaf.engine for leaf in self._leaves if leaf.unit is None}

        def found(part: Part) -> DistributedEngine | DuckDBEngine | None:
            return leaves.get(part.engine.relation) if isinstance(part.engine, DuckDBEngine) else None

        def counted(part: Part, columns: Sequence[str]) -> int:
            rows = engine.row_count if isinstance(engine := found(part), DuckDBEngine) else None
            return sys.maxsize if rows is None else rows

        def alike(part: Part, columns: Sequence[str]) -> int:
            engine, local = found(part), part.engine
            if engine is None or not isinstance(local, DuckDBEngine):
                return 1
            here = _public_rows(engine, local.read_by(columns, part.steps))
            # In the zone in which workers join it.
            return 1 if here is None else here.in_timezone(self.timezone).max_equal_rows(columns, part.steps)

        check_joined_rows(self._local.origin.how, counted, alike)

    def _refuse(self, unsafe_words: Words | None) -> None:
        """Refuse known noise: workers derive it from a secret of the release."""
        if unsafe_words is not None:
            expected = f"left out on {self.name}, because its workers draw the noise"
            raise ParameterError("unsafe_words", unsafe_words, expected)


def _arrow(leaf: Leaf) -> pa.Schema:
    """Return the Arrow types of a table that workers read."""
    if isinstance(leaf.engine, DistributedEngine) and leaf.by_key is None:
        return leaf.engine._rows
    return pa.schema([(name, pa.null()) for name in leaf.schema])


def _public_rows(engine: DistributedEngine | DuckDBEngine, names: Sequence[str]) -> DuckDBEngine | None:
    return engine if isinstance(engine, DuckDBEngine) else engine.public_rows(names)
