"""What a question would give, on the terminal, before a row is read."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.cli.progress import Watch

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from sfumato.query.released.noisy_table import NoisyTable

_TIMES = (0.5, 1, 2)  # of the budget that is asked for
_UNITS = (100, 1_000, 10_000)


def print_preview(console: Console, release: NoisyTable, confidence: float, plot: Path | None) -> None:
    """Print the errors of groups of three sizes, with half of the budget, with it, and with twice as much.

    Args:
        console: where to.
        release: not drawn; of several private SELECTs each is shown.
        confidence: of the error bars.
        plot: where to draw the first one, if anywhere.
    """
    from sfumato.query.previews.preview import plans_of, previewed

    parts: Any = getattr(release, "releases", (release,))
    for i, one in enumerate(parts):
        plan = one.plan
        budgets = [plan.epsilon * times for times in map(Fraction, _TIMES)]
        with Watch("Trying made-up groups"):
            plans = plans_of(plan.query, budgets, {"delta": plan.delta})
            found = previewed(plan.query, one._engine, plans, _UNITS, 1, confidence)
        console.print(str(found), highlight=False, soft_wrap=True)
        console.print("\nPreview: no row was read, nothing was spent.")
        if plot is not None and i == 0:
            found.plot(plot)
