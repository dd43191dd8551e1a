"""Which group each row of a release is, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.query.query import Query


class _All:
    """All values of a key, in a row that is a total."""

    def __str__(self) -> str:
        return "all"


ALL: Final = _All()


def shown_keys(query: Query, table: pa.Table) -> dict[str, list[Any]]:
    """Return for each key the value of each row; `ALL` where the row is a total of all its values.

    Args:
        query: what was asked.
        table: what was released of it, perhaps a part of its rows.
    """
    columns = {name: table.column(i).to_pylist() for i, name in enumerate(query.keys)}
    if query.totals is None:
        return columns
    bits = table.column(len(columns)).to_pylist()
    high = len(columns) - 1
    return {
        name: [ALL if b >> high - i & 1 else value for value, b in zip(values, bits, strict=True)]
        for i, (name, values) in enumerate(columns.items())
    }
