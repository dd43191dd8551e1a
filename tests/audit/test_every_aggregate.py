"""Every aggregate, end to end: no unit moves what the engine counts by more than the noise hides, and one as far.

The metric of a plan says how its noise sees two outputs; of places that are chosen, `lost` says it. Here the engine
counts tables that differ by one hostile unit, and the metric measures what came: more than 1 is a breach of privacy.
No noise is drawn, so a defect is found surely: faults of tests/faults/engines.py and contributions.py make some.
"""

import inspect
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement, cycle, islice, product
from math import inf, isnan, nan
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.plan import planning
from sfumato.plan.plan import Plan
from sfumato.query import aggregates as ask
from sfumato.query import sizes
from sfumato.query.aggregates import FUNCTIONS, Aggregate, Derived
from sfumato.transformations import Leaves, Margin, QuantileTree, Statistic, ValueTree, cone_of

# A table with many worlds, in each of which another hostile unit comes or goes.

GROUPS = (0, 1, 2)
UNITS = 24  # in each world, but for the stranger
TYPES = {"id": "int64", "world": "int64", "g": "int64", "x": "double", "y": "double", "w": "double", "s": "string", "b": "bool", "i": "int64"}  # fmt: skip
SCHEMA = pa.schema([*TYPES.items()]).append(pa.field("v", pa.list_(pa.float64())))
Rows = list[dict[str, Any]]


def row(x: float | None, y: float | None, s: str | None, g: int = 0) -> dict[str, Any]:
    """Return a row without its unit; of a value its vector and its truth are made."""
    vector = None if x is None else [x, 1e3 if x > 0 else -1e3, x]
    whole = None if x is None or isnan(x) else int(max(-9.0, min(x, 200.0)))
    truth = None if x is None else x > 0
    return {"g": g, "x": x, "y": y, "w": 1e308, "s": s, "b": truth, "i": whole, "v": vector}


def many(x: Sequence[Any], y: Sequence[Any], groups: Sequence[int] = (0,), each: int = 40) -> Rows:
    """Return many rows in each group, all with another text."""
    values = list(islice(zip(cycle(x), cycle(y), strict=False), each))
    return [row(a, b, f"new {g} {i}", g) for g in groups for i, (a, b) in enumerate(values)]


ODD = (nan, inf, -inf, None, 5e-324, 1e308, -1e308, 0.5, -0.0)
# What the unit has that comes or goes.
STRANGERS: dict[str, Rows] = {
    "one row at the top": [row(1e308, 1e308, "new")],
    "one row at the bottom": [row(-1e308, -1e308, "new")],
    "one row in the middle": [row(0.0, 0.0, "new")],
    "one row at opposite ends": [row(inf, -inf, "new")],
    "one row without values": [row(None, None, None)],
    "many rows at the top": many([inf], [inf]),
    "many rows at the bottom": many([-1e308], [-1e308]),
    "many rows in the middle": many([0.0], [0.0]),
    "many rows at opposite ends": many([1e308], [-1e308]),
    "many odd rows": many(ODD, ODD[1:]),
    "many rows without values": many([nan], [None]),
    "values several times each": [row(1.0, 1.0, f"new {i % 8}") for i in range(40)],
    "rows at the top in all groups": many([inf], [inf], GROUPS, 5),
    "rows at the bottom in all groups": many([-inf], [-inf], GROUPS, 5),
    "rows at the top in two groups": many([inf], [inf], GROUPS[:2], 5),
    "rows at the bottom in two groups": many([-inf], [inf], GROUPS[1:], 5),
    "one row in each group": many([inf], [-inf], GROUPS, 1),
    "rows of other values in all groups": [row(1e308, -1.0, f"new {g}", g) for g in GROUPS for _ in range(3)],
}


