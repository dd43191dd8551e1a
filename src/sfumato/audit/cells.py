"""Cells that outputs are sorted into, learned from past draws alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.bits import Codes, Floats
from sfumato.audit.events import Mask

_MOST_ATOMS = 64
_EXTREMES = (4, 16, 64)
# A learner sorts at most so many past draws; counts are over all of them.
_LEARNED_FROM = 40_000


class Cells(ABC):
    """Cells of a feature, fixed until they are learned again.

    `count` cells in all, of which the first `ordered` stand in order.
    """

    count: int
    ordered: int = 0

    @abstractmethod
    def place(self, values: NDArray[Any]) -> Codes:
        """Return the cell of each value, int64 from 0 to count - 1."""

    @abstractmethod
    def words(self, name: str, mask: Mask, named: Callable[[int], str]) -> str:
        """Return the event that `mask` selects, in words; `named` gives a code's own word."""


class Quantiles(Cells):
    """Cells between quantiles of past numbers, with narrow ones in the tails; the last is for NaN."""

    def __init__(self, boundaries: Floats) -> None:
        self.boundaries = boundaries
        self.ordered: int = len(boundaries) + 1
        self.count: int = self.ordered + 1

    @classmethod
    def learn(cls, x: Floats, y: Floats) -> Quantiles | None:
        """Put boundaries at quantiles of all past draws; None if all are equal."""
        values = np.concatenate([_thin(x), _thin(y)])
        values = np.sort(values[~np.isnan(values)])
        if len(values) < 2 or values[0] == values[-1]:
            return None
        inner = int(np.clip(np.sqrt(len(values)), 8, 40))
        ranks = np.linspace(0, len(values) - 1, inner + 1)[1:-1].astype(np.int64)
        tails = [r for e in _EXTREMES if 8 * e < len(values) for r in (e, len(values) - e)]
        boundaries = np.unique(values[np.concatenate([ranks, np.array(tails, np.int64)])])
        # Draws at the least value belong to the first cell: a boundary there would leave it empty.
        boundaries = boundaries[boundaries > values[0]]
        return cls(boundaries if len(boundaries) else values[-1:])

    def place(self, values: NDArray[Any]) -> Codes:
        """Return the number of boundaries at or below each value."""
        found = np.searchsorted(self.boundaries, values, side="right")
        return np.where(np.isnan(values), self.ordered, found)

    def words(self, name: str, mask: Mask, named: Callable[[int], str]) -> str:
        """Return the event as a union of intervals."""
        edges = [-np.inf, *self.boundaries.tolist(), np.inf]
        parts = []
        for first, last in _runs(mask[: self.ordered]):
            low, high = edges[first], edges[last + 1]
            if low == -np.inf and high == np.inf:
                parts.append(f"{name} is a number")
            elif low == -np.inf:
                parts.append(f"{name} < {high!r}")
            elif high == np.inf:
                parts.append(f"{name} >= {low!r}")
            else:
                parts.append(f"{low!r} <= {name} < {high!r}")
        if mask[self.ordered]:
            parts.append(f"{name} is not a number")
        return " or ".join(parts) or "nothing"


class Atoms(Cells):
    """Cells of the values that were seen most often, and one for all others."""

    def __init__(self, codes: Codes) -> None:
        self.codes = codes
        self.count: int = len(codes) + 1

    @classmethod
    def learn(cls, x: Codes, y: Codes) -> Atoms | None:
        """Keep the values that were seen at least twice; None if there are none, or all are the same."""
        codes, seen = np.unique(np.concatenate([_thin(x), _thin(y)]), return_counts=True)
        if len(codes) < 2 or seen.max() < 2:
            return None
        often = np.argsort(-seen, kind="stable")[:_MOST_ATOMS]
        return cls(np.sort(codes[often[seen[often] >= 2]]))

    def place(self, values: NDArray[Any]) -> Codes:
        """Return the place of each value among those known, the last cell for others."""
        found = np.searchsorted(self.codes, values)
        known = self.codes[np.minimum(found, len(self.codes) - 1)] == values
        return np.where(known, found, len(self.codes))

    def words(self, name: str, mask: Mask, named: Callable[[int], str]) -> str:
        """Return the event as a list of values."""
        if mask[-1]:
            rest = [named(int(c)) for c in self.codes[~mask[:-1]]]
            return f"{name} is none of {{{_listed(rest)}}}"
        inside = [named(int(c)) for c in self.codes[mask[:-1]]]
        return f"{name} is {inside[0]}" if len(inside) == 1 else f"{name} in {{{_listed(inside)}}}"


def _thin(values: NDArray[Any]) -> NDArray[Any]:
    return values[:: max(1, len(values) // _LEARNED_FROM)]


def _runs(mask: Mask) -> list[tuple[int, int]]:
    """Return the first and last place of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2)]


def _listed(words: list[str]) -> str:
    return ", ".join(words[:8]) + (", ..." if len(words) > 8 else "")
