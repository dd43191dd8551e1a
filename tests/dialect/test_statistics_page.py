"""docs/statistics.md, row by row: each aggregate has a row; Python and SQL of it ask the same; what a unit adds is as told."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.question import Question
from sfumato.dialect import parse
from sfumato.dialect.keywords import PRIVATE, refusals
from sfumato.query import aggregates as ask
from tests.support.tiers import one_in

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
# One unit has five rows of the largest value and weight in each of three steps; nobody else has any.
HEAVY = pa.table(
    {
        "id": [1] * 15,
        "g": [0, 1, 2] * 5,
        "x": [9.0] * 15,
        "y": [9.0] * 15,
        "z": [9.0] * 15,
        "yes": [True] * 15,
        "kind": [i // 3 for i in range(15)],
        "half": [i % 2 for i in range(15)],
        "w": [90.0] * 15,
        "v": pa.array([[3.0, 4.0]] * 15, pa.list_(pa.float64())),
    }
)
R, B = "contribution_bounds_per_row => (0, 3)", "contribution_bounds_per_group => (0, 3)"
X, W, SW = {"lower": 0, "upper": 3}, {"weight": "w", "max_weight": 50}, "weight => w, max_weight => 50"
PAIR, TRIPLE = (f"contribution_bounds_per_row => ({', '.join(['(0, 3)'] * n)})" for n in (2, 3))
BOTH, ALL = ({c: (0, 3) for c in names} for names in ("xy", "xyz"))
STRATA = "stratum => g, strata => [0, 1, 2], asked => [5, 5, 5], population => [9, 9, 9]"
SIZES = {"stratum": "g", "asked": dict.fromkeys(range(3), 5), "population": dict.fromkeys(range(3), 9)}
VECTOR = "length => 2, bound => 1"
# By the first words of a row: each aggregate, its SQL, and what the heavy unit adds with rows=2, where a number
# by itself shows it: in all outputs together.
ROWS = {
    "sf.count()": [(sf.count(), "COUNT(*)", 2), (sf.count("x"), "COUNT(x)", 2)],
    'sf.count_if("x")': [(sf.count_if("yes"), "COUNTIF(yes)", 2)],
    "sf.count_units()": [(sf.count_units(), "COUNT(DISTINCT id)", 1)],
    'sf.count_distinct("x", values=3)': [
        (sf.count_distinct("kind", values=3), f"COUNT(DISTINCT kind, {B})", 3),
        (sf.count_distinct("kind", values=3, method="shares"), f"APPROX_COUNT_DISTINCT(kind, {B})", 3),
    ],
    'sf.sum("x", lower=, upper=)': [(sf.sum("x", **X, per="unit"), f"SUM(x, {B})", 3)],
    'sf.sum(..., per="row")': [(sf.sum("x", **X, per="row"), f"SUM(x, {R})", 6)],
    "sf.mean": [
        (sf.mean("x", **X), f"AVG(x, {R})", None),
        (sf.variance("x", **X), f"VAR_POP(x, {R})", None),
        (sf.stddev("x", **X), f"STDDEV_POP(x, {R})", None),
    ],
    'sf.proportion("x")': [(sf.mean("yes", lower=0, upper=1), "AVG(yes, contribution_bounds_per_row => (0, 1))", None)],
    'sf.proportion("x", stratum=, asked=, population=)': [
        (sf.proportion("yes", **SIZES), f"STRATIFIED_PROPORTION(yes, {STRATA})", None)
    ],
    'sf.quantiles("x", [0.25, 0.75])': [
        (sf.quantiles("x", [0, 0.5, 1], **X), f"APPROX_QUANTILES(x, 2, {R})", None),
        (sf.quantile("x", 0.25, **X), f"PERCENTILE_CONT(x, 0.25, {R})", None),
        (sf.median("x", **X), f"MEDIAN(x, {R})", None),
    ],
    "sf.min": [(sf.min("x", **X), f"MIN(x, {R})", None), (sf.max("x", **X), f"MAX(x, {R})", None)],
    "sf.cumulative": [
        (sf.cumulative(sf.count(), over="g"), "CUMULATIVE_COUNT(*, over => g)", 2),
        (sf.cumulative(sf.sum("x", **X, per="unit"), over="g"), f"CUMULATIVE_SUM(x, {B}, over => g)", 3),
    ],
    'sf.vector_sum("x", length=128, bound=1)': [
        (sf.vector_sum("v", length=2, bound=1), f"VECTOR_SUM(v, {VECTOR})", 1),
        (sf.vector_sum("v", length=2, bound=1, per="row"), f"VECTOR_SUM(v, {VECTOR}, per => 'row')", 2),
    ],
    'sf.vector_mean("x", length=128, bound=1)': [
        (sf.vector_mean("v", length=2, bound=1), f"VECTOR_AVG(v, {VECTOR})", None)
    ],
    'sf.histogram("x", [0, 18, 65])': [
        (sf.histogram("kind", [0, 2, 9]), "HISTOGRAM(kind, [0, 2, 9])", 2),
        (sf.value_counts("half", [0, 1]), "VALUE_COUNTS(half, [0, 1])", 2),
    ],
    'the same with per="unit"': [
        (sf.histogram("kind", [0, 2, 9], per="unit"), "HISTOGRAM(kind, [0, 2, 9], per => 'unit')", 1),
        (sf.value_counts("half", [0, 1], per="unit"), "VALUE_COUNTS(half, [0, 1], per => 'unit')", 1),
    ],
    "sf.count with weight=": [
        (sf.count(**W), f"COUNT(*, {SW})", 100),
        (sf.sum("x", **X, **W), f"SUM(x, {R}, {SW})", 300),
        (sf.mean("x", **X, **W), f"AVG(x, {R}, {SW})", None),
    ],
    "sf.histogram with weight=": [
        (sf.histogram("kind", [0, 2, 9], **W), f"HISTOGRAM(kind, [0, 2, 9], {SW})", 100),
        (sf.value_counts("half", [0, 1], **W), f"VALUE_COUNTS(half, [0, 1], {SW})", 100),
    ],
    "sf.covariance": [
        (sf.covariance("x", "y", bounds=BOTH), f"COVAR_POP(x, y, {PAIR})", None),
        (sf.correlation("x", "y", bounds=BOTH), f"CORR(x, y, {PAIR})", None),
        (sf.linear_regression("x", ["y", "z"], bounds=ALL), f"LINEAR_REGRESSION(x, y, z, {TRIPLE})", None),
    ],
}  # fmt: skip
DERIVED, TOP = 'sf.ratio("a", "b")', 'table.top("x", k=10)'


def table_of(page: str) -> list[list[str]]:
    """Return the cells of the page's first table."""
    lines = page.split("\n| Python | SQL |", 1)[1].split("\n\n", 1)[0].split("\n")
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[2:]]


