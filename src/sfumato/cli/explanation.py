"""An explanation on the terminal: the steps, and every noisy number with its price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sfumato.display.text import visible
from sfumato.query.bars import REMEDY
from sfumato.query.top.explanation import TopExplanation

if TYPE_CHECKING:
    from sfumato.query.explanation import Explanation


def print_explanation(console: Console, explanation: Explanation | TopExplanation) -> None:
    """Print each step in order, then the noisy numbers with bounds, noise and share of the budget."""
    if isinstance(explanation, TopExplanation):
        console.print(Text("How the answer is made", style="bold"))
        console.print(_numbered(explanation.steps, 1))
        for note in explanation.notes:
            console.print(Text(f"Note: {visible(note)}"))
        return
    if explanation.together:
        for i, one in enumerate(explanation.releases, 1):
            console.print(Text(f"Release {i} of {len(explanation.releases)}", style="bold"))
            print_explanation(console, one)
            console.print()
        for sentence in explanation.together:
            console.print(Text(visible(sentence)))
        return
    before, after = explanation.steps
    console.print(Text("How the answer is made", style="bold"))
    console.print(_numbered(before, 1))
    console.print()
    if explanation.numbers:
        console.print(_noisy_numbers(explanation))
        console.print()
    console.print(_numbered(after, len(before) + 1))
    for note in [*explanation.to_dict()["notes"], *explanation.left_out]:
        console.print(Text(f"Note: {visible(note.replace(REMEDY, '--diagnostics'))}"))


def _noisy_numbers(explanation: Explanation) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold cyan")
    table.add_column("number", ratio=3)
    table.add_column("bounds", no_wrap=True)
    table.add_column("noise (σ)", justify="right", no_wrap=True)
    table.add_column("budget", justify="right", no_wrap=True)
    table.add_column("used for", ratio=2)
    for what, bounds, deviation, share, used in explanation.numbers:
        table.add_row(Text(visible(what)), bounds, deviation, share, Text(visible(used)))
    return table


def _numbered(steps: list[str], first: int) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", style="cyan", no_wrap=True)
    grid.add_column()
    for number, step in enumerate(steps, first):
        grid.add_row(f"{number}.", Text(visible(step)))
    return grid
