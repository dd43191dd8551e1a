"""Sizes at which an engine computes in another way: all are in one place, and a test can make each small."""

from __future__ import annotations

import pyarrow as pa

from sfumato.engines.duckdb import contribution_limits
from sfumato.query import sizes
from sfumato.query.engine_protocol import ExactQuery
from sfumato.transformations import CountUnits
from tests.support.engines import SMALL


def test_a_small_value_is_there_for_each_size():
    """A size without one stays large under the fixture, and what is behind it is not tested."""
    assert set(SMALL) == {name for name in vars(sizes) if name.isupper()}
    assert all(0 <= SMALL[name] <= getattr(sizes, name) for name in SMALL if name not in MADE_LARGER)


MADE_LARGER = {
    "SHARE_LEFT_OUT",  # of few pairs the share left out is large, and the path behind it would not be taken
}


def test_a_fault_behind_a_size_is_seen_where_sizes_are_small(openers, monkeypatch, request):
    """A unit in 20 groups keeps 13; without the ranking that only many rows need, it keeps all."""
    rows = pa.table({"id": [1] * 20, "k": range(20)})
    query = ExactQuery((), "id", ("k",), None, 13, (CountUnits(),))

    def kept() -> int:
        return sum(batch.num_rows for batch in openers("duckdb")(rows).statistics(query, 100))

    monkeypatch.setattr(
        contribution_limits, "_kept", lambda pairs, columns, *_: f"SELECT {columns} FROM {pairs}"
    )
    assert kept() == 13
    request.getfixturevalue("small_sizes")
    assert kept() == 20
