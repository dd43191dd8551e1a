"""Rich display of private tables, public tables and questions: columns, steps, groups and limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sfumato.display.cards import Card, Facts, Rows, Sentences
from sfumato.display.formatting import visible
from sfumato.query.engine_protocol import BroughtKeys
from sfumato.query.schema import Derive, Filter, Schema, Step

if TYPE_CHECKING:
    from sfumato.api.largest_groups import Top
    from sfumato.api.question import Question
    from sfumato.api.table import Table
    from sfumato.query.tables.public_table import PublicTable


_MAX = 40  # columns
# What is written into a folder, whose pattern an engine has for each folder in it; glob escapes in brackets.
_OF_A_FOLDER, _ESCAPED = re.compile(r"(?s)(.*)/\*\.[a-z0-9.]+\*$"), re.compile(r"\[([*?[])\]")
_FREE = "Nothing was read or charged for this."


def table_card(table: Table[Any]) -> Card:
    """Return the rich display of a private table: its columns, and the steps and limits so far."""
    schema = table.schema
    roles = {table.unit: "privacy unit"} | dict.fromkeys(table.keys, "grouped by")
    return Card(
        f"Private table {_source(table._engine)}",
        [_columns(schema, roles), Facts(_done(table)), Sentences([*table.notes, _FREE])],
    )


def public_card(table: PublicTable) -> Card:
    """Return the rich display of a public table: its columns and steps."""
    return Card(
        f"Public table {_source(table._engine)}",
        [_columns(table.schema, {}), Facts(_steps(table._steps)), Sentences(table.notes)],
    )


def question_card(question: Question[Any]) -> Card:
    """Return the rich display of a question: its aggregates, rows and limits."""
    table = question.table
    derived = {s.name: s.expression for s in table._steps if isinstance(s, Derive)}
    rows = [
        [name, asked.meaning(derived), ", ".join(asked.outputs(name))] for name, asked in question.aggregates
    ]
    next_step = "Only a release is charged: .plan(epsilon=...) and .preview(epsilon=...) are free."
    return Card(
        f"Question: {question.title}",
        [
            Rows(["name", "what is asked", "columns"], rows, left=3),
            Facts([("of", f"private table {_source(table._engine)}"), *_done(table)]),
            Sentences([*table.notes, f"{_FREE} {next_step}"]),
        ],
    )


def top_card(question: Top) -> Card:
    """Return the rich display of a question for the largest groups."""
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


def table_line(table: Table[Any]) -> str:
    """Return a private table as one line of text: source, steps and limits."""
    said = [f"{about} {text}" for about, text in _done(table)]
    return visible("; ".join([f"<Table {_source(table._engine)}: {len(table.schema)} columns", *said]) + ">")


def public_table_line(table: PublicTable) -> str:
    """Return a public table as one line of text: source and steps."""
    said = [f"{about} {text}" for about, text in _steps(table._steps)]
    columns = f"{len(table.schema)} columns"
    return visible("; ".join([f"<PublicTable {_source(table._engine)}: {columns}", *said]) + ">")


def _source(engine: Any) -> str:
    """Display the source of a table: its catalog names, or files without their folders."""
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
    shown = list(schema.items())[:_MAX]
    more = f"and {len(schema) - _MAX:,} more columns" if len(schema) > _MAX else ""
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
    """List what is set on a private table, for display: unit, steps, groups, limits."""
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
        f"{name}={_limit(table, name, limit)}"
        for name, limit in (("groups", table.groups), ("rows", table.rows), ("total_rows", table.total_rows))
        if limit is not None
    ]
    return [*found, ("limits", ", ".join(limits))] if limits else found


def _limit(table: Table[Any], name: str, limit: int) -> str:
    """Return a limit of a private table as it was written."""
    if table._shared and name == "groups":
        return "shared"
    return "auto" if name in table._auto_limits else f"{limit:,}"
