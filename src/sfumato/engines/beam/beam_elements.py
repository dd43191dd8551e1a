"""Elements of any class to rows of declared columns, and public keys that a collection brings; in one window.

How many public keys there are is not known before the pipeline runs, so the noise of each group is by itself.
They are public: an error about one may name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sfumato.engines.beam import beam_rows
from sfumato.engines.beam.beam_rows import Columns, arrow_column, attempted, get_column, make_schema
from sfumato.engines.duckdb.sanitized_columns import decode_dictionary, sanitize
from sfumato.engines.duckdb.stages import as_stream
from sfumato.errors import ParameterError, QueryError, shown, with_article
from sfumato.query import sizes
from sfumato.query.engine_protocol import BroughtKeys

_WINDOWS = (GlobalWindow(),)

# A number, of a shard or of a table, and an Arrow stream.
Part = tuple[int, bytes]


def in_one_window(part: object) -> WindowedValue:
    """Put a Beam part, or a batch of rows, into the one global window.

    What a collection says of its windows may be of the first of several that were flattened alone.
    """
    return windowed_value.create(part, MIN_TIMESTAMP.micros, _WINDOWS)


def check_collection(rows: object) -> None:
    """Refuse a Beam collection with windows, a trigger or no end."""
    if not isinstance(rows, beam.PCollection):
        raise QueryError(
            f"Beam: a release needs one collection, but this is {with_article(type(rows).__name__)}"
        )
    # A trigger gives several panes: a second look at the same people, or at some of their rows alone.
    if not rows.windowing.is_default() or not rows.is_bounded:
        raise QueryError(
            "Beam: the collection has windows, a trigger or no end, but a unit's limits hold for a "
            "whole release. Put beam.WindowInto(beam.window.GlobalWindows()) before it, without a "
            "trigger or allowed lateness, and release one bounded collection"
        )


class ToRows(beam.PTransform[Any, Any]):  # type: ignore[misc]
    """Convert elements of any class to rows, for a question about declared columns.

    An element for which the function raises gives no rows, and the pipeline continues. Each element must
    belong to one privacy unit, and the function must depend on its element alone: a function that remembers
    elements breaks the guarantee.

    Args:
        columns: the columns that the question declares, with their Arrow types.
        function: a function from an element to a row, as a dictionary by column name, or to a list or an
            iterator of rows.
    Raises:
        ParameterError: `columns` is not an Arrow schema, or `function` is not a function.
        EngineError: the type of a column is not supported.
        QueryError: the collection has windows, a trigger or no end.

    >>> import apache_beam as beam, pyarrow as pa, sfumato as sf
    >>> columns = pa.schema([("id", pa.string()), ("place", pa.string())])
    >>> by_place = sf.scan(columns, privacy_unit="id").group_by("place", keys=["pool"]).bound(groups=1)
    >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
    ...     visits = pipeline | beam.Create([("ann", "pool"), ("bob", "library"), None])
    ...     rows = visits | ToRows(columns, lambda visit: {"id": visit[0], "place": visit[1]})
    ...     released = rows | by_place.agg(people=sf.count_units()).release(epsilon=1)
    ...     _ = released | beam.Map(lambda row: row["place"]) | beam.Map(print)
    pool
    """

    def __init__(self, columns: pa.Schema, function: Callable[[Any], Any]) -> None:
        super().__init__()
        if not isinstance(columns, pa.Schema):
            raise ParameterError("columns", type(columns).__name__, "an Arrow schema")
        if not callable(function):
            raise ParameterError("function", function, "a function of one element")
        self._read = ReadElements(Columns(make_schema(columns)), function)

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[pa.RecordBatch]:
        """Return the rows, in Arrow batches; Beam calls it for `|`.

        Args:
            elements: the collection.
        Returns:
            A collection of Arrow batches.
        Raises:
            QueryError: the argument is not a collection.

        >>> import pyarrow as pa
        >>> ToRows(pa.schema([("id", pa.int64())]), dict).expand([{"id": 1}])
        Traceback (most recent call last):
        sfumato.errors.QueryError: ...
        """
        check_collection(elements)
        return elements | beam.ParDo(self._read).with_output_types(pa.RecordBatch)


class ReadElements(beam.DoFn):  # type: ignore[misc]
    """Makes rows of a collection's elements, in batches."""

    def __init__(self, columns: Columns, function: Callable[[Any], Any]) -> None:
        self._columns, self._function = columns, function

    def start_bundle(self) -> None:
        """Begin a bundle of elements without rows."""
        self._rows: list[Any] = []

    def process(self, element: Any) -> Iterable[WindowedValue]:
        """Make rows of one element of a collection."""
        self._rows += attempted([], self._read_rows, element)
        return [*self._batches()] if len(self._rows) >= sizes.READ_ROWS else ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yield the rows that a bundle of elements leaves."""
        yield from self._batches()

    def _read_rows(self, element: Any) -> list[Any]:
        made = self._function(element)
        return [*made] if isinstance(made, (list, Iterator)) else [made]

    def _batches(self) -> Iterator[WindowedValue]:
        rows, self._rows = self._rows, []
        yield from map(in_one_window, self._columns.batch_rows(rows) if rows else ())


def origins(rows: beam.PCollection[Any]) -> Iterator[beam.PCollection[Any]]:
    """Yield a collection of rows, and the collections of elements that `ToRows` made them from."""
    yield rows
    made_by = rows.producer
    reads = isinstance(getattr(made_by.transform, "fn", None), ReadElements)
    if reads or isinstance(made_by.transform, beam.Flatten):
        for collection in made_by.main_inputs.values():
            yield from origins(collection)


# In the place of a table's number.
KEYS = -1


class ReadKeys(beam.DoFn):  # type: ignore[misc]
    """Reads public keys that a Beam collection brings: values, tuples, rows or Arrow batches.

    Raises:
        QueryError: one is no key of these types; in the pipeline.
    """

    def __init__(self, keys: BroughtKeys) -> None:
        self._of, self._rows = keys.collection, keys.rows

    def start_bundle(self) -> None:
        """Begin a bundle of public keys."""
        self._waiting: list[tuple[Any, ...]] = []

    def process(self, element: Any) -> Iterable[WindowedValue]:
        """Take one public key, or a batch of them."""
        if isinstance(element, (pa.RecordBatch, pa.Table)):
            batches = element.to_batches() if isinstance(element, pa.Table) else [element]
            return [self._sent([self._column(batch, field) for field in self._rows]) for batch in batches]
        self._waiting.append(self._values(element))
        return [*self._gather()] if len(self._waiting) >= sizes.BATCH_KEYS else ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Yield the public keys that a bundle leaves."""
        yield from self._gather()

    def _gather(self) -> Iterator[WindowedValue]:
        waiting, self._waiting = self._waiting, []
        if waiting:
            columns = zip(*waiting, strict=True)
            yield self._sent([self._read(c, f) for c, f in zip(columns, self._rows, strict=True)])

    def _values(self, element: Any) -> tuple[Any, ...]:
        """Return the values of one public key in each key column."""
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
        """Return public keys as a column, or refuse a value that does not fit."""
        column = sanitize(beam_rows.column_of_values(list(values), field.type))
        return self._check(column, np.array([value is None for value in values]), field, values.__getitem__)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        given = get_column(batch, field.name)
        if given is None:
            raise QueryError(
                f"group_by: the public keys of {self._of!r} have no column {field.name!r}. They "
                f"have {batch.schema.names}"
            )
        column = sanitize(arrow_column(given, field.type, len(batch)))
        # Codes that stand for NULL are none themselves.
        nulls = pc.is_null(decode_dictionary(given) if pa.types.is_dictionary(given.type) else given)
        nulls = nulls.to_numpy(zero_copy_only=False)
        return self._check(column, nulls, field, lambda i: attempted(None, given[i].as_py))

    def _check(self, column: pa.Array, missing: np.ndarray, field: pa.Field, value: Any) -> pa.Array:
        lost = column.is_null().to_numpy(zero_copy_only=False) & ~missing
        if lost.any():
            found = shown(value(int(lost.argmax())))
            raise QueryError(
                f"group_by: the public keys of {self._of!r} include {found}, which does not fit "
                f"{field.name} ({field.type})"
            )
        return column

    def _sent(self, columns: Sequence[pa.Array]) -> WindowedValue:
        names = [f"k{i}" for i in range(len(columns))]
        return in_one_window((KEYS, as_stream([pa.RecordBatch.from_arrays(list(columns), names=names)])))

    def infer_output_type(self, input_type: Any) -> Any:
        """Return the Beam type of public keys' parts."""
        return Part
