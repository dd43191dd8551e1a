"""Every aggregate with questions that ask for it, and planted defects of privacy that must be found.

`test_every_aggregate.py` fails where an aggregate of the package has no case here, or fewer than three defects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import pyarrow as pa

import sfumato as sf
from sfumato.query import aggregates as ask
from sfumato.transformations import (
    Count,
    CountUnits,
    CrossMoments,
    DistinctMatched,
    DistinctShared,
    Leaves,
    Margin,
    Moments,
    QuantileTree,
    RowsInBins,
    UnitSum,
    VectorCount,
    VectorSum,
    WeightedSum,
    WeightsInBins,
)

from . import plants
from .people import GROUPS
from .plants import Plant, smaller_body

LIMITS = {"groups": 2, "rows": 2}


@dataclass(frozen=True)
class Case:
    """A question, and what must be found where it is asked of a package with a defect.

    Args:
        asked: the aggregates, by the names of their outputs.
        defects: what is planted, by what it is.
        covers: names of the functions that make the aggregates.
        of_noise: what is planted in noise, which the auditor finds.
        time: whether groups are time steps.
        totals: whether totals of groups are asked too.
        delta: whether noise of time steps or totals may have one.
        whole: whether it is of the whole table, and of no groups.
        places: whether places of quantiles are chosen, with K-norm noise beside them; else they have trees.
        draws: how many the auditor looks at, for each table.
        copies: how many times each other unit is there, where little is released of few.
    """

    covers: Sequence[str]
    asked: Mapping[str, Any]
    defects: Mapping[str, Plant] = field(default_factory=dict)
    of_noise: Mapping[str, Plant] = field(default_factory=dict)
    time: bool = False
    totals: bool = False
    delta: bool = True
    whole: bool = False
    places: bool = False
    draws: int = 300
    copies: int = 1

    @property
    def gaussian(self) -> bool:
        """Whether noise can be Gaussian alone."""
        return self.added_up and self.delta

    @property
    def added_up(self) -> bool:
        """Whether groups are added up."""
        return self.time or self.totals

    @property
    def noise(self) -> Any:
        """The kind of noise, if no other is asked for."""
        return "gaussian" if self.gaussian else "k_norm" if self.places else "laplace"

    @property
    def claim(self) -> dict[str, Any]:
        """The budget."""
        return {"epsilon": 1, "delta": 1e-3} if self.gaussian else {"epsilon": 1}

    def people(self, rows: pa.Table) -> sf.Table:
        """Open the table that it is asked of."""
        return sf.scan(rows, privacy_unit="id")

    def question(self, rows: pa.Table, worlds: Sequence[int], *, public: bool = True) -> sf.Question:
        """Ask it of a table."""
        people, keys = self.people(rows), ("world", "g")
        if self.whole:
            (world,) = worlds
            return people.filter(f"world = {world}").bound(rows=LIMITS["rows"]).agg(**self.asked)
        if not public:
            return people.group_by(*keys).bound(**LIMITS).agg(**self.asked)
        groups = pa.Table.from_pylist([dict(zip(keys, key, strict=True)) for key in product(worlds, GROUPS)])
        grouped = people.group_by(*keys, keys=groups)
        return (grouped.totals() if self.totals else grouped).bound(**LIMITS).agg(**self.asked)


# Of every statistic that bounds rows by unit and group.
ANY: dict[str, Plant] = {
    "rows are taken for units": plants.units_of_rows,
    "a unit counts in all of its groups": plants.without_group_limit,
}
BY_ROWS = ANY | {"rows of a unit are not scaled down": plants.without_row_limit}
# Truth values are within their bounds.
TRUE_OR_FALSE = BY_ROWS | {"the claim is of half of what a unit adds": smaller_body(Moments)}
CLAMPED = TRUE_OR_FALSE | {
    "values are not clamped": plants.unclamped,
    "values are clamped from above alone": plants.one_end,
}
COUNTED = ANY | {
    "all rows count": plants.uncounted_rows,
    "the claim is of one row": smaller_body(Count),
}
IN_BINS = BY_ROWS | {
    "each bin has its own limit": plants.bins_by_themselves,
    "the claim is of half of the rows": smaller_body(RowsInBins),
}
IN_STRATA = {name: plant for name, plant in IN_BINS.items() if name not in ANY} | {
    "rows are taken for units": plants.units_of_rows,
}
TREES = BY_ROWS | {
    "each leaf has its own limit": plants.bins_by_themselves,
    "the claim is of half of the rows": smaller_body(QuantileTree),
}
PLACES = BY_ROWS | {
    "each place has its own limit": plants.bins_by_themselves,
    "places are chosen for half of the rows": smaller_body(Leaves),
    "places are chosen for one group of a unit": plants.choice_of_one_group,
    "rows beside places are claimed by half": smaller_body(Margin),
}
PLACES_AT_ENDS = PLACES | {"places that are held to the rows cost as others": plants.free_ends}
CROSSED = BY_ROWS | {
    "values are not clamped": plants.unclamped,
    "values are clamped from above alone": plants.one_end,
    "the claim is of half of the rows": smaller_body(CrossMoments),
}
WEIGHED = BY_ROWS | {
    "weights are trimmed at twice the largest": plants.untrimmed,
    "the claim is of half of what a unit adds": smaller_body(WeightedSum),
}
WEIGHED_BINS = BY_ROWS | {
    "weights are trimmed at twice the largest": plants.untrimmed,
    "the claim is of half of what a unit adds": smaller_body(WeightsInBins),
}
DISTINCT = ANY | {"twice as many values of a unit count": plants.other_values_limit}

X = {"lower": -1, "upper": 3}
XY = {"x": (-1, 3), "y": (0, 2)}
W = {"weight": "w", "max_weight": 4}

PERCENT = ask.Combination(
    ask.WeightedSum((("s", Fraction(100)), ("n", Fraction(-100)))), ask.WeightedSum((("n", Fraction(1)),))
)
CASES: dict[str, Case] = {
    "rows": Case(["count"], {"n": sf.count()}, COUNTED),
    "rows with a value": Case(["count"], {"n": sf.count("x")}, COUNTED),
    "units": Case(
        ["count_units"],
        {"n": sf.count_units()},
        ANY | {"the claim is of half a unit": smaller_body(CountUnits)},
    ),
    "different values": Case(
        ["count_distinct"],
        {"n": sf.count_distinct("s", values=2)},
        DISTINCT
        | {
            "each value counts that anybody has": plants.all_values,
            "the claim is of one value": smaller_body(DistinctMatched),
        },
    ),
    # Without groups few pairs of a unit and a value are looked at.
    "different values of all": Case(
        ["count_distinct"],
        {"n": sf.count_distinct("s", values=2)},
        {
            "rows are taken for units": plants.units_of_rows,
            "twice as many values of a unit count": plants.other_values_limit,
            "each value counts that anybody has": plants.all_values,
            "the claim is of one value": smaller_body(DistinctMatched),
        },
        whole=True,
    ),
    "shares of different values": Case(
        ["count_distinct"],
        {"n": sf.count_distinct("s", values=2, method="shares")},
        DISTINCT
        | {
            "a unit brings each of its values wholly": plants.whole_values,
            "shares come to more than the limit": plants.shares_of_values,
            "the claim is of one value": smaller_body(DistinctShared),
        },
    ),
    "sum by unit": Case(
        ["sum"],
        {"s": sf.sum("x", **X)},
        ANY
        | {
            "the bounds of a unit's sum are too wide": plants.wide_sums,
            "the claim is of half of the sum": smaller_body(UnitSum),
        },
    ),
    "sum by row": Case(["sum"], {"s": sf.sum("x", **X, per="row")}, CLAMPED),
    "rows that are true": Case(["count_if"], {"n": sf.count_if("b")}, TRUE_OR_FALSE),
    "mean": Case(["mean"], {"m": sf.mean("x", **X)}, CLAMPED),
    "proportion": Case(["proportion"], {"p": sf.proportion("x")}, CLAMPED),
    "variance": Case(
        ["variance"],
        {"v": sf.variance("x", **X)},
        CLAMPED | {"squares are counted from zero": plants.uncentred_squares},
    ),
    "standard deviation": Case(["stddev"], {"d": sf.stddev("x", **X)}, CLAMPED),
    "quantiles": Case(["quantiles"], {"q": sf.quantiles("x", [0.25, 0.75], **X)}, TREES, draws=200),
    "quantile": Case(["quantile"], {"q": sf.quantile("x", 0.9, **X)}, TREES, draws=200),
    "median": Case(["median"], {"q": sf.median("x", **X)}, TREES, draws=200),
    "minimum": Case(["min"], {"q": sf.min("x", **X)}, TREES, draws=200),
    "maximum": Case(["max"], {"q": sf.max("x", **X)}, TREES, draws=200),
    "median of places": Case(
        ["median"], {"q": sf.median("x", **X)}, PLACES, places=True, draws=100, copies=20
    ),
    # They are chosen together, and no number of rows is beside them.
    "minimum and maximum of places": Case(
        ["min", "max"],
        {"p": sf.min("x", **X), "q": sf.max("x", **X)},
        PLACES_AT_ENDS,
        {"places before the first value are left out": plants.values_alone},
        places=True, draws=100,
    ),
    "maximum of places, beside rows": Case(
        ["max", "count"],
        {"q": sf.max("x", **X), "n": sf.count()},
        PLACES_AT_ENDS | {"the claim is of one row": smaller_body(Count)},
        places=True, draws=100,
    ),
    "ratio": Case(
        ["ratio"],
        {"n": sf.count(), "s": sf.sum("x", **X, per="row"), "r": sf.ratio("s", "n")},
        CLAMPED | COUNTED | {"a unit counts in all groups of the others": plants.all_groups},
        {
            "the second number has no noise": plants.second_without_noise,
            "the first number has no noise": plants.first_without_noise,
        },
    ),
    "difference": Case(
        ["difference"],
        {"m": sf.count("x"), "n": sf.count("y"), "d": sf.difference("m", "n")},
        COUNTED | {"a unit counts in all groups of the others": plants.all_groups},
        {"both numbers have the same noise": plants.noise_in_common},
    ),
    "what SQL computes of outputs": Case(
        [],
        {"n": sf.count(), "s": sf.sum("x", **X, per="row"), "c": PERCENT},
        CLAMPED | COUNTED | {"a unit counts in all groups of the others": plants.all_groups},
    ),
    "histogram": Case(["histogram"], {"h": sf.histogram("x", [-1, 0, 3], outside="count")}, IN_BINS),
    "histogram of units": Case(
        ["histogram"],
        {"h": sf.histogram("x", [-1, 0, 3], outside="count", per="unit", shares=True)},
        IN_BINS,
    ),
    "values": Case(["value_counts"], {"h": sf.value_counts("s", ["old 0", "new"], other=True)}, IN_BINS),
    "values of units": Case(
        ["value_counts"], {"h": sf.value_counts("b", [True], other=True, per="unit")}, IN_BINS
    ),
    "weights in bins": Case(
        ["histogram"], {"h": sf.histogram("x", [-1, 0, 3], outside="count", **W)}, WEIGHED_BINS
    ),
    "weights of units in bins": Case(
        ["value_counts"],
        {"h": sf.value_counts("b", [True], other=True, per="unit", shares=True, **W)},
        WEIGHED_BINS,
    ),
    "stratified sample": Case(
        ["proportion"],
        {"p": sf.proportion("b", stratum="g", asked=dict.fromkeys(GROUPS, 8), population={0: 8, 1: 90, 2: 200})},
        IN_STRATA,
        whole=True,
    ),
    "covariance": Case(["covariance"], {"c": sf.covariance("x", "y", bounds=XY)}, CROSSED),
    "correlation": Case(
        ["correlation"],
        {"c": sf.correlation("x", "y", bounds=XY)},
        CROSSED | {"squares are counted from zero": plants.uncentred_squares},
    ),
    "regression": Case(["linear_regression"], {"f": sf.linear_regression("y", ["x"], bounds=XY)}, CROSSED, copies=400),
    "weighted sum": Case(["sum"], {"s": sf.sum("x", **X, **W)}, WEIGHED),
    "weighted mean": Case(
        ["mean"],
        {"m": sf.mean("x", **X, **W)},
        WEIGHED | {"values are not clamped": plants.unclamped},
    ),
    "weighted count": Case(["count"], {"n": sf.count(**W)}, WEIGHED),
    "weighted proportion": Case(["proportion"], {"p": sf.proportion("b", **W)}, WEIGHED),
    **{
        f"vectors, {norm}, by {per}": Case(
            ["vector_sum"],
            {"v": sf.vector_sum("v", length=3, bound=1, norm=norm, per=per)},
            (BY_ROWS if per == "row" else ANY)
            | {
                "vectors are shortened to twice the bound": plants.longer_vectors,
                "the claim is of half of the bound": smaller_body(VectorSum),
            }
            | ({} if norm == "linf" else {"entries are clamped by themselves": plants.other_ball}),
        )
        for norm, per in (("l2", "unit"), ("l1", "row"), ("linf", "unit"))
    },
    "mean of vectors": Case(
        ["vector_mean"],
        {"m": sf.vector_mean("v", length=3, bound=1)},
        BY_ROWS
        | {
            "vectors are shortened to twice the bound": plants.longer_vectors,
            "entries are clamped by themselves": plants.other_ball,
            "the claim is of half of the bound": smaller_body(VectorSum),
            "the claim is of half of the rows": smaller_body(VectorCount),
        },
    ),
    "cumulative count": Case(["cumulative"], {"n": sf.cumulative(sf.count(), over="g")}, COUNTED, time=True, draws=200),
    "cumulative sum": Case(
        ["cumulative"],
        {"s": sf.cumulative(sf.sum("x", **X), over="g")},
        ANY | {"the bounds of a unit's sum are too wide": plants.wide_sums},
        time=True, draws=200,
    ),
    "cumulative count, no delta": Case(
        ["cumulative"], {"n": sf.cumulative(sf.count(), over="g")}, COUNTED, time=True, delta=False, draws=200
    ),
    "totals of groups": Case(
        [],
        {"n": sf.count(), "m": sf.mean("x", **X)},
        CLAMPED | COUNTED,
        totals=True,
        draws=100,
    ),
}  # fmt: skip
