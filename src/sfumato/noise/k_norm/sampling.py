"""Sampling of K-norm noise: uniform numbers bit by bit, Gamma and share draws, exactly rounded vectors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import count

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact.outward_rounding import Enclosure, LazyReal, is_less
from sfumato.noise.law_tails import Floats
from sfumato.noise.random_words import KeyedWords, Words

_key_words = 4  # 256 bits, the size of an AES key


class Stream:
    """A uniform number in (0, 1) for sampling: its first bits, and where further ones come from."""

    def __init__(self, key: bytes, address: tuple[int, ...], first: int | None = None) -> None:
        self._key, self._address = key, address
        self._more: Words | None = None
        self._prefix, self._known = (0, 0) if first is None else (first, 64)

    def enclose(self, bits: int) -> Enclosure:
        """Return where the sampled uniform number lies, to 2^-bits, with 32 more bits of precision."""
        while self._known < bits:
            if self._more is None:
                self._more = KeyedWords(self._key, repr(self._address).encode())
            self._prefix = self._prefix << 64 | int(self._more.take(1)[0])
            self._known += 64
        return Enclosure.between(self._prefix, self._prefix + 1, -self._known, bits + 32)


class Streams:
    """The uniform numbers of one draw of K-norm noise, by address."""

    def __init__(self, words: Words) -> None:
        self._key = words.take(_key_words).astype("<u8").tobytes()

    def at(self, *address: int, first: int | None = None) -> Stream:
        """Return the sampled uniform number of an address.

        Args:
            address: whole numbers; another one, another number.
            first: its first 64 bits, if they are known.
        """
        return Stream(self._key, address, first)


def upper_tail(shape: int, x: float) -> float:
    """Return the Gamma law's tail P(X > x) for a shape, right however small.

    >>> round(upper_tail(2, 3.0) / (4 * math.exp(-3)), 12)
    1.0
    """
    if x <= lowest(shape):
        return 1.0
    if shape == 1:
        return math.exp(-x)
    # The first of the terms of exp(x), from the last one on down: after so many they are next to nothing.
    count = min(shape, 60 + 22 * math.isqrt(shape))
    terms = np.cumprod((shape - np.arange(1, count)) / x)
    return float(min(1.0, density(shape, np.array(x)) * (1 + terms.sum())))


def lowest(shape: int) -> float:
    """Return what a Gamma draw is below with a probability of at most about 1e-18 (Wilson and Hilferty)."""
    return float(shape * max(0.0, 1 - 1 / (9 * shape) - 9.5 / (3 * math.sqrt(shape))) ** 3)


def density(shape: int, x: Floats) -> Floats:
    """Return the density of the Gamma law of a shape of at least 2, for x > 0.

    >>> round(float(density(3, np.array([2.0]))[0] / (2 * math.exp(-2))), 12)
    1.0
    """
    # About where it is largest: of its logarithms there only few digits cancel.
    peak = shape - 1
    if peak < 100:
        top = peak * math.log(peak) - peak - math.lgamma(shape)
    else:
        top = -math.log(2 * math.pi * peak) / 2 - 1 / (12 * peak) + 1 / (360 * peak**3)
    off = (x - peak) / peak
    # Where x is small, next to nothing of it would be left in `off`.
    log = np.where(off < -0.5, np.log(x / peak), np.log1p(off))
    return np.asarray(np.exp(top + peak * (log - off)))


Volume = Sequence[Fraction]

HALF = Fraction(1, 2)


def gamma(shape: int, streams: Streams, *address: int) -> LazyReal:
    """Sample the Gamma law of a whole shape of at least 1, and scale 1."""
    for attempt in count():
        proposal = _GammaProposal(shape, *(streams.at(*address, attempt, part) for part in range(3)))
        if proposal.accepted():
            return proposal.value
    raise AssertionError("unreachable")


class _GammaProposal:
    """A proposal in sampling the Gamma law by rejection.

    With d = shape - 1/3 and c^2 = 1/(9d), d (1 + cx)^3 has this law if x has a density proportional to
    exp(g(x)), g(x) = 3d ln(1 + cx) - d (1 + cx)^3 + d. With y = cx the derivative of g(x) + x^2/2 in y is
    -3d y^3/(1 + y), so it is at most 0, its value at 0: g(x) <= -x^2/2 <= 1/2 - |x|. So x is a Laplace
    number, accepted with probability exp(g(x) - 1/2 + |x|), which is about 3/4 on average.

    Source:
        Marsaglia and Tsang 2000, "A simple method for generating gamma variables", here with a Laplace
        number in the place of the Gaussian one.
    """

    def __init__(self, shape: int, magnitude: Stream, sign: Stream, chance: Stream) -> None:
        self._d = Fraction(3 * shape - 1, 3)
        self._magnitude, self._chance = magnitude, chance
        self._positive = is_less(constant(HALF), sign.enclose)
        self._stretch, self.value = cache(self._enclose_factor), cache(self._cubed)

    def accepted(self) -> bool:
        """Whether sampling accepts the Gamma proposal."""
        return is_less(constant(Fraction(0)), self._stretch) and is_less(
            make_log_uniform(self._chance), self._height
        )

    def _cubed(self, bits: int) -> Enclosure:
        """Enclose the proposed Gamma number d (1 + cx)^3."""
        return self._stretch(bits).power(3).times(self._d)

    def _distance(self, bits: int) -> Enclosure:
        """Enclose |x| of the Gamma proposal."""
        return -self._magnitude.enclose(bits).log()

    def _enclose_factor(self, bits: int) -> Enclosure:
        """Enclose 1 + cx of the Gamma proposal."""
        distance = self._distance(bits)
        step = distance / Enclosure.around(9 * self._d, distance.bits).root(2)
        one = Enclosure.around(1, distance.bits)
        return one + step if self._positive else one - step

    def _height(self, bits: int) -> Enclosure:
        """Enclose g(x) - 1/2 + |x|, the log of the Gamma proposal's acceptance probability."""
        y = self._stretch(bits)
        rest = Enclosure.around(self._d - HALF, y.bits) + self._distance(bits)
        return y.log().times(3 * self._d) - self.value(bits) + rest


