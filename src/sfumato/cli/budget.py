"""`sfumato budget`: the budgets of a ledger, for their owner."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.ledgers import Dataset, Place, commands, opened_ledger, print_table, told, visible_text
from sfumato.cli.options import flag, optional, tell_written
from sfumato.display.text import guarded
from sfumato.exact import round_up

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.budget.ledger import Entry
    from sfumato.budget.ledger.book import Kept


budget: typer.Typer = commands(
    "Budgets that last, in a ledger: a file, or a database of PostgreSQL.",
    "the ledger, a file or the installation must be fixed",
)

_Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="Whose budget it is.", show_default=False)]
_Epsilon = Annotated[
    str,
    typer.Option(
        "--epsilon", metavar="NUMBER", help="All that may be lost, such as 3 or 1/2.", show_default=False
    ),
]
_Composition = Annotated[
    str | None,
    optional("--composition", metavar="NAME", help="tight or adding, as for sf.Budget."),
]
_Period = Annotated[
    str | None,
    optional(
        "--period",
        metavar="NAME",
        help="week, month, quarter or year (UTC), in each of which all of it may be spent anew: nothing "
        "bounds what is then lost in a lifetime.",
    ),
]


@budget.command()
def create(
    dataset: _Dataset,
    epsilon: _Epsilon,
    ledger: Place,
    delta: Annotated[str, typer.Option("--delta", metavar="NUMBER", help="In [0, 1).")] = "0",
    composition: _Composition = None,
    period: _Period = None,
    replace: Annotated[
        bool, flag("--replace", help="Change the cap of a dataset that has one; what was spent stays spent.")
    ] = False,
) -> None:
    """Give a dataset its cap over all analysts, who may tell each other what they learn."""
    with told() as console:
        opened, how = opened_ledger(ledger), composition or "tight"
        opened.create(dataset, epsilon, delta, composition=how, period=period, replace=replace)
        _print_accounts(console, opened.accounts(dataset))


@budget.command()
def grant(
    dataset: _Dataset,
    analyst: Annotated[str, typer.Argument(metavar="ANALYST", help="Who may spend.", show_default=False)],
    epsilon: _Epsilon,
    ledger: Place,
    delta: Annotated[
        str | None, optional("--delta", metavar="NUMBER", help="In [0, 1); that of the dataset if left out.")
    ] = None,
    composition: _Composition = None,
    period: _Period = None,
) -> None:
    """Let an analyst spend, up to a cap of their own beside that of the dataset; or change that cap."""
    with told() as console:
        opened = opened_ledger(ledger)
        opened.grant(dataset, analyst, epsilon, delta, composition=composition, period=period)
        _print_accounts(console, opened.accounts(dataset))


@budget.command()
def show(ledger: Place, dataset: Dataset = None) -> None:
    """Show each cap, what is spent of it in its period and in its lifetime, and what is left.

    All entries are replayed, caps included, and compared with every account.
    """
    with told() as console:
        opened = opened_ledger(ledger)
        opened.check()
        _print_accounts(console, opened.accounts(dataset))


@budget.command()
def history(
    ledger: Place,
    dataset: Dataset = None,
    analyst: Annotated[str | None, optional("--analyst", metavar="NAME", help="Of one analyst.")] = None,
) -> None:
    """Show what was ever entered, in order."""
    from rich.table import Table

    with told() as console:
        table = Table("entry", "when (UTC)", "kind", "dataset", "analyst", "epsilon", "delta", "what")
        for entry in opened_ledger(ledger).history(dataset, analyst):
            table.add_row(*_line(entry))
        print_table(console, table)


@budget.command()
def export(
    ledger: Place,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="PATH", help="A file, .csv or .json.", show_default=False),
    ],
    dataset: Dataset = None,
) -> None:
    """Write what was ever entered to a file, with exact numbers; .json has an object in each line."""
    from sfumato.files import checked_place, replacing

    with told() as console:
        path = checked_place(output, "--output", tuple(_FORMS))
        text = _FORMS[path.suffix.lower()](entry.row() for entry in opened_ledger(ledger).history(dataset))
        with replacing(path) as file:
            file.write(text.encode())
        tell_written(console, [path])


def _print_accounts(console: Console, found: Sequence[Kept]) -> None:
    """Print a table of caps, the lifetime beside each period, and which caps can never be used up."""
    from rich.table import Table

    renewed = any(kept.period is not None for kept in found)
    lifetime = ("period", "in a lifetime, which nothing bounds") if renewed else ()
    table = Table("dataset", "analyst", "epsilon, delta", "spent", "left", *lifetime)
    for kept in found:
        cap, left = kept.account.cap, kept.account.left
        table.add_row(
            *map(visible_text, (kept.dataset, kept.analyst or "(all)")),
            _pair(float(cap.epsilon), float(cap.delta)),
            _pair(*kept.account.spent),
            f"{float(left.share):.1%}",
            *(() if kept.period is None else (f"{kept.period} {kept.since}", _pair(*kept.lifetime.spent))),
        )
    print_table(console, table)
    whole = {kept.dataset: kept for kept in found if kept.analyst is None}
    for kept in found:
        if kept.analyst is not None and _is_above(kept, whole[kept.dataset]):
            console.print(
                visible_text(
                    f"The cap of {kept.analyst} is above that of {kept.dataset!r} over all analysts, which "
                    "bounds them all: nobody can spend more than that."
                ),
                soft_wrap=True,
            )


def _is_above(kept: Kept, whole: Kept) -> bool:
    """Whether an analyst's cap can never be used up, as the cap of the dataset is smaller."""
    from sfumato.budget.ledger.periods import PERIODS

    cap, over = kept.account.cap, whole.account.cap
    longer = (*PERIODS, None)
    in_time = longer.index(kept.period) <= longer.index(whole.period)
    return in_time and (cap.epsilon > over.epsilon or cap.delta > over.delta)


def _pair(epsilon: float, delta: float) -> str:
    return f"{epsilon:.6g}, {delta:.3g}"


def _line(entry: Entry) -> list[str]:
    numbers = [f"{round_up(number):.6g}" for number in (entry.epsilon, entry.delta)]
    what = entry.what if entry.period is None else f"{entry.what}, each {entry.period}"
    words = [
        str(entry.number),
        f"{entry.at:%Y-%m-%d %H:%M:%S}",
        entry.kind,
        entry.dataset,
        entry.analyst or "",
    ]
    return [visible_text(text) for text in (*words, *numbers, what)]


def _csv(rows: Iterable[dict[str, Any]]) -> str:
    """Write rows as CSV, in which no text that an analyst wrote is a formula of a spreadsheet."""
    text = io.StringIO()
    written = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    written.writeheader()
    for row in rows:
        cells = ((name, guarded(value) if isinstance(value, str) else value) for name, value in row.items())
        written.writerow(dict(cells))
    return text.getvalue()


def _json(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


_FORMS: dict[str, Callable[[Iterable[dict[str, Any]]], str]] = {".csv": _csv, ".json": _json}
_COLUMNS = (
    *("entry", "at", "day", "kind", "dataset", "analyst", "what"),
    *("epsilon", "delta", "loss", "composition", "period"),
)
