"""The largest groups on the terminal: ranks, groups and their numbers, and what these cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sfumato.cli.table import print_computed
from sfumato.cli.terminal import visible
from sfumato.errors import QueryError
from sfumato.query.top_release import TopRelease

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.query.release import Release


def check_largest(release: Release | TopRelease, plot: bool, errors: bool, preview: bool) -> None:
    """Refuse what has no meaning for the largest groups; before anything is drawn.

    Raises:
        QueryError: a preview; or a chart or error bars of numbers that are left out.
    """
    if not isinstance(release, TopRelease):
        return
    if preview:
        raise QueryError(
            "--preview: which groups are the largest is not known before; --dry-run says the noise"
        )
    if (plot or errors) and release.plan.law is None:
        given = "--plot" if plot else "--errors"
        raise QueryError(f"{given}: counts => FALSE leaves out the numbers that it is of")


def widths_of(release: TopRelease, confidence: float, simultaneous: bool) -> pa.Table | None:
    """Return half-widths of error bars; None where numbers are left out."""
    if release.plan.law is None:
        return None
    return release.errors(confidence, simultaneous=simultaneous)


def print_largest(
    console: Console,
    release: TopRelease,
    numbers: pa.Table,
    widths: pa.Table | None,
    confidence: float,
    simultaneous: bool,
    show: int,
) -> None:
    """Print the groups in the order in which they were drawn, then what they mean.

    Args:
        console: where to.
        release: for what is said below the table.
        numbers, widths: `release.to_arrow()`, and half-widths of error bars, if there are any.
        confidence, simultaneous: of these.
        show: the most groups to print.
    """
    plan, question = release.plan, release.question
    print_computed(console, numbers, widths, [question.measured], show)
    epsilon, delta = release.spent
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="cyan", no_wrap=True)
    lines.add_column()
    unit = visible(question.unit)
    lines.add_row(
        "spent", f"epsilon {epsilon:g}, delta {delta:g}, for each {unit} (the privacy unit) with all its rows"
    )
    shown = f"{numbers.num_rows:,} of the {plan.k:,} asked for, by {question.measured}, in the order drawn"
    lines.add_row("groups", f"{shown}; they are {'public' if plan.candidates is None else 'private'}")
    if plan.law is not None:
        which = "for all numbers at once" if simultaneous else "for each number by itself"
        kind = type(plan.law).__name__
        lines.add_row("noise", f"{kind}, exactly rounded, drawn once for these groups")
        lines.add_row("±", f"{confidence * 100:g}% error bar, {which}: what the noise may have changed.")
    for note in release.explain().notes:
        lines.add_row("note", Text(visible(note)))
    console.print(lines)
