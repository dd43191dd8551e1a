"""The command's answer where SQL computes with the released table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from sfumato.cli import table
from sfumato.cli.largest import caption_of_largest, print_largest, widths_of
from sfumato.errors import EngineError, QueryError, SqlError
from sfumato.query.cards.released import largest_told
from sfumato.query.processed import ProcessedRelease
from sfumato.query.released.release import Release
from sfumato.query.top.release import TopRelease

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.query.bars import Bars
    from sfumato.query.released.noisy_table import NoisyTable


def is_processed(release: NoisyTable) -> bool:
    """Whether something is computed with it, which may fail where a table that is streamed would be lost."""
    return isinstance(release, ProcessedRelease)


def check_processed(release: NoisyTable, plot: bool, errors: bool) -> None:
    """Refuse what has no meaning for a table that was computed with a released one; before anything is drawn.

    Raises:
        QueryError: a chart, or error bars that are not known.
    """
    if not isinstance(release, ProcessedRelease):
        return
    if plot and not release._drawable:
        raise QueryError(
            "--plot draws groups with their aggregates as they are released; leave out what is computed with "
            "them, or write --output and draw that"
        )
    if errors and not release._followed:
        raise QueryError(
            "--errors: what is computed around the private SELECT has no error bars of its own; write "
            "DP_INTERVAL_LOW(name) and DP_INTERVAL_HIGH(name) in the SQL"
        )


def answers(release: NoisyTable, console: Console, bars: Bars, show: int) -> tuple[pa.Table, pa.Table | None]:
    """Return the numbers and half-widths of their error bars, where there are any.

    Where computing with noisy numbers fails, or a later release, the noisy tables are printed: they are paid
    for.

    Raises:
        SqlError, EngineError: computing failed, or a release.
    """
    if not isinstance(release, ProcessedRelease):
        return release.to_arrow(), _widths(release, bars)
    try:
        return release.to_arrow(), _widths(release, bars)
    except (SqlError, EngineError):
        for noisy in (one for one in release.releases if one.drawn):
            print_any(console, noisy, noisy.to_arrow(), _widths(noisy, bars), bars, show)
        raise


def _widths(release: NoisyTable, bars: Bars) -> pa.Table | None:
    """Return half-widths of error bars, where there are any."""
    if isinstance(release, TopRelease):
        return widths_of(release, bars)
    if isinstance(release, ProcessedRelease) and not (release._followed and release.measured):
        return None
    return bars._widths(release)


def print_any(
    console: Console,
    release: NoisyTable,
    numbers: pa.Table,
    widths: pa.Table | None,
    bars: Bars,
    show: int,
) -> None:
    """Print a release, as `print_table` does, or what was computed with one; or the largest groups."""
    if isinstance(release, TopRelease):
        print_largest(console, release, numbers, widths, bars, show)
        return
    if isinstance(release, Release):
        assert widths is not None
        table.print_table(console, release, numbers, widths, bars, show)
        return
    assert isinstance(release, ProcessedRelease)
    table.print_computed(console, numbers, widths, release.measured, show)
    if len(release.releases) > 1:
        console.print(table.caption_of_many(release, _told))
        return
    (one,) = release.releases
    groups = one.to_arrow().num_rows
    if isinstance(one, TopRelease):
        console.print(caption_of_largest(one, groups, None if widths is None else bars))
        return
    console.print(table.caption(one, groups, None if widths is None else bars))


def _told(release: Release | TopRelease) -> list[str]:
    """Say in a few words with what noise a release was drawn, and of which groups."""
    if isinstance(release, Release):
        return table.noise_and_groups(release)
    noise = [f"{type(law).__name__} noise" for law in release.plan.laws.values()]
    return [*noise, f"groups: {largest_told(release, release.to_arrow().num_rows)}"]
