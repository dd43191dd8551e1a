"""A question that leaves out what the catalog has is the question that says it; nothing is taken from rows."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.catalogs.declarations import product
from sfumato.errors import CatalogError, QueryError
from sfumato.query.query import Query

# Not a value of these is within the declared bounds or domains.
ROWS = pa.table(
    {"id": [1, 2, 3], "year": [1999, 1999, 1998], "City": ["a", "b", "c"], "age": [500.0, -3.0, 900.0]}
)
COLUMNS = {
    "age": {"lower": 0, "upper": 120},
    "year": {"domain": [2021, 2020]},
    "city": {"domain": ["Ulm", "Bonn", "Ost"]},
}
YEARS = [2020, 2021]


def table(**declared: Any) -> Any:
    entry = {"source": ROWS, "privacy_unit": "id", "columns": COLUMNS, "max_groups": 3, "max_rows": 2}
    entry = {name: value for name, value in (entry | declared).items() if value is not None}
    return sf.catalog({"tables": {"visits": entry}}).table("visits")


def plain() -> Any:
    return sf.scan(ROWS, privacy_unit="id")


def asked(question: Any) -> Query:
    return dataclasses.replace(question.query, notes=())


BOUNDS = {"lower": 0, "upper": 120}
CITIES = [(city, year) for city in ("Ulm", "Bonn", "Ost") for year in YEARS]


def people(t: Any) -> Any:
    return t.bound(groups=1).agg(n=sf.count_units())


def several(**bounds: Any) -> dict[str, Any]:
    return {
        "m": sf.mean("age", **bounds),
        "v": sf.variance("age", **bounds),
        "s": sf.stddev("age", **bounds),
        "q": sf.quantiles("age", [0.1, 0.5], error_bars=False, **bounds),
    }


# What leaves something out, and what says it.
SAME: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda t: t.bound(rows=1).agg(**several()), lambda t: t.bound(rows=1).agg(**several(**BOUNDS))),
    (lambda t: t.bound(rows=1).agg(s=sf.sum("age")), lambda t: t.bound(rows=1).agg(s=sf.sum("age", per="row", **BOUNDS))),
    *[(lambda t: t.bound(rows=1).agg(s=sf.sum("age", lower=5, upper=7)),) * 2],
    (lambda t: t.group_by("age").agg(n=sf.count()), lambda t: t.group_by("age").bound(groups=3, rows=2).agg(n=sf.count())),
    (lambda t: people(t.group_by("year")), lambda t: people(t.group_by("year", keys=YEARS))),
    (lambda t: people(t.group_by("City", "year")), lambda t: people(t.group_by("City", "year", keys=CITIES))),
    (lambda t: people(t.group_by("year", keys="private")), lambda t: people(t.group_by("year"))),
    *[(lambda t: people(t.with_columns(YEAR="year + 1").group_by("YEAR")),) * 2],
    (
        lambda t: t.filter("year > 5").with_columns(x="age").bound(rows=1).agg(m=sf.mean("age")),
        lambda t: t.filter("year > 5").with_columns(x="age").bound(rows=1).agg(m=sf.mean("age", **BOUNDS)),
    ),
]  # fmt: skip


def test_the_same_question():
    """Not a group, bound or limit comes from the rows, of which there may be none."""
    for left_out, said in SAME:
        for own in (table(), table(source=ROWS.slice(0, 0))):
            assert asked(left_out(own)) == asked(said(plain()))


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda t: t.bound(groups=4), "groups is 4, but catalog: tables.visits allows at most 3"),
    (lambda t: t.bound(rows=3), "rows is 3, but catalog: tables.visits allows at most 2"),
    (lambda t: t.bound(total_rows=3), "total_rows is 3, but catalog: tables.visits allows at most 2"),
    (lambda t: t.with_columns(age="age * 2").agg(m=sf.mean("age")), "for the column from with_columns"),
    (lambda t: t.with_columns(AGE="age * 2").agg(m=sf.mean("AGE")), "for the column from with_columns"),
    (lambda t: t.agg(m=sf.mean("year")), "or declare lower and upper of year in catalog"),
    (lambda t: t.with_columns(x="age").agg(m=sf.mean("x")), "lower and upper are missing"),
    (lambda t: t.agg(s=sf.sum("age", per="unit")), "are for single rows"),
]


def test_what_a_declaration_does_not_give_is_refused():
    for ask, words in REFUSED:
        with pytest.raises(QueryError, match=re.escape(words)):
            ask(table())


def test_a_limit_of_rows_of_all_groups_is_beside_no_limit_of_the_catalog():
    question = table().bound(total_rows=2).group_by("year", keys=YEARS).agg(n=sf.count())
    assert asked(question) == asked(
        plain().bound(total_rows=2).group_by("year", keys=YEARS).agg(n=sf.count())
    )
    assert table(max_rows=None).bound(total_rows=3) and table(max_groups=None).bound(total_rows=2)
    with pytest.raises(QueryError, match="total_rows is 4, but catalog: tables.visits allows at most 3"):
        table(max_rows=None).bound(total_rows=4)


def test_the_largest_groups_take_no_limit_and_say_so():
    """Each unit counts in all of its groups: a limit would leave something out, and no noise is for it."""
    top = table().top("age", k=1)
    assert top._exact((top.statistic,)) == plain().top("age", k=1)._exact((top.statistic,))
    release = top.release(epsilon=1, delta=1e-6)
    for name in ("max_groups", "max_rows"):
        assert f"{name} of catalog: tables.visits has no effect here" in str(release.explain())
    assert not table(max_groups=None, max_rows=None).top("age", k=1).notes
    # Groups of domains are public, as of every question.
    years = table(max_groups=None, max_rows=None).top("year", k=1)
    assert years._public_keys["year"].to_pylist() == YEARS
    assert "the 2 groups by year are public" in years.notes[0]
    assert table().top("year", k=1, keys="private")._public_keys is None
    with pytest.raises(QueryError, match="for single rows"):
        table().top("year", k=1, by=sf.sum("age"))
    with pytest.raises(QueryError, match="Leave bound out"):
        table().bound(groups=2).top("year", k=1)


def test_at_most_a_million_groups():
    wide = {"year": {"domain": range(1000)}, "City": {"domain": [str(i) for i in range(1001)]}}
    with pytest.raises(QueryError, match="1,000 times 1,001 = 1,001,000 groups"):
        table(columns=wide).group_by("year", "City")
    assert table(columns=wide).group_by("year", "City", keys="private")._public_keys is None
    assert product(["a", "b"], [range(1000), range(1000)]).num_rows == 1_000_000
    rows = [tuple(row.values()) for row in product(["a", "b"], [(1, 2), ("x", "y")]).to_pylist()]
    assert rows == [(1, "x"), (1, "y"), (2, "x"), (2, "y")]


UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"agee": {"lower": 0, "upper": 1}}, "columns.agee: there is no column 'agee'; did you mean 'age'?"),
    ({"city": {"lower": 0, "upper": 1}}, "columns.city: only numbers have bounds, but the column is VARCHAR"),
    ({"year": {"domain": ["x"]}}, "columns.year: domain holds 'x', which does not fit year (BIGINT)"),
    ({"year": {"domain": [0.5]}}, "which does not fit year"),
]


def test_declarations_that_do_not_fit_the_source():
    for columns, words in UNFIT:
        with pytest.raises(CatalogError, match=f"^catalog: tables.visits: .*{re.escape(words)}"):
            table(columns=columns)
    halves = table(columns={"age": {"domain": [0, 0.5, 1]}}).group_by("age")
    assert halves._public_keys["age"].to_pylist() == [0.0, 0.5, 1.0]


def two() -> tuple[Any, Any]:
    """Return a table without limits, and one with them."""
    rows = pa.table({"id": [1, 1, 2], "k": [1, 2, 1]})
    free = {"source": rows, "privacy_unit": "id"}
    made = sf.catalog(
        {"tables": {"free": free, "held": free | {"max_groups": 3, "max_rows": 2, "max_joined_rows": 60}}}
    )
    return made.table("free"), made.table("held")


JOIN = "SELECT self.id, self.k FROM self JOIN held ON self.id = held.id"
UNION = "SELECT id, k FROM self UNION ALL SELECT id, k FROM held"
# All ways by which rows of a table with limits come into one that has none.
WAYS: list[Callable[[Any, Any], Any]] = [
    lambda free, held: free.union(held),
    lambda free, held: free.join(held, on="id"),
    lambda free, held: free.join(free.union(held), on="id"),
    lambda free, held: free.per_unit("k", n="count(*)").join(held, on="id"),
    lambda free, held: free.sql(JOIN, tables={"held": held}),
    lambda free, held: free.sql(UNION, tables={"held": held}),
    lambda free, held: free.sql(f"SELECT s.id, s.k FROM ({UNION}) AS s", tables={"held": held}),
    lambda free, held: free.sql("SELECT id, k FROM held", tables={"held": held}),
]


@pytest.mark.parametrize("way", WAYS)
def test_limits_hold_of_rows_that_come_from_another_table(way: Callable[[Any, Any], Any]) -> None:
    free, held = two()
    made = way(free, held).group_by("k")
    made.bound(groups=3, rows=2)
    for beyond in ({"groups": 4}, {"rows": 3}):
        with pytest.raises(
            QueryError, match=r"in catalog: tables\.|but catalog: tables\..*held allows at most"
        ):
            made.bound(**beyond)
    with pytest.raises(QueryError, match="unit_rows is 61, but catalog: .* allows at most 60"):
        way(free, held).join(free, on="id", unit_rows=61)
    free.union(free).group_by("k").bound(groups=4, rows=3)


LACKING = pa.table(
    {
        "id": [1, 2, 3, 4, 5],
        "n": [1, None, 3, 4, 5],
        "x": [0.5, 1.0, None, float("nan"), 2.0],
        "town": ["A", "A", "B", "B", "B"],
    }
)
NEVER = {"N": {"missing": "none"}, "x": {"missing": "none", "lower": 0, "upper": 4}}


def counted(t: Any) -> int:
    """Return the exact number of rows, of which each unit has one."""
    plan = t.bound(rows=1).agg(n=sf.count()).plan(epsilon=1)
    (batch,) = t._engine.statistics(plan.exact, 10)
    return next(v for c in batch.columns for v in c.to_pylist())


def test_rows_that_lack_a_value_where_the_catalog_says_that_none_does_are_dropped():
    visits = {"source": LACKING, "privacy_unit": "id", "columns": NEVER}
    towns = {
        "source": pa.table({"town": ["A", "B", None]}),
        "public": True,
        "columns": {"town": {"missing": "none"}},
    }
    lines = {
        "source": LACKING.select(["id", "n"]),
        "foreign_keys": {"id": "visits.id"},
        "columns": {"n": {"missing": "none"}},
    }
    catalog = sf.catalog({"tables": {"visits": visits, "towns": towns, "lines": lines}})
    table = catalog.table("visits")
    assert not table.schema["n"].missing and not table.schema["x"].missing
    assert counted(table) == counted(table.with_columns(n="NULL")) == 2
    # The same as where the question says so.
    said = sf.scan(LACKING, privacy_unit="id").filter('"n" IS NOT NULL AND NOT isnan("x")')
    question = {"m": sf.mean("x", lower=0, upper=4), "s": sf.sum("n", lower=1, upper=9), "u": sf.count()}
    assert asked(table.bound(rows=1).agg(**question)) == asked(said.bound(rows=1).agg(**question))
    assert not catalog.public("towns").schema["town"].missing
    assert counted(table.join(catalog.public("towns"), on="town")) == 2
    assert not catalog.table("lines").schema["n"].missing
    assert counted(catalog.table("lines")) == 2  # of units 1 and 5, whose rows of visits are there
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_rows_contributed = 1) COUNT(*) AS n FROM visits"
    assert 'Keep rows where "n" IS NOT NULL AND NOT isnan("x").' in str(
        sf.sql(sql, catalog=catalog).explain()
    )
    assert {(f.where, f.text) for f in catalog.check().findings if f.wrong} >= {
        ("catalog: tables.visits.columns.N", "1 row without a value, in no answer"),
        ("catalog: tables.visits.columns.x", "2 rows without a value, in no answer"),
    }
    made = table.dummy()
    assert not made.schema["n"].missing and counted(made) > 0
