"""Datasets to audit with, and pairs of neighbours among them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import inf, nan
from typing import Any

import numpy as np

from sfumato.audit.mechanisms import fingerprint
from sfumato.audit.python_code import literal, shown
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import positive_int

NEIGHBORS = ("add-remove", "change-one")
_LONG = 20_000  # records; of longer datasets nobody waits to learn how many differ
_LISTED = 3  # pairs of a note
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)


@dataclass(frozen=True)
class Edge:
    """Two neighbouring datasets.

    `edges` and `units` return them.

    Args:
        name: a description of how the two differ.
        dataset: one side, X.
        neighbour: the other side, Y. Both directions are tested, so the order does not matter.
        bare: whether a caller gave the two without saying why they are neighbours.
    """

    name: str
    dataset: Any
    neighbour: Any
    bare: bool = False


def halton(count: int, dimension: int, *, start: int = 1) -> list[list[float]]:
    """Return datasets of points of the Halton sequence in the unit cube.

    Args:
        count: the number of points.
        dimension: the number of coordinates of each point, at most 16.
        start: the index of the first point.
    Returns:
        `count` lists of `dimension` floats in (0, 1).
    Raises:
        ParameterError: dimension is not from 1 to 16.

    >>> halton(3, 2)
    [[0.5, 0.333...], [0.25, 0.666...], [0.75, 0.111...]]

    Source:
        Halton 1964; the specification's stochastic tester takes its datasets from it.
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
    """Return datasets of numbers for the audit of an aggregate of one column.

    Args:
        lower: the number to which 0 of the unit cube is mapped.
        upper: the number to which 1 is mapped.
        count: the number of Halton datasets; their sizes cycle from 1 to `largest`.
        largest: the number of records of the largest Halton dataset.
        odd: whether to add the datasets of `odd_numbers`.
    Returns:
        Datasets as lists of numbers, the most revealing ones first.
    Raises:
        ParameterError: the bounds are not finite or not in order.

    >>> numbers(count=2, odd=False)
    [[1.0], [0.0], [0.0, 1.0], [1.0, 1.0, 1.0], [0.5], [0.25, 0.666...]]
    """
    low, high = float(lower), float(upper)
    if not -inf < low < high < inf:
        raise ParameterError(
            "lower", lower, f"finite, and below upper, which is {upper!r} and must be finite"
        )
    found = [[high], [low], [low, high], [high] * 3]
    for i in range(count):
        size = i % positive_int(largest, "largest") + 1
        (point,) = halton(1, size, start=i + 1)
        found.append([low * (1 - x) + high * x for x in point])
    return found + (odd_numbers(low, high) if odd else [])


def odd_numbers(lower: float = 0.0, upper: float = 1.0) -> list[list[float]]:
    """Return datasets of unusual numbers, at which code tends to break.

    They are NaN, infinities, 1e308 (whose sums overflow), subnormals, signed zeros, neighbours of 2^53 and
    the limits of int64, each next to an ordinary record.

    Args:
        lower, upper: the bounds that the mechanism claims to use.
    Returns:
        Datasets as lists of numbers.

    >>> [d[1:] for d in odd_numbers()][:3]
    [[nan], [inf], [-inf]]
    """
    middle = lower / 2 + upper / 2
    alone: list[list[float]] = [
        [nan],
        [inf],
        [-inf],
        [inf, -inf],
        [1e308, 1e308],
        [-1e308, -1e308],
        [5e-324],
        [-0.0],
        [2.0**53, 1.0],
        [2**53 + 1],
        [2**63 - 1],
        [-(2**63)],
    ]
    return [[middle, *values] for values in alone]