CELLS = table_of(PAGE.read_text())


def begins(cell: str) -> str:
    """Return what a row is called here: its first words, and whether it has weights."""
    first = re.match(r"(the same with )?`([^`]*)`", cell)
    assert first, cell
    weighted = " with weight=" if cell.endswith("with `weight=`") else ""
    return (first[1] or "") + first[2] + weighted


def missing(cells: list[list[str]]) -> set[str]:
    """Return the public aggregates and SQL functions without a row of their own, whatever they take."""
    own = [row for row in cells if "weight=" not in row[0]]
    python, written = (" ".join(row[place] for row in own) for place in (0, 1))
    told = set(re.findall(r"(?:sf|release)\.(\w+)", python))
    newer = {name for name in PRIVATE if not name.startswith("ANON_")}
    # Other spellings, which docs/sql.md lists.
    newer -= {"VARIANCE", "STDDEV", "QUANTILES", "COUNT_IF"}
    asked = {function.__name__ for function in ask.FUNCTIONS} | {"share_of_total", "compare"}
    return (asked - told) | (newer - set(re.findall(r"[A-Z]+(?:_[A-Z]+)*", written)))


def test_each_public_aggregate_and_each_sql_name_has_a_row():
    assert missing(CELLS) == set()
    # Planted: without any one of the rows something is missing, but where another row has options of the same.
    for i, (python, *_) in enumerate(CELLS):
        again = begins(python).startswith(("sf.sum", "the same", 'sf.proportion("x")')) or "weight=" in python
        if not (again and "stratum" not in python):
            assert missing(CELLS[:i] + CELLS[i + 1 :]), python


def test_each_sql_name_is_on_the_page_of_sql_too():
    page = (PAGE.parent / "sql.md").read_text()
    assert [name for name in PRIVATE if f"`{name}" not in page] == []
    assert not set(PRIVATE) & set(refusals("aggregates"))


def test_each_row_is_checked_here():
    assert [begins(python) for python, *_ in CELLS] == [*ROWS, DERIVED, TOP]


def question(sql: str, keys: str = "") -> Question:
    given = "epsilon = 1, delta = 1e-6, privacy_unit_column = id, max_rows_per_group = 2"
    groups = ", max_groups_contributed = 3" if keys else ""
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS ({given}{groups}) {keys}{sql} AS o FROM t{' GROUP BY g' * bool(keys)}"
    declared = {"source": HEAVY, "privacy_unit": "id", "columns": {"g": {"domain": [0, 1, 2]}}}
    catalog = sf.catalog({"tables": {"t": declared}})
    made = parse(text.replace("privacy_unit_column = id, ", ""), catalog).question(
        lambda name, _: catalog.table(name)
    )
    assert isinstance(made, Question)
    return made


def over_steps(aggregate: ask.Aggregate) -> bool:
    return isinstance(aggregate, ask.Cumulative)


@pytest.mark.parametrize("row", one_in(3, ROWS))
def test_sql_asks_what_python_asks(row):
    (sql_cell,) = (sql for python, sql, *_ in CELLS if begins(python) == row)
    for aggregate, sql, _ in ROWS[row]:
        function = sql.partition("(")[0]
        if "weight" in row or function not in ("COUNT", "SUM", "AVG"):
            assert function in sql_cell or row.startswith("the same"), sql
        made = question(sql, "g, " * over_steps(aggregate)).query
        assert dict(made.aggregates) == {"o": aggregate}


@pytest.mark.parametrize("row", one_in(4, [row for row in ROWS if ROWS[row][0][2] is not None]))
def test_what_one_unit_adds_is_as_told(row, noise_free):
    for aggregate, sql, most in (one for one in ROWS[row] if one[2] is not None):
        steps = over_steps(aggregate)
        # Its groups are those of public steps, where it counts in all three; else there is one.
        asked = question(sql, "g, " * steps)
        options = {"epsilon": 1, "delta": "1e-6"}
        released = asked.release(**options).to_arrow()
        columns = released.columns[steps:]
        if steps:
            assert columns[0].to_pylist() == pytest.approx([most, 2 * most, 3 * most], rel=1e-4)
            continue
        found = [column[0].as_py() for column in columns]
        if isinstance(found[0], list):
            found = [sum(entry**2 for entry in found[0]) ** 0.5]
        assert sum(found) == pytest.approx(most, rel=1e-4), sql
