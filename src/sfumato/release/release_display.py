"""Rich display of releases: the first rows with their error bars, and facts about cost, noise and bias."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.display.cards import Card, Cell, Facts, Rows, Sentences, cell
from sfumato.display.formatting import price, shown
from sfumato.query.error_bars import REMEDY, Bars
from sfumato.query.group_totals import ALL, shown_keys
from sfumato.query.option_names import noise_title

if TYPE_CHECKING:
    from sfumato.query.query import Query
    from sfumato.release.noisy_table import NoisyTable
    from sfumato.release.processed_release import ProcessedRelease
    from sfumato.release.release import Release
    from sfumato.release.top_release import TopRelease


MAX = 20  # rows that are shown
MAX_BARS = 5_000  # rows of which error bars are computed to show some
FIRST_ENTRIES = 3  # of a list
WAITING = (
    "Its noise is not drawn yet, and this display does not draw it: to_pandas(), frame(errors=True), "
    "plot() or write(...) reads the rows and draws it, once. Its cost was charged when it was made."
)
_WRITTEN = "It was written to a file while it was drawn, and to_pandas() reads it back."


def release_card(release: NoisyTable, facts: Sequence[tuple[str, str]], keys: Sequence[str]) -> Card:
    """Return the rich display of a release: first rows and facts, or that it is not drawn yet.

    Args:
        release: any; nothing is drawn.
        facts: what is said below the numbers.
        keys: its columns that are no numbers of the release.
    """

    title = f"{type(release).__name__}: {price(*release.spent)}"
    warning = "Of dummy rows: an answer about nobody." if release._engine.made_up else ""
    table = release.made
    if table is None:
        return Card(title, [Sentences([WAITING if not release.drawn else _WRITTEN]), Facts(facts)], warning)
    return Card(title, [_numbers(release, table, keys), Facts(facts)], warning)


def release_facts(
    release: Release, groups: int | None, bars: Bars | None, remedy: str = REMEDY
) -> list[tuple[str, str]]:
    """Return the displayed facts about a release: cost, noise, groups, error bars, bias.

    Args:
        release: of groups.
        groups: how many there are; None where that was not drawn yet.
        bars: the error bars beside the numbers; None without any.
        remedy: how `diagnostics=0.05` is written there.
    """
    plan = release.plan
    content = plan.explain().to_dict()
    found = [
        ("spent", cost(release, f", for each {content['privacy_unit']} (the privacy unit) with all its rows"))
    ]
    found += [("found", str(one)) for one in release.found]
    found.append(("noise", f"{noise_title(plan.noise.name)}, exactly rounded, drawn once"))
    if content["group_by"] and groups is not None:
        found.append(("groups", describe_groups(content, groups)))
    return found + error_bars(release, bars, remedy)


def top_facts(release: TopRelease, groups: int | None, bars: Bars | None) -> list[tuple[str, str]]:
    """Return the displayed facts about a release of the largest groups: cost, noise, error bars.

    Args:
        release: of the largest groups.
        groups, bars: as of `release_facts`.
    """
    plan, question = release.plan, release.question
    found = [("spent", cost(release, f", for each {question.unit} (the privacy unit) with all its rows"))]
    if groups is not None:
        found.append(("groups", describe_largest(release, groups)))
    if plan.laws:
        found.append(
            ("noise", f"{noise_title(plan.noise.name)}, exactly rounded, drawn once for these groups")
        )
    return found + error_bars(release, bars)


def processed_facts(release: ProcessedRelease) -> list[tuple[str, str]]:
    """Return the displayed facts about a processed release: cost and SQL."""
    many = len(release._releases)
    what = "" if many == 1 else f": the sums of those of {many} releases"
    return [("spent", cost(release, what)), ("computed", release._computation.text)]


def cost(release: NoisyTable, what: str) -> str:
    """Return what a release has spent, for display; for dummy rows, what it would spend."""
    epsilon, delta = release.spent
    text = f"epsilon {epsilon:g}, delta {delta:g}{what}"
    return f"NOTHING, as the rows are dummy rows; for real rows {text}" if release._engine.made_up else text


def error_bars(release: NoisyTable, bars: Bars | None, remedy: str = REMEDY) -> list[tuple[str, str]]:
    """Return the displayed facts about error bars and bias of a release.

    Args:
        release: whose numbers they are.
        bars: the error bars beside the numbers; None without any.
        remedy: how `diagnostics=0.05` is written there.
    """
    found = [] if bars is None else [("±", bars.describe(release.bias))]
    return [*found, ("bias", release.bias.describe(remedy))] if release.bias else found


def describe_largest(release: TopRelease, groups: int) -> str:
    """Return how many largest groups a release has, and how they were drawn, for display."""
    question = release.question
    found = f"{groups:,} of the {question.k:,} asked for, by {question.measured}, in the order drawn"
    return f"{found}; they are {'public' if question.candidates is None else 'private'}"


def describe_groups(content: dict[str, Any], groups: int) -> str:
    """Return how many groups a release shows, and how they were chosen, for display.

    Args:
        content: of an explanation.
        groups: how many are shown.
    """
    selection = content["selection"]
    if selection is None:
        return f"{groups:,} shown: all, as they are public"
    half = f"{selection['kept_half_the_time_at_units']:,}"
    if groups:
        how = f"a group of {half} units has an even chance of being shown"
        return f"{groups:,} shown, chosen privately: {how}"
    limit = "max_rows_contributed" if "rows_per_unit" in content["limits"] else "max_groups_contributed"
    lower = "" if content["limits"]["beyond"] == "share" else f", or lower {limit}"
    return (
        f"none shown: a group needs about {half} units for an even chance of being shown. "
        f"Use larger groups, a larger epsilon or delta{lower}"
    )


def get_bars(release: NoisyTable) -> pa.Table | None:
    """Return half-widths of error bars to display with a release; None if it has none."""
    return release.errors(release.bars.confidence) if release.measured else None


def _numbers(release: NoisyTable, table: pa.Table, keys: Sequence[str]) -> Rows:
    """Display the first rows of a release: keys as they are, numbers with their error bars."""
    few = table.num_rows <= MAX_BARS
    widths = get_bars(release) if few else None
    first = table.slice(0, MAX)
    columns = dict(iter_columns(release, first, None if widths is None else widths.slice(0, MAX)))
    beyond = []
    if table.num_rows > MAX:
        beyond.append(f"The first {MAX:,} of {table.num_rows:,} rows; to_pandas() has all.")
    if not few and release.measured:
        beyond.append("frame(errors=True) shows error bars with these numbers.")
    if not any(name in keys for name in columns) and first.num_rows == 1:
        # One group without a key: a line for each number.
        return Rows(["", ""], [[name, cells[0]] for name, cells in columns.items()])
    left = sum(name in keys for name in columns)
    rows = list(zip(*columns.values(), strict=True))
    return Rows(list(columns), rows, left=left, beyond=" ".join(beyond))


def iter_columns(
    release: NoisyTable, table: pa.Table, widths: pa.Table | None
) -> Iterator[tuple[str, Sequence[Cell]]]:
    """Yield the name and the cells of each displayed column of a release.

    Args:
        release: for what its columns are.
        table: some of its rows.
        widths: half-widths of error bars of these rows, in the same places, if any.
    """
    query: Query | None = release._query
    keys = {} if query is None else shown_keys(query, table)
    for name, values in keys.items():
        yield name, [str(ALL) if value is ALL else cell(value) for value in values]
    beside = {f"{name}_error" for name in release.measured}
    for place, name in enumerate(table.column_names):
        if query is not None and place < len(query.shown_keys):
            continue
        if widths is not None and name in beside and name not in widths.column_names:
            continue
        values = table.column(place).to_pylist()
        if widths is None or name not in release.measured:
            yield name, [_plain(value) for value in values]
        else:
            yield name, format_measured(values, widths[name].to_pylist())


def format_measured(values: Sequence[Any], errors: Sequence[Any]) -> list[Cell]:
    """Display values with their error bars; of lists the first entries."""
    if values and isinstance(values[0], list):
        return [_entries(v, e) for v, e in zip(values, errors, strict=True)]
    known = [i for i, pair in enumerate(zip(values, errors, strict=True)) if None not in pair]
    cells: list[Cell] = [cell(value) for value in values]
    for i, one in zip(known, shown([values[i] for i in known], [errors[i] for i in known]), strict=True):
        cells[i] = one
    return cells


def _entries(values: Sequence[float], errors: Sequence[float]) -> str:
    first = shown(values[:FIRST_ENTRIES], errors[:FIRST_ENTRIES])
    text = ", ".join(f"{one.value} ± {one.error}" for one in first)
    return f"{text}, … ({len(values):,} entries)" if len(values) > FIRST_ENTRIES else text


def _plain(value: Any) -> str:
    if isinstance(value, list):
        more = f", … ({len(value):,} entries)" if len(value) > FIRST_ENTRIES else ""
        return ", ".join(map(cell, value[:FIRST_ENTRIES])) + more
    return cell(value)


def far_card(
    table: pa.Table,
    widths: Mapping[str, pa.ChunkedArray],
    keys: Collection[str],
    facts: Sequence[tuple[str, str]],
    hints: Sequence[str],
    spent: tuple[float, float],
    *,
    dummy: bool,
) -> Card:
    """Return the rich display of a release that a service made.

    Args:
        table: the answer.
        widths: half-widths of its error bars, by column.
        keys: its columns that say which group a row is.
        facts: what is said below the numbers.
        hints: what the noisy numbers say of the question.
        spent: what it has cost.
        dummy: whether its rows were made up.
    """
    first = table.slice(0, MAX)
    columns: dict[str, Sequence[Cell]] = {}
    for name in table.column_names:
        values = first[name].to_pylist()
        if name in widths:
            columns[name] = format_measured(values, widths[name].slice(0, MAX).to_pylist())
        else:
            columns[name] = [cell(value) for value in values]
    more = table.num_rows > MAX
    beyond = f"The first {MAX:,} of {table.num_rows:,} rows; to_pandas() has all." if more else ""
    left = sum(name in keys for name in columns)
    rows = Rows(list(columns), list(zip(*columns.values(), strict=True)), left=left, beyond=beyond)
    warning = "Of dummy rows: an answer about nobody." if dummy else ""
    notes = Sentences([f"Note: {hint}" for hint in hints]) if hints else None
    return Card(f"RemoteRelease: {price(*spent)}", [rows, Facts(facts), notes], warning)
