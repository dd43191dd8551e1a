"""Outputs as columns: a number, a token and the lowest set bit for each leaf."""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.mechanisms import rows
from sfumato.audit.output_leaves import (
    MAX_LEAVES,
    RAISES,
    Exact,
    Unread,
    as_float,
    describe_value,
    iter_leaves,
    key_word,
)
from sfumato.dataclass import dataclass

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]

# Valuations of what has no lowest set bit.
NO_BITS, ZERO_BITS = 2000, 1100


def low_of_fraction(value: Fraction) -> int:
    """Return the exponent of a column's number's lowest set bit; endless fractions have none."""
    if not value:
        return ZERO_BITS
    if value.denominator & (value.denominator - 1):
        return NO_BITS
    low = (value.numerator & -value.numerator).bit_length() - value.denominator.bit_length()
    return max(min(low, ZERO_BITS - 1), -ZERO_BITS)


def low_of_floats(numbers: Floats) -> Codes:
    """Return the exponents of the lowest set bits of a column of floats."""
    bits = np.ascontiguousarray(numbers).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & ((1 << 52) - 1)) | np.where(exponent > 0, np.int64(1) << 52, 0)
    lowest = np.frexp((mantissa & -mantissa).astype(np.float64))[1].astype(np.int64) - 1
    low = np.maximum(exponent, 1) - 1075 + lowest
    return np.where(exponent == 0x7FF, NO_BITS, np.where(mantissa == 0, ZERO_BITS, low))


def low_of_wholes(numbers: NDArray[Any]) -> Codes:
    """Return the exponents of the lowest set bits of a column of whole numbers."""
    bits = numbers.astype(np.uint64)
    with np.errstate(over="ignore"):
        lowest = bits & (~bits + np.uint64(1))
    found = np.frexp(lowest.astype(np.float64))[1].astype(np.int64) - 1
    return np.where(bits == 0, ZERO_BITS, found)


def rows_mixed(codes: Codes) -> Codes:
    """Return a code for each row of columns of codes."""
    total = np.zeros(len(codes), np.int64)
    with np.errstate(over="ignore"):
        for column in codes.T:
            total = mix_bits(total * 31 + column)
    return total


def mix_bits(codes: Codes) -> Codes:
    """Mix the 64 bits of each code in a column (the finisher of splitmix64), so that sums rarely collide."""
    z = codes.astype(np.uint64)
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).astype(np.int64)


# Leaves by their place: the rows that have one, and what it is there.
Cells = dict[str, tuple[list[int], list[Any]]]

MISSING = 1
LENGTH = "len(value)"
MAX_COLUMNS = 1000
_MAX_TOKENS = 100_000
_MAX_WORDS = 10
_NAMED = 10


class Vocabulary:
    """Tokens for values in columns of outputs: 0 is a float, 1 stands for an absent leaf."""

    def __init__(self) -> None:
        self.words: list[str] = ["a float", "absent"]
        self._codes: dict[str, int] = {}

    def code(self, word: str) -> int:
        """Return the token of a word in a column; after 100,000 words all are one token."""
        found = self._codes.get(word)
        if found is None:
            if len(self.words) > _MAX_TOKENS:
                word = "a rare token"
                if word in self._codes:
                    return self._codes[word]
            found = self._codes[word] = len(self.words)
            self.words.append(word)
        return found


@dataclass
class Draws:
    """A batch of one dataset's outputs as columns.

    Args:
        numbers: float64 of shape (draws, columns); NaN where a leaf is not a number.
        tokens: int64 codes of the same shape: 0 for finite floats; others have a word in the vocabulary.
        low: int64 of the same shape: exponent of the lowest set bit.
    """

    numbers: Floats
    tokens: Codes
    low: Codes

    @classmethod
    def absent(cls, draws: int, columns: int) -> Draws:
        """Return draws without a leaf in any column."""
        shape = (draws, columns)
        return cls(np.full(shape, np.nan), np.full(shape, MISSING), np.full(shape, NO_BITS))

    def __len__(self) -> int:
        return len(self.numbers)

    def wide(self, columns: int) -> Draws:
        """Return the same draws with more columns, whose leaves are absent."""
        extra = columns - self.numbers.shape[1]
        if extra <= 0:
            return self
        added = Draws.absent(len(self), extra)
        return Draws(
            np.hstack([self.numbers, added.numbers]),
            np.hstack([self.tokens, added.tokens]),
            np.hstack([self.low, added.low]),
        )

    def part(self, start: int, stop: int) -> Draws:
        """Return the draws from row `start` to before row `stop` of the columns."""
        return Draws(self.numbers[start:stop], self.tokens[start:stop], self.low[start:stop])

    def narrow(self, columns: int) -> Draws:
        """Return the same draws with only the first columns."""
        if self.numbers.shape[1] <= columns:
            return self
        return Draws(self.numbers[:, :columns], self.tokens[:, :columns], self.low[:, :columns])

    @cached_property
    def atoms(self) -> Codes:
        """Columns of codes for the exact value of each leaf."""
        bits = np.where(np.isnan(self.numbers), 0.0, self.numbers).view(np.int64)
        return np.asarray(mix_bits(bits) ^ mix_bits(self.tokens + 1))

    @cached_property
    def whole(self) -> Codes:
        """A column of codes for the exact value of each whole output."""
        return rows_mixed(self.atoms)

    @cached_property
    def kinds(self) -> Codes:
        """A column of codes for the kinds of leaves that each output has, absent ones included."""
        return rows_mixed(self.tokens)


