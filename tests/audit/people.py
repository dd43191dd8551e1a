"""A table with many worlds, in each of which another hostile unit comes or goes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from math import inf, nan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

GROUPS = (0, 1, 2)
UNITS = 24  # in each world, but for the stranger
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("world", pa.int64()),
        ("g", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("w", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("v", pa.list_(pa.float64())),
    ]
)
Rows = list[dict[str, Any]]


def row(
    x: float | None, y: float | None, s: str | None, g: int = 0, w: float | None = 1e308
) -> dict[str, Any]:
    """Return a row without its unit; of a value its vector and its truth are made."""
    vector = None if x is None else [x, 1e3 if x > 0 else -1e3, x]
    return {"g": g, "x": x, "y": y, "w": w, "s": s, "b": None if x is None else x > 0, "v": vector}


def many(
    x: Sequence[float | None], y: Sequence[float | None], groups: Sequence[int] = (0,), each: int = 40
) -> Rows:
    """Return many rows in each group, all with another text."""
    values = list(islice(zip(cycle(x), cycle(y), strict=False), each))
    return [row(a, b, f"new {g} {i}", g) for g in groups for i, (a, b) in enumerate(values)]


ODD = (nan, inf, -inf, None, 5e-324, 1e308, -1e308, 0.5, -0.0)
# What the unit has that comes or goes.
STRANGERS: dict[str, Rows] = {
    "one row at the top": [row(1e308, 1e308, "new")],
    "one row at the bottom": [row(-1e308, -1e308, "new")],
    "one row in the middle": [row(0.0, 0.0, "new")],
    "one row at opposite ends": [row(inf, -inf, "new")],
    "one row without values": [row(None, None, None)],
    "many rows at the top": many([inf], [inf]),
    "many rows at the bottom": many([-1e308], [-1e308]),
    "many rows in the middle": many([0.0], [0.0]),
    "many rows at opposite ends": many([1e308], [-1e308]),
    "many odd rows": many(ODD, ODD[1:]),
    "many rows without values": many([nan], [None]),
    "values several times each": [row(1.0, 1.0, f"new {i % 8}") for i in range(40)],
    "rows at the top in all groups": many([inf], [inf], GROUPS, 5),
    "rows at the bottom in all groups": many([-inf], [-inf], GROUPS, 5),
    "rows at the top in two groups": many([inf], [inf], GROUPS[:2], 5),
    "rows at the bottom in two groups": many([-inf], [inf], GROUPS[1:], 5),
    "one row in each group": many([inf], [-inf], GROUPS, 1),
    "rows of other values in all groups": [row(1e308, -1.0, f"new {g}", g) for g in GROUPS for _ in range(3)],
}


def tables() -> tuple[pa.Table, pa.Table]:
    """Return a table without, and one with, the stranger of each world: a unit that no other world has."""
    without: Rows = []
    strangers: Rows = []
    for world, rows in enumerate(STRANGERS.values()):
        for unit in range(UNITS):
            x = 3.0 * (unit % 8) / 7
            values = {"g": unit % 3, "x": x, "y": 2 - x / 2, "w": 1.0, "s": f"old {unit % 4}"}
            values |= {"b": unit % 2 == 0, "v": [0.1, -0.2, 0.3]}
            without.append({"id": 100 * world + unit, "world": world, **values})
        strangers += [{"id": 100 * world + 99, "world": world, **values} for values in rows]
    # As one of the first rows, so that nothing depends on who came first.
    return pa.Table.from_pylist(without, SCHEMA), pa.Table.from_pylist([*strangers, *without], SCHEMA)


WITHOUT, WITH = tables()


def pair(name: str, copies: int = 1) -> tuple[pa.Table, pa.Table]:
    """Return tables of one world with the stranger of a name and without, and others as many times as told."""
    world = list(STRANGERS).index(name)
    one, other = (rows.filter(pc.field("world") == world) for rows in (WITH, WITHOUT))
    more = [other.set_column(0, "id", pc.add(other["id"], 10**6 * i)) for i in range(copies)]
    return tuple(
        rows.set_column(1, "world", pa.array([0] * rows.num_rows)).combine_chunks()
        for rows in (pa.concat_tables([one, *more[1:]]), pa.concat_tables(more))
    )
