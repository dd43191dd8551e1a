"""Cards show what there is: harmless as HTML, at no cost, and with no fraction as Python writes it."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import errors as sf_errors
from sfumato.audit import closeness
from sfumato.client import RemoteRelease
from sfumato.display.cards import Card, Facts, Listing, Rows, Sentences, Steps, html
from sfumato.display.formatting import Shown
from sfumato.errors import EngineError

pytestmark = pytest.mark.noise_cannot_matter("it looks at what is shown around the numbers")
NAME = "<script>alert(1)</script>\"'&$x$"
HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[31m$x$"
TAGS = {"div", "style", "p", "table", "thead", "tbody", "tr", "th", "td", "span", "ol", "li", "pre", "abbr"}


class Tags(HTMLParser):
    """The tags, attributes and text of a card."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def table(rows: int = 60) -> Any:
    data = {
        "id": [i // 3 for i in range(rows)],
        NAME: [[HOSTILE, "B"][i % 2] for i in range(rows)],
        "x": [float(i % 7) for i in range(rows)],
    }
    return sf.scan(pa.table(data), privacy_unit="id")


def question() -> Any:
    grouped = table().group_by(NAME, keys=[HOSTILE, "B"]).bound(groups=1, rows=3)
    return grouped.agg(n=sf.count(), x=sf.mean("x", lower=0, upper=7))


def made(release: Any) -> Any:
    release.to_arrow()
    return release


def drawn() -> Any:
    return made(question().release(epsilon="1/3"))


def computed() -> Any:
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = id, max_rows_per_group = 1)"
        " COUNT(*) AS n FROM t"
    )
    return made(sf.sql(f"SELECT n * 2 AS twice FROM ({text})", tables={"t": pa.table({"id": [1, 2]})}))


def advice() -> sf.Advice:
    asked = question()
    return sf.advise(asked.table, {"n": asked}, epsilon="1/3")


def budget() -> sf.Budget:
    made = sf.Budget(epsilon=3)
    made.spend("1/3", what=HOSTILE)
    return made


def ledger() -> sf.Ledger:
    made = sf.Ledger(f"{tempfile.mkdtemp()}/budget.db")
    made.create(NAME, epsilon="1/3", period="month")
    made.grant(NAME, "ann", epsilon="1/7")
    made.budget(NAME, "ann").spend("1/9", what=HOSTILE)
    return made


def catalog() -> sf.Catalog:
    columns = {NAME: {"domain": [HOSTILE, "B"]}, "x": {"lower": 0.1, "upper": 7}}
    hospital = {
        "source": pa.table({"id": [1], NAME: ["B"], "x": [1.0]}),
        "privacy_unit": "id",
        "columns": columns,
    }
    return sf.catalog(
        {"tables": {NAME: {**hospital, "max_groups": 1}, "towns": {"source": "t.csv", "public": True}}}
    )


def stratified() -> sf.StratifiedProportion:
    sample = {"s": [HOSTILE, "B"] * 9, "yes": [True, False, False] * 6}
    return sf.stratified_proportion(
        sample, stratum="s", answer="yes", yes=True, population={HOSTILE: 90, "B": 80}, epsilon="1/3"
    )


def far() -> Any:
    from sfumato.service.answer_formats import answer, pack

    made = replace(answer(drawn(), 0.95, False, False))
    return RemoteRelease(pack(replace(made, about={**made.about, "repeats": 3})))


THINGS: dict[str, Callable[[], Any]] = {
    "ledger": ledger,
    "budget of a ledger": lambda: ledger().budget(NAME, "ann"),
    "catalog": catalog,
    "stratified proportion": stratified,
    "release from far away": far,
    "closeness": lambda: closeness([1, 2, 3, 4, 5, 6] * 20, {face: 1 / 6 for face in range(1, 7)}),
    "table": table,
    "public table": lambda: sf.public(pa.table({NAME: [1]})).filter("true"),
    "question": question,
    "largest groups, released": lambda: made(table().top(NAME, k=2, keys=[HOSTILE, "B"]).release(epsilon=1)),
    "plan": lambda: question().plan(epsilon="1/3"),
    "release before it is drawn": lambda: question().release(epsilon="1/3"),
    "release": drawn,
    "release after SQL": computed,
    "preview": lambda: question().preview(epsilon="1/3", units=10),
    "budget": budget,
    "diagnostics": lambda: question().diagnose(epsilon="1/3"),
    "analysis": lambda: question().analyze(epsilon="1/3"),
    "epsilon": lambda: sf.explain_epsilon("1/3", "1/1000000"),
    "receipt": lambda: drawn().receipt(),
    "advice": advice,
    "comparison": lambda: drawn().compare("n", "B", HOSTILE),
}


