"""A release that something was computed with: only with its noisy numbers, so that it costs nothing more."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError, QueryError, RefusalError
from sfumato.query import output
from sfumato.query.explanation import Explanation
from sfumato.query.release import Release

_NOT_FOLLOWED = (
    "errors: what is computed around the private SELECT has no error bars of its own; write "
    "DP_INTERVAL_LOW(name) and DP_INTERVAL_HIGH(name) in the SQL, or ask .released, the noisy table before it"
)


class Computation(Protocol):
    """What is computed with a released table, and with nothing else."""

    text: str
    schema: pa.Schema
    columns: tuple[tuple[str, str | None], ...] | None

    def run(self, released: Release) -> tuple[pa.Table, pa.Array | None]:
        """Return what it gives, and which row of the released table each row is, where that is followed."""
        ...


class ProcessedRelease(Release):
    """A released table after SQL.

    Nothing but the noisy table goes into it, so its cost is that of the release. It is computed when it is
    first looked at, and once. If that fails, as a cast of a noisy number may, `released` still has the table.

    Args:
        released: the noisy table before it.
        computation: what is computed with it.
    """

    def __init__(self, released: Release, computation: Computation) -> None:
        super().__init__(released.plan, released.engine)
        self.released, self.computation = released, computation
        self._rows: pa.Array | None = None

    @property
    def followed(self) -> bool:
        """Whether columns that are released as they are have error bars here."""
        return self.computation.columns is not None

    def to_arrow(self) -> pa.Table:
        """Return the table, in the order that the SQL asks for.

        Raises:
            SqlError: computing with these noisy numbers failed; `released` has them.
        """
        with self._turn():
            if self._table is None:
                self._table, self._rows = self.computation.run(self.released)
            return self._table

    def errors(self, confidence: float = 0.95, *, simultaneous: bool = False) -> pa.Table:
        """Return half-widths of error bars, row by row: NULL for what is computed.

        Args:
            confidence, simultaneous: as for `Release.errors`.
        Raises:
            ParameterError: confidence is not in (0, 1).
            RefusalError: something is computed around the private SELECT, where columns are not followed.
        """
        columns = self.computation.columns
        if columns is None:
            raise RefusalError(_NOT_FOLLOWED)
        table = self.to_arrow()
        widths = self.released.errors(confidence, simultaneous=simultaneous).take(self._rows)
        given = [pa.nulls(len(table), pa.float64()) if name is None else widths[name] for _, name in columns]
        return pa.table(given, names=table.schema.names)

    def write(self, path: str | Path, *, confidence: float | None = None, simultaneous: bool = False) -> None:
        """Write the table to .parquet, .csv or .json (one object a line).

        Args:
            path: where to; the ending names the format.
            confidence: also write error bars of what is released as it is, in columns named `<output>_error`.
            simultaneous: as for `errors`.
        Raises:
            ParameterError: the path is not admissible, or a column is a list or the like and the format CSV.
            QueryError: a name of an error bar's column is taken.
            RefusalError: error bars are asked for where columns are not followed.
            OSError: the file cannot be written; nothing is drawn where that shows before.
        """
        target = output.checked_path(path)
        self.check_no_source(target)
        if confidence is not None:
            self._check_error_columns()
        if target.suffix.lower() == ".csv" and any(map(pa.types.is_nested, self.computation.schema.types)):
            raise ParameterError(
                "output path", str(path), ".parquet or .json, as a column is a list or the like"
            )
        table = self.to_arrow()
        if confidence is not None:
            widths = self.errors(confidence, simultaneous=simultaneous)
            for name in self.measured:
                table = table.append_column(f"{name}_error", widths[name])
        output.write(target, iter(table.to_batches()), lambda: self.check_no_source(target))

    def explain(self) -> Explanation:
        """Return each step with its bounds, noise scale and share of the budget; computing comes last."""
        return Explanation(self.released.explain().to_dict() | {"computed": self.computation.text})

    @property
    def measured(self) -> list[str]:
        """The columns with error bars."""
        keys = self.plan.query.keys
        found = self.computation.columns or ()
        return [name for name, released in found if released is not None and released not in keys]

    def __repr__(self) -> str:
        epsilon, delta = self.spent
        names = ", ".join(self.computation.schema.names)
        return f"<ProcessedRelease of {names}; epsilon={epsilon:g}, delta={delta:g}>"

    def _check_error_columns(self) -> None:
        if not self.followed:
            raise RefusalError(_NOT_FOLLOWED)
        taken = {name.casefold() for name in self.computation.schema.names}
        for name in self.measured:
            if f"{name}_error".casefold() in taken:
                wanted = f"{name}_error"
                raise QueryError(
                    f"confidence: the error bars of {name!r} need the name {wanted!r}, which is taken"
                )


def with_intervals(
    released: Release, intervals: tuple[tuple[str, str, bool], ...], confidence: float, row: str
) -> pa.Table:
    """Return the released table with ends of error bars, and the number of each row.

    Args:
        released: what is looked at, and drawn if it was not.
        intervals: names of columns, of which output each is an end, and whether the upper one.
        confidence: of the error bars.
        row: the name of the column of numbers.
    """
    table = released.to_arrow()
    widths = released.errors(confidence) if intervals else None
    added = {}
    for name, of, high in intervals:
        assert widths is not None
        values = table[of].to_numpy(zero_copy_only=False).astype(float)
        width = widths[of].to_numpy(zero_copy_only=False).astype(float)
        added[name] = pa.array(values + width if high else values - width, pa.float64())
    for name, column in added.items():
        table = table.append_column(name, column)
    return table.append_column(row, pa.array(np.arange(table.num_rows, dtype=np.int64)))
