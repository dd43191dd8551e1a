"""Answers on the terminal: the noisy table, its cost, how it is made, and what to expect of it beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sfumato.api.largest_groups import TopExplanation
from sfumato.cli.terminal import Watch
from sfumato.display.formatting import Shown, align_values, shown, visible
from sfumato.errors import EngineError, QueryError, SqlError
from sfumato.query.error_bars import REMEDY, Bars
from sfumato.query.group_totals import ALL, shown_keys
from sfumato.query.option_names import noise_title
from sfumato.release.processed_release import NOT_FOLLOWED, ProcessedRelease
from sfumato.release.release import Release
from sfumato.release.release_display import (
    cost,
    describe_groups,
    describe_largest,
    error_bars,
    format_measured,
    release_facts,
    top_facts,
)
from sfumato.release.top_release import TopRelease

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from sfumato.plan.explanation import Explanation
    from sfumato.release.noisy_table import NoisyTable

_TIMES = (0.5, 1, 2)  # of the budget that is asked for
_UNITS = (100, 1_000, 10_000)
KEY_STYLE = "bold"
GAP = 3  # between two columns
WIDEST_KEY = 40
FIRST_ENTRIES = 3  # of a list


def print_table(
    console: Console,
    release: Release,
    numbers: pa.Table,
    widths: pa.Table,
    bars: Bars,
    show: int,
) -> None:
    """Print a released table with error bars, then its caption.

    Args:
        console: where to; a table that is wider is folded, its keys repeated.
        release: for the names of keys, and for what is said below the table.
        numbers, widths: `release.to_arrow()` and `release.errors(...)`.
        bars: the error bars that these are.
        show: the most groups to print.
    """
    query = release.plan.query
    keys = len(query.shown_keys)
    names = numbers.schema.names
    columns = {
        name: _cells(numbers.column(i).slice(0, show), widths.column(i).slice(0, show))
        for i, name in enumerate(names)
        if i >= keys
    }
    console.print()
    if not keys:
        console.print(_standing(columns))
        console.print()
    else:
        rows = shown_keys(query, numbers.slice(0, show))
        key_cells = {name: [_key(v) for v in values] for name, values in rows.items()}
        for part in _fold(key_cells, columns, console.width):
            console.print(_lying(key_cells, part))
            console.print()
    _tell_more(console, numbers, show, "groups")
    console.print(caption(release, numbers.num_rows, bars))


def print_computed(
    console: Console, numbers: pa.Table, widths: pa.Table | None, with_bars: Sequence[str], show: int
) -> None:
    """Print a table that was computed from a released one.

    Args:
        console: where to.
        numbers: the table.
        widths: half-widths of error bars, in the same places, or None.
        with_bars: the columns that have some.
        show: the most rows to print.
    """
    columns: dict[str, list[Text]] = {}
    for i, name in enumerate(numbers.schema.names):
        values = numbers.column(i).slice(0, show)
        if widths is not None and name in with_bars:
            columns[name] = _cells(values, widths.column(i).slice(0, show))
        else:
            columns[name] = [_plain(value) for value in values.to_pylist()]
    console.print()
    for part in _fold({}, columns, console.width):
        console.print(_lying({}, part))
        console.print()
    _tell_more(console, numbers, show, "rows")


def _tell_more(console: Console, numbers: pa.Table, show: int, what: str) -> None:
    if numbers.num_rows > show:
        console.print(
            f"The first {show:,} of {numbers.num_rows:,} {what}. --show N prints more, --output "
            "PATH keeps all.\n",
            style="italic",
        )


def _plain(value: Any) -> Text:
    return Text(f"{value:,.6g}") if isinstance(value, float) else _key(value)


def _cells(values: pa.ChunkedArray, errors: pa.ChunkedArray) -> list[Text]:
    if hasattr(values.type, "list_size"):
        return [_entries(*pair) for pair in zip(values.to_pylist(), errors.to_pylist(), strict=True)]
    cells = format_measured(values.to_pylist(), errors.to_pylist())
    numbers = iter(align_values([one for one in cells if isinstance(one, Shown)]))
    return [_number(next(numbers)) if isinstance(one, Shown) else Text(one) for one in cells]


def _entries(values: Sequence[float], errors: Sequence[float]) -> Text:
    """Return the first rows of a printed table."""
    found = shown(values[:FIRST_ENTRIES], errors[:FIRST_ENTRIES])
    text = Text(", ").join(_number(s) for s in found)
    return text.append(f", … ({len(values):,} entries)") if len(values) > FIRST_ENTRIES else text


def _number(s: Shown) -> Text:
    return Text.assemble(s.value, (f" ± {s.error}", "dim"))


def _key(value: Any) -> Text:
    if value is None or value is ALL:
        return Text("NULL" if value is None else str(ALL), style="dim italic")
    text = visible(str(value))
    return Text(text or "''", style=KEY_STYLE if text else "dim italic")


def _standing(columns: dict[str, list[Text]]) -> Table:
    """Return a single printed row without keys as one line for each number."""
    table = _empty_table()
    table.add_column("", no_wrap=False)
    table.add_column("", no_wrap=True)
    for name, cells in columns.items():
        for cell in cells:
            table.add_row(Text(visible(name), style=KEY_STYLE), cell)
    table.show_header = False
    return table


def _lying(keys: dict[str, list[Text]], columns: dict[str, list[Text]]) -> Table:
    table = _empty_table()
    for name in keys:
        table.add_column(Text(visible(name)), overflow="fold", max_width=WIDEST_KEY)
    for name in columns:
        table.add_column(Text(visible(name)), justify="right", overflow="fold")
    for row in zip(*keys.values(), *columns.values(), strict=True):
        table.add_row(*row)
    return table


def _empty_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold cyan")


def _fold(
    keys: dict[str, list[Text]], columns: dict[str, list[Text]], width: int
) -> Iterator[dict[str, list[Text]]]:
    """Split the columns of a printed table into parts that fit the terminal beside the keys."""
    room = width - sum(min(_width(n, c), WIDEST_KEY) + GAP for n, c in keys.items())
    part: dict[str, list[Text]] = {}
    used = 0
    for name, cells in columns.items():
        need = _width(name, cells)
        if part and used + need > room:
            yield part
            part, used = {}, 0
        part[name] = cells
        used += need + GAP
    yield part


def _width(name: str, cells: Sequence[Text]) -> int:
    return max([cell_len(visible(name)), *(c.cell_len for c in cells)])


def caption(release: Release, groups: int, bars: Bars | None, selected: Sequence[str] = ()) -> Table:
    """Return the caption under a printed table: cost, noise and the meaning of error bars.

    Args:
        release: whose groups are printed, or are in the SQL around it.
        groups: how many there are.
        bars: the error bars; None without any.
        selected: a note on rows that noisy numbers select.
    """
    notes = [*release.plan.notes, *selected, *release.hints]
    return facts(
        [*release_facts(release, groups, bars, "--diagnostics"), *(("note", note) for note in notes)]
    )


def facts(said: Sequence[tuple[str, str]]) -> Table:
    """Return labelled lines for the caption under a printed table."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="cyan", no_wrap=True)
    lines.add_column()
    for about, sentence in said:
        lines.add_row(about, Text(visible(sentence)))
    return lines


