"""Filters and derived columns over the columns of a source: validated, measured and written in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.expressions.texts import MAX_HELD
from sfumato.engines.duckdb.expressions.validation import LONGEST, ValidatedExpression, validate
from sfumato.engines.duckdb.source import Source, check_names
from sfumato.errors import QueryError, in_own_words
from sfumato.query.schema import FLOATS, INTEGERS, Column, Derive, Filter, Kind, Schema, Step
from sfumato.sql_text import identifier, same_name

# DuckDB plans queries in queries to a depth of 1,000; a filter is two, and the statistics are over them.
MAX_STEPS = 300


class Size(NamedTuple):
    """The size that a derived column adds to a later step: characters, and long texts held."""

    length: int
    held: int


@dataclass(frozen=True)
class Taken:
    """The part of a query's limits on row steps that a source's making takes already.

    Args:
        sizes: of its columns that were derived.
        held: how many texts are held.
        steps: how many there were.
    """

    sizes: Mapping[str, Size] = field(default_factory=dict)
    held: int = 0
    steps: int = 0


class Steps:
    """Validates and measures row steps: filters and derived columns, each over those before it.

    Args:
        source: whose columns they are over.
        before: what the source takes already.
    """

    def __init__(self, source: Source, before: Taken) -> None:
        self._source, self._before = source, before
        self._validated: dict[tuple[Step, ...], ValidatedExpression] = {}
        self._schemas: dict[tuple[Step, ...], Schema] = {}
        self._sizes: dict[tuple[Step, ...], dict[str, Size]] = {(): dict(before.sizes)}
        self._held: dict[tuple[Step, ...], int] = {(): before.held}

    def schema(self, steps: Sequence[Step] = ()) -> Schema:
        """Return the columns after row steps."""
        key = tuple(steps)
        known = next((n for n in range(len(key), -1, -1) if key[:n] in self._schemas), None)
        if known is None:
            self._schemas[()], known = self._declare_columns(), 0
        if known < len(key):
            self._check_number(key)  # before hundreds are validated
        for n in range(known, len(key)):  # in no call within a call: Python has 1,000
            self._schemas[key[: n + 1]] = self._after(key[:n], key[n])
        return self._schemas[key]

    def known(self, steps: Sequence[Step]) -> Schema | None:
        """Return the columns after row steps that were validated before; None of others."""
        return self._schemas.get(tuple(steps))

    def total(self, steps: Sequence[Step]) -> list[Step]:
        """Return row steps with their expressions in the safe form."""
        pairs = zip(steps, self.validate(steps), strict=True)
        return [
            replace(step, expression=one.text if isinstance(step, Derive) else one.condition)
            for step, one in pairs
        ]

    def validate(self, steps: Sequence[Step]) -> list[ValidatedExpression]:
        """Return the validated expression of each row step."""
        self.schema(steps)
        return [self._validated[tuple(steps[: i + 1])] for i in range(len(steps))]

    def taken(self, steps: Sequence[Step] = ()) -> Taken:
        """Return what row steps take of a query's limits."""
        key = tuple(steps)
        if key:
            self.schema(key)  # which measures them, where nothing has asked for it before
        return Taken(self._sizes[key], self._held[key], self._before.steps + len(key))

    def _check_number(self, steps: tuple[Step, ...]) -> None:
        most = MAX_STEPS - self._before.steps
        if len(steps) > most:
            where = "with_columns" if isinstance(steps[max(most, 0)], Derive) else "filter"
            raise QueryError(
                f"{where}: the question has more than {MAX_STEPS} filters and derived columns, "
                "one after another. Combine several into one expression"
            )

    def _declare_columns(self) -> Schema:
        source = self._source
        check_names([name for name, _ in source.columns])
        return {name: make_column(kind, name not in source.complete) for name, kind in source.columns}

    @in_own_words()
    def _after(self, before: tuple[Step, ...], step: Step) -> Schema:
        schema = dict(self.schema(before))
        where = "with_columns" if isinstance(step, Derive) else "filter"
        one = self._validated[*before, step] = validate(where, step.expression, schema)
        self._measure(where, before, step, one)
        if isinstance(step, Filter):
            return schema | {name: replace(schema[name], missing=False) for name in one.complete}
        # Names are equal whatever their case, so this may stand in the place of another.
        kept = {n: c for n, c in schema.items() if n.casefold() != step.name.casefold()}
        return kept | {step.name: make_column(one.type_name, one.missing)}

    def _measure(self, where: str, before: tuple[Step, ...], step: Step, one: ValidatedExpression) -> None:
        """Refuse a row step whose expression takes too much, by itself or with those before it.

        DuckDB's planner writes derived columns out in the conditions that use them; an expression over
        columns that stand twice in others doubles with each, beyond all limits of memory.
        """
        sizes = self._sizes[before]
        used = [(times, sizes[name]) for name, times in one.uses.items() if name in sizes]
        length = len(one.text) + sum(times * size.length for times, size in used)
        if length > LONGEST:
            raise QueryError(
                f"{where}: the expression uses derived columns so often that it is longer than "
                f"{LONGEST} characters when they are expanded. Use each fewer times"
            )
        held = one.held + sum(times * size.held for times, size in used)
        self._held[*before, step] = self._held[before] + (one.held if isinstance(step, Derive) else held)
        if self._held[*before, step] > MAX_HELD:
            raise QueryError(
                f"{where}: the expressions of the question make more than {MAX_HELD} texts "
                "(docs/expressions.md says how they are counted). Drop columns that you do not use, "
                "or make them before scan"
            )
        own = {same_name(step.name): Size(length, held)} if isinstance(step, Derive) else {}
        self._sizes[*before, step] = sizes | own


