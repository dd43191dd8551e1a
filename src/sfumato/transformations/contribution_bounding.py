"""Contribution bounding: limits on a unit's groups, on its rows in each group, and on its rows in all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

from sfumato.exact import positive_int
from sfumato.framework import (
    WHOLE,
    ContributionDomain,
    Linear,
    Part,
    PrivacyUnitDistance,
    Row,
    RowsDomain,
    Transformation,
)
from sfumato.framework.record_keys import digest, group_key, ordered_bytes, record_key
from sfumato.names.suggestions import suggest_arguments

Values = Mapping[str, Any]


ROWS = RowsDomain()
Contributions = dict[Hashable, list[list[Values]]]
Parts = dict[Hashable, list[Part]]


@suggest_arguments
def bound_groups(
    groups: int,
    order: Callable[[Hashable, Hashable], Any] = lambda unit, key: digest((unit, key)),
    domain: RowsDomain = ROWS,
) -> Transformation:
    """Bound contributions: keep each unit in at most `groups` groups, and drop rows without a unit.

    Args:
        groups: the limit, at least 1.
        order: a function from (unit, key) to a sortable value. Each unit keeps the keys with the smallest
            values; ties keep the smaller keys. An engine passes an order with a fresh salt for each release.
            The stability holds for every order, because only a unit's own rows decide about it.
        domain: the rows, with the columns that this needs.
    Returns:
        A Transformation from rows to one list of values for each unit in each group. Its map is the identity:
        a unit added or removed is one unit added or removed, in at most `groups` groups.
    Raises:
        ParameterError: groups is not a whole number of at least 1.

    >>> rows = [Row(1, "a", {}), Row(1, "b", {}), Row(None, "a", {}), Row(2, "b", {})]
    >>> bound_groups(1, order=lambda unit, key: key)(rows)
    {'a': [[{}]], 'b': [[{}]]}

    Source:
        Wilson et al. 2020, "Differentially private SQL with bounded user contribution". Proof:
        docs/proofs/bound_groups.md.
    """
    groups = positive_int(groups, "groups")

    def function(rows: Sequence[Row]) -> Contributions:
        kept: Contributions = {}
        for unit, by_key in _group_rows(rows):
            for key in _first_keys(unit, by_key, groups, order):
                kept.setdefault(key, []).append(by_key[key])
        return kept

    return Transformation(
        f"bound_groups({groups})",
        domain,
        ContributionDomain(groups),
        PrivacyUnitDistance(),
        PrivacyUnitDistance(groups),
        function,
        Linear(Fraction(1)),
    )


@suggest_arguments
def scale_groups(groups: int, keys: Iterable[Hashable], domain: RowsDomain = ROWS) -> Transformation:
    """Bound contributions by scaling: a unit in more than `groups` groups contributes a fraction to each.

    Rows without a unit are dropped.

    A unit in j of the groups contributes `groups`/j of its contribution to each, where `bound_groups` keeps a
    random choice of groups. The scaled contribution is the mean over all choices, without the noise of a
    single one.

    Args:
        groups: the limit, at least 1.
        keys: the groups, which are public. Rows of other groups are dropped.
        domain: the rows, with the columns that this needs.
    Returns:
        A Transformation from rows to a `Part` for each unit in each group. Its map is the identity: a unit
        added or removed is one unit added or removed, with fractions that sum to at most `groups`.
    Raises:
        ParameterError: groups is not a whole number of at least 1.

    >>> from sfumato.framework import WHOLE
    >>> rows = [Row(1, "a", {}), Row(1, "b", {}), Row(2, "b", {}), Row(2, "c", {})]
    >>> scaled = scale_groups(1, keys=["a", "b"])(rows)
    >>> {key: [part.weight / WHOLE for part in parts] for key, parts in scaled.items()}
    {'a': [0.5], 'b': [0.5, 1.0]}

    Source:
        Jensen's inequality: the error of a mean over choices is at most the mean error. Proof:
        docs/proofs/scale_groups.md.
    """
    groups, shown = positive_int(groups, "groups"), frozenset(map(group_key, keys))

    def function(rows: Sequence[Row]) -> Parts:
        kept: Parts = {}
        for _, by_key in _group_rows(row for row in rows if group_key(row.key) in shown):
            weight = min(WHOLE, WHOLE * groups // len(by_key))
            for key, values in by_key.items():
                kept.setdefault(key, []).append(Part(values, weight))
        return kept

    return Transformation(
        f"scale_groups({groups})",
        domain,
        ContributionDomain(groups, scaled=True),
        PrivacyUnitDistance(),
        PrivacyUnitDistance(groups, scaled=True),
        function,
        Linear(Fraction(1)),
    )


@suggest_arguments
def share_groups(
    groups: int,
    order: Callable[[Hashable, Hashable], Any] = lambda unit, key: digest((unit, key)),
    domain: RowsDomain = ROWS,
) -> Transformation:
    """Bound contributions by sharing: a unit in t groups contributes 1/sqrt(t) to each, so 1 in the L2 norm.

    Rows without a unit are dropped.

    Args:
        groups: the most groups of a unit that count, at least 1.
        order: the order that selects these groups, as for `bound_groups`.
        domain: the rows, with the columns that this needs.
    Returns:
        A Transformation from rows to a `Part` for each unit in each group. Its map is the identity: a unit
        added or removed is one unit added or removed, with fractions whose squares sum to at most 1.
    Raises:
        ParameterError: groups is not a whole number of at least 1.

    >>> from sfumato.framework import WHOLE
    >>> rows = [Row(1, "a", {}), Row(1, "b", {}), Row(2, "b", {})]
    >>> {key: [round(p.weight / WHOLE, 2) for p in parts] for key, parts in share_groups(9)(rows).items()}
    {'a': [0.71], 'b': [0.71, 1.0]}

    Source:
        Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin 2020, "Differentially private set union". Proof:
        docs/proofs/share_groups.md.
    """
    groups = positive_int(groups, "groups")

    def function(rows: Sequence[Row]) -> Parts:
        kept: Parts = {}
        for unit, by_key in _group_rows(rows):
            keys = _first_keys(unit, by_key, groups, order)
            weight = isqrt(WHOLE**2 // len(keys))
            for key in keys:
                kept.setdefault(key, []).append(Part(by_key[key], weight))
        return kept

    return Transformation(
        f"share_groups({groups})",
        domain,
        ContributionDomain(groups, shared=True),
        PrivacyUnitDistance(),
        PrivacyUnitDistance(groups, shared=True),
        function,
        Linear(Fraction(1)),
    )


@suggest_arguments
def bound_total_rows(
    rows: int,
    keys: Iterable[Hashable] | None = None,
    order: Callable[[Hashable, Hashable, Values, int], Any] = lambda *row: digest(row),
    domain: RowsDomain = ROWS,
) -> Transformation:
    """Bound contributions: keep at most `rows` rows of each unit over all groups together.

    Rows without a unit are dropped.

    Args:
        rows: the limit, at least 1.
        keys: the groups, if they are public: rows of other groups are dropped before rows are chosen. Without
            keys, any group is possible.
        order: a function from (unit, key, values, i) to a sortable value, where i = 0, 1, ... distinguishes
            rows of a unit that are otherwise equal. The rows with the smallest values are kept; ties keep the
            smaller rows. If the value is random for each row, all rows of a unit are equally likely to be
            kept.
        domain: the rows, with the columns that this needs.
    Returns:
        A Transformation from rows to one list of values for each unit in each group. Its map is the identity:
        a unit added or removed is one unit added or removed, with at most `rows` rows and therefore in at
        most that many groups.
    Raises:
        ParameterError: rows is not a whole number of at least 1.

    >>> rows = [Row(1, "a", {"x": 5}), Row(1, "a", {"x": 3}), Row(1, "b", {"x": 4}), Row(2, "b", {"x": 7})]
    >>> bound_total_rows(2, order=lambda unit, key, values, i: values["x"])(rows)
    {'a': [[{'x': 3}]], 'b': [[{'x': 4}], [{'x': 7}]]}

    Source:
        As for `bound_groups`; ZetaSQL's max_rows_contributed. Proof: docs/proofs/bound_total_rows.md.
    """
    rows = positive_int(rows, "rows")
    shown = None if keys is None else frozenset(map(group_key, keys))
    groups = rows if shown is None else max(1, min(rows, len(shown)))

    def function(table: Sequence[Row]) -> Contributions:
        kept: Contributions = {}
        for unit, by_key in _group_rows(row for row in table if shown is None or group_key(row.key) in shown):
            chosen = [(key, values) for key, of_group in by_key.items() for values in of_group]
            if len(chosen) > rows:
                copies: Counter[bytes] = Counter()
                placed = []
                for key, values in chosen:
                    same = ordered_bytes((key, values))
                    # No two rows are equal in all three, so that the order of the rows decides nothing.
                    placed.append((order(unit, key, values, copies[same]), same, copies[same], key, values))
                    copies[same] += 1
                chosen = [(key, values) for *_, key, values in sorted(placed, key=lambda p: p[:3])[:rows]]
            own: dict[Hashable, list[Values]] = {}
            for key, values in chosen:
                own.setdefault(key, []).append(values)
            for key, of_group in own.items():
                kept.setdefault(key, []).append(of_group)
        return kept

    return Transformation(
        f"bound_total_rows({rows})",
        domain,
        ContributionDomain(groups, total=rows),
        PrivacyUnitDistance(),
        PrivacyUnitDistance(groups, total=rows),
        function,
        Linear(Fraction(1)),
    )


def _first_keys(
    unit: Hashable,
    by_key: Mapping[Hashable, list[Values]],
    groups: int,
    order: Callable[[Hashable, Hashable], Any],
) -> list[Hashable]:
    """Return the keys of a unit's groups that are kept when contributions are bounded."""
    if len(by_key) <= groups:
        return list(by_key)
    # No two keys are equal in the second part, so that the order of the rows decides nothing.
    return sorted(by_key, key=lambda key: (order(unit, key), ordered_bytes(key)))[:groups]


