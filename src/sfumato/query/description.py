"""What a release will draw, as plain data, from the objects that draw: what the certificate is about."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa

from sfumato.query.exact import BroughtKeys, ExactQuery
from sfumato.query.noisy.noising import Noising
from sfumato.query.plans.plan import Plan
from sfumato.query.top.plan import TopPlan
from sfumato.transformations import Statistic

VERSION = 1


def description(unit: str, *parts: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a release, as docs/certificate.md defines it.

    Args:
        unit: the privacy unit, for readers.
        parts: what is drawn, in order.
    """
    epsilon, delta = (sum(Fraction(part[name]) for part in parts) for name in ("epsilon", "delta"))
    claim = _claim(Fraction(epsilon), Fraction(delta))
    return {"version": VERSION, "unit": unit, "neighbours": "one_unit", **claim, "parts": list(parts)}


def _claim(epsilon: Fraction, delta: Fraction) -> dict[str, str]:
    return {"epsilon": str(epsilon), "delta": str(delta)}


def of_groups(plan: Plan) -> dict[str, Any]:
    """Return what a release of noisy statistics draws."""
    noising, exact = plan.noising, plan.exact
    return {
        "kind": "groups",
        **_claim(plan.epsilon, plan.delta),
        "groups": _limits(exact),
        "statistics": [s.description for s in noising.requirements.statistics],
        "choices": [choice.description for choice in noising.choices],
        "noise": _noise(noising),
        "selection": None if noising.selection is None else noising.selection.description,
    }


def _limits(exact: ExactQuery) -> dict[str, Any]:
    keys = exact.public_keys
    known, shown = "public", None
    if isinstance(keys, BroughtKeys):
        known = "brought"
    elif not exact.keys:
        shown = 1
    elif isinstance(keys, pa.Table):
        shown = keys.num_rows
    else:
        known = "private"
    return {
        "keys": known,
        "shown": shown,
        "per_unit": exact.groups,
        "beyond": "scale" if exact.scaled else "sample",
        "total_rows": exact.total_rows,
    }


def _noise(noising: Noising) -> dict[str, Any] | None:
    names = [name for s in noising.requirements.statistics for name in s.names]
    if not names:
        return None
    if noising.together is not None:
        return noising.together.description(names)
    laws = {name: noising.law(name) for name in names}
    kinds = {type(law).__name__.lower() for law in laws.values()}
    scales = {name: str(law.unit) for name, law in laws.items()}
    return {"shape": "independent", "law": " and ".join(sorted(kinds)), "scales": scales}


def of_largest_groups(plan: TopPlan, statistic: Statistic) -> dict[str, Any]:
    """Return what a release of the largest groups draws.

    Args:
        plan: of the release.
        statistic: by which groups are compared.
    """
    law, ends = plan.law, statistic.description
    return {
        "kind": "largest_groups",
        **_claim(plan.epsilon, plan.delta),
        "keys": "public" if plan.candidates is None else "private",
        "lower": ends.get("lower", "0"),
        "upper": ends.get("upper", "1"),
        "rate": str(plan.step_rate),
        "picks": plan.k,
        "candidates": plan.candidates,
        "margin": plan.margin,
        "noise": None if law is None else {"law": type(law).__name__.lower(), "scale": str(law.unit)},
    }
