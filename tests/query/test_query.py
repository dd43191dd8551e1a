"""Statistics without noise, rows that are kept in memory of their own, and names of options."""

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.measurements.int128_array import int64_values
from sfumato.plan.group_measurement import take_batch, take_rows
from sfumato.query import sizes
from sfumato.testing import noise_free

pytestmark = pytest.mark.noise_cannot_matter("nothing is drawn")
NUMBER = 300
TEXTS = [f"name-{i:03}" for i in range(NUMBER)]
COLUMNS = {
    "integers": pa.array(range(NUMBER)),
    "texts": pa.array(TEXTS),
    "large texts": pa.array(TEXTS, pa.large_string()),
    "missing": pa.array([None if i % 5 == 0 else text for i, text in enumerate(TEXTS)]),
    "truth": pa.array([i % 2 == 0 for i in range(NUMBER)]),
    "lists": pa.array([[text] * (i % 3) for i, text in enumerate(TEXTS)]),
    "structs": pa.array([{"a": text} for text in TEXTS]),
    "decimals": pa.array([Decimal(i) for i in range(NUMBER)], pa.decimal128(38, 0)),
    "times": pa.array([datetime.datetime(2020, 1, 1)] * NUMBER, pa.timestamp("us", "UTC")),
    "nulls": pa.nulls(NUMBER),
    "uuids": pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([t.encode() * 2 for t in TEXTS], pa.binary(16))
    ),
    "dictionary": pa.array([i % 3 for i in range(NUMBER)]).dictionary_encode(),
}


def memory(column: pa.Array) -> bytes:
    return b"".join(bytes(buffer) for buffer in column.buffers() if buffer is not None)


@pytest.mark.parametrize("name", COLUMNS)
def test_kept_rows(name: str) -> None:
    column = COLUMNS[name]
    few, many = (np.array([i % every > 0 and i < 250 for i in range(NUMBER)]) for every in (90, 2))
    assert sizes.KEPT_PARTS < 250 // 2
    for kept in (few, many, np.zeros(NUMBER, bool), np.ones(NUMBER, bool), np.arange(NUMBER) == 7):
        for part in (column, column.slice(3, 150)):
            found = take_rows(part, kept[: len(part)])
            found.validate(full=True)
            assert found.equals(part.filter(pa.array(kept[: len(part)]))) and found.type == part.type


@pytest.mark.parametrize("name", ["texts", "large texts", "missing", "lists", "structs", "uuids"])
def test_no_other_row_is_in_their_memory(name: str) -> None:
    column = COLUMNS[name].slice(2)
    kept = (np.arange(NUMBER) == 7)[2:]
    (found,) = take_batch(pa.RecordBatch.from_arrays([column], ["k"]), kept).columns
    assert b"name-008" in memory(column) and b"name-007" in memory(found)
    assert memory(found).count(b"name-") == memory(found).count(b"name-007")


@pytest.mark.parametrize("values", [[2**63 - 1, -(2**63), 0, -1], [], [2**63], [-(2**63) - 1]])
def test_integers_of_decimals(values: list[int]) -> None:
    column: Any = pa.array([0, *map(Decimal, values)], pa.decimal128(38, 0)).slice(1)
    if any(abs(2 * value + 1) > 2**64 for value in values):
        with pytest.raises(pa.ArrowInvalid):
            int64_values(column)
    else:
        assert int64_values(column).tolist() == values


def test_statistics_are_those_of_numpy() -> None:
    """Of rows of which some lack a value, without noise; bounds cut some values."""
    chance = np.random.default_rng(1)
    x, there = chance.uniform(-3, 9, 400), chance.random(400) < 0.8
    rows = pa.table({"id": range(400), "x": pa.array(x, mask=~there), "yes": pa.array(x > 5, mask=~there)})
    within = {"lower": -1, "upper": 6}
    asked = {
        "n": sf.count(), "known": sf.count("x"), "m": sf.mean("x", **within), "v": sf.variance("x", **within),
        "d": sf.stddev("x", **within), "s": sf.sum("x", **within, per="row"), "u": sf.sum("x", **within),
        "p": sf.proportion("yes"), "r": sf.ratio("s", "known"), "less": sf.difference("n", "known"),
    }  # fmt: skip
    with noise_free():
        release = (
            sf.scan(rows, privacy_unit="id").bound(rows=1).agg(**asked).release(epsilon=1, noise="laplace")
        )
        (found,) = release.to_arrow().to_pylist()
    known = np.clip(x[there], -1, 6)
    exact = {
        "n": 400, "known": len(known), "m": known.mean(), "v": known.var(), "d": known.std(), "s": known.sum(),
        "u": known.sum(), "p": (x[there] > 5).mean(), "r": known.mean(), "less": 400 - len(known),
    }  # fmt: skip
    assert found == pytest.approx(exact, abs=1e-4)
