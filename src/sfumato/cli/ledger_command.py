"""`sfumato budget` and `sfumato journal`: budgets of a ledger and what was asked of them, for their owner."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import ExitCode, answering, argument, commands, option, print_text, tell_written
from sfumato.dataclass import dataclass
from sfumato.display.formatting import guard_formula
from sfumato.errors import EngineError, ParameterError, QueryError
from sfumato.files import resolve_output_path

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sfumato.budget.ledger import Entry, Ledger, LedgerBudget
    from sfumato.budget.ledger.journal_lines import Line
    from sfumato.budget.ledger.ledger_accounts import LedgerAccount

_CODES = "Exit codes: 0 done; 1 {}; 2 the command line must be fixed."
budget: typer.Typer = commands(
    "Manage budgets in a ledger, which is a file or a PostgreSQL database.",
    epilog=_CODES.format("the ledger, a file or the installation must be fixed"),
)
journal: typer.Typer = commands(
    "Show every query to a ledger's budgets, and its outcome.",
    epilog=_CODES.format("the journal is broken, or the ledger, a file or the installation must be fixed"),
)

_Place = Annotated[str, option("ledger.owner")]
_Whose = Annotated[str, argument("dataset")]
_Any = Annotated[str | None, argument("dataset.all")]
_Analyst = Annotated[str | None, option("analyst.one")]
_Epsilon = Annotated[str, option("epsilon.cap")]
_Composition = Annotated[str | None, option("composition")]
_Period = Annotated[str | None, option("period")]
_OPTIONS = ("epsilon", "delta", "composition", "period")


def open_ledger(place: str) -> Ledger:
    """Open the ledger that `sfumato budget` and `sfumato journal` work on."""
    from sfumato.budget.ledger.ledger import IN_COMMANDS, Ledger

    ledger = Ledger(place)
    ledger._terms = IN_COMMANDS
    return ledger


# Where a ledger is named, if no option does.
_VARIABLE = "SFUMATO_LEDGER"


@dataclass(frozen=True)
class Payer:
    """A ledger budget that the command line names.

    Args:
        place: the ledger's path or URL.
        budget: the budget.
    """

    place: str
    budget: LedgerBudget

    def check_no_ledger(self, path: Path, name: str) -> None:
        """Refuse to write an output file over the ledger.

        Raises:
            ParameterError: the path, which came by the option `name`, is the ledger's.
        """
        if resolve_output_path(path) in (resolve_output_path(self.place), os.path.realpath(self.place)):
            raise ParameterError(name, str(path), "a file other than the ledger, which it would replace")

    def tell_left(self, console: Console) -> None:
        """Print what is left of the ledger budget, or that it cannot be read now."""
        try:
            words = str(self.budget)
        except EngineError as error:
            words = f"What is left of the budget cannot be read now: {error}"
        print_text(console, f"{words}.")


def payer(ledger: str | None, dataset: str | None, analyst: str | None) -> Payer | None:
    """Return the ledger budget that --ledger, --dataset and --analyst name; None without --dataset.

    Raises:
        QueryError: something is left out.
        BudgetError: the ledger has no such budget.
        EngineError: it cannot be opened.
    """
    if dataset is None:
        if ledger is not None or analyst is not None:
            given = "--ledger" if ledger is not None else "--analyst"
            raise QueryError(
                f"{given}: the budget is missing. Add --dataset NAME, the name in sfumato budget"
            )
        return None
    place = ledger or os.environ.get(_VARIABLE)
    if not place:
        raise QueryError(f"--dataset: the ledger is missing. Add --ledger PLACE, or set {_VARIABLE}")
    return Payer(place, open_ledger(place).budget(dataset, analyst))


@budget.command()
def create(
    dataset: _Whose,
    epsilon: _Epsilon,
    ledger: _Place,
    delta: Annotated[str, option("delta.create")] = "0",
    composition: _Composition = None,
    period: _Period = None,
    replace: Annotated[bool, option("replace")] = False,
) -> None:
    """Create a dataset's budget over all analysts together, because they may share what they learn."""
    with answering(*_OPTIONS) as console:
        opened, how = open_ledger(ledger), composition or "tight"
        opened.create(dataset, epsilon, delta, composition=how, period=period, replace=replace)
        _print_accounts(console, opened.accounts(dataset))


