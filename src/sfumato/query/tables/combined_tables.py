"""Combined tables: joins, unions and aggregates per unit, each row of which belongs to one privacy unit.

What is made here is *unit-local*: the rows that it holds for a unit follow from that unit's rows and from
public tables alone. So to add or remove a unit adds or removes its rows, and changes no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, TypeVar

from sfumato.dataclass import dataclass
from sfumato.errors import ColumnError, ParameterError, QueryError, shown
from sfumato.exact import one_of, positive_int
from sfumato.query.schema import INTEGERS, Column, check_flat
from sfumato.query.tables.shaped_tables import Computed, IsIn, Renamed, Select, Window, WithValue, same
from sfumato.query.tables.table_part import Part

Pairs = tuple[tuple[str, str], ...]
JoinKind = Literal["inner", "left"]
JOIN_KINDS = ("inner", "left")
# Of a unit and join key, in the right one of two private tables: a row of the left one meets no more.
MAX_ROWS = 1000
# Of a unit, a join of two private tables makes no more, unless one of them has more.
UNIT_ROWS = 100_000
# What a question may set it to.
MAX_UNIT_ROWS = 100 * UNIT_ROWS
# Of a right table's column whose name the left one has too.
SUFFIX = "_right"


@dataclass(frozen=True)
class Join:
    """A join of two tables on equal columns; NULL equals nothing.

    Args:
        left, right: of which the left is private.
        on: pairs of columns, left and right; both units are a pair, where both are private.
        how: "left" also keeps rows of the left table that match none, with NULL in the right one's columns.
        rows: where both are private, of the right table only so many rows of a unit and key are matched.
        unit_rows: where both are private, a unit has at most so many joined rows, or as many as it has in one
            of the tables; of the left table's, those that are more are left out before the tables are joined.
            With a public table, what is made of one row at most, or the question is refused.
    """

    left: Part
    right: Part
    on: tuple[tuple[str, str], ...]
    how: JoinKind
    rows: int
    unit_rows: int = UNIT_ROWS

    @property
    def by_rows(self) -> bool:
        """Whether each row of the join follows from one private row, so that it may be read in parts."""
        return self.right.unit is None

    @property
    def notes(self) -> list[str]:
        """Notes on the join for the explanation of a release."""
        kind = "a public table" if self.right.unit is None else "a private table of the same units"
        equal = " and ".join(a if a == b else f"{a} = {b}" for a, b in self.on)
        told = [*self.left.sentences("the left table"), *self.right.sentences("the right table")]
        told.append(f"Rows are joined with {kind} on {equal} ({self.how} join).")
        if self.right.unit is not None:
            most = f"at most {self.rows:,} of the right table are matched"
            told.append(f"Of a unit's rows with the same values, {most}.")
            most = f"at most {self.unit_rows:,} joined rows"
            told.append(f"One unit has {most}, or as many as it has in one of the tables.")
        return told

    @property
    def kept(self) -> tuple[tuple[Part, Renamed], ...]:
        """The parts of the join, and the columns that stay: their names there and here."""
        return (self.left, same(self.left)), (self.right, tuple(self.brought.items()))

    @property
    def brought(self) -> dict[str, str]:
        """The right table's columns of the join that are not compared, and their new names."""
        compared, taken = {other for _, other in self.on}, {name.casefold() for name in self.left.schema}
        names: dict[str, str] = {}
        for name in self.right.schema:
            if name not in compared:
                names[name] = name
                while names[name].casefold() in taken:
                    names[name] += SUFFIX
                taken.add(names[name].casefold())
        return names


@dataclass(frozen=True)
class Union:
    """The union of two private tables with the same columns: all rows of both."""

    left: Part
    right: Part
    by_rows = True

    @property
    def kept(self) -> tuple[tuple[Part, Renamed], ...]:
        """The parts of the union, and their columns: their names there and here."""
        return (self.left, same(self.left)), (self.right, same(self.right))

    @property
    def notes(self) -> list[str]:
        """Notes on the union for the explanation of a release."""
        told = [*self.left.sentences("the first table"), *self.right.sentences("the second table")]
        return [*told, "The rows of two private tables of the same units are combined."]


