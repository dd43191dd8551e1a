"""The explanation of a plan: each step with its noise and cost, as data, sentences, text and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sfumato.budget.epsilon_delta import ExactCost
from sfumato.budget.epsilon_meaning import EpsilonMeaning, explain_epsilon
from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Part, Rows, Sentences, Steps, TextCard
from sfumato.display.formatting import price
from sfumato.exact import round_up
from sfumato.framework import Body, Norm
from sfumato.measurements.group_selection import GroupSelection, SharedThreshold, TruncatedGeometric
from sfumato.measurements.independent_noise import IndependentNoise, Law
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.query.engine_protocol import BroughtKeys
from sfumato.query.inferred_parameters import sentence
from sfumato.query.option_names import noise_title
from sfumato.query.schema import FLOATS, Derive, Filter, Schema, format_name
from sfumato.transformations import Coordinate, Role, Statistic, cone_of

if TYPE_CHECKING:
    from sfumato.plan.plan import Plan
    from sfumato.plan.quantile_candidates import Choice
    from sfumato.query.query import Query


@dataclass(frozen=True, repr=False)
class Explanation(TextCard):
    """The explanation of a plan: each step with its bounds, noise scale and share of the budget.

    Returned by `explain()` of a plan or a release.

    `str()` gives text; `to_dict()` and `to_json()` give the same as data; `steps` and `numbers` give its
    parts, for other displays. It does not depend on rows, except for bounds that noisy queries inferred.

    Args:
        content: the explanation as plain data.
    """

    content: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data.

        Numbers for a recomputation are exact, as the text of a fraction. Scales are in grid steps, and the
        step stands next to them.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=2).agg(n=sf.count())
        >>> explanation = visits.plan(epsilon=1).explain()
        >>> [(one["what"], one["noise_scale"], one["step"]) for one in explanation.to_dict()["statistics"]]
        [('rows', '2', '1')]
        """
        return self.content

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict()` as JSON text.

        Args:
            indent: spaces for each level; None for one line.
        Returns:
            JSON text.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=2).agg(n=sf.count())
        >>> explanation = visits.plan(epsilon=1).explain()
        >>> print(explanation.to_json(indent=None))
        {"privacy_unit": "id", "engine": "DuckDB", "steps": [], "group_by": [], ...
        """
        return json.dumps(self.content, indent=indent, ensure_ascii=False)

    @property
    def releases(self) -> tuple[Explanation, ...]:
        """The explanation of each release if there are several, otherwise this one."""
        return tuple(map(Explanation, self.content["releases"])) if "releases" in self.content else (self,)

    @property
    def total_cost(self) -> list[str]:
        """Sentences on the total cost of several releases and on what is computed from them."""
        if "releases" not in self.content:
            return []
        spent = [tuple(f"{float(part):g}" for part in one.spent) for one in self.releases]
        epsilon, delta = (_shown(self.content["budget"][name]) for name in _BUDGET)
        epsilons, deltas = (" + ".join(parts) for parts in zip(*spent, strict=True))
        computed = f"Compute with the noisy tables alone, at no charge: {self.content['computed']}"
        return [
            f"Together the {len(spent)} releases cost at most epsilon {epsilons} = {epsilon} and delta "
            f"{deltas} = {delta}, by basic composition.",
            computed,
        ]

    @property
    def meaning(self) -> EpsilonMeaning:
        """What the budget means for one person, in words and numbers."""
        return explain_epsilon(*self.spent)

    @property
    def spent(self) -> ExactCost:
        """The total (epsilon, delta), including preliminary queries and diagnostics."""
        epsilon, delta = (Fraction(self.content["budget"][name]) for name in _BUDGET)
        beside = self.content.get("diagnostics")
        looks = sum((Fraction(one["epsilon"]) for one in self.content.get("found", ())), Fraction(0))
        return ExactCost(epsilon + looks + (Fraction(beside["epsilon"]) if beside else 0), delta)

    @property
    def steps(self) -> tuple[list[str], list[str]]:
        """The sentences of the explanation: the steps up to the noise of one release, and those after it."""
        content = self.content
        if "told" in content:  # the largest groups
            return content["told"], self._computed
        unit, selection = content["privacy_unit"], content["selection"]
        before = [f"Read with {content['engine']}; drop rows without {unit}, the privacy unit."]
        before += [
            f"Keep rows where {s['filter']}." if "filter" in s else f"Compute {s['derive']} = {s['as']}."
            for s in content["steps"]
        ]
        before += self._bounding
        before += [
            f"Run preliminary queries, with noise, for the {sentence(found)}."
            for found in content.get("found", ())
        ]
        weights = ", ".join(f"{name} {float(Fraction(w)):g}" for name, w in content["weights"].items())
        epsilon, delta = (float(Fraction(content["budget"][name])) for name in ("epsilon", "delta"))
        before.append(
            f"Add {content['drawn']} noise to these "
            f"numbers{' of each group' if content['group_by'] else ''}. "
            f"{'Together with group selection' if selection else 'Together'} they cost at most "
            f"epsilon {epsilon:g} and delta "
            f"{delta:g}{f'; weights: {weights}' if weights else ''}:"
        )
        if content["found"]:
            before[-1] = before[-1].replace(" they cost", " they cost, besides the preliminary queries,")
        after = [selection["text"]] if selection else []
        if content["outputs"]:
            after.append("Compute the outputs from the noisy numbers alone, at no further charge.")
        if beside := content.get("diagnostics"):
            own, total = float(Fraction(beside["epsilon"])), float(self.spent[0])
            after.append(
                f"Estimate the bias of {', '.join(beside['of'])} from noisy shares of the same "
                f"rows, at epsilon {own:g}; all together cost {total:g}."
            )
        return before, after + self._computed

    @property
    def _computed(self) -> list[str]:
        """The step of the explanation on SQL that is computed with the release, if any."""
        if "computed" not in self.content:
            return []
        return [f"Compute with the noisy table alone, at no charge: {self.content['computed']}"]

    @property
    def _bounding(self) -> list[str]:
        """The steps of the explanation on contribution bounding."""
        content, unit, limits = self.content, self.content["privacy_unit"], self.content["limits"]
        found = []
        if content["group_by"]:
            found.append(f"Group by {', '.join(content['group_by'])} ({content['groups_are']}).")
        if (total := limits.get("rows_per_unit")) is not None:
            groups = " over all groups" if content["group_by"] else ""
            found.append(
                f"Let each {unit} count with at most {_many(total, 'row')}{groups}, chosen at "
                "random; other rows are left "
                f"out.{' Clamp values to their bounds.' if self._clamps else ''}"
            )
            return found
        if content["group_by"]:
            most = limits["groups_per_unit"]
            beyond = ", chosen at random."
            if limits["beyond"] == "scale":
                beyond = f"; one in j > {most} groups contributes the fraction {most}/j to each."
            if limits["beyond"] == "share":
                found[-1] += (
                    f" Let each {unit} add 1/sqrt(t) to each of its t groups: to at most {most:,}{beyond}"
                )
                return found
            found[-1] += f" Let each {unit} count in at most {_many(most, 'group')}{beyond}"
        within = " in each of them" if content["group_by"] else " in all"
        if not limits["by_rows"]:
            whole = ", and ".join(limits["of_a_unit"])
            found.append(f"Let each {unit} count{within if content['group_by'] else ''} {whole}.")
            return found
        found.append(
            f"Let each {unit} count as at most {_many(limits['rows_per_unit_and_group'], 'row')}{within}"
            f"{'; clamp values to their bounds' if self._clamps else ''}."
        )
        return found

    @property
    def _clamps(self) -> bool:
        """Whether the explanation must mention that values are clamped."""
        return any("lower" in s for s in self.content["statistics"])

    @property
    def numbers(self) -> list[tuple[str, str, str, str, str]]:
        """The noisy statistics: what each is, with bounds, noise, budget share and use.

        Similar numbers, such as those of bins, share one entry.
        """
        content, found = self.content, []
        if "told" in content:
            return []
        threshold = content["selection"] is not None and content["selection"]["rule"].endswith("_threshold")
        for alike in _alike(content["statistics"]):
            s, names = alike[0], {s["name"] for s in alike}
            what = s["each_of"]["what"] if len(alike) > 1 else s["what"]
            bounds = f"{s['lower']:g} to {s['upper']:g}" if "lower" in s else ""
            total = min(sum(s["share"] for s in alike), 1.0)
            share = "free" if total == 0 else f"{total:.1%}"
            outputs = {n: o for n, o in content["outputs"].items() if not names.isdisjoint(o["from"])}
            used = (
                list(outputs)
                if len(alike) == 1
                else list(dict.fromkeys(o["asked"] for o in outputs.values()))
            )
            if s["name"] == "units" and threshold:
                used.append("group selection")
            found.append((what, bounds, f"{s['noise_deviation']:,.4g}", share, ", ".join(used)))
        return found

    def _card(self) -> Card:
        title = f"How the answer is made, for {price(*self.spent)}"
        if not self.total_cost:
            return Card(title, self._parts)
        parts: list[Part | None] = []
        for i, one in enumerate(self.releases, 1):
            parts += [Sentences([f"Release {i} of {len(self.releases)}"]), *one._parts]
        return Card(title, [*parts, Sentences(self.total_cost)])

    @property
    def _parts(self) -> list[Part | None]:
        """The explanation of one release as parts of a card: steps, a table of noisy numbers, and notes."""
        before, after = self.steps
        names = ["number", "bounds", "noise (σ)", "budget", "used for"]
        notes = [f"Note: {note}" for note in [*self.content.get("notes", ()), *self.left_out]]
        return [
            Steps(before),
            Rows(names, [[*row] for row in self.numbers], left=5) if self.numbers else None,
            Steps(after, len(before) + 1),
            Sentences(notes) if notes else None,
        ]

    def __str__(self) -> str:
        if "releases" in self.content:
            many = len(self.releases)
            texts = [f"Release {i} of {many}:\n{one}" for i, one in enumerate(self.releases, 1)]
            return "\n".join([*texts, *self.total_cost])
        before, after = self.steps
        lines = [f"{i}. {step}" for i, step in enumerate(before, 1)]
        for what, bounds, deviation, share, used in self.numbers:
            price = share if share == "free" else f"{share} of the budget"
            within = f", values in {bounds}" if bounds else ""
            lines.append(f"     {what}{within}; noise σ {deviation}; {price}; for {used}")
        lines += [f"{i}. {step}" for i, step in enumerate(after, len(before) + 1)]
        return "\n".join([*lines, *(f"Note: {note}" for note in [*self.content["notes"], *self.left_out])])

    @property
    def left_out(self) -> list[str]:
        """The sentence on the bias that error bars do not include."""
        bias = self.content.get("bias")
        return [bias] if bias else []


def _alike(statistics: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Group the statistics that an explanation shows in one line, as those of histogram bins."""
    keys = (
        (s["each_of"], s["noise_deviation"]) if "each_of" in s else index
        for index, s in enumerate(statistics)
    )
    pairs = groupby(zip(keys, statistics, strict=True), key=lambda pair: pair[0])
    return [[s for _, s in alike] for _, alike in pairs]


_BUDGET = "epsilon", "delta"


def _shown(number: str) -> str:
    return f"{float(Fraction(number)):g}"


def plan_content(plan: Plan) -> dict[str, Any]:
    """Return the explanation of a plan as plain data."""
    query, content, numbers = plan.query, plan._content, _numbers_content(plan)
    selection = content["selection"]
    if plan.selection is not None:
        selection = selection | _selection_content(plan.selection, query.groups, plan.epsilon)
    asked = {output: name for name, a in query.aggregates for output in a.outputs(name)}
    drawn = plan.measurement.noise
    own = drawn.laws[0] if isinstance(drawn, IndependentNoise) else None
    return {
        **_question_content(query, plan.statistics, plan.exact.description),
        **content,
        "drawn": own.title if own and own.discrete else f"exactly rounded {noise_title(content['noise'])}",
        "selection": selection,
        "statistics": numbers,
        "outputs": {
            e.name: {
                "kind": e.kind,
                "asked": asked[e.name],
                "from": list(e.coordinates),
                "type": "int64" if e.integer else "float64",
            }
            | ({"rank": e.rank} if e.kind == "quantile" else {})
            | ({"entries": e.entries} if e.entries else {})
            for e in plan.requirements.estimates
        },
        "budget": content["budget"] | {"noise_multiplier": str(plan.multiplier)},
        "notes": [*_notes(plan), *_missing_note(plan, numbers)],
        "bias": plan.bias.describe(),
    }


def _notes(plan: Plan) -> list[str]:
    """Return the notes of an explanation: cautions, notes of the source, and other noises in comparison."""
    query = plan.query
    found = [
        *query.notes,
        *query.groups_notes,
        *cautions(query.schema, query.keys, plan.epsilon, plan.delta),
        *(s.note for s in plan.requirements.statistics if s.note is not None),
        *(note for name, a in query.aggregates if (note := a.note(name)) is not None),
    ]
    if plan.others:
        compared = " and ".join(
            f"{_times(share)} those with {noise_title(name)} noise" for name, share in plan.others
        )
        found.append(
            f"With {noise_title(plan.noise.name)} noise the errors of the outputs are about {compared}."
        )
    return [*found, *plan.noise_notes]


def _missing_note(plan: Plan, numbers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the note on what counting rows without a value costs, and what to write where there are none."""
    shares = {one["name"]: one["share"] for one in numbers}
    cost = {
        str(vars(s)["column"]): shares[c.name]
        for s in plan.requirements.statistics
        for c in s.coordinates
        if c.role is Role.NULL_COUNT
    }
    derived = {s.name: s.expression for s in plan.query.steps if isinstance(s, Derive)}
    floats = {column for column in cost if plan.query.schema[column].type_name in FLOATS}
    kept = [
        f"NOT isnan({format_name(column)})" if column in floats else f"{format_name(column)} IS NOT NULL"
        for column in cost
        if column not in derived
    ]
    remedies = [f"keep rows where {' AND '.join(kept)}"] if kept else []
    remedies += [
        f"write coalesce({derived[column]}, 0)" for column in cost if column in derived.keys() - floats
    ]
    taken = f"takes {min(sum(cost.values()), 1):.1%} of the budget" if any(cost.values()) else "adds noise"
    named = ", ".join(derived.get(column, format_name(column)) for column in cost)
    avoided = f" If no value is missing, {' and '.join(remedies)}." if remedies else ""
    return [f"Rows without a value of {named} are counted, which {taken}.{avoided}"] if cost else []


def _times(share: float) -> str:
    told = f"{share:.2g}"
    return "as large as" if told == "1" else f"{told} times"


def _numbers_content(plan: Plan) -> list[dict[str, Any]]:
    needed, measurement = plan.requirements, plan.measurement
    noise, laws = measurement.noise, measurement.laws
    if isinstance(noise, JointNoise | SeparateNoise):
        part = measurement.choice_epsilon / plan.epsilon
        bounds = cone_of(needed.statistics).linf_sensitivities
        numbers = _joint_numbers_content(needed.statistics, bounds, laws, 1 - part)
        choices = measurement.choices
        return [*(_choice_content(c, part / len(choices)) for c in choices), *numbers]
    bodies = [needed.get_body(s) for s in needed.statistics]
    numbers = _each_content(needed.statistics, bodies, plan.noise.norm, laws)
    if isinstance(noise, CentredGaussian):
        for content, own, weight in zip(numbers, noise.scales, noise.weights, strict=True):
            content["noise_scale"] = str(own)
            content["noise_scale_in_common"] = str(weight * noise.shared)
    return numbers


def _question_content(
    query: Query, statistics: Sequence[Statistic], bounding: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the part of an explanation that says what the query is, as plain data."""
    groups = "the whole table"
    if query.private_groups:
        groups = "chosen privately"
    elif isinstance(query.public_keys, BroughtKeys):
        groups = f"public groups of the collection {query.public_keys.collection!r}"
    elif query.public_keys is not None:
        groups = f"{query.public_keys.num_rows} public groups"
    return {
        "privacy_unit": query.unit,
        "engine": query.engine,
        "steps": [
            {"filter": s.expression} if isinstance(s, Filter) else {"derive": s.name, "as": s.expression}
            for s in query.steps
        ],
        "group_by": list(query.keys),
        "groups_are": groups,
        "limits": {
            "groups_per_unit": bounding["per_unit"],
            "rows_per_unit_and_group": query.rows,
            "beyond": bounding["beyond"],
            "by_rows": any(s.by_rows for s in statistics),
            "of_a_unit": list(dict.fromkeys(s.per_unit for s in statistics if not s.by_rows)),
        }
        | ({} if bounding["total_rows"] is None else {"rows_per_unit": bounding["total_rows"]}),
    }


def _selection_content(rule: GroupSelection, groups: int, epsilon: Fraction) -> dict[str, Any]:
    """Return the part of an explanation on private group selection, as plain data."""
    half = rule.expected_threshold
    content: dict[str, Any] = {"kept_half_the_time_at_units": half}
    if isinstance(rule, TruncatedGeometric):
        return content | {
            "epsilon_per_group": str(rule.epsilon),
            "delta_per_group": str(rule.delta),
            "share": round_up(rule.epsilon * groups / epsilon),
            "text": f"Show a group by the truncated geometric rule, with an even chance at {half} units.",
        }
    text = f"Show a group only if its noisy number of units is at least {half}."
    if isinstance(rule, SharedThreshold):
        text = f"Show the key of a group only if its noisy sum is at least {rule.tau / rule.one:.6g}."
    delta = str(rule.delta_per_group)  # type: ignore[attr-defined]
    return content | {"threshold": half, "delta_per_group": delta, "share": 0.0, "text": text}


def _each_content(
    statistics: tuple[Statistic, ...], bodies: Sequence[Body], norm: Norm, laws: Mapping[str, Law]
) -> list[dict[str, Any]]:
    """Explain independent noise: each noisy statistic with its scale and budget share, as plain data."""
    scales = {name: law.unit for name, law in laws.items()}
    sizes = [body.size(norm, [scales[name] for name in body.names]) for body in bodies]
    rows = []
    for statistic, own in zip(statistics, sizes, strict=True):
        largest = dict(zip(statistic.names, statistic.body.linf_sensitivities, strict=True))
        # Rows without a value take the place of rows with one, and cost nothing by themselves.
        weights = {
            c.name: (largest[c.name] / scales[c.name]) ** (1 if norm is Norm.L1 else 2)
            for c in statistic.coordinates
            if c.role is not Role.NULL_COUNT
        }
        for c in statistic.coordinates:
            part = weights.get(c.name, Fraction(0)) / sum(weights.values(), Fraction(0))
            share = round_up(own / sum(sizes, Fraction(0)) * part) if part else 0.0
            rows.append(_number_content(c, largest[c.name], laws[c.name], share) | statistic.content)
    return rows


def _joint_numbers_content(
    statistics: tuple[Statistic, ...], largest: tuple[Fraction, ...], laws: Mapping[str, Law], part: Fraction
) -> list[dict[str, Any]]:
    """Explain joint noise: noisy statistics that share a part of the budget, as plain data."""
    coordinates = [c for s in statistics for c in s.coordinates]
    share = round_up(part / len(coordinates))
    pairs = zip(coordinates, largest, strict=True)
    return [_number_content(c, most, laws[c.name], share) for c, most in pairs]


def _number_content(c: Coordinate, largest: Fraction, law: Law, share: float) -> dict[str, Any]:
    """Explain one noisy statistic with its noise and budget share, as plain data."""
    content: dict[str, Any] = {
        "name": c.name,
        "what": c.what,
        "step": str(c.step),
        "largest_contribution": str(largest),
        "noise_scale": str(law.unit),
        "noise_deviation": float(law.standard_deviation) * float(c.step),
        "share": share,
    }
    return content if c.bounds is None else content | {"lower": c.bounds[0], "upper": c.bounds[1]}


def _choice_content(choice: Choice, share: Fraction) -> dict[str, Any]:
    """Explain the choice of quantile candidates of a column, with its budget share, as plain data."""
    (counts,) = choice.leaves.coordinates
    return {
        "name": counts.name,
        "what": f"positions near quantiles of {choice.leaves.column}, by the exponential mechanism",
        "step": str(counts.step),
        "largest_contribution": str(choice.leaves.body.linf_sensitivities[0]),
        "noise_scale": str(choice.scale),
        "noise_deviation": choice.deviation,
        "share": round_up(share),
        "lower": choice.leaves.lattice.lower,
        "upper": choice.leaves.lattice.upper,
    }


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number > 1)}"


HIGH_EPSILON = Fraction(20)
HIGH_DELTA = Fraction(1, 10_000)


def cautions(schema: Schema, keys: Sequence[str], epsilon: Fraction, delta: Fraction) -> tuple[str, ...]:
    """Return a note of the explanation for each choice that is allowed but seldom meant.

    Args:
        schema: the columns after the steps.
        keys: the columns that are grouped by.
        epsilon: the privacy budget.
        delta: the chance that the promise of epsilon need not hold.

    Nothing here depends on rows. Source: Dwork and Roth 2014, section 2.3, for delta against 1/n.
    """
    found = []
    if epsilon > HIGH_EPSILON:
        found.append(
            f"epsilon {float(epsilon):g} protects little: above {HIGH_EPSILON} the answer may "
            "reveal who is in the table. sf.explain_epsilon shows what a number means."
        )
    if delta > HIGH_DELTA:
        found.append(
            f"delta {float(delta):g} is large: it would allow showing the rows of one unit in "
            f"{float(1 / delta):,.0f}. Choose it far below 1 divided by the number of units, such "
            "as 1e-6."
        )
    found += [
        (
            f"{key} has floats: values that look equal may differ in their last bits, so few groups "
            "have many units. Group by bins or by a rounded column, such as floor of it."
        )
        for key in keys
        if schema[key].type_name in FLOATS
    ]
    return tuple(found)
