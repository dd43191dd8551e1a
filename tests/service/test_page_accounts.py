"""The page of a busy service in a real browser: what is left, what was asked, and answers that were lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from sfumato.service.access_tokens import Tokens
from sfumato.service.query_service import QueryRequest, QueryService

from .asking import VISITS
from .browser import Browser, program
from .browser import running as browsing
from .pages import Clinic, answered, entered, harmless, priced, serving, text, write

pytestmark = [pytest.mark.long, pytest.mark.noise_cannot_matter("it looks at what is shown, and at costs")]
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = {}) COUNT(*) AS n FROM visits"
CATALOG = (
    '[tables.visits]\nsource = "visits.parquet"\nprivacy_unit = "id"\nmax_groups = 3\nmax_rows = 3\n'
    "columns = {year = {domain = [2020, 2021, 2022]}}\n"
) + "".join(f'[tables.towns{i}]\nsource = "visits.parquet"\npublic = true\n' for i in range(6))


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    folder = tmp_path_factory.mktemp("accounts")
    pq.write_table(VISITS, folder / "visits.parquet")
    (folder / "clinic.toml").write_text(CATALOG)
    with serving(folder, folder / "clinic.toml") as made:
        made.tokens["olga"] = Tokens(folder / "tokens.db").create("olga", role="owner")
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if program() is None:
        pytest.skip("needs a browser: chromium in PATH, or Debian's package chromium")
    with browsing(tmp_path_factory.mktemp("profile")) as made:
        yield made


def spent(clinic: Clinic, name: str) -> float:
    return float(clinic.budgets.of(name).spent[0])


def test_the_question_has_the_focus_after_signing_in(browser: Browser, clinic: Clinic) -> None:
    tab = entered(browser, clinic, "ann")
    tab.wait("document.activeElement.id === 'ask'")
    tab.reload()
    tab.wait("!document.getElementById('desk').hidden")
    assert tab.evaluate("document.activeElement === document.body")  # a reload moves nobody
    harmless(tab, clinic)


def test_more_than_is_left_cannot_be_asked(browser: Browser, clinic: Clinic) -> None:
    tab = entered(browser, clinic, "bob")  # who has an epsilon of 1
    write(tab, COUNT.format(2))
    tab.wait(
        "/costs more than is left: epsilon 2, and 1 is left/.test(document.getElementById('too-dear').textContent)"
    )
    assert tab.evaluate("document.getElementById('release').disabled")
    assert not tab.evaluate("document.getElementById('try').disabled")
    write(tab, COUNT.format(1))
    assert "epsilon 1" in priced(tab) and text(tab, "#too-dear") == ""
    tab.click("#release")
    answered(tab)
    write(tab, COUNT.format("0.5"))
    tab.wait("/epsilon 0.5, and 0 is left/.test(document.getElementById('too-dear').textContent)")
    assert spent(clinic, "bob") == 1.0
    harmless(tab, clinic)


def test_an_answer_is_shown_again_from_the_history(browser: Browser, clinic: Clinic) -> None:
    tab = entered(browser, clinic, "cleo")
    write(tab, COUNT.format(1))
    priced(tab)
    tab.click("#release")
    answered(tab)
    number = text(tab, "#answer tbody tr")
    tab.click("#leave")
    tab = entered(browser, clinic, "cleo")
    assert tab.evaluate("document.getElementById('answer').hidden")
    tab.click("#history tbody button")
    tab.wait("!document.getElementById('answer').hidden")
    assert text(tab, "#answer tbody tr") == number and "nothing was spent again" in text(tab, "#answer")
    assert spent(clinic, "cleo") == 1.0 and "The question in SQL" not in text(tab, "#answer")
    harmless(tab, clinic)


def test_an_answer_that_a_reload_lost_comes_and_is_paid_once(
    browser: Browser, clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, begun, real = threading.Event(), threading.Event(), QueryService._release

    def slow(desk: QueryService, job: QueryRequest) -> Any:
        done = real(desk, job)  # it is paid, and its answer is kept
        begun.set()
        assert go.wait(60)
        return done

    tab = entered(browser, clinic, "dora")
    write(tab, COUNT.format(1))
    priced(tab)
    with monkeypatch.context() as patch:
        patch.setattr(QueryService, "_release", slow)
        tab.click("#release")
        assert begun.wait(60)
        tab.reload()  # before the answer comes
        go.set()
    tab.wait("!document.getElementById('answer').hidden")
    answered(tab)
    assert spent(clinic, "dora") == 1.0
    assert tab.evaluate("sessionStorage.getItem('sfumato.pending')") is None
    harmless(tab, clinic)


def test_an_owner_sees_what_everybody_asked(browser: Browser, clinic: Clinic) -> None:
    for name in ("eve", "fay"):
        tab = entered(browser, clinic, name)
        write(tab, COUNT.format(1))
        priced(tab)
        tab.click("#release")
        answered(tab)
        assert text(tab, "#history-title") == "What you asked" and "Who" not in text(tab, "#history thead")
    tab = entered(browser, clinic, "olga")  # to whom nothing is granted
    tab.wait("document.querySelector('#history table')")
    assert text(tab, "#history-title") == "What everybody asked" and "Who" in text(tab, "#history thead")
    rows = text(tab, "#history tbody")
    assert (
        "eve" in rows
        and "fay" in rows
        and not tab.evaluate("document.querySelector('#history tbody button')")
    )
    assert "over all analysts" in text(tab, "#history") and "without a budget" in text(tab, "#who")
    harmless(tab, clinic)


def test_columns_to_group_by_are_searched_where_there_are_many(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("wide")
    table = VISITS.select(["id"])
    for i in range(25):
        table = table.append_column(f"wide{i}", VISITS["year"])
    pq.write_table(table, folder / "visits.parquet")
    (folder / "clinic.toml").write_text('[tables.visits]\nsource = "visits.parquet"\nprivacy_unit = "id"\n')
    with serving(folder, folder / "clinic.toml") as made:
        tab = entered(browser, made, "ann")
        seen = "[...document.querySelectorAll('.boxes label')].filter((e) => e.checkVisibility()).length"
        assert tab.evaluate(seen) == 25
        tab.click("#group-3")
        tab.click("#group-find")
        tab.type("wide1")
        tab.wait(f"{seen} === 12")  # wide1, wide10 to wide19, and the one that is chosen
        harmless(tab, made)


def test_tables_and_columns_are_searched_where_there_are_many(browser: Browser, clinic: Clinic) -> None:
    tab = entered(browser, clinic, "ann")
    assert (
        len(tab.evaluate("[...document.querySelectorAll('#table-list summary')].map((e) => e.textContent)"))
        == 7
    )
    tab.click("#find")
    tab.type("towns3")
    tab.wait("document.querySelectorAll('#table-list summary').length === 1")
    assert "1 of 7 tables" in text(tab, "#found")
    tab.evaluate(
        "(() => { const f = document.getElementById('find'); f.value = 'INCOME'; f.dispatchEvent(new Event('input')); })()"
    )
    tab.wait("document.querySelectorAll('#table-list summary').length === 7")
    assert text(tab, "#found") == "7 of 7 tables, 7 columns"
    tab.evaluate(
        "(() => { const f = document.getElementById('find'); f.value = '<img src=x>'; f.dispatchEvent(new Event('input')); })()"
    )
    tab.wait("document.querySelectorAll('#table-list summary').length === 0")
    assert "No table and no column" in text(tab, "#found")
    harmless(tab, clinic)
