"""`sfumato journal`: what was asked of a ledger's budgets, and what came of it, for their owner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.ledgers import (
    Dataset,
    LedgerCode,
    Place,
    commands,
    opened_ledger,
    print_table,
    told,
    visible_text,
)
from sfumato.cli.options import flag, optional, tell_written

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.budget.ledger.journal.chain import Line

journal: typer.Typer = commands(
    "Every question to a ledger's budgets, and what came of it.",
    "the journal is broken, or the ledger, a file or the installation must be fixed",
)


@journal.command()
def verify(
    ledger: Place,
    head: Annotated[
        str | None,
        optional("--head", metavar="HEAD", help="That was printed before, of which all must still be there."),
    ] = None,
) -> None:
    """Walk the chain, and compare it with the ledger's entries, sums and answers.

    Prints the head: keep it elsewhere, and give it next time.
    """
    with told() as console:
        found = opened_ledger(ledger).journal.verify(head)
        _say(console, found)
    if not found:
        raise typer.Exit(LedgerCode.LEDGER)


@journal.command()
def show(
    ledger: Place,
    dataset: Dataset = None,
    analyst: Annotated[str | None, optional("--analyst", metavar="NAME", help="Of one analyst.")] = None,
    output: Annotated[
        Path | None,
        optional("--output", "-o", metavar="PATH", help="Write all of each line to a file, .json, instead."),
    ] = None,
) -> None:
    """Show who asked what, when, for what, and what came of it, in order."""
    from rich.table import Table

    from sfumato.files import checked_place, replacing

    with told() as console:
        lines = opened_ledger(ledger).journal.lines(dataset, analyst)
        if output is not None:
            path = checked_place(output, "--output", (".json",))
            with replacing(path) as file:
                file.write("".join(json.dumps(line.row()) + "\n" for line in lines).encode())
            tell_written(console, [path])
            return
        table = Table("line", "when (UTC)", "kind", "dataset", "analyst", "entry", "epsilon", "what")
        for line in lines:
            table.add_row(*map(visible_text, _cells(line)))
        print_table(console, table)


@journal.command()
def audit(
    ledger: Place,
    dataset: Dataset = None,
    strict: Annotated[bool, flag("--strict", help="End with 1 where there is something to look at.")] = False,
) -> None:
    """List questions for a person to judge: about one unit, nearly the same as others, totals less parts."""
    with told() as console:
        found = opened_ledger(ledger).journal.audit(dataset)
        _say(console, found)
    if strict and found.findings:
        raise typer.Exit(LedgerCode.LEDGER)


@journal.command()
def declare(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Whose data it is.", show_default=False)],
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="Its name, such as 2026-11.", show_default=False)
    ],
    ledger: Place,
) -> None:
    """Name the version of the data, within which the same question has the same answer, for nothing.

    Say it after new data has taken the place of the old.
    """
    with told() as console:
        opened_ledger(ledger).journal.declare(dataset, version)
        console.print(visible_text(f"The data of {dataset!r} is of version {version!r}."), soft_wrap=True)


@journal.command()
def publish(
    entry: Annotated[
        int, typer.Argument(metavar="ENTRY", help="Of the ledger, of the question.", show_default=False)
    ],
    ledger: Place,
) -> None:
    """Let everybody who may ask have the answer to a question, for nothing, where they ask the same."""
    with told() as console:
        opened_ledger(ledger).journal.publish(entry)
        console.print(f"The answer to the question of entry {entry} is for everybody who asks the same.")


def _say(console: Console, found: object) -> None:
    for line in str(found).splitlines():
        console.print(visible_text(line), soft_wrap=True)


def _cells(line: Line) -> tuple[str, ...]:
    detail = line.detail
    entered = detail.get("entered", detail)
    if line.kind in ("asked", "refused"):
        what = entered.get("what") or entered.get("text") or ""
        if "more" in detail:
            what = "more were refused on this day, which are not written"
    elif line.kind == "cap":
        what = f"{entered['kind']}: delta {entered['delta']}"
    else:
        what = ", ".join(f"{name} {detail[name]}" for name in ("version", "rows", "error") if name in detail)
    why = f"{detail['why']}: " if "why" in detail else ""
    return (
        str(line.number),
        f"{line.at:%Y-%m-%d %H:%M:%S}",
        line.kind,
        line.dataset,
        line.analyst or "",
        "" if line.entry is None else str(line.entry),
        str(entered.get("epsilon", "")),
        f"{why}{what}",
    )
