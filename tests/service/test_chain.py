"""A chain of calls through a client is the same query, with the same mistakes, as in the process of the rows; whoever is in the tables."""

import inspect
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.largest_groups import Top
from sfumato.api.question import Question
from sfumato.api.table import Table
from sfumato.client import RemotePublicTable, RemoteQuestion, RemoteTable
from sfumato.errors import ParameterError, QueryError, RefusalError, UnknownNameError
from sfumato.query.aggregates import FUNCTIONS
from sfumato.query.aggregates.aggregate import get_call
from sfumato.query.tables.public_table import PublicTable
from sfumato.release.canonical_form import canonical, canonical_top
from sfumato.service import wire_format
from sfumato.service.analyst_catalog import (
    OF_PUBLIC,
    OF_QUESTIONS,
    OF_RELEASE,
    OF_TABLES,
    OF_TOP,
    read_chain_query,
)
from tests.support import python_queries
from tests.support.hostile_requests import NEVER, bodies
from tests.support.python_queries import CHAINS, LEFT, PRIVATE, TABLES, neighbours
from tests.support.service import LocalClient, LocalService

from .test_hostile import harmless

pytestmark = [
    pytest.mark.flakiness(
        k=14, because="fewer than 2000 answers, each of which may show a group of one person, at delta 1e-18"
    )
]
SILENT = pytest.mark.noise_cannot_matter("plans, forms, columns and errors are compared, no number")
# Of which each meets other lines of the client, the wire format and the service.
QUICK = ("domain", "decimals", "bounds", "derived", "rows in all", "join public", "union", "top by sum")
NAMES = [pytest.param(one, marks=() if one in QUICK else pytest.mark.long) for one in CHAINS]


class Near:
    """The same tables in the process of their rows."""

    def __init__(self, tables: dict[str, Any] = TABLES) -> None:
        catalog = sf.catalog({"tables": tables})
        self.table, self.public = catalog.table, catalog.public


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    """Two services, whose tables differ in one privacy unit with odd rows; the first is that of the tables."""
    made = [tmp_path_factory.mktemp(name) for name in ("without", "with")]
    return LocalService(made[0], declared=TABLES, each=200), LocalService(
        made[1], declared=neighbours(), each=200
    )


@pytest.fixture(scope="module")
def service(services):
    return services[0]


@pytest.fixture(scope="module")
def ann(service):
    return LocalClient(service)


def form(query, options):
    """Return all that an answer depends on."""
    if isinstance(query, Top):
        return canonical_top(query.plan(**options))
    return canonical(query.plan(**options), query._engine)


def columns(query, options):
    return list(query.release(**options).to_arrow().column_names)


def check_same(far, near, chain):
    """Fail where a query is another one through a client: there, at the service, or in what comes of it."""
    ask, options = chain
    there, here = ask(far), ask(near)
    body = json.loads(json.dumps(there._sent(options)))
    arrived = read_chain_query(body["chain"], body["options"], far.service.catalog, {"threads": 1})
    assert arrived.release_options == options
    assert form(arrived.question, arrived.release_options) == form(here, options)
    assert str(there.plan(**options)) == str(arrived.question.plan(**options)) == str(here.plan(**options))
    answer = there.release(**options, dummy=True)
    assert list(answer.to_arrow().column_names) == columns(here, options)
    cost = there.ask(**options, **({} if isinstance(here, Top) else {"units": []})).cost
    assert cost == here.release(**options).spent


@pytest.mark.long
@SILENT
@pytest.mark.parametrize("name", NAMES)
def test_the_same_query(ann, name):
    check_same(ann, Near(), CHAINS[name])