@dataclass(frozen=True)
class PerUnit:
    """A combined table with one row for each unit, or for each unit and values of some columns.

    Args:
        part: a private table.
        by: columns that stay beside the unit.
        aggregates: (name, SQL of one aggregate of rows).
    """

    part: Part
    by: tuple[str, ...]
    aggregates: tuple[tuple[str, str], ...]

    @property
    def kept(self) -> tuple[tuple[Part, Renamed], ...]:
        """The part that is aggregated per unit, and the columns that stay: their names there and here."""
        return ((self.part, tuple((name, name) for name in (str(self.part.unit), *self.by))),)

    @property
    def notes(self) -> list[str]:
        """Notes on the rows per unit for the explanation of a release."""
        if not self.aggregates:
            return [*self.part.sentences("the table"), "Duplicate rows of a unit are made one row."]
        made = ", ".join(f"{name} = {text}" for name, text in self.aggregates)
        whose = " and ".join([str(self.part.unit), *self.by])
        return [*self.part.sentences("the table"), f"All rows of one {whose} are made one row: {made}."]


@dataclass(frozen=True)
class Reached:
    """A foreign-key join: rows of the units that they reach by the key; the others are left out.

    Args:
        part: rows without a unit of their own.
        owners: a private table.
        column, key: the foreign key, and what it names in the owners' table.
        unit: the name of the unit's column here, which may be that of the foreign key.
    """

    part: Part
    owners: Part
    column: str
    key: str
    unit: str

    @property
    def kept(self) -> tuple[tuple[Part, Renamed], ...]:
        """The parts of the foreign-key join, and the columns that stay: the first one's."""
        return (self.part, same(self.part)), (self.owners, ())

    @property
    def notes(self) -> list[str]:
        """Notes on the foreign-key join: none, as the catalog declares the key."""
        return []


def all_parts(how: Combination) -> list[Part]:
    """Return the tables that a combined table is made of, private and public."""
    found: list[Part] = []
    for field in fields(how):
        value = getattr(how, field.name)
        # Those of `Computed` have names.
        several = [one for pair in value for one in pair] if isinstance(how, Computed) else [value]
        found += [one for one in several if isinstance(one, Part)]
    return found


def private_parts(how: Combination) -> list[Part]:
    """Return the private tables that a combined table is made of, also by foreign keys."""
    parts = (getattr(how, field.name) for field in fields(how))
    return [p for p in parts if isinstance(p, Part) and (p.unit is not None or isinstance(how, Reached))]


def find_unit_sources(engine: Any, unit: str) -> frozenset[tuple[Any, str]]:
    """Return the tables, with their unit columns, from which the units of a combined table come.

    Two tables of which one is the same belong to the same units: rows are only put together where these are
    equal, and every row that is made belongs to the unit that its rows had.
    """
    how = getattr(engine, "how", None)
    parts = [] if how is None else [part for part in private_parts(how) if part.unit is not None]
    if not parts:
        return frozenset({(engine, unit.casefold())})
    return frozenset().union(*(find_unit_sources(part.engine, str(part.unit)) for part in parts))


Combination = Join | Union | PerUnit | Reached | Select | IsIn | WithValue | Window | Computed
Combined = TypeVar("Combined")


