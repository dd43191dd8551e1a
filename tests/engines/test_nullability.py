"""Where a column has no NULL and no NaN: found by filters, expressions and joins, and never where one can be left."""

import math
import random
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb.expressions.validation import validate
from sfumato.engines.duckdb.nullability import STRICT
from sfumato.engines.duckdb.row_steps import make_column
from sfumato.errors import SfumatoError
from sfumato.query.schema import FLOATS
from sfumato.testing import assert_approx_equal
from tests.support.expressions import AWKWARD, signatures

KINDS = {
    "n": "BIGINT",
    "m": "BIGINT",
    "x": "DOUBLE",
    "f": "FLOAT",
    "s": "VARCHAR",
    "b": "BOOLEAN",
    "d": "DATE",
}
# Without a missing value.
COMPLETE = {"i": "INTEGER", "z": "DOUBLE", "e": "DATE"}
SCHEMA = {name: make_column(kind, name in KINDS) for name, kind in (KINDS | COMPLETE).items()}
VALUES = {
    "BIGINT": ["0", "1", "-1", "70", "9223372036854775807"],
    "INTEGER": ["0", "1", "-1", "2147483647"],
    "DOUBLE": ["0", "-1.5", "2", "inf", "-inf", "1e308"],
    "FLOAT": ["0", "2", "inf", "3e38"],
    "VARCHAR": ["", "abc", "5", "nan", "true"],
    "BOOLEAN": ["true", "false"],
    "DATE": ["2020-02-29", "infinity", "0001-01-01"],
}


@pytest.fixture(scope="module")
def rows() -> Iterator[duckdb.DuckDBPyConnection]:
    """A table in which a third of the values of most columns is missing."""
    chance, columns = random.Random(4), {}
    for name, kind in (KINDS | COMPLETE).items():
        lost = [] if name in COMPLETE else [None, "nan"] if kind in FLOATS else [None]
        columns[name] = [
            chance.choice(lost if lost and i % 3 == chance.randrange(3) else VALUES[kind]) for i in range(200)
        ]
    with duckdb.connect() as connection:
        connection.register(
            "texts", pa.table({name: pa.array(of, pa.string()) for name, of in columns.items()})
        )
        typed = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in (KINDS | COMPLETE).items())
        connection.execute(f"CREATE TABLE rows AS SELECT {typed} FROM texts")
        yield connection


def missing(value: str, kind: str) -> str:
    return f"({value} IS NULL)" if kind not in FLOATS else f"({value} IS NULL OR isnan({value}))"


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("n >= 0", "n"),
        ("N >= 0", "n"),
        ("n BETWEEN 0 AND 9 AND s LIKE 'a%'", "ns"),
        ("n IN (1, 2)", "n"),
        ("n NOT IN (1, 2)", "n"),
        ("NOT (n < 0 OR m < 0)", "nm"),
        ("n < 0 OR m < 0", ""),
        ("n < 0 OR n > 5", "n"),
        ("n < m", "nm"),
        ("n + 1 > m * 2", "nm"),
        ("n IS NULL OR n > 3", ""),
        ("n IS NOT NULL", "n"),
        ("NOT (n IS NULL)", "n"),
        ("coalesce(n, 0) = 0", ""),
        ("coalesce(n, n + 1) = 0", "n"),
        ("n IS DISTINCT FROM 3", ""),
        ("greatest(n, 0) = 0", ""),
        ("CASE WHEN n > 0 THEN m > 0 ELSE n < m END", "nm"),
        ("CASE WHEN n > 0 THEN m > 0 ELSE m < 0 END", "m"),
        ("CASE WHEN n IS NULL THEN false ELSE true END", ""),
        ("year(d) = 2020 AND length(s) > 2", "ds"),
        ("b", "b"),
        ("NOT b", "b"),
        ("CAST(n AS DOUBLE) < 1", "n"),
        # NaN is above all numbers.
        ("x >= 0", ""),
        ("x <= 9", "x"),
        ("x < m", "xm"),
        ("x = 5", "x"),
        ("NOT (x >= 9)", "x"),
        ("x <= 'nan'", ""),
        ("x <= f", ""),
        ("x < f", "x"),
        ("x BETWEEN 0 AND 9", "x"),
        ("x IN (1, 2)", "x"),
        ("x IS NOT NULL", ""),
        ("NOT isnan(x)", "x"),
        ("isfinite(f)", "f"),
        ("f < 0.5", "f"),
    ],
)
def test_a_filter_leaves_no_missing_value(rows, condition, found):
    one = validate("filter", condition, SCHEMA)
    assert one.complete - set(COMPLETE) == set(found)
    for name, kind in KINDS.items():
        if name in found:
            assert not rows.sql(f"FROM rows WHERE {one.condition} AND {missing(name, kind)}").fetchall()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("coalesce(n, 0)", False),
        ("coalesce(n, m)", True),
        ("ifnull(n, i)", False),
        ("coalesce(x, 0)", True),
        ("CASE WHEN isnan(x) THEN 0 ELSE coalesce(x, 0) END", False),
        ("CASE WHEN x IS NULL OR isnan(x) THEN 0 ELSE x END", False),
        ("if(x < 9, x, 0)", False),
        ("CASE WHEN isnan(CASE WHEN b THEN x END) THEN 0 WHEN x IS NULL THEN 0 ELSE x END", True),
        ("CASE WHEN n > 0 THEN n ELSE 0 END", False),
        ("CASE WHEN n > 0 THEN n END", True),
        ("CASE WHEN n > 0 THEN m ELSE 0 END", True),
        ("CASE WHEN n > 0 THEN 0 ELSE n END", True),
        ("year(e)", True),
        ("i * i + 1", False),
        ("i // 2", False),
        ("i // 0", True),
        ("i * 100000000000 * 100000000000 * 100000000000", True),
        ("n + 1", True),
        ("z", False),
        ("z + 1", True),
        ("CAST(i AS DOUBLE)", False),
        ("CAST(z AS BIGINT)", True),
        ("3", False),
        ("NULL", True),
        ("CAST('nan' AS DOUBLE)", True),
        ("n IS NULL", False),
        ("n > 0", True),
        ("i > 0 AND z < 3", False),
        ("greatest(n, 0)", False),
        ("nullif(i, 0)", True),
    ],
)
def test_an_expression_has_a_value_in_each_row(rows, text, found):
    one = validate("with_columns", text, SCHEMA)
    assert one.missing is found
    if not found:
        assert not rows.sql(f"FROM rows WHERE {missing(one.text, one.type_name)}").fetchall()


