"""Rich display of tables, questions, plans, explanations and releases."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sfumato.display.cards import Card, Cell, Facts, Part, Rows, Sentences, Steps, cell
from sfumato.display.formatting import exact, shown, visible
from sfumato.query.bars import REMEDY, Bars
from sfumato.query.choices import titled
from sfumato.query.engine import BroughtKeys
from sfumato.query.group_totals import ALL, shown_keys
from sfumato.query.schema import Derive, Filter, Schema, Step

if TYPE_CHECKING:
    from sfumato.api.largest_groups import Top, TopExplanation
    from sfumato.api.question import Question
    from sfumato.api.table import Table
    from sfumato.plan.plan import Plan
    from sfumato.query.explanation import Explanation
    from sfumato.query.query import Query
    from sfumato.query.tables.public_table import PublicTable
    from sfumato.release.noisy_table import NoisyTable
    from sfumato.release.processed_release import ProcessedRelease
    from sfumato.release.release import Release
    from sfumato.release.top_release import TopRelease


def plan_card(plan: Plan[Any, Any]) -> Card:
    """Return what a plan does and would cost."""
    return Card(
        f"Plan: {plan.query.told}; it would cost {price(*plan.spent)}",
        [Sentences(["Nothing was read or spent for this."]), *plan.explain()._card().parts],
    )


def explanation_card(explanation: Explanation) -> Card:
    """Return the steps of a release; of several, those of each."""
    title = f"How the answer is made, for {price(*explanation.spent)}"
    if not explanation.together:
        return Card(title, _explained(explanation))
    parts: list[Part | None] = []
    for i, one in enumerate(explanation.releases, 1):
        parts += [Sentences([f"Release {i} of {len(explanation.releases)}"]), *_explained(one)]
    return Card(title, [*parts, Sentences(explanation.together)])


def top_explanation_card(explanation: TopExplanation) -> Card:
    """Return the steps of a release of the largest groups."""
    plan = explanation.plan
    title = f"How the answer is made, for {price(plan.epsilon, plan.delta)}"
    return Card(title, [Steps(explanation.steps), Sentences([f"Note: {note}" for note in explanation.notes])])


def price(epsilon: Fraction | float, delta: Fraction | float) -> str:
    """Write a budget.

    >>> from fractions import Fraction
    >>> price(Fraction(1, 3), Fraction(1, 10**6))
    'epsilon 1/3, delta 1e-06'
    """
    return f"epsilon {exact(epsilon)}, delta {exact(delta)}"


def _explained(explanation: Explanation) -> list[Part | None]:
    before, after = explanation.steps
    names = ["number", "bounds", "noise (σ)", "budget", "used for"]
    numbers = [[what, within, noise, share, used] for what, within, noise, share, used in explanation.numbers]
    notes = [f"Note: {note}" for note in [*explanation.content.get("notes", ()), *explanation.left_out]]
    return [
        Steps(before),
        Rows(names, numbers, left=5) if numbers else None,
        Steps(after, len(before) + 1),
        Sentences(notes) if notes else None,
    ]


_MOST = 40  # columns
# What is written into a folder, whose pattern an engine has for each folder in it; glob escapes in brackets.
_OF_A_FOLDER, _ESCAPED = re.compile(r"(?s)(.*)/\*\.[a-z0-9.]+\*$"), re.compile(r"\[([*?[])\]")
_FREE = "Nothing was read or spent for this."


def table_card(table: Table[Any]) -> Card:
    """Return the columns of a private table, and what is said of its rows so far."""
    schema = table.schema
    roles = {table.unit: "privacy unit"} | dict.fromkeys(table.keys, "grouped by")
    return Card(
        f"Private table {_source(table._engine)}",
        [_columns(schema, roles), Facts(_done(table)), Sentences([*table.notes, _FREE])],
    )


def public_card(table: PublicTable) -> Card:
    """Return the columns of a public table."""
    return Card(
        f"Public table {_source(table._engine)}",
        [_columns(table.schema, {}), Facts(_steps(table._steps)), Sentences(table.notes)],
    )


def question_card(question: Question[Any]) -> Card:
    """Return what is asked of each group, within which limits."""
    table = question.table
    derived = {s.name: s.expression for s in table._steps if isinstance(s, Derive)}
    rows = [
        [name, asked.meaning(derived), ", ".join(asked.outputs(name))] for name, asked in question.aggregates
    ]
    next_step = "It costs when it is released: .plan(epsilon=...) and .preview(epsilon=...) are free."
    return Card(
        f"Question: {question.told}",
        [
            Rows(["name", "what is asked", "columns"], rows, left=3),
            Facts([("of", f"private table {_source(table._engine)}"), *_done(table)]),
            Sentences([*table.notes, f"{_FREE} {next_step}"]),
        ],
    )


def top_card(question: Top) -> Card:
    """Return which largest groups are asked for."""
    facts = [
        ("of", f"private table {_source(question._engine)}"),
        ("privacy unit", question.unit),
        *_steps(question._steps),
        ("groups", ", ".join(question.keys)),
        ("largest by", f"different {question.unit}" if question.by is None else question.by.meaning({})),
    ]
    return Card(
        f"Question: the {question.k:,} largest groups by {', '.join(question.keys)}",
        [Facts(facts), Sentences([*question.notes, _FREE])],
    )


def told_table(table: Table[Any]) -> str:
    """Say in a line what a table is, and what is done with it."""
    said = [f"{about} {text}" for about, text in _done(table)]
    return visible("; ".join([f"<Table {_source(table._engine)}: {len(table.schema)} columns", *said]) + ">")


def told_public(table: PublicTable) -> str:
    """Say in a line what a public table is, and what is done with it."""
    said = [f"{about} {text}" for about, text in _steps(table._steps)]
    columns = f"{len(table.schema)} columns"
    return visible("; ".join([f"<PublicTable {_source(table._engine)}: {columns}", *said]) + ">")


def _source(engine: Any) -> str:
    """Say where rows come from: by names in a catalog, or else by files without their folders."""
    if engine.titles:
        return f"{', '.join(engine.titles)} (read with {engine.name})"
    # An address of a database has a user, perhaps a password.
    paths = [path for path in engine.files if "://" not in path]
    folders = {path: found[1] for path in paths if (found := _OF_A_FOLDER.match(path))}
    # The outermost ones alone: how many folders of values there are, as year=2024, rows tell.
    inside = {a for a in folders.values() if any(a.startswith(f"{b}/") for b in folders.values())}
    read_from = [folders.get(path, path) for path in paths if folders.get(path) not in inside]
    names = [_ESCAPED.sub(r"\1", one) for one in dict.fromkeys(re.split(r"[/\\]", p)[-1] for p in read_from)]
    read = f"read with {engine.name}"
    return f"{', '.join(names[:3])}{', …' if len(names) > 3 else ''} ({read})" if names else f"({read})"


def _columns(schema: Schema, roles: dict[str, str]) -> Rows:
    shown = list(schema.items())[:_MOST]
    more = f"and {len(schema) - _MOST:,} more columns" if len(schema) > _MOST else ""
    rows = [[name, column.type_name, roles.get(name, "")] for name, column in shown]
    return Rows(["column", "type", ""], rows, left=3, beyond=more)


def _steps(steps: Sequence[Step]) -> list[tuple[str, str]]:
    return [
        ("keep rows where", s.expression)
        if isinstance(s, Filter)
        else ("compute", f"{s.name} = {s.expression}")
        for s in steps
    ]


def _done(table: Table[Any]) -> list[tuple[str, str]]:
    """Return what is said of rows, in order: whose they are, steps, groups, limits."""
    parts = [part.text for part in table._unit_parts]
    found = [("privacy unit", ", ".join(parts) or table.unit), *_steps(table._steps)]
    if table.keys:
        public = table._public_keys
        how = "chosen privately"
        if isinstance(public, BroughtKeys):
            how = "public"
        elif public is not None:
            how = f"{public.num_rows:,} public groups"
        found.append(("group by", f"{', '.join(table.keys)} ({how})"))
    limits = [
        f"{name}={'auto' if name in table._auto_limits else f'{limit:,}'}"
        for name, limit in (("groups", table.groups), ("rows", table.rows), ("total_rows", table.total_rows))
        if limit is not None
    ]
    return [*found, ("limits", ", ".join(limits))] if limits else found


MOST = 20  # rows that are shown
MOST_BARS = 5_000  # rows of which error bars are computed to show some
FIRST_ENTRIES = 3  # of a list
WAITING = (
    "Its noise is not drawn yet, and showing it draws none: to_pandas(), frame(errors=True), plot() or "
    "write(...) reads the rows and draws it, once. What it costs was settled when it was made."
)


def release_card(release: NoisyTable, facts: Sequence[tuple[str, str]], keys: Sequence[str]) -> Card:
    """Return the numbers of a release that was drawn, or that it was not, and what is said of it.

    Args:
        release: any; nothing is drawn.
        facts: what is said below the numbers.
        keys: its columns that are no numbers of the release.
    """

    title = f"{type(release).__name__}: {price(*release.spent)}"
    warning = "Of made-up rows: an answer about nobody." if release._engine.made_up else ""
    table = release.made
    if table is None:
        return Card(title, [Sentences([WAITING if not release.drawn else _WRITTEN]), Facts(facts)], warning)
    return Card(title, [_numbers(release, table, keys), Facts(facts)], warning)


_WRITTEN = "It was written to a file as it was drawn, which to_pandas() reads back."


def release_facts(
    release: Release, groups: int | None, bars: Bars | None, remedy: str = REMEDY
) -> list[tuple[str, str]]:
    """Say what a release cost, how it was made, and what its error bars mean.

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
    found.append(("noise", f"{titled(plan.noise.name)}, exactly rounded, drawn once"))
    if content["group_by"] and groups is not None:
        found.append(("groups", groups_told(content, groups)))
    return found + error_bars(release, bars, remedy)


