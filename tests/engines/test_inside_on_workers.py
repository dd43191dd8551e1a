"""SQL inside a private SELECT where rows are on many machines: the statistics of one machine, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import QueryError
from sfumato.query.tables.combined_tables import PerUnit
from sfumato.query.tables.shaped_tables import Window
from sfumato.testing import recording

from .test_combined_on_workers import LocalEngine
from .tiers import some

pytestmark = pytest.mark.usefixtures("fixed_salt")
Opened = Callable[[pa.Table], object]
TOWNS = pa.table({"town": ["A", "B", "B", None], "region": ["n", "s", "t", "x"], "pop": [10, 20, 30, 40]})


def corpus(verdict: str) -> list[tuple[str, str]]:
    """Return the entries of `tests/dialect/inside.txt` with a verdict, and their texts."""
    entries = (Path(__file__).parents[1] / "dialect/inside.txt").read_text().split("\n== ")[1:]
    found = [entry.strip().split("\n", 1) for entry in entries]
    return [(says, text) for says, text in found if says.startswith(verdict)]


# Every third one: that all mean the same on one machine is held elsewhere.
SAME = [text for _, text in corpus("same")][::3]


def rows_by_chance(seed: int) -> dict[str, pa.Table]:
    """Rows of many units, some without one, with every kind of float, and values that stand in several rows."""
    chance = random.Random(seed)

    def drawn(values: list, rows: int) -> list:
        return [chance.choice(values) for _ in range(rows)]

    towns = ["A", "B", "C", "a", "", "é", None]
    prices = [0.0, -0.0, 0.1, 0.2, 0.3, 1e10, 1e300, -1.0, float("nan"), float("inf"), None]
    days = ["2024-01-05", "2024-02-01", "2023-12-31", None, "2024-03-03"]
    orders = {
        "id": drawn([*range(12), None], 150),
        "town": drawn(towns, 150),
        "price": drawn([*prices, chance.random(), chance.random()], 150),
        "n": drawn([0, 1, 2, 3, 4, 5, 9, None, 2**40], 150),
        "day": drawn(days, 150),
    }
    customers = {
        "customer": drawn([*range(14), None], 40),
        "age": drawn([30, 40, 50, None], 40),
        "town": drawn(towns, 40),
    }
    return {"orders": pa.table(orders), "customers": pa.table(customers), "towns": TOWNS}


def made(text: str, opened: Opened, rows: dict[str, pa.Table]) -> Table:
    known = {
        "orders": Table(opened(rows["orders"]), "id"),
        "customers": Table(opened(rows["customers"]), "customer"),
        "towns": sf.public(rows["towns"]),
    }
    return known["orders"].sql(text, tables=known)


ALL = slice(None)
# Every row of each text, and of every second one what one of the two kinds of limits leaves.
ASKED = (slice(1, 2), slice(0, 2), slice(1, 2), slice(1, 3))


def questions(asked: Table) -> list[sf.Question]:
    """Ask for what a limit of rows leaves, for every row with all its columns as texts, and of groups with limits."""
    columns = [name for name in asked.schema if name != asked.unit]
    quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
    texts = {f"text_{i}": f"CAST({name} AS VARCHAR)" for i, name in enumerate(quoted)}
    sums = {
        f"sum_{i}": sf.sum(name, lower=-9, upper=9)
        for i, name in enumerate(columns)
        if asked.schema[name].kind.numeric
    }
    wanted = {"rows": sf.count(), "units": sf.count_units(), **sums}
    table = asked.with_columns(**texts) if texts else asked
    found = [table.bound(rows=3).agg(**wanted)]
    if texts:
        found.append(table.group_by(*texts).bound(groups=1000, rows=1000).agg(**wanted))
        found.append(table.group_by(list(texts)[-1]).bound(groups=2, rows=2).agg(**wanted))
    return found


def statistics(asked: Table, of: slice = ALL) -> list[list[dict]]:
    plans = [one.plan(epsilon=1, delta=1e-6, noise="gaussian") for one in questions(asked)[of]]
    return [
        [row for batch in asked._engine.statistics(plan.exact, 1000) for row in batch.to_pylist()]
        for plan in plans
    ]


def differs(text: str, seed: int, of: slice = ALL) -> bool:
    rows = rows_by_chance(seed)
    found = statistics(made(text, lambda given: LocalEngine(given, seed), rows), of)
    return repr(found) != repr(statistics(made(text, DuckDBEngine.open, rows), of))


@pytest.mark.parametrize("number", some(range(len(SAME)), 60))
def test_workers_compute_what_one_machine_does(number):
    assert not differs(SAME[number], 1, ASKED[number % len(ASKED)])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param(
            Window,
            "SELECT id, lag(n) OVER (PARTITION BY id ORDER BY n, price) AS before FROM orders",
            marks=pytest.mark.long,
        ),
        pytest.param(PerUnit, "SELECT DISTINCT id, town FROM orders", marks=pytest.mark.long),
    ],
)
def test_rows_that_are_combined_where_they_are_by_mistake_would_be_found(kind, text, monkeypatch):
    assert not differs(text, 1)
    monkeypatch.setattr(kind, "by_rows", True, raising=False)
    assert differs(text, 1)


BY_ROWS = [
    (True, "SELECT id AS u, n FROM orders WHERE town IN (SELECT town FROM towns)"),
    (True, "SELECT o.id, t.region FROM orders o LEFT JOIN (SELECT town, region FROM towns) t ON o.town = t.town"),
    (True, "SELECT id, town FROM orders UNION ALL SELECT customer, town FROM customers"),
    (False, "SELECT u, k FROM (SELECT id AS u, count(*) AS k FROM orders GROUP BY id) AS s WHERE k > 1"),
    (False, "SELECT id, town FROM orders UNION ALL SELECT customer, max(town) FROM customers GROUP BY customer"),
    (False, "SELECT id FROM (SELECT id, town, lag(n) OVER (PARTITION BY id ORDER BY n) AS x FROM orders) AS s "
     "WHERE town IN (SELECT town FROM towns)"),
    (False, "SELECT a.id FROM (SELECT id FROM orders) AS a JOIN (SELECT customer FROM customers) AS b "
     "ON a.id = b.customer"),
]  # fmt: skip


@pytest.mark.parametrize(("alone", "text"), BY_ROWS)
def test_rows_stay_where_they_are_only_where_each_is_combined_by_itself(alone, text):
    asked = made(text, LocalEngine, rows_by_chance(0))
    plan = questions(asked)[0].plan(epsilon=1, delta=1e-6, noise="laplace")
    assert asked._engine.stages(plan.exact, 2).by_rows is alone


@pytest.mark.parametrize(("verdict", "text"), corpus("refused")[::8])
def test_what_is_refused_on_one_machine_is_refused_with_the_same_words(verdict, text):
    said = []
    for opened in (DuckDBEngine.open, LocalEngine):
        with pytest.raises(QueryError) as refused:
            made(text, opened, rows_by_chance(0))
        said.append((refused.type, str(refused.value)))
    assert said[0] == said[1] and verdict.removeprefix("refused: ") in said[0][1]


FIRST = (
    "SELECT id, x FROM (SELECT q.id, q.d, q.x FROM orders AS q LEFT JOIN customers AS r ON q.id = r.customer) AS j "
    "QUALIFY row_number() OVER (PARTITION BY id ORDER BY d RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) = 1"
)


def first_of_ties(opened: Opened, seed: int, more: int) -> int:
    """Return the sum of everybody's first row, of two that are tied; one person has some rows more."""
    people, chance = range(300), random.Random(seed)
    tied = [(i, 0, x) for i in people for x in (0, 1)]
    chance.shuffle(tied)
    customers = [*people, *[0] * more]
    chance.shuffle(customers)
    orders = pa.table(dict(zip(("id", "d", "x"), zip(*tied, strict=True), strict=True)))
    rows = {"orders": orders, "customers": pa.table({"customer": customers}), "towns": TOWNS}
    asked = made(FIRST, opened, rows).bound(rows=1).agg(s=sf.sum("x", lower=0, upper=1, per="row"))
    exact = asked.plan(epsilon=1, delta=1e-6).exact
    ((*_, found),) = (
        tuple(r.values()) for b in asked.table._engine.statistics(exact, 9) for r in b.to_pylist()
    )
    return int(found)


