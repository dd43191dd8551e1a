"""A chain of calls from far away is the same question, with the same mistakes, as beside the rows."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.largest_groups import Top
from sfumato.api.question import Question
from sfumato.api.table import Table
from sfumato.client import Client, RemotePublicTable, RemoteQuestion, RemoteTable
from sfumato.errors import (
    BudgetError,
    ParameterError,
    QueryError,
    SfumatoError,
    UnknownNameError,
)
from sfumato.query.aggregates import FUNCTIONS
from sfumato.query.aggregates.aggregate import call_of
from sfumato.query.tables.public_table import PublicTable
from sfumato.release.canonical_form import canonical, canonical_top
from sfumato.service.analyst_catalog import (
    OF_PUBLIC,
    OF_QUESTIONS,
    OF_RELEASE,
    OF_TABLES,
    OF_TOP,
    read_chain_query,
)
from sfumato.service.query_service import QueryRequest
from sfumato.service.wire_format import as_python, query_as_python

from .asking import Asked
from .chains import CHAINS, LEFT, MONTHS, ONE, TABLES, Chain
from .hostile_chains import bodies
from .test_hostile import harmless
from .test_repeats import Service

pytestmark = pytest.mark.noise_cannot_matter("plans, forms, columns and errors are compared, no number")


class Direct(Client):
    """A client of a service in this process."""

    def __init__(self, asked: Asked, name: str = "ann") -> None:
        super().__init__("http://service", asked.secrets[name], 10.0, None)
        self._asked_of, self._name, self.sent = asked, name, list[tuple[str, Any]]()

    def _sent(
        self, method: str, path: str, body: Mapping[str, Any] | None, accept: str, key: str | None = None
    ) -> tuple[int, bytes]:
        self.sent.append((path, body))
        if body is None:
            found = self._asked_of.get(path, self._name)
        else:
            headers = {"accept": accept} | ({} if key is None else {"idempotency-key": key})
            found = self._asked_of.send(path, json.dumps(body).encode(), self._name, **headers)
        return found.status_code, bytes(found.content)


class Near:
    """The same tables beside their rows."""

    def __init__(self, tables: dict[str, Any]) -> None:
        self._catalog = sf.catalog({"tables": tables})

    def table(self, name: str) -> Any:
        return self._catalog.table(name)

    def public(self, name: str) -> Any:
        return self._catalog.public(name)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return Asked(tmp_path_factory.mktemp("chain"), declared=TABLES)


@pytest.fixture(scope="module")
def ann(asked: Asked) -> Direct:
    return Direct(asked)


@pytest.fixture(scope="module")
def near() -> Near:
    return Near(TABLES)


def form(question: Any, options: Mapping[str, Any]) -> Any:
    """Return all that an answer depends on."""
    if isinstance(question, Top):
        return canonical_top(question.plan(**options))
    return canonical(question.plan(**options), question._engine)


def same(far: Direct, near: Near, chain: Chain) -> None:
    """Fail where a question is another one from far away: here, at the service, or in what comes of it."""
    (ask, options), catalog = chain, far._asked_of.catalog
    there, here = ask(far), ask(near)
    body = json.loads(json.dumps(there._sent(options)))
    arrived = read_chain_query(body["chain"], body["options"], catalog, {"threads": 1})
    assert arrived.release_options == options
    assert form(arrived.question, arrived.release_options) == form(here, options)
    shown = [str(one.plan(**options)) for one in (there, arrived.question, here)]
    assert shown[0] == shown[1] == shown[2]
    answer = there.release(**options, dummy=True)
    columns = list(answer.to_arrow().column_names)
    assert columns == _columns(here, options)
    cost = there.ask(**options, **({} if isinstance(here, Top) else {"units": []})).cost
    assert cost == here.release(**options).spent


def _columns(question: Any, options: Mapping[str, Any]) -> list[str]:
    return list(question.release(**options).to_arrow().column_names)


@pytest.mark.parametrize("name", CHAINS)
def test_the_same_question(ann: Direct, near: Near, name: str) -> None:
    same(ann, near, CHAINS[name])


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_a_release(ann: Direct, name: str) -> None:
    ask, options = LEFT[name]
    there, here = ask(ann), ask(Near(TABLES))
    before = ann.spent
    answer = there.release(**options)
    assert list(answer.to_arrow().column_names) == _columns(here, options)
    assert there.automatic and ann.spent.epsilon == before.epsilon + 1
    with pytest.raises(QueryError) as far:
        there.plan(**options)
    with pytest.raises(QueryError) as near:
        here.plan(**options)
    assert str(far.value) == str(near.value)


def test_units_of_several_columns(tmp_path: Path) -> None:
    far = Direct(Asked(tmp_path, declared=MONTHS))
    ask = lambda s: s.table("months").filter("v > 1").agg(n=sf.count_units(), m=sf.mean("v"))  # noqa: E731
    same(far, Near(MONTHS), (ask, ONE))
    assert far.tables["months"]["privacy_unit_parts"] == ["id", "date_trunc('month', day)"]


def test_nothing_is_sent_before_a_release(asked: Asked) -> None:
    ann = Direct(asked)
    question = CHAINS["domain"][0](ann)
    question.plan(epsilon=1)
    near = CHAINS["domain"][0](Near(TABLES))
    sizes: dict[str, Any] = {"epsilon": [1, 2], "units": [10, 100]}
    assert question.preview(**sizes).to_arrow() == near.preview(**sizes).to_arrow()
    part: dict[str, Any] = {"share": "1/12", "budget": sf.Budget(epsilon=3), "units": 100}
    assert question.preview(**part).to_arrow() == near.preview(**part).to_arrow()
    assert question.epsilon_for(n=20, units=100) == near.epsilon_for(n=20, units=100)
    assert [path for path, _ in ann.sent] == ["/v1/tables"]  # once
    before = ann.spent.epsilon
    release = question.release(epsilon=1, confidence=0.5, simultaneous=True)
    assert ann.spent.epsilon == before + 1 and release.errors(0.5).num_rows == 3
    assert (
        not release.dummy and release.spent == (1.0, 0.0) and release.receipt().verify(release.to_arrow()).ok
    )
    tried = question.release(epsilon=1, dummy=True)
    assert tried.dummy and ann.spent.epsilon == before + 1
    assert "of made-up rows" in repr(ann.table("visits").dummy().agg(n=sf.count_units()).release(epsilon=1))
    assert ann.spent.epsilon == before + 1


def test_every_method_and_function_travels() -> None:
    for far, near, named in (
        (RemoteTable, Table, OF_TABLES),
        (RemotePublicTable, PublicTable, OF_PUBLIC),
        (RemoteQuestion, Question, OF_QUESTIONS),
    ):
        for name in named:
            signatures = [
                {n: (p.kind, p.default) for n, p in inspect.signature(getattr(one, name)).parameters.items()}
                for one in (far, near)
            ]
            assert signatures[0] == signatures[1], name
    public = {name for name in vars(Table) if not name.startswith("_") and callable(getattr(Table, name))}
    assert public - set(OF_TABLES) == {"dummy", "for_analysts"}
    for of, names in ((Question, OF_RELEASE), (Top, OF_TOP)):
        own = set(inspect.signature(of.release).parameters) - {
            "self",
            "budget",
            "unsafe_words",
            "confidence",
            "share",
        }
        assert own == set(names)
    used = json.dumps([ask(Near(TABLES)).__class__.__name__ for ask, _ in CHAINS.values()])
    assert "Question" in used and "Top" in used
    every = {"mean": sf.mean("v"), "count": sf.count()}
    assert all(call_of(made).function == name for name, made in every.items())
    functions = {function.__name__ for function in FUNCTIONS}
    text = (Path(__file__).parent / "chains.py").read_text()
    assert not {name for name in functions if f"sf.{name}(" not in text}


MISTAKES: dict[str, Any] = {
    "no column": lambda s: s.table("visits").filter("agee > 4"),
    "no table": lambda s: s.table("visit"),
    "a public table": lambda s: s.table("towns"),
    "a private table": lambda s: s.public("visits"),
    "no bounds": lambda s: s.table("orders").bound(rows=1).agg(m=sf.mean("price")),
    "no limit": lambda s: s.table("orders").agg(n=sf.count()),
    "too many": lambda s: s.table("visits").bound(groups=4),
    "no name": lambda s: s.table("visits").agg(sf.count()),
    "no aggregate": lambda s: s.table("visits").agg(n="count"),
    "no argument": lambda s: s.table("visits").filter(condition="v > 1"),
    "the unit": lambda s: s.table("visits").group_by("id"),
    "keys": lambda s: s.table("visits").group_by("year", keys=["no year"]),
    "types": lambda s: s.table("visits").join(s.public("towns"), on={"year": "town"}),
    "units": lambda s: s.table("visits").join(s.table("people"), on="year"),
    "sql": lambda s: s.table("visits").sql("SELECT max(v) FROM self"),
    "epsilon": lambda s: s.table("visits").agg(n=sf.count_units()).release(epsilon=0),
    "no epsilon": lambda s: s.table("visits").agg(n=sf.count_units()).release(delta=1),
    "no delta": lambda s: s.table("visits").group_by("town").agg(n=sf.count_units()).release(epsilon=1),
    "noise": lambda s: s.table("visits").agg(n=sf.count_units()).release(epsilon=1, noise="gauss"),
    "budget": lambda s: s.table("visits").agg(n=sf.count_units()).plan(epsilon=1, budget=3),
    "weights": lambda s: s.table("visits").agg(n=sf.count_units()).weigh(m=3),
    "top": lambda s: s.table("visits").top("town", k=0),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_same_mistakes_are_told_here(asked: Asked, name: str) -> None:
    ann, told_errors = Direct(asked), []
    for one in (ann, Near(TABLES)):
        with pytest.raises(SfumatoError) as error:
            MISTAKES[name](one)
        told_errors.append((type(error.value), str(error.value).replace("; or give share= of a budget=", "")))
    assert told_errors[0] == told_errors[1]
    assert [path for path, _ in ann.sent] == ["/v1/tables"]


def test_what_cannot_be_asked_from_far(asked: Asked, tmp_path: Path) -> None:
    ann = Direct(asked)
    table = ann.table("visits")
    question = table.agg(n=sf.count_units())
    for name in ("analyze", "diagnose"):
        with pytest.raises(UnknownNameError, match="RemoteQuestion has no " + name):
            getattr(question, name)(epsilon=1)
    with pytest.raises(UnknownNameError, match="for_analysts; a service admits releases alone"):
        table.for_analysts()
    with pytest.raises(UnknownNameError, match=r"no where; write filter"):
        table.where("v > 1")
    for other in (sf.public(pa.table({"town": ["Ulm"]})), Near(TABLES).table("people")):
        with pytest.raises(QueryError, match="cannot be sent to a service"):
            table.join(other, on="town")
    with pytest.raises(ParameterError):
        Near(TABLES).table("visits").join(ann.public("towns"), on="town")
    with pytest.raises(QueryError, match="two services"):
        table.join(Direct(Asked(tmp_path)).public("towns"), on="town")
    with pytest.raises(QueryError, match="there is no argument budget"):
        question.release(epsilon=1, budget=sf.Budget(1))


def test_a_chain_and_a_text_are_one_question(tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.ledger.journal.declare("shop", "2026-11")
    first = service.asks()  # in SQL
    chain = {
        "table": "visits",
        "calls": [["group_by", ["town"], {}], ["agg", [], {"n": {"asks": "count", "args": [], "named": {}}}]],
    }
    options = {"epsilon": 1, "delta": "1e-6"}
    job = QueryRequest("release", "ann", "a chain", chain=chain, options=options)
    again = service.desk.answer(job)
    assert again.headers and json.loads(again.body)["repeats"] and service.paid == 1
    assert json.loads(again.body)["rows"] == json.loads(first.body)["rows"]
    service.desk.answer(QueryRequest("release", "bob", "a chain", chain=chain, options=options))
    service.desk.answer(
        QueryRequest("release", "ann", "a chain", chain=chain, options=options | {"epsilon": 2})
    )
    assert service.paid == 3  # another analyst's, and another question
    refused = {"table": "visits", "calls": [["filter", ["no = 1"], {}], ["agg", [], {}]]}
    assert (
        service.desk.answer(QueryRequest("release", "ann", "{}", chain=refused, options=options)).status
        == 400
    )
    log = [line.detail for line in service.ledger.journal.lines() if line.kind == "refused"]
    assert "table('visits').filter('no = 1').agg().release(epsilon=1, delta='1e-6')" in str(log[-1])


def test_a_recording_reads_as_python(asked: Asked) -> None:
    question, options = CHAINS["join private"][0](Direct(asked)), {"epsilon": 1}
    text = query_as_python(question._recorded.data, options)
    assert text == (
        "table('visits').join(table('people').filter('year = 2020'), on={'id': 'id', 'year': 'year'}, rows=2)"
        ".bound(rows=3).agg(n=sf.count()).release(epsilon=1)"
    )
    assert (
        as_python({"tuple": [1, {"date": "2024-01-31"}, {"fraction": "1/3"}]})
        == "(1, date('2024-01-31'), 1/3)"
    )
    assert query_as_python({"table": "x", "calls": [["odd"]]}, {}) is None


@pytest.mark.flakiness(k=14, because="a group of one person may be shown, at delta 1e-18 or less")
@pytest.mark.parametrize("step", [40, pytest.param(5, marks=pytest.mark.long)])
def test_hostile_chains_are_refused_in_words(tmp_path: Path, step: int) -> None:
    service, seen, every = Asked(tmp_path, each=100), Counter[int](), bodies()
    assert len(every) > 500
    for i, body in enumerate(every[::step]):
        path = "/v1/ask" if i % 3 == 0 else "/v1/release"
        sent = json.dumps(body | ({"units": []} if path == "/v1/ask" else {}))
        seen[harmless(service.send(path, sent.encode()), sent)] += 1
    assert set(seen) <= {200, 400, 402, 413} and seen[200] < 0.15 * seen.total(), seen


def test_costs_more_than_is_left(tmp_path: Path) -> None:
    ann = Direct(Asked(tmp_path, epsilon=1))
    question = ann.table("visits").agg(n=sf.count_units())
    question.release(epsilon="0.75")
    with pytest.raises(BudgetError, match="more than is left"):
        question.release(epsilon="0.5")
    assert ann.spent.epsilon == 0.75 and [one.what for one in ann.history] == ["n"]


def test_arguments_are_kept_as_they_were(ann: Direct) -> None:
    ranks, keys = [0.25, 0.75], ["Ulm"]
    asked = sf.quantiles("v", ranks)
    question = ann.table("visits").group_by("town", keys=keys).bound(groups=1, rows=1).agg(q=asked)
    ranks.append(0.5)
    keys.append("Bonn")
    sent = json.dumps(question._sent({"epsilon": 1}))
    assert "0.5" not in sent and "Bonn" not in sent
    assert asked == sf.quantiles("v", [0.25, 0.75])
