"""Outputs of any kind as columns: a number, a token and the lowest set bit for each leaf."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.mechanisms import Raised, plain, rows

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MISSING = 1
RAISES = "exception "
LENGTH = "len(value)"
MOST_COLUMNS = 1000
_MOST_TOKENS = 100_000
_MOST_WORDS = 10
# What lies deeper in an output is one leaf.
_DEEPEST = 50
# Valuations of what has no lowest set bit.
NO_BITS, ZERO_BITS = 2000, 1100


class Vocabulary:
    """Whole numbers for whatever is not simply a float; 0 is a float, 1 stands for a leaf that is absent."""

    def __init__(self) -> None:
        self.words: list[str] = ["a float", "absent"]
        self._codes: dict[str, int] = {}

    def code(self, word: str) -> int:
        """Return the word's code; past 100,000 words all are one."""
        found = self._codes.get(word)
        if found is None:
            if len(self.words) > _MOST_TOKENS:
                word = "a rare token"
                if word in self._codes:
                    return self._codes[word]
            found = self._codes[word] = len(self.words)
            self.words.append(word)
        return found


@dataclass
class Draws:
    """A batch of outputs of one dataset.

    Args:
        numbers: float64 of shape (draws, columns); NaN where a leaf is not a number.
        tokens: int64 codes of the same shape: 0 for finite floats; others have a word in the vocabulary.
        low: int64 of the same shape: exponent of the lowest set bit.
    """

    numbers: Floats
    tokens: Codes
    low: Codes

    def __len__(self) -> int:
        return len(self.numbers)

    def wide(self, columns: int) -> Draws:
        """Return the same draws with columns added that are absent in all."""
        extra = columns - self.numbers.shape[1]
        if extra <= 0:
            return self
        shape = (len(self), extra)
        return Draws(
            np.hstack([self.numbers, np.full(shape, np.nan)]),
            np.hstack([self.tokens, np.full(shape, MISSING)]),
            np.hstack([self.low, np.full(shape, NO_BITS)]),
        )

    def part(self, start: int, stop: int) -> Draws:
        """Return the draws from `start` to before `stop`."""
        return Draws(self.numbers[start:stop], self.tokens[start:stop], self.low[start:stop])

    def narrow(self, columns: int) -> Draws:
        """Return the same draws without the columns that come after."""
        if self.numbers.shape[1] <= columns:
            return self
        return Draws(self.numbers[:, :columns], self.tokens[:, :columns], self.low[:, :columns])

    @cached_property
    def atoms(self) -> Codes:
        """A code for the exact value of each leaf."""
        bits = np.where(np.isnan(self.numbers), 0.0, self.numbers).view(np.int64)
        return np.asarray(_mixed(bits) ^ _mixed(self.tokens + 1))

    @cached_property
    def whole(self) -> Codes:
        """A code for the exact value of each whole output."""
        return _rows_mixed(self.atoms)

    @cached_property
    def kinds(self) -> Codes:
        """A code for what kinds of leaves each output has, absent ones included."""
        return _rows_mixed(self.tokens)


def joined(batches: list[Draws], columns: int) -> Draws:
    """Return batches as one."""
    wide = [b.wide(columns) for b in batches]
    return Draws(*(np.concatenate([getattr(b, name) for b in wide]) for name in ("numbers", "tokens", "low")))


