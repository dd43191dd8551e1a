"""What limits and bounds changed, on the terminal, under the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from sfumato.cli.progress import Watch
from sfumato.display.text import visible

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.query.released.noisy_table import NoisyTable


def print_diagnostics(console: Console, release: NoisyTable, confidence: float) -> None:
    """Print a line for each limit and bound of a release that was asked for diagnostics.

    Args:
        console: where to.
        release: its table is printed; of several private SELECTs each has its own.
        confidence: of the error bars.
    """
    parts: Any = getattr(release, "releases", (release,))
    for i, one in enumerate(parts, 1):
        told = getattr(one, "diagnostics", None)  # the largest groups have none
        if told is None:
            continue
        with Watch("Looking at limits and bounds"):
            sentences = told.sentences(confidence)
        lines = Table.grid(padding=(0, 2))
        lines.add_column(style="cyan", no_wrap=True)
        lines.add_column()
        for sentence in sentences:
            lines.add_row("limits" if len(parts) == 1 else f"limits {i}", Text(visible(sentence)))
        console.print(lines)
