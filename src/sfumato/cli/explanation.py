"""An explanation on the terminal: the steps, and every noisy number with its price."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sfumato.cli.terminal import visible

if TYPE_CHECKING:
    from sfumato.query.explanation import Explanation


def print_explanation(console: Console, explanation: Explanation) -> None:
    """Print each step in order, then the noisy numbers with bounds, noise and share of the budget."""
    told = explanation.to_dict()
    before, after = _steps(told)
    console.print(Text("How the answer is made", style="bold"))
    console.print(_numbered(before, 1))
    console.print()
    console.print(_noisy_numbers(told))
    console.print()
    if after:
        console.print(_numbered(after, len(before) + 1))
    for note in told["notes"]:
        console.print(Text(f"Note: {visible(note)}"))


def _steps(told: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return what happens up to the noise, and after it."""
    unit, limits = told["privacy_unit"], told["limits"]
    steps = [f"Read with {told['engine']}; drop rows without {unit}, the privacy unit."]
    for step in told["steps"]:
        steps.append(
            f"Keep rows where {step['filter']}."
            if "filter" in step
            else f"Compute {step['derive']} = {step['as']}."
        )
    if told["group_by"]:
        limit = _many(limits["groups_per_unit"], "group")
        steps.append(
            f"Group by {', '.join(told['group_by'])} ({told['groups_are']}). "
            f"Let each {unit} count in at most {limit}, taken at random."
        )
    place = "each of them" if told["group_by"] else "all"
    steps.append(
        f"Let each {unit} count as at most {_many(limits['rows_per_unit_and_group'], 'row')} in {place}; "
        "clamp values to their bounds."
    )
    epsilon, delta = (float(Fraction(told["budget"][name])) for name in ("epsilon", "delta"))
    where = " of each group" if told["group_by"] else ""
    together = "Together with the choice of groups" if told["selection"] else "Together"
    steps.append(
        f"Add exactly rounded {told['noise'].capitalize()} noise to these numbers{where}. "
        f"{together} they cost at most epsilon {epsilon:g} and delta {delta:g}:"
    )
    after = [told["selection"]["text"]] if told["selection"] else []
    after.append("Compute the outputs from the noisy numbers alone, which costs nothing more.")
    return steps, after


def _noisy_numbers(told: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold cyan")
    table.add_column("number", ratio=3)
    table.add_column("bounds", no_wrap=True)
    table.add_column("noise (σ)", justify="right", no_wrap=True)
    table.add_column("budget", justify="right", no_wrap=True)
    table.add_column("used for", ratio=2)
    for s in told["statistics"]:
        bounds = f"{s['lower']:g} to {s['upper']:g}" if "lower" in s else ""
        share = "free" if s["share"] == 0 else f"{s['share']:.1%}"
        used = [name for name, output in told["outputs"].items() if s["name"] in output["from"]]
        if s["name"] == "units" and told["selection"] and told["selection"]["rule"].endswith("_threshold"):
            used.append("choice of groups")
        names = ", ".join(used)
        table.add_row(
            Text(visible(s["what"])), bounds, f"{s['noise_deviation']:,.4g}", share, Text(visible(names))
        )
    return table


def _numbered(steps: list[str], first: int) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", style="cyan", no_wrap=True)
    grid.add_column()
    for number, step in enumerate(steps, first):
        grid.add_row(f"{number}.", Text(visible(step)))
    return grid


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number > 1)}"
