"""Public keys that a collection brings.

How many there are is not known before the pipeline runs, so the noise of each group is by itself. They are
public: an error about one may name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.utils.windowed_value import WindowedValue

from sfumato.engines.beam import plain
from sfumato.engines.beam.callables import attempted
from sfumato.engines.beam.rows import arrow_column, named_column
from sfumato.engines.beam.windows import Part, in_one_window
from sfumato.engines.duckdb.harmless import decoded, harmless
from sfumato.engines.duckdb.stages import as_stream
from sfumato.errors import QueryError, shown
from sfumato.query import sizes
from sfumato.query.engine import BroughtKeys

# In the place of a table's number.
KEYS = -1


class ReadKeys(beam.DoFn):  # type: ignore[misc]
    """Reads public keys: values, tuples of them, rows, or Arrow batches.

    Raises:
        QueryError: one is no key of these types; in the pipeline.
    """

    def __init__(self, keys: BroughtKeys) -> None:
        self._of, self._rows = keys.collection, keys.rows

    def start_bundle(self) -> None:
        """Begin with nothing."""
        self._waiting: list[tuple[Any, ...]] = []

    def process(self, element: Any) -> Iterable[WindowedValue]:
        """Take one, or a batch of them."""
        if isinstance(element, (pa.RecordBatch, pa.Table)):
            batches = element.to_batches() if isinstance(element, pa.Table) else [element]
            return [self._sent([self._column(batch, field) for field in self._rows]) for batch in batches]
        self._waiting.append(self._values(element))
        return [*self._gathered()] if len(self._waiting) >= sizes.BATCH_KEYS else ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Give what is left."""
        yield from self._gathered()

    def _gathered(self) -> Iterator[WindowedValue]:
        waiting, self._waiting = self._waiting, []
        if waiting:
            columns = zip(*waiting, strict=True)
            yield self._sent([self._read(c, f) for c, f in zip(columns, self._rows, strict=True)])

    def _values(self, element: Any) -> tuple[Any, ...]:
        """Return what one element has in each key column."""
        names = self._rows.names
        if isinstance(element, Mapping):
            found = tuple(element[name] for name in names if name in element)
        elif isinstance(element, beam.Row) or hasattr(type(element), "_fields"):
            found = tuple(getattr(element, name) for name in names if hasattr(element, name))
        else:
            found = element if type(element) is tuple else (element,)
        if len(found) != len(names):
            raise QueryError(
                f"group_by: the public keys of {self._of!r} hold {shown(element)}, but each must give one "
                f"value for each of {names}"
            )
        return found

    def _read(self, values: Sequence[Any], field: pa.Field) -> pa.Array:
        """Return values as a column, in which none is missing that was there."""
        column = harmless(plain.column(list(values), field.type))
        return self._checked(column, np.array([value is None for value in values]), field, values.__getitem__)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        given = named_column(batch, field.name)
        if given is None:
            raise QueryError(
                f"group_by: the public keys of {self._of!r} have no column {field.name!r}, but "
                f"{batch.schema.names}"
            )
        column = harmless(arrow_column(given, field.type, len(batch)))
        # Codes that stand for NULL are none themselves.
        nulls = pc.is_null(decoded(given) if pa.types.is_dictionary(given.type) else given)
        nulls = nulls.to_numpy(zero_copy_only=False)
        return self._checked(column, nulls, field, lambda i: attempted(None, given[i].as_py))

    def _checked(self, column: pa.Array, missing: np.ndarray, field: pa.Field, value: Any) -> pa.Array:
        lost = column.is_null().to_numpy(zero_copy_only=False) & ~missing
        if lost.any():
            found = shown(value(int(lost.argmax())))
            raise QueryError(
                f"group_by: the public keys of {self._of!r} hold {found}, which does not fit {field.name} "
                f"({field.type})"
            )
        return column

    def _sent(self, columns: Sequence[pa.Array]) -> WindowedValue:
        names = [f"k{i}" for i in range(len(columns))]
        return in_one_window((KEYS, as_stream([pa.RecordBatch.from_arrays(list(columns), names=names)])))

    def infer_output_type(self, input_type: Any) -> Any:
        """Return the type of parts."""
        return Part
