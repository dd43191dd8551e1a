"""How a budget is divided over questions: in whole portions, with the least sum of their costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.noise.values import Floats

# Worse than all costs, and yet a number: where no division is possible there still is one that adds up.
_IMPOSSIBLE = 1e12


def divided(costs: Sequence[Floats], least: Sequence[int], portions: int) -> list[int]:
    """Return how many of some equal portions each gets, all of them together.

    Args:
        costs: of each, by the number of its portions, from 1 on; infinite where so few are not enough.
        least: of each, how many it gets at least; 1 or more.
        portions: how many there are.
    Returns:
        The division with the smallest sum, by dynamic programming: with each question in turn, the least cost
        of those before with what is left for them.

    >>> equal = -np.log(np.arange(1, 9))
    >>> divided([equal, equal], [1, 1], 8), divided([3 * equal, equal], [1, 1], 8)
    ([4, 4], [6, 2])
    >>> divided([3 * equal, equal], [1, 3], 8)
    [5, 3]
    """
    best: Floats = np.full(portions + 1, np.inf)
    best[0] = 0.0
    taken = []
    for cost, few in zip(costs, least, strict=True):
        own = np.concatenate([[np.inf], np.minimum(cost[:portions], _IMPOSSIBLE)])
        own[:few] = np.inf
        # By what is given in all, and of it to this one.
        all_of = np.array(
            [np.concatenate([best[total::-1] + own[: total + 1], np.full(portions - total, np.inf)])
             for total in range(portions + 1)]
        )  # fmt: skip
        taken.append(all_of.argmin(axis=1))
        best = all_of.min(axis=1)
    found, left = [], portions
    for choice in reversed(taken):
        found.append(int(choice[left]))
        left -= found[-1]
    return found[::-1]
