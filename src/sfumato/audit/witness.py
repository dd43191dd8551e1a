"""The event that broke a claim, in words and in numbers that others can check."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.audit.claims import Claim
from sfumato.audit.evidence import Histogram, Witness
from sfumato.audit.features import Quantiles
from sfumato.audit.mechanisms import Mechanism, takes_size
from sfumato.audit.outputs import Draws, Floats
from sfumato.audit.pair_test import PairTest
from sfumato.audit.wording import literal

_BARS = 40


def witness(test: PairTest) -> Witness:
    """Return the event with the most wealth on a pair of neighbours."""
    wager, place = test.best()
    assert wager.betted is not None
    look = wager.betted
    direction, pair = place[0], test.claim.pairs[place[3]]
    sides = [(test.edge.dataset, test.past[0]), (test.edge.neighbour, test.past[1])]
    (dataset, draws), (neighbour, others) = sides[::-1] if direction else sides
    draws, others = look.draws(draws), look.draws(others)
    values = look.extract(draws), look.extract(others)
    mask = wager.masks[place]

    def named(code: int) -> str:
        for seen, side in zip(values, (draws, others), strict=True):
            places = np.flatnonzero(seen == code)
            if len(places):
                return wager.feature.named(side.part(int(places[0]), int(places[0]) + 1), code)
        return "a value that did not come again"

    first, second = (float(mask[look.cells.place(v)].mean()) for v in values)
    if isinstance(look.cells, Quantiles):
        what, numbers = wager.feature.name, (values[0], values[1])
    else:
        what, numbers = _first_numbers(test, draws, others)
    return Witness(
        edge=test.edge.name,
        dataset=dataset,
        neighbour=neighbour,
        event=look.cells.words(wager.feature.name, mask, named),
        frequency=first,
        neighbour_frequency=second,
        samples=len(values[0]),
        epsilon=pair.epsilon,
        delta=pair.delta,
        replay=replay(test.mechanism, test.claim, dataset, neighbour),
        histogram=histogram(numbers[0], numbers[1], what),
    )


def replay(mechanism: Mechanism, claim: Claim, dataset: Any, neighbour: Any, more: str = "") -> str:
    """Return a line of Python that audits one pair again; `more` are further keywords."""
    name, imported = called(mechanism)
    given = name or "mechanism"
    if name and mechanism.vectorised != takes_size(mechanism.function):
        given = f"Mechanism({name}, vectorised={mechanism.vectorised})"
    pairs = f"pairs=[({literal(dataset)}, {literal(neighbour)})]"
    return f"{imported}audit({given}, {claim.code}, {pairs}{', ' * bool(more)}{more})"


def called(mechanism: Mechanism) -> tuple[str, str]:
    """Return what a function is called in a line of Python, and what imports it, if it has a name.

    One of the prompt, a notebook or the program that runs has its own name there.
    """
    module, name = (getattr(mechanism.function, a, "") for a in ("__module__", "__qualname__"))
    if not module or not name.isidentifier():
        return "", ""
    return (
        (name, "") if module == "__main__" else ("mechanism", f"from {module} import {name} as mechanism; ")
    )


def histogram(x: Floats, y: Floats, what: str) -> Histogram | None:
    """Count both sides in equal cells between the 1% and 99% quantiles of all finite numbers."""
    both = np.concatenate([x, y])
    both = both[np.isfinite(both)]
    if not len(both):
        return None
    low, high = np.quantile(both, [0.01, 0.99])
    if not low < high:
        low, high = low - 0.5, high + 0.5
    boundaries = np.linspace(low, high, _BARS + 1)
    if not np.isfinite(boundaries).all() or (np.diff(boundaries) <= 0).any():
        return None
    counts = [np.histogram(v[np.isfinite(v)], boundaries)[0].tolist() for v in (x, y)]
    return Histogram(tuple(boundaries.tolist()), tuple(counts[0]), tuple(counts[1]), len(x), what)


def _first_numbers(test: PairTest, draws: Draws, others: Draws) -> tuple[str, tuple[Floats, Floats]]:
    """Return the first column that has numbers in it."""
    both = np.vstack([draws.numbers, others.numbers])
    column = int(np.argmax(np.isfinite(both).any(axis=0)))
    return test.reader.paths[column], (draws.numbers[:, column], others.numbers[:, column])
