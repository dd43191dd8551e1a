"""Elements of a collection to Arrow batches of declared columns.

No element raises: what does not fit its column's declared type is NULL, whatever the other elements hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Columns:
    """Puts rows into the columns that were declared for them.

    Args:
        schema: names and Arrow types. A row that lacks a value where `nullable` is False is dropped.
    """

    schema: pa.Schema

    def of_rows(self, rows: Sequence[Any]) -> pa.RecordBatch:
        """Return a batch of dictionaries, named tuples or Beam rows; what is none of them has no values."""
        return self._batch([_column(_values(rows, f.name), f.type) for f in self.schema])

    def of_arrow(self, arriving: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the declared columns of a batch or table; columns are found by name."""
        batches = arriving.to_batches() if isinstance(arriving, pa.Table) else [arriving]
        for batch in batches:
            yield self._batch([_arrow_column(batch, field) for field in self.schema])

    def _batch(self, columns: list[pa.Array]) -> pa.RecordBatch:
        batch = pa.RecordBatch.from_arrays(columns, names=self.schema.names)
        required = [
            c.is_valid() for c, f in zip(columns, self.schema, strict=True) if not f.nullable and c.null_count
        ]
        kept = batch.filter(reduce(pc.and_, required)) if required else batch
        return pa.RecordBatch.from_arrays(kept.columns, schema=self.schema)


def _values(rows: Sequence[Any], name: str) -> list[Any]:
    """Return what each row has under a name, or None."""
    for read in (itemgetter(name), attrgetter(name), lambda row: _value(row, name)):
        try:
            return list(map(read, rows))
        except Exception:  # of a row that is of another kind, or lacks the name
            continue
    return [None] * len(rows)


def _value(row: Any, name: str) -> Any:
    try:
        return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)
    except Exception:  # of a property
        return None


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        if not pa.types.is_integer(kind):
            return pa.array(values, kind)
        # Asked for integers, Arrow cuts 1.5 to 1.
        found = pa.array(values)
        if pa.types.is_integer(found.type) or pa.types.is_null(found.type):
            return found.cast(kind)
    except Exception:  # of a value that does not fit
        pass
    return _one_by_one((_fitted(value, kind) for value in values), kind)


def _one_by_one(columns: Iterable[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([pa.nulls(0, kind), *columns])


def _fitted(value: Any, kind: pa.DataType) -> pa.Array:
    """Return one value in a column of its own, NULL if it does not fit."""
    try:
        plain = value.item() if isinstance(value, np.generic) else value
        if pa.types.is_integer(kind) and plain is not None:
            plain = _whole(plain)
        elif pa.types.is_floating(kind) and isinstance(plain, (int, Decimal, Fraction)):
            plain = float(plain)
        return pa.array([plain], kind)
    except Exception:  # of this value
        return pa.nulls(1, kind)


def _whole(value: Any) -> int:
    if isinstance(value, (bool, str)) or value != int(value):
        raise ValueError
    return int(value)


def _arrow_column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """Return a column of a batch in the declared type; NULL where its name is missing, or there twice."""
    if batch.schema.get_field_index(field.name) < 0:
        return pa.nulls(batch.num_rows, field.type)
    given = batch.column(field.name)
    try:
        return _cast(given, field.type)
    except Exception:  # of a value that does not fit, or of text that is none
        single = (given.slice(i, 1) for i in range(len(given)))
        return _one_by_one((_fitted_slice(value, field.type) for value in single), field.type)


def _fitted_slice(value: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return _cast(value, kind)
    except Exception:  # of this value
        return pa.nulls(1, kind)


def _cast(given: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in the declared type; of another kind, as values of rows are: a text is no number."""
    if pa.types.is_dictionary(given.type) and given.type != kind:
        given = given.dictionary_decode()
    if given.type == kind:
        column = given
    elif any(alike(given.type) and alike(kind) for alike in _ALIKE):
        column = given.cast(kind)
    else:
        column = _column(given.to_pylist(), kind)
    if any(kind_of(column.type) for kind_of in _TEXTS):
        column.validate(full=True)  # bytes that are no text
    return column


_TEXTS = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
_ALIKE: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    lambda kind: any(kind_of(kind) for kind_of in _TEXTS),
)
