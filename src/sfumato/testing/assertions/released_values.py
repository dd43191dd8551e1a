"""The released values of a release by group, beside the values that an assertion expects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import ParameterError, RefusalError
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.noise.laws import Gaussian
from sfumato.noise.series_noise import SeriesGaussian
from sfumato.testing.assertions.compared_values import (
    Cells,
    Group,
    by_entry,
    is_number,
    is_table,
    label,
    numbers,
    parse_group,
    plain_key,
    read,
    rows,
    select_cells,
    written_out,
)
from sfumato.testing.assertions.noise_spread import KNormLaw
from sfumato.testing.assertions.output_tolerances import (
    LINEAR,
    GroupTolerances,
    OutputTolerance,
    Residue,
    log10_tail,
)

if TYPE_CHECKING:
    from sfumato.plan.plan import Plan
    from sfumato.query.aggregates import Estimate
    from sfumato.release.release import Release

_LOG2 = math.log10(2)
_COMMON = "all units"  # of Gaussian noise that all groups share, in what a count shows
_FINE = 2.0**-9  # more than its fine steps move it, and than its law is wider for them, as a share of it
_TOGETHER = (
    "with totals, the noise of a group depends on all other groups. Call assert_noisy on the same "
    "question without totals, and assert_approx_equal on this one"
)
_QUANTILE = (
    "{output} is a quantile, so its error depends on the rows around it. Pass the group's own values "
    "instead, one for each row that counts, or the leaf counts of a recorder, or a tolerance such as "
    "tolerance={{{output!r}: 2.0}}"
)
_NO_LAW = (
    "{output} is a {kind}, for which no tolerance is derived. Compare its parts, or use its error "
    "bars, release.errors(confidence), or a tolerance such as tolerance={{{output!r}: 2.0}}"
)
# Outputs that show a noise of their own each, in the order in which it is read off them.
SHOWN = ("count", "sum", "vector_sum", "mean", "variance", "stddev")


def is_release(value: object) -> bool:
    """Whether a value is a release of sfumato, without an import of it."""
    return any(
        c.__name__ == "Release" and c.__module__ == "sfumato.release.release" for c in type(value).__mro__
    )


class ReleasedCells:
    """The released values of a release by group, with the noisy statistics behind them.

    Args:
        release: drawn here if it was not yet looked at.
    Raises:
        RefusalError: the release was streamed to a file, which keeps outputs alone.
    """

    def __init__(self, release: Release) -> None:
        table, batches = release.to_arrow(), release._batches
        if batches is None:
            raise RefusalError(
                "this release was streamed to a file, and its noisy statistics were not kept. Call "
                "to_arrow() before write()"
            )
        self.plan: Plan = release.plan
        measurement = release.plan.measurement
        noise = measurement.noise
        self.k_norm: KNormLaw | None = None
        if isinstance(noise, JointNoise | SeparateNoise):
            self.k_norm = KNormLaw(noise, tuple(measurement.names))
        self.keys: tuple[str, ...] = release.plan.query.shown_keys
        outputs = release.plan.requirements.estimates
        self.outputs: tuple[Estimate, ...] = outputs
        self.cells: Cells = written_out(rows(table.to_pylist(), "actual", self.keys), outputs, "actual")
        places = ((batch, row) for batch in batches for row in range(batch.keys.num_rows))
        order = (tuple(plain_key(r[k]) for k in self.keys) for r in table.select(list(self.keys)).to_pylist())
        self.places: dict[Group, tuple[Any, int]] = {}
        if self.keys:
            self.places.update(zip(order, places, strict=True))
        else:
            self.places[()] = next(places)
        self.estimates: dict[str, Estimate] = by_entry(outputs)
        quantiles = (e.name for e in self.estimates.values() if e.kind == "quantile")
        self.quantiles: tuple[str, ...] = tuple(quantiles)

    @property
    def private_groups(self) -> bool:
        """Whether a correct release may leave out a group."""
        return self.plan.selection is not None

    def read_expected(self, expected: Any, name: str, columns: Sequence[str] | None = None) -> Cells:
        """Read the values that an assertion expects of this release, in any shape that fits.

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
        elif is_number(expected) and not keys and len(self.outputs) == 1:
            cells = Cells("number", {(): {self.outputs[0].name: expected}})
        else:
            raise ParameterError(name, expected, f"a table or mapping of {self.described}")
        cells = select_cells(written_out(cells, self.outputs, name), columns, tuple(self.estimates))
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

    def _walk(self, group: Group, output: str, value: object, name: str) -> object:
        if is_number(value):
            return value
        # Loaded here, as they need what a release has loaded already.
        from sfumato.query.aggregates.quantile_aggregates import CdfQuantile, ChosenQuantile
        from sfumato.testing.assertions.quantile_tolerances import Chosen, Ranked, Walk, leaf_counts

        e = self.estimates[output]
        name = f"{name} of {label(group)} {output}"
        if isinstance(e, ChosenQuantile):
            choice = next(c for c in self.plan.measurement.choices if c.leaves.names[0] == e.total)
            return Chosen.from_choice(choice, e, value, name)
        tree: Any = next(s for s in self.plan.requirements.statistics if e.total in s.names)
        law = self.plan.laws[tree.names[0]]
        if isinstance(e, CdfQuantile):
            return Ranked.from_values(tree, law, e.rank, value, name)
        counts = leaf_counts(tree, value, name)
        return Walk(counts, law, e.rank, e.lower, e.upper)

    @property
    def described(self) -> str:
        """The released outputs and keys, for messages."""
        outputs = ", ".join(e.name for e in self.outputs)
        return f"{outputs} by {', '.join(self.keys)}" if self.keys else outputs

    def _mapping(self, expected: Mapping[Any, Any], name: str) -> Cells:
        if not self.keys:
            return Cells("mapping", {(): {str(o): v for o, v in expected.items()}})
        values = {}
        for key, value in expected.items():
            if isinstance(value, Mapping):
                values[parse_group(key)] = {str(o): v for o, v in value.items()}
            elif len(self.outputs) == 1:
                values[parse_group(key)] = {self.outputs[0].name: value}
            else:
                raise ParameterError(
                    name,
                    value,
                    f"a mapping of outputs for each group, as the release has {', '.join(self.estimates)}",
                )
        return Cells("mapping", values)

    def tolerance_for(
        self, group: Group, output: str, expected: Mapping[str, Any], actual: float, k: float
    ) -> OutputTolerance:
        """Return the tolerance of a released value, and how improbable a value as far off is.

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
            judged: OutputTolerance = expected[output].tolerance_for(actual, k)
            return judged
        at = GroupTolerances(self.plan, *self.places[group])
        if e.kind in LINEAR and (e.linear or e.entries):
            return at.linear(e, truth[output], actual, k)
        if e.kind == "cumulative total":
            return at.total(e, truth[output], actual, k)
        if e.kind == "share":
            return at.share(e, truth[output], actual, k)
        if e.kind == "proportion":
            return at.proportion(e, truth[output], actual, k)
        if e.kind in ("mean", "vector_mean"):
            return at.mean(e, truth[output], actual, k)
        given: Any = e
        if e.kind == "ratio" and all(one.linear is not None for one in given.both):
            return at.ratio(e, truth[output], actual, k)
        if e.kind not in ("variance", "stddev"):
            raise RefusalError(_NO_LAW.format(output=output, kind=e.kind))
        return at.variance(e, truth[output], self._paired_mean(e, truth), actual, k)

    def residues(self, truth: Mapping[Group, Mapping[str, float]], complete: bool) -> Iterator[Residue]:
        """Yield the noise that released values show, each residue with a noise of its own.

        Args:
            truth: expected values by group, then output.
            complete: whether no expected group is missing. Else a number of units that decided
                whether its group is shown says nothing of the noise, and is left out.
        """
        if self.plan.query.totals is not None:
            raise RefusalError(_TOGETHER)
        # Noise that is drawn together is judged of groups that are surely shown: see `surely_shown`.
        apart = self.k_norm is None
        conditioned = {"units"} if self._selects_on_noise and not complete and apart else set()
        # Of a time step, given earlier ones, the noise is its own draw and what these say of it.
        own_laws, first = self._separate_laws, self.plan.query.series is None
        for group, expected in self._in_order(truth):
            at, used = GroupTolerances(self.plan, *self.places[group]), set(conditioned)
            shown = [output for output in expected if self.estimates[output].kind in SHOWN]
            for output in sorted(shown, key=lambda o: SHOWN.index(self.estimates[o].kind)):
                e = self.estimates[output]
                fresh = [c for c in (e.squares, e.total, e.count, e.null_count) if c and c not in used]
                used |= set(() if e.entries else e.coordinates)  # each entry has a noise of its own
                actual = self.cells.values[group][output]
                if not fresh or not isinstance(actual, (int, float)):
                    continue
                mean = self._paired_mean(e, expected)
                found = at.residue(group, e, fresh[0], expected[output], mean, actual)
                if found is None:
                    continue
                if fresh[0] in own_laws:
                    found = replace(found, half=found.half + _FINE * (1 + found.size))
                    if not first:  # given what is in common, which makes it wider
                        law, others = own_laws[fresh[0]], {**found.others, _COMMON: 1.0}
                        found = replace(found, lead=law, others=others)
                    first = False
                yield found

    def _in_order(
        self, truth: Mapping[Group, Mapping[str, float]]
    ) -> list[tuple[Group, Mapping[str, float]]]:
        """Return the expected values of released groups, earlier time steps first."""
        found = [(group, expected) for group, expected in truth.items() if group in self.places]
        series = self.plan.query.series
        if series is None or not found:
            return found
        batch, _ = self.places[found[0][0]]
        at = {row: i for i, row in enumerate(series.order(batch.keys.columns).ravel().tolist())}
        return sorted(found, key=lambda item: at[self.places[item[0]][1]])

    def surely_shown(
        self, truth: Mapping[Group, Mapping[str, float]], k: float
    ) -> dict[Group, Mapping[str, float]]:
        """Return the groups that are released but for a probability of 10^-k together.

        None where one of them is: which groups are judged must not depend on the noise.
        """
        least = k + math.log10(max(len(truth), 1))
        found = {}
        for group, expected in truth.items():
            chance = self.log10_missing(group, expected)
            if chance is not None and chance <= -least:
                found[group] = expected
        return found if all(group in self.places for group in found) else {}

    def log10_missing(self, group: Group, truth: Mapping[str, float]) -> float | None:
        """Return log10 of the probability that a group is not released; None where it is not known.

        It is known where the expected values tell the number of units.
        """
        units = [
            truth[o]
            for o, e in self.estimates.items()
            if o in truth and e.kind == "count" and e.count == "units" and not e.null_count
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
        return log10_tail(rule.law, count - least + 0.5) - _LOG2

    @property
    def _separate_laws(self) -> dict[str, Gaussian]:
        """The laws of each released number's own part, of Gaussian noise with a part in common."""
        noise: Any = self.plan.measurement.noise
        if isinstance(noise, SeriesGaussian):
            return dict(zip(self.plan.requirements.body.names, map(Gaussian, noise.scales), strict=True))
        if not isinstance(noise, CentredGaussian):
            return {}
        parts = zip(self.plan.requirements.body.names, noise.scales, noise.weights, strict=True)
        return {name: Gaussian(scale) for name, scale, weight in parts if weight}

    @property
    def _selects_on_noise(self) -> bool:
        return self.plan.selection is not None and hasattr(self.plan.selection, "law")

    def _paired_mean(self, e: Estimate, truth: Mapping[str, float]) -> float | None:
        """Return the expected mean beside a released variance, where there is one."""
        for output, other in self.estimates.items():
            if other.kind == "mean" and (other.total, other.count) == (e.total, e.count) and output in truth:
                return truth[output]
        return None