def tables() -> tuple[pa.Table, pa.Table]:
    """Return a table without, and one with, the stranger of each world: a unit that no other world has."""
    without: Rows = []
    strangers: Rows = []
    for world, rows in enumerate(STRANGERS.values()):
        for unit in range(UNITS):
            x = 3.0 * (unit % 8) / 7
            values = {"g": unit % 3, "x": x, "y": 2 - x / 2, "w": 1.0, "s": f"old {unit % 4}"}
            values |= {"b": unit % 2 == 0, "i": unit % 8, "v": [0.1, -0.2, 0.3]}
            without.append({"id": 100 * world + unit, "world": world, **values})
        strangers += [{"id": 100 * world + 99, "world": world, **values} for values in rows]
    # As one of the first rows, so that nothing depends on who came first.
    return pa.Table.from_pylist(without, SCHEMA), pa.Table.from_pylist([*strangers, *without], SCHEMA)


WITHOUT, WITH = tables()


# Questions that ask for each aggregate.


@dataclass(frozen=True)
class Case:
    """A question.

    Args:
        covers: names of the functions that make the aggregates.
        asked: the aggregates, by the names of their outputs.
        time: whether groups are time steps.
        totals: whether totals of groups are asked too.
        delta: whether noise of time steps or totals may have one.
        whole: whether it is of the whole table, and of no groups.
        places: whether places of quantiles are chosen, with K-norm noise beside them; else they have trees.
        joined: whether rows are joined with all of their unit, and with a table that has keys several times.
    """

    covers: Sequence[str]
    asked: Mapping[str, Any]
    time: bool = False
    totals: bool = False
    delta: bool = True
    whole: bool = False
    places: bool = False
    joined: bool = False

    @property
    def noise(self) -> Any:
        """The kind of noise, if no other is asked for."""
        return (
            "gaussian"
            if (self.time or self.totals) and self.delta
            else "k_norm"
            if self.places
            else "laplace"
        )

    def people(self, rows: pa.Table) -> sf.Table:
        """Open the table that it is asked of."""
        own = sf.scan(rows, privacy_unit="id")
        if not self.joined:
            return own
        left = own.sql("SELECT id, g AS h, x AS z FROM self")
        # Each unit has so many that the limit leaves some out, those that no stranger is, too.
        left = left.union(left).union(left)
        return left.join(own.union(own), on="id", unit_rows=4).join(REGIONS, on="g", unit_rows=3)

    def question(self, rows: pa.Table, worlds: Sequence[int], *, public: bool = True) -> sf.Question:
        """Ask it of a table."""
        people, keys, limits = self.people(rows), ("world", "g"), {"groups": 2, "rows": 2}
        if self.whole:
            (world,) = worlds
            return people.filter(f"world = {world}").bound(rows=2).agg(**self.asked)
        if not public:
            return people.group_by(*keys).bound(**limits).agg(**self.asked)
        groups = pa.Table.from_pylist([dict(zip(keys, key, strict=True)) for key in product(worlds, GROUPS)])
        grouped = people.group_by(*keys, keys=groups)
        return (grouped.totals() if self.totals else grouped).bound(**limits).agg(**self.asked)


