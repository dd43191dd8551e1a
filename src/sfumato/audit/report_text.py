"""The text of an audit report, for a terminal or a failed test."""

from __future__ import annotations

import math
import textwrap
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import TYPE_CHECKING

from sfumato.audit.python_code import shown
from sfumato.display.formatting import rounded_bound, visible

if TYPE_CHECKING:
    from sfumato.audit.report import Report


_WIDTH = 100
_LABEL = 11


def text(report: Report) -> str:
    """Return the report as a text of a few lines, for a terminal or a failed test."""
    lines = [visible(_violated(report) if report.violated else _passed(report))]
    witness, excluded = report.witness, report.excluded
    if witness is not None:
        shares = f"{witness.frequency:.4g} and {witness.neighbour_frequency:.4g}"
        ratio = _ratio(witness.observed_epsilon, witness.delta)
        lines += [
            _line("more often", f"on {shown(witness.dataset, 300)}"),
            _line("than", f"on {shown(witness.neighbour, 300)}"),
            _line("event", witness.event),
            _line("shares", f"{shares} of {witness.samples:,} draws each{ratio}"),
        ]
    lines.append(_line("epsilon", lower_bound(report)))
    if excluded is not None:
        if excluded.excess < 1:  # else it says nothing
            lines.append(_line("excluded", excess(report)))
        lines.append(_line("detectable", sight(excluded.visible_epsilon)))
    looked = sum(1 for _, samples in report.edges if samples)
    pairs = "1 pair" if looked == 1 else f"{looked} pairs"
    lines.append(
        _line("spent", f"{report.samples:,} draws a side on {pairs} of datasets, {report.seconds:.2g} s")
    )
    lines += [_line("note", note) for note in report.notes]
    if witness is not None:
        lines.append(_line("replay", witness.replay, wrap=False))
    return "\n".join(lines)


def _violated(report: Report) -> str:
    alarms = "no exact rate" if math.isnan(report.alpha) else f"at most {report.alpha:g}"
    return (
        f"VIOLATED: {report.mechanism} breaks its claim, {report.claim} "
        f"(false alarms over the whole audit: {alarms})"
    )


def _passed(report: Report) -> str:
    return f"nothing found against {report.mechanism} with {report.claim} (this is not a proof)"


def _ratio(observed: float, delta: float) -> str:
    if observed == math.inf:
        return ": never on the other side"
    return f": epsilon {observed:.3g} by themselves" + (f" at delta = {delta:g}" if delta else "")


def lower_bound(report: Report) -> str:
    """Return the text of a report's lower bound on the true epsilon."""
    at = "" if report.delta == 0 else f" at delta = {report.delta:.4g}"
    return f"at least {rounded_bound(report.epsilon_lower, ROUND_FLOOR)}{at}, {_certainty(report)}"


def _certainty(report: Report) -> str:
    if math.isnan(report.confidence):
        return "by approximate intervals for one pair of datasets at a time"
    return f"with {report.confidence:.4g} confidence"


def excess(report: Report) -> str:
    """Return the text of what a report without violation excludes."""
    assert report.excluded is not None
    bound = rounded_bound(report.excluded.excess, ROUND_CEILING)
    return (
        f"chances that break the claim by more than {bound}, P(A) - e^epsilon Q(A) - delta, for all A of "
        f"the form 'at most x' or 'at least x' of each number that was read, on all pairs of datasets that "
        f"were looked at, {_certainty(report)}"
    )


def sight(visible: float) -> str:
    """Return the text of which epsilon an audit could have found."""
    if visible == math.inf:
        return "nothing: too few draws for any epsilon"
    return f"epsilon above {visible:.3g}: with so many draws, smaller violations would not be found"


def _line(label: str, words: str, *, wrap: bool = True) -> str:
    first, words = f"  {label:<{_LABEL}}", visible(words)
    if not wrap:
        return first + words
    return textwrap.fill(
        words, _WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
    )
