"""What a correct release may show for a given truth: tolerances from the laws of its own plan.

A release keeps its noisy numbers, and each output is a function of them. For a true mean m the
noisy sum less m times the noisy count is a weighted sum of noises and nothing else, whatever the
count is: its law is known, and gives the interval of outputs. Only noisy numbers are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError, RefusalError
from sfumato.testing.cells import (
    Cells,
    Group,
    group_of,
    is_number,
    is_table,
    label,
    numbers,
    plain_key,
    read,
    rows,
)
from sfumato.testing.combined import NoiseSum, log10_outside
from sfumato.testing.flakiness import log10_sum

if TYPE_CHECKING:
    from sfumato.query.release import Release
    from sfumato.query.statistics import Estimate

_LOG2 = math.log10(2)
# Relative error of the float arithmetic from noisy numbers to outputs, on the safe side.
_FLOATS = 1e-12
_QUANTILE = (
    "{output} is a quantile: its error depends on the rows around it, and no sound tolerance follows from a "
    "number. Pass the group's own values in its place, one for each row that counts, or the leaf counts of a "
    "recorder; or a tolerance, such as tolerance={{{output!r}: 2.0}}"
)
_ORDER = ("count", "sum", "mean", "variance", "stddev", "quantile")


@dataclass(frozen=True)
class Judgement:
    """What the laws say of one output of one group.

    Args:
        tolerance: a correct release is within it of the truth, but with probability 10^-k.
        log10_probability: bound of the probability of an output as far off as this one; 0 where it
            is not off.
    """

    tolerance: float
    log10_probability: float


@dataclass(frozen=True)
class Residue:
    """The noise that one output of one group shows, given the truth.

    Args:
        group, output: where.
        size: |noise|, in units of the output's leading noise's step.
        slack: what arithmetic and the rounding of the output may have moved `size`.
        lead: the law of the leading noise, in steps: independent of all earlier residues.
        alone: whether `size` is the leading noise alone.
        half: what the rounding of the leading noise itself may have moved it: 1/2, or 0 for real noise.
    """

    group: Group
    output: str
    size: float
    slack: float
    lead: Any
    alone: bool
    half: float


def is_release(value: object) -> bool:
    """Whether a value is a release of ours, without importing the query part."""
    return any(
        c.__name__ == "Release" and c.__module__ == "sfumato.query.release" for c in type(value).__mro__
    )


class ReleasedCells:
    """A release's outputs by group, with the noisy numbers behind them.

    Args:
        release: drawn here if it was not yet looked at.
    Raises:
        RefusalError: the release was streamed to a file, which keeps outputs alone.
    """

    def __init__(self, release: Release) -> None:
        table, batches = release.to_arrow(), release._batches
        if batches is None:
            raise RefusalError(
                "this release was streamed to a file, and its noisy parts were not kept; call to_arrow() "
                "before write()"
            )
        self.plan = release.plan
        self.keys = release.plan.question.table.keys
        self.cells = rows(table.to_pylist(), "actual", self.keys)
        places = ((batch, row) for batch in batches for row in range(batch.keys.num_rows))
        order = (tuple(plain_key(r[k]) for k in self.keys) for r in table.select(list(self.keys)).to_pylist())
        self.places: dict[Group, tuple[Any, int]] = {}
        if self.keys:
            self.places.update(zip(order, places, strict=True))
        else:
            self.places[()] = next(places)
        self.estimates = {e.name: e for e in release.plan.requirements.estimates}
        self.quantiles = tuple(e.name for e in self.estimates.values() if e.kind == "quantile")

    @property
    def private_groups(self) -> bool:
        """Whether a correct release may leave out a group."""
        return self.plan.selection is not None

    def read_expected(self, expected: Any, name: str) -> Cells:
        """Read the truth that a test expects, in any of the shapes that fit this release.

        A quantile's values of a group become a `Walk`; a number is left as it is.

        Raises:
            ParameterError: it does not fit; the text says how.
        """
        keys = self.keys
        if is_table(expected) or (
            isinstance(expected, list) and all(isinstance(r, Mapping) for r in expected)
        ):
            cells = read(expected, name, keys)
        elif isinstance(expected, Mapping):
            cells = self._mapping(expected, name)
        elif is_number(expected) and not keys and len(self.estimates) == 1:
            cells = Cells("number", {(): {next(iter(self.estimates)): expected}})
        else:
            raise ParameterError(name, expected, f"a table or mapping of {self.described}")
        unknown = [o for o in cells.outputs if o not in self.estimates]
        if unknown or not cells.outputs:
            raise ParameterError(
                name, unknown, f"values of outputs of the release: {', '.join(self.estimates)}"
            )
        lengths = {len(group) for group in cells.values} - {len(keys)}
        if lengths:
            raise ParameterError(
                name, sorted(cells.values, key=repr)[:3], f"by group key ({', '.join(keys)})"
            )
        if not any(o in self.quantiles for o in cells.outputs):
            return cells
        values = {
            group: {o: self._walk(group, o, v, name) if o in self.quantiles else v for o, v in row.items()}
            for group, row in cells.values.items()
        }
        return replace(cells, values=values)

    def _walk(self, group: Group, output: str, given: object, name: str) -> object:
        if is_number(given):
            return given
        # Loaded here, as it needs what a release has loaded already.
        from sfumato.testing.quantiles import Walk, leaf_counts

        e = self.estimates[output]
        tree: Any = next(s for s in self.plan.requirements.statistics if e.total in s.coordinates)
        counts = leaf_counts(tree, given, f"{name} of {label(group)} {output}")
        return Walk(counts, self.plan.laws[tree.coordinates[0]], e.rank, e.lower, e.upper)

    @property
    def described(self) -> str:
        """What the release holds, for messages."""
        outputs = ", ".join(self.estimates)
        return f"{outputs} by {', '.join(self.keys)}" if self.keys else outputs

    def _mapping(self, expected: Mapping[Any, Any], name: str) -> Cells:
        if not self.keys:
            return Cells("mapping", {(): {str(o): v for o, v in expected.items()}})
        values = {}
        for key, value in expected.items():
            if isinstance(value, Mapping):
                values[group_of(key)] = {str(o): v for o, v in value.items()}
            elif len(self.estimates) == 1:
                values[group_of(key)] = {next(iter(self.estimates)): value}
            else:
                raise ParameterError(
                    name,
                    value,
                    f"a mapping of outputs for each group, as the release has {', '.join(self.estimates)}",
                )
        return Cells("mapping", values)

    def judge(
        self, group: Group, output: str, expected: Mapping[str, Any], actual: float, k: float
    ) -> Judgement:
        """Say how far an output may be from the truth, and how unlikely it is where it is.

        Args:
            group, output: of the release.
            expected: what is expected of the group, by output.
            actual: what the release shows.
            k: greater than 0.
        Raises:
            RefusalError: a number is expected of a quantile, from which no law of the error follows.
        """
        e, truth = self.estimates[output], numbers(expected)
        if e.kind == "quantile":
            if output in truth:
                raise RefusalError(_QUANTILE.format(output=output))
            judged: Judgement = expected[output].judge(actual, k)
            return judged
        at = _Place(self, group)
        if e.kind in ("count", "sum"):
            return at.linear(e, truth[output], actual, k)
        if e.kind == "mean":
            return at.mean(e, truth[output], actual, k)
        return at.variance(e, truth[output], self._mean_of(e, truth), actual, k)

    def residues(self, truth: Mapping[Group, Mapping[str, float]], complete: bool) -> Iterator[Residue]:
        """Give the noise that each group's outputs show, each residue with a noise of its own.

        Args:
            truth: expected values by group, then output.
            complete: whether no expected group is missing. Else a number of units that decided
                whether its group is shown says nothing of the noise, and is left out.
        """
        conditioned = {"units"} if self._selects_on_noise and not complete else set()
        for group, expected in truth.items():
            if group not in self.places:
                continue
            at, used = _Place(self, group), set(conditioned)
            for output in sorted(expected, key=lambda o: _ORDER.index(self.estimates[o].kind)):
                e = self.estimates[output]
                if e.kind == "quantile":
                    continue
                fresh = [
                    c for c in (e.squares, e.total, e.count, e.absent) if c is not None and c not in used
                ]
                used |= set(e.coordinates)
                actual = self.cells.values[group][output]
                if not fresh or not isinstance(actual, (int, float)):
                    continue
                found = at.residue(e, fresh[0], expected[output], self._mean_of(e, expected), actual)
                if found is not None:
                    size, slack, alone = found
                    yield Residue(group, output, size, slack, self.plan.laws[fresh[0]], alone, 0.5)

    def log10_missing(self, group: Group, truth: Mapping[str, float]) -> float | None:
        """Return log10 of the probability that selection leaves out a group; None where it is not known.

        It is known where the expected values tell the number of units.
        """
        units = [
            truth[o]
            for o, e in self.estimates.items()
            if o in truth and e.kind == "count" and e.count == "units" and e.absent is None
        ]
        rule: Any = self.plan.selection
        if not units or rule is None:
            return None
        count = int(units[0])
        if hasattr(rule, "probability"):
            left = 1 - rule.probability(count)
            return math.log10(left.numerator) - math.log10(left.denominator) if left > 0 else -math.inf
        if count < rule.pre_threshold:
            return 0.0
        # Left out where count + noise < least; the noise is symmetrical.
        least = rule.tau + rule.pre_threshold - 1
        if count < least:
            return 0.0
        return log10_outside(rule.law, count - least + 0.5) - _LOG2

    @property
    def _selects_on_noise(self) -> bool:
        return self.plan.selection is not None and hasattr(self.plan.selection, "law")

    def _mean_of(self, e: Estimate, truth: Mapping[str, float]) -> float | None:
        """Return the expected mean of a variance's own sum, where it is among the expected values."""
        for output, other in self.estimates.items():
            if other.kind == "mean" and (other.total, other.count) == (e.total, e.count) and output in truth:
                return truth[output]
        return None


