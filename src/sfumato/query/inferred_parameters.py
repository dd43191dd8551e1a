"""Parameters that a release inferred, such as bounds, and the cost of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.cards import TextCard


@dataclass(frozen=True, repr=False)
class Found(TextCard):
    """A parameter that a release inferred, such as a bound, with its cost. It is published too.

    Args:
        what: a short name of the parameter.
        value: the inferred value as plain data, such as two bounds.
        epsilon: the part of the release's epsilon that the inference cost.
        left_out: what is over the limits (including limits you set) and roughly its share, as estimated by
            the query; None if no rows are dropped.
        drawn_parts: the descriptions of the noise drawn, for the certificate.

    >>> print(Found("bounds of the rows of 'visits'", (0.0, 64.0), Fraction(1, 10)))
    bounds of the rows of 'visits': 0 to 64, found with epsilon 0.1
    >>> print(Found("limits of each id", {"groups": 4, "rows": 1}, Fraction(1, 5), ("rows", 0.174)))
    limits of each id: groups=4, rows=1, found with epsilon 0.2; about 17% of rows are over the limits
    """

    what: str
    value: Any
    epsilon: Fraction
    left_out: tuple[str, float] | None = None
    drawn_parts: tuple[dict[str, Any], ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def from_plans(
        cls, what: str, value: Any, plans: Iterable[Any], left_out: tuple[str, float] | None = None
    ) -> Found:
        """Return the parameter that preliminary queries with these plans inferred.

        Args:
            what, value, left_out: as for `Found`.
            plans: the plans of all preliminary queries for it.
        Returns:
            The parameter, with the cost of the plans.

        >>> import pyarrow as pa, sfumato as sf
        >>> people = sf.scan(pa.table({"id": [1]}), privacy_unit="id").agg(n=sf.count_units())
        >>> Found.from_plans("the limit 'groups'", 2, [people.plan(epsilon="1/10")]).epsilon
        Fraction(1, 10)
        """
        looks = list(plans)
        epsilon = sum((plan.epsilon for plan in looks), Fraction(0))
        return cls(what, value, epsilon, left_out, tuple(plan.description for plan in looks))

    @property
    def content(self) -> dict[str, Any]:
        """Return the inferred parameter as plain data, for JSON."""
        value = list(self.value) if isinstance(self.value, tuple) else self.value
        content = {"what": self.what, "value": value, "epsilon": str(self.epsilon)}
        return content if self.left_out is None else content | {"left out": list(self.left_out)}

    def __str__(self) -> str:
        return sentence(self.content)


def sentence(content: dict[str, Any]) -> str:
    """Return a sentence on an inferred parameter, from its plain data."""
    value, epsilon = content["value"], Fraction(content["epsilon"])
    if isinstance(value, dict):
        shown = ", ".join(f"{name}={number:,}" for name, number in value.items())
        return f"{content['what']}: {shown}, found with epsilon {float(epsilon):g}{_left_out(content)}"
    shown = " to ".join(f"{end:g}" for end in value) if isinstance(value, list) else str(value)
    cost = f"found with epsilon {float(epsilon):g}" if epsilon else "known from the type, at no cost"
    return f"{content['what']}: {shown}, {cost}"


def _left_out(content: dict[str, Any]) -> str:
    if "left out" not in content:
        return ""
    of, share = content["left out"][0], 100 * content["left out"][1]
    shown = f"about {round(share, 0 if share >= 1 else 1):g}%"
    return f"; {shown} of {of} are over the limits"