def join_batches(batches: list[Draws], columns: int) -> Draws:
    """Return batches of draws as one, with the same columns."""
    wide = [b.wide(columns) for b in batches]
    return Draws(*(np.concatenate([getattr(b, name) for b in wide]) for name in ("numbers", "tokens", "low")))


class Reader:
    """Reads outputs into columns; the same leaf gets the same column in every batch.

    What it reads of a draw depends on no other draw, in calls that return outputs of one `form`. Where
    there are more leaves than columns, those that get one are chosen at random, and the others are counted.
    """

    def __init__(self) -> None:
        self.vocabulary: Vocabulary = Vocabulary()
        self.paths: list[str] = []
        self._index: dict[str, int] = {}
        self._left_out: dict[str, None] = {}
        self._unread: dict[tuple[str, str], str] = {}
        # The choice of columns has to differ from audit to audit: what one misses, another looks at.
        self._random = secrets.SystemRandom()

    @property
    def left_out(self) -> int:
        """The number of leaves that have no column."""
        return len(self._left_out)

    @property
    def notes(self) -> list[str]:
        """Notes on the parts of outputs that have no column, or were not read."""
        found = []
        if self._left_out:
            looked, left = len(self.paths), len(self._left_out)
            found.append(
                f"{looked:,} of {looked + left:,} parts of an output were tested, chosen at "
                f"random, and not {_some(list(self._left_out))}"
            )
        reasons: dict[str, list[str]] = {}
        for (path, why), kind in self._unread.items():
            reasons.setdefault(why, []).append(f"{path} ({kind})")
        return [*found, *(f"not read, as {why}: {_some(paths)}" for why, paths in reasons.items())]

    def read(self, outputs: Any) -> Draws:
        """Read the outputs of `Mechanism.draw` into columns."""
        (found,) = self.read_all([outputs])
        return found

    def read_all(self, batches: list[Any]) -> list[Draws]:
        """Read several batches of outputs into columns; new leaves get columns with the same chance."""
        parsed = [self._parse_outputs(outputs) for outputs in batches]
        self._admit(dict.fromkeys(path for names, _ in parsed for path in names))
        return [filled() for _, filled in parsed]

    def _parse_outputs(self, outputs: Any) -> tuple[Iterable[str], Callable[[], Draws]]:
        """Return the places of all leaves, and a function that fills columns once these are chosen."""
        array = _numeric(outputs)
        if array is not None:
            scalar = array.ndim == 1
            flat = array.reshape(len(array), -1)
            names = ["value"] if scalar else [f"[{i}]" for i in range(flat.shape[1])]
            if scalar or not isinstance(outputs, list):
                return names, lambda: self._array(flat, names)
            # A list is read as `leaves` reads it, whatever the other lists of the batch hold.
            return [LENGTH, *names], lambda: self._list(flat, names)
        if isinstance(outputs, dict) and _all_floats(outputs):
            columns = np.column_stack(list(outputs.values()))
            names = [f".{key_word(name)}" for name in outputs]
            return names, lambda: self._array(columns, names)
        listed = rows(outputs)
        cells: Cells = {}
        for row, output in enumerate(listed):
            for i, (path, leaf) in enumerate(iter_leaves(output)):
                if i == MAX_LEAVES:
                    why = f"at most {MAX_LEAVES:,} leaves of an output are read"
                    self._unread["the rest", why] = "of one output"
                    break
                where, values = cells.setdefault(path, ([], []))
                if where and where[-1] == row:  # two keys of one text, such as 1 and "1"
                    where, values = _another(cells, path, row)
                where.append(row)
                values.append(leaf)
        return cells, lambda: self._cells(len(listed), cells)

    def _admit(self, paths: dict[str, None]) -> None:
        """Give columns to new leaves; where there are too few, to some of them at random."""
        new = [path for path in paths if path not in self._index and path not in self._left_out]
        room = MAX_COLUMNS - len(self.paths)
        chosen = set(range(len(new)) if len(new) <= room else self._random.sample(range(len(new)), room))
        for i, path in enumerate(new):
            if i in chosen:
                self._index[path] = len(self.paths)
                self.paths.append(path)
            else:
                self._left_out[path] = None

    def _list(self, flat: NDArray[Any], names: list[str]) -> Draws:
        draws, length = self._array(flat, names), self._index.get(LENGTH)
        if length is not None:
            told = self._read_leaves([flat.shape[1]])
            draws.numbers[:, length], draws.tokens[:, length], draws.low[:, length] = told
        return draws

    def _cells(self, count: int, cells: Cells) -> Draws:
        draws = Draws.absent(count, len(self.paths))
        for path, (where, values) in cells.items():
            column = self._index.get(path)
            if column is None:
                continue
            for value in values:
                if isinstance(value, Unread) and value.why:
                    self._unread[path, value.why] = value.kind
            place = (np.asarray(where), column)
            draws.numbers[place], draws.tokens[place], draws.low[place] = self._read_leaves(values)
        return draws

    def kind(self, token: int) -> str:
        """Return the word of a token in a column."""
        return self.vocabulary.words[token]

    def only_raised(self, tokens: list[int]) -> str | None:
        """Return the exceptions of draws with these tokens in column 0; None if one gave an output."""
        words = [self.kind(token) for token in tokens]
        if not all(word.startswith(RAISES) for word in words):
            return None
        return ", ".join(word.removeprefix(RAISES) for word in words)

    def describe_value(self, draw: Draws, column: int) -> str:
        """Return the value in one column of one draw in words."""
        number, token = float(draw.numbers[0, column]), int(draw.tokens[0, column])
        if math.isnan(number):
            return self.kind(token)
        return f"{number:g}" if float(f"{number:g}") == number else repr(number)

    def words(self, draw: Draws) -> str:
        """Return the values in all columns of one draw in words, absent leaves left out."""
        return self._each(draw, lambda column: self.describe_value(draw, column))

    def kinds(self, draw: Draws) -> str:
        """Return the kinds in all columns of one draw in words, absent leaves left out."""
        return self._each(draw, lambda column: self.kind(int(draw.tokens[0, column])))

    def _each(self, draw: Draws, word: Callable[[int], str]) -> str:
        present = np.flatnonzero(draw.tokens[0] != MISSING).tolist()
        listed = [f"{self.paths[c]} {word(c)}" for c in present[:_MAX_WORDS]]
        return f"({', '.join([*listed, '...'] if len(present) > _MAX_WORDS else listed)})"

    def _array(self, array: NDArray[Any], names: list[str]) -> Draws:
        found = [self._index.get(name) for name in names]
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
        low = low_of_wholes(array) if whole else low_of_floats(floats)
        if columns == list(range(len(self.paths))):
            return Draws(floats, tokens, low)
        draws = Draws.absent(len(array), len(self.paths))
        draws.numbers[:, columns], draws.tokens[:, columns], draws.low[:, columns] = floats, tokens, low
        return draws

    def _read_leaves(self, values: list[Any]) -> tuple[Floats, Codes, Codes]:
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
                numbers[i] = as_float(value)
                tokens[i] = self.vocabulary.code("an int" if not isinstance(value, bool) else str(value))
                low[i] = low_of_fraction(Fraction(value))
            elif isinstance(value, Exact):
                numbers[i] = as_float(value.value)
                odd = not math.isfinite(numbers[i]) and isinstance(value.value, float)
                kind = f"{value.kind} {_odd_word(numbers[i])}" if odd else value.kind
                tokens[i] = self.vocabulary.code(f"of type {kind}")
                if math.isfinite(value.value):
                    low[i] = low_of_fraction(Fraction(value.value))
            else:
                tokens[i] = self.vocabulary.code(describe_value(value))
        low[floats] = low_of_floats(numbers[floats])
        return numbers, tokens, low


