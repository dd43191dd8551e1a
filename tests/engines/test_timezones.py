"""Times with a zone are read in UTC, or in the zone that somebody names: never in that of the machine.

The definition is Python's `zoneinfo`.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb import connection
from sfumato.errors import CatalogError, ParameterError, QueryError, SqlError
from sfumato.exact.parameters import canonical_bytes
from sfumato.release.canonical_form import canonical

# Around both changes of the clocks in Berlin, and at ends of days elsewhere.
MOMENTS = [
    datetime(2024, 3, 31, 0, 30, tzinfo=UTC),
    datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
    datetime(2024, 3, 31, 22, 30, tzinfo=UTC),
    datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
    datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    datetime(2024, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(1999, 12, 31, 12, 0, tzinfo=UTC),
]
ROWS = pa.table(
    {
        "id": pa.array(range(len(MOMENTS)), pa.int64()),
        "z": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
        "txt": [f"{moment:%Y-%m-%d %H:%M:%S}" for moment in MOMENTS],
        "seconds": pa.array([int(moment.timestamp()) for moment in MOMENTS], pa.int64()),
    }
)
ZONES = ["UTC", "Europe/Berlin", "America/Los_Angeles"]


def local(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def instant(moment: datetime, zone: str) -> datetime:
    """Read the digits of a time as if a clock of the zone showed them."""
    return moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def day(moment: datetime, zone: str) -> datetime:
    return local(moment, zone).replace(hour=0, minute=0, second=0)


EXPRESSIONS: dict[str, Callable[[datetime, str], Any]] = {
    "hour(z)": lambda m, zone: local(m, zone).hour,
    "CAST(z AS DATE)": lambda m, zone: local(m, zone).date(),
    "CAST(z AS TIMESTAMP)": local,
    "CAST(date_trunc('day', z) AS TIMESTAMP)": day,
    "dayofweek(z)": lambda m, zone: local(m, zone).isoweekday() % 7,
    "strftime(z, '%Y-%m-%d %H')": lambda m, zone: f"{local(m, zone):%Y-%m-%d %H}",
    "date_part('month', z)": lambda m, zone: local(m, zone).month,
    "date_diff('day', z, TIMESTAMPTZ '2025-06-01 12:00:00+00')": lambda m, zone: (
        local(datetime(2025, 6, 1, 12, tzinfo=UTC), zone).date() - local(m, zone).date()
    ).days,
    "z >= DATE '2024-04-01'": lambda m, zone: local(m, zone) >= datetime(2024, 4, 1),
    "z < '2024-10-27 03:15:00'": lambda m, zone: m < instant(datetime(2024, 10, 27, 3, 15), zone),
    "epoch(CAST(txt AS TIMESTAMPTZ))": lambda m, zone: instant(m, zone).timestamp(),
    "hour(to_timestamp(seconds))": lambda m, zone: local(m, zone).hour,
    "hour(z AT TIME ZONE 'Asia/Tokyo')": lambda m, _: local(m, "Asia/Tokyo").hour,
    "epoch(CAST(txt AS TIMESTAMP) AT TIME ZONE 'Asia/Tokyo')": lambda m, _: instant(m, "Asia/Tokyo").timestamp(),
    "hour(CAST(z AS TIME))": lambda m, zone: local(m, zone).hour,
    "CAST(CAST(z AS VARCHAR)[1:19] AS TIMESTAMP)": local,
}  # fmt: skip


def values(table: Table[Any], text: str) -> list[Any]:
    """Return what an expression gives on the rows of a table, in order of id, as group keys."""
    question = table.with_columns(y=text).group_by("id2", "y").bound(groups=1, rows=1).agg(n=sf.count())
    exact = question.plan(epsilon=1, delta="1e-6").exact
    found = [row for batch in table._engine.statistics(exact, 100) for row in batch.to_pylist()]
    return [row["y"] for row in sorted(found, key=lambda row: row["id2"])]


def table_of(source: Any, **options: Any) -> Table[Any]:
    return sf.scan(source, privacy_unit="id", **options).with_columns(id2="id")


@pytest.fixture
def machine(monkeypatch):
    """A machine in some zone, with no database open from before."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    connection._idle.clear()