def share(volume: Volume, groups: int, streams: Streams, *address: int) -> LazyReal:
    """Sample the share θ - 1/2, where the density of θ is proportional to V^groups.

    Args:
        volume: V as a polynomial in (θ - 1/2)^2, lowest power first.
        groups: whole number of at least 1.
        streams, address: the randomness.
    """
    if not any(volume[1:]):
        uniform = streams.at(*address)
        return lambda bits: uniform.enclose(bits) - Enclosure.around(HALF, bits)
    even = is_even(volume, groups)
    for attempt in count():
        proposal: _EvenProposal | _ShareProposal
        if even:
            proposal = _EvenProposal(volume, groups, streams.at(*address, attempt, 0))
        else:
            halves = (gamma(groups + 1, streams, *address, attempt, part) for part in range(2))
            proposal = _ShareProposal(volume, groups, *halves)
        if proposal.accepted(streams.at(*address, attempt, 2)):
            return proposal.value
    raise AssertionError("unreachable")


@lru_cache(1 << 8)
def is_even(volume: Volume, groups: int) -> bool:
    """Whether sampling proposes shares θ uniformly: the stretched Beta law is more than twice as wide.

    With many signed numbers nearly all of it would be beyond 0 and 1: of 50 all but one of some millions. Its
    width, as an area over its height, is about h sqrt(π / (groups + 3/4)).
    """
    return 22 * half_width_squared(volume) > 7 * 4 * (groups + Fraction(3, 4))