class Made:
    """Random conditions and values over the columns."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def one(self, *texts: str) -> str:
        return self.chance.choice(texts)

    def condition(self, depth: int) -> str:
        if depth == 0:
            return f"({self.value(0)} {self.one('=', '<>', '<', '<=', '>', '>=')} {self.value(0)})"
        c, v, deeper = self.condition, self.value, depth - 1
        match self.chance.randrange(10):
            case 0 | 1:
                return f"({c(deeper)} {self.one('AND', 'OR')} {c(deeper)})"
            case 2:
                return f"(NOT {c(deeper)})"
            case 3:
                return f"({self.one(c(deeper), v(deeper))} IS {self.one('', 'NOT ')}NULL)"
            case 4:
                return f"({v(deeper)} {self.one('', 'NOT ')}BETWEEN {v(deeper)} AND {v(deeper)})"
            case 5:
                return f"({v(deeper)} {self.one('', 'NOT ')}IN ({v(deeper)}, {v(0)}))"
            case 6:
                return (
                    f"({c(deeper)} IS {self.one('', 'NOT ')}{self.one('TRUE', 'FALSE', 'DISTINCT FROM b')})"
                )
            case 7:
                return f"{self.one('isnan', 'isfinite', 'isinf')}({self.one('x', 'f', f'CAST({v(deeper)} AS DOUBLE)')})"
            case 8:
                return f"CASE WHEN {c(deeper)} THEN {c(deeper)} ELSE {c(deeper)} END"
        return f"({v(deeper)} {self.one('=', '<', '<=', '>', '>=')} {v(deeper)})"

    def value(self, depth: int) -> str:
        if depth == 0:
            return self.one(
                "n", "m", "x", "f", "i", "z", "n", "x", "0", "1", "2.5", "NULL", "CAST('nan' AS DOUBLE)"
            )
        c, v, deeper = self.condition, self.value, depth - 1
        match self.chance.randrange(7):
            case 0:
                return f"coalesce({v(deeper)}, {v(deeper)})"
            case 1:
                return f"CASE WHEN {c(deeper)} THEN {v(deeper)} ELSE {v(deeper)} END"
            case 2:
                return f"CASE WHEN {c(deeper)} THEN {v(deeper)} WHEN {c(deeper)} THEN {v(deeper)} END"
            case 3:
                return f"({v(deeper)} {self.one('+', '-', '*', '/', '//', '%')} {v(deeper)})"
            case 4:
                return f"CAST({v(deeper)} AS {self.one('BIGINT', 'DOUBLE', 'FLOAT', 'INTEGER')})"
            case 5:
                return f"{self.one('greatest', 'least', 'nullif', 'ifnull')}({v(deeper)}, {v(deeper)})"
        return f"{self.one('abs', 'round', 'sign', '-', 'floor', 'sqrt')}({v(deeper)})"


def check_random(rows: duckdb.DuckDBPyConnection, chance: random.Random, count: int) -> None:
    """What is found of random conditions and values is so in all rows; and much is found."""
    claimed = 0
    for _ in range(count):
        made = Made(chance)
        text = chance.choice([made.condition, made.value])(chance.choice([1, 2, 2, 3]))
        try:
            one = validate("filter", text, SCHEMA)
        except SfumatoError:
            continue
        left = [missing(name, KINDS[name]) for name in sorted(one.complete - set(COMPLETE))]
        tests = [f"{one.condition} AND ({' OR '.join(left)})"] if left else []
        tests += [] if one.missing else [missing(f"TRY({one.text})", one.type_name)]
        claimed += len(tests)
        for test in tests:
            assert not rows.sql(f"SELECT 1 FROM rows WHERE {test} LIMIT 1").fetchall(), (text, one)
    assert claimed > count / 4


def test_no_random_condition_leaves_a_missing_value_that_was_not_expected(rows):
    check_random(rows, random.Random(1), 20)


@pytest.mark.long
def test_no_random_condition_of_many_leaves_one(rows):
    check_random(rows, random.Random(2), 600)


@pytest.mark.long
def test_functions_that_are_null_where_an_argument_is(rows):
    """For each list of types that DuckDB gives a function, with NULL in the place of each argument."""
    tried, chance = set(), random.Random(1)
    for name in sorted(STRICT):
        for types in signatures()[name]:
            plain = [{"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE"}.get(kind, kind) for kind in types]
            samples = [next((v for k, v in AWKWARD.values() if k == kind), ["1", "day"]) for kind in plain]
            for place in range(len(types)):
                some = [chance.choice([one for one in of if one and one.isascii()]) for of in samples]
                values = [f"TRY_CAST('{one}' AS {kind})" for one, kind in zip(some, plain, strict=True)]
                values[place] = "NULL"
                call = f'"{name}"({", ".join(values)})'
                try:
                    (found,) = rows.execute(f"SELECT {call} IS NULL").fetchall()
                except duckdb.Error:
                    continue
                tried.add(name)
                assert found == (True,), call
    assert len(tried) > 0.8 * len(STRICT)


VISITS = {"id": pa.int64(), "town": pa.string(), "n": pa.int64(), "x": pa.float64()}


def visits() -> sf.Table:
    return sf.scan(pa.table({name: pa.array([], kind) for name, kind in VISITS.items()}), privacy_unit="id")


def test_joins_leave_no_missing_key():
    towns = sf.public(pa.table({"town": ["A"], "place": pa.array([1.0]), "region": ["r"]}))
    joined = visits().join(towns, on="town")
    assert {name: column.missing for name, column in joined.schema.items()} == {
        "id": True, "town": False, "n": True, "x": True, "place": True, "region": True,
    }  # fmt: skip
    assert visits().join(towns, on="town", how="left").schema["town"].missing
    assert visits().join(towns, on=[("x", "place")]).schema["x"].missing  # NaN is equal to NaN
    other = visits().filter("x < 9").with_columns(y="x")
    both = visits().join(other, on=[("id", "id"), ("town", "town")])
    assert not any(both.schema[name].missing for name in ("id", "town", "y"))


def test_rows_of_a_unit_have_numbers():
    aggregates = {
        "rows": "count(*)",
        "some": "count(*) FILTER (WHERE n > 0)",
        "total": "sum(n)",
        "least": "min(n) FILTER (WHERE n > 0)",
    }
    units = visits().per_unit(**aggregates).schema
    assert [name for name, column in units.items() if not column.missing] == ["rows", "some"]
    units = visits().filter("n > 0").per_unit(**aggregates).schema
    assert [name for name, column in units.items() if not column.missing] == ["rows", "some", "total"]


def test_the_unit_is_never_missing():
    """Rows without one are dropped."""
    question = visits().bound(rows=3).agg(all=sf.count(), ids=sf.count("id"), n=sf.count("n"))
    estimates = question.plan(epsilon=1).requirements.estimates
    assert [e.coordinates for e in estimates] == [("rows",), ("rows",), ("n.present",)]
    assert [name for name, column in question.query.schema.items() if not column.missing] == ["id"]


def test_a_column_that_is_not_missing_costs_no_count_of_rows_without_it():
    """`n` is of a nullable column, as all of pandas and of most Parquet files are."""

    def expected(table):
        asked = table.group_by("town", keys=["A", "B"]).bound(groups=3, rows=1)
        return (
            asked.agg(rows=sf.count(), mean=sf.mean("n", lower=0, upper=30)).plan(epsilon=1).expected["rows"]
        )

    assert expected(visits()) > 1.2 * expected(visits().filter("n >= 0"))
    assert expected(visits().filter("n >= 0")) == expected(visits().with_columns(n="coalesce(n, 0)"))


def test_the_explanation_says_what_a_nullable_column_costs_and_what_to_write():
    def notes(table, **options):
        asked = table.group_by("town").bound(groups=3, rows=1).agg(
            rows=sf.count(), n=sf.mean("n", lower=0, upper=30), x=sf.mean("x", lower=0, upper=30)
        )  # fmt: skip
        found = asked.plan(epsilon=1, delta=1e-6, **options).explain().to_dict()["notes"]
        return [note for note in found if "without a value" in note]

    remedy = "If no value is missing, keep rows where n IS NOT NULL AND NOT isnan(x)."
    assert notes(visits()) == [
        f"Rows without a value of n, x are counted, which takes 40.0% of the budget. {remedy}"
    ]
    assert notes(visits(), noise="laplace") == [
        f"Rows without a value of n, x are counted, which adds noise. {remedy}"
    ]
    assert notes(visits().filter("n IS NOT NULL AND NOT isnan(x)")) == []
    (derived,) = notes(visits().filter("NOT isnan(x)").with_columns(n="n * 2"))
    assert derived.endswith("takes 25.0% of the budget. If no value is missing, write coalesce(n * 2, 0).")
    assert notes(visits().filter("NOT isnan(x)").with_columns(n="coalesce(n * 2, 0)")) == []
    (floats,) = notes(visits().filter("n > 0").with_columns(x="x * 2"))
    assert floats == "Rows without a value of x * 2 are counted, which takes 25.0% of the budget."


def test_missing_values_are_replaced_before_bounds_apply():
    rows = pa.table({
        "id": range(6), "n": [1, 2, None, 4, None, 30], "x": [1.0, 2.0, None, math.nan, 5.0, 9.0], "b": [True, None, False, None, True, True],
        "n_or_5": [0] * 6,
    })  # fmt: skip
    table = sf.scan(rows, privacy_unit="id").bound(rows=1)
    aggregates = {
        "s": sf.sum("n", lower=0, upper=20, missing=5), "m": sf.mean("n", lower=0, upper=20, missing=5),
        "h": sf.mean("n", lower=0, upper=20, missing="0.5"), "x": sf.mean("x", lower=0, upper=10, missing=0.5),
        "v": sf.variance("x", lower=0, upper=10, missing=2), "d": sf.stddev("n", lower=0, upper=10, missing=100),
        "b": sf.mean("b", lower=0, upper=1, missing=0), "w": sf.sum("x", lower=0, upper=10, weight="n", max_weight=2, missing=1),
        "a": sf.mean("n", lower=0, upper="auto", missing=4), "old": sf.mean("n", lower=0, upper=20),
    }  # fmt: skip
    question = table.agg(**aggregates)
    lost = {name for name, column in question.table.schema.items() if column.missing}
    assert lost == {"id", "n", "x", "b", "n_or_5"}
    assert ("_n_or_5", 'coalesce("n", 5)') in [(step.name, step.expression) for step in question.query.steps]
    assert len(question.query.steps) == 8  # the sum and the mean have one in common
    expected = dict(
        s=37, m=37 / 6, h=28 / 6, x=3, v=91 / 12, d=math.sqrt(557 / 36), b=0.5, w=1 + 4 + 2 + 18, old=27 / 4
    )
    assert_approx_equal(
        table.agg(**{n: aggregates[n] for n in expected}).release(epsilon=1e6), [expected], k=23
    )


def test_a_catalog_and_totals_over_time_know_replaced_values():
    visits = {
        "source": pa.table({"id": [1, 2], "n": [1, None], "t": [1, 2]}),
        "privacy_unit": "id",
        "columns": {"n": {"lower": 0, "upper": 20}},
    }
    table = sf.catalog({"tables": {"visits": visits}}).table("visits").bound(rows=1)
    question = table.agg(s=sf.sum("n", missing=5))
    assert dict(question.query.aggregates) == {"s": sf.sum("n_or_5", lower=0, upper=20, per="row")}
    assert "n has no bounds in the question" in question.table.notes[-1]
    assert sf.cumulative(sf.sum("n", lower=0, upper=1, missing=5), over="t").of == sf.cumulative(
        sf.sum("n", lower=0, upper=1), over="t"
    )
