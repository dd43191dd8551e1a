"""Every engine computes the framework's definition, exactly, on generated tables."""

from __future__ import annotations

import math
import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb import bounding_sql, contribution_limits
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.question_check import PhysicalOrder, rearranged
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.schema import Derive, Filter
from sfumato.query.tables.table_part import Part
from sfumato.transformations import (
    Axis,
    Ball,
    Count,
    CountUnits,
    CrossMoments,
    DistinctMatched,
    DistinctShared,
    Edges,
    Grid,
    Lattice,
    Leaves,
    Listed,
    Moments,
    QuantileTree,
    Row,
    RowsInBins,
    Statistic,
    UnitsInBins,
    UnitSum,
    ValueGrid,
    VectorCount,
    VectorSum,
    WeightedSum,
    WeightGrid,
    WeightsInBins,
    bound_groups,
    per_group,
    scale_groups,
)
from sfumato.transformations.row_sql import RowSql
from sfumato.transformations.statistics.quantile_counts import BRANCHING, HEIGHT, LEAVES


def generated(examples: int, **strategies: Callable[[Any], Any]):
    """Run a test of an engine on generated examples, fewer of them where an evaluation takes long.

    Args:
        examples: how many in the second tier; the first has a fifth of them.
        strategies: by argument of the test, a function of the engine to a strategy.
    """

    def decorate(test: Callable[..., None]):
        @pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.long)], ids=["some", "all"])
        def run(engine, share):
            def one(**arguments: Any) -> None:
                test(engine, **arguments)

            chosen = settings(
                max_examples=engine.few(examples // share), derandomize=True, database=None, deadline=None,
                suppress_health_check=list(HealthCheck), phases=[Phase.generate],
            )  # fmt: skip
            chosen(given(**{name: of(engine) for name, of in strategies.items()})(one))()

        run.__name__ = run.__qualname__ = test.__name__
        run.__doc__ = test.__doc__
        return run

    return decorate


# What matters most of an engine is asked of those that start jobs in the first tier too.
each_in_the_first_tier = pytest.mark.parametrize(
    "engine", ["duckdb", "stages", "spark", "beam"], indirect=True
)

NAN = "one NaN"  # NaN is one value in keys and units


# Values are texts, as the engine is given them, with what the framework is given.
def real(text: str) -> float:
    return float(text)


FLOATS = ["0", "-0.0", "1.5", "-2.25", "nan", "inf", "-inf", "1e308", "-1e308", "5e-324", "2.2250738585072014e-308",
          "0.1", "9007199254740993", "1e18", "9.223372036854775e18", "0.49999999999999994", "-3.5"]  # fmt: skip
FLOATS32 = [
    "0",
    "-0.0",
    "1.5",
    "nan",
    "inf",
    "-inf",
    "3.4028234663852886e38",
    "1.401298464324817e-45",
    "-7.25",
]
WIDE = [2**127 - 1, -(2**127), 10**37, 2**62 + 1, -(2**64), 2**63]


def integers(bits: int, signed: bool = True) -> list[str]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    near = [n for n in (0, 1, 2, 3, 7, 30, 100, -1, -5) if low <= n <= high]
    return [str(n) for n in (low, high, *near)]


VALUE_TYPES: dict[str, tuple[list[str], Any]] = {
    "TINYINT": (integers(8), int),
    "SMALLINT": (integers(16), int),
    "INTEGER": (integers(32), int),
    "BIGINT": (integers(64), int),
    "UBIGINT": (integers(64, signed=False), int),
    "HUGEINT": ([*integers(64), *map(str, WIDE)], int),
    "DOUBLE": (FLOATS, float),
    "FLOAT": (FLOATS32, float),
    "BOOLEAN": (["true", "false"], lambda text: text == "true"),
    "DECIMAL(12,3)": (["0", "-0.001", "1.500", "999999999.999", "-999999999.999", "2.125"], Decimal),
}


def vector_of(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def entries(text: str) -> list[Any]:
        inner = text[1:-1]
        return [None if part == "NULL" else read(part) for part in inner.split(",")] if inner else []

    return entries


SHORT = ["[]", "[1]", "[1,2,3]", "[NULL,1]"]
VECTORS = ["[3,4]", "[0,0]", "[-3,4]", "[1,1]", "[100,-1]", "[5,12]", "[-7,0]"]
REAL_VECTORS = [
    *VECTORS,
    "[1e308,1]",
    "[nan,1]",
    "[-inf,2.5]",
    "[inf,inf]",
    "[0.5,-0.125]",
    "[5e-324,-1e18]",
    "[-0.0,1e9]",
]
WIDE_VECTORS = [f"[{2**63 - 1},1]", f"[{-(2**63)},{2**62}]", f"[{2**40},{2**41}]"]
VECTOR_TYPES: dict[str, tuple[list[str], Any]] = {
    "DOUBLE[]": ([*SHORT, *REAL_VECTORS], vector_of(float)),
    "DOUBLE[2]": (REAL_VECTORS, vector_of(float)),
    "FLOAT[2]": (["[nan,0]", "[-inf,2.5]", "[0.5,-0.125]", *VECTORS], vector_of(float)),
    "BIGINT[]": ([*SHORT, *VECTORS, *WIDE_VECTORS], vector_of(int)),
    "BOOLEAN[]": (
        ["[true,false]", "[NULL,true]", "[true]", "[true,true]"],
        vector_of(lambda part: part == "true"),
    ),
    "TINYINT[]": ([*SHORT, *VECTORS], vector_of(int)),
}
KEY_TYPES: dict[str, tuple[list[str], Any]] = {
    "BIGINT": (["0", "1", "-1", str(2**63 - 1)], int),
    "VARCHAR": (["", "a", "A", "é", "e\u0301", "日本", "😀", "x'\"; --", "nan"], str),
    "DOUBLE": (["0", "-0.0", "nan", "-nan", "inf", "0.1"], float),
    "FLOAT": (["0", "-0.0", "nan", "1.5"], float),
    "BOOLEAN": (["true", "false"], lambda text: text == "true"),
    "DATE": (["2020-02-29", "1969-12-31"], date.fromisoformat),
    "TIMESTAMP": (["2020-02-29 12:00:00", "1969-12-31 23:59:59.999999"], datetime.fromisoformat),
    "DECIMAL(5,2)": (["1.10", "1.1", "0", "-1.10"], Decimal),
}
UNIT_TYPES: dict[str, tuple[list[str], Any]] = {
    "INTEGER": (["1", "2", "3", "-7", "2147483647"], int),
    "VARCHAR": (["ann", "Ann", "", "bob ", "日本"], str),
    "UUID": ([str(uuid.UUID(int=n)) for n in (0, 1, 2**127, 2**128 - 1)], uuid.UUID),
    "DOUBLE": (["0", "-0.0", "nan", "1.5"], float),
}


def as_key(value: Any) -> Any:
    """Equal values as equal keys: one zero, one NaN."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    return value


@dataclass
class Case:
    columns: dict[str, tuple[str, list[str | None]]]
    rows: list[Row]
    keys: tuple[str, ...]
    statistics: tuple[Statistic, ...]
    groups: int

    def taken(self, places: Sequence[int]) -> Case:
        """Return the case of rows at some places, in this order."""
        columns = {n: (kind, [texts[i] for i in places]) for n, (kind, texts) in self.columns.items()}
        return replace(self, columns=columns, rows=[self.rows[i] for i in places])

    def query(
        self, public: pa.Table | None = None, statistics: Sequence[Statistic] | None = None
    ) -> ExactQuery:
        return ExactQuery((), "unit", self.keys, public, self.groups, tuple(statistics or self.statistics))


@st.composite
def columns(draw: st.DrawFn, types: dict[str, tuple[list[str], Any]], size: int, fewest: int = 1):
    name = draw(st.sampled_from(sorted(types)))
    texts, read = types[name]
    # A few distinct values, so that units and groups meet.
    pool = draw(st.lists(st.sampled_from(texts), min_size=fewest, max_size=6))
    pool += [None] if draw(st.booleans()) else []
    drawn = draw(st.lists(st.sampled_from(pool), min_size=size, max_size=size))
    return name, drawn, [None if text is None else read(text) for text in drawn]


BOUNDS = [(0, 30), (-5, 5), (3, 4), (-100, -1), (0, 1), (-(2**40), 2**41), (Fraction(-7, 3), Fraction(1, 10)),
          (0, Fraction(10) ** 280), (Fraction(1, 10**6), Fraction(2, 10**6))]  # fmt: skip
bounds = st.sampled_from([(Fraction(a), Fraction(b)) for a, b in BOUNDS])


LATTICES = [
    Lattice(0.0, 30.0),
    Lattice(-3.0, 100.0, whole=True),
    Lattice(-1e300, 1e300),
    Lattice(0.0, 1e18),
    Lattice(1e6, 1e6 + 1),
]


@st.composite
def moments(draw: st.DrawFn, label: str, column: str, rows: int) -> Moments:
    lower, upper = draw(bounds)
    grid = ValueGrid.around(lower, upper, Grid(draw(st.sampled_from([-30, -3, 0, 2, 40]))))
    bits = draw(st.sampled_from([None, 0, 1, 5, max(0, 2 * grid.half_range.bit_length() - 32)]))
    centred = bits is not None or draw(st.booleans())  # squares of values from zero are refused
    made = Moments(label, column, rows, grid, centred, draw(st.sampled_from([None, 0, -1, -14])), bits)
    if bits is None:
        return made
    centre = draw(st.sampled_from([0, made.largest_square // 2, made.largest_square]))
    return Moments(**{**made.__dict__, "square_centre": centre})


@st.composite
def unit_sum(draw: st.DrawFn, label: str, column: str, whole: bool) -> UnitSum:
    lower, upper = draw(bounds)
    integer = whole and draw(st.booleans()) and max(abs(lower), abs(upper)) < 2**50
    exponent = 0 if integer else draw(st.sampled_from([-40, -20, -1, 0, 3]))
    exponent = max(exponent, ValueGrid.around(lower, upper, Grid(exponent)).exponent)
    low, high = Grid(exponent).steps_at_most(lower), Grid(exponent).steps_at_least(upper)
    centre = draw(st.sampled_from([0, (low + high) // 2, low, high]))
    return UnitSum(label, column, exponent, low, high, integer, centre, draw(st.booleans()))


@st.composite
def weighted_sum(draw: st.DrawFn, column: str, rows: int) -> WeightedSum:
    weights = draw(st.sampled_from([WeightGrid(0, 50), WeightGrid(-20, 3 << 20), WeightGrid(3, 2)]))
    if draw(st.booleans()):
        return WeightedSum("w", "x", rows, weights, draw(st.sampled_from([None, column])))
    grid = ValueGrid.around(*draw(bounds), Grid(draw(st.sampled_from([-40, -1, 0]))))
    return WeightedSum("w", "x", rows, weights, column, grid, draw(st.sampled_from([0, 1, 20])))


@st.composite
def cross_moments(draw: st.DrawFn, rows: int) -> CrossMoments:
    axes = []
    for label, column in (("a", "x"), ("b", "y"), ("c", "x"))[: draw(st.sampled_from([1, 2, 3]))]:
        lower, upper = draw(bounds)
        grid = ValueGrid.around(
            lower, upper, Grid.for_noise(upper - lower, draw(st.sampled_from([3, 24, 30])))
        )
        axes.append(Axis(label, column, grid, grid.half_range**2 // draw(st.sampled_from([1, 2, 5]))))
    pairs = [(i, j) for j in range(len(axes)) for i in range(j + 1)]
    asked = draw(st.lists(st.sampled_from(pairs), max_size=4, unique=True))
    return CrossMoments("t", tuple(axes), rows, tuple(asked), draw(st.sampled_from([None, 0, -14])))


@st.composite
def in_bins(draw: st.DrawFn, column: str, kind: str, rows: int) -> RowsInBins:
    edges = draw(st.sampled_from([(0.0, 1.5), (-math.inf, -2.25, 0.1, 30.0), (-5.0, 0.0, 1e18, math.inf)]))
    bins: Edges | Listed = Edges(edges, draw(st.booleans()), draw(st.booleans()))
    if kind not in ("DOUBLE", "FLOAT", "DECIMAL(12,3)") and draw(st.booleans()):
        bins = Listed((True, False) if kind == "BOOLEAN" else (3, -1, 2**62 + 1), draw(st.booleans()))
    exponent, once = draw(st.sampled_from([-30, -3, 0])), draw(st.booleans())
    rows = 1 if once else rows
    if draw(st.booleans()):
        weights = draw(st.sampled_from([WeightGrid(0, 50), WeightGrid(-20, 3 << 20), WeightGrid(3, 2)]))
        of: dict[str, Any] = {"weight": draw(st.sampled_from("xy")), "weights": weights, "once": once}
        return WeightsInBins(f"w {column}", column, rows, bins, exponent, **of)
    if once:
        return UnitsInBins(f"u {column}", column, rows, bins, exponent)
    return RowsInBins(f"b {column}", column, rows, bins, exponent)


@st.composite
def cases(draw: st.DrawFn, engine: Any, binding: bool) -> Case:
    size = draw(st.integers(0, 40))
    made: dict[str, tuple[str, list[str | None]]] = {}
    values: dict[str, list[Any]] = {}

    def add(name: str, types: dict[str, tuple[list[str], Any]], fewest: int = 1) -> None:
        known = {kind: values for kind, values in types.items() if kind not in engine.lacks}
        if "UHUGEINT" in engine.lacks and "HUGEINT" in known:  # rows come as Arrow, which holds 38 digits
            texts, read = known["HUGEINT"]
            known["HUGEINT"] = [text for text in texts if abs(int(text)) < 10**38], read
        kind, texts, read = draw(columns(known, size, fewest))
        made[name], values[name] = (kind, texts), read

    add("unit", UNIT_TYPES)
    keys = tuple(f"key {i}" for i in range(draw(st.integers(1 if binding else 0, 3))))
    for key in keys:
        add(key, KEY_TYPES)
    for column in ("x", "y"):
        add(column, VALUE_TYPES)
    rows = draw(st.sampled_from([1, 2, 3, 10]))
    whole = {c: made[c][0] not in ("DOUBLE", "FLOAT", "DECIMAL(12,3)") for c in ("x", "y")}
    choices = [
        st.just(CountUnits()),
        st.just(Count(rows)),
        st.builds(Count, st.just(rows), st.just("x"), st.sampled_from([0, -1, -14, -30])),
        moments("m", "x", rows),
        moments("o", "y", rows),
        unit_sum("s", "x", whole["x"]),
        unit_sum("r", "y", whole["y"]),
        st.builds(
            QuantileTree, st.just("q"), st.just("x"), st.just(rows), st.sampled_from([0.0, -1e-3]),
            st.sampled_from([30.0, 1e300, 65536.0]), st.sampled_from([0, -5, -14]),
        ),
    ]  # fmt: skip
    most = st.sampled_from([1, 2, 3, 7])
    choices.append(st.builds(DistinctMatched, st.just("y"), most))
    choices.append(st.builds(DistinctShared, st.just("y"), most, st.sampled_from([-20, -3])))
    choices.append(weighted_sum(draw(st.sampled_from(["x", "y"])), rows))
    if draw(st.booleans()):
        add("v", VECTOR_TYPES, 3)
        choices.append(vector_sum(rows))
        choices.append(
            st.builds(VectorCount, st.just("v"), st.just(2), st.just(rows), st.sampled_from([0, -3, -30]))
        )
    choices.append(cross_moments(rows))
    choices += [in_bins(column, made[column][0], rows) for column in ("x", "y")]
    picked = draw(st.lists(st.sampled_from(range(len(choices))), min_size=1, max_size=5, unique=True))
    statistics = tuple(draw(choices[i]) for i in sorted(picked))
    read_rows = [
        Row(
            as_key(values["unit"][i]),
            tuple(as_key(values[k][i]) for k in keys),
            {c: values[c][i] for c in ("x", "y", "v") if c in values},
        )
        for i in range(size)
    ]
    groups = draw(st.sampled_from([1, 2])) if binding else 10**6
    return Case(made, read_rows, keys, statistics, groups)


@st.composite
def vector_sum(draw: st.DrawFn, rows: int) -> VectorSum:
    ball = draw(st.sampled_from(Ball))
    radius = draw(st.sampled_from([1, 2, 5, 1000, 2**31 - 1, 2**40]))
    exponent = draw(st.sampled_from([-40, -20, -1, 0, 3]))
    return VectorSum("w", "v", 2, exponent, radius, ball, draw(st.sampled_from([None, rows])))


Result = dict[tuple[Any, ...], dict[Any, int]]


def evaluated(engine, query: ExactQuery, batch_rows: int = 1000) -> Result:
    """Return an engine's answer: by key, by coordinate or node of a tree, integers that are not zero."""
    found: Result = {}
    batches = list(engine.statistics(query, batch_rows))
    assert batches, "at least one batch"
    order = []
    for batch in batches:
        coordinates = [c for s in query.statistics for c in s.names]
        assert batch.schema.names == [*query.keys, *coordinates] or sorted(batch.schema.names) == sorted(
            [*query.keys, *coordinates]
        )
        for row in batch.to_pylist():
            key = tuple(as_key(row[k]) for k in query.keys)
            assert key not in found, "a group comes once"
            order.append(key)
            numbers: dict[Any, int] = {}
            for name in coordinates:
                if name.endswith(".leaves"):
                    entries = row[name] or []
                    leaves = [e["leaf"] for e in entries]
                    assert leaves == sorted(set(leaves))
                    lattice = next(s.lattice for s in query.statistics if s.names == (name,))
                    places = lattice.places(np.array(leaves, float)).tolist()
                    assert all(lattice.place(leaf) == p for leaf, p in zip(leaves, places, strict=True))
                    numbers |= {
                        (name, p): e["weight"] for p, e in zip(places, entries, strict=True) if e["weight"]
                    }
                elif name.endswith(".tree"):
                    leaves = [e["leaf"] for e in row[name] or []]
                    assert leaves == sorted(set(leaves))
                    for level in range(1, HEIGHT + 1):
                        for e in row[name] or []:
                            node = name, level, e["leaf"] // (LEAVES // BRANCHING**level)
                            if e["weight"]:
                                numbers[node] = numbers.get(node, 0) + e["weight"]
                elif name.endswith(".vector"):
                    entries = [int(n) for n in row[name]]  # none of them NULL
                    numbers |= {(name, place): n for place, n in enumerate(entries) if n}
                    assert len(entries) == 2
                elif row[name]:
                    assert row[name] == int(row[name])
                    numbers[name] = int(row[name])
            found[key] = numbers
    assert order == sorted(order, key=sort_key), "sorted by key"
    return found


def sort_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """NULL last, NaN greatest among numbers, text by its bytes."""
    return tuple(
        (2, 0)
        if part is None
        else (1, 0)
        if part == NAN
        else (0, part.encode() if isinstance(part, str) else part)
        for part in key
    )


def definition(case: Case) -> Result:
    """The framework's answer, where no unit is in more groups than it may be."""
    chain = bound_groups(case.groups, order=lambda unit, key: 0) >> per_group(
        case.statistics, groups=case.groups
    )
    answer = {key: {name: n for name, n in total.items() if n} for key, total in chain(case.rows).items()}
    return answer if case.keys else {(): answer.get((), {})}


def same(one: Result, other: Result) -> bool:
    note(f"{one}\n{other}")
    return one == other


def orders_of(case: Case) -> list[Case]:
    """Return a case in three physical orders: as it is, shuffled, and with more rows of the first row's unit."""
    places = list(range(len(case.rows)))
    shuffled = random.Random(repr(case.rows)).sample(places, len(places))
    texts = case.columns["unit"][1]
    repeated = [i for i in shuffled for _ in range(3 if texts[i] == texts[0] else 1)]
    return [case, case.taken(shuffled), case.taken(repeated)]


@each_in_the_first_tier
@generated(90, case=lambda engine: cases(engine, binding=False))
def test_an_engine_computes_the_definition(engine, case):
    # Where an evaluation is a job, each example has one of the orders.
    orders = orders_of(case)
    for one in [orders[len(case.rows) % 3]] if engine.slow else orders:
        opened = engine(one.columns)
        if one is orders[1] and isinstance(opened, DuckDBEngine):
            opened = rearranged(Part(opened, (), "unit"), PhysicalOrder(1, one_thread=True)).engine
        assert same(evaluated(opened, one.query()), definition(one))


@generated(
    40,
    case=lambda engine: cases(engine, binding=False),
    lattice=lambda engine: st.sampled_from(LATTICES),
)
def test_leaves_are_counted_at_the_places_of_the_definition(engine, case, lattice):
    if case.columns["x"][0] == "HUGEINT":
        return  # of which Arrow, and with it some engines, holds 38 digits
    only = replace(case, statistics=(Leaves("x", "x", 2, lattice, -5),))
    assert same(evaluated(engine(case.columns), only.query()), definition(only))


def admissible(case: Case) -> list[list[Counter[Any]]]:
    """For each unit, what it may add: by (key, coordinate), one Counter for each choice of groups."""
    by_unit: dict[Any, dict[Any, list[Any]]] = {}
    for row in case.rows:
        if row.unit is not None:
            by_unit.setdefault(row.unit, {}).setdefault(row.key, []).append(row.values)
    options = []
    for by_key in by_unit.values():
        kept = min(case.groups, len(by_key))
        added = {key: _joined(case, rows) for key, rows in by_key.items()}
        options.append(
            [
                Counter({(key, name): n for key in chosen for name, n in added[key].items()})
                for chosen in combinations(by_key, kept)
            ]
        )
    return options


def _joined(case: Case, rows: list[Any]) -> dict[Any, int]:
    joined: dict[Any, int] = {"in the group": 1}
    for statistic in case.statistics:
        joined |= dict(statistic.contribution(rows))
    return joined


def is_admissible(case: Case, found: Result) -> bool:
    """Whether the answer is the definition's for some choice of at most `groups` groups by each unit.

    Units choose independently, so sums are searched unit by unit, keeping the reachable ones.
    """
    reachable = {frozenset()}
    for choices in admissible(case):
        following = set()
        for state in reachable:
            for choice in choices:
                total = Counter(dict(state))
                total.update(choice)
                following.add(frozenset(total.items()))
        assert len(following) < 50_000
        reachable = following
    target = {(key, name): n for key, numbers in found.items() for name, n in numbers.items()}
    for state in reachable:
        present = {key for (key, name), _ in state if name == "in the group"}
        total: dict[Any, int] = {}
        for at in present:
            added = Counter({name: n for (key, name), n in state if key == at})
            for statistic in case.statistics:
                own = {
                    k: n for k, n in added.items() if (k[0] if isinstance(k, tuple) else k) in statistic.names
                }
                total |= {(at, name): n for name, n in statistic.of_added(Counter(own)).items()}
        if present == set(found) and target == {k: n for k, n in total.items() if n}:
            return True
    return False


@generated(50, case=lambda engine: cases(engine, binding=True))
def test_where_the_limit_of_groups_binds_the_answer_is_that_of_an_admissible_choice(engine, case):
    assert is_admissible(case, evaluated(engine(case.columns), case.query()))


def test_rows_that_are_added_up_by_unit_before_are_asked_with_the_same_answer(engine, fixed_salt):
    """As docs/many_tables.md says: counts are sums of counts, with the bounds of what a unit adds to a group."""
    rows = pa.table(
        {
            "id": [i % 40 for i in range(900)],
            "g": [i % 7 % 3 for i in range(900)],
            "x": [float(i % 11 - 2) for i in range(900)],
        }
    )
    added_up = duckdb.sql("SELECT id, g, count(*) AS n, sum(x) AS x FROM rows GROUP BY ALL").to_arrow_table()
    plain = {"n": sf.count(), "s": sf.sum("x", lower=-9, upper=20, per="unit"), "u": sf.count_units()}
    before = {"n": sf.sum("n", lower=0, upper=5), "s": sf.sum("x", lower=-9, upper=20), "u": sf.count_units()}
    found = []
    for source, limit, wanted in ((rows, 5, plain), (added_up, 1, before)):
        asked = Table(engine(source), "id").group_by("g").bound(groups=2, rows=limit).agg(**wanted)
        plan = asked.plan(epsilon=1, delta=1e-6, noise="laplace")
        groups = [row for b in asked.table._engine.statistics(plan.exact, 100) for row in b.to_pylist()]
        sums = [s for s in plan.statistics if isinstance(s, UnitSum)]
        # A sum is counted from its centre on.
        found.append(
            {
                row["g"]: [row["units"], row.get("rows", 0)]
                + [
                    (int(row[s.names[0]]) + s.centre * int(row["units"])) * s.coordinates[0].step
                    for s in sums
                ]
                for row in groups
            }
        )
    raw, of_sums = found
    for g, (people, count, total) in raw.items():
        assert sorted(of_sums[g][2:]) == sorted([count, total]) and of_sums[g][0] == people


def test_the_choice_of_groups_is_fresh_in_each_release_and_reaches_every_group(engine):
    """120 units choose two of six groups each; no two units have a group in common.

    Rows of a unit are far from each other, so in several parts where there are parts.
    """
    rows = engine(pa.table({"unit": [i % 120 for i in range(720)], "key 0": list(range(720))}))
    query = ExactQuery((), "unit", ("key 0",), None, 2, (CountUnits(),))
    choices = []
    for _ in range(2):
        chosen = sorted(key for (key,) in evaluated(rows, query))
        assert sorted(key % 120 for key in chosen) == [i // 2 for i in range(240)]  # two of each unit
        assert {key // 120 for key in chosen} == set(range(6))  # one is never chosen with chance 6 (2/3)^120
        choices.append(chosen)
    assert choices[0] != choices[1]  # the same with chance 15^-120


@pytest.mark.long
def test_a_planted_choice_of_too_few_or_too_many_groups_is_rejected(engine):
    table = {"unit": ("INTEGER", ["1"] * 3 + ["2"]), "key 0": ("BIGINT", ["0", "1", "2", "0"])}
    rows = [Row(1, (k,), {}) for k in range(3)] + [Row(2, (0,), {})]
    case = Case(table, rows, ("key 0",), (CountUnits(),), 2)
    assert is_admissible(case, evaluated(engine(table), case.query()))
    too_many = Case(table, rows, ("key 0",), (CountUnits(),), 3)
    too_few = Case(table, rows, ("key 0",), (CountUnits(),), 1)
    assert not is_admissible(case, evaluated(engine(table), too_many.query()))
    assert not is_admissible(case, evaluated(engine(table), too_few.query()))


def some_keys(case: Case, data: Any) -> dict[Any, Any]:
    """Public groups, some of which have rows: as the framework is given them, to as an engine is."""
    domain = [KEY_TYPES[case.columns[k][0]] for k in case.keys]
    there = [zip(*(case.columns[k][1] for k in case.keys), strict=True)] if case.rows else []
    every = st.tuples(*(st.sampled_from([*t, None]) for t, _ in domain))
    texts = data.draw(
        st.lists(st.one_of(every, *(st.sampled_from(list(t)) for t in there)), min_size=1, max_size=6)
    )
    chosen: dict[Any, Any] = {}
    for row in texts:
        read = tuple(None if t is None else f(t) for t, (_, f) in zip(row, domain, strict=True))
        chosen.setdefault(tuple(map(as_key, read)), read)
    return chosen


@generated(20, case=lambda engine: cases(engine, binding=False), data=lambda engine: st.data())
def test_public_groups_are_all_there_and_rows_of_others_take_nothing(engine, case, data):
    if not case.keys:
        return
    opened = engine(case.columns)
    chosen = some_keys(case, data)
    public = opened.public_keys(case.keys, list(chosen.values()), ())
    limit = len(chosen)
    query = ExactQuery((), "unit", case.keys, public, limit, case.statistics)
    within = Case(case.columns, [r for r in case.rows if r.key in chosen], case.keys, case.statistics, limit)
    assert same(evaluated(opened, query), {key: {} for key in chosen} | definition(within))


def divisible(statistic: Statistic) -> Statistic:
    """The same, with steps for parts of units."""
    if isinstance(statistic, (Count, CountUnits, DistinctShared, RowsInBins, VectorCount)):
        return replace(statistic, exponent=min(statistic.exponent, -20) - statistic.exponent % 2)
    return statistic


@generated(20, case=lambda engine: cases(engine, binding=True), data=lambda engine: st.data())
def test_units_in_more_public_groups_than_the_limit_count_in_part_as_defined(engine, case, data):
    opened, chosen = engine(case.columns), some_keys(case, data)
    # In a matching a unit has a place or none.
    statistics = tuple(
        divisible(s) for s in case.statistics if not isinstance(s, (DistinctMatched, WeightedSum))
    )
    public = opened.public_keys(case.keys, list(chosen.values()), ())
    query = ExactQuery((), "unit", case.keys, public, case.groups, statistics, scaled=True)
    chain = scale_groups(case.groups, chosen) >> per_group(statistics, groups=case.groups, scaled=True)
    totals = {key: {name: n for name, n in total.items() if n} for key, total in chain(case.rows).items()}
    assert same(evaluated(opened, query), {key: {} for key in chosen} | totals)


def in_three_groups(engine) -> Result:
    """One unit in three public groups, where two are the limit: 2/3 of it in each; another in one."""
    table = pa.table({"unit": [1, 1, 1, 1, 2], "key 0": [0, 1, 2, 9, 0], "x": [30, 20, 11, 5, -7]})
    opened = engine(table)
    public = opened.public_keys(("key 0",), [0, 1, 2, 3], ())
    statistics = CountUnits(-20), Count(1, exponent=-21), UnitSum("s", "x", -2, -400, 400, False)
    query = ExactQuery((), "unit", ("key 0",), public, 2, statistics, scaled=True)
    return evaluated(opened, query)


def test_parts_are_seen_to_differ_from_wholes(engine):
    part, found = (2 << 20) // 3, in_three_groups(engine)
    assert [found[k,].get("units", 0) for k in range(4)] == [part + (1 << 20), part, part, 0]
    assert [found[k,].get("rows", 0) for k in range(4)] == [2 * part + (1 << 21), 2 * part, 2 * part, 0]
    assert [found[k,].get("s.total", 0) for k in range(4)] == [79 - 28, 53, 29, 0]


@pytest.mark.long
def test_planted_parts_of_another_limit_and_sums_that_are_rounded_otherwise_are_seen(openers, monkeypatch):
    honest, whole_number = in_three_groups(openers("duckdb")), RowSql.whole_number
    for place, name, wrong in (
        (bounding_sql, "weighted", lambda pairs, limit: contribution_limits.weighted(pairs, limit + 1)),
        (RowSql, "scaled", lambda sql, total, *_: f"({total} * w + {(1 << 20) - 1}) // {1 << 20}"),
        (RowSql, "whole_number", lambda sql, count, exponent: whole_number(sql, count, exponent - 1)),
    ):
        with monkeypatch.context() as planted:
            planted.setattr(place, name, wrong)
            assert in_three_groups(openers("duckdb")) != honest, name
    assert in_three_groups(openers("duckdb")) == honest


def test_public_groups_do_not_compete_with_other_groups(engine):
    table = pa.table({"unit": [1] * 50, "key 0": list(range(50))})
    opened = engine(table)
    public = opened.public_keys(("key 0",), [7, 99], ())
    for _ in range(engine.few(10)):
        query = ExactQuery((), "unit", ("key 0",), public, 1, (CountUnits(),))
        assert evaluated(opened, query) == {(7,): {"units": 1}, (99,): {}}


@pytest.mark.long
@generated(10, case=lambda engine: cases(engine, binding=False), data=lambda engine: st.data())
def test_neither_the_order_of_rows_nor_batches_matter(engine, case, data):
    order = data.draw(st.permutations(range(len(case.rows))))
    shuffled = {n: (t, [texts[i] for i in order]) for n, (t, texts) in case.columns.items()}
    one = evaluated(engine(case.columns), case.query())
    assert same(one, evaluated(engine(shuffled), case.query(), batch_rows=2))


def test_only_quantiles_of_the_whole_table_is_one_row(engine):
    """Not one row for each unit: their number would tell how many there are."""
    tree = QuantileTree("q", "x", 1, 0.0, 10.0, 0)
    query = ExactQuery((), "unit", (), None, 1, (tree,))
    for size in (0, 1, 7):
        table = pa.table(
            {"unit": pa.array(range(size), pa.int64()), "x": pa.array([1.0] * size, pa.float64())}
        )
        assert len(evaluated(engine(table), query)) == 1, size


def test_statistics_of_an_empty_table(engine):
    table = pa.table(
        {n: pa.array([], t) for n, t in (("unit", pa.int64()), ("k", pa.string()), ("x", pa.float64()))}
    )
    statistics = (
        CountUnits(),
        Count(2),
        UnitSum("s", "x", -3, 0, 80, False),
        QuantileTree("q", "x", 1, 0.0, 1.0, 0),
    )
    opened = engine(table)
    assert evaluated(opened, ExactQuery((), "unit", ("k",), None, 1, statistics)) == {}
    assert evaluated(opened, ExactQuery((), "unit", (), None, 1, statistics)) == {(): {}}
    public = opened.public_keys(("k",), ["a", None], ())
    expected = {("a",): {}, (None,): {}}
    assert evaluated(opened, ExactQuery((), "unit", ("k",), public, 1, statistics)) == expected


@pytest.mark.parametrize("kind", ["DECIMAL(38,10)", "DECIMAL(18,6)", "HUGEINT", "UBIGINT"])
def test_wide_numbers_become_the_nearest_float(engine, kind):
    """A value is read as float64 in the same way by every engine: correctly rounded."""
    digits = {"DECIMAL(38,10)": "1234567890123456789012345678", "DECIMAL(18,6)": "123456789012", "HUGEINT": "9" * 38,
              "UBIGINT": str(2**64 - 1)}[kind]  # fmt: skip
    point = {"DECIMAL(38,10)": ".1234567891", "DECIMAL(18,6)": ".123457"}.get(kind, "")
    values = [digits[:n] + point for n in range(1, len(digits) + 1)]
    table = {
        "unit": ("INTEGER", [str(i) for i in range(len(values))]),
        "k": ("INTEGER", [str(i) for i in range(len(values))]),
        "x": (kind, values),
    }
    # A grid as fine as float64 itself, from 0 to 2^52 steps, shows the last bit of smaller values.
    statistics = tuple(UnitSum(f"s{e}", "x", e, 0, 1 << 52, False) for e in range(-30, 80, 10))
    rows = [Row(i, (i,), {"x": Decimal(v) if point else int(v)}) for i, v in enumerate(values)]
    case = Case(table, rows, ("k",), statistics, 1)
    assert evaluated(engine(table), case.query()) == definition(case)


def test_unsigned_128_bit_integers_clamp(engine):
    table = {"unit": ("INTEGER", ["1", "2"]), "x": ("UHUGEINT", [str(2**128 - 1), "3"])}
    query = ExactQuery((), "unit", (), None, 1, (UnitSum("s", "x", 0, 0, 10, True),))
    assert evaluated(engine(table), query) == {(): {"s.total": 13}}


def test_counting_values_of_a_text_column(engine):
    table = {"unit": ("INTEGER", ["1", "1", "2"]), "x": ("VARCHAR", ["nan", None, "abc"])}
    query = ExactQuery((), "unit", (), None, 1, (Count(2, "x"),))
    rows = [Row(1, (), {"x": "nan"}), Row(1, (), {"x": None}), Row(2, (), {"x": "abc"})]
    found = evaluated(engine(table), query)
    assert found == {(): {"x.present": 2}}
    assert found == definition(Case(table, rows, (), query.statistics, 1))


def test_products_are_of_rows_with_a_value_of_each_column(engine):
    """A row that lacks one adds nothing, to sums of the other column and to their number either."""
    table = {
        "unit": ("INTEGER", ["1", "1", "2", "3", "3"]),
        "x": ("INTEGER", ["1", "3", None, "2", "5"]),
        "y": ("INTEGER", ["4", None, "6", "7", None]),
    }
    axes = tuple(Axis(c, c, ValueGrid(0, 0, 8), 8) for c in "xy")
    cross = CrossMoments("t", axes, 2, ((0, 0), (0, 1), (1, 1)), 0)
    query = ExactQuery((), "unit", (), None, 1, (cross,))
    # Of (1, 4) and (2, 7), less their centre of 4, and less 8 from each square.
    assert evaluated(engine(table), query) == {
        (): dict(zip(cross.names, (2, -5, 3, -3, -6, -7), strict=True))
    }


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE", "VARCHAR"])
def test_rows_without_a_unit_are_dropped(engine, kind):
    table = {
        "unit": (kind, [None, "1", None, "2"]),
        "key 0": ("INTEGER", ["0", "0", "1", "0"]),
        "x": ("INTEGER", ["5", "1", "2", "3"]),
    }
    statistics = (CountUnits(), Count(2), UnitSum("sum", "x", 0, 0, 10, True))
    for keys, groups in ((("key 0",), 1), (("key 0",), 2), ((), 1)):
        found = evaluated(engine(table), ExactQuery((), "unit", keys, None, groups, statistics))
        assert found == {(0,) if keys else (): {"units": 2, "rows": 2, "sum.total": 4}}, (keys, groups)


@pytest.mark.long
def test_names_that_an_engine_might_use_itself(engine):
    names = ["u", "k0", "n", "v:u", "units", "rows", "leaf", "weight", "input", "pairs", "kept", "sums", "m",
             'q"uote', "semi;colon--", "SELECT", "é", "k0.tree", "public_keys", "counted", "nothing"]  # fmt: skip
    roles = list(zip(names, names[1:] + names[:1], names[2:] + names[:2], strict=True))
    for unit, key, value in roles[:: 3 if engine.slow else 1]:  # each name in each role, or in one of them
        table = {
            unit: ("INTEGER", [None, "1", "1", "2"]),
            key: ("VARCHAR", ["a", "a", "b", "a"]),
            value: ("INTEGER", ["5", "1", "2", "3"]),
        }
        statistics = (UnitSum("sum", value, 0, 0, 10, True), QuantileTree("tree", value, 1, 0.0, 10.0, 0))
        found = evaluated(engine(table), ExactQuery((), unit, (key,), None, 5, statistics))
        assert {k: v["sum.total"] for k, v in found.items()} == {("a",): 4, ("b",): 2}, (unit, key, value)


@pytest.mark.long
@pytest.mark.flakiness(k=100, because="noise of scale 0.0012 or less rounds to 0")
@pytest.mark.parametrize("key", ["units", "rows", "x.present"])
def test_a_key_may_have_the_name_of_a_coordinate(engine, key):
    """The two are columns of one batch; `release` must be able to tell them apart."""
    import sfumato as sf
    from sfumato.api.table import Table

    table = pa.table({"unit": range(60), key: ["a"] * 60, "x": [1] * 60})
    question = Table(engine(table), "unit").group_by(key).bound(groups=1, rows=2)
    released = question.agg(n=sf.count(), u=sf.count_units(), v=sf.count("x")).release(
        epsilon=5000, delta=1e-6
    )
    assert released.to_arrow().to_pylist() == [{key: "a", "n": 60, "u": 60, "v": 60}]


def test_steps_come_before_the_bounds(engine):
    table = pa.table({"unit": [1, 1, 2, 3], "k": ["a", "b", "a", "a"], "x": [1, 5, 7, None]})
    steps = (Derive("y", "x * 2"), Filter("y > 3 OR x IS NULL"), Derive("y", "y + 1"))
    query = ExactQuery(steps, "unit", ("k",), None, 5, (CountUnits(), UnitSum("s", "y", 0, 0, 100, True)))
    expected = {("a",): {"units": 2, "s.total": 15}, ("b",): {"units": 1, "s.total": 11}}
    assert evaluated(engine(table), query) == expected


@pytest.mark.parametrize("missing", [True, False])
def test_a_unit_without_values_adds_nothing_to_its_sum(engine, missing):
    """It adds nothing but the centre that the count of units gives back; and the nearest bound if declared full."""
    table = pa.table({"unit": [1, 1, 2, 2, 3], "x": pa.array([None, None, 2.0, None, float("nan")])})
    for lower, upper, centre in ((5, 10, 3), (-9, -4, 0), (-1, 8, 0)):
        s = UnitSum("s", "x", 0, lower, upper, False, centre, missing)
        none = 0 if missing else min(max(0, lower), upper)
        expected = 2 * none + min(max(2, lower), upper) - 3 * centre
        query = ExactQuery((), "unit", (), None, 1, (s,))
        assert evaluated(engine(table), query) == {(): {"s.total": expected} if expected else {}}


@pytest.mark.long
def test_every_choice_in_a_product_of_small_tables(engine):
    """All tables of two rows over two units and two groups, side by side; and some of them alone."""
    statistics = (CountUnits(), Count(1), Count(1, "x"), UnitSum("s", "x", 0, 1, 3, True))
    cells = list(product([None, 1, 2], ["a", None], [4]))
    tables = list(product(cells, repeat=2))
    for together in [tables, *([table] for table in tables[:: len(tables) if engine.slow else 5])]:
        flat = [(i, *row) for i, table in enumerate(together) for row in table]
        arrow = pa.table(
            {
                "unit": pa.array([u and f"{i} {u}" for i, u, _, _ in flat], pa.string()),
                "table": pa.array([i for i, _, _, _ in flat], pa.int64()),
                "k": pa.array([k for _, _, k, _ in flat], pa.string()),
                "x": pa.array([x for _, _, _, x in flat], pa.int64()),
            }
        )
        query = ExactQuery((), "unit", ("table", "k"), None, 1, statistics)
        found = evaluated(engine(arrow), query)
        for i, table in enumerate(together):
            rows = [Row(u, (i, k), {"x": x}) for u, k, x in table]
            case = Case({}, rows, query.keys, statistics, 1)
            assert is_admissible(case, {key: numbers for key, numbers in found.items() if key[0] == i})