@budget.command()
def grant(
    dataset: _Whose,
    analyst: Annotated[str, argument("analyst")],
    epsilon: _Epsilon,
    ledger: _Place,
    delta: Annotated[str | None, option("delta.grant")] = None,
    composition: _Composition = None,
    period: _Period = None,
) -> None:
    """Grant an analyst a budget of their own within the dataset's budget, or change it."""
    with answering(*_OPTIONS) as console:
        opened = open_ledger(ledger)
        opened.grant(dataset, analyst, epsilon, delta, composition=composition, period=period)
        _print_accounts(console, opened.accounts(dataset))


@budget.command("show")
def show_budgets(ledger: _Place, dataset: _Any = None) -> None:
    """Show each budget: the cap, what is spent in its period and over its lifetime, and what is left.

    The command replays all entries, including caps, and compares the result with every account.
    """
    with answering(*_OPTIONS) as console:
        opened = open_ledger(ledger)
        opened.check()
        _print_accounts(console, opened.accounts(dataset))


@budget.command()
def history(
    ledger: _Place,
    dataset: _Any = None,
    analyst: _Analyst = None,
) -> None:
    """Show all entries, in order."""
    from rich.table import Table

    with answering(*_OPTIONS) as console:
        table = Table("entry", "when (UTC)", "kind", "dataset", "analyst", "epsilon", "delta", "what")
        for entry in open_ledger(ledger).history(dataset, analyst):
            table.add_row(*_line(entry))
        print_table(console, table)


@budget.command()
def export(
    ledger: _Place,
    output: Annotated[Path, option("output.export")],
    dataset: _Any = None,
) -> None:
    """Write all entries to a file, with exact numbers; .json has one object per line."""
    from sfumato.files import check_output_path, replacing

    with answering(*_OPTIONS) as console:
        path = check_output_path(output, "--output", tuple(_FORMS))
        text = _FORMS[path.suffix.lower()](entry.row() for entry in open_ledger(ledger).history(dataset))
        with replacing(path) as file:
            file.write(text.encode())
        tell_written(console, [path])


def _print_accounts(console: Console, accounts: Sequence[LedgerAccount]) -> None:
    """Print the table of a ledger's budgets, with lifetime totals and caps that cannot be used up."""
    from rich.table import Table

    renewed = any(kept.period is not None for kept in accounts)
    lifetime = ("period", "in a lifetime, which has no limit") if renewed else ()
    table = Table("dataset", "analyst", "epsilon, delta", "spent", "left", *lifetime)
    for kept in accounts:
        cap, left = kept.account.cap, kept.account.left
        table.add_row(
            *map(visible_text, (kept.dataset, kept.analyst or "(all)")),
            _pair(float(cap.epsilon), float(cap.delta)),
            _pair(*kept.account.spent),
            f"{float(left.share):.1%}",
            *(() if kept.period is None else (f"{kept.period} {kept.since}", _pair(*kept.lifetime.spent))),
        )
    print_table(console, table)
    whole = {kept.dataset: kept for kept in accounts if kept.analyst is None}
    for kept in accounts:
        if kept.analyst is not None and _is_above(kept, whole[kept.dataset]):
            print_text(
                console,
                f"The cap of {kept.analyst} is above that of {kept.dataset!r} over all analysts, "
                "which also applies: nobody can spend more than that.",
            )


def _is_above(account: LedgerAccount, whole: LedgerAccount) -> bool:
    """Whether an analyst's ledger budget can never be used up, because the dataset's cap is smaller."""
    from sfumato.budget.ledger.ledger_entries import PERIODS

    cap, over = account.account.cap, whole.account.cap
    longer = (*PERIODS, None)
    in_time = longer.index(account.period) <= longer.index(whole.period)
    return in_time and (cap.epsilon > over.epsilon or cap.delta > over.delta)


