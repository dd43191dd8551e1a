"""Descriptions that plans make of themselves: what the certificate reads is what is drawn."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import pytest

import sfumato as sf
from sfumato.budget import Loss
from sfumato.certificate import CertificateError, certify
from sfumato.certificate.description import read
from sfumato.errors import BudgetError, ParameterError
from sfumato.measurements.group_selection import TruncatedGeometric
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.plan.plan import certify_plans
from tests.certificate.planned import KINDS, ROWS, plans, plans_of_largest, releases
from tests.support.changed_plans import changed_top

# The certificate computes in floats, rounded up.
ROUNDED = Fraction(1, 10**9)

pytestmark = pytest.mark.noise_cannot_matter("plans are made, and nothing is drawn")


def described(part: dict[str, Any]) -> dict[str, Any]:
    claim = {"epsilon": part["epsilon"], "delta": part["delta"]}
    return {"version": 1, "unit": "id", "neighbours": "one_unit", **claim, "parts": [part]}


@pytest.mark.parametrize("seed", range(1))
def test_a_plan_describes_itself(seed):
    found = list(plans(seed, 40))
    assert len(found) > 20
    for plan in found:
        (part,) = read(described(plan.description))["parts"]
        names = [name for statistic in plan.requirements.statistics for name in statistic.names]
        assert part["noise"] is None or list(part["noise"]["scales"]) == names


def test_each_release_of_any_kind_is_certified():
    """The check is of charges too: no sum of a budget pays less than what is proved."""
    assert sum(bool(certify_plans(plans)) for _, plans in releases(3, 60)) >= 40


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 14))
def test_some_hundred_releases_are_certified(seed):
    found = Counter(kind for kind, plans in releases(seed, 160) if certify_plans(plans))
    assert sum(found.values()) >= 100 and len(found) == len(KINDS)


@pytest.mark.parametrize("delta", ["1e-290", "1e-288", "0.999999999999"])
@pytest.mark.parametrize(
    ("noise", "groups", "sums"),
    [
        ("laplace", 3, 1),
        ("gaussian", 50, 2),
        ("k_norm", 1, 20),
    ],
)
def test_private_groups_at_extreme_deltas_are_certified_or_refused_with_a_reason(noise, groups, sums, delta):
    table = sf.scan(ROWS, privacy_unit="id").group_by("g").bound(groups=groups, rows=2)
    question = table.agg(**{f"s{n}": sf.sum("x", lower=0, upper=n + 1) for n in range(sums)})
    for rule in ("auto", "truncated_geometric") if noise != "k_norm" else ("auto",):
        small = Fraction(delta) < Fraction(groups, 10**289)
        try:
            plan = question.plan(epsilon=1, delta=delta, noise=noise, group_selection=rule)
        except BudgetError as error:
            assert small and "Give a larger delta, such as 1e-6" in str(error)
        else:
            assert certify_plans([plan]).delta <= Fraction(delta)


@pytest.mark.parametrize("delta", ["1e-290", "1e-284", "0.999999999999"])
def test_private_largest_groups_at_extreme_deltas_are_certified_or_refused_with_a_reason(delta):
    table = sf.scan(ROWS, privacy_unit="id")
    for candidates in (3, 10**5):
        question = table.top("g", k=3, candidates=candidates)
        try:
            plan = question.plan(epsilon=1, delta=delta)
        except BudgetError as error:
            assert float(delta) < 1e-284 and "Give a larger delta, such as 1e-6" in str(error)
        else:
            assert certify_plans([plan]).delta <= Fraction(delta)


@pytest.mark.long
@pytest.mark.parametrize("seed", [4, *(pytest.param(n, marks=pytest.mark.long) for n in range(20, 23))])
def test_what_is_proved_is_what_the_map_says(seed):
    """At most the map, and near to it: 1% in epsilon for pure plans, and 2% in delta for others."""
    compared = 0
    for plan in plans(seed, 60):
        loss, proof = plan.loss, certify(described(plan.description))
        query = plan.query
        if query.total_rows and not query.private_groups and query.total_rows > len(query.public_groups):
            continue  # maps count as many groups as rows, and the certificate as many as there are
        if proof.pure is not None:
            assert loss.basic_epsilon * Fraction(99, 100) <= proof.pure <= loss.basic_epsilon
        selection, noise = plan.selection, plan.measurement.noise
        rough = isinstance(selection, TruncatedGeometric) and query.groups > 3  # the map's mixture
        # Thresholds are whole numbers above what delta needs; and a common number is moved as the best t is.
        if not loss.gaussian or isinstance(noise, CentredGaussian) or rough or hasattr(selection, "law"):
            continue
        assert loss.delta(plan.epsilon) * Fraction(98, 100) <= proof.delta <= plan.delta
        compared += 1
    assert compared > 2


@pytest.mark.long
def test_what_is_proved_of_the_largest_groups_is_what_their_map_says():
    """Both say the same, pure or not, and no more than the budget that is charged."""
    compared = Counter()
    for plan in plans_of_largest(5, 60):
        drawn, loss = plan.measurement, plan.measurement.map(1)
        proof = certify(described(plan.description))
        assert plan.loss == loss and loss.basic_epsilon <= plan.epsilon
        if drawn.zcdp is None:
            assert loss.basic_epsilon * Fraction(99, 100) <= proof.pure <= loss.basic_epsilon * (1 + ROUNDED)
        mapped = loss.delta(plan.epsilon)
        assert mapped * Fraction(98, 100) <= proof.delta <= mapped * (1 + ROUNDED)
        assert mapped <= plan.delta
        compared[drawn.zcdp is None, drawn.candidates is None] += 1
    assert len(compared) == 4 and sum(compared.values()) >= 40


def test_the_map_of_the_largest_groups_is_of_what_is_drawn():
    """Less noise, or a nearer end, costs more than the budget, whatever was planned."""
    for plan in plans_of_largest(6, 30):
        drawn = plan.measurement
        weaker = [changed_top(plan, each=drawn.each * 2)]
        if drawn.law is not None:
            weaker.append(changed_top(plan, scale=Fraction(1, 2)))
        if drawn.margin is not None:
            weaker.append(changed_top(plan, margin=drawn.margin - ceil(3 / drawn.rate)))
        for changed in weaker:
            loss = changed.loss
            assert loss.basic_epsilon > plan.epsilon or loss.delta(plan.epsilon) > plan.delta


@pytest.mark.long
def test_the_map_of_largest_groups_takes_numbers_of_units():
    drawn = [plan.measurement for plan in plans_of_largest(7, 60)]
    public, private = (
        next(m for m in drawn if (m.candidates is None) is known and m.zcdp is None)
        for known in (True, False)
    )
    assert public.map(0) == private.map(0) == Loss()
    assert public.map(3).basic_epsilon == 3 * public.map(1).basic_epsilon
    with pytest.raises(ParameterError, match="units is 2"):
        private.map(2)


def test_the_description_is_of_what_is_drawn():
    """Smaller scales in the noise that draws are refused, whatever the plan says that it loses."""
    refused = 0
    for plan in plans(7, 60):
        try:
            certify(described(plan.description))
        except CertificateError:
            continue
        measurement = plan.measurement
        if measurement.selection is not None or not measurement.requirements.statistics:
            continue
        scales = tuple(scale * Fraction(9, 10) for scale in measurement.noise.scales)
        weaker = replace(measurement, noise=replace(measurement.noise, scales=scales))
        with pytest.raises(CertificateError):
            certify(described(plan.description | weaker.description(plan.exact)))
        refused += 1
    assert refused >= 15
