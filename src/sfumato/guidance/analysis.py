"""Analysis of a query for the data owner: each combination of limits is planned, then rows are read once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, QueryError, nearest
from sfumato.exact import Number, positive_int
from sfumato.guidance.expected_error import DRAWS, ExpectedOutputs, chances
from sfumato.guidance.non_private_analysis import OWN_COLUMNS, Bounds, Cell, Limits, NonPrivateAnalysis, Point
from sfumato.guidance.quantile_errors import ExpectedQuantiles, exact_quantiles, ranked_columns
from sfumato.guidance.simulated_groups import SimulatedGroups
from sfumato.guidance.unit_contributions import (
    QUANTILE,
    Atom,
    Column,
    Contributed,
    Contributions,
    Pair,
    Share,
    Weights,
    collect_atoms,
    coordinates,
)
from sfumato.noise.law_tails import Floats
from sfumato.plan.plan import Plan
from sfumato.plan.planning import make_plan
from sfumato.query.aggregates import (
    Aggregate,
    CountPrivacyUnits,
    CountRows,
    Derived,
    Mean,
    Quantiles,
    StandardDeviation,
    Sum,
    Variance,
)
from sfumato.query.aggregates.aggregate import BoundedAggregate, check_bounds
from sfumato.query.engine_protocol import ALL_GROUPS, Engine, ExactQuery
from sfumato.query.query import Query

# Of others no expectation is known that follows from sums of what units bring.
KNOWN = (CountPrivacyUnits, CountRows, Sum, Mean, Variance, StandardDeviation, Derived, Quantiles)


def check(query: Query) -> None:
    """Refuse to analyze a query with aggregates whose expected value does not follow from sums.

    Raises:
        QueryError: there is something else than counts, sums, means, variances, and ratios or differences of
            these, and quantiles.
    """
    for name, aggregate in query.aggregates:
        if not isinstance(aggregate, KNOWN):
            raise QueryError(
                f"analyze: the expected error of {name} does not follow from sums. Analyze counts, "
                "count_units, sums, means, variances, stddevs, ratios and differences of these, or "
                "quantiles; or call question.preview(...)"
            )
    quantiles = {n for name, a in query.aggregates if isinstance(a, Quantiles) for n in a.outputs(name)}
    for name, aggregate in query.aggregates:
        if isinstance(aggregate, Derived) and quantiles & set(aggregate.inputs):
            raise QueryError(
                f"analyze: {name} is computed from a quantile, and its expected error is not known. "
                "Leave it out"
            )
    if query.added_up:
        raise QueryError(
            "analyze: totals and cumulative totals are not analyzed. Analyze the groups without them"
        )


def columns(queries: tuple[Query, ...]) -> tuple[Column, ...]:
    """Return the columns whose exact values an analysis needs, with the widest bounds that are compared."""
    found: dict[str, Column] = {}
    for query in queries:
        for _, aggregate in query.measured:
            if isinstance(aggregate, BoundedAggregate):
                ends, squares = (float(aggregate.lower), float(aggregate.upper)), False
                if (known := found.get(aggregate.column)) is not None:
                    squares = known.squares
                    if known.lower < known.upper:  # else its values are counted alone, so far
                        ends = min(ends[0], known.lower), max(ends[1], known.upper)
                squares = squares or aggregate.needs_squares
                found[aggregate.column] = Column(aggregate.column, *ends, squares=squares)
            elif isinstance(aggregate, CountRows) and aggregate.column is not None:
                numeric = query.schema[aggregate.column].kind.numeric
                found.setdefault(aggregate.column, Column(aggregate.column, numeric=numeric))
    return tuple(found.values())


def exact(query: Query, known: tuple[Column, ...], contributed: Contributed) -> dict[str, Floats]:
    """Return the exact outputs of each group for an analysis: no limits, no bounds, and no quantiles."""
    places = {column.name: i for i, column in enumerate(known)}
    outputs: dict[str, Floats] = {}
    with np.errstate(all="ignore"):
        for name, aggregate in query.measured:
            if not isinstance(aggregate, Quantiles):
                outputs[name] = _exact(aggregate, places, known, contributed)
        for name, aggregate in query.aggregates:
            if isinstance(aggregate, Derived):
                top, bottom = (side.value(outputs) for side in aggregate.fraction)
                outputs[name] = top / np.where(bottom == 0, np.nan, bottom)
    return outputs


def _exact(
    aggregate: Aggregate, places: Mapping[str, int], known: tuple[Column, ...], contributed: Contributed
) -> Floats:
    if isinstance(aggregate, CountPrivacyUnits):
        return contributed.units
    if isinstance(aggregate, CountRows) and aggregate.column is None:
        return contributed.rows
    (column,) = aggregate.columns
    i = places[column]
    valued, total, squares, centre = (
        contributed.valued[i],
        contributed.sums[i],
        contributed.squares[i],
        known[i].centre,
    )
    if isinstance(aggregate, CountRows):
        return valued
    if isinstance(aggregate, Sum):
        return total + centre * valued
    if isinstance(aggregate, Mean):
        return total / np.where(valued, valued, np.nan) + centre
    mean = total / np.where(valued, valued, np.nan)
    variance = np.maximum(squares / np.where(valued, valued, np.nan) - mean**2, 0.0)
    return variance if isinstance(aggregate, Variance) else np.asarray(np.sqrt(variance))


# Groups times combinations, which are held in memory.
MAX_CELLS = 20_000_000


def analysed(
    query: Query,
    engine: Engine[Any],
    groups: int | Sequence[int] | None,
    rows: int | Sequence[int] | None,
    total_rows: int | Sequence[int] | None,
    bounds: Mapping[str, Sequence[tuple[Number, Number]]] | None,
    options: Mapping[str, Any],
) -> NonPrivateAnalysis:
    """Return the analysis of a query: what limits and bounds cut, and what noise adds, by limits.

    Args:
        query, engine: what is asked, and what reads the rows.
        groups, rows, total_rows, bounds: what is compared.
        options: of a release.
    """
    check(query)
    if taken := {name.casefold() for name in query.keys} & OWN_COLUMNS:
        raise QueryError(
            f"analyze: {taken.pop()!r} is a column of the analysis. Group by a column of another "
            "name, made with with_columns"
        )
    settings = [
        _Setting(limits, make_plan(limits._limited(query), **options), engine)
        for limits in grid(query, groups, rows, total_rows, bounds)
    ]
    asked = _collect_contributions(query, settings)
    found = engine.contributions(asked)
    if found.groups * len(settings) > MAX_CELLS:
        raise QueryError(
            f"analyze: {found.groups:,} groups times {len(settings)} combinations are more than "
            f"{MAX_CELLS:,}. Compare fewer, or filter the rows"
        )
    truth = exact(query, asked.columns, found) | exact_quantiles(query, found)
    points = tuple(
        setting.point(asked.shares.index(setting.share), found, truth, query.private_groups)
        for setting in settings
    )
    return NonPrivateAnalysis(found.keys, query.output_names, points, query.private_groups)


@dataclass(frozen=True)
class _Setting:
    """One combination of limits of an analysis, with its plan.

    Args:
        limits: what is compared.
        plan: the noise of a release with these.
        engine: what evaluates made-up groups.
    """

    limits: Limits
    plan: Plan
    engine: Engine[Any]

    @property
    def share(self) -> Share:
        """The share of a unit that counts in each of its groups under the limits of this setting."""
        query = self.plan.query
        if query.total_rows is not None:
            return Share(None, total=query.total_rows)
        public = query.public_keys
        within = isinstance(public, pa.Table) and query.groups >= public.num_rows
        return Share(None) if within or not query.keys else Share(query.groups, query.scaled)

    @cached_property
    def made(self) -> dict[str, Weights]:
        """The contributions of which each noisy statistic of this setting is made."""
        query, statistics = self.plan.query, self.plan.requirements.statistics
        return {name: made for s in statistics for name, made in coordinates(s, query).items()}

    @property
    def pairs(self) -> Iterator[Pair]:
        """Pairs of contributions of which the analysis needs covariances, as one output depends on both."""
        for e in self.plan.requirements.estimates:
            yield from combinations_with_replacement(sorted(collect_atoms(e, self.made), key=repr), 2)

    @cached_property
    def draws(self) -> dict[str, Floats]:
        """Draws of the noise of each statistic of this setting's plan."""
        made = SimulatedGroups.draw(self.plan, self.engine, 1, 1, DRAWS)
        return {name: noise[:DRAWS] for name, noise in made.draws.items()}

    def point(
        self, share: int, contributed: Contributed, truth: Mapping[str, Floats], private: bool
    ) -> Point:
        """Return the expected errors of all outputs for one combination of limits of the analysis."""
        atoms, moments = contributed.atoms[share], contributed.moments[share]
        numbers = ExpectedOutputs(self.plan, self.made, atoms, moments, lambda: self.draws)
        estimates = self.plan.requirements.estimates
        quantiles = [e for e in estimates if e.kind == QUANTILE]
        known = {e.name: numbers.expected(e) for e in estimates if e not in quantiles}
        if quantiles:
            sums = {name: numbers.exact(name) for name in self.made}
            known |= ExpectedQuantiles(self.plan, share, contributed, sums).expected(quantiles)
        cells = {}
        for e in estimates:
            expected, exact_one = known[e.name], truth[e.name]
            bias, hidden = expected.value - exact_one, private and e.kind in ("count", "sum")
            cells[e.name] = Cell(exact_one, bias, expected.choice, expected.noise, hidden)
        return Point(self.limits, chances(self.plan.selection, *contributed.kept[share]), cells)


