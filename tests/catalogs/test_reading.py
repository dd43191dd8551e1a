"""A TOML file or a dict to declarations: what is written is read exactly, what is odd is refused with its place."""

from __future__ import annotations

import copy
import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import sfumato as sf
from sfumato.catalogs.catalog_file import read
from sfumato.catalogs.declarations import ForeignKey
from sfumato.errors import CatalogError, EngineError, ParameterError, QueryError

TOML = """
[tables.visits]
source = "visits.csv"
privacy_unit = "id"
types = {id = "BIGINT", age = "DOUBLE", day = "DATE"}
multiline = false
max_groups = 5
max_rows = 2

[tables.visits.columns.age]
lower = 0.1
upper = 120

[tables.visits.columns]
year = {domain = [2023, 2024]}
day = {domain = [2024-01-01, 2024-01-02]}

[tables.regions]
source = "/data/regions-*.parquet"
public = true

[tables.orders]
source = "shop.duckdb/orders"
foreign_keys = {visitor = "visits.id"}

[tables.lines]
source = "lines.parquet"
foreign_keys = {order = "orders.number"}
"""
SAME = {
    "tables": {
        "visits": {
            "source": "visits.csv",
            "privacy_unit": "id",
            "types": {"id": "BIGINT", "age": "DOUBLE", "day": "DATE"},
            "multiline": False,
            "max_groups": 5,
            "max_rows": 2,
            "columns": {
                "age": {"lower": Decimal("0.1"), "upper": 120},
                "year": {"domain": range(2023, 2025)},
                "day": {"domain": (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2))},
            },
        },
        "regions": {"source": "/data/regions-*.parquet", "public": True},
        "orders": {"source": "shop.duckdb/orders", "foreign_keys": {"visitor": "visits.id"}},
        "lines": {"source": "lines.parquet", "foreign_keys": {"order": "orders.number"}},
    }
}


def toml(folder: Path, text: str = TOML) -> str:
    path = folder / "catalog.toml"
    path.write_text(text)
    return str(path)


