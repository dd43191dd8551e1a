"""What all groups of a draw share: how large it is, and how that is split between its two sides.

exp(-||x||) is the integral of exp(-λ - μ) over all λ, μ >= 0 for which x is in λC - μC. So a draw is a pair
(λ, μ), of density exp(-λ - μ) times the volume of λC - μC, and then a uniform point of this body. For G
groups that do not limit each other it is a product of G bodies of D dimensions, of volume V(θ)^G r^(GD) for
λ = θr and μ = (1 - θ)r: r has a Gamma law of shape GD + 2, and θ, independently, a density proportional to
V(θ)^G.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import count

from sfumato.dataclass import dataclass
from sfumato.exact.enclosures import Enclosure, LazyReal, is_less
from sfumato.noise.k_norm.streams import Stream, Streams

Volume = Sequence[Fraction]

HALF = Fraction(1, 2)


def gamma(shape: int, streams: Streams, *address: int) -> LazyReal:
    """Draw from the Gamma law of a whole shape of at least 1, and scale 1."""
    for attempt in count():
        proposal = _GammaProposal(shape, *(streams.at(*address, attempt, part) for part in range(3)))
        if proposal.accepted():
            return proposal.value
    raise AssertionError("unreachable")


class _GammaProposal:
    """One number that may be taken for a Gamma number.

    With d = shape - 1/3 and c^2 = 1/(9d), d (1 + cx)^3 has this law if x has a density proportional to
    exp(g(x)), g(x) = 3d ln(1 + cx) - d (1 + cx)^3 + d. Now g(x) <= -x^2/2 <= 1/2 - |x|: x is a Laplace
    number, accepted with probability exp(g(x) - 1/2 + |x|), which is about 3/4 on average.

    Source:
        Marsaglia and Tsang 2000, "A simple method for generating gamma variables", here with a Laplace
        number in the place of the Gaussian one.
    """

    def __init__(self, shape: int, magnitude: Stream, sign: Stream, chance: Stream) -> None:
        self._d = Fraction(3 * shape - 1, 3)
        self._magnitude, self._chance = magnitude, chance
        self._positive = is_less(constant(HALF), sign.enclose)
        self._stretch, self.value = cache(self._stretched), cache(self._cubed)

    def accepted(self) -> bool:
        """Whether this one is taken."""
        return is_less(constant(Fraction(0)), self._stretch) and is_less(log_of(self._chance), self._height)

    def _cubed(self, bits: int) -> Enclosure:
        """d (1 + cx)^3, the value."""
        return self._stretch(bits).power(3).times(self._d)

    def _distance(self, bits: int) -> Enclosure:
        """|x|."""
        return -self._magnitude.enclose(bits).log()

    def _stretched(self, bits: int) -> Enclosure:
        """1 + cx."""
        distance = self._distance(bits)
        step = distance / Enclosure.of(9 * self._d, distance.bits).root(2)
        one = Enclosure.of(1, distance.bits)
        return one + step if self._positive else one - step

    def _height(self, bits: int) -> Enclosure:
        """g(x) - 1/2 + |x|."""
        y = self._stretch(bits)
        rest = Enclosure.of(self._d - HALF, y.bits) + self._distance(bits)
        return y.log().times(3 * self._d) - self.value(bits) + rest


def share(volume: Volume, groups: int, streams: Streams, *address: int) -> LazyReal:
    """Draw θ - 1/2, where the density of θ is proportional to V^groups.

    Args:
        volume: V as a polynomial in (θ - 1/2)^2, lowest power first.
        groups: whole number of at least 1.
        streams, address: the randomness.
    """
    if not any(volume[1:]):
        uniform = streams.at(*address)
        return lambda bits: uniform.enclose(bits) - Enclosure.of(HALF, bits)
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
    """Whether proposals of θ are uniform: where the stretched Beta law is more than twice as wide.

    With many signed numbers nearly all of it would be beyond 0 and 1: of 50 all but one of some millions. Its
    width, as an area over its height, is about h sqrt(π / (groups + 3/4)).
    """
    return 22 * half_width_squared(volume) > 7 * 4 * (groups + Fraction(3, 4))


class _EvenProposal:
    """A uniform number that may be taken for θ - 1/2: V is largest at 1/2, as it is log-concave."""

    def __init__(self, volume: Volume, groups: int, uniform: Stream) -> None:
        self._volume, self._groups = volume, groups
        self.value: LazyReal = lambda bits: uniform.enclose(bits) - Enclosure.of(HALF, bits)

    def accepted(self, chance: Stream) -> bool:
        """Whether this one is taken."""
        return is_less(log_of(chance), self._height)

    def _height(self, bits: int) -> Enclosure:
        """The logarithm of the probability to accept."""
        x = abs(self.value(bits)).power(2)
        return _value(self._volume, x).times(1 / self._volume[0]).log().times(self._groups)


class _ShareProposal:
    """One number that may be taken for θ - 1/2.

    V / V(1/2) is at most 1 - ((θ - 1/2) / h)^2, with the h of `half_width_squared`. Of that the power is a
    Beta law, stretched: (X - Y) / (X + Y) h for two Gamma numbers.
    """

    def __init__(self, volume: Volume, groups: int, one: LazyReal, other: LazyReal) -> None:
        self._volume, self._groups, self._one, self._other = volume, groups, one, other
        self._square = half_width_squared(volume)
        self.value = cache(self._offset)

    def accepted(self, chance: Stream) -> bool:
        """Whether this one is taken."""
        if not is_less(lambda bits: abs(self.value(bits)), constant(HALF)):
            return False
        exact = not any(self._volume[2:])
        return exact or is_less(log_of(chance), self._height)

    def _offset(self, bits: int) -> Enclosure:
        """θ - 1/2, the value."""
        one, other = self._one(bits), self._other(bits)
        return (one - other) / (one + other) * Enclosure.of(self._square, one.bits).root(2)

    def _height(self, bits: int) -> Enclosure:
        """The logarithm of the probability to accept."""
        x = abs(self.value(bits)).power(2)
        allowed = (Enclosure.of(1, x.bits) - x.times(1 / self._square)).times(self._volume[0])
        return (_value(self._volume, x) / allowed).log().times(self._groups)


def constant(number: Fraction) -> LazyReal:
    """Return a rational number as one that is known as closely as one asks."""
    return lambda bits: Enclosure.of(number, bits)


def log_of(uniform: Stream) -> LazyReal:
    """Return the logarithm of a uniform number."""
    return lambda bits: uniform.enclose(bits).log()


def half_width_squared(volume: Volume) -> Fraction:
    """Return h^2, as large a one as is easily proved: a positive power is at most 1/4 of the one before."""
    above = Fraction(0)  # what is left of positive terms after negative ones
    for c in reversed(volume[2:]):
        above = max(c + above, Fraction(0)) / 4
    if volume[1] + above >= 0:
        raise AssertionError("no bound of this volume is known")
    return -volume[0] / (volume[1] + above)


def _value(volume: Volume, x: Enclosure) -> Enclosure:
    found = Enclosure.of(volume[-1], x.bits)
    for coefficient in reversed(volume[:-1]):
        found = found * x + Enclosure.of(coefficient, x.bits)
    return found


@dataclass(frozen=True)
class Radii:
    """λ and μ of one draw, at scale 1."""

    size: LazyReal
    offset: LazyReal

    @cached_property
    def enclose(self) -> Callable[[int], tuple[Enclosure, Enclosure]]:
        """(λ, μ), with about as many bits as one asks for."""
        return cache(self._enclose)

    def _enclose(self, bits: int) -> tuple[Enclosure, Enclosure]:
        size, offset, half = self.size(bits), self.offset(bits), Enclosure.of(HALF, bits)
        return (half + offset) * size, (half - offset) * size

    @cached_property
    def floats(self) -> tuple[float, float, float]:
        """θ, 1 - θ and r, each the float nearest to it but for 2^-90 of it."""
        bits = 160
        while True:
            size, offset, half = self.size(bits), self.offset(bits), Enclosure.of(HALF, bits)
            found = [e.nearest() for e in (half + offset, half - offset, size)]
            if all(
                value > 0 and error <= Fraction(value) * Fraction(1.0001) / 2**53 for value, error in found
            ):
                return found[0][0], found[1][0], found[2][0]
            bits *= 2


def radii(volume: Volume, dimensions: int, groups: int, streams: Streams) -> Radii:
    """Draw λ and μ for groups that do not limit each other.

    Args:
        volume: of one group's body λC - μC at λ + μ = 1, in powers of (θ - 1/2)^2, up to a factor.
        dimensions: of one group.
        groups: how many.
        streams: the randomness of the draw.
    """
    return Radii(gamma(groups * dimensions + 2, streams, 0), share(volume, groups, streams, 1))
