"""Noisy numbers as bytes, and back: of releases that a ledger's journal keeps, to be given again.

JSON, NumPy's arrays and Arrow's streams, and nothing that could run: who can write a ledger cannot have a
program that reads it do anything. Floats are exact.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.query.choosing import Places
from sfumato.query.numbers import Cumulated
from sfumato.query.quantiles import NoisyTree

_KINDS: Mapping[str, Callable[..., Any]] = {one.__name__: one for one in (Cumulated, NoisyTree, Places)}


def packed(value: Any) -> bytes:
    """Return plain data, arrays, tables and what noisy numbers are made of, as bytes.

    Raises:
        TypeError: it is something else.

    >>> unpacked(packed({"a": (1, 0.1, None), "b": np.array([1.5])}))
    {'a': (1, 0.1, None), 'b': array([1.5])}
    """
    return json.dumps(_written(value), allow_nan=False, separators=(",", ":")).encode()


def unpacked(data: bytes) -> Any:
    """Return what `packed` wrote.

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
            written = io.BytesIO()
            with pa.ipc.new_stream(written, value.schema) as stream:
                stream.write(value)
            name = "batch" if isinstance(value, pa.RecordBatch) else "table"
            return {name: base64.b64encode(written.getvalue()).decode(), "rows": value.num_rows}
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


def _read(told: Any) -> Any:
    match told:
        case {"float": text}:
            return float.fromhex(text)
        case {"bytes": text}:
            return base64.b64decode(text)
        case {"array": text}:
            return np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
        case {"batch": text, "rows": rows}:
            return _batch(base64.b64decode(text), rows)
        case {"table": text}:
            with pa.ipc.open_stream(base64.b64decode(text)) as reader:
                return reader.read_all()
        case {"map": pairs}:
            return {key: _read(one) for key, one in pairs}
        case {"tuple": values}:
            return tuple(map(_read, values))
        case {"kind": name, "fields": given}:
            return _KINDS[name](**{key: _read(one) for key, one in given.items()})
        case list():
            return [_read(one) for one in told]
    return told


def _batch(stream: bytes, rows: int) -> pa.RecordBatch:
    with pa.ipc.open_stream(stream) as reader:
        table = reader.read_all()
    if not table.num_columns:  # as of a question without groups: Arrow's streams drop how many rows there are
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], ["none"]).select([])
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