def test_one_person_does_not_turn_the_order_of_all_rows_on_workers():
    opened = [partial(LocalEngine, seed=seed) for seed in range(3)]
    found = {first_of_ties(one, seed, more) for seed, one in enumerate(opened) for more in (0, 15_000)}
    assert found == {0}


@pytest.mark.long
@pytest.mark.parametrize("engine", ["spark", "beam"])
def test_one_person_does_not_turn_the_order_of_all_rows_on_spark_and_beam(engine, openers):
    assert {first_of_ties(openers(engine), more, more) for more in (0, 15_000)} == {0}


EVERYTHING = """
    WITH places AS (SELECT town, max(region) AS region FROM towns GROUP BY town),
      seen AS (SELECT id AS u, town, n, lag(n) OVER (PARTITION BY id ORDER BY n, price) AS before FROM orders),
      people AS (SELECT customer, max(age) AS age FROM customers GROUP BY customer)
    SELECT s.u, s.n, s.before, p.region, c.age, s.town IN (SELECT town FROM towns WHERE pop > 10) AS known
    FROM seen s LEFT JOIN places p ON s.town = p.town JOIN people c ON s.u = c.customer WHERE s.n < 9
    UNION ALL SELECT DISTINCT id, n, n + 1, town, n - 1, n > 2 FROM orders"""
