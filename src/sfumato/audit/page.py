"""A report as one HTML page: no script, no network, nothing beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sfumato import __version__
from sfumato.audit.claims import Pair
from sfumato.audit.drawing import Bars, Figure, direction, escaped, number, upper_bound, wealth
from sfumato.audit.evidence import Witness
from sfumato.audit.literals import shown
from sfumato.audit.style import STYLE
from sfumato.audit.text import excess, lower_bound, sight

if TYPE_CHECKING:
    from sfumato.audit.report import Report

_LONGEST_DATASET = 600
# A longer table of pairs has a scroll bar, but on paper.
_LONG_TABLE = 20

_LEGEND = "".join(
    f'<span><svg viewBox="0 0 26 12" aria-hidden="true">{mark}</svg>{words}</span>'
    for mark, words in (
        ('<rect class="seen" width="26" height="12"/>', "share of draws"),
        ('<path class="bound" d="M0 6H26"/>', "upper bound from the other side, e^epsilon q + delta"),
        ('<rect class="over" width="26" height="12"/>', "above the bound"),
        (
            '<rect class="sure" width="26" height="12"/>',
            "above it beyond the sampling error, under a triangle",
        ),
    )
)


def page(report: Report) -> str:
    """Return a report as an HTML page.

    Args:
        report: of an audit, by whichever method.

    >>> from sfumato.audit import audit
    >>> found = audit(lambda dataset: len(dataset), epsilon=1, pairs=[([1.0], [])])
    >>> page(found)[:15], "VIOLATED" in page(found)
    ('<!doctype html>', True)

    Source:
        Desfontaines 2020, section 4.2.6, for the pictures.
    """
    told = report.witness or report.closest
    parts = [
        _header(report),
        _facts(report),
        *([_event(report, told)] if told else []),
        *([_sides(told)] if told else []),
        _evidence(report),
        _pairs(report, told),
        _notes(report.notes),
        _settings(report),
    ]
    title = f"{'Violated' if report.violated else 'Nothing found'}: {report.mechanism}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(filter(None, parts))
        + f"\n<footer><p>sfumato {escaped(__version__)}</p></footer>\n</main>\n</body>\n</html>\n"
    )


def _header(report: Report) -> str:
    name, claim = f"<code>{escaped(report.mechanism)}</code>", escaped(report.claim)
    if report.violated:
        verdict, title = "VIOLATED", f"{name} breaks its claim, {claim}"
        words = (
            "The histogram method has no exact rate of false alarms."
            if math.isnan(report.alpha)
            else "A mechanism that keeps this claim is called violated with probability at most "
            f"{number(report.alpha)}, over the whole audit and whenever it stops."
        )
    else:
        verdict, title = "NOTHING FOUND", f"Nothing found against {name} with {claim}"
        words = (
            "That is no proof of privacy: what was not looked at, or is too rare to be drawn, may be wrong."
        )
    kind = ' class="violated"' if report.violated else ""
    return f'<header{kind}><p class="verdict">{verdict}</p><h1>{title}</h1><p>{words}</p></header>'


def _facts(report: Report) -> str:
    rows = [
        ("Claim", escaped(report.claim)),
        (
            "True epsilon",
            escaped(lower_bound(report)),
        ),
    ]
    if report.excluded is not None:
        if report.excluded.excess < 1:
            rows.append(("Excluded", escaped(excess(report))))
        rows.append(("In sight", escaped(sight(report.excluded.visible_epsilon))))
    rows += [
        ("Draws", f"{report.samples:,} on each side, over all pairs of datasets"),
        ("Time", f"{number(report.seconds, 3)} s"),
    ]
    return f"<h2>Result</h2>\n{_table(rows)}"


def _event(report: Report, witness: Witness) -> str:
    permitted = upper_bound(Pair(witness.epsilon, witness.delta), witness.neighbour_frequency)
    code = [f"<code>{escaped(shown(d, _LONGEST_DATASET))}</code>" for d in _datasets(witness)]
    title = "What breaks it" if report.violated else "The pair that was looked at most"
    kind = "The event" if report.violated else "The event with the most evidence, too little to reject"
    numbers = [
        ("More often on" if report.violated else "On", code[0], number(witness.frequency)),
        ("Than on" if report.violated else "And on", code[1], number(witness.neighbour_frequency)),
    ]
    body = "".join(
        f'<tr><th scope="row">{label}</th><td>{where}</td><td class="number">{share}</td></tr>'
        for label, where, share in numbers
    )
    head = '<th scope="col">Side</th><th scope="col">Dataset</th><th scope="col" class="number">Share</th>'
    return (
        f"<h2>{title}</h2>\n<p>{kind}: <code>{escaped(witness.event)}</code></p>\n"
        f"<table><caption>Share of {witness.samples:,} draws on each side that are in the event. The pair: "
        f"{escaped(witness.edge)}.</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>\n"
        f"<p>With epsilon = {number(witness.epsilon)} and delta = {number(witness.delta)}, the claim permits "
        f"the first share up to {number(min(permitted, 1.0))}, sampling error aside. The shares by "
        f"themselves say epsilon = {number(witness.observed_epsilon)}.</p>\n"
        f"<p>To audit this pair again, after <code>from sfumato.audit import *</code>:</p>\n"
        f'<pre class="replay"><code>{escaped(witness.replay)}</code></pre>'
    )


def _sides(witness: Witness) -> str:
    claim = Pair(witness.epsilon, witness.delta)
    figures = []
    for kind, bars in Bars.of(witness).items():
        what = escaped(bars.what)
        figures += [
            _figure(
                direction(bars, claim, f"{kind}-direct", ("first dataset", "second")),
                f"{what}: first dataset, bound from the second",
            ),
            _figure(
                direction(bars.swapped, claim, f"{kind}-swapped", ("second dataset", "first")),
                f"{what}: second dataset, bound from the first",
            ),
        ]
    return (
        "<h2>Both sides</h2>\n<p>Shares of draws in buckets. The claim holds in a bucket if the share is not "
        f'above the bound; it must hold in both directions.</p>\n<p class="legend">{_LEGEND}</p>\n'
        f'<div class="figures">{"".join(figures)}</div>'
    )


def _evidence(report: Report) -> str:
    if not report.trace or math.isnan(report.alpha):
        return ""
    words = (
        "Bets against the claim, with a wealth of 1 to begin with. While the claim holds, wealth does not "
        "grow on average, and reaches 1/alpha with probability at most alpha."
    )
    return f"<h2>Evidence</h2>\n<p>{words}</p>\n{_figure(wealth(report.trace, report.alpha, 'wealth'), '')}"


def _pairs(report: Report, told: Witness | None) -> str:
    rows = []
    for name, samples in report.edges:
        mark = " (shown above)" if told is not None and name == told.edge else ""
        rows.append(f'<tr><td>{escaped(name)}{mark}</td><td class="number">{samples:,}</td></tr>')
    head = '<th scope="col">Pair</th><th scope="col" class="number">Draws a side</th>'
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    if len(rows) > _LONG_TABLE:
        table = f'<div class="long" role="region" aria-label="Pairs of datasets" tabindex="0">{table}</div>'
    return f"<h2>Pairs of datasets</h2>\n<p>{len(rows):,} in all.</p>\n{table}"


def _notes(notes: Sequence[str]) -> str:
    listed = "".join(f"<li>{escaped(note)}</li>" for note in notes)
    return f"<h2>Notes</h2>\n<ul>{listed}</ul>" if listed else ""


def _settings(report: Report) -> str:
    rows = [
        ("method", escaped(report.method)),
        ("alpha", _or_none(report.alpha)),
        ("confidence", _or_none(report.confidence)),
        *((escaped(name), escaped(value)) for name, value in report.settings),
    ]
    return f"<h2>Settings</h2>\n{_table(rows)}"


def _or_none(value: float) -> str:
    return "none" if math.isnan(value) else number(value)


def _table(rows: Iterable[tuple[str, str]]) -> str:
    body = "".join(f'<tr><th scope="row">{name}</th><td>{value}</td></tr>' for name, value in rows)
    return f"<table><tbody>{body}</tbody></table>"


def _figure(figure: Figure, title: str) -> str:
    head = f"<h3>{title}</h3>" if title else ""
    return f"<figure>{head}{figure.svg}<figcaption>{escaped(figure.caption)}</figcaption></figure>"


def _datasets(witness: Witness) -> tuple[object, object]:
    return witness.dataset, witness.neighbour
