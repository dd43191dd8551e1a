"""The page of a report: whatever it is made of, it is harmless."""

import re
from dataclasses import replace
from html.parser import HTMLParser

from sfumato.audit import Histogram, Point, Report, Witness

VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = "<script>alert('1')</script>\"><img src=http://x.example/>&amp;\x1b[31m\x00\u202e"


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
