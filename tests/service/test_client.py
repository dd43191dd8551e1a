"""The same questions from far away: the same answers, and the same exceptions in the same words."""

from __future__ import annotations

import copy
import http.server
import json
import pickle
import threading
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import pytest

import sfumato as sf
from sfumato import errors
from sfumato.client import Client, connect
from sfumato.errors import (
    BudgetError,
    EngineError,
    ParameterError,
    QueryError,
    RefusalError,
    SfumatoError,
    SqlError,
)
from sfumato.service.wire_format import KINDS, error_from_json, error_to_json

from .asking import DECLARED, QUESTION, Asked, served

EXACT = QUESTION.replace("epsilon = 1", "epsilon = 1000000")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Asked, str]]:
    asked = Asked(tmp_path_factory.mktemp("client"))
    with served(asked) as url:
        yield asked, url


@pytest.fixture
def ann(place: tuple[Asked, str]) -> Client:
    return connect(place[1], place[0].secrets["ann"])


@pytest.mark.flakiness(k=100, because="noise of 1e-4 or less rounds to 0 in counts")
def test_the_same_answer_as_beside_the_rows(ann: Client) -> None:
    far, near = ann.sql(EXACT), sf.sql(EXACT, catalog=sf.catalog({"tables": DECLARED}))
    assert far.to_arrow().schema.names == near.to_arrow().schema.names
    assert far.to_arrow().select(["year", "n"]) == near.to_arrow().select(["year", "n"])
    assert far.spent == near.spent == (1e6, 0.0)
    assert far.explain() == str(near.explain()).replace("catalog:", "catalog:") and far.hints == near.hints
    assert (
        far.errors().schema.names == near.errors().schema.names
        and far.errors()["year"] == near.errors()["year"]
    )
    assert far.errors(0.95)["n"].to_pylist() == near.errors()["n"].to_pylist()
    assert list(far.to_pandas()["n"]) == [300] * 3 and far.to_polars()["n"].to_list() == [300] * 3
    assert repr(far) == "<RemoteRelease of year, n, v; epsilon=1e+06, delta=0>"
    assert far.receipt().verify(far.to_arrow()).ok and far.receipt().spent == (1_000_000, 0) and not far.dummy
    with pytest.raises(ParameterError, match=r"confidence is 0.5, but must be 0.95"):
        far.errors(0.5)


@pytest.mark.noise_cannot_matter("it looks at costs and forms")
def test_ask_and_account(place: tuple[Asked, str]) -> None:
    olga = connect(place[1], place[0].secrets["olga"])
    found = olga.ask(QUESTION, units=[50, 100])
    assert found.cost == (1.0, 0.0) and found.explanation and found.previews[0].num_rows == 2 and found.notes
    assert olga.spent == (0.0, 0.0) and olga.history == () and not olga.ask(QUESTION, units=[]).previews
    tried = olga.sql(QUESTION, dummy=True)
    assert tried.dummy and tried.spent == (0.0, 0.0) == olga.spent and "of made-up rows" in repr(tried)
    olga.sql(QUESTION, confidence=0.5)
    assert olga.spent == (1.0, 0.0) and [one.what for one in olga.history] == ["n, v by year"]
    assert olga.remaining.epsilon == 10**9 - 1
    assert olga.tables["visits"]["privacy_unit"] == "id" and list(olga.tables) == list(DECLARED)


WRONG = {
    "SELECT 1": SqlError,
    QUESTION.replace("visits", "nothing"): SqlError,
    QUESTION.replace("epsilon = 1", "epsilon = -1"): SqlError,
    QUESTION.replace("epsilon = 1", "epsilon = 1e12"): BudgetError,
    QUESTION.replace("epsilon = 1", "epsilon = 1, noise = gaussian"): SfumatoError,
    QUESTION.replace("epsilon = 1", "epsilon = 1, max_groups_contributed = 99"): QueryError,
}


