"""What is looked at in an output: features that sort it into cells, learned from past draws alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.classifier import Classifier
from sfumato.audit.events import Mask
from sfumato.audit.outputs import NO_BITS, ZERO_BITS, Codes, Draws, Floats, Reader

_MOST_ATOMS = 64
_EXTREMES = (4, 16, 64)
# A learner sorts at most so many past draws; counts are over all of them.
_LEARNED_FROM = 40_000

Extract = Callable[[Draws], Any]


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
    def words(self, name: str, mask: Mask) -> str:
        """Return the event that `mask` selects, in words."""


@dataclass(frozen=True)
class Feature:
    """One way to look at outputs.

    Args:
        name: of what is looked at, such as "value" or "exponent of the lowest set bit of value".
        extract: gives one number (or code) for each draw.
        learn: makes cells from past values of both sides; None if there is nothing to tell apart.
        fit: makes `extract` from the first half of the past; cells are then learned from the other half.
    """

    name: str
    extract: Extract
    learn: Callable[[NDArray[Any], NDArray[Any]], Cells | None]
    fit: Callable[[Draws, Draws], Extract] | None = None


class Quantiles(Cells):
    """Cells between quantiles of past numbers, with narrow ones in the tails; the last is for NaN."""

    def __init__(self, boundaries: Floats) -> None:
        self.boundaries = boundaries
        self.ordered = len(boundaries) + 1
        self.count = self.ordered + 1

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

    def words(self, name: str, mask: Mask) -> str:
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

    def __init__(self, codes: Codes, word: Callable[[int], str]) -> None:
        self.codes, self.word = codes, word
        self.count = len(codes) + 1

    @classmethod
    def learn(cls, x: Codes, y: Codes, word: Callable[[int], str]) -> Atoms | None:
        """Keep the values that were seen at least twice; None if there are none, or all are the same."""
        codes, seen = np.unique(np.concatenate([_thin(x), _thin(y)]), return_counts=True)
        if len(codes) < 2 or seen.max() < 2:
            return None
        often = np.argsort(-seen, kind="stable")[:_MOST_ATOMS]
        return cls(np.sort(codes[often[seen[often] >= 2]]), word)

    def place(self, values: NDArray[Any]) -> Codes:
        """Return the place of each value among those known, the last cell for others."""
        found = np.searchsorted(self.codes, values)
        known = self.codes[np.minimum(found, len(self.codes) - 1)] == values
        return np.where(known, found, len(self.codes))

    def words(self, name: str, mask: Mask) -> str:
        """Return the event as a list of values."""
        named = [self.word(int(c)) for c in self.codes[mask[:-1]]]
        if mask[-1]:
            rest = [self.word(int(c)) for c in self.codes[~mask[:-1]]]
            return f"{name} is none of {{{_listed(rest)}}}"
        return f"{name} is {named[0]}" if len(named) == 1 else f"{name} in {{{_listed(named)}}}"


def bank(reader: Reader, columns: list[int], x: Draws, y: Draws) -> list[Feature]:
    """Return the features that past draws of both sides suggest.

    Args:
        reader: knows the columns and the words of tokens.
        columns: those to be looked at by themselves.
        x: past draws of the first side, as wide as the reader's columns.
        y: past draws of the second side.
    Returns:
        Features, those of single columns first. The same feature has the same name in every call.
    """
    found: list[Feature] = []
    for column in columns:
        found += _of_column(reader, column, x, y)
    if len(reader.paths) > 1:
        found += _of_whole(x, y)
    return found


def _of_column(reader: Reader, column: int, x: Draws, y: Draws) -> list[Feature]:
    name = reader.paths[column]
    found = []

    def number(draws: Draws) -> Floats:
        return draws.wide(column + 1).numbers[:, column]

    def token(draws: Draws) -> Codes:
        return draws.wide(column + 1).tokens[:, column]

    def low(draws: Draws) -> Floats:
        bits = draws.wide(column + 1).low[:, column]
        return np.where(bits == NO_BITS, np.nan, bits)

    def atom(draws: Draws) -> Codes:
        return draws.wide(column + 1).atoms[:, column]

    def residue(draws: Draws) -> Codes:
        return np.asarray(np.mod(np.nan_to_num(number(draws) / step, nan=0, posinf=0, neginf=0), 16)).astype(
            np.int64
        )

    numbers = np.concatenate([number(x), number(y)])
    some = numbers[np.isfinite(numbers)]
    if len(np.unique(some[:1000])) > 1 or len(np.unique(some)) > 1:
        found.append(Feature(name, number, Quantiles.learn))
    lows = np.concatenate([x.low[:, column], y.low[:, column]])
    lows = lows[lows < ZERO_BITS]
    if len(lows) and lows.min() < lows.max():
        found.append(Feature(f"exponent of the lowest set bit of {name}", low, Quantiles.learn))
        step = 2.0 ** int(lows.min())
        if len(some) and np.abs(some).max() < 2.0**53 * step:
            words = Feature(f"{name} / 2^{int(lows.min())} modulo 16", residue, _atoms(str))
            found.append(words)
    tokens = np.concatenate([x.tokens[:, column], y.tokens[:, column]])
    if tokens.min() < tokens.max():
        found.append(Feature(f"kind of {name}", token, _atoms(lambda c: reader.vocabulary.words[c])))
    codes = np.concatenate([x.atoms[:, column], y.atoms[:, column]])
    values, seen = np.unique(codes, return_counts=True)
    only_kinds = not len(some) and len(values) == len(np.unique(tokens))
    if len(values) > 1 and seen.max() > 1 and not only_kinds:
        known = _Known(reader, column)
        known.see(x)
        known.see(y)
        found.append(Feature(f"exact {name}", atom, _atoms(known.word)))
        found.append(
            Feature(f"{name}, by memory", _no_score, _atoms(_memory_words.__getitem__), _memory(atom))
        )
    return found


def _of_whole(x: Draws, y: Draws) -> list[Feature]:
    """Features of outputs with several leaves."""
    found = []

    def present(draws: Draws) -> NDArray[np.bool_]:
        return np.isfinite(draws.numbers)

    def total(draws: Draws) -> Floats:
        return np.asarray(np.where(present(draws), draws.numbers, 0.0).sum(axis=1))

    def largest(draws: Draws) -> Floats:
        return np.asarray(np.where(present(draws), draws.numbers, -np.inf).max(axis=1))

    def smallest(draws: Draws) -> Floats:
        return np.asarray(np.where(present(draws), draws.numbers, np.inf).min(axis=1))

    def place_of_largest(draws: Draws) -> Codes:
        return np.asarray(np.where(present(draws), draws.numbers, -np.inf).argmax(axis=1))

    def lowest(draws: Draws) -> Floats:
        bits = draws.low.min(axis=1)
        return np.where(bits == NO_BITS, np.nan, bits)

    if np.isfinite(x.numbers).any() or np.isfinite(y.numbers).any():
        found += [
            Feature("sum of all numbers", total, Quantiles.learn),
            Feature("largest number", largest, Quantiles.learn),
            Feature("smallest number", smallest, Quantiles.learn),
            Feature("place of the largest number", place_of_largest, _atoms(str)),
            Feature("exponent of the lowest set bit of all numbers", lowest, Quantiles.learn),
        ]
    found.append(Feature("score of a classifier", _no_score, Quantiles.learn, _classifier))
    kinds = np.concatenate([x.kinds, y.kinds])
    if kinds.min() < kinds.max():
        found.append(Feature("kinds of all leaves", lambda draws: draws.kinds, _atoms(_hex)))
    codes = np.concatenate([x.whole, y.whole])
    values, seen = np.unique(codes, return_counts=True)
    if len(values) > 1 and seen.max() > 1:
        found.append(Feature("whole output", _whole, _atoms(_hex)))
        found.append(Feature("whole output, by memory", _no_score, _by_memory, _memory(_whole)))
    return found


def _hex(code: int) -> str:
    return f"#{code & 0xFFFFFFFF:08x}"


def _whole(draws: Draws) -> Codes:
    return draws.whole


_memory_words = (
    "one never seen before",
    "one seen before on the first dataset alone",
    "one seen before on the second dataset alone",
    "one seen before on both",
)


def _by_memory(x: Codes, y: Codes) -> Atoms | None:
    return Atoms.learn(x, y, _memory_words.__getitem__)


def _memory(extract: Extract) -> Callable[[Draws, Draws], Extract]:
    """Tell values by where they were seen before: a generator of few states repeats itself."""

    def fit(x: Draws, y: Draws) -> Extract:
        memories = [np.unique(extract(side)) for side in (x, y)]

        def place(draws: Draws) -> Codes:
            values = extract(draws)
            seen = [m[np.minimum(np.searchsorted(m, values), len(m) - 1)] == values for m in memories]
            return np.asarray(seen[0] + 2 * seen[1], np.int64)

        return place

    return fit


def _no_score(draws: Draws) -> Floats:
    return np.full(len(draws), np.nan)


def _classifier(x: Draws, y: Draws) -> Extract:
    return Classifier(x, y).score


class _Known:
    """Remembers which value an atom's code stands for, to name it in reports."""

    def __init__(self, reader: Reader, column: int) -> None:
        self.reader, self.column = reader, column
        self.names: dict[int, tuple[float, int]] = {}

    def see(self, draws: Draws) -> None:
        codes, first = np.unique(draws.atoms[:, self.column], return_index=True)
        for code, i in zip(codes[:1000].tolist(), first[:1000].tolist(), strict=True):
            self.names[code] = (float(draws.numbers[i, self.column]), int(draws.tokens[i, self.column]))

    def word(self, code: int) -> str:
        number, token = self.names.get(code, (np.nan, -1))
        if token < 0:
            return "a value"
        if not np.isnan(number):
            return f"{number:g}" if float(f"{number:g}") == number else repr(number)
        return self.reader.vocabulary.words[token]


