"""Sources that are made of others: joins, unions, and one row for each privacy unit.

Each is one relation in SQL over the parts' own. Rows of Parquet are read where they are; all others are
copied to a temporary table of the session that reads, which may spill.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb

from sfumato.engines.duckdb import spill
from sfumato.engines.duckdb.connection import lender
from sfumato.engines.duckdb.exact_sql import canonical
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.source import Source, arriving
from sfumato.engines.duckdb.text import identifier
from sfumato.engines.duckdb.unit_aggregates import UnitAggregate
from sfumato.errors import in_own_words
from sfumato.query.schema import FLOATS, Column, Kind, Schema
from sfumato.query.tables.combining import Join, Reached

_numbers = itertools.count()  # of tables that are copied
# Arrow has no such types; a setting that keeps them is one of all sessions of a database.
NOT_ARROW = ("HUGEINT", "UHUGEINT", "BIT", "TIME WITH TIME ZONE")

_FEW, _MOST_BUCKETS = (
    1_000_000,
    1 << 18,
)  # rows of which units are counted at once; buckets that a cache holds


@dataclass(frozen=True)
class Rows:
    """The rows of a part, as they come into a combination.

    Args:
        source: where they come from.
        after: gives a SELECT of them after their steps, of what stands behind FROM.
        schema: the columns after the steps.
        unit: the privacy unit's column; None of a public table.
        unique: columns in which no two of the rows have the same values; none where that is not known.
    """

    source: Source
    after: Callable[[str], str]
    schema: Schema
    unit: str | None
    unique: tuple[str, ...] = ()


def joined(how: Join, left: Rows, right: Rows, resources: Resources) -> Source:
    """Return the rows of two tables side by side."""
    brought, compared = how.brought, {other for _, other in how.on}
    alone = bool(right.unique) and set(right.unique) <= compared
    most = None if right.unit is None or alone else how.rows

    keys = [[pair[i] for pair in how.on] for i in (0, 1)]

    def text(rows: Sequence[str], most: int | None = most) -> str:
        sides = [_side(rows[0], left, keys[0]), _side(rows[1], right, keys[1])]
        if most is not None:
            sides[1] = _limited(sides[1], right, keys[1], most)
        columns = [f"l.c{i} AS {identifier(name)}" for i, name in enumerate(left.schema)]
        columns += [
            f"r.c{i} AS {identifier(brought[name])}" for i, name in enumerate(right.schema) if name in brought
        ]
        equal = " AND ".join(f"l.k{i} = r.k{i}" for i in range(len(how.on)))
        kind = "LEFT JOIN" if how.how == "left" else "JOIN"
        return f"SELECT {', '.join(columns)} FROM ({sides[0]}) AS l {kind} ({sides[1]}) AS r ON ({equal})"

    def looked(session: duckdb.DuckDBPyConnection, rows: Sequence[str]) -> str:
        if most is None:
            return text(rows)
        over = _over(_side(rows[1], right, keys[1]), right, keys[1], most)
        found = session.execute(f"WITH {over} SELECT 1 FROM over LIMIT 1").fetchall()
        return text(rows) if found else text(rows, None)

    lost = how.how == "left"
    schema = left.schema | {
        name: replace(right.schema[old], missing=lost or right.schema[old].missing)
        for old, name in brought.items()
    }
    # A row that meets one at most stays one row.
    unique = left.unique if alone else ()
    return source_of(text, [left, right], schema, resources, unique, looked)


def compared(name: str, schema: Schema) -> str:
    """Return a column such that values that are equal are the same, as units of a single table are."""
    kind = schema[name].type_name
    return canonical(name, schema) if kind in (*FLOATS, "VARCHAR") else identifier(name)


def told_apart(name: str, schema: Schema) -> list[str]:
    """Return by what to order rows, so that only those that are the same stay in one place."""
    column = schema[name]
    if column.kind is Kind.OPAQUE:
        return [f"CAST({identifier(name)} AS VARCHAR)", f"hash({identifier(name)})"]
    if column.type_name in FLOATS:  # 0.0 and -0.0 are equal
        return [compared(name, schema), f"signbit({identifier(name)})"]
    return [compared(name, schema)]


def _side(rows: str, side: Rows, keys: Sequence[str]) -> str:
    """Return a side with its columns and keys."""
    columns = [f"part.{identifier(name)} AS c{i}" for i, name in enumerate(side.schema)]
    columns += [f"{compared(name, side.schema)} AS k{i}" for i, name in enumerate(keys)]
    return f"SELECT {', '.join(columns)} FROM ({rows}) AS part"


def _over(text: str, side: Rows, keys: Sequence[str], most: int) -> str:
    """Return table expressions: `side`, and `over`, the keys of which there are more rows.

    Units with that many are looked for first, as there are fewer units than keys.
    """
    key = ", ".join(f"k{i}" for i in range(len(keys)))
    whose = f"k{keys.index(str(side.unit))}"
    counted, heavy = "side", ""
    if (buckets := _buckets(side.source.rows, most)) is not None:
        bucket = f"hash({whose}) & {buckets - 1}::UBIGINT"
        heavy = f"heavy AS (SELECT {bucket} AS b FROM side GROUP BY b HAVING count(*) > {most}), "
        counted = f"(SELECT {whose} FROM side SEMI JOIN heavy ON ({bucket} = heavy.b))"
    many = f"SELECT {whose} FROM {counted} GROUP BY {whose} HAVING count(*) > {most}"
    over = f"SELECT {key} FROM side SEMI JOIN many USING ({whose}) GROUP BY {key} HAVING count(*) > {most}"
    # Not materialized: of most columns nothing is read then, but of units with too many rows, who are few.
    return f"side AS NOT MATERIALIZED ({text}), {heavy}many AS ({many}), over AS ({over})"


def _limited(text: str, side: Rows, keys: Sequence[str], most: int) -> str:
    """Return a side of which each unit and key has at most so many rows.

    So a row of the other side meets no more, and a join makes at most so many rows of each. Which are kept
    depends on the rows themselves, not on where they stand.
    """
    key = ", ".join(f"k{i}" for i in range(len(keys)))
    named = {f"c{i}": column for i, column in enumerate(side.schema.values())}
    order = ", ".join(term for name in named for term in told_apart(name, named))
    same = " AND ".join(f"side.k{i} = over.k{i}" for i in range(len(keys)))
    # They lose their key, so that they match nothing: of rows left out DuckDB would expect so many that it
    # joined in a bad order.
    kept = "* REPLACE (CASE WHEN over.k0 IS NULL THEN side.k0 END AS k0)"
    return (
        f"WITH {_over(text, side, keys, most)} "
        f"SELECT side.{kept} FROM side LEFT JOIN over ON ({same}) "
        f"UNION ALL SELECT * FROM side SEMI JOIN over USING ({key}) "
        f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY hash({order}), {order}) <= {most}"
    )


def _buckets(rows: int | None, most: int) -> int | None:
    """Return into how many buckets units are counted before they are counted each; None where at once.

    Rows are as many in a bucket as half of what one unit may have, so that few buckets have more. It takes
    half the time, as there are fewer buckets than units; what is found is the same, whatever rows there are.
    """
    if rows is None or rows < _FEW or rows // most > _MOST_BUCKETS:
        return None
    return 1 << max(2 * rows // most, 1).bit_length()


def reached(how: Reached, here: Rows, there: Rows, resources: Resources) -> Source:
    """Return rows with the units that they reach by a foreign key; those that reach none are left out.

    A unit has the rows here that its own rows there have keys of. So what it has depends on no row there of
    another unit, be the key unique or not: a row here whose key two units have is one row of each of them.
    """
    column, key, unit = how.column, how.key, how.unit
    names = [name for name in here.schema if name.casefold() != unit.casefold()]

    def text(rows: Sequence[str]) -> str:
        mine, theirs = compared(column, here.schema), compared(key, there.schema)
        owners = f"(SELECT * FROM ({rows[1]}) WHERE {identifier(str(there.unit))} IS NOT NULL)"
        whose = compared(str(there.unit), there.schema)
        return reached_rows(names, unit, mine, theirs, whose, f"({rows[0]})", owners)

    whose = there.schema[str(there.unit)]
    of_unit = replace(whose, missing=False)
    return source_of(text, [here, there], {n: here.schema[n] for n in names} | {unit: of_unit}, resources)


def reached_rows(
    names: Sequence[str], unit: str, column: str, key: str, whose: str, rows: str, owners: str
) -> str:
    """Return rows of nobody with the units whose rows have the key that they name.

    Args:
        names: of the columns of rows that stay.
        unit: the name of the units' column here.
        column: SQL of the foreign key in a row, as it is compared.
        key, whose: SQL of the key and the unit of an owner's row, as they are compared.
        rows, owners: what stands behind FROM for them; no owner's row is of no unit.
    """
    columns = [f"part.{identifier(name)} AS c{i}" for i, name in enumerate(names)]
    mine = f"SELECT {', '.join([*columns, f'{column} AS k'])} FROM {rows} AS part"
    # A unit that has a key twice has the rows here once.
    keys = f"SELECT DISTINCT {key} AS k, {whose} AS u FROM {owners} AS part"
    kept = [f"l.c{i} AS {identifier(name)}" for i, name in enumerate(names)]
    kept.append(f"r.u AS {identifier(unit)}")
    return f"SELECT {', '.join(kept)} FROM ({mine}) AS l JOIN ({keys}) AS r ON (l.k = r.k)"


def united(left: Rows, right: Rows, resources: Resources) -> Source:
    """Return the rows of two tables with the same columns."""
    names = ", ".join(map(identifier, left.schema))
    schema = {
        name: replace(column, missing=column.missing or right.schema[name].missing)
        for name, column in left.schema.items()
    }
    return source_of(
        lambda rows: " UNION ALL ".join(f"SELECT {names} FROM ({one})" for one in rows),
        [left, right],
        schema,
        resources,
    )


def of_units(
    part: Rows,
    by: Sequence[str],
    aggregates: Mapping[str, tuple[UnitAggregate, Column]],
    resources: Resources,
) -> Source:
    """Return one row for each unit and values of `by`."""
    schema: Schema = {}
    values, outputs, unit = [], [], str(part.unit)
    for i, name in enumerate((unit, *by)):
        column = part.schema[name]
        values.append(f"{compared(name, part.schema)} AS k{i}")
        outputs.append(f"k{i} AS {identifier(name)}")
        schema[name] = column
    keys = ", ".join(f"k{i}" for i in range(len(outputs)))
    for i, (name, (aggregate, column)) in enumerate(aggregates.items()):
        values.append(f"({aggregate.value}) AS v{i}")
        outputs.append(f"{aggregate.sql(f'v{i}')} AS {identifier(name)}")
        schema[name] = column

    def text(rows: Sequence[str]) -> str:
        inner = f"SELECT {', '.join(values)} FROM ({rows[0]}) AS part WHERE {identifier(unit)} IS NOT NULL"
        return f"SELECT {', '.join(outputs)} FROM ({inner}) GROUP BY {keys}"

    return source_of(text, [part], schema, resources, (unit, *by))


def source_of(
    text: Callable[[Sequence[str]], str],
    parts: Sequence[Rows],
    schema: Schema,
    resources: Resources,
    unique: tuple[str, ...] = (),
    looked: Callable[[duckdb.DuckDBPyConnection, Sequence[str]], str] | None = None,
) -> Source:
    """Make a source of parts; `text` gives its SELECT, of the SELECT of each part.

    `looked` gives the same after a look at the rows in a session, for the same rows in less time.
    """
    copies = [None if part.source.anywhere else fresh_name() for part in parts]
    relation = text(
        [part.after(copy or part.source.relation) for part, copy in zip(parts, copies, strict=True)]
    )

    def relation_in(session: duckdb.DuckDBPyConnection) -> str:
        rows = [
            part.after(copy or part.source.relation_in(session))
            for part, copy in zip(parts, copies, strict=True)
        ]
        return f"({text(rows) if looked is None else looked(session, rows)})"

    def load(session: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> None:
        for part, copy in zip(parts, copies, strict=True):
            names = [name for name, _ in part.source.columns]
            if copy is None:
                part.source.load(session, names)
            elif not there_already(session, copy):
                _copy(part.source, session, copy, names)

    def again(columns: Sequence[str]) -> Source:
        bearing = [replace(part, source=_again(part.source)) for part in parts]
        return source_of(text, bearing, schema, resources, unique, looked)

    sources = [part.source for part in parts]
    return Source(
        " and ".join(dict.fromkeys(source.name for source in sources)),
        f"({relation})",
        [(name, column.type_name) for name, column in schema.items()],
        lender(resources=resources),
        frozenset(name for name, column in schema.items() if not column.missing),
        pending=load,
        again=again if any(source.again for source in sources) else None,
        files=tuple(dict.fromkeys(file for source in sources for file in source.files)),
        anywhere=True,
        unique=unique,
        looked=relation_in,
    )


def _again(source: Source) -> Source:
    return source if source.again is None else source.again([name for name, _ in source.columns])


def fresh_name() -> str:
    """Return a name that no table of this process has had."""
    return f"combined_{next(_numbers)}"


def there_already(session: duckdb.DuckDBPyConnection, copy: str) -> bool:
    """Whether a session has a table: one that a text reads several times is copied once."""
    found = session.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [copy]).fetchall()
    return bool(found)


def sent(name: str, kind: str) -> str:
    """Write a column, as a text where Arrow has no such type."""
    column = identifier(name)
    return f"CAST({column} AS VARCHAR) AS {column}" if kind in NOT_ARROW else column


def _copy(source: Source, session: duckdb.DuckDBPyConnection, copy: str, columns: Sequence[str]) -> None:
    """Copy the rows of a source, from where they are known, to a temporary table."""
    with in_own_words(), source.session() as there:
        source.load(there, columns)
        moved(there, f"SELECT * FROM {source.relation}", session, copy, source.columns)


def moved(
    there: duckdb.DuckDBPyConnection,
    query: str,
    session: duckdb.DuckDBPyConnection,
    copy: str,
    kinds: Sequence[tuple[str, str]],
) -> None:
    """Make what a query gives in one session a temporary table of another one."""
    named = ", ".join(sent(name, kind) for name, kind in kinds)
    batches = spill.keep(there.sql(f"SELECT {named} FROM ({query})").to_arrow_reader(1 << 16))
    typed = ", ".join(f"TRY_CAST({identifier(n)} AS {kind}) AS {identifier(n)}" for n, kind in kinds)
    with arriving(session, batches.schema, batches):
        session.execute(f"CREATE OR REPLACE TEMP TABLE {copy} AS SELECT {typed} FROM arriving")
