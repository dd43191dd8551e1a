"""The rows that a table's steps make, as tests compare them."""

import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sfumato.engines.question_check import PhysicalOrder, Units, list_private_tables, rearrange_rows
from sfumato.query.tables.table_part import Part


def table(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [() for _ in schema]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def bits(value: Any) -> Any:
    """Return a value such that two are equal if they are the same: 0.0 is not -0.0, and each NaN is itself."""
    if isinstance(value, dict):
        return tuple(map(bits, value.values()))
    return struct.pack("d", value).hex() if isinstance(value, float) else value


# Of units, by a hash: those whose rows are repeated in one table, so that it is larger than all others.
SOME, TIMES = Units(0x9E3779B97F4A7C15, "{} % 3 = 1"), 8


def rows_of(asked: Any, reordered: bool = True) -> Counter[tuple[Any, ...]]:
    """Return the rows of a `sf.Table` after all its steps, bit for bit, without those of no unit.

    They are evaluated in three physical orders, unless `reordered` is false: as rows are, shuffled with one thread,
    and with many where one table has more rows of some units. The rows of all others are the same.
    """
    part = asked._part
    found = _rows_of(part)
    if reordered:
        tables, salt = list_private_tables(part), len(found)
        shuffled = _rows_of(rearrange_rows(part, PhysicalOrder(salt, one_thread=True)))
        assert shuffled == found, "rows depend on where they lie"
        larger = PhysicalOrder(salt, False, tables[salt % len(tables)].engine, SOME, TIMES)
        assert _others(_rows_of(rearrange_rows(part, larger))) == _others(found), (
            "rows depend on where they lie"
        )
    rows: Counter[tuple[Any, ...]] = Counter()
    for row, n in found.items():
        rows[row[:-1]] += n
    return rows


def _others(rows: Counter[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
    return {row: n for row, n in rows.items() if not row[-1]}


def _rows_of(part: Part) -> Counter[tuple[Any, ...]]:
    """Return the rows of units, with a column more: whether the unit is among SOME."""
    made = part.engine.rows_after(part)
    some = SOME.hold(part.unit, part.schema)
    with made.source.session() as session:
        made.source.load(session, [name for name, _ in made.source.columns])
        kinds = session.execute(f"DESCRIBE SELECT * FROM {made.source.relation}").fetchall()
        # DuckDB keeps a column's own letters where a SELECT writes its name in others.
        columns = [(name.casefold(), kind) for name, kind in made.source.columns]
        assert [(name.casefold(), kind) for name, kind, *_ in kinds] == columns
        forms = {
            made.source.relation,
            made.source.relation_in(session),
        }  # the second as the engine reads them
        found, *looked = (
            [
                tuple(map(bits, row))
                for row in session.execute(f"SELECT *, {some} FROM ({made.after(form)}) AS made").fetchall()
            ]
            for form in forms
        )
    assert all(Counter(found) == Counter(other) for other in looked)
    place = list(part.schema).index(part.unit)
    return Counter(row for row in found if row[place] is not None)
