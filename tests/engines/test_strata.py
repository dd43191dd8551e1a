"""Yes-answers by stratum of every type of column, in every engine; planted mistakes in their SQL are seen."""

from __future__ import annotations

from collections import Counter
from datetime import date

import pyarrow as pa

from sfumato.query.engine_protocol import ExactQuery
from sfumato.transformations import Listed, Row, Statistic, YesInStrata, bound_groups, per_group

TEXTS = ["a", "A", "é", "it's", "", "; --", None]
DAYS = [date(2020, 1, 1), date(1, 1, 1), None]
TABLE = pa.table(
    {
        "unit": pa.array([None if i % 17 == 0 else i // 2 for i in range(84)], pa.int64()),
        "s": pa.array([TEXTS[i * 5 % 7] for i in range(84)], pa.string()),
        "d": pa.array([DAYS[i % 3] for i in range(84)], pa.date32()),
        "yes": pa.array([[True, False, None, True, True][i % 5] for i in range(84)], pa.bool_()),
    }
)
STATISTICS: tuple[Statistic, ...] = (
    YesInStrata("s", "s", 1, Listed(("a", "é", "it's", "", "; --")), -4, "yes"),
    YesInStrata("d", "d", 2, Listed((DAYS[0], DAYS[1])), -4, "yes"),
    YesInStrata("y", "yes", 2, Listed((True, False)), 0, "yes"),
)


def counted(opened) -> dict[str, int]:
    (batch,) = opened(TABLE).statistics(ExactQuery((), "unit", (), None, 1, STATISTICS), 100)
    return {name: int(value) for name, value in batch.to_pylist()[0].items() if value}


def defined() -> dict[str, int]:
    rows = [Row(row["unit"], (), row) for row in TABLE.to_pylist()]
    return dict(+Counter((bound_groups(1) >> per_group(STATISTICS, groups=1))(rows)[()]))


def test_answers_are_counted_as_defined(engine):
    assert counted(engine) == defined()


def test_planted_mistakes_are_seen(openers, monkeypatch):
    opened, honest, place = openers("duckdb"), defined(), YesInStrata._place_sql
    for wrong in (
        lambda s, sql: place(s, sql).replace(" THEN ", " IS NOT FALSE THEN ", 1),  # missing is yes
        lambda s, sql: place(s, sql).replace("CASE WHEN ", "CASE WHEN NOT ", 1),  # no is yes
        lambda s, sql: s.bins._sql(sql, s.column),  # all answers count
    ):
        with monkeypatch.context() as planted:
            planted.setattr(YesInStrata, "_place_sql", wrong)
            assert counted(opened) != honest
    assert counted(opened) == honest
