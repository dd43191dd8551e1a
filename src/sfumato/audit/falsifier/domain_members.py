"""Members of domains for the falsifier: first the extremes that break code, then random ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeVar

from sfumato.errors import QueryError
from sfumato.framework.domains import (
    AtomDomain,
    CategoryDomain,
    Domain,
    ProductDomain,
    TableDomain,
    VectorDomain,
)
from sfumato.framework.record_keys import record_key

T = TypeVar("T")
SHARES = 1 << 20
# Of two and four bytes a character; of one that becomes two in capitals, and in small letters; combined.
LONG_TEXTS = ("é" * 100, "\U0001f600" * 100, "ß" * 100, "İ" * 100, "e\u0301" * 100)
TEXTS = (
    "",
    "a",
    "b",
    "A",
    " ",
    "0",
    "1",
    "-1",
    "1.5",
    "1e999",
    "nan",
    "inf",
    "٣",
    "é",
    "a" * 100,
    "\0",
    *LONG_TEXTS,
)
# Around powers of two at which integers and floats stop fitting: 2^31, 2^53, 2^63, 2^64, and far beyond.
NUMBERS = (
    *(Fraction(n) for n in (0, 1, -1, 2, -2, 10)),
    *(Fraction(2) ** bits + more for bits in (31, 53, 63, 64) for more in (0, -1, 1)),
    *(Fraction(n) for n in (-(2**31), -(2**53) - 1, -(2**63), -(2**63) - 1, 10**30, -(10**30))),
    *(Fraction(n, d) for n in (1, -1) for d in (2, 3, 10, 10**9)),
)
# Lengths of which a tenth or a seventh is whole, and around those at which counters of 8 and 16 bits wrap,
# with a sign or without. Where few records are treated in another way than many, any length may be the edge.
LENGTHS = (7, 10, 12, 100, 255, 256, 257, 127, 128, 129)
LONGEST = (2**15, 2**16 - 1, 2**16)
EACH = range(1, 65)
LARGEST, SMALLEST = math.nextafter(math.inf, 0), math.nextafter(0.0, 1)
FLOATS = (-0.0, SMALLEST, -SMALLEST, 2.0**-1022, 1e-300, 1e16, 1e154, LARGEST, -LARGEST, math.inf, -math.inf)


class Draw:
    """Random choices of the falsifier, determined by a seed; noise comes from `sfumato.noise`.

    >>> Draw(1).below(1000) == Draw(1).below(1000)
    True
    """

    def __init__(self, seed: int | str) -> None:
        self._words = self._stream(seed)

    @staticmethod
    def _stream(seed: int | str) -> Iterator[int]:
        count = 0
        while True:
            block = blake2b(f"{seed}:{count}".encode()).digest()
            for start in range(0, len(block), 4):
                yield int.from_bytes(block[start : start + 4], "little")
            count += 1

    def below(self, limit: int) -> int:
        """Return one of 0, ..., limit - 1, for a random domain member."""
        return next(self._words) * limit >> 32

    def share(self) -> Fraction:
        """Return a number in [0, 1] for a random domain member, half the time a round one."""
        parts = self.choose((16, SHARES))
        return Fraction(self.below(parts + 1), parts)

    def is_rare_event(self, times: int) -> bool:
        """Return True about once in so many times, for a random domain member."""
        return self.below(times) == 0

    def sign(self) -> int:
        """Return 1 or -1 for a random domain member."""
        return 1 - 2 * self.below(2)

    def choose(self, items: Sequence[T]) -> T:
        """Return one of the items for a random domain member."""
        return items[self.below(len(items))]

    def choose_early(self, items: Sequence[T]) -> T:
        """Return one of the items for a random domain member, the first ones most often."""
        return items[min(self.below(len(items)), self.below(len(items)), self.below(len(items)))]

    def shuffle(self, items: Sequence[T]) -> list[T]:
        """Return the parts of a random domain member in another order."""
        left, found = list(items), []
        while left:
            found.append(left.pop(self.below(len(left))))
        return found


def draw_member(domain: Domain, draw: Draw) -> Any:
    """Return a random member of a domain.

    Raises:
        QueryError: it is not known how to make members of this domain.
    """
    if isinstance(domain, CategoryDomain):
        return draw.choose(domain.members)
    if isinstance(domain, AtomDomain):
        return _single(domain, draw)
    if isinstance(domain, VectorDomain):
        if domain.null and draw.is_rare_event(8):
            return None
        size = draw_size(draw) if domain.size is None else domain.size
        return draw_pattern(lambda: draw_member(domain.element, draw), size, draw)
    if isinstance(domain, TableDomain):
        size = draw_size(draw) if domain.size is None else domain.size
        return draw_pattern(lambda: record(domain.columns, draw), size, draw)
    if isinstance(domain, ProductDomain):
        return tuple(draw_member(part, draw) for part in domain.parts)
    raise QueryError(f"falsify cannot make members of {domain}. Pass some: members=[...]")


def _single(domain: AtomDomain, draw: Draw) -> Any:
    kind, first = draw.below(4), list_extremes(domain)
    if kind <= 1 and domain.is_bounded:
        return draw.choose(first[:2])
    if kind == 2 and domain.kind not in (bool, str):
        found = _between(domain, draw)
        if domain.contains(found):
            return found
    return draw.choose_early(first)


def record(columns: Sequence[tuple[str, Domain]], draw: Draw) -> dict[str, Any]:
    """Return a random record: a member of each column's domain."""
    return {name: draw_member(domain, draw) for name, domain in columns}