class _EvenProposal:
    """A uniform proposal in sampling θ - 1/2: V is largest at 1/2, as it is symmetric and log-concave.

    By Brunn and Minkowski the root of V of the order of its dimension is concave in θ.
    """

    def __init__(self, volume: Volume, groups: int, uniform: Stream) -> None:
        self._volume, self._groups = volume, groups
        self.value: LazyReal = lambda bits: uniform.enclose(bits) - Enclosure.around(HALF, bits)

    def accepted(self, chance: Stream) -> bool:
        """Whether sampling accepts the uniform proposal of θ."""
        return is_less(make_log_uniform(chance), self._height)

    def _height(self, bits: int) -> Enclosure:
        """Enclose the log of the probability to accept the uniform proposal of θ."""
        x = abs(self.value(bits)).power(2)
        return _value(self._volume, x).times(1 / self._volume[0]).log().times(self._groups)


class _ShareProposal:
    """A Beta proposal in sampling θ - 1/2.

    V / V(1/2) is at most 1 - ((θ - 1/2) / h)^2, with the h of `half_width_squared`. Of that the power is a
    Beta law, stretched: (X - Y) / (X + Y) h for two Gamma numbers.
    """

    def __init__(self, volume: Volume, groups: int, one: LazyReal, other: LazyReal) -> None:
        self._volume, self._groups, self._one, self._other = volume, groups, one, other
        self._square = half_width_squared(volume)
        self.value = cache(self._offset)

    def accepted(self, chance: Stream) -> bool:
        """Whether sampling accepts the Beta proposal of θ."""
        if not is_less(lambda bits: abs(self.value(bits)), constant(HALF)):
            return False
        exact = not any(self._volume[2:])
        return exact or is_less(make_log_uniform(chance), self._height)

    def _offset(self, bits: int) -> Enclosure:
        """Enclose the proposed θ - 1/2."""
        one, other = self._one(bits), self._other(bits)
        return (one - other) / (one + other) * Enclosure.around(self._square, one.bits).root(2)

    def _height(self, bits: int) -> Enclosure:
        """Enclose the log of the probability to accept the Beta proposal of θ."""
        x = abs(self.value(bits)).power(2)
        allowed = (Enclosure.around(1, x.bits) - x.times(1 / self._square)).times(self._volume[0])
        return (_value(self._volume, x) / allowed).log().times(self._groups)


def constant(number: Fraction) -> LazyReal:
    """Return a rational number as a lazy real number for sampling."""
    return lambda bits: Enclosure.around(number, bits)


def make_log_uniform(uniform: Stream) -> LazyReal:
    """Return the logarithm of a uniform number as a lazy real number for sampling."""
    return lambda bits: uniform.enclose(bits).log()


def half_width_squared(volume: Volume) -> Fraction:
    """Return h^2, the squared half width of the Beta proposal, as large as is easily proved.

    As x = (θ - 1/2)^2 is at most 1/4, a positive c x^j is at most c x^(j - 1)/4. From the last term down
    to the second, each is replaced by that, or by 0 where it is negative, and added to the one before. For up
    to 300 signed numbers what becomes of the second is negative.
    """
    above = Fraction(0)  # what is left of positive terms after negative ones
    for c in reversed(volume[2:]):
        above = max(c + above, Fraction(0)) / 4
    if volume[1] + above >= 0:
        raise AssertionError("no bound of this volume is known")
    return -volume[0] / (volume[1] + above)


def _value(volume: Volume, x: Enclosure) -> Enclosure:
    found = Enclosure.around(volume[-1], x.bits)
    for coefficient in reversed(volume[:-1]):
        found = found * x + Enclosure.around(coefficient, x.bits)
    return found


@dataclass(frozen=True)
class Radii:
    """The sampled radii λ and μ of one draw of K-norm noise, at scale 1."""

    size: LazyReal
    offset: LazyReal

    @cached_property
    def enclose(self) -> Callable[[int], tuple[Enclosure, Enclosure]]:
        """Enclose the radii (λ, μ), with about as many bits as are asked for."""
        return cache(self._enclose)

    def _enclose(self, bits: int) -> tuple[Enclosure, Enclosure]:
        size, offset, half = self.size(bits), self.offset(bits), Enclosure.around(HALF, bits)
        return (half + offset) * size, (half - offset) * size

    @cached_property
    def floats(self) -> tuple[float, float, float]:
        """The radii as floats (θ, 1 - θ, r), each the nearest but for 2^-90 of it."""
        bits = 160
        while True:
            size, offset, half = self.size(bits), self.offset(bits), Enclosure.around(HALF, bits)
            found = [e.nearest() for e in (half + offset, half - offset, size)]
            if all(
                value > 0 and error <= Fraction(value) * Fraction(1.0001) / 2**53 for value, error in found
            ):
                return found[0][0], found[1][0], found[2][0]
            bits *= 2


