"""Plans that are changed after planning, and releases of them without the certificate: for seeded faults."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

from sfumato.api.largest_groups import Top
from sfumato.certificate import Certificate, certify
from sfumato.measurements.group_selection import GaussianThreshold, KNormThreshold, LaplaceThreshold
from sfumato.plan.plan import Plan
from sfumato.plan.top_measurement import TopMeasurement
from tests.certificate.plans import PLANS


def with_scales(plan: Plan, scales: Mapping[str, Fraction]) -> Plan:
    """Return a plan whose noise has other scales, and whose threshold is on that noise."""
    drawn = plan.measurement
    noise = replace(drawn.noise, scales=tuple(scales[name] for name in drawn.names))
    rule = drawn.selection
    if isinstance(rule, LaplaceThreshold | GaussianThreshold | KNormThreshold):
        rule = replace(rule, law=replace(drawn, noise=noise, selection=None).laws["units"])
    return replace(plan, measurement=replace(drawn, noise=noise, selection=rule))


def changed_top(plan: Plan[Top, TopMeasurement], **changes: Any) -> Plan[Top, TopMeasurement]:
    """Return a plan of the largest groups whose measurement has other parameters.

    Args:
        plan: which stays as it is.
        changes: parameters; `scale`, by which that of the noise is multiplied, if there is noise.
    """
    law, factor = plan.measurement.law, changes.pop("scale", 1)
    if law is not None:
        changes |= {"law": type(law)(law.unit * factor)}
    return replace(plan, measurement=replace(plan.measurement, **changes))


def scaled(plan: Plan, factor: Fraction | int) -> Plan:
    """Return a plan whose noise is so many times as large."""
    return with_scales(plan, {name: scale * factor for name, scale in plan.scales.items()})


@contextmanager
def without_certificate() -> Iterator[Certificate]:
    """Remove the check: every description has the certificate of something else."""
    other = certify(PLANS["laplace"])
    modules = ("plan.plan", "measurements.stratified_survey", "release.receipt")
    patches = [patch(f"sfumato.{module}.certify_loss", lambda *_: other) for module in modules]
    for one in patches:
        one.start()
    try:
        yield other
    finally:
        for one in patches:
            one.stop()
