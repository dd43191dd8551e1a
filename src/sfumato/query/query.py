"""A query as plain data: checked against declared columns, without a source and without rows."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from copy import copy
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, ParameterError, QueryError, nearest
from sfumato.exact import Number, as_fraction
from sfumato.query.aggregates import (
    Aggregate,
    Cumulative,
    Derived,
    Quantiles,
    Unbounded,
    check_aggregates,
)
from sfumato.query.engine_protocol import BroughtKeys, ExactQuery
from sfumato.query.error_bars import REMEDY, Bias
from sfumato.query.group_totals import GROUPING, GroupingSets, Series, Totals, get_series, get_totals
from sfumato.query.option_names import BeyondChoice
from sfumato.query.schema import Schema, Step
from sfumato.transformations import Statistic

if TYPE_CHECKING:
    pass

# An output that matters less than this beside another one is better left out.
LARGEST_WEIGHT = 1000


# What estimates the bias from limits and bounds, where that is not an option of the release.
_ESTIMATES = {"Spark": "question.diagnose(epsilon=0.05)", "Beam": ""}


@dataclass(frozen=True)
class Query:
    """A query as plain data: rows, groups, limits and aggregates, checked against declared columns.

    Args:
        engine: the name of what reads the rows.
        schema: the columns after the steps.
        unit: the privacy unit's column.
        steps: filters and derived columns, in order.
        keys: the columns to group by.
        public_keys: a table with one row for each public group, or what brings them; None for private groups.
        max_groups, max_rows: limits of groups per unit, and of rows per unit and group; None where not given.
        aggregates: what is asked of each group, by name.
        notes: what whoever asks should know of the source.
        weights: how much aggregates matter, by name; 1 where not given.
        beyond: how a unit counts that is in more groups than the limit.
        total_rows: the limit of rows per unit in all groups together, in the place of the other two; or None.
        series: which groups are time steps, where cumulative totals are asked; found from public keys.
        grouping: sets of keys of which totals are asked; None where they are not.
        totals: which totals these are; found from public keys.
        shared: whether keys of private groups alone are asked, and a unit shares a weight among its groups.
    Raises:
        QueryError: an aggregate has no name, cannot be asked of its column, or lacks a limit, or there is one
            beside that of rows in all groups; a weight is of none of them; or a unit is to count in part in
            groups that are not public.
        ParameterError: a weight is not from 1/1000 to 1000.
    """

    engine: str
    schema: Schema
    unit: str
    steps: tuple[Step, ...]
    keys: tuple[str, ...]
    public_keys: pa.Table | BroughtKeys | None
    max_groups: int | None
    max_rows: int | None
    aggregates: tuple[tuple[str, Aggregate], ...]
    notes: tuple[str, ...] = ()
    weights: tuple[tuple[str, Number], ...] = ()
    beyond: BeyondChoice = "auto"
    total_rows: int | None = None
    series: Series | None = None
    grouping: GroupingSets | None = None
    totals: Totals | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        if self.shared:
            self._check_shared()
        elif not self.aggregates:
            raise QueryError("agg: no aggregate is given. Name at least one, such as n=sf.count()")
        check_aggregates(self.aggregates)
        for name, aggregate in self.aggregates:
            aggregate.check(name, self.schema)
            if isinstance(aggregate, Unbounded):
                raise aggregate.refusal()
        if self.keys and (whole := next((n for n, a in self.aggregates if not a.of_groups), None)):
            raise QueryError(
                f"agg: {whole}: its sizes are those of the whole sample, not of a group. Leave "
                "group_by out, and use filter with the sizes of one group"
            )
        _check_names([*self.shown_keys, *self.output_names])
        self._check_derived()
        weights = check_weights(self.weights, [name for name, _ in self.aggregates])
        object.__setattr__(self, "weights", weights)
        if self.total_rows is not None:
            self._check_total_rows()
        elif self.keys and self.max_groups is None:
            raise QueryError(
                "groups is missing: in how many groups can one privacy unit count? Write "
                ".bound(groups=..., rows=...)"
            )
        if self.private_groups and self.beyond == "scale":
            raise QueryError(
                "bound: beyond='scale' needs public groups, in which a unit over the limit is scaled "
                "down. Give them with group_by(..., keys=[...]), or leave beyond out to choose "
                "groups at random"
            )
        if self.beyond == "scale" and (whole := self._unscalable_aggregate):
            raise QueryError(
                f"bound: beyond='scale' scales contributions down, which {whole} does not support. "
                "Write beyond='sample', or method='shares' for count_distinct"
            )
        if self.total_rows is self.max_rows is None and any(a.needs_rows for _, a in self.aggregates):
            raise QueryError(
                "rows is missing: how many rows of one privacy unit can count in a group? Write "
                ".bound(rows=...)"
            )

        if self.series is None and any(isinstance(a, Cumulative) for _, a in self.aggregates):
            found = get_series(self.keys, self.public_keys, self.total_rows, self.aggregates)
            object.__setattr__(self, "series", found)
        if self.totals is None and self.grouping is not None:
            totals = get_totals(
                self.keys, self.public_keys, self.total_rows, self.groups, self.aggregates, self.grouping
            )
            object.__setattr__(self, "totals", totals)

    def _check_shared(self) -> None:
        if not self.private_groups:
            raise QueryError(
                "bound: groups='shared' selects private groups, and here are none; write groups= as a number"
            )
        if self.total_rows is not None or self.beyond != "auto":
            raise QueryError("bound: groups='shared' takes no total_rows and no beyond. Leave them out")
        if self.aggregates:
            raise QueryError(
                "bound: groups='shared' releases keys and no numbers, so write agg(). Then ask for numbers "
                "of these groups by group_by(..., keys=released.to_arrow())"
            )

    def _check_total_rows(self) -> None:
        if self.max_groups is not None or self.max_rows is not None:
            raise QueryError("bound: total_rows replaces groups and rows. Leave these out, or total_rows")
        if self.beyond != "auto":
            raise QueryError(
                "bound: beyond is for units in more groups than groups=..., but total_rows chooses "
                "their rows at random. Leave beyond out"
            )

    @property
    def groups_notes(self) -> tuple[str, ...]:
        """Notes on what brought public groups mean for the noise of the query."""
        if not self.brought_groups:
            return ()
        most = "1 group" if self.groups == 1 else f"{self.groups:,} groups"
        return (
            "The number of groups is not known when noise is chosen, so each number of each group "
            f"has independent noise, which covers a unit in {most}. With few groups, keys= as a "
            "list may have less noise.",
        )

    @cached_property
    def groups(self) -> int:
        """The effective limit of groups per unit: at most the number of public groups of the query."""
        if not self.keys:
            return 1
        limit, keys = self.total_rows or self.max_groups or 1, self.public_keys
        return max(1, min(limit, keys.num_rows)) if isinstance(keys, pa.Table) else limit

    @property
    def rows(self) -> int:
        """The query's limit of rows per unit and group; 1 if no aggregate depends on it."""
        return self.total_rows or self.max_rows or 1

    @property
    def in_all(self) -> bool:
        """Whether the query limits a unit's rows in several groups together."""
        return self.total_rows is not None and self.groups > 1

    @property
    def times(self) -> int:
        """How many times one unit may add a vector of the body in this query: once for each group."""
        return 1 if self.in_all or self.shared else self.groups

    @property
    def private_groups(self) -> bool:
        """Whether the query chooses its groups privately."""
        return bool(self.keys) and self.public_keys is None

    @property
    def brought_groups(self) -> bool:
        """Whether the query has public groups that come with the rows, so any number of them."""
        return isinstance(self.public_keys, BroughtKeys)

    @cached_property
    def scaled(self) -> bool:
        """Whether the query scales a unit's contributions over the limit of groups, and samples none.

        Unless asked otherwise, where no quantiles are asked, and no matching: what is released has the same
        mean as with a random choice, and no noise of one. Quantiles gain nothing, and their counts in all
        groups take long.
        """
        keys = self.public_keys
        if self.beyond == "sample" or self.total_rows or keys is None:
            return False
        if isinstance(keys, pa.Table) and self.groups >= keys.num_rows:
            return False
        whole = self._unscalable_aggregate is not None or any(
            isinstance(a, Quantiles) for _, a in self.aggregates
        )
        return self.beyond == "scale" or not whole

    @property
    def _unscalable_aggregate(self) -> str | None:
        """The name of an aggregate of the query whose contributions cannot be scaled, if any."""
        return next((name for name, a in self.aggregates if not a.divisible), None)

    @property
    def public_groups(self) -> tuple[Hashable, ...]:
        """The public groups of the query that are known: tuples of key values."""
        if not isinstance(self.public_keys, pa.Table):
            return () if self.keys else ((),)
        columns = [self.public_keys.column(key).to_pylist() for key in self.keys]
        return tuple(zip(*columns, strict=True))

    @property
    def kind(self) -> Query:
        """The query as far as a plan depends on it: without values, and with the number of public groups."""
        keys = self.public_keys
        if not isinstance(keys, pa.Table):
            return self
        # Nulls that have no type take no memory. What was checked stays as it is.
        kind = copy(self)
        nulls = pa.table({key: pa.nulls(keys.num_rows) for key in self.keys})
        object.__setattr__(kind, "public_keys", nulls)
        return kind

    @property
    def binding_limits(self) -> tuple[tuple[str, int], ...]:
        """The limits of the query that may cut contributions, as far as is known without rows."""
        if self.total_rows is not None:
            return (("total_rows", self.total_rows),)
        found, keys = [], self.public_keys
        every = isinstance(keys, pa.Table) and self.groups >= keys.num_rows
        if self.keys and not every and not self.shared:
            found.append(("groups", self.groups))
        if self.max_rows is not None and any(a.needs_rows for _, a in self.measured):
            found.append(("rows", self.max_rows))
        return tuple(found)

    @cached_property
    def bias(self) -> Bias:
        """The bias that limits and bounds of the query may cause, as far as is known without rows."""
        measured = [a for _, a in self.measured]
        clamping = [a for a in measured if a.clamps(self.schema)]
        limits = bool(self.binding_limits) or any(a.limits_values for a in measured)
        remedy = _ESTIMATES.get(self.engine, REMEDY) if limits or clamping else ""
        return Bias(limits, bool(clamping), remedy)

    @cached_property
    def measured(self) -> tuple[tuple[str, Aggregate], ...]:
        """The aggregates of the query over rows, by name: without those derived from other outputs."""
        return tuple((name, a) for name, a in self.aggregates if not a.derived)

    def _check_derived(self) -> None:
        derived = [(name, a) for name, a in self.aggregates if isinstance(a, Derived)]
        known = [n for name, a in self.measured for n in a.outputs(name)] if derived else []
        for name, aggregate in derived:
            for of in aggregate.inputs:
                if of in known:
                    continue
                if isinstance(dict(self.aggregates).get(of), Derived):
                    why = f"{of!r} is derived itself. Name the outputs it is computed from"
                else:
                    near = nearest(of, known)
                    hint = f"; did you mean {near!r}?" if near else "."
                    before = f"There are: {', '.join(known)}" if known else "Name it earlier in the same agg"
                    why = f"there is no output {of!r}{hint} {before}"
                raise QueryError(f"agg: {name}: {why}")

    @property
    def shown_keys(self) -> tuple[str, ...]:
        """The key columns of the query's output, with GROUPING if it has totals."""
        return self.keys if self.grouping is None else (*self.keys, GROUPING)

    @property
    def added_up(self) -> bool:
        """Whether the query adds groups up to cumulative totals or totals of coarser groups."""
        return self.series is not None or self.totals is not None

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """The columns of the query's output after the keys."""
        return tuple(n for name, aggregate in self.aggregates for n in aggregate.outputs(name))

    @property
    def title(self) -> str:
        """A summary of the query in a few words."""
        asked = "keys" if self.shared else ", ".join(self.output_names)
        return asked + (f" by {', '.join(self.keys)}" if self.keys else "")

    @property
    def output_weights(self) -> dict[str, Fraction]:
        """The weight of each output of the query."""
        return {n: self.weight(name) for name, asked in self.aggregates for n in asked.outputs(name)}

    @property
    def weighed(self) -> bool:
        """Whether some aggregates of the query have more weight than others."""
        return len({self.weight(name) for name, _ in self.aggregates}) > 1

    @property
    def remedies(self) -> str:
        """What to change in the query if noise would be too large, for errors."""
        found = ["ask for a larger epsilon or set smaller limits or bounds"]
        if self.weighed:
            found.append("weights that are nearer to each other")
        if self.scaled:
            found.append("bound(..., beyond='sample'), which has coarser steps")
        return ", or ".join(found)

    def too_much_noise(self, epsilon: Fraction) -> BudgetError:
        """Make the error that the query's noise with an epsilon is too large."""
        return BudgetError(
            f"epsilon = {float(epsilon):g} needs noise that exceeds 64-bit integers; {self.remedies}"
        )

    def weight(self, name: str) -> Fraction:
        """Return the weight of an aggregate of the query."""
        return Fraction(dict(self.weights).get(name, 1))

    def _exact(self, statistics: tuple[Statistic, ...]) -> ExactQuery:
        """Return the exact half of the query, for an engine."""
        return ExactQuery(
            self.steps, self.unit, self.keys, self.public_keys, self.groups, statistics, self.scaled,
            self.total_rows, shared=self.shared,
        )  # fmt: skip


def check_weights(
    weights: Iterable[tuple[str, object]], names: Collection[str]
) -> tuple[tuple[str, Fraction], ...]:
    """Return the valid, exact weights of a query's aggregates.

    Raises:
        QueryError: one is of none of these names.
        ParameterError: one is not from 1/1000 to 1000.
    """
    found = []
    for name, value in weights:
        if name not in names:
            near = nearest(name, names)
            hint = f"; did you mean {near!r}?" if near else "."
            raise QueryError(f"weights: there is no output {name!r}{hint} The names are: {', '.join(names)}")
        weight = as_fraction(value, f"weight of {name}")
        if not Fraction(1, LARGEST_WEIGHT) <= weight <= LARGEST_WEIGHT:
            raise ParameterError(
                f"weight of {name}", value, "from 1/1000 to 1000. Leave out outputs that matter less"
            )
        found.append((name, weight))
    return tuple(found)


def _check_names(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise QueryError(f"agg: the output name {name!r} is used twice. Give each column its own name")
        seen.add(name.casefold())
