"""Rollups: which groups (cells) add up to which totals, as grouping sets over the groups' keys do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass


@dataclass(frozen=True)
class Rollup:
    """A rollup: levels of totals over cells, of which each cell has a value of each key.

    Args:
        sets: for each level the keys whose values its totals have; the first level has all keys, and its
            totals are the cells.
        values: for each key how many different values there are.
        levels: for each level, and each cell, the number of the total that the cell is part of: from 0 on,
            and none left out.

    >>> rollup = Rollup(((0,), ()), (3,), ((0, 1, 2), (0, 0, 0)))
    >>> rollup.largest(1), rollup.squares(1, 2), rollup.complete
    (3, 4, True)
    """

    sets: tuple[tuple[int, ...], ...]
    values: tuple[int, ...]
    levels: tuple[tuple[int, ...], ...]

    @property
    def cells(self) -> int:
        """The number of cells of the rollup."""
        return len(self.levels[0])

    @property
    def complete(self) -> bool:
        """Whether the rollup has a cell for each combination of the keys' values."""
        return self.cells == prod(self.values)

    @cached_property
    def spaces(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For a complete rollup, which levels have which interactions of keys, and how many there are.

        Interactions that the same levels have are put together. A key of one value has none.

        Returns:
            1 or 0 by interactions, then level; and the dimensions of their spaces.
        """
        keys = [i for i, count in enumerate(self.values) if count > 1]
        masks, sizes = np.arange(1 << len(keys)), np.ones(1)
        for i in keys:
            sizes = np.concatenate([sizes, sizes * (self.values[i] - 1)])
        # A bit for each level but the first, which has all: of at most 64.
        held = np.zeros(len(masks), np.uint64)
        for place, own in enumerate(self.sets[1:]):
            without = sum(1 << bit for bit, i in enumerate(keys) if i not in own)
            held |= (masks & without == 0).astype(np.uint64) << np.uint64(place)
        alike, where = np.unique(held, return_inverse=True)
        later = alike[:, None] >> np.arange(len(self.sets) - 1, dtype=np.uint64) & np.uint64(1)
        levels = np.concatenate([np.ones((len(alike), 1)), later.astype(np.float64)], axis=1)
        return np.asarray(levels, np.float64), np.asarray(np.bincount(where.reshape(-1), sizes), np.float64)

    @cached_property
    def codes(self) -> tuple[NDArray[np.int64], ...]:
        """The levels of the rollup as arrays: for each cell the number of its total."""
        return tuple(np.array(level, np.int64) for level in self.levels)

    @cached_property
    def sizes(self) -> tuple[NDArray[np.int64], ...]:
        """For each level of the rollup, the number of cells in each total."""
        return tuple(np.bincount(level) for level in self.codes)

    @property
    def shape(self) -> tuple[tuple[int, ...], ...]:
        """The sizes of the rollup's totals on each level, sorted: no order of cells changes plans."""
        return tuple(tuple(sorted(sizes.tolist())) for sizes in self.sizes)

    def largest(self, level: int) -> int:
        """Return the largest number of cells in a total of a level of the rollup."""
        return int(self.sizes[level].max())

    def squares(self, level: int, cells: int) -> int:
        """Return the rollup's largest sum of squared totals of a level, 1 in so many cells, else 0.

        As many of them as can be are in one total: x^2 is convex.
        """
        most, cells = self.largest(level), min(cells, self.cells)
        return cells // most * most**2 + (cells % most) ** 2

    def totals(self, values: NDArray[Any], level: int) -> NDArray[Any]:
        """Add up numbers of cells to the rollup's totals of a level; whole numbers exactly, modulo 2^64.

        Args:
            values: the last dimension is of cells.
        """
        found = np.zeros((*values.shape[:-1], len(self.sizes[level])), values.dtype)
        for own, into in zip(values.reshape(-1, self.cells), found.reshape(-1, found.shape[-1]), strict=True):
            np.add.at(into, self.codes[level], own)
        return found

    def chain(self, level: int, among: Sequence[int]) -> list[int]:
        """Return nested levels of the rollup with this one, from the cells up, each made of the one before.

        Args:
            among: which levels there are, beside it.
        """

        def down(one: int, other: int) -> bool:
            return set(self.sets[other]) < set(self.sets[one])

        found = [level]
        while below := [i for i in among if i not in found and down(i, found[0])]:
            found.insert(0, min(below, key=lambda i: len(self.sets[i])))
        while above := [i for i in among if i not in found and down(found[-1], i)]:
            found.append(max(above, key=lambda i: len(self.sets[i])))
        return found if found[0] == 0 or level == 0 else [0, *found]