@pytest.mark.parametrize("text", WRONG)
def test_the_same_exceptions(ann: Client, text: str) -> None:
    with pytest.raises(WRONG[text]) as far:
        ann.sql(text)
    with pytest.raises(WRONG[text]) as near:
        sf.sql(text, catalog=sf.catalog({"tables": DECLARED}), budget=sf.Budget(10**9))
    assert type(far.value) is type(near.value)
    words = str(near.value).partition(" is more than is left")[0]
    assert str(far.value).startswith(words)


def test_arguments_are_the_same_errors(ann: Client) -> None:
    with pytest.raises(ParameterError, match="confidence is 2, but must be between 0 and 1"):
        ann.sql(QUESTION, confidence=2)
    with pytest.raises(ParameterError, match="text is 5, but must be SQL"):
        ann.sql(5)
    with pytest.raises(ParameterError, match=r"units is \[0\], but must be a list of sizes"):
        ann.ask(QUESTION, units=[0])
    with pytest.raises(QueryError, match="units must be a list of at most 20"):
        ann.ask(QUESTION, units=[1] * 21)


def test_every_kind_travels() -> None:
    kinds = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, SfumatoError)]
    assert set(kinds) == set(KINDS.values())
    for kind in kinds:
        error = kind("rows", 0, "at least 1") if kind is ParameterError else kind("words\nline 1, column 2")
        again = error_from_json(error_to_json(error))
        assert type(again) is kind and str(again) == str(error)
    again = error_from_json(error_to_json(ParameterError("rows", 0, "at least 1")))
    assert isinstance(again, ParameterError)
    assert (again.name, again.value, again.expected) == ("rows", "0", "at least 1")
    assert (
        type(error_from_json({"kind": "Later", "text": "x"})) is SfumatoError
        and error_from_json({}) is not None
    )


def test_who_may_not_ask(place: tuple[Asked, str]) -> None:
    asked, url = place
    token = asked.tokens.create("carl")
    carl = connect(url, token)
    assert carl.spent == (0.0, 0.0)
    asked.tokens.revoke(asked.tokens.all()[-1].id)
    with pytest.raises(QueryError, match="token: none that is valid") as error:
        carl.sql(QUESTION)
    for shown in (repr(carl), str(error.value), repr(error.value.__context__), str(vars(error.value))):
        assert token not in shown


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000",
        "ftp://x",
        "http://",
        "http://ann:x@host",
        "http://h/?q=1",
        "http://h/#a",
        "http://h:x",
        "http://[1",
        5,
    ],
)
def test_addresses(url: Any) -> None:
    with pytest.raises(QueryError, match="url"):
        connect(url, "token")


@pytest.mark.parametrize("token", ["", "a\r\nX: y", "é", None, 5])
def test_what_is_no_token(token: Any) -> None:
    with pytest.raises(QueryError, match="token"):
        connect("http://127.0.0.1:1", token)


def test_nobody_there() -> None:
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:9 does not answer"):
        connect("http://127.0.0.1:9", "token").sql(QUESTION)


class Odd(http.server.BaseHTTPRequestHandler):
    """Another server than ours: it sends askers elsewhere, or something else."""

    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        Odd.seen.append(self.path)
        self.send_response(302 if self.path.startswith("/v1/tables") else 500)
        self.send_header("location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_: Any) -> None:
        return


def test_another_server_is_not_followed() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Odd) as odd:
        threading.Thread(target=odd.serve_forever).start()
        client = connect(f"http://127.0.0.1:{odd.server_port}", "token")
        with pytest.raises(EngineError, match="status 302"):
            _ = client.tables
        with pytest.raises(EngineError, match="status 500"):
            _ = client.spent
        odd.shutdown()
    assert Odd.seen == ["/v1/tables", "/v1/budget"]


def test_a_path_before(place: tuple[Asked, str]) -> None:
    with pytest.raises(QueryError, match="no such path"):
        _ = connect(place[1] + "/data/", place[0].secrets["ann"]).tables