def _collect_contributions(query: Query, settings: Sequence[_Setting]) -> Contributions:
    """Collect the contributions that all settings of an analysis need, each once."""
    atoms: dict[Share, dict[Atom, None]] = {}
    pairs: dict[Share, dict[Pair, None]] = {}
    for setting in settings:
        share = setting.share
        atoms.setdefault(share, {}).update(dict.fromkeys(a for made in setting.made.values() for a in made))
        found = pairs.setdefault(share, {})
        if share.sampled:
            found.update(dict.fromkeys(setting.pairs))
    given = columns(tuple(setting.plan.query for setting in settings))
    shares = tuple(atoms)
    return Contributions(
        ExactQuery(query.steps, query.unit, query.keys, query.public_keys, ALL_GROUPS),
        given,
        shares,
        tuple(map(tuple, atoms.values())),
        tuple(map(tuple, pairs.values())),
        ranked_columns([(shares.index(one.share), one.plan.query) for one in settings], given),
    )


LARGEST_LIMIT = 10**9
MAX_POINTS = 400


def grid(
    query: Query,
    groups: int | Sequence[int] | None,
    rows: int | Sequence[int] | None,
    total_rows: int | Sequence[int] | None,
    bounds: Mapping[str, Sequence[tuple[Number, Number]]] | None,
) -> tuple[Limits, ...]:
    """Return the grid of an analysis: all combinations of the limits and bounds that are compared.

    Raises:
        ParameterError: a limit is not a whole number from 1 to 1,000,000,000, bounds are not admissible, or
            there are more than 400 combinations.
        QueryError: nothing in the question depends on what is compared.
    """
    if query.total_rows is None and total_rows is not None:
        raise QueryError(
            "analyze: total_rows is compared, but the question limits groups and rows. Write "
            "bound(total_rows=...), or compare groups=... and rows=..."
        )
    if query.total_rows is not None and (groups is not None or rows is not None):
        raise QueryError(
            "analyze: the question limits a unit's rows in all groups together, so no other limit "
            "applies. Compare total_rows=..., or write bound(groups=..., rows=...)"
        )
    if groups is not None and not query.keys:
        raise QueryError("analyze: groups is compared, but there are no groups. Leave it out")
    if rows is not None and not any(a.needs_rows for _, a in query.aggregates):
        raise QueryError("analyze: rows is compared, but no output depends on it. Leave it out")
    axes: list[Sequence[Any]] = [
        _limits("groups", groups, query.max_groups),
        _limits("rows", rows, query.max_rows),
        _limits("total_rows", total_rows, query.total_rows),
    ]
    given: Any = {} if bounds is None else bounds
    names = _bounded_names(query, given)
    axes += [_bounds(name, given[name]) for name in names]
    size = 1
    for axis in axes:
        size *= len(axis)
    if size > MAX_POINTS:
        raise ParameterError("analyze: the number of combinations", size, f"at most {MAX_POINTS}")
    return tuple(
        Limits(of_groups, of_rows, tuple(zip(names, of_values, strict=True)), of_all)
        for of_groups, of_rows, of_all, *of_values in product(*axes)
    )


