"""An audit report as one HTML page, from the template report_page.html: no script, no network, no files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from sfumato import __version__
from sfumato.audit.claims import Pair
from sfumato.audit.python_code import shown
from sfumato.audit.report_pictures import Bars, bound_at, direction, number, style, wealth
from sfumato.audit.report_text import excess, lower_bound, sight
from sfumato.display.cards import escaped

if TYPE_CHECKING:
    from sfumato.audit.report import Report, Witness

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


def _filled(section: str, **values: str) -> Html:
    """Fill in a section of the report page's template; values that are no `Html` are escaped."""
    safe = {name: value if isinstance(value, Html) else escaped(value) for name, value in values.items()}
    return Html(_sections()[section].substitute(safe))


def _joined(parts: Iterable[Html]) -> Html:
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
        parts += [_event(report, witness), _sides(witness)]
    parts += [_evidence(report), _pairs(report, witness), _notes(report), _settings(report)]
    title = f"{'Violated' if report.violated else 'Nothing found'}: {report.mechanism}"
    return _filled("page", title=title, style=Html(style()), body=_joined(parts), version=__version__)


def _verdict(report: Report) -> Html:
    if not report.violated:
        return _filled("passed", mechanism=report.mechanism, claim=report.claim)
    alarms = "The histogram method has no exact rate of false alarms."
    if not math.isnan(report.alpha):
        alarms = (
            "A mechanism that keeps this claim is called violated with probability at most "
            f"{number(report.alpha)}, over the whole audit and whenever it stops."
        )
    return _filled("violated", mechanism=report.mechanism, claim=report.claim, alarms=alarms)


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
            "The pair that was looked at most",
            "The event with the most evidence, too little to reject",
            "On",
            "And on",
        )
    )
    permitted = bound_at(Pair(witness.epsilon, witness.delta), witness.neighbour_frequency)
    return _filled(
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


def _sides(witness: Witness) -> Html:
    claim = Pair(witness.epsilon, witness.delta)
    figures = []
    for kind, bars in Bars.from_witness(witness).items():
        for name, shares, one, other in (
            ("direct", bars, "first", "second"),
            ("swapped", bars.swapped, "second", "first"),
        ):
            figure = direction(shares, claim, f"{kind}-{name}", (f"{one} dataset", other))
            title = f"{bars.what}: {one} dataset, bound from the {other}"
            figures.append(_filled("side", title=title, picture=Html(figure.svg), caption=figure.caption))
    return _filled("sides", figures=_joined(figures))


def _evidence(report: Report) -> Html:
    if not report.trace or math.isnan(report.alpha):
        return Html()
    figure = wealth(report.trace, report.alpha, "wealth")
    return _filled("evidence", picture=Html(figure.svg), caption=figure.caption)


def _pairs(report: Report, witness: Witness | None) -> Html:
    rows = [
        _filled(
            "pair",
            name=f"{name} (shown above)" if witness is not None and name == witness.edge else name,
            samples=f"{samples:,}",
        )
        for name, samples in report.edges
    ]
    scroll = Html(_SCROLL if len(rows) > _LONG_TABLE else "")
    return _filled("pairs", count=f"{len(rows):,}", rows=_joined(rows), scroll=scroll)


def _notes(report: Report) -> Html:
    items = [_filled("note", note=note) for note in report.notes]
    return _filled("notes", items=_joined(items)) if items else Html()


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
    return _filled("table", title=title, rows=_joined(_filled("row", name=n, value=v) for n, v in rows))