REGIONS = sf.public(pa.table({"g": [*GROUPS, *GROUPS, 0], "region": [0, 1, 0, 1, 1, 0, 1]}))
X, W, XY = {"lower": -1, "upper": 3}, {"weight": "w", "max_weight": 4}, {"x": (-1, 3), "y": (0, 2)}
BINS = {"outside": "count"}
N, S = sf.count(), sf.sum("x", **X, per="row")
STRATA = {"stratum": "g", "asked": dict.fromkeys(GROUPS, 8), "population": {0: 8, 1: 90, 2: 200}}
PERCENT = ask.Combination(
    ask.WeightedSum((("s", Fraction(100)), ("n", Fraction(-100)))), ask.WeightedSum((("n", Fraction(1)),))
)
CASES: dict[str, Case] = {
    "rows": Case(["count"], {"n": N}),
    "rows with a value": Case(["count"], {"n": sf.count("x")}),
    "units": Case(["count_units"], {"n": sf.count_units()}),
    "different values": Case(["count_distinct"], {"n": sf.count_distinct("s", values=2)}),
    # Without groups few pairs of a unit and a value are looked at.
    "different values of all": Case(["count_distinct"], {"n": sf.count_distinct("s", values=2)}, whole=True),
    "shares of different values": Case(["count_distinct"], {"n": sf.count_distinct("s", values=2, method="shares")}),
    "sum by unit": Case(["sum"], {"s": sf.sum("x", **X)}),
    "sum by row": Case(["sum"], {"s": S}),
    "rows that are true": Case(["count_if"], {"n": sf.count_if("b")}),
    "mean": Case(["mean"], {"m": sf.mean("x", **X)}),
    "proportion": Case(["proportion"], {"p": sf.proportion("x")}),
    "variance": Case(["variance"], {"v": sf.variance("x", **X)}),
    "standard deviation": Case(["stddev"], {"d": sf.stddev("x", **X)}),
    "quantiles": Case(["quantiles", "quantile", "median"], {"q": sf.quantiles("x", [0.25, 0.75], **X)}),
    "quantiles of whole numbers": Case(["quantiles"], {"q": sf.quantiles("i", [0.25, 0.75], lower=-1, upper=98)}),
    "minimum": Case(["min"], {"q": sf.min("x", **X)}),
    "median of places": Case(["median"], {"q": sf.median("x", **X)}, places=True),
    # They are chosen together, and no number of rows is beside them.
    "ends of places": Case(["min", "max"], {"p": sf.min("x", **X), "q": sf.max("x", **X)}, places=True),
    "maximum of places, beside rows": Case(["max", "count"], {"q": sf.max("x", **X), "n": N}, places=True),
    "ratio": Case(["ratio"], {"n": N, "s": S, "r": sf.ratio("s", "n")}),
    "difference": Case(["difference"], {"m": sf.count("x"), "n": sf.count("y"), "d": sf.difference("m", "n")}),
    "what SQL computes of outputs": Case([], {"n": N, "s": S, "c": PERCENT}),
    "histogram": Case(["histogram"], {"h": sf.histogram("x", [-1, 0, 3], **BINS)}),
    "histogram of units": Case(["histogram"], {"h": sf.histogram("x", [-1, 0, 3], **BINS, per="unit", shares=True)}),
    "values": Case(["value_counts"], {"h": sf.value_counts("s", ["old 0", "new"], other=True)}),
    "weights in bins": Case(["histogram"], {"h": sf.histogram("x", [-1, 0, 3], **BINS, **W)}),
    "weights of units in bins": Case(["value_counts"], {"h": sf.value_counts("b", [True], other=True, per="unit", **W)}),
    "stratified sample": Case(["proportion"], {"p": sf.proportion("b", **STRATA)}, whole=True),
    "covariance": Case(["covariance"], {"c": sf.covariance("x", "y", bounds=XY)}),
    "correlation": Case(["correlation"], {"c": sf.correlation("x", "y", bounds=XY)}),
    "regression": Case(["linear_regression"], {"f": sf.linear_regression("y", ["x"], bounds=XY)}),
    "weighted sum": Case(["sum"], {"s": sf.sum("x", **X, **W)}),
    "weighted mean": Case(["mean"], {"m": sf.mean("x", **X, **W)}),
    "weighted count": Case(["count"], {"n": sf.count(**W)}),
    "weighted proportion": Case(["proportion"], {"p": sf.proportion("b", **W)}),
    "vectors in l2, by unit": Case(["vector_sum"], {"v": sf.vector_sum("v", length=3, bound=1, norm="l2")}),
    "vectors in l1, by row": Case(["vector_sum"], {"v": sf.vector_sum("v", length=3, bound=1, norm="l1", per="row")}),
    "vectors by entry": Case(["vector_sum"], {"v": sf.vector_sum("v", length=3, bound=1, norm="linf")}),
    "mean of vectors": Case(["vector_mean"], {"m": sf.vector_mean("v", length=3, bound=1)}),
    "cumulative count": Case(["cumulative"], {"n": sf.cumulative(N, over="g")}, time=True),
    "cumulative sum": Case(["cumulative"], {"s": sf.cumulative(sf.sum("x", **X), over="g")}, time=True),
    "cumulative count, no delta": Case(["cumulative"], {"n": sf.cumulative(N, over="g")}, time=True, delta=False),
    "totals of groups": Case([], {"n": N, "m": sf.mean("x", **X)}, totals=True),
    "joined rows": Case([], {"n": N, "s": sf.sum("x", lower=-2, upper=2), "units": sf.count_units()}, joined=True),
}  # fmt: skip
# Statistics of these are in other cases too, or take longest.
LATER = ("rows that are true", "mean", "proportion", "standard deviation", "minimum", "median of places", "ends of places", "ratio", "difference",
         "what SQL computes of outputs", "histogram of units", "values", "weights of units in bins", "stratified sample", "correlation", "regression",
         "weighted mean", "weighted count", "weighted proportion", "cumulative sum", "cumulative count, no delta", "different values of all")  # fmt: skip
