"""`sfumato advise`: several questions in SQL and one budget, to what each should be asked with."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_FLOOR, Context, Decimal
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.options import (
    NO_LIMITS,
    CatalogFile,
    PublicFiles,
    TableFiles,
    check_written,
    fail,
    flag,
    optional,
    outputs,
    tell_written,
)
from sfumato.errors import EngineError, QueryError, SfumatoError

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.query.advice.result import Advice, Advised

DIGITS = 9  # of an advised epsilon, rounded down


class AdviseCode(IntEnum):
    """Exit codes."""

    DONE = 0
    ENGINE = 1  # a source, a file or the installation must be fixed
    QUESTION = 2  # a question, the budget or the command line must be fixed


def advise(
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SQL...",
            help="SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (...) ..., each a question of the same table.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        list[Path] | None,
        optional("--file", "-f", metavar="PATH", help="Read questions, with ; between. May be repeated."),
    ] = None,
    epsilon: Annotated[
        str | None, optional("--epsilon", "-e", metavar="NUMBER", help="Needed: of looks and all releases.")
    ] = None,
    delta: Annotated[str, typer.Option("--delta", metavar="NUMBER", help="Of all releases.")] = "0",
    share: Annotated[
        str, typer.Option("--share", metavar="NUMBER", help="The part of epsilon that is spent on looking.")
    ] = "0.2",
    table: TableFiles = None,
    public: PublicFiles = None,
    catalog: CatalogFile = None,
    release: Annotated[
        bool, flag("--release", help="Also ask all questions as advised, for the rest of the budget.")
    ] = False,
    output: Annotated[
        list[Path] | None,
        outputs("the advice, a row for each output of a question, to .parquet, .csv or .json"),
    ] = None,
    plot: Annotated[
        Path | None,
        optional("--plot", "-p", metavar="PATH", help="Draw the error by each choice to .png or .svg."),
    ] = None,
) -> None:
    """Look once, for a part of a budget, and say how to ask several questions with the rest.

    Limits and bounds that a question leaves out are found; what is printed is safe to publish.
    """
    from sfumato.cli.terminal import forgiving, printer

    forgiving()
    try:
        if epsilon is None:
            raise QueryError("--epsilon is missing: of all questions and the looks together, such as 2")
        files = check_written(output or [], plot)
        texts = list(_texts(text or [], file or []))
        questions = _questions(texts, epsilon, delta, table or [], public or [], catalog, release)
        for path, option in files:
            _check_no_source(path, questions, option)
        cost = {"epsilon": epsilon, "delta": delta, "share": share}
        _advise(printer(), questions, cost, release, output or [], plot)
    except (EngineError, OSError) as error:
        fail(error, AdviseCode.ENGINE)
    except SfumatoError as error:
        fail(error, AdviseCode.QUESTION, ("epsilon", "delta"))


def _texts(given: list[str], files: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield each question with its name: that of its file, or nothing."""
    from sfumato.cli.given import text_of
    from sfumato.dialect.words import statements

    for text in given:
        if text.endswith(".sql") and " " not in text:
            raise QueryError(f"{text!r} is the name of a file, not SQL; write --file {text}")
        found = statements(text)
        if not found:
            raise QueryError(f"{text!r} holds no question; leave it out, or write SELECT ...")
        for one in found:
            yield "", one
    for path in files:
        found = statements(text_of(path, "--file"))
        if not found:
            raise QueryError(f"--file: {str(path)!r} holds no question; leave it out, or write SELECT ...")
        for i, one in enumerate(found, 1):
            yield path.stem + (f" ({i})" if len(found) > 1 else ""), one


