"""`sfumato advise`: several questions in SQL and one budget, to what each should be asked with."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.cli.options import (
    NO_LIMITS,
    answering,
    argument,
    check_no_file,
    check_written,
    option,
    print_text,
    read_catalog,
    read_sql_file,
    sources,
    tell_written,
)
from sfumato.errors import QueryError

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.advice.advice import Advice, Advised

DIGITS = 9  # of an advised epsilon, rounded down


def advise(
    text: Annotated[list[str] | None, argument("sql.advise")] = None,
    file: Annotated[list[Path] | None, option("file.advise")] = None,
    epsilon: Annotated[str | None, option("epsilon")] = None,
    delta: Annotated[str, option("delta")] = "0",
    share: Annotated[str, option("share")] = "0.2",
    table: Annotated[list[str] | None, option("table.files")] = None,
    public: Annotated[list[str] | None, option("public.files")] = None,
    catalog: Annotated[Path | None, option("catalog.files")] = None,
    release: Annotated[bool, option("release")] = False,
    output: Annotated[list[Path] | None, option("output.advise")] = None,
    plot: Annotated[Path | None, option("plot.advise")] = None,
) -> None:
    """Spend a share of a budget on preliminary queries, and advise how to spend the rest on several queries.

    Limits and bounds that a query leaves out are inferred. The output is safe to publish.
    """
    with answering("epsilon", "delta") as console:
        if epsilon is None:
            raise QueryError(
                "--epsilon is missing. Give the total for all queries and preliminary queries, such as "
                "--epsilon 2"
            )
        files = check_written(output or [], plot)
        texts = list(_texts(text or [], file or []))
        questions = _questions(texts, epsilon, delta, sources(table, public), catalog, release)
        for path, name in files:
            _check_no_source(path, questions, name)
        cost = {"epsilon": epsilon, "delta": delta, "share": share}
        _advise(console, questions, cost, release, output or [], plot)


def _texts(values: list[str], files: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield each query of `sfumato advise` with its name: that of its file, or ""."""
    from sfumato.dialect.sql_tokens import statements

    for text in values:
        found = statements(check_no_file(text))
        if not found:
            raise QueryError(f"{text!r} has no query. Leave it out, or write SELECT ...")
        for one in found:
            yield "", one
    for path in files:
        found = statements(read_sql_file(path, "--file"))
        if not found:
            raise QueryError(f"--file: {str(path)!r} has no query. Leave it out, or write SELECT ...")
        for i, one in enumerate(found, 1):
            yield path.stem + (f" ({i})" if len(found) > 1 else ""), one


def _questions(
    texts: list[tuple[str, str]],
    epsilon: str,
    delta: str,
    tables: dict[str, Any],
    catalog: Path | None,
    release: bool,
) -> dict[str, Any]:
    """Return the questions of `sfumato advise` by name; each table is opened once."""
    from sfumato.advice.advice_request import find_unused_name
    from sfumato.api.question import Question
    from sfumato.budget.epsilon_delta import admissible_delta, admissible_epsilon
    from sfumato.dialect.options_clause import Advised
    from sfumato.engines.sql import asking

    if not texts:
        raise QueryError(
            'there is no query. Write sfumato advise "SELECT ..." "SELECT ...", or --file questions.sql'
        )
    admissible_epsilon(epsilon), admissible_delta(delta)
    read = asking(tables, read_catalog(catalog), None, NO_LIMITS, Advised(epsilon, delta))
    found: dict[str, Any] = {}
    for name, text in texts:
        asked = read(text)
        if release and asked.query.outside is not None:
            raise QueryError(
                "--release: a query computes with released tables, with ORDER BY, LIMIT or "
                "arithmetic. Leave out --release, and run that query with sfumato sql and the "
                "advised options"
            )
        for question in asked.questions:
            if not isinstance(question, Question):
                raise QueryError(
                    "advise: a query asks for the largest groups, which have no limits to choose. "
                    "Run it with sfumato sql"
                )
            found[find_unused_name(name or question.query.title, found)] = question
    return found


def _check_no_source(path: Path, questions: dict[str, Any], option: str) -> None:
    from sfumato.files import check_no_source

    for one in questions.values():
        check_no_source(path, one.table._engine.files, option)


def _advise(
    console: Console,
    questions: dict[str, Any],
    cost: dict[str, Any],
    release: bool,
    outputs: list[Path],
    plot: Path | None,
) -> None:
    """Compute the advice of `sfumato advise`, and print, write and plot it."""
    from logging import NullHandler

    from sfumato.advice.advise import advise as advised
    from sfumato.cli.terminal import Watch
    from sfumato.release.payment import LOG, NOT_CHARGED
    from sfumato.release.release_files import write

    LOG.addHandler(NullHandler())  # each command is a process; it is said below
    table = next(iter(questions.values())).table
    with Watch("Looking at rows"):
        advice = advised(table, questions, **cost)
    # Neither a full disk nor a reader who has gone costs what was paid for.
    try:
        print_text(console, str(advice))
        told = [line for one in advice.questions.values() for line in _sql_lines(one)]
        print_text(console, "\n".join(["", "To run one with sfumato sql:", *told]))
    finally:
        for path in outputs:
            write(path, iter(advice.to_arrow().to_batches()))
        if plot is not None:
            advice.plot(plot)
    tell_written(console, [*outputs, *filter(None, [plot])])
    if release:
        _release(console, advice)
    print_text(console, f"Note: {NOT_CHARGED}")


def _sql_lines(one: Advised) -> Iterator[str]:
    """Yield the SQL lines that `sfumato advise` prints for a question: OPTIONS and inferred bounds."""
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
    """Return an advised number in nine digits, rounded down so that parts never exceed their sum.

    >>> _down(Fraction(2, 3)), _down(Fraction(10)), _down(Fraction(1, 3_000_000))
    ('0.666666666', '10', '0.000000333333333')
    """
    context = Context(prec=DIGITS, rounding=ROUND_FLOOR)
    found = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return f"{found:f}".rstrip("0").rstrip(".") if found != found.to_integral_value() else f"{int(found)}"


def _release(console: Console, advice: Advice) -> None:
    """Release all questions as `sfumato advise` advised, and print their tables."""
    from rich.text import Text

    from sfumato.cli.table_printer import print_any
    from sfumato.cli.terminal import Watch
    from sfumato.display.formatting import visible
    from sfumato.query.error_bars import Bars

    bars = Bars()
    released = advice.release()
    for name, one in released.items():
        with Watch("Reading rows, adding noise"):
            numbers, widths = one.to_arrow(), bars._widths(one)
        console.print(Text(f"\n{visible(name)}", style="bold"))
        print_any(console, one, numbers, widths, bars, 40)
