"""What a release of the largest groups does, in words and as data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sfumato.dataclass import dataclass
from sfumato.display.card import Card
from sfumato.display.displayed import Told
from sfumato.query.cards.planned import top_explanation_card
from sfumato.query.cautions import cautions
from sfumato.query.plans.plan import Plan
from sfumato.query.top.draw import TopMeasurement

if TYPE_CHECKING:
    from sfumato.query.top.asked import Top


@dataclass(frozen=True, repr=False)
class TopExplanation(Told):
    """What a release of the largest groups does: `str()` gives text, `to_dict()` and `to_json()` data.

    Made by `Top.explain`, and by `TopRelease.explain`.

    >>> import pyarrow as pa, sfumato as sf
    >>> rows = pa.table({"person": [1, 2], "product": ["tea", "ink"]})
    >>> told = sf.scan(rows, privacy_unit="person").top("product", k=1).explain(epsilon=1, delta="1e-6")
    >>> told.to_dict()["groups_are"], len(told.to_json()) > 500, len(told.steps)
    ('private', True, 5)
    """

    plan: Plan[Top, TopMeasurement]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain data, exact numbers as text of a fraction."""
        question, plan, drawn = self.plan.query, self.plan, self.plan.measurement
        return {
            "privacy_unit": question.unit,
            "group_by": list(question.keys),
            "groups_are": "private" if drawn.candidates is not None else "public",
            "k": drawn.k,
            "candidates": drawn.candidates,
            "margin": drawn.margin,
            "by": self._by,
            "spread": drawn.spread,
            "epsilon_of_each_peel": str(drawn.each),
            "composed_by": self._composed_by,
            "counts_share": str(drawn.share),
            "counts_noise": None if drawn.law is None else repr(drawn.law),
            "counts_standard_deviation": None if drawn.law is None else float(drawn.law.standard_deviation),
            "budget": {"epsilon": str(plan.epsilon), "delta": str(plan.delta)},
            "told": self.steps,
            "notes": list(self.notes),
        }

    def to_json(self, indent: int | None = 2) -> str:
        """Return `to_dict()` as JSON text.

        Args:
            indent: blanks before each level; None for one line.
        """
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever asks should know."""
        question, plan = self.plan.query, self.plan
        return (
            *question.notes,
            *cautions(question.schema, question.keys, plan.epsilon, plan.delta),
            *([question.bias.told()] if question.bias else []),
        )

    @property
    def _by(self) -> str:
        by = self.plan.query.by
        return "units" if by is None else by.meaning({})

    @property
    def _composed_by(self) -> str:
        return "pure DP" if self.plan.measurement.zcdp is None else "zCDP"

    @property
    def steps(self) -> list[str]:
        """What is done, and what it costs, a sentence or two each."""
        question, plan, drawn = self.plan.query, self.plan, self.plan.measurement
        name, step = drawn.measured, float(drawn.step)
        rate = float(drawn.rate) / step
        first = f"Count the different {question.unit}, the privacy unit, in each group of "
        if question.by is not None:
            first = f"Of each {question.unit}, the privacy unit, take the {self._by}, in each group of "
        lines = [
            f"{first}{', '.join(question.keys)}. A unit may be in any number of groups.",
            f"Draw {drawn.k} groups, one after another, each with a chance in proportion to "
            f"e^({rate:.4g} x {name}) among those that are left."
            if drawn.k > 1
            else f"Draw a group, each with a chance in proportion to e^({rate:.4g} x {name}).",
        ]
        if drawn.margin is not None:
            lines.append(
                f"Only the {drawn.candidates} largest groups may be drawn; beside them stands an end, "
                f"{(drawn.margin + 1) * step:.6g} above the largest group that may not, at which "
                "drawing stops."
            )
        if drawn.law is not None:
            lines.append(
                f"Then show the {name} of these groups, with {type(drawn.law).__name__} noise of standard "
                f"deviation {float(drawn.law.standard_deviation) * step:.4g}, exactly rounded, for "
                f"{float(drawn.share):.0%} of the budget."
            )
        lines.append(
            f"Together this costs at most epsilon {float(plan.epsilon):g} and delta {float(plan.delta):g}, "
            f"composed by {self._composed_by}."
        )
        return lines

    def _card(self) -> Card:
        return top_explanation_card(self)

    def __str__(self) -> str:
        return "\n".join([*self.steps, *self.notes])
