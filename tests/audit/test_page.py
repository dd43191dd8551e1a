"""The page of a report: complete by itself, harmless, balanced, and with the report's own numbers."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from sfumato.audit import Histogram, Point, Report, Witness, audit, gaussian, units
from sfumato.errors import ParameterError
from sfumato.noise import Laplace, SeededWords

STEPS = 2**20
VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = "<script>alert('1')</script>\"><img src=http://x.example/>&amp;\x1b[31m\x00\u202e"
# On correct mechanisms the tests below fail with probability at most this, each.
SURE = 1e-10


class Parsed(HTMLParser):
    """Tags, attributes and text of a page; fails where tags are not balanced."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.pieces = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.pieces.append((tuple(self.open), data))

    @property
    def text(self):
        return " ".join(" ".join(data for where, data in self.pieces if "style" not in where).split())

    def of(self, tag):
        return [attrs for t, attrs in self.tags if t == tag]


def noisy_sum(scale):
    words = SeededWords(1)

    def noisy(dataset, size):
        steps = sum(round(min(max(x, 0.0), 1.0) * STEPS) for x in dataset if x == x)
        return (steps + Laplace(scale=round(scale * STEPS)).rounded(size, words)) / STEPS

    return noisy


PAIR = [([1.0], [])]
AUDITS = {
    "violated": lambda: audit(noisy_sum(0.5), epsilon=1, pairs=PAIR),
    "passed": lambda: audit(noisy_sum(1), epsilon=1, alpha=SURE, pairs=PAIR, max_samples=3000),
    "curve": lambda: audit(noisy_sum(8), claim=gaussian(1), alpha=SURE, pairs=PAIR, max_samples=300),
    "text": lambda: audit(lambda d: HOSTILE if d else "no", epsilon=1, pairs=PAIR),
    "tables": lambda: audit(lambda d: float(len(d)), epsilon=1, delta=0.01, pairs=units()[:3]),
    "histogram": lambda: audit(noisy_sum(0.5), epsilon=1, method="histogram", pairs=PAIR),
    "lone surrogate": lambda: audit(lambda d: "\ud800" if d else "", epsilon=1, pairs=PAIR),
}


def hand_made(**changes):
    witness = Witness(
        edge="added",
        dataset=[1.0],
        neighbour=[],
        event="value < 0.5",
        frequency=0.71875,
        neighbour_frequency=0.03125,
        samples=32,
        epsilon=1.25,
        delta=0.0625,
        replay="audit(mechanism, epsilon=1.25)",
        histogram=Histogram((0.0, 0.5, 1.0), (23, 9), (1, 31), 32),
    )
    report = Report(
        mechanism="noisy",
        claim="epsilon = 1.25, delta = 0.0625",
        violated=True,
        epsilon_lower=1.7578,
        delta=0.0625,
        confidence=0.9375,
        alpha=2e-7,
        witness=replace(witness, **changes.pop("witness", {})),
        samples=12_345,
        seconds=3.25,
        edges=(("added", 6_789), ("other", 5_556)),
        trace=(Point(6000, 1.5, 0), Point(12_345, 7.125, 1)),
        notes=("a note",),
    )
    return replace(report, **changes)


@pytest.mark.parametrize("name", AUDITS)
def test_a_page_is_balanced_and_needs_nothing_beside_it(name, tmp_path):
    report = AUDITS[name]()
    page = report.to_html()
    page.encode("utf-8")
    found = Parsed(page)
    allowed = (
        "html head meta title style body main header footer h1 h2 h3 p code pre table caption thead tbody "
    )
    allowed += "tr th td ul li div span figure figcaption svg desc path rect text polyline"
    assert {tag for tag, _ in found.tags} <= set(allowed.split())
    for _, attributes in found.tags:
        assert not {"src", "href", "srcset", "data", "action", "style"} & set(attributes)
        assert not any(key.startswith("on") for key in attributes)
    (style,) = [data for where, data in found.pieces if where[-1:] == ("style",)]
    assert "url(" not in style and "@import" not in style and "//" not in style
    # Who does not see pictures is told what they show.
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for picture in found.of("svg"):
        hidden = picture.get("aria-hidden") == "true"
        assert hidden or (picture["role"] == "img" and set(picture["aria-labelledby"].split()) <= set(ids))
    told = {
        "passed": "NOTHING FOUND: no proof: 0 of them beyond the sampling error",
        "histogram": "no exact rate of false alarms",
        "violated": "VIOLATED",
    }
    assert all(words in found.text for words in told.get(name, "").split(": "))
    assert ("wealth" in found.text) is not name.startswith("histogram")
    for ending in ("html", "json", "TXT"):
        report.write(tmp_path / f"report.{ending}")
    assert (tmp_path / "report.html").read_bytes() == page.encode(errors="replace")
    assert json.loads((tmp_path / "report.json").read_text())["violated"] is report.violated
    assert (tmp_path / "report.TXT").read_bytes() == f"{report}\n".encode(errors="replace")
    with pytest.raises(ParameterError, match=r"\.html, \.json or \.txt"):
        report.write(tmp_path / "report.pdf")


def test_what_mechanisms_and_data_say_is_text_alone():
    report = hand_made(
        mechanism=HOSTILE,
        claim=HOSTILE,
        edges=((HOSTILE, 1), (HOSTILE, 2)),
        notes=(HOSTILE,),
        settings=((HOSTILE, HOSTILE),),
        method=HOSTILE,
        witness={
            "edge": HOSTILE,
            "dataset": [HOSTILE],
            "event": HOSTILE,
            "replay": HOSTILE,
            "histogram": Histogram((0.0, 0.5, 1.0), (23, 9), (1, 31), 32, HOSTILE),
        },
    )
    page = report.to_html()
    found, harmless = Parsed(page), Parsed(hand_made(settings=(("a", "b"),)).to_html())
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in harmless.tags]
    shown = HOSTILE.replace("\x1b", r"\x1b").replace("\x00", r"\x00").replace("\u202e", r"\u202e")
    assert found.text.count(shown) >= 12
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", page)


# Pictures.
