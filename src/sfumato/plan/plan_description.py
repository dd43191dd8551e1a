"""The description of plans that are released together, and its certificate.

Nothing is charged, read or drawn without a certificate: `payment` requires it, and so does each object that
draws."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

from sfumato.budget import Loss
from sfumato.budget.certified_loss import proved
from sfumato.budget.epsilon_delta import ExactCost
from sfumato.certificate import Certificate

VERSION = 1  # of descriptions
CERTIFICATE_ATTRIBUTE = (
    "_certificate"  # the attribute in which a plan keeps its certificate; pickles leave it out
)


class Described(Protocol):
    """Something with a plan description: a plan, or its diagnostics."""

    @property
    def spent(self) -> ExactCost:
        """The (epsilon, delta) that the description claims, with preliminary queries and diagnostics."""
        ...

    @property
    def charge(self) -> Loss:
        """What a budget pays for what is described."""
        ...

    @property
    def unit(self) -> str:
        """The privacy unit of the description."""
        ...

    @property
    def drawn_parts(self) -> Sequence[dict[str, Any]]:
        """The description of each part, in the order in which they are drawn."""
        ...


class Claim:
    """A claimed (epsilon, delta) for described parts of which later ones depend on earlier results.

    Args:
        spent: the (epsilon, delta) of all parts together, fixed before the first one is drawn.
        planned: plans of the parts, with placeholders for what earlier parts will find.
    """

    def __init__(self, spent: ExactCost, planned: Sequence[Described]) -> None:
        self.spent = spent
        self.unit = _units(planned)
        self.drawn_parts = _parts(planned)
        self._drawn: list[dict[str, Any]] = []

    @property
    def charge(self) -> Loss:
        """What a budget pays for all described parts of the claim."""
        return Loss(approximate=((*self.spent, 1),))

    def take(self, plans: Sequence[Described]) -> None:
        """Certify that everything drawn so far, together with these plans, stays within the claim.

        Args:
            plans: of the next part.
        Raises:
            RefusalError: it does not.
        """
        parts = [*self._drawn, *_parts(plans)]
        proved(_described(self.unit, self.spent, parts))
        self._drawn = parts


def describe(plans: Sequence[Described]) -> dict[str, Any]:
    """Return the description of plans that are paid together, in the form that the certificate reads.

    Args:
        plans: the plans; their preliminary queries and diagnostics are described too.

    >>> import pyarrow as pa, sfumato as sf
    >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=2).agg(n=sf.count())
    >>> described = describe([visits.plan(epsilon="1/2")])
    >>> described["epsilon"], described["parts"][0]["noise"]
    ('1/2', {'shape': 'independent', 'law': 'laplace', 'scales': {'rows': '4'}})
    """
    return _described(_units(plans), total(plans), _parts(plans))


def total(plans: Sequence[Described]) -> ExactCost:
    """Return the (epsilon, delta) that the descriptions of plans claim together.

    Args:
        plans: see `describe`.
    """
    spent = [plan.spent for plan in plans]
    return ExactCost(sum((e for e, _ in spent), Fraction(0)), sum((d for _, d in spent), Fraction(0)))


def certified(plans: Sequence[Described]) -> Certificate:
    """Return the certificate of the description of plans, within what they claim and are charged for.

    Args:
        plans: see `describe`.
    Raises:
        RefusalError: the plans may lose more, or something is unknown. The caller must not charge or draw.

    >>> import pyarrow as pa, sfumato as sf
    >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=2).agg(n=sf.count())
    >>> certified([visits.plan(epsilon="1/2")]).pure
    Fraction(1, 2)
    """
    if len(plans) > 1:
        for plan in plans:
            certified([plan])
        return proved(describe(plans))
    (plan,) = plans
    known = vars(plan)  # a plan does not change, and of its copies by `replace` none has this
    if CERTIFICATE_ATTRIBUTE not in known:
        known[CERTIFICATE_ATTRIBUTE] = proved(describe(plans), plan.charge)
    found: Certificate = known[CERTIFICATE_ATTRIBUTE]
    return found


def _described(unit: str, spent: ExactCost, parts: list[dict[str, Any]]) -> dict[str, Any]:
    epsilon, delta = map(str, spent)
    head = {"version": VERSION, "unit": unit, "neighbours": "one_unit"}
    return {**head, "epsilon": epsilon, "delta": delta, "parts": parts}


def _units(plans: Sequence[Described]) -> str:
    return ", ".join(dict.fromkeys(plan.unit for plan in plans))


def _parts(plans: Sequence[Described]) -> list[dict[str, Any]]:
    return [part for plan in plans for part in plan.drawn_parts]
