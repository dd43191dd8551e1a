"""How far an audit is, on standard error: only where somebody looks, and only when it takes a while."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sfumato.cli.terminal import error_console
from sfumato.display.progress import PATIENCE
from sfumato.display.text import visible

if TYPE_CHECKING:
    from sfumato.audit import Progress


class Meter:
    """Shows an audit's progress within a `with` block; call it with each `Progress`.

    Args:
        bets: whether there is wealth to show.
        console: where to; nothing is shown where it is no terminal.
    """

    def __init__(self, bets: bool, console: Console | None = None) -> None:
        self._bets = bets
        self._console = console or error_console()
        self._live = Live(console=self._console, transient=True, auto_refresh=False)
        self._shown_at = 0.0

    def __enter__(self) -> Meter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Show it, ten times a second at most."""
        if not self._console.is_terminal or progress.seconds < max(PATIENCE, self._shown_at + 0.1):
            return
        self._shown_at = progress.seconds
        self._live.start()
        self._live.update(self._lines(progress), refresh=True)

    def _lines(self, progress: Progress) -> RenderableType:
        lines = Table.grid(padding=(0, 2))
        lines.add_column()
        lines.add_column(width=24)
        lines.add_column(no_wrap=True, overflow="ellipsis")
        drawn = progress.samples / progress.max_samples, progress.seconds / progress.max_seconds
        spent = f"{progress.samples:,} of {progress.max_samples:,}, {progress.seconds:.0f} of "
        lines.add_row("draws", _bar(max(drawn)), Text(f"{spent}{progress.max_seconds:g} s"))
        if self._bets:
            share = progress.log10_wealth / progress.log10_needed
            evidence = f"10^{round(progress.log10_wealth, 1) + 0.0} of 10^{progress.log10_needed:.1f}"
            lines.add_row("wealth", _bar(share), Text(evidence))
        told = Table.grid(padding=(0, 2))
        told.add_column(width=6)
        told.add_column(no_wrap=True, overflow="ellipsis")
        told.add_row("pair", Text(visible(progress.edge)))
        both = Table.grid()
        both.add_row(lines)
        both.add_row(told)
        return both


def _bar(share: float) -> ProgressBar:
    return ProgressBar(total=1.0, completed=min(max(share, 0.0), 1.0), width=24)
