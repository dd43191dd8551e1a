"""Arrow columns: made of numbers, or of some rows of other columns in memory of their own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.query import sizes


def kept_rows(column: pa.Array, kept: NDArray[np.bool_]) -> pa.Array:
    """Return the kept rows of an Arrow column, in memory of their own: no other row is in it.

    Args:
        column: of any type.
        kept: for each row, whether it is kept.
    """
    edges = np.flatnonzero(np.diff(kept, prepend=False, append=False)).reshape(-1, 2)
    if len(edges) > sizes.KEPT_PARTS:
        return column.take(arrow_column(np.flatnonzero(kept).astype(np.int64)))
    parts = [column.slice(start, end - start) for start, end in edges.tolist()]
    return pa.concat_arrays([*parts, column.slice(0, 0), column.slice(0, 0)])  # one array would not be copied


def kept_batch(batch: pa.RecordBatch, kept: NDArray[np.bool_]) -> pa.RecordBatch:
    """Return the kept rows of an Arrow batch, as `kept_rows` does for each column."""
    return pa.RecordBatch.from_arrays([kept_rows(c, kept) for c in batch.columns], schema=batch.schema)


def arrow_column(values: NDArray[np.float64] | NDArray[np.int64] | NDArray[np.uint64]) -> pa.Array:
    """Return an Arrow column of 64-bit numbers without a copy; of two dimensions, as lists.

    `pa.array` would do, but imports pandas where it is installed: a third of a second.
    """
    kind = pa.from_numpy_dtype(values.dtype)
    data = pa.py_buffer(np.ascontiguousarray(values))
    flat = pa.Array.from_buffers(kind, values.size, [None, data])
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
