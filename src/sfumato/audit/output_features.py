"""Features of outputs to bet on, and the cells that they are sorted into, learned from past draws alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.output_columns import NO_BITS, ZERO_BITS, Codes, Draws, Floats, Mask, Reader
from sfumato.dataclass import dataclass

_MAX_ATOMS = 64
_EXTREMES = (4, 16, 64)
# A learner sorts at most so many past draws; counts are over all of them.
_LEARNED_FROM = 40_000


class Cells(ABC):
    """The cells of an output feature, fixed until they are learned again.

    `count` cells in all, of which the first `ordered` stand in order.
    """

    count: int
    ordered: int = 0

    @abstractmethod
    def place(self, values: NDArray[Any]) -> Codes:
        """Return the cell of each value of an output feature, int64 from 0 to count - 1."""

    @abstractmethod
    def words(self, name: str, mask: Mask, named: Callable[[int], str]) -> str:
        """Return in words the event that `mask` selects of an output feature's cells."""


class Quantiles(Cells):
    """Cells of a feature between quantiles of past numbers, narrow in the tails; the last is for NaN."""

    def __init__(self, boundaries: Floats) -> None:
        self.boundaries = boundaries
        self.ordered: int = len(boundaries) + 1
        self.count: int = self.ordered + 1

    @classmethod
    def learn(cls, x: Floats, y: Floats) -> Quantiles | None:
        """Learn a feature's cells: boundaries at quantiles of all past draws; None if all are equal."""
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
        """Return the cell of each value of a feature: the number of boundaries at or below it."""
        found = np.searchsorted(self.boundaries, values, side="right")
        return np.where(np.isnan(values), self.ordered, found)

    def words(self, name: str, mask: Mask, named: Callable[[int], str]) -> str:
        """Return an event of a feature's cells as a union of intervals."""
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
    """Cells of the feature values that were seen most often, and one for all others."""

    def __init__(self, codes: Codes) -> None:
        self.codes = codes
        self.count: int = len(codes) + 1

    @classmethod
    def learn(cls, x: Codes, y: Codes) -> Atoms | None:
        """Learn a feature's cells: values seen twice or more; None if there are none, or all are equal."""
        codes, seen = np.unique(np.concatenate([_thin(x), _thin(y)]), return_counts=True)
        if len(codes) < 2 or seen.max() < 2:
            return None
        often = np.argsort(-seen, kind="stable")[:_MAX_ATOMS]
        return cls(np.sort(codes[often[seen[often] >= 2]]))

    def place(self, values: NDArray[Any]) -> Codes:
        """Return the cell of each value of a feature, the last one for unknown values."""
        found = np.searchsorted(self.codes, values)
        known = self.codes[np.minimum(found, len(self.codes) - 1)] == values
        return np.where(known, found, len(self.codes))

    def words(self, name: str, mask: Mask, named: Callable[[int], str]) -> str:
        """Return an event of a feature's cells as a list of values."""
        if mask[-1]:
            rest = [named(int(c)) for c in self.codes[~mask[:-1]]]
            return f"{name} is none of {{{_listed(rest)}}}"
        inside = [named(int(c)) for c in self.codes[mask[:-1]]]
        return f"{name} is {inside[0]}" if len(inside) == 1 else f"{name} in {{{_listed(inside)}}}"