ALONE = "SELECT id AS u, t.region, n FROM orders o JOIN (SELECT town, region FROM towns WHERE pop < 30) t ON o.town = t.town"


@pytest.mark.long
@pytest.mark.parametrize("text", [EVERYTHING, ALONE])
@pytest.mark.parametrize("engine", ["spark", "beam"])
def test_spark_and_beam_compute_what_one_machine_does(engine, text, openers):
    rows = rows_by_chance(5)
    found = statistics(made(text, openers(engine), rows))
    assert any(found) and repr(found) == repr(statistics(made(text, DuckDBEngine.open, rows)))


@pytest.mark.long
@pytest.mark.noise_cannot_matter("only the truth is looked at")
def test_a_record_of_sql_inside_is_that_of_one_machine(frame_of):
    text = (
        "WITH s AS (SELECT id AS u, town, row_number() OVER (PARTITION BY id ORDER BY n, price) AS place FROM orders) "
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 20, delta = 1e-6, privacy_unit_column = u, "
        "max_groups_contributed = 2, max_rows_per_group = 2) place, COUNT(*) AS n FROM s GROUP BY place"
    )
    rows, truths = rows_by_chance(3)["orders"], []
    for source in (rows, frame_of(rows)):
        with recording() as recorder:
            truth = recorder[sf.sql(text, tables={"orders": source})].truth
            truths.append(sorted(map(str, truth.to_pylist())))
    assert truths[0] == truths[1] and truths[0]


def test_what_workers_cannot_do_is_refused_with_what_to_write_instead():
    rows = rows_by_chance(0)
    asked = made("SELECT id, n FROM orders WHERE n > 1", LocalEngine, rows)
    with pytest.raises(QueryError, match="those of stages are with workers"):
        sf.check(asked.bound(rows=1).agg(n=sf.count()))
    columns = {name: table.schema for name, table in rows.items()} | {"towns": sf.public(TOWNS.schema)}
    head = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id, max_rows_per_group = 1"
        "{}) {} COUNT(*) AS n FROM orders "
    )
    for text, says in (
        (head.format("", "") + "WHERE town IN (SELECT town FROM towns)", "not of Beam"),
        (
            head.format(", group_selection_strategy = PUBLIC_GROUPS, max_groups_contributed = 1", "town,")
            + "RIGHT OUTER JOIN (SELECT DISTINCT town FROM towns) AS t USING (town) GROUP BY town",
            "read in this process.*not of Beam",
        ),
    ):
        with pytest.raises(QueryError, match=says):
            sf.sql(text, tables=columns)
