"""Two questions that mean the same have one canonical form, and two that do not have two."""

import datetime
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.sql import ask
from sfumato.exact.parameters import canonical_bytes
from sfumato.release.canonical_form import canonical, canonical_top, plain

ROWS = pa.table(
    {
        "id": [1, 1, 2],
        "Town": ["Secret Town", "B", "B"],
        "age": [3, 4, 5],
        "price": [1.5, 2.5, 3.5],
        "day": [datetime.date(2024, 1, 1)] * 3,
        "s": pa.array([{"x": 1}] * 3),
    }
)
PEOPLE = sf.scan(ROWS, privacy_unit="id")
REGIONS = sf.public(pa.table({"Town": ["B"], "region": ["north"]}))


def of_chain(question: Any, **options: Any) -> bytes:
    given = {"epsilon": 1, "delta": "1e-6"} | options
    return canonical_bytes(canonical(question.plan(**given), question.table._engine))


def of_sql(text: str, options: str = "epsilon = 1, delta = 1e-6", **tables: Any) -> bytes:
    limits = dict.fromkeys(("memory_limit", "threads", "temp_directory"))
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({options}, privacy_unit_column = id) {text}"
    asked = ask(text, {"people": ROWS, "regions": REGIONS, **tables}, None, None, limits)
    (question,) = asked.questions
    return of_chain(question, **asked.query.release_options)


def counted(table: Any = PEOPLE, **bound: int) -> Any:
    return table.group_by("Town").bound(**{"groups": 2, "rows": 1} | bound).agg(n=sf.count())


def averaged(table: Any, column: str = "age") -> Any:
    return table.bound(rows=1).agg(m=sf.mean(column, lower=0, upper=10))