def caption_of_many(whole: ProcessedRelease) -> Table:
    """Return the caption under a table of several releases: the cost of each and of all."""
    releases = whole._releases
    said = [("spent", cost(whole, f": the sums of those of {len(releases)} releases"))]
    notes = dict.fromkeys(whole._selected)
    for i, release in enumerate(releases, 1):
        content = release.explain().to_dict()
        (own_epsilon, own_delta), unit = release.spent, content["privacy_unit"]
        own = [f"epsilon {own_epsilon:g}, delta {own_delta:g}, for each {unit} (the privacy unit)"]
        said.append((f"release {i}", "; ".join([*own, *_caption_lines(release)])))
        said += [("found", str(found)) for found in release.found]
        notes |= dict.fromkeys([*content["notes"], *release.hints])
    said += error_bars(whole, None, "--diagnostics")
    return facts([*said, *(("note", note) for note in notes)])


def noise_and_groups(release: Release) -> list[str]:
    """Return the noise and the groups of a release for the caption of its printed table."""
    content, said = release.explain().to_dict(), [f"{noise_title(release.plan.noise.name)} noise"]
    if content["group_by"]:
        said.append(f"groups: {describe_groups(content, release.to_arrow().num_rows)}")
    return said


def check_largest(release: NoisyTable, plot: bool, errors: bool, preview: bool) -> None:
    """Refuse options that make no sense for printing the largest groups, before anything is drawn.

    Raises:
        QueryError: a preview; or a chart or error bars of numbers that are left out.
    """
    largest = [one for one in getattr(release, "_releases", (release,)) if isinstance(one, TopRelease)]
    if preview and largest:
        raise QueryError("--preview: the largest groups are not known beforehand. --dry-run shows the noise")
    if (plot or errors) and not all(one.measured for one in largest):
        given = "--plot" if plot else "--errors"
        raise QueryError(
            f"{given}: counts => FALSE leaves out the numbers that it is for. Leave one of the two out"
        )


