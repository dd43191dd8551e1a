"""What a table of results is to Python: rows, columns, and frames of other libraries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sfumato.errors import ColumnError, ParameterError
from sfumato.query.released import output

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa


class Tabular:
    """Base of what has a table: a release beside its rows, or one that a service made."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the table."""

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a pandas data frame; needs `pip install 'sfumato[pandas]'`.

        Raises:
            EngineError: pandas is not installed.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> release.to_pandas().dtypes.to_dict()
        {'people': dtype('int64')}
        """
        output.require("pandas", "pandas")
        return self.to_arrow().to_pandas()

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
            raise ColumnError._unknown(name, table.column_names, "release[...]")
        values: list[Any] = table[name].to_pylist()
        return values

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Go through the rows, each a dict of Python's values."""
        for batch in self.to_arrow().to_batches(max_chunksize=1 << 14):
            yield from batch.to_pylist()

    def __len__(self) -> int:
        """Return how many rows there are."""
        return int(self.to_arrow().num_rows)

    def __bool__(self) -> bool:
        """Return True: it is there, however many rows it has; nothing is drawn to say so."""
        return True

    def to_polars(self) -> polars.DataFrame:
        """Return the table as a Polars data frame; needs `pip install 'sfumato[polars]'`.

        Raises:
            EngineError: Polars is not installed.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 2]}), privacy_unit="id")
        >>> release = visits.agg(people=sf.count_units()).release(epsilon=1)
        >>> dict(release.to_polars().schema)
        {'people': Int64}
        """
        return output.to_polars(self.to_arrow())