# Made in the tests: a plan takes time, and whoever reads this module need not make all.
SAME: dict[str, Callable[[], tuple[bytes, ...]]] = {
    "SQL and Python": lambda: (
        of_chain(counted(PEOPLE.filter("age > 3"))),
        of_sql("Town, COUNT(*) AS n FROM people WHERE age>3 GROUP BY Town", "epsilon=1, delta=1e-6, max_groups_contributed=2"),
    ),
    "order of options, qualified names, a name for the table": lambda: (
        of_sql("Town, COUNT(*) AS n FROM people GROUP BY 1", "max_groups_contributed = 2, delta = 0.000001, epsilon = 1.0"),
        of_sql("p.town AS Town, COUNT(*) AS n FROM people p GROUP BY p.town", "epsilon = 1, delta = 1e-6, max_groups_contributed = 2"),
    ),
    "spaces, case and comments of an expression": lambda: (
        of_chain(averaged(PEOPLE.filter("age > 3 AND price < 2"))),
        of_chain(averaged(PEOPLE.filter("AGE>3   and /* cheap */ Price<2"))),
    ),
    "filters in another order, or in one": lambda: (
        of_chain(averaged(PEOPLE.filter("age > 3").filter("price < 2"))),
        of_chain(averaged(PEOPLE.filter("price < 2").filter("age > 3"))),
        of_chain(averaged(PEOPLE.filter("price < 2 AND age > 3").filter("age > 3"))),
    ),
    "names of derived columns": lambda: (
        of_chain(averaged(PEOPLE.with_columns(one="age + 1"), "one")),
        of_chain(averaged(PEOPLE.with_columns(other="age+1"), "other")),
        of_chain(averaged(PEOPLE.with_columns(copied="age").with_columns(other="copied + 1", unused="price"), "other")),
        of_sql("AVG(age + 1, contribution_bounds_per_row => (0, 10)) AS m FROM people"),
    ),
    "a limit beyond the number of groups": lambda: (
        of_chain(PEOPLE.group_by("Town", keys=["B", "A"]).bound(groups=2, rows=1).agg(n=sf.count())),
        of_chain(PEOPLE.group_by("Town", keys=["A", "B"]).bound(groups=9, rows=1).agg(n=sf.count())),
    ),
    "a limit that nothing depends on": lambda: (
        of_chain(PEOPLE.bound(rows=7).agg(n=sf.count_units())),
        of_chain(PEOPLE.agg(n=sf.count_units())),
    ),
    "one number, written in several ways": lambda: (
        of_chain(averaged(PEOPLE), epsilon="1/2", delta=0),
        of_chain(averaged(PEOPLE), epsilon=0.5),
    ),
    "noise that is chosen, and the same that is asked for": lambda: (
        of_chain(averaged(PEOPLE), noise="auto"),
        of_chain(averaged(PEOPLE), noise="k_norm"),
    ),
    "a decimal, and the float that is written so": lambda: (
        of_chain(BASE, epsilon="0.1"),
        of_chain(BASE, epsilon=0.1),
    ),
    "the spelling of an aggregate inside": lambda: (
        of_chain(averaged(PEOPLE.per_unit(age="sum( age )"))),
        of_chain(averaged(PEOPLE.per_unit(age="SUM(age)"))),
    ),
}  # fmt: skip
BASE = averaged(PEOPLE.filter("age > 3"))
OTHER: dict[str, Callable[[], bytes]] = {
    "epsilon": lambda: of_chain(BASE, epsilon=2),
    "a decimal": lambda: of_chain(BASE, epsilon="0.1"),
    "noise": lambda: of_chain(BASE, noise="laplace"),
    "diagnostics": lambda: of_chain(BASE, diagnostics=0.1),
    "filter": lambda: of_chain(averaged(PEOPLE.filter("age >= 3"))),
    "a text in a filter, whose case matters": lambda: of_chain(averaged(PEOPLE.filter("Town = 'b'"))),
    "another text": lambda: of_chain(averaged(PEOPLE.filter("Town = 'B'"))),
    "no filter": lambda: of_chain(averaged(PEOPLE)),
    "column": lambda: of_chain(averaged(PEOPLE.filter("age > 3"), "price")),
    "a column derived from it under its name": lambda: of_chain(averaged(PEOPLE.filter("age > 3").with_columns(age="age + 1"))),
    "a filter after that": lambda: of_chain(averaged(PEOPLE.with_columns(age="age + 1").filter("age > 3"))),
    "what fails in a column of its own": lambda: of_chain(averaged(PEOPLE.with_columns(c="CAST(Town AS INT)").filter("c IS NULL"))),
    "what fails in the filter": lambda: of_chain(averaged(PEOPLE.filter("CAST(Town AS INT) IS NULL"))),
    "a field": lambda: of_chain(averaged(PEOPLE.filter("s.x > 3"))),
    "a field of a derived column": lambda: of_chain(averaged(PEOPLE.with_columns(t="s").filter("t.x > 4"))),
    "bounds": lambda: of_chain(PEOPLE.filter("age > 3").bound(rows=1).agg(m=sf.mean("age", lower=0, upper=11))),
    "rows": lambda: of_chain(PEOPLE.filter("age > 3").bound(rows=2).agg(m=sf.mean("age", lower=0, upper=10))),
    "total rows": lambda: of_chain(PEOPLE.filter("age > 3").bound(total_rows=1).agg(m=sf.mean("age", lower=0, upper=10))),
    "name": lambda: of_chain(PEOPLE.filter("age > 3").bound(rows=1).agg(x=sf.mean("age", lower=0, upper=10))),
    "aggregate": lambda: of_chain(PEOPLE.filter("age > 3").bound(rows=1).agg(m=sf.median("age", lower=0, upper=10))),
    "one more": lambda: of_chain(PEOPLE.filter("age > 3").bound(rows=1).agg(m=sf.mean("age", lower=0, upper=10), n=sf.count())),
    "weights": lambda: of_chain(PEOPLE.filter("age > 3").bound(rows=1).agg(m=sf.mean("age", lower=0, upper=10), n=sf.count()).weigh(n=9)),
    "private groups": lambda: of_chain(counted()),
    "another limit of groups": lambda: of_chain(counted(groups=3)),
    "public groups": lambda: of_chain(PEOPLE.group_by("Town", keys=["A", "B"]).bound(groups=1, rows=1).agg(n=sf.count())),
    "other public groups": lambda: of_chain(PEOPLE.group_by("Town", keys=["A", "C"]).bound(groups=1, rows=1).agg(n=sf.count())),
    "sampled": lambda: of_chain(PEOPLE.group_by("Town", keys=["A", "C"]).bound(groups=1, rows=1, beyond="sample").agg(n=sf.count())),
    "totals": lambda: of_chain(PEOPLE.group_by("Town", keys=["A", "C"]).totals().bound(groups=1, rows=1).agg(n=sf.count())),
    "days": lambda: of_chain(PEOPLE.group_by("day", keys=[datetime.date(2024, 1, 1)]).bound(groups=1, rows=1).agg(n=sf.count())),
    "a pre-threshold": lambda: of_chain(counted(), pre_threshold=3),
    "a rule": lambda: of_chain(counted(), group_selection="truncated_geometric"),
    "a join": lambda: of_chain(averaged(PEOPLE.join(REGIONS, on="Town"))),
    "the other join": lambda: of_chain(averaged(PEOPLE.join(REGIONS, on="Town", how="left"))),
    "one row for each": lambda: of_chain(averaged(PEOPLE.per_unit(age="sum(age)"))),
    "one row for each, otherwise": lambda: of_chain(averaged(PEOPLE.per_unit(age="max(age)"))),
    "a unit of two parts": lambda: of_chain(averaged(sf.scan(ROWS, privacy_unit=["id", "date_trunc('week', day)"]))),
    "a unit of two others": lambda: of_chain(averaged(sf.scan(ROWS, privacy_unit=["id", "date_trunc('month', day)"]))),
    "another unit": lambda: of_chain(averaged(sf.scan(ROWS, privacy_unit="Town"))),
    "a table of other columns": lambda: of_chain(averaged(sf.scan(ROWS.drop_columns(["price"]), privacy_unit="id"))),
    "a column of another type": lambda: of_chain(averaged(sf.scan(ROWS.set_column(2, "age", pa.array([3, 4, 5], pa.int32())), privacy_unit="id"))),
}  # fmt: skip


