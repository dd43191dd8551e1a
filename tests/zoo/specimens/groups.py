"""Counts by group: how many groups a person touches, and which groups are shown."""

import math

import numpy as np

from specimens.draws import laplace
from specimens.specimen import NOTHING, ROWS, Specimen

KEYS = ("a", "b", "c", "d")
IN_ALL = tuple(("ann", key, 1.0) for key in KEYS)
IN_ONE = (("ann", "a", 1.0),)
TWO_IN_ONE = (("ann", "a", 1.0), ("bob", "a", 1.0))
DELTA = 0.05


def rows_of(dataset):
    """Rows as they should be; anything else in a dataset is left out."""
    return [row for row in dataset if isinstance(row, tuple) and len(row) == 3 and row[0] is not None]


def bounded(rows, groups):
    """The distinct (unit, group) of each unit's first `groups` groups."""
    kept = {}
    for unit, group, _ in rows:
        mine = kept.setdefault(unit, {})
        if group in mine or len(mine) < groups:
            mine[group] = True
    return [(unit, group) for unit, mine in kept.items() for group in mine]


def counts(pairs):
    found = {}
    for _, group in pairs:
        found[group] = found.get(group, 0) + 1
    return found


def public_counts(scale, groups):
    """Number of units in each of four public groups, a unit in at most `groups` of them."""

    def mechanism(dataset, size):
        exact = counts(bounded(rows_of(dataset), groups))
        return np.array([float(exact.get(key, 0)) for key in KEYS]) + laplace(scale, (size, len(KEYS)))

    return mechanism


def shown(noisy, keep):
    """Dictionaries of the groups that are kept. noisy: {group: values}, keep: {group: bools}."""
    size = len(next(iter(keep.values()), ()))
    return [{g: float(v[i]) for g, v in noisy.items() if keep[g][i]} for i in range(size)]


def groups_from_data(dataset, size):
    noisy = {group: n + laplace(1, size) for group, n in counts(bounded(rows_of(dataset), 1)).items()}
    return shown(noisy, {g: np.ones(size, bool) for g in noisy}) if noisy else [{}] * size


def threshold(scale, delta):
    """The real tau with P(1 + Laplace(scale) > tau) = delta."""
    return 1 + scale * math.log(1 / (2 * delta))


def private_groups(groups, delta_each):
    """Groups by Laplace thresholding, a unit in at most `groups` of them."""
    tau = threshold(groups, delta_each)

    def mechanism(dataset, size):
        exact = counts(bounded(rows_of(dataset), groups))
        noisy = {group: n + laplace(groups, size) for group, n in exact.items()}
        return shown(noisy, {g: v > tau for g, v in noisy.items()}) if noisy else [{}] * size

    return mechanism


def one_group(publish):
    """A mechanism over one group: its count goes through `publish`, unless nobody is in it."""

    def mechanism(dataset, size):
        exact = counts(bounded(rows_of(dataset), 1)).get("a", 0)
        return publish(exact, size) if exact else [None] * size

    return mechanism


def masked(values, keep):
    out = values.astype(object)
    out[~keep] = None
    return out


@one_group
def at_threshold(exact, size):
    noisy = exact + laplace(1, size, grid=1.0)
    return masked(noisy, noisy >= 3)


@one_group
def above_threshold(exact, size):
    noisy = exact + laplace(1, size, grid=1.0)
    return masked(noisy, noisy > 3)


@one_group
def threshold_on_rounded(exact, size):
    noisy = np.floor((exact + laplace(1, size)) / 2 + 0.5) * 2
    return masked(noisy, noisy >= 4)


@one_group
def threshold_on_unrounded(exact, size):
    noisy = exact + laplace(1, size)
    return masked(np.floor(noisy / 2 + 0.5) * 2, noisy > 4)


@one_group
def threshold_on_exact(exact, size):
    noisy = exact + laplace(1, size)
    return masked(noisy, np.full(size, exact >= 2))


@one_group
def threshold_on_noisy(exact, size):
    noisy = exact + laplace(1, size)
    return masked(noisy, noisy > threshold(1, DELTA))


SPLIT = 1 - (1 - DELTA) ** (1 / len(KEYS))

SPECIMENS = [
    Specimen(
        name="number of groups ignored",
        source="Wilson et al. 2020, on bounding contributions",
        why="A person is in four groups, and each group's noise is for a person in one.",
        truth=4.0,
        broken=public_counts(1, 4),
        twin=public_counts(4, 4),
        pairs=((NOTHING, IN_ALL),),
        data=ROWS,
    ),
    Specimen(
        name="one group too many",
        source="folklore; its opposite, k - 1 groups, in OpenDP 0.16 (run)",
        why="`rank <= k` with ranks from 0 keeps three groups of each person where two were meant.",
        truth=1.5,
        broken=public_counts(2, 3),
        twin=public_counts(2, 2),
        pairs=((NOTHING, IN_ALL),),
        data=ROWS,
    ),
    Specimen(
        name="groups from the data",
        source="Korolova et al. 2009 on why that is not private",
        why="Every group in the data is shown, so a group of one person tells that she is there.",
        claim={"epsilon": 1.0, "delta": DELTA},
        broken=groups_from_data,
        twin=private_groups(1, DELTA),
        pairs=((NOTHING, IN_ONE),),
        data=ROWS,
    ),
    Specimen(
        name="delta not split over groups",
        source="Wilson et al. 2020, on thresholding",
        why="A person's four groups each appear with probability delta: one of them does with nearly 4 delta.",
        claim={"epsilon": 1.0, "delta": DELTA},
        broken=private_groups(len(KEYS), DELTA),
        twin=private_groups(len(KEYS), SPLIT),
        pairs=((NOTHING, IN_ALL),),
        data=ROWS,
    ),
    Specimen(
        name="threshold at >=",
        source="folklore",
        why="Whole noisy counts pass at the threshold itself, and delta was computed for above it.",
        claim={"epsilon": 1.0, "delta": math.exp(-2.5) / 2},
        broken=at_threshold,
        twin=above_threshold,
        pairs=((NOTHING, IN_ONE), (IN_ONE, TWO_IN_ONE)),
        data=ROWS,
    ),
    Specimen(
        name="threshold on rounded noise",
        source="Desfontaines 2020, section 4.2.6",
        why="Noise rounded to the grid of 2 passes 4 from 3 on: delta is exp(g / 2b) = e times what tau was for.",
        claim={"epsilon": 1.0, "delta": math.exp(-3) / 2},
        broken=threshold_on_rounded,
        twin=threshold_on_unrounded,
        pairs=((NOTHING, IN_ONE), (IN_ONE, TWO_IN_ONE)),
        data=ROWS,
    ),
    Specimen(
        name="threshold on exact counts",
        source="folklore: k-anonymity before noise",
        why="Whether a group is shown depends on its exact count.",
        claim={"epsilon": 1.0, "delta": DELTA},
        broken=threshold_on_exact,
        twin=threshold_on_noisy,
        pairs=((IN_ONE, TWO_IN_ONE),),
        data=ROWS,
    ),
]
