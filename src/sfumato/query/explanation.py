"""What a release does and costs, step by step, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.exact import round_up
from sfumato.measurements.selection import TruncatedGeometric
from sfumato.query.engine import Filter
from sfumato.transformations import Count, CountUnits, Moments, Norm, QuantileTree, Statistic, UnitSum

if TYPE_CHECKING:
    from sfumato.query.plan import Plan


@dataclass(frozen=True)
class Explanation:
    """Each step of a plan with its bounds, noise scale and share of the budget.

    `str()` gives text, `to_dict()` and `to_json()` the same as data. Nothing in it depends on rows.
    """

    plan: Plan

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data.

        Numbers that a recomputation needs are given exactly, as text of a fraction; all scales are
        in grid steps, next to the step.
        """
        plan, question = self.plan, self.plan.question
        return {
            "privacy_unit": question.table.unit,
            "engine": question.table.engine.name,
            "steps": [
                {"filter": s.expression} if isinstance(s, Filter) else {"derive": s.name, "as": s.expression}
                for s in question.table.steps
            ],
            "group_by": list(question.table.keys),
            "groups_are": self._groups_are(),
            "limits": {"groups_per_unit": question.groups, "rows_per_unit_and_group": question.rows},
            "selection": self._selection(),
            "noise": plan.noise.name,
            "statistics": [row for s in plan.requirements.statistics for row in self._statistic(s)],
            "outputs": {
                e.name: {
                    "kind": e.kind,
                    "from": list(e.coordinates),
                    "type": "int64" if e.integer else "float64",
                }
                for e in plan.requirements.estimates
            },
            "budget": {
                "epsilon": str(plan.epsilon),
                "delta": str(plan.delta),
                "noise_multiplier": str(plan.multiplier),
            },
            "notes": list(plan.notes),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict()` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def __str__(self) -> str:
        told = self.to_dict()
        lines = [
            f"Budget: epsilon {float(self.plan.epsilon):g}, delta {float(self.plan.delta):g}, for each "
            f"privacy unit ({told['privacy_unit']}) with all its rows.",
            f"1. Read with {told['engine']}; drop rows without {told['privacy_unit']}.",
        ]
        for step in told["steps"]:
            if "filter" in step:
                lines.append(f"{len(lines)}. Keep rows where {step['filter']}.")
            else:
                lines.append(f"{len(lines)}. Derive {step['derive']} = {step['as']}.")
        limits = told["limits"]
        keys = ", ".join(told["group_by"])
        if keys:
            lines.append(
                f"{len(lines)}. Group by {keys} ({told['groups_are']}); keep each unit in at most "
                f"{limits['groups_per_unit']} of its groups, at random."
            )
        rows = limits["rows_per_unit_and_group"]
        lines.append(f"{len(lines)}. Let each unit count as at most {rows} row{'s' * (rows > 1)} in a group.")
        lines.append(
            f"{len(lines)}. Add exactly rounded {told['noise'].capitalize()} noise, of standard deviation σ:"
        )
        for s in told["statistics"]:
            bounds = f", values in [{s['lower']:g}, {s['upper']:g}]" if "lower" in s else ""
            share = "free" if s["share"] == 0 else f"{s['share']:.1%} of the budget"
            lines.append(
                f"     {s['name']}: {s['what']}{bounds}; noise σ {s['noise_deviation']:.4g}; {share}"
            )
        if told["selection"]:
            lines.append(f"{len(lines) - len(told['statistics'])}. {told['selection']['text']}")
        lines += [f"Note: {note}" for note in told["notes"]]
        return "\n".join(lines)

    def _groups_are(self) -> str:
        question = self.plan.question
        if not question.table.keys:
            return "the whole table"
        if question.table.public_keys is None:
            return "chosen privately"
        return f"{question.table.public_keys.num_rows} public groups"

    def _selection(self) -> dict[str, Any] | None:
        rule = self.plan.selection
        if rule is None:
            return None
        half = rule.expected_threshold
        told: dict[str, Any] = {"kept_half_the_time_at_units": half, "pre_threshold": rule.pre_threshold}
        if isinstance(rule, TruncatedGeometric):
            told |= {
                "rule": "truncated_geometric",
                "epsilon_per_group": str(rule.epsilon),
                "delta_per_group": str(rule.delta),
                "share": round_up(rule.epsilon * self.plan.question.groups / self.plan.epsilon),
                "text": f"Show a group with the truncated geometric rule: half the time at {half} units.",
            }
        else:
            told |= {
                "rule": f"{self.plan.noise.name}_threshold",
                "threshold": half,
                "delta_per_group": str(rule.delta_per_group),  # type: ignore[attr-defined]
                "share": 0.0,
                "text": f"Show a group only if its noisy number of units is at least {half}.",
            }
        return told

    def _statistic(self, s: Statistic) -> list[dict[str, Any]]:
        plan, rows = self.plan, []
        for name, step, largest in zip(s.coordinates, s.steps, s.largest, strict=True):
            law = plan.laws[name]
            told: dict[str, Any] = {
                "name": name,
                "what": _what(s, name),
                "step": str(step),
                "largest_contribution": str(largest),
                "noise_scale": str(law.unit),
                "noise_deviation": float(law.standard_deviation) * float(step),
                "share": self._share(s, name),
            }
            if isinstance(s, (Moments, UnitSum, QuantileTree)) and not name.endswith(".absent"):
                told |= _bounds(s)
            if isinstance(s, QuantileTree):
                told["leaf_width"] = s.leaf_width
            rows.append(told)
        return rows

    def _share(self, s: Statistic, name: str) -> float:
        """Return a coordinate's part of the statistic's loss, over the release's loss of noise."""
        plan, norm = self.plan, self.plan.noise.norm
        if name.endswith(".absent"):
            return 0.0
        total = sum(
            (
                x.sensitivity(norm, [plan.scales[c] for c in x.coordinates])
                for x in plan.requirements.statistics
            ),
            Fraction(0),
        )
        own = s.sensitivity(norm, [plan.scales[c] for c in s.coordinates])
        shown = [c for c in s.coordinates if not c.endswith(".absent")]
        weights = {
            c: (largest / plan.scales[c]) ** (1 if norm is Norm.L1 else 2)
            for c, largest in zip(s.coordinates, s.largest, strict=True)
        }
        return round_up(own / total * weights[name] / sum((weights[c] for c in shown), Fraction(0)))


def _bounds(s: Moments | UnitSum | QuantileTree) -> dict[str, float]:
    if isinstance(s, QuantileTree):
        return {"lower": s.lower, "upper": s.upper}
    step = float(s.steps[0])
    low, high = (s.grid.lower, s.grid.upper) if isinstance(s, Moments) else (s.lower, s.upper)
    return {"lower": low * step, "upper": high * step}


def _what(s: Statistic, name: str) -> str:
    if isinstance(s, CountUnits):
        return "privacy units"
    if isinstance(s, Count):
        return "rows" if s.column is None else f"rows with a value of {s.column}"
    if isinstance(s, QuantileTree):
        return f"tree of counts of {s.column}, four levels, leaves {s.leaf_width:.4g} wide"
    if isinstance(s, UnitSum):
        return f"sum of {s.column}, bounded per unit and group"
    if isinstance(s, Moments):
        if name.endswith(".absent"):
            return f"rows without a value of {s.column}"
        kind = "squares" if name.endswith(".squares") else "values"
        return f"sum of {kind} of {s.column}{' about the middle' if s.centred else ''}, bounded per row"
    raise AssertionError(name)