def _limits(name: str, given: Any, own: int | None) -> list[int | None]:
    if given is None:
        return [own]
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__iter__"):
        given = [given]
    found = [positive_int(value, name) for value in given]
    if not found:
        raise ParameterError(name, given, "one limit or more, or left out")
    for value in found:
        if value > LARGEST_LIMIT:
            raise ParameterError(name, value, f"at most {LARGEST_LIMIT:,}, beyond which it limits nothing")
    return list(dict.fromkeys(found))


def _bounded_names(query: Query, bounds: object) -> list[str]:
    if not isinstance(bounds, Mapping):
        raise ParameterError("bounds", bounds, 'by name of an output, as {"visits": [(0, 10), (0, 30)]}')
    asked = dict(query.aggregates)
    for name in bounds:
        if name not in asked:
            near = nearest(str(name), list(asked))
            hint = f"; did you mean {near!r}?" if near else f". There are: {', '.join(asked)}"
            raise QueryError(f"analyze: bounds has no output {str(name)!r}{hint}")
        if not isinstance(asked[name], BoundedAggregate):
            raise QueryError(f"analyze: bounds are given for {name!r}, which has none. Leave them out")
    return [name for name in asked if name in bounds]


def _bounds(name: str, value: Any) -> list[Bounds]:
    form = "pairs of lower and upper, such as [(0, 10), (0, 30)]"
    pairs = list(value) if isinstance(value, (list, tuple)) else []
    if pairs and not any(isinstance(pair, (list, tuple)) for pair in pairs):
        pairs = [tuple(pairs)]  # a single one
    if not pairs or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise ParameterError(f"bounds of {name}", value, form)
    return list(dict.fromkeys(check_bounds(f"bounds of {name}:", *pair) for pair in pairs))