def _pair(epsilon: float, delta: float) -> str:
    return f"{epsilon:.6g}, {delta:.3g}"


def _line(entry: Entry) -> list[str]:
    from sfumato.exact import round_up

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
    """Return ledger rows as CSV in which no analyst's text is a spreadsheet formula."""
    text = io.StringIO()
    written = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    written.writeheader()
    for row in rows:
        cells = (
            (name, guard_formula(value) if isinstance(value, str) else value) for name, value in row.items()
        )
        written.writerow(dict(cells))
    return text.getvalue()


def _json(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


_FORMS: dict[str, Callable[[Iterable[dict[str, Any]]], str]] = {".csv": _csv, ".json": _json}
_COLUMNS = (
    *("entry", "at", "day", "kind", "dataset", "analyst", "what"),
    *("epsilon", "delta", "loss", "composition", "period"),
)


@journal.command()
def verify(
    ledger: _Place,
    head: Annotated[str | None, option("head")] = None,
) -> None:
    """Verify the chain, and compare it with the ledger's entries, sums and answers.

    The command prints the head: keep it elsewhere, and pass it with --head next time.
    """
    with answering() as console:
        found = open_ledger(ledger).journal.verify(head)
        print_text(console, str(found))
    if not found:
        raise typer.Exit(ExitCode.FAILED)


@journal.command("show")
def show_journal(
    ledger: _Place,
    dataset: _Any = None,
    analyst: _Analyst = None,
    output: Annotated[Path | None, option("output.show")] = None,
) -> None:
    """Show each query in order: analyst, time, cost and outcome."""
    from rich.table import Table

    from sfumato.files import check_output_path, replacing

    with answering() as console:
        lines = open_ledger(ledger).journal.lines(dataset, analyst)
        if output is not None:
            path = check_output_path(output, "--output", (".json",))
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
    ledger: _Place,
    dataset: _Any = None,
    strict: Annotated[bool, option("strict")] = False,
) -> None:
    """List queries to review: about one unit, nearly equal to others, or a total minus its parts."""
    with answering() as console:
        found = open_ledger(ledger).journal.audit(dataset)
        print_text(console, str(found))
    if strict and found.findings:
        raise typer.Exit(ExitCode.FAILED)


@journal.command()
def declare(
    dataset: Annotated[str, argument("dataset.declare")],
    version: Annotated[str, argument("version")],
    ledger: _Place,
) -> None:
    """Declare the version of the data, within which the same query gets the same answer at no charge.

    Run it after new data has replaced the old.
    """
    with answering() as console:
        open_ledger(ledger).journal.declare(dataset, version)
        print_text(console, f"The data of {dataset!r} is now version {version!r}.")


@journal.command()
def publish(
    entry: Annotated[int, argument("entry")],
    ledger: _Place,
) -> None:
    """Give the answer of a query at no charge to every analyst who asks the same query."""
    with answering() as console:
        open_ledger(ledger).journal.publish(entry)
        console.print(f"The answer to the query of entry {entry} is for everybody who sends the same query.")


def _cells(line: Line) -> tuple[str, ...]:
    detail = line.detail
    entered = detail.get("entered", detail)
    if line.kind in ("asked", "refused"):
        what = entered.get("what") or entered.get("text") or ""
        if "more" in detail:
            what = "more were refused on this day, but not written"
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


def visible_text(text: str) -> str:
    """Return an analyst's text from the ledger without terminal codes or markup."""
    from rich.markup import escape

    from sfumato.display.formatting import visible

    return escape(visible(text))


def print_table(console: Console, table: Table) -> None:
    """Print a ledger table with lines of full length, which a terminal folds and `grep` finds."""
    from rich import box

    table.box, table.header_style, table.pad_edge = box.SIMPLE_HEAD, "bold", False
    for column in table.columns:
        column.no_wrap = True
    console.width = max(
        console.width, console.measure(table, options=console.options.update(width=10_000)).maximum
    )
    console.print(table)
