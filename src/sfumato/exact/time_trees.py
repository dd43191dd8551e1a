"""Trees of blocks of time steps, with their least squares; and Toeplitz matrices of running weighted sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError

MAX_STEPS = 1 << 14
# Digits that a coefficient is computed with before it is cut.
_GUARD = 64


@dataclass(frozen=True)
class Toeplitz:
    """A lower triangular Toeplitz matrix over time steps: R[t, s] = coefficients[t - s] / 2^16.

    Args:
        coefficients: whole numbers, 2^16 first, then none larger than the one before it, nor negative.

    >>> half = Toeplitz.from_power(Fraction(1, 2), 4)
    >>> [c / 2**16 for c in half.coefficients], float(half.squared_sum(2))
    ([1.0, 0.5, 0.375, 0.3125], 4.48828125)
    """

    BITS: ClassVar[int] = 16

    coefficients: tuple[int, ...]

    def __post_init__(self) -> None:
        given = self.coefficients
        falling = all(0 <= later <= earlier for earlier, later in pairwise(given))
        if not 0 < len(given) <= MAX_STEPS or given[0] != 1 << self.BITS or not falling:
            raise ParameterError(
                "coefficients", given[:5], f"2^{self.BITS}, then falling, at most 2^14 of them"
            )

    @classmethod
    def from_power(cls, power: Fraction, steps: int, kept: Fraction = Fraction(0)) -> Toeplitz:
        """Return about ((1 - kept z) / (1 - z))^power as a Toeplitz matrix over time steps.

        Without `kept` this is the matrix of cumulative sums to a power. With it the matrix is divided by that
        of sums that keep such a part from one step to the next: it falls faster, and then stays.

        Args:
            power: in [0, 1]; with 0 nothing is added up, with 1 all is.
            steps: how many.
            kept: from 0 to less than 1.
        """
        if not 0 <= power <= 1 or not 0 < steps <= MAX_STEPS or not 0 <= kept < 1:
            raise ParameterError(
                "power", (power, steps, kept), "in [0, 1], of 1 to 2^14 steps, and kept below 1"
            )
        # k f_k = (power (1 - kept) + (k - 1) (1 + kept)) f_(k-1) - kept (k - 2) f_(k-2), from the derivative.
        part, whole = kept.numerator, kept.denominator
        above, below = power.numerator * (whole - part), power.denominator
        found = [1 << (cls.BITS + _GUARD)]
        for k in range(1, steps):
            more = (above + (k - 1) * below * (whole + part)) * found[-1]
            less = (k - 2) * below * part * found[-2] if k > 1 else 0
            found.append(max((more - less) // (k * below * whole), 0))
        return cls(tuple(accumulate((c >> _GUARD for c in found), min)))

    @property
    def steps(self) -> int:
        """The number of time steps: rows and columns of the Toeplitz matrix."""
        return len(self.coefficients)

    def times(self, values: Sequence[Fraction]) -> list[Fraction]:
        """Return the product of the Toeplitz matrix with a column of time steps."""
        return [
            sum((c * values[t - s] for s, c in enumerate(self.coefficients[: t + 1])), Fraction(0))
            / (1 << self.BITS)
            for t in range(len(values))
        ]

    def squared_sum(self, columns: int) -> Fraction:
        """Return the squared length of the sum of the Toeplitz matrix's columns of first time steps."""
        sums = np.cumsum(np.array(self.coefficients, np.int64))
        inside = sums.copy()
        inside[columns:] -= sums[:-columns]
        # Each is at most 2^30, and its square 2^60: halves of these add up in 64 bits.
        squares = inside * inside
        high, low = int((squares >> 30).sum()), int((squares & ((1 << 30) - 1)).sum())
        return Fraction((high << 30) + low, 1 << 2 * self.BITS)


Floats = NDArray[np.float64]
_MAX_LEVELS = 14