def _thin(values: NDArray[Any]) -> NDArray[Any]:
    return values[:: max(1, len(values) // _LEARNED_FROM)]


def _runs(mask: Mask) -> list[tuple[int, int]]:
    """Return the first and last cell of each run of a feature's event."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2)]


def _listed(words: list[str]) -> str:
    return ", ".join(words[:8]) + (", ..." if len(words) > 8 else "")


_RIDGE = 10.0
_MAX_COLUMNS = 200
_MAX_TOKENS = 4
_STEPS = 25
_FITTED_ON = 5_000
# Wider outputs are scored by lines alone.
_MAX_SQUASHED = 100


class Classifier:
    """A feature of outputs: a linear discriminant on numbers and kinds of leaves, by least squares.

    Args:
        x: draws of the first side.
        y: draws of the second side, as wide.

    Nothing rests on how good it is.

    Source:
        Fisher 1936; conjugate gradients (Hestenes and Stiefel 1952) in place of a factorisation, as many
        small matrices would keep all threads of the linear algebra busy with waiting for each other.
    """

    def __init__(self, x: Draws, y: Draws) -> None:
        x, y = (d.part(0, _FITTED_ON) for d in (x, y))
        tokens = np.concatenate([x.tokens, y.tokens])[:, :_MAX_COLUMNS]
        self._tokens = [_often(column) for column in tokens.T]
        raw = np.vstack([self._raw(x), self._raw(y)])
        self._center = np.median(raw, axis=0)
        spread = np.quantile(np.abs(raw - self._center), 0.75, axis=0)
        self._scale = np.where(spread > 0, spread, 1.0)
        design = self._scaled(raw)
        side = np.concatenate([np.ones(len(x)), -np.ones(len(y))])
        self._weights = _least_squares(design, side)

    def score(self, draws: Draws) -> Floats:
        """Return the classifier's feature of each output: larger where the first side is more likely."""
        return np.asarray(np.einsum("ij,j->i", self._scaled(self._raw(draws)), self._weights))

    def _raw(self, draws: Draws) -> Floats:
        columns = len(self._tokens)
        wide = draws.wide(columns)
        numbers = wide.numbers[:, :columns]
        parts = [np.clip(np.nan_to_num(numbers, nan=0.0), -1e150, 1e150)]
        for column, codes in enumerate(self._tokens):
            parts += [(wide.tokens[:, column] == code)[:, None] for code in codes]
        return np.hstack(parts)

    def _scaled(self, raw: Floats) -> Floats:
        scaled = np.clip((raw - self._center) / self._scale, -8, 8)
        # The log-ratio of shifted Laplace noise is a clipped line, of Gaussian noise a line: offer both.
        squashed = [np.clip(scaled, -1, 1)] if scaled.shape[1] <= _MAX_SQUASHED else []
        return np.hstack([scaled, *squashed, np.ones((len(raw), 1))])


def _least_squares(design: Floats, side: Floats) -> Floats:
    """Solve the classifier's (D'D + ridge) w = D' side by conjugate gradients."""
    weights = np.zeros(design.shape[1])
    residual = np.einsum("ij,i->j", design, side)
    direction, size = residual, float((residual**2).sum())
    enough = 1e-8 * size
    for _ in range(_STEPS):
        if size <= enough:
            break
        image = np.einsum("ij,j->i", design, direction)
        image = np.einsum("ij,i->j", design, image) + _RIDGE * direction
        step = size / float((direction * image).sum())
        weights = weights + step * direction
        residual = residual - step * image
        size, before = float((residual**2).sum()), size
        direction = residual + size / before * direction
    return weights


def _often(codes: Codes) -> Codes:
    """Return the most frequent codes of a column but one, as features of the classifier."""
    values, seen = np.unique(codes, return_counts=True)
    return values[np.argsort(-seen, kind="stable")][1 : _MAX_TOKENS + 1]


Extract = Callable[[Draws], Any]


@dataclass(frozen=True)
class Feature:
    """A feature of outputs: one number or code of each, and how its cells are learned.

    Args:
        name: of what is looked at, such as "value" or "exponent of the lowest set bit of value".
        extract: gives one number (or code) for each draw.
        learn: makes cells from past values of both sides; None if there is nothing to tell apart.
        named: the word of a code, given a draw that has it and the code.
        fit: makes `extract` from the first half of the past; cells are then learned from the other half.
    """

    name: str
    extract: Extract
    learn: Callable[[NDArray[Any], NDArray[Any]], Cells | None]
    named: Callable[[Draws, int], str] = lambda draw, code: str(code)
    fit: Callable[[Draws, Draws], Extract] | None = None


def bank(reader: Reader, columns: list[int], x: Draws, y: Draws) -> list[Feature]:
    """Return the features of outputs that past draws of both sides suggest.

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
        found += _column_features(reader, column, x, y)
    if len(reader.paths) > 1:
        found += _joint_features(reader, x, y)
    return found


def _column_features(reader: Reader, column: int, x: Draws, y: Draws) -> list[Feature]:
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
            words = Feature(f"{name} / 2^{int(lows.min())} modulo 16", residue, Atoms.learn)
            found.append(words)
    tokens = np.concatenate([x.tokens[:, column], y.tokens[:, column]])
    if tokens.min() < tokens.max():
        found.append(Feature(f"kind of {name}", token, Atoms.learn, lambda draw, code: reader.kind(code)))
    codes = np.concatenate([x.atoms[:, column], y.atoms[:, column]])
    values, seen = np.unique(codes, return_counts=True)
    only_kinds = not len(some) and len(values) == len(np.unique(tokens))
    if len(values) > 1 and seen.max() > 1 and not only_kinds:
        found.append(
            Feature(f"exact {name}", atom, Atoms.learn, lambda draw, _: reader.describe_value(draw, column))
        )
        found.append(Feature(f"{name}, by memory", _no_score, Atoms.learn, _by_memory, _memory(atom)))
    return found


def _joint_features(reader: Reader, x: Draws, y: Draws) -> list[Feature]:
    """Return the features of outputs with several leaves."""
    found = []
    measured = np.array([not path.startswith("len(") for path in reader.paths])

    def present(draws: Draws) -> NDArray[np.bool_]:
        inside: NDArray[np.bool_] = np.isfinite(draws.numbers)
        known = min(inside.shape[1], len(measured))
        inside[:, :known] &= measured[:known]
        return inside

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
            Feature("place of the largest number", place_of_largest, Atoms.learn),
            Feature("exponent of the lowest set bit of all numbers", lowest, Quantiles.learn),
        ]
    found.append(Feature("score of a classifier", _no_score, Quantiles.learn, fit=_classifier))
    kinds = np.concatenate([x.kinds, y.kinds])
    if kinds.min() < kinds.max():
        found.append(Feature("kinds of all leaves", _kinds, Atoms.learn, lambda draw, _: reader.kinds(draw)))
    codes = np.concatenate([x.whole, y.whole])
    values, seen = np.unique(codes, return_counts=True)
    if len(values) > 1 and seen.max() > 1:
        found.append(Feature("whole output", _whole, Atoms.learn, lambda draw, _: reader.words(draw)))
        found.append(Feature("whole output, by memory", _no_score, Atoms.learn, _by_memory, _memory(_whole)))
    return found


def _kinds(draws: Draws) -> Codes:
    return draws.kinds


def _whole(draws: Draws) -> Codes:
    return draws.whole


_memory_words = (
    "one never seen before",
    "one seen before on the first dataset alone",
    "one seen before on the second dataset alone",
    "one seen before on both",
)


def _by_memory(draw: Draws, code: int) -> str:
    return _memory_words[code]


def _memory(extract: Extract) -> Callable[[Draws, Draws], Extract]:
    """Return a feature of outputs: on which sides the same value was seen before."""

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


def rank_columns(x: Draws, y: Draws, limit: int = 6) -> list[int]:
    """Return the columns whose features differ most between the sides."""
    columns = x.numbers.shape[1]
    if columns <= limit:
        return list(range(columns))
    fx, fy = (np.where(np.isfinite(d.numbers), np.arcsinh(np.nan_to_num(d.numbers)), 0.0) for d in (x, y))
    spread = np.sqrt((fx.var(axis=0) + fy.var(axis=0)) / 2) + 1e-300
    shift = np.abs(fx.mean(axis=0) - fy.mean(axis=0)) / spread
    kinds = np.abs((x.tokens > 0).mean(axis=0) - (y.tokens > 0).mean(axis=0)) * 2
    return sorted(np.argsort(-np.maximum(shift, kinds), kind="stable")[:limit].tolist())