def _questions(
    texts: list[tuple[str, str]],
    epsilon: str,
    delta: str,
    private: list[str],
    public: list[str],
    catalog: Path | None,
    release: bool,
) -> dict[str, Any]:
    """Return the questions of all texts by name; each table is opened once."""
    from sfumato.budget.parameters import admissible_delta, admissible_epsilon
    from sfumato.cli.given import sources
    from sfumato.dialect.options import Advised
    from sfumato.engines.asked import asking
    from sfumato.engines.catalog import catalog as read_catalog
    from sfumato.query.advice.asked import free_name
    from sfumato.query.question import Question

    if not texts:
        raise QueryError(
            'no question is given; write sfumato advise "SELECT ..." "SELECT ...", or --file questions.sql'
        )
    admissible_epsilon(epsilon), admissible_delta(delta)
    declared = None if catalog is None else read_catalog(catalog)
    read = asking(sources(private, public), declared, None, NO_LIMITS, Advised(epsilon, delta))
    found: dict[str, Any] = {}
    for name, text in texts:
        asked = read(text)
        if release and asked.query.outside is not None:
            raise QueryError(
                "--release: a text computes with what is released, as ORDER BY, LIMIT and arithmetic do; "
                "leave out --release, and ask it by sfumato sql with what is advised"
            )
        for question in asked.questions:
            if not isinstance(question, Question):
                raise QueryError(
                    "advise: a text asks for the largest groups, which have no limits to find; ask it by "
                    "sfumato sql"
                )
            found[free_name(name or question.query.told, found)] = question
    return found


def _check_no_source(path: Path, questions: dict[str, Any], option: str) -> None:
    from sfumato.files import check_no_source

    for one in questions.values():
        check_no_source(path, one.table.engine.files, option)


def _advise(
    console: Console,
    questions: dict[str, Any],
    cost: dict[str, Any],
    release: bool,
    outputs: list[Path],
    plot: Path | None,
) -> None:
    from logging import NullHandler

    from rich.text import Text

    from sfumato.cli.progress import Watch
    from sfumato.display.text import visible
    from sfumato.query.advice.advise import advise as advised
    from sfumato.query.payment import LOG, NOT_CHARGED
    from sfumato.query.released.output import write

    LOG.addHandler(NullHandler())  # each command is a process; it is said below
    table = next(iter(questions.values())).table
    with Watch("Looking at rows"):
        advice = advised(table, questions, **cost)
    # Neither a full disk nor a reader who has gone costs what was paid for.
    try:
        console.print(Text(visible(str(advice), lines=True)), soft_wrap=True)
        told = [line for one in advice.questions.values() for line in _written(one)]
        console.print(
            Text(visible("\n".join(["", "To ask one by sfumato sql:", *told]), lines=True)), soft_wrap=True
        )
    finally:
        for path in outputs:
            write(path, iter(advice.to_arrow().to_batches()))
        if plot is not None:
            advice.plot(plot)
    tell_written(console, [*outputs, *filter(None, [plot])])
    if release:
        _release(console, advice)
    console.print(Text(f"Note: {NOT_CHARGED}"), soft_wrap=True)


def _written(one: Advised) -> Iterator[str]:
    """Yield what the SQL of a question is to say: its OPTIONS, and bounds that were found."""
    table = one.question.table
    options = {
        "epsilon": _down(one.epsilon),
        "delta": _down(one.delta) if one.delta else None,
        "max_groups_contributed": table.groups,
        "max_rows_per_group": table.rows,
        "max_rows_contributed": table.total_rows,
    }
    written = ", ".join(f"{name} = {value}" for name, value in options.items() if value is not None)
    yield f"{one.name}: OPTIONS ({written}, ...)"
    asked = dict(one.question.aggregates)
    for name, (low, high) in one.bounds.items():
        by_unit = getattr(asked[name], "per", None) == "unit"
        kind = "contribution_bounds_per_group" if by_unit else "contribution_bounds_per_row"
        yield f"  {name}: {kind} => ({float(low)!r}, {float(high)!r})"


def _down(value: Fraction) -> str:
    """Write a number in nine digits, rounded down, so that no parts are more than their sum.

    >>> _down(Fraction(2, 3)), _down(Fraction(10)), _down(Fraction(1, 3_000_000))
    ('0.666666666', '10', '0.000000333333333')
    """
    context = Context(prec=DIGITS, rounding=ROUND_FLOOR)
    found = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{found:f}".rstrip("0").rstrip(".") if found != found.to_integral_value() else f"{int(found)}"


def _release(console: Console, advice: Advice) -> None:
    """Ask all questions as they were advised, and print their tables."""
    from rich.text import Text

    from sfumato.cli.processed import print_any
    from sfumato.cli.progress import Watch
    from sfumato.display.text import visible
    from sfumato.query.bars import Bars

    bars = Bars()
    released = advice.release()
    for name, one in released.items():
        with Watch("Reading rows, adding noise"):
            numbers, widths = one.to_arrow(), bars._widths(one)
        console.print(Text(f"\n{visible(name)}", style="bold"))
        print_any(console, one, numbers, widths, bars, 40)