def _atoms(word: Callable[[int], str]) -> Callable[[Codes, Codes], Atoms | None]:
    return lambda x, y: Atoms.learn(x, y, word)


def most_different(x: Draws, y: Draws, most: int = 6) -> list[int]:
    """Return the columns whose numbers or kinds differ most between the sides."""
    columns = x.numbers.shape[1]
    if columns <= most:
        return list(range(columns))
    fx, fy = (np.where(np.isfinite(d.numbers), np.arcsinh(np.nan_to_num(d.numbers)), 0.0) for d in (x, y))
    spread = np.sqrt((fx.var(axis=0) + fy.var(axis=0)) / 2) + 1e-300
    shift = np.abs(fx.mean(axis=0) - fy.mean(axis=0)) / spread
    kinds = np.abs((x.tokens > 0).mean(axis=0) - (y.tokens > 0).mean(axis=0)) * 2
    return sorted(np.argsort(-np.maximum(shift, kinds), kind="stable")[:most].tolist())


def _thin(values: NDArray[Any]) -> NDArray[Any]:
    return values[:: max(1, len(values) // _LEARNED_FROM)]


def _runs(mask: Mask) -> list[tuple[int, int]]:
    """Return the first and last place of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2)]


def _listed(words: list[str]) -> str:
    return ", ".join(words[:8]) + (", ..." if len(words) > 8 else "")
