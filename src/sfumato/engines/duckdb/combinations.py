"""Tables that are made of tables, of whatever kind, as one source; and rows of two tables side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import duckdb

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.combined_rows import (
    Rows,
    make_source,
    met,
    per_unit_source,
    reached,
    union_tables,
)
from sfumato.engines.duckdb.expressions.texts import MAX_HELD
from sfumato.engines.duckdb.ordering import comparable_sql, first_rows, order_by_hash, row_identity
from sfumato.engines.duckdb.resources import Resources
from sfumato.engines.duckdb.row_steps import MAX_STEPS, Size, Taken, make_column
from sfumato.engines.duckdb.shaped import (
    add_window_columns,
    compute_public_source,
    looked_up,
    select_columns,
    with_value,
)
from sfumato.engines.duckdb.source import Source
from sfumato.engines.duckdb.unit_aggregates import unit_aggregate
from sfumato.errors import QueryError
from sfumato.query import sizes
from sfumato.query.schema import Schema
from sfumato.query.tables.combined_tables import Combination, Join, PerUnit, Reached, Union, private_parts
from sfumato.query.tables.shaped_tables import Computed, IsIn, Select, Window, WithValue
from sfumato.query.tables.table_part import Part
from sfumato.sql_text import identifier, same_name

_COMBINED, _SELECTED = 5, 2  # steps that a join, a union or per_unit counts for, and a SELECT
# Steps that a privacy unit of several columns counts for.
COMPOSED = _COMBINED


def combination(how: Combination, rows: Callable[[Part, str], Rows], resources: Resources) -> Source:
    """Return the source of a combination of tables: a join, union, window, selection or one row per unit.

    Args:
        how: what it is made of, and how.
        rows: gives the rows of a part; the text says, for an error, where it stands.
        resources: what DuckDB may take of the machine.
    """
    match how:
        case Join():
            return join_tables(how, rows(how.left, "join"), rows(how.right, "join"), resources)
        case Union():
            return union_tables(rows(how.left, "union"), rows(how.right, "union"), resources)
        case PerUnit(part=part):
            found = {name: unit_aggregate(name, text, part.schema) for name, text in how.aggregates}
            columns = {name: (one, make_column(one.type_name, one.missing)) for name, one in found.items()}
            return per_unit_source(rows(part, "per_unit"), how.by, columns, resources)
        case Reached():
            parts = rows(how.part, "foreign_keys"), rows(how.owners, "foreign_keys")
            return reached(how, *parts, resources)
        case Select(part=part):
            return select_columns(how, rows(part, "SELECT"), resources)
        case IsIn():
            return looked_up(how, rows(how.part, "IN"), rows(how.other, "IN"), resources)
        case WithValue():
            return with_value(how, rows(how.part, "SELECT"), rows(how.other, "SELECT"), resources)
        case Window(part=part):
            return add_window_columns(how, rows(part, "OVER"), resources, make_column)
        case Computed():
            named = {name: rows(part, "SELECT") for name, part in how.parts}
            return compute_public_source(how.sql, named, resources)


def count_taken_limits(how: Combination, taken: Callable[[Part], Taken | None]) -> Taken:
    """Return how much of a query's limits on steps and texts the parts of a combination take.

    A condition may be moved into a part, with its derived columns written out; not below an aggregate.

    Args:
        how: what it is made of, and how.
        taken: what a part takes; None of what is refused where rows are asked of it.
    """
    sizes: dict[str, Size] = {}
    held, steps = 0, _SELECTED if isinstance(how, Select) else _COMBINED
    for part, kept in how.kept:
        one = taken(part)
        if one is None:
            continue
        sizes |= {same_name(new): one.sizes[same_name(n)] for n, new in kept if same_name(n) in one.sizes}
        held += one.held
        steps += one.steps
    if steps > MAX_STEPS or held > MAX_HELD:
        raise QueryError(
            f"the question has more than {MAX_STEPS // _COMBINED} joins, unions and per_unit (in "
            "SQL also windows, DISTINCT and IN), or as many filters, derived columns and SELECTs. "
            "Save a part of it to a file first"
        )
    return Taken(sizes, held, steps)


SIDES = ("left_rows", "right_rows")


def name_join_sides(left: Rows, right: Rows, sides: Sequence[str]) -> str:
    """Return table expressions of the two sides of a join, given their SELECTs with keys k0, k1, ..."""
    # What is made of tables is made once; of files only what is read is read again.
    return ", ".join(
        f"{name} AS {'' if is_costly(side) else 'NOT '}MATERIALIZED ({text})"
        for name, side, text in zip(SIDES, (left, right), sides, strict=True)
    )


def is_costly(side: Rows) -> bool:
    """Whether a side of a join is itself made of tables, so that it is costly to read twice."""
    return side.source.looked is not None


@dataclass(frozen=True)
class UnitLimit:
    """The limit on joined rows of one unit, in a join of two private tables.

    Args:
        how: the join.
        left, right: its tables.
        keys: the columns of each that are compared.
    """

    how: Join
    left: Rows
    right: Rows
    keys: Sequence[Sequence[str]]

    def kept(self) -> str:
        """Return a SELECT of the left rows that a join keeps within the unit's limit."""
        keys = [f"k{i}" for i in range(len(self.keys[0]))]
        named = {f"c{i}": column for i, column in enumerate(self.left.schema.values())}
        order = order_by_hash(row_identity(named))
        same = " AND ".join(f"left_rows.{key} = met.{key}" for key in keys)
        alone = 1 if self.how.how == "left" else 0  # rows that one makes that meets none
        met = f"least(count(*), {self.how.rows}) AS made"
        return (
            f"WITH {self._wide()}, "
            f"met AS (SELECT {', '.join(keys)}, {met} FROM right_rows "
            f"SEMI JOIN wide ON (right_rows.{self._unit} = wide.unit) GROUP BY {', '.join(keys)}), "
            f"sized AS (SELECT left_rows.*, coalesce(met.made, {alone}) AS made, wide.most AS most "
            f"FROM left_rows JOIN wide ON (left_rows.{self._unit} = wide.unit) LEFT JOIN met ON ({same})) "
            f"SELECT * FROM left_rows ANTI JOIN wide ON (left_rows.{self._unit} = wide.unit) "
            f"UNION ALL SELECT * EXCLUDE (made, most) FROM sized "
            f"QUALIFY sum(made) OVER (PARTITION BY {self._unit} {order} "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) <= most"
        )

    def check_limit_sql(self) -> str:
        """Return SQL that finds whether any unit may reach its limit of joined rows."""
        if is_costly(self.left):  # to count its rows would be to make them twice
            counted = f"SELECT 1 FROM right_rows GROUP BY {self._unit} HAVING count(*) > 1"
            return f"wide AS ({counted}) SELECT 1 FROM wide"
        return f"{self._wide(self._busy())} SELECT 1 FROM wide"

    @property
    def _unit(self) -> str:
        """The join key that is the privacy unit, on both sides."""
        return f"k{self.keys[1].index(str(self.right.unit))}"

    def _wide(self, busy: str = "") -> str:
        """Return the table expression `wide`: units that may exceed the limit on joined rows.

        Behind `busy`, which has buckets of units, only of these.
        """
        sides = []
        for table, name in (("left_rows", "l"), ("right_rows", "r")):
            source = f"{table} SEMI JOIN busy ON ({self._bucket} = busy.b)" if busy else table
            sides.append(
                f"(SELECT {self._unit} AS unit, count(*) AS {name}_n FROM {source} "
                f"GROUP BY {self._unit}) AS {name}"
            )
        most = f"greatest({self.how.unit_rows}, l.l_n, r.r_n) AS most"
        return (
            f"{busy}wide AS (SELECT l.unit, {most} FROM {sides[0]} JOIN {sides[1]} ON (l.unit = r.unit) "
            f"WHERE {self._made})"
        )

    @property
    def _made(self) -> str:
        """SQL condition that joined rows of two counts may exceed the unit's limit."""
        return f"l.l_n::HUGEINT * least(r.r_n, {self.how.rows}) > {self.how.unit_rows}"

    @property
    def _bucket(self) -> str:
        return f"hash({self._unit}) & {sizes.COUNTED_BUCKETS - 1}::UBIGINT"

    def _busy(self) -> str:
        """Return table expressions with buckets of units that may exceed the limit on joined rows.

        It takes less than to count each unit's rows, where a bucket has few; nothing where it would not.
        """
        counts = [side.source.rows for side in (self.left, self.right)]
        known = [count for count in counts if count is not None and count >= sizes.COUNTED_ROWS]
        each = [count // sizes.COUNTED_BUCKETS + 1 for count in known]
        if len(known) < 2 or 4 * each[0] * each[1] > self.how.unit_rows:
            return ""
        sides = [
            f"(SELECT {self._bucket} AS b, count(*) AS {name}_n FROM {table} GROUP BY b) AS {name}"
            for table, name in (("left_rows", "l"), ("right_rows", "r"))
        ]
        return f"busy AS (SELECT l.b FROM {sides[0]} JOIN {sides[1]} ON (l.b = r.b) WHERE {self._made}), "


def join_tables(how: Join, left: Rows, right: Rows, resources: Resources) -> Source:
    """Return the source of a join of two tables."""
    brought, compared = how.brought, {other for _, other in how.on}
    alone = bool(right.unique) and set(right.unique) <= compared
    most = None if right.unit is None or alone else how.rows

    keys = [[pair[i] for pair in how.on] for i in (0, 1)]

    limit = None if most is None else UnitLimit(how, left, right, keys)

    def text(rows: Sequence[str], most: int | None = most, limit: UnitLimit | None = limit) -> str:
        sides = [_select_join_side(rows[0], left, keys[0]), _select_join_side(rows[1], right, keys[1])]
        tables = ""
        if most is not None or limit is not None:
            # Named, so that a text of joins in joins has each table once.
            tables, sides = f"WITH {name_join_sides(left, right, sides)} ", [f"FROM {name}" for name in SIDES]
        if limit is not None:
            sides[0] = limit.kept()
        if most is not None:
            sides[1] = _limit_side(sides[1], right, keys[1], most)
        columns = [f"l.c{i} AS {identifier(name)}" for i, name in enumerate(left.schema)]
        columns += [
            f"r.c{i} AS {identifier(brought[name])}" for i, name in enumerate(right.schema) if name in brought
        ]
        equal = " AND ".join(f"l.k{i} = r.k{i}" for i in range(len(how.on)))
        kind = "LEFT JOIN" if how.how == "left" else "JOIN"
        joined = f"FROM ({sides[0]}) AS l {kind} ({sides[1]}) AS r ON ({equal})"
        return f"{tables}SELECT {', '.join(columns)} {joined}"

    def looked(session: duckdb.DuckDBPyConnection, rows: Sequence[str]) -> str:
        if most is None or limit is None:
            return text(rows)
        sides = [_select_join_side(rows[0], left, keys[0]), _select_join_side(rows[1], right, keys[1])]
        tables = name_join_sides(left, right, sides)
        over = _over(f"FROM {SIDES[1]}", right, keys[1], most)
        found = [
            bool(session.execute(f"WITH {tables}, {look} LIMIT 1").fetchall())
            for look in (f"{over} SELECT 1 FROM over", limit.check_limit_sql())
        ]
        return text(rows, most if found[0] else None, limit if found[1] else None)

    lost = how.how == "left"
    here, there = (left.schema, right.schema) if lost else map(met, (left.schema, right.schema), keys)
    schema = here | {
        name: replace(there[old], missing=lost or there[old].missing) for old, name in brought.items()
    }
    # A row that meets one at most stays one row.
    unique = left.unique if alone else ()
    return make_source(text, [left, right], schema, resources, unique, looked)


def _select_join_side(rows: str, side: Rows, keys: Sequence[str]) -> str:
    """Return the SELECT of one side of a join: its columns and keys."""
    columns = [f"part.{identifier(name)} AS c{i}" for i, name in enumerate(side.schema)]
    columns += [f"{comparable_sql(name, side.schema)} AS k{i}" for i, name in enumerate(keys)]
    return f"SELECT {', '.join(columns)} FROM ({rows}) AS part"


def _over(text: str, side: Rows, keys: Sequence[str], limit: int) -> str:
    """Return table expressions with join keys that a unit has more rows of than the join limit.

    Units with that many are looked for first, as there are fewer units than keys.
    """
    key = ", ".join(f"k{i}" for i in range(len(keys)))
    whose = f"k{keys.index(str(side.unit))}"
    counted, heavy = "side", ""
    if (buckets := _buckets(side.source.rows, limit)) is not None:
        bucket = f"hash({whose}) & {buckets - 1}::UBIGINT"
        heavy = f"heavy AS (SELECT {bucket} AS b FROM side GROUP BY b HAVING count(*) > {limit}), "
        counted = f"(SELECT {whose} FROM side SEMI JOIN heavy ON ({bucket} = heavy.b))"
    many = f"SELECT {whose} FROM {counted} GROUP BY {whose} HAVING count(*) > {limit}"
    over = f"SELECT {key} FROM side SEMI JOIN many USING ({whose}) GROUP BY {key} HAVING count(*) > {limit}"
    # Not materialized: of most columns nothing is read then, but of units with too many rows, who are few.
    return f"side AS NOT MATERIALIZED ({text}), {heavy}many AS ({many}), over AS ({over})"


def _limit_side(text: str, side: Rows, keys: Sequence[str], limit: int) -> str:
    """Return one side of a join with at most the limit of rows for each unit and key.

    So a row of the other side meets no more, and a join makes at most so many rows of each. Which are kept
    depends on the rows themselves, not on where they stand.
    """
    key = ", ".join(f"k{i}" for i in range(len(keys)))
    named = {f"c{i}": column for i, column in enumerate(side.schema.values())}
    order = order_by_hash(row_identity(named))
    same = " AND ".join(f"side.k{i} = over.k{i}" for i in range(len(keys)))
    # They lose their key, so that they match nothing: of rows left out DuckDB would expect so many that it
    # joined in a bad order.
    kept = "* REPLACE (CASE WHEN over.k0 IS NULL THEN side.k0 END AS k0)"
    return (
        f"WITH {_over(text, side, keys, limit)} "
        f"SELECT side.{kept} FROM side LEFT JOIN over ON ({same}) "
        f"UNION ALL SELECT * FROM side SEMI JOIN over USING ({key}) "
        f"{first_rows(key, limit, order)}"
    )


def _buckets(rows: int | None, limit: int) -> int | None:
    """Return into how many buckets units are counted for a join limit; None where each is counted.

    Rows are as many in a bucket as half of what one unit may have, so that few buckets have more. It takes
    half the time, as there are fewer buckets than units; what is found is the same, whatever rows there are.
    """
    if rows is None or rows < sizes.COUNTED_ROWS or rows // limit > sizes.COUNTED_BUCKETS:
        return None
    return 1 << max(2 * rows // limit, 1).bit_length()


# Gives how many rows of a public table have the same values in some columns, at most.
Alike = Callable[[Part, Sequence[str]], int]


def check_joined_rows(how: Combination | Reached | None, counted: Alike, alike: Alike) -> None:
    """Refuse joins with public tables that could make more rows of one row than the join limit.

    Args:
        how: of which tables rows are made; None of a table that is not made of others.
        counted: gives a bound for which no row is read: how many rows the table has. In most questions it
            is enough.
        alike: gives what is true.
    Raises:
        QueryError: a join could make too many.
    """
    with suppress(QueryError):
        _rows_of_one(how, counted)
        return
    _rows_of_one(how, alike)


def _rows_of_one(how: Combination | Reached | None, alike: Alike) -> int:
    """Return how many joined rows one row can become at most, over a chain of joins.

    A join of private tables makes no more of a unit's rows than its own limit, and is not counted.
    """
    if how is None:
        return 1
    hows = (getattr(getattr(part.engine, "origin", None), "how", None) for part in private_parts(how))
    before = max((_rows_of_one(one, alike) for one in hows), default=1)
    if isinstance(how, PerUnit) and not how.by:
        return 1
    if not isinstance(how, Join) or how.right.unit is not None:
        return before
    columns = [other for _, other in how.on]
    times = max(alike(how.right, columns), 1)
    if before * times > how.unit_rows:
        made, same = f"{before * times:,}", " and ".join(columns)
        chain = f", and joins before it make {before:,} of one" if before > 1 else ""
        raise QueryError(
            f"join: one row could become {made} rows, but the limit is {how.unit_rows:,}, as the "
            f"public table has up to {times:,} rows with the same {same}{chain}. Join on more "
            "columns, or raise the limit with unit_rows= of join, in SQL max_joined_rows"
        )
    return before * times


def max_equal_rows(
    session: duckdb.DuckDBPyConnection, rows: str, columns: Sequence[str], schema: Schema
) -> int:
    """Return how many rows share their values in the join columns at most; NULL equals nothing.

    Args:
        session: in which the rows are.
        rows: a SELECT of them.
        columns, schema: those that are compared, and all.
    """
    keys = [comparable_sql(name, schema) for name in columns]
    there = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in columns)
    groups = f"SELECT count(*) AS n FROM ({rows}) AS part WHERE {there} GROUP BY {', '.join(keys)}"
    found = session.execute(f"SELECT max(n) FROM ({groups})").fetchone()
    return 0 if found is None or found[0] is None else int(found[0])
