"""The selection of private groups, and what it hides and shows of the noise."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

from sfumato.certificate.contributions import Description
from sfumato.certificate.description import require
from sfumato.certificate.numbers import WIDE, above, any_of_many, exp_above, tail_above

_PLACES = 32  # numbers of lone groups that are looked at one by one, and how many beyond these


def lone_chance(part: Description) -> Fraction:
    """Return a bound of the chance that a group is shown that one unit alone makes large enough.

    Args:
        part: of kind "groups", with a threshold.
    Raises:
        CertificateError: the number is none of units, counted one by one, or has noise of another law.
    """
    rule, noise = part["selection"], part["noise"]
    units = [s for s in part["statistics"] if s["kind"] == "units" and s["name"] == rule["name"]]
    require(units and units[0]["one"] == 1, "selection.name", "expected units, in steps of one")
    # 1 + round(Z) reaches a whole threshold where Z reaches it less 3/2.
    reach = max(Fraction(2 * rule["threshold"] - 3, 2), Fraction(0)) / noise["scales"][rule["name"]]
    if noise["shape"] == "independent":
        tail = exp_above(-reach) / 2 if noise["law"] == "laplace" else tail_above(reach)
    else:
        own = noise["shape"] == "k_norm" and not noise["joint"] and noise["order"][0] == rule["name"]
        require(own, "selection.name", "the tail of this noise is unknown")
        tail = _k_norm_tail(reach, len(noise["order"]) - noise["units"], noise["units"])
    return min(Fraction(1), Fraction(tail)) if rule["threshold"] > 1 else Fraction(1)


def _k_norm_tail(reach: Fraction, numbers: int, units: bool) -> float:
    """Return a bound of the tail of the first number of K-norm noise of one group.

    The count that limits so many numbers, itself included, has the law of a signed Erlang number of a shape
    that is any of 1 to `numbers`. Units above it are another signed exponential number off it.
    """
    x, density = above(reach), exp_above(-reach)
    erlang, term, total, off = [0.0], density, 0.0, 0.0
    for j in range(1, numbers + 2):
        erlang.append(erlang[-1] + term)  # the tail of Erlang of shape j
        term *= x / j
    for j in range(1, numbers + 1):
        off = (erlang[j] + off) / 2  # of Erlang less an exponential number
        both = (erlang[j + 1] + off + density / 2.0**j) / 2
        total += both if units else erlang[j]
    return total / numbers / 2 * WIDE


def threshold_delta(
    part: Description, groups: int, noise: Callable[[int], Fraction], enough: Fraction
) -> Fraction:
    """Return a bound of delta where groups below a threshold are hidden, with their noise.

    Of l lone groups one is shown with a chance q(l), and else no noise of theirs is seen. So delta is at most
    the largest q(l) + (1 - q(l)) D(k - l).

    Args:
        part: of kind "groups", with a threshold.
        groups: the most groups of a unit, k.
        noise: the delta of noise on a number of groups, D.
        enough: a bound up to here need not be sharper.
    """
    chance, whole = lone_chance(part), noise(groups)
    most = any_of_many(chance, groups)
    if not whole or most + (1 - most) * whole <= enough or part["groups"]["total_rows"] is not None:
        return most + (1 - most) * whole
    places = sorted({*range(min(groups, _PLACES)), *range(0, groups, -(-groups // _PLACES)), groups})
    best = Fraction(0)
    for before, lone in pairwise([-1, *places]):  # all numbers of lone groups from before + 1 to this one
        q, left = any_of_many(chance, lone), groups - before - 1
        best = max(best, q + (1 - q) * (noise(left) if left else 0))
    return best
