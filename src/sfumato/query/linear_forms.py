"""Columns of post-processing SQL as linear forms of released rows: where their weights are found."""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.dataclass import dataclass

Part = tuple[str, int]  # an output, or the number of a sum; of which side of a ratio it is the form
ADDED: Part = "", 0  # the number that is added
RatioParts = tuple[
    Mapping[Part, int], Mapping[Part, int] | None
]  # by part, the place of its weight; None over 1


@dataclass(frozen=True)
class LinearColumn:
    """A column that SQL computes from several released rows: ratios of weighted sums, added up.

    Args:
        ratios: each of weighted sums over rows.
        sums: for each of these, the ratios of weighted outputs of a row that it adds up.
        names: the columns of weights: of the ratios, and for each sum a list of row numbers with weights.
    """

    ratios: tuple[RatioParts, ...]
    sums: tuple[tuple[RatioParts, ...], ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class LinearSql:
    """Post-processing SQL with additional columns of weights.

    Args:
        sql: the SQL; each of its rows has the additional columns last.
        columns: of each column of the SELECT list its linear form; None where it is none.
        added: names of the additional columns.
    """

    sql: str
    columns: tuple[LinearColumn | None, ...]
    added: tuple[str, ...]
