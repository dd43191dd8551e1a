"""The page of a report: complete by itself, harmless, balanced, and with the report's own numbers."""

import json
import math
import re
import threading
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest

from sfumato.audit import Histogram, Pair, Point, Report, Witness, audit, gaussian, units
from sfumato.audit.report_pictures import Bars, direction, wealth
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
    "violated": lambda: audit(noisy_sum(0.5), epsilon=1),
    "passed": lambda: audit(noisy_sum(1), epsilon=1, alpha=SURE, pairs=PAIR, max_samples=20_000),
    "curve": lambda: audit(noisy_sum(8), claim=gaussian(1), alpha=SURE, max_samples=5000),
    "text": lambda: audit(lambda d: HOSTILE if d else "no", epsilon=1, pairs=PAIR),
    "constant": lambda: audit(lambda d: 0.0, epsilon=1, max_samples=1000),
    "exception": lambda: audit(lambda d: 1 / len(d), epsilon=1, pairs=PAIR),
    "tables": lambda: audit(lambda d: float(len(d)), epsilon=1, delta=0.01, pairs=units()),
    "histogram": lambda: audit(noisy_sum(0.5), epsilon=1, method="histogram"),
    "histogram, no numbers": lambda: audit(
        lambda d: "yes" if d else None, epsilon=1, method="histogram", pairs=PAIR
    ),
    "epsilon beyond floats": lambda: audit(noisy_sum(1), epsilon=800, pairs=PAIR, max_samples=500),
    "datasets that cannot be copied": lambda: audit(
        lambda d: str(type(d)), epsilon=1, pairs=[(threading.Lock(), threading.RLock())]
    ),
    "lone surrogate": lambda: audit(lambda d: "\ud800" if d else "", epsilon=1, pairs=PAIR),
}


@pytest.fixture(scope="module")
def reports():
    made = {}

    def get(name):
        return made[name] if name in made else made.setdefault(name, AUDITS[name]())

    return get


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
def test_a_page_is_balanced_and_needs_nothing_beside_it(reports, name):
    page = reports(name).to_html()
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
    # Dark screens, paper, telephones.
    assert "@media (prefers-color-scheme: dark)" in style and "@media print" in style
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in found.of("meta")


@pytest.mark.long
@pytest.mark.parametrize("name", AUDITS)
def test_a_page_can_be_read_aloud(reports, name):
    found = Parsed(reports(name).to_html())
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for picture in found.of("svg"):
        hidden = picture.get("aria-hidden") == "true"
        assert hidden or (picture["role"] == "img" and set(picture["aria-labelledby"].split()) <= set(ids))
    assert len(found.of("h1")) == 1 and found.of("html") == [{"lang": "en"}]
    assert all(cell.get("scope") in ("row", "col") for cell in found.of("th"))
    assert sum(tag == "table" for tag, _ in found.tags) <= len(found.of("th"))


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


def test_long_datasets_are_shortened_but_not_in_the_line_that_replays():
    data = [float(i) for i in range(2000)]
    text = Parsed(hand_made(witness={"dataset": data, "replay": f"audit(m, {data})"}).to_html()).text
    assert text.count("1999.0") == 1 and f"audit(m, {data})" in text and "..." in text


def test_the_numbers_are_the_reports():
    text = Parsed(hand_made().to_html()).text
    for words in (
        "VIOLATED",
        "noisy breaks its claim, epsilon = 1.25, delta = 0.0625",
        "at most 2e-07",
        "at least 1.757 at delta = 0.0625, with 0.9375 confidence",
        "12,345 on each side",
        "3.25 s",
        "value < 0.5",
        "Share of 32 draws",
        "More often on [1.0] 0.7188",
        "Than on [] 0.03125",
        # 0.03125 e^1.25 + 0.0625; ln((0.71875 - 0.0625) / 0.03125)
        "up to 0.1716",
        "epsilon = 3.045",
        "audit(mechanism, epsilon=1.25)",
        "added (shown above) 6,789",
        "other 5,556",
        "a note",
        "After 12,345 draws a side it is 7.12; the claim is rejected at 6.7.",
    ):
        assert words in text, words


def test_a_pass_says_that_it_is_no_proof_and_what_it_excluded(reports):
    report = reports("passed")
    text = Parsed(report.to_html()).text
    assert "NOTHING FOUND" in text and "no proof" in text and "VIOLATED" not in text
    assert report.excluded.excess <= float(re.search(r"the claim by more than (\S+),", text)[1]) < 1
    assert f"epsilon above {report.excluded.visible_epsilon:.3g}" in text
    assert report.closest.event in text and report.witness is None
    assert "0 of them beyond the sampling error" in text


