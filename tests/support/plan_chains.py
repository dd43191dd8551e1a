"""The loss of a plan a second time: by the framework's own measurements, chained to the plan's statistics."""

from dataclasses import replace
from fractions import Fraction

from sfumato.budget import Loss
from sfumato.budget.loss import PrivacyLoss
from sfumato.framework import ContributionDistance, Measurement
from sfumato.measurements import (
    centred_gaussian,
    convert,
    k_norm,
    levels_gaussian,
    series_gaussian,
    tree_laplace,
)
from sfumato.measurements.independent_noise import IndependentNoise
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.noise.level_noise import LevelsGaussian
from sfumato.noise.series_noise import SeriesGaussian
from sfumato.plan.plan import Plan
from sfumato.transformations import cone_of


def chained(plan: Plan) -> Loss:
    """Return what noise and choices lose of one unit, whatever the plan's own map says of it."""
    drawn, query, needed = plan.measurement, plan.query, plan.requirements
    noise = drawn.noise
    if isinstance(noise, JointNoise | SeparateNoise):
        apart = isinstance(noise, SeparateNoise)
        chosen = sum(
            (c.mechanism.loss * c.leaves.body.linf_sensitivities[0] * query.times for c in drawn.choices),
            Fraction(0),
        )
        most = min(query.times, drawn.shown or query.times) if apart else None
        made = k_norm(plan.epsilon - chosen, cone_of(needed.statistics), query.public_groups, groups=most)
        unit = Fraction(1) if drawn.choices else plan.exact_chain.map(1)
        return Loss(approximate=((made.map(unit) + chosen, Fraction(0), 1),))
    if isinstance(noise, IndependentNoise):
        metric = ContributionDistance(needed.body, query.times, query.scaled)
        return (plan.exact_chain >> noise.kind.by_group(noise.scales, metric, query.public_groups)).map(1)
    constructors = {
        CentredGaussian: centred_gaussian,
        LevelsGaussian: levels_gaussian,
        SeriesGaussian: series_gaussian,
    }
    made: Measurement = constructors.get(type(noise), tree_laplace)(plan.multiplier, plan.metric)
    return (plan.exact_chain >> convert(made, PrivacyLoss())).map(1)


def same_loss(plan: Plan) -> bool:
    """Whether the plan's map says what the chain does, but for a rounding of scales of 2^-40."""
    own, other = replace(plan.measurement, selection=None).map(1), chained(plan)
    if other.gaussian:
        return (
            own == Loss(gaussian=own.gaussian)
            and 0 <= other.gaussian - own.gaussian <= other.gaussian / 2**40
        )
    return own == other
