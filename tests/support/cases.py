"""Generated tables with statistics of them, what engines answer, and what the definitions do."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from sfumato.query.engine_protocol import ExactQuery
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
    Listed,
    Moments,
    QuantileTree,
    Row,
    RowsInBins,
    Statistic,
    UnitsInBins,
    UnitSum,
    ValueGrid,
    ValueTree,
    VectorCount,
    VectorSum,
    WeightedSum,
    WeightGrid,
    WeightsInBins,
    bound_groups,
    per_group,
)


def generated(examples: int, local: bool = False, **strategies: Callable[[Any], Any]):
    """Run a test of an engine on generated examples, fewer of them where an evaluation takes long.

    Args:
        examples: how many in the second tier; the first has a fifth of them.
        local: whether engines of one machine alone are asked.
        strategies: by argument of the test, a function of the engine to a strategy.
    """

    def decorate(test: Callable[..., None]):
        def asked(opener: Any, share: int) -> None:
            def one(**arguments: Any) -> None:
                test(opener, **arguments)

            chosen = settings(
                max_examples=opener.few(examples // share), derandomize=True, database=None, deadline=None,
                suppress_health_check=list(HealthCheck), phases=[Phase.generate],
            )  # fmt: skip
            chosen(given(**{name: of(opener) for name, of in strategies.items()})(one))()

        if local:

            def run(local_engine, share):
                asked(local_engine, share)
        else:

            def run(engine, share):
                asked(engine, share)

        run.__name__ = run.__qualname__ = test.__name__
        run.__doc__ = test.__doc__
        shares = [5, pytest.param(1, marks=pytest.mark.long)]
        return pytest.mark.parametrize("share", shares, ids=["some", "all"])(run)

    return decorate


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
    choices.append(
        st.builds(
            ValueTree, st.just("t"), st.just("x"), st.just(rows),
            st.sampled_from([Lattice(0.0, 30.0, True), Lattice(-5.0, 4000.0, True), Lattice(1e15, 1e15 + 9, True)]),
            st.sampled_from([0, -5, -14]), st.sampled_from([(1,), (1, 6), (1, 2, 4, 8)]),
        )
    )  # fmt: skip
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
                elif name.endswith((".tree", ".values")):
                    leaves = [e["leaf"] for e in row[name] or []]
                    assert leaves == sorted(set(leaves))
                    tree = next(s for s in query.statistics if s.names == (name,))
                    for e in row[name] or []:
                        for node in tree.nodes(e["leaf"]):
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
