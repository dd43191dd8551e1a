"""Datasets, and pairs of neighbours among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.errors import ParameterError
from sfumato.exact import positive_int

NEIGHBORS = ("add-remove", "change-one")
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)


@dataclass(frozen=True)
class Edge:
    """Two neighbouring datasets.

    Args:
        name: how the pair came about, in words.
        dataset: one side, X.
        neighbour: the other side, Y. Both directions are tested, so that order does not matter.
    """

    name: str
    dataset: Any
    neighbour: Any


def halton(count: int, dimension: int, *, start: int = 1) -> list[list[float]]:
    """Return points of the Halton sequence in the unit cube.

    Args:
        count: number of points.
        dimension: coordinates of each; at most 16.
        start: index of the first point.
    Returns:
        `count` lists of `dimension` floats in (0, 1).
    Raises:
        ParameterError: dimension is not from 1 to 16.

    >>> halton(3, 2)
    [[0.5, 0.333...], [0.25, 0.666...], [0.75, 0.111...]]

    Source:
        Halton 1964; the stochastic tester of the specification draws its datasets from it.
    """
    if positive_int(dimension, "dimension") > len(_PRIMES):
        raise ParameterError("dimension", dimension, f"at most {len(_PRIMES)}")
    return [[_radical_inverse(i, p) for p in _PRIMES[:dimension]] for i in range(start, start + count)]


def _radical_inverse(index: int, base: int) -> float:
    numerator, denominator = 0, 1
    while index:
        index, digit = divmod(index, base)
        numerator, denominator = numerator * base + digit, denominator * base
    return numerator / denominator


def numbers(
    lower: float = 0.0, upper: float = 1.0, *, count: int = 6, largest: int = 6, odd: bool = True
) -> list[list[float]]:
    """Return lists of numbers: what an aggregate of one column may meet.

    Args:
        lower: what 0 of the unit cube is moved to.
        upper: what 1 is moved to.
        count: number of Halton datasets; their sizes go round from 1 to `largest`.
        largest: number of records of the largest Halton dataset.
        odd: add the datasets of `odd_numbers`.
    Returns:
        Datasets as lists of numbers, the telling ones first.

    >>> numbers(count=1, odd=False)
    [[], [1.0], [0.0], [0.0, 1.0], [1.0, 1.0, 1.0], [0.5]]
    """
    raise NotImplementedError


def odd_numbers(lower: float = 0.0, upper: float = 1.0) -> list[list[float]]:
    """Return lists of numbers at which code tends to break.

    Signed zeros, subnormals, 1e308 (whose sums overflow), neighbours of 2^53 and of the limits of int64,
    NaN, infinities, and None.
    """
    raise NotImplementedError


def units(
    values: Sequence[Any] = (0.0, 1.0),
    groups: Sequence[Any] = ("a", "b", "c", "d"),
    *,
    names: tuple[str, str, str] = ("unit", "group", "value"),
    table: Callable[[list[dict[str, Any]]], Any] | None = None,
    odd: bool = True,
) -> list[Edge]:
    """Return pairs of tables that differ by all rows of one unit.

    Args:
        values: lower and upper bound of the value column.
        groups: the groups; text, numbers or None.
        names: of the three columns.
        table: turns a list of rows (mappings) into what the mechanism takes, such as
            `pyarrow.Table.from_pylist`; None leaves the list.
        odd: add units with NaN, infinities, NULL values, NULL groups and a NULL unit.
    Returns:
        Pairs: a unit with one row, many rows in one group, many groups, both, is added to an empty table
        and to one with other units.
    """
    raise NotImplementedError


def edges(datasets: Iterable[Any], neighbors: str = "add-remove") -> list[Edge]:
    """Return pairs of neighbours that datasets give.

    Args:
        datasets: each a sequence of records (list, tuple, array, or a table with `take` or `iloc`).
        neighbors: "add-remove" removes one record; "change-one" replaces one by a record of the other
            datasets.
    Returns:
        Pairs without repetition, at most `4` for each dataset: its first, last, smallest and largest record.
    Raises:
        ParameterError: neighbors is unknown, or the datasets give no pair.
    """
    raise NotImplementedError