@pytest.mark.noise_cannot_matter("an answer is compared with itself")
def test_rows_columns_and_frames_are_those_of_a_release(ann: Client) -> None:
    answer, place = ann.sql(QUESTION, confidence=0.9), cast(Any, 0)
    assert answer and len(answer) == 3 and list(answer) == answer.to_arrow().to_pylist()
    assert answer["n"] == [row["n"] for row in answer]
    with pytest.raises(errors.ColumnError, match="did you mean 'year'"):
        answer["yaer"]
    with pytest.raises(ParameterError, match=r"list\(release\)"):
        answer[place]
    frame = answer.frame(errors=True)
    assert list(frame.columns) == ["year", "n", "n_error", "v", "v_error"]
    assert frame["n_error"].tolist() == answer.errors(0.9)["n"].to_pylist()
    assert list(answer.frame().columns) == ["year", "n", "v"]
    assert "error bar" in frame.attrs["sfumato"]["error_bars"]
    for said in (frame.attrs, answer.frame().attrs, answer.to_pandas().attrs):
        assert said["sfumato"]["bias"].startswith("Does not include bias") and said["sfumato"]["epsilon"] > 0
    said = json.loads(answer.to_arrow().schema.metadata[b"sfumato"])
    assert said == answer.to_pandas().attrs["sfumato"] and "error_bars" not in said
    with pytest.raises(ParameterError, match="confidence"):
        answer.frame(errors=True, confidence=0.5)
    taken = ann.sql(QUESTION.replace("AS v", "AS n_error"))
    with pytest.raises(QueryError, match="n_error is the name of a column"):
        taken.frame(errors=True)
    computed = ann.sql(f"SELECT n * n AS squared FROM ({QUESTION})")
    with pytest.raises(errors.RefusalError, match="no error bars"):
        computed.frame(errors=True)
    for name, advice in (("write", "to_csv"), ("plot", "frame"), ("to_df", "to_pandas")):
        with pytest.raises(errors.UnknownNameError, match=advice):
            getattr(answer, name)


@pytest.mark.noise_cannot_matter("how many rows there are")
def test_rows_that_stand_for_those_of_a_service_are_not_asked(ann: Client) -> None:
    table = ann.table("visits")
    asked = table.join(ann.public("towns"), on="town").agg(n=sf.count_units())
    assert "made-up" not in str(asked.plan(epsilon=1))
    with pytest.raises(errors.RefusalError, match="at a service"):
        asked._local.release(epsilon=1).to_arrow()
    assert table.dummy().agg(n=sf.count_units()).release(epsilon=1).to_arrow().num_rows == 1


def test_a_question_in_the_place_of_a_table_is_told_as_what_it_is(ann: Client) -> None:
    visits = ann.table("visits")
    asked, largest = visits.agg(n=sf.count()), visits.top("town", k=2)
    for given, called in ((asked, "RemoteQuestion"), (largest, "RemoteTop")):
        with pytest.raises(QueryError, match=f"^join is '{called}', but must be"):
            visits.join(cast(Any, given), on="id")
    with pytest.raises(QueryError, match="^agg: n is a RemoteQuestion, which is not a private aggregate"):
        visits.agg(n=cast(Any, asked))
    hostile: dict[str, Any] = {"<Question": sf.count()}
    assert repr(visits.agg(**hostile)) == "<RemoteQuestion of visits: <Question>"


def test_a_token_goes_into_no_file(ann: Client) -> None:
    asked = ann.table("visits").agg(n=sf.count())
    for held in (ann, ann.table("visits"), asked):
        for put in (pickle.dumps, copy.copy, copy.deepcopy):
            if held is ann or put is not copy.copy:  # a copy beside it has the same client
                with pytest.raises(RefusalError, match=r"a client has a token.*call connect\(\.\.\.\) there"):
                    put(held)


def test_an_option_that_its_release_has_not_is_looked_for_nowhere_else(ann: Client) -> None:
    near = sf.catalog({"tables": DECLARED}).table("visits")
    for table in (ann.table("visits"), near):
        largest: Any = table.top("town", k=2)
        for method in (largest.release, largest.plan, largest.explain):
            with pytest.raises(QueryError) as refused:
                method(epsilon=1, noise="laplace")
            assert "it takes epsilon, delta" in str(refused.value), refused.value
        with pytest.raises(QueryError, match="budget: it is an argument of release"):
            near.top("town", k=2).plan(epsilon=1, **{"budget": None})