class Reader:
    """Turns outputs into columns; the same leaf gets the same column in every batch.

    What it reads of a draw depends on no other draw, in calls that return outputs of one `form`.
    """

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.paths: list[str] = []
        self._index: dict[str, int] = {}

    def read(self, outputs: Any) -> Draws:
        """Return outputs, as `Mechanism.draw` gives them, as columns."""
        array = _numeric(outputs)
        if array is not None:
            scalar = array.ndim == 1
            flat = array.reshape(len(array), -1)[:, :MOST_COLUMNS]
            names = ["value"] if scalar else [f"[{i}]" for i in range(flat.shape[1])]
            if scalar or not isinstance(outputs, list):
                return self._array(flat, names)
            # A list is read as `leaves` reads it, whatever the other lists of the batch hold.
            length = self._column(LENGTH)
            draws = self._array(flat, names)
            if length is not None:
                told = self._leaves([array.shape[1]])
                draws.numbers[:, length], draws.tokens[:, length], draws.low[:, length] = told
            return draws
        if isinstance(outputs, dict) and _all_floats(outputs.values()):
            return self._array(np.column_stack(list(outputs.values())), [f".{name}" for name in outputs])
        cells: dict[int, list[Any]] = {}
        where: dict[int, list[int]] = {}
        listed = rows(outputs)
        for row, output in enumerate(listed):
            for path, leaf in leaves(output):
                column = self._column(path)
                if column is not None:
                    cells.setdefault(column, []).append(leaf)
                    where.setdefault(column, []).append(row)
        shape = (len(listed), len(self.paths))
        draws = Draws(np.full(shape, np.nan), np.full(shape, MISSING), np.full(shape, NO_BITS))
        for column, values in cells.items():
            place = (np.asarray(where[column]), column)
            draws.numbers[place], draws.tokens[place], draws.low[place] = self._leaves(values)
        return draws

    def kind(self, token: int) -> str:
        """Return the word of a token."""
        return self.vocabulary.words[token]

    def word(self, draw: Draws, column: int) -> str:
        """Return one leaf of one draw in words."""
        number, token = float(draw.numbers[0, column]), int(draw.tokens[0, column])
        if math.isnan(number):
            return self.kind(token)
        return f"{number:g}" if float(f"{number:g}") == number else repr(number)

    def words(self, draw: Draws) -> str:
        """Return one draw in words, absent leaves left out."""
        return self._each(draw, lambda column: self.word(draw, column))

    def kinds(self, draw: Draws) -> str:
        """Return the kinds of the leaves of one draw in words, absent leaves left out."""
        return self._each(draw, lambda column: self.kind(int(draw.tokens[0, column])))

    def _each(self, draw: Draws, word: Callable[[int], str]) -> str:
        present = np.flatnonzero(draw.tokens[0] != MISSING).tolist()
        listed = [f"{self.paths[c]} {word(c)}" for c in present[:_MOST_WORDS]]
        return f"({', '.join([*listed, '...'] if len(present) > _MOST_WORDS else listed)})"

    def _column(self, path: str) -> int | None:
        found = self._index.get(path)
        if found is None and len(self.paths) < MOST_COLUMNS:
            found = self._index[path] = len(self.paths)
            self.paths.append(path)
        return found

    def _array(self, array: NDArray[Any], names: list[str]) -> Draws:
        found = [self._column(name) for name in names]
        array = array[:, [c is not None for c in found]]
        columns = [c for c in found if c is not None]
        whole = array.dtype.kind in "iu"
        floats = array.astype(np.float64)
        tokens = np.zeros(array.shape, np.int64)
        kind = 0 if array.dtype.kind == "f" else self.vocabulary.code(f"a {array.dtype.name}")
        tokens[...] = kind
        odd = ~np.isfinite(floats) | ((floats == 0) & np.signbit(floats))
        for place in zip(*np.nonzero(odd), strict=True):
            tokens[place] = self.vocabulary.code(_odd_word(float(floats[place])))
        low = _low_of_wholes(array) if whole else _low_of_floats(floats)
        if columns == list(range(len(self.paths))):
            return Draws(floats, tokens, low)
        shape = (len(array), len(self.paths))
        draws = Draws(np.full(shape, np.nan), np.full(shape, MISSING), np.full(shape, NO_BITS))
        draws.numbers[:, columns], draws.tokens[:, columns], draws.low[:, columns] = floats, tokens, low
        return draws

    def _leaves(self, values: list[Any]) -> tuple[Floats, Codes, Codes]:
        numbers = np.full(len(values), np.nan)
        tokens = np.zeros(len(values), np.int64)
        low = np.full(len(values), NO_BITS)
        floats = np.zeros(len(values), np.bool_)
        for i, given in enumerate(values):
            value = given.item() if isinstance(given, np.generic) else given
            if isinstance(value, float):
                numbers[i], floats[i] = value, True
                if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
                    tokens[i] = self.vocabulary.code(_odd_word(value))
            elif isinstance(value, int):
                try:
                    numbers[i] = float(value)
                except OverflowError:
                    numbers[i] = np.inf if value > 0 else -np.inf
                tokens[i] = self.vocabulary.code("an int" if not isinstance(value, bool) else str(value))
                low[i] = (value & -value).bit_length() - 1 if value else ZERO_BITS
            else:
                tokens[i] = self.vocabulary.code(_word(value))
        low[floats] = _low_of_floats(numbers[floats])
        return numbers, tokens, low


def form(outputs: Any) -> str:
    """Return what the outputs of one call have in common by how they were returned, in words.

    It is told of a whole call, not of one draw: one None among a thousand numbers makes another array.

    >>> form(np.zeros((5, 2))), form([0.5, None]), form({"n": np.arange(3), "m": [1, 2, 3]})
    ('an array of floats, 2 of each draw', 'a list', 'columns n (an array of int64), m (a list)')
    """
    if isinstance(outputs, dict):
        # A mapping within one is no column of numbers, and may be the outer one again.
        columns = {n: "a mapping" if isinstance(c, dict) else form(c) for n, c in outputs.items()}
        return f"columns {', '.join(f'{name} ({column})' for name, column in columns.items())}"
    if not isinstance(outputs, np.ndarray) or outputs.dtype.kind not in "fiub":
        return "a list"
    kind = "floats" if outputs.dtype.kind == "f" else outputs.dtype.name
    width = f", {' x '.join(map(str, outputs.shape[1:]))} of each draw" if outputs.ndim > 1 else ""
    return f"an array of {kind}{width}"


