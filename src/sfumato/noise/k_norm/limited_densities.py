"""Densities of single numbers of noise that is shared in part, for all numbers at once.

The sides (a, b) of a group have the density c a^i b^j exp(-β (a + b)) W(a, b), where W is the integral over
all λ >= a and μ >= b of exp(-w (λ + μ)) V^(G-1): what all other groups leave. W is smooth, and the same for
whichever number is asked for. It is held at the places of Gauss and Legendre's rule in panels of one width,
so that sums and differences of sides fall into panels again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.noise.k_norm.cone import Cone
from sfumato.noise.k_norm.limited_radii import Sizes, powers
from sfumato.noise.k_norm.sides import integrals, rule
from sfumato.noise.values import Floats

_nodes = 16
_most = 64  # panels; beyond, they take longer than quadrature for each number


@dataclass(frozen=True)
class Density:
    """The law of |Z|: tails are those of `whole` less x times those of `over`, both of shape (panels, nodes).

    Args:
        width: of a panel.
        whole, over: integrated from each place on.
        variance: of Z.
    """

    width: float
    whole: Floats
    over: Floats
    variance: float

    def outside(self, x: float) -> float:
        """Return P(|Z| > x), x >= 0."""
        panel = int(x / self.width)
        if panel >= len(self.whole):
            return 0.0
        at = _basis(np.array([x / self.width - panel]))[0]
        return float(np.clip(at @ self.whole[panel] - x * (at @ self.over[panel]), 0.0, 1.0))


def densities(sizes: Sizes, reach: float, width: float) -> list[Density] | None:
    """Return the laws of the numbers of a group, one for all signed ones.

    Args:
        sizes: the law of λ and μ.
        reach: what λ and μ are next to never beyond.
        width: in which their density, and exp(-βλ), change by a few times at most.
    Returns:
        None where there are too many panels.
    """
    count = int(np.ceil(reach / width))
    if count > _most:
        return None
    return _Panels(sizes, count, reach / count).densities()


class _Panels:
    def __init__(self, sizes: Sizes, count: int, width: float) -> None:
        self._sizes, self._count, self._width = sizes, count, width
        self._place = self._places(count)
        self._weight = np.tile(rule(_nodes)[1] * (width / 2), count)

    def densities(self) -> list[Density]:
        cone, tilt = self._sizes.cone, float(self._sizes.tilted.tilt)
        left = np.exp(-tilt * self._place)
        rest = self._rest()
        # With exp(-β (a + b)); and where b is 0.
        inside = self._beyond(self._beyond(rest).T) * left * left[:, None]
        edge = self._beyond(rest @ self._weight) * left
        found = [self._difference(cone, inside, edge)]
        if cone.units:
            # The number of units adds any number to the one side, or to the other.
            cone, edge = Cone(cone.signed), self._beyond(edge) + inside @ self._weight
            inside = self._beyond(inside)
            inside = inside + inside.T
            found.append(self._difference(cone, inside, edge))
        return [*found, self._signed(cone.signed, inside, edge)] if cone.signed else found

    def _rest(self) -> Floats:
        """exp(-w (λ + μ)) V^(G-1), over its largest."""
        cone, place = self._sizes.cone, self._place
        one = [*integrals(cone.dimensions, float(self._sizes.tilted.tilt), place), np.ones_like(place)]
        volume = sum(float(c) * np.outer(one[i], one[j]) for (i, j), c in powers(cone).items())
        height = (self._sizes.groups - 1) * np.log(np.maximum(volume, 1e-300))
        height -= float(self._sizes.shared) * (place + place[:, None])
        return np.asarray(np.exp(height - height.max()))

    def _difference(self, cone: Cone, inside: Floats, edge: Floats) -> Density:
        """The law of a - b."""
        a, b, terms = self._place[:, None], self._place, powers(cone).items()
        inside = sum(float(c) * a**i * b**j for (i, j), c in terms if min(i, j) >= 0) * inside
        blocks = self._blocks(inside)
        # Pairs of panels that are so far apart.
        apart = [sum(blocks[q, q - p] for q in range(p, self._count)) for p in range(self._count)]
        here, next_ = np.array(apart), np.array([*apart[1:], 0 * apart[0]])
        density = self._along(here, next_, _differences())
        density += sum(float(c) * b**i for (i, j), c in terms if j < 0) * edge
        return self._law(density, 0 * density, density * b**2)

    def _signed(self, m: int, inside: Floats, edge: Floats) -> Density:
        """The largest number of all, n or a signed one, is a + b: below it the others are uniform."""
        blocks, count = self._blocks(inside), self._count
        sums = np.array([
            sum(blocks[q, p - q] for q in range(max(0, p - count + 1), min(p, count - 1) + 1))
            for p in range(2 * count - 1)
        ])  # fmt: skip
        none = 0 * sums[:1]
        here, before = np.concatenate([sums, none]), np.concatenate([none, sums])
        within, size = self._along(here, before, _sums()), self._places(2 * count)
        within *= 2 * m * size ** (m - 1)
        largest = np.concatenate([2 * edge * self._place**m, np.zeros_like(edge)])
        below = (largest + within * (m - 1) / m) / size
        return self._law(largest + within, below, (largest + within * (m + 2) / m) * size**2 / 3)

    def _law(self, density: Floats, below: Floats, square: Floats) -> Density:
        """Of the density of a size, of what is uniform below it over it, and of its squares."""
        weight = np.resize(self._weight, density.shape)
        mass = float(weight @ density)
        whole, over = (self._beyond(v).reshape(-1, _nodes) / mass for v in (density, below))
        return Density(self._width, whole, over, float(weight @ square) / mass)

    def _places(self, count: int) -> Floats:
        places = (np.arange(count)[:, None] + (rule(_nodes)[0] + 1) / 2) * self._width
        return np.asarray(places.ravel())

    def _blocks(self, found: Floats) -> Floats:
        """Return what belongs to each pair of panels, of shape (panels, panels, nodes, nodes)."""
        return found.reshape(self._count, _nodes, self._count, _nodes).swapaxes(1, 2)

    def _along(self, one: Floats, other: Floats, parts: tuple[Floats, Floats]) -> Floats:
        found = sum(
            np.tensordot(v, part, axes=((1, 2), (1, 2))) for v, part in zip((one, other), parts, strict=True)
        )
        return np.asarray(found * self._width).ravel()

    def _beyond(self, values: Floats) -> Floats:
        """Integrate from each place on, along the first axis."""
        panels = values.reshape(-1, _nodes, values.size // len(values))
        totals = np.einsum("i,pij->pj", rule(_nodes)[1] / 2, panels)
        later = np.cumsum(totals[::-1], axis=0)[::-1] - totals
        return np.asarray((_upward() @ panels + later[:, None]) * self._width).reshape(values.shape)


def _basis(x: Floats) -> Floats:
    """Lagrange's polynomials of the nodes of a panel, at places in [0, 1]."""
    from numpy.polynomial.legendre import legvander

    return np.asarray(legvander(2 * x - 1, _nodes - 1) @ _inverse())