def radii(volume: Volume, dimensions: int, groups: int, streams: Streams) -> Radii:
    """Sample the radii λ and μ for groups that do not limit each other.

    Args:
        volume: of one group's body λC - μC at λ + μ = 1, in powers of (θ - 1/2)^2, up to a factor.
        dimensions: of one group.
        groups: how many.
        streams: the randomness of the draw.
    """
    return Radii(gamma(groups * dimensions + 2, streams, 0), share(volume, groups, streams, 1))


Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Arrays of 64 KiB: memory for larger ones is fetched from the operating system each time.
block = 1 << 13
_bulk = 2  # the part of the addresses of these numbers


@dataclass(frozen=True)
class Approximation:
    """Sampled vectors of K-norm noise in floats.

    Attributes:
        numbers: for each coordinate an array, in grid steps.
        margins: for each coordinate a bound of its error, in grid steps.
        room: an array that is above 0 for vectors that are accepted, and below 0 for others; None: all are.
        room_margin: a bound of its error.
        known: where these bounds hold; None: everywhere.
    """

    numbers: Sequence[Floats]
    margins: Sequence[float]
    room: Floats | None = None
    room_margin: float = 0.0
    known: Flags | None = None

    def at(self, places: NDArray[np.intp]) -> Approximation:
        """Return some of the sampled vectors in floats."""
        numbers = [x.take(places) for x in self.numbers]
        known = None if self.known is None else self.known.take(places)
        return replace(self, numbers=numbers, room=None, known=known)


@dataclass(frozen=True)
class Enclosed:
    """A sampled vector in enclosures: its coordinates in grid steps, and its room."""

    numbers: Sequence[Enclosure]
    room: Enclosure | None = None


