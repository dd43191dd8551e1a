"""What all groups of a draw share where a unit is in some of them only: λ and μ beside a tilt of each group.

The norm is w (max over groups of a + max over groups of b) + (1 - w) (sum over groups of a + b) / k. Its
first part is the integral over all λ, μ that are as large, as in `radii`; its second part is a factor
exp(-β (a + b)) of each group, β = (1 - w)/k. So (λ, μ) has a density proportional to exp(-w (λ + μ)) V(λ,
μ)^G, where V is the integral of exp(-β (a + b)) over λC - μC.

V is log-concave and symmetric, so that V(θr, (1 - θ)r) is at most U(r) = V(r/2, r/2): r is drawn from below
two tangents of the logarithm of exp(-w r) r U(r)^G and a constant, θ is uniform, and both are accepted
together.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, lru_cache
from itertools import count
from math import comb, sqrt

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.exact.directed import exactly
from sfumato.exact.enclosures import Enclosure, LazyReal, is_less
from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.k_norm.radii import HALF, Radii, constant, log_of
from sfumato.noise.k_norm.streams import Streams

_NARROW = 2.0**-40
Powers = dict[tuple[int, int], Fraction]


@cache
def powers(cone: Cone) -> Powers:
    """How a uniform vector of one group is spread over its sides (a, b), up to a factor.

    Returns:
        {(i, j): c}: a density c a^i b^j; -1 says that this side is 0.
    """
    m = cone.signed
    found: Powers = {(m, -1): Fraction(1), (-1, m): Fraction(1)}
    found |= {(i, m - 1 - i): Fraction(2 * m * comb(m - 1, i)) for i in range(m)}
    if not cone.units:
        return found
    # u - n adds any number to the one side, or to the other.
    raised: Powers = {}
    for (i, j), c in found.items():
        for key, divisor in (((i + 1, j), i + 1), ((i, j + 1), j + 1)):
            raised[key] = raised.get(key, Fraction(0)) + c / max(divisor, 1)
    return raised


@dataclass(frozen=True, repr=False)
class Tilted(Spelled):
    """V(λ, μ), and its slope in λ.

    Args:
        cone: the body of one group.
        tilt: β, greater than 0.
    """

    cone: Cone
    tilt: Fraction

    def volume(self, left: Enclosure, right: Enclosure) -> Enclosure:
        """Return V, with the factor of `powers`."""
        return self._sum(self._integrals(left), self._integrals(right))

    def slope(self, left: Enclosure, right: Enclosure) -> Enclosure:
        """Return the derivative of V in λ."""
        fall = left.times(-self.tilt).exp()
        heights = [None, fall]
        for _ in range(self.cone.dimensions):
            heights.append(heights[-1] * left)  # type: ignore[operator]
        return self._sum(heights, self._integrals(right))

    def _integrals(self, end: Enclosure) -> list[Enclosure | None]:
        """Of a^i exp(-β a) from 0 to `end`, for i from -1, which stands for the side that is 0."""
        fall = end.times(-self.tilt).exp()
        one = Enclosure.of(1, end.bits)
        found: list[Enclosure | None] = [one, (one - fall).times(1 / self.tilt)]
        term, last = fall, found[1]
        for i in range(1, self.cone.dimensions):
            assert last is not None
            term = term * end
            last = (last.times(i) - term).times(1 / self.tilt)
            found.append(last)
        return found

    def _sum(self, left: list[Enclosure | None], right: list[Enclosure | None]) -> Enclosure:
        terms = []
        for (i, j), c in powers(self.cone).items():
            one, other = left[i + 1], right[j + 1]
            if one is not None and other is not None:
                terms.append((one * other).times(c))
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


@dataclass(frozen=True)
class Hat:
    """exp(top) min(1, exp(left (r - start)), exp(-right (r - end))): above the density of r, up to a factor.

    Args:
        top: logarithm of the largest value.
        start, end: where it is largest, from `start` to `end`.
        left, right: how steep it is on either side, greater than 0.
    """

    top: Fraction
    start: Fraction
    end: Fraction
    left: Fraction
    right: Fraction


@dataclass(frozen=True)
class Sizes:
    """The law of r and θ.

    Args:
        cone: the body of one group.
        groups: how many.
        most: k, the most groups of a unit.
        shared: w, what the largest group has of the norm; between 0 and 1.
    """

    cone: Cone
    groups: int
    most: int
    shared: Fraction

    @property
    def tilted(self) -> Tilted:
        """V."""
        return Tilted(self.cone, (1 - self.shared) / self.most)

    @property
    def _bits(self) -> int:
        """Of what a hat is made of: integrals lose some for each power where the tilt is next to nothing."""
        lost = max(0, int(1 / self.tilted.tilt).bit_length() - 16)
        return 160 + self.cone.dimensions * lost

    def height(self, size: Enclosure, share: Enclosure) -> Enclosure:
        """Return the logarithm of the density of (r, θ), up to a constant."""
        one = Enclosure.of(1, size.bits)
        volume = self.tilted.volume(share * size, (one - share) * size)
        return volume.log().times(self.groups) + size.log() - size.times(self.shared)

    def _middle(self, size: Fraction) -> tuple[Fraction, Fraction]:
        def height(bits: int) -> Enclosure:
            return self.height(Enclosure.of(size, bits), Enclosure.of(HALF, bits))

        return self._known(height)

    def _slope(self, size: Fraction) -> tuple[Fraction, Fraction]:
        """Return bounds of the derivative of `height` in r, at θ = 1/2."""

        def slope(bits: int) -> Enclosure:
            half = Enclosure.of(size / 2, bits)
            grown = self.tilted.slope(half, half) / self.tilted.volume(half, half)
            return grown.times(self.groups) + Enclosure.of(1 / size - self.shared, bits)

        return self._known(slope)

    def _known(self, number: LazyReal) -> tuple[Fraction, Fraction]:
        """Return bounds of a number, with as many bits as it takes: integrals of high powers lose many."""
        bits = self._bits
        while True:
            found = number(bits)
            if found.high - found.low < _NARROW:  # which no infinite one is
                return exactly(found.low), exactly(found.high)
            bits *= 2

    @property
    def hat(self) -> Hat:
        """What r is proposed from."""
        return _hat(self)

    def draw(self, streams: Streams) -> Radii:
        """Draw λ and μ."""
        for attempt in count():
            proposal = self._proposal(streams, attempt)
            if proposal is not None:
                return proposal
        raise AssertionError("unreachable")

    def _proposal(self, streams: Streams, attempt: int) -> Radii | None:
        hat = self.hat
        piece, place, share, chance = (streams.at(0, attempt, part) for part in range(4))
        first, middle, last = 1 / hat.left, hat.end - hat.start, 1 / hat.right

        def along(bits: int) -> Enclosure:
            return piece.enclose(bits).times(first + middle + last)

        beyond: LazyReal = log_of(place)  # how far below the top
        if is_less(along, constant(first)):
            start, step, distance = hat.start, first, beyond
        elif is_less(along, constant(first + middle)):
            start, step, distance, beyond = hat.start, middle, place.enclose, constant(Fraction(0))
        else:
            start, step, distance = hat.end, -last, beyond

        @cache
        def size(bits: int) -> Enclosure:
            return Enclosure.of(start, bits) + distance(bits).times(step)

        def room(bits: int) -> Enclosure:
            return self.height(size(bits), share.enclose(bits)) - beyond(bits)

        if not is_less(constant(Fraction(0)), size):
            return None
        if not is_less(log_of(chance), lambda bits: room(bits) - Enclosure.of(hat.top, bits)):
            return None
        return Radii(size, lambda bits: share.enclose(bits) - Enclosure.of(HALF, bits))


@lru_cache(1 << 8)
def _hat(law: Sizes) -> Hat:
    """Find tangents about where the density is e times below its largest; any points would do."""
    low, high = Fraction(0), Fraction(1)
    while law._slope(high)[0] > 0:
        low, high = high, 2 * high
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if law._slope(middle)[0] > 0 else (low, middle)
    peak = high
    near = peak / 2**6
    bent = (law._slope(peak - near)[0] - law._slope(peak + near)[0]) / (2 * near)
    reach = Fraction(sqrt(2 / float(bent)))
    before, after = max(peak - reach, peak / 8), peak + reach
    error = max(map(abs, law._slope(peak)))
    top = law._middle(peak)[1] + error * (after - before)
    # A tangent that is less steep than the true one is raised by what it lacks up to the peak.
    (left, steeper), height = law._slope(before), law._middle(before)[1]
    start = before + (top - height - (steeper - left) * (peak - before)) / left
    (steeper, right), height = law._slope(after), law._middle(after)[1]
    end = after + (top - height - (right - steeper) * (after - peak)) / right
    return Hat(top, min(start, peak), max(end, peak), left, -right)
