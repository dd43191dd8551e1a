"""The noisy table on the terminal, with what it cost and what its error bars mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sfumato.display.numbers import Shown, aligned, shown
from sfumato.display.text import visible
from sfumato.query.bars import Bars
from sfumato.query.cards.released import cost, error_bars, groups_told, release_facts
from sfumato.query.choices import titled
from sfumato.query.keys import ALL, shown_keys

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.query.processed import ProcessedRelease
    from sfumato.query.released.release import Release
    from sfumato.query.top.release import TopRelease

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
    """Print the groups and their numbers, then what they mean.

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
    console: Console, numbers: pa.Table, widths: pa.Table | None, measured: Sequence[str], show: int
) -> None:
    """Print a table that was computed with a released one.

    Args:
        console: where to.
        numbers: the table.
        widths: half-widths of error bars, in the same places, or None.
        measured: the columns that have some.
        show: the most rows to print.
    """
    columns: dict[str, list[Text]] = {}
    for i, name in enumerate(numbers.schema.names):
        values = numbers.column(i).slice(0, show)
        if widths is not None and name in measured:
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
            f"The first {show:,} of {numbers.num_rows:,} {what}; --show N prints more, "
            "--output PATH keeps all.\n",
            style="italic",
        )


def _plain(value: Any) -> Text:
    return Text(f"{value:,.6g}") if isinstance(value, float) else _key(value)


def _cells(values: pa.ChunkedArray, errors: pa.ChunkedArray) -> list[Text]:
    if hasattr(values.type, "list_size"):
        return [_entries(*pair) for pair in zip(values.to_pylist(), errors.to_pylist(), strict=True)]
    column = aligned(shown(values.to_pylist(), errors.to_pylist()))
    return [_number(s) for s in column]


def _entries(values: Sequence[float], errors: Sequence[float]) -> Text:
    """Return the first entries of a list."""
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
    """One group without a key: a line for each number."""
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
    """Cut the columns into parts that fit beside the keys; each part has at least one."""
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


def caption(release: Release, groups: int, bars: Bars | None) -> Table:
    """Say what a release cost, how it was made, and what its error bars mean, if there are any."""
    notes = [*release.plan.notes, *release.hints]
    return facts(
        [*release_facts(release, groups, bars, "--diagnostics"), *(("note", note) for note in notes)]
    )


def facts(said: Sequence[tuple[str, str]]) -> Table:
    """Return lines of what each is about, and a sentence."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="cyan", no_wrap=True)
    lines.add_column()
    for about, sentence in said:
        lines.add_row(about, Text(visible(sentence)))
    return lines


def caption_of_many(whole: ProcessedRelease, told: Callable[[Release | TopRelease], Sequence[str]]) -> Table:
    """Say what several releases cost, each and together, and how each was made, which `told` tells."""
    releases = whole.releases
    said = [("spent", cost(whole, f": the sums of those of {len(releases)} releases"))]
    notes = dict[str, None]()
    for i, release in enumerate(releases, 1):
        content = release.explain().to_dict()
        (own_epsilon, own_delta), unit = release.spent, content["privacy_unit"]
        own = [f"epsilon {own_epsilon:g}, delta {own_delta:g}, for each {unit} (the privacy unit)"]
        said.append((f"release {i}", "; ".join([*own, *told(release)])))
        said += [("found", str(found)) for found in release.found]
        notes |= dict.fromkeys([*content["notes"], *release.hints])
    said += error_bars(whole, None, "--diagnostics")
    return facts([*said, *(("note", note) for note in notes)])


def noise_and_groups(release: Release) -> list[str]:
    """Say in a few words with what noise a release was drawn, and of which groups."""
    content, said = release.explain().to_dict(), [f"{titled(release.plan.noise.name)} noise"]
    if content["group_by"]:
        said.append(f"groups: {groups_told(content, release.to_arrow().num_rows)}")
    return said
