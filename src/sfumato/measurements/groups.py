"""Private selection of groups, as a measurement of who is in which group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.budget.loss import Loss
from sfumato.budget.measure import PrivacyLoss
from sfumato.errors import ParameterError
from sfumato.exact import positive_int
from sfumato.framework import ContributionDomain, Measurement, PrivacyUnitDistance
from sfumato.framework.record_keys import group_key, ordered_bytes
from sfumato.measurements.selection import GroupSelection
from sfumato.names.helpful import helpful


@helpful
def select_groups(rule: GroupSelection, groups: int) -> Measurement:
    """Select the groups that may be shown, by their noisy numbers of units.

    Args:
        rule: `TruncatedGeometric`, `LaplaceThreshold` or `GaussianThreshold`.
        groups: the most groups that a unit is in, at least 1: what `bound_groups` enforced.
    Returns:
        A Measurement from contributions to a dict: the keys that may be shown, in an order of their
        own and by names that are functions of their values (1 for True and 1.0, one NaN), each with its
        noisy number of units (None where the rule makes none). Its map takes one
        unit added or removed, and gives the rule's `loss(groups)`.
    Raises:
        ParameterError: rule is none of the three, or groups is not a whole number of at least 1; from
            `map`, for d_in above 1.

    >>> from sfumato.measurements import LaplaceThreshold
    >>> from sfumato.noise import Laplace
    >>> from sfumato.transformations import Row, bound_groups
    >>> chosen = bound_groups(2) >> select_groups(LaplaceThreshold(Laplace(1), "1e-20"), groups=2)
    >>> rows = [Row(unit, "often", {}) for unit in range(1000)] + [Row(1, "once", {})]
    >>> list(chosen(rows)), float(chosen.map(1).epsilon("2e-20"))
    (['often'], 2.0)

    Source:
        that of the rule. Proof: docs/proofs/select_groups.md.
    """
    if not isinstance(rule, GroupSelection):
        raise ParameterError("rule", rule, "a TruncatedGeometric, LaplaceThreshold or GaussianThreshold")
    groups = positive_int(groups, "groups")
    loss = rule.loss(groups)

    def function(contributions: Mapping[Hashable, Sequence[Any]]) -> dict[Hashable, int | None]:
        # Sorted, because the order of a table's groups tells of its rows.
        units: Counter[Hashable] = Counter()
        for key, lists in contributions.items():
            units[group_key(key)] += len(lists)
        keys = sorted(units, key=ordered_bytes)
        keep, noisy = rule.select([units[key] for key in keys])
        counts = [None] * len(keys) if noisy is None else noisy.tolist()
        return {key: count for key, count, kept in zip(keys, counts, keep, strict=True) if kept}

    def privacy_map(d_in: Fraction) -> Loss:
        if d_in > 1:
            raise ParameterError("d_in", d_in, "at most 1: the loss of a selection is stated for one unit")
        return loss if d_in == 1 else Loss()

    return Measurement(
        f"select_groups({type(rule).__name__})",
        ContributionDomain(groups),
        PrivacyUnitDistance(groups),
        PrivacyLoss(),
        function,
        privacy_map,
    )
