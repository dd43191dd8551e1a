"""Diagnostics of a Spark data frame: shares as on one machine, asked by themselves."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError

ROWS = pa.table(
    {
        "id": [i for i in range(200) for _ in range(1 + i % 4)],
        "town": [f"t{k}" for i in range(200) for k in range(1 + i % 4)],
        "x": [float(i % 10) for i in range(200) for _ in range(1 + i % 4)],
    }
)
KEYS = [*(f"t{k}" for k in range(3)), None, "q"]


def asked(source, keys):
    return (
        sf.scan(source, privacy_unit="id")
        .group_by("town", keys=keys)
        .bound(groups=1, rows=1, beyond=None if keys is None else "sample")
        .agg(n=sf.count(), m=sf.mean("x", lower=2, upper=5))
    )


@pytest.mark.noise_cannot_matter("at epsilon 1,000,000 it moves no share by 1/1,000")
@pytest.mark.long
@pytest.mark.parametrize("keys", [None, KEYS], ids=["private", "public"])
def test_spark_finds_what_one_machine_does(keys, frame_of):
    here = asked(ROWS, keys).diagnose(epsilon=10**6).findings()
    there = asked(frame_of(ROWS), keys).diagnose(epsilon=10**6).findings()
    assert [(one.limit, one.of, one.suggestion) for one in here] == [
        (one.limit, one.of, one.suggestion) for one in there
    ]
    assert [one.share for one in there] == pytest.approx([one.share for one in here], abs=2e-3)


@pytest.mark.noise_cannot_matter("at epsilon 1,000,000 it moves no shift by 1/1,000")
@pytest.mark.long
def test_spark_finds_the_shifts_of_long_vectors(frame_of):
    vectors = pa.array([[float(i % 10) / (1 + j) for j in range(70)] for i in range(ROWS.num_rows)])
    table = ROWS.append_column("v", vectors)

    def shifts(source):
        asked = {"u": sf.vector_sum("v", length=70, bound=8), "m": sf.vector_mean("v", length=70, bound=4)}
        rows = sf.scan(source, privacy_unit="id").bound(rows=2).agg(**asked)
        return [one.shift for one in rows.diagnose(epsilon=10**6).shifts()]

    here = shifts(table)
    assert shifts(frame_of(table)) == pytest.approx(here, abs=2e-3)
    assert max(here) < -0.1


@pytest.mark.long
def test_a_released_frame_has_no_place_for_them(frame_of):
    with pytest.raises(QueryError, match=r"question.diagnose\(epsilon=0.05\)"):
        asked(frame_of(ROWS), None).release(epsilon=1, delta=1e-6, diagnostics=0.05)