@pytest.mark.long
@SILENT
def test_nothing_is_sent_or_charged_before_a_release(service):
    ann = LocalClient(service)
    query, near = (CHAINS["rows in all"][0](one) for one in (ann, Near()))
    query.plan(epsilon=1)
    sizes = {"epsilon": 1, "units": 100}
    assert query.preview(**sizes).to_arrow() == near.preview(**sizes).to_arrow()
    assert query.epsilon_for(n=20, units=100) == near.epsilon_for(n=20, units=100)
    assert [path for path, _ in ann.sent] == ["/v1/tables"]  # once
    before = ann.spent.epsilon
    release = query.release(epsilon=1, confidence=0.5, simultaneous=True)
    assert ann.spent.epsilon == before + 1 and release.errors(0.5).num_rows == 3 and not release.dummy
    assert release.spent == (1.0, 0.0) and release.receipt().verify(release.to_arrow()).ok
    assert query.release(epsilon=1, dummy=True).dummy and ann.spent.epsilon == before + 1
    # What stands here for the rows of the service gives no answer.
    asked = ann.table("visits").join(ann.public("towns"), on="town").agg(n=sf.count_units())
    assert "dummy" not in str(asked.plan(epsilon=1))
    with pytest.raises(RefusalError, match="at a service"):
        asked._local.release(epsilon=1).to_arrow()
    dummy = ann.table("visits").dummy().agg(n=sf.count_units()).release(epsilon=1)
    assert "of dummy rows" in repr(dummy) and ann.spent.epsilon == before + 1


@SILENT
def test_options_of_a_release_are_sent(service):
    ann = LocalClient(service)
    given = {"epsilon": "0.5", "delta": "1e-9", "noise": "gaussian"}
    ann.table("people").agg(n=sf.count_units()).release(**given, dummy=True)
    assert ann.sent[-1][0] == "/v1/release" and ann.sent[-1][1]["options"] == given


def test_methods_and_functions_that_are_admitted():
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
        here = {"self", "budget", "unsafe_words", "confidence", "share"}
        assert set(inspect.signature(of.release).parameters) - here == set(names)
    assert get_call(sf.mean("v")).function == "mean"
    text = Path(python_queries.__file__).read_text()
    assert not {function.__name__ for function in FUNCTIONS if f"sf.{function.__name__}(" not in text}


def test_a_recording_keeps_its_arguments(service):
    ranks, keys = [0.25, 0.75], ["Ulm"]
    grouped = LocalClient(service).table("visits").group_by("town", keys=keys).bound(groups=1, rows=1)
    query = grouped.agg(q=sf.quantiles("v", ranks))
    ranks.append(0.5)
    keys.append("Bonn")
    sent = json.dumps(query._sent({"epsilon": 1}))
    assert "0.5" not in sent and "Bonn" not in sent


def test_what_cannot_be_asked_through_a_client(service, tmp_path):
    ann = LocalClient(service)
    table = ann.table("visits")
    query = table.agg(n=sf.count_units())
    for name in ("analyze", "diagnose"):
        with pytest.raises(UnknownNameError, match="RemoteQuestion has no " + name):
            getattr(query, name)(epsilon=1)
    with pytest.raises(UnknownNameError, match="for_analysts; a service answers only with releases"):
        table.for_analysts()
    for other in (sf.public(pa.table({"town": ["Ulm"]})), Near().table("people")):
        with pytest.raises(QueryError, match="cannot be sent to a service"):
            table.join(other, on="town")
    with pytest.raises(ParameterError):
        Near().table("visits").join(ann.public("towns"), on="town")
    with pytest.raises(QueryError, match="two services"):
        table.join(LocalClient(LocalService(tmp_path)).public("towns"), on="town")
    for wrong, called in ((query, "RemoteQuestion"), (table.top("town", k=2), "RemoteTop")):
        with pytest.raises(QueryError, match=f"^join is '{called}', but must be"):
            table.join(wrong, on="id")
    hostile = {"<Question": sf.count()}
    assert repr(table.agg(**hostile)) == "<RemoteQuestion of visits: <Question>"


# Whoever is in the tables: the same status, error, price and form of answer.