@pytest.mark.parametrize("zone", ["UTC", pytest.param("Europe/Berlin", marks=pytest.mark.long)])
def test_expressions_are_read_in_the_zone_that_is_named(zone, machine):
    table = table_of(ROWS, timezone=zone)
    for text, of in EXPRESSIONS.items():
        assert values(table, text) == [of(moment, zone) for moment in MOMENTS], text


def of_parquet(folder: Any) -> str:
    pq.write_table(ROWS, f"{folder}/rows.parquet")
    return f"{folder}/rows.parquet"


def of_csv(folder: Any) -> str:
    lines = [f"{i},{moment.isoformat()}" for i, moment in enumerate(MOMENTS)]
    (folder / "rows.csv").write_text("\n".join(["id,z", *lines]) + "\n")
    return f"{folder}/rows.csv"


def of_duckdb(folder: Any) -> str:
    with duckdb.connect(f"{folder}/rows.duckdb") as made:
        made.register("given", ROWS)
        made.execute("CREATE TABLE rows AS FROM given")
    return f"{folder}/rows.duckdb/rows"


def of_sqlite(folder: Any) -> str:
    with closing(sqlite3.connect(f"{folder}/rows.sqlite")) as made, made:
        made.execute("CREATE TABLE rows (id INTEGER, z TEXT)")
        made.executemany(
            "INSERT INTO rows VALUES (?, ?)", [(i, m.isoformat()) for i, m in enumerate(MOMENTS)]
        )
    return f"{folder}/rows.sqlite/rows"


def of_polars(folder: Any) -> Any:
    import polars

    return polars.from_arrow(ROWS.select(["id", "z"]))


SOURCES: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "parquet": (of_parquet, {}),
    "csv": (of_csv, {"types": {"id": "BIGINT", "z": "TIMESTAMPTZ"}}),
    "duckdb": (of_duckdb, {}),
    "sqlite": (of_sqlite, {"types": {"id": "BIGINT", "z": "TIMESTAMPTZ"}}),
    "pandas": (lambda _: ROWS.select(["id", "z"]).to_pandas(), {}),
    "polars": (of_polars, {}),
    "stream": (lambda _: ROWS.to_reader(), {}),
}


@pytest.mark.filterwarnings("ignore")  # pyarrow's of pandas' times
def test_every_source_is_read_in_the_zone_that_is_named(tmp_path, machine):
    for name, (opened, options) in SOURCES.items():
        source = opened(tmp_path)
        for zone in ("UTC", "Europe/Berlin"):
            given = ROWS.to_reader() if name == "stream" else source
            table = table_of(given, timezone=zone, **options)
            assert table._engine.timezone == zone
            assert values(table, "hour(z)") == [local(moment, zone).hour for moment in MOMENTS], name


def test_stages_are_read_in_the_zone_that_is_named(openers, machine):
    """What workers of Spark and Beam compute."""
    opened = openers("stages")(ROWS)
    zone = "Europe/Berlin"
    opened._local, opened.timezone = opened._local.in_timezone(zone), zone
    table = Table(opened, "id").with_columns(id2="id")
    for text in list(EXPRESSIONS)[::6]:
        assert values(table, text) == [EXPRESSIONS[text](moment, zone) for moment in MOMENTS], text


