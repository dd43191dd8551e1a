"""A catalog beside its rows: each kind of row that is not as declared is counted, and nothing else."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.catalog_check import NOT_PRIVATE

MARK = "Private Value"
CUSTOMERS = {
    "id": [1, 2, 3, None],
    "age": [0.0, 120.0, float("nan"), None],
    "city": ["Ulm", "Bonn", None, "Ulm"],
}
ORDERS = {"number": [1, 2, 3], "customer": [1, 1, None]}


def catalog(customers: Any = CUSTOMERS, orders: Any = ORDERS, **declared: Any) -> Any:
    entry = {
        "source": pa.table(customers) if isinstance(customers, dict) else customers,
        "privacy_unit": "id",
        "columns": {"age": {"lower": 0, "upper": 120}, "CITY": {"domain": ["Ulm", "Bonn"]}},
    }
    tables = {
        "customers": entry | declared,
        "orders": {"source": pa.table(orders), "foreign_keys": {"CUSTOMER": "customers.id"}},
        "cities": {"source": pa.table({"name": ["Ulm"]}), "public": True},
    }
    return sf.catalog({"tables": tables})


def wrong(found: Any) -> list[str]:
    return [f"{f.where}: {f.text}".removeprefix("catalog: tables.") for f in found.findings if f.wrong]


def test_rows_that_are_as_declared():
    found = catalog().check()
    assert found.ok and wrong(found) == []
    told = str(found)
    assert told.startswith(NOT_PRIVATE) and told.startswith("NOT PRIVATE")
    assert "customers: private, 4 rows" in told and "customers: 1 row without id, in no answer" in told
    assert "cities: public, 1 row" in told and "customers.id is unique" in told
    assert told.endswith("catalog: the rows are as declared")


LACKS = "orders: foreign_keys: CUSTOMER: 2 rows with a value that customers.id lacks: they have no unit, and are in no answer"
AGAIN = "customers.id is not unique (1 values are repeated): a row here has several owners there"
CHANGED = [
    ({"age": [-0.001, 5, 6, 7]}, {}, "customers.columns.age: 1 row outside 0 to 120"),
    ({"age": [float("inf"), 120.5, 6, 7]}, {}, "customers.columns.age: 2 rows outside 0 to 120"),
    ({"city": [MARK, "ulm", "Ulm", None]}, {}, "customers.columns.CITY: 2 rows outside the domain of 2"),
    ({"id": [1, 2, 2, 3]}, {}, f"orders: foreign_keys: CUSTOMER: {AGAIN}"),
    ({}, {"customer": [1, 9, 9]}, LACKS),
    ({"id": pa.array([None] * 4, pa.int64())}, {}, LACKS),
    (
        {},
        {"customer": ["1", "2", MARK]},
        "orders: foreign_keys: CUSTOMER: customer is VARCHAR, but customers.id",
    ),
]


@pytest.mark.long
def test_what_is_not_as_declared_is_counted(tmp_path):
    for customers, orders, expected in CHANGED:
        given = {name: values for name, values in (ORDERS | orders).items() if values is not None}
        found = catalog(CUSTOMERS | customers, given).check()
        (text,) = wrong(found)
        assert text.startswith(expected) and not found.ok and MARK not in str(found)
    found = catalog(str(tmp_path / "none.parquet")).check()
    (text,) = wrong(found)
    assert text.startswith("customers: scan: there is no file") and "orders: private, 3 rows" in str(found)
    found = catalog(pa.table(CUSTOMERS).schema).check()  # which stands for the rows of a pipeline
    assert found.ok and "rows of Beam cannot be read here" in str(found)
    unfit = {"source": pa.table({"n": [1]}), "public": True, "columns": {"n": {"domain": ["x"]}}}
    found = sf.catalog({"tables": {"c": unfit}}).check()
    assert wrong(found) == ["c: columns.n: domain holds 'x', which does not fit n (BIGINT)"]


def test_values_that_do_not_fit_their_type(tmp_path):
    path = tmp_path / "customers.csv"
    path.write_text(
        f"id,age,city,day\n1,5,Ulm,2024-01-31\n2,{MARK},Ulm,2024-02-30\n3,,Bonn,\nx,7,Ulm,2024-01-01\n"
    )
    types = {"id": "BIGINT", "age": "INTEGER", "day": "DATE"}
    found = catalog(str(path), types=types).check()
    assert wrong(found) == [
        f"customers: types: {name}: 1 row with a value that is not {kind}" for name, kind in types.items()
    ]
    assert MARK not in str(found)
