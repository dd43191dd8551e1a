"""Noisy numbers that are kept: to the last bit, and nothing else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.query.kept import packed, unpacked


def test_what_is_kept_comes_back_to_the_last_bit():
    odd = [0.1, -0.0, float("inf"), 5e-324, (1, [2, None, True]), "\u202e", b"\x00"]
    array = np.array([[np.nan, -0.0], [1e308, 5e-324]])
    made = unpacked(packed({"odd": odd, "array": array, "none": array[:0]}))
    assert repr(made["odd"]) == repr(odd) and made["array"].tobytes() == array.tobytes()
    assert made["none"].shape == (0, 2)
    batch = pa.record_batch({"k": ["a"]})
    for one in (batch, batch.slice(0, 0), batch.select([]), pa.table(batch)):
        back = unpacked(packed(one))
        assert type(back) is type(one) and back.equals(one) and back.num_rows == one.num_rows


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, np.array([object()]), np.int64(1)])
def test_nothing_else_is_kept(value):
    with pytest.raises((TypeError, ValueError)):
        packed(value)