WORLDS = range(len(STRANGERS))
SOME = (5, 8, 9, 11, 17)  # for questions of the whole table, each world is one
Numbers = dict[Any, Counter[Any]]


def exact(question: sf.Question, plan: Plan) -> dict[int, Numbers]:
    """Return what the engine counts: by world, by group, and there by place; of a tree nodes of all levels.

    Without groups it is of one world, which is called 0.
    """
    found: dict[int, Numbers] = defaultdict(dict)
    for batch in question.table._engine.statistics(plan.exact, 10_000):
        for row in batch.to_pylist():
            key = tuple(row[name] for name in question.query.keys)
            of = found[key[0] if key else 0][key] = Counter()
            for statistic in plan.statistics:
                for name in statistic.names:
                    if isinstance(statistic, QuantileTree | ValueTree):
                        for entry in row[name] or []:
                            for node in statistic.nodes(entry["leaf"]):
                                of[node] += entry["weight"]
                    elif isinstance(statistic, Leaves):
                        for entry in row[name] or []:
                            of[name, statistic.lattice.place(entry["leaf"])] += entry["weight"]
                    elif statistic.entries:
                        of.update({(name, i): int(value) for i, value in enumerate(row[name])})
                    else:
                        of[name] = int(row[name])
    return found


def reach(case: Case, noise: str | None = None, *, public: bool = True) -> dict[str, Fraction]:
    """Return how far each stranger moves the exact numbers, where 1 is what the noise hides."""
    if case.whole:
        return {
            name: moved(case, [world], noise, public)[0]
            for world, name in enumerate(STRANGERS)
            if world in SOME
        }
    return dict(zip(STRANGERS, moved(case, WORLDS, noise, public), strict=True))


def moved(case: Case, worlds: Sequence[int], noise: str | None, public: bool) -> list[Fraction]:
    """Return how far the strangers of these worlds move the exact numbers."""
    planning._choose_plan.cache_clear()
    before, after = (case.question(rows, worlds, public=public) for rows in (WITHOUT, WITH))
    noise = noise or case.noise
    delta = 1e-6 if noise == "gaussian" or not public else 0
    plan = before.plan(epsilon=1, delta=delta, noise=noise)
    one, other = exact(before, plan), exact(after, plan)
    if plan.measurement.choices:
        return [lost(plan, one[i], other[i]) for i in range(len(worlds))]
    metric = plan.exact_chain.output_metric
    return [metric.distance(one[i], other[i]) for i in range(len(worlds))]


def lost(plan: Plan, one: Numbers, other: Numbers) -> Fraction:
    """Return what places and then numbers beside them tell, over epsilon, wherever the places are.

    It is counted by docs/proofs/joint_quantiles.md and margin.md, and not by what the plan says.
    """
    found, groups = Fraction(0), {*one, *other}
    for choice in plan.measurement.choices:
        targets, own = choice.mechanism.targets, {}
        for key in groups:
            a, b = of_places(one, key, choice.leaves), of_places(other, key, choice.leaves)
            own |= {(key, place): abs(a[place] - b[place]) for place in {*a, *b}}
        less = max(max(t.rank, 1 - t.rank) for t in targets)
        more = 1 if any(t.within for t in targets) else less
        found += (less + more) * sum(own.values()) / choice.mechanism.scale
    vectors = []
    for key in groups:
        a, b = one.get(key, Counter()), other.get(key, Counter())
        moves = {name: abs(a[name] - b[name]) for name in cone_of(plan.requirements.statistics).names}
        for margin in (m for c in plan.measurement.choices for m in c.margins):
            before, after = (of_places(table, key, margin.leaves) for table in (one, other))
            moves[margin.names[0]] = largest_move(margin, before, after)
        vectors.append([moves[name] for name in cone_of(plan.requirements.statistics).names])
    noise = replace(plan.measurement, selection=None, choices=()).map(1).epsilon(0)
    return (found + noise * plan.metric.vector_norm(vectors)) / plan.epsilon


