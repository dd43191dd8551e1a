"""Several private SELECTs in a text: what they cost, what is drawn, what is left where one fails; public tables."""

from fractions import Fraction
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import EngineError, QueryError, SqlError
from sfumato.release.processed_release import ProcessedRelease

ROWS = pa.table({"id": list(range(3000)), "year": [2020, 2021, 2022] * 1000, "v": [1.0, 2.0, 3.0] * 1000})
TOWNS = pa.table({"year": [2020, 2021, 2023], "label": ["a", "b", "d"]})


def dp(what: str, epsilon: str = "0.1", delta: str = "1e-7", source: str = "visits", **options: str) -> str:
    more = "".join(f", {name} = {value}" for name, value in options.items())
    clause = f"OPTIONS (epsilon = {epsilon}, delta = {delta}, privacy_unit_column = id{more})"
    return f"SELECT WITH DIFFERENTIAL_PRIVACY {clause} {what.replace('@', source)}"


BY_YEAR = "year, COUNT(*) AS n FROM @ GROUP BY year"
TWICE = f"WITH a AS ({dp(BY_YEAR)}), b AS ({dp(BY_YEAR, '0.2')}) SELECT a.year, a.n - b.n AS d FROM a JOIN b USING (year)"


def ask(text: str, **tables: object) -> ProcessedRelease:
    release = sf.sql(text, tables={"visits": ROWS, **tables})
    assert isinstance(release, ProcessedRelease)
    return release


@pytest.mark.noise_cannot_matter("nothing is drawn")
def test_budgets_add_exactly() -> None:
    release = ask(TWICE)
    assert [one.spent for one in release._releases] == [(0.1, 1e-7), (0.2, 1e-7)]
    budget = release.explain().to_dict()["budget"]
    assert (Fraction(budget["epsilon"]), Fraction(budget["delta"])) == (Fraction(3, 10), Fraction(2, 10**7))
    assert release.spent == (0.3, 2e-7)  # in floats 0.1 + 0.2 is more
    said = str(release.explain())
    assert "Release 2 of 2:" in said
    assert (
        "cost at most epsilon 0.1 + 0.2 = 0.3 and delta 1e-07 + 1e-07 = 2e-07, by basic composition" in said
    )