def leaves(output: Any, path: str = "", around: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Take an output apart into its leaves, each with its place.

    A part that contains itself, or lies 50 levels deep, is one leaf: an ellipsis.

    Args:
        output: of any kind.
        path: its place.
        around: identities of the parts that it lies in.

    >>> list(leaves({"n": 3, "mean": [0.5, None]}))
    [('.keys', "('n', 'mean')"), ('.n', 3), ('len(.mean)', 2), ('.mean[0]', 0.5), ('.mean[1]', None)]
    """
    if id(output) in around or len(around) == _DEEPEST:
        yield path, ...
        return
    around = (*around, id(output))
    output = plain(output)
    if isinstance(output, np.ndarray):
        output = output.tolist()
    if isinstance(output, Raised):
        yield path or "value", output
        yield f"message{path}", output.message
    elif isinstance(output, dict):
        lists = [v for v in output.values() if isinstance(v, (list, np.ndarray))]
        if output and len(lists) == len(output) and len({len(v) for v in lists}) == 1:
            yield from leaves(rows(output), path, around)
            return
        yield f"{path}.keys", str(tuple(output))
        for key, value in output.items():
            yield from leaves(value, f"{path}.{key}", around)
    elif isinstance(output, (list, tuple)):
        yield f"len({path or 'value'})", len(output)
        for place, value in _named(output):
            yield from leaves(value, f"{path}[{place}]", around)
    elif isinstance(output, (str, bytes)):
        yield path or "value", output
        yield f"len({path or 'value'})", len(output)
    else:
        yield path or "value", output


def _named(items: Any) -> Iterator[tuple[str, Any]]:
    """Name rows by the texts in them, where they have some: the row of group "a" is then always the same."""
    seen: dict[str, int] = {}
    for i, item in enumerate(items):
        texts = (
            [v for v in item.values() if v is None or isinstance(v, (str, bytes))]
            if isinstance(item, dict)
            else []
        )
        if texts:
            name = ",".join(map(repr, texts))
            seen[name] = seen.get(name, 0) + 1
            yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), item
        else:
            yield str(i), item


def _numeric(outputs: Any) -> NDArray[Any] | None:
    if isinstance(outputs, np.ndarray):
        # Without a number in it, an array of arrays is told by its length alone, as a list is.
        return outputs if outputs.dtype.kind in "fiub" and outputs.size else None
    if not isinstance(outputs, list) or not outputs:
        return None
    kinds = set(map(type, outputs))
    if kinds == {float}:
        return np.array(outputs)
    flat = kinds in ({list}, {tuple}) and len(set(map(len, outputs))) == 1
    if flat and set(map(type, itertools.chain.from_iterable(outputs))) == {float}:
        return np.array(outputs)
    return None


def _all_floats(columns: Iterable[Any]) -> bool:
    return all(isinstance(c, np.ndarray) and c.dtype.kind == "f" and c.ndim == 1 for c in columns)


def _word(value: Any) -> str:
    if isinstance(value, Raised):
        return RAISES + value.kind
    try:
        return repr(value)[:200]
    except Exception:  # its text is the mechanism's code too
        return f"a {type(value).__name__}"


def _odd_word(value: float) -> str:
    return "NaN" if math.isnan(value) else "-0.0" if value == 0 else str(value)


def _low_of_floats(numbers: Floats) -> Codes:
    """Return the exponent of the lowest set bit of each float."""
    bits = np.ascontiguousarray(numbers).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & ((1 << 52) - 1)) | np.where(exponent > 0, np.int64(1) << 52, 0)
    lowest = np.frexp((mantissa & -mantissa).astype(np.float64))[1].astype(np.int64) - 1
    low = np.maximum(exponent, 1) - 1075 + lowest
    return np.where(exponent == 0x7FF, NO_BITS, np.where(mantissa == 0, ZERO_BITS, low))


def _low_of_wholes(numbers: NDArray[Any]) -> Codes:
    bits = numbers.astype(np.uint64)
    with np.errstate(over="ignore"):
        lowest = bits & (~bits + np.uint64(1))
    found = np.frexp(lowest.astype(np.float64))[1].astype(np.int64) - 1
    return np.where(bits == 0, ZERO_BITS, found)


def _rows_mixed(codes: Codes) -> Codes:
    total = np.zeros(len(codes), np.int64)
    with np.errstate(over="ignore"):
        for column in codes.T:
            total = _mixed(total * 31 + column)
    return total


def _mixed(codes: Codes) -> Codes:
    """Mix 64 bits well (the finisher of splitmix64), so that sums of codes rarely collide."""
    z = codes.astype(np.uint64)
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).astype(np.int64)
