"""Base class of results that are a table: its rows in Python, and data frames of pandas and Polars."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sfumato.display.cards import Displayed
from sfumato.errors import ColumnError, ParameterError, require

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa


class ResultTable(Displayed):
    """Base class of results that are a table: a release, a preview, diagnostics, advice.

    A class has `to_arrow`; its data frames, rows and columns follow from that, and take its options.
    """

    __slots__ = ()

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the table."""

    def _attributes(self) -> dict[str, Any]:
        """Return the facts about a result table that go with its numbers into `DataFrame.attrs`."""
        return {}

    def to_pandas(self, *args: Any, **kwargs: Any) -> pandas.DataFrame:
        """Return the table as a pandas data frame; needs `pip install 'sfumato[pandas]'`.

        For a release, `frame.attrs["sfumato"]` has its cost, and whether limits and bounds may bias numbers.

        Args:
            args, kwargs: as of `to_arrow`.
        Raises:
            EngineError: pandas is not installed.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id")
        >>> frame = visits.bound(rows=1).agg(n=sf.count()).release(epsilon=1).to_pandas()
        >>> frame.attrs["sfumato"]["bias"]
        'Does not include bias from contribution limits and bounds; diagnostics=0.05 estimates it.'
        """
        require("pandas", "pandas")  # before anything is drawn
        table: Any = self.to_arrow
        return pandas_frame(table(*args, **kwargs), self._attributes())

    def to_polars(self, *args: Any, **kwargs: Any) -> polars.DataFrame:
        """Return the table as a Polars data frame; needs `pip install 'sfumato[polars]'`.

        Args:
            args, kwargs: as of `to_arrow`.
        Raises:
            EngineError: Polars is not installed.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> dict(release.to_polars().schema)
        {'people': Int64}
        """
        require("polars", "polars")  # before anything is drawn
        import polars

        table: Any = self.to_arrow
        frame = polars.from_arrow(table(*args, **kwargs))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __getitem__(self, name: str) -> list[Any]:
        """Return a column as a list of Python's values.

        Args:
            name: of a column of the table.
        Raises:
            QueryError: there is none of that name.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> len(release), release["people"] == [row["people"] for row in release]
        (1, True)
        """
        table = self.to_arrow()
        if not isinstance(name, str):
            raise ParameterError("[...]", name, "the name of a column, as text; rows are list(release)")
        if name not in table.column_names:
            raise ColumnError._unknown(name, table.column_names, "[...]")
        values: list[Any] = table[name].to_pylist()
        return values

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Go through the rows of the table, each a dict of Python's values."""
        for batch in self.to_arrow().to_batches(max_chunksize=1 << 14):
            yield from batch.to_pylist()

    def __len__(self) -> int:
        """Return the number of rows of the table."""
        return int(self.to_arrow().num_rows)

    def __bool__(self) -> bool:
        """Return True: a result is true however many rows its table has, and nothing is drawn for this."""
        return True


def pandas_frame(table: pa.Table, facts: Mapping[str, Any] | None = None) -> pandas.DataFrame:
    """Return the table of a result as a pandas data frame, with facts about it in `attrs`.

    Raises:
        EngineError: pandas is not installed.
    """
    require("pandas", "pandas")
    frame = table.to_pandas()
    if facts:
        frame.attrs["sfumato"] = facts
    return frame