def top_facts(release: TopRelease, groups: int | None, bars: Bars | None) -> list[tuple[str, str]]:
    """Say what the largest groups cost, how they were drawn, and what their error bars mean.

    Args:
        release: of the largest groups.
        groups, bars: as of `release_facts`.
    """
    plan, question = release.plan, release.question
    found = [("spent", cost(release, f", for each {question.unit} (the privacy unit) with all its rows"))]
    if groups is not None:
        found.append(("groups", largest_told(release, groups)))
    if plan.laws:
        found.append(("noise", f"{titled(plan.noise.name)}, exactly rounded, drawn once for these groups"))
    return found + error_bars(release, bars)


def processed_facts(release: ProcessedRelease) -> list[tuple[str, str]]:
    """Say what releases cost together, and what was computed with them."""
    many = len(release._releases)
    what = "" if many == 1 else f": the sums of those of {many} releases"
    return [("spent", cost(release, what)), ("computed", release._computation.text)]


def cost(release: NoisyTable, what: str) -> str:
    """Say what a release has spent, and what for; of made-up rows, what it would."""
    epsilon, delta = release.spent
    text = f"epsilon {epsilon:g}, delta {delta:g}{what}"
    return f"NOTHING, as the rows are made up; of real rows {text}" if release._engine.made_up else text


