"""Pairs of numbers, of values, and of vectors of numbers, for the falsifier.

A kind of pair has a state from which two inputs are built; the state can be drawn and changed a
little, and whatever it is, the inputs lie within the room that they are built for. The falsifier
trusts none of this: it measures each pair before it is judged.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from sfumato.audit.falsifier.domain_members import (
    Draw,
    draw_member,
    draw_neighbor,
    draw_pattern,
    draw_size,
    is_finite,
    to_float,
)
from sfumato.dataclass import dataclass
from sfumato.exact import root_down
from sfumato.framework.domains import AtomDomain, Domain

State = Any


class Pairs(ABC):
    """The pairs of inputs of one domain and metric: a state that is drawn, changed, and built into a pair."""

    def iter_long(self, draw: Draw, max_distance: Fraction) -> Iterator[State]:
        """Yield states of very long pairs of inputs, each tried once."""
        return iter(())

    @abstractmethod
    def drawn(self, draw: Draw, max_distance: Fraction) -> State:
        """Return the state of a random pair of inputs."""

    @abstractmethod
    def mutate(self, state: State, draw: Draw, max_distance: Fraction) -> State:
        """Return the state of a pair of inputs that differs a little from another."""

    @abstractmethod
    def build(self, state: State, max_distance: Fraction) -> tuple[Any, Any]:
        """Return the pair of inputs of a state, at most `max_distance` apart."""


@dataclass(frozen=True)
class Values(Pairs):
    """Pairs of any two values. The state is the pair itself."""

    domain: Domain
    members: Sequence[Any] = ()
    alone: bool = False

    def drawn(self, draw: Draw, max_distance: Fraction) -> State:
        """Return a pair of random values."""
        return self._one(draw), self._one(draw)

    def mutate(self, state: State, draw: Draw, max_distance: Fraction) -> State:
        """Exchange one value of a pair."""
        return (self._one(draw), state[1]) if draw.is_rare_event(2) else (state[0], self._one(draw))

    def build(self, state: State, max_distance: Fraction) -> tuple[Any, Any]:
        """Return the pair of values of a state."""
        return state if self.alone or max_distance >= 1 else (state[0], state[0])

    def _one(self, draw: Draw) -> Any:
        if self.alone or (self.members and draw.is_rare_event(2)):
            return draw.choose(self.members)
        return draw_member(self.domain, draw)


@dataclass(frozen=True)
class Numbers(Pairs):
    """Pairs of numbers. The state is the first number, and the signed share of the room to the second."""

    domain: AtomDomain
    members: Sequence[Any] = ()

    def drawn(self, draw: Draw, max_distance: Fraction) -> State:
        """Return the state of a pair of numbers, mostly as far apart as allowed."""
        one = (
            draw.choose(self.members)
            if self.members and draw.is_rare_event(2)
            else draw_member(self.domain, draw)
        )
        return one, self._share(draw)

    def mutate(self, state: State, draw: Draw, max_distance: Fraction) -> State:
        """Change the first number of a pair, or its distance to the second."""
        one, share = state
        if draw.is_rare_event(3):
            return one, self._share(draw)
        return draw_neighbor(self.domain, one, draw), share

    def build(self, state: State, max_distance: Fraction) -> tuple[Any, Any]:
        """Return a pair of numbers in the domain; the second one moves back where it meets a bound."""
        one, share = state
        for move in (share * max_distance, -share * max_distance):
            other = self._move(one, move)
            if other != one:
                break
        return one, other

    def _share(self, draw: Draw) -> Fraction:
        kind = draw.below(6)
        if kind == 0:
            return draw.sign() * draw.share()
        if kind == 1:
            return draw.sign() * Fraction(1, 2**64) * draw.share()
        return Fraction(draw.sign())

    def _move(self, one: Any, move: Fraction) -> Any:
        if not is_finite(one):
            return one
        low, high = self.domain.lower, self.domain.upper
        goal = Fraction(one) + move
        goal = goal if low is None else max(goal, low)
        goal = goal if high is None else min(goal, high)
        if self.domain.kind is Fraction:
            return goal
        if self.domain.kind is int:
            return int(one) + math.trunc(goal - one)
        other = to_float(goal)
        too_far = not is_finite(other) or abs(Fraction(other) - Fraction(one)) > abs(goal - Fraction(one))
        return math.nextafter(other, one) if too_far else other


@dataclass(frozen=True)
class Coordinates(Pairs):
    """Pairs of vectors. The state has each coordinate's share of the room, and its own pair of numbers.

    Args:
        parts: pairs of each coordinate; a single one for vectors.
        size: how many coordinates; None for any number.
        norm: 1 or 2 where the shares, or their squares, add up to one; 0 where each has all of the room.
        kind: list or tuple.
    """

    parts: Sequence[Pairs]
    size: int | None
    norm: int
    kind: Callable[[list[Any]], Any]

    def drawn(self, draw: Draw, max_distance: Fraction) -> State:
        """Return the state of a pair of vectors, their numbers alike, half and half, or independent."""
        size = draw_size(draw) if self.size is None else self.size
        if len(self.parts) == 1:
            part = self.parts[0]
            states = draw_pattern(lambda: part.drawn(draw, max_distance), size, draw)
        else:
            states = [part.drawn(draw, max_distance) for part in self.parts]
        return tuple(zip(self._shares(size, draw, max_distance), states, strict=True))

    def mutate(self, state: State, draw: Draw, max_distance: Fraction) -> State:
        """Change, add or drop one coordinate of a pair of vectors, or share the room anew."""
        entries, kind = list(state), draw.below(8)
        if self.size is None and (kind == 0 or not entries):
            if entries and draw.is_rare_event(2):
                del entries[draw.below(len(entries))]
            else:
                part = self.parts[0].drawn(draw, max_distance)
                entries.insert(draw.below(len(entries) + 1), (Fraction(0), part))
        elif kind == 1:
            shares = self._shares(len(entries), draw, max_distance)
            entries = [(share, part) for share, (_, part) in zip(shares, entries, strict=True)]
        elif kind == 2:
            at, to = draw.below(len(entries)), draw.below(len(entries))
            (one, a), (other, b) = entries[at], entries[to]
            entries[at], entries[to] = (other, a), (one, b)
        else:
            at = draw.below(len(entries))
            share, part = entries[at]
            entries[at] = share, self._part(at).mutate(part, draw, max_distance * share)
        return tuple(entries)

    def build(self, state: State, max_distance: Fraction) -> tuple[Any, Any]:
        """Return the pair of vectors of a state."""
        both = [self._part(i).build(part, max_distance * share) for i, (share, part) in enumerate(state)]
        return self.kind([one for one, _ in both]), self.kind([other for _, other in both])

    def _part(self, at: int) -> Pairs:
        return self.parts[at if len(self.parts) > 1 else 0]

    def _shares(self, size: int, draw: Draw, max_distance: Fraction) -> list[Fraction]:
        """Divide the room between the coordinates of a pair of vectors."""
        if size == 0:
            return []
        if self.norm == 0:
            return [Fraction(1)] * size
        kind, at = draw.below(4), draw.below(size)
        if kind <= 1:
            return [Fraction(i == at) if kind == 0 else self._even(size) for i in range(size)]
        if kind == 2 and max_distance >= 1:
            units = math.floor(max_distance**self.norm)
            return [1 / max_distance if (i - at) % size < units else Fraction(0) for i in range(size)]
        weights = [draw.share() for _ in range(size)]
        total = sum((w**self.norm for w in weights), Fraction(0))
        if total == 0:
            return weights
        return [w / total if self.norm == 1 else w * root_down(1 / total) for w in weights]

    def _even(self, size: int) -> Fraction:
        return Fraction(1, size) if self.norm == 1 else root_down(Fraction(1, size))


class GroupedCoordinates(Coordinates):
    """Pairs of integers by group and coordinate, each divided by its scale: two groups."""

    def __init__(self, scales: Sequence[tuple[str, Fraction]], norm: int, members: Sequence[Any]) -> None:
        numbers = [n for m in members for total in m.values() for n in total.values()]
        self.names: list[tuple[int, str]] = [(group, name) for group in range(2) for name, _ in scales]
        parts = [_Scaled(AtomDomain(int), numbers, scale) for _ in range(2) for _, scale in scales]
        super().__init__(parts, len(parts), norm, self._grouped)

    def _grouped(self, numbers: list[Any]) -> dict[Any, dict[str, Any]]:
        found: dict[Any, dict[str, Any]] = {}
        for (group, name), number in zip(self.names, numbers, strict=True):
            found.setdefault(group, {})[name] = number
        return found


@dataclass(frozen=True)
class _Scaled(Numbers):
    scale: Fraction = Fraction(1)

    def build(self, state: State, max_distance: Fraction) -> tuple[Any, Any]:
        return super().build(state, max_distance * self.scale)
