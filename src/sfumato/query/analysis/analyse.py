"""A question and a grid of limits to what each of them costs: planned first, then one look at the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.errors import QueryError
from sfumato.exact import Number
from sfumato.noise.values import Floats
from sfumato.query.analysis.atoms import QUANTILE, Atom, Weights, atoms_of, coordinates
from sfumato.query.analysis.contributions import Contributed, Contributions, Pair, Share
from sfumato.query.analysis.errors import DRAWS, Numbers, chances
from sfumato.query.analysis.exact import check, columns, exact
from sfumato.query.analysis.limits import Limits, grid
from sfumato.query.analysis.quantiles import OfQuantiles, exact_quantiles, ranked_columns
from sfumato.query.analysis.result import OWN_COLUMNS, Cell, NonPrivateAnalysis, Point
from sfumato.query.engine import Engine
from sfumato.query.exact import ALL_GROUPS, ExactQuery
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.planning import make_plan
from sfumato.query.previews.groups import MadeUpGroups
from sfumato.query.query import Query

# Groups times combinations, which are held in memory.
MOST_CELLS = 20_000_000


def analysed(
    query: Query,
    engine: Engine[Any],
    groups: int | Sequence[int] | None,
    rows: int | Sequence[int] | None,
    total_rows: int | Sequence[int] | None,
    bounds: Mapping[str, Sequence[tuple[Number, Number]]] | None,
    options: Mapping[str, Any],
) -> NonPrivateAnalysis:
    """Return what limits and bounds cut, and what noise adds, as `Question.analyze`.

    Args:
        query, engine: what is asked, and what reads the rows.
        groups, rows, total_rows, bounds: what is compared.
        options: of a release.
    """
    check(query)
    if taken := {name.casefold() for name in query.keys} & OWN_COLUMNS:
        raise QueryError(
            f"analyze: {taken.pop()!r} is a column of the analysis; group by a column of another name, which "
            "with_columns derives"
        )
    settings = [
        _Setting(limits, make_plan(limits.of(query), **options), engine)
        for limits in grid(query, groups, rows, total_rows, bounds)
    ]
    asked = _asked(query, settings)
    found = engine.contributions(asked)
    if found.groups * len(settings) > MOST_CELLS:
        raise QueryError(
            f"analyze: {found.groups:,} groups times {len(settings)} combinations are more than "
            f"{MOST_CELLS:,}; compare fewer, or filter the rows"
        )
    truth = exact(query, asked.columns, found) | exact_quantiles(query, found)
    points = tuple(
        setting.point(asked.shares.index(setting.share), found, truth, query.private_groups)
        for setting in settings
    )
    return NonPrivateAnalysis(found.keys, query.output_names, points, query.private_groups)


@dataclass(frozen=True)
class _Setting:
    """A combination of limits with its plan.

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
        """What of a unit counts in each of its groups."""
        query = self.plan.query
        if query.total_rows is not None:
            return Share(None, total=query.total_rows)
        public = query.public_keys
        within = isinstance(public, pa.Table) and query.groups >= public.num_rows
        return Share(None) if within or not query.keys else Share(query.groups, query.scaled)

    @cached_property
    def made(self) -> dict[str, Weights]:
        """Of what each number is made."""
        query, statistics = self.plan.query, self.plan.requirements.statistics
        return {name: made for s in statistics for name, made in coordinates(s, query).items()}

    @property
    def pairs(self) -> Iterator[Pair]:
        """Numbers that an output is made of together."""
        for e in self.plan.requirements.estimates:
            yield from combinations_with_replacement(sorted(atoms_of(e, self.made), key=repr), 2)

    @cached_property
    def draws(self) -> dict[str, Floats]:
        """Draws of the noise of each number."""
        made = MadeUpGroups.of(self.plan, self.engine, 1, 1, DRAWS)
        return {name: noise[:DRAWS] for name, noise in made.draws.items()}

    def point(self, share: int, found: Contributed, truth: Mapping[str, Floats], private: bool) -> Point:
        """Return what is expected of each output."""
        atoms, moments = found.atoms[share], found.moments[share]
        numbers = Numbers(self.plan, self.made, atoms, moments, lambda: self.draws)
        estimates = self.plan.requirements.estimates
        quantiles = [e for e in estimates if e.kind == QUANTILE]
        known = {e.name: numbers.expected(e) for e in estimates if e not in quantiles}
        if quantiles:
            sums = {name: numbers.exact(name) for name in self.made}
            known |= OfQuantiles(self.plan, share, found, sums).expected(quantiles)
        cells = {}
        for e in estimates:
            expected, exact_one = known[e.name], truth[e.name]
            bias, hidden = expected.value - exact_one, private and e.kind in ("count", "sum")
            cells[e.name] = Cell(exact_one, bias, expected.choice, expected.noise, hidden)
        return Point(self.limits, chances(self.plan.selection, *found.kept[share]), cells)


def _asked(query: Query, settings: Sequence[_Setting]) -> Contributions:
    """Put what all settings need together, each thing once."""
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
