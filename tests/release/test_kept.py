"""Noisy numbers that are kept: to the last bit, and nothing else."""

from __future__ import annotations

import base64
import re

import numpy as np
import pyarrow as pa
import pytest

from sfumato.plan.serialization import packed, unpacked


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


def test_rows_that_a_table_is_a_part_of_are_not_kept():
    whole = pa.table({"k": ["a hidden key", "A", "another hidden key"]})
    for part in (whole.slice(1, 1), whole.to_batches()[0].slice(1, 1)):
        kept = packed({"keys": part})
        assert unpacked(kept)["keys"].to_pydict() == {"k": ["A"]}
        (written,) = re.findall(rb'"(?:table|batch)":"([^"]+)"', kept)
        assert b"hidden" not in base64.b64decode(written)
