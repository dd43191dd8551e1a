"""The log tells plans, costs, times and kinds of refusals; nothing that depends on one person's rows."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError

pytestmark = pytest.mark.noise_cannot_matter("no number of an answer is in the log")

MARK, NUMBER = "Private Value", 987654.25
ROWS = pa.table(
    {
        "id": [1, 1, 2, 3, None],
        "town": [MARK, "B", "A", "B", "B"],
        "x": [NUMBER, 1.0, None, float("nan"), float("inf")],
        "day": [date(2020, 2, 29)] * 5,
    }
)
# One person more: with other groups, many rows, and values at which much fails.
PERSON = pa.table(
    {
        "id": [77] * 300,
        "town": [f"{MARK} {i}" for i in range(300)],
        "x": [1e300, -NUMBER, 0.0] * 100,
        "day": [date(1, 1, 1)] * 300,
    }
)
SQL = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id) "


def questions(rows: pa.Table, folder: Any) -> Iterator[Callable[[], Any]]:
    """Yield questions of many kinds, and mistakes."""
    people = sf.scan(rows, privacy_unit="id")
    by_town = people.group_by("town").bound(groups=2, rows=1)
    budget = sf.Budget(epsilon=3, delta=1e-5)
    paid = {"epsilon": "0.1", "delta": "1e-7", "budget": budget}
    yield lambda: by_town.agg(n=sf.count(), m=sf.mean("x", lower=0, upper=10)).release(**paid).to_arrow()
    yield lambda: people.bound(rows=1).agg(q=sf.median("x", lower=0, upper=10)).release(**paid).to_arrow()
    yield lambda: by_town.agg(n=sf.count()).release(**paid).write(folder / f"{rows.num_rows}.parquet")
    yield lambda: people.top("town", k=1).release(**paid).to_arrow()
    yield (
        lambda: (
            people.bound(groups="auto", rows="auto")
            .agg(s=sf.sum("x", lower=0, upper="auto"))
            .release(**paid)
            .to_arrow()
        )
    )
    counted = people.bound(rows=1).agg(n=sf.count())
    yield lambda: len(counted.release(diagnostics=0.1, **paid).diagnostics.to_arrow())
    yield lambda: people.filter("1 / x > 0").bound(rows=1).agg(n=sf.count()).release(**paid).explain()
    yield lambda: sf.sql(
        SQL + "town, COUNT(*) AS n FROM t GROUP BY town", tables={"t": rows}, budget=budget
    ).to_arrow()
    yield lambda: sf.sql(
        SQL + "COUNT(*) AS n FROM t ORDER BY n", tables={"t": rows}, budget=budget
    ).to_arrow()
    yield lambda: people.agg(n=sf.count())
    yield lambda: people.filter(f"town = {MARK}")
    yield lambda: by_town.agg(n=sf.count()).release(epsilon=9, delta="1e-7", budget=budget)
    yield lambda: sf.sql(SQL + "AVG(x) AS m FROM t", tables={"t": rows})
    yield lambda: by_town.agg(n=sf.count()).release(eps=1)


def logged(rows: pa.Table, caplog: pytest.LogCaptureFixture, folder: Any) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "sfumato"):
        for ask in questions(rows, folder):
            with suppress(SfumatoError):
                ask()
    records = [r for r in caplog.records if r.name.startswith("sfumato")]
    lines = []
    for record in records:
        line = re.sub(r"[0-9.]+ s,", "s,", record.getMessage())  # the time may hold any digits
        arguments = "" if line.startswith("answered") else repr(record.args)
        assert not any(private in line + arguments for private in ("Private", "987654", "77"))
        assert record.exc_info is record.stack_info is None
        lines.append(f"{record.name} {record.levelname} {line}")
    return lines


@pytest.mark.long
def test_neighbours_have_the_same_log(caplog, tmp_path):
    first = logged(ROWS, caplog, tmp_path)
    assert first == logged(pa.concat_tables([ROWS, PERSON]), caplog, tmp_path)
    kinds = {line.split(" ", 2)[2].split(":")[0].split(" in ")[0] for line in first}
    assert {"planned", "answered", "refused", "spent epsilon=0.1, delta=1e-07"} <= kinds
    assert sum("answered" in line for line in first) >= 8 and sum("refused" in line for line in first) == 5
