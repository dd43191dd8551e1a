"""Group keys that are not selected: what is told of them needs the columns of the tables, which are opened first."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import SqlError

pytestmark = pytest.mark.noise_cannot_matter("nothing is drawn, or names are looked at")


@pytest.mark.parametrize(
    "way", ["rows", "file", "database", "relation", "collection", "inside", "joined", "declared"]
)
def test_a_misspelt_group_key_that_is_not_selected_is_told_the_nearest_column(
    way: str, tmp_path: Path
) -> None:
    rows, asked = pa.table({"id": [1], "town": ["A"], "Age": [30]}), "FROM people GROUP BY twon"
    given: dict[str, Any] = {"tables": {"people": rows}}
    if way == "file":
        pq.write_table(rows, tmp_path / "people.parquet")
        given, asked = {}, f"FROM '{tmp_path / 'people.parquet'}' GROUP BY twon"
    elif way == "database":
        with closing(sqlite3.connect(tmp_path / "people.sqlite")) as connection, connection:
            connection.execute("CREATE TABLE people (id INTEGER, town TEXT, age INTEGER)")
        given = {"tables": {"people": f"{tmp_path / 'people.sqlite'}/people"}}
    elif way == "relation":
        given = {"tables": {"people": duckdb.connect().from_arrow(rows)}}
    elif way == "collection":
        given = {"tables": {"people": rows.schema}}
    elif way == "inside":
        asked = "FROM (SELECT id, upper(town) AS town FROM people) GROUP BY twon"
    elif way == "joined":
        towns = pa.table({"place": ["A"], "region": ["N"]})
        given["tables"] |= {"towns": sf.public(towns)}
        asked = "FROM people p JOIN towns t ON p.town = t.place GROUP BY p.twon"
    elif way == "declared":
        people = {"source": rows, "privacy_unit": "id", "columns": {"Age": {"domain": [30]}}}
        given = {"catalog": sf.catalog({"tables": {"people": people}})}
    unit = "" if way == "declared" else ", privacy_unit_column = id"
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6{unit}) COUNT(*) AS n {asked}"
    budget = sf.Budget(epsilon=1, delta=1e-6)
    with pytest.raises(SqlError) as caught:
        sf.sql(text, budget=budget, **given)
    told, where, _, marks = str(caught.value).split("\n")
    written = asked.rsplit(" ", 1)[1]
    key = written.removeprefix("p.")
    assert told == f"the group key {key} is not selected; did you mean town? Then add that to the SELECT list"
    assert where == f"line 1, column {text.index(written) + 1}:"
    assert marks.strip() == "^" * len(written)
    assert budget.spent == sf.Budget(epsilon=1, delta=1e-6).spent


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("town", "add it to the SELECT list"),
        ("AGE", "add it to the SELECT list"),
        ("upper(twon)", "add it to the SELECT list"),
        ("yera", "did you mean year?"),
        ("xyz", "there is no such column. The columns are: id, town, Age, years"),
    ],
)
def test_a_group_key_that_is_not_selected(key: str, told: str) -> None:
    rows = pa.table({"id": [1], "town": ["A"], "Age": [30], "years": [2]})
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id) "
        f"Age + 1 AS year, COUNT(*) AS n FROM people GROUP BY year, {key}"
    )
    with pytest.raises(SqlError, match="^" + re.escape(f"the group key {key} is not selected; {told}\n")):
        sf.sql(text, tables={"people": rows})


@pytest.mark.parametrize(
    ("selected", "grouped", "names"),
    [
        ("LOWER(TRIM(Town)) AS town, COUNT(*) AS n", "town", ["town", "n"]),
        ("UPPER(Town) AS TOWN, COUNT(DISTINCT Town, contribution_bounds_per_group => (0, 1)) AS n", "Town", ["TOWN", "n"]),
        ("LOWER(Town) AS town, Age // 10 AS age, COUNT(*) AS n", "1, 2", ["town", "age", "n"]),
        ("Town, COUNT(*) AS n", "town", ["Town", "n"]),
    ],
)  # fmt: skip
def test_a_computed_key_is_called_as_it_is_written(selected: str, grouped: str, names: list[str]) -> None:
    """Also where a column of the table has that name in other letters, which stood in the answer before."""
    rows = pa.table({"id": range(900), "Town": ["A ", "B", "b"] * 300, "Age": [31, 32, 45] * 300})
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 9, delta = 1e-3, privacy_unit_column = id) "
        f"{selected} FROM people GROUP BY {grouped}"
    )
    release = sf.sql(text, tables={"people": rows}, budget=sf.Budget(epsilon=9, delta="0.002"))
    assert release.to_arrow().column_names == names