@pytest.mark.parametrize("why", SAME)
def test_what_means_the_same_has_the_same_bytes(why):
    forms = set(SAME[why]())
    assert len(forms) == 1, [text.decode() for text in forms]


@pytest.mark.long
def test_what_means_something_else_has_others():
    forms = [of_chain(BASE), *(made() for made in OTHER.values())]
    assert len(set(forms)) == len(forms)


def test_tables_are_told_apart_by_name_and_not_by_folder(tmp_path):
    forms = []
    for place in ("a/visits.parquet", "b/visits.parquet", "a/other.parquet"):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        pq.write_table(ROWS, path)
        forms.append(of_chain(averaged(sf.scan(path, privacy_unit="id"))))
    assert forms[0] == forms[1] != forms[2]
    assert str(tmp_path) not in forms[0].decode()
    declared = {
        name: {"source": str(tmp_path / "a/visits.parquet"), "privacy_unit": "id"} for name in ("one", "two")
    }
    catalog = sf.catalog({"tables": declared})
    one, two = (of_chain(averaged(catalog.table(name))) for name in ("one", "two"))
    assert one != two and "parquet" not in one.decode()


def test_times_with_a_zone_are_of_the_zone_that_is_named(monkeypatch):
    zoned = pa.table({"id": [1], "stamp": pa.array([0], pa.timestamp("us", "UTC"))})
    forms = []
    for machine, zone in (("Asia/Tokyo", "UTC"), ("Asia/Tokyo", "Europe/Berlin"), ("UTC", "Europe/Berlin")):
        monkeypatch.setenv("TZ", machine)
        table = sf.scan(zoned, privacy_unit="id", timezone=zone).with_columns(hour="hour(stamp)")
        forms.append(of_chain(averaged(table, "hour")))
    assert forms[0] != forms[1] == forms[2] and b"timezone" not in of_chain(averaged(PEOPLE))


def test_rows_make_no_difference():
    other = ROWS.slice(0, 1)
    assert of_chain(averaged(sf.scan(other, privacy_unit="id"))) == of_chain(averaged(PEOPLE))


