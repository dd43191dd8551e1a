"""What the tests of chains must find: each of them fails on a defect that is planted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import sfumato.service.analyst_catalog as chain
import sfumato.service.query_service as desk
import sfumato.service.wire_format as recorded
from sfumato.client import RemotePublicTable, RemoteQuestion, RemoteTable
from sfumato.errors import QueryError, SfumatoError
from sfumato.service.wire_format import Reading, SentCall

from . import test_chain
from .asking import Asked
from .chains import CHAINS, TABLES
from .hostile_chains import ASK, calls
from .test_chain import Direct, Near, same
from .test_hostile import harmless

pytestmark = pytest.mark.noise_cannot_matter("plans, forms, columns and errors are compared, no number")
Patch = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return Asked(tmp_path_factory.mktemp("plants"), declared=TABLES)


def an_argument_is_lost(patch: Patch) -> str:
    """A limit is not sent."""
    of = SentCall.recorded
    patch.setattr(
        SentCall,
        "recorded",
        lambda name, args, named: of(name, args, {k: v for k, v in named.items() if k != "total_rows"}),
    )
    return "rows in all"


def a_fraction_is_a_float(patch: Patch) -> str:
    """Numbers arrive as they are in binary."""
    value = recorded._value
    patch.setattr(
        recorded,
        "_value",
        lambda kind, text: float(Fraction(text)) if kind == "fraction" else value(kind, text),
    )
    return "bounds"


def an_option_is_the_services_own(patch: Patch) -> str:
    """The noise that was asked for is not used."""
    patch.setattr(
        RemoteQuestion,
        "_sent",
        lambda self, options: self._body({**options, "noise": "auto"}),
    )
    return "derived"


def steps_of_a_public_table_are_lost(patch: Patch) -> str:
    """All towns are joined, and not those that were asked for."""

    then = RemotePublicTable._then

    def lost(self: Any, *call: Any) -> Any:
        return replace(then(self, *call), _recorded=self._recorded)

    patch.setattr(RemotePublicTable, "_then", lost)
    return "join public"


def a_call_is_made_twice(patch: Patch) -> str:
    """A step is done once more."""
    called = chain._called
    patch.setattr(
        chain,
        "_called",
        lambda of, name, args, named: called(
            called(of, name, args, named) if name == "with_columns" else of, name, args, named
        ),
    )
    return "union"


def a_domain_is_forgotten(patch: Patch) -> str:
    """The client knows no domains."""
    from sfumato.client import remote_tables

    column = remote_tables._column
    patch.setattr(remote_tables, "_column", lambda told: replace(column(told), domain=None))
    return "domain"


def a_cost_is_less(patch: Patch) -> str:
    """What is told before is less than what is paid."""
    ask = desk.read_chain_query
    patch.setattr(
        desk, "read_chain_query", lambda data, options, *rest: ask(data, options | {"delta": 0}, *rest)
    )
    return "vectors"


def a_name_is_another(patch: Patch) -> str:
    """Columns are called as the service likes."""
    aggregate = Reading._arguments

    def planted(self: Any, args: Any, named: Any, depth: int) -> Any:
        found, by_name = aggregate(self, args, named, depth)
        return found, {"value" if name == "n" else name: one for name, one in by_name.items()}

    patch.setattr(Reading, "_arguments", planted)
    return "count"


DEFECTS: list[Callable[[Patch], str]] = [
    an_argument_is_lost,
    a_fraction_is_a_float,
    an_option_is_the_services_own,
    steps_of_a_public_table_are_lost,
    a_call_is_made_twice,
    a_domain_is_forgotten,
    a_cost_is_less,
    a_name_is_another,
]


@pytest.mark.parametrize("defect", DEFECTS)
def test_another_question_than_beside_the_rows_is_found(
    asked: Asked, monkeypatch: Patch, defect: Callable[[Patch], str]
) -> None:
    name = defect(monkeypatch)
    with pytest.raises((AssertionError, SfumatoError)):
        same(Direct(asked), Near(TABLES), CHAINS[name])


@pytest.mark.parametrize(
    ("where", "more"),
    [
        ("OF_TABLES", "dummy"),
        ("OF_TABLES", "for_analysts"),
        ("OF_RELEASE", "unsafe_words"),
        ("OF_TOP", "budget"),
    ],
)
def test_a_name_too_many_is_found(monkeypatch: Patch, where: str, more: str) -> None:
    monkeypatch.setattr(test_chain, where, (*getattr(chain, where), more))
    with pytest.raises((AssertionError, AttributeError)):
        test_chain.test_every_method_and_function_travels()


def test_a_name_too_few_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(test_chain, "OF_TABLES", tuple(name for name in chain.OF_TABLES if name != "totals"))
    with pytest.raises(AssertionError):
        test_chain.test_every_method_and_function_travels()


def hostile(service: Asked, names: tuple[str, ...]) -> None:
    """Ask what calls one of some names, which no list has."""
    for call in calls():
        if isinstance(call, list) and call and call[0] in names:
            body = {"chain": {"table": "visits", "calls": [call, ASK]}, "options": {"epsilon": 1}}
            assert harmless(service.send("/v1/release", json.dumps(body).encode())) != 200, body


@pytest.mark.parametrize("names", [("dummy",), ("for_analysts",), ("__class__", "engine", "_with_step")])
def test_a_service_that_calls_whatever_is_named_is_found(
    asked: Asked, monkeypatch: Patch, names: tuple[str, ...]
) -> None:
    hostile(asked, names)
    monkeypatch.setattr(chain, "_called", lambda of, name, args, named: getattr(of, name)(*args, **named))
    with pytest.raises(Exception):  # noqa: B017  a fault, as of calling a text, is found, too
        hostile(asked, names)


def test_functions_that_are_no_aggregates_are_found(asked: Asked, monkeypatch: Patch) -> None:
    import sfumato as sf

    ask = {"table": "visits", "calls": [["agg", [], {"n": {"asks": "Budget", "args": [3], "named": {}}}]]}
    with pytest.raises(QueryError, match="an aggregate has no"):
        chain.read_chain_query(ask, {"epsilon": 1}, asked.catalog, {})
    monkeypatch.setattr(chain, "_aggregate", lambda name, args, named: getattr(sf, name)(*args, **named))
    with pytest.raises(QueryError) as error:
        chain.read_chain_query(ask, {"epsilon": 1}, asked.catalog, {})
    assert "an aggregate has no" not in str(error.value)


def test_a_mistake_that_is_not_told_here_is_found(asked: Asked, monkeypatch: Patch) -> None:
    def then(self: Any, name: str, args: Any, named: Any) -> Any:
        calls = (*self._recorded.calls, SentCall.recorded(name, args, named))
        return replace(self, _recorded=replace(self._recorded, calls=calls))

    monkeypatch.setattr(RemoteTable, "_then", then)
    with pytest.raises(pytest.fail.Exception):
        test_chain.test_the_same_mistakes_are_told_here(asked, "no column")


@pytest.mark.long
def test_a_plan_that_is_asked_of_the_service_is_found(asked: Asked, monkeypatch: Patch) -> None:
    plan = RemoteQuestion.plan

    def planted(self: Any, **options: Any) -> Any:
        self._service._ask(self._sent(options), (), 0.95)
        return plan(self, **options)

    monkeypatch.setattr(RemoteQuestion, "plan", planted)
    with pytest.raises(AssertionError):
        test_chain.test_nothing_is_sent_before_a_release(asked)


def test_an_answer_to_another_question_is_found(tmp_path: Path, monkeypatch: Patch) -> None:
    same_as = desk.QueryService._same

    def planted(self: Any, asked: Any, trial: Any, job: Any) -> Any:
        found = same_as(self, asked, trial, job)
        return None if found is None else found | {"asks": "always the same"}

    monkeypatch.setattr(desk.QueryService, "_same", planted)
    with pytest.raises(AssertionError):
        test_chain.test_a_chain_and_a_text_are_one_question(tmp_path)


def test_arguments_that_change_later_are_found(asked: Asked, monkeypatch: Patch) -> None:
    written = recorded.to_json
    monkeypatch.setattr(
        recorded, "to_json", lambda where, value: value if type(value) is list else written(where, value)
    )
    with pytest.raises(AssertionError):
        test_chain.test_arguments_are_kept_as_they_were(Direct(asked))