def test_what_is_written_is_read(tmp_path):
    found = read(toml(tmp_path))
    visits = found.declaration("visits")
    assert (visits.privacy_unit, visits.max_groups, visits.max_rows, visits.multiline) == ("id", 5, 2, False)
    assert visits.types == {"id": "BIGINT", "age": "DOUBLE", "day": "DATE"}
    assert visits.domains(["year", "day"]) == (
        (2023, 2024),
        (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
    )
    assert visits.domains(["year", "age"]) is visits.domains(["other"]) is visits.domains([]) is None
    assert found.declaration("regions").public and not visits.public
    assert found.declaration("orders").foreign_key == ForeignKey("visitor", "visits", "id")
    assert found.declaration("lines").foreign_key.table == "orders"
    assert found.unit_name("lines") == "visitor" and found.unit_name("visits") == "id"
    # A float would be the nearest multiple of a power of two: 0.1 is none.
    assert visits.bounds("AGE") == (Fraction(1, 10), 120)
    with pytest.raises(QueryError, match="the table is public"):
        found.private("regions")
    with pytest.raises(QueryError, match=r"no table 'visit'; did you mean 'visits'\?"):
        found.private("visit")


def test_a_dict_is_the_same_as_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    toml(tmp_path)
    from_file, from_dict = read("catalog.toml"), read(SAME)
    assert list(from_file.tables) == list(from_dict.tables)
    for name, table in from_file.tables.items():
        other = from_dict.tables[name]
        assert (table.source, table.foreign_key, table.columns) == (
            other.source,
            other.foreign_key,
            other.columns,
        )
        assert (table.types, table.max_groups, table.max_rows) == (
            other.types,
            other.max_groups,
            other.max_rows,
        )


def test_paths_begin_at_the_folder_of_the_file(tmp_path):
    """Whose own name is no pattern."""
    folder = tmp_path / "of [2024]"
    folder.mkdir()
    (folder / "a.csv").write_text("id,x\n1,2\n")
    (folder / "b.csv").write_text("id,x\n1,2\n")
    entry = '[tables.{}]\nsource = "{}"\nprivacy_unit = "id"\n'
    found = sf.catalog(toml(folder, entry.format("one", "a.csv") + entry.format("all", "*.csv")))
    for name in ("one", "all"):
        assert list(found.table(name).schema) == ["id", "x"]
    tables = read(toml(folder, TOML)).tables
    assert tables["regions"].source == "/data/regions-*.parquet"
    assert tables["orders"].source == str(folder / "shop.duckdb/orders")


ABSENT = object()
# Where a dict is changed, to what, and the words that must stand in the error.
ODD = {
    "unknown key": (["tabels"], {}, ["no key 'tabels'", "did you mean tables?"]),
    "no tables": (["tables"], {}, ["no table is declared"]),
    "unknown key of a table": (["tables", "visits", "privacy_unt"], "id", ["did you mean privacy_unit?"]),
    "no source": (["tables", "visits", "source"], ABSENT, ["tables.visits: source is missing"]),
    "no unit": (["tables", "visits", "privacy_unit"], ABSENT, ["privacy_unit is missing", "public = true"]),
    "a unit twice": (["tables", "visits", "privacy_unit"], ["id", "ID"], ["'ID' is there twice"]),
    "no unit in a list": (["tables", "visits", "privacy_unit"], [], ["the list is empty"]),
    "a time zone of one column": (["tables", "visits", "unit_timezone"], "UTC", ["of several columns"]),
    "unit of a public table": (["tables", "regions", "privacy_unit"], "id", ["does not go with public"]),
    "limit of a public table": (["tables", "regions", "max_rows"], 1, ["max_rows does not go with public"]),
    "public of no kind": (["tables", "regions", "public"], "yes", ["public is 'yes'", "true or false"]),
    "a type of no kind": (["tables", "visits", "types", "id"], 8, ["'id' is declared 8"]),
    "unknown type": (["tables", "visits", "types", "id"], "BIGINTT", ["tables.visits: types", "BIGINT"]),
    "no limit": (["tables", "visits", "max_groups"], 0, ["max_groups is 0", "whole number"]),
    "limit of truth": (["tables", "visits", "max_rows"], True, ["max_rows is True"]),
    "unknown key of a column": (
        ["tables", "visits", "columns", "age", "uper"],
        1,
        ["tables.visits.columns.age: there is no key 'uper'", "did you mean upper?"],
    ),
    "one bound": (["tables", "visits", "columns", "age", "lower"], ABSENT, ["columns.age: lower is missing"]),
    "bounds the wrong way": (["tables", "visits", "columns", "age", "lower"], 121, ["age: lower is 121"]),
    "a bound of truth": (["tables", "visits", "columns", "age", "lower"], False, ["lower is False"]),
    "an endless bound": (["tables", "visits", "columns", "age", "upper"], float("inf"), ["upper is inf"]),
    "a bound beyond memory": (
        ["tables", "visits", "columns", "age", "upper"],
        Decimal("1e999999999"),
        ["age"],
    ),
    "domain of no kind": (["tables", "visits", "columns", "year", "domain"], 2023, ["a list of all values"]),
    "empty domain": (["tables", "visits", "columns", "year", "domain"], [], ["a list of all values"]),
    "a value twice": (["tables", "visits", "columns", "year", "domain"], [1, 2, 1], ["names 1 twice"]),
    "mixed domain": (["tables", "visits", "columns", "year", "domain"], [1, "2"], ["numbers and texts"]),
    "nothing in a domain": (["tables", "visits", "columns", "year", "domain"], [1, None], ["holds None"]),
    "a unit's domain": (["tables", "visits", "columns", "ID"], {"domain": [1, 2]}, ["a group for each unit"]),
    "a column twice": (["tables", "visits", "columns", "AGE"], {}, ["named twice"]),
    "a table twice": (["tables", "Visits"], {"source": "x", "public": True}, ["differ by case alone"]),
    "two keys": (
        ["tables", "orders", "foreign_keys"],
        {"a": "visits.id", "b": "visits.id"},
        ["has 2", "one unit"],
    ),
    "a key without column": (
        ["tables", "orders", "foreign_keys", "visitor"],
        "visits",
        ["a table and its column"],
    ),
    "a key to nothing": (
        ["tables", "orders", "foreign_keys", "visitor"],
        "visit.id",
        ["no table 'visit'", "did you mean 'visits'?"],
    ),
    "a key to a public table": (["tables", "orders", "foreign_keys", "visitor"], "regions.id", ["is public"]),
    "a circle": (
        ["tables", "orders", "foreign_keys"],
        {"x": "lines.order"},
        ["circle: orders -> lines -> orders"],
    ),
    "a unit and a key": (["tables", "orders", "privacy_unit"], "id", ["both privacy_unit and foreign_keys"]),
}


def test_what_is_odd_is_refused_with_its_place():
    for place, value, words in ODD.values():
        changed = copy.deepcopy(SAME)
        at = changed
        for key in place[:-1]:
            at = at[key]
        if value is ABSENT:
            del at[place[-1]]
        else:
            at[place[-1]] = value
        with pytest.raises(CatalogError, match="^catalog: ") as caught:
            sf.catalog(changed)
        assert all(word in str(caught.value) for word in words) and caught.value.__cause__ is None


def test_a_file_that_is_no_toml_is_not_quoted(tmp_path):
    """It may be another file than was meant, with rows in it."""
    for text in ("a = ", "[tables.visits]\nsource = 'Private Value", "\0", "a" * 5000 + "= 1\na"):
        with pytest.raises(CatalogError, match="this is no TOML") as caught:
            sf.catalog(toml(tmp_path, text))
        told = str(caught.value).partition("this is no TOML")[2]
        assert "Private" not in told and "aaa" not in told and caught.value.__context__ is None
    (tmp_path / "catalog.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CatalogError, match="this is no TOML"):
        sf.catalog(tmp_path / "catalog.toml")
    with pytest.raises(EngineError, match="cannot be read: No such file"):
        sf.catalog(tmp_path / "none.toml")
    with pytest.raises(ParameterError, match="catalog is 3"):
        sf.catalog(3)
    path = toml(tmp_path, TOML.replace("max_rows = 2", "max_row = 2"))
    with pytest.raises(CatalogError, match=f"^{path}: tables.visits: there is no key 'max_row'"):
        sf.catalog(path)


def test_the_unit_that_a_foreign_key_leads_to():
    found = read(SAME)
    assert [found.unit_name(name) for name in ("visits", "orders", "lines")] == ["id", "visitor", "visitor"]
    assert (
        found.private("lines").privacy_unit == "visitor" and found.declaration("lines").privacy_unit is None
    )
    other = copy.deepcopy(SAME)
    other["tables"]["orders"]["foreign_keys"] = {"visitor": "visits.number"}
    assert [read(other).unit_name(name) for name in ("orders", "lines")] == ["id", "id"]
