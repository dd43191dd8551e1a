"""The same question of the same analyst, asked in Python: the same answer, for nothing, and of no other question."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.budget.ledger.journal import PriorAnswer
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import BudgetError, EngineError
from sfumato.noise import SeededWords
from sfumato.release.noisy_table import NoisyTable

pytestmark = pytest.mark.noise_cannot_matter(
    "two answers are the same draw, or which entry paid is looked at"
)

ROWS = pa.table(
    {
        "id": [i % 100 for i in range(900)],
        "town": [("A", "B", "C")[i % 3] for i in range(900)],
        "v": [i % 7 for i in range(900)],
        "week": [i % 12 for i in range(900)],
    }
)
PRIVATE = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-7, privacy_unit_column = id, "
    "max_groups_contributed = 2, max_rows_per_group = 2) town, COUNT(*) AS n FROM 'visits.parquet' GROUP BY town"
)
Ask = Callable[[sf.Budget], NoisyTable]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sf.Ledger:
    monkeypatch.chdir(tmp_path)
    pq.write_table(ROWS, "visits.parquet")
    made = sf.Ledger("budget.db")
    made.create("shop", epsilon=100, delta="1e-3")
    for analyst in ("ann", "bob"):
        made.grant("shop", analyst, epsilon=40, delta="1e-4")
    made.journal.declare("shop", "2026-11")
    return made


def visits() -> Any:
    return sf.scan("visits.parquet", privacy_unit="id")


def by_town(**more: Any) -> Any:
    return visits().bound(groups=2, rows=2).group_by("town", **more)


WAYS: dict[str, Ask] = {
    "counts": lambda b: by_town(keys=["A", "B"]).agg(n=sf.count(), m=sf.mean("v", lower=0, upper=7)).release(epsilon=1, budget=b),
    "a total": lambda b: visits().bound(rows=2).agg(n=sf.count()).release(epsilon=1, budget=b),
    "no group": lambda b: visits().filter("v > 99").bound(groups=1, rows=1).group_by("town").agg(n=sf.count()).release(epsilon=1, delta="1e-9", budget=b),
    "private groups": lambda b: by_town().agg(n=sf.count()).release(epsilon=1, delta="1e-7", budget=b),
    "Gaussian": lambda b: by_town(keys=["A"]).agg(n=sf.count()).release(epsilon=1, delta="1e-7", noise="gaussian", budget=b),
    "a tree": lambda b: by_town(keys=["A"]).agg(q=sf.quantiles("v", [0.1, 0.5], lower=0, upper=7)).release(epsilon=1, noise="laplace", budget=b),
    "chosen places": lambda b: visits().bound(rows=1).agg(q=sf.quantile("v", 0.5, lower=0, upper=7)).release(epsilon=1, budget=b),
    "weeks": lambda b: visits().bound(groups=3, rows=1).group_by("week", keys=range(12)).agg(n=sf.cumulative(sf.count())).release(epsilon=1, budget=b),
    "weeks, Gaussian": lambda b: visits().bound(groups=3, rows=1).group_by("week", keys=range(12)).agg(n=sf.cumulative(sf.count())).release(epsilon=1, delta="1e-7", budget=b),
    "totals": lambda b: by_town(keys=["A", "B"]).totals().agg(n=sf.count()).release(epsilon=1, delta="1e-7", budget=b),
    "largest": lambda b: visits().top("town", k=1, keys=["A", "B"]).release(epsilon=1, budget=b),
    "a share": lambda b: visits().bound(rows=1).agg(n=sf.count()).release(share="1/100", budget=b),
    "SQL": lambda b: sf.sql(PRIVATE, budget=b),
    "SQL around": lambda b: sf.sql(f"SELECT town, 2 * n AS m FROM ({PRIVATE}) ORDER BY n", budget=b),
    "SQL of two": lambda b: sf.sql(f"SELECT x.town, x.n + y.n AS n FROM ({PRIVATE}) AS x JOIN ({PRIVATE}) AS y USING (town)", budget=b),
}  # fmt: skip


def kinds(ledger: sf.Ledger) -> list[str]:
    return [line.kind for line in ledger.journal.lines() if line.kind not in ("cap", "data")]


def paid(ledger: sf.Ledger, *asks: Ask, analyst: str = "ann") -> list[int | None]:
    """Ask one after another; return which entry each repeats."""
    budget, found = ledger.budget("shop", analyst), []
    for ask in asks:
        release = ask(budget)
        release.to_arrow()
        found.append(release.repeats)
    return found


QUICK = ("counts", "private groups", "largest", "SQL of two")


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.long] * (way not in QUICK)) for way in WAYS]
)
def test_the_same_question_has_the_same_answer_for_nothing(way, ledger, monkeypatch, tmp_path):
    budget = ledger.budget("shop", "ann")
    first = WAYS[way](budget)
    table, receipt, spent = first.to_arrow(), first.receipt(), budget.spent
    assert first.repeats is None
    monkeypatch.setattr(DuckDBEngine, "statistics", lambda *_: pytest.fail("rows were read"))
    again = WAYS[way](budget)
    assert again.repeats == budget.history[-1].number and again.drawn
    assert again.to_arrow().equals(table) and again.receipt().sha256 == receipt.sha256
    assert budget.spent == spent and kinds(ledger) == ["asked", "answered", "repeated"]
    for one, other in zip(
        getattr(first, "_releases", [first]), getattr(again, "_releases", [again]), strict=True
    ):
        for confidence in (0.5, 0.95):
            assert one.errors(confidence).equals(other.errors(confidence))
    again.write(tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").equals(table)
    assert again.hints == first.hints and str(again.explain()) == str(first.explain())
    assert ledger.journal.verify().ok


COUNTED: Ask = lambda b: visits().bound(rows=2).agg(n=sf.count()).release(epsilon=1, budget=b)  # noqa: E731
IN_MEMORY = sf.scan(ROWS, privacy_unit="id").bound(rows=2).agg(n=sf.count())
KEYS = pa.table({"town": ["A", "B"]})
OTHERS: dict[str, Ask] = {
    "another epsilon": lambda b: visits().bound(rows=2).agg(n=sf.count()).release(epsilon=2, budget=b),
    "another limit": lambda b: visits().bound(rows=1).agg(n=sf.count()).release(epsilon=1, budget=b),
    "another name": lambda b: visits().bound(rows=2).agg(m=sf.count()).release(epsilon=1, budget=b),
    "another noise": lambda b: visits().bound(rows=2).agg(n=sf.count()).release(epsilon=1, delta="1e-9", noise="gaussian", budget=b),
    "a condition": lambda b: visits().filter("v < 3").bound(rows=2).agg(n=sf.count()).release(epsilon=1, budget=b),
    "diagnostics": lambda b: visits().bound(rows=2).agg(n=sf.count()).release(epsilon=1, diagnostics="0.1", budget=b),
    "rows in memory": lambda b: IN_MEMORY.release(epsilon=1, budget=b),
    "known noise": lambda b: visits().bound(rows=2).agg(n=sf.count()).release(epsilon=1, unsafe_words=SeededWords(1), budget=b),
}  # fmt: skip


@pytest.mark.long
def test_another_question_is_paid(ledger):
    assert paid(ledger, COUNTED, *OTHERS.values()) == [None] * (1 + len(OTHERS))


def derived(**columns: str) -> Ask:
    """Ask for sums of two derived columns: of v + 1 first, whatever it is called."""
    first, second = sorted(columns, key=lambda name: columns[name])
    asks = visits().with_columns(**columns).bound(rows=2)
    sums = asks.agg(a=sf.sum(first, lower=0, upper=9), b=sf.sum(second, lower=0, upper=9))
    return lambda budget: sums.release(epsilon=1, budget=budget)


def test_noisy_numbers_are_not_given_to_columns_of_other_names(ledger):
    """Derived columns may have any names in a canonical form, under which noisy numbers are kept."""
    asks = [derived(x="v + 1", y="v + 2"), derived(z="v + 1", y="v + 2"), derived(y="v + 1", x="v + 2")]
    assert paid(ledger, *asks) == [None, None, None]
    assert paid(ledger, *asks) == [4, 5, 6]
    asked = [asked.detail["plan"] for asked in ledger.journal.lines() if asked.kind == "asked"]
    assert asked[0] == asked[1] == asked[2]


# What may be asked twice, and is paid twice: its answer is not kept, or it is not known again.
TWICE: dict[str, Ask] = {
    "rows in memory": OTHERS["rows in memory"],
    "diagnostics": OTHERS["diagnostics"],
    "known noise": OTHERS["known noise"],
    "bounds that are found": lambda b: visits().bound(rows=1).agg(m=sf.mean("v", lower=0, upper="auto")).release(epsilon=1, budget=b),
    "a public table in memory": lambda b: visits().join(sf.public(KEYS), on="town").bound(rows=1).agg(n=sf.count()).release(epsilon=1, budget=b),
    "dummy rows": lambda b: visits().dummy().bound(rows=1).agg(n=sf.count()).release(epsilon=1, budget=b),
}  # fmt: skip


@pytest.mark.long
def test_what_is_not_known_again_is_paid_again(ledger):
    assert paid(ledger, *TWICE.values(), *TWICE.values()) == [None] * 2 * len(TWICE)


def test_who_asks_which_version_and_what_the_owner_publishes(ledger):
    assert paid(ledger, COUNTED, COUNTED) == [None, 4]
    assert paid(ledger, COUNTED, analyst="bob") == [None]
    ledger.journal.publish(4)
    assert paid(ledger, COUNTED, analyst="bob") == [4]
    ledger.journal.declare("shop", "2026-12")
    assert paid(ledger, COUNTED, COUNTED) == [None, 6]


def test_a_request_with_a_key_pays_once(ledger):
    budget = ledger.budget("shop", "ann")._keyed("a request")
    entry = budget.spend(1, plan={"asks": "statistics"})
    assert budget._paid_answer(key="a request") == PriorAnswer(None, entry.number)
    question = budget._repeat_answer({"asks": "statistics"})
    budget._record_outcome(
        entry, "answered", question=question.question, data=question.data, body=b"body", rows=1
    )
    sent_again = ledger.budget("shop", "ann")._keyed("a request")
    with pytest.raises(BudgetError, match="idempotency-key"):
        sent_again.spend(1, plan={"asks": "statistics"})
    assert budget.spent[0] == 1
    assert budget._paid_answer(key="a request").body == b"body"
    bob = ledger.budget("shop", "bob")._keyed("a request")
    assert bob._paid_answer(key="a request") == PriorAnswer(None)
    bob.spend(1, plan={"asks": "statistics"})  # a key is its analyst's own
    assert bob.spent[0] == 1


def test_an_answer_of_data_that_was_declared_since_is_not_given(ledger):
    """It was drawn of the rows before, and ends after the owner has said that there are others."""
    release = COUNTED(ledger.budget("shop", "ann"))
    ledger.journal.declare("shop", "2026-12")
    release.to_arrow()
    assert paid(ledger, COUNTED) == [None]
    ledger.journal.declare("shop", "2026-11")
    assert paid(ledger, COUNTED) == [None]


def test_where_no_version_is_declared_each_is_paid(ledger):
    ledger.create("school", epsilon=10)
    budget = ledger.budget("school")
    releases = [COUNTED(budget) for _ in range(2) if COUNTED(budget).to_arrow()]
    assert [one.repeats for one in releases] == [None, None]


def test_a_file_in_another_folder_or_home_is_another_table(ledger, tmp_path, monkeypatch):
    ledger, found = sf.Ledger(tmp_path / "budget.db"), []

    def at_home(budget: sf.Budget) -> NoisyTable:
        visits = sf.scan("~/visits.parquet", privacy_unit="id")
        return visits.agg(n=sf.count_units()).release(epsilon=1, budget=budget)

    for folder in ("one", "other", "one"):
        (tmp_path / folder).mkdir(exist_ok=True)
        pq.write_table(ROWS, tmp_path / folder / "visits.parquet")
        monkeypatch.setenv("HOME", str(tmp_path / folder))
        monkeypatch.chdir(tmp_path / folder)
        found += paid(ledger, at_home, COUNTED)
    assert found == [None, None, None, None, 4, 5]


def test_a_file_that_is_read_in_another_way_is_another_table(ledger):
    Path("visits.csv").write_text("id,v\n1,2\n2,3\n")

    def ask(given: Any) -> Ask:
        table = sf.scan("visits.csv", privacy_unit="id", types={"id": "BIGINT"} | given)
        return lambda b: table.bound(rows=1).agg(n=sf.count()).release(epsilon=1, budget=b)

    assert paid(ledger, *(ask({"v": kind}) for kind in ("VARCHAR", "BIGINT", "BIGINT"))) == [None, None, 5]


def test_what_failed_or_was_streamed_is_not_given_again(ledger, monkeypatch):
    def failing(*_: object, **__: object) -> None:
        raise EngineError("the rows cannot be read")

    budget = ledger.budget("shop", "ann")
    with monkeypatch.context() as now:
        now.setattr(DuckDBEngine, "statistics", failing)
        with pytest.raises(EngineError):
            COUNTED(budget).to_arrow()
    COUNTED(budget).write("a.parquet")
    assert paid(ledger, COUNTED, COUNTED) == [None, 6]


@pytest.mark.parametrize(("column", "value"), [("analyst", "bob"), ("entry", 5), ("dataset", "shop ")])
def test_an_answer_that_was_made_somebody_elses_is_not_given(column, value, ledger):
    paid(ledger, COUNTED)
    with closing(sqlite3.connect("budget.db")) as connection, connection:
        connection.execute(f"UPDATE sfumato_journal SET {column} = ? WHERE kind = 'answered'", [value])
    with pytest.raises(EngineError, match="is damaged, or was changed by hand"):
        paid(ledger, COUNTED, analyst="bob" if column == "analyst" else "ann")