@pytest.mark.flakiness(
    k=20, because="two draws of 3 counts with noise of 40 at least agree 3 times once in 1e5, 4 times"
)
def test_the_same_text_twice_is_two_draws_and_one_named_twice_is_one() -> None:
    same = f"SELECT a.n - b.n AS d FROM ({dp(BY_YEAR)}) AS a JOIN ({dp(BY_YEAR)}) AS b USING (year)"
    once = f"WITH t AS ({dp(BY_YEAR)}) SELECT a.n - b.n AS d FROM t AS a JOIN t AS b USING (year)"
    assert any(set(ask(same).to_arrow()["d"].to_pylist()) != {0} for _ in range(4))
    assert set(ask(once).to_arrow()["d"].to_pylist()) == {0}
    assert ask(same).spent == (0.2, 2e-7) and ask(once).spent == (0.1, 1e-7)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources whose exact statistics are computed, as they are."""
    found: list[str] = []
    honest = DuckDBEngine.statistics

    def statistics(self: DuckDBEngine, query: object, batch_rows: int) -> object:
        found.append(self._opened.name)
        return honest(self, query, batch_rows)  # type: ignore[arg-type]

    monkeypatch.setattr(DuckDBEngine, "statistics", statistics)
    return found


@pytest.mark.noise_cannot_matter("whatever is drawn is kept")
def test_a_failure_in_the_second_loses_nothing_of_the_first(tmp_path: Path, reading: list[str]) -> None:
    path = tmp_path / "gone.parquet"
    pq.write_table(ROWS, path)
    text = f"WITH a AS ({dp(BY_YEAR)}), b AS ({dp(BY_YEAR, '0.2', source=repr(str(path)))}) SELECT a.year FROM a JOIN b USING (year)"
    release = ask(text)
    assert not reading
    path.unlink()
    with pytest.raises(
        EngineError, match="1 of the 2 tables that the text releases was drawn before"
    ) as caught:
        release.to_arrow()
    assert caught.value.__context__ is None
    assert release.spent == (0.3, 2e-7)
    drawn = [one.drawn for one in release._releases]
    assert drawn == [True, False] and len(reading) == 2
    assert release.released[0].to_arrow().num_rows == 3
    assert len(reading) == 2  # and is drawn no second time
    with pytest.raises(sf.errors.SfumatoError):
        release.to_arrow()
    assert len(reading) == 2


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (dp("year, COUNT(*) AS n FROM @ GROUP BY year", "-1"), "epsilon must be greater than 0"),
        (dp("year, COUNT(*) AS n FROM @ GROUP BY year", delta="0"), "Write OPTIONS .delta ="),
        (dp("year, SUM(w, contribution_bounds_per_group => (0, 1)) AS n FROM @ GROUP BY year"), "'w'"),
        (dp("year, COUNT(*) AS n FROM @ GROUP BY year", source="others"), "others"),
        (dp("year, COUNT(*) AS m FROM @ GROUP BY year"), 'b.n|Table "b"'),
    ],
)
def test_all_is_checked_before_anything_is_read(second: str, says: str, reading: list[str]) -> None:
    text = f"WITH a AS ({dp(BY_YEAR)}), b AS ({second}) SELECT a.n - b.n AS d FROM a JOIN b USING (year)"
    with pytest.raises(QueryError, match=says):
        ask(text)
    assert not reading


# Public tables.


@pytest.mark.noise_cannot_matter("nothing is drawn")
def test_a_public_table_that_cannot_be_read_costs_nothing(tmp_path: Path, reading: list[str]) -> None:
    path = tmp_path / "towns.parquet"
    pq.write_table(TOWNS, path)
    release = ask(f"SELECT label, n FROM ({dp(BY_YEAR)}) JOIN towns USING (year)", towns=sf.public(path))
    path.unlink()
    with pytest.raises(EngineError):
        release.to_arrow()
    assert not reading and not release._releases[0].drawn


def test_views_over_private_tables_are_private(tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", ROWS)
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
        connection.execute("CREATE VIEW seen AS SELECT * FROM visits")
    text = f"SELECT n FROM ({dp('COUNT(*) AS n FROM @')}), seen"
    with pytest.raises(SqlError, match="seen is a private table"):
        ask(text, seen=f"{path}/seen")
    with pytest.raises(SqlError, match="another table"):
        ask(text.replace("seen", f"'{path}/seen'"))
    with pytest.raises(SqlError, match="another table"):
        ask(text)


@pytest.mark.noise_cannot_matter("only names are compared")
def test_a_catalog_says_what_is_public() -> None:
    catalog = sf.catalog(
        {
            "tables": {
                "visits": {"source": ROWS, "privacy_unit": "id"},
                "people": {"source": ROWS, "privacy_unit": "id"},
                "towns": {"source": TOWNS, "public": True},
            }
        }
    )
    private = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) year, COUNT(*) AS n FROM visits GROUP BY year"
    release = sf.sql(f"SELECT label, n FROM ({private}) JOIN towns USING (year)", catalog=catalog)
    assert release.to_arrow().schema.names == ["label", "n"]
    with pytest.raises(SqlError, match="people is a private table"):
        sf.sql(f"SELECT * FROM ({private}), people", catalog=catalog)
    groups = private.replace("delta = 1e-6", "group_selection_strategy = PUBLIC_GROUPS")
    groups = groups.replace("year, COUNT", "p.year, COUNT").replace("BY year", "BY p.year")
    joined = "visits RIGHT OUTER JOIN (SELECT DISTINCT year FROM towns) AS p ON visits.year = p.year"
    release = sf.sql(groups.replace("FROM visits", f"FROM {joined}"), catalog=catalog)
    assert release.to_arrow()["year"].to_pylist() == [2020, 2021, 2023]
    assert release.spent == (1.0, 0.0)


# Groups of a public table.

GROUPS = dp("p.year, COUNT(*) AS n FROM @ RIGHT OUTER JOIN (SELECT DISTINCT year FROM towns) AS p ON @.year = p.year GROUP BY p.year",
            "1000000", "0", group_selection_strategy="PUBLIC_GROUPS")  # fmt: skip


@pytest.mark.flakiness(k=40, because="epsilon is so large that noise moves no number by half a unit")
@pytest.mark.parametrize("public", [[2020, None], [2020]])
def test_null_equals_nothing(public: list[int | None]) -> None:
    """A group of NULL in the public table is there, as the join has it, and no row is in it."""
    rows = ROWS.set_column(1, "year", pa.array([2020, None, 2022] * 1000, pa.int64()))
    towns = sf.public(pa.table({"year": pa.array(public, pa.int64())}))
    release = sf.sql(GROUPS, tables={"visits": rows, "towns": towns})
    expected = [{"year": 2020, "n": 1000}, {"year": None, "n": 0}][: len(public)]
    assert release.to_arrow().to_pylist() == expected


def test_too_many_public_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.engines.duckdb.post_processing.MAX_GROUPS", 2)
    with pytest.raises(SqlError, match="more than 2 groups"):
        sf.sql(GROUPS, tables={"visits": ROWS, "towns": sf.public(TOWNS)})


def test_errors_in_what_gives_the_groups_are_placed_and_come_before_reading(reading: list[str]) -> None:
    bad = GROUPS.replace("DISTINCT year FROM", "DISTINCT label + 1 AS year FROM")
    with pytest.raises(SqlError, match="groups of the public table") as caught:
        sf.sql(bad, tables={"visits": ROWS, "towns": sf.public(TOWNS)})
    assert "'d'" not in str(caught.value)
    assert not reading


# Long and deep texts.


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (" UNION ALL ".join([dp("COUNT(*) AS n FROM @")] * 51), "at most 50 private SELECTs"),
        ("SELECT " + "(" * 2000 + "1" + ")" * 2000 + f" FROM ({dp(BY_YEAR)})", "nested too deeply"),
        (f"SELECT n FROM ({dp(BY_YEAR)}) WHERE " + " OR ".join(["n = 1"] * 5000) + " OR v", "not a released column|nested"),
        ("WITH " + ", ".join(f"a{i} AS (SELECT {i})" for i in range(2000)) + f" SELECT * FROM ({dp(BY_YEAR)}), visits", "private table"),
    ],
    ids=["many", "brackets", "conditions", "names"],
)  # fmt: skip
def test_long_and_deep_texts_are_refused(text: str, says: str, reading: list[str]) -> None:
    with pytest.raises(SqlError, match=says):
        ask(text)
    assert not reading