# Of an answer, and of its cost before; hints follow from the noisy numbers.
SAME = ("columns", "keys", "spent", "explanation", "cost", "remaining", "previews", "notes", "confidence")


def difference(one, other, text):
    """Return what is wrong with the answers of two services; nothing where all is well."""
    for answer in (one, other):
        harmless(answer, text)
    if one.status_code != other.status_code:
        return f"statuses {one.status_code} and {other.status_code}: {one.text[:300]} / {other.text[:300]}"
    if one.status_code != 200:
        return "" if one.text == other.text else f"errors {one.text[:300]} / {other.text[:300]}"
    if not one.headers["content-type"].startswith("application/json"):
        return "" if one.headers["content-type"] == other.headers["content-type"] else "media"
    first, second = one.json(), other.json()
    wrong = [name for name in SAME if first.get(name) != second.get(name)]
    return f"{wrong}: {first.get(wrong[0])!s:.300} / {second.get(wrong[0])!s:.300}" if wrong else ""


def check_alike(services, path, body, rows=False):
    """Fail where two services answer in another way; return the status."""
    text = json.dumps(body)
    one, other = (service.send(path, text.encode(), "olga") for service in services)
    wrong = difference(one, other, text)
    # Bounds that were found are noisy, and stand in the explanation.
    assert not wrong or ("auto" in text and wrong.startswith("['explanation']")), (wrong, text[:300])
    if rows and one.status_code == 200:
        assert len(one.json().get("rows", ())) == len(other.json().get("rows", ()))
    return one.status_code


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=() if one in ("decimals", "join public") else pytest.mark.long)
        for one in CHAINS | LEFT
    ],
)
def test_chains_of_neighbouring_tables(services, name):
    ask, options = (CHAINS | LEFT)[name]
    if "delta" in options:
        options = options | {"delta": "1e-18"}  # at which nobody's group is shown
    body, other = (ask(LocalClient(one))._sent(options) for one in services)
    assert body == other  # what is said of the tables is the same, too
    assert check_alike(services, "/v1/release", body, rows=name not in PRIVATE) == 200
    assert check_alike(services, "/v1/ask", body | {"units": []}) == 200


@pytest.mark.long
@pytest.mark.parametrize("step", [40, pytest.param(6, marks=pytest.mark.long)])
def test_hostile_chains_are_refused_in_words_and_alike(services, step):
    seen, every = Counter(), bodies()
    assert len(every) > 500 and NEVER
    for i, body in enumerate(every[::step]):
        path, more = ("/v1/ask", {"units": []}) if i % 3 == 0 else ("/v1/release", {})
        seen[check_alike(services, path, body | more)] += 1
    assert set(seen) <= {200, 400, 402, 413} and seen[200] < 0.15 * seen.total(), seen


def test_calls_that_are_not_admitted(service, monkeypatch):
    """Which would run, read a file, or open exact numbers, were any method or option taken."""
    monkeypatch.setattr(wire_format, "MAX_CALLS", 4)
    count = ["agg", [], {"n": {"asks": "count_units", "args": [], "named": {}}}]
    for calls, options in (
        ([["dummy", [], {}], count], {}),
        ([["for_analysts", [], {}], count], {}),
        ([["__class__", [], {}], count], {}),
        ([["agg", [], {"n": {"asks": "Budget", "args": [3], "named": {}}}]], {}),
        ([["filter", ["v > 1"], {}]] * 4 + [count], {}),
        ([count], {"budget": 3}),
        ([count], {"unsafe_words": 1}),
        ([count], {"confidence": 0.5}),
    ):
        body = {"chain": {"table": "visits", "calls": calls}, "options": {"epsilon": 1} | options}
        answer = service.post("/v1/release", **body)
        said = answer.json()["error"]["text"]
        assert answer.status_code == 400 and said.startswith("chain: "), (calls[0], options, said)
