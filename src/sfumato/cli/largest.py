"""The largest groups on the terminal: ranks, groups and their numbers, and what these cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from sfumato.cli.table import facts, print_computed
from sfumato.errors import QueryError
from sfumato.query.cards.released import top_facts
from sfumato.query.top.release import TopRelease

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.query.bars import Bars
    from sfumato.query.released.noisy_table import NoisyTable


def check_largest(release: NoisyTable, plot: bool, errors: bool, preview: bool) -> None:
    """Refuse what has no meaning for the largest groups; before anything is drawn.

    Raises:
        QueryError: a preview; or a chart or error bars of numbers that are left out.
    """
    largest = [one for one in getattr(release, "releases", (release,)) if isinstance(one, TopRelease)]
    if preview and largest:
        raise QueryError(
            "--preview: which groups are the largest is not known before; --dry-run says the noise"
        )
    if (plot or errors) and not all(one.measured for one in largest):
        given = "--plot" if plot else "--errors"
        raise QueryError(f"{given}: counts => FALSE leaves out the numbers that it is of")


def widths_of(release: TopRelease, bars: Bars) -> pa.Table | None:
    """Return half-widths of error bars; None where numbers are left out."""
    if not release.measured:
        return None
    return bars._widths(release)


def print_largest(
    console: Console,
    release: TopRelease,
    numbers: pa.Table,
    widths: pa.Table | None,
    bars: Bars,
    show: int,
) -> None:
    """Print the groups in the order in which they were drawn, then what they mean.

    Args:
        console: where to.
        release: for what is said below the table.
        numbers, widths: `release.to_arrow()`, and half-widths of error bars, if there are any.
        bars: the error bars that these are.
        show: the most groups to print.
    """
    print_computed(console, numbers, widths, [release.question.measured], show)
    console.print(caption_of_largest(release, numbers.num_rows, None if widths is None else bars))


def caption_of_largest(release: TopRelease, groups: int, bars: Bars | None) -> Table:
    """Say what the largest groups cost, how they were drawn, and what their error bars mean.

    Args:
        release: of the largest groups.
        groups: how many of them there are.
        bars: the error bars; None without any.
    """
    notes = [("note", note) for note in release.explain().notes]
    return facts([*top_facts(release, groups, bars), *notes])
