"""A TOML file or a dict to declarations: what is written is read exactly, what is odd is refused with its place."""

import copy
import datetime
import functools
import operator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

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
    days = (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2))
    assert visits.domains(["year", "day"]) == ((2023, 2024), days)
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
    same = ("source", "foreign_key", "columns", "types", "max_groups", "max_rows")
    for one, other in zip(read("catalog.toml").tables.items(), read(SAME).tables.items(), strict=True):
        assert one[0] == other[0]
        assert all(getattr(one[1], name) == getattr(other[1], name) for name in same)


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
AGE, YEAR, KEYS = "visits.columns.age", "visits.columns.year", "orders.foreign_keys"
# Where the tables of a dict are changed, to what, and the words that must stand in the error.
ODD: list[tuple[str, Any, str]] = [
    ("visits.privacy_unt", "id", "did you mean privacy_unit?"),
    ("visits.source", ABSENT, "tables.visits: source is missing"),
    ("visits.privacy_unit", ABSENT, "privacy_unit is missing"),
    ("visits.privacy_unit", ["id", "ID"], "'ID' is listed twice"),
    ("visits.privacy_unit", [], "the list is empty"),
    ("visits.unit_timezone", "UTC", "in a list as privacy_unit"),
    ("regions.privacy_unit", "id", "cannot be combined with public"),
    ("regions.max_rows", 1, "max_rows cannot be combined with public"),
    ("regions.public", "yes", "public is 'yes'"),
    ("visits.types.id", 8, "'id' is declared 8"),
    ("visits.types.id", "BIGINTT", "tables.visits: types"),
    ("visits.max_groups", 0, "max_groups is 0"),
    ("visits.max_rows", True, "max_rows is True"),
    (f"{AGE}.uper", 1, "tables.visits.columns.age: there is no key 'uper'"),
    (f"{AGE}.lower", ABSENT, "columns.age: lower is missing"),
    (f"{AGE}.lower", 121, "age: lower is 121"),
    (f"{AGE}.lower", False, "lower is False"),
    (f"{AGE}.upper", float("inf"), "upper is inf"),
    (f"{AGE}.upper", Decimal("1e999999999"), "age"),
    (f"{YEAR}.domain", 2023, "a list of all values"),
    (f"{YEAR}.domain", [], "a list of all values"),
    (f"{YEAR}.domain", [1, 2, 1], "names 1 twice"),
    (f"{YEAR}.domain", [1, "2"], "numbers and texts"),
    (f"{YEAR}.domain", [1, None], "domain has None"),
    ("visits.columns.ID", {"domain": [1, 2]}, "a group for each unit"),
    ("visits.columns.AGE", {}, "named twice"),
    ("Visits", {"source": "x", "public": True}, "differ only in case"),
    (KEYS, {"a": "visits.id", "b": "visits.id"}, "has 2"),
    (f"{KEYS}.visitor", "visits", "a table and its column"),
    (f"{KEYS}.visitor", "visit.id", "no table 'visit'"),
    (f"{KEYS}.visitor", "regions.id", "is public"),
    (KEYS, {"x": "lines.order"}, "circular: orders -> lines -> orders"),
    ("orders.privacy_unit", "id", "both privacy_unit and foreign_keys"),
]


def test_what_is_odd_is_refused_with_its_place():
    for place, value, says in ODD:
        changed = copy.deepcopy(SAME)
        *way, last = place.split(".")
        at = functools.reduce(operator.getitem, way, changed["tables"])
        at[last] = value
        if value is ABSENT:
            del at[last]
        with pytest.raises(CatalogError, match="^catalog: ") as caught:
            sf.catalog(changed)
        assert says in str(caught.value) and caught.value.__cause__ is None
    for wrong in ({"tabels": {}}, {"tables": {}}):
        with pytest.raises(CatalogError):
            sf.catalog(wrong)


def test_a_file_that_is_no_toml_is_not_quoted(tmp_path):
    """It may be another file than was meant, with rows in it."""
    for text in ("a = ", "[tables.visits]\nsource = 'Private Value", "\0", "a" * 5000 + "= 1\na"):
        with pytest.raises(CatalogError, match="this is not TOML") as caught:
            sf.catalog(toml(tmp_path, text))
        told = str(caught.value).partition("this is not TOML")[2]
        assert "Private" not in told and "aaa" not in told and caught.value.__context__ is None
    (tmp_path / "catalog.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CatalogError, match="this is not TOML"):
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
    assert found.private("lines").privacy_unit == "visitor"
    assert found.declaration("lines").privacy_unit is None
    other = copy.deepcopy(SAME)
    other["tables"]["orders"]["foreign_keys"] = {"visitor": "visits.number"}
    assert [read(other).unit_name(name) for name in ("orders", "lines")] == ["id", "id"]