@pytest.mark.long
@pytest.mark.parametrize("name", THINGS)
def test_html_is_harmless_and_exact_numbers_are_written_as_people_do(name: str) -> None:
    thing = THINGS[name]()
    found = Tags(thing._repr_html_())
    assert set(found.tags) <= TAGS
    assert found.attributes <= {"class", "scope", "start", "title"}
    for text in (found.text, str(thing), repr(thing)):
        assert text and "Fraction(" not in text and " object at 0x" not in text
    for text in (found.text, str(thing)):
        assert "\x1b" not in text and "\u202e" not in text
    assert "mathjax_ignore" in thing._repr_html_()
    for place, value in told(thing):
        assert "Fraction(" not in repr(value), place


def told(thing: Any) -> list[tuple[str, Any]]:
    """What somebody sees who writes a dot behind it, but numbers alone, which are Python's."""
    properties = [name for name in dir(type(thing)) if isinstance(getattr(type(thing), name), property)]
    fields = [field.name for field in dataclasses.fields(thing)] if dataclasses.is_dataclass(thing) else []
    found = []
    for name in {*properties, *fields}:
        if not name.startswith("_"):
            with suppress(sf_errors.SfumatoError, NotImplementedError):
                value = getattr(thing, name)
                numbers = value.values() if isinstance(value, Mapping) else [value]
                found += [(name, one) for one in numbers if type(one) is not Fraction]
    return found


@pytest.mark.parametrize(
    "place", ["title", "warning", "names", "cells", "facts", "steps", "sentences", "listing"]
)
def test_each_place_of_a_card_is_escaped(place: str) -> None:
    bad = {place: HOSTILE}
    card = Card(
        bad.get("title", ""),
        [
            Rows([bad.get("names", "a")], [[bad.get("cells", "b")], [Shown(bad.get("cells", "1"), "2")]]),
            Facts([(bad.get("facts", ""), bad.get("facts", ""))]),
            Steps([bad.get("steps", "")]),
            Sentences([bad.get("sentences", "")]),
            Listing(bad.get("listing", "")),
        ],
        bad.get("warning", ""),
    )
    found = Tags(html(card))
    assert "script" not in found.tags and "<script>alert(1)</script>" in found.text
    assert "\x1b" not in html(card) and "\u202e" not in html(card)


@pytest.mark.long
def test_showing_draws_reads_and_spends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, paid = question(), sf.Budget(epsilon=3)
    release = asked.release(epsilon=1, budget=paid)
    diagnostics = asked.diagnose(epsilon=1, budget=paid)
    left = paid.remaining

    def refuse(*_: object, **__: object) -> None:
        raise EngineError("rows were read")

    monkeypatch.setattr(type(asked._engine), "statistics", refuse)
    for thing in (asked.table, asked, asked.plan(epsilon=1), release, diagnostics, paid):
        assert thing._repr_html_() and str(thing) and repr(thing)
    assert not release.drawn and not diagnostics.drawn and paid.remaining == left
    assert "not drawn yet" in release._repr_html_()
    with pytest.raises(EngineError, match="rows were read|release stopped"):
        release.to_arrow()


def test_a_release_shows_the_numbers_that_were_drawn_with_their_bars() -> None:
    release = drawn()
    shown = [
        list(map(str.strip, row))
        for row in re.findall(r"<tr>(.*?)</tr>", release._repr_html_(), re.S)
        for row in [re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)]
        if row
    ]
    plain = [[re.sub("<.*?>", "", cell) for cell in row] for row in shown]
    (first, second) = release.to_arrow()["n"].to_pylist()
    rows = {row[0]: row for row in plain if len(row) == 3}
    assert {f"{first:,}", f"{second:,}"} == {row[1].split(" ± ")[0] for row in rows.values()}
    assert all(" ± " in row[1] and " ± " in row[2] for row in rows.values())
    assert release._repr_html_() == release._repr_html_()