def over_parts(how: Combined, change: Callable[[Part], Part]) -> Combined:
    """Return a combined table of any kind with its parts changed."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        return change(value) if isinstance(value, Part) else value

    given = {field.name: getattr(how, field.name) for field in fields(how)}  # type: ignore[arg-type]
    return replace(how, **{name: changed(value) for name, value in given.items()})  # type: ignore[type-var]


def join(left: Part, right: Part, on: object, how: object, rows: object, unit_rows: object = None) -> Join:
    """Return a join of tables, each row of which belongs to one unit.

    Raises:
        QueryError: it is none; the text says why and what to write.
    """
    kind: Any = one_of(how, "how", JOIN_KINDS)
    pairs = with_units(list_key_pairs(on), left, right)
    if right.unit is not None:
        _check_same_units("join", left, right)
    for column, other in pairs:
        for name, part, side in ((column, left, "left"), (other, right, "right")):
            if name not in part.schema:
                raise ColumnError._unknown(name, part.schema, f"join: on, {side} table")
            if name != part.unit:  # which is compared as in a table of its own
                check_flat("join", name, part.schema, "in with_columns first")
        _check_equal_types(column, left.schema[column], other, right.schema[other])
    if right.unit is not None and (left.unit, right.unit) not in pairs:
        parts = [(part.text, other.text) for part, other in zip(left.parts, right.parts, strict=True)]
        named = ", ".join(f"{one!r}: {other!r}" for one, other in parts or [(str(left.unit), right.unit)])
        raise QueryError(
            f"join: both tables are private, so only rows of the same unit can be joined. Add {named} to on"
        )
    return Join(left, right, pairs, kind, _max_rows(rows), _max_rows_per_unit(unit_rows))


def with_units(pairs: Pairs, left: Part, right: Part) -> Pairs:
    """Return the compared columns of a join with the units of two private tables added."""
    parts = [tuple(part.text.casefold() for part in side.parts) for side in (left, right)]
    folded = [(one.casefold(), other.casefold()) for one, other in pairs]
    if not parts[0] or len(parts[0]) != len(parts[1]):
        return pairs
    compared = list(zip(*parts, strict=True))
    if not all(pair in folded for pair in compared):
        return pairs
    # What is no column, but an expression, is compared in the unit alone.
    columns = [
        pair
        for pair, plain in zip(pairs, folded, strict=True)
        if plain not in compared or (pair[0] in left.schema and pair[1] in right.schema)
    ]
    units = (str(left.unit), str(right.unit))
    return tuple(dict.fromkeys([*columns, units]))


def _check_same_units(where: str, left: Part, right: Part) -> None:
    """Refuse to combine private tables whose units of several parts are different."""
    parts = [[part.kind for part in side.parts] for side in (left, right)]
    if (bool(left.parts), len(parts[0])) != (bool(right.parts), len(parts[1])):
        raise QueryError(
            f"{where}: a row belongs to one {left.unit} here, but to one {right.unit} in the "
            "other table. Scan both tables with the same privacy_unit"
        )
    for one, other in zip(left.parts, right.parts, strict=True):
        if one.kind != other.kind:
            raise QueryError(
                f"{where}: the privacy unit {one.text} is {one.kind} here, but {other.text} "
                f"is {other.kind} in the other table. Give both one type before scan, and one "
                "unit_timezone"
            )


def union(left: Part, right: Part) -> Union:
    """Return the union of two private tables with the same columns and types.

    Raises:
        QueryError: they differ, or one is public.
    """
    if right.unit is None:
        raise QueryError("union: the other table is public, so its rows belong to no unit. Join it instead")
    _check_same_units("union", left, right)
    if left.unit != right.unit:
        raise QueryError(
            f"union: the privacy unit is {left.unit!r} here and {right.unit!r} in the other "
            "table. Give both the same name before scan"
        )
    for name in {**left.schema, **right.schema}:
        here, there = left.schema.get(name), right.schema.get(name)
        if here is None or there is None:
            where = "the other table" if there is None else "this table"
            raise QueryError(f"union: {where} has no column {name!r}, but both tables need the same columns")
        # Whole numbers of two types have one that holds both.
        if here.type_name != there.type_name and (name == left.unit or not alike(here, there)):
            raise QueryError(
                f"union: {name!r} is {here.type_name} here and {there.type_name} in the other "
                "table. Cast it with with_columns, or before scan if it is the privacy unit"
            )
    return Union(left, right)


def per_unit(part: Part, by: Sequence[object], aggregates: Mapping[str, object]) -> PerUnit:
    """Return the combined table with one row for each unit, and values of `by`.

    Raises:
        QueryError: a column is unknown, or a name is used twice.
    """
    names: list[str] = []
    for name in by:
        if not isinstance(name, str):
            raise ParameterError("per_unit", name, "names of columns in by, as text")
        if name not in part.schema:
            raise ColumnError._unknown(name, part.schema, "per_unit: by")
        check_flat("per_unit", name, part.schema, "in with_columns first")
        if name != part.unit:  # which is there in any case
            names.append(name)
    if not aggregates:
        raise QueryError(
            "per_unit: no aggregate is given. Write per_unit(orders='count(*)', spent='sum(price)')"
        )
    texts = [(name, _aggregate(name, text)) for name, text in aggregates.items()]
    seen: set[str] = set()
    for name in [str(part.unit), *names, *aggregates]:
        if not name.strip() or not name.isprintable():
            raise QueryError(f"per_unit: {name!r} is not a column name. Use letters")
        if name.casefold() in seen:
            raise QueryError(f"per_unit: the name {name!r} is used twice. Give each column its own")
        seen.add(name.casefold())
    return PerUnit(part, tuple(names), tuple(texts))


def distinct(part: Part, by: Iterable[str], where: str = "DISTINCT") -> PerUnit:
    """Return the combined table with one row for each unit and distinct values of some columns.

    Raises:
        QueryError: a column has values that do not compare alike everywhere.
    """
    others = tuple(name for name in by if name != part.unit)
    for name in others:
        check_flat(where, name, part.schema, "in its place")
    return PerUnit(part, others, ())


def is_in(part: Part, column: str, other: Part, name: str) -> IsIn:
    """Return a private table with a column that says whether a value is in a public table's column.

    Raises:
        QueryError: the types differ.
    """
    (of,) = other.schema
    for which, side in ((column, part), (of, other)):
        if which != side.unit:
            check_flat("IN", which, side.schema, "in its place")
    _check_equal_types(column, part.schema[column], of, other.schema[of], "IN")
    return IsIn(part, other, column, name)


def _aggregate(name: str, text: object) -> str:
    if not isinstance(text, str) or not text.strip():
        raise QueryError(
            f"per_unit: {name} is {shown(text)}, but must be SQL of one aggregate, such as 'sum(price)'"
        )
    return text


def list_key_pairs(on: object) -> tuple[tuple[str, str], ...]:
    """Return the pairs of columns, left and right, that a join compares.

    Raises:
        QueryError: it says nothing, or something else.
    """
    if isinstance(on, str):
        on = [on]
    found = list(on.items()) if isinstance(on, Mapping) else list(map(_pair, _listed(on)))
    if not found or not all(isinstance(name, str) for pair in found for name in pair):
        raise QueryError(
            "join: on says which columns are equal: a name, a list of names, or {'left name': 'right name'}"
        )
    return tuple(found)


def _pair(name: Any) -> tuple[Any, Any]:
    return name if isinstance(name, tuple) and len(name) == 2 else (name, name)


def _listed(on: object) -> list[Any]:
    return list(on) if isinstance(on, (list, tuple)) else []


def alike(left: Column, right: Column) -> bool:
    """Whether a join may compare two columns: no cast makes two values one."""
    kinds = left.type_name, right.type_name
    return kinds[0] == kinds[1] or all(kind in INTEGERS for kind in kinds)


def _check_equal_types(column: str, left: Column, other: str, right: Column, where: str = "join") -> None:
    """Refuse a join on types that DuckDB would cast, which may fail or make two values one."""
    kinds = left.type_name, right.type_name
    if not alike(left, right):
        raise QueryError(
            f"{where}: {column!r} is {kinds[0]} and {other!r} of the right table is "
            f"{kinds[1]}, so values can be equal but not identical. Cast one with with_columns "
            "(before scan, if it is the privacy unit)"
        )


def _max_rows(rows: object) -> int:
    most = positive_int(rows, "rows")
    if most > 10 * MAX_ROWS:
        raise ParameterError(
            "rows", rows, f"at most {10 * MAX_ROWS:,}, as a row of the left table makes so many"
        )
    return most


def _max_rows_per_unit(unit_rows: object) -> int:
    most = UNIT_ROWS if unit_rows is None else positive_int(unit_rows, "unit_rows")
    if most > MAX_UNIT_ROWS:
        raise ParameterError(
            "unit_rows", unit_rows, f"at most {MAX_UNIT_ROWS:,}, as one unit may make so many rows"
        )
    return most
