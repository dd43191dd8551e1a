"""Int128Array: columns of exact 128-bit integers, in which noise is added; columns from Arrow and to it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass


def int64_values(column: pa.Array) -> NDArray[np.int64]:
    """Return the values of an Arrow column of integers without nulls, as an int64 array.

    `to_numpy` would do, but imports pandas where it is installed: a third of a second. `cast` of decimals
    loads more of pyarrow; here it only raises, where a number has more than 64 bits.
    """
    if pa.types.is_decimal128(column.type) and not column.type.scale:
        words = Int128Array.from_arrow(column)
        low = np.ascontiguousarray(words.low).view(np.int64)
        if (words.high == low >> 63).all():
            return low
    wide = column if column.type == pa.int64() else column.cast(pa.int64())
    if not len(wide):
        return np.zeros(0, np.int64)
    return np.frombuffer(wide.buffers()[1], dtype=np.int64)[wide.offset : wide.offset + len(wide)]


def float64_values(column: pa.Array) -> NDArray[np.float64]:
    """Return the values of an Arrow column of float64 without nulls, as an array."""
    if not len(column):
        return np.zeros(0)
    return np.frombuffer(column.buffers()[1], dtype=np.float64)[column.offset : column.offset + len(column)]


def arrow_column(values: NDArray[np.float64] | NDArray[np.int64] | NDArray[np.uint64]) -> pa.Array:
    """Return an Arrow column of 64-bit numbers without a copy; of two dimensions, as lists.

    `pa.array` would do, but imports pandas where it is installed: a third of a second.
    """
    kind = pa.from_numpy_dtype(values.dtype)
    data = pa.py_buffer(np.ascontiguousarray(values))
    flat = pa.Array.from_buffers(kind, values.size, [None, data])
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


@dataclass(frozen=True, repr=False)
class Int128Array:
    """An array of two's-complement 128-bit integers, as high and low words.

    Noise is added here, in integers, before anything becomes a float: results are a function of statistic
    plus noise and of nothing else.

    >>> import numpy as np
    >>> import pyarrow as pa
    >>> column = Int128Array.from_arrow(pa.array([2**62, -1], pa.int64()))
    >>> (column + np.array([2**62, 1])).scaled(Fraction(1)).tolist()
    [9.223372036854776e+18, 0.0]
    >>> minutes = Int128Array.from_int64(np.array([90, 45, 30]))
    >>> minutes.cumulated(np.array([[0, 1, 2]])).scaled(Fraction(1)).tolist()
    [90.0, 135.0, 165.0]
    >>> minutes.added_up(np.array([0, 1, 0]), count=2).scaled(Fraction(1)).tolist()
    [120.0, 45.0]
    >>> minutes.finer(bits=3).scaled(Fraction(1, 8)).tolist()  # the same numbers, in eighths
    [90.0, 45.0, 30.0]
    >>> Int128Array.from_integers([2**100]).to_arrow()[0].as_py() == 2**100
    True
    """

    high: NDArray[np.int64]
    low: NDArray[np.uint64]

    @classmethod
    def from_arrow(cls, column: pa.Array) -> Int128Array:
        """Return the 128-bit array of an Arrow column of int64 or decimal128(38, 0) without nulls.

        Args:
            column: an Arrow array of int64 or decimal128(38, 0).
        Returns:
            The same integers.
        """
        if pa.types.is_decimal128(column.type):
            if not len(column):
                return cls.from_int64(np.zeros(0, np.int64))
            words = np.frombuffer(column.buffers()[1], dtype=np.uint64)
            words = words[2 * column.offset : 2 * (column.offset + len(column))]
            return cls(words[1::2].view(np.int64), words[0::2])
        return cls.from_int64(int64_values(column))

    @classmethod
    def from_int64(cls, values: NDArray[np.int64]) -> Int128Array:
        """Return the 128-bit array of 64-bit integers.

        Args:
            values: an int64 array.
        Returns:
            The same integers.
        """
        return cls(values >> 63, values.view(np.uint64))

    @classmethod
    def from_integers(cls, values: Sequence[int]) -> Int128Array:
        """Return the 128-bit array of Python integers of at most 128 bits, including the sign.

        Args:
            values: Python integers.
        Returns:
            The same integers.
        """
        high, low = [v >> 64 for v in values], [v & (2**64 - 1) for v in values]
        return cls(np.array(high, np.int64), np.array(low, np.uint64))

    def to_arrow(self) -> pa.Array:
        """Return the array as Arrow decimal128(38, 0), which holds integers below 10^38.

        Returns:
            An Arrow array.
        """
        words = np.stack([self.low, self.high.view(np.uint64)], axis=1)
        return pa.Array.from_buffers(pa.decimal128(38, 0), len(self), [None, pa.py_buffer(words)])

    def __len__(self) -> int:
        return len(self.low)

    def __add__(self, noise: NDArray[np.int64]) -> Int128Array:
        added = noise.view(np.uint64)
        low = self.low + added
        carry = (low < added).astype(np.int64)
        return Int128Array(self.high + (noise >> 63) + carry, low)

    def cumulated(self, order: NDArray[np.int64]) -> Int128Array:
        """Return the running totals: for each integer, the total of those up to it.

        Args:
            order: rows of positions, each of which is added up separately; no position occurs twice.
        Returns:
            The running totals.
        """
        values = [(h << 64) + low for h, low in zip(self.high.tolist(), self.low.tolist(), strict=True)]
        for places in order.tolist():
            for place, total in zip(places, accumulate(values[i] for i in places), strict=True):
                values[place] = total
        return self.from_integers(values)

    def added_up(self, codes: NDArray[np.int64], count: int) -> Int128Array:
        """Return totals of the array by code.

        Args:
            codes: for each integer, the position of its total, from 0.
            count: the number of totals.
        Returns:
            The totals.
        """
        if count == len(self):
            order = np.empty(count, np.int64)
            order[codes] = np.arange(count)
            return Int128Array(self.high[order], self.low[order])
        found = [0] * count
        for code, high, low in zip(codes.tolist(), self.high.tolist(), self.low.tolist(), strict=True):
            found[code] += (high << 64) + low
        return self.from_integers(found)

    def finer(self, bits: int) -> Int128Array:
        """Return the array's numbers in steps of 2^-bits.

        Args:
            bits: a whole number from 0 to 63.
        Returns:
            The numbers, each multiplied by 2^bits.
        """
        if not bits:
            return self
        high = (self.high << bits) | (self.low >> np.uint64(64 - bits)).view(np.int64)
        return Int128Array(high, self.low << np.uint64(bits))

    def scaled(self, step: Fraction) -> NDArray[np.float64]:
        """Return the array multiplied by a power of two, as float64.

        Args:
            step: a power of two.
        Returns:
            A float64 array.
        """
        narrow = self.high == (self.low.view(np.int64) >> 63)
        wide = self.high.astype(np.float64) * 2.0**64 + self.low.astype(np.float64)
        return np.where(narrow, self.low.view(np.int64).astype(np.float64), wide) * float(step)