def test_the_histogram_method_has_no_wealth_and_no_rate(reports):
    text = Parsed(reports("histogram").to_html()).text
    assert "no exact rate of false alarms" in text and "wealth" not in text
    assert re.search(r"[1-9]\d* of them beyond the sampling error", text)


# Pictures.


def test_buckets_above_the_bound_are_marked_and_no_others():
    rng = np.random.default_rng(3)
    counts, others = (
        rng.multinomial(50_000, np.ones(40) / 40),
        rng.multinomial(50_000, np.arange(1, 41) / 820),
    )
    bars = Bars(("0", "1"), tuple(counts.tolist()), tuple(others.tolist()), 50_000, "value")
    claim = Pair(0.5, 0.001)
    for found, own, other in ((bars, counts, others), (bars.swapped, others, counts)):
        figure = direction(found, claim, "a", ("x", "y"))
        bound = [Fraction(claim.factor) * q / 50_000 + Fraction(claim.delta) for q in other.tolist()]
        above = sum(Fraction(p, 50_000) > b for p, b in zip(own.tolist(), bound, strict=True))
        boxes = re.findall(r'<rect class="(over|sure)"', figure.svg)
        assert 3 < len(boxes) == above and f"{above} of 40 buckets are" in figure.caption
        assert 0 < boxes.count("sure") == figure.svg.count('class="flag"') < above


def test_equal_sides_are_not_marked():
    bars = Bars(("0", "1"), (50, 30, 20), (50, 30, 20), 100, "value")
    assert "<rect" not in direction(bars, Pair(0.0), "a", ("x", "y")).svg


def heights(svg, kind):
    """Vertical places of the steps of a line."""
    (line,) = re.findall(rf'<path class="{kind}" d="([^"]*)"', svg)
    return [float(y) for y in re.findall(r"V([\d.]+)", line)]


def test_lines_stand_where_their_values_are():
    """Heights are proportional to shares: those of one side, and e^epsilon q + delta of the other."""
    bars = Bars(("0", "1"), (10, 20, 40), (40, 20, 10), 100, "value")
    svg = direction(bars, Pair(math.log(2), 0.05), "a", ("x", "y")).svg
    ticks = re.findall(r'<path class="grid" d="M\d+ ([\d.]+)H', svg)
    floor = float(ticks[0])
    seen, bound = ([floor - y for y in heights(svg, kind)] for kind in ("outline", "bound"))
    unit = seen[2] / 0.4
    assert seen == pytest.approx([0.1 * unit, 0.2 * unit, 0.4 * unit], abs=0.2)
    assert bound == pytest.approx([0.85 * unit, 0.45 * unit, 0.25 * unit], abs=0.2)


def test_merging_keeps_every_draw():
    counts = tuple(np.random.default_rng(1).integers(0, 9, 1001).tolist())
    histogram = Histogram(tuple(np.linspace(-1, 1, 1002).tolist()), counts, counts[::-1], sum(counts))
    bars = Bars.of(replace(hand_made().witness, histogram=histogram))["histogram"]
    assert bars.counts == tuple(sum(counts[i : i + 16]) for i in range(0, 1001, 16))
    assert sum(bars.others) == sum(counts) and len(bars.others) == len(bars.counts) == 63
    assert (bars.labels[0], bars.labels[-1]) == ("-1", "1")


def test_wealth_is_drawn_to_scale_and_long_traces_are_thinned():
    trace = [Point(10 * i, 6.0 * i / 5000, 0) for i in range(1, 5001)]
    svg = wealth(trace, 1e-6, "w").svg
    (points,) = re.findall(r'points="([^"]*)"', svg)
    places = [tuple(map(float, p.split(","))) for p in points.split(" ")]
    assert len(places) < 600
    needed = float(re.search(r'class="bound" d="M\d+ ([\d.]+)H', svg)[1])
    assert places[-1][1] == needed < places[0][1]
    middle = min(places, key=lambda p: abs(p[0] - (places[0][0] + places[-1][0]) / 2))
    assert middle[1] == pytest.approx((places[0][1] + needed) / 2, abs=1)


# Files.


@pytest.mark.long
def test_files(tmp_path, reports):
    report = reports("violated")
    for ending in ("html", "json", "txt", "HTML"):
        report.write(tmp_path / f"report.{ending}")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.to_html()
    assert json.loads((tmp_path / "report.json").read_text())["witness"]["samples"] == report.witness.samples
    assert (tmp_path / "report.txt").read_text() == f"{report}\n"
    for wrong in ("report.pdf", "report"):
        with pytest.raises(ParameterError, match=r"\.html, \.json or \.txt"):
            report.write(str(tmp_path / wrong))
    for name in AUDITS:
        reports(name).write(tmp_path / "any.txt")
        reports(name).write(tmp_path / "any.json")
        json.loads((tmp_path / "any.json").read_text())
