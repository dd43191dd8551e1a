"""Random databases, and unit-local queries of them in two forms: a chain, and plain SQL.

Each operator is a function that makes a new `Made` of others. An operator that is added to `OPERATORS` is generated in
all depths. `Made.sql` is the whole meaning in plain SQL.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

import sfumato as sf

TYPES = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
}
# Of each type the values of columns: all are told apart by DuckDB, and their sums are exact in any order.
TAME: dict[str, list[Any]] = {
    "VARCHAR": ["A", "B", "C", "a", "", "A ", None],
    "BIGINT": [-3, 0, 1, 2, 5, 9, None],
    "DOUBLE": [0.0, 0.5, 1.25, -3.0, 8.0, None],
    "BOOLEAN": [True, False, None],
    "DATE": [0, 1, 40, 19000, None],
}
WILD: dict[str, list[Any]] = {
    **TAME,
    "BIGINT": [*TAME["BIGINT"], 2**63 - 1, -(2**63), 2**53 + 1],
    "DOUBLE": [*TAME["DOUBLE"], -0.0, 0.1, 0.3, 1e300, -1e300, 1e17, *map(float, ("inf", "-inf", "nan"))],
    "DATE": [*TAME["DATE"], -719162, 2932896],
}
UNITS: dict[str, tuple[list[Any], list[Any]]] = {
    "BIGINT": ([1, 2, 3, 4, 5, 6], [None, 2**53, 2**53 + 1]),
    "INTEGER": ([1, 2, 3, 4, 5, 6], [None, -(2**31)]),
    "VARCHAR": (["1", "01", "a", "A", "b", ""], [None, "A ", "\x00", "é"]),
    "DOUBLE": ([1.0, 2.0, 3.0, 4.0, 5.0], [None, 0.0, -0.0, float("nan"), float("inf"), 2.0**53]),
}
COLUMNS = {"town": "VARCHAR", "n": "BIGINT", "x": "DOUBLE", "f": "BOOLEAN", "d": "DATE"}
PUBLIC = {"town": "VARCHAR", "region": "VARCHAR", "w": "BIGINT", "d": "DATE"}


@dataclass(frozen=True)
class Database:
    """Tables by name; those that begin with p are private, by `id`.

    Args:
        tables: all of them.
        types: the columns of each.
        tame: whether plain SQL gives the same: no NaN, no unit that is NULL, and sums that are exact.
    """

    tables: Mapping[str, pa.Table]
    types: Mapping[str, Mapping[str, str]]
    tame: bool

    @property
    def private(self) -> list[str]:
        """Names of the private tables."""
        return [name for name in self.tables if name.startswith("p")]

    def of(self, holds: Callable[[Any], bool]) -> Database:
        """Return the database in which only some units have rows; public tables stay."""
        return replace(
            self,
            tables={
                name: rows.filter(pa.array([holds(same(u)) for u in rows["id"].to_pylist()], pa.bool_()))
                if name in self.private
                else rows
                for name, rows in self.tables.items()
            },
        )

    @property
    def units(self) -> list[Any]:
        """All units that have a row."""
        found = {same(u): None for name in self.private for u in self.tables[name]["id"].to_pylist()}
        return [unit for unit in found if unit is not None]

    def opened(self) -> dict[str, Any]:
        """Return all tables, as `sf.scan` and `sf.public` open them."""
        return {
            name: sf.scan(rows, privacy_unit="id") if name in self.private else sf.public(rows)
            for name, rows in self.tables.items()
        }


def same(unit: Any) -> Any:
    """Return what is equal for equal units: NaN is one, and 0.0 is -0.0."""
    return "nan" if unit != unit else unit + 0.0 if isinstance(unit, float) else unit


def database(chance: random.Random) -> Database:
    """Make a schema of two to five tables, and rows."""
    tame = chance.random() < 0.5
    values, kind = TAME if tame else WILD, chance.choice(list(UNITS))
    known, odd = UNITS[kind]
    tables, types = {}, {}
    for i in range(chance.randint(1, 3)):
        own = (
            {"INTEGER": "BIGINT"}.get(kind, kind) if chance.random() < 0.3 else kind
        )  # whole numbers are alike
        columns = {"id": own} | {name: COLUMNS[name] for name in COLUMNS if chance.random() < 0.7}
        units = known if tame else [*known, *odd]
        tables[f"p{i}"] = rows_of(chance, columns, values, chance.choice([0, 3, 12, 25]), units)
        types[f"p{i}"] = columns
    for i in range(chance.randint(1, 2)):
        columns = {name: PUBLIC[name] for name in PUBLIC if name == "town" or chance.random() < 0.7}
        tables[f"r{i}"] = rows_of(chance, columns, values, chance.choice([0, 2, 5, 8]))
        types[f"r{i}"] = columns
    return Database(tables, types, tame)


def rows_of(
    chance: random.Random,
    columns: Mapping[str, str],
    values: Mapping[str, list[Any]],
    size: int,
    units: Any = (),
) -> pa.Table:
    """Make rows, with a unit each where there are some."""
    return pa.table(
        {
            name: pa.array(
                [chance.choice(units if name == "id" else values[kind]) for _ in range(size)], TYPES[kind]
            )
            for name, kind in columns.items()
        }
    )


@dataclass(frozen=True)
class Made:
    """Rows that are made of tables.

    Args:
        columns: their types, by name; `id` is the unit's.
        sql: the same rows in plain SQL.
        chain: makes the same of opened tables.
        told: how it was made.
    """

    columns: Mapping[str, str]
    sql: str
    chain: Callable[[Mapping[str, Any]], Any]
    told: tuple[str, ...] = field(default=())

    def columns_of(self, *kinds: str) -> list[str]:
        """Return the columns of some types, but for the unit."""
        return [name for name, kind in self.columns.items() if kind in kinds and name != "id"]


Operator = Callable[[random.Random, Made, Database, Callable[[], Made]], "Made | None"]


def scanned(name: str, database: Database) -> Made:
    """Return the rows of a private table."""
    columns = database.types[name]
    return Made(columns, f"SELECT * FROM {name}", lambda opened: opened[name], (name,))


CONDITIONS = {
    "VARCHAR": ["{c} = 'A'", "{c} IS NULL", "{c} IN ('A', 'B')", "{c} LIKE 'A%'", "length({c}) > 0"],
    "BIGINT": ["{c} > 1", "{c} BETWEEN 0 AND 5", "{c} IS NOT NULL", "{c} % 2 = 1", "coalesce({c}, 0) < 2"],
    "DOUBLE": ["{c} > 1", "{c} <= 0.5 OR {c} IS NULL", "NOT ({c} > 2)"],
    "BOOLEAN": ["{c}", "NOT {c}", "{c} IS DISTINCT FROM true"],
    "DATE": ["year({c}) = 1970", "{c} >= DATE '1970-01-02'"],
}
DERIVED = {
    "VARCHAR": [("upper({c})", "VARCHAR"), ("coalesce({c}, 'none')", "VARCHAR"), ("length({c})", "BIGINT")],
    "BIGINT": [
        ("{c} % 3", "BIGINT"),
        ("CAST(CASE WHEN {c} > 1 THEN 1 ELSE 0 END AS BIGINT)", "BIGINT"),
        ("{c} > 1", "BOOLEAN"),
    ],
    "DOUBLE": [("{c} / 2", "DOUBLE"), ("greatest({c}, 0.5)", "DOUBLE"), ("{c} IS NULL", "BOOLEAN")],
    "BOOLEAN": [("NOT {c}", "BOOLEAN")],
    "DATE": [("year({c})", "BIGINT"), ("{c} IS NULL", "BOOLEAN")],
}
AGGREGATES = {
    "VARCHAR": [("count({c})", "BIGINT"), ("count(DISTINCT {c})", "BIGINT"), ("max({c})", "VARCHAR")],
    "BIGINT": [("min({c})", "BIGINT"), ("max({c}) FILTER (WHERE {c} > 0)", "BIGINT"), ("avg({c})", "DOUBLE")],
    "DOUBLE": [("sum({c})", "DOUBLE"), ("avg({c})", "DOUBLE"), ("max({c})", "DOUBLE")],
    "BOOLEAN": [("bool_and({c})", "BOOLEAN"), ("bool_or({c})", "BOOLEAN")],
    "DATE": [("min({c})", "DATE")],
}
Q = '"{}"'.format


def filtered(chance: random.Random, made: Made, _: Database, other: Callable[[], Made]) -> Made | None:
    """Keep the rows where a condition is true."""
    name = chance.choice(list(made.columns)[1:] or ["id"])
    if name == "id":
        return None
    text = chance.choice(CONDITIONS[made.columns[name]])
    mine = text.replace("{c}", Q(name))
    return Made(
        made.columns,
        f"SELECT * FROM ({made.sql}) WHERE {mine}",
        lambda opened: made.chain(opened).filter(mine),
        (*made.told, f"filter {mine}"),
    )


def derived(chance: random.Random, made: Made, _: Database, other: Callable[[], Made]) -> Made | None:
    """Add a column."""
    name = chance.choice(list(made.columns)[1:] or ["id"])
    new = f"e{len(made.columns)}"
    if name == "id" or new in made.columns:
        return None
    text, kind = chance.choice(DERIVED[made.columns[name]])
    mine = text.replace("{c}", Q(name))
    return Made(
        {**made.columns, new: kind},
        f"SELECT *, {mine} AS {new} FROM ({made.sql})",
        lambda opened: made.chain(opened).with_columns(**{new: mine}),
        (*made.told, f"{new} = {mine}"),
    )


def _joined(chance: random.Random, made: Made, right: Made, pairs: list[str], rows: int = 1000) -> Made:
    """Join on columns of equal names."""
    how, brought, taken = chance.choice(["inner", "left"]), {}, {c.casefold() for c in made.columns}
    for name in right.columns:
        if name not in pairs:
            new = name
            while new in taken:
                new += "_right"
            brought[name] = new
            taken.add(new)
    kind = {"inner": "JOIN", "left": "LEFT JOIN"}[how]
    columns = ["l.*", *(f"r.{Q(old)} AS {Q(new)}" for old, new in brought.items())]
    on = " AND ".join(f"l.{Q(name)} = r.{Q(name)}" for name in pairs)
    return Made(
        {**made.columns, **{new: right.columns[old] for old, new in brought.items()}},
        f"SELECT {', '.join(columns)} FROM ({made.sql}) AS l {kind} ({right.sql}) AS r ON {on}",
        lambda opened: made.chain(opened).join(right.chain(opened), on=pairs, how=how, rows=rows),
        (*made.told, f"{how} join on {', '.join(pairs)} with ({'; '.join(right.told)})"),
    )


def with_public(
    chance: random.Random, made: Made, database: Database, other: Callable[[], Made]
) -> Made | None:
    """Join a public table on columns that both have."""
    name = chance.choice([n for n in database.tables if n.startswith("r")])
    columns = database.types[name]
    shared = [c for c in columns if made.columns.get(c) == columns[c]]
    if not shared:
        return None
    pairs = shared if chance.random() < 0.2 else [chance.choice(shared)]
    public = Made(columns, f"SELECT * FROM {name}", lambda opened: opened[name], (name,))
    return _joined(chance, made, public, pairs)


def with_private(
    chance: random.Random, made: Made, database: Database, other: Callable[[], Made]
) -> Made | None:
    """Join rows of the same units, of a table or of what is made of tables."""
    right = other()
    shared = [c for c in right.columns if made.columns.get(c) == right.columns[c] and c != "id"]
    pairs = ["id", *(c for c in shared if chance.random() < 0.2)]
    kinds = made.columns["id"], right.columns["id"]
    if kinds[0] != kinds[1] and not set(kinds) <= {"BIGINT", "INTEGER"}:
        return None
    # Plain SQL matches all rows.
    rows = 1000 if database.tame else chance.choice([1, 2, 1000])
    return _joined(chance, made, right, pairs, rows)


def together(chance: random.Random, made: Made, database: Database, other: Callable[[], Made]) -> Made | None:
    """Put the rows of two tables under each other: of one and the same, with other filters and columns."""
    right = other()
    if dict(right.columns) != dict(made.columns):
        right = filtered(chance, made, database, other) or made
    names = ", ".join(map(Q, made.columns))
    return Made(
        made.columns,
        f"SELECT {names} FROM ({made.sql}) UNION ALL SELECT {names} FROM ({right.sql})",
        lambda opened: made.chain(opened).union(right.chain(opened)),
        (*made.told, f"union with ({'; '.join(right.told)})"),
    )


def compared(chance: random.Random, made: Made, database: Database, other: Callable[[], Made]) -> Made | None:
    """Keep rows of one table, or of both, that are equal to rows of the other, or to none."""
    right = other()
    if dict(right.columns) != dict(made.columns):
        right = filtered(chance, made, database, other) or made
    names, kind = ", ".join(map(Q, made.columns)), chance.choice(["UNION", "INTERSECT", "EXCEPT"])

    def chain(opened: Mapping[str, Any]) -> Any:
        text = f"SELECT {names} FROM self {kind} SELECT {names} FROM other"
        return made.chain(opened).sql(text, tables={"other": right.chain(opened)})

    return Made(
        made.columns,
        f"SELECT {names} FROM ({made.sql}) {kind} SELECT {names} FROM ({right.sql})",
        chain,
        (*made.told, f"{kind.lower()} with ({'; '.join(right.told)})"),
    )


def matched(chance: random.Random, made: Made, database: Database, other: Callable[[], Made]) -> Made | None:
    """Keep rows that match a row of another table, or none."""
    name, kind = chance.choice(list(database.tables)), chance.choice(["SEMI", "ANTI"])
    columns = database.types[name]
    shared = [c for c in columns if made.columns.get(c) == columns[c] and c != "id"]
    pairs = [c for c in shared if chance.random() < 0.5]
    pairs = ["id", *pairs] if name.startswith("p") else pairs or shared
    if not pairs or (name.startswith("p") and columns["id"] != made.columns["id"]):
        return None
    join = f"AS l {kind} JOIN {name} USING ({', '.join(map(Q, pairs))})"
    if chance.random() < 0.5:
        equal = " AND ".join(f"r.{Q(c)} = l.{Q(c)}" for c in pairs)
        negated = "NOT " if kind == "ANTI" else ""
        join = f"AS l WHERE {negated}EXISTS (SELECT 1 FROM {name} AS r WHERE {equal})"
    return Made(
        made.columns,
        f"SELECT * FROM ({made.sql}) {join}",
        lambda opened: made.chain(opened).sql(f"SELECT * FROM self {join}", tables={name: opened[name]}),
        (*made.told, f"{kind.lower()} join with {name} on {', '.join(pairs)}"),
    )


def per_unit(chance: random.Random, made: Made, _: Database, other: Callable[[], Made]) -> Made | None:
    """Make one row for each unit, or unit and value of a column."""
    flat_columns = list(made.columns)[1:]
    by = [
        c
        for c in flat_columns
        if made.columns[c] in ("VARCHAR", "BIGINT", "BOOLEAN") and chance.random() < 0.2
    ][:2]
    asked: dict[str, tuple[str, str]] = {"a0": ("count(*)", "BIGINT")}
    for i, name in enumerate(chance.sample(flat_columns, min(2, len(flat_columns))), 1):
        text, kind = chance.choice(AGGREGATES[made.columns[name]])
        asked[f"a{i}"] = text.replace("{c}", Q(name)), kind
    if set(by) & set(asked):
        return None
    keys, texts = ", ".join(map(Q, ["id", *by])), {new: text for new, (text, _) in asked.items()}
    return Made(
        {c: made.columns[c] for c in ["id", *by]} | {new: kind for new, (_, kind) in asked.items()},
        f"SELECT {keys}, {', '.join(f'{text} AS {new}' for new, text in texts.items())} "
        f"FROM ({made.sql}) WHERE id IS NOT NULL GROUP BY {keys}",
        lambda opened: made.chain(opened).per_unit(*by, **texts),
        (*made.told, f"per unit {by} {texts}"),
    )


OPERATORS: dict[str, Operator] = {
    "filter": filtered,
    "derive": derived,
    "join public": with_public,
    "join private": with_private,
    "union": together,
    "compare": compared,
    "match": matched,
    "per unit": per_unit,
}


def rows_made(chance: random.Random, database: Database, depth: int) -> Made:
    """Make rows by some operators, one over the other."""
    made = scanned(chance.choice(database.private), database)
    for _ in range(chance.randint(0, depth)):
        operator = OPERATORS[chance.choice(list(OPERATORS))]
        found = operator(chance, made, database, lambda: rows_made(chance, database, depth // 2))
        made = made if found is None or len(found.columns) > 16 or len(found.sql) > 6000 else found
    return made
