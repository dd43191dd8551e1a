"""Public groups of columns whose values are public knowledge."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa

from sfumato.errors import QueryError

MOST_GROUPS = 1_000_000  # that are public, and so all in the output


def size(domains: Sequence[Sequence[object]]) -> int:
    """Return how many groups some domains have together."""
    return math.prod(map(len, domains))


def check_size(columns: Sequence[str], domains: Sequence[Sequence[object]]) -> None:
    """Refuse domains that have too many groups together.

    Raises:
        QueryError: there are more than 1,000,000.
    """
    if size(domains) > MOST_GROUPS:
        sizes = " times ".join(f"{len(domain):,}" for domain in domains)
        raise QueryError(
            f"group_by: the domains of {', '.join(columns)} have {sizes} = {size(domains):,} groups, "
            f"but all are in the output, and at most {MOST_GROUPS:,} can be. Let groups be chosen privately, "
            "group_by(..., keys='private'), in SQL OPTIONS (group_selection = auto), or take fewer columns"
        )


def product(columns: Sequence[str], domains: Sequence[Sequence[Hashable]]) -> pa.Table:
    """Return each combination of some columns' values.

    >>> product(["year", "city"], [(1, 2), ("Ulm", "Bonn")]).to_pylist()[1]
    {'year': 1, 'city': 'Bonn'}
    """
    check_size(columns, domains)
    places, repeated = np.arange(size(domains)), size(domains)
    table = {}
    for column, domain in zip(columns, domains, strict=True):
        repeated //= len(domain)
        table[column] = pa.array(list(domain)).take(pa.array(places // repeated % len(domain)))
    return pa.table(table)