def apply_steps(relation: str, steps: Sequence[Step], columns: Sequence[str]) -> str:
    """Return a SELECT of a relation after row steps: filters and derived columns.

    Expressions are safe, and conditions as `ValidatedExpression` writes them; TRY is a second wall,
    should one of them raise all the same.
    """
    names = {c.casefold(): c for c in columns}
    # Without a name DuckDB gives it one, under which a column of structs would not be found.
    alias = "steps"
    while alias in names or any(isinstance(s, Derive) and s.name.casefold() == alias for s in steps):
        alias += "_"
    text = f"SELECT * FROM {relation} AS {alias}"
    for step in steps:
        if isinstance(step, Derive):
            value = f"TRY((\n{step.expression}\n)) AS {identifier(step.name)}"
            replaced = names.get(step.name.casefold())  # which may be written in another way
            kept = "*" if replaced is None else f"* EXCLUDE ({identifier(replaced)})"
            text = f"SELECT {kept}, {value} FROM ({text}) AS {alias}"
            names[step.name.casefold()] = step.name
        else:
            text = f"SELECT * FROM ({text}) AS {alias} WHERE {step.expression}"
    return text


_OPAQUE = (
    "STRUCT", "MAP", "UNION", "JSON", "VARIANT", "INTERVAL", "BLOB", "BIT", "UHUGEINT", "BIGNUM", "GEOMETRY",
    "TIME WITH TIME ZONE",
)  # fmt: skip


def make_column(type_name: str, missing: bool) -> Column:
    """Return the schema's column for a DuckDB type."""
    if type_name.endswith("]") or type_name.startswith(_OPAQUE):  # also DECIMAL(9,2)[]
        kind = Kind.OPAQUE
    elif type_name in INTEGERS:
        kind = Kind.INTEGER
    elif type_name in FLOATS or type_name.startswith("DECIMAL"):
        kind = Kind.REAL
    elif type_name == "BOOLEAN":
        kind = Kind.BOOLEAN
    else:
        kind = Kind.OTHER
    return Column(kind, type_name, missing)