@cache
def _inverse() -> Floats:
    from numpy.polynomial.legendre import legvander

    return np.asarray(np.linalg.inv(legvander(rule(_nodes)[0], _nodes - 1)))


@cache
def _upward() -> Floats:
    """What integrates from each node to the end of its panel, of width 1."""
    place, weight = rule(_nodes)
    rest = ((1 - place) / 2)[:, None]
    return np.asarray(((rest * weight / 2)[:, :, None] * _basis(1 - rest * (1 - place) / 2)).sum(axis=1))


@cache
def _differences() -> tuple[Floats, Floats]:
    """What integrates over a, for b = a - z with z at a node: b in panel q - p, and before it."""
    return _pairs(lambda z, a: (a, a - z), upper_first=True)


@cache
def _sums() -> tuple[Floats, Floats]:
    """What integrates over a, for b = s - a with s at a node: b in panel p - q, and before it."""
    return _pairs(lambda s, a: (a, s - a), upper_first=False)


def _pairs(
    sides: Callable[[Floats, Floats], tuple[Floats, Floats]], *, upper_first: bool
) -> tuple[Floats, Floats]:
    place, weight = rule(_nodes)
    node, t = ((place + 1) / 2)[:, None], (place + 1) / 2
    found = []
    for start, length in ((0 * node, node), (node, 1 - node)):
        a, b = sides(node, start + length * t)
        b = np.where(b < 0, b + 1, b)
        found.append(np.einsum("st,sti,stj->sij", length * weight / 2, _basis_of(a), _basis_of(b)))
    return (found[1], found[0]) if upper_first else (found[0], found[1])


def _basis_of(x: Floats) -> Floats:
    return _basis(x.ravel()).reshape(*x.shape, _nodes)