def error_bars(release: NoisyTable, bars: Bars | None, remedy: str = REMEDY) -> list[tuple[str, str]]:
    """Say what error bars cover, where there are some, and whether limits and bounds may bias the numbers.

    Args:
        release: whose numbers they are.
        bars: the error bars beside the numbers; None without any.
        remedy: how `diagnostics=0.05` is written there.
    """
    found = [] if bars is None else [("±", bars.told(release.bias))]
    return [*found, ("bias", release.bias.told(remedy))] if release.bias else found


def largest_told(release: TopRelease, groups: int) -> str:
    """Say how many groups there are, and how they were drawn."""
    question = release.question
    found = f"{groups:,} of the {question.k:,} asked for, by {question.measured}, in the order drawn"
    return f"{found}; they are {'public' if question.candidates is None else 'private'}"


def groups_told(content: dict[str, Any], groups: int) -> str:
    """Say how many groups are shown, and how they were chosen.

    Args:
        content: of an explanation.
        groups: how many are shown.
    """
    selection = content["selection"]
    if selection is None:
        return f"{groups:,} shown: all, as they are public"
    half = f"{selection['kept_half_the_time_at_units']:,}"
    if groups:
        return f"{groups:,} shown, chosen privately: a group of {half} units shows half the time"
    limit = "max_rows_contributed" if "rows_per_unit" in content["limits"] else "max_groups_contributed"
    return (
        f"none shown: a group needs about {half} units to show half the time. Ask for larger groups, "
        f"spend a larger epsilon or delta, or lower {limit}"
    )


