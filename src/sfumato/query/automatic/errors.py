"""How large errors will be where noisy looks tell of a table: by noise, and by what limits and bounds cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import exp, hypot, log

from sfumato.dataclass import dataclass
from sfumato.query.aggregates import Aggregate, CountPrivacyUnits
from sfumato.query.diagnostics.contributions import Distribution
from sfumato.query.plans.expected import Errors
from sfumato.query.plans.plan import Plan

_ADDED = "count", "sum", "cumulative total", "vector_sum"
_SMALLEST = 1e-300


@dataclass(frozen=True)
class Contributions:
    """What is known of a table: noisy numbers, and what follows from them.

    Args:
        groups: of units by the number of groups they are in; None where there are no groups.
        fullest: of units by their rows in the group where they have most; None where that matters not.
        number: of groups, about.
        people: of units, about.
    """

    groups: Distribution | None
    fullest: Distribution | None
    number: float
    people: float

    @property
    def rows(self) -> float:
        """About how many rows a unit has in a group."""
        return 1.0 if self.fullest is None else self.fullest.mean

    @property
    def units(self) -> float:
        """About how many units a group has, were all groups alike."""
        each = 1.0 if self.groups is None else self.groups.mean
        return max(self.people * min(each / self.number, 1.0), 1.0)

    def lost(self, groups: int, rows: int | None) -> tuple[float, float]:
        """Return about the shares of units in groups, and of rows, that limits leave out."""
        of_groups = 0.0 if self.groups is None else self.groups.lost(groups)
        of_rows = 0.0 if rows is None or self.fullest is None else self.fullest.lost(rows)
        return of_groups, 1 - (1 - of_groups) * (1 - of_rows)


@dataclass(frozen=True)
class OutputError:
    """About how far an output is off, in a group of average size.

    Args:
        noise: by noise alone.
        total: by noise, by what is cut, and by groups that are not shown.
        weight: how much the output matters.
    """

    noise: float
    total: float
    weight: float


def output_errors(
    plan: Plan,
    seen: Contributions,
    groups: int,
    rows: int | None,
    *,
    expected: Errors | None = None,
    clamped: Mapping[str, float] | None = None,
) -> dict[str, OutputError]:
    """Return about how far each output is off that is measured.

    Args:
        plan: what would be done.
        seen: what units contribute.
        groups, rows: the limits of the plan.
        expected: in the place of the plan's own expected errors, as they would be with another budget.
        clamped: what bounds cut of a value on average, by the name of what is asked.
    Returns:
        By output, of counts and sums their own error, of means and variances that of their value, and of
        quantiles that of their rank, from 0 to 1.
    """
    (of_units, of_rows), asked = seen.lost(groups, rows), dict(plan.query.aggregates)
    outputs = {n: name for name, a in asked.items() for n in a.outputs(name)}
    errors = plan.expected if expected is None else expected
    kept = seen.units * (1 - of_units)
    # Groups are not alike: of those of this size on average, fewer and fewer are large enough.
    shown = 1.0 if plan.selection is None else 1 / (1 + (errors[None] / max(kept, 0.5)) ** 2)
    found = {}
    for estimate in plan.requirements.estimates:
        if estimate.derived:
            continue
        name = outputs[estimate.name]
        noise, weight, one = errors[estimate.name], float(plan.query.weight(name)), asked[name]
        lost, size = (of_rows, seen.units * seen.rows) if _by_rows(one) else (of_units, seen.units)
        cut = 0.0 if clamped is None else clamped.get(name, 0.0)
        if estimate.kind in _ADDED:
            whole = size * (1.0 if estimate.kind == "count" else _scale(estimate.lower, estimate.upper))
            each = hypot(noise, lost * whole + cut * size)
            found[estimate.name] = OutputError(noise, each * shown + whole * (1 - shown), weight)
        else:  # of what is left, the error of a mean is the larger the less is left
            left = size * max(1 - lost, 1e-9)
            if estimate.kind == "stddev":  # of values that fill half of the bounds
                left *= estimate.half_range or 1.0
            if estimate.kind == "variance":
                cut *= 2 * estimate.half_range
            found[estimate.name] = OutputError(noise / left, hypot(noise / left, cut) / shown, weight)
    return found


def mean_error(errors: Iterable[OutputError], *, noise: bool = False) -> float:
    """Return the geometric mean of errors, by their weights; 1 where there are none.

    Args:
        errors: of outputs.
        noise: whether of noise alone.
    """
    pairs = [(one.weight, log(max(one.noise if noise else one.total, _SMALLEST))) for one in errors]
    weights = sum(weight for weight, _ in pairs)
    return exp(sum(weight * value for weight, value in pairs) / weights) if weights else 1.0


def _by_rows(asked: Aggregate) -> bool:
    return asked.needs_rows and not isinstance(asked, CountPrivacyUnits)


def _scale(lower: float, upper: float) -> float:
    """Return about the size of a value within bounds."""
    return (abs(lower) + abs(upper)) / 4 or 1.0