def of_places(table: Numbers, key: Any, leaves: Leaves) -> Counter[int]:
    """Return the counts of a group by place."""
    (name,) = leaves.names
    return Counter({k[1]: n for k, n in table.get(key, {}).items() if k[0] == name})


def largest_move(margin: Margin, before: Counter[int], after: Counter[int]) -> int:
    """Return the most that a margin moves by, over places beside those whose counts differ."""
    lattice = margin.leaves.lattice
    changed = [p for p in {*before, *after} if before[p] != after[p]]
    if not changed:
        return 0
    near = {min(max(p + by, lattice.first), lattice.last) for p in changed for by in (-1, 0, 1)}
    pairs = [*combinations_with_replacement(sorted(near | {lattice.first, lattice.last}), 2)]
    one, other = (
        [
            margin.between(
                sum(n for p, n in counts.items() if p < first),
                sum(n for p, n in counts.items() if p <= last),
                counts.total(),
            )
            for first, last in pairs
        ]
        for counts in (before, after)
    )
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def below(kind: type[Any]) -> set[type[Any]]:
    """Return classes of the package that are derived of one, and can be made."""
    found = {k for one in kind.__subclasses__() for k in {one} | below(one)}
    return {k for k in found if not inspect.isabstract(k) and k.__module__.startswith("sfumato.")}


def test_every_aggregate_has_a_case():
    assert {f.__name__ for f in FUNCTIONS} == {name for case in CASES.values() for name in case.covers}
    asked = {type(a) for case in CASES.values() for a in case.asked.values()}
    estimated = {kind for kind in below(Aggregate) if kind.estimates is not Aggregate.estimates}
    assert asked == estimated | {kind for kind in below(Derived) if not kind.__subclasses__()}


@pytest.mark.long
def test_every_statistic_has_a_case():
    claim = {"epsilon": 1, "delta": 1e-3}
    plans = [case.question(WITHOUT, [0]).plan(**claim, noise=case.noise) for case in CASES.values()]
    found = {type(s) for plan in plans for s in (*plan.statistics, *plan.requirements.statistics)}
    assert below(Statistic) == found


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n in LATER)) for n in CASES])
def test_no_unit_moves_more_than_the_noise_hides_and_one_moves_as_far(name):
    found = reach(CASES[name])
    assert Fraction(9, 10) <= max(found.values()) <= 1, found


@pytest.mark.long
@pytest.mark.parametrize(("noise", "public"), [("laplace", False), ("gaussian", True), ("k_norm", True)])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.time and not case.totals])
def test_with_other_noise_and_private_groups_neither(name, noise, public):
    case = CASES[name]
    if case.whole and not public:
        pytest.skip("there are no groups")
    try:
        found = reach(case, noise, public=public)
    except QueryError as refused:
        assert noise == "k_norm" and "K-norm noise" in str(refused)
        return
    assert max(found.values()) <= 1, found


@pytest.mark.long
def test_values_that_few_pairs_show_move_no_more_than_the_noise_hides(monkeypatch):
    """A few rows are read at first, so that other pairs are asked for."""
    monkeypatch.setattr(sizes, "FIRST_ROWS", 3)
    monkeypatch.setattr(sizes, "ROWS_OF_A_VALUE", 0)
    monkeypatch.setattr(sizes, "SHARE_LEFT_OUT", 1)
    found = reach(CASES["different values of all"])
    assert Fraction(9, 10) <= max(found.values()) <= 1, found
