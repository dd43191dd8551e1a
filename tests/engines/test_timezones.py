"""Times with a zone are read in UTC, or in the zone that somebody names: never in that of the machine.

The definition is Python's `zoneinfo`.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb import connection
from sfumato.errors import CatalogError, ParameterError, QueryError
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
    "date_diff('day', z, TIMESTAMPTZ '2025-06-01 12:00:00+00')": lambda m, zone: (
        local(datetime(2025, 6, 1, 12, tzinfo=UTC), zone).date() - local(m, zone).date()
    ).days,
    "z >= DATE '2024-04-01'": lambda m, zone: local(m, zone) >= datetime(2024, 4, 1),
    "z < '2024-10-27 03:15:00'": lambda m, zone: m < instant(datetime(2024, 10, 27, 3, 15), zone),
    "epoch(CAST(txt AS TIMESTAMPTZ))": lambda m, zone: instant(m, zone).timestamp(),
    "hour(z AT TIME ZONE 'Asia/Tokyo')": lambda m, _: local(m, "Asia/Tokyo").hour,
    "epoch(CAST(txt AS TIMESTAMP) AT TIME ZONE 'Asia/Tokyo')": lambda m, _: instant(m, "Asia/Tokyo").timestamp(),
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


SOURCES: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "parquet": (of_parquet, {}),
    "csv": (of_csv, {"types": {"id": "BIGINT", "z": "TIMESTAMPTZ"}}),
    "duckdb": (of_duckdb, {}),
    "pandas": (lambda _: ROWS.select(["id", "z"]).to_pandas(), {}),
}


@pytest.mark.filterwarnings("ignore")  # pyarrow's of pandas' times
def test_every_source_is_read_in_the_zone_that_is_named(tmp_path, machine):
    for name, (opened, options) in SOURCES.items():
        source = opened(tmp_path)
        for zone in ("UTC", "Europe/Berlin"):
            table = table_of(source, timezone=zone, **options)
            assert table._engine.timezone == zone
            assert values(table, "hour(z)") == [local(moment, zone).hour for moment in MOMENTS], name


@pytest.mark.long
def test_stages_are_read_in_the_zone_that_is_named(openers, machine):
    """What workers of Spark and Beam compute."""
    opened = openers("stages")(ROWS)
    zone = "Europe/Berlin"
    opened._local, opened.timezone = opened._local.in_timezone(zone), zone
    table = Table(opened, "id").with_columns(id2="id")
    for text in list(EXPRESSIONS)[::6]:
        assert values(table, text) == [EXPRESSIONS[text](moment, zone) for moment in MOMENTS], text


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


def test_a_catalog_names_a_zone_and_a_text_another(noise_free):
    declared = {"source": HOURS, "privacy_unit": "id"}
    for given in ({"timezone": "Europe/Berlin"}, {}):
        known = sf.catalog(given | {"tables": {"hours": declared}})
        assert hours(sf.sql(SQL.format(""), catalog=known)) == [0 if given else 22]
        assert hours(sf.sql(SQL.format(", timezone = 'Asia/Tokyo'"), catalog=known)) == [7]
        assert known.table("hours")._engine.timezone == given.get("timezone", "UTC")
    other = sf.catalog({"tables": {"hours": declared}}, timezone="Asia/Tokyo").table("hours")
    assert other._engine.timezone == "Asia/Tokyo"
    with pytest.raises(CatalogError, match="timezone is given both"):
        sf.catalog({"timezone": "UTC", "tables": {"hours": declared}}, timezone="UTC")


def test_a_zone_that_is_not_known_is_refused():
    for zone in ("Nowhere/At_all", "+01:00", "", 3, None, "UTC'; DROP TABLE x; --"):
        with pytest.raises(ParameterError, match="must be the name of a time zone, such as 'UTC'"):
            sf.scan(HOURS, privacy_unit="id", timezone=zone)
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


def test_tables_that_are_joined_are_read_in_one_zone():
    days = sf.public(pa.table({"day": [date(2024, 7, 2)], "name": ["Tuesday"]}))
    for zone, shown in (("Europe/Berlin", ["Tuesday"]), ("UTC", [])):
        table = table_of(HOURS, timezone=zone).with_columns(day="CAST(z AS DATE)").join(days, on="day")
        asked = table.group_by("name").bound(groups=1, rows=1).agg(n=sf.count())
        exact = asked.plan(epsilon=1, delta="1e-6").exact
        found = [row["name"] for b in table._engine.statistics(exact, 9) for row in b.to_pylist()]
        assert found == shown
    with pytest.raises(
        QueryError, match=r"time zones, Europe/Berlin and UTC. Give each scan..... the same timezone="
    ):
        table_of(HOURS, timezone="Europe/Berlin").join(table_of(HOURS), on="id")