def _group_rows(rows: Iterable[Row]) -> Iterator[tuple[Hashable, dict[Hashable, list[Values]]]]:
    """Yield each unit with its rows by group, before contributions are bounded."""
    units: dict[Hashable, Hashable] = {}
    by_unit: dict[Hashable, dict[Hashable, list[Values]]] = defaultdict(dict)
    for row in rows:
        if row.unit is not None:
            same = record_key(row.unit)
            units.setdefault(same, row.unit)
            by_unit[same].setdefault(group_key(row.key), []).append(row.values)
    for same, by_key in by_unit.items():
        yield units[same], by_key


@suggest_arguments
def bound_rows(rows: int, groups: int, order: Callable[[Values], Any] = ordered_bytes) -> Transformation:
    """Bound contributions: keep at most `rows` rows of each unit in each group.

    The engine's statistics scale a unit's rows down instead, which loses less. Use this for functions of
    whole rows.

    Args:
        rows: the limit, at least 1.
        groups: the limit that `bound_groups` enforced.
        order: a function from a row's values to a sortable value. The rows with the smallest values are kept;
            ties keep the smaller rows. It may have a fresh salt for each release, but must not depend on rows
            of other units.
    Returns:
        A Transformation from contributions to contributions with the limit. Its map is the identity.
    Raises:
        ParameterError: a limit is not a whole number of at least 1.

    >>> both = bound_groups(2) >> bound_rows(1, groups=2)
    >>> both([Row(1, "a", {"x": 5}), Row(1, "a", {"x": 3})])
    {'a': [[{'x': 3}]]}

    Source:
        As for `bound_groups`. Proof: docs/proofs/bound_rows.md.
    """
    rows, groups = positive_int(rows, "rows"), positive_int(groups, "groups")

    def place(values: Values) -> tuple[Any, bytes]:
        return order(values), ordered_bytes(values)

    def function(contributions: Contributions) -> Contributions:
        return {
            key: [sorted(unit, key=place)[:rows] for unit in units] for key, units in contributions.items()
        }

    return Transformation(
        f"bound_rows({rows})",
        ContributionDomain(groups),
        ContributionDomain(groups, rows),
        PrivacyUnitDistance(groups),
        PrivacyUnitDistance(groups, rows),
        function,
        Linear(Fraction(1)),
    )