def form(outputs: Any) -> str:
    """Return in words how one call returned its outputs: as an array, a list, or columns.

    It is told of a whole call, not of one draw: one None among a thousand numbers makes another array.

    >>> form(np.zeros((5, 2))), form([0.5, None]), form({"n": np.arange(3), "m": [1, 2, 3]})
    ('an array of floats, 2 of each draw', 'a list', 'columns n (an array of int64), m (a list)')
    """
    if isinstance(outputs, dict):
        # A mapping within one is no column of numbers, and may be the outer one again.
        columns = {key_word(n): "a mapping" if isinstance(c, dict) else form(c) for n, c in outputs.items()}
        return f"columns {', '.join(f'{name} ({column})' for name, column in columns.items())}"
    if not isinstance(outputs, np.ndarray) or outputs.dtype.kind not in "fiub":
        return "a list"
    kind = "floats" if outputs.dtype.kind == "f" else outputs.dtype.name
    width = f", {' x '.join(map(str, outputs.shape[1:]))} of each draw" if outputs.ndim > 1 else ""
    return f"an array of {kind}{width}"


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


def _all_floats(columns: dict[Any, Any]) -> bool:
    if len(set(map(key_word, columns))) < len(columns):
        return False
    return all(isinstance(c, np.ndarray) and c.dtype.kind == "f" and c.ndim == 1 for c in columns.values())


def _another(cells: Cells, path: str, row: int) -> tuple[list[int], list[Any]]:
    """Return a new column for a second leaf of the same place in one output."""
    for times in itertools.count(2):
        found = cells.setdefault(f"{path} #{times}", ([], []))
        if not found[0] or found[0][-1] != row:
            return found
    raise AssertionError


def _some(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")


def _odd_word(value: float) -> str:
    return "NaN" if math.isnan(value) else "-0.0" if value == 0 else str(value)
