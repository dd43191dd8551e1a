"""An audit report as one HTML page with its pictures: no script, no network, no other files.

The page is from the template report_page.html. Its pictures, in SVG, show the shares of draws against their
bound, and the wealth of the bets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import numpy as np

from sfumato import __version__
from sfumato.audit.claims import Pair
from sfumato.audit.histogram_buckets import Comparison
from sfumato.audit.python_code import shown
from sfumato.audit.report_text import excess, lower_bound, sight
from sfumato.dataclass import dataclass
from sfumato.display.cards import escape_html

if TYPE_CHECKING:
    from sfumato.audit.report import Histogram, Point, Report, Witness

_LONGEST_DATASET = 600
# A longer table of pairs has a scroll bar, but on paper.
_LONG_TABLE = 20
_SCROLL = ' class="long" role="region" aria-label="Pairs of datasets" tabindex="0"'


class Html(str):
    """A part of the report page that is HTML already, and is not escaped again."""


@cache
def _sections() -> dict[str, Template]:
    """Return the sections of the report page's template by name."""
    text = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    _, *parts = re.split(r"^<!-- section (\w+) -->\n", text, flags=re.M)
    return {name: Template(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _fill_section(section: str, **values: str) -> Html:
    """Fill in a section of the report page's template; values that are no `Html` are escaped."""
    safe = {name: value if isinstance(value, Html) else escape_html(value) for name, value in values.items()}
    return Html(_sections()[section].substitute(safe))


def _join_html(parts: Iterable[Html]) -> Html:
    return Html("".join(parts))


def page(report: Report) -> str:
    """Return an audit report as an HTML page.

    Args:
        report: of an audit, by whichever method.

    >>> from sfumato.audit import audit
    >>> found = audit(lambda dataset: len(dataset), epsilon=1, pairs=[([1.0], [])])
    >>> page(found)[:15], "VIOLATED" in page(found)
    ('<!doctype html>', True)

    Source:
        Desfontaines 2020, section 4.2.6, for the pictures.
    """
    witness = report.witness or report.closest
    parts = [_verdict(report), _result(report)]
    if witness is not None:
        parts += [_event(report, witness), _render_pair(witness)]
    parts += [_evidence(report), _pairs(report, witness), _notes(report), _settings(report)]
    title = f"{'Violated' if report.violated else 'Nothing found'}: {report.mechanism}"
    return _fill_section(
        "page", title=title, style=Html(style()), body=_join_html(parts), version=__version__
    )


def _verdict(report: Report) -> Html:
    if not report.violated:
        return _fill_section("passed", mechanism=report.mechanism, claim=report.claim)
    alarms = "The histogram method has no exact rate of false alarms."
    if not math.isnan(report.alpha):
        alarms = (
            "A mechanism that keeps this claim is reported as violated with probability at most "
            f"{number(report.alpha)}, over the whole audit and whenever it stops."
        )
    return _fill_section("violated", mechanism=report.mechanism, claim=report.claim, alarms=alarms)


def _result(report: Report) -> Html:
    rows = [("Claim", report.claim), ("True epsilon", lower_bound(report))]
    if report.excluded is not None:
        if report.excluded.excess < 1:
            rows.append(("Excluded", excess(report)))
        rows.append(("In sight", sight(report.excluded.visible_epsilon)))
    rows += [
        ("Draws", f"{report.samples:,} on each side, over all pairs of datasets"),
        ("Time", f"{number(report.seconds, 3)} s"),
    ]
    return _table("Result", rows)


def _event(report: Report, witness: Witness) -> Html:
    title, kind, first, second = (
        ("What breaks it", "The event", "More often on", "Than on")
        if report.violated
        else (
            "The pair that was tested most",
            "The event with the most evidence, too little to reject",
            "On",
            "And on",
        )
    )
    permitted = bound_at(Pair(witness.epsilon, witness.delta), witness.neighbour_frequency)
    return _fill_section(
        "event",
        title=title,
        kind=kind,
        event=witness.event,
        samples=f"{witness.samples:,}",
        edge=witness.edge,
        first=first,
        dataset=shown(witness.dataset, _LONGEST_DATASET),
        frequency=number(witness.frequency),
        second=second,
        neighbour=shown(witness.neighbour, _LONGEST_DATASET),
        neighbour_frequency=number(witness.neighbour_frequency),
        epsilon=number(witness.epsilon),
        delta=number(witness.delta),
        permitted=number(min(permitted, 1.0)),
        observed=number(witness.observed_epsilon),
        replay=witness.replay,
    )


def _render_pair(witness: Witness) -> Html:
    claim = Pair(witness.epsilon, witness.delta)
    figures = []
    for kind, bars in Bars.from_witness(witness).items():
        for name, shares, one, other in (
            ("direct", bars, "first", "second"),
            ("swapped", bars.swapped, "second", "first"),
        ):
            figure = direction(shares, claim, f"{kind}-{name}", (f"{one} dataset", other))
            title = f"{bars.what}: {one} dataset, bound from the {other}"
            figures.append(
                _fill_section("side", title=title, picture=Html(figure.svg), caption=figure.caption)
            )
    return _fill_section("sides", figures=_join_html(figures))


def _evidence(report: Report) -> Html:
    if not report.trace or math.isnan(report.alpha):
        return Html()
    figure = wealth(report.trace, report.alpha, "wealth")
    return _fill_section("evidence", picture=Html(figure.svg), caption=figure.caption)


def _pairs(report: Report, witness: Witness | None) -> Html:
    rows = [
        _fill_section(
            "pair",
            name=f"{name} (shown above)" if witness is not None and name == witness.edge else name,
            samples=f"{samples:,}",
        )
        for name, samples in report.edges
    ]
    scroll = Html(_SCROLL if len(rows) > _LONG_TABLE else "")
    return _fill_section("pairs", count=f"{len(rows):,}", rows=_join_html(rows), scroll=scroll)


def _notes(report: Report) -> Html:
    items = [_fill_section("note", note=note) for note in report.notes]
    return _fill_section("notes", items=_join_html(items)) if items else Html()


def _settings(report: Report) -> Html:
    rates = (("alpha", report.alpha), ("confidence", report.confidence))
    rows = [
        ("method", report.method),
        *((name, "none" if math.isnan(value) else number(value)) for name, value in rates),
        *report.settings,
    ]
    return _table("Settings", rows)


def _table(title: str, rows: Iterable[tuple[str, str]]) -> Html:
    """Return a section of the report page with a table of names and values."""
    return _fill_section(
        "table", title=title, rows=_join_html(_fill_section("row", name=n, value=v) for n, v in rows)
    )


# All pictures have one size, chosen so that their text can still be read on a telephone.
_WIDTH, _HEIGHT = 420, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 24, 40
# Buckets are merged to so many, and further while they hold few draws, down to the least.
_MAX_BUCKETS, _MIN_BUCKETS, _FEW_DRAWS = 80, 10, 20
_MAX_POINTS = 400
# The bound is cut where it is so many times as high as the shares.
_CUT = 3.0
_CONFIDENCE = 0.95


def number(value: float, digits: int = 4) -> str:
    """Write a number for a picture or a table of a report.

    >>> number(1e-6), number(0.123456), number(math.inf)
    ('1e-06', '0.1235', 'infinite')
    """
    return "infinite" if value == math.inf else f"{value:.{digits}g}"


@dataclass(frozen=True)
class Figure:
    """A picture of a report as SVG, and its caption.

    Args:
        svg: the picture.
        caption: for a reader who sees it, as text.
    """

    svg: str
    caption: str


@dataclass(frozen=True)
class Bars:
    """The bars of a report's picture: shares of draws in buckets, on both sides.

    Args:
        labels: what stands below the picture at equal distances: the names of all buckets, or some
            boundaries, the first and the last among them.
        counts: draws on the first side.
        others: draws on the second side.
        samples: draws of each side.
        what: what is counted.
    """

    labels: tuple[str, ...]
    counts: tuple[int, ...]
    others: tuple[int, ...]
    samples: int
    what: str

    @classmethod
    def from_witness(cls, witness: Witness) -> dict[str, Bars]:
        """Return the bars of a witness's pictures: its histogram if it has one, and its event."""
        n = witness.samples
        seen, other = (round(f * n) for f in (witness.frequency, witness.neighbour_frequency))
        event = cls(("the event", "all else"), (seen, n - seen), (other, n - other), n, "the event")
        if witness.histogram is None:
            return {"event": event}
        return {"histogram": cls._merged(witness.histogram), "event": event}

    @classmethod
    def _merged(cls, histogram: Histogram) -> Bars:
        boundaries = np.array(histogram.boundaries)
        counts = [np.array(c, np.int64) for c in (histogram.counts, histogram.neighbour_counts)]
        while len(counts[0]) > _MIN_BUCKETS:
            buckets = len(counts[0])
            if buckets <= _MAX_BUCKETS and max(c.sum() for c in counts) >= _FEW_DRAWS * buckets:
                break
            # The last bucket may become narrower than the others.
            counts = [np.add.reduceat(c, np.arange(0, buckets, 2)) for c in counts]
            boundaries = np.append(boundaries[:-1:2], boundaries[-1])
        ticks = [boundaries[round(k * (len(boundaries) - 1) / 4)] for k in range(5)]
        first, second = (tuple(c.tolist()) for c in counts)
        return cls(_distinct(ticks), first, second, histogram.samples, histogram.what)

    @property
    def swapped(self) -> Bars:
        """The bars of the picture with the sides exchanged."""
        return Bars(self.labels, self.others, self.counts, self.samples, self.what)


def bound_at(claim: Pair, q: float) -> float:
    """Return e^epsilon q + delta, the bound in a picture where the other side has probability q."""
    return (claim.factor * q if q else 0.0) + claim.delta


def direction(bars: Bars, claim: Pair, name: str, sides: tuple[str, str]) -> Figure:
    """Draw a picture of one side's shares against the upper bound from the other side.

    Args:
        bars: the sides, the one that should be below the bound first.
        claim: gives the bound e^epsilon q + delta.
        name: of the picture, unique on the page.
        sides: what the sides are called, in few words.

    Source:
        Desfontaines 2020, section 4.2.6, figures 4.15 and 4.17.
    """
    p = np.array(bars.counts) / bars.samples
    bound = np.array([bound_at(claim, q / bars.samples) for q in bars.others])
    compared = Comparison.compare(
        np.array(bars.counts), np.array(bars.others), claim, samples=bars.samples, confidence=_CONFIDENCE
    )
    over, surely = p > bound, compared.failing
    top = (
        float(min(max(p.max(), min(bound.max(), _CUT * p.max())), 1.0)) or min(float(bound.max()), 1.0) or 1.0
    )
    named = len(bars.labels) == len(p)
    frame = _Frame(len(p), top * 1.06)
    marks = "".join(
        frame.box(i, float(bound[i]), float(p[i]), "sure" if surely[i] else "over")
        for i in np.flatnonzero(over).tolist()
    )
    marks += "".join(frame.flag(i, float(p[i])) for i in np.flatnonzero(surely).tolist())
    body = [
        frame.axes(_ticks(0.0, top), bars.labels, named, "" if named else bars.what),
        frame.steps(p.tolist(), "seen", closed=True),
        marks,
        frame.steps(p.tolist(), "outline"),
        frame.steps(bound.tolist(), "bound"),
    ]
    title = f"{bars.what}: {sides[0]}, against the bound from the {sides[1]}"
    caption = f"{_count(int(over.sum()), len(p))} above the bound, {int(surely.sum())} of them beyond "
    caption += f"the sampling error (95% intervals). {bars.samples:,} draws on each side."
    outside = 1 - min(sum(bars.counts), sum(bars.others)) / bars.samples
    if outside > 0:
        caption += f" Up to {outside:.2g} of a side's draws lie outside the picture or are no number."
    if bound.max() > top * 1.06:
        caption += " The bound is cut at the top."
    about = f"Shares of draws in buckets, with the upper bound of the claim. {caption}"
    return Figure(_svg(name, title, about, body), caption)


def wealth(trace: Sequence[Point], alpha: float, name: str) -> Figure:
    """Draw a picture of the bets' wealth over the draws, on a logarithmic scale.

    Args:
        trace: moments in order, at least one.
        alpha: the claim is rejected at a wealth of 1/alpha.
        name: of the picture, unique on the page.
    """
    kept = [*trace[:: max(1, len(trace) // _MAX_POINTS)], trace[-1]]
    needed = -math.log10(alpha)
    points = [(0, 0.0), *((p.samples, p.log10_wealth) for p in kept)]
    low, high = min(y for _, y in points), max(needed, *(y for _, y in points))
    frame = _Frame(max(points[-1][0], 1), high + 0.06 * (high - low), low)
    line = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
    draws = [f"{round(k * points[-1][0] / 4):,}" for k in range(5)]
    body = [
        frame.axes(_ticks(low, high), draws, False, "draws on each side"),
        f'<polyline class="outline" points="{line}"/>',
        f'<path class="bound" d="M{_LEFT} {frame.y(needed):.1f}H{_WIDTH - _RIGHT}"/>',
        f'<text x="{_LEFT + 4}" y="{frame.y(needed) - 5:.1f}">1/alpha = {number(1 / alpha)}: rejected</text>',
    ]
    last = points[-1]
    caption = f"log10 of the wealth. After {last[0]:,} draws a side it is {number(last[1], 3)}; "
    caption += f"the claim is rejected at {number(needed, 3)}."
    return Figure(_svg(name, "Evidence over draws", caption, body), caption)


class _Frame:
    """The frame of a picture: `columns` units from left to right, values from `low` up to `high`."""

    def __init__(self, columns: int, high: float, low: float = 0.0) -> None:
        self.columns, self.low, self.high = columns, low, high

    def x(self, place: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * place / self.columns

    def y(self, value: float) -> float:
        share = (min(value, self.high) - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * share

    def steps(self, values: Sequence[float], kind: str, *, closed: bool = False) -> str:
        way = "".join(f"V{self.y(v):.1f}H{self.x(i + 1):.1f}" for i, v in enumerate(values))
        start = f"M{_LEFT} {self.y(0.0 if closed else values[0]):.1f}"
        return f'<path class="{kind}" d="{start}{way}{f"V{self.y(0.0):.1f}Z" if closed else ""}"/>'

    def box(self, place: int, low: float, high: float, kind: str) -> str:
        left, top = self.x(place), self.y(high)
        return (
            f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{self.x(place + 1) - left:.1f}" '
            f'height="{self.y(low) - top:.1f}"/>'
        )

    def flag(self, place: int, value: float) -> str:
        middle, top = self.x(place + 0.5), self.y(value) - 4
        return f'<path class="flag" d="M{middle:.1f} {top:.1f}l-4 -8h8z"/>'

    def axes(self, ticks: Iterable[float], labels: Sequence[str], between: bool, what: str) -> str:
        parts = []
        for tick in ticks:
            y = self.y(tick)
            parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(tick, 3)}</text>')
        room = (_WIDTH - _LEFT - _RIGHT) / (len(labels) if between else len(labels) - 1)
        for k, label in enumerate(labels):
            x = _LEFT + room * (k + 0.5 * between)
            # Words at the ends stay inside the picture.
            anchor = "middle" if between or 0 < k < len(labels) - 1 else "end" if k else "start"
            text = f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="{anchor}">'
            parts.append(f"{text}{escape_html(label)}</text>")
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        shortened = what if len(what) <= 60 else f"{what[:57]}..."
        parts.append(
            f'<text x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">{escape_html(shortened)}</text>'
        )
        return "".join(parts)


def _svg(name: str, title: str, about: str, body: Iterable[str]) -> str:
    named = f'role="img" aria-labelledby="{name}-title {name}-about"'
    head = f'<title id="{name}-title">{escape_html(title)}</title>'
    head += f'<desc id="{name}-about">{escape_html(about)}</desc>'
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" {named}>{head}{"".join(body)}</svg>'


def _ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers for the axis of a picture."""
    width = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(width))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= width)
    first = math.ceil(low / step)
    return [k * step for k in range(first, math.floor(high / step) + 1)]


def _distinct(values: Sequence[float]) -> tuple[str, ...]:
    """Return the labels of a picture's numbers, with as many digits as tell them apart."""
    for digits in range(3, 18):
        found = tuple(f"{v:.{digits}g}" for v in values)
        if len(set(found)) == len(set(values)):
            break
    return found


def _count(some: int, of: int) -> str:
    return f"{some} of {of} buckets {'is' if some == 1 else 'are'}"


@cache
def style() -> str:
    """Return the style sheet of report pages and pictures."""
    return Path(__file__).with_name("report_page.css").read_text(encoding="utf-8")
