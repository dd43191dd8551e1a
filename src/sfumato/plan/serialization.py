"""Serialization of finished releases: pickled for another process, or kept in a ledger's journal.

Engines and ledgers stay behind; stand-ins repeat what they said of themselves. A release that was not drawn
is never serialized: drawn in two places, its noise would be two releases. What a journal keeps is JSON, with
NumPy arrays and Arrow streams, and nothing that could run; floats are exact."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from sfumato.budget import Loss
from sfumato.dataclass import dataclass
from sfumato.errors import RefusalError
from sfumato.plan.noisy_statistics import Cumulated, NoisyCdf, NoisyTree
from sfumato.plan.quantile_candidates import Places
from sfumato.query.schema import Step

if TYPE_CHECKING:
    from sfumato.noise import Words
    from sfumato.query.engine_protocol import Evaluator, ExactQuery


_COUNT = 8  # bytes, of how many rows there are where there are no columns
_GONE = "this is a copy from another process, which has only the numbers drawn there: {}"


@dataclass(frozen=True)
class DetachedEngine:
    """Serializable stand-in for an engine: it has the engine's name and content, and reads nothing.

    Args:
        name, made_up: as of an `Evaluator`.
        described: its content after the steps of the question.
    """

    name: str
    made_up: bool
    described: Mapping[str, Any]

    # Folders are nobody's business where the release goes.
    files: tuple[str, ...] = ()
    addresses: tuple[str, ...] | None = None

    @classmethod
    def from_engine(cls, engine: Evaluator, steps: Sequence[Step]) -> DetachedEngine:
        """Return the serializable stand-in for an engine in the release of a query with these steps."""
        return cls(engine.name, engine.made_up, engine.content(steps))

    def content(self, steps: Sequence[Step] = ()) -> dict[str, Any]:
        """Return the content of the engine that was serialized."""
        return dict(self.described)

    def statistics(self, query: ExactQuery, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Refuse: a serialized release has no rows."""
        raise RefusalError(_GONE.format("make a new release from the table"))


@dataclass(frozen=True)
class DetachedDiagnostics:
    """Serializable stand-in for diagnostics in a plan: their cost, description and subject."""

    epsilon: Fraction
    delta: Fraction
    loss: Loss
    described: Mapping[str, Any]
    drawn_parts: tuple[dict[str, Any], ...]

    def release(self, words: Words | None = None) -> NoReturn:
        """Refuse: a serialized plan has no rows."""
        raise RefusalError(_GONE.format("make new diagnostics from the table"))

    def content(self) -> dict[str, Any]:
        """Return the subject of the diagnostics that were serialized."""
        return dict(self.described)


@dataclass(frozen=True)
class DetachedComputation:
    """Serializable stand-in for the SQL around releases: its text and columns."""

    text: str
    schema: pa.Schema
    columns: tuple[tuple[str, str | None], ...] | None
    described: Mapping[str, Any]
    files: tuple[str, ...] = ()
    selects: bool = False
    linear: Any = None

    def content(self) -> dict[str, Any]:
        """Return the content of the SQL that was serialized."""
        return dict(self.described)

    def run(self, released: Sequence[Any]) -> NoReturn:
        """Refuse: SQL around a serialized release ran before."""
        raise RefusalError(_GONE.format("compute with the result of to_arrow()"))


def table_bytes(table: pa.Table | pa.RecordBatch) -> bytes:
    """Serialize a table: its rows alone, without the rest of the memory that they are a part of."""
    whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    if not whole.num_columns:
        return int(whole.num_rows).to_bytes(_COUNT, "big")
    # A part of an Arrow table keeps the memory of all of it, of which pickling writes all, and a stream some.
    whole = whole.take(pa.array(range(whole.num_rows), pa.int64()))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def batch_from_bytes(written: bytes) -> pa.RecordBatch:
    """Deserialize the rows of `table_bytes` into one batch."""
    if len(written) == _COUNT:
        rows = int.from_bytes(written, "big")
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["none"]).select([])
    found = table_from_bytes(written)
    batches = found.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=found.schema)


def table_from_bytes(written: bytes) -> pa.Table:
    """Deserialize the rows of `table_bytes`."""
    with pa.ipc.open_stream(written) as reader:
        return reader.read_all()


def deserialize_release(kind: type[Any], state: Mapping[str, Any]) -> Any:
    """Deserialize a finished release from the state of `NoisyTable._state`."""
    made: Any = object.__new__(kind)
    made._settle()  # its home is here
    made._set_state(state)
    return made


_KINDS: Mapping[str, Callable[..., Any]] = {
    one.__name__: one for one in (Cumulated, NoisyCdf, NoisyTree, Places)
}


def serialize(value: Any) -> bytes:
    """Serialize noisy statistics: plain data, arrays and tables, as JSON.

    Raises:
        TypeError: it is something else.

    >>> deserialize(serialize({"a": (1, 0.1, None), "b": np.array([1.5])}))
    {'a': (1, 0.1, None), 'b': array([1.5])}
    """
    return json.dumps(_written(value), allow_nan=False, separators=(",", ":")).encode()


def deserialize(data: bytes) -> Any:
    """Deserialize noisy statistics from the JSON of `serialize`.

    Raises:
        ValueError, KeyError, TypeError, pyarrow.ArrowException: it wrote something else.
    """
    return _read(json.loads(data))


def _written(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return {"float": float(value).hex()}
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case np.ndarray():
            written = io.BytesIO()
            np.save(written, value, allow_pickle=False)
            return {"array": base64.b64encode(written.getvalue()).decode()}
        case pa.RecordBatch() | pa.Table():
            name = "batch" if isinstance(value, pa.RecordBatch) else "table"
            return {name: base64.b64encode(table_bytes(value)).decode()}
        case Mapping():
            return {"map": [[key, _written(one)] for key, one in value.items()]}
        case tuple():
            return {"tuple": [_written(one) for one in value]}
        case list():
            return [_written(one) for one in value]
    name = type(value).__name__
    if _KINDS.get(name) is not type(value):
        raise TypeError(name)
    return {"kind": name, "fields": {f.name: _written(getattr(value, f.name)) for f in fields(value)}}


def _read(data: Any) -> Any:
    match data:
        case {"float": text}:
            return float.fromhex(text)
        case {"bytes": text}:
            return base64.b64decode(text)
        case {"array": text}:
            return np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
        case {"batch": text}:
            return batch_from_bytes(base64.b64decode(text))
        case {"table": text}:
            return table_from_bytes(base64.b64decode(text))
        case {"map": pairs}:
            return {key: _read(one) for key, one in pairs}
        case {"tuple": values}:
            return tuple(map(_read, values))
        case {"kind": name, "fields": given}:
            return _KINDS[name](**{key: _read(one) for key, one in given.items()})
        case list():
            return [_read(one) for one in data]
    return data