WITH_PUBLIC: dict[str, Callable[[sf.PublicTable], bytes]] = {
    "join": lambda public: of_chain(averaged(PEOPLE.join(public, on="Town"))),
    "filtered": lambda public: of_chain(averaged(PEOPLE.join(public.filter("n > 0"), on="Town"))),
    "SQL": lambda public: of_sql("AVG(age, contribution_bounds_per_row => (0, 9)) AS m FROM people JOIN p USING (Town)", p=public),
    "SQL IN": lambda public: of_sql("COUNT(*) AS n FROM people WHERE Town IN (SELECT Town FROM p)", p=public),
    "SQL around": lambda public: canonical_bytes(
        sf.sql(
            "SELECT q.n + p.n AS m FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, "
            "privacy_unit_column = id) Town, COUNT(*) AS n FROM people GROUP BY Town) AS q JOIN p ON q.Town = p.Town",
            tables={"people": ROWS, "p": public},
        ).canonical()
    ),
}  # fmt: skip


def public_rows(order: int = 1, n: int = 1) -> pa.Table:
    rows = {"Town": ["B", "A", "A"], "n": [n, 2, None], "v": [1.5, float("nan"), 2.5]}
    return pa.table({name: pa.array(values[::order]) for name, values in rows.items()})


@pytest.mark.parametrize("use", WITH_PUBLIC)
def test_public_tables_in_memory_are_told_apart_by_what_they_say(use):
    form = WITH_PUBLIC[use]
    first, again, turned, other, fewer = (
        form(sf.public(rows))
        for rows in (public_rows(), public_rows(), public_rows(-1), public_rows(n=5), public_rows().slice(1))
    )
    assert first == again == turned and len({first, other, fewer}) == 3
    assert "Secret Town" not in first.decode()


def test_groups_that_are_too_many_to_list():
    many = [f"t{i}" for i in range(3000)]
    forms = {
        of_chain(PEOPLE.group_by("Town", keys=keys).bound(groups=1, rows=1).agg(n=sf.count()))
        for keys in (many, many[::-1], [*many[1:], "u"])
    }
    assert len(forms) == 2 and max(map(len, forms)) < 1500


def test_the_largest_groups():
    def form(**options: Any) -> bytes:
        top = PEOPLE.top("Town", **{"k": 2} | options)
        return canonical_bytes(canonical_top(top.plan(epsilon=1, delta="1e-6")))

    others = [
        form(k=3),
        form(candidates=200),
        form(by=sf.sum("age", lower=0, upper=5)),
        form(keys=["A", "B", "C"]),
    ]
    assert form() == form(candidates=100) and form() not in others and len(set(others)) == 4


def test_the_form_is_that_of_its_version():
    """Whoever changes it makes ledgers of before miss what was asked: then VERSION grows, and this text changes."""
    assert json.loads(of_chain(counted(PEOPLE.filter("age>3")))) == {
        "version": 1,
        "asks": "statistics",
        "table": {
            "name": None,
            "columns": {
                "id": "BIGINT",
                "Town": "VARCHAR",
                "age": "BIGINT",
                "price": "DOUBLE",
                "day": "DATE",
                "s": "STRUCT(x BIGINT)",
            },
        },
        "where": ["(age > 3)"],
        "privacy_unit": "id",
        "group_by": [["Town", "Town"]],
        "groups": "private",
        "limits": {"rows": 1, "groups": 2, "beyond": "sample"},
        "outputs": [["n", {"kind": "CountRows", "column": None}]],
        "weights": {},
        "budget": {"epsilon": "1", "delta": "1/1000000"},
        "noise": "laplace",
        "selection": {"rule": "laplace_threshold", "pre_threshold": 1},
        "diagnostics": None,
        "found": [],
    }


@pytest.mark.parametrize(
    "a, b", [(1, True), ("2024-01-01", datetime.date(2024, 1, 1)), (float("nan"), "nan"), (b"a", "a")]
)
def test_values_that_differ_stay_different(a, b):
    assert json.dumps(plain(a)) != json.dumps(plain(b))
