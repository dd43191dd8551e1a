"""Descriptions that plans make of themselves: what the certificate reads is what is drawn."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from sfumato.certificate import CertificateError, certify
from sfumato.certificate.description import read
from tests.certificate.planned import plans

pytestmark = pytest.mark.noise_cannot_matter("plans are made, and nothing is drawn")


def described(part: dict[str, Any]) -> dict[str, Any]:
    claim = {"epsilon": part["epsilon"], "delta": part["delta"]}
    return {"version": 1, "unit": "id", "neighbours": "one_unit", **claim, "parts": [part]}


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_describes_itself(seed):
    found = list(plans(seed, 40))
    assert len(found) > 20
    for plan in found:
        (part,) = read(described(plan.description))["parts"]
        names = [name for statistic in plan.requirements.statistics for name in statistic.names]
        assert part["noise"] is None or list(part["noise"]["scales"]) == names


def test_the_description_is_of_what_is_drawn():
    """Smaller scales in the noise that draws are refused, whatever the plan says that it loses."""
    refused = 0
    for plan in plans(7, 60):
        try:
            certify(described(plan.description))
        except CertificateError:
            continue
        noising = plan.noising
        if noising.together is None:
            laws = {name: type(law)(law.unit * Fraction(9, 10)) for name, law in noising.laws.items()}
            weaker = replace(noising, laws=laws, selection=None)
        else:
            scales = tuple(scale * Fraction(9, 10) for scale in noising.together.scales)
            weaker = replace(noising, together=replace(noising.together, scales=scales))
        if noising.selection is not None or not noising.requirements.statistics:
            continue
        with pytest.raises(CertificateError):
            certify(described(plan.description | weaker.description))
        refused += 1
    assert refused >= 15