def draw_size(draw: Draw) -> int:
    """Return a length for members of a domain: mostly a few, at times one at which counters wrap."""
    if draw.is_rare_event(16):
        return draw.choose_early(LENGTHS)
    return draw.choose_early((1, 2, 0, 3, 4, 5, 8, 16, 33))


def draw_pattern(new: Any, size: int, draw: Draw) -> list[Any]:
    """Return `size` domain members: all alike, all but one, half and half, alternating, or independent."""
    kind = draw.below(5)
    if kind == 0:
        return [new() for _ in range(size)]
    one, other = new(), new()
    if kind == 1:
        return [one] * size
    if kind == 4:
        return [*[one] * (size - 1), other][:size]
    return [one if (2 * i < size if kind == 2 else i % 2) else other for i in range(size)]


def list_extremes(domain: AtomDomain | CategoryDomain) -> tuple[Any, ...]:
    """Return the extreme members of a domain: bounds and neighbours, NULL, NaN, zeros, powers of two.

    >>> list_extremes(AtomDomain(int, lower=0, upper=10))[:3]
    (0, 10, 5)

    Raises:
        QueryError: there is no member.
    """
    return domain.members if isinstance(domain, CategoryDomain) else _extremes(domain)


@lru_cache(maxsize=256)
def _extremes(domain: AtomDomain) -> tuple[Any, ...]:
    found = {record_key(value): value for value in _candidates(domain) if domain.contains(value)}
    if not found:
        raise QueryError(f"falsify finds no member of {domain}")
    return tuple(found.values())


def _candidates(domain: AtomDomain) -> Iterator[Any]:
    if domain.kind is bool:
        yield from (False, True, None)
        return
    if domain.kind is str:
        yield from (*TEXTS[:2], None, *TEXTS[2:])
        return
    bounds = [bound for bound in (domain.lower, domain.upper) if bound is not None]
    middle = [sum(bounds, Fraction(0)) / 2] if len(bounds) == 2 else []
    for number in (*bounds, *middle):
        yield from _as_kind(domain, number)
    yield from (None, math.nan)
    if domain.kind is float:
        for number in bounds:
            edge = float(number)
            yield from (math.nextafter(edge, math.inf), math.nextafter(edge, -math.inf))
        yield from FLOATS
    for number in (*NUMBERS, *(bound + sign for bound in bounds for sign in (1, -1))):
        yield from _as_kind(domain, number)


def _as_kind(domain: AtomDomain, number: Fraction) -> Iterator[Any]:
    if domain.kind is int:
        yield from (math.ceil(number), math.floor(number))
    elif domain.kind is float:
        yield to_float(number)
    else:
        yield number


def is_finite(number: Any) -> bool:
    """Whether a number of a domain is neither NaN nor infinite, however large."""
    return not isinstance(number, float) or math.isfinite(number)


def to_float(number: Fraction) -> float:
    """Return the float nearest to a number of a domain."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _between(domain: AtomDomain, draw: Draw) -> Any:
    reach = Fraction(2) ** draw.choose((0, 3, 7, 20, 60))
    low = -reach if domain.lower is None else domain.lower
    high = max(low, Fraction(0)) + reach if domain.upper is None else domain.upper
    if domain.lower is None:
        low = min(low, high - reach)
    return next(_as_kind(domain, low + (high - low) * draw.share()))


def draw_neighbor(domain: Domain, value: Any, draw: Draw) -> Any:
    """Return a member of a domain that differs from a given one in little, or in one part."""
    if isinstance(domain, AtomDomain) and domain.kind not in (bool, str) and value is not None:
        moved = _draw_similar_number(domain, value, draw)
        return moved if domain.contains(moved) else draw.choose_early(list_extremes(domain))
    if isinstance(domain, (VectorDomain, ProductDomain)) and value:
        at, found = draw.below(len(value)), list(value)
        part = domain.element if isinstance(domain, VectorDomain) else domain.parts[at]
        found[at] = draw_neighbor(part, value[at], draw)
        return tuple(found) if isinstance(domain, ProductDomain) else found
    return draw_member(domain, draw)


def draw_similar_record(columns: Sequence[tuple[str, Domain]], value: Any, draw: Draw) -> dict[str, Any]:
    """Return a record of members of column domains that differs from a given one in one column."""
    if not columns:
        return dict(value)
    name, domain = draw.choose(columns)
    return {**value, name: draw_neighbor(domain, value[name], draw)}


def _draw_similar_number(domain: AtomDomain, value: Any, draw: Draw) -> Any:
    if draw.is_rare_event(3) or not is_finite(value):
        return draw_member(domain, draw)
    if draw.is_rare_event(4):
        return next(
            _as_kind(domain, Fraction(value) * draw.choose((Fraction(-1), Fraction(2), Fraction(1, 2))))
        )
    low, high = domain.lower, domain.upper
    span = high - low if low is not None and high is not None else max(abs(Fraction(value)), Fraction(1))
    step = span * draw.share() / 2 ** draw.choose_early((0, 1, 2, 4, 8, 16, 32, 64))
    if domain.kind is int:
        step = Fraction(max(1, math.floor(step)))
    moved = Fraction(value) + draw.sign() * step
    if low is not None:
        moved = max(moved, low)
    if high is not None:
        moved = min(moved, high)
    return next(_as_kind(domain, moved))
