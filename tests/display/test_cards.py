"""Cards show what there is: harmless as HTML, at no cost, and with no fraction as Python writes it."""

import dataclasses
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato import errors as sf_errors
from sfumato.display.cards import Card, Facts, Listing, Rows, Sentences, Steps, html
from sfumato.display.formatting import Shown
from sfumato.errors import EngineError

pytestmark = pytest.mark.noise_cannot_matter("it looks at what is shown around the numbers")
NAME = "<script>alert(1)</script>\"'&$x$"
HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[31m$x$"


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
