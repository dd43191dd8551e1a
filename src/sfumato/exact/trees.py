"""Trees over time steps: sums of blocks of steps, and what least squares make of noise on them.

With noise of one variance on every block the estimate of a total up to a step is a weighted sum of noises.
All that is known of it comes from two walks: from steps up, how sure the noisy blocks in a block leave its
sum; and from the top down, what it has in common with the total.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact.toeplitz import MOST_STEPS

Floats = NDArray[np.float64]
_MOST_LEVELS = 14


@dataclass(frozen=True)
class Tree:
    """Blocks of time steps on several levels; the last block of a level may be shorter.

    Args:
        steps: how many there are.
        sizes: how many steps a block has, by level: 1, and then multiples of the one before.

    >>> tree = Tree(1000, (1, 12, 144))
    >>> [tree.nodes(level) for level in range(3)], round(tree.error, 2)
    ([1000, 84, 7], 2.59)
    """

    steps: int
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        nested = all(one < other and other % one == 0 for one, other in pairwise(self.sizes))
        if not 0 < self.steps <= MOST_STEPS or self.sizes[:1] != (1,) or not nested:
            raise ParameterError("sizes", (self.steps, self.sizes), "1, then multiples, of 1 to 2^14 steps")

    @classmethod
    def best(cls, steps: int) -> Tree:
        """Return the tree whose totals have the least error, of those with one branching.

        What a level costs is that each has so much more noise.
        """
        return _best(steps)

    @property
    def levels(self) -> int:
        """How often each step is counted."""
        return len(self.sizes)

    def nodes(self, level: int) -> int:
        """How many blocks a level has."""
        return -(-self.steps // self.sizes[level])

    def added_up(self, steps: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return the sums of blocks, of whole numbers of steps along the last axis."""
        return np.add.reduceat(steps, np.arange(0, self.steps, self.sizes[level]), axis=-1)

    @cached_property
    def variances(self) -> tuple[Floats, ...]:
        """By level, of each block's sum what its own noise of variance 1, and those below it, leave open."""
        found = [np.ones(self.steps)]
        for level in range(1, self.levels):
            found.append(1 / (1 + 1 / self._of_children(found[-1], level)))
        return tuple(found)

    def corrections(self, residues: list[Floats]) -> Floats:
        """Return the least squares estimates of steps, less the noisy steps themselves.

        Args:
            residues: by level above steps, noisy sums of blocks less the sums of noisy steps, along the last
                axis: all that the corrections depend on.
        """
        below = [np.zeros((*residues[0].shape[:-1], self.steps))] if residues else []
        for level, own in enumerate(residues, 1):
            variances = self.variances[level]
            children = self._of_children(below[-1], level)
            below.append(variances * (own + children / self._of_children(self.variances[level - 1], level)))
        if not below:
            return np.zeros(self.steps)
        found = below[-1]
        for level in range(self.levels - 1, 0, -1):
            parent, variances = self._parents(level), self.variances[level - 1]
            off = (found - self._of_children(below[level - 1], level)) / self._of_children(variances, level)
            found = below[level - 1] + variances * off[..., parent]
        return found

    @cached_property
    def totals(self) -> tuple[Floats, Floats]:
        """Of the total up to each step: its variance, and at most the largest weight of a block's noise."""
        steps = np.arange(self.steps)
        whole, rest = np.ones(self.steps), np.zeros(self.steps)
        above = []
        for level, variances in enumerate(self.variances):
            node, first, most = self._family(steps, level)
            sums = np.concatenate([[0.0], np.cumsum(variances)])
            left, own, all_children = sums[node] - sums[first], variances[node], sums[most] - sums[first]
            # Of the sum of a block, given all of it, the part up to the step: `whole`, and `rest` is open.
            part = (left + whole * own) / all_children
            widest = np.maximum(variances[first], variances[most - 1])
            sides = widest * (node > first), widest * (node + 1 < most)
            above.append((part, whole, own, all_children, *sides))
            rest = np.maximum(rest + left + whole**2 * own - part**2 * all_children, 0.0)
            whole = part
        common = whole * self.variances[-1].sum()
        variance, largest = whole * common + rest, np.zeros(self.steps)
        for part, inner, own, all_children, earlier, later in reversed(above):
            # Of siblings before the step, of those behind it, and of the block with it.
            share = common / all_children
            before, behind = earlier * (share + 1 - part), later * (share - part)
            common = own * (share + inner - part)
            largest = np.maximum.reduce([largest, *map(np.abs, (common, before, behind))])
        return variance, largest

    @property
    def error(self) -> float:
        """The root mean square error of totals, of noise of deviation 1 on every block."""
        return math.sqrt(float(self.totals[0].mean()))

    def _of_children(self, values: Floats, level: int) -> Floats:
        ratio = self.sizes[level] // self.sizes[level - 1]
        return np.add.reduceat(values, np.arange(0, values.shape[-1], ratio), axis=-1)

    def _parents(self, level: int) -> NDArray[np.int64]:
        return np.arange(self.nodes(level - 1)) // (self.sizes[level] // self.sizes[level - 1])

    def _family(
        self, steps: NDArray[np.int64], level: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the block of each step, the first block of its parent, and that behind the last one."""
        node, count = steps // self.sizes[level], self.nodes(level)
        ratio = count if level == self.levels - 1 else self.sizes[level + 1] // self.sizes[level]
        first = node // ratio * ratio
        return node, first, np.minimum(first + ratio, count)


@lru_cache(maxsize=64)
def _best(steps: int) -> Tree:
    made = {Tree(steps, (1,))}
    for levels in range(2, _MOST_LEVELS + 1):
        near = round(steps ** (1 / levels))
        for branching in range(max(2, near - 1), near + 3):
            if branching ** (levels - 1) < steps:
                made.add(Tree(steps, tuple(branching**i for i in range(levels))))
    return min(sorted(made, key=lambda tree: tree.sizes), key=lambda tree: tree.levels * tree.error)
