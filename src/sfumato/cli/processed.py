"""The command's answer where SQL computes with the released table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from sfumato.cli import table
from sfumato.cli.largest import print_largest, widths_of
from sfumato.errors import EngineError, QueryError, SqlError
from sfumato.query.processed import ProcessedRelease
from sfumato.query.top_release import TopRelease

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.query.release import Release


def is_processed(release: Release | TopRelease) -> bool:
    """Whether something is computed with it, which may fail where a table that is streamed would be lost."""
    return isinstance(release, ProcessedRelease)


def drawable(release: Release | TopRelease) -> tuple[Release | TopRelease, str]:
    """Return what a picture is drawn of, and what it says of that beside the rest.

    Of groups and totals that SQL has computed with, as it always has where they are of ROLLUP, it is what was
    released.
    """
    if isinstance(release, ProcessedRelease) and len(release.releases) == 1:
        (one,) = release.releases
        if one.plan.query.totals is not None:
            return one, "Groups and totals as they were released, before the SQL computes with them."
    return release, ""


def check_processed(release: Release | TopRelease, plot: bool, errors: bool) -> None:
    """Refuse what has no meaning for a table that was computed with a released one; before anything is drawn.

    Raises:
        QueryError: a chart, or error bars that are not known.
    """
    if not isinstance(release, ProcessedRelease):
        return
    if plot and drawable(release)[0] is release:
        raise QueryError(
            "--plot draws groups with their aggregates as they are released; leave out what is computed with "
            "them, or write --output and draw that"
        )
    if errors and not release.followed:
        raise QueryError(
            "--errors: what is computed around the private SELECT has no error bars of its own; write "
            "DP_INTERVAL_LOW(name) and DP_INTERVAL_HIGH(name) in the SQL"
        )


def answers(
    release: Release | TopRelease, console: Console, confidence: float, simultaneous: bool, show: int
) -> tuple[pa.Table, pa.Table | None]:
    """Return the numbers and half-widths of their error bars, where there are any.

    Where computing with noisy numbers fails, or a later release, the noisy tables are printed: they are paid
    for.

    Raises:
        SqlError, EngineError: computing failed, or a release.
    """
    if isinstance(release, TopRelease):
        return release.to_arrow(), widths_of(release, confidence, simultaneous)
    if not isinstance(release, ProcessedRelease):
        widths = release.errors(confidence, simultaneous=simultaneous)
        return release.to_arrow(), widths
    try:
        return release.to_arrow(), (
            release.errors(confidence, simultaneous=simultaneous) if release.followed else None
        )
    except (SqlError, EngineError):
        for noisy in (one for one in release.releases if one.drawn):
            bars = noisy.errors(confidence, simultaneous=simultaneous)
            table.print_table(console, noisy, noisy.to_arrow(), bars, confidence, simultaneous, show)
        raise


def print_any(
    console: Console,
    release: Release | TopRelease,
    numbers: pa.Table,
    widths: pa.Table | None,
    confidence: float,
    simultaneous: bool,
    show: int,
) -> None:
    """Print a release, as `print_table` does, or what was computed with one; or the largest groups."""
    if isinstance(release, TopRelease):
        print_largest(console, release, numbers, widths, confidence, simultaneous, show)
        return
    if not isinstance(release, ProcessedRelease):
        assert widths is not None
        table.print_table(console, release, numbers, widths, confidence, simultaneous, show)
        return
    table.print_computed(console, numbers, widths, release.measured, show)
    if len(release.releases) > 1:
        console.print(table.caption_of_many(release.releases, release.spent))
        return
    groups = release.releases[0].to_arrow().num_rows
    console.print(table.caption(release, groups, confidence, simultaneous, bars=widths is not None))
