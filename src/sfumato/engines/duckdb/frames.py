"""A pandas frame as an Arrow table, column by column: what a column becomes follows from its dtype alone."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.errors import EngineError

# Objects whose text DuckDB reads as what they are.
_TEXTUAL = (
    *(int, float, bool, decimal.Decimal, uuid.UUID),
    *(datetime.date, datetime.datetime, datetime.time, np.integer, np.floating, np.bool_, np.datetime64),
)


def of_pandas(frame: Any, names: Sequence[str]) -> tuple[pa.Table, list[str]]:
    """Return the frame's rows and the names of the columns that are text for want of a type.

    Such are columns of dtype object (and categories of objects): each value by itself is text, NULL where
    it is missing, the text of a number, a truth value, a date or a time, and NULL where it is anything else.

    Raises:
        EngineError: a column is of a type that Arrow lacks.
    """
    columns, texts = [], []
    for i, name in enumerate(names):
        column = frame.iloc[:, i]
        if _of_objects(column.dtype):
            columns.append(_texts(column))
            texts.append(name)
        elif _is_string(column.dtype):
            columns.append(_strings(column))
        else:
            columns.append(_typed(name, column))
    return pa.table(columns, names=list(names)), texts


def _typed(name: str, column: Any) -> pa.Array:
    with suppress(Exception):
        return pa.array(column, from_pandas=True)
    raise EngineError(
        f"scan: the column {name!r} of the pandas frame ({column.dtype}) is of a type that Arrow lacks; make "
        "it numbers, text or dates, or drop it"
    )


def _of_objects(dtype: Any) -> bool:
    categories = getattr(dtype, "categories", None)
    inner = dtype if categories is None else categories.dtype
    return bool(str(inner) == "object")


def _is_string(dtype: Any) -> bool:
    categories = getattr(dtype, "categories", None)
    return str(dtype if categories is None else categories.dtype) in ("str", "string")


def _strings(column: Any) -> pa.Array:
    if hasattr(column, "cat"):
        codes = column.cat.codes.to_numpy()
        categories = _strings(column.cat.categories.to_series())
        return categories.take(pa.array(codes, mask=codes < 0))
    try:
        return pa.array(column, pa.large_string(), from_pandas=True)
    except Exception:  # of a text with half a surrogate pair, which is none in UTF-8
        return _texts(column)


def _texts(column: Any) -> pa.Array:
    return pa.array([_text(value) for value in column], pa.large_string())


def _is_missing(value: Any) -> bool:
    other = value
    return bool(value != other)  # as NaN, and what stands for no time


def _text(value: Any) -> str | None:
    try:
        if isinstance(value, bytes):
            value = value.decode()
        elif value is None or _is_missing(value):
            return None
        elif isinstance(value, _TEXTUAL):
            value = str(value)
        if type(value) is not str and not isinstance(value, str):
            return None
        return str.encode(value).decode()  # whatever a class of its own does
    except Exception:  # of this value
        return None
