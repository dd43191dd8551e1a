"""Elements of any class to rows of declared columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue

from sfumato.engines.beam.callables import attempted
from sfumato.engines.beam.rows import Columns, declared
from sfumato.engines.beam.windows import check_collection, in_one_window
from sfumato.errors import ParameterError
from sfumato.query import sizes


class ToRows(beam.PTransform[Any, Any]):  # type: ignore[misc]
    """Make rows of elements of any class, for a question about declared columns.

    An element on which the function raises has no rows, and fails no pipeline. Each element must belong to
    one privacy unit, and the function must depend on its element alone: a function that remembers elements
    undoes the guarantee.

    Args:
        columns: those that the question declares, with their Arrow types.
        function: of an element; it returns a row, as a dictionary with the columns' names, or a list or an
            iterator of rows.
    Raises:
        ParameterError: columns is no Arrow schema, or function is no function.
        EngineError: a column is of a type that cannot be read.
        QueryError: it is applied to a collection that has windows, a trigger or no end.

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
        self._read = ReadElements(Columns(declared(columns)), function)

    def expand(self, elements: beam.PCollection[Any]) -> beam.PCollection[pa.RecordBatch]:
        """Return the rows, in Arrow batches; Beam calls it for `|`.

        Args:
            elements: the collection.
        Raises:
            QueryError: it is no collection.

        >>> import pyarrow as pa
        >>> ToRows(pa.schema([("id", pa.int64())]), dict).expand([{"id": 1}])
        Traceback (most recent call last):
        sfumato.errors.QueryError: ...
        """
        check_collection(elements)
        return elements | beam.ParDo(self._read).with_output_types(pa.RecordBatch)


class ReadElements(beam.DoFn):  # type: ignore[misc]
    """Makes rows of elements, and batches of rows."""

    def __init__(self, columns: Columns, function: Callable[[Any], Any]) -> None:
        self._columns, self._function = columns, function

    def start_bundle(self) -> None:
        """Begin with nothing."""
        self._rows: list[Any] = []

    def process(self, element: Any) -> Iterable[WindowedValue]:
        """Take an element."""
        self._rows += attempted([], self._rows_of, element)
        return [*self._batches()] if len(self._rows) >= sizes.READ_ROWS else ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        """Give the rows that are left."""
        yield from self._batches()

    def _rows_of(self, element: Any) -> list[Any]:
        made = self._function(element)
        return [*made] if isinstance(made, (list, Iterator)) else [made]

    def _batches(self) -> Iterator[WindowedValue]:
        rows, self._rows = self._rows, []
        yield from map(in_one_window, self._columns.of_rows(rows) if rows else ())


def origins(rows: beam.PCollection[Any]) -> Iterator[beam.PCollection[Any]]:
    """Yield a collection of rows, and those of the elements that `ToRows` made them of."""
    yield rows
    made_by = rows.producer
    reads = isinstance(getattr(made_by.transform, "fn", None), ReadElements)
    if reads or isinstance(made_by.transform, beam.Flatten):
        for collection in made_by.main_inputs.values():
            yield from origins(collection)
