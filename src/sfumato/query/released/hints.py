"""What a released table says of its own question: keys that may match no row, bounds that cut most values.

Post-processing of noisy numbers, so it costs nothing; and noise may be what it sees, as each sentence says.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sfumato.noise.values import Floats
from sfumato.query.aggregates import CountPrivacyUnits, CountRows, Estimate, Mean
from sfumato.query.noisy.measurement import NoisyBatch
from sfumato.query.plans.plan import Plan

CONFIDENCE = 0.95
_NARROW = 0.1  # an error bar with more of the bounds' width tells nothing of where most values are


def hints(plan: Plan, batches: Sequence[NoisyBatch]) -> tuple[str, ...]:
    """Return a sentence for each sign that a released table is not what was meant.

    Args:
        plan: of the release.
        batches: its noisy numbers.
    """
    found: list[str] = []
    asked = dict(plan.query.aggregates)
    for estimate in plan.requirements.estimates:
        # One count tells of the keys; a bin may be empty in groups that are not.
        counts = isinstance(asked.get(estimate.name), CountRows | CountPrivacyUnits)
        if counts and isinstance(plan.query.public_keys, pa.Table):
            found += _unmatched(estimate, batches)
            break
    for estimate in plan.requirements.estimates:
        aggregate = asked.get(estimate.name)
        # An answer is yes or no: all of one kind is nothing that was cut.
        if isinstance(aggregate, Mean) and not aggregate.lower == 0 == aggregate.upper - 1:
            found += _clamped(estimate, aggregate, batches)
    return tuple(found)


def _unmatched(estimate: Estimate, batches: Sequence[NoisyBatch]) -> list[str]:
    """Say how many public groups have a count that noise alone explains."""
    empty = of = 0
    for batch in batches:
        shown, half = _shown(estimate, batch)
        empty, of = empty + int((shown <= half).sum()), of + len(shown)
    if not empty:
        return []
    number = "the only public group" if of == 1 else f"{empty:,} of {of:,} public groups"
    return [
        f"{estimate.name} is no more than its error bar in {number}: the keys may match few rows or none. If "
        "they should, look at their spelling, type and time zone."
    ]


def _clamped(estimate: Estimate, asked: Mean, batches: Sequence[NoisyBatch]) -> list[str]:
    """Say where a mean is at a bound as far as noise tells."""
    width = estimate.upper - estimate.lower
    at = {"lower": 0, "upper": 0}
    of = 0
    for batch in batches:
        shown, half = _shown(estimate, batch)
        told = half < _NARROW * width
        of += len(shown)
        at["lower"] += int((told & (shown - half <= estimate.lower)).sum())
        at["upper"] += int((told & (shown + half >= estimate.upper)).sum())
    return [
        f"{estimate.name} is {side}={float(getattr(asked, side)):g} within its error bar"
        f"{'' if of == 1 else f' in {number:,} of {of:,} groups'}: most values of {asked.column} may be "
        "clamped to that bound. If more are possible, ask with wider bounds."
        for side, number in at.items()
        if number
    ]


def _shown(estimate: Estimate, batch: NoisyBatch) -> tuple[Floats, Floats]:
    """Return an output and its error bar."""
    value = estimate.output(batch.numbers).to_numpy(zero_copy_only=False).astype(float)
    return value, estimate.half_width(batch.numbers, CONFIDENCE)
