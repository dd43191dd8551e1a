"""People with many rows: what escapes the bound on one person's rows."""

from collections import Counter

import numpy as np

from specimens.draws import laplace
from specimens.groups import KEYS, bounded, counts, rows_of
from specimens.specimen import NOTHING, ROWS, Specimen

THREE = tuple(("ann", "a", 1.0) for _ in range(3))
FOUR = tuple(("ann", "a", 1.0) for _ in range(4))
NOBODY = tuple((None, "a", 1.0) for _ in range(8))
SPREAD = tuple(("ann", key, 1.0) for key in KEYS[:3])
FAN = {"a": 5}  # how many rows of the joined table a key meets


def first_rows(rows, limit):
    """At most `limit` rows of each unit, the first ones."""
    seen = Counter()
    kept = []
    for row in rows:
        seen[row[0]] += 1
        if seen[row[0]] <= limit:
            kept.append(row)
    return kept


def row_count(scale, limit):
    """Number of rows, a unit with at most `limit` of them."""
    return lambda dataset, size: len(first_rows(rows_of(dataset), limit)) + laplace(scale, size)


def with_nulls(dataset, size):
    owned = first_rows(rows_of(dataset), 1)
    orphans = [row for row in dataset if isinstance(row, tuple) and len(row) == 3 and row[0] is None]
    return len(owned) + len(orphans) + laplace(1, size)


def joined_after(dataset, size):
    rows = first_rows(rows_of(dataset), 1)
    return sum(FAN.get(row[1], 1) for row in rows) + laplace(1, size)


def joined_before(dataset, size):
    rows = [row for row in rows_of(dataset) for _ in range(FAN.get(row[1], 1))]
    return len(first_rows(rows, 1)) + laplace(1, size)


def stale_truncation(dataset, size):
    """All rows are in one group when groups are limited to 1; then the group becomes the row's own key."""
    bounded([(unit, "all", value) for unit, _, value in rows_of(dataset)], 1)
    exact = Counter(group for _, group, _ in rows_of(dataset))
    return np.array([float(exact[key]) for key in KEYS]) + laplace(1, (size, len(KEYS)))


def fresh_truncation(dataset, size):
    exact = counts(bounded(rows_of(dataset), 1))
    return np.array([float(exact.get(key, 0)) for key in KEYS]) + laplace(1, (size, len(KEYS)))


SPECIMENS = [
    Specimen(
        name="noise of rows for people",
        source="folklore; the reverse of OpenDP 0.16's people with the noise of rows (run)",
        why="A person has three rows, and the noise hides one.",
        truth=3.0,
        broken=row_count(1, 3),
        twin=row_count(3, 3),
        pairs=((NOTHING, THREE),),
        data=ROWS,
    ),
    Specimen(
        name="declared group size halved",
        source="opendp #2945",
        why="A size of 4 rows for each person reaches the noise as 2: epsilon is understated twice.",
        truth=2.0,
        broken=row_count(2, 4),
        twin=row_count(4, 4),
        pairs=((NOTHING, FOUR),),
        data=ROWS,
    ),
    Specimen(
        name="NULL units escape bounding",
        source="folklore",
        why="Rows without a unit are not bounded, and all eight of a person's may be such.",
        truth=8.0,
        broken=with_nulls,
        twin=row_count(1, 1),
        pairs=((NOTHING, NOBODY),),
        data=ROWS,
    ),
    Specimen(
        name="join fan-out after bounding",
        source="Kotsogiannis et al. 2019 (PrivateSQL) on joins",
        why="Each person keeps one row, and then a join makes five of it.",
        truth=5.0,
        broken=joined_after,
        twin=joined_before,
        pairs=((NOTHING, THREE),),
        data=ROWS,
    ),
    Specimen(
        name="stale truncation",
        source="opendp #2949",
        why="Groups were limited before the column was redefined; the limit is believed of the new column.",
        truth=3.0,
        broken=stale_truncation,
        twin=fresh_truncation,
        pairs=((NOTHING, SPREAD),),
        data=ROWS,
    ),
]