@dataclass(frozen=True)
class Tree:
    """A tree of blocks of time steps, on several levels; the last block of a level may be shorter.

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
        if not 0 < self.steps <= MAX_STEPS or self.sizes[:1] != (1,) or not nested:
            raise ParameterError("sizes", (self.steps, self.sizes), "1, then multiples, of 1 to 2^14 steps")

    @classmethod
    def best(cls, steps: int) -> Tree:
        """Return the tree of time steps, of equal branching, whose cumulative totals have the least error.

        What a level costs is that each has so much more noise.
        """
        return min(_trees(steps), key=lambda tree: tree.levels * tree.error)

    @classmethod
    @lru_cache(maxsize=64)
    def best_for_ranks(cls, steps: int, power: float) -> Tree:
        """Return the tree of steps, of equal branching, whose rank errors are least.

        Args:
            steps: how many.
            power: the deviation of a block's noise grows with this power of the number of levels.

        >>> [Tree.best_for_ranks(steps, 1.0).sizes for steps in (31, 101, 1001)]
        [(1,), (1, 9), (1, 10, 100)]
        """
        return min(_trees(steps), key=lambda tree: tree.levels**power * tree.rank_error)

    @property
    def levels(self) -> int:
        """The number of levels of the tree, that is how often each time step is counted."""
        return len(self.sizes)

    def nodes(self, level: int) -> int:
        """Return the number of blocks of time steps on a level of the tree."""
        return -(-self.steps // self.sizes[level])

    def added_up(self, steps: NDArray[np.int64], level: int) -> NDArray[np.int64]:
        """Return the sums of the blocks on a level, of whole numbers of time steps along the last axis."""
        return np.add.reduceat(steps, np.arange(0, self.steps, self.sizes[level]), axis=-1)

    @cached_property
    def variances(self) -> tuple[Floats, ...]:
        """For each level of the tree, the variance u of each block's sum, by its noise and those below.

        One noise has variance 1, so 1/u is 1 more than one over the sum of u over the blocks in it.
        """
        found = [np.ones(self.steps)]
        for level in range(1, self.levels):
            found.append(1 / (1 + 1 / self._sum_children(found[-1], level)))
        return tuple(found)

    def corrections(self, residues: list[Floats]) -> Floats:
        """Return the tree's least squares estimates of time steps, less the noisy steps themselves.

        Args:
            residues: by level above steps, noisy sums of blocks less the sums of noisy steps, along the last
                axis: all that the corrections depend on.
        """
        below = [np.zeros((*residues[0].shape[:-1], self.steps))] if residues else []
        for level, own in enumerate(residues, 1):
            variances = self.variances[level]
            children = self._sum_children(below[-1], level)
            below.append(variances * (own + children / self._sum_children(self.variances[level - 1], level)))
        if not below:
            return np.zeros(self.steps)
        found = below[-1]
        for level in range(self.levels - 1, 0, -1):
            parent, variances = self._parents(level), self.variances[level - 1]
            off = (found - self._sum_children(below[level - 1], level)) / self._sum_children(variances, level)
            found = below[level - 1] + variances * off[..., parent]
        return found

    @cached_property
    def totals(self) -> tuple[Floats, Floats]:
        """For the total up to each time step: its variance, and a bound of its largest block weight.

        Given the sum X of a block, what is before a step in it is α X up to a variance of ρ. Of its blocks,
        let a be the sum of u over those that end before the step, u that of the one with the step, and U
        that of all. Then α' = (a + α u)/U and ρ' = ρ + a + α^2 u - (a + α u)^2/U for the block, and a total
        has the variance α^2 u + ρ of the whole. On the way down the same numbers give its covariance with
        each block on the way and next to it, which is the weight of this block's noise; blocks inside of
        those have less.
        """
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
        """The root mean square error of totals over time, with noise of deviation 1 on each block."""
        return math.sqrt(float(self.totals[0].mean()))

    @cached_property
    def shares(self) -> Floats:
        """For the total up to each time step: the part of the noise of the last total that is in it."""
        found = self.variances[-1] / self.variances[-1].sum()
        for level in range(self.levels - 1, 0, -1):
            own = self.variances[level - 1]
            found = own * (found / self._sum_children(own, level))[self._parents(level)]
        return np.cumsum(found)

    def rank_variances(self, rank: Any) -> Floats:
        """Return the variance of the total up to each time step less a share of the last total.

        Args:
            rank: the share; or one for each step.
        """
        whole = self.variances[-1].sum()
        found: Floats = self.totals[0] + rank * (rank - 2 * self.shares) * whole
        return np.maximum(found, 0.0)

    @cached_property
    def rank_error(self) -> float:
        """The root mean square error of ranks, with noise of deviation 1 on each block of steps."""
        return math.sqrt(float(self.rank_variances(self.shares).mean()))

    def rank_error_near(self, rank: float) -> float:
        """Return the root mean square error of ranks from the nearer end to twice as far from it as a rank.

        Values of that rank are there, wherever exactly; the last total is left out, as its rank is known.

        >>> tree = Tree(101, (1, 9))
        >>> [round(tree.rank_error_near(rank), 2) for rank in (0.01, 0.1, 0.5, 0.99)]
        [1.12, 1.53, 1.78, 1.12]
        """
        ends = np.minimum(self.shares, 1 - self.shares)[:-1]
        near = ends <= max(2 * min(rank, 1 - rank), ends.min())
        return math.sqrt(float(self.rank_variances(self.shares)[:-1][near].mean()))

    def _sum_children(self, values: Floats, level: int) -> Floats:
        ratio = self.sizes[level] // self.sizes[level - 1]
        return np.add.reduceat(values, np.arange(0, values.shape[-1], ratio), axis=-1)

    def _parents(self, level: int) -> NDArray[np.int64]:
        return np.arange(self.nodes(level - 1)) // (self.sizes[level] // self.sizes[level - 1])

    def _family(
        self, steps: NDArray[np.int64], level: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the block of each time step, its parent's first block, and the block behind its last."""
        node, count = steps // self.sizes[level], self.nodes(level)
        ratio = count if level == self.levels - 1 else self.sizes[level + 1] // self.sizes[level]
        first = node // ratio * ratio
        return node, first, np.minimum(first + ratio, count)


@lru_cache(maxsize=64)
def _trees(steps: int) -> list[Tree]:
    """Return the trees of equal branching over so many steps."""
    made = {Tree(steps, (1,))}
    for levels in range(2, _MAX_LEVELS + 1):
        near = round(steps ** (1 / levels))
        for branching in range(max(2, near - 1), near + 3):
            if branching ** (levels - 1) < steps:
                made.add(Tree(steps, tuple(branching**i for i in range(levels))))
    return sorted(made, key=lambda tree: tree.sizes)