def half_widths(release: TopRelease, bars: Bars) -> pa.Table | None:
    """Return half-widths of error bars to print with the largest groups; None without counts."""
    if not release.measured:
        return None
    return bars._widths(release)


def print_largest(
    console: Console,
    release: TopRelease,
    numbers: pa.Table,
    widths: pa.Table | None,
    bars: Bars,
    show: int,
) -> None:
    """Print the table of the largest groups in the order drawn, then its caption.

    Args:
        console: where to.
        release: for what is said below the table.
        numbers, widths: `release.to_arrow()`, and half-widths of error bars, if there are any.
        bars: the error bars that these are.
        show: the most groups to print.
    """
    print_computed(console, numbers, widths, [release.question.measured], show)
    console.print(caption_of_largest(release, numbers.num_rows, None if widths is None else bars))


def caption_of_largest(
    release: TopRelease, groups: int, bars: Bars | None, selected: Sequence[str] = ()
) -> Table:
    """Return the caption under the printed largest groups: cost, selection and error bars.

    Args:
        release: of the largest groups.
        groups: how many of them there are.
        bars: the error bars; None without any.
        selected: a note on rows that noisy numbers select.
    """
    notes = [("note", note) for note in [*release.explain().notes, *selected]]
    return facts([*top_facts(release, groups, bars), *notes])


def is_processed(release: NoisyTable) -> bool:
    """Whether a release is post-processed, which can fail, so that it is printed and not streamed."""
    return isinstance(release, ProcessedRelease)


def check_processed(release: NoisyTable, plot: bool, errors: bool) -> None:
    """Refuse options that make no sense for printing a post-processed table, before anything is drawn.

    Raises:
        QueryError: a chart, or error bars that are not known.
    """
    if not isinstance(release, ProcessedRelease):
        return
    if plot and not release._drawable:
        raise QueryError(
            "--plot draws groups with their released aggregates, not SQL that computes with them. "
            "Leave --plot out, or write --output and plot that"
        )
    if errors and not release._followed:
        raise QueryError(f"--{NOT_FOLLOWED.rpartition(',')[0]}")


def answers(release: NoisyTable, console: Console, bars: Bars, show: int) -> tuple[pa.Table, pa.Table | None]:
    """Return the numbers to print and half-widths of their error bars, if there are any.

    Where computing with noisy numbers fails, or a later release, the noisy tables are printed: they are paid
    for.

    Raises:
        SqlError, EngineError: computing failed, or a release.
    """
    if not isinstance(release, ProcessedRelease):
        return release.to_arrow(), _widths(release, bars)
    try:
        return release.to_arrow(), _widths(release, bars)
    except (SqlError, EngineError):
        for noisy in (one for one in release._releases if one.drawn):
            print_any(console, noisy, noisy.to_arrow(), _widths(noisy, bars), bars, show)
        raise


def _widths(release: NoisyTable, bars: Bars) -> pa.Table | None:
    """Return half-widths of error bars to print with a release, if it has any."""
    if isinstance(release, TopRelease):
        return half_widths(release, bars)
    if isinstance(release, ProcessedRelease) and not (release._followed and release.measured):
        return None
    return bars._widths(release)