@pytest.mark.long
@pytest.mark.parametrize("name", ["spark", "beam"])
def test_workers_are_told_the_zone(name, openers, machine):
    from sfumato.engines.duckdb.stages import Stages

    from .conftest import spark_frame

    source = spark_frame(ROWS) if name == "spark" else ROWS.schema
    for zone in (None, "Europe/Berlin"):
        table = sf.scan(source, privacy_unit="id", **({} if zone is None else {"timezone": zone}))
        question = table.with_columns(h="hour(z)").group_by("h").bound(groups=1, rows=1).agg(n=sf.count())
        plan = question.plan(epsilon=1, delta="1e-6")
        stages = pickle.loads(pickle.dumps(table._engine.stages(plan.exact, 2)))
        assert isinstance(stages, Stages) and stages.timezone == (zone or "UTC")
        assert any(f"in the time zone {zone or 'UTC'}" in note for note in plan.notes)


# One person and one row for each hour, so that the hours that are shown are those of the rows.
HOURS = pa.table(
    {
        "id": pa.array(range(400), pa.int64()),
        "z": pa.array([datetime(2024, 7, 1, 22, 30, tzinfo=UTC)] * 400, pa.timestamp("us", "UTC")),
    }
)
SQL = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10, delta = 1e-6, privacy_unit_column = id{}, "
    "max_groups_contributed = 1, max_rows_per_group = 1) hour(z) AS h, COUNT(*) AS n FROM hours GROUP BY h"
)


def hours(release: Any) -> list[int]:
    return release.to_arrow()["h"].to_pylist()


def test_a_text_names_a_zone(noise_free):
    tables = {"hours": HOURS}
    assert hours(sf.sql(SQL.format(""), tables=tables)) == [22]
    assert hours(sf.sql(SQL.format(", timezone = 'Asia/Tokyo'"), tables=tables)) == [7]
    assert hours(sf.sql(SQL.format(""), tables=tables, timezone="europe/berlin")) == [0]
    with pytest.raises(QueryError, match="given twice"):
        sf.sql(SQL.format(", timezone = 'UTC'"), tables=tables, timezone="UTC")
    with pytest.raises(SqlError, match="timezone is the name of a time zone in quotes"):
        sf.sql(SQL.format(", timezone = 3"), tables=tables)


def test_a_catalog_names_a_zone_and_a_text_another(noise_free):
    declared = {"source": HOURS, "privacy_unit": "id"}
    for given in ({"timezone": "Europe/Berlin"}, {}):
        known = sf.catalog(given | {"tables": {"hours": declared}})
        assert hours(sf.sql(SQL.format(""), catalog=known)) == [0 if given else 22]
        assert hours(sf.sql(SQL.format(", timezone = 'Asia/Tokyo'"), catalog=known)) == [7]
        assert known.table("hours")._engine.timezone == given.get("timezone", "UTC")
    other = sf.catalog({"tables": {"hours": declared}}, timezone="Asia/Tokyo").table("hours")
    assert other._engine.timezone == "Asia/Tokyo"
    with pytest.raises(CatalogError, match="timezone is given twice"):
        sf.catalog({"timezone": "UTC", "tables": {"hours": declared}}, timezone="UTC")


def test_a_zone_that_is_not_known_is_refused():
    for zone in ("Nowhere/At_all", "+01:00", "", 3, None, "UTC'; DROP TABLE x; --"):
        with pytest.raises(ParameterError, match="must be the name of a time zone, such as 'UTC'"):
            sf.scan(HOURS, privacy_unit="id", timezone=zone)
    for refused in (
        lambda: sf.sql(SQL.format(", timezone = 'Europe/Berln'"), tables={"hours": HOURS}),
        lambda: sf.scan(HOURS, privacy_unit="id").filter("hour(z AT TIME ZONE 'Europe/Berln') = 1"),
        lambda: sf.catalog({"timezone": "Europe/Berln", "tables": {"t": {"source": HOURS, "public": True}}}),
    ):
        with pytest.raises((ParameterError, QueryError), match="did you mean 'Europe/Berlin'"):
            refused()
    with pytest.raises(QueryError, match="needs the name of one zone"):
        sf.scan(ROWS, privacy_unit="id").with_columns(y="z AT TIME ZONE txt")


