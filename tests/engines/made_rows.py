"""The rows that a table's steps make, as tests compare them."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def table(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [() for _ in schema]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def bits(value: Any) -> Any:
    """Return a value such that two are equal if they are the same: 0.0 is not -0.0, and each NaN is itself."""
    if isinstance(value, dict):
        return tuple(map(bits, value.values()))
    return struct.pack("d", value).hex() if isinstance(value, float) else value


def rows_of(asked: Any) -> Counter[tuple[Any, ...]]:
    """Return the rows of a `sf.Table` after all its steps, bit for bit, without those of no unit."""
    made = asked.engine.rows_after(asked._part)
    with made.source.session() as session:
        made.source.load(session, [name for name, _ in made.source.columns])
        kinds = session.execute(f"DESCRIBE SELECT * FROM {made.source.relation}").fetchall()
        assert [(name, kind) for name, kind, *_ in kinds] == list(made.source.columns)
        forms = {
            made.source.relation,
            made.source.relation_in(session),
        }  # the second as the engine reads them
        found, *looked = (
            [tuple(map(bits, row)) for row in session.execute(made.after(form)).fetchall()] for form in forms
        )
    assert all(Counter(found) == Counter(other) for other in looked)
    place = list(asked.schema).index(asked.unit)
    return Counter(row for row in found if row[place] is not None)
