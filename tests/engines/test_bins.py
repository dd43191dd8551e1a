"""Numbers in bins of every type of column, in every engine; planted mistakes in their SQL are seen."""

import math
from collections import Counter
from datetime import date

import pyarrow as pa

import sfumato.transformations as tf
from sfumato.query.engine_protocol import ExactQuery

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
STATISTICS: tuple[tf.Statistic, ...] = (
    tf.RowsInBins("x", "x", 2, tf.Edges((0.0, 0.1, 1.0, 2.0), below=True, above=True), -4),
    tf.RowsInBins("y", "x", 2, tf.Edges((-math.inf, 0.0, 1.5, math.inf)), -4),
    tf.RowsInBins("z", "x", 1, tf.Edges((0.0, 2.0)), -4),
    tf.RowsInBins("s", "s", 1, tf.Listed(("", "a", "é", "it's", '"', "\\", "%s", "; --"), other=True), -4),
    # Sums that no BIGINT holds, and as many edges as are halved several times.
    tf.RowsInBins("m", "x", 2, tf.Edges(tuple(i / 8 - 3.0 for i in range(60))), -70),
    # So many values that they are found in another way.
    tf.RowsInBins(
        "l", "s", 1, tf.Listed((*(f"z{i}" for i in range(70)), "", "a", "é", "it's"), other=True), -4
    ),
    tf.RowsInBins("k", "s", 1, tf.Listed((*(f"z{i}" for i in range(70)), "a", "%s", "; --")), -4),
    tf.RowsInBins("n", "unit", 2, tf.Listed((*range(90, 10, -1), 0, 2**63, -(2**63)), other=True), -4),
    tf.UnitsInBins("d", "d", 1, tf.Listed((date(1, 1, 1), date(9999, 12, 31))), -4),
    tf.UnitsInBins("b", "b", 1, tf.Listed((True,), other=True), -4),
    tf.WeightsInBins(
        "v", "x", 2, tf.Edges((0.0, 0.1), True, True), -4, weight="w", weights=tf.WeightGrid(-3, 12)
    ),
    tf.WeightsInBins(
        "t", "b", 1, tf.Listed((True, False)), -4, weight="w", weights=tf.WeightGrid(0, 2), once=True
    ),
    tf.WeightsInBins(
        "i", "s", 1, tf.Listed(("a",), other=True), -70, weight="b", weights=tf.WeightGrid(0, 1)
    ),
)


ANSWERS = ["a", "A", "é", "it's", "", "; --", None]
YES_DAYS = [date(2020, 1, 1), date(1, 1, 1), None]
STRATA = pa.table(
    {
        "unit": pa.array([None if i % 17 == 0 else i // 2 for i in range(84)], pa.int64()),
        "s": pa.array([ANSWERS[i * 5 % 7] for i in range(84)], pa.string()),
        "d": pa.array([YES_DAYS[i % 3] for i in range(84)], pa.date32()),
        "yes": pa.array([[True, False, None, True, True][i % 5] for i in range(84)], pa.bool_()),
    }
)
IN_STRATA: tuple[tf.Statistic, ...] = (
    tf.YesInStrata("s", "s", 1, tf.Listed(("a", "é", "it's", "", "; --")), -4, "yes"),
    tf.YesInStrata("d", "d", 2, tf.Listed((YES_DAYS[0], YES_DAYS[1])), -4, "yes"),
    tf.YesInStrata("y", "yes", 2, tf.Listed((True, False)), 0, "yes"),
)


def counted(opened, table, statistics) -> dict[str, int]:
    (batch,) = opened(table).statistics(ExactQuery((), "unit", (), None, 1, statistics), 100)
    return {name: int(value) for name, value in batch.to_pylist()[0].items() if value}


def defined(table, statistics) -> dict[str, int]:
    rows = [tf.Row(row["unit"], (), row) for row in table.to_pylist()]
    chain = tf.bound_groups(1) >> tf.per_group(statistics, groups=1)
    return dict(+Counter(chain(rows)[()]))


def test_bins_are_counted_as_defined(local_engine):
    for table, statistics in ((TABLE, STATISTICS), (STRATA, IN_STRATA)):
        assert counted(local_engine, table, statistics) == defined(table, statistics)