def print_any(
    console: Console,
    release: NoisyTable,
    numbers: pa.Table,
    widths: pa.Table | None,
    bars: Bars,
    show: int,
) -> None:
    """Print any released table: ordinary, post-processed or of the largest groups."""
    if isinstance(release, TopRelease):
        print_largest(console, release, numbers, widths, bars, show)
        return
    if isinstance(release, Release):
        assert widths is not None
        print_table(console, release, numbers, widths, bars, show)
        return
    assert isinstance(release, ProcessedRelease)
    print_computed(console, numbers, widths, release.measured, show)
    if len(release._releases) > 1:
        console.print(caption_of_many(release))
        return
    (one,) = release._releases
    groups = one.to_arrow().num_rows
    if isinstance(one, TopRelease):
        console.print(caption_of_largest(one, groups, None if widths is None else bars, release._selected))
        return
    console.print(caption(one, groups, None if widths is None else bars, release._selected))


def _caption_lines(release: Release | TopRelease) -> list[str]:
    """Return the noise and the groups of any release for the caption of its printed table."""
    if isinstance(release, Release):
        return noise_and_groups(release)
    noise = [f"{law.title} noise" for law in release.plan.laws.values()]
    return [*noise, f"groups: {describe_largest(release, release.to_arrow().num_rows)}"]


def print_explanation(
    console: Console, explanation: Explanation | TopExplanation, notes: bool = True
) -> None:
    """Print the explanation of a release: its steps, a table of noisy statistics, and its notes.

    Args:
        console: where to.
        explanation: of a release.
        notes: whether to print its notes, which a caption has too.
    """
    if isinstance(explanation, TopExplanation):
        console.print(Text("How the answer is made", style="bold"))
        console.print(_numbered(explanation.steps, 1))
        for note in explanation.notes if notes else ():
            console.print(Text(f"Note: {visible(note)}"))
        return
    if explanation.total_cost:
        for i, one in enumerate(explanation.releases, 1):
            console.print(Text(f"Release {i} of {len(explanation.releases)}", style="bold"))
            print_explanation(console, one, notes)
            console.print()
        for sentence in explanation.total_cost:
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
    for note in [*explanation.to_dict()["notes"], *explanation.left_out] if notes else ():
        console.print(Text(f"Note: {visible(note.replace(REMEDY, '--diagnostics'))}"))


def _noisy_numbers(explanation: Explanation) -> Table:
    """Return the printed table of an explanation's noisy statistics: bounds, noise and budget share."""
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
    """Return an explanation's steps as a printed list with numbers."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", style="cyan", no_wrap=True)
    grid.add_column()
    for number, step in enumerate(steps, first):
        grid.add_row(f"{number}.", Text(visible(step)))
    return grid


def print_diagnostics(console: Console, release: NoisyTable, confidence: float) -> None:
    """Print the diagnostics of a release: one line for each limit and bound.

    Args:
        console: where to.
        release: its table is printed; of several private SELECTs each has its own.
        confidence: of the error bars.
    """
    parts: Any = getattr(release, "_releases", (release,))
    for i, one in enumerate(parts, 1):
        told = getattr(one, "diagnostics", None)  # the largest groups have none
        if told is None:
            continue
        with Watch("Running preliminary queries for limits and bounds"):
            sentences = told.sentences(confidence)
        lines = Table.grid(padding=(0, 2))
        lines.add_column(style="cyan", no_wrap=True)
        lines.add_column()
        for sentence in sentences:
            lines.add_row("limits" if len(parts) == 1 else f"limits {i}", Text(visible(sentence)))
        console.print(lines)


def print_preview(console: Console, release: NoisyTable, confidence: float, plot: Path | None) -> None:
    """Print the expected errors of a preview: three group sizes, half, all and twice the budget.

    Args:
        console: where to.
        release: not drawn; of several private SELECTs each is shown.
        confidence: of the error bars.
        plot: where to draw the first one, if anywhere.
    """
    from sfumato.guidance.preview import list_plans, make_preview

    parts: Any = getattr(release, "_releases", (release,))
    for i, one in enumerate(parts):
        plan = one.plan
        budgets = [plan.epsilon * times for times in map(Fraction, _TIMES)]
        with Watch("Simulating groups"):
            plans = list_plans(plan.query, budgets, {"delta": plan.delta})
            found = make_preview(plan.query, one._engine, plans, _UNITS, 1, confidence)
        console.print(str(found), highlight=False, soft_wrap=True)
        console.print("\nPreview: no row was read, nothing was spent.")
        if plot is not None and i == 0:
            found.plot(plot)