class Vectors(ABC):
    """How a group's vector of K-norm noise is sampled from uniform numbers.

    Attributes:
        width: uniform numbers of each vector.
        dimensions: coordinates of a vector.
    """

    width: int
    dimensions: int

    @abstractmethod
    def approximate(self, words: Integers) -> Approximation:
        """Return sampled vectors in floats, from first words of shape (width, vectors)."""

    @abstractmethod
    def closely(self, numbers: Sequence[Floats]) -> Sequence[Floats]:
        """Return closer bounds of the float errors of these sampled vectors.

        Args:
            numbers: as `approximate` gave them.
        """

    @abstractmethod
    def enclose(self, uniform: Sequence[Enclosure]) -> Enclosed | None:
        """Return one sampled vector, from uniform numbers; None where they are known too coarsely."""

    def draw(self, count: int, streams: Streams, words: Words) -> Integers:
        """Sample vectors of K-norm noise.

        Args:
            count: how many.
            streams: where further bits come from.
            words: where first words come from: for 2^13 vectors at a time, or as many as are missing, all
                those of the first number, then all of the second, and so on. What is accepted is kept in
                order.
        Returns:
            int64 of shape (dimensions, count).
        """
        out = np.empty((self.dimensions, count), np.int64)
        filled = proposed = 0
        while filled < count:
            size = min(block, count - filled)
            first = words.take(self.width * size).view(np.int64).reshape(self.width, size)
            with np.errstate(invalid="ignore", divide="ignore"):
                filled += self._propose(first, out[:, filled:], proposed, streams)
            proposed += size
        return out

    def _propose(self, first: Integers, out: Integers, number: int, streams: Streams) -> int:
        """Propose vectors from words, the first of this number; return how many are accepted."""
        found = self.approximate(first)
        places = np.arange(first.shape[1])
        open_ = np.zeros(first.shape[1], np.bool_)
        if found.room is not None:
            # NaN is sure of nothing. What is surely not accepted needs no rounding.
            open_ = ~(np.abs(found.room) > found.room_margin)
            if found.known is not None:
                open_ |= ~found.known
            places = np.flatnonzero((found.room > 0) | open_)
            found, open_ = found.at(places), open_[places]
        drawn = out[:, : places.size]
        unsure, refused = open_ | self._round_into(drawn, found), []
        for i in np.flatnonzero(unsure).tolist():
            place = int(places[i])
            own = [
                streams.at(_bulk, number + place, j, first=int(word) % 2**64 ^ 2**63)
                for j, word in enumerate(first[:, place])
            ]
            settled = self.settle(own)
            if settled is None:
                refused.append(i)
            else:
                drawn[:, i] = settled
        accepted = places.size - len(refused)
        if refused:
            drawn[:, :accepted] = np.delete(drawn, refused, axis=1)
        return accepted

    def _round_into(self, out: Integers, approximation: Approximation) -> Flags:
        """Round sampled vectors into `out`; return where the rounding is not sure."""
        unsure = np.zeros(out.shape[1], np.bool_)
        for row, x, margin in zip(out, approximation.numbers, approximation.margins, strict=True):
            whole = np.rint(x)
            np.copyto(row, whole, casting="unsafe")
            np.subtract(x, whole, out=whole)
            np.absolute(whole, out=whole)
            unsure |= ~_sure(whole, margin)
        if (places := np.flatnonzero(unsure)).size:
            unsure[places] = self._unsure([x[places] for x in approximation.numbers])
        if approximation.known is not None:
            unsure |= ~approximation.known
        return unsure

    def _unsure(self, numbers: Sequence[Floats]) -> Flags:
        """Return where sampled coordinates are not surely rounded by their own bounds either."""
        unsure = np.zeros(len(numbers[0]), np.bool_)
        for x, margin in zip(numbers, self.closely(numbers), strict=True):
            unsure |= ~_sure(np.abs(x - np.rint(x)), margin)
        return unsure

    def settle(self, uniform: Sequence[Stream]) -> list[int] | None:
        """Settle one sampled vector's whole numbers exactly; None if it is not accepted."""
        bits = 64  # of which no number needs further words
        while True:
            found = self.enclose([u.enclose(bits) for u in uniform])
            bits *= 2
            if found is None:
                continue
            if found.room is not None:
                inside = Enclosure.around(0, bits).below(found.room)
                if inside is None:
                    continue
                if not inside:
                    return None
            rounded = [number.rounded() for number in found.numbers]
            whole = [n for n in rounded if n is not None]
            if len(whole) == len(rounded):
                return whole


def as_uniform(words: Integers) -> list[Floats]:
    """Return uniform numbers in [-1, 1) from the middles of words, for sampling in floats.

    They are within 2^-53 of those of the words, and 2^-63 of the truth.
    """
    found = [row.astype(np.float64) for row in words]  # each in memory of its own, as `block` says
    for row in found:
        np.multiply(row, 2.0**-63, out=row)
    return found


def _sure(distance: Floats, margin: Floats | float) -> Flags:
    """Return where sampled numbers, so far from whole ones, round surely whatever their error up to a margin.

    False for NaN too: what cannot be compared is not decided.
    """
    # The difference is off by at most half a last bit, which the next float below it makes up for.
    return np.asarray(distance <= np.nextafter(0.5 - margin, -np.inf))


def check_scales(scales: Sequence[Fraction], dimensions: int, shape: int) -> None:
    """Refuse scales with which sampling could leave 64-bit integers.

    No number is larger than a scale times a Gamma number of this shape, which is above 2 shape + 128 with
    probability below e^-64.
    """
    if len(scales) != dimensions or min(scales) <= 0:
        raise ParameterError("scales", scales, f"{dimensions} numbers greater than 0")
    most = 2**62 // (2 * shape + 128)
    if max(scales) > most:
        raise ParameterError("scales", max(scales), f"at most {most} grid steps")