def units(
    values: tuple[float, float] = (0.0, 1.0),
    groups: Sequence[Any] = ("a", "b", "c", "d"),
    *,
    names: tuple[str, str, str] = ("unit", "group", "value"),
    table: Callable[[list[dict[str, Any]]], Any] | None = None,
    odd: bool = True,
) -> list[Edge]:
    """Return neighbouring datasets, as tables that differ by all rows of one unit.

    Args:
        values: the lower and upper bound of the value column.
        groups: the groups, which can be text, numbers or None.
        names: the names of the three columns.
        table: a function from a list of rows (mappings) to what the mechanism takes, such as
            `pyarrow.Table.from_pylist`; None keeps the list.
        odd: whether to add units with NaN, infinities, huge and NULL values, a NULL group, and a NULL unit.
    Returns:
        Pairs in which one unit with one row, many rows in a group, many groups, or both, is added to other
        units or to a table of one row.

    >>> units(groups=["a", "b"])[0].neighbour
    [{'unit': 'u0', 'group': 'a', 'value': 0.0}]
    """
    low, high = values
    unit, group, value = names
    first = groups[0]
    others = [("u0", first, low)]
    crowd = [(f"u{i}", g, v) for i, (g, v) in enumerate(itertools.product(groups, (low, high, high)))]
    told: dict[str, list[tuple[Any, Any]]] = {
        "one row at the upper bound": [(first, high)],
        "one row at the lower bound": [(first, low)],
        "40 rows in one group": [(first, high)] * 40,
        "one row in each group": [(g, high) for g in groups],
        "10 rows in each group": [(g, high) for g in groups for _ in range(10)],
        "a row in a group of its own": [("its own", high)],
    }
    if odd:
        told |= {
            "a value that is NaN": [(first, nan)],
            "an infinite value": [(first, inf)],
            "values of 1e308": [(first, 1e308)] * 3,
            "a NULL value": [(first, None)],
            "a NULL group": [(None, high)],
            "an empty text as group": [("", high)],
            "a long text as group": [("x" * 1000, high)],
        }

    def rows(items: list[tuple[Any, Any, Any]]) -> Any:
        listed = [{unit: u, group: g, value: v} for u, g, v in items]
        return listed if table is None else table(listed)

    found = []
    for base, of in ((others, "one row"), (crowd, f"{len(crowd)} units")):
        for what, own in told.items():
            with_unit = rows([*base, *(("new", g, v) for g, v in own)])
            found.append(Edge(f"a unit with {what}, added to {of}", with_unit, rows(base)))
    if odd:
        null = rows([*crowd, *((None, first, high) for _ in range(40))])
        found.append(Edge(f"40 rows without a unit, added to {len(crowd)} units", null, rows(crowd)))
    return found


def edges(datasets: Iterable[Any], neighbors: str = "add-remove") -> list[Edge]:
    """Return the pairs of neighbours of some datasets.

    Args:
        datasets: sequences of records, each a list, tuple, array, or a table with `take` (Arrow) or `iloc`.
        neighbors: "add-remove" removes one record; "change-one" replaces it with one of the first two records
            in the datasets.
    Returns:
        Pairs without repetition, at most four for each dataset: they change its last and its first record
        and, if records can be compared, the largest and the smallest.
    Raises:
        ParameterError: neighbors is unknown, or the datasets give no pair.

    >>> [(e.dataset, e.neighbour) for e in edges([[1.0], [0.0, 0.5, 1.0]])]
    [([1.0], []), ([0.0, 0.5, 1.0], [0.0, 0.5]), ([0.0, 0.5, 1.0], [0.5, 1.0])]
    >>> [(e.dataset, e.neighbour) for e in edges([[1.0], [0.5]], "change-one")]
    [([1.0], [0.5]), ([0.5], [1.0])]
    """
    check_neighbors(neighbors)
    roots = list(datasets)
    found, seen = [], set()

    def add(name: str, dataset: Any, neighbour: Any) -> None:
        key = repr((fingerprint(dataset), fingerprint(neighbour)))
        if key not in seen:
            seen.add(key)
            found.append(Edge(name, dataset, neighbour))

    if neighbors == "add-remove":
        for root in roots:
            for i in _choose_records(root):
                what = "its only record" if _size(root) == 1 else f"record {i + 1} of {_size(root)}"
                add(f"{shown(root, 60)} without {what}", root, without(root, i))
    else:
        pool = list(itertools.islice(_different(r for root in roots for r in _records(root)), 2))
        for root in roots:
            for i in _choose_records(root)[:2]:
                for record in pool:
                    changed = [*_records(root)[:i], record, *_records(root)[i + 1 :]]
                    if fingerprint(changed) != fingerprint(_records(root)):
                        name = f"{shown(root, 60)} with {literal(record)} for record {i + 1}"
                        add(name, root, _like(root, changed))
    if not found:
        raise ParameterError(
            "data", shown(roots, 60), "datasets that have neighbours. Pass some with records"
        )
    return found


def count_changed_records(dataset: Any, neighbour: Any) -> int:
    """Return the number of records to change, add or remove to turn one dataset into another.

    0 where that is not told: of what is no sequence of records, or is long.

    >>> count_changed_records([1, 2, 2], [2, 1]), count_changed_records([1, 2], [1, 3])
    (1, 1)
    >>> count_changed_records([1] * 5, [9] * 9)
    9
    """
    both = []
    for one in (dataset, neighbour):
        array = isinstance(one, np.ndarray) and one.ndim > 0
        table = hasattr(one, "to_pylist") or hasattr(one, "iloc")
        if not (isinstance(one, (list, tuple)) or array or table) or len(one) > _LONG:
            return 0
        both.append(Counter(repr(fingerprint(record)) for record in _records(one)))
    first, second = both
    return max((first - second).total(), (second - first).total())


