"""Numbers in bins of every type of column, in every engine; planted mistakes in their SQL are seen."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest

from sfumato.query.engine_protocol import ExactQuery
from sfumato.transformations import (
    Edges,
    Listed,
    Row,
    RowsInBins,
    Statistic,
    UnitsInBins,
    WeightGrid,
    WeightsInBins,
    bound_groups,
    per_group,
)
from sfumato.transformations.row_sql import RowSql
from sfumato.transformations.statistics import rows_in_bins

NUMBERS = [None, math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 1.0, 1.5, 2.0, 5e-324, -5e-324, 1e308, 2.5]
TEXTS = ["", "a", "A", "é", "e\u0301", "it's", '"', "\\", None, "日本", "%s", "a ", "; --", "NULL"]
WEIGHTS = [None, math.nan, math.inf, -math.inf, -1.0, -0.0, 0.3, 1.25, 2.0, 1e308, 5e-324]
DAYS = [date(1, 1, 1), date(9999, 12, 31), date(2020, 2, 29), None]
TABLE = pa.table(
    {
        "unit": [i // 3 for i in range(42)],
        "x": [NUMBERS[i % 14] for i in range(42)],
        "s": pa.array([TEXTS[(i * 5) % 14] for i in range(42)], pa.string()),
        "d": pa.array([DAYS[i % 4] for i in range(42)], pa.date32()),
        "b": pa.array([[True, False, None][i % 3] for i in range(42)], pa.bool_()),
        "w": [WEIGHTS[i % 11] for i in range(42)],
    }
)
STATISTICS: tuple[Statistic, ...] = (
    RowsInBins("x", "x", 2, Edges((0.0, 0.1, 1.0, 2.0), below=True, above=True), -4),
    RowsInBins("y", "x", 2, Edges((-math.inf, 0.0, 1.5, math.inf)), -4),
    RowsInBins("z", "x", 1, Edges((0.0, 2.0)), -4),
    RowsInBins("s", "s", 1, Listed(("", "a", "é", "it's", '"', "\\", "%s", "; --"), other=True), -4),
    # Sums that no BIGINT holds, and as many edges as are halved several times.
    RowsInBins("m", "x", 2, Edges(tuple(i / 8 - 3.0 for i in range(60))), -70),
    # So many values that they are found in another way.
    RowsInBins("l", "s", 1, Listed((*(f"z{i}" for i in range(70)), "", "a", "é", "it's"), other=True), -4),
    RowsInBins("k", "s", 1, Listed((*(f"z{i}" for i in range(70)), "a", "%s", "; --")), -4),
    RowsInBins("n", "unit", 2, Listed((*range(90, 10, -1), 0, 2**63, -(2**63)), other=True), -4),
    UnitsInBins("d", "d", 1, Listed((date(1, 1, 1), date(9999, 12, 31))), -4),
    UnitsInBins("b", "b", 1, Listed((True,), other=True), -4),
    WeightsInBins("v", "x", 2, Edges((0.0, 0.1), True, True), -4, weight="w", weights=WeightGrid(-3, 12)),
    WeightsInBins("t", "b", 1, Listed((True, False)), -4, weight="w", weights=WeightGrid(0, 2), once=True),
    WeightsInBins("i", "s", 1, Listed(("a",), other=True), -70, weight="b", weights=WeightGrid(0, 1)),
)


def counted(opened) -> dict[str, int]:
    (batch,) = opened(TABLE).statistics(ExactQuery((), "unit", (), None, 1, STATISTICS), 100)
    return {name: int(value) for name, value in batch.to_pylist()[0].items() if value}


def defined() -> dict[str, int]:
    rows = [Row(row["unit"], (), row) for row in TABLE.to_pylist()]
    chain = bound_groups(1) >> per_group(STATISTICS, groups=1)
    return dict(+Counter(chain(rows)[()]))


def test_bins_are_counted_as_defined(engine):
    assert counted(engine) == defined()


@pytest.mark.long
def test_planted_mistakes_are_seen(openers, monkeypatch):
    opened, honest = openers("duckdb"), defined()
    between, listed, halved = Edges._sql, Listed._sql, rows_in_bins._halved
    weight = WeightsInBins._added_sql
    for place, name, wrong in (
        # NULL is no number above the last edge, nor below the first.
        (Edges, "_sql", lambda *given: between(*given).split(" THEN ", 1)[1].removesuffix(" END")),
        (Edges, "_sql", lambda *given: between(*given).replace(" > ", " >= ", 1)),
        (Edges, "_sql", lambda *given: between(*given).replace(" < ", " <= ", 1)),
        (Edges, "_sql", lambda *given: f"coalesce({between(*given)}, 0)"),
        (Listed, "_sql", lambda *given: f"coalesce({listed(*given)}, 0)"),
        (Listed, "_sql", lambda *given: listed(*given).replace('COLLATE "binary"', 'COLLATE "nocase"')),
        (rows_in_bins, "_halved", lambda x, bounds, places: halved(x, bounds, [*places[:1], *places[:-1]])),
        (rows_in_bins, "_halved", lambda x, bounds, places: halved(x, bounds[::-1], places)),
        (RowSql, "scaled", lambda self, total, rows, body: total),
        # Rows without a weight count, weights are not trimmed, or each is one.
        (WeightsInBins, "_added_sql",
         lambda s, sql: sql.value(f"CASE WHEN {sql.valued(s.weight)} THEN {weight(s, sql)} ELSE 1 END", "BIGINT")),
        (WeightsInBins, "_added_sql",
         lambda s, sql: weight(replace(s, weights=WeightGrid(s.weights.exponent, 99)), sql)),
        (WeightsInBins, "_added_sql", lambda s, sql: "1"),
    ):  # fmt: skip
        with monkeypatch.context() as planted:
            planted.setattr(place, name, wrong)
            assert counted(opened) != honest, name
    assert counted(opened) == honest
