"""Datasets as Python code, and a report in words."""

from __future__ import annotations

import math
import textwrap
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sfumato.audit.report import Report


def literal(value: Any) -> str:
    """Return one line of Python that makes the value, as far as there is one.

    Args:
        value: a list, tuple, mapping, NumPy array, or a table of Arrow, pandas or Polars, with plain values.

    >>> literal([0.5, float("nan")])
    "[0.5, float('nan')]"
    >>> import pyarrow as pa
    >>> literal(pa.table({"unit": [1, 2], "x": [0.5, None]}))
    "pyarrow.table({'unit': [1, 2], 'x': [0.5, None]})"
    """
    if isinstance(value, np.generic) and not isinstance(value.item(), np.generic):
        return literal(value.item())
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if type(value) is list:
        return f"[{_joined(value)}]"
    if type(value) is tuple:
        return f"({_joined(value)}{',' if len(value) == 1 else ''})"
    if type(value) is dict:
        return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in value.items())}}}"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"numpy.array({literal(value.tolist())}, dtype={value.dtype.str!r})"
    module = type(value).__module__.partition(".")[0]
    if module == "pyarrow" and hasattr(value, "to_pydict"):
        return f"pyarrow.table({literal(value.to_pydict())})"
    if module == "pyarrow" and hasattr(value, "to_pylist"):
        return f"pyarrow.array({literal(value.to_pylist())})"
    if module == "pandas" and hasattr(value, "columns"):
        return f"pandas.DataFrame({literal(value.to_dict('list'))})"
    if module == "polars" and hasattr(value, "columns"):
        return f"polars.DataFrame({literal(value.to_dict(as_series=False))})"
    return " ".join(repr(value).split())


def shown(value: Any, limit: int = 200) -> str:
    """Return a value as code, cut to a length; one that contains itself as Python's own text of it."""
    try:
        code = literal(value)
    except RecursionError:
        code = repr(value)
    return cut(code, limit)


def cut(text: str, limit: int = 200) -> str:
    """Return a text cut to a length."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def visible(text: str) -> str:
    """Return a text with what cannot be seen as escapes: a terminal obeys some of that.

    >>> visible("a" + chr(0))
    'a\\\\x00'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def digits(bound: float, rounding: str, count: int = 4) -> str:
    """Write a bound with so many digits, rounded as the `decimal` module calls it, so that it still holds.

    >>> digits(0.12341, "ROUND_CEILING"), digits(1.35, "ROUND_FLOOR")
    ('0.1235', '1.35')
    """
    if not math.isfinite(bound):
        return str(bound)
    written = Decimal(repr(float(bound)))
    context = Context(prec=40, traps=[])  # the active one belongs to the caller
    last = Decimal(1).scaleb(written.adjusted() - count + 1, context)
    return f"{float(written.quantize(last, rounding, context)):.{count}g}"


def _joined(values: Any) -> str:
    return ", ".join(map(literal, values))


_WIDTH = 100
_LABEL = 11


def text(report: Report) -> str:
    """Return the report as a few lines for a terminal, which obeys nothing in them, or a failed test."""
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
    return f"nothing found against {report.mechanism} with {report.claim}; that is no proof"


def _ratio(observed: float, delta: float) -> str:
    if observed == math.inf:
        return ": never on the other side"
    return f": epsilon {observed:.3g} by themselves" + (f" at delta = {delta:g}" if delta else "")


def lower_bound(report: Report) -> str:
    """Say what the true epsilon is at least."""
    at = "" if report.delta == 0 else f" at delta = {report.delta:.4g}"
    return f"at least {digits(report.epsilon_lower, ROUND_FLOOR)}{at}, {_certainty(report)}"


def _certainty(report: Report) -> str:
    if math.isnan(report.confidence):
        return "by approximate intervals for one pair of datasets at a time"
    return f"with {report.confidence:.4g} confidence"


def excess(report: Report) -> str:
    """Say what a pass excludes."""
    assert report.excluded is not None
    bound = digits(report.excluded.excess, ROUND_CEILING)
    return (
        f"chances that break the claim by more than {bound}, P(A) - e^epsilon Q(A) - delta, for all A of "
        f"the form 'at most x' or 'at least x' of each number that was read, on all pairs of datasets that "
        f"were looked at, {_certainty(report)}"
    )


def sight(visible: float) -> str:
    """Say what could have been found."""
    if visible == math.inf:
        return "nothing: too few draws for any epsilon"
    return f"epsilon above {visible:.3g}: with so many draws, less could not be expected to be found"


def _line(label: str, words: str, *, wrap: bool = True) -> str:
    first, words = f"  {label:<{_LABEL}}", visible(words)
    if not wrap:
        return first + words
    return textwrap.fill(
        words, _WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
    )
