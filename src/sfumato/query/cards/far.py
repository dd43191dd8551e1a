"""A release that came from a service, as a card: its numbers with their error bars, and what it cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from sfumato.display.card import Card, Cell, Facts, Rows, Sentences, cell
from sfumato.query.cards.planned import price
from sfumato.query.cards.released import MOST, measured


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