def describe_pairs(pairs: Sequence[Edge]) -> tuple[str, ...]:
    """Return a note on given pairs of datasets that differ by more than one record."""
    differ = {e.name: n for e in pairs if e.bare and (n := count_changed_records(e.dataset, e.neighbour)) > 1}
    if not differ:
        return ()
    which = ", ".join(f"{name} by {n}" for name, n in list(differ.items())[:_LISTED])
    more = f" and {len(differ) - _LISTED} pairs more" if len(differ) > _LISTED else ""
    return (
        f"datasets that differ by more than one record: {which}{more}. They are neighbours only "
        "if all of these records are of one privacy unit; otherwise this audit proves nothing about "
        "the claim",
    )


def parse_edges(pairs: Iterable[Any]) -> list[Edge]:
    """Return the pairs of datasets that a caller gives as edges.

    Raises:
        ParameterError: there is none, or one is no pair.
    """
    found = [_edge(i, pair) for i, pair in enumerate(pairs)]
    if not found:
        raise ParameterError("pairs", [], "at least one pair (dataset, neighbour)")
    return found


def _edge(number: int, pair: Any) -> Edge:
    if isinstance(pair, Edge):
        return pair
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ParameterError(f"pairs[{number}]", pair, "a pair (dataset, neighbour) or an Edge")
    return Edge(f"given pair {number + 1}", pair[0], pair[1], bare=True)


def check_neighbors(neighbors: object) -> None:
    """Refuse a kind of neighbouring datasets that is not known."""
    if not isinstance(neighbors, str) or neighbors not in NEIGHBORS:
        expected = f"one of {', '.join(map(repr, NEIGHBORS))}. For user level, pass pairs=units(...)"
        raise ParameterError("neighbors", neighbors, expected)


def without(dataset: Any, index: int) -> Any:
    """Return a copy of a dataset without one record.

    Args:
        dataset: a list, tuple, array, or a table with `take` (Arrow) or `iloc` (pandas).
        index: the index of the record, from 0.
    Returns:
        The copy.
    Raises:
        ParameterError: the dataset is not a sequence of records.

    >>> without([1, 2, 3], 1)
    [1, 3]
    """
    if isinstance(dataset, list):
        return dataset[:index] + dataset[index + 1 :]
    if isinstance(dataset, tuple):
        return dataset[:index] + dataset[index + 1 :]
    if isinstance(dataset, np.ndarray):
        return np.delete(dataset, index, axis=0)
    kept = [i for i in range(_size(dataset)) if i != index]
    if hasattr(dataset, "iloc"):
        return dataset.iloc[kept]
    return dataset.take(np.array(kept, np.int64))


def _choose_records(dataset: Any) -> list[int]:
    """Return the records of a dataset that are worth removing: the last, first, largest and smallest."""
    size = _size(dataset)
    if size == 0:
        return []
    found = [size - 1, 0]
    records = _records(dataset)
    if all(isinstance(r, (int, float)) for r in records):
        order = sorted(range(size), key=lambda i: (records[i] != records[i], records[i]))
        found += [order[-1], order[0]]
    kept, seen = [], set()
    for i in found:
        key = repr(fingerprint(records[i]))
        if key not in seen:
            seen.add(key)
            kept.append(i)
    return kept


def _different(records: Iterable[Any]) -> Iterable[Any]:
    seen = set()
    for record in records:
        key = repr(fingerprint(record))
        if key not in seen:
            seen.add(key)
            yield record


def _size(dataset: Any) -> int:
    if not hasattr(dataset, "__len__") or isinstance(dataset, (str, bytes, dict)):
        expected = (
            "sequences of records (list, tuple, array, table). Otherwise pass pairs=[(dataset, neighbour)]"
        )
        raise ParameterError("data", shown(dataset, 60), expected)
    return len(dataset)


def _records(dataset: Any) -> list[Any]:
    if isinstance(dataset, np.ndarray) and dataset.ndim == 1:
        return dataset.tolist()  # type: ignore[no-any-return]
    if hasattr(dataset, "to_pylist"):
        return dataset.to_pylist()  # type: ignore[no-any-return]
    if hasattr(dataset, "iloc"):
        return dataset.to_dict("records")  # type: ignore[no-any-return]
    return list(dataset)


def _like(dataset: Any, records: list[Any]) -> Any:
    if isinstance(dataset, (list, tuple)):
        return type(dataset)(records)
    if isinstance(dataset, np.ndarray):
        return np.array(records, dtype=dataset.dtype)
    expected = (
        "lists, tuples or arrays where neighbors is 'change-one'. Otherwise pass pairs=[(dataset, neighbour)]"
    )
    raise ParameterError("data", shown(dataset, 60), expected)
