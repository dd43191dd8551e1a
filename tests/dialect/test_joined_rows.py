"""The limit of joined rows of a unit, as SQL and catalogs say it: the same question as a chain's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import CatalogError, QueryError, SqlError
from sfumato.release.canonical_form import plain

ROWS = pa.table({"id": [1] * 20 + [2], "x": range(21)})
JOINS = (
    "a JOIN b ON a.id = b.id",
    "(SELECT a.id AS id, a.x AS x FROM a JOIN b ON a.id = b.id) AS s",
    "a JOIN (SELECT b.id AS id, b.x AS y FROM b JOIN b AS c ON b.id = c.id) AS s ON a.id = s.id",
)


def catalog(**of_a: Any) -> sf.Catalog:
    a, b = ({"source": ROWS, "privacy_unit": "id"} for _ in range(2))
    return sf.catalog({"tables": {"a": a | of_a, "b": b}})


def limits(found: Any) -> list[int]:
    """All limits of joined rows in a question's plain data."""
    if isinstance(found, dict):
        own = [found["unit_rows"]] if "unit_rows" in found else []
        return own + [one for value in found.values() for one in limits(value)]
    return [one for value in found for one in limits(value)] if isinstance(found, list) else []


def asked(tables: str, options: str, **of_a: Any) -> list[int]:
    head = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_rows_per_group = 9{options}) COUNT(*) AS n"
    release = sf.sql(f"{head} FROM {tables}", catalog=catalog(**of_a), budget=sf.Budget(2))
    return limits(plain(release.canonical()))


@pytest.mark.parametrize("tables", JOINS)
def test_every_join_of_a_text_has_its_limit(tables: str) -> None:
    joins = tables.count("JOIN")
    assert asked(tables, "") == [100_000] * joins
    assert asked(tables, ", max_joined_rows = 50") == [50] * joins
    assert asked(tables, "", max_joined_rows=60) == [60] * joins
    assert asked(tables, ", max_joined_rows = 50", max_joined_rows=60) == [50] * joins
    with pytest.raises(SqlError, match=r"max_joined_rows is 61, but catalog: tables\..* allows at most 60"):
        asked(tables, ", max_joined_rows = 61", max_joined_rows=60)


@pytest.mark.noise_cannot_matter("epsilon is 10^6: P(|Z| > 1/2) < 1e-200")
def test_fewer_rows_are_joined() -> None:
    head = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6, noise = laplace, max_rows_per_group = 1000{}) COUNT(*) AS n"
    counts = []
    for options in ("", ", max_joined_rows = 50", ", max_joined_rows = 1"):
        release = sf.sql(
            f"{head.format(options)} FROM {JOINS[0]}", catalog=catalog(), budget=sf.Budget(2 * 10**6)
        )
        counts += release.to_arrow()["n"].to_pylist()
    assert counts == [401, 41, 21]  # 20 rows meet 20 each, as long as they make 50, or as many as there are


@pytest.mark.parametrize(
    ("value", "why"),
    [("0", "at least 1"), ("10000001", "at most 10,000,000"), ("'5'", "whole number"), ("NULL", "without a limit"), ("1.5", "whole number")],
)  # fmt: skip
def test_other_values_are_refused_in_place(value: str, why: str) -> None:
    with pytest.raises(SqlError, match=why) as caught:
        asked(JOINS[0], f", max_joined_rows = {value}")
    assert caught.value.place is not None


def test_the_name_of_python_is_told_that_of_sql() -> None:
    with pytest.raises(SqlError, match="there is no option unit_rows; did you mean max_joined_rows"):
        asked(JOINS[0], ", unit_rows = 5")


def test_a_chain_takes_the_owners_limit_and_none_beyond_it() -> None:
    made = catalog(max_joined_rows=60)
    a, b = made.table("a"), made.table("b")
    for one, other in ((a, b), (b, a)):
        assert limits(one.join(other, on="id")._engine.content()) == [60]
        assert limits(one.join(other, on="id", unit_rows=7)._engine.content()) == [7]
        for beyond in (61, np.int64(61)):
            with pytest.raises(
                QueryError, match=r"join: unit_rows is 61, but catalog: tables\.a allows at most 60"
            ):
                one.join(other, on="id", unit_rows=beyond)


@pytest.mark.parametrize("given", [0, -1, 10_000_001, "many", 2.5, True])
def test_an_owners_odd_limit_is_refused(given: Any) -> None:
    with pytest.raises(
        CatalogError, match="max_joined_rows is .* must be a whole number from 1 to 10,000,000"
    ):
        catalog(max_joined_rows=given)


@pytest.mark.long
def test_a_text_that_lost_its_limit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from sfumato.dialect import subquery_columns

    real = subquery_columns.Scope.__init__
    monkeypatch.setattr(subquery_columns.Scope, "__init__", lambda self, *given: real(self, *given[:5]))
    assert asked(JOINS[1], ", max_joined_rows = 50") == [100_000]