class _Place:
    """One group of a release: its noisy numbers, and what follows from them."""

    def __init__(self, cells: ReleasedCells, group: Group) -> None:
        batch, row = cells.places[group]
        self.laws = cells.plan.laws
        self.steps = {n: float(s) for n, s in cells.plan.steps.items()}
        self.values = {n: float(v[row]) for n, v in batch.numbers.values.items()}

    def linear(self, e: Estimate, truth: float, actual: float, k: float) -> Judgement:
        noise, sign = self._noise(self._linear_weights(e)), 1.0 if e.kind == "count" else e.centre
        slack = self._floats(e, truth) + self._rounded(e, truth, noise) + abs(sign * self._clipped(e))
        tolerance = noise.tolerance(k) + slack
        if e.whole and float(truth).is_integer():
            tolerance = float(math.floor(tolerance))
        off = abs(actual - truth)
        return Judgement(tolerance, noise.log10_tail(max(0.0, off - slack)) if off > tolerance else 0.0)

    def mean(self, e: Estimate, truth: float, actual: float, k: float) -> Judgement:
        at = truth - e.centre
        noise, base, count = self._ratio_noise(e, e.total, at), at * self._count(e), self._used_count(e)
        slack = self._ratio_slack(e, e.total, at)
        reach = noise.tolerance(k) + slack
        ends = [(base + side * reach) / count + e.centre for side in (-1, 1)]
        tolerance = _farthest(truth, ends, e.lower, e.upper) + _FLOATS * abs(truth)
        if abs(actual - truth) <= tolerance:
            return Judgement(tolerance, 0.0)
        shown = abs((actual - e.centre) * count - base)
        return Judgement(tolerance, noise.log10_tail(max(0.0, shown - slack)))

    def variance(self, e: Estimate, truth: float, mean: float | None, actual: float, k: float) -> Judgement:
        assert e.total is not None and e.squares is not None
        power = 1 if e.kind == "variance" else 2
        each = k if mean is not None else k + _LOG2
        low_mean, high_mean = self._mean_range(e, mean, each)
        squares = [low_mean**2, high_mean**2]
        lowest = 0.0 if low_mean < 0 < high_mean else min(squares)
        count, used = self._count(e), self._used_count(e)
        # The true mean square, from where squares are counted, is in this range.
        squared = [truth**power - e.square_centre + q for q in (lowest, max(squares))]
        widest = max(map(abs, squared))
        noise, slack = self._ratio_noise(e, e.squares, widest), self._ratio_slack(e, e.squares, widest)
        reach = noise.tolerance(each) + slack
        products = [q * count for q in squared]
        shift = e.square_centre - (self.values[e.total] / used) ** 2
        ends = ((min(products) - reach) / used + shift, (max(products) + reach) / used + shift)
        roots = [max(end, 0.0) ** (1 / power) for end in ends]
        tolerance = _farthest(truth, roots, 0.0, e.upper) + _FLOATS * (abs(truth) + abs(e.square_centre))
        if abs(actual - truth) <= tolerance:
            return Judgement(tolerance, 0.0)
        shown = (actual**power - shift) * used
        off = max(0.0, min(products) - shown, shown - max(products))
        tail = noise.log10_tail(max(0.0, off - slack))
        probability = tail if mean is not None else min(0.0, log10_sum(tail, -each))
        return Judgement(tolerance, probability)

    def residue(
        self, e: Estimate, lead: str, truth: float, mean: float | None, actual: float
    ) -> tuple[float, float, bool] | None:
        """Return |noise| and its slack in steps of the leading noise, and whether that is alone."""
        if e.kind in ("count", "sum"):
            weights = self._linear_weights(e)
            if lead not in weights:
                return None
            noise, sign = self._noise(weights), 1.0 if e.kind == "count" else e.centre
            slack = self._floats(e, truth) + self._rounded(e, truth, noise)
            shown, unit = abs(actual - truth - sign * self._clipped(e)), abs(weights[lead])
        else:
            if e.kind == "mean":
                total, at, power, clipped = e.total, truth - e.centre, 1, actual in (e.lower, e.upper)
                value = actual - e.centre
            else:
                power = 1 if e.kind == "variance" else 2
                clipped = actual in (0.0, e.upper)
                if mean is None or e.total is None:
                    return None
                total, at = e.squares, truth**power - e.square_centre + (mean - e.centre) ** 2
                value = actual**power - e.square_centre + (self.values[e.total] / self._used_count(e)) ** 2
            if clipped or total != lead:
                return None
            noise, slack = self._ratio_noise(e, total, at), self._ratio_slack(e, total, at)
            shown, unit = abs(value * self._used_count(e) - at * self._count(e)), self.steps[total]
        return shown / unit, slack / unit, len(noise.terms) == 1

    def _linear_weights(self, e: Estimate) -> dict[str, float]:
        sign = 1.0 if e.kind == "count" else e.centre
        weights = {e.total: 1.0, e.count: sign, e.absent: -sign}
        return {n: w * self.steps[n] for n, w in weights.items() if n is not None and w}

    def _ratio_noise(self, e: Estimate, total: str | None, at: float) -> NoiseSum:
        weights = {total: 1.0, e.count: -at, e.absent: at}
        return self._noise({n: w * self.steps[n] for n, w in weights.items() if n is not None and w})

    def _noise(self, weights: Mapping[str, float]) -> NoiseSum:
        return NoiseSum(tuple((w, self.laws[n]) for n, w in weights.items()))

    def _count(self, e: Estimate) -> float:
        assert e.count is not None
        return self.values[e.count] - (self.values[e.absent] if e.absent is not None else 0.0)

    def _clipped(self, e: Estimate) -> float:
        """What taking a negative number of missing values as 0 adds to the count; at most 0."""
        return min(self.values[e.absent], 0.0) if e.absent is not None else 0.0

    def _used_count(self, e: Estimate) -> float:
        return max(self._count(e) + self._clipped(e), 1.0)

    def _mean_range(self, e: Estimate, mean: float | None, k: float) -> tuple[float, float]:
        """Return where the true mean lies, from the centre of its bounds."""
        if mean is not None:
            return mean - e.centre, mean - e.centre
        assert e.total is not None
        count, total = self._count(e), self.values[e.total]
        reach = self._ratio_noise(e, e.total, e.reach).tolerance(k) + self._ratio_slack(e, e.total, e.reach)
        if count <= 0:
            return -e.reach, e.reach
        low, high = ((total + side * reach) / count for side in (-1, 1))
        return min(max(low, -e.reach), e.reach), max(min(high, e.reach), -e.reach)

    def _ratio_slack(self, e: Estimate, total: str | None, at: float) -> float:
        """Values are rounded to their grid, and so is a unit that is scaled down: a step for each row."""
        assert total is not None
        step = self.steps[total]
        if total == e.squares and e.total is not None:
            step += 2 * e.reach * self.steps[e.total]
        count = abs(self._count(e))
        return count * step + _FLOATS * (abs(at) * count + abs(self.values[total]))

    def _floats(self, e: Estimate, truth: float) -> float:
        """Beyond 2^53 a float does not hold each whole number; below, sums of them are exact."""
        size = abs(truth) + sum(abs(self.values[n]) for n in e.coordinates)
        exact = e.kind == "count" and size < 2**53
        return 0.0 if exact else 1e-15 * size * (1 + abs(e.centre if e.kind == "sum" else 0.0))

    def _rounded(self, e: Estimate, truth: float, noise: NoiseSum) -> float:
        """An output that is shown as a whole number is moved by at most one half."""
        if not e.whole:
            return 0.0
        on_grid = all((w % 1) == 0 for w, _ in noise.terms) and float(truth).is_integer()
        return 0.0 if on_grid else 0.5


def _farthest(truth: float, ends: Sequence[float], lower: float, upper: float) -> float:
    """Return how far from the truth an output may be, which is clamped if the truth is within bounds."""
    if lower <= truth <= upper:
        ends = [min(max(end, lower), upper) for end in ends]
    return max(abs(end - truth) for end in ends)