def bars_of(release: NoisyTable) -> pa.Table | None:
    """Return half-widths of the error bars of a release that was drawn, where it has any."""
    return release.errors(release.bars.confidence) if release.measured else None


def _numbers(release: NoisyTable, table: pa.Table, keys: Sequence[str]) -> Rows:
    """Return the first rows: keys as they are, numbers with their error bars."""
    few = table.num_rows <= MOST_BARS
    widths = bars_of(release) if few else None
    first = table.slice(0, MOST)
    columns = dict(columns_of(release, first, None if widths is None else widths.slice(0, MOST)))
    beyond = []
    if table.num_rows > MOST:
        beyond.append(f"The first {MOST:,} of {table.num_rows:,} rows; to_pandas() has all.")
    if not few and release.measured:
        beyond.append("frame(errors=True) has error bars beside these numbers.")
    if not any(name in keys for name in columns) and first.num_rows == 1:
        # One group without a key: a line for each number.
        return Rows(["", ""], [[name, cells[0]] for name, cells in columns.items()])
    left = sum(name in keys for name in columns)
    rows = list(zip(*columns.values(), strict=True))
    return Rows(list(columns), rows, left=left, beyond=" ".join(beyond))


def columns_of(
    release: NoisyTable, table: pa.Table, widths: pa.Table | None
) -> Iterator[tuple[str, Sequence[Cell]]]:
    """Yield the name and the cells of each column that is shown.

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
            yield name, measured(values, widths[name].to_pylist())


def measured(values: Sequence[Any], errors: Sequence[Any]) -> list[Cell]:
    """Write values with their error bars; of lists the first entries."""
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
    """Return the numbers of a release that a service has made, and what is said of it.

    Args:
        table: the answer.
        widths: half-widths of its error bars, by column.
        keys: its columns that say which group a row is.
        facts: what is said below the numbers.
        hints: what the noisy numbers say of the question.
        spent: what it has cost.
        dummy: whether its rows were made up.
    """
    first = table.slice(0, MOST)
    columns: dict[str, Sequence[Cell]] = {}
    for name in table.column_names:
        values = first[name].to_pylist()
        if name in widths:
            columns[name] = measured(values, widths[name].slice(0, MOST).to_pylist())
        else:
            columns[name] = [cell(value) for value in values]
    more = table.num_rows > MOST
    beyond = f"The first {MOST:,} of {table.num_rows:,} rows; to_pandas() has all." if more else ""
    left = sum(name in keys for name in columns)
    rows = Rows(list(columns), list(zip(*columns.values(), strict=True)), left=left, beyond=beyond)
    warning = "Of made-up rows: an answer about nobody." if dummy else ""
    notes = Sentences([f"Note: {hint}" for hint in hints]) if hints else None
    return Card(f"RemoteRelease: {price(*spent)}", [rows, Facts(facts), notes], warning)
