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

from sfumato.query.noisy.choosing import Places
from sfumato.query.noisy.numbers import Cumulated
from sfumato.query.noisy.quantiles import NoisyTree
from sfumato.query.passed_on import one_batch, stream, table

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
            name = "batch" if isinstance(value, pa.RecordBatch) else "table"
            return {name: base64.b64encode(stream(value)).decode()}
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
        case {"batch": text}:
            return one_batch(base64.b64decode(text))
        case {"table": text}:
            return table(base64.b64decode(text))
        case {"map": pairs}:
            return {key: _read(one) for key, one in pairs}
        case {"tuple": values}:
            return tuple(map(_read, values))
        case {"kind": name, "fields": given}:
            return _KINDS[name](**{key: _read(one) for key, one in given.items()})
        case list():
            return [_read(one) for one in told]
    return told