def form(table: Table[Any], text: str = "hour(z)") -> bytes:
    question = table.with_columns(y=text).bound(rows=1).agg(n=sf.sum("y", lower=0, upper=23))
    return canonical_bytes(canonical(question.plan(epsilon=1), question.table._engine))


def test_the_zone_is_in_the_form_and_in_the_explanation(monkeypatch):
    forms = {zone: form(table_of(HOURS, timezone=zone)) for zone in ZONES}
    assert len(set(forms.values())) == len(ZONES) and all(zone.encode() in forms[zone] for zone in ZONES)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert form(table_of(HOURS)) == forms["UTC"]
    # Also where no column has a zone, and where the rows are made of others.
    numbers = pa.table({"id": [1], "s": [0]})
    public = sf.public(numbers.rename_columns(["s", "k"]))
    for made in (lambda table: table, lambda table: table.join(public, on="s")):
        tables = [made(sf.scan(numbers, privacy_unit="id", timezone=zone)) for zone in ZONES]
        assert len({form(table, "hour(to_timestamp(s))") for table in tables}) == len(ZONES)
        question = tables[1].with_columns(y="hour(to_timestamp(s))").bound(rows=1).agg(n=sf.count("y"))
        note = "Times with a zone are read in the time zone Europe/Berlin"
        assert note in str(question.plan(epsilon=1).explain()) and note in str(
            question.release(epsilon=1).explain()
        )
        plain = tables[1].bound(rows=1).agg(n=sf.count()).plan(epsilon=1)
        assert note not in str(plain.explain())


def test_tables_that_are_joined_are_read_in_one_zone():
    days = sf.public(pa.table({"day": [date(2024, 7, 2)], "name": ["Tuesday"]}))
    for zone, shown in (("Europe/Berlin", ["Tuesday"]), ("UTC", [])):
        table = table_of(HOURS, timezone=zone).with_columns(day="CAST(z AS DATE)").join(days, on="day")
        asked = table.group_by("name").bound(groups=1, rows=1).agg(n=sf.count())
        exact = asked.plan(epsilon=1, delta="1e-6").exact
        found = [row["name"] for b in table._engine.statistics(exact, 9) for row in b.to_pylist()]
        assert found == shown
    # What a public table derives is read in the zone of the private one, also where its rows are counted before.
    moments = sf.public(pa.table({"k": [1, 2], "since": HOURS["z"][:2]})).with_columns(
        day="CAST(since AS DATE)"
    )
    joined = (
        table_of(HOURS, timezone="Europe/Berlin")
        .with_columns(day="CAST(z AS DATE)")
        .join(moments, on="day", rows=2)
    )
    question = joined.group_by("k").bound(groups=2, rows=1).agg(n=sf.count()).plan(epsilon=1, delta="1e-6")
    assert sum(batch.num_rows for batch in joined._engine.statistics(question.exact, 9)) == 2
    with pytest.raises(
        QueryError, match=r"several time zones, Europe/Berlin and UTC; give each scan\(\.\.\.\)"
    ):
        table_of(HOURS, timezone="Europe/Berlin").join(table_of(HOURS), on="id")


def test_distances_of_days_and_the_ends_of_the_calendar():
    """A zone moves a time out of the years 1 to 9999, and raises nothing."""
    ends = [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2024, 1, 1, tzinfo=UTC),
    ]
    since = datetime(1970, 1, 1, tzinfo=UTC)
    stamps = pa.array([(end - since) // timedelta(microseconds=1) for end in ends], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": range(3), "z": stamps})
    for zone in ("Pacific/Kiritimati", "America/Los_Angeles"):
        table = table_of(rows, timezone=zone)
        for text in (
            "hour(z)",
            "CAST(z AS DATE)",
            "z AT TIME ZONE 'Pacific/Kiritimati'",
            "date_trunc('week', z)",
        ):
            assert len(values(table, text)) == 3
