"""What the page is made of, and the endpoints that it needs besides those of `connect`."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sfumato.client import connect
from sfumato.errors import SqlError
from sfumato.service.http_app import words
from sfumato.service.wire_format import error_from_json, error_to_json

from .asking import PAGE, QUESTION, SECRET, Asked

pytestmark = pytest.mark.noise_cannot_matter("it looks at names, costs and words")
COUNT = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, noise = laplace) COUNT(*) AS n FROM visits"


def test_files_are_what_they_say(asked: Asked) -> None:
    media = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
    for path in PAGE.iterdir():
        found = asked.http.get(f"/page/{path.name}")
        assert found.status_code == 200 and found.headers["content-type"].startswith(media[path.suffix])
        assert found.content == path.read_bytes()
    assert asked.http.get("/").content == (PAGE / "index.html").read_bytes()
    for name in (
        "nothing.js",
        "..%2fapp.py",
        "__init__.py",
        "page.css%00",
        "page.js/",
        ".",
        "%2e%2e",
        "x" * 5000,
    ):
        assert asked.http.get(f"/page/{name}").status_code == 404


@pytest.mark.parametrize("path", ["/", "/page/page.js", "/v1/tables", "/nothing", "/health"])
def test_the_policy_is_strict(asked: Asked, path: str) -> None:
    headers = asked.http.get(path).headers
    policy = dict(part.partition(" ")[::2] for part in headers["content-security-policy"].split("; "))
    own = {"script-src", "style-src", "connect-src"}
    assert {name for name, value in policy.items() if value == "'self'"} == own
    nothing = {"default-src", "frame-ancestors", "base-uri", "form-action", "trusted-types"}
    assert {name for name, value in policy.items() if value == "'none'"} == nothing
    assert policy["require-trusted-types-for"] == "'script'" and "unsafe" not in str(policy)
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY" and headers["cross-origin-opener-policy"] == "same-origin"
    assert "set-cookie" not in headers and "access-control-allow-origin" not in headers


def test_every_form_of_an_aggregate_can_be_asked(asked: Asked) -> None:
    found = asked.http.get("/v1/words").json()
    assert found == words() and {"name": "COUNT", "form": "COUNT(*)"} in found["aggregates"]
    assert "epsilon" in found["options"] and "lower" in found["functions"] and "FROM" in found["keywords"]
    assert not [name for name in found["functions"] if not re.fullmatch(r"\w+", name)]
    refused = []
    for one in found["aggregates"]:
        form = re.sub(r"\bx\b", "v", re.sub(r"\by\b", "age", re.sub(r"\bs\b", "town", one["form"])))
        form = form.replace("(v, ['a'", "(town, ['a'")
        summed = "CUMULATIVE" in form
        sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6) {'year, ' if summed else ''}{form} FROM visits"
        sql += " GROUP BY year" if summed else ""
        answer = asked.post("/v1/ask", sql=sql, units=[])
        if answer.status_code != 200:
            refused.append((one, answer.json()["error"]["text"]))
    # Of lists, and of a column that says yes or no, which this table does not have.
    assert {one["name"] for one, _ in refused} == {"VECTOR_SUM", "VECTOR_AVG", "STRATIFIED_PROPORTION"}
    assert all("which is" in why for _, why in refused)


def test_errors_at_several_budgets_in_one_call(asked: Asked) -> None:
    found = asked.post("/v1/ask", sql=COUNT, units=[50], epsilons=[0.5, 2, 8]).json()
    (preview,) = found["previews"]
    assert [row[:2] for row in preview["rows"]] == [[0.5, 50], [2.0, 50], [8.0, 50]]
    errors = [row[3] for row in preview["rows"]]
    assert errors == sorted(errors, reverse=True) and errors[0] > 3 * errors[1]
    assert found["cost"]["epsilon"] == 1  # that of the question
    assert asked.get("/v1/budget").json()["spent"]["epsilon"] == 0
    two = f"WITH a AS ({COUNT}), b AS ({COUNT}) SELECT a.n, b.n AS m FROM a, b"
    found = asked.post("/v1/ask", sql=two, units=[50], epsilons=[0.5]).json()
    assert len(found["previews"]) == 2 and found["cost"]["epsilon"] == 2


@pytest.mark.parametrize(
    "given",
    [0, -1, "1", [0], [-1], ["1"], [None], [True], [[1]], {}, [1e-9], [1e300], [1] * 21, None, [1, 2, "x"], True],
)  # fmt: skip
def test_budgets_that_are_none_are_refused_in_words(asked: Asked, given: Any) -> None:
    found = asked.post("/v1/ask", sql=COUNT, epsilons=given)
    assert found.status_code == 400 and "epsilons must be a list of at most 20 budgets" in found.text
    assert "Traceback" not in found.text


def test_many_sizes_times_many_budgets_are_refused(asked: Asked) -> None:
    found = asked.post("/v1/ask", sql=COUNT, units=[1, 2, 3], epsilons=[1.5] * 20)
    assert found.status_code == 400 and "at most 40 together with units" in found.text


def test_an_error_has_its_place_in_the_text(asked: Asked) -> None:
    for sql, wrong in (
        (f"/* 𝒟 😀 */\r\n{COUNT.replace('COUNT(*)', 'MAX(town)')}", "MAX"),
        (COUNT.replace("COUNT(*)", "COUNT(*) OVER ()"), None),
        (COUNT.replace("epsilon", "epsilom"), "epsilom"),
        (f"SELECT t.n FROM ({COUNT.replace('COUNT(*)', 'MODE(v)')}) AS t", "MODE"),
        (f"WITH a AS ({COUNT}), b AS ({COUNT.replace('COUNT(*)', 'SUM(age)')}) SELECT * FROM a, b", "SUM"),
    ):
        error = asked.post("/v1/ask", sql=sql).json()["error"]
        start, stop = error["place"]
        assert wrong is None or sql[start:stop] == wrong
        line, column = map(int, re.findall(r"line (\d+), column (\d+)", error["text"])[0])
        before = re.split(r"\r\n|\r|\n", sql[:start])
        assert (len(before), len(before[-1]) + 1) == (line, column)


def test_a_place_travels_and_nothing_else_does() -> None:
    error = SqlError("not so", (3, 5))
    assert error_to_json(error)["place"] == [3, 5] and "place" not in error_to_json(SqlError("not so"))
    back = error_from_json(error_to_json(error))
    assert isinstance(back, SqlError) and back.place == (3, 5) and str(back) == "not so"
    for bad in ("3 5", [3], [3, 5, 7], ["3", "5"], None, {"start": 3}, [True, 5], [3.5, 5]):
        back = error_from_json({"kind": "SqlError", "text": "x", "place": bad})
        assert isinstance(back, SqlError) and back.place is None


def test_the_page_tells_nobody_of_others(asked: Asked) -> None:
    asked.post("/v1/release", "bob", sql=QUESTION.replace("AS n", "AS bobs"))
    for path in ("/", "/v1/words", "/v1/tables", "/v1/history", "/v1/budget", "/page/page.js"):
        found = asked.get(path).text
        assert "bob" not in found and SECRET not in found
    assert connect("http://127.0.0.1:1", "x")  # as its own program asks


def test_places_of_all_refusals_are_those_that_they_tell() -> None:
    """Also where a part of the text is read as a text of its own: a page marks them in the whole."""
    from sfumato.dialect import parse

    from .hostile import of_dialect

    seen = 0
    for sql in of_dialect():
        try:
            parse(sql, public=["towns"], private=["visits", "orders", "customers", "people"])
        except SqlError as error:
            told = re.findall(r"\nline (\d+), column (\d+):\n", str(error))
            assert bool(told) == (error.place is not None), str(error)
            if error.place is None:
                continue
            before = re.split(r"\r\n|\r|\n", sql[: error.place[0]])
            assert (len(before), len(before[-1]) + 1) == (int(told[-1][0]), int(told[-1][1])), sql
            assert 0 <= error.place[0] <= error.place[1] <= len(sql)
            seen += 1
        except ValueError:
            continue
    assert seen > 300
